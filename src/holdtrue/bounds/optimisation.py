"""Searches for the planners: minima of smooth functions, and whole numbers at which a condition turns true.

What is searched for here only decides how tight a bound is, never whether it holds: every parameter found is put back
into its theorem, with rounding on the safe side.
"""

import math
from collections.abc import Callable, Sequence

_HALVINGS = 1000
_RATIO = (math.sqrt(5) - 1) / 2


def golden(function: Callable[[float], float], low: float, high: float, *, steps: int = 40) -> float:
    """Return where a function with one valley is smallest between two ends, by golden section."""
    left, right = high - _RATIO * (high - low), low + _RATIO * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _RATIO * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _RATIO * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right


def descend(
    function: Callable[[Sequence[float]], float], start: Sequence[float], *, step: float = 0.25, least: float = 1e-6
) -> list[float]:
    """Return a point where no coordinate can be moved by ``least`` to a smaller value.

    A compass search: try a step each way along every coordinate and along the last change; where nothing helps, halve
    the step. The function may be infinite, but not at the start.
    """
    point, value = list(start), function(start)
    while step > least:
        before = list(point)
        for index in range(len(point)):
            for move in (step, -step):
                trial = [*point[:index], point[index] + move, *point[index + 1 :]]
                at_trial = function(trial)
                if at_trial < value:
                    point, value = trial, at_trial
                    break
        if point == before:
            step /= 2
            continue
        trial = [2 * new - old for new, old in zip(point, before, strict=True)]
        at_trial = function(trial)
        if at_trial < value:
            point, value = trial, at_trial
    return point


def smallest(holds: Callable[[int], bool], guess: int, *, least: int = 1, most: int) -> int | None:
    """Return the smallest whole number of a range for which a condition holds that stays true once it is.

    The search gallops away from the guess, so a good guess costs two calls. None where the condition never holds.
    """
    guess = min(max(guess, least), most)
    stride = 1
    if holds(guess):
        low, high = guess - 1, guess
        while low >= least and holds(low):
            high, low, stride = low, low - 2 * stride, 2 * stride
        low = max(low, least - 1)
    else:
        low, high = guess, guess + 1
        while high <= most and not holds(high):
            low, high, stride = high, high + 2 * stride, 2 * stride
        if high > most:
            if low == most or not holds(most):
                return None
            high = most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def largest(holds: Callable[[int], bool], guess: int, *, least: int = 1, most: int) -> int | None:
    """Return the largest whole number of a range for which a condition holds that stays false once it is."""
    mirrored = smallest(lambda value: holds(-value), -guess, least=-most, most=-least)
    return None if mirrored is None else -mirrored


def smallest_enough(enough: Callable[[float], bool], *, start: float) -> float:
    """Return the smallest float, to the last few digits, from which on a growing parameter is enough; never below it.

    ``start`` must be enough. Halving finds the scale, bisection the digits; the answer itself was found to be enough.
    """
    high = start
    low = high / 2
    for _ in range(_HALVINGS):
        if not enough(low):
            break
        low, high = low / 2, low
    while True:
        middle = (low + high) / 2
        if not low < middle < high or high - low <= high * 2.0**-48:
            return high
        low, high = (low, middle) if enough(middle) else (middle, high)

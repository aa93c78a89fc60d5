"""The standard normal law, privacy curves that have closed forms, and searches: scalar floats, without importing SciPy.

Privacy parameters are upper bounds: what a formula rounds is pushed outwards. What is searched for only decides how tight a
bound is, never whether it holds: every parameter found is put back into its theorem, with rounding on the safe side.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from holdtrue.exact import ROUNDING

_STANDARD = NormalDist()
_ASYMPTOTIC_FROM = 30.0
_LARGEST_LOGIT = 700.0
_BISECTIONS = 200
_HALVINGS = 1000
_RATIO = (math.sqrt(5) - 1) / 2


def cdf(x: float) -> float:
    """Return Pr[Z <= x] to a few units in the last place, also in the lower tail."""
    return math.erfc(-x / math.sqrt(2)) / 2


def log_cdf(x: float) -> float:
    """Return ln Pr[Z <= x]; below -30 by the first terms of the asymptotic series, off by less than 1e-10 of 1/x^2."""
    if x > -_ASYMPTOTIC_FROM:
        return math.log(cdf(x))
    inverse = 1 / (x * x)
    series = 1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse * (1 - 7 * inverse * (1 - 9 * inverse))))
    return -x * x / 2 - math.log(-x) - math.log(2 * math.pi) / 2 + math.log(series)


def upper_quantile(p: float) -> float:
    """Return z with Pr[Z > z] = p."""
    return -_STANDARD.inv_cdf(p)


def quantile_from_logit(x: float) -> float:
    """Return z with Pr[Z <= z] = 1 / (1 + e^-x), to a relative 1e-14 for every x from 1e-12 to 700.

    Past 700, where the tail leaves the range of floats, sqrt(2 x) takes its place: it is above, by less than 0.6 %.

    One Newton step on the error function, whose value at z is tanh(x / 2), mends what inv_cdf loses near one half.
    """
    if abs(x) > _LARGEST_LOGIT:
        return math.copysign(math.sqrt(2 * abs(x)), x)
    if abs(x) > 2:  # noqa: PLR2004 - past here the tail itself is the accurate number
        tail = math.exp(-abs(x)) / (1 + math.exp(-abs(x)))
        return math.copysign(upper_quantile(tail), x)
    wanted = math.tanh(x / 2)
    root = _STANDARD.inv_cdf((1 + wanted) / 2) / math.sqrt(2)
    root -= (math.erf(root) - wanted) * math.sqrt(math.pi) / 2 * math.exp(root * root)
    return root * math.sqrt(2)


def sigmoid(x: float) -> float:
    """Return 1 / (1 + e^-x)."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def logit(p: float) -> float:
    """Return the inverse of :func:`sigmoid`."""
    return math.log(p) - math.log1p(-p)


def smallest_float(holds: Callable[[float], bool], low: float, high: float, *, steps: int = 60) -> float:
    """Return about the first number from ``low`` to ``high`` at which a condition holds that stays true once it is.

    By bisection, which may also go downwards. Needs: it holds at ``high``. It holds at what is returned.
    """
    for _ in range(steps):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def largest_float(holds: Callable[[float], bool], low: float, high: float, *, steps: int = 60) -> float:
    """Return about the largest number at which a condition holds that stays false once it is; it holds there."""
    return -smallest_float(lambda value: holds(-value), -high, -low, steps=steps)


def smallest_epsilon(curve: Callable[[float], float], target: float) -> float:
    """Return the smallest epsilon at which a falling curve is at most the target, from above."""
    if curve(0.0) <= target:
        return 0.0
    high = 1.0
    while curve(high) > target:
        high *= 2
        if high > 2.0**60:
            return math.inf
    low = 0.0 if high == 1.0 else high / 2
    return smallest_float(lambda at: curve(at) <= target, low, high, steps=_BISECTIONS)


def gaussian_delta(mu_: float, at: float) -> float:
    """Return Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), rounded up (A7)."""
    upper = mu_ / 2 - at / mu_
    lower = -mu_ / 2 - at / mu_
    first = cdf(upper)
    if first == 0:
        return math.ulp(0.0)
    log_first = log_cdf(upper)
    difference = at + log_cdf(lower) - log_first
    # The two terms nearly cancel: the error of their logarithms is counted in full.
    error = 2.0**-51 * (4 + at + abs(log_first) + abs(upper * upper) + abs(lower * lower))
    return first * (-math.expm1(min(difference, 0.0)) + error) * ROUNDING


def zero_concentrated_delta(rho_: float, at: float) -> float:
    """Return the smallest over a > 1 of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1), rounded up (T2, CKS20)."""

    def exponent(a: float) -> float:
        return (a - 1) * (a * rho_ - at) + a * math.log1p(-1 / a) - math.log(a - 1)

    def slope(a: float) -> float:
        return (2 * a - 1) * rho_ - at + math.log1p(-1 / a)

    # The slope rises from -infinity to infinity; any a gives a valid delta, so its rounding costs nothing.
    highest = max(2.0, (at + 1) / rho_ + 2)
    order = smallest_float(lambda a: slope(a) >= 0, 1 + 2.0**-40, highest, steps=_BISECTIONS)
    return math.exp(min(exponent(order), 0.0)) * ROUNDING


def bounded_range_rho(range_: float) -> float:
    """Return eta - 1 - ln eta with eta = range / (1 - e^-range), at most range^2 / 8 (B3)."""
    if range_ < 2.0**-8:
        return range_ * range_ / 8
    eta = range_ / -math.expm1(-range_)
    return min(range_ * range_ / 8, (eta - 1 - math.log(eta)) * ROUNDING + 2.0**-51)


def concentrated_tv(rho: float) -> float:
    """Return min(sqrt(rho / 2), sqrt(1 - e^-rho)): no rho-zCDP pair is farther apart in total variation (V6.4).

    By the inequalities of Pinsker and of Bretagnolle and Huber.
    """
    return min(1.0, math.sqrt(rho / 2) * ROUNDING, math.sqrt(-math.expm1(-rho)) * ROUNDING)


def pure_rho(claimed: float) -> float:
    """Return epsilon tanh(epsilon / 2), attained by randomised response (T2)."""
    return claimed * math.tanh(claimed / 2) * ROUNDING


def bounded_range_mu(range_: float) -> float:
    """Return 2 Phi^-1(sigmoid(range / 2)) (T2b)."""
    return 2 * quantile_from_logit(range_ / 2) * ROUNDING


def pure_mu(claimed: float) -> float:
    """Return 2 Phi^-1(sigmoid(epsilon)) (T2b)."""
    return 2 * quantile_from_logit(claimed) * ROUNDING


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

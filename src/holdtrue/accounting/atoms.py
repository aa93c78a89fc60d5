"""Optimal composition of epsilon-DP events with parameters fixed in advance (T1; Kairouz, Oh and Viswanath).

Every epsilon-DP pair of laws is a post-processing of randomised response, whose privacy loss is +epsilon with probability
1 / (1 + e^-epsilon) and -epsilon otherwise. The losses of a composition therefore add up to finitely many atoms, and

    delta(x) = sum over atoms of mass (1 - e^(x - loss))_+

is the smallest delta that holds for all such compositions. Sums of atoms are kept with an account of their rounding:
``shift`` bounds the error of any loss, ``relative`` that of any mass, and ``beyond`` is mass left out, taken as an
infinite loss. Since delta rises with every loss and every mass, delta(x) computed, times 1 + relative, plus beyond, is
an upper bound of the true delta at x + shift.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Atoms", "randomised_responses"]

_MOST_ATOMS = 1 << 15
# Masses below this part of the largest can be left out without being seen in a float delta.
_NEGLIGIBLE = -760.0
_UNIT = 2.0**-52


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """Losses in rising order with their masses; see the module for what the other three bound."""

    losses: npt.NDArray[np.float64]
    masses: npt.NDArray[np.float64]
    beyond: float
    shift: float
    relative: float

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of the composition's delta at epsilon."""
        return self._raw(epsilon - self.shift) * (1 + self.relative) + self.beyond

    def _raw(self, at: float) -> float:
        start = int(np.searchsorted(self.losses, at, side="right"))
        return -float((self.masses[start:] * np.expm1(at - self.losses[start:])).sum())

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 at which :meth:`delta` is at most ``delta``, up to rounding, from above.

        Between two atoms delta is A - B e^epsilon, which is solved directly; a bisection over atoms finds which two.
        """
        if self.delta(0.0) <= delta:
            return 0.0
        target = (delta - self.beyond) / (1 + self.relative)
        if target < 0:
            return math.inf
        low, high = -1, self.losses.size - 1  # delta is above the target before atom low + 1, and at most it at high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._raw(float(self.losses[middle])) <= target else (middle, high)
        above, top = self.masses[high:], float(self.losses[high])
        rest = float((above * np.exp(top - self.losses[high:])).sum())
        room = (float(above.sum()) - target) / rest
        guess = top + math.log(room) if room > 0 else -math.inf
        lowest = float(self.losses[low]) if low >= 0 else -math.inf
        answer = max(0.0, lowest, min(top, guess)) + self.shift
        step = _UNIT * (1 + answer)
        while self.delta(answer) > delta:
            answer, step = answer + step, 2 * step
            if answer >= top + self.shift:
                return (top + self.shift) * (1 + _UNIT) if self.beyond <= delta else math.inf
        return answer


def randomised_responses(groups: Sequence[tuple[float, int]]) -> Atoms | None:
    """Return the losses of ``times`` randomised responses for each (epsilon, times); None if they are too many atoms."""
    sizes = [_window(epsilon, times) for epsilon, times in groups]
    if math.prod(last - first + 1 for first, last in sizes) > _MOST_ATOMS:
        return None
    total = Atoms(np.zeros(1), np.ones(1), 0.0, 0.0, 0.0)
    for (epsilon, times), window in zip(groups, sizes, strict=True):
        one = _binomial(epsilon, times, window)
        total = Atoms(
            np.add.outer(total.losses, one.losses).ravel(),
            np.multiply.outer(total.masses, one.masses).ravel(),
            total.beyond + one.beyond,
            total.shift + one.shift + _UNIT * (abs(float(total.losses[0])) + abs(float(one.losses[0]))),
            total.relative + one.relative + _UNIT,
        )
    order = np.argsort(total.losses, kind="stable")
    spread = 2 * (total.relative + total.losses.size * _UNIT)
    return Atoms(total.losses[order], total.masses[order], total.beyond, total.shift, spread)


def _window(epsilon: float, times: int) -> tuple[int, int]:
    """Return the numbers of flips worth keeping: all but those e^-760 times less likely than the likeliest.

    By Chernoff's bound, within sqrt(2 * 760 / 4 * times) of the mean, for a variance of at most times / 4.
    """
    flips = times / (1 + math.exp(min(epsilon, 700.0)))
    reach = math.sqrt(-_NEGLIGIBLE / 2 * times) + 1
    return max(0, math.floor(flips - reach)), min(times, math.ceil(flips + reach))


def _binomial(epsilon: float, times: int, window: tuple[int, int]) -> Atoms:
    """Return the atoms (times - 2 l) epsilon, l ~ Binomial(times, 1 / (1 + e^epsilon)).

    Masses come from the logarithms of the ratios of neighbouring ones, and are divided by their own sum: it is at most
    the whole, so what lies outside the window only makes them larger. What lies above the window, by Hoeffding's
    inequality less than e^-760, is far below the least float that is not zero.
    """
    first, last = window
    flips = np.arange(first, last + 1, dtype=np.float64)
    logs = np.concatenate([np.zeros(1), np.cumsum(np.log((times - flips[:-1]) / flips[1:]) - epsilon)])
    masses = np.exp(logs - logs.max())
    masses /= masses.sum()
    relative = 8 * flips.size * _UNIT * (1 + epsilon + math.log(times + 1))
    beyond = math.ulp(0.0) if first > 0 else 0.0
    losses = (times - 2 * flips) * epsilon
    return Atoms(losses[::-1], masses[::-1], beyond, 2 * _UNIT * times * epsilon, relative)

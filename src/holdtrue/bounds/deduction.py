"""What follows from answers: the least and the largest mean of a query under all measures that answers allow (U7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.exact import round_down, round_up

__all__ = ["Multipliers", "Program", "frechet_ends"]

Floats: TypeAlias = npt.NDArray[np.float64]
_EXACT = 2.0**52
_INFEASIBLE = 2  # in the words of scipy


@dataclass(frozen=True, slots=True, eq=False)
class Multipliers:
    """What a solver proposes for the lower and for the upper end: a whole number of 1 / grid for each row."""

    lower: Floats
    upper: Floats
    grid: float

    @property
    def largest(self) -> tuple[float, float]:
        """Return the largest multiplier in size, for the lower and for the upper end."""
        lower, upper = (float(np.abs(each).max(initial=0.0)) / self.grid for each in (self.lower, self.upper))
        return lower, upper

    @property
    def used(self) -> list[int]:
        """Return the places of the rows that an end rests on."""
        return np.flatnonzero((self.lower != 0) | (self.upper != 0)).tolist()


class Program:
    """The mean of a target on atoms, given between which ends the means of other queries are, a row of values each.

    Guarantee: for any multipliers y, the mean of q is at least min over atoms of (q - A'y) plus the sum over rows of
    y+ low - y- high (U7.2). A solver proposes y, which is rounded; :meth:`find_ends` then evaluates that sum exactly, so
    that a wrong solver makes an end wider, never wrong. Values other than 0 and 1 are rounded outward to multiples of 2^-20.
    """

    def __init__(self, target: Floats, values: Floats) -> None:
        whole = all(bool((each == np.round(each)).all()) for each in (target, values))
        # Whole numbers below 2^53: every sum of doubles is exact.
        self._unit, self._grid = (1.0, 2.0**24) if whole else (2.0**20, 2.0**20)
        self._values = np.round(values * self._unit)
        self._uneven = (self._values != values * self._unit).any(axis=1)
        self._goals = np.floor(target * self._unit), np.floor(-target * self._unit)

    def solve(self, low: Sequence[float], high: Sequence[float]) -> Multipliers | None:
        """Return the multipliers of both ends; None where the solver finds that no measure fits."""
        found = [self._propose_multipliers(goal, low, high) for goal in self._goals]
        if found[0] is None or found[1] is None:
            return None
        return Multipliers(found[0], found[1], self._grid)

    def find_ends(self, chosen: Multipliers, low: Sequence[float], high: Sequence[float]) -> tuple[float, float]:
        """Return ends of the target's mean that hold for every measure that fits, rounded outward.

        The lower one is above the upper one only where no measure fits.
        """
        least = self._certify(chosen.lower, self._goals[0], low, high)
        most = -self._certify(chosen.upper, self._goals[1], low, high)
        return max(0.0, round_down(least)), min(1.0, round_up(most))

    def _certify(self, kept: Floats, goal: Floats, low: Sequence[float], high: Sequence[float]) -> Fraction:
        scale = Fraction(self._grid)
        total = Fraction(float((goal * self._grid - kept @ self._values).min())) / (scale * Fraction(self._unit))
        for place in np.flatnonzero(kept).tolist():
            factor = Fraction(float(kept[place])) / scale
            total += factor * Fraction(low[place] if factor > 0 else high[place])
            if self._uneven[place]:  # each value is off by half a unit at most
                total -= abs(factor) / Fraction(2 * self._unit)
        return max(total, Fraction(float(goal.min())) / Fraction(self._unit))

    def _propose_multipliers(self, goal: Floats, low: Sequence[float], high: Sequence[float]) -> Floats | None:
        """Return a solver's dual variables of the rows; None where it says that no measure fits all of them."""
        from scipy.optimize import linprog  # a curator that deduces nothing does without it

        rows = len(self._values)
        if not rows:
            return np.zeros(0)
        # Atoms that neither a row nor the goal tells apart are one for the solver; all of them are certified.
        mixed = np.sin(np.arange(1.0, rows + 1) ** 2) @ self._values + goal * np.pi
        first = np.unique(mixed, return_index=True)[1]
        held = self._values[:, first] / self._unit
        # A x - s = 0 with low <= s <= high: one row of the program for each query, and not two.
        matrix = np.block([[held, -np.eye(rows)], [np.ones((1, len(first))), np.zeros((1, rows))]])
        cost = np.concatenate([goal[first] / self._unit, np.zeros(rows)])
        ends = [(0.0, None)] * len(first) + list(zip(low, high, strict=True))
        solved = linprog(cost, A_eq=matrix, b_eq=[0.0] * rows + [1.0], bounds=ends, method="highs")
        if solved.status == _INFEASIBLE:
            return None
        marginals = getattr(solved.eqlin, "marginals", None)
        if marginals is None or len(marginals) <= rows:
            return np.zeros(rows)
        kept: Floats = np.round(np.nan_to_num(marginals[:rows]) * self._grid)
        return kept if np.abs(kept).sum() * self._unit < _EXACT else np.zeros(rows)


def frechet_ends(parts: Sequence[tuple[float, float]], *, every: bool) -> tuple[float, float]:
    """Return ends for the mean of a conjunction (``every``) or of a disjunction, given ends for the mean of each part.

    max(0, sum of a - (n - 1)) <= v(A AND B AND ...) <= min of a; max of a <= v(A OR B OR ...) <= min(1, sum of a).
    """
    lows, highs = [low for low, _ in parts], [high for _, high in parts]
    if every:
        return max(0.0, round_down(sum(map(Fraction, lows), Fraction(1 - len(parts))))), min(highs)
    return max(lows), min(1.0, round_up(sum(map(Fraction, highs), Fraction(0))))

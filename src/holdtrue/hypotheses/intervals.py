"""Intervals: whether a number lies between two edges."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from holdtrue.hypotheses.gridded import OneColumn
from holdtrue.hypotheses.grids import Grid, show_number
from holdtrue.hypotheses.matrices import Flags, Integers, Matrix

__all__ = ["EMPTY", "Intervals", "between", "ends", "pairs", "spans", "within"]

EMPTY = "no row → 1"


@dataclass(frozen=True)
class Intervals(OneColumn):
    """The hypotheses t_i ≤ x < t_j → 1 over the edges t_j = low + j (high - low) / steps; no upper end where j = steps.

    Their order: by i from 0, then by j from i + 1 to ``steps``; last of all the empty interval, always 0. Guarantee: as of
    every class (B6); numbers are clamped to [low, high] and a missing one counts as ``low``. Needs: ``low``, ``high`` and
    ``steps`` chosen without the rows. One column: the only one, or the one named ``column``.

    >>> Intervals(0, 120, steps=24, column="age").describe(30)
    '5 ≤ age < 40 → 1'
    """

    kind: ClassVar[str] = "intervals"

    @property
    def size(self) -> int:
        """Return the number of pairs of ends, and one for the empty interval."""
        return pairs(self.steps) + 1

    def errors(self, totals: Integers) -> Integers:
        """Return for every interval the rows of label 1 outside and of label 0 inside."""
        found = np.empty(self.size, dtype=np.int64)
        spans(totals[np.newaxis, :-2], totals[-1], found[np.newaxis, :-1])
        found[-1] = totals[-1]
        return found

    def evaluate(self, X: object, index: int) -> Flags:
        """Return which rows lie in the interval."""
        chosen = ends(self.checked(index), self.steps)
        return within(self.grid, chosen, self._numbers(X))

    def describe(self, index: int) -> str:
        """Return the interval."""
        number = self.checked(index)
        if number == self.size - 1:
            return EMPTY
        return f"{between(self.grid, ends(number, self.steps), self.name)} → 1"


def pairs(steps: int) -> int:
    """Return how many intervals of a grid are not empty."""
    return steps * (steps + 1) // 2


def ends(index: int, steps: int) -> tuple[int, int]:
    """Return the cell in which an interval begins, and the one before which it ends; the same for the empty interval."""
    back = pairs(steps) - 1 - index
    if back < 0:
        return 0, 0
    # Counted from the end, intervals that begin in the last cell but k follow k (k + 1) / 2 others.
    later = (math.isqrt(8 * back + 1) - 1) // 2
    return steps - 1 - later, steps - (back - pairs(later))


def spans(differences: Integers, ones: np.int64, found: Integers) -> None:
    """Write, line by line, ``ones`` less the sum of the differences over every interval, in the order of intervals."""
    lines, steps = differences.shape
    upto = np.zeros((lines, steps + 1), dtype=np.int64)
    np.cumsum(differences, axis=1, out=upto[:, 1:])
    start = 0
    for first in range(steps):
        stop = start + steps - first
        np.subtract(upto[:, first : first + 1] + ones, upto[:, first + 1 :], out=found[:, start:stop])
        start = stop


def within(grid: Grid, chosen: tuple[int, int], numbers: Matrix) -> Flags:
    """Return which numbers lie in an interval."""
    first, last = chosen
    held = grid.clamped(numbers)
    if first == last:
        return np.zeros(held.shape, dtype=np.bool_)
    reach = held >= grid.edge(first)
    return reach if last == grid.steps else reach & (held < grid.edge(last))


def between(grid: Grid, chosen: tuple[int, int], name: str) -> str:
    """Return an interval that is not empty, as inequalities."""
    first, last = chosen
    low = show_number(grid.edge(first))
    return f"{name} ≥ {low}" if last == grid.steps else f"{low} ≤ {name} < {show_number(grid.edge(last))}"

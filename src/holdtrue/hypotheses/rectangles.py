"""Rectangles: whether two numbers each lie between two edges."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.hypotheses.grid_tallies import add_pair, blank
from holdtrue.hypotheses.gridded import SeveralColumns
from holdtrue.hypotheses.grids import afford
from holdtrue.hypotheses.intervals import EMPTY, between, ends, pairs, spans, within
from holdtrue.hypotheses.matrices import Flags, Integers, Matrix

__all__ = ["Rectangles"]

_SIDES = 2
_BLOCK = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Rectangles(SeveralColumns):
    """The hypotheses "the first number lies in an interval and the second in another" → 1, over the grids of two columns.

    Their order: by the interval of the first column, then by that of the second, both in the order of
    :class:`~holdtrue.hypotheses.intervals.Intervals` and not empty; last of all the empty rectangle, always 0. Guarantee:
    as of every class (B6); numbers are clamped to their column's bounds and a missing one counts as its low end. Needs:
    bounds and steps chosen without the rows. ``bounds`` are a mapping from two columns to pairs, or a list of two pairs.

    >>> Rectangles(bounds={"age": (0, 120), "bmi": (10, 60)}, steps=2).describe(1)
    '0 ≤ age < 60 and bmi ≥ 10 → 1'
    """

    kind: ClassVar[str] = "rectangles"

    def __post_init__(self) -> None:
        SeveralColumns.__post_init__(self)
        if self.width != _SIDES:
            raise InvalidParameter("bounds", self.bounds, "bounds of two columns, {'age': (0, 120), 'bmi': (10, 60)}")

    @property
    def size(self) -> int:
        """Return the number of pairs of intervals, and one for the empty rectangle."""
        return pairs(self.steps) ** 2 + 1

    def blank(self) -> Integers:
        """Return zeros: a total for every pair of cells, and two for the labels."""
        afford("steps", self.steps, 8 * (self.steps**2 + self.size))
        return blank(self.steps**2)

    def tally(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals."""
        add_pair(self.grids, X, y, totals)

    def errors(self, totals: Integers) -> Integers:
        """Return for every rectangle the rows of label 1 outside and of label 0 inside: sums of sums, no row again."""
        found = np.empty(self.size, dtype=np.int64)
        found[-1] = totals[-1]
        lines = found[:-1].reshape(pairs(self.steps), -1)
        upto = np.zeros((self.steps + 1, self.steps), dtype=np.int64)
        np.cumsum(totals[:-2].reshape(self.steps, self.steps), axis=0, out=upto[1:])
        firsts, lasts = np.triu_indices(self.steps + 1, k=1)
        block = max(1, _BLOCK // lines.shape[1])
        for start in range(0, len(lines), block):
            part = slice(start, start + block)
            spans(upto[lasts[part]] - upto[firsts[part]], totals[-1], lines[part])
        return found

    def describe(self, index: int) -> str:
        """Return both intervals."""
        number = self.checked(index)
        if number == self.size - 1:
            return EMPTY
        sides = zip(self.grids, self._sides(number), range(_SIDES), strict=True)
        return f"{' and '.join(between(grid, chosen, self._bounds.name(side)) for grid, chosen, side in sides)} → 1"

    def _label(self, X: Matrix, index: int) -> Flags:
        left, right = (
            within(grid, chosen, X[:, side])
            for side, (grid, chosen) in enumerate(zip(self.grids, self._sides(index), strict=True))
        )
        return left & right

    def _sides(self, index: int) -> list[tuple[int, int]]:
        if index == self.size - 1:
            return [(0, 0), (0, 0)]
        return [ends(number, self.steps) for number in divmod(index, pairs(self.steps))]

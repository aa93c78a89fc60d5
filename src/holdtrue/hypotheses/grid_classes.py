"""Classes over numbers: thresholds and stumps compare with an edge of a grid; intervals and rectangles lie between edges."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.hypotheses.classes import Flags, Integers, Matrix
from holdtrue.hypotheses.grids import Grid, OneColumn, SeveralColumns, show_number
from holdtrue.kernels.grids import add_pair

__all__ = ["Intervals", "Rectangles", "Stumps", "Thresholds"]

_EMPTY = "no row → 1"
_SIDES = 2
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Thresholds(OneColumn):
    """The hypotheses x ≥ t_j → 1 over the edges t_j = low + j (high - low) / steps, in the order of j from 0 to steps - 1.

    Guarantee: as of every class (B6); numbers are clamped to [low, high] and a missing one counts as ``low``, so the first
    hypothesis is always 1. Needs: ``low``, ``high`` and ``steps`` chosen without the rows. One column: the only one, or the
    one named ``column``.

    >>> Thresholds(0, 120, steps=240, column="age").describe(105)
    'age ≥ 52.5 → 1'
    """

    kind: ClassVar[str] = "thresholds"

    @property
    def size(self) -> int:
        """Return the number of steps."""
        return self.steps

    def count_errors(self, totals: Integers) -> Integers:
        """Return for every edge the rows of label 0 from it on, and of label 1 before it."""
        found = np.empty(self.steps, dtype=np.int64)
        found[0], found[1:] = totals[-2], totals[:-3]
        return np.cumsum(found, out=found)

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return which rows reach the edge."""
        return self.grid.clamp(X[:, 0]) >= self.grid.edge(index)

    def describe(self, index: int) -> str:
        """Return the comparison."""
        return f"{self.name_column(0)} ≥ {show_number(self.grid.edge(self.check_index(index)))} → 1"


@dataclass(frozen=True, kw_only=True)
class Stumps(SeveralColumns):
    """The hypotheses x ≥ t_j → 1 and x < t_j → 1, for every column and every edge t_j = low + j (high - low) / steps.

    Their order: by column, then by j from 0 to steps - 1, and ≥ before <. Guarantee: as of every class (B6); numbers are
    clamped to their column's bounds and a missing one counts as its low end. Needs: bounds and steps chosen without the
    rows. ``bounds`` are a mapping from columns to pairs, a list of pairs by position, or one pair for every column.

    >>> Stumps(bounds={"age": (0, 120), "bmi": (10, 60)}, steps=240).describe(211)
    'age < 52.5 → 1'
    """

    kind: ClassVar[str] = "stumps"

    @property
    def size(self) -> int:
        """Return twice the columns times the steps; NotCertified where the number of columns is not settled."""
        return 2 * self.settled_width * self.steps

    def count_errors(self, totals: Integers) -> Integers:
        """Return for every edge the rows of label 0 from it on and of label 1 before it, and all the others."""
        counts = totals[:-2].reshape(-1, self.steps)
        found = np.empty((*counts.shape, 2), dtype=np.int64)
        reach = found[:, :, 0]
        reach[:, 0] = 0
        np.cumsum(counts[:, :-1], axis=1, out=reach[:, 1:])
        reach += totals[-2]
        np.subtract(totals[-2] + totals[-1], reach, out=found[:, :, 1])
        return found.reshape(-1)

    def describe(self, index: int) -> str:
        """Return the comparison."""
        column, number, below = self._find_place(self.check_index(index))
        edge = show_number(self.grids[column].edge(number))
        return f"{self.name_column(column)} {'<' if below else '≥'} {edge} → 1"

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return which rows satisfy the hypothesis."""
        column, number, below = self._find_place(index)
        grid = self.grids[column]
        reach = grid.clamp(X[:, column]) >= grid.edge(number)
        return ~reach if below else reach

    def _find_place(self, index: int) -> tuple[int, int, bool]:
        edge, below = divmod(index, 2)
        return *divmod(edge, self.steps), bool(below)


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
        return _count_pairs(self.steps) + 1

    def count_errors(self, totals: Integers) -> Integers:
        """Return for every interval the rows of label 1 outside and of label 0 inside."""
        found = np.empty(self.size, dtype=np.int64)
        _write_spans(totals[np.newaxis, :-2], totals[-1], found[np.newaxis, :-1])
        found[-1] = totals[-1]
        return found

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return which rows lie in the interval."""
        return _lies_within(self.grid, _find_ends(index, self.steps), X[:, 0])

    def describe(self, index: int) -> str:
        """Return the interval."""
        number = self.check_index(index)
        if number == self.size - 1:
            return _EMPTY
        return f"{_format_interval(self.grid, _find_ends(number, self.steps), self.name_column(0))} → 1"


def _count_pairs(steps: int) -> int:
    """Return how many intervals of a grid are not empty."""
    return steps * (steps + 1) // 2


def _find_ends(index: int, steps: int) -> tuple[int, int]:
    """Return the cell in which an interval begins, and the one before which it ends; the same for the empty interval."""
    back = _count_pairs(steps) - 1 - index
    if back < 0:
        return 0, 0
    # Counted from the end, intervals that begin in the last cell but k follow k (k + 1) / 2 others.
    later = (math.isqrt(8 * back + 1) - 1) // 2
    return steps - 1 - later, steps - (back - _count_pairs(later))


def _write_spans(differences: Integers, ones: np.int64, found: Integers) -> None:
    """Write, line by line, ``ones`` less the sum of the differences over every interval, in the order of intervals."""
    lines, steps = differences.shape
    upto = np.zeros((lines, steps + 1), dtype=np.int64)
    np.cumsum(differences, axis=1, out=upto[:, 1:])
    start = 0
    for first in range(steps):
        stop = start + steps - first
        np.subtract(upto[:, first : first + 1] + ones, upto[:, first + 1 :], out=found[:, start:stop])
        start = stop


def _lies_within(grid: Grid, chosen: tuple[int, int], numbers: Matrix) -> Flags:
    """Return which numbers lie in an interval."""
    first, last = chosen
    held = grid.clamp(numbers)
    if first == last:
        return np.zeros(held.shape, dtype=np.bool_)
    reach = held >= grid.edge(first)
    return reach if last == grid.steps else reach & (held < grid.edge(last))


def _format_interval(grid: Grid, chosen: tuple[int, int], name: str) -> str:
    """Return an interval that is not empty, as inequalities."""
    first, last = chosen
    low = show_number(grid.edge(first))
    return f"{name} ≥ {low}" if last == grid.steps else f"{low} ≤ {name} < {show_number(grid.edge(last))}"


@dataclass(frozen=True, kw_only=True)
class Rectangles(SeveralColumns):
    """The hypotheses "the first number lies in an interval and the second in another" → 1, over the grids of two columns.

    Their order: by the interval of the first column, then by that of the second, both in the order of :class:`Intervals` and
    not empty; last of all the empty rectangle, always 0. Guarantee: as of every class (B6); numbers are clamped to their
    column's bounds and a missing one counts as its low end. Needs: bounds and steps chosen without the rows. ``bounds`` are
    a mapping from two columns to pairs, or a list of two pairs.

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
        return _count_pairs(self.steps) ** 2 + 1

    @property
    def _cells(self) -> int:
        return self.steps**2

    def add_rows(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals."""
        add_pair(self.grids, X, y, totals)

    def count_errors(self, totals: Integers) -> Integers:
        """Return for every rectangle the rows of label 1 outside and of label 0 inside: sums of sums, no row again."""
        found = np.empty(self.size, dtype=np.int64)
        found[-1] = totals[-1]
        lines = found[:-1].reshape(_count_pairs(self.steps), -1)
        upto = np.zeros((self.steps + 1, self.steps), dtype=np.int64)
        np.cumsum(totals[:-2].reshape(self.steps, self.steps), axis=0, out=upto[1:])
        firsts, lasts = np.triu_indices(self.steps + 1, k=1)
        block = max(1, _BLOCK // lines.shape[1])
        for start in range(0, len(lines), block):
            part = slice(start, start + block)
            _write_spans(upto[lasts[part]] - upto[firsts[part]], totals[-1], lines[part])
        return found

    def describe(self, index: int) -> str:
        """Return both intervals."""
        number = self.check_index(index)
        if number == self.size - 1:
            return _EMPTY
        sides = zip(self.grids, self._find_sides(number), range(_SIDES), strict=True)
        return f"{' and '.join(_format_interval(grid, chosen, self.name_column(side)) for grid, chosen, side in sides)} → 1"

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return which rows satisfy the hypothesis."""
        left, right = (
            _lies_within(grid, chosen, X[:, side])
            for side, (grid, chosen) in enumerate(zip(self.grids, self._find_sides(index), strict=True))
        )
        return left & right

    def _find_sides(self, index: int) -> list[tuple[int, int]]:
        if index == self.size - 1:
            return [(0, 0), (0, 0)]
        return [_find_ends(number, self.steps) for number in divmod(index, _count_pairs(self.steps))]

"""Grids, and rows into totals: for each cell of a grid, how many more rows in it have the label 1 than have the label 0.

That difference, and how many rows there are of each label, is all that the errors of a class over cells depend on: rows
of the label 1 that it leaves out, and rows of the label 0 that it takes in. Totals are the differences, then the two
numbers of rows. NumPy counts them, or numba where it pays, and they are the same integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from holdtrue.kernels import Flags, Floats, Integers, LazyKernels, Matrix

__all__ = ["BYTES", "FLOOR", "QUOTIENT", "SUM", "Grid", "add_columns", "add_pair"]

Terms = tuple[Floats, Floats, Floats, Floats, float, int]

FLOOR: Final = 0
SUM: Final = 1
QUOTIENT: Final = 2
BYTES: Final = 3

_LARGE_WORK = 1 << 22
_NUMPY_BLOCK = 1 << 17
_SHORT = 1 << 11
_NARROW = 8
_LANES = 4
_GAP = 16
_LINE = 1024
_INT16 = 2**15 - 1
_BYTE_VALUES = 256

compiled = LazyKernels("grids_compiled", after=_LARGE_WORK)


@dataclass(frozen=True, slots=True)
class Grid:
    """The edges t_j = low + (j (high - low)) / steps for j from 0 to steps - 1, each operation rounded once to float64.

    Guarantee: every float64 has one cell, the largest j with t_j <= x, once it is clamped to the bounds and a missing
    number is taken as ``low``. Other numbers have the cell of their value as a float64. Needs: edges that rise strictly.
    """

    low: float
    high: float
    steps: int

    @property
    def rate(self) -> float:
        """Return how many cells there are to a unit."""
        return self.steps / (self.high - self.low)

    def edges(self, first: int = 0, last: int | None = None) -> Floats:
        """Return the edges from number ``first`` on, up to ``last``, which is not one of them."""
        numbers = np.arange(first, self.steps if last is None else last, dtype=np.float64)
        return self.low + (numbers * (self.high - self.low)) / self.steps

    def edge(self, number: int) -> float:
        """Return one edge."""
        return float(self.edges(number, number + 1)[0])

    def clamp(self, values: Matrix) -> Floats:
        """Return numbers moved to the nearest within bounds; a missing number becomes ``low``."""
        return np.fmin(np.fmax(values.astype(np.float64), self.low), self.high)

    def cells(self, values: Matrix) -> Integers:
        """Return the cell of every number: a product proposes, a comparison with an edge decides."""
        held = self.clamp(values)
        nearest = np.minimum(np.rint((held - self.low) * self.rate), self.steps - 1).astype(np.int64)
        return nearest - (held < self.edges()[nearest])


Grids = tuple[Grid, ...]


def add_columns(grids: Grids, X: Matrix, y: Flags, totals: Integers) -> None:
    """Add rows to the totals of columns that have a grid each, all of as many steps."""
    _add_labels(y, totals)
    counts = totals[:-2].reshape(len(grids), -1)
    module = compiled(X.size)
    if module is None:
        _add_plainly(grids, X, y, counts)
    elif X.shape[1] < _NARROW or X.strides[0] == X.itemsize:
        for number, grid in enumerate(grids):
            _add_column(module, grid, _to_known_type(X[:, number]), y, counts[number])
    else:
        _add_rows(module, grids, X, y, counts)


def add_pair(grids: Grids, X: Matrix, y: Flags, totals: Integers) -> None:
    """Add rows to the totals of two columns together: the cell of the first is that many lines down."""
    _add_labels(y, totals)
    module = compiled(X.size)
    left, right = grids
    counts = totals[:-2]
    if module is None:
        _add_signed(left.cells(X[:, 0]) * right.steps + right.cells(X[:, 1]), y, counts)
        return
    columns = tuple(_to_known_type(X[:, number], bytes_too=False) for number in range(2))
    terms = tuple(_find_terms((grid,), _LINE, column.dtype.itemsize) for grid, column in zip(grids, columns, strict=True))
    with _Lanes(counts) as lanes:
        module.count_pair(columns, y, terms, lanes.base, lanes.counts)


def _add_labels(y: Flags, totals: Integers) -> None:
    ones = int(np.count_nonzero(y))
    totals[-2:] += (y.size - ones, ones)


def _add_rows(module: ModuleType, grids: Grids, X: Matrix, y: Flags, counts: Integers) -> None:
    """Count rows by rows. Counts of two bytes stay in the first-level cache, and are added up before they can overflow."""
    steps = counts.shape[1]
    if steps > _SHORT:
        matrix = np.ascontiguousarray(_to_known_type(X, bytes_too=False))
        module.count_rows(
            matrix, y, _find_terms(grids, len(grids), matrix.itemsize), _lane_bases(len(grids), steps), counts.reshape(-1)
        )
        return
    for start in range(0, len(X), _INT16):
        matrix = np.ascontiguousarray(_to_known_type(X[start : start + _INT16]))
        labels = y[start : start + _INT16]
        wide = _BYTE_VALUES if matrix.itemsize == 1 else steps
        short = np.zeros(len(grids) * wide, dtype=np.int16)
        module.count_rows(
            matrix, labels, _find_terms(grids, len(grids), matrix.itemsize), _lane_bases(len(grids), wide), short
        )
        if matrix.itemsize == 1:
            np.add.at(counts.reshape(-1), _byte_cells(grids), short.astype(np.int64))
        else:
            counts += short.reshape(counts.shape)


def _add_column(module: ModuleType, grid: Grid, numbers: Matrix, y: Flags, counts: Integers) -> None:
    terms = _find_terms((grid,), _LINE, numbers.itemsize)
    if numbers.itemsize > 1:
        with _Lanes(counts) as lanes:
            module.count_column(numbers, y, terms, lanes.base, lanes.counts)
        return
    by_value = np.zeros(_BYTE_VALUES, dtype=np.int64)
    with _Lanes(by_value) as lanes:
        module.count_column(numbers, y, terms, lanes.base, lanes.counts)
    np.add.at(counts, _byte_cells((grid,)), by_value)


class _Lanes:
    """Several copies of short counts, for neighbouring rows to take turns; long counts themselves.

    A count that was just written is better not read again at once, and in short counts that happens often. Copies lie a
    little further apart than they are long, since addresses that differ by a page are taken for the same at first.
    """

    def __init__(self, counts: Integers) -> None:
        self._wanted = counts
        lanes, apart = (_LANES, counts.size + _GAP) if counts.size <= _SHORT else (1, counts.size)
        self.counts = np.zeros(lanes * apart, dtype=np.int64) if lanes > 1 else counts
        self.base = _lane_turns(lanes, apart)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.counts is not self._wanted:
            self._wanted += self.counts.reshape(_LANES, -1)[:, :-_GAP].sum(axis=0)


def _add_plainly(grids: Grids, X: Matrix, y: Flags, counts: Integers) -> None:
    # The fewer and the longer the counts, the more numbers are to be found before they are added up.
    held = max(1, max(_NUMPY_BLOCK, 2 * counts.shape[1]) // max(1, len(grids)))
    for start in range(0, len(X), held):
        for number, grid in enumerate(grids):
            _add_signed(grid.cells(X[start : start + held, number]), y[start : start + held], counts[number])


def _add_signed(cells: Integers, y: Flags, counts: Integers) -> None:
    split = np.bincount(2 * cells + y, minlength=2 * counts.size).reshape(-1, 2)
    counts += split[:, 1] - split[:, 0]


def _to_known_type(numbers: Matrix, *, bytes_too: bool = True) -> Matrix:
    """Return numbers of a type that the kernels know, with the same cells; contiguous where they are one column."""
    if numbers.dtype.kind == "b":
        numbers = numbers.view(np.uint8)
    known = (np.float64, np.float32, np.uint8) if bytes_too else (np.float64, np.float32)
    if numbers.dtype not in known:
        numbers = numbers.astype(np.float64)
    return np.ascontiguousarray(numbers) if numbers.ndim == 1 else numbers


@lru_cache(maxsize=64)
def _lane_bases(lanes: int, size: int) -> npt.NDArray[np.uint32]:
    return (np.arange(lanes) * size).astype(np.uint32)


@lru_cache(maxsize=64)
def _lane_turns(lanes: int, size: int) -> npt.NDArray[np.uint32]:
    return np.resize(_lane_bases(lanes, size), _LINE)


@lru_cache(maxsize=16)
def _byte_cells(grids: Grids) -> Integers:
    """Return for each column, and each value of a byte, where its count belongs among the counts of all columns."""
    cells = {grid: grid.cells(np.arange(_BYTE_VALUES)) for grid in set(grids)}
    return np.concatenate([number * grid.steps + cells[grid] for number, grid in enumerate(grids)])


@lru_cache(maxsize=64)
def _find_terms(grids: Grids, width: int, itemsize: int) -> Terms:
    """Return what a kernel needs to find cells in lines of ``width`` numbers, by the cheapest way that is exact for all."""
    last = float(grids[0].steps - 1)
    if itemsize == 1:
        none = np.zeros(width)
        return none, none, none, none, last, BYTES
    of_type = np.float32 if itemsize == 4 else np.float64  # noqa: PLR2004 - bytes
    lows = [grid.low for grid in grids]
    rates = [_floor_rate(grid, of_type) for grid in grids]
    if all(rate > 0 for rate in rates):
        return *_spread_columns([lows, rates, lows, lows], width), last, FLOOR
    rates = [grid.rate for grid in grids]
    sums = [_split_step(grid) for grid in grids]
    if all(found is not None for found in sums):
        firsts, seconds = zip(*(found for found in sums if found is not None), strict=True)
        return *_spread_columns([lows, rates, firsts, seconds], width), last, SUM
    widths, steps = [grid.high - grid.low for grid in grids], [grid.steps for grid in grids]
    return *_spread_columns([lows, rates, widths, steps], width), last, QUOTIENT


def _spread_columns(columns: Sequence[Sequence[float]], width: int) -> Any:  # noqa: ANN401 - as many arrays as columns
    return tuple(np.resize(np.array(column, dtype=np.float64), width) for column in columns)


@lru_cache(maxsize=256)
def _floor_rate(grid: Grid, of_type: type) -> float:
    """Return a rate whose product, rounded down, is the cell of every number of a type; 0 where none is found.

    Products keep the order of numbers. So it is enough to look at the least number of the type in every cell, which has to
    reach the cell's number, and at the one below it, which must not.
    """
    edges = grid.edges()
    with np.errstate(all="ignore"):
        least: Matrix = edges.astype(of_type)
        least = np.where(least < edges, np.nextafter(least, of_type(np.inf)), least)
        below = np.nextafter(least, of_type(-np.inf))[1:].astype(np.float64)
        numbers = np.arange(grid.steps)
        for extra in (0, 1, 2, 4, 8):
            rate = grid.rate * (1 + extra * 2.0**-52)
            reach = (least.astype(np.float64) - grid.low) * rate >= numbers
            if reach.all() and ((below - grid.low) * rate < numbers[1:]).all():
                return rate
    return 0.0


@lru_cache(maxsize=256)
def _split_step(grid: Grid) -> tuple[float, float] | None:
    """Return two numbers with low + (k first + k second) = t_k to the last bit for every k; None where none are found.

    They add up to the width of a cell, the first so short that its product with k is exact.
    """
    quotient = (grid.high - grid.low) / grid.steps
    # What Veltkamp's splitting leaves in front has room for the bits of k behind it.
    scaled = quotient * (2.0 ** (grid.steps.bit_length() + 1) + 1)
    first = scaled - (scaled - quotient)
    numerator, denominator = (grid.high - grid.low).as_integer_ratio()
    over, under = first.as_integer_ratio()
    second = (numerator * under - over * denominator * grid.steps) / (denominator * grid.steps * under)
    numbers = np.arange(grid.steps, dtype=np.float64)
    same = np.array_equal(grid.low + (numbers * first + numbers * second), grid.edges())
    return (first, second) if same and np.isfinite(first) else None

"""Finite nets of half-spaces, fixed before data, over whole numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from holdtrue import exact
from holdtrue.compiling import loaded
from holdtrue.errors import InvalidParameter
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.matrices import Flags, Integers, Matrix, matrix_of
from holdtrue.hypotheses.nets import HEAVIEST, REACH, Net, grid_size, net_of, sequence
from holdtrue.requests import LinearNetDocument

__all__ = ["LinearNet", "dimension_of"]

Cells = npt.NDArray[np.int16]
Bounds = tuple[tuple[float, float], ...]

_MOST_BYTES = 4 << 30
_WIDEST = 1 << 10
_LARGE_WORK = 1 << 27
_EXACT_FLOAT32 = 1 << 24
# Products this small stay on one thread of the library that multiplies matrices: the threads here are our own.
_BLOCK_ROWS = 256
_BLOCK_MEMBERS = 64
_TERMS = 6


@dataclass(frozen=True, slots=True)
class LinearNet(HypothesisClass):
    """Half-spaces w · x ≥ b → 1, where x are the columns, scaled by public bounds to [-1, 1] and clamped.

    ``dimension`` is the number of columns, or their names. Exactly one of ``count``, the first so many members of a sequence
    that fills directions and offsets evenly, and ``resolution`` r, all weights of {-r..r} that have no common divisor, each
    with 2 r + 1 offsets (:mod:`holdtrue.hypotheses.nets`). ``bounds``: one pair for all columns, a list of pairs, or a
    mapping by name. Missing numbers count as the low end.

    Guarantee: every member is one function of a row, the same in every kernel, every blocking and on every machine, so that
    counts are exact and sensitivity is 1 (B6). Why: a column becomes a whole number q with |q| ≤ 2^12, cell by cell; weights
    and offsets are whole, |w| ≤ 127, |b| ≤ 2^12 |w|₁; with at most 2^10 columns, b and all partial sums of w · q, in any
    order, are whole numbers below 2^29.99, and differences with b fit into 32 bits. Floats that hold them (32 bits up to
    2^24, 64 bits beyond) never round. Fails: only by memory, and says before it starts how much it needs.

    >>> net = LinearNet(["age", "pulse"], resolution=2, bounds={"age": (0, 120), "pulse": (40, 200)})
    >>> net.size, net.describe(29)
    (80, '-age + pulse ≥ 1.333 → 1, columns scaled to [-1, 1]')
    """

    kind: ClassVar[str] = "linearnet"

    dimension: int | tuple[str, ...]
    count: int | None
    resolution: int | None
    bounds: Bounds

    def __init__(
        self,
        dimension: int | Sequence[str],
        *,
        count: int | None = None,
        resolution: int | None = None,
        bounds: Mapping[str, Sequence[float]] | Sequence[Sequence[float]] | Sequence[float] | None = None,
    ) -> None:
        named = dimension_of("dimension", dimension)
        if _width(named) > _WIDEST:
            raise InvalidParameter("dimension", _width(named), f"at most {_WIDEST} columns")
        if (count is None) == (resolution is None):
            raise InvalidParameter("count", count, "given, or resolution: exactly one of them")
        if resolution is not None and exact.count("resolution", resolution) > HEAVIEST:
            raise InvalidParameter("resolution", resolution, f"at most {HEAVIEST}")
        object.__setattr__(self, "dimension", named)
        object.__setattr__(self, "count", None if count is None else exact.count("count", count))
        object.__setattr__(self, "resolution", resolution)
        object.__setattr__(self, "bounds", _bounds((-1.0, 1.0) if bounds is None else bounds, named))

    @property
    def size(self) -> int:
        """Return how many half-spaces there are."""
        return grid_size(self.width, self.resolution) if self.resolution is not None else self.count or 0

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns; None where they go by position."""
        return self.dimension if isinstance(self.dimension, tuple) else None

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return _width(self.dimension)

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the net itself; with these names, where it goes by position and there are as many."""
        if self.columns is not None and not isinstance(columns, int):
            return self
        dimension = dimension_of("columns", columns)
        if _width(dimension) != self.width:
            raise InvalidParameter("columns", columns, f"{self.width} columns, as many as the net has")
        if isinstance(dimension, int):
            return self
        return type(self)(dimension, count=self.count, resolution=self.resolution, bounds=self.bounds)

    def blank(self) -> Integers:
        """Return a zero for each half-space."""
        padded = self.width + self.width % 2
        needed = self.size * (2 * padded + 4 + 5 * 8)
        if needed > _MOST_BYTES:
            expected = f"small enough to be scored in {_MOST_BYTES:,} bytes; {self.size:,} half-spaces need {needed:,}"
            name = "count" if self.resolution is None else "resolution"
            raise InvalidParameter(name, getattr(self, name), expected)
        return np.zeros(self.size, dtype=np.int64)

    def tally(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add to each half-space the rows of label 1 that it leaves outside, and the others that it holds."""
        net, cells = self._net(), self._cells(X)
        ones = int(np.count_nonzero(y))
        totals += _below(net, cells[y])[: totals.size]
        totals += len(cells) - ones
        totals -= _below(net, cells[~y])[: totals.size]

    def errors(self, totals: Integers) -> Integers:
        """Return the totals: they are the errors."""
        return totals

    def evaluate(self, X: object, index: int) -> Flags:
        """Return for each row whether it lies in a half-space."""
        weights, offset = self._member(self.checked(index))
        matrix = matrix_of(X, self.columns, width=self.width)
        if matrix.shape[1] != self.width:
            raise InvalidParameter("X", f"{matrix.shape[1]} columns", f"a matrix with {self.width} columns")
        inside: Flags = self._cells(matrix).astype(np.int64) @ weights >= offset
        return inside

    def describe(self, index: int) -> str:
        """Return a half-space as an inequality, with the heaviest columns where there are many."""
        weights, offset = self._member(self.checked(index))
        heaviest = np.argsort(-np.abs(weights), kind="stable")[:_TERMS]
        names = self.columns or [f"x{column}" for column in range(self.width)]
        terms = " ".join(_term(int(weights[column]), names[column]) for column in sorted(heaviest) if weights[column])
        left = terms[2:] if terms[0] == "+" else f"-{terms[2:]}"
        others = np.count_nonzero(weights) - _TERMS
        more = f" + … ({others} more)" if others > 0 else ""
        scaled = "" if set(self.bounds or ()) == {(-1.0, 1.0)} else ", columns scaled to [-1, 1]"
        return f"{left}{more} ≥ {offset / REACH:.4g} → 1{scaled}"

    @property
    def document(self) -> LinearNetDocument:
        """Return the parameters."""
        return LinearNetDocument(self.dimension, self.count, self.resolution, self.bounds)

    def __repr__(self) -> str:
        kept = f"count={self.count}" if self.resolution is None else f"resolution={self.resolution}"
        pairs = self.bounds or ()
        return f"LinearNet({self.dimension!r}, {kept}, bounds={pairs[0] if len(set(pairs)) == 1 else pairs})"

    def _net(self) -> Net:
        return net_of(self.width, count=self.count, resolution=self.resolution)

    def _member(self, index: int) -> tuple[Integers, int]:
        if self.resolution is None:
            weights, offsets = sequence(self.width, index, index + 1)
            return weights[0], int(offsets[0])
        self.blank()
        net = self._net()
        return net.weights[index, : self.width].astype(np.int64), int(net.offsets[index])

    def _cells(self, X: Matrix) -> Cells:
        """Return each number as a whole multiple of 1 / REACH of its column's half width, from -REACH to REACH.

        Subtraction and multiplication round monotonely and by less than half a step in all, so that a column is cut by a
        monotone staircase from the low end to the high end.
        """
        cells = np.empty(X.shape, dtype=np.int16)
        with np.errstate(all="ignore"):
            for column, (low, high) in enumerate(self.bounds or ()):
                inside = np.fmin(np.fmax(X[:, column].astype(np.float64), low), high)
                cells[:, column] = np.rint((inside - low) * (2 * REACH / (high - low))) - REACH
        return cells


def _compiled(work: int) -> ModuleType | None:
    """Return the compiled kernels where the work takes longer than to load them."""
    return loaded("holdtrue.hypotheses.linear_kernels") if work >= _LARGE_WORK else None


def _below(net: Net, cells: Cells) -> Integers:
    """Return for each line of a net how many rows lie below its offset."""
    module = _compiled(len(cells) * len(net.weights))
    if module is None:
        return _below_by_products(net, cells)
    counts = np.zeros(len(net.weights), dtype=np.int64)
    padded = np.zeros((-(-len(cells) // module.ROWS) * module.ROWS, net.weights.shape[1]), dtype=np.int16)
    padded[: len(cells), : cells.shape[1]] = cells
    blocks = padded.reshape(-1, module.ROWS, padded.shape[1] // 2, 2).transpose(0, 2, 1, 3)
    module.below(np.ascontiguousarray(blocks), net.weights, -net.offsets, counts)
    # Rows that only fill up a block are all zeros, and those lie below the offsets above 0.
    counts -= (len(padded) - len(cells)) * (net.offsets > 0)
    return counts


def _below_by_products(net: Net, cells: Cells) -> Integers:
    """Do the same as products of matrices, in the shortest floats that hold every sum."""
    width = cells.shape[1]
    kind: type[np.floating[Any]] = np.float32 if width * HEAVIEST * REACH < _EXACT_FLOAT32 else np.float64
    counts = np.zeros(len(net.weights), dtype=np.int64)
    for start in range(0, len(cells), _BLOCK_ROWS):
        rows: npt.NDArray[Any] = cells[start : start + _BLOCK_ROWS].astype(kind)
        for first in range(0, len(counts), _BLOCK_MEMBERS):
            some = slice(first, first + _BLOCK_MEMBERS)
            products = net.weights[some, :width].astype(kind) @ rows.T
            counts[some] += np.count_nonzero(products < net.offsets[some, np.newaxis].astype(kind), axis=1)
    return counts


def _term(weight: int, name: str) -> str:
    return f"{'-' if weight < 0 else '+'} {'' if abs(weight) == 1 else f'{abs(weight)}·'}{name}"


def dimension_of(name: str, value: object) -> int | tuple[str, ...]:
    """Return a number of columns, or their names as a tuple, each once."""
    if not isinstance(value, (list, tuple)):
        return exact.count(name, value)
    names = tuple(value)
    if not names or not all(isinstance(one, str) and one for one in names) or len(set(names)) < len(names):
        raise InvalidParameter(name, value, "the number of columns, or their names, each once")
    return names


def _width(dimension: int | tuple[str, ...]) -> int:
    return dimension if isinstance(dimension, int) else len(dimension)


def _bounds(value: object, dimension: int | tuple[str, ...]) -> Bounds:
    """Return one pair for each column."""
    width = _width(dimension)
    expected = f"a pair (low, high), {width} pairs, or a mapping from the names of the columns to pairs"
    if isinstance(value, Mapping):
        if isinstance(dimension, int) or set(value) != set(dimension):
            raise InvalidParameter("bounds", dict(value), expected)
        value = [value[name] for name in dimension]
    if not isinstance(value, (list, tuple)) or not value:
        raise InvalidParameter("bounds", value, expected)
    pairs = value if isinstance(value[0], (list, tuple)) else [value] * width
    if len(pairs) != width:
        raise InvalidParameter("bounds", value, expected)
    return tuple(_pair(pair) for pair in pairs)


def _pair(value: object) -> tuple[float, float]:
    if isinstance(value, (list, tuple)) and len(value) == 2:  # noqa: PLR2004 - low and high
        low, high = (float(exact.rational("bounds", end)) for end in value)
        if low < high and isfinite(high - low) and isfinite(2 * REACH / (high - low)):
            return low, high
    raise InvalidParameter("bounds", value, "pairs (low, high) of numbers with low < high")

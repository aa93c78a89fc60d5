"""Finite nets of half-spaces, fixed before data, over whole numbers.

A net depends only on its own parameters. All arithmetic is over the integers, except for one square root, which IEEE
754 rounds correctly everywhere: its members are the same on every machine.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count as numbers
from itertools import islice
from math import isfinite, isqrt
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from holdtrue import exact
from holdtrue.errors import InvalidParameter
from holdtrue.hypotheses.classes import Flags, Footprint, HypothesisClass, Integers, Matrix, read_dimension
from holdtrue.kernels import Words
from holdtrue.kernels.predictors import GROUP, count_below
from holdtrue.noise.enclosures import normal_tail
from holdtrue.requests import LinearNetDocument

__all__ = ["HEAVIEST", "REACH", "LinearNet", "Net", "build_net", "count_grid", "list_members"]

Cells = npt.NDArray[np.int16]
Pairs = tuple[tuple[float, float], ...]

HEAVIEST: Final = 127
"""The largest weight."""

REACH: Final = 1 << 12
"""The whole number that stands for 1: columns, scaled to [-1, 1], are whole multiples of 1 / REACH, and so are offsets."""

_WIDEST = 1 << 10
_TERMS = 6
_SPREAD = 32
_MAGNITUDES = 31
_BLOCK = 1 << 16
_FIELDS = ("dimension", "count", "resolution", "bounds")

_lock = threading.Lock()


@dataclass(frozen=True, slots=True, init=False)
class LinearNet(HypothesisClass):
    """Half-spaces w · x ≥ b → 1, where x are the columns, scaled by public bounds to [-1, 1] and clamped.

    ``dimension`` is the number of columns, or their names. Exactly one of ``count``, that many members of a sequence
    that fills directions and offsets evenly, and ``resolution`` r, all weights of {-r..r} that have no common divisor, each
    with 2 r + 1 offsets (:func:`list_members`, :func:`build_net`). ``bounds``: one pair for all columns, a list of pairs, or
    a mapping by name. Missing numbers count as the low end.

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
    bounds: Pairs

    def __init__(
        self,
        dimension: int | Sequence[str],
        *,
        count: int | None = None,
        resolution: int | None = None,
        bounds: Mapping[str, Sequence[float]] | Sequence[Sequence[float]] | Sequence[float] | None = None,
    ) -> None:
        named = read_dimension("dimension", dimension)
        width = len(named) if isinstance(named, tuple) else named
        if width > _WIDEST:
            raise InvalidParameter("dimension", width, f"at most {_WIDEST} columns")
        if (count is None) == (resolution is None):
            raise InvalidParameter.saying("count", "give exactly one of count and resolution")
        if resolution is not None and exact.count("resolution", resolution) > HEAVIEST:
            raise InvalidParameter("resolution", resolution, f"at most {HEAVIEST}")
        object.__setattr__(self, "dimension", named)
        object.__setattr__(self, "count", None if count is None else exact.count("count", count))
        object.__setattr__(self, "resolution", resolution)
        object.__setattr__(self, "bounds", _read_bounds((-1.0, 1.0) if bounds is None else bounds, named))

    @property
    def size(self) -> int:
        """Return how many half-spaces there are."""
        return count_grid(self.width, self.resolution) if self.resolution is not None else self.count or 0

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.settled_width

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the net itself; with these names, where it goes by position and there are as many."""
        if self.columns is not None and not isinstance(columns, int):
            return self
        dimension = read_dimension("columns", columns)
        if (dimension if isinstance(dimension, int) else len(dimension)) != self.width:
            raise InvalidParameter("columns", columns, f"{self.width} columns, as many as the net has")
        if isinstance(dimension, int):
            return self
        return type(self)(dimension, count=self.count, resolution=self.resolution, bounds=self.bounds)

    @property
    def footprint(self) -> Footprint:
        """Return what counting takes: weights and offsets, totals and errors."""
        padded = self.width + self.width % 2
        name = "count" if self.resolution is None else "resolution"
        return Footprint(self.size, self.size * (2 * padded + 4 + 5 * 8), name, getattr(self, name))

    def add_rows(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add to each half-space the rows of label 1 that it leaves outside, and the others that it holds."""
        net, cells = self._find_net(), self._to_cells(X)
        ones = int(np.count_nonzero(y))
        totals += net.count_below(cells[y])[: totals.size]
        totals += len(cells) - ones
        totals -= net.count_below(cells[~y])[: totals.size]

    def count_errors(self, totals: Integers) -> Integers:
        """Return the totals: they are the errors."""
        return totals

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return for each row whether it lies in a half-space."""
        weights, offset = self._find_member(index)
        inside: Flags = self._to_cells(X).astype(np.int64) @ weights >= offset
        return inside

    def describe(self, index: int) -> str:
        """Return a half-space as an inequality, with the heaviest columns where there are many."""
        weights, offset = self._find_member(self.check_index(index))
        heaviest = np.argsort(-np.abs(weights), kind="stable")[:_TERMS]
        terms = " ".join(_format_term(int(weights[k]), self.name_column(k)) for k in sorted(heaviest) if weights[k])
        left = terms[2:] if terms[0] == "+" else f"-{terms[2:]}"
        others = np.count_nonzero(weights) - _TERMS
        more = f" + … ({others} more)" if others > 0 else ""
        scaled = "" if set(self.bounds) == {(-1.0, 1.0)} else ", columns scaled to [-1, 1]"
        return f"{left}{more} ≥ {offset / REACH:.4g} → 1{scaled}"

    @property
    def document(self) -> LinearNetDocument:
        """Return the parameters."""
        return LinearNetDocument(self.dimension, self.count, self.resolution, self.bounds)

    def __repr__(self) -> str:
        kept = f"count={self.count}" if self.resolution is None else f"resolution={self.resolution}"
        bounds = self.bounds[0] if len(set(self.bounds)) == 1 else self.bounds
        return f"LinearNet({self.dimension!r}, {kept}, bounds={bounds})"

    def _find_net(self) -> "Net":
        return build_net(self.width, count=self.count, resolution=self.resolution)

    def _find_member(self, index: int) -> tuple[Integers, int]:
        if self.resolution is None:
            weights, offsets = list_members(self.width, index, index + 1)
            return weights[0], int(offsets[0])
        self.make_totals()
        net = self._find_net()
        return net.weights[index, : self.width].astype(np.int64), int(net.offsets[index])

    def _to_cells(self, X: Matrix) -> Cells:
        """Return each number as a whole multiple of 1 / REACH of its column's half width, from -REACH to REACH.

        Subtraction and multiplication round monotonely and by less than half a step in all, so that a column is cut by a
        monotone staircase from the low end to the high end.
        """
        cells = np.empty(X.shape, dtype=np.int16)
        with np.errstate(all="ignore"):
            for column, (low, high) in enumerate(self.bounds):
                inside = np.fmin(np.fmax(X[:, column].astype(np.float64), low), high)
                cells[:, column] = np.rint((inside - low) * (2 * REACH / (high - low))) - REACH
        return cells


def _format_term(weight: int, name: str) -> str:
    return f"{'-' if weight < 0 else '+'} {'' if abs(weight) == 1 else f'{abs(weight)}·'}{name}"


def _read_bounds(value: object, dimension: int | tuple[str, ...]) -> Pairs:
    """Return one pair for each column."""
    width = dimension if isinstance(dimension, int) else len(dimension)
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
    return tuple(_read_pair(pair) for pair in pairs)


def _read_pair(value: object) -> tuple[float, float]:
    if isinstance(value, (list, tuple)) and len(value) == 2:  # noqa: PLR2004 - low and high
        low, high = (float(exact.rational("bounds", end)) for end in value)
        if low < high and isfinite(high - low) and isfinite(2 * REACH / (high - low)):
            return low, high
    raise InvalidParameter("bounds", value, "pairs (low, high) of numbers with low < high")


@dataclass(frozen=True, slots=True, eq=False)
class Net:
    """Members w · x ≥ b, one per line: weights and offsets, padded for the kernels. Both are shared: never written to."""

    weights: npt.NDArray[np.int16]
    offsets: npt.NDArray[np.int32]

    def count_below(self, cells: Cells) -> Integers:
        """Return for each line how many rows lie below its offset."""
        return count_below(cells, self.weights, self.offsets, largest=cells.shape[1] * HEAVIEST * REACH)


def build_net(width: int, *, count: int | None, resolution: int | None) -> Net:
    """Return the first members of the sequence, or the whole grid of a resolution; built once, also by many threads."""
    with _lock:
        return _build_net(width, count, resolution)


@lru_cache(maxsize=4)
def _build_net(width: int, count: int | None, resolution: int | None) -> Net:
    size = count_grid(width, resolution) if resolution is not None else count or 0
    weights = np.zeros((-(-size // GROUP) * GROUP, width + width % 2), dtype=np.int16)
    offsets = np.zeros(len(weights), dtype=np.int32)
    if resolution is not None:
        _fill_grid(width, resolution, weights, offsets)
    else:
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            weights[start:stop, :width], offsets[start:stop] = list_members(width, start, stop)
    weights.setflags(write=False)
    offsets.setflags(write=False)
    return Net(weights, offsets)


def list_members(width: int, start: int, stop: int) -> tuple[Integers, Integers]:
    """Return weights and offsets of members ``start`` to ``stop`` of the sequence.

    Member n is the point n + 1 of Richtmyer's sequence, the multiples of (√2, √3, √5, ...) modulo 1: square roots of
    different primes are independent over the rationals, so that the points fill the unit cube evenly (Weyl). The first
    coordinate t places the offset evenly in ± the length of w, so that hyperplanes cut the unit ball inside the cube; the
    others become weights by the normal quantile, times 32, rounded, so that directions fill the sphere evenly. Weights
    that are all 0 give way to the first axis.
    """
    order = np.arange(start + 1, stop + 1, dtype=np.uint64)
    weights = np.stack([_to_weights(order * step) for step in _root_fractions(width + 1)[1:]], axis=1)
    weights[~weights.any(axis=1), 0] = 1
    place = (order * _root_fractions(1)[0] >> np.uint64(48)).astype(np.int64) - (1 << 15)
    squares = (weights * weights).sum(axis=1) * place * place
    length = np.floor(np.sqrt(squares.astype(np.float64)) * (REACH / (1 << 15))).astype(np.int64)
    return weights, np.sign(place) * length


@lru_cache(maxsize=16)
def _root_fractions(number: int) -> Words:
    """Return the fractions of the square roots of the first primes, as 64-bit words."""
    primes = (n for n in numbers(2) if all(n % k for k in range(2, isqrt(n) + 1)))
    return np.array([isqrt(prime << 128) % (1 << 64) for prime in islice(primes, number)], dtype=np.uint64)


def _to_weights(words: Words) -> Integers:
    """Turn uniform words into whole numbers near 32 Z, with Z standard normal, none beyond ± HEAVIEST."""
    signed = (words >> np.uint64(63 - _MAGNITUDES)).astype(np.int64) - (1 << _MAGNITUDES)
    magnitudes = np.searchsorted(_list_edges(), np.maximum(signed, -1 - signed), side="right")
    return np.where(signed < 0, -magnitudes, magnitudes)


@lru_cache(maxsize=1)
def _list_edges() -> Integers:
    """Return 2^31 Pr[|Z| < (k - 1/2) / 32] for k from 1 to HEAVIEST, as whole numbers."""
    tails = [normal_tail(Fraction(2 * k - 1, 2 * _SPREAD), _MAGNITUDES + 1)[0] for k in range(1, HEAVIEST + 1)]
    return np.array([(1 << _MAGNITUDES) - tail for tail in tails], dtype=np.int64)


def count_grid(width: int, resolution: int) -> int:
    """Return how many members a grid has: its primitive vectors, by Möbius's sum over common divisors, times its offsets."""
    primitive: int = sum(_moebius(g) * ((2 * (resolution // g) + 1) ** width - 1) for g in range(1, resolution + 1))
    return primitive * (2 * resolution + 1)


def _moebius(number: int) -> int:
    """Return the sum of the primitive roots of unity of this order: the coefficients that undo a sum over divisors."""
    sign, rest = 1, number
    for prime in range(2, number + 1):
        if rest % prime == 0:
            rest //= prime
            sign = -sign
            if rest % prime == 0:
                return 0
    return sign


def _fill_grid(width: int, resolution: int, weights: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> None:
    """Write a grid: directions in lexicographic order, with the offsets |w|₁ k / (r + 1), k from -r to r, for each."""
    places = np.arange(-resolution, resolution + 1, dtype=np.int64)
    filled = 0
    for start in range(0, places.size**width, _BLOCK):
        codes = np.arange(start, min(start + _BLOCK, places.size**width), dtype=np.int64)
        digits = np.stack(np.unravel_index(codes, (places.size,) * width), axis=1) - resolution
        primitive = digits[np.gcd.reduce(digits, axis=1) == 1]
        reach = REACH * np.abs(primitive).sum(axis=1)
        part = slice(filled, filled + len(primitive) * places.size)
        weights[part, :width] = np.repeat(primitive, places.size, axis=0)
        offsets[part] = (reach[:, np.newaxis] * places // (resolution + 1)).reshape(-1)
        filled = part.stop

"""Grids that classes over numbers stand on: public bounds, cut into equal steps, with every row in exactly one cell.

A grid is fixed before the rows are seen. One that is taken from them (their least and largest number, their quantiles)
makes a class that depends on the rows, and neither privacy nor the number of rows to plan for holds for it (B6, P3): so
bounds are numbers that somebody writes down, and everything else is refused.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter
from holdtrue.exact import count, rational
from holdtrue.hypotheses.matrices import Integers, Matrix

__all__ = ["LARGEST", "Bounds", "Grid", "Reals", "afford", "grid_of", "pair_of", "show_number", "steps_of"]

Reals = npt.NDArray[np.float64]
Pair = tuple[float, float]

LARGEST: Final = 4 << 30
"""How many bytes the totals of a class and its error counts may take together."""

_WHY = "chosen before and without the rows, or neither privacy nor the plan holds"
_BOUNDS = f"public bounds, {_WHY}; write numbers, as in {{'age': (0, 120)}}, [(0, 120), (0, 1)] or (0, 1) for every column"
_STEPS = f"a whole number, 1 or above, {_WHY}; write a number, as in steps=100"


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

    def edges(self, first: int = 0, last: int | None = None) -> Reals:
        """Return the edges from number ``first`` on, up to ``last``, which is not one of them."""
        numbers = np.arange(first, self.steps if last is None else last, dtype=np.float64)
        return self.low + (numbers * (self.high - self.low)) / self.steps

    def edge(self, number: int) -> float:
        """Return one edge."""
        return float(self.edges(number, number + 1)[0])

    def clamped(self, values: Matrix) -> Reals:
        """Return numbers moved to the nearest within bounds; a missing number becomes ``low``."""
        return np.fmin(np.fmax(values.astype(np.float64), self.low), self.high)

    def cells(self, values: Matrix) -> Integers:
        """Return the cell of every number: a product proposes, a comparison with an edge decides."""
        held = self.clamped(values)
        nearest = np.minimum(np.rint((held - self.low) * self.rate), self.steps - 1).astype(np.int64)
        return nearest - (held < self.edges()[nearest])


@lru_cache(maxsize=256)
def grid_of(low: float, high: float, steps: int) -> Grid:
    """Return a grid; InvalidParameter where float64 is too coarse for its steps or they do not fit into memory."""
    grid = Grid(low, high, steps)
    afford("steps", steps, 8 * steps)
    fine = math.isfinite(high - low)
    for first in range(0, steps if fine else 0, _BLOCK):
        last = min(steps, first + _BLOCK)
        edges, numbers = grid.edges(first, last), np.arange(first, last)
        with np.errstate(all="ignore"):
            # The nearest edge to a number is then one that it lies right of, or the next one: products keep the order.
            at = np.rint((edges - low) * grid.rate)
            before = np.rint((np.nextafter(edges, -math.inf) - low) * grid.rate)
            fine = fine and bool((np.diff(edges) > 0).all() and (at >= numbers).all() and (before <= numbers).all())
        fine = fine and edges[-1] < high and (first == 0 or edges[0] > grid.edge(first - 1))
    if not fine:
        raise InvalidParameter(
            "steps", steps, f"few enough for float64 to tell the edges between {low!r} and {high!r} apart"
        )
    return grid


_BLOCK = 1 << 18


def steps_of(steps: object) -> int:
    """Return a number of steps; InvalidParameter, with the reason, where it is not a plain whole number above 0."""
    try:
        return count("steps", steps)
    except InvalidParameter:
        plain = isinstance(steps, (int, float))
        raise InvalidParameter("steps", steps if plain else _Nature.of(steps), _STEPS) from None


def afford(parameter: str, value: object, size: int) -> None:
    """Raise InvalidParameter, before anything is started, where so many bytes are more than the limit."""
    if size > LARGEST:
        expected = f"smaller: counting the errors of this class takes {size:,} bytes, and the limit is {LARGEST:,}"
        raise InvalidParameter(parameter, value, expected)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Public bounds by column: by name, by position, or one pair for every column whatever their number (``every``)."""

    pairs: tuple[Pair, ...]
    columns: tuple[str, ...] | None = None
    every: bool = False

    @classmethod
    def of(cls, given: object) -> "Bounds":
        """Read bounds: a mapping from columns to pairs, a list of pairs by position, or one pair for every column."""
        match given:
            case Bounds():
                return given
            case Mapping() if given and all(isinstance(name, str) for name in given):
                return cls(tuple(pair_of(pair) for pair in given.values()), tuple(given))
            case list() | tuple() if len(given) == 2 and all(_is_number(end) for end in given):  # noqa: PLR2004 - a pair
                return cls((pair_of(given),), every=True)
            case list() | tuple() if given:
                return cls(tuple(pair_of(pair) for pair in given))
            case _:
                raise _refused(given)

    @property
    def width(self) -> int | None:
        """Return the number of columns, where it is settled."""
        return None if self.every else len(self.pairs)

    def over(self, columns: int | Sequence[str]) -> "Bounds":
        """Return these bounds for so many columns, or for columns of these names, where they do not say so themselves."""
        if not self.every:
            if self.columns is not None or isinstance(columns, int) or len(columns) != len(self.pairs):
                return self
            return Bounds(self.pairs, tuple(columns))
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            return Bounds(self.pairs * count("columns", columns))
        names = tuple(columns)
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise InvalidParameter("columns", names, "different names, at least one")
        return Bounds(self.pairs * len(names), names)

    def name(self, column: int) -> str:
        """Return what a column is called."""
        return f"x{column}" if self.columns is None else self.columns[column]

    @classmethod
    def named(cls, columns: Sequence[str], bounds: object) -> "Bounds":
        """Return bounds of columns of these names, in their order, which is that of the hypotheses."""
        read = cls.of(bounds)
        if read.every or not len(set(columns)) == len(columns) == len(read.pairs):
            raise InvalidParameter("columns", columns, "different names, one for each pair of bounds")
        return cls.of(dict(zip(columns, read.pairs, strict=True)))

    def __repr__(self) -> str:
        if self.every:
            return repr(self.pairs[0])
        if self.columns is None and len(set(self.pairs)) == 1:
            return f"[{self.pairs[0]!r}] * {len(self.pairs)}"
        return repr(list(self.pairs) if self.columns is None else dict(zip(self.columns, self.pairs, strict=True)))


def pair_of(given: object) -> Pair:
    """Return a low and a high end; InvalidParameter, with the reason, where they are not two plain numbers in order."""
    if not isinstance(given, (list, tuple)) or len(given) != 2 or not all(_is_number(end) for end in given):  # noqa: PLR2004
        raise _refused(given)
    low, high = (float(rational("bounds", end, expected=_BOUNDS)) for end in given)
    if not low < high:
        raise InvalidParameter("bounds", (low, high), "a pair of numbers (low, high) with low below high")
    return low, high


def _is_number(given: object) -> bool:
    return isinstance(given, (int, float, np.number)) and not isinstance(given, bool)


def _refused(given: object) -> InvalidParameter:
    return InvalidParameter("bounds", _Nature.of(given), _BOUNDS)


@dataclass(frozen=True, slots=True)
class _Nature:
    """Stands for an argument that may hold rows, and is therefore not shown."""

    text: str

    @classmethod
    def of(cls, value: object) -> "_Nature":
        return cls("None" if value is None else f"something of type {type(value).__name__}")

    def __repr__(self) -> str:
        return self.text


def show_number(value: float) -> str:
    """Return a number as short as it can be written without losing any of it."""
    return str(int(value)) if value.is_integer() and abs(value) < _WHOLE else repr(value)


_WHOLE = 1e15

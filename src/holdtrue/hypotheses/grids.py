"""What classes over numbers share: public bounds, cut into equal steps, with every row in exactly one cell.

A grid is fixed before the rows are seen. One that is taken from them (their least and largest number, their quantiles)
makes a class that depends on the rows, and neither privacy nor the number of rows to plan for holds for it (B6, N3): so
bounds are numbers that somebody writes down, and everything else is refused.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.exact import Shown, count, rational
from holdtrue.hypotheses.classes import MOST_BYTES, Flags, Footprint, HypothesisClass, Integers, Matrix
from holdtrue.kernels.grids import Grid, add_columns
from holdtrue.requests import ClassDocument, class_document

__all__ = ["Bounds", "Grid", "OneColumn", "SeveralColumns", "grid_of", "show_number"]

Pair = tuple[float, float]

_WHY = "chosen before and without the rows, or neither privacy nor the plan holds"
_BOUNDS = f"public bounds, {_WHY}; write numbers, as in {{'age': (0, 120)}}, [(0, 120), (0, 1)] or (0, 1) for every column"
_BLOCK = 1 << 18
_WHOLE = 1e15
_STEPS = f"a whole number, 1 or above, {_WHY}; write a number, as in steps=100"


@lru_cache(maxsize=256)
def grid_of(low: float, high: float, steps: int) -> Grid:
    """Return a grid; InvalidParameter where float64 is too coarse for its steps or they do not fit into memory."""
    grid = Grid(low, high, steps)
    if 8 * steps > MOST_BYTES:
        raise InvalidParameter(
            "steps", steps, f"smaller: its edges take {8 * steps:,} bytes, and the limit is {MOST_BYTES:,}"
        )
    fine = math.isfinite(high - low)
    for first in range(0, steps if fine else 0, _BLOCK):
        last = min(steps, first + _BLOCK)
        with np.errstate(all="ignore"):  # what overflows is too coarse as well
            edges, numbers = grid.edges(first, last), np.arange(first, last)
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


def _read_steps(steps: object) -> int:
    """Return a number of steps; InvalidParameter, with the reason, where it is not a plain whole number above 0."""
    try:
        return count("steps", steps)
    except InvalidParameter:
        plain = isinstance(steps, (int, float))
        raise InvalidParameter("steps", steps if plain else _describe_type(steps), _STEPS) from None


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
                return cls(tuple(_read_pair(pair) for pair in given.values()), tuple(given))
            case list() | tuple() if len(given) == 2 and all(_is_number(end) for end in given):  # noqa: PLR2004 - a pair
                return cls((_read_pair(given),), every=True)
            case list() | tuple() if given:
                return cls(tuple(_read_pair(pair) for pair in given))
            case _:
                raise _refuse_bounds(given)

    @property
    def dimension(self) -> int | tuple[str, ...] | None:
        """Return the names of the columns or their number, where it is settled."""
        return None if self.every else self.columns or len(self.pairs)

    def over(self, columns: int | Sequence[str]) -> "Bounds":
        """Return these bounds for this many columns, or for columns of these names, unless they have names already."""
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

    @classmethod
    def with_names(cls, columns: Sequence[str], bounds: object) -> "Bounds":
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


def _read_pair(given: object) -> Pair:
    """Return a low and a high end; InvalidParameter, with the reason, where they are not two plain numbers in order."""
    if not isinstance(given, (list, tuple)) or len(given) != 2 or not all(_is_number(end) for end in given):  # noqa: PLR2004
        raise _refuse_bounds(given)
    low, high = (float(rational("bounds", end, expected=_BOUNDS)) for end in given)
    if not low < high:
        raise InvalidParameter("bounds", (low, high), "a pair of numbers (low, high) with low below high")
    return low, high


def _is_number(given: object) -> bool:
    return isinstance(given, (int, float, np.number)) and not isinstance(given, bool)


def _refuse_bounds(given: object) -> InvalidParameter:
    return InvalidParameter("bounds", _describe_type(given), _BOUNDS)


def _describe_type(value: object) -> Shown:
    """Describe an argument by its type only, since it may hold rows."""
    return Shown("None" if value is None else f"something of type {type(value).__name__}")


def show_number(value: float) -> str:
    """Return a number as short as it can be written without losing any of it."""
    return str(int(value)) if value.is_integer() and abs(value) < _WHOLE else repr(value)


class GridClass(HypothesisClass):
    """A class whose totals are those of cells of grids, and two for the labels (see :mod:`holdtrue.kernels.grids`)."""

    steps: int

    @property
    @abstractmethod
    def grids(self) -> tuple[Grid, ...]:
        """Return the grid of every column; NotCertified where their number is not settled."""

    @property
    def _cells(self) -> int:
        """Return how many cells are counted."""
        return self.settled_width * self.steps

    @property
    def footprint(self) -> Footprint:
        """Return what counting takes: totals of cells, and errors."""
        return Footprint(self._cells + 2, 8 * (self._cells + self.size), "steps", self.steps)

    def count_steps(self, rows: int) -> int:
        """Return about how many steps it takes: every number once, and every hypothesis once."""
        return rows * self.settled_width + self.size

    def add_rows(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals."""
        add_columns(self.grids, X, y, totals)


@dataclass(frozen=True)
class OneColumn(GridClass):
    """A class over the grid of one column: the only one, or the one that is named."""

    low: float
    high: float
    _: KW_ONLY
    steps: int
    column: str | None = None

    def __post_init__(self) -> None:
        low, high = _read_pair((self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "steps", _read_steps(self.steps))
        if not isinstance(self.column, str | None):
            raise InvalidParameter("column", self.column, "the name of a column; leave it out if there is only one")
        grid_of(low, high, self.steps)

    @property
    def grid(self) -> Grid:
        """Return the grid of the column."""
        return grid_of(self.low, self.high, self.steps)

    @property
    def grids(self) -> tuple[Grid, ...]:
        """Return the grid of the column as the only one."""
        return (self.grid,)

    @property
    def dimension(self) -> int | tuple[str, ...]:
        """Return the name of the column, where it has one."""
        return 1 if self.column is None else (self.column,)

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the class itself, with this name for its column where it has none."""
        if self.column is not None or isinstance(columns, int) or len(columns) != 1:
            return self
        return replace(self, column=columns[0])

    @property
    def document(self) -> ClassDocument:
        """Return the bounds, the steps and the column."""
        return class_document(self.kind, low=self.low, high=self.high, steps=self.steps, column=self.column)


@dataclass(frozen=True, kw_only=True)
class SeveralColumns(GridClass):
    """A class over grids of several columns, of as many steps each."""

    bounds: Bounds | Mapping[str, Sequence[float]] | Sequence[Sequence[float]] | Sequence[float]
    steps: int

    def __post_init__(self) -> None:
        bounds, steps = Bounds.of(self.bounds), _read_steps(self.steps)
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "steps", steps)
        for low, high in set(bounds.pairs):
            grid_of(low, high, steps)

    @property
    def _bounds(self) -> Bounds:
        return Bounds.of(self.bounds)

    @property
    def grids(self) -> tuple[Grid, ...]:
        """Return the grid of every column; NotCertified where their number is not settled."""
        return tuple(grid_of(low, high, self.steps) for low, high in self._bounds.pairs[: self.settled_width])

    @property
    def dimension(self) -> int | tuple[str, ...] | None:
        """Return the names of the columns or their number; None where one pair of bounds serves any number of columns."""
        return self._bounds.dimension

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the class over this many columns, or over columns of these names; itself if it has columns already."""
        return replace(self, bounds=self._bounds.over(columns))

    @property
    def document(self) -> ClassDocument:
        """Return the bounds, in the order of the columns, and the steps."""
        pairs = self._bounds.pairs[0] if self._bounds.every else self._bounds.pairs
        return class_document(self.kind, bounds=pairs, steps=self.steps, columns=self.columns)

    @classmethod
    def made_of(cls, *, bounds: object, steps: int, columns: tuple[str, ...] | None = None) -> Self:  # type: ignore[override]  # its own
        """Return the class over these columns, in this order."""
        return cls(bounds=Bounds.of(bounds) if columns is None else Bounds.with_names(columns, bounds), steps=steps)

"""What classes over grids share: a class of one column, and a class with bounds by column."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Self

from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.grid_tallies import add_columns, blank
from holdtrue.hypotheses.grids import Bounds, Grid, afford, grid_of, pair_of, steps_of
from holdtrue.hypotheses.matrices import Flags, Integers, Matrix, matrix_of, width_of
from holdtrue.requests import ClassDocument, class_document

__all__ = ["OneColumn", "SeveralColumns"]


@dataclass(frozen=True)
class OneColumn(HypothesisClass):
    """A class over the grid of one column: the only one, or the one that is named."""

    low: float
    high: float
    _: KW_ONLY
    steps: int
    column: str | None = None

    def __post_init__(self) -> None:
        low, high = pair_of((self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "steps", steps_of(self.steps))
        if not isinstance(self.column, str | None):
            raise InvalidParameter("column", self.column, "the name of a column, or left out where there is only one")
        grid_of(low, high, self.steps)

    @property
    def grid(self) -> Grid:
        """Return the grid of the column."""
        return grid_of(self.low, self.high, self.steps)

    @property
    def name(self) -> str:
        """Return what the column is called."""
        return "x0" if self.column is None else self.column

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Return the name of the column, where it has one."""
        return None if self.column is None else (self.column,)

    @property
    def width(self) -> int:
        """Return 1."""
        return 1

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the class itself, with this name for its column where it has none."""
        if self.column is not None or isinstance(columns, int) or len(columns) != 1:
            return self
        return replace(self, column=columns[0])

    def blank(self) -> Integers:
        """Return zeros: a total for every cell, and two for the labels."""
        afford("steps", self.steps, 8 * (self.steps + self.size))
        return blank(self.steps)

    def tally(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals."""
        add_columns((self.grid,), X, y, totals)

    @property
    def document(self) -> ClassDocument:
        """Return the bounds, the steps and the column."""
        return class_document(self.kind, low=self.low, high=self.high, steps=self.steps, column=self.column)

    def _numbers(self, X: object) -> Matrix:
        return _matrix(X, self)[:, 0]


@dataclass(frozen=True, kw_only=True)
class SeveralColumns(HypothesisClass):
    """A class over grids of several columns, of as many steps each."""

    bounds: Bounds | Mapping[str, Sequence[float]] | Sequence[Sequence[float]] | Sequence[float]
    steps: int

    def __post_init__(self) -> None:
        bounds, steps = Bounds.of(self.bounds), steps_of(self.steps)
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "steps", steps)
        for low, high in set(bounds.pairs):
            grid_of(low, high, steps)

    @property
    def grids(self) -> tuple[Grid, ...]:
        """Return the grid of every column; NotCertified where their number is not settled."""
        self._settled()
        return tuple(grid_of(low, high, self.steps) for low, high in self._bounds.pairs)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns, where they have names."""
        return self._bounds.columns

    @property
    def width(self) -> int | None:
        """Return the number of columns; None where one pair of bounds is for as many as there will be."""
        return self._bounds.width

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the class over so many columns, or over columns of these names; itself where it has its own."""
        return replace(self, bounds=self._bounds.over(columns))

    @property
    def document(self) -> ClassDocument:
        """Return the bounds, in the order of the columns, and the steps."""
        pairs = self._bounds.pairs[0] if self._bounds.every else self._bounds.pairs
        return class_document(self.kind, bounds=pairs, steps=self.steps, columns=self.columns)

    @classmethod
    def made_of(cls, *, bounds: object, steps: int, columns: tuple[str, ...] | None = None) -> Self:  # type: ignore[override]  # its own
        """Return the class over these columns, in this order."""
        return cls(bounds=Bounds.of(bounds) if columns is None else Bounds.named(columns, bounds), steps=steps)

    @property
    def _bounds(self) -> Bounds:
        return Bounds.of(self.bounds)

    def _settled(self) -> int:
        if self.width is None:
            message = f"{self.kind} with one pair of bounds wait for the number of columns: call over(columns) first"
            raise NotCertified(message)
        return self.width

    @abstractmethod
    def _label(self, X: Matrix, index: int) -> Flags:
        """Return the label that a hypothesis gives to each row of a matrix with the class's columns in its order."""

    def evaluate(self, X: object, index: int) -> Flags:
        """Return the label that a hypothesis gives to each row."""
        settled = self if self.width is not None else self.over(width_of(X))
        return settled._label(_matrix(X, settled), settled.checked(index))  # noqa: SLF001 - of its own class


def _matrix(X: object, settled: HypothesisClass) -> Matrix:
    matrix = matrix_of(X, settled.columns, width=settled.width)
    if matrix.shape[1] != settled.width:
        raise InvalidParameter("X", f"{matrix.shape[1]} columns", f"a matrix with {settled.width} columns")
    return matrix

"""What the classes over yes-or-no columns share: columns, documents, totals in memory, and functions of a few columns.

A cell says yes where it is not 0; a missing one says no.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.exact import count
from holdtrue.hypotheses.bit_counts import add_totals, cells_by_size, set_at, totals_of, yes
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.matrices import Flags, Integers, Matrix, matrix_of
from holdtrue.requests import ClassDocument, class_document

__all__ = ["MEMORY", "BinaryClass", "SubsetClass", "columns_of"]

MEMORY = 4 << 30
"""The most bytes that the counts of one class may take."""

_BYTES = 8
_MOST_COLUMNS = 1 << 20


def columns_of(columns: object) -> tuple[str, ...] | int:
    """Return distinct names of columns, or their number; at least one."""
    expected = "a number of columns, or distinct names of columns, at least one"
    if isinstance(columns, (str, bytes)) or not isinstance(columns, Sequence):
        try:
            return count("columns", columns)
        except InvalidParameter:
            raise InvalidParameter("columns", columns, expected) from None
    names = tuple(columns[: _MOST_COLUMNS + 1])
    if (
        len(names) > _MOST_COLUMNS
        or not names
        or not all(isinstance(name, str) and name for name in names)
        or len(set(names)) < len(names)
    ):
        raise InvalidParameter("columns", columns, expected)
    return names


@dataclass(frozen=True, repr=False)
class BinaryClass(HypothesisClass):
    """A class over columns with names or by position, and one number that bounds its hypotheses.

    Its totals are those of all sets of at most ``_most`` columns (see :mod:`holdtrue.hypotheses.bit_counts`), and last the
    number of rows of label 1. A hypothesis errs on that many rows, plus the total of the rows to which it gives label 1.
    """

    _columns: tuple[str, ...] | int
    _limit: int | None

    limit: ClassVar[str]

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Return the names of the columns; None where the class goes by position."""
        return self._columns if isinstance(self._columns, tuple) else None

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return len(self._columns) if isinstance(self._columns, tuple) else self._columns

    @property
    @abstractmethod
    def _most(self) -> int:
        """Return the size of the largest sets of columns that are counted."""

    @abstractmethod
    def _label(self, X: Matrix, index: int) -> Flags:
        """Return the labels that a hypothesis, which is there, gives to rows with the right columns."""

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the class itself; with these names, where it goes by position and they are as many."""
        if self.columns is not None or isinstance(columns, int) or len(columns) != self.width:
            return self
        return type(self).made_of(columns=columns, **{self.limit: self._limit})

    def blank(self) -> Integers:
        """Return totals of no rows. Failure: InvalidParameter, before anything starts, where counts outgrow the memory."""
        # Totals of one worker and of all rows, then what errors take.
        need = _BYTES * 2 * self._held + self._errors_bytes
        if need > MEMORY:
            raise InvalidParameter(
                self.limit,
                self._limit,
                f"such that the counts fit into {MEMORY:,} bytes ({self.size:,} hypotheses over {self.width} columns "
                f"need {need:,} bytes)",
            )
        return np.zeros(self._held, dtype=np.int64)

    @property
    def _held(self) -> int:
        """Return how many totals there are."""
        return totals_of(self.width, most=self._most) + 1

    @property
    def _errors_bytes(self) -> int:
        """Return how many bytes it takes to turn totals into errors, those included."""
        return _BYTES * self.size

    def tally(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals."""
        add_totals(X, y, most=self._most, totals=totals[:-1])
        totals[-1] += np.count_nonzero(y)

    def evaluate(self, X: object, index: int) -> Flags:
        """Return the label that a hypothesis gives to each row."""
        checked = self.checked(index)
        matrix = matrix_of(X, self.columns, width=self.width)
        if matrix.shape[1] != self.width:
            raise InvalidParameter("X", f"{matrix.shape[1]} columns", f"a matrix with {self.width} columns")
        return self._label(matrix, checked)

    def _name(self, column: int) -> str:
        return f"x{column}" if self.columns is None else self.columns[column]

    @property
    def document(self) -> ClassDocument:
        """Return what the class was made of."""
        return class_document(self.kind, columns=self._columns, **{self.limit: self._limit})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._columns!r}, {self.limit}={self._limit})"


@dataclass(frozen=True, repr=False, init=False)
class SubsetClass(BinaryClass):
    """Some functions of every set of at most so many columns, the same ones for all sets of a size.

    Order: by the number of columns; then by the function; then by the set, in the order of the sums of 2^column.
    """

    @property
    def _most(self) -> int:
        return self.width if self._limit is None else min(self._limit, self.width)

    @property
    def _errors_bytes(self) -> int:
        # The errors of sets of one size are there twice for a moment.
        return 2 * _BYTES * self.size

    @abstractmethod
    def _functions(self, size: int) -> int:
        """Return how many functions of so many columns there are."""

    @abstractmethod
    def _sums(self, cells: Integers, size: int) -> Integers:
        """Return for each function and each set, given its cells, the sum of those to which it gives label 1."""

    @abstractmethod
    def _value(self, said: Flags, function: int) -> Flags:
        """Return the label that a function gives to each row, given a line of what rows say for each of its columns."""

    @property
    def size(self) -> int:
        """Return how many hypotheses there are."""
        return sum(self._functions(size) * math.comb(self.width, size) for size in range(self._most + 1))

    def errors(self, totals: Integers) -> Integers:
        """Return how many rows each hypothesis gets wrong."""
        errors = np.empty(self.size, dtype=np.int64)
        position = 0
        for size, cells in enumerate(cells_by_size(totals, self.width, most=self._most)):
            stop = position + cells.shape[1] * self._functions(size)
            np.add(self._sums(cells, size).reshape(-1), totals[-1], out=errors[position:stop])
            position = stop
        return errors

    def _found(self, index: int) -> tuple[tuple[int, ...], int]:
        """Return the columns of a hypothesis, and the number of its function among those of that many columns."""
        for size in range(self._most + 1):
            here = self._functions(size) * math.comb(self.width, size)
            if index < here:
                function, rank = divmod(index, math.comb(self.width, size))
                return set_at(rank, size), function
            index -= here
        raise InvalidParameter("index", index, f"below {self.size}")

    def _label(self, X: Matrix, index: int) -> Flags:
        chosen, function = self._found(index)
        return self._value(yes(X[:, list(chosen)]).T, function)

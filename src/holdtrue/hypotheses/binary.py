"""Classes over yes-or-no columns: what they share, and conjunctions, disjunctions and parities (B6, C1).

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
from holdtrue.hypotheses.classes import Flags, Footprint, HypothesisClass, Integers, Matrix, read_dimension
from holdtrue.kernels.column_sets import (
    add_cells,
    add_totals,
    count_sets,
    find_set,
    iterate_cells,
    says_yes,
    transform_to_errors,
)
from holdtrue.requests import ClassDocument, class_document

__all__ = ["BinaryClass", "Conjunctions", "Disjunctions", "Parities", "SubsetClass"]

_BYTES = 8
_WORD = 64
_CELLS_A_SET = 32


@dataclass(frozen=True, repr=False, init=False)
class BinaryClass(HypothesisClass):
    """A class over columns with names or by position, and one number that bounds its hypotheses.

    Its totals are those of all sets of at most ``_most`` columns (see :mod:`holdtrue.kernels.column_sets`), and last the
    number of rows of label 1. A hypothesis errs on that many rows, plus the total of the rows to which it gives label 1.
    """

    _columns: int | tuple[str, ...]
    _limit: int | None

    limit: ClassVar[str]

    @property
    def dimension(self) -> int | tuple[str, ...]:
        """Return the names of the columns, or their number."""
        return self._columns

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.settled_width

    @property
    @abstractmethod
    def _most(self) -> int:
        """Return the size of the largest sets of columns that are counted."""

    def over(self, columns: int | Sequence[str]) -> Self:
        """Return the class itself, or the class with these names if it goes by position and has as many columns."""
        if self.columns is not None or isinstance(columns, int) or len(columns) != self.width:
            return self
        return type(self).made_of(columns=columns, **{self.limit: self._limit})

    @property
    def footprint(self) -> Footprint:
        """Return what counting takes: totals of one worker and of all rows, then what errors take."""
        return Footprint(self._held, _BYTES * 2 * self._held + self._errors_bytes, self.limit, self._limit)

    @property
    def _held(self) -> int:
        """Return how many totals there are."""
        return count_sets(self.width, most=self._most) + 1

    @property
    def _errors_bytes(self) -> int:
        """Return how many bytes it takes to turn totals into errors, those included."""
        return _BYTES * self.size

    def count_steps(self, rows: int) -> int:
        """Return about how many steps it takes: every set on 64 rows at once, and every hypothesis once."""
        return rows * self.width + self._held * -(-rows // _WORD) + self.size

    def add_rows(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals."""
        add_totals(X, y, most=self._most, totals=totals[:-1])
        totals[-1] += np.count_nonzero(y)

    @property
    def document(self) -> ClassDocument:
        """Return what the class was made of."""
        return class_document(self.kind, columns=self._columns, **{self.limit: self._limit})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._columns!r}, {self.limit}={self._limit})"


@dataclass(frozen=True, repr=False, init=False)
class SubsetClass(BinaryClass):
    """Functions of every set of columns up to a limit, the same functions for all sets of one size.

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
    def _count_functions(self, size: int) -> int:
        """Return how many functions of this many columns there are."""

    @abstractmethod
    def _sum_cells(self, cells: Integers, size: int) -> Integers:
        """Return for each function and each set, given its cells, the sum of those to which it gives label 1."""

    @abstractmethod
    def _label_by(self, said: Flags, function: int) -> Flags:
        """Return the label that a function gives to each row, given a line of what rows say for each of its columns."""

    @property
    def size(self) -> int:
        """Return how many hypotheses there are."""
        return sum(self._count_functions(size) * math.comb(self.width, size) for size in range(self._most + 1))

    def count_errors(self, totals: Integers) -> Integers:
        """Return how many rows each hypothesis gets wrong."""
        errors = np.empty(self.size, dtype=np.int64)
        position = 0
        for size, cells in enumerate(iterate_cells(totals, self.width, most=self._most)):
            stop = position + cells.shape[1] * self._count_functions(size)
            np.add(self._sum_cells(cells, size).reshape(-1), totals[-1], out=errors[position:stop])
            position = stop
        return errors

    def _find_subset(self, index: int) -> tuple[tuple[int, ...], int]:
        """Return the columns of a hypothesis, and the number of its function among those of that many columns."""
        for size in range(self._most + 1):
            here = self._count_functions(size) * math.comb(self.width, size)
            if index < here:
                function, rank = divmod(index, math.comb(self.width, size))
                return find_set(rank, size), function
            index -= here
        raise InvalidParameter("index", index, f"below {self.size}")

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return the labels that a hypothesis gives to rows."""
        chosen, function = self._find_subset(index)
        return self._label_by(says_yes(X[:, list(chosen)]).T, function)


@dataclass(frozen=True, repr=False, init=False)
class _Literals(SubsetClass):
    """Literals over distinct columns, joined by one word: at least one literal, at most ``width``.

    A set of w columns has 2^w of them; bit i of the number among these is set where the i-th column is negated.
    """

    limit = "width"
    joined: ClassVar[str]

    def __init__(self, columns: Sequence[str] | int, *, width: int) -> None:
        object.__setattr__(self, "_columns", read_dimension("columns", columns))
        object.__setattr__(self, "_limit", count("width", width))

    def _count_functions(self, size: int) -> int:
        return 1 << size if size else 0

    @staticmethod
    def _read_literals(said: Flags, negated: int) -> Flags:
        literals: Flags = said ^ np.array([[negated >> place & 1 == 1] for place in range(len(said))])
        return literals

    def describe(self, index: int) -> str:
        """Return a hypothesis as a sentence: ``smoker AND NOT retired → 1``, or with OR."""
        chosen, negated = self._find_subset(self.check_index(index))
        literals = [
            f"NOT {self.name_column(column)}" if negated >> place & 1 else self.name_column(column)
            for place, column in enumerate(chosen)
        ]
        return f"{f' {self.joined} '.join(literals)} → 1"


@dataclass(frozen=True, repr=False, init=False)
class Conjunctions(_Literals):
    """All conjunctions of one to ``width`` literals over distinct columns, each a column or its negation.

    Guarantee: exact error counts, each of which moves by at most one where a row is replaced (B6). There are the sum of
    C(columns, w) 2^w over w from 1 to ``width``: 341,504 for at most 3 literals over 64 columns. The empty conjunction,
    which is always 1, is left out. Order: by the number of literals, then by what is negated, then by the columns.
    Needs: columns fixed before data; a cell that is 0 or missing says no, any other yes.
    """

    kind = "conjunctions"
    joined = "AND"

    def _sum_cells(self, cells: Integers, size: int) -> Integers:
        return cells if size else cells[:0]

    def _label_by(self, said: Flags, function: int) -> Flags:
        labels: Flags = np.logical_and.reduce(self._read_literals(said, function), axis=0)
        return labels


@dataclass(frozen=True, repr=False, init=False)
class Disjunctions(_Literals):
    """All disjunctions of one to ``width`` literals over distinct columns, each a column or its negation.

    Guarantee, number, order and needs: as :class:`Conjunctions`. The empty disjunction, which is always 0, is left out.
    By De Morgan a disjunction fails on one cell of its columns only, that of the conjunction of the opposite literals.
    """

    kind = "disjunctions"
    joined = "OR"

    def _sum_cells(self, cells: Integers, size: int) -> Integers:
        return cells.sum(axis=0) - cells[::-1] if size else cells[:0]

    def _label_by(self, said: Flags, function: int) -> Flags:
        labels: Flags = np.logical_or.reduce(self._read_literals(said, function), axis=0)
        return labels


@dataclass(frozen=True, repr=False, init=False)
class Parities(SubsetClass):
    """All parities of at most ``width`` columns: 1 where an odd number of them say yes. Without a width: of any columns.

    Guarantee: exact error counts, each of which moves by at most one where a row is replaced (B6). The parity of no column
    is always 0, and is the first. Order: without a width, the number of a parity is the sum of 2^column over its columns;
    with one, by the number of columns, then by that sum. Needs: columns fixed before data; a cell that is 0 or missing says
    no, any other yes; without a width, memory for 2^columns counts.
    """

    kind = "parities"
    limit = "width"

    def __init__(self, columns: Sequence[str] | int, *, width: int | None = None) -> None:
        object.__setattr__(self, "_columns", read_dimension("columns", columns))
        object.__setattr__(self, "_limit", None if width is None else count("width", width))

    @property
    def _whole(self) -> bool:
        """Whether rows are counted by all their columns at once: where that takes little more than counting sets."""
        return self._limit is None or 1 << self.width <= _CELLS_A_SET * count_sets(self.width, most=self._most)

    @property
    def size(self) -> int:
        """Return how many hypotheses there are."""
        return 1 << self.width if self._limit is None else count_sets(self.width, most=self._most)

    @property
    def _held(self) -> int:
        return (1 << self.width if self._whole else count_sets(self.width, most=self._most)) + 1

    @property
    def _errors_bytes(self) -> int:
        # Sums of 4 bytes and errors of 8 for each cell.
        return 12 * self._held + (0 if self._limit is None else 8 * self.size) if self._whole else super()._errors_bytes

    def count_steps(self, rows: int) -> int:
        """Return about how many steps it takes: every number once, and a transform of all cells."""
        return (rows + (1 << self.width)) * self.width if self._whole else super().count_steps(rows)

    def add_rows(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals: of every cell of all columns, or of small sets of columns."""
        if not self._whole:
            super().add_rows(X, y, totals)
            return
        add_cells(X, y, totals[:-1])
        totals[-1] += np.count_nonzero(y)

    def count_errors(self, totals: Integers) -> Integers:
        """Return how many rows each hypothesis gets wrong."""
        if not self._whole:
            return super().count_errors(totals)
        errors = transform_to_errors(totals[:-1], int(totals[:-1].sum()) + 2 * int(totals[-1]))
        if self._limit is None:
            return errors
        sizes = np.bitwise_count(np.arange(1 << self.width))
        chosen = np.concatenate([np.flatnonzero(sizes == size) for size in range(self._most + 1)])
        limited: Integers = errors[chosen]
        return limited

    def _count_functions(self, size: int) -> int:  # noqa: ARG002 - one of each size
        return 1

    def _sum_cells(self, cells: Integers, size: int) -> Integers:
        said = size - np.bitwise_count(np.arange(1 << size)).astype(np.int64)
        sums: Integers = cells[said % 2 == 1].sum(axis=0)
        return sums

    def _label_by(self, said: Flags, function: int) -> Flags:  # noqa: ARG002 - there is one
        labels: Flags = np.logical_xor.reduce(said, axis=0, dtype=np.bool_)
        return labels

    def _find_subset(self, index: int) -> tuple[tuple[int, ...], int]:
        if self._limit is None:
            return tuple(column for column in range(self.width) if index >> column & 1), 0
        return super()._find_subset(index)

    def describe(self, index: int) -> str:
        """Return a hypothesis as a sentence: ``smoker XOR retired → 1``; ``ALWAYS 0`` for no column."""
        chosen, _ = self._find_subset(self.check_index(index))
        return f"{' XOR '.join(self.name_column(column) for column in chosen)} → 1" if chosen else "ALWAYS 0"

"""Conjunctions and disjunctions of a few yes-or-no columns and their negations (B6, C1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from holdtrue.exact import count
from holdtrue.hypotheses.binary import SubsetClass, columns_of
from holdtrue.hypotheses.matrices import Flags, Integers

__all__ = ["Conjunctions", "Disjunctions"]


@dataclass(frozen=True, repr=False, init=False)
class _Literals(SubsetClass):
    """Literals over distinct columns, joined by one word: at least one literal, at most ``width``.

    A set of w columns has 2^w of them; bit i of the number among these is set where the i-th column is negated.
    """

    limit = "width"
    joined: ClassVar[str]

    def __init__(self, columns: Sequence[str] | int, *, width: int) -> None:
        object.__setattr__(self, "_columns", columns_of(columns))
        object.__setattr__(self, "_limit", count("width", width))

    def _functions(self, size: int) -> int:
        return 1 << size if size else 0

    @staticmethod
    def _literals(said: Flags, negated: int) -> Flags:
        literals: Flags = said ^ np.array([[negated >> place & 1 == 1] for place in range(len(said))])
        return literals

    def describe(self, index: int) -> str:
        """Return a hypothesis as a sentence: ``smoker AND NOT retired → 1``, or with OR."""
        chosen, negated = self._found(self.checked(index))
        literals = [
            f"NOT {self._name(column)}" if negated >> place & 1 else self._name(column)
            for place, column in enumerate(chosen)
        ]
        return f"{f' {self.joined} '.join(literals)} → 1"


@dataclass(frozen=True, repr=False, init=False)
class Conjunctions(_Literals):
    """All conjunctions of one to ``width`` literals over distinct columns, each a column or its negation.

    Guarantee: exact error counts, each of which moves by at most one where a row is replaced (B6). There are the sum of
    C(columns, w) 2^w over w from 1 to ``width``: 341,504 for at most 3 literals over 64 columns. The empty conjunction,
    which is always 1, is none of them. Order: by the number of literals, then by what is negated, then by the columns.
    Needs: columns fixed before data; a cell that is 0 or missing says no, any other yes.
    """

    kind = "conjunctions"
    joined = "AND"

    def _sums(self, cells: Integers, size: int) -> Integers:
        return cells if size else cells[:0]

    def _value(self, said: Flags, function: int) -> Flags:
        labels: Flags = np.logical_and.reduce(self._literals(said, function), axis=0)
        return labels


@dataclass(frozen=True, repr=False, init=False)
class Disjunctions(_Literals):
    """All disjunctions of one to ``width`` literals over distinct columns, each a column or its negation.

    Guarantee, number, order and needs: as :class:`Conjunctions`. The empty disjunction, which is always 0, is none of them.
    By De Morgan a disjunction fails on one cell of its columns only, that of the conjunction of the opposite literals.
    """

    kind = "disjunctions"
    joined = "OR"

    def _sums(self, cells: Integers, size: int) -> Integers:
        return cells.sum(axis=0) - cells[::-1] if size else cells[:0]

    def _value(self, said: Flags, function: int) -> Flags:
        labels: Flags = np.logical_or.reduce(self._literals(said, function), axis=0)
        return labels

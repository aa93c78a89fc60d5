"""Decision lists, in which the first rule that applies decides, and decision trees of depth 1 or 2 (B6, C1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import TypeAlias

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.exact import count
from holdtrue.hypotheses.binary import BinaryClass, SubsetClass
from holdtrue.hypotheses.classes import Flags, Integers, Matrix, read_dimension
from holdtrue.kernels.column_sets import list_sets, says_yes

__all__ = ["DecisionLists", "Trees"]

_LONGEST = 3
_DEEPEST = 2

Rule: TypeAlias = tuple[int, bool, bool]
"""Which of the columns, whether the rule applies where that column says no, and the label it gives."""


@dataclass(frozen=True, repr=False, init=False)
class DecisionLists(SubsetClass):
    """All functions given by at most ``length`` rules "if literal then label" over distinct columns, and a default label.

    Guarantee: exact error counts, each of which moves by at most one where a row is replaced (B6). Every function is there
    once, however many lists there are for it, so a private choice does not pay for lists that say the same: 2 functions of
    no column, and of each set of 1, 2 or 3 columns 2, 8 or 64 that depend on all of them. Order: by the number of
    columns, then by the first list for it where lists go by the order of their columns, what is negated, and labels, then
    by the columns; that list describes it. Needs: columns fixed before data, at most 3 rules; a cell that is 0 or
    missing says no, any other yes.
    """

    kind = "decisionlists"
    limit = "length"

    def __init__(self, columns: Sequence[str] | int, *, length: int) -> None:
        object.__setattr__(self, "_columns", read_dimension("columns", columns))
        object.__setattr__(self, "_limit", count("length", length))
        if length > _LONGEST:
            raise InvalidParameter("length", length, f"at most {_LONGEST} rules")

    def _count_functions(self, size: int) -> int:
        return len(_list_rules(size))

    def _sum_cells(self, cells: Integers, size: int) -> Integers:
        said = _said_by_cells(size)
        tables = np.array([_run_rules(said, rules, default=default) for rules, default in _list_rules(size)], dtype=np.int64)
        sums: Integers = tables @ cells
        return sums

    def _label_by(self, said: Flags, function: int) -> Flags:
        rules, default = _list_rules(len(said))[function]
        return _run_rules(said, rules, default=default)

    def describe(self, index: int) -> str:
        """Return a hypothesis as a sentence: ``IF smoker THEN 1 ELSE IF NOT retired THEN 0 ELSE 1``; ``ALWAYS 1``."""
        chosen, function = self._find_subset(self.check_index(index))
        rules, default = _list_rules(len(chosen))[function]
        texts = [f"IF {'NOT ' * negated}{self.name_column(chosen[place])} THEN {label:d}" for place, negated, label in rules]
        return " ELSE ".join([*texts, f"{default:d}"]) if rules else f"ALWAYS {default:d}"


def _said_by_cells(size: int) -> Flags:
    """Return what each column says in each cell: no where its bit is set."""
    return np.array([np.arange(1 << size) >> place & 1 == 0 for place in range(size)]).reshape(size, 1 << size)


@lru_cache(maxsize=_LONGEST + 1)
def _list_rules(size: int) -> tuple[tuple[tuple[Rule, ...], bool], ...]:
    """Return one list for each function that depends on all of its columns, and its default label."""
    said, cells = _said_by_cells(size), np.arange(1 << size)
    found: dict[bytes, tuple[tuple[Rule, ...], bool]] = {}
    for order in permutations(range(size)):
        for negated in product((False, True), repeat=size):
            for *labels, default in product((False, True), repeat=size + 1):
                rules = tuple(zip(order, negated, labels, strict=True))
                table = _run_rules(said, rules, default=default)
                if all((table != table[cells ^ (1 << place)]).any() for place in range(size)):
                    found.setdefault(table.tobytes(), (rules, default))
    return tuple(found.values())


def _run_rules(said: Flags, rules: tuple[Rule, ...], *, default: bool) -> Flags:
    """Return the label that a list gives, by what its columns say; the first rule is written last."""
    labels: Flags = np.full(said.shape[1], default)
    for place, negated, label in reversed(rules):
        labels[said[place] ^ negated] = label
    return labels


@dataclass(frozen=True, repr=False, init=False)
class Trees(BinaryClass):
    """All trees that look at one column and then, at depth 2, at one more on each side.

    Guarantee: exact error counts, each of which moves by at most one where a row is replaced (B6). A tree is a root, what
    it says where the root says yes, and what it says where the root says no. Each side is 0, 1, or at depth 2 another
    column or its negation: 2 d sides for d columns, and d (2 d)^2 trees; 4 d at depth 1. Some trees are the same function,
    such as those that are always 1: this makes the class larger than need be, and nothing else. Order: by root; then by the
    side of yes; then by the side of no; sides in the order 0, 1, then each other column and its negation. Needs: columns
    fixed before data, depth 1 or 2; a cell that is 0 or missing says no, any other yes.
    """

    kind = "trees"
    limit = "depth"

    def __init__(self, columns: Sequence[str] | int, *, depth: int = 2) -> None:
        object.__setattr__(self, "_columns", read_dimension("columns", columns))
        object.__setattr__(self, "_limit", count("depth", depth))
        if depth > _DEEPEST:
            raise InvalidParameter("depth", depth, "1 or 2")

    @property
    def _most(self) -> int:
        return min(self._limit or 1, self.width)

    @property
    def _sides(self) -> int:
        return 2 if self._limit == 1 else 2 * self.width

    @property
    def size(self) -> int:
        """Return how many hypotheses there are."""
        return self.width * self._sides**2

    def count_errors(self, totals: Integers) -> Integers:
        """Return how many rows each hypothesis gets wrong."""
        width = self.width
        alone = totals[1 : 1 + width]
        pairs = np.zeros((width, width), dtype=np.int64)
        if self._limit == _DEEPEST and width > 1:
            low, high = list_sets(width, 2).T
            pairs[low, high] = pairs[high, low] = totals[1 + width : -1]
        others = ~np.eye(width, dtype=np.bool_)
        rest = np.broadcast_to(alone, (width, width))
        where_yes = self._side_sums(alone, pairs[others].reshape(width, width - 1))
        where_no = self._side_sums(totals[0] - alone, (rest - pairs)[others].reshape(width, width - 1))
        where_yes += totals[-1]
        return (where_yes[:, :, np.newaxis] + where_no[:, np.newaxis, :]).reshape(-1)

    def _side_sums(self, whole: Integers, said: Integers) -> Integers:
        """Return for each root the totals of the sides, given those of its rows and of its rows that say yes to others."""
        sums = np.zeros((self.width, self._sides), dtype=np.int64)
        sums[:, 1] = whole
        if self._limit == _DEEPEST:
            sums[:, 2::2] = said
            sums[:, 3::2] = whole[:, np.newaxis] - said
        return sums

    def _split_index(self, index: int) -> tuple[int, int, int]:
        root, sides = divmod(index, self._sides**2)
        return root, *divmod(sides, self._sides)

    def _find_column(self, root: int, side: int) -> int:
        """Return the column that a side looks at: the root is passed over."""
        column = side // 2 - 1
        return column + (column >= root)

    def label_rows(self, X: Matrix, index: int) -> Flags:
        """Return the labels that a hypothesis gives to rows."""
        root, where_yes, where_no = self._split_index(index)

        def labels(side: int) -> Flags:
            if side < len(("0", "1")):
                return np.full(len(X), side == 1)
            return says_yes(X[:, self._find_column(root, side)]) ^ (side % 2 == 1)

        return np.where(says_yes(X[:, root]), labels(where_yes), labels(where_no))

    def describe(self, index: int) -> str:
        """Return a hypothesis as a sentence: ``IF smoker THEN NOT retired ELSE 0``, a column standing for its own yes."""
        root, where_yes, where_no = self._split_index(self.check_index(index))

        def text(side: int) -> str:
            if side < len(("0", "1")):
                return str(side)
            return "NOT " * (side % 2) + self.name_column(self._find_column(root, side))

        return f"IF {self.name_column(root)} THEN {text(where_yes)} ELSE {text(where_no)}"

"""Decision lists: rules looked up in turn, the first that applies decides (B6, C1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import TypeAlias

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.exact import count
from holdtrue.hypotheses.binary import SubsetClass
from holdtrue.hypotheses.classes import Flags, Integers, read_dimension

__all__ = ["DecisionLists"]

_LONGEST = 3

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
    """Return what each of so many columns says in each cell: no where its bit is set."""
    return np.array([np.arange(1 << size) >> place & 1 == 0 for place in range(size)]).reshape(size, 1 << size)


@lru_cache(maxsize=_LONGEST + 1)
def _list_rules(size: int) -> tuple[tuple[tuple[Rule, ...], bool], ...]:
    """Return one list for each function that depends on all of so many columns, and its default label."""
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

"""Atoms: cells of a public partition of all rows that there could be, on each of which every query has one value (U7.2)."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.queries.scalars import never_null
from holdtrue.queries.syntax_tree import (
    COMPARE,
    And,
    Boolean,
    CaseWhen,
    Constant,
    Field,
    Like,
    Member,
    Missing,
    Null,
    Number,
    Operator,
    Or,
    Scalar,
    Text,
    Tree,
    Truth,
    ValueComparison,
    notation,
)

__all__ = ["AtomPartition"]

Mask: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
_WHOLE = frozenset({"integer", "date", "timestamp"})
_TRUE = "true"
_MISSING = "missing"


@dataclass(frozen=True, slots=True)
class _AxisTest:
    """One test of what an axis says of a row: ``word`` is an operator, "in", "true" or "missing"."""

    word: str
    values: tuple[Any, ...] = ()
    negated: bool = False


@dataclass(slots=True)
class _Axis:
    """What the tests on one operand can tell apart: between and at the constants, missing, or whatever a test says."""

    kind: str
    type: str = ""
    nullable: bool = True
    column: str | None = None
    tests: dict[_AxisTest, int] = field(default_factory=dict)
    masks: "list[Mask] | None" = None

    def list_masks(self) -> list[Mask]:
        """Return for each test in which states it is true; states that no test tells apart are one."""
        if self.masks is None:
            tests = list(self.tests)
            rows = np.array([self._answer(test) for test in tests], dtype=np.bool_)
            self.masks = list(np.unique(rows, axis=1))
        return self.masks

    @property
    def size(self) -> int:
        return len(self.list_masks()[0])

    def _answer(self, test: _AxisTest) -> list[bool]:
        """Return what a test says in each state, NULL the last one where there may be one."""
        if test.word == _MISSING:
            there = [test.negated] * len(self._list_places())
            return [*there, not test.negated] if self.nullable else there
        if self.kind in ("like", "share"):
            found = [True, False]
        elif self.kind == "sides":
            found = [bool(COMPARE[_operator(test.word)](place, 0)) for place in (-1, 0, 1)]
        elif test.word == "in":
            points = {2 * self._constants.index(value) + 1 for value in test.values}
            found = [place in points for place in self._list_places()]
        else:
            point = 2 * self._constants.index(test.values[0]) + 1
            found = [bool(COMPARE[_operator(test.word)](place, point)) for place in self._list_places()]
        told = [value != test.negated for value in found]
        return [*told, False] if self.nullable else told

    @property
    def _constants(self) -> list[Any]:
        if self.type == "boolean":
            return [False, True]
        return sorted({value for test in self.tests for value in test.values})

    def _list_places(self) -> list[int]:
        """Return the places that a value may have among the constants: 2 i + 1 at the i-th one, even numbers between."""
        if self.kind in ("like", "share"):
            return [0, 1]
        if self.kind == "sides":
            return [0, 1, 2]
        known = self._constants
        if self.type == "boolean":
            return [1, 3]
        places = range(2 * len(known) + 1)
        return [place for place in places if self.type not in _WHOLE or _holds_integer(known, place)]


def _operator(word: str) -> Operator:
    return word  # type: ignore[return-value]  # what is neither "in", "true" nor "missing"


def _holds_integer(known: Sequence[float], place: int) -> bool:
    """Return whether there is a whole number at a place among constants, or between two of them."""
    at, between = divmod(place, 2)
    if between:
        return known[at] == math.floor(known[at])
    return at in (0, len(known)) or math.floor(known[at - 1]) + 1 < known[at]


_Key: TypeAlias = tuple[str, ...]


class AtomPartition:
    """Atoms of all conditions that were added: products of what the tests of each operand can tell apart.

    Law: whatever a row holds, missing values included, it is in one atom, on which every query that was added has the value
    that :meth:`evaluate` gives. Some atoms may hold no row that there could be, where tests of two operands depend on one
    another; that makes what is deduced wider, never wrong. A value in [0, 1] that is no constant is a coin that falls so
    with that probability: its two sides are states of an axis. ``complete`` are columns without missing values.
    """

    def __init__(self, complete: Collection[str] = ()) -> None:
        self._axes: dict[_Key, _Axis] = {}
        self._complete = complete

    @property
    def size(self) -> int:
        """Return how many atoms there are."""
        return math.prod(axis.size for axis in self._axes.values())

    def add(self, trees: Sequence[Tree], *, most: int) -> bool:
        """Add queries; return False, with nothing changed, where there would be more than ``most`` atoms."""
        before = {key: dict(axis.tests) for key, axis in self._axes.items()}
        for tree in trees:
            for key, axis, test in _list_tests(tree):
                axis.nullable = axis.nullable and axis.column not in self._complete
                held = self._axes.setdefault(key, axis)
                if test not in held.tests:
                    held.tests[test] = len(held.tests)
                    held.masks = None
        if self.size <= most:
            return True
        self._axes = {key: axis for key, axis in self._axes.items() if key in before}
        for key, axis in self._axes.items():
            if len(axis.tests) > len(before[key]):
                axis.tests, axis.masks = before[key], None
        return False

    def evaluate(self, tree: Tree) -> Floats:
        """Return the value of a query that was added on every atom, in one order for all queries."""
        shape = tuple(axis.size for axis in self._axes.values())
        found = self._find_rows(tree) if isinstance(tree, Boolean) else self._find_values(tree)
        return np.broadcast_to(np.asarray(found, dtype=np.float64), shape or (1,)).reshape(-1)

    def _find_rows(self, tree: Boolean) -> Any:  # noqa: ANN401 - an array that broadcasts to the shape of all axes
        match tree:
            case Constant(value=value):
                return np.bool_(value)
            case And(children=children):
                return reduce(np.logical_and, map(self._find_rows, children))
            case Or(children=children):
                return reduce(np.logical_or, map(self._find_rows, children))
            case _:
                key, _, test = next(_list_tests(tree))
                return self._spread(key, test)

    def _find_values(self, tree: Scalar) -> Any:  # noqa: ANN401 - as above
        match tree:
            case Number(value=value):
                return np.float64(min(max(value, 0), 1))
            case Missing():
                return np.float64(0)
            case CaseWhen(branches=branches, default=default):
                found = self._find_values(default)
                for condition, chosen in reversed(branches):
                    found = np.where(self._find_rows(condition), self._find_values(chosen), found)
                return found
            case _:
                key, _, test = next(_list_tests(tree))
                return self._spread(key, test).astype(np.float64)

    def _spread(self, key: _Key, test: _AxisTest) -> Mask:
        """Return the mask of a test along its own axis, of length 1 along all others."""
        axis = self._axes[key]
        shape = [1] * len(self._axes)
        shape[list(self._axes).index(key)] = axis.size
        return axis.list_masks()[axis.tests[test]].reshape(shape)


def _list_tests(tree: Tree) -> Iterator[tuple[_Key, _Axis, _AxisTest]]:  # noqa: C901 - one case for each kind of tree
    """Yield each test of a query, the axis it belongs to, and that axis as it is when it has no test."""
    match tree:
        case Number() | Missing() | Constant():
            return
        case And() | Or():
            for child in tree.children:
                yield from _list_tests(child)
        case CaseWhen(branches=branches, default=default):
            for condition, value in branches:
                yield from _list_tests(condition)
                yield from _list_tests(value)
            yield from _list_tests(default)
        case Truth(column=name, wanted=wanted):
            yield *_value_axis(Field(name, "boolean")), _AxisTest("=", (wanted,))
        case ValueComparison(operator=symbol, left=left, right=Number() | Text() as right):
            yield *_value_axis(left), _AxisTest(symbol, (right.value,))
        case ValueComparison(operator=symbol, left=left, right=right):
            nullable = not (never_null(left) and never_null(right))
            yield ("sides", notation(left), notation(right)), _Axis("sides", nullable=nullable), _AxisTest(symbol)
        case Member(operand=operand, values=values, negated=negated):
            yield *_value_axis(operand), _AxisTest("in", tuple(values), negated)
        case Like(operand=operand, pattern=pattern, negated=negated):
            axis = _Axis("like", nullable=not never_null(operand))
            yield ("like", notation(operand), pattern), axis, _AxisTest(_TRUE, (), negated)
        case Null(operand=operand, negated=negated):
            yield *_value_axis(operand), _AxisTest(_MISSING, (), negated)
        case _:
            yield ("share", notation(tree)), _Axis("share", nullable=False), _AxisTest(_TRUE)


def _value_axis(operand: Scalar) -> tuple[_Key, _Axis]:
    """Return the axis of an operand."""
    column = operand.column if type(operand) is Field else None
    return ("value", notation(operand)), _Axis("value", operand.type, not never_null(operand), column)

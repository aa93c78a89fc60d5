"""The reference: what a query means on arrays, in NumPy, to the last bit what the engines compute from emitted text.

A column comes as :class:`Values`. Numbers are evaluated as 64-bit integers with a mask of the rows where they are there,
or as doubles in which NaN stands for NULL; texts as codes into a list of different texts, so that a test on texts is
made once for each different text.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter
from holdtrue.queries.like import matcher
from holdtrue.queries.scalars import lower_ascii, upper_ascii
from holdtrue.queries.syntax_tree import (
    COMPARE,
    And,
    Arithmetic,
    Boolean,
    Case,
    Comparison,
    Constant,
    Convert,
    Field,
    Function,
    Like,
    Member,
    Missing,
    Negate,
    Null,
    Number,
    Or,
    Query,
    Scalar,
    Text,
    Truth,
    checked_bits,
)

__all__ = ["Values", "evaluate", "satisfies"]

Mask: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A column: booleans, 64-bit integers, doubles or texts, and where they are valid (everywhere if None).

    Texts are an array of str (object or StringDType, None where not valid), or codes into ``dictionary``, whose texts
    are different from one another. A code at a row that is not valid may be any number.
    """

    data: npt.NDArray[Any]
    valid: Mask | None = None
    dictionary: tuple[str, ...] | None = None


Columns: TypeAlias = Mapping[str, Values]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Integers or codes with the rows where they are there; reals have NaN instead."""

    data: npt.NDArray[Any]
    there: Mask
    words: tuple[str, ...] = ()


def evaluate(query: Query, columns: Columns, bits: int, *, rows: int | None = None) -> Integers:
    """Return the grid value of each row: round(clamp(value, 0, 1) * 2^bits), halves up, NULL and NaN counting 0.

    ``columns`` holds the columns that the query reads; ``rows`` need be given only where that may be none.
    """
    one = 1 << checked_bits(bits)
    tree = query.tree
    if isinstance(tree, Boolean):
        return satisfies(tree, columns, rows=rows).astype(np.int64) * one
    with np.errstate(all="ignore"):
        held = _Evaluation(columns, rows).scalar(tree)
        if tree.type == "integer":
            return (held.there & (held.data > 0)).astype(np.int64) * one
        clamped = np.where(held.there, np.clip(held.data, 0.0, 1.0), 0.0)
        return (np.floor(clamped * (2.0 * one)).astype(np.int64) + 1) >> 1


def satisfies(tree: Boolean, columns: Columns, *, rows: int | None = None) -> Mask:
    """Return the rows of which a condition is true; ``rows`` need be given only where there may be no columns."""
    with np.errstate(all="ignore"):
        return _Evaluation(columns, rows).condition(tree)


class _Evaluation:
    def __init__(self, columns: Columns, rows: int | None) -> None:
        self._columns = columns
        if rows is None and not columns:
            raise InvalidParameter("columns", {}, "one column at least, where rows is not given")
        self._rows = len(next(iter(columns.values())).data) if rows is None else rows
        self._fields: dict[str, _Held] = {}

    def _everywhere(self, *, value: bool) -> Mask:
        return np.full(self._rows, value)

    def condition(self, tree: Boolean) -> Mask:
        match tree:
            case Constant(value=value):
                return self._everywhere(value=value)
            case And(children=children):
                # One at a time: a list of all would need the memory of all.
                return functools.reduce(np.logical_and, (self.condition(child) for child in children))
            case Or(children=children):
                return functools.reduce(np.logical_or, (self.condition(child) for child in children))
            case Truth(column=name, wanted=wanted):
                held = self.scalar(Field(name, "boolean"))
                return _mask(held.there & (held.data == wanted))
            case Comparison(operator=symbol, left=left, right=right):
                return self._compared(COMPARE[symbol], left, right)
            case Member(operand=operand, values=values, negated=negated):
                held = self.scalar(operand)
                texts = operand.type == "text"
                found = _chosen(held, set(values).__contains__) if texts else np.isin(held.data, np.array(values))
                return _mask(held.there & (found != negated))
            case Like(operand=operand, pattern=pattern, negated=negated):
                held = self.scalar(operand)
                return _mask(held.there & (_chosen(held, matcher(pattern)) != negated))
            case Null(operand=operand, negated=negated):
                return _mask(self.scalar(operand).there == negated)
            case _:
                assert_never(tree)

    def _compared(self, compare: Callable[[Any, Any], Any], left: Scalar, right: Scalar) -> Mask:
        one = self.scalar(left)
        if isinstance(right, Text):
            return _mask(one.there & _chosen(one, lambda word: bool(compare(word, right.value))))
        other = self.scalar(right)
        there = one.there & other.there
        if left.type != "text":
            return _mask(there & compare(one.data, other.data))
        # Ranks in one order of code points take the place of the texts.
        ranks = {word: rank for rank, word in enumerate(sorted({*one.words, *other.words}))}
        first, second = (
            _taken(held, np.array([ranks[word] for word in held.words], dtype=np.int64)) for held in (one, other)
        )
        return _mask(there & compare(first, second))

    def scalar(self, tree: Scalar) -> _Held:  # noqa: C901 - one case for each kind of scalar
        match tree:
            case Number(value=value):
                return _Held(
                    np.full(self._rows, value, dtype=np.float64 if tree.type == "real" else np.int64),
                    self._everywhere(value=True),
                )
            case Text(value=value):
                return _Held(np.zeros(self._rows, dtype=np.int64), self._everywhere(value=True), (value,))
            case Missing(type=kind):
                data = np.full(self._rows, np.nan) if kind == "real" else np.zeros(self._rows, dtype=np.int64)
                return _Held(data, self._everywhere(value=False))
            case Field(column=name, type=kind):
                if name not in self._fields:
                    self._fields[name] = _column(self._columns[name], kind)
                return self._fields[name]
            case Negate(operand=operand):
                held = self.scalar(operand)
                return _Held(-held.data, held.there)
            case Convert(operand=operand, type=kind):
                held = self.scalar(operand)
                return _real(np.where(held.there, held.data, np.nan)) if kind == "real" else _cut(held)
            case Arithmetic():
                return self._arithmetic(tree)
            case Case(branches=branches, default=default):
                return self._case(branches, default)
            case Function():
                return self._function(tree)
            case _:
                assert_never(tree)

    def _arithmetic(self, tree: Arithmetic) -> _Held:
        left, right = self.scalar(tree.left), self.scalar(tree.right)
        match tree.operator:
            case "+":
                done = left.data + right.data
            case "-":
                done = left.data - right.data
            case "*":
                done = left.data * right.data
            case "/":
                done = np.where(right.data == 0, 0.0, left.data / right.data)
        return _real(done) if tree.type == "real" else _Held(done, left.there & right.there)

    def _case(self, branches: tuple[tuple[Boolean, Scalar], ...], default: Scalar) -> _Held:
        last = self.scalar(default)
        data, there = last.data, last.there
        for condition, value in reversed(branches):
            chosen, held = self.condition(condition), self.scalar(value)
            data, there = np.where(chosen, held.data, data), np.where(chosen, held.there, there)
        return _Held(data, there)

    def _function(self, tree: Function) -> _Held:
        operands = [self.scalar(operand) for operand in tree.operands]
        first = operands[0]
        match tree.name:
            case "ABS":
                return _Held(np.abs(first.data), first.there)
            case "LENGTH":
                return _Held(_taken(first, np.array([len(word) for word in first.words], dtype=np.int64)), first.there)
            case "LOWER" | "UPPER":
                change = lower_ascii if tree.name == "LOWER" else upper_ascii
                return _coded(first, [change(word) for word in first.words])
            case "NULLIF":
                same = self._compared(np.equal, *tree.operands)
                if tree.type == "real":
                    return _real(np.where(same, np.nan, first.data))
                return _Held(first.data, first.there & ~same, first.words)
            case "COALESCE":
                first, *rest = _shared(operands) if tree.type == "text" else operands
                for held in rest:
                    first = _Held(np.where(first.there, first.data, held.data), first.there | held.there, first.words)
                return first
            case "LEAST" | "GREATEST":
                better = np.less if tree.name == "LEAST" else np.greater
                for held in operands[1:]:
                    replaced = held.there & (~first.there | better(held.data, first.data))
                    first = _Held(np.where(replaced, held.data, first.data), first.there | held.there)
                return first
            case _:
                assert_never(tree.name)


def _mask(rows: npt.ArrayLike) -> Mask:
    return np.asarray(rows, dtype=np.bool_)


def _real(data: npt.NDArray[np.float64]) -> _Held:
    return _Held(data, ~np.isnan(data))


def _cut(held: _Held) -> _Held:
    there = held.there & (held.data >= -(2.0**63)) & (held.data < 2.0**63)
    return _Held(np.where(there, held.data, 0.0).astype(np.int64), there)


def _column(values: Values, kind: str) -> _Held:
    valid = np.ones(len(values.data), dtype=np.bool_) if values.valid is None else values.valid
    match kind:
        case "real":
            return _real(np.where(valid, values.data, np.nan).astype(np.float64))
        case "integer":
            return _Held(np.where(valid, values.data, 0).astype(np.int64), valid)
        case "boolean":
            return _Held(np.where(valid, values.data, False).astype(np.bool_), valid)  # noqa: FBT003 - any value will do
        case _ if values.dictionary is not None:
            return _Held(np.where(valid, values.data, 0).astype(np.int64), valid, values.dictionary)
        case _:
            return _encoded(values.data, valid)


def _encoded(data: npt.NDArray[Any], valid: Mask) -> _Held:
    codes: dict[str, int] = {}
    there = valid & np.array([isinstance(word, str) for word in data], dtype=np.bool_)
    listed = [codes.setdefault(word, len(codes)) if here else 0 for word, here in zip(data, there, strict=True)]
    return _Held(np.array(listed, dtype=np.int64), there, tuple(codes))


def _taken(held: _Held, by_word: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return for each row what was found for its text; anything at all where there is none."""
    return by_word[held.data] if held.words else np.zeros(len(held.data), dtype=by_word.dtype)


def _chosen(held: _Held, test: Callable[[str], bool]) -> Mask:
    return _taken(held, np.array([test(word) for word in held.words], dtype=np.bool_))


def _coded(held: _Held, words: list[str]) -> _Held:
    """Return texts with each word replaced by another, equal ones under one code."""
    codes: dict[str, int] = {}
    by_word = np.array([codes.setdefault(word, len(codes)) for word in words], dtype=np.int64)
    return _Held(_taken(held, by_word), held.there, tuple(codes))


def _shared(operands: list[_Held]) -> list[_Held]:
    """Return texts coded into one list of words."""
    words = list(dict.fromkeys(word for held in operands for word in held.words))
    places = {word: place for place, word in enumerate(words)}
    return [
        _Held(_taken(held, np.array([places[word] for word in held.words], dtype=np.int64)), held.there, tuple(words))
        for held in operands
    ]

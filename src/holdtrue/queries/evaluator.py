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
from holdtrue.queries.dates import DAY, part_of_days
from holdtrue.queries.like import compile_pattern
from holdtrue.queries.scalars import lower_ascii, upper_ascii
from holdtrue.queries.syntax_tree import (
    COMPARE,
    And,
    Arithmetic,
    Boolean,
    CaseWhen,
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
    ValueComparison,
    checked_bits,
    unfold_chain,
)

__all__ = ["Values", "compute", "evaluate", "satisfies"]

Mask: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A column: booleans, 64-bit integers, doubles or texts, and where they are valid (everywhere if None).

    Dates and timestamps are integers, within the calendar where they are valid.

    Texts are an array of str (object or StringDType, None where not valid), or codes into ``dictionary``, whose texts
    are different from one another. A code at a row that is not valid may be any number.
    """

    data: npt.NDArray[Any]
    valid: Mask | None = None
    dictionary: tuple[str, ...] | None = None


Columns: TypeAlias = Mapping[str, Values]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Integers or codes, and the rows that have one; reals have NaN where there is none."""

    data: npt.NDArray[Any]
    there: Mask
    words: tuple[str, ...] = ()


def evaluate(query: Query, columns: Columns, bits: int, *, rows: int | None = None) -> Integers:
    """Return the grid value of each row: round(clamp(value, 0, 1) * 2^bits), halves up, NULL and NaN counting 0.

    ``columns`` holds the columns that the query reads; ``rows`` is needed only where there may be none.
    """
    one = 1 << checked_bits(bits)
    tree = query.tree
    if isinstance(tree, Boolean):
        return satisfies(tree, columns, rows=rows).astype(np.int64) * one
    with np.errstate(all="ignore"):
        held = _TreeEvaluation(columns, rows).find_values(tree)
        if tree.type == "integer":
            return (held.there & (held.data > 0)).astype(np.int64) * one
        clamped = np.where(held.there, np.clip(held.data, 0.0, 1.0), 0.0)
        return (np.floor(clamped * (2.0 * one)).astype(np.int64) + 1) >> 1


def satisfies(tree: Boolean, columns: Columns, *, rows: int | None = None) -> Mask:
    """Return which rows satisfy a condition; ``rows`` is needed only where there may be no columns."""
    with np.errstate(all="ignore"):
        return _TreeEvaluation(columns, rows).find_rows(tree)


def compute(tree: Scalar, columns: Columns, *, rows: int) -> Values:
    """Return the value of each row, and where it is there: neither NULL nor NaN."""
    with np.errstate(all="ignore"):
        held = _TreeEvaluation(columns, rows).find_values(tree)
    return Values(held.data, held.there, held.words if tree.type == "text" else None)


class _TreeEvaluation:
    def __init__(self, columns: Columns, rows: int | None) -> None:
        self._columns = columns
        if rows is None and not columns:
            raise InvalidParameter.saying("columns", "give rows where there are no columns")
        self._rows = len(next(iter(columns.values())).data) if rows is None else rows
        self._fields: dict[str, _Held] = {}

    def _fill_rows(self, *, value: bool) -> Mask:
        return np.full(self._rows, value)

    def find_rows(self, tree: Boolean) -> Mask:
        match tree:
            case Constant(value=value):
                return self._fill_rows(value=value)
            case And(children=children):
                # One at a time: a list of all would need the memory of all.
                return functools.reduce(np.logical_and, (self.find_rows(child) for child in children))
            case Or(children=children):
                return functools.reduce(np.logical_or, (self.find_rows(child) for child in children))
            case Truth(column=name, wanted=wanted):
                held = self.find_values(Field(name, "boolean"))
                return _to_mask(held.there & (held.data == wanted))
            case ValueComparison(operator=symbol, left=left, right=right):
                return self._compare_operands(COMPARE[symbol], left, right)
            case Member(operand=operand, values=values, negated=negated):
                held = self.find_values(operand)
                texts = operand.type == "text"
                found = _test_words(held, set(values).__contains__) if texts else np.isin(held.data, np.array(values))
                return _to_mask(held.there & (found != negated))
            case Like(operand=operand, pattern=pattern, negated=negated):
                held = self.find_values(operand)
                return _to_mask(held.there & (_test_words(held, compile_pattern(pattern)) != negated))
            case Null(operand=operand, negated=negated):
                return _to_mask(self.find_values(operand).there == negated)
            case _:
                assert_never(tree)

    def _compare_operands(self, compare: Callable[[Any, Any], Any], left: Scalar, right: Scalar) -> Mask:
        one = self.find_values(left)
        if isinstance(right, Text):
            return _to_mask(one.there & _test_words(one, lambda word: bool(compare(word, right.value))))
        other = self.find_values(right)
        there = one.there & other.there
        if left.type != "text":
            return _to_mask(there & compare(one.data, other.data))
        # Ranks in one order of code points take the place of the texts.
        ranks = {word: rank for rank, word in enumerate(sorted({*one.words, *other.words}))}
        first, second = (
            _look_up(held, np.array([ranks[word] for word in held.words], dtype=np.int64)) for held in (one, other)
        )
        return _to_mask(there & compare(first, second))

    def find_values(self, tree: Scalar) -> _Held:  # noqa: C901 - one case for each kind of scalar
        match tree:
            case Number(value=value):
                return _Held(
                    np.full(self._rows, value, dtype=np.float64 if tree.type == "real" else np.int64),
                    self._fill_rows(value=True),
                )
            case Text(value=value):
                return _Held(np.zeros(self._rows, dtype=np.int64), self._fill_rows(value=True), (value,))
            case Missing(type=kind):
                data = np.full(self._rows, np.nan) if kind == "real" else np.zeros(self._rows, dtype=np.int64)
                return _Held(data, self._fill_rows(value=False))
            case Field(column=name, type=kind):
                if name not in self._fields:
                    self._fields[name] = _read_column(self._columns[name], kind)
                return self._fields[name]
            case Negate(operand=operand):
                held = self.find_values(operand)
                return _Held(-held.data, held.there)
            case Convert(operand=operand, type=kind):
                return _convert_values(self.find_values(operand), kind)
            case Arithmetic():
                first, steps = unfold_chain(tree)
                return functools.reduce(self._apply_step, steps, self.find_values(first))
            case CaseWhen(branches=branches, default=default):
                return self._choose_branch(branches, default)
            case Function():
                return self._apply_function(tree)
            case _:
                assert_never(tree)

    def _apply_step(self, left: _Held, step: Arithmetic) -> _Held:
        right = self.find_values(step.right)
        match step.operator:
            case "+":
                done = left.data + right.data
            case "-":
                done = left.data - right.data
            case "*":
                done = left.data * right.data
            case "/":
                done = np.where(right.data == 0, 0.0, left.data / right.data)
        return _to_real(done) if step.type == "real" else _Held(done, left.there & right.there)

    def _choose_branch(self, branches: tuple[tuple[Boolean, Scalar], ...], default: Scalar) -> _Held:
        last = self.find_values(default)
        data, there = last.data, last.there
        for condition, value in reversed(branches):
            chosen, held = self.find_rows(condition), self.find_values(value)
            data, there = np.where(chosen, held.data, data), np.where(chosen, held.there, there)
        return _Held(data, there)

    def _apply_function(self, tree: Function) -> _Held:  # noqa: C901 - one case for each kind of function
        operands = [self.find_values(operand) for operand in tree.operands]
        first = operands[0]
        match tree.name:
            case "ABS":
                return _Held(np.abs(first.data), first.there)
            case "LENGTH":
                return _Held(_look_up(first, np.array([len(word) for word in first.words], dtype=np.int64)), first.there)
            case "YEAR" | "MONTH" | "DAY" | "WEEKDAY":
                return _Held(part_of_days(tree.name, first.data), first.there)
            case "DAYS":
                return _Held(first.data - operands[1].data, first.there & operands[1].there)
            case "LOWER" | "UPPER":
                change = lower_ascii if tree.name == "LOWER" else upper_ascii
                return _recode_words(first, [change(word) for word in first.words])
            case "NULLIF":
                same = self._compare_operands(np.equal, *tree.operands)
                if tree.type == "real":
                    return _to_real(np.where(same, np.nan, first.data))
                return _Held(first.data, first.there & ~same, first.words)
            case "COALESCE":
                first, *rest = _share_words(operands) if tree.type == "text" else operands
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


def _to_mask(rows: npt.ArrayLike) -> Mask:
    return np.asarray(rows, dtype=np.bool_)


def _to_real(data: npt.NDArray[np.float64]) -> _Held:
    return _Held(data, ~np.isnan(data))


def _convert_values(held: _Held, kind: str) -> _Held:
    match kind:
        case "real":
            return _to_real(np.where(held.there, held.data, np.nan))
        case "timestamp":
            return _Held(held.data * DAY, held.there)
        case "date":
            return _Held(held.data // DAY, held.there)
        case _:
            return _truncate_reals(held)


def _truncate_reals(held: _Held) -> _Held:
    there = held.there & (held.data >= -(2.0**63)) & (held.data < 2.0**63)
    return _Held(np.where(there, held.data, 0.0).astype(np.int64), there)


def _read_column(values: Values, kind: str) -> _Held:
    valid = np.ones(len(values.data), dtype=np.bool_) if values.valid is None else values.valid
    match kind:
        case "real":
            return _to_real(np.where(valid, values.data, np.nan).astype(np.float64))
        case "integer" | "date" | "timestamp":
            return _Held(np.where(valid, values.data, 0).astype(np.int64), valid)
        case "boolean":
            return _Held(np.where(valid, values.data, False).astype(np.bool_), valid)  # noqa: FBT003 - any value will do
        case _ if values.dictionary is not None:
            return _Held(np.where(valid, values.data, 0).astype(np.int64), valid, values.dictionary)
        case _:
            return _encode_texts(values.data, valid)


def _encode_texts(data: npt.NDArray[Any], valid: Mask) -> _Held:
    codes: dict[str, int] = {}
    there = valid & np.array([isinstance(word, str) for word in data], dtype=np.bool_)
    listed = [codes.setdefault(word, len(codes)) if here else 0 for word, here in zip(data, there, strict=True)]
    return _Held(np.array(listed, dtype=np.int64), there, tuple(codes))


def _look_up(held: _Held, by_word: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return for each row what was found for its text; anything at all where there is none."""
    return by_word[held.data] if held.words else np.zeros(len(held.data), dtype=by_word.dtype)


def _test_words(held: _Held, test: Callable[[str], bool]) -> Mask:
    return _look_up(held, np.array([test(word) for word in held.words], dtype=np.bool_))


def _recode_words(held: _Held, words: list[str]) -> _Held:
    """Return texts with each word replaced by another, equal ones under one code."""
    codes: dict[str, int] = {}
    by_word = np.array([codes.setdefault(word, len(codes)) for word in words], dtype=np.int64)
    return _Held(_look_up(held, by_word), held.there, tuple(codes))


def _share_words(operands: list[_Held]) -> list[_Held]:
    """Return texts coded into one list of words."""
    words = list(dict.fromkeys(word for held in operands for word in held.words))
    places = {word: place for place, word in enumerate(words)}
    return [
        _Held(_look_up(held, np.array([places[word] for word in held.words], dtype=np.int64)), held.there, tuple(words))
        for held in operands
    ]

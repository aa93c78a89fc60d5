"""Scalars in canonical form: every function here returns the one tree for what it is asked to build.

Operands are brought to one type, constants are folded where the result is finite, operands that commute are sorted,
NULLs that cannot matter are dropped. Each rewriting keeps the value on every row, NULL included.

:func:`range_of` says between which ends a scalar lies on every row that there could be, from types alone. Guarantee: a
value that is there lies between ``low`` and ``high``, and where ``nan`` is False an engine never computes a NaN for it.
Ends of reals are the rounded results of the ends: rounding is monotone, so they enclose every rounded result. Nothing is
taken from declared bounds, since a row that breaks its bounds must not be able to raise.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, assert_never

import numpy as np

from holdtrue.errors import UnsupportedQuery
from holdtrue.queries.cards import HIGHEST, LOWEST, Type
from holdtrue.queries.dates import DAY, LIMITS, is_date, part_of_days, read_date, read_timestamp
from holdtrue.queries.syntax_tree import (
    Aggregate,
    Arithmetic,
    Boolean,
    CaseWhen,
    Constant,
    Convert,
    Field,
    Function,
    Missing,
    Name,
    Negate,
    Number,
    Part,
    Scalar,
    Symbol,
    Text,
    notation,
    unfold_chain,
)

__all__ = [
    "MOST_ROWS",
    "Range",
    "align_dates",
    "bounds_of",
    "case",
    "convert",
    "fits_integer",
    "function",
    "lower_ascii",
    "make_arithmetic",
    "negate",
    "never_null",
    "range_of",
    "unify",
    "upper_ascii",
]

_SMALL = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_LARGE = {ord(letter): letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}
# No text is nearly as long; what counts is that sums of lengths stay within 64 bits.
_LONGEST_TEXT = 2**40
MOST_ROWS = 2**31 - 1
"""The most rows of one table that belong to units."""
_Number: TypeAlias = int | float
_OPERATIONS: dict[Symbol, Callable[[_Number, _Number], _Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def lower_ascii(text: str) -> str:
    """Return a text with A to Z in lower case: the mapping on which all engines agree."""
    return text.translate(_SMALL)


def upper_ascii(text: str) -> str:
    """Return a text with a to z in upper case."""
    return text.translate(_LARGE)


def convert(tree: Scalar, kind: Type) -> Scalar:
    """Return a number as another type of number: integers as the nearest real, reals cut towards zero."""
    held = tree.type
    if isinstance(tree, Missing):
        return Missing(kind)
    if held == kind:
        return tree
    if kind in LIMITS and (held in LIMITS or isinstance(tree, Text)):
        return _convert_moment(tree, kind)
    if not {held, kind} <= {"integer", "real"}:
        message = f"a value of type {held} cannot be converted to {kind}; CAST converts only between numbers, or dates"
        raise UnsupportedQuery(message)
    if isinstance(tree, Number):
        if kind == "real":
            return Number(float(tree.value))
        whole = math.trunc(tree.value)
        return Number(whole) if LOWEST <= whole <= HIGHEST else Missing()
    return Convert(tree, kind)


def _convert_moment(tree: Scalar, kind: Type) -> Scalar:
    """Return a date as a timestamp, a timestamp as a date, or a constant text as either."""
    if isinstance(tree, Text):
        return Number(read_date(tree.value) if kind == "date" else read_timestamp(tree.value), kind)
    if isinstance(tree, Number) and isinstance(tree.value, int):
        return Number(tree.value // DAY if kind == "date" else tree.value * DAY, kind)
    return Convert(tree, kind)


def align_dates(trees: Sequence[Scalar], *, where: str) -> tuple[Scalar, ...]:
    """Return scalars, brought to dates or to timestamps if one of them is either: constant texts are read as such."""
    if all(tree.type not in LIMITS for tree in trees):
        return tuple(trees)
    read = [
        convert(tree, "date" if is_date(tree.value) else "timestamp") if isinstance(tree, Text) else tree for tree in trees
    ]
    kinds = {tree.type for tree in read if not isinstance(tree, Missing)}
    if not kinds <= LIMITS.keys():
        message = f"{where} mixes dates with numbers or text; write a date as DATE '2026-01-31'"
        raise UnsupportedQuery(message)
    kind: Type = "timestamp" if "timestamp" in kinds else "date"
    return tuple([convert(tree, kind) for tree in read])


def unify(trees: Iterable[Scalar], *, where: str) -> tuple[Scalar, ...]:
    """Return scalars brought to one type: reals where one of them is real. Text, numbers and dates do not mix."""
    held = align_dates(tuple(trees), where=where)
    kinds = {tree.type for tree in held if not isinstance(tree, Missing)}
    if not kinds.isdisjoint(LIMITS):
        return held
    if "text" in kinds and len(kinds) > 1:
        message = f"{where} mixes text and numbers; put single quotes around text, and none around numbers"
        raise UnsupportedQuery(message)
    kind: Type = "text" if "text" in kinds else "real" if "real" in kinds else "integer"
    return tuple(convert(tree, kind) for tree in held)


def make_arithmetic(symbol: Symbol, left: Scalar, right: Scalar) -> Scalar:
    """Return ``left symbol right``: of integers where the result is proven to fit, of reals otherwise.

    Dates are subtracted from one another, which gives days.
    """
    if left.type in LIMITS or right.type in LIMITS:
        return _subtract_dates(symbol, left, right)
    left, right = unify_numbers((left, right), where=f"the operator {symbol}")
    if symbol == "/" or not (left.type == "real" or fits_integer(Arithmetic(symbol, left, right))):
        left, right = convert(left, "real"), convert(right, "real")
    if symbol == "/" and isinstance(right, Number) and right.value == 0:
        return Number(0.0)
    if isinstance(right, Missing) or (isinstance(left, Missing) and (symbol != "/" or isinstance(right, Number))):
        return Missing()
    if isinstance(left, Number) and isinstance(right, Number):
        folded = _OPERATIONS[symbol](left.value, right.value)
        if math.isfinite(folded):
            return Number(folded)
    if symbol in ("+", "*") and _sort_key(symbol, right) < _sort_key(symbol, left):
        left, right = right, left
    return Arithmetic(symbol, left, right)


def _subtract_dates(symbol: Symbol, left: Scalar, right: Scalar) -> Scalar:
    left, right = align_dates((left, right), where=f"the operator {symbol}")
    if symbol != "-" or "timestamp" in (left.type, right.type):
        message = (
            "dates can only be subtracted from one another, in days; write CAST(... AS DATE) for the date of a timestamp"
        )
        raise UnsupportedQuery(message)
    if isinstance(left, Missing) or isinstance(right, Missing):
        return Missing()
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value - right.value)
    return Function("DAYS", (left, right))


def _sort_key(symbol: Symbol, operand: Scalar) -> tuple[bool, str]:
    """Return what operands that commute are sorted by: chains first, since they need no parentheses on the left."""
    level = ("+", "-") if symbol == "+" else ("*", "/")
    return not (isinstance(operand, Arithmetic) and operand.operator in level), notation(operand)


def negate(operand: Scalar) -> Scalar:
    """Return the number with its sign changed."""
    (operand,) = unify_numbers((operand,), where="unary minus")
    match operand:
        case Missing():
            return Missing()
        case Negate(operand=inner):
            return inner
        case Number(value=value):
            return Number(float(-value) if value == LOWEST else -value)
        case _:
            return Negate(operand if fits_integer(Negate(operand)) or operand.type == "real" else convert(operand, "real"))


def unify_numbers(trees: Sequence[Scalar], *, where: str) -> tuple[Scalar, ...]:
    """Return scalars brought to one type of numbers; refuse text and dates."""
    for tree in trees:
        if tree.type == "text" or tree.type in LIMITS:
            message = f"{where} takes numbers, not {'text' if tree.type == 'text' else 'dates'}"
            raise UnsupportedQuery(message)
    return unify(trees, where=where)


def case(branches: Iterable[tuple[Boolean, Scalar]], default: Scalar) -> Scalar:
    """Return the value of the first branch whose condition is true."""
    kept: list[tuple[Boolean, Scalar]] = []
    for condition, value in branches:
        if condition == Constant(value=True):
            default = value
            break
        if condition != Constant(value=False):
            kept.append((condition, value))
    *values, default = unify_numbers([*(value for _, value in kept), default], where="CASE")
    kept = [(condition, value) for (condition, _), value in zip(kept, values, strict=True)]
    while kept and kept[-1][1] == default:
        kept.pop()
    if kept:
        return CaseWhen(tuple(kept), default)
    return Missing() if isinstance(default, Missing) else default


def function(name: Name, operands: Sequence[Scalar]) -> Scalar:
    """Return the application of a function of the language."""
    match name:
        case "ABS":
            return _simplify_absolute(*unify_numbers(operands, where=name))
        case "LEAST" | "GREATEST":
            dated = any(operand.type in LIMITS for operand in operands)
            return _simplify_extreme(name, (unify if dated else unify_numbers)(operands, where=name))
        case "COALESCE":
            return _simplify_coalesce(unify(operands, where=name))
        case "NULLIF":
            return _simplify_nullif(*unify(operands, where=name))
        case "LENGTH" | "LOWER" | "UPPER":
            return _simplify_text(name, operands[0])
        case "YEAR" | "MONTH" | "DAY" | "WEEKDAY":
            return _simplify_part(name, operands[0])
        case "DAYS":
            return _subtract_dates("-", *operands)


def _simplify_absolute(operand: Scalar) -> Scalar:
    match operand:
        case Missing():
            return Missing()
        case Number(value=value):
            return Number(float(-value) if value == LOWEST else abs(value))
        case _:
            tree = Function("ABS", (operand,))
            return tree if operand.type == "real" or fits_integer(tree) else Function("ABS", (convert(operand, "real"),))


def _flatten_operands(name: Name, operands: Iterable[Scalar]) -> list[Scalar]:
    flat: dict[Scalar, None] = {}
    for operand in operands:
        if isinstance(operand, Function) and operand.name == name:
            flat.update(dict.fromkeys(operand.operands))
        elif not isinstance(operand, Missing):
            flat[operand] = None
    return list(flat)


def _simplify_extreme(name: Name, operands: Sequence[Scalar]) -> Scalar:
    flat = _flatten_operands(name, operands)
    constants = [operand for operand in flat if isinstance(operand, Number)]
    if constants:
        pick = min if name == "LEAST" else max
        rest = [operand for operand in flat if not isinstance(operand, Number)]
        flat = [*rest, pick(constants, key=lambda constant: constant.value)]
    if not flat:
        return Missing()
    return flat[0] if len(flat) == 1 else Function(name, tuple(sorted(flat, key=notation)))


def _simplify_coalesce(operands: Sequence[Scalar]) -> Scalar:
    flat = _flatten_operands("COALESCE", operands)
    constant = next((place for place, operand in enumerate(flat) if isinstance(operand, (Number, Text))), len(flat))
    flat = flat[: constant + 1]
    if not flat:
        return Missing()
    return flat[0] if len(flat) == 1 else Function("COALESCE", tuple(flat))


def _simplify_nullif(operand: Scalar, unwanted: Scalar) -> Scalar:
    if isinstance(operand, Missing) or operand == unwanted:
        return Missing()
    constants = (Number, Text)
    if isinstance(unwanted, Missing) or (isinstance(operand, constants) and isinstance(unwanted, constants)):
        return operand
    return Function("NULLIF", (operand, unwanted))


def _simplify_text(name: Name, operand: Scalar) -> Scalar:
    if isinstance(operand, Missing):
        return Missing()
    if operand.type != "text":
        message = f"{name} takes text, not a number"
        raise UnsupportedQuery(message)
    match name, operand:
        case "LENGTH", Text(value=value):
            return Number(len(value))
        case "LOWER", Text(value=value):
            return Text(lower_ascii(value))
        case "UPPER", Text(value=value):
            return Text(upper_ascii(value))
        case "LENGTH" | "LOWER" | "UPPER", Function(name="LOWER" | "UPPER", operands=(inner,)):
            return _simplify_text(name, inner)
        case _:
            return Function(name, (operand,))


def _simplify_part(name: Part, operand: Scalar) -> Scalar:
    if isinstance(operand, Missing):
        return Missing()
    if operand.type not in LIMITS:
        message = f"{name} takes a date or a timestamp, not {'text' if operand.type == 'text' else 'a number'}"
        raise UnsupportedQuery(message)
    day = convert(operand, "date")
    return Number(int(part_of_days(name, np.array(day.value)))) if isinstance(day, Number) else Function(name, (day,))


@dataclass(frozen=True, slots=True)
class Range:
    """The ends, and whether NaN can come out of the computation."""

    low: _Number
    high: _Number
    nan: bool = False

    def may_hold(self, value: _Number) -> bool:
        """Return whether a value lies between the ends."""
        return self.low <= value <= self.high

    @property
    def infinite(self) -> bool:
        """Return whether an infinity lies between the ends."""
        return math.inf in (self.high, -self.low)


_PARTS: dict[Part, Range] = {"YEAR": Range(1, 9999), "MONTH": Range(1, 12), "DAY": Range(1, 31), "WEEKDAY": Range(0, 6)}
_ANYTHING = Range(-math.inf, math.inf, nan=True)


def fits_integer(tree: Scalar) -> bool:
    """Return whether every value of an integer tree is proven to fit into 64 bits."""
    found = range_of(tree)
    return found.low >= LOWEST and found.high <= HIGHEST


def range_of(tree: Scalar) -> Range:  # noqa: C901 - one case for each kind of scalar
    """Return the range of a scalar of numbers."""
    match tree:
        case Number(value=value):
            return Range(value, value)
        case Missing():
            return Range(0, 0)
        case Aggregate() if tree.name != "FIRST":
            return _range_of_aggregate(tree)
        case Field(type=kind):
            return _ANYTHING if kind == "real" else Range(*LIMITS.get(kind, (LOWEST, HIGHEST)))
        case Negate(operand=operand):
            inner = range_of(operand)
            return Range(-inner.high, -inner.low, inner.nan)
        case Convert(type="date" | "timestamp" as kind):
            return Range(*LIMITS[kind])
        case Convert(operand=operand, type=kind):
            return _range_of_conversion(range_of(operand), real=kind == "real")
        case CaseWhen(branches=branches, default=default):
            return _join_ranges(range_of(value) for value in (*(value for _, value in branches), default))
        case Arithmetic():
            first, steps = unfold_chain(tree)
            return reduce(_range_of_step, steps, range_of(first))
        case Function():
            return _range_of_function(tree)
        case Text():
            return Range(0, 0)
        case _:
            assert_never(tree)


def _range_of_aggregate(tree: Aggregate) -> Range:
    """Return the ends of what a unit's rows come to: it has fewer than 2^31 of them in any table."""
    if tree.name == "COUNT":
        return Range(0, MOST_ROWS)
    if tree.type == "real":
        return Range(-math.inf, math.inf)
    if tree.bounds is None:
        return Range(*LIMITS.get(tree.type, (LOWEST, HIGHEST)))
    low, high = tree.bounds
    return Range(min(0, int(low) * MOST_ROWS), max(0, int(high) * MOST_ROWS))


def bounds_of(tree: Scalar, declared: Mapping[str, tuple[float, float]]) -> Range:
    """Return between which ends a number is to be clamped: from declared bounds of its columns, and from the language."""
    match tree:
        case Field(column=name) if name in declared:
            return Range(*declared[name])
        case Negate(operand=operand):
            inner = bounds_of(operand, declared)
            return Range(-inner.high, -inner.low)
        case Convert(operand=operand, type="real"):
            return bounds_of(operand, declared)
        case CaseWhen(branches=branches, default=default):
            values = [*(value for _, value in branches), default]
            return _join_ranges(bounds_of(value, declared) for value in values if not isinstance(value, Missing))
        case Arithmetic(operator=symbol, left=left, right=right):
            ends = bounds_of(left, declared), bounds_of(right, declared)
            return _range_of_reals(symbol, *ends) if tree.type == "real" else _range_of_integers(symbol, *ends)
        case _:
            return range_of(tree)


def never_null(tree: Scalar) -> bool:
    """Return whether a scalar is proven never to be NULL."""
    match tree:
        case Number() | Text():
            return True
        case Aggregate(name=name):
            return name != "FIRST"
        case Function(name="COALESCE" | "LEAST" | "GREATEST", operands=operands):
            return any(never_null(operand) for operand in operands)
        case _:
            return False


def _join_ranges(ranges: Iterable[Range]) -> Range:
    held = list(ranges)
    return Range(min(one.low for one in held), max(one.high for one in held), any(one.nan for one in held))


def _range_of_conversion(inner: Range, *, real: bool) -> Range:
    if real:
        return Range(float(inner.low), float(inner.high))
    return Range(_truncate_end(inner.low), _truncate_end(inner.high))


def _truncate_end(end: _Number) -> int:
    """Return an end cut towards zero; beyond 64 bits the conversion gives NULL, so the last integer is end enough."""
    return LOWEST if end <= LOWEST else HIGHEST if end >= HIGHEST else math.trunc(end)


def _range_of_function(tree: Function) -> Range:  # noqa: C901 - one case for each kind of function
    match tree.name:
        case "LENGTH":
            return Range(0, _LONGEST_TEXT)
        case "YEAR" | "MONTH" | "DAY" | "WEEKDAY":
            return _PARTS[tree.name]
        case "DAYS":
            return _range_of_integers("-", *(range_of(operand) for operand in tree.operands))
        case "LOWER" | "UPPER":
            return Range(0, 0)
        case "NULLIF":
            return range_of(tree.operands[0])
        case "ABS":
            inner = range_of(tree.operands[0])
            ends = sorted((abs(inner.low), abs(inner.high)))
            return Range(0 if inner.may_hold(0) else ends[0], ends[1], inner.nan)
        case "COALESCE":
            ranges = [range_of(operand) for operand in tree.operands]
            hull = _join_ranges(ranges)
            return Range(hull.low, hull.high, ranges[-1].nan)
        case "LEAST" | "GREATEST":
            ranges = [range_of(operand) for operand in tree.operands]
            hull = _join_ranges(ranges)
            there = [one for one, operand in zip(ranges, tree.operands, strict=True) if never_null(operand)]
            if not there:
                return hull
            if tree.name == "LEAST":
                return Range(hull.low, min(one.high for one in there))
            return Range(max(one.low for one in there), hull.high)
        case _:
            assert_never(tree.name)


def _range_of_step(left: Range, step: Arithmetic) -> Range:
    ends = left, range_of(step.right)
    return _range_of_reals(step.operator, *ends) if step.type == "real" else _range_of_integers(step.operator, *ends)


def _range_of_integers(symbol: Symbol, left: Range, right: Range) -> Range:
    operate = _OPERATIONS[symbol]
    ends = [operate(one, other) for one, other in itertools.product((left.low, left.high), (right.low, right.high))]
    return Range(min(ends), max(ends))


def _range_of_reals(symbol: Symbol, left: Range, right: Range) -> Range:
    match symbol:
        case "+" | "-":
            undefined = left.infinite and right.infinite
        case "*":
            undefined = (left.infinite and right.may_hold(0)) or (right.infinite and left.may_hold(0))
        case "/":
            undefined = left.infinite and right.infinite
            if right.may_hold(0):
                return Range(-math.inf, math.inf, left.nan or right.nan or undefined)
    nan = left.nan or right.nan or undefined
    operate = _OPERATIONS[symbol]
    ends = [
        operate(float(one), float(other)) for one, other in itertools.product((left.low, left.high), (right.low, right.high))
    ]
    if any(math.isnan(end) for end in ends):
        return Range(-math.inf, math.inf, nan=True)
    return Range(min(ends), max(ends), nan)

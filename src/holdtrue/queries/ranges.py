"""Interval analysis: between which ends a scalar lies on every row that there could be, from types alone.

Guarantee: a value that is there lies between ``low`` and ``high``, and where ``nan`` is False an engine never computes a
NaN for it. Ends of reals are the rounded results of the ends: rounding is monotone, so they enclose every rounded
result. Nothing is taken from declared bounds, since a row that breaks its bounds must not be able to raise.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from holdtrue.queries.cards import HIGHEST, LOWEST
from holdtrue.queries.trees import (
    Arithmetic,
    Case,
    Convert,
    Field,
    Function,
    Missing,
    Negate,
    Number,
    Scalar,
    Symbol,
    Text,
    type_of,
)

__all__ = ["OPERATIONS", "Range", "always_there", "fits", "range_of"]

# No text is nearly as long; what counts is that sums of lengths stay within 64 bits.
_LONGEST_TEXT = 2**40
_Number: TypeAlias = int | float
OPERATIONS: dict[Symbol, Callable[[_Number, _Number], _Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


@dataclass(frozen=True, slots=True)
class Range:
    """The ends, and whether NaN can come out of the computation."""

    low: _Number
    high: _Number
    nan: bool = False

    def holds(self, value: _Number) -> bool:
        """Return whether a value lies between the ends."""
        return self.low <= value <= self.high

    @property
    def infinite(self) -> bool:
        """Return whether an infinity lies between the ends."""
        return math.inf in (self.high, -self.low)


_ANYTHING = Range(-math.inf, math.inf, nan=True)


def fits(tree: Scalar) -> bool:
    """Return whether every value of an integer tree is proven to fit into 64 bits."""
    found = range_of(tree)
    return found.low >= LOWEST and found.high <= HIGHEST


def range_of(tree: Scalar) -> Range:
    """Return the range of a scalar of numbers."""
    match tree:
        case Number(value=value):
            return Range(value, value)
        case Missing():
            return Range(0, 0)
        case Field(type=kind):
            return Range(LOWEST, HIGHEST) if kind == "integer" else _ANYTHING
        case Negate(operand=operand):
            inner = range_of(operand)
            return Range(-inner.high, -inner.low, inner.nan)
        case Convert(operand=operand, type=kind):
            return _converted(range_of(operand), real=kind == "real")
        case Case(branches=branches, default=default):
            return _hull(range_of(value) for value in (*(value for _, value in branches), default))
        case Arithmetic(operator=symbol, left=left, right=right):
            ends = range_of(left), range_of(right)
            return _real(symbol, *ends) if type_of(left) == "real" else _integer(symbol, *ends)
        case Function():
            return _function(tree)
        case Text():
            return Range(0, 0)
        case _:
            assert_never(tree)


def always_there(tree: Scalar) -> bool:
    """Return whether a scalar is proven never to be NULL."""
    match tree:
        case Number() | Text():
            return True
        case Function(name="COALESCE" | "LEAST" | "GREATEST", operands=operands):
            return any(always_there(operand) for operand in operands)
        case _:
            return False


def _hull(ranges: Iterable[Range]) -> Range:
    held = list(ranges)
    return Range(min(one.low for one in held), max(one.high for one in held), any(one.nan for one in held))


def _converted(inner: Range, *, real: bool) -> Range:
    if real:
        return Range(float(inner.low), float(inner.high))
    return Range(_whole(inner.low), _whole(inner.high))


def _whole(end: _Number) -> int:
    """Return an end cut towards zero; beyond 64 bits the conversion gives NULL, so the last integer is end enough."""
    return LOWEST if end <= LOWEST else HIGHEST if end >= HIGHEST else math.trunc(end)


def _function(tree: Function) -> Range:
    match tree.name:
        case "LENGTH":
            return Range(0, _LONGEST_TEXT)
        case "LOWER" | "UPPER":
            return Range(0, 0)
        case "NULLIF":
            return range_of(tree.operands[0])
        case "ABS":
            inner = range_of(tree.operands[0])
            ends = sorted((abs(inner.low), abs(inner.high)))
            return Range(0 if inner.holds(0) else ends[0], ends[1], inner.nan)
        case "COALESCE":
            ranges = [range_of(operand) for operand in tree.operands]
            hull = _hull(ranges)
            return Range(hull.low, hull.high, ranges[-1].nan)
        case "LEAST" | "GREATEST":
            ranges = [range_of(operand) for operand in tree.operands]
            hull = _hull(ranges)
            there = [one for one, operand in zip(ranges, tree.operands, strict=True) if always_there(operand)]
            if not there:
                return hull
            if tree.name == "LEAST":
                return Range(hull.low, min(one.high for one in there))
            return Range(max(one.low for one in there), hull.high)
        case _:
            assert_never(tree.name)


def _integer(symbol: Symbol, left: Range, right: Range) -> Range:
    operate = OPERATIONS[symbol]
    ends = [operate(one, other) for one, other in itertools.product((left.low, left.high), (right.low, right.high))]
    return Range(min(ends), max(ends))


def _real(symbol: Symbol, left: Range, right: Range) -> Range:
    match symbol:
        case "+" | "-":
            undefined = left.infinite and right.infinite
        case "*":
            undefined = (left.infinite and right.holds(0)) or (right.infinite and left.holds(0))
        case "/":
            undefined = left.infinite and right.infinite
            if right.holds(0):
                return Range(-math.inf, math.inf, left.nan or right.nan or undefined)
    nan = left.nan or right.nan or undefined
    operate = OPERATIONS[symbol]
    ends = [
        operate(float(one), float(other)) for one, other in itertools.product((left.low, left.high), (right.low, right.high))
    ]
    if any(math.isnan(end) for end in ends):
        return Range(-math.inf, math.inf, nan=True)
    return Range(min(ends), max(ends), nan)

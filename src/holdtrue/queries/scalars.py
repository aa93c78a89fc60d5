"""Scalars in canonical form: every function here returns the one tree for what it is asked to build.

Operands are brought to one type, constants are folded where the result is finite, operands that commute are sorted,
NULLs that cannot matter are dropped. Each rewriting keeps the value on every row, NULL included.
"""

import math
from collections.abc import Iterable, Sequence

from holdtrue.errors import UnsupportedQuery
from holdtrue.queries.cards import HIGHEST, LOWEST, Type
from holdtrue.queries.notation import notation
from holdtrue.queries.ranges import OPERATIONS, fits
from holdtrue.queries.trees import (
    Arithmetic,
    Boolean,
    Case,
    Constant,
    Convert,
    Function,
    Missing,
    Name,
    Negate,
    Number,
    Scalar,
    Symbol,
    Text,
    type_of,
)

__all__ = ["arithmetic", "case", "convert", "function", "lowered", "negate", "unify", "uppered"]

_SMALL = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_LARGE = {ord(letter): letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}


def lowered(text: str) -> str:
    """Return a text with A to Z in lower case: the mapping on which all engines agree."""
    return text.translate(_SMALL)


def uppered(text: str) -> str:
    """Return a text with a to z in upper case."""
    return text.translate(_LARGE)


def convert(tree: Scalar, kind: Type) -> Scalar:
    """Return a number as another type of number: integers as the nearest real, reals cut towards zero."""
    held = type_of(tree)
    if isinstance(tree, Missing):
        return Missing(kind)
    if held == kind:
        return tree
    if "text" in (held, kind) or "boolean" in (held, kind):
        message = f"a value of type {held} cannot be converted to {kind}; CAST is between numbers only"
        raise UnsupportedQuery(message)
    if isinstance(tree, Number):
        if kind == "real":
            return Number(float(tree.value))
        whole = math.trunc(tree.value)
        return Number(whole) if LOWEST <= whole <= HIGHEST else Missing()
    return Convert(tree, kind)


def unify(trees: Iterable[Scalar], *, where: str) -> tuple[Scalar, ...]:
    """Return scalars brought to one type: reals where one of them is real. Text and numbers do not mix."""
    held = tuple(trees)
    kinds = {type_of(tree) for tree in held if not isinstance(tree, Missing)}
    if "text" in kinds and len(kinds) > 1:
        message = f"{where} mixes text and numbers; put single quotes around text, and none around numbers"
        raise UnsupportedQuery(message)
    kind: Type = "text" if "text" in kinds else "real" if "real" in kinds else "integer"
    return tuple(convert(tree, kind) for tree in held)


def arithmetic(symbol: Symbol, left: Scalar, right: Scalar) -> Scalar:
    """Return ``left symbol right``: of integers where the result is proven to fit, of reals otherwise."""
    left, right = numbers((left, right), where=f"the operator {symbol}")
    if symbol == "/" or not (type_of(left) == "real" or fits(Arithmetic(symbol, left, right))):
        left, right = convert(left, "real"), convert(right, "real")
    if symbol == "/" and isinstance(right, Number) and right.value == 0:
        return Number(0.0)
    if isinstance(right, Missing) or (isinstance(left, Missing) and (symbol != "/" or isinstance(right, Number))):
        return Missing()
    if isinstance(left, Number) and isinstance(right, Number):
        folded = OPERATIONS[symbol](left.value, right.value)
        if math.isfinite(folded):
            return Number(folded)
    if symbol in ("+", "*") and _place(symbol, right) < _place(symbol, left):
        left, right = right, left
    return Arithmetic(symbol, left, right)


def _place(symbol: Symbol, operand: Scalar) -> tuple[bool, str]:
    """Return what operands that commute are sorted by: chains first, since they need no parentheses on the left."""
    level = ("+", "-") if symbol == "+" else ("*", "/")
    return not (isinstance(operand, Arithmetic) and operand.operator in level), notation(operand)


def negate(operand: Scalar) -> Scalar:
    """Return the number with its sign changed."""
    (operand,) = numbers((operand,), where="unary minus")
    match operand:
        case Missing():
            return Missing()
        case Negate(operand=inner):
            return inner
        case Number(value=value):
            return Number(float(-value) if value == LOWEST else -value)
        case _:
            return Negate(operand if fits(Negate(operand)) or type_of(operand) == "real" else convert(operand, "real"))


def numbers(trees: Sequence[Scalar], *, where: str) -> tuple[Scalar, ...]:
    """Return scalars brought to one type of numbers; refuse text."""
    if any(type_of(tree) == "text" for tree in trees):
        message = f"{where} takes numbers, not text"
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
    *values, default = numbers([*(value for _, value in kept), default], where="CASE")
    kept = [(condition, value) for (condition, _), value in zip(kept, values, strict=True)]
    while kept and kept[-1][1] == default:
        kept.pop()
    if kept:
        return Case(tuple(kept), default)
    return Missing() if isinstance(default, Missing) else default


def function(name: Name, operands: Sequence[Scalar]) -> Scalar:
    """Return the application of a function of the language."""
    match name:
        case "ABS":
            return _absolute(*numbers(operands, where=name))
        case "LEAST" | "GREATEST":
            return _extreme(name, numbers(operands, where=name))
        case "COALESCE":
            return _coalesce(unify(operands, where=name))
        case "NULLIF":
            return _nullif(*unify(operands, where=name))
        case "LENGTH" | "LOWER" | "UPPER":
            return _textual(name, operands[0])


def _absolute(operand: Scalar) -> Scalar:
    match operand:
        case Missing():
            return Missing()
        case Number(value=value):
            return Number(float(-value) if value == LOWEST else abs(value))
        case _:
            tree = Function("ABS", (operand,))
            return tree if type_of(operand) == "real" or fits(tree) else Function("ABS", (convert(operand, "real"),))


def _flat(name: Name, operands: Iterable[Scalar]) -> list[Scalar]:
    flat: dict[Scalar, None] = {}
    for operand in operands:
        if isinstance(operand, Function) and operand.name == name:
            flat.update(dict.fromkeys(operand.operands))
        elif not isinstance(operand, Missing):
            flat[operand] = None
    return list(flat)


def _extreme(name: Name, operands: Sequence[Scalar]) -> Scalar:
    flat = _flat(name, operands)
    constants = [operand for operand in flat if isinstance(operand, Number)]
    if constants:
        pick = min if name == "LEAST" else max
        rest = [operand for operand in flat if not isinstance(operand, Number)]
        flat = [*rest, pick(constants, key=lambda constant: constant.value)]
    if not flat:
        return Missing()
    return flat[0] if len(flat) == 1 else Function(name, tuple(sorted(flat, key=notation)))


def _coalesce(operands: Sequence[Scalar]) -> Scalar:
    flat = _flat("COALESCE", operands)
    constant = next((place for place, operand in enumerate(flat) if isinstance(operand, (Number, Text))), len(flat))
    flat = flat[: constant + 1]
    if not flat:
        return Missing()
    return flat[0] if len(flat) == 1 else Function("COALESCE", tuple(flat))


def _nullif(operand: Scalar, unwanted: Scalar) -> Scalar:
    if isinstance(operand, Missing) or operand == unwanted:
        return Missing()
    constants = (Number, Text)
    if isinstance(unwanted, Missing) or (isinstance(operand, constants) and isinstance(unwanted, constants)):
        return operand
    return Function("NULLIF", (operand, unwanted))


def _textual(name: Name, operand: Scalar) -> Scalar:
    if isinstance(operand, Missing):
        return Missing()
    if type_of(operand) != "text":
        message = f"{name} takes text, not a number"
        raise UnsupportedQuery(message)
    match name, operand:
        case "LENGTH", Text(value=value):
            return Number(len(value))
        case "LOWER", Text(value=value):
            return Text(lowered(value))
        case "UPPER", Text(value=value):
            return Text(uppered(value))
        case "LENGTH" | "LOWER" | "UPPER", Function(name="LOWER" | "UPPER", operands=(inner,)):
            return _textual(name, inner)
        case _:
            return Function(name, (operand,))

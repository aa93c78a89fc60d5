"""Conditions in canonical form, under SQL's three-valued logic.

Every function returns a tree that is true of exactly the rows of which SQL calls the condition true. A rewriting is made
only where it is right for rows with NULLs too: ``a AND NOT a`` is false of every row, but ``a OR NOT a`` is not true of
a row where ``a`` is NULL, and so it stays.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any as Anything
from typing import assert_never

from holdtrue.errors import UnsupportedQuery
from holdtrue.queries.cards import HIGHEST, LOWEST
from holdtrue.queries.matching import matcher, simplified
from holdtrue.queries.notation import notation
from holdtrue.queries.ranges import always_there
from holdtrue.queries.scalars import unify
from holdtrue.queries.trees import (
    All,
    Any,
    Atom,
    Boolean,
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
    Operator,
    Scalar,
    Text,
    Truth,
    type_of,
)

__all__ = [
    "COMPARE",
    "FLIPPED",
    "OPPOSITE",
    "comparison",
    "complement",
    "conjunction",
    "disjunction",
    "like",
    "member",
    "null",
]

FALSE = Constant(value=False)
TRUE = Constant(value=True)
OPPOSITE: dict[Operator, Operator] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
FLIPPED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARE: dict[Operator, Callable[[Anything, Anything], Anything]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def conjunction(children: Iterable[Boolean]) -> Boolean:
    """Return what is true where all children are."""
    return _joined(All, Any, children)


def disjunction(children: Iterable[Boolean]) -> Boolean:
    """Return what is true where a child is."""
    return _joined(Any, All, children)


def _joined(kind: type[All | Any], other: type[All | Any], children: Iterable[Boolean]) -> Boolean:
    idle, decisive = (TRUE, FALSE) if kind is All else (FALSE, TRUE)
    flat: dict[Boolean, None] = {}
    for child in children:
        if isinstance(child, (All, Any)) and isinstance(child, kind):
            flat.update(dict.fromkeys(child.children))
        else:
            flat[child] = None
    flat.pop(idle, None)
    if decisive in flat or _decided(kind, flat):
        return decisive
    nested = {
        child: frozenset(child.children) for child in flat if isinstance(child, (All, Any)) and isinstance(child, other)
    }
    # Absorption: a AND (a OR b) is a; (a OR b) AND (a OR b OR c) is a OR b; and the same with AND and OR exchanged.
    kept = [
        child
        for child in flat
        if not nested
        or child not in nested
        or (nested[child].isdisjoint(flat) and not any(one < nested[child] for one in nested.values()))
    ]
    if len(kept) < 2:  # noqa: PLR2004 - one child needs no All or Any around it
        return kept[0] if kept else idle
    return kind(tuple(sorted(kept, key=notation)))


def _decided(kind: type[All | Any], children: dict[Boolean, None]) -> bool:
    """Return whether two opposites decide: no row satisfies both of any; every row satisfies IS NULL or IS NOT NULL."""
    atoms: list[Atom]
    if kind is Any:
        atoms = [child for child in children if isinstance(child, Null)]
    else:
        atoms = [child for child in children if not isinstance(child, (All, Any, Constant))]
    # Two opposites are of one kind.
    return len(set(map(type, atoms))) < len(atoms) and any(opposite(atom) in children for atom in atoms)


def opposite(atom: Atom) -> Atom:
    """Return the atom that is true where SQL calls this one false."""
    match atom:
        case Comparison(operator=symbol, left=left, right=right):
            return Comparison(OPPOSITE[symbol], left, right)
        case Truth(column=name, wanted=wanted):
            return Truth(name, not wanted)
        case Member(operand=operand, values=values, negated=negated):
            return Member(operand, values, not negated)
        case Like(operand=operand, pattern=pattern, negated=negated):
            return Like(operand, pattern, not negated)
        case Null(operand=operand, negated=negated):
            return Null(operand, not negated)
        case _:
            assert_never(atom)


def complement(tree: Boolean) -> Boolean:
    """Return what is true of exactly the rows of which a tree is not: SQL's IS NOT TRUE."""
    match tree:
        case Constant(value=value):
            return Constant(not value)
        case All(children=children):
            return disjunction(complement(child) for child in children)
        case Any(children=children):
            return conjunction(complement(child) for child in children)
        case Null():
            return opposite(tree)
        case Comparison(left=left, right=right):
            return disjunction((opposite(tree), null(left), null(right)))
        case Truth(column=name):
            return disjunction((opposite(tree), null(Field(name, "boolean"))))
        case Member(operand=operand) | Like(operand=operand):
            return disjunction((opposite(tree), null(operand)))
        case _:
            assert_never(tree)


def null(operand: Scalar, *, negated: bool = False) -> Boolean:
    """Return the test for NULL and NaN, made of the innermost operand that decides it."""
    if isinstance(operand, Missing):
        return Constant(not negated)
    if always_there(operand):
        return Constant(negated)
    match operand:
        case Negate(operand=inner) | Function(name="ABS" | "LENGTH" | "LOWER" | "UPPER", operands=(inner,)):
            return null(inner, negated=negated)
        case Convert(operand=inner, type="real"):
            return null(inner, negated=negated)
        case _:
            return Null(operand, negated)


def comparison(symbol: Operator, left: Scalar, right: Scalar) -> Boolean:
    """Return a comparison with the constant on the right; an integer is compared with a constant exactly."""
    if isinstance(left, Missing) or isinstance(right, Missing):
        return FALSE
    if isinstance(left, (Number, Text)) and not isinstance(right, (Number, Text)):
        symbol, left, right = FLIPPED[symbol], right, left
    if isinstance(right, Number) and type_of(left) == "integer" and not isinstance(left, Number):
        return _with_integer(symbol, left, right)
    if type_of(left) != type_of(right):
        left, right = unify((left, right), where=f"the comparison {symbol}")
    if isinstance(left, (Number, Text)) and isinstance(right, (Number, Text)):
        return Constant(bool(COMPARE[symbol](left.value, right.value)))
    if left == right:
        return null(left, negated=True) if symbol in ("=", "<=", ">=") else FALSE
    if not isinstance(right, (Number, Text)) and notation(right) < notation(left):
        symbol, left, right = FLIPPED[symbol], right, left
    return Comparison(symbol, left, right)


def _with_integer(symbol: Operator, left: Scalar, right: Number) -> Boolean:
    """Compare an integer with any finite constant, without rounding: what remains is =, <>, > or <= and an integer."""
    value = right.value
    floor = math.floor(value)
    if symbol in ("=", "<>"):
        if floor == value and LOWEST <= floor <= HIGHEST:
            return Comparison(symbol, left, Number(floor))
        return null(left, negated=True) if symbol == "<>" else FALSE
    if symbol in (">=", "<"):
        floor = math.ceil(value) - 1
    above = symbol in (">", ">=")
    if LOWEST <= floor < HIGHEST:
        return Comparison(">" if above else "<=", left, right if floor == value and not right.real else Number(floor))
    return null(left, negated=True) if above == (floor < LOWEST) else FALSE


def member(operand: Scalar, values: Sequence[Number | Text], *, negated: bool = False) -> Boolean:
    """Return IN or NOT IN a list of constants."""
    if isinstance(operand, (Missing, Number, Text)):
        if negated:
            return conjunction((null(operand, negated=True), *(comparison("<>", operand, value) for value in values)))
        return disjunction(comparison("=", operand, value) for value in values)
    kinds = {type_of(value) for value in values}
    kind = type_of(operand)
    if kinds and (("text" in kinds and len(kinds) > 1) or (kind == "text") != (kinds == {"text"})):
        message = "IN mixes text and numbers; put single quotes around text, and none around numbers"
        raise UnsupportedQuery(message)
    found = {value for value in (_exactly(value.value, kind) for value in values) if value is not None}
    kept = tuple(sorted(found))
    if len(kept) < 2:  # noqa: PLR2004 - one value is a comparison
        if not kept:
            return null(operand, negated=True) if negated else FALSE
        return comparison("<>" if negated else "=", operand, Text(kept[0]) if isinstance(kept[0], str) else Number(kept[0]))
    return Member(operand, kept, negated)  # type: ignore[arg-type]  # one type, that of the operand


def _exactly(value: float | str, kind: str) -> int | float | str | None:
    """Return a listed value in the operand's type, or None for one that the operand can never equal."""
    if isinstance(value, str):
        return value
    if kind == "real":
        return float(value) + 0.0
    whole = math.floor(value)
    return whole if whole == value and LOWEST <= whole <= HIGHEST else None


def like(operand: Scalar, pattern: str, *, negated: bool = False) -> Boolean:
    """Return LIKE or NOT LIKE a pattern."""
    if isinstance(operand, Missing):
        return FALSE
    if type_of(operand) != "text":
        message = "LIKE takes text, not a number"
        raise UnsupportedQuery(message)
    if isinstance(operand, Text):
        return Constant(matcher(pattern)(operand.value) != negated)
    pattern = simplified(pattern)
    if pattern == "%":
        return FALSE if negated else null(operand, negated=True)
    if not set("%_") & set(pattern):
        return comparison("<>" if negated else "=", operand, Text(pattern))
    return Like(operand, pattern, negated)

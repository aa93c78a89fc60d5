"""From a tree to SQL text: nothing of the analyst's own text gets through, only what is written here (P10).

Guarantee: the text gives, for each row, the integer round(clamp(value, 0, 1) * 2^bits), halves rounded up, NULL and NaN
counting 0, as a BIGINT; or, for a condition, a boolean. It is never NULL and cannot raise, in whatever order an engine
evaluates its parts, because no part can: integer arithmetic is proven to fit, doubles do not trap, casts give NULL.
Needs: columns of the types on the card. Failure: none on account of a row.

Inside, NaN may stand for NULL: arithmetic passes both on alike, and each test for order, equality or presence rules NaN
out. ``x <= Infinity`` says that x is there and not NaN.
"""

import math
from typing import Final, assert_never, get_args

from holdtrue.errors import InvalidParameter
from holdtrue.exact import count
from holdtrue.queries.dialects import DuckDB, Postgres, Spark
from holdtrue.queries.ranges import range_of
from holdtrue.queries.trees import (
    All,
    Any,
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
    Query,
    Scalar,
    Text,
    Tree,
    Truth,
    type_of,
)

__all__ = ["MOST_BITS", "checked_bits", "duckdb", "duckdb_condition", "postgres", "spark"]

MOST_BITS: Final = 60
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def duckdb(query: Query, bits: int) -> str:
    """Return DuckDB's expression for the grid value of each row."""
    return _Emitter(DuckDB()).value(query.tree, bits)


def spark(query: Query, bits: int) -> str:
    """Return Spark SQL's expression for the grid value of each row."""
    return _Emitter(Spark()).value(query.tree, bits)


def postgres(query: Query, bits: int) -> str:
    """Return PostgreSQL's expression for the grid value of each row."""
    return _Emitter(Postgres()).value(query.tree, bits)


def duckdb_condition(tree: Boolean) -> str:
    """Return DuckDB's expression for a condition: TRUE or FALSE on every row."""
    if not isinstance(tree, get_args(Boolean)):
        raise InvalidParameter("tree", type(tree).__name__, "a condition")
    return f"COALESCE({_Emitter(DuckDB()).condition(tree)}, FALSE)"


def checked_bits(bits: int) -> int:
    """Return the fineness of the grid: each row gives a multiple of 2^-bits."""
    if count("bits", bits, least=0) > MOST_BITS:
        raise InvalidParameter("bits", bits, f"a whole number, 0 to {MOST_BITS}")
    return int(bits)


class _Emitter:
    def __init__(self, dialect: DuckDB) -> None:
        self._dialect = dialect
        self._infinity = dialect.number(math.inf)

    def value(self, tree: Tree, bits: int) -> str:
        one, zero = self._dialect.number(2 ** checked_bits(bits)), self._dialect.number(0)
        if isinstance(tree, get_args(Boolean)):
            return f"(CASE WHEN {self.condition(tree)} THEN {one} ELSE {zero} END)"
        emitted = self.scalar(tree)  # type: ignore[arg-type]
        if type_of(tree) == "integer":  # type: ignore[arg-type]
            return f"(CASE WHEN {emitted} > {zero} THEN {one} ELSE {zero} END)"
        # Clamped below zero rather than above: LEAST takes 0 over NaN and over NULL. The scaling is exact, and halves
        # are counted in whole numbers: floor(y + 1/2) is floor((floor(2 y) + 1) / 2).
        clamped = f"GREATEST(LEAST((-{emitted}), {self._dialect.number(0.0)}), {self._dialect.number(-1.0)})"
        return self._dialect.halved(f"floor((-{clamped}) * {self._dialect.number(2.0 ** (bits + 1))})")

    # Conditions: NULL where SQL says NULL, which counts as false wherever it can get to

    def condition(self, tree: Boolean) -> str:
        match tree:
            case Constant(value=value):
                return "TRUE" if value else "FALSE"
            case All(children=children):
                return f"({' AND '.join(self.condition(child) for child in children)})"
            case Any(children=children):
                return f"({' OR '.join(self.condition(child) for child in children)})"
            case Truth(column=name, wanted=wanted):
                field = self._dialect.field(name, "boolean")
                return field if wanted else f"(NOT {field})"
            case Comparison():
                return self._comparison(tree)
            case Member():
                return self._member(tree)
            case Like(operand=operand, pattern=pattern, negated=negated):
                return self._dialect.like(self.scalar(operand), pattern, negated=negated)
            case Null():
                return self._null(tree)
            case _:
                assert_never(tree)

    def _comparison(self, tree: Comparison) -> str:
        kind = type_of(tree.left)
        left, right = self.scalar(tree.left), self.scalar(tree.right)
        if kind == "text":
            left, right = self._dialect.collated(left), self._dialect.collated(right)
        plain = f"({left} {tree.operator} {right})"
        if kind != "real":
            return plain
        # NaN is above all and equal to itself: the side on which it would satisfy the test must be ruled out.
        doubtful = [side for side, scalar in ((left, tree.left), (right, tree.right)) if range_of(scalar).nan]
        match tree.operator:
            case "<" | "<=":
                guarded = [right] if right in doubtful else []
            case ">" | ">=":
                if left in doubtful and isinstance(tree.right, Number) and not isinstance(tree.left, Field):
                    return f"((-{left}) {tree.operator.replace('>', '<')} {self._dialect.number(-tree.right.value)})"
                guarded = [left] if left in doubtful else []
            case "=":
                guarded = doubtful[:1] if len(doubtful) > 1 else []
            case "<>":
                guarded = doubtful
        return f"({' AND '.join([plain, *(f'{side} <= {self._infinity}' for side in guarded)])})"

    def _member(self, tree: Member) -> str:
        operand = self.scalar(tree.operand)
        listed = ", ".join(
            self._dialect.text(value) if isinstance(value, str) else self._dialect.number(value) for value in tree.values
        )
        if type_of(tree.operand) == "text":
            operand = self._dialect.collated(operand)
        found = f"{operand} {'NOT ' * tree.negated}IN ({listed})"
        if tree.negated and type_of(tree.operand) == "real" and range_of(tree.operand).nan:
            return f"({found} AND {operand} <= {self._infinity})"
        return f"({found})"

    def _null(self, tree: Null) -> str:
        operand = self.scalar(tree.operand)
        if type_of(tree.operand) != "real" or not range_of(tree.operand).nan:
            return f"({operand} IS {'NOT ' * tree.negated}NULL)"
        there = f"{operand} <= {self._infinity}"
        return f"COALESCE({there}, FALSE)" if tree.negated else f"COALESCE(NOT ({there}), TRUE)"

    # Scalars

    def scalar(self, tree: Scalar) -> str:  # noqa: C901 - one case for each kind of scalar
        dialect = self._dialect
        match tree:
            case Number(value=value):
                return dialect.number(value)
            case Text(value=value):
                return dialect.text(value)
            case Missing(type=kind):
                return dialect.cast("NULL", kind)
            case Field(column=name, type=kind):
                return dialect.field(name, kind)
            case Negate(operand=operand):
                return f"(-{self.scalar(operand)})"
            case Convert(operand=operand, type=kind):
                inner = self.scalar(operand)
                return dialect.cast(inner, kind) if kind == "real" else dialect.cut(inner)
            case Arithmetic(operator=symbol, left=left, right=right):
                if type_of(left) == "real":
                    return dialect.real(symbol, self.scalar(left), self.scalar(right), zero=range_of(right).holds(0))
                return f"({self.scalar(left)} {symbol} {self.scalar(right)})"
            case Case(branches=branches, default=default):
                arms = " ".join(f"WHEN {self.condition(test)} THEN {self.scalar(value)}" for test, value in branches)
                return f"(CASE {arms} ELSE {self.scalar(default)} END)"
            case Function():
                return self._function(tree)
            case _:
                assert_never(tree)

    def _function(self, tree: Function) -> str:
        operands = [self.scalar(operand) for operand in tree.operands]
        real = type_of(tree.operands[0]) == "real"
        match tree.name:
            case "ABS":
                return f"abs({operands[0]})"
            case "LENGTH":
                return self._dialect.cast(f"length({operands[0]})", "integer")
            case "LOWER":
                return f"translate({operands[0]}, '{_LETTERS}', '{_LETTERS.lower()}')"
            case "UPPER":
                return f"translate({operands[0]}, '{_LETTERS.lower()}', '{_LETTERS}')"
            case "NULLIF":
                return f"(CASE WHEN {operands[0]} = {operands[1]} THEN NULL ELSE {operands[0]} END)"
            case "LEAST":
                return f"LEAST({', '.join(operands)})"
            case "GREATEST":
                # The negative of the least of negatives: NaN, being above all, is passed over like NULL.
                mirrored = f"(-LEAST({', '.join(f'(-{operand})' for operand in operands)}))"
                return mirrored if real else f"GREATEST({', '.join(operands)})"
            case "COALESCE":
                if not real or not any(range_of(operand).nan for operand in tree.operands[:-1]):
                    return f"COALESCE({', '.join(operands)})"
                arms = " ".join(f"WHEN {operand} <= {self._infinity} THEN {operand}" for operand in operands[:-1])
                return f"(CASE {arms} ELSE {operands[-1]} END)"
            case _:
                assert_never(tree.name)

"""From a tree to SQL text: nothing of the analyst's own text gets through, only what is written here (P10).

Guarantee: the text gives, for each row, the integer round(clamp(value, 0, 1) * 2^bits), halves rounded up, NULL and NaN
counting 0, as a BIGINT; or, for a condition, a boolean. It is never NULL and cannot raise, in whatever order an engine
evaluates its parts, because no part can: integer arithmetic is proven to fit, doubles do not trap, casts give NULL.
Needs: columns of the types on the card, dates and timestamps as the integers of :mod:`~holdtrue.queries.dates`.
Failure: none on account of a row.

Inside, NaN may stand for NULL: arithmetic passes both on alike, and each test for order, equality or presence rules NaN
out. ``x <= Infinity`` says that x is there and not NaN.

All three engines order NaN above everything and call it equal to itself, pass over NULL in LEAST and GREATEST, and count
the length of a text in code points. What they do not share is in the three dialects.
"""

import math
from functools import reduce
from typing import assert_never

from holdtrue.errors import InvalidParameter
from holdtrue.queries.cards import Type
from holdtrue.queries.dates import DAY, FIRST_DAY
from holdtrue.queries.scalars import range_of
from holdtrue.queries.syntax_tree import (
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
    Part,
    Query,
    Scalar,
    Symbol,
    Text,
    Tree,
    Truth,
    ValueComparison,
    checked_bits,
    unfold_chain,
)

__all__ = ["DuckDB", "Postgres", "Spark", "duckdb_condition", "emit_duckdb", "emit_postgres", "emit_spark"]

# What is a 64-bit integer to an engine.
_WHOLE: dict[Type, str] = {"integer": "BIGINT", "date": "BIGINT", "timestamp": "BIGINT"}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def emit_duckdb(query: Query, bits: int) -> str:
    """Return DuckDB's expression for the grid value of each row."""
    return _Emitter(DuckDB()).write_value(query.tree, bits)


def emit_spark(query: Query, bits: int) -> str:
    """Return Spark SQL's expression for the grid value of each row."""
    return _Emitter(Spark()).write_value(query.tree, bits)


def emit_postgres(query: Query, bits: int) -> str:
    """Return PostgreSQL's expression for the grid value of each row."""
    return _Emitter(Postgres()).write_value(query.tree, bits)


def duckdb_condition(tree: Boolean) -> str:
    """Return DuckDB's expression for a condition: TRUE or FALSE on every row."""
    if not isinstance(tree, Boolean):
        raise InvalidParameter("tree", type(tree).__name__, "a condition")
    return f"COALESCE({_Emitter(DuckDB()).write_condition(tree)}, FALSE)"


class DuckDB:
    """DuckDB: doubles are IEEE throughout, and TRY_CAST gives NULL where CAST would raise."""

    types: dict[Type, str] = _WHOLE | {"boolean": "BOOLEAN", "real": "DOUBLE", "text": "VARCHAR"}
    quote = '"'
    divide = "//"

    def quote_name(self, name: str) -> str:
        """Return a quoted identifier."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def write_text(self, value: str) -> str:
        """Return a quoted constant."""
        return "'" + value.replace("'", "''") + "'"

    def write_number(self, value: float) -> str:
        """Return a constant: the shortest digits that read back as the same 64 bits."""
        written = repr(value).replace("inf", "Infinity")
        kind: Type = "integer" if type(value) is int else "real"
        return f"CAST('{written}' AS {self.types[kind]})"

    def write_cast(self, operand: str, kind: Type) -> str:
        """Return a conversion that cannot fail."""
        return f"CAST({operand} AS {self.types[kind]})"

    def write_field(self, name: str, kind: Type) -> str:
        """Return a column in its type on the card, NULL where a stored value is beyond it."""
        return f"TRY_CAST({self.quote_name(name)} AS {self.types[kind]})"

    def write_truncation(self, operand: str) -> str:
        """Return a real cut towards zero, as an integer, or NULL where it does not fit."""
        return f"TRY_CAST(trunc({operand}) AS BIGINT)"

    def write_date(self, operand: str) -> str:
        """Return days as the engine's own date."""
        return f"(CAST('1970-01-01' AS DATE) + CAST({operand} AS INTEGER))"

    def write_part(self, name: Part, operand: str) -> str:
        """Return the year, month or day of days that lie within the calendar: all engines have the same one."""
        if name == "WEEKDAY":
            return f"(({operand} - {self.write_number(FIRST_DAY)}) % {self.write_number(7)})"
        return self.write_cast(f"EXTRACT({name} FROM {self.write_date(operand)})", "integer")

    def write_day(self, operand: str) -> str:
        """Return microseconds as days: from the first day on nothing is negative, and so nothing is cut towards zero."""
        first, start = self.write_number(FIRST_DAY), self.write_number(FIRST_DAY * DAY)
        return f"((({operand} - {start}) {self.divide} {self.write_number(DAY)}) + {first})"

    def add_collation(self, operand: str) -> str:
        """Return a text to be compared by code points."""
        return operand

    def write_real(self, symbol: Symbol, left: str, right: str, *, zero: bool) -> str:
        """Return arithmetic on doubles; ``zero`` says whether the divisor may be zero."""
        done = self.write_quotient(left, right) if symbol == "/" else f"({left} {symbol} {right})"
        if symbol == "/" and zero:
            return f"(CASE WHEN {right} = {self.write_number(0.0)} THEN {self.write_number(0.0)} ELSE {done} END)"
        return done

    def write_quotient(self, left: str, right: str) -> str:
        """Return a quotient of doubles."""
        return f"({left} / {right})"

    def write_like(self, operand: str, pattern: str, *, negated: bool) -> str:
        """Return a match without an escape character."""
        return f"({operand} {'NOT ' * negated}LIKE {self.write_text(pattern)})"

    def write_half(self, operand: str) -> str:
        """Return a whole number, 0 or above, as an integer halved upwards: floor((n + 1) / 2)."""
        return f"((CAST({operand} AS BIGINT) + 1) >> 1)"


class Spark(DuckDB):
    """Spark SQL with its default parser settings, under ANSI mode or not."""

    types: dict[Type, str] = _WHOLE | {"boolean": "BOOLEAN", "real": "DOUBLE", "text": "STRING"}
    quote = "`"
    divide = "div"

    def write_text(self, value: str) -> str:
        """Return a quoted constant; Spark reads backslashes as escapes."""
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def write_truncation(self, operand: str) -> str:
        """Return a real cut towards zero; the range is tested here, since Spark takes 2^63 for an integer of 64 bits."""
        low, high = self.write_number(-(2.0**63)), self.write_number(2.0**63)
        return f"(CASE WHEN {operand} >= {low} AND {operand} < {high} THEN TRY_CAST({operand} AS BIGINT) END)"

    def write_date(self, operand: str) -> str:
        """Return days as a date."""
        return f"date_from_unix_date(CAST({operand} AS INT))"

    def write_quotient(self, left: str, right: str) -> str:
        """Return a quotient; plain division raises in ANSI mode wherever the optimiser may have moved it."""
        return f"try_divide({left}, {right})"

    def write_like(self, operand: str, pattern: str, *, negated: bool) -> str:
        """Return a match; a backslash escapes in Spark's patterns, and so escapes itself."""
        return super().write_like(operand, pattern.replace("\\", "\\\\"), negated=negated)

    def write_half(self, operand: str) -> str:
        """Return a whole number halved upwards."""
        return f"shiftright(CAST({operand} AS BIGINT) + 1, 1)"


class Postgres(DuckDB):
    """PostgreSQL, which raises where a double overflows or underflows: such operations are recognised and avoided.

    A product or quotient within one part in 2^53 of half the least positive double counts as zero; all else is as on
    the other engines.
    """

    types: dict[Type, str] = _WHOLE | {"boolean": "BOOLEAN", "real": "DOUBLE PRECISION", "text": "TEXT"}
    divide = "/"

    def write_text(self, value: str) -> str:
        """Return a quoted constant that reads the same under both settings of standard_conforming_strings."""
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    def write_field(self, name: str, kind: Type) -> str:
        """Return a column, whose type is that of the card."""
        return self.write_cast(self.quote_name(name), kind)

    def write_truncation(self, operand: str) -> str:
        """Return a real cut towards zero."""
        low, high = self.write_number(-(2.0**63)), self.write_number(2.0**63)
        return f"(CASE WHEN {operand} >= {low} AND {operand} < {high} THEN CAST(trunc({operand}) AS BIGINT) END)"

    def add_collation(self, operand: str) -> str:
        """Return a text to be compared by code points."""
        return f'({operand} COLLATE "C")'

    def write_like(self, operand: str, pattern: str, *, negated: bool) -> str:
        """Return a match without an escape character."""
        return f"({operand} {'NOT ' * negated}LIKE {self.write_text(pattern)} ESCAPE '')"

    def write_real(self, symbol: Symbol, left: str, right: str, *, zero: bool) -> str:
        """Return arithmetic on doubles; both operands are named once by a subquery without a table."""
        if symbol == "-":
            symbol, right = "+", f"(-{right})"
        body = self._write_sum() if symbol == "+" else self._write_scaled(symbol, zero=zero)
        return f"(SELECT {body} FROM (SELECT {left} AS l, {right} AS r OFFSET 0) AS q)"  # noqa: S608 - our own text

    def _write_sum(self) -> str:
        half, infinity = self.write_number(2.0**1023 * (1 - 2.0**-53)), self.write_number(float("inf"))
        return (
            f"CASE WHEN abs(q.l) <= {half} AND abs(q.r) <= {half} THEN q.l + q.r "
            f"WHEN abs(q.l) >= {infinity} OR abs(q.r) >= {infinity} THEN q.l + q.r "
            f"WHEN abs(q.l) < 1 THEN q.r WHEN abs(q.r) < 1 THEN q.l "
            f"WHEN abs(q.l / 2 + q.r / 2) > {half} THEN CASE WHEN q.l > 0 THEN {infinity} ELSE -{infinity} END "
            "ELSE q.l + q.r END"
        )

    def _write_scaled(self, symbol: Symbol, *, zero: bool) -> str:
        """Return a product or quotient: operands are scaled to about 1 by powers of two, to see first whether it fits."""
        number = self.write_number
        infinity = number(float("inf"))
        first = f"WHEN q.r = 0 THEN {number(0.0)} " if symbol == "/" and zero else ""
        if symbol == "/":
            first += f"WHEN abs(q.r) = {infinity} AND abs(q.l) < {infinity} THEN {number(0.0)} "
        high, low = number(2.0**500), number(2.0**-400)
        down, up = number(2.0**-600), number(2.0**600)

        def near(one: str) -> str:
            tiny = f"WHEN abs({one}) < {low} THEN {one} * {up}"
            return f"(CASE WHEN abs({one}) >= {high} THEN {one} * {down} {tiny} ELSE {one} END)"

        def power(one: str) -> str:
            return f"(CASE WHEN abs({one}) >= {high} THEN 1 WHEN abs({one}) < {low} THEN -1 ELSE 0 END)"

        sign = "+" if symbol == "*" else "-"
        size, scale = f"abs({near('q.l')} {symbol} {near('q.r')})", f"{power('q.l')} {sign} {power('q.r')}"
        large = f"(t.k = 1 AND t.m >= {number(2.0**424)}) OR (t.k = 2 AND t.m >= {number(2.0**-176)})"
        small = f"(t.k = -1 AND t.m <= {number(2.0**-475)}) OR (t.k = -2 AND t.m <= {number(2.0**125)})"
        judged = (
            f"SELECT CASE WHEN {large} THEN CASE WHEN (q.l > 0) = (q.r > 0) THEN {infinity} ELSE -{infinity} END "  # noqa: S608 - our own text
            f"WHEN {small} THEN {number(0.0)} ELSE q.l {symbol} q.r END "
            f"FROM (SELECT {size} AS m, {scale} AS k OFFSET 0) AS t"
        )
        plain = f"q.l = 0 OR abs(q.l) >= {infinity} OR abs(q.r) >= {infinity}" + (" OR q.r = 0" if symbol == "*" else "")
        return f"CASE {first}WHEN {plain} THEN q.l {symbol} q.r ELSE ({judged}) END"


class _Emitter:
    def __init__(self, dialect: DuckDB) -> None:
        self._dialect = dialect
        self._infinity = dialect.write_number(math.inf)

    def write_value(self, tree: Tree, bits: int) -> str:
        one, zero = self._dialect.write_number(2 ** checked_bits(bits)), self._dialect.write_number(0)
        if isinstance(tree, Boolean):
            return f"(CASE WHEN {self.write_condition(tree)} THEN {one} ELSE {zero} END)"
        emitted = self.emit(tree)
        if tree.type == "integer":
            return f"(CASE WHEN {emitted} > {zero} THEN {one} ELSE {zero} END)"
        # Clamped below zero rather than above: LEAST takes 0 over NaN and over NULL. The scaling is exact, and halves
        # are counted in whole numbers: floor(y + 1/2) is floor((floor(2 y) + 1) / 2).
        clamped = f"GREATEST(LEAST((-{emitted}), {self._dialect.write_number(0.0)}), {self._dialect.write_number(-1.0)})"
        return self._dialect.write_half(f"floor((-{clamped}) * {self._dialect.write_number(2.0 ** (bits + 1))})")

    # Conditions: NULL where SQL says NULL, which counts as false wherever it can get to

    def write_condition(self, tree: Boolean) -> str:
        match tree:
            case Constant(value=value):
                return "TRUE" if value else "FALSE"
            case And(children=children):
                return f"({' AND '.join(self.write_condition(child) for child in children)})"
            case Or(children=children):
                return f"({' OR '.join(self.write_condition(child) for child in children)})"
            case Truth(column=name, wanted=wanted):
                field = self._dialect.write_field(name, "boolean")
                return field if wanted else f"(NOT {field})"
            case ValueComparison():
                return self._write_comparison(tree)
            case Member():
                return self._write_member(tree)
            case Like(operand=operand, pattern=pattern, negated=negated):
                return self._dialect.write_like(self.emit(operand), pattern, negated=negated)
            case Null():
                return self._write_null(tree)
            case _:
                assert_never(tree)

    def _write_comparison(self, tree: ValueComparison) -> str:
        kind = tree.left.type
        left, right = self.emit(tree.left), self.emit(tree.right)
        if kind == "text":
            left, right = self._dialect.add_collation(left), self._dialect.add_collation(right)
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
                    return f"((-{left}) {tree.operator.replace('>', '<')} {self._dialect.write_number(-tree.right.value)})"
                guarded = [left] if left in doubtful else []
            case "=":
                guarded = doubtful[:1] if len(doubtful) > 1 else []
            case "<>":
                guarded = doubtful
        return f"({' AND '.join([plain, *(f'{side} <= {self._infinity}' for side in guarded)])})"

    def _write_member(self, tree: Member) -> str:
        operand = self.emit(tree.operand)
        listed = ", ".join(
            self._dialect.write_text(value) if isinstance(value, str) else self._dialect.write_number(value)
            for value in tree.values
        )
        if tree.operand.type == "text":
            operand = self._dialect.add_collation(operand)
        found = f"{operand} {'NOT ' * tree.negated}IN ({listed})"
        if tree.negated and tree.operand.type == "real" and range_of(tree.operand).nan:
            return f"({found} AND {operand} <= {self._infinity})"
        return f"({found})"

    def _write_null(self, tree: Null) -> str:
        operand = self.emit(tree.operand)
        if tree.operand.type != "real" or not range_of(tree.operand).nan:
            return f"({operand} IS {'NOT ' * tree.negated}NULL)"
        there = f"{operand} <= {self._infinity}"
        return f"COALESCE({there}, FALSE)" if tree.negated else f"COALESCE(NOT ({there}), TRUE)"

    # Scalars

    def emit(self, tree: Scalar) -> str:
        dialect = self._dialect
        match tree:
            case Number(value=value):
                return dialect.write_number(value)
            case Text(value=value):
                return dialect.write_text(value)
            case Missing(type=kind):
                return dialect.write_cast("NULL", kind)
            case Field(column=name, type=kind):
                return dialect.write_field(name, kind)
            case Negate(operand=operand):
                return f"(-{self.emit(operand)})"
            case Convert(operand=operand, type=kind):
                return self._write_conversion(self.emit(operand), kind)
            case Arithmetic():
                first, steps = unfold_chain(tree)
                return reduce(self._write_step, steps, self.emit(first))
            case CaseWhen(branches=branches, default=default):
                arms = " ".join(f"WHEN {self.write_condition(test)} THEN {self.emit(value)}" for test, value in branches)
                return f"(CASE {arms} ELSE {self.emit(default)} END)"
            case Function():
                return self._write_function(tree)
            case _:
                assert_never(tree)

    def _write_conversion(self, operand: str, kind: Type) -> str:
        match kind:
            case "real":
                return self._dialect.write_cast(operand, kind)
            case "timestamp":
                return f"({operand} * {self._dialect.write_number(DAY)})"
            case "date":
                return self._dialect.write_day(operand)
            case _:
                return self._dialect.write_truncation(operand)

    def _write_step(self, left: str, step: Arithmetic) -> str:
        right = self.emit(step.right)
        if step.type == "real":
            return self._dialect.write_real(step.operator, left, right, zero=range_of(step.right).may_hold(0))
        return f"({left} {step.operator} {right})"

    def _write_function(self, tree: Function) -> str:  # noqa: C901 - one case for each kind of function
        operands = [self.emit(operand) for operand in tree.operands]
        real = tree.operands[0].type == "real"
        match tree.name:
            case "ABS":
                return f"abs({operands[0]})"
            case "LENGTH":
                return self._dialect.write_cast(f"length({operands[0]})", "integer")
            case "YEAR" | "MONTH" | "DAY" | "WEEKDAY":
                return self._dialect.write_part(tree.name, operands[0])
            case "DAYS":
                return f"({operands[0]} - {operands[1]})"
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

"""How each engine spells what the emitter says: names, constants, casts, and the operations that must not raise.

All three engines order NaN above everything and call it equal to itself, pass over NULL in LEAST and GREATEST, and count
the length of a text in code points; the emitter builds on that. What they do not share is here.
"""

from holdtrue.queries.cards import Type
from holdtrue.queries.trees import Symbol

__all__ = ["DuckDB", "Postgres", "Spark"]


class DuckDB:
    """DuckDB: doubles are IEEE throughout, and TRY_CAST gives NULL where CAST would raise."""

    types: dict[Type, str] = {"boolean": "BOOLEAN", "integer": "BIGINT", "real": "DOUBLE", "text": "VARCHAR"}  # noqa: RUF012 - never written to
    quote = '"'

    def name(self, name: str) -> str:
        """Return a quoted identifier."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def text(self, value: str) -> str:
        """Return a quoted constant."""
        return "'" + value.replace("'", "''") + "'"

    def number(self, value: float) -> str:
        """Return a constant: the shortest digits that read back as the same 64 bits."""
        written = repr(value).replace("inf", "Infinity")
        kind: Type = "integer" if type(value) is int else "real"
        return f"CAST('{written}' AS {self.types[kind]})"

    def cast(self, operand: str, kind: Type) -> str:
        """Return a conversion that cannot fail."""
        return f"CAST({operand} AS {self.types[kind]})"

    def field(self, name: str, kind: Type) -> str:
        """Return a column in its type on the card, NULL where a stored value is beyond it."""
        return f"TRY_CAST({self.name(name)} AS {self.types[kind]})"

    def cut(self, operand: str) -> str:
        """Return a real cut towards zero, as an integer, or NULL where it does not fit."""
        return f"TRY_CAST(trunc({operand}) AS BIGINT)"

    def collated(self, operand: str) -> str:
        """Return a text to be compared by code points."""
        return operand

    def real(self, symbol: Symbol, left: str, right: str, *, zero: bool) -> str:
        """Return arithmetic on doubles; ``zero`` says whether the divisor may be zero."""
        done = self.divided(left, right) if symbol == "/" else f"({left} {symbol} {right})"
        if symbol == "/" and zero:
            return f"(CASE WHEN {right} = {self.number(0.0)} THEN {self.number(0.0)} ELSE {done} END)"
        return done

    def divided(self, left: str, right: str) -> str:
        """Return a quotient of doubles."""
        return f"({left} / {right})"

    def like(self, operand: str, pattern: str, *, negated: bool) -> str:
        """Return a match without an escape character."""
        return f"({operand} {'NOT ' * negated}LIKE {self.text(pattern)})"

    def halved(self, operand: str) -> str:
        """Return a whole number, 0 or above, as an integer halved upwards: floor((n + 1) / 2)."""
        return f"((CAST({operand} AS BIGINT) + 1) >> 1)"


class Spark(DuckDB):
    """Spark SQL with its default parser settings, under ANSI mode or not."""

    types: dict[Type, str] = {"boolean": "BOOLEAN", "integer": "BIGINT", "real": "DOUBLE", "text": "STRING"}  # noqa: RUF012 - never written to
    quote = "`"

    def text(self, value: str) -> str:
        """Return a quoted constant; Spark reads backslashes as escapes."""
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def cut(self, operand: str) -> str:
        """Return a real cut towards zero; the range is tested here, since Spark takes 2^63 for an integer of 64 bits."""
        low, high = self.number(-(2.0**63)), self.number(2.0**63)
        return f"(CASE WHEN {operand} >= {low} AND {operand} < {high} THEN TRY_CAST({operand} AS BIGINT) END)"

    def divided(self, left: str, right: str) -> str:
        """Return a quotient; plain division raises in ANSI mode wherever the optimiser may have moved it."""
        return f"try_divide({left}, {right})"

    def like(self, operand: str, pattern: str, *, negated: bool) -> str:
        """Return a match; a backslash escapes in Spark's patterns, and so escapes itself."""
        return super().like(operand, pattern.replace("\\", "\\\\"), negated=negated)

    def halved(self, operand: str) -> str:
        """Return a whole number halved upwards."""
        return f"shiftright(CAST({operand} AS BIGINT) + 1, 1)"


class Postgres(DuckDB):
    """PostgreSQL, which raises where a double overflows or underflows: what would is found out beforehand.

    A product or quotient within one part in 2^53 of half the least positive double counts as zero; all else is as on
    the other engines.
    """

    types: dict[Type, str] = {"boolean": "BOOLEAN", "integer": "BIGINT", "real": "DOUBLE PRECISION", "text": "TEXT"}  # noqa: RUF012 - never written to

    def text(self, value: str) -> str:
        """Return a quoted constant that reads the same under both settings of standard_conforming_strings."""
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    def field(self, name: str, kind: Type) -> str:
        """Return a column, whose type is that of the card."""
        return self.cast(self.name(name), kind)

    def cut(self, operand: str) -> str:
        """Return a real cut towards zero."""
        low, high = self.number(-(2.0**63)), self.number(2.0**63)
        return f"(CASE WHEN {operand} >= {low} AND {operand} < {high} THEN CAST(trunc({operand}) AS BIGINT) END)"

    def collated(self, operand: str) -> str:
        """Return a text to be compared by code points."""
        return f'({operand} COLLATE "C")'

    def like(self, operand: str, pattern: str, *, negated: bool) -> str:
        """Return a match without an escape character."""
        return f"({operand} {'NOT ' * negated}LIKE {self.text(pattern)} ESCAPE '')"

    def real(self, symbol: Symbol, left: str, right: str, *, zero: bool) -> str:
        """Return arithmetic on doubles; both operands are named once by a subquery without a table."""
        if symbol == "-":
            symbol, right = "+", f"(-{right})"
        body = self._sum() if symbol == "+" else self._scaled(symbol, zero=zero)
        return f"(SELECT {body} FROM (SELECT {left} AS l, {right} AS r OFFSET 0) AS q)"  # noqa: S608 - our own text

    def _sum(self) -> str:
        half, infinity = self.number(2.0**1023 * (1 - 2.0**-53)), self.number(float("inf"))
        return (
            f"CASE WHEN abs(q.l) <= {half} AND abs(q.r) <= {half} THEN q.l + q.r "
            f"WHEN abs(q.l) >= {infinity} OR abs(q.r) >= {infinity} THEN q.l + q.r "
            f"WHEN abs(q.l) < 1 THEN q.r WHEN abs(q.r) < 1 THEN q.l "
            f"WHEN abs(q.l / 2 + q.r / 2) > {half} THEN CASE WHEN q.l > 0 THEN {infinity} ELSE -{infinity} END "
            "ELSE q.l + q.r END"
        )

    def _scaled(self, symbol: Symbol, *, zero: bool) -> str:
        """Return a product or quotient: tried on operands brought near 1 by powers of two, done only where it fits."""
        infinity = self.number(float("inf"))
        first = f"WHEN q.r = 0 THEN {self.number(0.0)} " if symbol == "/" and zero else ""
        if symbol == "/":
            first += f"WHEN abs(q.r) = {infinity} AND abs(q.l) < {infinity} THEN {self.number(0.0)} "
        high, low = self.number(2.0**500), self.number(2.0**-400)
        down, up = self.number(2.0**-600), self.number(2.0**600)

        def near(one: str) -> str:
            tiny = f"WHEN abs({one}) < {low} THEN {one} * {up}"
            return f"(CASE WHEN abs({one}) >= {high} THEN {one} * {down} {tiny} ELSE {one} END)"

        def power(one: str) -> str:
            return f"(CASE WHEN abs({one}) >= {high} THEN 1 WHEN abs({one}) < {low} THEN -1 ELSE 0 END)"

        sign = "+" if symbol == "*" else "-"
        size, scale = f"abs({near('q.l')} {symbol} {near('q.r')})", f"{power('q.l')} {sign} {power('q.r')}"
        large = f"(t.k = 1 AND t.m >= {self.number(2.0**424)}) OR (t.k = 2 AND t.m >= {self.number(2.0**-176)})"
        small = f"(t.k = -1 AND t.m <= {self.number(2.0**-475)}) OR (t.k = -2 AND t.m <= {self.number(2.0**125)})"
        judged = (
            f"SELECT CASE WHEN {large} THEN CASE WHEN (q.l > 0) = (q.r > 0) THEN {infinity} ELSE -{infinity} END "  # noqa: S608 - our own text
            f"WHEN {small} THEN {self.number(0.0)} ELSE q.l {symbol} q.r END "
            f"FROM (SELECT {size} AS m, {scale} AS k OFFSET 0) AS t"
        )
        plain = f"q.l = 0 OR abs(q.l) >= {infinity} OR abs(q.r) >= {infinity}" + (" OR q.r = 0" if symbol == "*" else "")
        return f"CASE {first}WHEN {plain} THEN q.l {symbol} q.r ELSE ({judged}) END"

"""Random queries over any card, and a table of rows that are as unkind as rows get. Others may import both."""

import numpy as np
import pyarrow as pa

from holdtrue.queries.cards import Card, Column
from holdtrue.queries.dates import DAY, LIMITS
from holdtrue.queries.evaluator import Values

CARD = Card(
    (
        Column("i", "integer"),
        Column("j", "integer", bounds=(0, 120)),
        Column("x", "real"),
        Column("y", "real"),
        Column("b", "boolean"),
        Column("c", "boolean"),
        Column("s", "text"),
        Column("t", "text"),
        Column("a b.c", "real"),
        Column('odd"; --', "integer"),
        Column("select", "boolean"),
        Column("d", "date"),
        Column("e", "date"),
        Column("w", "timestamp"),
    ),
    rows=257,
)

WHOLES = [0, 1, 2, -1, 40, 65, 120, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63]
LARGEST = 1.7976931348623157e308
REALS = [0.0, -0.0, 0.5, 1.0, 0.1, 0.3, 1 / 3, -1.0, 2.0, 65.0, 2.5, 0.49999999999999994, 1e-300, 1e300, LARGEST, -LARGEST]
REALS += [5e-324, -5e-324, 2.2e-308, 9007199254740993.0, 2.0**63, -(2.0**63)]
STRANGE = [float("nan"), float("inf"), float("-inf")]
WORDS = ["a", "A", "b", "ab", "aXb", "N", "S", "é", "É", "ß", "İ", "🙂", "e\u0301", "%", "_", "a%b", "a_b", "O'Neil", "NULL"]
WORDS += ["\\", "a\\b", '"', "--", "';", "aa", "aaa", "aab", "zz", "\U0010ffff", "\ufffd"]
WORDS += ["", " ", "a ", "a\nb", "\u2028", "Z" * 40]
DATES = ["0001-01-01", "0001-01-02", "1582-10-10", "1899-12-31", "1969-12-31", "1970-01-01", "2000-02-29", "2023-02-28"]
DATES += ["2024-02-29", "2026-01-31", "2100-03-01", "9999-12-30", "9999-12-31"]
TIMES = ["", " 00:00:00", " 23:59:59.999999", "T10:30", " 12:00:00.5", " 00:00:00.000001"]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "!="]
DEPTH = 4
_SIGNS = ["%", "_", "a", "b", "A", "é", "🙂", "\\", "'", ""]


def random_query_text(rng, card=CARD, *, depth=DEPTH):
    """Return a query over a card; it is accepted, save for one in some thousands that is too complex."""
    writer = _Writer(rng, card)
    return writer.condition(depth) if rng.random() < 0.5 else writer.number(depth)


class _Writer:
    def __init__(self, rng, card):
        self._rng = rng
        self._names = {kind: [_quoted(one.name) for one in card.columns if one.type == kind] for kind in _KINDS}

    def _pick(self, options):
        return options[self._rng.integers(len(options))]

    def condition(self, depth):
        inner = self._pick(_JOINTS) if depth > 0 and self._rng.random() < 0.55 else self._pick(_TESTS)
        made = inner(self, depth - 1)
        return f"({made})" if self._rng.random() < 0.7 else _wrapped(made)

    def chain(self, depth):
        steps = [f" {self._pick('+-*/')} {self.number(depth)}" for _ in range(self._rng.integers(2, 7))]
        return self.number(depth) + "".join(steps)

    def sign(self):
        return self._pick(["=", "<>"])

    def number(self, depth):
        if depth <= 0 or self._rng.random() < 0.3:
            return self._leaf()
        return self._pick(_NUMBERS)(self, depth - 1)

    def _leaf(self):
        kinds = [kind for kind in ("integer", "real") if self._names[kind]]
        if kinds and self._rng.random() < 0.65:
            return self._pick(self._names[self._pick(kinds)])
        return self.constant()

    def constant(self):
        return written(self._pick(WHOLES) if self._rng.random() < 0.5 else self._pick(REALS))

    def word(self, depth):
        if not self._names["text"] or self._rng.random() < 0.15:
            return written(self._pick(WORDS))
        name = self._pick(self._names["text"])
        if depth > 0 and self._rng.random() < 0.4:
            return self._pick(
                [
                    f"LOWER({name})",
                    f"upper({name})",
                    f"COALESCE({name}, {self.word(depth - 1)})",
                    f"nullif({name}, {written(self._pick(WORDS))})",
                ]
            )
        return name

    def date(self, depth):
        if depth > 0 and self._rng.random() < 0.4:
            return self._pick(
                [
                    f"COALESCE({self.date(depth - 1)}, {self.date(0)})",
                    f"NULLIF({self.date(depth - 1)}, {self.date(0)})",
                    f"LEAST({self.date(depth - 1)}, {self.date(0)})",
                    f"greatest({self.date(depth - 1)}, NULL, {self.date(0)})",
                    f"CAST({self.moment(depth - 1)} AS DATE)",
                ]
            )
        if not self._names["date"] or self._rng.random() < 0.2:
            return self._pick(["DATE '{}'", "date '{}'", "'{}'::date"]).format(self._pick(DATES))
        return self._pick(self._names["date"])

    def moment(self, depth):
        if depth > 0 and self._rng.random() < 0.3:
            return self._pick([f"CAST({self.date(depth - 1)} AS TIMESTAMP)", f"COALESCE({self.moment(0)}, {self.date(0)})"])
        if not self._names["timestamp"] or self._rng.random() < 0.2:
            return f"TIMESTAMP '{self._pick(DATES)}{self._pick(TIMES)}'"
        return self._pick(self._names["timestamp"])

    def either(self, depth):
        return self.date(depth) if self._rng.random() < 0.6 else self.moment(depth)

    def part(self, depth):
        if self._rng.random() < 0.5:
            return f"({self.date(depth)} - {self.date(depth)})"
        return f"{self._pick(['YEAR', 'month', 'DAY', 'WEEKDAY'])}({self.either(depth)})"

    def date_test(self, depth):
        left = self.either(depth)
        match self._rng.integers(5):
            case 0:
                listed = ", ".join(self.either(0) for _ in range(self._rng.integers(1, 5)))
                return f"{left} {self._pick(['', 'NOT '])}IN ({listed})"
            case 1:
                return f"{left} {self._pick(['', 'NOT '])}BETWEEN {self.either(depth - 1)} AND '{self._pick(DATES)}'"
            case 2:
                return f"{left} IS {self._pick(['', 'NOT '])}NULL"
            case 3:
                return f"'{self._pick(DATES)}{self._pick(TIMES)}' {self._pick(COMPARISONS)} {left}"
            case _:
                return f"{left} {self._pick(COMPARISONS)} {self.either(depth - 1)}"

    def text_test(self, depth):
        left = self.word(depth)
        match self._rng.integers(4):
            case 0:
                return f"{left} {self._pick(COMPARISONS)} {self.word(depth)}"
            case 1:
                listed = ", ".join(written(self._pick(WORDS)) for _ in range(self._rng.integers(1, 5)))
                return f"{left} {self._pick(['', 'NOT '])}IN ({listed})"
            case 2:
                pattern = "".join(self._pick(_SIGNS) for _ in range(self._rng.integers(0, 6)))
                return f"{left} {self._pick(['', 'NOT '])}LIKE {written(pattern)}"
            case _:
                return f"{left} IS {self._pick(['', 'NOT '])}NULL"

    def number_test(self, depth):
        left = self.number(depth)
        match self._rng.integers(6):
            case 0:
                listed = ", ".join(self.constant() for _ in range(self._rng.integers(1, 8)))
                return f"{left} {self._pick(['', 'NOT '])}IN ({listed})"
            case 1:
                return f"{left} {self._pick(['', 'NOT '])}BETWEEN {self.number(depth - 1)} AND {self.constant()}"
            case 2:
                return f"{left} IS {self._pick(['', 'NOT '])}NULL"
            case 3:
                return f"{self.constant()} {self._pick(COMPARISONS)} {left}"
            case _:
                return f"{left} {self._pick(COMPARISONS)} {self.number(depth - 1)}"

    def flag(self, _depth):
        if not self._names["boolean"]:
            return self._pick(["TRUE", "false"])
        name, other = self._pick(self._names["boolean"]), self._pick(self._names["boolean"])
        return self._pick(_FLAGS).format(name, other)


def _wrapped(made):
    return f"( {made} )"


def written(value):
    """Return a constant as SQL."""
    return repr(value) if not isinstance(value, str) else "'" + value.replace("'", "''") + "'"


def _quoted(name):
    return name if name.isidentifier() and name != "select" else '"' + name.replace('"', '""') + '"'


_FLAGS = [
    "{}",
    "NOT {}",
    "{} IS NULL",
    "{} IS NOT NULL",
    "{} IS TRUE",
    "{} IS NOT FALSE",
    "{} = FALSE",
    "{} = {}",
    "{} <> {}",
]
_FLAGS += ["{} = 'yes'", "'No' <> {}", "{} != 'TRUE'", "{} = 1", "{} <> 0", "{} IN ('no', {})", "{} NOT IN (1, NULL)"]
_KINDS = ("boolean", "integer", "real", "text", "date", "timestamp")
_TESTS = [_Writer.text_test, _Writer.number_test, _Writer.number_test, _Writer.flag, _Writer.date_test]
_JOINTS = [
    lambda writer, depth: f"{writer.condition(depth)} AND {writer.condition(depth)}",
    lambda writer, depth: f"{writer.condition(depth)} OR {writer.condition(depth)}",
    lambda writer, depth: f"NOT {writer.condition(depth)}",
    lambda writer, depth: f"{writer.condition(depth)} IS NOT TRUE",
    lambda writer, depth: f"{writer.condition(depth)} {writer.sign()} {writer.condition(depth)}",
    lambda writer, depth: f"{writer.condition(depth)} AND {writer.condition(depth)} and {writer.condition(depth)}",
]
_NUMBERS = [
    *[
        lambda writer, depth, symbol=symbol: f"({writer.number(depth)} {symbol} {writer.number(depth)})"
        for symbol in "+-*//"
    ],
    lambda writer, depth: f"({writer.chain(depth - 1)})",
    lambda writer, depth: writer.part(depth),
    lambda writer, depth: f"(- {writer.number(depth)})",
    lambda writer, depth: f"ABS({writer.number(depth)})",
    lambda writer, depth: f"LEAST({writer.number(depth)}, {writer.number(depth)}, {writer.number(depth)})",
    lambda writer, depth: f"GREATEST({writer.number(depth)}, {writer.number(depth)})",
    lambda writer, depth: f"COALESCE({writer.number(depth)}, {writer.number(depth)})",
    lambda writer, depth: f"NULLIF({writer.number(depth)}, {writer.number(depth)})",
    lambda writer, depth: f"LENGTH({writer.word(depth)})",
    lambda writer, depth: f"CAST({writer.number(depth)} AS INTEGER)",
    lambda writer, depth: f"CAST({writer.number(depth)} AS DOUBLE)",
    lambda writer, depth: f"CAST({writer.condition(depth)} AS BIGINT)",
    lambda writer, depth: f"CASE WHEN {writer.condition(depth)} THEN {writer.number(depth)} ELSE {writer.number(depth)} END",
    lambda writer, depth: (
        f"CASE WHEN {writer.condition(depth)} THEN {writer.number(depth)} WHEN {writer.condition(depth)} THEN NULL END"
    ),
]


def adversarial_rows(rng, card=CARD):
    """Return the columns of a card, as :class:`Values`, filled with the hardest values of their types and with NULLs."""
    return {column.name: _filled(rng, column.type, card.rows) for column in card.columns}


def _filled(rng, kind, rows):
    valid = rng.random(rows) > 0.15
    match kind:
        case "boolean":
            data = rng.random(rows) < 0.5
        case "integer":
            data = np.array(WHOLES, dtype=np.int64)[rng.integers(len(WHOLES), size=rows)]
        case "date":
            data = _days(rng, rows)
        case "timestamp":
            data = _days(rng, rows) * DAY + rng.choice([0, 1, 37_800_000_000, 43_200_500_000, DAY - 1], size=rows)
        case "real":
            pool = np.array([*REALS, *STRANGE, *STRANGE])
            data = np.where(rng.random(rows) < 0.7, pool[rng.integers(len(pool), size=rows)], rng.random(rows))
        case _:
            data = np.array(WORDS, dtype=object)[rng.integers(len(WORDS), size=rows)]
    return Values(data, valid)


def _days(rng, rows):
    """Return days of the calendar: its ends, days around the constants, and days drawn from all of it."""
    known = np.array(DATES, dtype="M8[D]").astype(np.int64)[rng.integers(len(DATES), size=rows)]
    low, high = LIMITS["date"]
    return np.where(
        rng.random(rows) < 0.7, np.clip(known + rng.integers(-1, 2, rows), low, high), rng.integers(low, high + 1, rows)
    )


def arrow(columns):
    """Return columns as an Arrow table."""
    return pa.table({name: pa.array(one.data, mask=~one.valid, from_pandas=False) for name, one in columns.items()})

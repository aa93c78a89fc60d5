"""Tables that hold what breaks engines, and random queries over them."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa

from holdtrue.errors import RequestError
from holdtrue.queries.parser import parse

SCHEMA = pa.schema(
    [
        ("age", pa.int64()),
        ("score", pa.float64()),
        ("smoker", pa.bool_()),
        ("region", pa.string()),
        ("odd name", pa.int64()),
        ("share", pa.float64()),
        ("born", pa.date32()),
        ("died", pa.date32()),
        ("seen", pa.timestamp("us")),
    ]
)
_INTEGERS = [None, 0, 1, -1, 2, 40, 65, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), -(2**63) + 1]
_REALS = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 0.5, 1.0, 0.1, 1e308, -1e308, 2.0**-40, 65.0, 2.5]
_TEXTS = [
    None,
    "",
    "N",
    "S",
    "n",
    "Ä",
    "\u00e9",
    "e\u0301",
    "\U0001f600",
    "%",
    "_",
    "a%b",
    "a_b",
    "'",
    '"',
    "x\ny",
    "  N",
    "ß",
    "ſ",
]


_DATES = [None, *map(dt.date.fromisoformat, ("0001-01-01", "1582-10-10", "1969-12-31", "1970-01-01", "2000-02-29"))]
_DATES += map(dt.date.fromisoformat, ("2024-02-28", "2024-02-29", "2024-03-01", "2026-01-31", "9999-12-31"))
_TIMES = [dt.time(), dt.time(10, 30), dt.time(23, 59, 59, 999_999), dt.time(0, 0, 0, 1)]
_MOMENTS = [None if day is None else dt.datetime.combine(day, time) for day in _DATES for time in _TIMES]


def table(rows: int, *, seed: int, missing: bool = False) -> pa.Table:
    """Return rows drawn from the worst values of each type; nothing but NULL where ``missing``."""
    rng = np.random.default_rng(seed)

    def drawn(values):
        return [None if missing else values[place] for place in rng.integers(0, len(values), rows)]

    columns = [drawn(_INTEGERS), drawn(_REALS), drawn([None, True, False]), drawn(_TEXTS)]
    columns += [drawn([None, *range(-3, 9)]), [None if missing else float(value) for value in rng.random(rows).round(2)]]
    columns += [drawn(_DATES), drawn(_DATES), drawn(_MOMENTS)]
    return pa.table({field.name: pa.array(cells, field.type) for field, cells in zip(SCHEMA, columns, strict=True)})


TABLES = {
    "mixed": table(1003, seed=1),
    "one": table(1, seed=2),
    "byte": table(9, seed=3),
    "missing": table(70, seed=4, missing=True),
    "empty": table(0, seed=5),
}

_INTEGER_CONSTANTS = ["0", "1", "-1", "40", "65", "7", "9223372036854775807", "-9223372036854775807", "9007199254740993"]
_PARTS = ["YEAR", "MONTH", "DAY", "WEEKDAY"]
_REAL_CONSTANTS = ["0.5", "0.1", "1e308", "-2.5", "64.5", "1e-300", "0.25", "3.0"]


class Sentences:
    """Random query texts, most of them accepted."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def _one(self, choices):
        return choices[int(self._rng.integers(0, len(choices)))]

    def number(self, depth: int) -> str:
        """Return an expression of numbers."""
        kind = int(self._rng.integers(0, 12 if depth else 4))
        if kind < 2:
            return self._one(["age", "score", '"odd name"', "share"])
        if kind < 4:
            return self._one(_INTEGER_CONSTANTS + _REAL_CONSTANTS)
        inner, other = self.number(depth - 1), self.number(depth - 1)
        if self._rng.random() < 0.1:
            return self._one([f"{self._one(_PARTS)}({self.date()})", "(born - died)", "(born - CAST(seen AS DATE))"])
        match kind:
            case 4 | 5 | 6:
                return f"({inner} {self._one('+-*/')} {other})"
            case 7:
                return f"-({inner})"
            case 8:
                return f"CASE WHEN {self.condition(depth - 1)} THEN {inner} ELSE {other} END"
            case 9:
                return f"{self._one(['LEAST', 'GREATEST', 'COALESCE', 'NULLIF'])}({inner}, {other})"
            case 10:
                return self._one([f"ABS({inner})", f"({inner} + {other} - {self.number(0)} * {self.number(0)} / {inner})"])
            case _:
                return "LENGTH(region)"

    def condition(self, depth: int) -> str:
        """Return a condition."""
        kind = int(self._rng.integers(0, 12 if depth else 8))
        column = self._one(["age", "score", '"odd name"', "share"])
        if self._rng.random() < 0.15:
            return self.date_test()
        match kind:
            case 0 | 1 | 2:
                constant = self._one(_INTEGER_CONSTANTS + _REAL_CONSTANTS)
                return f"{column} {self._one(['<', '<=', '>', '>=', '=', '<>'])} {constant}"
            case 3:
                known = ["smoker", "NOT smoker", "smoker IS NULL", "region IS NULL", f"{column} IS NOT NULL"]
                known += ["smoker = 'yes'", "smoker <> 1", f"smoker = ({column} > 1)", "smoker NOT IN ('No', NULL)"]
                return self._one(known)
            case 4:
                return f"region {self._one(['=', '<', '>=', '<>'])} {self._text()}"
            case 5:
                return (
                    f"region {self._one(['', 'NOT '])}LIKE {self._one(['%', '_', 'a%', '%N', 'a!_b', '%%b', '_%', 'Ä'])!r}"
                )
            case 6:
                return f"region {self._one(['', 'NOT '])}IN ({self._text()}, {self._text()})"
            case 7:
                return self._one([f"{column} IN (1, 40, 65)", f"{column} BETWEEN -1 AND 7", f"{column} NOT IN (0, 2)"])
            case 8 | 9:
                return f"({self.condition(depth - 1)} {self._one(['AND', 'OR'])} {self.condition(depth - 1)})"
            case 10:
                return f"NOT ({self.condition(depth - 1)})"
            case _:
                return f"{self.number(depth - 1)} {self._one(['<', '>=', '=', '<>'])} {self.number(depth - 1)}"

    def date(self) -> str:
        """Return an expression of dates or timestamps."""
        return self._one(["born", "died", "seen", "COALESCE(born, died)", "CAST(seen AS DATE)", "LEAST(born, seen)"])

    def date_test(self) -> str:
        """Return a condition on dates."""
        constants = [
            "DATE '2024-02-29'",
            "'1970-01-01'",
            "TIMESTAMP '2026-01-31 10:30:00'",
            "DATE '0001-01-01'",
            self.date(),
        ]
        match int(self._rng.integers(0, 4)):
            case 0:
                return f"{self.date()} {self._one(['', 'NOT '])}IN ({self._one(constants)}, {self._one(constants)})"
            case 1:
                return f"{self.date()} {self._one(['', 'NOT '])}BETWEEN {self._one(constants)} AND {self._one(constants)}"
            case 2:
                number = self._one(["1", "2", "6", "29", "2024"])
                return f"{self._one(_PARTS)}({self.date()}) {self._one(['<', '=', '>'])} {number}"
            case _:
                return f"{self.date()} {self._one(['<', '<=', '>', '>=', '=', '<>'])} {self._one(constants)}"

    def _text(self) -> str:
        return self._one(["'N'", "''", "'Ä'", "'é'", "'\U0001f600'", "'ß'", "'n'"])


def queries(card, number: int, *, seed: int, boolean: bool | None = None, depth: int = 3):
    """Return accepted queries, no two of them the same; only booleans, or only others, where asked."""
    sentences = Sentences(seed)
    found = {}
    tried = set()
    for attempt in range(20 * number):
        kind = attempt % 2 == 0 if boolean is None else boolean
        text = sentences.condition(depth) if kind else sentences.number(depth)
        if text in tried:
            continue
        tried.add(text)
        try:
            query = parse(text, card)
        except RequestError:
            continue
        found[query.digest] = query
        if len(found) == number:
            return list(found.values())
    message = f"only {len(found)} of {number} queries were accepted"
    raise AssertionError(message)

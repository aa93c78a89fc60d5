"""The meaning of queries on arrays, case by case."""

import math

import numpy as np
import pytest

from holdtrue.errors import InvalidParameter
from holdtrue.queries import Card, Column, parse
from holdtrue.queries.evaluator import Values, evaluate, satisfies
from holdtrue.queries.syntax_tree import Constant

CARD = Card(
    (
        *(Column("i", "integer"), Column("x", "real"), Column("b", "boolean"), Column("s", "text"), Column("z", "real")),
        *(Column("d", "date"), Column("w", "timestamp")),
    ),
    1,
)
LOW, HIGH = -(2**63), 2**63 - 1
INF, NAN = math.inf, math.nan


def _one(text, bits=10, **cells):
    """Return the grid value on one row; what is not given is NULL."""
    kinds = {"i": np.int64, "x": np.float64, "b": np.bool_, "s": object, "z": np.float64, "d": np.int64, "w": np.int64}
    for name, unit in (("d", "D"), ("w", "us")):
        if name in cells:
            cells[name] = int(np.datetime64(cells[name], unit).astype(np.int64))
    columns = {}
    for name, kind in kinds.items():
        cell = cells.get(name)
        empty = "" if kind is object else 0
        columns[name] = Values(np.array([empty if cell is None else cell], dtype=kind), np.array([cell is not None]))
    return int(evaluate(parse(text, CARD), columns, bits)[0])


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [
        # NULL and NaN count 0 and satisfy nothing but IS NULL
        ("x", {}, 0),
        ("x", {"x": NAN}, 0),
        ("x > 0 OR x <= 0 OR x <> 1 OR x = x", {"x": NAN}, 0),
        ("x NOT IN (1, 2)", {"x": NAN}, 0),
        ("x IS NULL", {"x": NAN}, 1024),
        ("i NOT IN (1, 2)", {}, 0),
        ("s NOT LIKE 'a'", {}, 0),
        ("NOT b", {}, 0),
        ("b IS NOT TRUE", {}, 1024),
        ("COALESCE(x, 0.5)", {"x": NAN}, 512),
        ("LEAST(x, 0.5)", {"x": NAN}, 512),
        ("GREATEST(x, 0.5)", {"x": NAN}, 512),
        ("GREATEST(x, z) IS NULL", {"x": NAN}, 1024),
        # clamping and infinities
        ("x", {"x": 7.0}, 1024),
        ("x", {"x": -7.0}, 0),
        ("x", {"x": INF}, 1024),
        ("x", {"x": -INF}, 0),
        ("x > 1e308", {"x": INF}, 1024),
        ("x * 2 > 1e308", {"x": 1.7e308}, 1024),
        ("x - z IS NULL", {"x": INF, "z": INF}, 1024),
        ("1 / x = 0", {"x": INF}, 1024),
        # division by zero is 0, whatever is divided
        ("1 / x = 0", {"x": 0.0}, 1024),
        ("1 / x = 0", {"x": -0.0}, 1024),
        ("z / x = 0", {"x": 0.0, "z": INF}, 1024),
        ("z / x = 0", {"x": 0.0}, 1024),
        ("1 / (i - 40) = 0", {"i": 40}, 1024),
        ("i / 2 = 1.5", {"i": 3}, 1024),
        # integers that might not fit are reals; comparisons with constants are exact
        ("i + 1 > 9e18", {"i": HIGH}, 1024),
        ("-i > 9e18", {"i": LOW}, 1024),
        ("ABS(i) > 9e18", {"i": LOW}, 1024),
        ("i > 9007199254740992", {"i": 2**53 + 1}, 1024),
        ("i > 9007199254740992.0", {"i": 2**53 + 1}, 1024),
        ("i = 9007199254740993", {"i": 2**53 + 1}, 1024),
        ("i < 9223372036854775808", {"i": HIGH}, 1024),
        ("i <= 9223372036854775807", {"i": HIGH}, 1024),
        ("i > 0.5 AND i < 1.5 AND i <> 1.25", {"i": 1}, 1024),
        ("LEAST(GREATEST(i, 0), 120) + 1 = 121", {"i": HIGH}, 1024),
        # casts
        ("CAST(x AS INTEGER) = -1", {"x": -1.9}, 1024),
        ("CAST(x AS INTEGER) IS NULL", {"x": 2.0**63}, 1024),
        ("CAST(x AS INTEGER) = -9223372036854775808", {"x": -(2.0**63)}, 1024),
        ("CAST(x AS INTEGER) IS NULL", {"x": INF}, 1024),
        ("CAST(b AS INTEGER)", {"b": True}, 1024),
        ("CAST(b AS INTEGER) IS NULL", {}, 1024),
        # text
        ("LENGTH(s) = 2", {"s": "é🙂"}, 1024),
        ("LOWER(s) = 'aÉ'", {"s": "AÉ"}, 1024),
        ("s < 'b' AND s > 'B'", {"s": "a"}, 1024),
        ("s > '\uffff'", {"s": "\U00010000"}, 1024),
        ("s = ''", {"s": ""}, 1024),
        ("COALESCE(s, 'none') = 'none'", {}, 1024),
        ("NULLIF(s, '') IS NULL", {"s": ""}, 1024),
        # dates
        ("d > '2026-01-31'", {"d": "2026-02-01"}, 1024),
        ("d > '2026-01-31'", {"d": "2026-01-31"}, 0),
        ("d > '2026-01-31' OR d <= '2026-01-31'", {}, 0),
        ("d IS NULL", {}, 1024),
        ("YEAR(d) = 1969 AND MONTH(d) = 12 AND DAY(d) = 31 AND WEEKDAY(d) = 2", {"d": "1969-12-31"}, 1024),
        ("YEAR(d) = 1 AND MONTH(d) = 1 AND DAY(d) = 1 AND WEEKDAY(d) = 0", {"d": "0001-01-01"}, 1024),
        ("YEAR(d) = 9999 AND MONTH(d) = 12 AND DAY(d) = 31 AND WEEKDAY(d) = 4", {"d": "9999-12-31"}, 1024),
        ("YEAR(d) = 2024 AND MONTH(d) = 2 AND DAY(d) = 29 AND WEEKDAY(d) = 3", {"d": "2024-02-29"}, 1024),
        ("WEEKDAY(w) = 6", {"w": "2026-11-15T23:59:59.999999"}, 1024),
        ("d - DATE '2024-02-28' = 2", {"d": "2024-03-01"}, 1024),
        ("d - DATE '1582-10-04' = 11", {"d": "1582-10-15"}, 1024),
        ("(d - DATE '2026-01-31') / 4", {"d": "2026-02-01"}, 256),
        ("d - DATE '2026-01-31' IS NULL", {}, 1024),
        ("CAST(w AS DATE) = '1969-12-31'", {"w": "1969-12-31T23:59:59.999999"}, 1024),
        ("w = d", {"w": "2026-01-31T00:00:00", "d": "2026-01-31"}, 1024),
        ("w > d", {"w": "2026-01-31T00:00:00.000001", "d": "2026-01-31"}, 1024),
        ("w BETWEEN '2026-01-31' AND '2026-01-31 10:00'", {"w": "2026-01-31T10:00:00"}, 1024),
        ("COALESCE(d, '2026-01-31') = '2026-01-31'", {}, 1024),
        ("GREATEST(d, '2026-01-31') = '2026-01-31'", {"d": "2026-01-30"}, 1024),
        # integers give 0 or 1
        ("i", {"i": 5}, 1024),
        ("i", {"i": -5}, 0),
    ],
)
def test_the_value_of_a_row(text, cells, expected):
    assert _one(text, **cells) == expected


@pytest.mark.parametrize(
    ("value", "bits", "expected"),
    [
        (0.5, 0, 1),
        (math.nextafter(0.5, 0), 0, 0),
        (0.25, 1, 1),
        (math.nextafter(0.25, 0), 1, 0),
        (0.75, 1, 2),
        (1.0, 60, 2**60),
        (1 - 2.0**-53, 53, 2**53 - 1),
        (1 - 2.0**-53, 52, 2**52),
        (5e-324, 60, 0),
        (2.0**-61, 60, 1),
        (1 / 3, 20, 349525),
    ],
)
def test_halves_are_rounded_up_exactly(value, bits, expected):
    assert _one("x", bits, x=value) == expected


@pytest.mark.parametrize("bits", [-1, 61, 1.5, True, "8"])
def test_the_grid_has_0_to_60_bits(bits):
    with pytest.raises(InvalidParameter, match="bits"):
        _one("x", bits, x=1.0)


def test_texts_come_as_objects_as_numpy_strings_or_as_codes():
    words, valid = ["b", "a", "", "b"], np.array([True, True, True, False])
    plain = Values(np.array(words, dtype=object), valid)
    numpy = Values(np.array(words, dtype=np.dtypes.StringDType()), valid)
    coded = Values(np.array([0, 1, 2, 99]), valid, ("b", "a", ""))
    unmasked = Values(np.array(["b", "a", "", None], dtype=object))
    for text in (
        "s = 'b'",
        "s >= 'a'",
        "s LIKE '_'",
        "s IN ('a', '')",
        "UPPER(s) = 'B'",
        "LENGTH(s) = 0",
        "s IS NULL",
        "s < LOWER(s)",
    ):
        tree = parse(text, CARD).tree
        found = [satisfies(tree, {"s": column}).tolist() for column in (plain, numpy, coded, unmasked)]
        assert found[0] == found[1] == found[2] == found[3], text


def test_a_table_without_rows_has_no_values():
    empty = {"s": Values(np.array([], dtype=object)), "x": Values(np.array([], dtype=float))}
    assert satisfies(parse("s = 'a' OR x > 1 OR s LIKE 'b%'", CARD).tree, empty).tolist() == []


def test_a_query_without_columns_needs_the_number_of_rows():
    assert evaluate(parse("TRUE", CARD), {}, 3, rows=2).tolist() == [8, 8]
    assert evaluate(parse("0.5", CARD), {}, 3, rows=2).tolist() == [4, 4]
    with pytest.raises(InvalidParameter, match="rows"):
        satisfies(Constant(value=True), {})


def test_no_warning_comes_out_of_hard_rows():
    """Warnings are errors in these tests: overflow, NaN and casts must pass in silence."""
    columns = {"x": Values(np.array([NAN, INF, -INF, 1e308])), "i": Values(np.array([LOW, HIGH, 0, 1]))}
    for text in ("x * x - x / i", "CAST(x AS INTEGER)", "-i * i", "ABS(i) + LEAST(x, i)", "1e308 * 10 - x"):
        assert evaluate(parse(text, CARD), columns, 8).dtype == np.int64

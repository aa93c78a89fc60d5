"""Canonical form: twins are one query, a text parses back to itself, and no rewriting changes what is true of a row."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdtrue.errors import RequestError
from holdtrue.queries import Card, Column, parse
from holdtrue.queries.canonical import to_query
from holdtrue.queries.checking import conjoin, disjoin
from holdtrue.queries.dates import DAY
from holdtrue.queries.evaluator import Values, satisfies
from holdtrue.queries.syntax_tree import And, Constant, Field, Null, Number, Or, Truth, ValueComparison
from queries.generating import CARD, arrow, random_query_text

TWINS = [
    (
        "age > 65 AND smoker",
        "smoker AND age > 65",
        "65 < age AND smoker",
        "((smoker)) AND (age > 65)",
        "age >= 66 and SMOKER",
    ),
    ("NOT (age > 65 AND smoker)", "age <= 65 OR NOT smoker", "NOT smoker OR NOT age > 65"),
    ("NOT NOT smoker", "smoker", "smoker = TRUE", "smoker IS TRUE", "smoker <> FALSE", "NOT smoker = FALSE"),
    (
        "smoker",
        "smoker = 'yes'",
        "smoker = 'TRUE'",
        "'Yes' = smoker",
        "smoker = 1",
        "1.0 = smoker",
        "smoker <> 'no'",
        "smoker != 0",
    ),
    (
        "NOT smoker",
        "smoker = 'No'",
        "smoker <> TRUE",
        "smoker = 0",
        "smoker IN (0)",
        "NOT smoker IN ('true')",
        "smoker NOT IN (1)",
    ),
    (
        "smoker IN ('yes', 'no')",
        "smoker IN (TRUE, FALSE)",
        "smoker IN (0, 1, NULL)",
        "smoker OR NOT smoker",
        "smoker = smoker",
    ),
    ("smoker NOT IN (TRUE, NULL)", "smoker <> smoker", "smoker NOT IN ('yes', 'no')", "FALSE"),
    ("smoker = insured", "insured = smoker", "NOT smoker <> insured", "smoker AND insured OR NOT smoker AND NOT insured"),
    ("smoker <> insured", "NOT (insured = smoker)", "smoker = (NOT insured)", "insured IN (NOT smoker)"),
    ("smoker = (age > 65)", "age > 65 AND smoker OR age <= 65 AND NOT smoker", "(age <= 65) <> smoker"),
    ("CASE smoker WHEN 'yes' THEN 1 WHEN 0 THEN 2 END", "CASE WHEN smoker THEN 1 WHEN NOT smoker THEN 2 END"),
    ("NOT (bmi < 1 OR (weight > 2 AND NOT insured))", "bmi >= 1 AND (weight <= 2 OR insured)"),
    ("age BETWEEN 18 AND 65", "age >= 18 AND age <= 65", "NOT age NOT BETWEEN 18 AND 65", "age > 17.5 AND NOT age > 65.25"),
    ("region IN ('N')", "region = 'N'", "'N' = region", "region LIKE 'N'", "NOT region <> 'N'"),
    ("region IN ('N', 'S', 'N')", "region IN ('S', 'N')"),
    ("age IN (1, 2)", "age IN (2.0, 1.0, 1.5)", "NOT age NOT IN (1, 2)"),
    ("smoker AND (smoker OR insured)", "smoker", "smoker OR (smoker AND insured)", "smoker AND smoker"),
    ("(smoker AND insured) AND age > 1", "smoker AND (insured AND age > 1)"),
    ("bmi + weight > 3", "3 < weight + bmi", "bmi + weight > 1 + 2", "bmi + weight > 3.0"),
    ("bmi < weight", "weight > bmi"),
    ("bmi / 50", "bmi / 50.0", "(bmi) / (25 * 2)"),
    ("LEAST(age, visits, 3)", "LEAST(LEAST(4, visits), age, 3, age)"),
    ("COALESCE(bmi, NULL, 0, weight)", "COALESCE(bmi, 0.0)"),
    ("name LIKE '%%a%_'", "name LIKE '%a_%'"),
    ("age > 1 AND NOT age > 1", "FALSE", "1 > 2", "NOT TRUE", "age = 1.5", "age NOT IN (1, NULL)"),
    ("age IS NULL OR age IS NOT NULL", "TRUE", "1 < 2"),
    ("age = age", "age IS NOT NULL", "age <> 0.5", "age < 1e300", "visits = visits AND age = age OR age IS NOT NULL"),
    ("(age > 1) IS NOT TRUE", "age <= 1 OR age IS NULL", "NOT ((age > 1) IS TRUE)"),
    (
        "CASE WHEN smoker THEN 1 ELSE 0 END",
        "IF(smoker, 1, 0)",
        "CASE WHEN FALSE THEN 7 WHEN smoker THEN 1 WHEN insured THEN 0 ELSE 0 END",
    ),
    ("CASE age WHEN 1 THEN 2 END", "CASE WHEN age = 1 THEN 2 ELSE NULL END"),
    ("CAST(age AS DOUBLE) / 2", "age / 2", "age::double / 2"),
    (
        "born >= DATE '2026-02-01'",
        "born > '2026-01-31'",
        "NOT born < DATE '2026-02-01'",
        "DATE '2026-01-31' < born",
        "born > CAST('2026-01-31' AS DATE)",
    ),
    ("born BETWEEN '2024-02-29' AND '2024-03-01'", "born > '2024-02-28' AND born < DATE '2024-03-02'"),
    (
        "born IN ('2026-01-31')",
        "born = DATE '2026-01-31'",
        "born = '2026-01-31 00:00:00'",
        "CAST(born AS TIMESTAMP) = '2026-01-31'",
        "born IN ('2026-01-31 00:00:00', '2026-01-31 10:00:00')",
    ),
    (
        "born > '2026-01-31'",
        "born > '2026-01-31 10:00:00'",
        "born >= '2026-01-31 00:00:00.000001'",
        "NOT born <= '2026-01-31 23:59:59'",
        "born >= '2026-02-01 00:00:00'",
        "TIMESTAMP '2026-01-31 10:00:00' < born",
    ),
    ("born <= '2026-01-31 10:00:00'", "born < '2026-01-31 10:00:00'", "born <= '2026-01-31'", "born < '2026-02-01T00:00'"),
    ("born = '2026-01-31 10:00:00'", "born IN ('2026-01-31 10:00', '2026-01-30 11:00')", "FALSE"),
    ("born <> '2026-01-31 10:00:00'", "born NOT IN ('2026-01-31 10:00', '2026-01-30 11:00')", "born IS NOT NULL"),
    ("born >= DATE '0001-01-01'", "born IS NOT NULL", "born <= '9999-12-31'", "born = born", "YEAR(born) IS NOT NULL"),
    ("born > DATE '9999-12-31'", "FALSE"),
    ("seen > DATE '2026-01-31'", "seen > TIMESTAMP '2026-01-31 00:00'", "seen > '2026-01-31T00:00:00.0'"),
    ("YEAR(seen) = 2026", "YEAR(CAST(seen AS DATE)) = YEAR(DATE '2026-07-01')", "2026 = year(seen::date)"),
    ("born - DATE '2026-01-31' > 7", "born - '2026-01-31' >= 8"),
    ("DATE '2026-03-01' - DATE '2026-02-28'", "1"),
    ("WEEKDAY(DATE '2026-11-16')", "WEEKDAY(TIMESTAMP '2026-11-16 23:59:59')", "0"),
    ("COALESCE(born, '2026-01-31') = '2026-01-31'", "COALESCE(born, DATE '2026-01-31') = DATE '2026-01-31'"),
    ("LOWER(UPPER(name)) = 'a'", "LOWER(name) = LOWER('A')"),
]
STRANGERS = [
    ("bmi > 1 OR NOT bmi > 1", "TRUE"),
    ("bmi > 1 OR bmi <= 1", "bmi > 1 OR bmi < 1"),
    ("smoker OR NOT smoker", "TRUE"),
    ("age * 1", "age * 1.0"),
    ("bmi > 65", "bmi >= 66"),
    ("(bmi + weight) + 1", "bmi + (weight + 1)"),
    ("bmi - weight", "weight - bmi"),
    ("name LIKE 'a%'", "name LIKE 'A%'"),
    ("age > 1", "visits > 1"),
    ("smoker", "CAST(smoker AS INTEGER)"),
    ("born = DATE '2026-01-31'", "seen = DATE '2026-01-31'"),
    ("born > DATE '2026-01-31'", "CAST(seen AS DATE) > DATE '2026-01-31'"),
    ("seen >= '2026-01-31'", "seen > '2026-01-30'"),
]


@pytest.mark.parametrize("twins", TWINS, ids=lambda twins: twins[0])
def test_twins_have_one_digest(read, twins):
    read_back = [read(text.replace("SMOKER", "smoker")) for text in twins]
    assert len({query.digest for query in read_back}) == 1
    assert len(set(read_back)) == 1


@pytest.mark.parametrize(("one", "other"), STRANGERS)
def test_strangers_have_two_digests(read, one, other):
    assert read(one).digest != read(other).digest


def test_excluded_middle_is_claimed_only_where_no_null_can_be(read):
    """A OR NOT a stays: a row where a is NULL does not satisfy it."""
    query = read("bmi > 1 OR NOT bmi > 1")
    values = {"bmi": Values(np.array([0.0, 2.0, np.nan, 5.0]), np.array([True, True, True, False]))}
    assert satisfies(query.tree, values).tolist() == [True, True, False, False]


def test_the_digest_rests_on_the_types_used():
    integer, real = (Card((Column("a", kind),), 1) for kind in ("integer", "real"))
    assert parse("a = 1", integer).digest != parse("a = 1", real).digest
    wider = Card((Column("a", "integer"), Column("z", "text")), 99)
    assert parse("a = 1", integer).digest == parse("a = 1", wider).digest


def test_digests_are_pinned(read):
    """A ledger written years ago must find the same question under the same name."""
    assert read("age > 65 AND smoker").digest == "164d935d777f18ca9d94285f33e59170c15bf62e9aed4054eac34b2440999d46"
    assert (
        read("(bmi / 50 + LENGTH(name)) * 0.1").digest == "e7f9b85e4c90ed52ff6590296e35dc865a36c214256de2648b6601d79696b39d"
    )


def test_a_query_says_what_it_is(read):
    query = read("weight > bmi AND smoker")
    assert (query.boolean, query.columns, str(query)) == (True, ("bmi", "smoker", "weight"), query.text)
    assert read("age / 100").boolean is False
    assert read("TRUE").columns == ()
    assert len({query, read("smoker AND bmi < weight")}) == 1


def test_the_tree_is_in_negation_normal_form(read):
    age = ValueComparison("<=", Field("age", "integer"), Number(65))
    assert read("NOT (age > 65 AND smoker)").tree == Or((age, Truth("smoker", wanted=False)))
    assert read("NOT (age > 65 OR smoker)").tree == And((age, Truth("smoker", wanted=False)))
    assert read("NOT bmi IS NULL").tree == Null(Field("bmi", "real"), negated=True)
    assert Number(1) != Number(1.0)
    assert Number(-0.0) == Number(0.0)


def test_empty_joins_are_constants():
    assert conjoin(()) == Constant(value=True)
    assert disjoin(()) == Constant(value=False)


@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
@given(st.integers(0, 2**63))
def test_the_canonical_text_parses_to_the_same_query(seed):
    rng = np.random.default_rng(seed)
    try:
        query = parse(random_query_text(rng, depth=3), CARD)
    except RequestError:
        return
    assert parse(query.text, CARD) == query


def test_the_canonical_text_of_the_largest_queries_parses_too(rng):
    """Near the caps, what is counted in the canonical text is what the parser counts."""
    accepted = refused = 0
    for _ in range(400):
        text = f" {['AND', 'OR'][rng.integers(2)]} ".join(random_query_text(rng, depth=2) for _ in range(9))
        try:
            query = parse(" OR ".join(f"({part}) > 0.5" for part in text.split(" OR ")), CARD)
        except RequestError:
            refused += 1
            continue
        accepted += 1
        assert parse(query.text, CARD) == query
    assert refused


def _simple(rng, depth):
    """Return a condition that every SQL engine reads alike: no arithmetic, no NaN, small numbers."""
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731 - as short as its use
    if depth == 0:
        number, symbol = pick("i", "j", "0", "1", "2"), pick("=", "<>", "<", "<=", ">", ">=")
        return pick(
            f"{number} {symbol} {pick('i', 'j')}",
            pick("b", "c"),
            pick("b = ", "b <> ") + pick("c", "TRUE", "1", "0", "'yes'", "'No'", "'true'"),
            pick("b", "c") + pick(" IN ", " NOT IN ") + pick("(TRUE)", "(c, FALSE)", "('yes')", "(1, 0)", "(FALSE, NULL)"),
            f"{pick('i', 'j')} {pick('', 'NOT ')}IN ({pick('0, 1', '1', '2, 1, 0', '0, NULL', 'j, 1')})",
            f"i {pick('', 'NOT ')}BETWEEN {pick('0', '1', 'j')} AND {pick('1', '2', 'j')}",
            f"{pick('i', 'b', 's')} IS {pick('', 'NOT ')}NULL",
            f"s {pick('', 'NOT ')}LIKE '{pick('a%', '%', '_', 'ab', '')}'",
            f"s {symbol} '{pick('a', 'b')}'",
            f"s {symbol} t",
            f"COALESCE(i, j, 1) {symbol} NULLIF(j, 1)",
            f"CASE WHEN b THEN i WHEN c THEN 1 END {symbol} j",
            f"LEAST(i, j) {symbol} GREATEST(j, 1)",
            f"LENGTH(s) {symbol} i",
            f"{pick('d', 'e')} {symbol} " + pick("e", "DATE '2020-02-29'", "'2019-12-31'"),
            f"d {pick('', 'NOT ')}BETWEEN " + pick("e", "DATE '2020-01-01'") + " AND DATE '2020-03-01'",
            f"d {pick('', 'NOT ')}IN (" + pick("e", "DATE '2020-02-29', DATE '2020-03-01'", "NULL, e") + ")",
            f"w {symbol} " + pick("TIMESTAMP '2020-02-29 12:00:00'", "DATE '2020-02-29'", "d", "CAST(e AS TIMESTAMP)"),
            f"CAST(w AS DATE) {symbol} d",
            f"{pick('YEAR', 'MONTH', 'DAY')}({pick('d', 'w')}) {symbol} {pick('2020', '2', '29', '1')}",
            f"(d - e) {symbol} " + pick("0", "1", "i", "(d - DATE '2020-02-28')"),
            f"COALESCE(d, e) {symbol} NULLIF(e, DATE '2020-02-29')",
            f"LEAST(d, e) {symbol} GREATEST(e, DATE '2020-02-28')",
        )
    left, right = _simple(rng, depth - 1), _simple(rng, depth - 1)
    return pick(
        f"({left}) AND ({right})",
        f"({left}) OR ({right})",
        f"NOT ({left})",
        f"({left}) IS {pick('TRUE', 'FALSE', 'NOT TRUE', 'NOT FALSE')}",
        f"({left}) = {pick('TRUE', 'FALSE')}",
        f"({left}) {pick('=', '<>')} ({right})",
        f"CAST(({left}) AS INTEGER) {pick('=', '<>', '<')} {pick('0', '1', 'i')}",
        f"({left}) AND ({left}) OR ({right})",
        f"(({left}) OR ({right})) AND ({left})",
        f"({left}) AND NOT ({left})",
    )


def test_rewriting_keeps_three_valued_logic(rng):
    """The oracle is DuckDB's own reading of the analyst's text, on rows where both languages mean the same."""
    rows = 200
    data = {
        "i": rng.integers(0, 3, rows),
        "j": rng.integers(0, 3, rows),
        "b": rng.random(rows) < 0.5,
        "c": rng.random(rows) < 0.5,
        "s": np.array(["", "a", "b", "ab"], dtype=object)[rng.integers(4, size=rows)],
        "t": np.array(["", "a", "b", "ab"], dtype=object)[rng.integers(4, size=rows)],
    }
    start = np.datetime64("2019-12-30").astype(np.int64)
    data |= {name: start + rng.choice([0, 1, 2, 59, 60, 61, 62, 63], size=rows) for name in "de"}
    data["w"] = DAY * (start + rng.choice([1, 60, 61, 62], size=rows)) + rng.choice([0, 1, DAY // 2, DAY - 1], size=rows)
    columns = {name: Values(one, rng.random(rows) > 0.3) for name, one in data.items()}
    held = arrow(columns)
    for name, kind in {"d": pa.date32(), "e": pa.date32(), "w": pa.timestamp("us")}.items():
        whole = held.column(name).cast(pa.int32()) if name in "de" else held.column(name)
        held = held.set_column(held.column_names.index(name), name, whole.cast(kind))
    connection = duckdb.connect()
    texts = [_simple(rng, rng.integers(0, 4)) for _ in range(1500)]
    for start in range(0, len(texts), 100):
        batch = texts[start : start + 100]
        listed = ", ".join(f"COALESCE(({text}), FALSE) AS q{place}" for place, text in enumerate(batch))
        expected = connection.execute(f"SELECT {listed} FROM held").fetchnumpy()  # noqa: S608 - the test's own text
        for place, text in enumerate(batch):
            query = parse(text, CARD)
            assert np.array_equal(satisfies(query.tree, columns), expected[f"q{place}"]), (text, query.text)


def test_conditions_are_joined_as_their_texts_are():
    texts = ["i > 30", "b", "s = 'N' AND NOT b", "x > 1 OR i > 2", "TRUE", "i <= 30", "b OR i > 30"]
    for one in texts:
        for other in texts:
            joined = to_query(conjoin([parse(one, CARD).tree, parse(other, CARD).tree]))
            assert joined == parse(f"({one}) AND ({other})", CARD)

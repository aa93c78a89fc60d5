"""Aggregates over the rows of a unit: one query for one meaning, texts that parse back, refusals that say the way (U4)."""

import pytest

from holdtrue.codec import decode, encode
from holdtrue.errors import RequestError, UnknownColumn, UnsupportedQuery
from holdtrue.queries import Card, Column, parse
from holdtrue.queries.cards import UnitTable
from holdtrue.queries.syntax_tree import list_aggregates

COLUMNS = (
    Column("patient_id", "integer"),
    Column("cost", "real", bounds=(0, 1000)),
    Column("score", "real"),
    Column("items", "integer", bounds=(0, 10)),
    Column("ill", "boolean"),
    Column("seen", "date"),
    Column("ward", "text"),
)
ALONE = Card((), 100, "patient_id", (UnitTable("", COLUMNS),))
REGISTRY = Card(
    (Column("patient_id", "integer"), Column("age", "integer")),
    100,
    "patient_id",
    (UnitTable("visits", COLUMNS), UnitTable("my labs", COLUMNS)),
)
TWINS = [
    ("COUNT(ill) > 0", "ANY(ill)", "COUNT(ill) >= 1", "any(ill WHERE TRUE)"),
    ("COUNT(ill) <= 0", "NOT ANY(ill)", "COUNT_IF(ill) < 1"),
    ("COUNT(cost <= 3 OR cost IS NULL) <= 0", "EVERY(cost > 3)"),
    ("COUNT(ill) / COUNT(*)", "SHARE(ill)", "SHARE(ill = TRUE)"),
    ("COUNT(items > 2 AND ill) / COUNT(items > 2)", "SHARE(ill WHERE items > 2)"),
    ("COUNT(*) > 1", "COUNT(*) >= 2", "COUNT(TRUE) > 1"),
    ("COUNT(cost IS NOT NULL) > 2", "count(cost) > 2"),
    ("SUM(cost) / COUNT(cost IS NOT NULL) / 1000", "AVG(cost) / 1000", "mean(cost)/1000"),
    ("SUM(items WHERE ill) > 2", "SUM(items WHERE ill) >= 3"),
    ("FIRST(ward BY seen) = 'N'", "FIRST(ward ORDER BY seen) = 'N'"),
    ("FIRST(cost BY seen WHERE ill) > 3.5", "3.5 < FIRST(cost BY seen WHERE ill = 'yes')"),
    ("MAX(seen) - MIN(seen) > 30", "30 < MAX(seen) - MIN(seen)"),
    ("MAX(seen) > DATE '2020-01-01'", "MAX(seen) > '2020-01-01'"),
    ("FALSE", "ANY(ill AND NOT ill)"),
]


@pytest.mark.parametrize("twins", TWINS, ids=lambda twins: twins[0])
def test_spellings_of_one_meaning_are_one_query(twins):
    found = {parse(text, ALONE).digest: parse(text, ALONE).text for text in twins}
    assert set(found.values()) == {twins[0]}


@pytest.mark.parametrize("twins", TWINS, ids=lambda twins: twins[0])
def test_canonical_text_parses_back(twins):
    for text in twins:
        query = parse(text, ALONE)
        assert parse(query.text, ALONE) == query


def test_a_table_is_named_before_its_aggregate():
    query = parse('visits.COUNT(ill) >= 2 AND "my labs".ANY(items > 3) AND age > 65', REGISTRY)
    assert query.text == '"my labs".COUNT(items > 3) > 0 AND visits.COUNT(ill) > 1 AND age > 65'
    assert parse(query.text, REGISTRY) == query
    assert {found.table for found in list_aggregates(query.tree)} == {"visits", "my labs"}
    other = parse('"my labs".COUNT(ill) >= 2', REGISTRY)
    assert other.digest != parse("visits.COUNT(ill) >= 2", REGISTRY).digest


def test_bounds_belong_to_what_a_sum_is():
    """Rows are clamped to them, so the same words over other bounds are another query."""
    wider = Card((), 100, "patient_id", (UnitTable("", (Column("cost", "real", bounds=(0, 2000)),)),))
    assert parse("SUM(cost) > 5", ALONE).digest != parse("SUM(cost) > 5", wider).digest
    assert parse("SUM(cost / 10) > 5", ALONE).text == "SUM(cost / 10) > 5"
    assert parse("SUM(LEAST(GREATEST(score, 0), 1)) > 5", ALONE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cost > 1", "'cost' is a column of rows.*put it in an aggregate"),
        ("COUNT(ill) / 0", "a cap, which is 1 or more"),
        ("SUM(cost) / 0.5", "a cap, which is 1 or more"),
        ("SUM(score) / 10", "declare bounds="),
        ("AVG(patient_id)", "declare bounds="),
        ("ANY(ANY(ill))", "stands within another"),
        ("SUM(COUNT(*))", "stands within another"),
        ("ANY(age > 1)", "no column 'age'"),
        ("MIN(ward) = 'N'", "not text"),
        ("SUM(ward)", "take numbers, not text"),
        ("FIRST(cost BY ward)", "not text"),
        ("FIRST(cost)", "read as one SQL expression"),
        ("ANY()", "read as one SQL expression"),
        ("ANY(ill, ill)", "read as one SQL expression"),
        ("ANY(cost)", "compare it with something"),
        ("labs.ANY(ill)", "there is no table 'labs'"),
        ("visits.cost > 1", "a dotted name"),
        ("sum(cost) OVER ()", "window"),
        ("COUNT(DISTINCT cost)", "DISTINCT"),
        ("FIRST(ward BY seen)", "not text"),
    ],
)
def test_refusals_say_what_to_write(text, words):
    with pytest.raises(RequestError, match=words):
        parse(text, ALONE)


def test_one_of_several_tables_has_to_be_named():
    with pytest.raises(UnknownColumn, match="say which, as in visits"):
        parse("COUNT(ill) > 1", REGISTRY)


@pytest.mark.parametrize("name", ["ANY", "EVERY", "SHARE", "COUNT", "SUM", "AVG", "MIN", "MAX"])
def test_without_units_an_aggregate_says_that_one_is_needed(name):
    rows = Card(COLUMNS, 100)
    with pytest.raises(UnsupportedQuery, match=f"the aggregate {name} is outside.*open the data with unit="):
        parse(f"{name}(items > 1)", rows)


def test_a_card_of_rows_is_written_as_ever_and_one_of_units_reads_back():
    assert encode(Card(COLUMNS[:1], 7)) == '{"columns":[{"name":"patient_id","type":"integer"}],"rows":7}'
    assert decode(encode(REGISTRY), Card) == REGISTRY
    assert (ALONE.population, REGISTRY.population) == (
        "a random patient_id with at least one row",
        "a random patient_id",
    )
    assert Card(COLUMNS, 7).population is None

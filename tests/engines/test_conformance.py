"""One interface, one set of tests, every engine."""

import datetime as dt
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.tree import DecisionTreeClassifier

from engines.adversarial import TABLES
from holdtrue.engines import Engine
from holdtrue.ensembles.parts import PartRule, hash_contents
from holdtrue.ensembles.training import make_recipe, train_by
from holdtrue.errors import CuratorClosed, InvalidParameter, RequestError, UnknownColumn
from holdtrue.queries.features import Numbers
from holdtrue.queries.parser import parse
from holdtrue.verbs.tables import cut, read_groups

BITS = 20
SMALL = pa.table(
    {
        "age": pa.array([71, 20, None, 40, 66], pa.int64()),
        "bmi": pa.array([31.5, None, 22.0, float("nan"), 0.25], pa.float64()),
        "smoker": pa.array([True, False, True, None, True]),
        "region": pa.array(["N", "S", None, "N", ""], pa.string()),
    }
)
KNOWN = {
    "age > 65": 2,
    "age > 65 AND smoker": 2,
    "NOT (age > 65)": 2,
    "age IS NULL": 1,
    "bmi IS NULL": 2,
    "bmi < 40": 3,
    "smoker": 3,
    "NOT smoker": 1,
    "region = 'N'": 2,
    "region <> 'N'": 2,
    "region = ''": 1,
    "region IN ('S', 'N') OR age IS NULL": 4,
    "(age = 71 OR age = 20) AND (region = 'N' OR region = 'S')": 2,
    "TRUE": 5,
    "1 = 2": 0,
}


@pytest.fixture
def engine(opener, engine_name):
    return opener(engine_name, SMALL)


def test_an_engine_is_an_engine(engine):
    assert isinstance(engine, Engine)
    assert engine.card.rows == 5
    assert [(column.name, column.type) for column in engine.card.columns] == [
        ("age", "integer"),
        ("bmi", "real"),
        ("smoker", "boolean"),
        ("region", "text"),
    ]


def test_counts_are_those_counted_by_hand(engine):
    queries = [parse(text, engine.card) for text in KNOWN]
    expected = [count << BITS for count in KNOWN.values()]
    assert engine.sums(queries, bits=BITS) == expected
    assert [engine.sums([query], bits=BITS)[0] for query in queries] == expected
    assert all(type(value) is int for value in engine.sums(queries, bits=BITS))
    assert engine.sums([], bits=BITS) == []


def test_numbers_are_clamped_and_rounded_by_row(engine):
    queries = [parse(text, engine.card) for text in ("bmi / 63", "age / 100", "age", "bmi", "-age", "1 / 3", "bmi * 1e300")]
    third = round(2**BITS / 3)
    expected = [
        sum(round(value / 63 * 2**BITS) for value in (31.5, 22.0, 0.25)),
        sum(round(value / 100 * 2**BITS) for value in (71, 20, 40, 66)),
        4 << BITS,
        (2 << BITS) + (1 << (BITS - 2)),
        0,
        5 * third,
        3 << BITS,
    ]
    assert engine.sums(queries, bits=BITS) == expected


MOMENT = dt.datetime  # without a zone, as the column
DATED = pa.table(
    {
        "born": pa.array(
            [dt.date(2024, 2, 29), dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(1969, 12, 31)], pa.date32()
        ),
        "seen": pa.array(
            [
                MOMENT(2026, 1, 31, 10),
                MOMENT(1, 1, 1),
                MOMENT(1969, 12, 31, 23, 59, 59, 999_999),
                None,
                MOMENT(9999, 12, 31, 23, 59, 59, 999_999),
            ],
            pa.timestamp("us"),
        ),
    }
)
DATES = {
    "born = DATE '2024-02-29'": 1,
    "born <= '1969-12-31'": 2,
    "born > DATE '1969-12-31'": 2,
    "born IS NULL": 1,
    "born IN ('0001-01-01', '9999-12-31')": 2,
    "born NOT BETWEEN '1900-01-01' AND '2000-01-01'": 3,
    "YEAR(born) = 2024 AND MONTH(born) = 2 AND DAY(born) = 29 AND WEEKDAY(born) = 3": 1,
    "WEEKDAY(born) = 0": 1,
    "born - DATE '2024-02-28' = 1": 1,
    "CAST(seen AS DATE) - born = 702": 1,
    "CAST(seen AS DATE) - born = 0": 1,
    "seen >= TIMESTAMP '2026-01-31 10:00:00'": 2,
    "seen < '1970-01-01'": 2,
    "CAST(seen AS DATE) = '1969-12-31'": 1,
    "YEAR(seen) = 9999": 1,
    "seen = born": 1,
    "seen > born": 2,
}


def test_dates_are_counted_by_hand(opener, engine_name):
    engine = opener(engine_name, DATED)
    assert [column.type for column in engine.card.columns] == ["date", "timestamp"]
    queries = [parse(text, engine.card) for text in DATES]
    expected = [count << BITS for count in DATES.values()]
    assert engine.sums(queries, bits=BITS) == expected
    assert [engine.sums([query], bits=BITS)[0] for query in queries] == expected
    engine.sort()
    assert engine.sums(queries, bits=BITS) == expected
    assert engine.sums([parse("(born - DATE '2024-02-28') / 2", engine.card)], bits=1) == [1 + 2]
    assert engine.fingerprint(b"k" * 40) == opener("arrow", DATED).fingerprint(b"k" * 40)


def test_dates_that_are_cut_are_counted_by_hand(opener, engine_name):
    """Before the first point, between two, from the last one on; a missing date is in no cell. On every engine."""
    engine = opener(engine_name, DATED)
    days, moments = cut("born", [dt.date(1970, 1, 1), "2024-02-29"]), cut("seen", ["0001-01-02", "2026-01-31 10:00"])
    for column, expected in ((days, [2, 0, 2]), (moments, [1, 1, 2])):
        groups = read_groups(SimpleNamespace(card=engine.card, plan=None), [column], where=None, keys=None)
        assert engine.sum_cells(groups.cells, bits=BITS) == [count << BITS for count in expected]


def test_a_majority_of_a_hundred_columns_is_counted(opener, engine_name):
    rng = np.random.default_rng(11)
    cells = rng.integers(0, 2, (100, 400))
    missing = rng.random((100, 400)) < 0.001
    table = pa.table({f"a{place}": pa.array(cells[place], mask=missing[place]) for place in range(100)})
    engine = opener(engine_name, table)
    total = " + ".join(table.column_names)
    queries = [parse(text, engine.card) for text in (f"{total} > 50", f"({total}) / 100", f"NOT ({total} <= 50) AND a7 = 1")]
    sums, there = cells.sum(axis=0), ~missing.any(axis=0)
    expected = [there & (sums > 50), np.where(there, sums, 0), there & (sums > 50) & (cells[7] == 1)]
    grid = np.floor(expected[1] / 100 * 2**BITS + 0.5).astype(np.int64)
    assert engine.sums(queries, bits=BITS) == [
        int(expected[0].sum()) << BITS,
        int(grid.sum()),
        int(expected[2].sum()) << BITS,
    ]
    assert 0 < expected[0].sum() < there.sum() < 400


def test_own_values_are_summed_exactly(engine):
    assert engine.sum_values([0.5, 2.0, -1.0, float("nan"), 0.25], bits=4) == 8 + 16 + 4
    assert engine.sum_values(np.array([True, False, True, True, False]), bits=0) == 3
    assert engine.sum_values(np.array([np.inf, -np.inf, 1, 0, 0.1]), bits=60) == (2 << 60) + round(0.1 * 2**60)
    with pytest.raises(RequestError, match="4 numbers for 5 rows"):
        engine.sum_values([0.5] * 4, bits=4)
    with pytest.raises(RequestError, match="numbers, one for each row"):
        engine.sum_values([[1, 2], [3]], bits=4)
    with pytest.raises(InvalidParameter, match="numbers, one for each row") as caught:
        engine.sum_values(["canary"] * 5, bits=4)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("bits", [-1, 61, 1.5, True, None])
def test_bits_outside_the_grid_are_refused(engine, bits):
    with pytest.raises(InvalidParameter, match="bits"):
        engine.sums([], bits=bits)
    with pytest.raises(InvalidParameter, match="bits"):
        engine.sum_values([0] * 5, bits=bits)


def test_progress_is_told_and_ends_at_one(engine):
    told = []
    query = parse("bmi / 63", engine.card)
    assert engine.sums([query, parse("age < 11", engine.card)], bits=BITS, progress=told.append)[1] == 0
    assert told
    assert told[-1] == pytest.approx(1)
    assert all(0 <= share <= 1 for share in told)


@pytest.mark.parametrize(
    "rule", [PartRule("content"), PartRule("key", "region"), PartRule("position")], ids=lambda rule: rule.by
)
def test_an_ensemble_is_trained_where_the_rows_are(opener, engine_name, rule):
    rng = np.random.default_rng(7)
    numbers = {"age": rng.integers(0, 90, 400), "bmi": rng.normal(25, 5, 400)}
    regions = [f"region {place}" for place in rng.integers(0, 50, 400)]
    engine = opener(engine_name, pa.table(numbers | {"smoker": numbers["age"] > 40, "region": regions}))
    points, labels = np.column_stack(list(numbers.values())).astype(np.float64), (numbers["age"] > 40).astype(np.int64)
    recipe = make_recipe(DecisionTreeClassifier(max_depth=2), width=2, parts=9, labels=[0, 1])
    ensemble = engine.train(recipe, [Numbers("age"), Numbers("bmi")], Numbers("smoker"), rule=rule)
    cut = {"content": {"names": hash_contents([*points.T, labels])}, "key": {"keys": np.array(regions)}, "position": {}}[
        rule.by
    ]
    expected = train_by(recipe, points, labels, **cut)
    assert np.array_equal(ensemble.votes(points), expected.votes(points))
    assert np.unique(expected.votes(points)).size > 2


def test_a_closed_engine_answers_nothing(opener, engine_name):
    engine = opener(engine_name, SMALL)
    query = parse("age > 65", engine.card)
    engine.close()
    engine.close()
    for ask in (
        lambda: engine.sums([query], bits=1),
        lambda: engine.sum_values([0] * 5, bits=1),
        lambda: engine.fingerprint(b"k" * 40),
    ):
        with pytest.raises(CuratorClosed, match="closed"):
            ask()


def test_an_empty_table_sums_to_nothing(opener, engine_name):
    engine = opener(engine_name, TABLES["empty"])
    queries = [parse(text, engine.card) for text in ("age > 65", "score / 2", "TRUE", "region IS NULL", "share")]
    assert engine.sums(queries, bits=BITS) == [0] * 5
    assert engine.sum_values([], bits=BITS) == 0
    engine.sort()
    assert engine.sums(queries, bits=BITS) == [0] * 5


@pytest.mark.parametrize("name", ["parquet-2", "relation", "arrow"])
def test_the_first_few_questions_are_one_pass_and_the_next_keep_bitmaps(opener, name):
    """Integers are the same either way; only DuckDB's rows are scanned first, and more than a few are not."""
    many = [f"age > {bound} OR region = 'N'" for bound in range(8)]
    for first in (["age > 65 AND smoker"], many):
        engine = opener(name, SMALL)
        scans = []
        scan = engine._scan_rows
        engine._scan_rows = lambda *given, scan=scan, scans=scans: scans.append(given[0]) or scan(*given)
        asked = [parse(text, engine.card) for text in first]
        scanned = engine.sums(asked, bits=BITS)
        assert len(scans) == (name != "arrow" and len(first) == 1)
        assert engine.sums(asked, bits=BITS) == scanned
        assert len(scans) == (name != "arrow" and len(first) == 1)


def test_a_table_of_ten_thousand_columns_is_asked_as_any_other(opener):
    """Sums are right, a column that is not there is named, and Parquet with a tenth of them gives the same fingerprint."""
    wide = pa.table({f"c{number}": pa.array([number % 7, None, 3], pa.int64()) for number in range(10_000)})
    tenth = wide.select(wide.column_names[::10])
    whole, here, there = opener("arrow", wide), opener("arrow", tenth), opener("parquet-2", tenth)
    asked = [parse(text, whole.card) for text in ("c6 > 4", "c9999 = 3 AND c13 < 9")]
    assert whole.sums(asked, bits=0) == [1, 2]
    assert here.fingerprint(b"k" * 40) == there.fingerprint(b"k" * 40) != whole.fingerprint(b"k" * 40)
    with pytest.raises(UnknownColumn, match="no column 'c10000'"):
        parse("c10000 > 1", whole.card)

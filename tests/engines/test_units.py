"""Aggregates over a unit's rows: equal integers on every engine, in any order, against a reference in plain Python (U4)."""

import math
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdtrue.engines.arrays import open_table
from holdtrue.engines.duckdb_engine import open_files, open_relation
from holdtrue.engines.units import open_units
from holdtrue.errors import InsufficientSamples, RequestError
from holdtrue.queries import parse
from holdtrue.queries.cards import Declared

BITS = 20
INF = math.inf
TYPES = {"id": "integer", "cost": "real", "items": "integer", "ill": "boolean", "seen": "date", "ward": "text"}
BOUNDS = {"cost": (0, 8), "items": (-3, 10)}
# Units 0 to 5; 6 has no row, 7 is in no registry. Rows without a key belong to nobody.
ROWS = [
    (0, 1.5, 3, True, 10, "N"),
    (0, None, None, None, None, None),
    (0, math.nan, -7, False, 3, "S"),
    (1, INF, 99, True, 3, "b"),
    (1, -INF, 2, None, 3, "a"),
    (2, None, None, None, None, None),
    (3, 0.25, 1, False, 7, None),
    (3, 4.0, 1, True, 7, "é"),
    (3, 4.0, 1, True, 7, "z"),
    (4, 8.0, 10, True, 1, "N"),
    (5, -0.0, 0, False, 2, "S"),
    (7, 1.0, 1, True, 1, "N"),
    (None, 5.0, 5, True, 0, "N"),
]
LARGE = 10**5
CONDITIONS = {
    "ANY(ill)": lambda bag: any(row[3] is True for row in bag),
    "EVERY(ill)": lambda bag: all(row[3] is True for row in bag),
    "EVERY(cost >= 0)": lambda bag: all(_there(row[1]) and row[1] >= 0 for row in bag),
    "NOT ANY(ill) AND COUNT(*) > 0": lambda bag: bool(bag) and not any(row[3] is True for row in bag),
    "COUNT(ill) >= 2": lambda bag: sum(row[3] is True for row in bag) >= 2,
    "COUNT(cost) = 1": lambda bag: sum(_there(row[1]) for row in bag) == 1,
    "COUNT(cost > 1 AND items < 50) > 0": lambda bag: any(
        _there(row[1]) and row[1] > 1 and row[2] is not None and row[2] < 50 for row in bag
    ),
    "SUM(items) >= 3": lambda bag: sum(_clamp(row[2], -3, 10) for row in bag if row[2] is not None) >= 3,
    "SUM(items WHERE ill) = 3": lambda bag: (
        sum(_clamp(row[2], -3, 10) for row in bag if row[2] is not None and row[3] is True) == 3
    ),
    "MIN(cost) >= 0.25": lambda bag: min((row[1] for row in bag if _there(row[1])), default=INF) >= 0.25,
    "MAX(cost) < 5": lambda bag: max((row[1] for row in bag if _there(row[1])), default=-INF) < 5,
    "MIN(items) > 0": lambda bag: min((row[2] for row in bag if row[2] is not None), default=INF) > 0,
    "MAX(seen) > DATE '1970-01-08'": lambda bag: max((row[4] for row in bag if row[4] is not None), default=-1) > 7,
    "FIRST(ward BY seen) = 'S'": lambda bag: _first(bag, 5) == "S",
    "FIRST(ward BY seen) = 'a'": lambda bag: _first(bag, 5) == "a",
    "FIRST(ward BY seen) > 'y'": lambda bag: (_first(bag, 5) or "") > "y",
    "FIRST(cost BY seen) > 0": lambda bag: (_first(bag, 1) or 0) > 0,
    "FIRST(cost BY seen WHERE ill) = 4": lambda bag: _first([row for row in bag if row[3] is True], 1) == 4,
    "FIRST(ward BY seen) IS NULL": lambda bag: _first(bag, 5) is None,
    "TRUE": lambda _: True,
}
NUMBERS = {
    "SHARE(ill)": lambda bag: sum(row[3] is True for row in bag) / len(bag) if bag else 0,
    "COUNT(ill) / 3": lambda bag: min(1, sum(row[3] is True for row in bag) / 3),
    "COUNT(*) / 4": lambda bag: min(1, len(bag) / 4),
    "SUM(cost) / 10": lambda bag: min(1, sum(_clamp(row[1], 0, 8) for row in bag if _there(row[1])) / 10),
    "AVG(cost) / 8": lambda bag: _mean([_clamp(row[1], 0, 8) for row in bag if _there(row[1])]) / 8,
    "AVG(items WHERE ill) / 10": lambda bag: _clamp(
        _mean([_clamp(row[2], -3, 10) for row in bag if row[2] is not None and row[3] is True]) / 10, 0, 1
    ),
    "MIN(cost)": lambda bag: _clamp(min((row[1] for row in bag if _there(row[1])), default=1), 0, 1),
    "MAX(cost)": lambda bag: _clamp(max((row[1] for row in bag if _there(row[1])), default=0), 0, 1),
    "FIRST(cost BY seen)": lambda bag: _clamp(_first(bag, 1) or 0, 0, 1),
}


def _there(value):
    return value is not None and not math.isnan(value)


def _clamp(value, low, high):
    return min(max(value, low), high)


def _mean(values):
    return sum(values) / len(values) if values else 0


def _first(bag, place):
    dated = [row for row in bag if row[4] is not None]
    first = min((row[4] for row in dated), default=None)
    found = [row[place] for row in dated if row[4] == first and row[place] is not None and row[place] == row[place]]
    return min(found, default=None)


def make_table(rows, key=int):
    columns = list(zip(*rows, strict=True))
    keys = pa.array([None if value is None else key(value) for value in columns[0]])
    days = [None if value is None else date(1970, 1, 1) + timedelta(days=value) for value in columns[4]]
    return pa.table(
        {
            "id": keys,
            "cost": pa.array(columns[1], pa.float64()),
            "items": pa.array(columns[2], pa.int64()),
            "ill": pa.array(columns[3], pa.bool_()),
            "seen": pa.array(days, pa.date32()),
            "ward": pa.array(columns[5], pa.string()),
        }
    )


def make_many(rng):
    """Units of very different sizes: one of 10^5 rows, many of one row."""
    rows = list(ROWS)
    for number in range(LARGE + LARGE // 10):
        unit = 4 if number % 11 else int(rng.integers(8, 3000))
        cost = [float(rng.normal(3, 4)), None, math.nan, INF][min(3, int(rng.exponential(0.4)))]
        ward = str(rng.choice(["N", "S", "é", "zz"]))
        rows.append((unit, cost, int(rng.integers(-9, 20)), [True, False, None][number % 3], number % 50, ward))
    return rows


def open_rows_with(kind, table, folder):
    declared = Declared(bounds=BOUNDS)
    match kind:
        case "arrow":
            return open_table(table, declared=declared)
        case "pandas":
            return open_table(table.to_pandas(types_mapper=__import__("pandas").ArrowDtype), declared=declared)
        case "parquet":
            folder.mkdir(exist_ok=True)
            half = table.num_rows // 2
            for number, part in enumerate((table.slice(half), table.slice(0, half))):
                pq.write_table(part, folder / f"{number}.parquet", row_group_size=1000)
            return open_files(folder / "*.parquet", declared=declared)
        case "relation":
            return open_relation(duckdb.connect().from_arrow(table), declared=declared)


def open_registry(units, key=int):
    return open_table({"id": [key(unit) for unit in units], "age": list(range(len(units)))}, declared=Declared())


def expect(rows, units):
    bags = {unit: [] for unit in units}
    for row in rows:
        if row[0] in bags:
            bags[row[0]].append(row)
    yes = {text: sum(rule(bag) for bag in bags.values()) << BITS for text, rule in CONDITIONS.items()}
    return yes | {
        text: sum(math.floor(rule(bag) * 2**BITS + 0.5) for bag in bags.values()) for text, rule in NUMBERS.items()
    }


def ask_all(engine):
    texts = [*CONDITIONS, *NUMBERS]
    return dict(zip(texts, engine.sums([parse(text, engine.card) for text in texts], bits=BITS), strict=True))


ENGINES = ["arrow", "pandas", "parquet", "relation"]


@pytest.mark.parametrize("key", [int, "person {}".format], ids=["numbers", "texts"])
@pytest.mark.parametrize("kind", ENGINES)
def test_adversarial_bags_have_the_values_of_the_table_in_u4(kind, key, tmp_path):
    units = [3, 0, 6, 1, 5, 2, 4]
    rows = open_rows_with(kind, make_table(ROWS, key), tmp_path / "rows")
    engine = open_units("id", open_registry(units, key), {"visits": rows})
    assert engine.rows == len(units)
    assert ask_all(engine) == expect(ROWS, units)
    engine.close()
    alone = open_units("id", None, {"": open_rows_with(kind, make_table(ROWS, key), tmp_path / "rows")})
    assert alone.rows == 7
    assert ask_all(alone) == expect(ROWS, [0, 1, 2, 3, 4, 5, 7])
    alone.close()


def test_order_and_files_make_no_difference(tmp_path):
    rng = np.random.default_rng(20261116)
    rows = make_many(rng)
    table = make_table(rows)
    shuffled = table.take(rng.permutation(table.num_rows))
    keys = sorted({row[0] for row in rows if row[0] is not None})
    expected = expect(rows, keys)
    found = {}
    for kind, given in (("arrow", table), ("arrow", shuffled), ("parquet", shuffled), ("relation", table)):
        engine = open_units("id", None, {"": open_rows_with(kind, given, tmp_path / "rows")})
        found[kind, given is table] = ask_all(engine)
        engine.close()
    first, *others = found.values()
    assert all(other == first for other in others)
    # The reference rounds reals in another way, by less than one step of the grid a unit.
    for text, value in expected.items():
        assert abs(first[text] - value) <= (0 if text in CONDITIONS else len(keys)), text


def test_columns_are_made_again_when_there_is_no_room_for_all():
    engine = open_units("id", None, {"": open_rows_with("arrow", make_table(ROWS), None)}, memory=4 * 9 * 7 * 2)
    first = [engine.sums([parse(text, engine.card)], bits=BITS) for text in CONDITIONS]
    assert first == [engine.sums([parse(text, engine.card)], bits=BITS) for text in CONDITIONS]
    assert len(engine._aggregates) <= 4
    engine.close()


def test_threads_that_push_out_one_anothers_columns_count_the_same():
    """A column that a call reads is never dropped for another call's."""
    rng = np.random.default_rng(5)
    table = make_table(make_many(rng)[:5_000])
    calm = open_units("id", None, {"": open_rows_with("arrow", table, None)})
    texts = [*CONDITIONS, *NUMBERS]
    right = ask_all(calm)
    busy = open_units("id", None, {"": open_rows_with("arrow", table, None)}, memory=4 * 9 * calm.rows * 2)

    def work(seed):
        order = np.random.default_rng(seed).permutation(len(texts))
        return {texts[place]: busy.sums([parse(texts[place], busy.card)], bits=BITS)[0] for place in order}

    with ThreadPoolExecutor(6) as pool:
        assert all(found == right for found in pool.map(work, range(18)))
    assert not busy._readers
    calm.close()
    busy.close()


def test_registry_columns_and_two_tables_together():
    visits = open_rows_with("arrow", make_table(ROWS), None)
    labs = open_table({"id": [0, 0, 3], "level": [1, 2, 3]}, declared=Declared())
    engine = open_units("id", open_registry([0, 1, 2, 3]), {"visits": visits, "labs": labs})
    queries = ["visits.ANY(ill) AND labs.COUNT(*) >= 1", "age >= 2 AND NOT labs.ANY(level > 2)", "labs.COUNT(*) / 2"]
    found = engine.sums([parse(text, engine.card) for text in queries], bits=1)
    assert found == [2 * 2, 1 * 2, 2 + 1]
    engine.close()


def test_fingerprints_know_the_tables_and_the_unit_but_no_order():
    def take(rows, registry=None):
        opened = open_units(
            "id", registry and open_registry(registry), {"visits": open_rows_with("arrow", make_table(rows), None)}
        )
        return opened.fingerprint(b"k" * 40)

    assert take(ROWS) == take(ROWS[::-1])
    assert take(ROWS, [1, 2]) == take(ROWS[::-1], [1, 2])
    different = [take(ROWS), take(ROWS[:-1]), take(ROWS, [1, 2]), take(ROWS, [1, 3])]
    different.append(open_rows_with("arrow", make_table(ROWS), None).fingerprint(b"k" * 40))
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    ("registry", "table", "words"),
    [
        ({"id": [1, 2]}, {"key": [1]}, "the table 'visits' must have a column 'id'"),
        ({"key": [1, 2]}, {"id": [1]}, "the data must have a column 'id'"),
        ({"id": [1, 2]}, {"id": ["1"]}, "a whole number in one table and text in another"),
        ({"id": [1, 1]}, {"id": [1]}, "has a key twice"),
        ({"id": ["a", "a"]}, {"id": ["a"]}, "has a key twice"),
        ({"id": [1, None]}, {"id": [1]}, "NULL in a row of the registry"),
        ({"id": [1, 2]}, {"id": pa.array([None], pa.int64())}, "NULL in every row of the table 'visits'"),
        ({"id": [1.5, 2]}, {"id": [1]}, "is of type real"),
        (None, {"id": pa.array([None], pa.int64())}, "NULL in every row, so there are no units"),
    ],
)
def test_keys_that_make_no_units_are_refused(registry, table, words):
    given = None if registry is None else open_table(pa.table(registry), declared=Declared())
    name = "" if registry is None else "visits"
    with pytest.raises((RequestError, InsufficientSamples), match=words):
        open_units("id", given, {name: open_table(pa.table(table), declared=Declared())})


def test_a_table_without_rows_gives_empty_bags():
    empty = open_table(make_table(ROWS).slice(0, 0), declared=Declared(bounds=BOUNDS))
    engine = open_units("id", open_registry([0, 1]), {"visits": empty})
    assert ask_all(engine) == expect([], [0, 1])
    engine.close()

"""Disjoint cells from codes: the integers of one query a cell, on every engine, whatever the rows hold."""

import math
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from engines.adversarial import TABLES
from holdtrue.engines import open_engine
from holdtrue.engines.bitmaps import Bitmaps
from holdtrue.errors import UnsupportedQuery
from holdtrue.kernels import bitmaps, bitmaps_compiled
from holdtrue.queries.cells import DisjointCells
from holdtrue.queries.parser import parse
from holdtrue.verbs.tables import read_axis

BITS = 30
AXES = {
    "region": ["region = 'N'", "region = ''", "region = 'é'", "region = 'nobody'"],
    "smoker": ["smoker", "NOT smoker"],
    "age": ["age = 0", "age = 9007199254740993", "age = -9223372036854775808", "age = 2.5", "age = 9223372036854775807"],
    "score": ["score < -1e308", "score >= -1e308 AND score < 0.0", "score >= 0.0 AND score < 0.5", "score >= 0.5"],
    "odd name": ['"odd name" >= -3 AND "odd name" < 2', '"odd name" >= 2 AND "odd name" <= 8.0'],
    "born": ["born = '2024-02-29'", "born = DATE '1970-01-01'", "born > DATE '2025-01-01'"],
    "seen": ["seen < TIMESTAMP '2024-02-29 10:30:00'", "seen = TIMESTAMP '2024-02-29 10:30:00'"],
    "share": ["share IN (0.25, 0.5)", "share = 0.75 OR share = 1.0", "share > 5"],
    "died": ["YEAR(died) = 2024", "died IS NULL"],
}
WHERES = [None, "TRUE", "FALSE", "age > 1", "region <> 'N'", "smoker OR score > 0", "share < 0.5 AND born > died"]
VALUES = [None, "share", "score > 0", "age", "smoker", "score / 3 + share", "0.3", "NULL"]


def make_cells(card, names, where=None, value=None, sides=None):
    axes = [read_axis(card, name, tuple(AXES[name])) for name in names]
    base, asked = (None if text is None else parse(text, card) for text in (where, value))
    return DisjointCells(tuple(axes), base, asked, None if sides is None else read_axis(card, sides, tuple(AXES[sides])))


def list_cells(card):
    """Return cells of one axis, two and three, with each condition, value and sides."""
    found = [make_cells(card, [name], where) for name, where in product(AXES, WHERES)]
    found += [make_cells(card, ["region"], where, value) for where, value in product(WHERES, VALUES)]
    found += [make_cells(card, [], where, "share", "score") for where in WHERES]
    found += [make_cells(card, ["smoker", "born"], where, "share", "odd name") for where in WHERES]
    return found + [make_cells(card, ["region", "age", "score"], where) for where in WHERES]


def test_counts_by_the_order_of_a_column_are_those_of_a_scan(opener, monkeypatch):
    """Codes in the order of the column that a condition reads, counted between its ends and the nearest cuts."""
    monkeypatch.setattr("holdtrue.engines.bitmaps._MANY_ROWS", 0)
    wheres = ["age > 1", "age < 0 OR age > 7", "age IN (0, 3, 9)", "age <> 2", "age > 5 AND age < 5", "age IS NOT NULL"]
    for name in sorted(TABLES):
        opened, peer = opener("arrow", TABLES[name]), opener("arrow", TABLES[name])
        opened.sort(["age", "score"])
        for axis, where in product(AXES, [*wheres, *[text.replace("age", "score") for text in wheres]]):
            cells = make_cells(opened.card, [axis], where)
            assert [opened.sum_cells(cells, bits=BITS) for _ in range(2)] == [peer.sums(cells.queries, bits=BITS)] * 2


def test_counts_by_order_of_many_rows_and_little_memory(monkeypatch):
    random, rows = np.random.default_rng(3), (1 << 17) + 5
    table = pa.table({"x": random.integers(0, 1000, rows), "y": random.integers(0, 5, rows)})
    for memory in (1 << 30, 1 << 23):
        engine = open_engine(table)
        monkeypatch.setattr(engine, "_bitmaps", Bitmaps(engine, memory=memory))
        engine.sort(["x"])
        axis = read_axis(engine.card, "y", tuple(f"y = {number}" for number in range(4)))
        for low, high in ((0, 999), (3, 500), (700, 701), (-5, 2000), (600, 20)):
            found = engine.sum_cells(DisjointCells((axis,), parse(f"x >= {low} AND x < {high}", engine.card)), bits=0)
            x, y = table["x"].to_numpy(), table["y"].to_numpy()
            kept = (x >= low) & (x < high)
            assert found == [*np.bincount(y[kept], minlength=5)[:4].tolist(), int(kept.sum())]


@pytest.mark.parametrize("name", sorted(TABLES))
@pytest.mark.parametrize("engine", ["arrow", "numpy", "parquet-2", "relation"])
def test_sums_of_cells_are_those_of_one_query_each(opener, engine, name):
    opened, peer = opener(engine, TABLES[name]), opener("arrow", TABLES[name])
    counted = 0
    for cells in list_cells(opened.card):
        expected = peer.sums(cells.queries, bits=BITS)
        assert [opened.sum_cells(cells, bits=BITS) for _ in range(2)] == [expected, expected]
        counted += sum(map(bool, expected))
    assert name != "mixed" or counted > 500


@pytest.mark.parametrize("memory", [0, 1 << 11, 1 << 14])
def test_sums_of_cells_are_the_same_where_codes_are_dropped_or_have_no_room(opener, memory):
    engine, roomy = (opener("arrow", TABLES["mixed"], memory=each) for each in (memory, 1 << 30))
    for cells in list_cells(engine.card):
        assert engine.sum_cells(cells, bits=BITS) == roomy.sum_cells(cells, bits=BITS)
        assert engine._bitmaps.held <= memory


def test_codes_are_kept_and_read_from_the_rows_once(opener, monkeypatch):
    engine = opener("arrow", TABLES["mixed"])
    cells = [make_cells(engine.card, ["region", "age"], where, "share") for where in ("age > 3", "age > 4")]
    engine.sum_cells(cells[0], bits=BITS)
    monkeypatch.setattr(engine, "_yield_pieces", lambda *_: pytest.fail("the rows were read again"))
    assert engine.sum_cells(cells[1], bits=BITS) == opener("arrow", TABLES["mixed"]).sums(cells[1].queries, bits=BITS)


def test_nothing_is_kept_of_codes_that_could_not_be_read(opener, monkeypatch):
    engine = opener("arrow", TABLES["mixed"])
    cells = make_cells(engine.card, ["region"])
    held = engine._bitmaps.held
    read = engine._yield_pieces

    def fail(names):
        yield from read(names)
        raise ValueError

    with monkeypatch.context() as patched:
        patched.setattr(engine, "_yield_pieces", fail)
        with pytest.raises(Exception, match="could not be read"):
            engine.sum_cells(cells, bits=BITS)
    assert engine._bitmaps.held == held
    assert engine.sum_cells(cells, bits=0) == engine.sums(cells.queries, bits=0)


@pytest.mark.parametrize("bits", [0, 1, 20, 39, 40, 59, 60])
def test_sums_of_values_are_exact_at_any_number_of_bits(bits):
    """Every value is near 1 with all bits in use; a sum in doubles would be rounded."""
    rows = 70_001
    shares = 1 - np.random.default_rng(bits).random(rows) * 2.0**-20
    engine = open_engine({"share": shares, "group": np.arange(rows) % 300})
    axis = read_axis(engine.card, "group", tuple(f'"group" = {number}' for number in range(300)))
    cells = DisjointCells((axis,), None, parse("share", engine.card))
    by_hand = [0] * 600
    for place, share in enumerate(shares.tolist()):
        by_hand[2 * (place % 300)] += 1 << bits
        by_hand[2 * (place % 300) + 1] += (math.floor(share * 2 ** (bits + 1)) + 1) >> 1
    assert engine.sum_cells(cells, bits=bits) == by_hand


@pytest.mark.parametrize("kernel", [None, bitmaps_compiled])
@pytest.mark.parametrize("cells", [1, 254, 255, 256, 300])
def test_codes_of_every_width(cells, kernel, monkeypatch):
    """The rows fill several runs of a slot, and bytes are counted in pairs, or by a kernel."""
    monkeypatch.setattr(bitmaps, "compiled", lambda *_: kernel)
    rows = 262_147
    values = np.random.default_rng(cells).integers(-1, cells + 1, rows)
    engine = open_engine({"x": values, "y": np.arange(rows) % 3})
    axis = read_axis(engine.card, "x", tuple(f"x = {number}" for number in range(cells)))
    found = engine.sum_cells(DisjointCells((axis,), parse("y = 1", engine.card)), bits=0)
    kept = values[np.arange(rows) % 3 == 1]
    assert found[:-1] == np.bincount(kept[(kept >= 0) & (kept < cells)], minlength=cells).tolist()
    assert found[-1] == kept.size


def test_more_cells_than_two_bytes_have_codes_for():
    rows = 140_001
    first, second = np.random.default_rng(2).integers(0, 300, (2, rows))
    engine = open_engine({"x": first, "y": second})
    axes = [read_axis(engine.card, name, tuple(f"{name} = {number}" for number in range(290))) for name in "xy"]
    found = engine.sum_cells(DisjointCells(tuple(axes)), bits=0)
    inside = (first < 290) & (second < 290)
    assert found == np.bincount(290 * first[inside] + second[inside], minlength=290 * 290).tolist()


def test_cells_with_one_name_have_the_same_queries(opener):
    card = opener("arrow", TABLES["one"]).card
    cells = [each for _ in range(2) for each in list_cells(card)]
    cells += [make_cells(card, ["region"], where) for where in ("age > 1", "1 < age", "NOT age <= 1")]
    named = {}
    for each in cells:
        queried = [query.digest for query in each.queries]
        assert each.number == len(queried) - (each.base is not None)
        assert named.setdefault(each.find_name(), queried) == queried
    assert len(named) == len(list_cells(card)) - len(WHERES)  # those of a region without a value are there twice


def test_queries_are_those_of_the_texts_that_they_stand_for(opener):
    card = opener("arrow", TABLES["one"]).card
    where, inside = "(age > 1 OR smoker)", "score >= 0.0 AND score <= 9.5"
    axis = read_axis(card, "score", (inside, "score < 0.0", "score > 9.5"))
    region = read_axis(card, "region", tuple(AXES["region"]))
    value = parse("(score - (0.0)) / 9.5", card)
    texts = []
    for condition in AXES["region"]:
        within = f"{condition} AND {where} AND {inside}"
        texts += [within, f"CASE WHEN {within} THEN (score - (0.0)) / 9.5 ELSE 0 END"]
        texts += [f"{condition} AND {where} AND {side}" for side in ("score < 0.0", "score > 9.5")]
    found = DisjointCells((region,), parse(where, card), value, axis).queries[:-1]
    assert [query.digest for query in found] == [parse(text, card).digest for text in texts]


def test_a_cell_that_is_too_complex_is_refused_as_its_query_is():
    engine = open_engine({"x": np.arange(9), "y": np.arange(9)})
    where = parse(" OR ".join(f"y = {number} AND y <> {number + 1}" for number in range(32)), engine.card)
    axis = read_axis(engine.card, "x", ("x = 1", "x >= 2 AND x < 7"))
    cells = DisjointCells((axis,), where)
    with pytest.raises(UnsupportedQuery) as first:
        _ = cells.queries
    with pytest.raises(UnsupportedQuery) as second:
        cells.find_name()
    assert str(first.value) == str(second.value)


def test_a_cache_without_slots_keeps_nothing():
    table = pa.table({"x": np.arange(100)})
    cache = Bitmaps(open_engine(table), memory=0)
    assert cache.find_rows(parse("x > 3", open_engine(table).card).tree) is None
    assert cache.keep_arrays({}) == {}

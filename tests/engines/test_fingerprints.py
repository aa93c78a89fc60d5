"""The fingerprint: one for the same rows in any order on any engine, another for anything else."""

import datetime as dt
import os
import threading
from contextlib import closing
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.adversarial import TABLES
from engines.conftest import ENGINES
from holdtrue.engines import duckdb_engine, fingerprints, open_engine
from holdtrue.engines.base import CHUNK
from holdtrue.engines.fingerprints import Fingerprint
from holdtrue.errors import InvalidParameter, ReleaseError
from holdtrue.kernels import row_words, row_words_compiled
from holdtrue.kernels.row_words import LANES, mix_rows
from holdtrue.queries.columns import read_as_held, read_stored
from holdtrue.queries.evaluator import Values

KEY = bytes(range(40))
OLD_KEY = bytes(range(32))
KEYS = pytest.mark.parametrize("key", [KEY, OLD_KEY], ids=["words", "blocks"])
BASE = TABLES["mixed"].slice(0, 300)


def _print(table, key=KEY):
    return open_engine(table).fingerprint(key)


@KEYS
def test_engines_give_one_fingerprint(opener, key):
    assert len({opener(name, TABLES["mixed"]).fingerprint(key) for name in ENGINES}) == 1
    assert len({opener(name, TABLES["empty"]).fingerprint(key) for name in ENGINES}) == 1


@KEYS
def test_order_of_rows_does_not_matter(key):
    expected = _print(BASE, key)
    assert len(expected) == 32
    for seed in range(5):
        assert _print(BASE.take(np.random.default_rng(seed).permutation(BASE.num_rows)), key) == expected


@KEYS
def test_pieces_do_not_matter(key):
    """The same rows in one batch or in many, as a stream would bring them."""
    pieces = pa.concat_tables([BASE.slice(start, 7) for start in range(0, 300, 7)])
    assert pieces.column(0).num_chunks > 1
    assert _print(pieces, key) == _print(BASE, key)
    numbers, there = np.arange(1000), np.ones(1000, dtype=np.bool_)
    prints = set()
    for size in (1, 7, 500, 1000):
        taken = Fingerprint(key, schema=[("a", "integer")])
        for start in range(0, 1000, size):
            part = slice(start, start + size)
            taken.add([Values(numbers[part], there[part])], rows=numbers[part].size)
        prints.add(taken.finish())
    assert len(prints) == 1


def _with_cell(table, column, row, value):
    cells = table.column(column).to_pylist()
    assert cells[row] != value
    cells[row] = value
    place = table.column_names.index(column)
    return table.set_column(place, table.schema.field(column), pa.array(cells, table.schema.field(column).type))


CHANGES = {
    "integer": lambda t: _with_cell(t, "age", 5, 12345),
    "integer missing": lambda t: _with_cell(t, "odd name", _first(t, "odd name"), None),
    "zero for missing": lambda t: _with_cell(t, "odd name", _first(t, "odd name", missing=True), 0),
    "real": lambda t: _with_cell(t, "share", 7, 0.123),
    "least bit": lambda t: _with_cell(t, "share", 7, float(np.nextafter(t.column("share")[7].as_py(), 2))),
    "boolean": lambda t: _with_cell(t, "smoker", _first(t, "smoker"), not t.column("smoker")[_first(t, "smoker")].as_py()),
    "text": lambda t: _with_cell(t, "region", 9, "canary"),
    "empty text for missing": lambda t: _with_cell(t, "region", _first(t, "region", missing=True), ""),
    "row missing": lambda t: t.slice(1),
    "row twice": lambda t: pa.concat_tables([t, t.slice(0, 1)]),
    "row twice, another missing": lambda t: pa.concat_tables([t.slice(1), t.slice(1, 1)]),
    "column renamed": lambda t: t.rename_columns(["age2", *t.column_names[1:]]),
    "column missing": lambda t: t.drop_columns(["share"]),
    "columns swapped": lambda t: t.select([*t.column_names[1:], "age"]),
    "names swapped": lambda t: t.rename_columns(["odd name", *t.column_names[1:4], "age", *t.column_names[5:]]),
    "date": lambda t: _with_cell(t, "born", 3, dt.date(2025, 6, 7)),
    "a microsecond": lambda t: _with_cell(t, "seen", 3, dt.datetime(2025, 6, 7, 0, 0, 0, 1)),  # noqa: DTZ001 - without a zone
    "cells swapped between rows": lambda t: t.set_column(
        4, "odd name", t.column("odd name").take(np.roll(np.arange(300), 1))
    ),
    "type": lambda t: t.set_column(4, "odd name", t.column("odd name").cast(pa.float64())),
}


def _first(table, column, *, missing=False):
    return next(row for row, value in enumerate(table.column(column).to_pylist()) if (value is None) == missing)


@KEYS
@pytest.mark.parametrize("change", sorted(CHANGES))
def test_any_change_shows(change, key):
    assert _print(CHANGES[change](BASE), key) != _print(BASE, key)


def test_another_key_gives_another():
    prints = {_print(BASE, bytes([number]) * size) for number in range(20) for size in (16, 32, 40, 64)}
    assert len(prints) == 80


def test_rows_hashed_together_do_not_matter(monkeypatch):
    """More rows than are hashed together, in NumPy and in machine code: one fingerprint."""
    rows = 50_000
    table = pa.table(
        {"a": np.arange(rows), "x": np.where(np.arange(rows) % 3 == 0, np.nan, 0.5), "t": ["x", "y"] * (rows // 2)}
    )
    prints = set()
    for together in (7_000, 1 << 14, 1 << 20):
        for kernels in (None, row_words_compiled):
            monkeypatch.setattr(fingerprints, "_TOGETHER", together)
            monkeypatch.setattr(row_words, "_COMPILED", lambda _, module=kernels: module)
            prints.add(_print(table))
    assert len(prints) == 1


@pytest.mark.parametrize("columns", [1, 64, 65, 130])
def test_a_missing_cell_shows_in_any_column(columns):
    """Which cells are there is told by one word for every 64 columns."""
    names = [f"c{number}" for number in range(columns)]
    zeros = pa.table(dict.fromkeys(names, pa.array([0, 0], pa.int64())))
    prints = {_print(zeros)}
    for name in names:
        missing = pa.array([0, None], pa.int64())
        prints.add(_print(zeros.set_column(names.index(name), name, missing)))
    assert len(prints) == columns + 1


def test_the_thread_that_reads_hashes_too_while_the_others_have_enough(monkeypatch):
    """No piece is lost or counted twice: other threads wait here until the reading one took two."""
    table, taken_here, taken = pa.table({"a": np.arange(8 * CHUNK)}), threading.Semaphore(0), []
    expected, whole = _print(table), Fingerprint.total_rows

    def total(fingerprint, cells, *, rows):
        taken.append(threading.current_thread() is threading.main_thread())
        if taken[-1]:
            taken_here.release()
        elif taken.count(False) == 1:
            assert all(taken_here.acquire(timeout=60) for _ in range(2))
        return whole(fingerprint, cells, rows=rows)

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(Fingerprint, "total_rows", total)
    assert _print(table) == expected
    assert len(taken) == 8
    assert sum(taken) >= 2


def test_rows_are_mixed_with_the_integers_of_exact_arithmetic(monkeypatch):
    """Each lane is the sum of products of halves, a key added to either, modulo 2^64; a planted fault is seen."""
    rng, rows = np.random.default_rng(27), 70
    words = rng.integers(0, 2**64, (5, rows), dtype=np.uint64)
    words[:, :4] = np.array([0, 2**32 - 1, 2**64 - 1, 2**63], dtype=np.uint64)
    keys = rng.integers(0, 2**32, (5, 2, LANES), dtype=np.uint64)
    exact = [
        [
            sum(
                (int(word) + int(key[0, lane])) % 2**32 * (((int(word) >> 32) + int(key[1, lane])) % 2**32)
                for word, key in zip(words[:, row], keys, strict=True)
            )
            % 2**64
            for row in range(rows)
        ]
        for lane in range(LANES)
    ]
    for kernels in (None, row_words_compiled):
        monkeypatch.setattr(row_words, "_COMPILED", lambda _, module=kernels: module)
        lanes = np.zeros((LANES, rows), dtype=np.uint64)
        mix_rows(words, keys, lanes, rows)
        assert lanes.tolist() == exact
        mix_rows(words, keys, lanes, 0)
        assert lanes.tolist() == exact
        lanes[2, 69] += np.uint64(1)
        assert lanes.tolist() != exact


def test_two_rows_seldom_meet_in_a_lane(monkeypatch):
    """With halves of 8 bits in place of 32, rows meet in one lane with probability at most 2^-8, however they differ.

    Pairs that differ in one half, in both, in two words, and by swapped words; over 16,000 keys each, the bound has room of
    more than six standard deviations. Without keys the last pair always meets, which shows.
    """
    monkeypatch.setattr(row_words, "_COMPILED", lambda _: None)
    for name, value in {"_HALF": 8, "_LOW": 255}.items():
        monkeypatch.setattr(row_words, name, np.uint64(value))
    rng, trials = np.random.default_rng(8), 4_000
    pairs = [((3, 0), (4, 0)), ((0x0300, 7), (0x0400, 7)), ((0x0101, 9), (0x0202, 10)), ((0x1234, 0x4321), (0x4321, 0x1234))]

    def count_meetings(one, other, *, keyed):
        met = 0
        for _ in range(trials):
            keys = (
                rng.integers(0, 256, (2, 2, LANES), dtype=np.uint64) if keyed else np.zeros((2, 2, LANES), dtype=np.uint64)
            )
            lanes = np.zeros((LANES, 2), dtype=np.uint64)
            mix_rows(np.array([one, other], dtype=np.uint64).T, keys, lanes, 2)
            met += int((lanes[:, 0] % 2**16 == lanes[:, 1] % 2**16).sum())
        return met

    for one, other in pairs:
        assert count_meetings(one, other, keyed=True) <= LANES * trials / 256 + 6.5 * np.sqrt(LANES * trials / 256)
    assert count_meetings(*pairs[-1], keyed=False) == LANES * trials


@pytest.mark.parametrize("key", [b"", b"short", "a" * 32, None, bytearray(32)])
def test_a_key_is_long_and_is_never_shown(key):
    with pytest.raises(InvalidParameter, match="16 secret bytes") as caught:
        Fingerprint(key, schema=[("a", "integer")])
    assert "short" not in str(caught.value)


def test_equal_rows_do_not_cancel():
    """A hash that adds by exclusive or would forget pairs of equal rows."""
    pair = pa.concat_tables([BASE, BASE.slice(0, 1), BASE.slice(0, 1)])
    other = pa.concat_tables([BASE, BASE.slice(1, 1), BASE.slice(1, 1)])
    assert _print(pair) != _print(other)


def test_width_of_types_does_not_matter():
    narrow = pa.table({"a": pa.array([1, None, 3], pa.int16()), "b": pa.array([0.5, 1.5, None], pa.float32())})
    wide = pa.table({"a": pa.array([1, None, 3], pa.int64()), "b": pa.array([0.5, 1.5, None], pa.float64())})
    assert _print(narrow) == _print(wide)


def test_text_as_a_dictionary_is_the_same_text():
    plain = pa.array(["x", None, "y", "x"])
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 1]), pa.array(["x", "x", "y"]))
    assert _print(pa.table({"t": plain})) == _print(pa.table({"t": plain.dictionary_encode()}))
    assert _print(pa.table({"t": plain})) == _print(pa.table({"t": repeated}))


def test_fingerprints_stay_what_they_were():
    """Ledgers in use hold these bytes: rows that nobody touched must be known again by every later version."""
    rows = range(1000)
    table = pa.table(
        {
            "a": pa.array([None if row % 7 == 0 else row * row - 500 for row in rows], pa.int64()),
            "x": pa.array(
                [
                    None if row % 11 == 0 else float("nan") if row % 13 == 0 else -0.0 if row % 17 == 0 else row / 8
                    for row in rows
                ]
            ),
            "y": pa.array([None if row % 5 == 0 else row % 3 == 0 for row in rows]),
            "t": pa.array([None if row % 9 == 0 else f"é{row % 4}" for row in rows]),
        }
    )
    assert _print(table).hex() == "38c64cf11a4e0054ebc9f1f5079f568a9ef88de9196e06e83f61134821d74dc0"
    assert _print(table, OLD_KEY).hex() == "16721e1b199891ecc0452e3bf8ae42edb3f508fde9c157bd8f3e8a3620d0a57c"


@KEYS
def test_random_edits_are_noticed(key):
    """One cell of one row becomes another, two rows swap a cell, or a row stands twice: no total is as it was.

    Totals add up, so that an edit is what its rows come to after and before; `make soak` makes a million of them.
    """
    rng, rows = np.random.default_rng(5), 64
    cells = [rng.integers(-(2**40), 2**40, rows), rng.random(rows), rng.integers(0, 3, rows)]
    taken = Fingerprint(key, schema=[("a", "integer"), ("x", "real"), ("k", "integer")])

    def total(row):
        there = np.ones(1, dtype=np.bool_)
        return taken.total_rows([Values(np.array([cell]), there) for cell in row], rows=1)[1:]

    table = list(zip(*cells, strict=True))
    before = [total(row) for row in table]
    for number in range(int(os.environ.get("HOLDTRUE_EDITS", "2000"))):
        one, other, column = rng.integers(rows), rng.integers(rows), int(rng.integers(3))
        if number % 3 == 0:  # another number in one cell
            value = [table[one][0] ^ (1 << int(rng.integers(40))), rng.random(), table[one][2] + 1][column]
            assert total([*table[one][:column], value, *table[one][column + 1 :]]) != before[one]
        elif table[one][column] == table[other][column] or table[one][:column] + table[one][column + 1 :] == (
            table[other][:column] + table[other][column + 1 :]
        ):
            continue  # a swap of equals changes nothing
        elif number % 3 == 1:  # two rows swap a cell
            first = total([*table[one][:column], table[other][column], *table[one][column + 1 :]])
            second = total([*table[other][:column], table[one][column], *table[other][column + 1 :]])
            sums = zip(first, second, before[one], before[other], strict=True)
            assert any((a + b - c - d) % (1 << 128) for a, b, c, d in sums)
        else:  # one row stands in the place of another
            assert before[one] != before[other]


def _make_cells(rows):
    """Return columns of every type that all readers take for the same cells, with NULL, NaN, -0 and the largest numbers."""
    rng = np.random.default_rng(rows)
    holes = rng.random(rows) < 0.2
    reals = rng.choice([0.0, -0.0, np.nan, np.inf, 5e-324, 0.1], rows)
    words = np.array(["north", "south", "", "ä", "north "])[rng.integers(0, 5, rows)]
    return pa.table(
        {
            "yes": pa.array(rng.random(rows) < 0.5, mask=holes),
            "small": pa.array(rng.integers(-128, 128, rows), pa.int8(), mask=holes),
            "unsigned": pa.array(rng.integers(0, 2**32, rows), pa.uint32()),
            "whole": pa.array(rng.integers(-(2**63), 2**63 - 1, rows), pa.int64(), mask=holes[::-1]),
            "single": pa.array(reals.astype(np.float32), mask=holes),
            "real": pa.array(reals),
            "few": pa.array(words, mask=holes),
            "many": pa.array([f"{number:x}" * 3 for number in range(rows)]),
            "a.b": pa.array(words).dictionary_encode(),
        }
    )


def test_parquet_read_as_it_lies_is_the_same_table(tmp_path):
    """Text by its own dictionaries or without, in several groups and files, compressed or not: one fingerprint."""
    cells = _make_cells(7_000)
    for number, given in enumerate(({}, {"use_dictionary": False}, {"row_group_size": 900, "compression": "zstd"})):
        pq.write_table(cells, tmp_path / f"whole{number}.parquet", **given)
    pq.write_table(cells[:4_321], tmp_path / "part1.parquet", row_group_size=1_000)
    pq.write_table(cells[4_321:], tmp_path / "part2.parquet")
    duckdb.execute(f"COPY (FROM '{tmp_path}/whole0.parquet') TO '{tmp_path}/whole9.parquet' (ROW_GROUP_SIZE 2048)")
    prints = {_print(cells)}
    for path in [*tmp_path.glob("whole*.parquet"), f"{tmp_path}/part*.parquet"]:
        with closing(open_engine(path)) as engine:
            assert all(duckdb_engine._is_plain(each.path, engine.card) for each in engine.files)
            prints.add(engine.fingerprint(KEY))
    assert len(prints) == 1
    coded = duckdb_engine._read_parquet(str(tmp_path / "whole0.parquet"), ["few", "many"])
    assert {str(each.type)[:10] for each in next(iter(coded))[0]().columns} == {"dictionary", "string"}


def test_groups_of_rows_read_by_threads_or_a_page_at_a_time_are_the_same_table(tmp_path, monkeypatch):
    """A small group is read by the thread that hashes it, a large one by the thread that lists them: one fingerprint."""
    monkeypatch.setattr(duckdb_engine, "CHUNK", 1_000)
    cells = _make_cells(7_000)
    pq.write_table(cells, tmp_path / "rows.parquet", row_group_size=900, use_dictionary=["few", "a.b"])
    readers, prints = [], {_print(cells)}
    read = duckdb_engine.read_as_held
    monkeypatch.setattr(
        duckdb_engine, "read_as_held", lambda name, column: readers.append(len(column)) or read(name, column)
    )
    for largest in (0, 900 * 8 * len(cells.column_names) - 1, 1 << 25):
        monkeypatch.setattr(duckdb_engine, "_GROUP", largest)
        prints.add(_print(tmp_path / "rows.parquet"))
    assert len(prints) == 1
    assert sum(readers) == 3 * 7_000 * len(cells.column_names)


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [
        ([], []),
        ([CHUNK + 1, 0, 5], [[0], [1, 2]]),
        ([CHUNK - 5, 5, 5, CHUNK, 0], [[0, 1], [2], [3, 4]]),
        ([7] * 9, [list(range(9))]),
    ],
)
def test_small_groups_of_rows_are_read_together(sizes, runs):
    assert list(duckdb_engine._gather_groups(sizes)) == runs


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({"compression": "none"}, 100),
        ({"use_dictionary": False}, 2_000),
        ({"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}, 100),
    ],
    ids=["dictionary", "plain", "prefixes"],
)
def test_texts_that_a_file_makes_short_are_read_a_few_rows_at_a_time(tmp_path, monkeypatch, given, most):
    """How long they are in memory is not told by the size of their group; of texts that are written out it is."""
    texts = [f"{number % 50:04d}" * 250 for number in range(2_000)]
    pq.write_table(pa.table({"t": texts}), tmp_path / "texts.parquet", **given)
    monkeypatch.setattr(duckdb_engine, "CHUNK", 100)
    sizes = [rows for _, rows in duckdb_engine._read_parquet(str(tmp_path / "texts.parquet"), ["t"])]
    assert (sum(sizes), max(sizes)) == (2_000, most)
    assert _print(tmp_path / "texts.parquet") == _print(pa.table({"t": texts}))


@pytest.mark.parametrize("largest", [0, 1 << 25], ids=["here", "by threads"])
def test_a_file_that_changes_while_it_is_hashed_is_refused(tmp_path, monkeypatch, largest):
    """Rows are looked at only if their file is still the one that was opened, after they were read."""
    monkeypatch.setattr(duckdb_engine, "CHUNK", 1_000)
    path, changed = tmp_path / "rows.parquet", tmp_path / "other.parquet"
    for place, first in ((path, 0), (changed, 1)):
        pq.write_table(pa.table({"a": np.arange(first, first + 4_000)}), place, row_group_size=1_000)
    monkeypatch.setattr(duckdb_engine, "_GROUP", largest)
    whole = Fingerprint.total_rows

    def replace_then_total(fingerprint, cells, *, rows):
        if changed.exists():
            changed.replace(path)
        return whole(fingerprint, cells, rows=rows)

    monkeypatch.setattr(Fingerprint, "total_rows", replace_then_total)
    with closing(open_engine(path)) as engine, pytest.raises(ReleaseError, match="changed since they were opened"):
        engine.fingerprint(KEY)


@pytest.mark.parametrize("kind", ["int8", "uint16", "uint32", "int64", "float", "double", "bool", "string", "large_string"])
def test_cells_as_they_are_held_are_those_that_queries_read(kind):
    """Cut anywhere, with NULL or without: the same values, and missing in the same places."""
    rng = np.random.default_rng(3)
    given = rng.integers(0, 3, 300)
    cells = [None if number % 7 == 3 else value for number, value in enumerate(given.tolist())]
    for listed in (cells, given.tolist()):
        array = pa.array(listed, pa.int8()).cast(kind)
        for part in (array, array.slice(13, 200), array.slice(5, 0)):
            held = read_as_held("x", part)
            wide = read_stored(
                "x",
                part,
                {"bool": "boolean", "string": "text", "large_string": "text"}.get(
                    kind, "real" if "o" in kind else "integer"
                ),
            )
            there = np.ones(len(part), dtype=np.bool_) if held.valid is None else held.valid
            assert there.tolist() == wide.valid.tolist()
            assert held.data[there].tolist() == wide.data[there].tolist()
            assert held.dictionary == wide.dictionary


def test_machine_code_is_loaded_before_many_rows_and_not_for_few(monkeypatch):
    loaded = []
    monkeypatch.setattr(row_words, "_COMPILED", loaded.append)
    taken = Fingerprint(KEY, schema=[("a", "integer"), ("t", "text")])
    taken.expect_rows(1_000_000)
    Fingerprint(OLD_KEY, schema=[("a", "integer")]).expect_rows(10**9)
    assert loaded == []
    taken.expect_rows(50_000_000)
    assert loaded == [4 * 50_000_000]


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array([1, 2**64 - 1], pa.uint64()), "integer"),
        (pa.array([Decimal("1.5"), None], pa.decimal128(10, 2)), None),
        (pa.array([20_000, None], pa.date32()), None),
        (pa.array([20_000, None], pa.timestamp("us")), None),
        (pa.array([1, 2], pa.int32()), "real"),
    ],
    ids=lambda given: str(getattr(given, "type", given)),
)
def test_parquet_of_other_types_is_read_by_duckdb(tmp_path, column, wanted):
    """Types that readers take differently, and those that the custodian declares, are not read as they lie."""
    pq.write_table(pa.table({"x": column}), tmp_path / "x.parquet")
    types = None if wanted is None else {"x": wanted}
    with closing(open_engine(tmp_path / "x.parquet", types=types)) as engine:
        assert not duckdb_engine._is_plain(str(tmp_path / "x.parquet"), engine.card)
        assert engine.fingerprint(KEY) == open_engine(pa.table({"x": column}), types=types).fingerprint(KEY)


def test_a_group_of_rows_larger_than_memory_is_read_a_page_at_a_time(tmp_path):
    """Arrow holds less than half of a group; read as Arrow does by itself, which is the control, it holds all of it."""
    path, rows, rng = tmp_path / "one.parquet", 1_000_000, np.random.default_rng(2)
    columns = {f"x{number}": rng.random(rows) for number in range(4)}
    pq.write_table(pa.table(columns), path, row_group_size=rows, use_dictionary=False)

    def measure_peak(batches):
        before, most = pa.total_allocated_bytes(), 0
        for read, rows in batches:
            assert read().num_rows == rows
            most = max(most, pa.total_allocated_bytes() - before)
        return most

    assert measure_peak(duckdb_engine._read_parquet(str(path), list(columns))) < 4 * rows * len(columns)
    with pq.ParquetFile(path) as file:
        whole = file.iter_batches(1 << 16, use_threads=False)
        assert measure_peak((batch.slice, batch.num_rows) for batch in whole) > 8 * rows * len(columns)

"""The fingerprint: one for the same rows in any order on any engine, another for anything else."""

import datetime as dt
import os

import numpy as np
import pyarrow as pa
import pytest

from engines.adversarial import TABLES
from engines.conftest import ENGINES
from holdtrue.engines import open_engine
from holdtrue.engines.fingerprints import Fingerprint
from holdtrue.errors import InvalidParameter
from holdtrue.queries.evaluator import Values

KEY = bytes(range(32))
BASE = TABLES["mixed"].slice(0, 300)


def _print(table, key=KEY):
    return open_engine(table).fingerprint(key)


def test_engines_give_one_fingerprint(opener):
    assert len({opener(name, TABLES["mixed"]).fingerprint(KEY) for name in ENGINES}) == 1
    assert len({opener(name, TABLES["empty"]).fingerprint(KEY) for name in ENGINES}) == 1


def test_order_of_rows_does_not_matter():
    expected = _print(BASE)
    assert len(expected) == 32
    for seed in range(5):
        assert _print(BASE.take(np.random.default_rng(seed).permutation(BASE.num_rows))) == expected


def test_pieces_do_not_matter():
    """The same rows in one batch or in many, as a stream would bring them."""
    pieces = pa.concat_tables([BASE.slice(start, 7) for start in range(0, 300, 7)])
    assert pieces.column(0).num_chunks > 1
    assert _print(pieces) == _print(BASE)
    numbers, there = np.arange(1000), np.ones(1000, dtype=np.bool_)
    prints = set()
    for size in (1, 7, 500, 1000):
        taken = Fingerprint(KEY, schema=[("a", "integer")])
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


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_any_change_shows(change):
    assert _print(CHANGES[change](BASE)) != _print(BASE)


def test_another_key_gives_another():
    prints = {_print(BASE, bytes([number]) * 32) for number in range(20)}
    assert len(prints) == 20


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
    assert _print(table).hex() == "16721e1b199891ecc0452e3bf8ae42edb3f508fde9c157bd8f3e8a3620d0a57c"


def test_random_edits_are_noticed():
    """One cell of one row becomes another, two rows swap a cell, or a row stands twice: no total is as it was.

    Totals add up, so that an edit is what its rows come to after and before; `make soak` makes a million of them.
    """
    rng, rows = np.random.default_rng(5), 64
    cells = [rng.integers(-(2**40), 2**40, rows), rng.random(rows), rng.integers(0, 3, rows)]
    taken = Fingerprint(KEY, schema=[("a", "integer"), ("x", "real"), ("k", "integer")])

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

"""P2: equal integers from every engine, thread count and kernel, whatever the rows hold."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from engines.adversarial import SCHEMA, TABLES, queries, table
from holdtrue.kernels import bitmaps

BITS = 30
QUERIES = 10_000
EVERY = 1_000
FEW = 600
THREADS = ["parquet-1", "parquet-2", "parquet-8"]


def _sums(engine, asked, *, step=250):
    """Ask in portions, so that atoms are met both fresh and known."""
    portions = [asked[start : start + step] for start in range(0, len(asked), step)]
    return [value for portion in portions for value in engine.sums(portion, bits=BITS)]


@pytest.fixture(scope="module")
def asked(opener):
    return queries(opener("arrow", TABLES["mixed"]).card, FEW, seed=7)


def test_every_number_of_threads_gives_equal_integers(opener):
    """10^4 queries, no two the same: the first thousand with every number of threads, the others with one of them each."""
    engine = opener("arrow", TABLES["mixed"])
    many = queries(engine.card, QUERIES, seed=8, depth=2)
    expected = _sums(engine, many)
    assert len({query.digest for query in many}) == QUERIES
    assert len(set(expected)) > QUERIES // 20
    for start, name in enumerate(THREADS):
        places = [*range(EVERY), *range(EVERY + start, QUERIES, len(THREADS))]
        found = _sums(opener(name, TABLES["mixed"]), [many[place] for place in places], step=2500)
        assert found == [expected[place] for place in places], name


@pytest.mark.parametrize("name", sorted(set(TABLES) - {"mixed"}))
def test_engines_give_equal_integers(opener, asked, name):
    """So few rows that one thread does all the work, however many there are."""
    assert _sums(opener("parquet-2", TABLES[name]), asked) == _sums(opener("arrow", TABLES[name]), asked)


def test_bitmaps_give_what_scans_give(opener, asked, monkeypatch):
    """With no room for a bitmap every boolean is scanned; with and without numba the bitmaps say the same."""
    conditions = [query for query in asked if query.boolean]
    assert len(conditions) > FEW // 4
    expected = _sums(opener("arrow", TABLES["mixed"], memory=0), conditions)
    scanned = opener("parquet-2", TABLES["mixed"], memory=1 << 20)
    scanned._bitmaps._slots = 0
    assert _sums(scanned, conditions) == expected
    from holdtrue.kernels import bitmaps_compiled

    for kernel, engine, ahead in itertools.product((bitmaps_compiled, None), ("arrow", "parquet-2"), (False, True)):
        monkeypatch.setattr(bitmaps, "compiled", lambda *_, kernel=kernel: kernel)
        opened = opener(engine, TABLES["mixed"])
        if ahead:
            opened.sort()
        assert _sums(opened, conditions) == expected, (kernel, engine, ahead)
        assert _sums(opened, conditions[::-1], step=1) == expected[::-1], (kernel, engine, ahead)


def test_neighbouring_tables_move_no_sum_by_more_than_one_row(opener, asked):
    """One row replaced: no sum moves by more than 2^bits, on either engine."""
    base = TABLES["mixed"].slice(0, 40)
    replacements = table(12, seed=99)
    first = {engine: np.array(_sums(opener(engine, base), asked), dtype=object) for engine in ("arrow", "parquet-2")}
    for row in range(12):
        other = pa.concat_tables([base.slice(0, row), replacements.slice(row, 1), base.slice(row + 1)])
        engine = "arrow" if row % 4 else "parquet-2"
        moved = np.abs(np.array(_sums(opener(engine, other), asked), dtype=object) - first[engine])
        assert max(moved) <= 1 << BITS
        assert max(moved) > 0


def test_order_of_rows_does_not_matter(opener, asked):
    turned = TABLES["mixed"].take(np.random.default_rng(3).permutation(TABLES["mixed"].num_rows))
    assert _sums(opener("arrow", turned), asked) == _sums(opener("arrow", TABLES["mixed"]), asked)


def test_the_tables_hold_what_they_should():
    held = TABLES["mixed"]
    assert held.schema.equals(SCHEMA)
    assert all(column.null_count for column in held.columns[:5])
    ages = set(held.column("age").to_pylist())
    assert {2**63 - 1, -(2**63), 2**53 + 1} <= ages
    scores = [value for value in held.column("score").to_pylist() if value is not None]
    assert any(value != value for value in scores)  # noqa: PLR0124 - NaN
    assert {float("inf"), -float("inf"), 5e-324} <= set(scores)
    assert any(value == 0 and str(value) == "-0.0" for value in scores)

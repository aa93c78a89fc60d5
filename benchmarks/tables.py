"""Tables of 100 cells and medians over 10^6 rows, whole releases, beside DuckDB's GROUP BY and quantile_disc in one run.

Holdtrue's times are of the whole call: texts read, price, charge, counts, noise, intervals and record. DuckDB only counts.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from benchmarks.peers import show
from holdtrue.curator import Curator
from holdtrue.engines import open_engine
from holdtrue.kernels import bitmaps
from holdtrue.queries import parse

__all__ = ["run"]

_ROWS = 10**6
_CELLS = 100
_LATER = 31
_RNG = np.random.default_rng(1)  # noqa: TID251 - data to be measured on


def run(rows: int = _ROWS) -> None:
    """Print times and ratios, then whether all engines count the same.

    The first table comes before numba is loaded, as in a process that has just begun; the others after, as in one that
    runs, which has loaded it beside earlier questions.
    """
    labels = [f"region {number:02d}" for number in range(_CELLS)]
    _use_all(labels)
    table, peer = _make_people(labels, rows), duckdb.connect()
    peer.register("given", table)
    peer.execute("CREATE TABLE people AS SELECT * FROM given")
    with Curator(table, queries=2000, iid=True, labels={"region": labels}) as curator:
        found = [*_tabulate(curator, peer), *_find_medians(curator, peer)]
    show(f"one whole release, {rows:,} rows", ["what", "holdtrue", "DuckDB", "DuckDB / holdtrue", "wanted"], found)
    _compare_engines(table, peer, labels)


def _use_all(labels: list[str]) -> None:
    """Use everything once, on few rows, so that its code is loaded and compiled."""
    with Curator(_make_people(labels, 1000), queries=200, iid=True, labels={"region": labels}) as curator:
        curator.table("region")
        curator.table("region", where="age > 3")
        curator.median("income", low=0, high=2**20, step=16, method="search")
        curator.median("income", low=0, high=2**20, step=16, method="search", where="age > 3")


def _make_people(labels: list[str], rows: int) -> pa.Table:
    regions, ages = np.array(labels)[_RNG.integers(0, len(labels), rows)], _RNG.integers(0, 100, rows)
    return pa.table({"region": regions, "age": ages, "income": np.round(_RNG.lognormal(10, 1, rows))})


def _tabulate(curator: Curator, peer: duckdb.DuckDBPyConnection) -> list[list[str]]:
    """Count 100 regions: the first time, later ones among the rows of other conditions, and a condition never seen."""

    def count(condition: str) -> object:
        return peer.execute(f"SELECT region, count(*) FROM people WHERE {condition} GROUP BY region").fetchall()  # noqa: S608 - a bench's own text

    ours = [_time(lambda: curator.table("region"))]
    theirs = [_time(lambda: count("true"))]
    bitmaps.compiled(1 << 40)
    _use_all([f"region {number:02d}" for number in range(_CELLS)])
    for number in range(1, _LATER + 1):
        condition = f"age > {3 * number}"
        ours.append(_time(partial(curator.table, "region", where=condition)))
        theirs.append(_time(partial(count, condition)))
    return [
        _row(f"{_CELLS} cells, first time", ours[:1], theirs[:1], "1/1.5 or more"),
        _row(f"{_CELLS} cells, labels known, another condition", ours[1:], theirs[1:], "10 or more"),
        _row("  of these, the first eight, whose rows are scanned", ours[1:9], theirs[1:9], ""),
        _row("  the ninth, when the column of the condition is sorted", ours[9:10], theirs[9:10], ""),
    ]


def _find_medians(curator: Curator, peer: duckdb.DuckDBPyConnection) -> list[list[str]]:
    """Find a median by a search: the first of a column, then those of the rows of other conditions."""

    def search(condition: str | None) -> object:
        return curator.median("income", low=0, high=2**20, step=16, where=condition, method="search")

    def sort(condition: str) -> object:
        return peer.execute(f"SELECT quantile_disc(income, 0.5) FROM people WHERE {condition}").fetchall()  # noqa: S608 - likewise

    ours, theirs = [_time(lambda: search(None))], [_time(lambda: sort("true"))]
    for number in range(1, _LATER + 1):
        condition = f"age > {3 * number}"
        ours.append(_time(partial(search, condition)))
        theirs.append(_time(partial(sort, condition)))
    return [
        _row("median by search, first of the column", ours[:1], theirs[:1], ""),
        _row("median by search, another condition", ours[1:], theirs[1:], "5 or more"),
    ]


def _compare_engines(table: pa.Table, peer: duckdb.DuckDBPyConnection, labels: list[str]) -> None:
    """Say whether arrays, files and SQL give the same whole numbers."""
    texts = [f"region = '{label}' AND age > 30" for label in labels]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        pq.write_table(table, path)
        found = []
        for data in (table, path):
            engine = open_engine(data)
            found.append([int(value) for value in engine.sums([parse(text, engine.card) for text in texts], bits=0)])
    counted = dict(peer.execute("SELECT region, count(*) FROM people WHERE age > 30 GROUP BY region").fetchall())
    right = found[0] == found[1] == [counted.get(label, 0) for label in labels]
    print(
        f"{len(labels)} counts on arrays, on a file by DuckDB and by DuckDB's GROUP BY: {'equal' if right else 'DIFFERENT'}"
    )


def _time(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _row(name: str, ours: list[float], theirs: list[float], wanted: str) -> list[str]:
    mine, peers = statistics.median(ours), statistics.median(theirs)
    return [name, f"{mine * 1e3:,.2f} ms", f"{peers * 1e3:,.2f} ms", f"{peers / mine:,.2f}", wanted]

"""A hundred tables of two columns over 10^6 rows, one whole release, beside DuckDB's GROUP BY for each in one run.

Holdtrue's time is of the whole call: sizes, prices, charge, counts, noise, intervals and records. DuckDB only counts.
"""

import time
from itertools import combinations

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from benchmarks.peers import show
from holdtrue.curator import Curator

__all__ = ["run"]

_ROWS = 10**6
_COLUMNS = 15
_LABELS = 8
_TABLES = 100


def run(rows: int = _ROWS) -> None:
    """Print both times and their ratio; wanted are less than five seconds."""
    random = np.random.default_rng(1)  # noqa: TID251 - data to be measured on
    names = [f"c{number}" for number in range(_COLUMNS)]
    table = pa.table({name: random.integers(0, _LABELS, rows) for name in names})
    chosen = list(combinations(names, 2))[:_TABLES]
    peer = duckdb.connect()
    peer.register("given", table)
    peer.execute("CREATE TABLE people AS SELECT * FROM given")
    with Curator(table, queries=1000, iid=True) as curator:
        began = time.perf_counter()
        found = curator.marginals(chosen, columns=names, keys={name: list(range(_LABELS)) for name in names})
        ours = time.perf_counter() - began
    began = time.perf_counter()
    for pair in chosen:
        columns = ", ".join(pair)
        peer.execute(f"SELECT {columns}, count(*) FROM people GROUP BY {columns}").fetchall()  # noqa: S608 - a bench's own text
    theirs = time.perf_counter() - began
    line = [found.brief, f"{ours:.2f} s", f"{theirs:.2f} s", f"{theirs / ours:.2f}", "below 5 s"]
    show(f"one whole release, {rows:,} rows", ["what", "holdtrue", "DuckDB", "DuckDB / holdtrue", "wanted"], [line])

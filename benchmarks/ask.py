"""The measure step of an ask on 10^6 rows and 64 columns, against the same in DuckDB; and the memory of a stream."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from benchmarks.peers import show, without_numba
from holdtrue.engines import Engine, open_engine
from holdtrue.kernels import bitmaps
from holdtrue.queries import Query, parse

__all__ = ["run"]

T = TypeVar("T")

_ROWS = 10**6
_COLUMNS = 64
_BITS = 20
_CONJUNCTIONS = 10_000
_SHARE = 100
_WIDTH = 16
_STREAMED = 10 * 10**9
_RNG = np.random.default_rng(1)  # noqa: TID251 - data to be measured on


def run() -> None:
    """Print times, ratios and the targets that the project promises, then the peak memory of a streamed scan."""
    bitmaps.compiled(1 << 40)
    table = pa.table({f"x{number}": _RNG.random(_ROWS) for number in range(_COLUMNS)})
    engine = open_engine(table, memory=4 << 30)
    engine.sort()
    peer = duckdb.connect()
    peer.register("given", table)
    peer.execute("CREATE TABLE rows AS SELECT * FROM given")
    atoms = [f"x{number} > {cut:.3f}" for number, cut in enumerate(_RNG.random(_COLUMNS))]
    rows = [*_known(engine, peer, atoms), _batch(engine, peer, atoms), *_unseen(engine, peer)]
    show(
        f"one measure step, {_ROWS:,} rows, {_COLUMNS} columns",
        ["what", "holdtrue", "without numba", "DuckDB", "DuckDB / holdtrue"],
        rows,
    )
    _stream()


def _known(engine: Engine, peer: duckdb.DuckDBPyConnection, atoms: list[str]) -> Iterator[list[str]]:
    """Yield the rows of questions over atoms that were asked about before, in combinations that were not."""
    engine.sums([parse(f"{atom} AND {atoms[0]}", engine.card) for atom in atoms], bits=_BITS)
    shapes = {
        "a AND b AND c, atoms known": "{0} AND {1} AND {2}",
        "(a AND b) OR (c AND d), atoms known": "({0} AND {1}) OR ({2} AND {3})",
    }
    for name, shape in shapes.items():
        texts = [shape.format(*_RNG.choice(atoms, 4, replace=False)) for _ in range(600)]
        yield _row(name, engine, peer, texts, target=300)


def _unseen(engine: Engine, peer: duckdb.DuckDBPyConnection) -> Iterator[list[str]]:
    """Yield the rows of comparisons with constants that were never seen, on sorted columns."""

    def fresh() -> str:
        return f"x{_RNG.integers(_COLUMNS)} {_RNG.choice(['<', '>'])} {_RNG.random()!r}"

    yield _row("x > c, c new", engine, peer, [fresh() for _ in range(600)], target=20)
    yield _row("x > c AND y < d, both new", engine, peer, [f"{fresh()} AND {fresh()}" for _ in range(600)], target=20)


def _row(name: str, engine: Engine, peer: duckdb.DuckDBPyConnection, texts: list[str], *, target: int) -> list[str]:
    queries = [parse(text, engine.card) for text in texts]
    # Every question is asked once: nothing is remembered of it.
    fast, slow = queries[: len(queries) // 2], queries[len(queries) // 2 :]
    ours = _middle(lambda query: engine.sums([query], bits=_BITS), fast)
    with without_numba(bitmaps.compiled):
        plain = _middle(lambda query: engine.sums([query], bits=_BITS), slow)
    statements = [f"SELECT avg(CASE WHEN {text} THEN 1.0 ELSE 0.0 END) FROM rows" for text in texts[:40]]  # noqa: S608 - our own
    theirs = _middle(lambda statement: peer.execute(statement).fetchone(), statements)
    _check(engine, peer, texts[0], queries[0])
    return [name, _time(ours), _time(plain), _time(theirs), f"{theirs / ours:,.0f} (>= {target})"]


def _batch(engine: Engine, peer: duckdb.DuckDBPyConnection, atoms: list[str]) -> list[str]:
    """Return the row of many conjunctions in one call. DuckDB gets a share of them, and its time is scaled up."""
    texts = [" AND ".join(_RNG.choice(atoms, 3, replace=False)) for _ in range(_CONJUNCTIONS)]
    queries = [parse(text, engine.card) for text in texts]
    ours = min(_timed(lambda: engine.sums(queries, bits=_BITS)) for _ in range(5))
    with without_numba(bitmaps.compiled):
        plain = _timed(lambda: engine.sums(queries, bits=_BITS))
    listed = ", ".join(f"{atom} AS a{number}" for number, atom in enumerate(atoms))
    peer.execute(f"CREATE TABLE atoms AS SELECT {listed} FROM rows")  # noqa: S608 - our own text
    names = {atom: f"a{number}" for number, atom in enumerate(atoms)}
    some = [" AND ".join(names[atom] for atom in text.split(" AND ")) for text in texts[:_SHARE]]
    ways = [
        (f"SELECT {', '.join(f'count(*) FILTER (WHERE {text})' for text in texts[:_SHARE])} FROM rows"),  # noqa: S608
        (f"SELECT {', '.join(f'count(*) FILTER (WHERE {text})' for text in some)} FROM atoms"),  # noqa: S608
        (f"SELECT {', '.join(f'sum(CAST({text} AS TINYINT))' for text in some)} FROM atoms"),  # noqa: S608
    ]
    best = min(_timed(lambda way=way: peer.execute(way).fetchone()) for way in ways)  # type: ignore[misc]
    theirs = best * _CONJUNCTIONS / _SHARE
    found = peer.execute(ways[1]).fetchone() or ()
    if [count << _BITS for count in found] != engine.sums(queries[:_SHARE], bits=_BITS):
        message = "the two do not count the same"
        raise AssertionError(message)
    name = f"{_CONJUNCTIONS:,} conjunctions of 3 in one call (DuckDB: {_SHARE}, scaled)"
    return [name, _time(ours), _time(plain), _time(theirs), f"{theirs / ours:,.0f} (>= 300)"]


def _check(engine: Engine, peer: duckdb.DuckDBPyConnection, text: str, query: Query) -> None:
    (count,) = peer.execute(f"SELECT count(*) FILTER (WHERE {text}) FROM rows").fetchone() or (0,)  # noqa: S608 - our own
    if engine.sums([query], bits=_BITS) != [count << _BITS]:
        message = f"the two do not count the same for {text}"
        raise AssertionError(message)


def _middle(action: Callable[[T], object], inputs: list[T]) -> float:
    """Return the median time of an action over its inputs, each met once, after three to warm up."""
    for warm in islice(inputs, 3):
        action(warm)
    return float(np.median([_timed(lambda given=given: action(given)) for given in inputs[3:]]))  # type: ignore[misc]


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds * 1e6:,.1f} µs"


def _stream() -> None:
    """Print the peak memory of a process that opens, scans and fingerprints a glob of Parquet files.

    One file under many names: little on disk, but every name is read, decoded and counted as rows of its own.
    """
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "rows-0.parquet"
        table = pa.table({f"x{number}": _RNG.integers(0, 1000, _ROWS) / 1000 for number in range(_WIDTH)})
        pq.write_table(table, first, row_group_size=100_000)
        files = -(-_STREAMED // table.nbytes)
        for number in range(1, files):
            os.link(first, Path(folder) / f"rows-{number}.parquet")
        packed = first.stat().st_size / 1e6
        size = f"{files * table.nbytes / 1e9:.1f} GB of columns in {files} files of {packed:.0f} MB"
        print(f"a stream of Parquet, {size}", flush=True)
        command = [sys.executable, "-m", "benchmarks.ask", f"{folder}/*.parquet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as scan:  # noqa: S603 - ourselves
            for line in scan.stdout or ():
                rows.append(line.rstrip("\n").split("\t"))
                print("  " + ", ".join(rows[-1]), flush=True)
    if scan.returncode:
        message = "the scan failed"
        raise RuntimeError(message)
    show(f"a stream of Parquet, {size}", ["step", "time", "peak memory of the process (< 2 GB)"], rows)


def _scan(pattern: str) -> None:
    """Take each step of the stream, and tell how long it took and the peak so far."""
    start = time.perf_counter()
    engine = open_engine(pattern)
    _told(f"open {engine.card.rows:,} rows", start)
    pairs = [(f"x{number}", f"x{number + 1}") for number in range(0, _WIDTH, 2)]
    steps = {
        f"{len(pairs)} numbers, all {_WIDTH} columns": [f"{one} * {other}" for one, other in pairs],
        f"{len(pairs)} booleans, {_WIDTH} atoms new": [f"{one} > 0.5 AND {other} < 0.25" for one, other in pairs],
        "1 boolean, 3 atoms known": ["x0 > 0.5 AND x2 > 0.5 AND x4 > 0.5"],
    }
    for step, texts in steps.items():
        queries = [parse(text, engine.card) for text in texts]
        start = time.perf_counter()
        engine.sums(queries, bits=_BITS)
        _told(step, start)
    start = time.perf_counter()
    engine.fingerprint(b"k" * 32)
    _told("fingerprint", start)
    engine.close()


def _told(step: str, start: float) -> None:
    taken = time.perf_counter() - start
    # getrusage would tell the peak of the process that started this one.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(f"{step}\t{_time(taken)}\t{int(peak.split()[1]) * 1024 / 1e9:.2f} GB", flush=True)


if __name__ == "__main__":
    _scan(sys.argv[1])

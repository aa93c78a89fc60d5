"""A Parquet file of 20,000,000 rows and 10 columns: opening it, and one question from a cold process, against DuckDB."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from benchmarks.peers import best_time, show
from holdtrue.engines import open_engine

__all__ = ["run"]

_ROWS = 20_000_000
_COLUMNS = {
    "age": "CAST(random() * 90 AS INTEGER)",
    "income": "random() * 100000",
    "smoker": "random() < 0.3",
    "region": "['north', 'south', 'east', 'west'][1 + CAST(floor(random() * 4) AS INTEGER)]",
    "weight": "40 + random() * 80",
    "height": "1.5 + random() / 2",
    "visits": "CAST(random() * 1000000 AS INTEGER)",
    "score": "CAST(random() * 100 AS INTEGER)",
    "dose": "random() * 10",
    "ward": "CAST(random() * 50 AS INTEGER)",
}
_SETTLED = 3  # a file that changed within two seconds is not taken as known


def run() -> None:
    """Print both times, ratios and targets."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        listed = ", ".join(f"{expression} AS {name}" for name, expression in _COLUMNS.items())
        duckdb.execute(f"COPY (SELECT {listed} FROM range({_ROWS})) TO '{path}' (FORMAT parquet)")  # noqa: S608 - our own
        time.sleep(_SETTLED)
        size = f"{_ROWS:,} rows x {len(_COLUMNS)} columns, {path.stat().st_size / 1e6:,.0f} MB of Parquet"
        rows = [_compare_hashes(path), _compare_cold_asks(path)]
        show(size, ["what", "holdtrue", "DuckDB", "holdtrue / DuckDB"], rows)


def _compare_hashes(path: Path) -> list[str]:
    """Return the times of opening the file with its fingerprint, and of DuckDB's hashes of every cell."""
    hashes = " + ".join(f"CAST(hash({name}) AS HUGEINT)" for name in _COLUMNS)
    ways = [
        f"SELECT sum({hashes}) FROM '{path}'",  # noqa: S608 - our own text
        f"SELECT {', '.join(f'bit_xor(hash({name}))' for name in _COLUMNS)} FROM '{path}'",  # noqa: S608 - likewise
    ]
    theirs = min(best_time(lambda way=way: duckdb.execute(way).fetchall(), repeat=3) for way in ways)  # type: ignore[misc]

    def open_file() -> None:
        engine = open_engine(path)
        engine.fingerprint(b"k" * 40)
        engine.close()

    ours = best_time(open_file, repeat=3)
    return ["open, with the fingerprint of all rows", f"{ours:.2f} s", f"{theirs:.2f} s", f"{ours / theirs:.1f} (<= 4)"]


def _compare_cold_asks(path: Path) -> list[str]:
    """Return the times of one question in a process of its own, of a file that is known and unchanged."""
    command = str(Path(sys.executable).with_name("holdtrue"))
    bytecode = path.parent / "bytecode"
    _call(command, "open", str(path), "--queries", "300", "--epsilon", "1", "--delta", "1e-9", bytecode=bytecode)
    script = "import sys, duckdb; print(duckdb.execute(sys.argv[1]).fetchall())"
    ours, theirs = [], []
    for age in range(60, 65):
        question = f"age > {age} AND smoker AND region = 'north'"
        ours.append(_call(command, "ask", str(path), question, bytecode=bytecode))
        same = f"SELECT avg(CAST({question} AS INTEGER)) FROM '{path}'"  # noqa: S608 - our own text
        theirs.append(_call(sys.executable, "-c", script, same, bytecode=bytecode))
    best, peer = min(ours), min(theirs)
    return ["a new question, cold process", f"{best:.2f} s (<= 1)", f"{peer:.2f} s", f"{best / peer:.1f} (<= 5)"]


def _call(*command: str, bytecode: Path) -> float:
    """Return how long a process took from start to end, its modules compiled before, as an installed package's are."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own text
        command, check=True, capture_output=True, env=environment | {"PYTHONPYCACHEPREFIX": str(bytecode)}
    )
    return time.perf_counter() - start

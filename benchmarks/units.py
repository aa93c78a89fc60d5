"""Questions about 10^6 patients with 10^7 visits, beside the same GROUP BY in DuckDB, in one run.

Holdtrue's times are of the whole call: text read, price, charge, count, noise, interval and record. DuckDB only counts.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from benchmarks.peers import show
from holdtrue.curator import Curator

__all__ = ["run"]

_PATIENTS, _VISITS = 10**6, 10**7
_LATER = 20
_RNG = np.random.default_rng(1)  # noqa: TID251 - data to be measured on
# Each kind of aggregate in Holdtrue's words and as DuckDB counts units by it.
_FIRST = {
    "ANY": ("ANY(cost > 95)", "bool_or(cost > 95)"),
    "COUNT": ("COUNT(urgent AND cost > 40) >= 2", "count_if(urgent AND cost > 40) >= 2"),
    "SUM": ("SUM(items) >= 30", "sum(items) >= 30"),
}


def run(patients: int = _PATIENTS, visits: int = _VISITS) -> None:
    """Print times and ratios: first questions make a column of units, later ones only compare it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        table = _make_visits(patients, visits)
        pq.write_table(table, path)
        found = [row for data in (table, path) for row in _measure(data, path)]
    heads = ["visits", "question", "holdtrue", "DuckDB", "holdtrue / DuckDB", "wanted"]
    show(f"{visits:,} visits of {patients:,} patients", heads, found)


def _make_visits(patients: int, visits: int) -> pa.Table:
    columns = {"patient_id": _RNG.integers(0, patients, visits), "urgent": _RNG.random(visits) < 0.2}
    return pa.table(columns | {"cost": _RNG.random(visits) * 100, "items": _RNG.integers(0, 9, visits)})


def _measure(data: object, path: Path) -> list[list[str]]:
    peer = duckdb.connect()
    kind = "a Parquet file" if data is path else "in memory"
    source = f"'{path}'" if data is path else "held"
    if data is not path:
        peer.register("given", data)
        peer.execute("CREATE TABLE held AS SELECT * FROM given")
    found = []
    with Curator(data, unit="patient_id", bounds={"items": (0, 9)}, queries=1000, iid=True) as curator:
        curator.ask("COUNT(*) > 3")  # so that all code is loaded
        for name, (query, condition) in _FIRST.items():
            times = [_time(partial(curator.ask, query))], [_time(partial(_count, peer, source, condition))]
            found.append(_row([kind, f"{name}, first"], *times, "2 or less"))
        ours = [_time(partial(curator.ask, f"SUM(items) > {most}")) for most in range(_LATER)]
        theirs = [_time(partial(_count, peer, source, f"sum(items) > {most}")) for most in range(3)]
        found.append(_row([kind, "SUM, another threshold"], ours, theirs, ""))
    return found


def _count(peer: duckdb.DuckDBPyConnection, source: str, condition: str) -> object:
    grouped = f"SELECT {condition} AS yes FROM {source} GROUP BY patient_id"  # noqa: S608 - a bench's own text
    return peer.execute(f"SELECT count(*) FROM ({grouped}) WHERE yes").fetchall()  # noqa: S608 - likewise


def _time(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _row(names: list[str], ours: Sequence[float], theirs: Sequence[float], wanted: str) -> list[str]:
    mine, peers = statistics.median(ours), statistics.median(theirs)
    return [*names, f"{mine * 1e3:,.2f} ms", f"{peers * 1e3:,.2f} ms", f"{mine / peers:,.2f}", wanted]

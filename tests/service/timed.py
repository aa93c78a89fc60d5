"""One of two services over neighbouring tables; run as a program: ``timed.py FOLDER SIDE TICK ENGINE``.

The tables differ in one row, which alone lies beyond 1. ENGINE ``ours`` is Holdtrue's own; ``plain`` counts as most programs
would, with a WHERE on a DuckDB connection as it comes, which skips what the statistics of the file rule out. With ``cell``
and ``grid`` the one row has a text of 5 MB, and ``grid`` lets answers leave on one grid for all requests, as the service
once did. Writes the port and the key to FOLDER/SIDE.address.
"""

import asyncio
import math
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

from holdtrue.queries.emitters import duckdb_condition
from holdtrue.service import create
from holdtrue.service.http.middleware import Departure
from holdtrue.service.settings import Settings

ROWS = 1_000_000
CELL = 5_000_000
PLAN = {"path": "rows.parquet", "queries": 20_000, "epsilon": 1.0, "delta": 1e-6, "iid": True}


def write(path: Path, side: int, kind: str) -> None:
    """Write the rows of one side."""
    if kind in ("cell", "grid"):
        notes = ["short"] * 10_000
        notes[17] = "n" * CELL if side else "n"
        pq.write_table(pa.table({"note": notes}), path)
        return
    values = np.random.default_rng(9).random(ROWS)
    values[17] += 2 * side
    pq.write_table(pa.table({"x": values}), path, row_group_size=ROWS)


def leave_on_one_grid() -> None:
    """Plant the old fault: answers leave on a grid that is the same for all requests."""

    async def leave(departure: Departure) -> int:
        loop, tick = departure._loop, departure._tick
        if tick > 0:
            await asyncio.sleep((math.floor(loop.time() / tick) + 1) * tick - loop.time())
        return 0

    Departure.leave = leave


class Plain:
    """Counts the rows that a condition selects, as a program does that does not think of time."""

    def __init__(self, path: Path, engine: object) -> None:
        self._connection = duckdb.connect()
        self._path = str(path)
        self._engine = engine

    def sums(self, queries, *, bits, progress=None):
        del progress
        found = []
        for query in queries:
            statement = f"SELECT COUNT(*) FROM read_parquet('{self._path}') WHERE {duckdb_condition(query.tree)}"  # noqa: S608 - a test
            found.append(self._connection.execute(statement).fetchone()[0] << bits)
        return found

    def close(self) -> None:
        self._engine.close()


def main(folder: Path, side: int, tick: float, kind: str) -> None:
    home = folder / f"side {side}"
    home.mkdir()
    write(home / "rows.parquet", side, kind)
    if kind == "grid":
        leave_on_one_grid()
    app = create(Settings(home=home / "home", tick=tick, rate="1000000/second", data=(home,)))
    service = app.state.service
    dataset = service.registry.register("rows", PLAN)
    if kind == "plain":
        house = dataset.curator.pipeline
        house.engine = Plain(home / "rows.parquet", house.engine)
    key, _ = service.keyring.create("ann", "analyst")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on"))
    began = server.startup

    async def startup(sockets=None) -> None:
        await began(sockets)
        port = server.servers[0].sockets[0].getsockname()[1]
        (folder / f"{side}.new").write_text(f"{port} {key}")
        (folder / f"{side}.new").rename(folder / f"{side}.address")

    server.startup = startup
    server.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])

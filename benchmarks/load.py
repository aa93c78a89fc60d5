"""Durable asks a second over HTTP, at 1, 16 and 64 clients, beside a bare FastAPI handler that commits once a request.

Both keep their rows in SQLite with a rollback journal and synchronous EXTRA, in the same folder, behind one uvicorn worker;
wrk sends a new question under a new key every time, of three conditions out of 256 each, as an analyst does who varies cuts.
The service charges, measures and stores each of them: its charge is durable before rows are read, its answer before it
leaves. Those that come together share these writes, and so do answers with the charges of those that come next.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from benchmarks.peers import show

__all__ = ["run", "wait_for"]

_ROWS = 100_000
_SECONDS = 8
_TURNS = 3
_CLIENTS = (1, 16, 64)
_MEMORY_REQUESTS = 100_000
_PLAN = {"path": "rows.parquet", "queries": 3_000_000, "epsilon": 1.0, "delta": 1e-6}

_WRK = """
local number, start = 0, os.getenv("START")
request = function()
  number = number + 1
  wrk.headers["Idempotency-Key"] = start .. "-" .. number
  local place = (start + number) * 7919 % 16777216
  local x, y, z = place % 256 / 256, math.floor(place / 256) % 256 / 256, math.floor(place / 65536) / 256
  local body = string.format('{"query": "x > %.8f AND y > %.8f AND z > %.8f"}', x, y, z)
  return wrk.format("POST", os.getenv("TARGET"), nil, body)
end
"""

_BARE = """
import sqlite3
from fastapi import FastAPI, Request
app = FastAPI()
database = sqlite3.connect("bare.db", isolation_level=None, check_same_thread=False)
database.execute("PRAGMA synchronous = EXTRA")
database.execute("PRAGMA journal_mode = PERSIST")
database.execute("CREATE TABLE IF NOT EXISTS asked (number INTEGER PRIMARY KEY, key TEXT UNIQUE, body TEXT)")
@app.post("/ask")
async def ask(request: Request) -> dict[str, float]:
    body = await request.json()
    row = (request.headers["idempotency-key"], body["query"])
    database.execute("INSERT OR REPLACE INTO asked (key, body) VALUES (?, ?)", row)
    return {"value": 0.5}
"""


def run() -> None:
    """Print asks a second of both, in turns, and the memory of the service before and after many."""
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed: make packages brings it")
    (build := Path.cwd() / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as name:
        folder = Path(name)
        (folder / "ask.lua").write_text(_WRK)
        (folder / "bare.py").write_text(_BARE)
        numbers = np.arange(_ROWS)
        rows = {name: numbers * step % _ROWS / _ROWS for name, step in (("x", 7919), ("y", 104729), ("z", 1299709))}
        pq.write_table(pa.table(rows), folder / "rows.parquet")
        with _bare(folder) as bare, _service(folder, tick=0.001) as (ours, key, process):
            _throughput(folder, bare, ours, key)
            _memory(folder, ours, key, process)


def _throughput(folder: Path, bare: str, ours: str, key: str) -> None:
    best: dict[tuple[str, int], tuple[float, str]] = {}
    for turn in range(_TURNS):
        for clients in _CLIENTS:
            for name, address, target in (("bare", bare, "/ask"), ("ours", ours, "/v1/datasets/rows/ask")):
                start = str((turn * 100 + clients) * 40_000)
                found = _sent(folder, address, target, key, clients=clients, start=start)
                best[name, clients] = max(best.get((name, clients), (0.0, "")), found)
    rows = []
    for clients in _CLIENTS:
        base = best["bare", clients][0]
        for name, words in (("bare", "FastAPI, one commit a request"), ("ours", "Holdtrue, a whole ask")):
            rate, slowest = best[name, clients]
            rows.append([f"{words}, {clients} client{'s' * (clients > 1)}", f"{rate:,.0f}", slowest, f"{rate / base:.2f}"])
    show("durable requests a second (>= 2 at 16 clients)", ["", "a second", "p99", "ratio"], rows)


def _memory(folder: Path, ours: str, key: str, process: int) -> None:
    """Print the resident memory after the first requests, and after many more."""
    first, sent, began = _resident(process), 0, time.monotonic()
    while sent < _MEMORY_REQUESTS and time.monotonic() - began < 300:
        rate, _ = _sent(folder, ours, "/v1/datasets/rows/ask", key, clients=16, start=str(13_000_000 + sent), seconds=20)
        sent += int(rate * 20)
    last = _resident(process)
    rows = [
        ["before", f"{first:,.0f}"],
        [f"after {sent:,} more", f"{last:,.0f}"],
        ["a request", f"{(last - first) / sent * 1024:.2f} KiB"],
    ]
    show("memory of the service", ["requests", "MiB"], rows)


def _resident(process: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def _sent(  # noqa: PLR0913 - what is sent where, and how
    folder: Path, address: str, target: str, key: str, *, clients: int, start: str, seconds: int = _SECONDS
) -> tuple[float, str]:
    """Return requests a second and the time that 99 of 100 stay below; every one of them was answered."""
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--latency", "-s", "ask.lua"]
    command += ["-H", f"Authorization: Bearer {key}", "-H", "Content-Type: application/json", address]
    environment = os.environ | {"START": start, "TARGET": target}
    out = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout  # noqa: S603
    if "Non-2xx" in out:
        sys.exit(f"not every request was answered:\n{out}")
    rate, slow = re.search(r"Requests/sec:\s+([\d.]+)", out), re.search(r"99%\s+(\S+)", out)
    return float(rate[1]) if rate else 0.0, slow[1] if slow else ""


@contextmanager
def _bare(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "uvicorn", "bare:app", "--port", "8911", "--no-access-log", "--log-level", "warning"]
    with subprocess.Popen(command, cwd=folder) as process:  # noqa: S603
        try:
            wait_for("http://127.0.0.1:8911/openapi.json")
            yield "http://127.0.0.1:8911"
        finally:
            process.terminate()


@contextmanager
def _service(folder: Path, *, tick: float) -> Iterator[tuple[str, str, int]]:
    """Start the real command over the rows; yield its address, a key and its process."""
    holdtrue = str(Path(sys.executable).parent / "holdtrue")
    config = f'rate = "10000000/second"\ntick = {tick}\ndata = ["{folder}"]\n'
    (folder / "settings.toml").write_text(config)
    command = [holdtrue, "serve", "--home", str(folder / "home"), "--port", "8912", "--config", "settings.toml"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:  # noqa: S603
        try:
            address = "http://127.0.0.1:8912"
            wait_for(f"{address}/readyz")
            key = (folder / "home" / "owner.key").read_text().strip()
            headers = {"Authorization": f"Bearer {key}"}
            made = httpx.post(f"{address}/v1/datasets", json=_PLAN | {"name": "rows"}, headers=headers, timeout=60)
            made.raise_for_status()
            yield address, key, process.pid
        finally:
            process.terminate()


def wait_for(address: str) -> None:
    """Wait until an address answers."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if httpx.get(address, timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    sys.exit(f"{address} does not answer")

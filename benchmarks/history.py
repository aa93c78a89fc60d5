"""A ledger of 100,000 entries behind the service: what a history, a page and a report take, and what asking takes meanwhile.

One service has two datasets of one size: one that nobody has asked, and one that was asked 50,000 times. Questions are asked
one after the other, first of the empty one, then of the long one while another analyst reads its history in a loop.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from benchmarks.load import wait_for
from benchmarks.peers import show
from holdtrue.service import create
from holdtrue.service.settings import Settings, read_settings

__all__ = ["run"]

_ROWS = 200_000
_CHARGES = 50_000
_TOGETHER = 500
_ASKS = 1500
_WARM_UP = 20
_READS = 20
_PLAN = {"queries": 100_000, "epsilon": 5.0, "delta": 1e-6}
_PORT = 8913


def run() -> None:
    """Print times of reading and of asking."""
    (build := Path.cwd() / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as place:
        folder = Path(place)
        for name, last in (("empty", 1.0), ("long", 0.9)):  # other rows, or one budget would be for both
            pq.write_table(pa.table({"x": np.linspace(0, last, _ROWS)}), folder / f"{name}.parquet")
        config = f'home = "home"\nport = {_PORT}\nrate = "10000000/second"\ndata = ["."]\n'
        (folder / "settings.toml").write_text(config)
        keys = _fill(read_settings(folder / "settings.toml"))
        with _service(folder) as address:
            _print_reads(address, keys)
            _print_asks(address, keys)


def _fill(settings: Settings) -> dict[str, str]:
    """Register both datasets, ask one of them very often, and return keys."""
    app = create(settings)
    service = app.state.service
    service.registry.register("empty", _PLAN | {"path": "empty.parquet"})
    curator = service.registry.register("long", _PLAN | {"path": "long.parquet"}).curator
    for start in range(0, _CHARGES, _TOGETHER):
        numbers = range(start, start + _TOGETHER)
        jobs = [curator.ask_job((f"x > {n / _CHARGES:.6f}",), key=f"fill {n}", analyst=f"analyst {n % 7}") for n in numbers]
        for future in [curator.pipeline.submit(job) for job in jobs]:
            future.result()
    print(f"{curator.ledger.newest():,} entries")
    keys = {name: service.keyring.create(name, role)[0] for name, role in (("ann", "analyst"), ("olga", "owner"))}
    service.registry.close()
    service.keyring.close()
    service.database.close()
    return keys


@contextmanager
def _service(folder: Path) -> Iterator[str]:
    command = [str(Path(sys.executable).parent / "holdtrue"), "serve", "--config", "settings.toml"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:  # noqa: S603
        try:
            wait_for(f"http://127.0.0.1:{_PORT}/readyz")
            yield f"http://127.0.0.1:{_PORT}"
        finally:
            process.terminate()


def _print_reads(address: str, keys: dict[str, str]) -> None:
    rows = []
    headers = {"Authorization": f"Bearer {keys['olga']}"}
    with httpx.Client(base_url=address, headers=headers, timeout=300) as client:
        client.post("/page/login", data={"key": keys["olga"]}, headers={"Origin": address})
        for path in ("/v1/datasets/long/history", "/v1/datasets/long/history?before=50000", "/datasets/long", "/history"):
            taken = [_time(partial(_get, client, path)) for _ in range(_READS)]
            rows.append([path, f"{1e3 * statistics.median(taken):.0f} ms", f"{1e3 * max(taken):.0f} ms"])
        once: list[tuple[str, Callable[[], httpx.Response]]] = [
            ("/v1/datasets/long/report", partial(_get, client, "/v1/datasets/long/report")),
            ("/v1/datasets/long/verify", partial(_post, client, "/v1/datasets/long/verify", {}, {})),
        ]
        rows += [[path, f"{1e3 * _time(read):.0f} ms", ""] for path, read in once]
    show("reading", ["path", "median", "longest"], rows)


def _print_asks(address: str, keys: dict[str, str]) -> None:
    quiet, loud = (
        _asks(address, keys["ann"], "empty"),
        _read_while(address, keys, lambda: _asks(address, keys["ann"], "long")),
    )
    alone = _asks(address, keys["ann"], "long")
    rows = [
        [what, f"{1e3 * _median(taken):.1f} ms", f"{1e3 * _p99(taken):.1f} ms", f"{_p99(taken) / _p99(quiet):.2f}"]
        for what, taken in (("empty ledger", quiet), ("long ledger", alone), ("long ledger, history read in a loop", loud))
    ]
    show(f"one ask after the other (load {os.getloadavg()[0]:.1f})", ["", "median", "p99", "times the empty one's"], rows)


def _read_while(address: str, keys: dict[str, str], action: Callable[[], list[float]]) -> list[float]:
    """Run an action while the owner reads the history of the long ledger, again and again."""
    done = threading.Event()

    def read() -> None:
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {keys['olga']}"}, timeout=300) as client:
            while not done.is_set():
                client.get("/v1/datasets/long/history").raise_for_status()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        return action()
    finally:
        done.set()
        reader.join()


_NUMBERS = iter(range(10**9))


def _asks(address: str, key: str, dataset: str) -> list[float]:
    taken = []
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=300) as client:
        for _ in range(_WARM_UP + _ASKS):
            number = next(_NUMBERS)
            headers, body = {"Idempotency-Key": f"ask {number}"}, {"query": f"x < {number / 1e7:.9f}"}
            path = f"/v1/datasets/{dataset}/ask"
            taken.append(_time(partial(_post, client, path, body, headers)))
    return taken[_WARM_UP:]


def _get(client: httpx.Client, path: str) -> httpx.Response:
    return client.get(path).raise_for_status()


def _post(client: httpx.Client, path: str, body: dict[str, str], headers: dict[str, str]) -> httpx.Response:
    return client.post(path, json=body, headers=headers).raise_for_status()


def _time(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _median(taken: list[float]) -> float:
    return statistics.median(taken)


def _p99(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100)[98]

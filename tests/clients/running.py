"""A real service on a real port, in a thread of the test's process."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

import holdtrue as ht
from holdtrue.clients import Remote
from holdtrue.service import Service, create
from holdtrue.service.settings import Settings

ROWS = 20_000
PEOPLE = {
    "name": "people",
    "path": "people.parquet",
    "description": "people of a town",
    "queries": 300,
    "epsilon": 6.0,
    "delta": 1e-6,
    "reserve": 0.7,
    "cap": "privacy",
    "iid": True,
    "bounds": {"age": [0, 100], "bmi": [10, 60]},
    "labels": {"sick": [0, 1], "region": ["N", "S"]},
}


@dataclass
class Running:
    url: str
    service: Service
    home: Path
    rows: dict[str, np.ndarray] | None = None

    def key(self, name: str, role: str = "analyst") -> str:
        return self.service.keyring.create(name, role)[0]

    def connect(self, name: str = "ann", role: str = "analyst", **given: object) -> Remote:
        return ht.connect(self.url, self.key(name, role), **given)


def people(folder: Path) -> dict[str, np.ndarray]:
    """Write rows with a known rule, and return them."""
    random = np.random.default_rng(20_000)
    age = random.integers(0, 100, ROWS)
    bmi = np.round(random.uniform(10, 60, ROWS), 1)
    sick = ((age > 60) ^ (random.random(ROWS) < 0.05)).astype(np.int64)
    region = np.where(random.random(ROWS) < 0.3, "N", "S")
    rows = {"age": age, "bmi": bmi, "smoker": random.random(ROWS) < 0.25, "sick": sick, "region": region}
    pq.write_table(pa.table(rows), folder / "people.parquet")
    return rows


@contextmanager
def running(home: Path, **given: object) -> Iterator[Running]:
    """Serve from a folder until the test is over."""
    settings = Settings(home=home, **{"tick": 0.002, "rate": "100000/minute"} | given)
    app = create(settings)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        while not server.started or not app.state.service.registry.ready:
            assert thread.is_alive(), "the service did not start"
            time.sleep(0.005)
        yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.service, home)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()

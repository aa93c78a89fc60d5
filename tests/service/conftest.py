"""An application over a temporary home, in this process and behind a real port. Rows are generated; one holds a canary."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdtrue.service import create
from holdtrue.service.settings import Settings
from service.living import living

ROWS = 4_000
CANARY = "kanarienvogel"
CANARY_NUMBER = 86_753_091
PEOPLE = {
    "path": "people.parquet",
    "description": "people of a town",
    "queries": 1_000,
    "epsilon": 2.0,
    "delta": 1e-6,
    "reserve": 0.5,
    "iid": True,
    "bounds": {"age": [0, 100], "income": [0, 100_000_000]},
    "second_budget": True,  # tests register the same rows under several names
}


def write_people(folder: Path, *, canary: bool = True) -> None:
    """Write the rows; the neighbouring table differs in one row, which holds the canary or does not."""
    random = np.random.default_rng(1870)
    age, smoker = random.integers(0, 100, ROWS), random.random(ROWS) < 0.25
    income = random.integers(10_000, 90_000, ROWS)
    note = [f"note {number}" for number in random.integers(0, 50, ROWS)]
    if canary:
        note[17], income[17], age[17], smoker[17] = CANARY, CANARY_NUMBER, 99, True
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"age": age, "smoker": smoker, "income": income, "note": note}), folder / "people.parquet")


def made(folder: Path, *, canary: bool = True, **given: object) -> SimpleNamespace:
    """Return an application with one dataset, and keys of each role."""
    write_people(folder, canary=canary)
    hosts = ("127.0.0.1", "testserver")
    settings = Settings(home=folder / "home", **{"tick": 0.001, "rate": "1000000/second", "hosts": hosts} | given)
    app = create(settings)
    service = app.state.service
    service.registry.register("people", PEOPLE)
    keys = {role: service.keyring.create(f"the {role}", role)[0] for role in ("owner", "analyst", "auditor")}
    return SimpleNamespace(app=app, service=service, keys=keys, folder=folder)


def closed(held: SimpleNamespace) -> None:
    """Let go of an application that was never served."""
    held.service.registry.close()
    held.service.keyring.close()
    held.service.database.close()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Yield an application in this process, for ASGI."""
    found = made(tmp_path_factory.mktemp("held"))
    yield found
    closed(found)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Yield an application behind a real port, with its address."""
    found = made(tmp_path_factory.mktemp("served"))
    with living(found.app) as client:
        found.url = str(client.base_url).rstrip("/")
        yield found


@pytest.fixture
def service_url(served: SimpleNamespace) -> str:
    return served.url


@pytest.fixture
def owner_key(served: SimpleNamespace) -> str:
    return served.keys["owner"]


@pytest.fixture
def analyst_key(served: SimpleNamespace) -> str:
    return served.keys["analyst"]


@pytest.fixture
def analyst(service_url: str, analyst_key: str) -> Iterator[httpx.Client]:
    """Yield a client with an analyst's key."""
    headers = {"Authorization": f"Bearer {analyst_key}"}
    with httpx.Client(base_url=service_url, headers=headers, timeout=60.0) as client:
        yield client


@pytest.fixture
def owner(service_url: str, owner_key: str) -> Iterator[httpx.Client]:
    """Yield a client with the owner's key."""
    headers = {"Authorization": f"Bearer {owner_key}"}
    with httpx.Client(base_url=service_url, headers=headers, timeout=60.0) as client:
        yield client

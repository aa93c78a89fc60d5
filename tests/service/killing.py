"""A service under load that is killed with SIGKILL again and again; run as a program, from which everything is forked.

``killing.py FOLDER KILLS KEYS [POSTGRES]`` prints how many answers the clients wrote down. A client sends a question until
it is answered: with KEYS ``same`` under one key, as clients do; with ``new`` under a new key for every try, as a control.
Lines of FOLDER/seen: ``key entry digest-of-body .``, so that a line which was cut off shows.
"""

import contextlib
import hashlib
import http.client
import importlib
import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

from holdtrue.service import create
from holdtrue.service.settings import Settings

CLIENTS = 4
ROWS = 12_000
PAUSE = 0.005
PLAN = {"path": "rows.parquet", "queries": 100_000, "epsilon": 1.0, "delta": 1e-6, "iid": True}


def settings_of(folder: Path, ledger: str | None) -> Settings:
    return Settings(home=folder / "home", ledger=ledger, rate="1000000/second", tick=0.001)


def prepare(folder: Path, ledger: str | None) -> None:
    """Register the rows and make a key, in a process of its own: no connection is carried over a fork."""
    pq.write_table(pa.table({"x": [row / ROWS for row in range(ROWS)]}), folder / "rows.parquet")
    service = create(settings_of(folder, ledger)).state.service
    service.registry.register("rows", PLAN)
    (folder / "key").write_text(service.keyring.create("ann", "analyst")[0])
    service.registry.close()


def serve(folder: Path, ledger: str | None, listening: socket.socket) -> None:
    configuration = uvicorn.Config(create(settings_of(folder, ledger)), log_config=None, access_log=False, lifespan="on")
    uvicorn.Server(configuration).run(sockets=[listening])


def ask(folder: Path, port: int, client: int, keys: str) -> None:
    """Ask new questions for ever, each until it is answered, and every third one again."""
    secret = (folder / "key").read_text()
    seen = os.open(folder / "seen", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    number = 0
    while not (folder / "stop").exists():
        number += 1
        key, tries, wanted = f"{client} {number}", 0, 1 + (number % 3 == 0)
        body = json.dumps({"query": f"x > {(client + CLIENTS * number) / 1e6}"})
        while wanted:
            tries += 1
            name = key if keys == "same" else f"{key} {tries}"
            headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": name, "Content-Type": "application/json"}
            text = posted(port, body, headers)
            if text is None:
                time.sleep(PAUSE)  # four clients that ask without one keep the next server from starting
                continue
            entry = json.loads(text)["certificate"]["entry"]
            os.write(seen, f"{key.replace(' ', '-')} {entry} {hashlib.sha256(text).hexdigest()} .\n".encode())
            wanted -= 1


def posted(port: int, body: str, headers: dict[str, str]) -> bytes | None:
    """Return the body of an answer, None where the connection broke or the service was not there."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("POST", "/v1/datasets/rows/ask", body, headers)
            response = connection.getresponse()
            text = response.read()
            if response.status == 200:
                return text
            assert response.status in (502, 503), (response.status, text)
        finally:
            connection.close()
    return None


def forked(work, *given) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(*given)
        code = 0
    except BaseException:  # noqa: BLE001 - told, and then the exit code tells
        traceback.print_exc()
    finally:
        os._exit(code)


def imported(folder: Path) -> None:
    """Import all that a server imports, so that forking one is quick; nothing stays open."""
    own = ("holdtrue.curator", "holdtrue.engines.duckdb_engine")
    for name in ("duckdb", "numba", "psycopg", "sqlglot", "anyio._backends._asyncio", "httptools", "uvloop", *own):
        importlib.import_module(name)
    create(settings_of(folder / "none", None)).state.service.database.close()


def main(folder: Path, kills: int, keys: str, ledger: str | None) -> None:
    imported(folder)
    assert os.waitstatus_to_exitcode(os.waitpid(forked(prepare, folder, ledger), 0)[1]) == 0
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    chance = random.Random(f"{kills} kills")
    seen = folder / "seen"
    seen.touch()
    clients = [forked(ask, folder, listening.getsockname()[1], client, keys) for client in range(CLIENTS)]
    for _ in range(kills):
        size, server = seen.stat().st_size, forked(serve, folder, ledger, listening)
        end = time.monotonic() + 60
        while seen.stat().st_size == size and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        os.kill(server, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(server, 0)[1]) == -signal.SIGKILL
    server = forked(serve, folder, ledger, listening)
    (folder / "stop").touch()
    for client in clients:
        assert os.waitstatus_to_exitcode(os.waitpid(client, 0)[1]) == 0
    os.kill(server, signal.SIGTERM)
    os.waitpid(server, 0)
    sys.stdout.write(f"{len(seen.read_text().splitlines())}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else None)

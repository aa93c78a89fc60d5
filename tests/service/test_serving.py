"""The running service: the real command in real processes, stopped in the middle of answers, raced by many clients."""

import contextlib
import io
import json
import os
import signal
import socket
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx
import numpy as np
import pytest

import holdtrue as ht
from holdtrue.errors import RefusedError
from holdtrue.service.http import serving
from holdtrue.service.settings import Settings
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start
from service.living import Command

QUESTIONS = 300
WORKERS, CLIENTS = 4, 32
TICK = 2.5


def write_rows(folder, rows=20_000):
    numbers = np.random.default_rng(7).integers(0, 10_000, rows)
    (folder / "people.csv").write_text("\n".join(["score", *map(str, numbers)]) + "\n", encoding="utf-8")


def owner(folder):
    return {"Authorization": f"Bearer {(folder / '.holdtrue' / 'owner.key').read_text(encoding='ascii').strip()}"}


def register(client, **given):
    body = {"name": "people", "path": "people.csv", "types": {"score": "integer"}, "iid": True, "reserve": 0.0} | given
    made = client.post("/v1/datasets", json=body)
    assert made.status_code in (200, 201), made.text


def ask(client, number, key=None):
    headers = {"Idempotency-Key": key or f"ask {number}"}
    return client.post("/v1/datasets/people/ask", json={"query": f"score > {number}"}, headers=headers)


def charges(path):
    """Count a ledger's charges from outside."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        return connection.execute("SELECT count(*) FROM holdtrue_entries WHERE kind = 'charge'").fetchone()[0]
    finally:
        connection.close()


def send_while_held(client, ledger):
    """Send eight new asks right after a tick; return them once all are charged and none can have left yet, else nothing."""
    before = charges(ledger)
    time.sleep(TICK - time.monotonic() % TICK)
    boundary = time.monotonic() + TICK
    numbers = range(20 * before, 20 * before + 8)
    pool = ThreadPoolExecutor(8)
    sent = [pool.submit(ask, client, number) for number in numbers]
    while charges(ledger) < before + 8 and time.monotonic() < boundary:
        time.sleep(0.01)
    pool.shutdown(wait=False)
    if charges(ledger) == before + 8 and time.monotonic() < boundary - 0.3:
        return sent
    answers(sent)
    return []


def answers(held):
    """Return what came back whole."""
    outcomes = [each.exception() or each.result() for each in held]
    return [each for each in outcomes if isinstance(each, httpx.Response) and each.status_code == 200]


def stopped_while_held(command, client, number):
    """Send a signal to a service that holds eight charged answers; return its exit code and the answers that left."""
    ledger = command.folder / ".holdtrue" / "people.ledger"
    waves = iter(lambda: send_while_held(client, ledger), None)
    held = next(filter(None, waves))
    code = command.stop(number)
    return code, answers(held)


def test_a_stop_lets_every_answer_that_was_charged_leave_and_a_restart_knows_its_keys(tmp_path):
    write_rows(tmp_path)
    place = tmp_path / ".holdtrue" / "owner.key"
    with Command(tmp_path, "--tick", TICK) as command:
        address = command.wait_ready()
        assert httpx.get(f"{address}/healthz").status_code == 200
        headers = owner(tmp_path)
        assert place.stat().st_mode & 0o777 == 0o600
        with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
            register(client, queries=1000)
            first = ask(client, 5000)
            code, found = stopped_while_held(command, client, signal.SIGTERM)
        assert code == 0, command.said()
        assert len(found) == 8
        assert all("value" in each.json() for each in found)
        assert str(place).encode() in command.out
        assert headers["Authorization"].split()[1] not in command.said()
        assert "score" not in command.log.read_text(encoding="utf-8")
        lines = [json.loads(line) for line in command.log.read_text(encoding="utf-8").splitlines()]
        asked = [line for line in lines if line.get("route") == "/v1/datasets/{name}/ask" and line["status"] == 200]
        assert len(asked) >= 9
        assert {line["key"] for line in asked} == {headers["Authorization"][10:18]}
    assert ht.verify(tmp_path / ".holdtrue" / "people.ledger")
    place.unlink()
    with Command(tmp_path, "--tick", TICK) as command:
        with httpx.Client(base_url=command.wait_ready(), headers=headers, timeout=60) as client:
            assert client.get("/v1/me").json()["role"] == "owner"
            assert ask(client, 5000).content == first.content
            # The control: a server that does not wait takes charged answers with it.
            assert stopped_while_held(command, client, signal.SIGKILL) == (-signal.SIGKILL, [])
        assert not place.exists()
        assert command.out.count(b"\n") == 1


def test_the_first_key_goes_to_a_terminal_and_nowhere_else(tmp_path):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    settings = Settings(home=tmp_path / "home")
    serving._show_first_key(settings, terminal)
    assert "ht_" in terminal.getvalue()
    assert sorted(path.name for path in settings.home.iterdir()) == ["service.db"]
    serving._show_first_key(settings, terminal)
    assert terminal.getvalue().count("ht_") == 1


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(RefusedError, match="Address already in use"):
            serving.run_service(Settings(home=tmp_path / "home", port=other.getsockname()[1]))
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_that_cannot_start_says_so_and_stops(tmp_path, workers):
    config = tmp_path / "holdtrue.toml"
    issuer = 'url = "u"\naudience = "a"\nalgorithms = ["RS256"]\njwks = "absent.json"\nroles = {a = "owner"}\n'
    config.write_text(f'home = ".holdtrue"\n[issuer]\n{issuer}', encoding="utf-8")
    with Command(tmp_path, "--config", config, "--workers", workers) as command:
        code = command.process.wait(120)
    said = command.log.read_text(encoding="utf-8")
    assert code in (2, 3), said
    assert "absent.json" in said
    assert "Traceback" not in said


def race(command, folder, **given):
    """Ask more than the budget holds from many clients at once; return the statuses and the kinds of refusal."""
    address = command.wait_ready(120)
    headers = owner(folder)
    with httpx.Client(base_url=address, headers=headers, timeout=120) as client:
        register(client, queries=QUESTIONS, **given)
    numbers, statuses, kinds, lock = count(1), [], set(), threading.Lock()
    tries = QUESTIONS + 100

    def spend(_):
        with httpx.Client(base_url=address, headers=headers, timeout=120) as client:
            while (number := next(numbers)) <= tries:
                found = ask(client, number)
                with lock:
                    statuses.append(found.status_code)
                    if found.status_code != 200:
                        kinds.add(found.json()["type"])

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(spend, range(CLIENTS)))
    return statuses, kinds


def settled(command):
    """Stop the service, wait until all its processes are gone, and return how the first one left."""
    code = command.stop()
    with contextlib.suppress(ProcessLookupError):
        for _ in range(600):
            os.killpg(command.process.pid, 0)
            time.sleep(0.05)
        pytest.fail("a process of the service is still there")
    return code


def statuses_of(address, key, requests=24):
    """Use a key on connections of their own, which the workers share among them."""
    headers = {"Authorization": f"Bearer {key}"}
    return {httpx.get(f"{address}/v1/me", headers=headers, timeout=60).status_code for _ in range(requests)}


def check_revocation(client):
    """Give a key, use it on all workers, take it back: the next requests are refused by every worker."""
    made = client.post("/v1/keys", json={"name": "brief", "role": "auditor"}).json()
    assert statuses_of(client.base_url, made["key"]) == {200}
    assert client.delete(f"/v1/keys/{made['prefix']}").status_code == 200
    assert statuses_of(client.base_url, made["key"]) == {401}


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_workers_and_clients_together_spend_exactly_the_budget(tmp_path, request, store):
    write_rows(tmp_path)
    words = ["--workers", WORKERS]
    environment = {}
    if store == "postgresql":
        # By the environment, where a password belongs.
        environment["HOLDTRUE_LEDGER"] = request.getfixturevalue("postgres").database()
    config = tmp_path / "holdtrue.toml"
    config.write_text(f'home = ".holdtrue"\nrate = "{10**6}/minute"\n', encoding="utf-8")
    with Command(tmp_path, "--config", config, *words, **environment) as command:
        statuses, kinds = race(command, tmp_path)
        assert (statuses.count(200), statuses.count(429)) == (QUESTIONS, 100), (set(statuses), kinds, command.said())
        assert kinds == {"urn:holdtrue:budget-exceeded"}
        with httpx.Client(base_url=command.address, headers=owner(tmp_path), timeout=60) as client:
            left = client.get("/v1/datasets/people/budget").json()
            assert left["asks"] == 0
            check_revocation(client)
        started = {line for line in command.log.read_text(encoding="utf-8").splitlines() if "Started server process" in line}
        assert len(started) == WORKERS
        assert settled(command) == 0, command.said()
    shared = f"{environment.get('HOLDTRUE_LEDGER')}&options=-csearch_path%3Dht_people"
    found = ht.verify(tmp_path / ".holdtrue" / "people.ledger" if store == "sqlite" else shared)
    assert found.charges == QUESTIONS
    assert found.left == 0

"""Ledgers that fail under load open again by themselves; nothing is lost, charged twice or left unanswered (P4, P5, P6).

``HOLDTRUE_LOAD_SECONDS=60`` makes the long run of it. Times are printed, and counts are what is checked.
"""

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import httpx
import psycopg
import pytest
import sqlalchemy as sa

from holdtrue.errors import RefusedError, ReleaseError
from holdtrue.ledgers import Ledger, open_ledger, verify
from holdtrue.ledgers.sealed_store import TableStore
from holdtrue.service import create
from holdtrue.service.open_ledgers import OpenLedgers, _choose_pause, _to_public_error
from holdtrue.service.settings import Settings
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start
from service.conftest import PEOPLE, closed, write_people
from service.living import living

SECONDS = float(os.environ.get("HOLDTRUE_LOAD_SECONDS", "6"))
KILLS = int(os.environ.get("HOLDTRUE_LOAD_SECONDS", "3"))
CLIENTS = 4
CASES, LOOKS = 4_000, 3_000
MANY = 10**6
MOST_POLLS = 200


class Clients:
    """Analysts who ask new questions, look at a holdout and read along until they are told to stop.

    Each request is sent again, under the same key, until it is answered; any refusal but 503 with Retry-After is wrong.
    """

    def __init__(self, url, key):
        self.url, self.key = url, key
        self.stop = threading.Event()
        self.answers, self.looks, self.wrong, self.tries = {}, {}, [], Counter()
        self.times = []
        self.threads = [threading.Thread(target=self._work, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _work(self, number):
        chance = random.Random(f"client {number}")
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=60) as client:
            step = 0
            while not self.stop.is_set():
                step += 1
                name = f"{number}-{step}"
                if step % 20 == 1:
                    said = {"y_pred": [chance.randrange(2) for _ in range(CASES)]}
                    self.looks[name] = self._sent(client, "/v1/holdouts/cases/score", said, name)
                elif step % 5 == 0:
                    self._sent(client, "/v1/datasets/people/budget", None, name)
                else:
                    said = {"query": f"income > {number * MANY + step}"}
                    self.answers[name] = self._sent(client, "/v1/datasets/people/ask", said, name)

    def _sent(self, client, path, body, key):
        while True:
            try:
                headers = {"Idempotency-Key": key}
                reply = client.get(path) if body is None else client.post(path, json=body, headers=headers)
            except httpx.TransportError:
                self.tries["broken"] += 1
                continue
            self.tries[reply.status_code] += 1
            if reply.status_code == 200:
                self.times.append(time.monotonic())
                return reply.json()
            if reply.status_code != 503 or "retry-after" not in reply.headers:
                self.wrong.append((reply.status_code, reply.text))
                return None
            time.sleep(0.1)


def polled(client, status):
    """Ask /readyz until it says so; return how often it was asked, and the seconds it took."""
    begun = time.monotonic()
    for polls in range(1, MOST_POLLS + 1):
        if client.get("/readyz").status_code == status:
            return polls, time.monotonic() - begun
        time.sleep(0.05)
    pytest.fail(f"/readyz did not say {status}")


def prepared(folder, **given):
    """Return a service with a dataset and a holdout of more questions and looks than anybody asks."""
    write_people(folder)
    settings = Settings(home=folder / "home", tick=0.001, rate="1000000/second", data=(folder,), receipt_entries=50, **given)
    app = create(settings)
    service = app.state.service
    service.registry.register("people", PEOPLE | {"queries": MANY, "iid": False, "epsilon": 200.0, "delta": 0.01})
    service.registry.register_holdout("cases", {"y_true": [0, 1] * (CASES // 2), "looks": LOOKS})
    return SimpleNamespace(app=app, service=service, key=service.keyring.create("ann", "analyst")[0])


def check_nothing_lost_or_doubled(found, clients):
    """Every question that was sent was charged once and answered, in the ledger and to whoever asked."""
    assert clients.wrong == []
    registry = found.service.registry
    for kind, name, told in (("dataset", "people", clients.answers), ("holdout", "cases", clients.looks)):
        where = registry.ledger_url(name, kind=kind)
        assert verify(where)
        with open_ledger(where) as ledger:
            entries = ledger.entries()
        charges = [entry for entry in entries if entry.kind == "charge"]
        answered = {entry.answers for entry in entries if entry.kind == "response"}
        assert {entry.number for entry in charges} == answered
        assert sorted({reply["certificate"]["entry"] for reply in told.values()}) == sorted(answered)
        assert len(told) == len(charges) > 0
        if kind == "dataset":
            asked = Counter(query for entry in charges for query in json.loads(entry.body)["request"]["queries"])
            assert set(asked.values()) == {1}


def end_backends(server, database):
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [database],
        )


def report(store, times, clients):
    longest = {kind: max(each[2] for each in times if each[0] == kind) for kind in sorted({each[0] for each in times})}
    polls = max(each[1] for each in times)
    told = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in longest.items())
    sys.stdout.write(
        f"{store}: {len(times)} faults, ready again after at most {told} ({polls} polls); "
        f"{len(clients.answers)} answers, {len(clients.looks)} looks, replies {dict(clients.tries)}\n"
    )


def test_p6_a_database_that_restarts_and_ends_connections_under_load_loses_nothing(tmp_path, request):
    server = request.getfixturevalue("postgres")
    url = server.database()
    found, times = prepared(tmp_path, ledger=url), []
    with living(found.app) as client:
        polled(client, 200)
        with Clients(str(client.base_url), found.key) as clients:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                time.sleep(1.0)
                server.stop()
                assert client.get("/readyz").status_code == 503
                time.sleep(0.3)
                server.start()
                times.append(("restart", *polled(client, 200)))
                time.sleep(1.0)
                end_backends(server, url.split("/")[3].split("?")[0])
                times.append(("ended connections", *polled(client, 200)))
    report("PostgreSQL", times, clients)
    check_nothing_lost_or_doubled(found, clients)


def test_p6_connections_that_are_ended_every_second_lose_nothing(tmp_path, request):
    server = request.getfixturevalue("postgres")
    url = server.database()
    found, ended = prepared(tmp_path, ledger=url), []
    with living(found.app) as client:
        polled(client, 200)
        with Clients(str(client.base_url), found.key) as clients:
            for _ in range(KILLS):
                time.sleep(1.0)
                ended.append(time.monotonic())
                end_backends(server, url.split("/")[3].split("?")[0])
            polled(client, 200)
    pauses = [min(each for each in clients.times if each > moment) - moment for moment in ended]
    report("PostgreSQL", [("ended connections", 1, pause) for pause in pauses], clients)
    check_nothing_lost_or_doubled(found, clients)


def test_p6_a_connection_cut_at_any_statement_of_opening_is_tried_again_soon(tmp_path, request, monkeypatch):
    """Wherever a connection ends while a name is opened, the ledger alone decides: the next try comes within half a second.

    The control: an error that no database made waits for seconds, since the data would be read in vain.
    """
    found = prepared(tmp_path, ledger=request.getfixturevalue("postgres").database())
    execute, count = psycopg.Cursor.execute, SimpleNamespace(made=0, cut=0)

    def cut(self, *given, **named):
        count.made += 1
        if count.made == count.cut:
            self.connection.close()
        return execute(self, *given, **named)

    monkeypatch.setattr(psycopg.Cursor, "execute", cut)
    datasets, failures = found.service.registry.datasets, []
    datasets._open_one("people")[0].close()
    for place in range(1, count.made, 3):
        count.made, count.cut = 0, place
        try:
            datasets._open_one("people")[0].close()
        except Exception as error:  # noqa: BLE001 - looked at below
            failures.append(error)
    assert len(failures) > 8
    assert {_choose_pause(9, _to_public_error(error)) for error in failures} == {0.5}
    assert _choose_pause(0, _to_public_error(ValueError("a row"))) == 5.0
    closed(found)


def test_documents_that_cannot_be_reached_for_a_moment_are_told_as_503(tmp_path, request, monkeypatch):
    """Models and submissions have a connection of their own, which ends with the others: the same request is sent again."""
    found = prepared(tmp_path, ledger=request.getfixturevalue("postgres").database())
    open_engine, cut = TableStore._open_engine, []

    def fail(self):
        if not cut:
            cut.append(self)
            raise sa.exc.OperationalError("SELECT", {}, psycopg.errors.AdminShutdown())
        return open_engine(self)

    with living(found.app) as client:
        polled(client, 200)
        headers = {"Authorization": f"Bearer {found.key}", "Idempotency-Key": "look 1"}
        said = {"y_pred": [0, 1] * (CASES // 2)}
        monkeypatch.setattr(TableStore, "_open_engine", fail)
        replies = [client.post("/v1/holdouts/cases/score", json=said, headers=headers) for _ in range(2)]
        while replies[-1].status_code == 503:
            replies.append(client.post("/v1/holdouts/cases/score", json=said, headers=headers))
    assert len(cut) == 1
    assert replies[0].status_code == 503
    assert replies[0].headers["retry-after"] == "1"
    assert replies[-1].status_code == 200
    with open_ledger(found.service.registry.ledger_url("cases", kind="holdout")) as ledger:
        assert sum(entry.kind == "charge" for entry in ledger.entries()) == 1


class MountedDisk:
    """A file system in memory, small enough to be filled."""

    def __init__(self, folder):
        self.folder = folder / "disk"
        self.folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.folder)]
        self.mounted = os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603

    def fill(self):
        with (self.folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)

    def free(self):
        (self.folder / "filler").unlink()

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)  # noqa: S603, S607


class FullConnection(sqlite3.Connection):
    """A connection whose commits fail as on a full disk, where a disk of our own cannot be mounted."""

    full = False
    seen = 0

    def commit(self):
        if FullConnection.full and self.total_changes != self.seen:
            self.rollback()
            self.seen = self.total_changes
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        super().commit()
        self.seen = self.total_changes


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A disk that can be filled: a mounted one, or failing commits where nothing may be mounted."""
    mounted = MountedDisk(tmp_path)
    if not mounted.mounted:
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda *given, **more: connect(*given, factory=FullConnection, **more))
        mounted.fill = lambda: setattr(FullConnection, "full", True)
        mounted.free = lambda: setattr(FullConnection, "full", False)
    yield mounted
    mounted.close()


def test_p6_a_disk_that_is_full_for_a_while_loses_nothing(disk):
    found, times = prepared(disk.folder), []
    with living(found.app) as client:
        polled(client, 200)
        with Clients(str(client.base_url), found.key) as clients:
            for _ in range(max(1, int(SECONDS / 10))):
                time.sleep(1.0)
                disk.fill()
                polled(client, 503)  # once the first charge has failed
                full, end = [], time.monotonic() + min(5.0, SECONDS / 2)
                while time.monotonic() < end:
                    full.append(client.get("/readyz").status_code)
                    time.sleep(0.05)
                assert set(full) == {503}
                disk.free()
                times.append(("full disk", *polled(client, 200)))
                time.sleep(1.0)
    report("SQLite", times, clients)
    check_nothing_lost_or_doubled(found, clients)


def failing_once(monkeypatch, found):
    """Make the next transaction of the dataset's ledger fail, as a disk would."""
    ledger = found.service.registry.open_dataset("people").curator.ledger

    def fail(_):
        message = f"{ledger.store.where} cannot be read or written; nothing was charged"
        raise RefusedError(message)

    monkeypatch.setattr(ledger.store, "commit", fail)


def ask(client, found, number):
    headers = {"Authorization": f"Bearer {found.key}", "Idempotency-Key": f"ask {number}"}
    return client.post("/v1/datasets/people/ask", json={"query": f"income > {number}"}, headers=headers)


def test_a_failed_transaction_is_told_as_503_without_a_path_and_answered_when_asked_again(tmp_path, monkeypatch):
    found = prepared(tmp_path)
    with living(found.app) as client:
        polled(client, 200)
        failing_once(monkeypatch, found)
        told = ask(client, found, 1)
        assert (told.status_code, told.headers["retry-after"]) == (503, "1")
        assert told.headers["content-type"] == "application/problem+json"
        assert str(tmp_path) not in told.text
        polled(client, 200)
        assert ask(client, found, 1).status_code == 200
        assert verify(found.service.registry.ledger_url("people")).charges == 1


def test_control_what_is_not_explained_shows_a_path(tmp_path, monkeypatch):
    found = prepared(tmp_path)
    monkeypatch.setattr(OpenLedgers, "explain", lambda _, error, __: error)
    with living(found.app) as client:
        polled(client, 200)
        failing_once(monkeypatch, found)
        told = ask(client, found, 1)
        assert told.status_code == 403
        assert str(tmp_path) in told.text


def test_control_a_ledger_that_nobody_opens_again_answers_nothing_more_while_readiness_is_not_asked(tmp_path, monkeypatch):
    found = prepared(tmp_path)
    monkeypatch.setattr(OpenLedgers, "reopen_stopped", lambda _: False)
    with living(found.app) as client:
        polled(client, 200)
        failing_once(monkeypatch, found)
        assert [ask(client, found, 1).status_code for _ in range(5)] == [503] * 5
        assert client.get("/readyz").status_code == 200


def test_a_holdouts_key_is_free_again_when_its_ledger_failed(tmp_path, monkeypatch):
    found = prepared(tmp_path)
    body = {"y_pred": [0, 1] * (CASES // 2)}
    headers = {"Authorization": f"Bearer {found.key}", "Idempotency-Key": "look"}
    with living(found.app) as client:
        polled(client, 200)
        ledger = found.service.registry.holdouts.find("cases").ledger
        settle = Ledger.settle

        def fail(account, bodies, requests):
            settled = settle(account, bodies, requests)
            if account is ledger and bodies:
                account._mark_failed()
                message = "the ledger could not be made durable; what was charged may count"
                raise ReleaseError(message)
            return settled

        monkeypatch.setattr(Ledger, "settle", fail)
        assert client.post("/v1/holdouts/cases/score", json=body, headers=headers).status_code == 503
        polled(client, 200)
        again = client.post("/v1/holdouts/cases/score", json=body, headers=headers)
        assert again.status_code == 200
        assert again.json()["looks_left"] == LOOKS - 1

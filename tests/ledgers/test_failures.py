"""What happens when the disk, the server or another process fails (P6)."""

import os
import resource
import signal
import sqlite3
import threading
from pathlib import Path

import pytest

import holdtrue as ht
from holdtrue.ledgers import Busy, Ledger, open_ledger, verify
from holdtrue.ledgers.postgres import PostgresStore
from holdtrue.ledgers.sqlite import SqliteStore
from ledgers.places import connect, request, rows


def in_child(action, *, rights):
    """Run an action in a child, with or without rights; return the class and the words of what it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0 and not rights:
                os.setgid(65534)
                os.setuid(65534)
            action()
            os.write(writer, b"nothing")
        except BaseException as error:  # noqa: BLE001 - reported to the parent
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def test_a_read_only_directory_or_file_is_told_and_loses_nothing(quick):
    folder = quick / "locked"
    folder.mkdir()
    path = folder / "people.ledger"
    with open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows) as ledger:
        ledger.charge(**request("a"))
    quick.chmod(0o755)
    path.chmod(0o444)
    folder.chmod(0o555)
    new = in_child(lambda: open_ledger(folder / "new.ledger", kind="gdp", cap=10, fingerprint=rows), rights=False)
    assert new.startswith("RefusedError: a ledger cannot be created")
    charged = in_child(lambda: open_ledger(path).charge(**request("b")), rights=False)
    assert charged.startswith("RefusedError: ")
    folder.chmod(0o755)
    path.chmod(0o600)
    assert verify(path).charges == 1


def test_what_a_killed_writer_had_begun_to_write_is_undone_by_whoever_comes_next(quick):
    path = quick / "people.ledger"
    with open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows) as ledger:
        receipt = ledger.charge(**request("a")).receipt
    child = os.fork()
    if child == 0:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = PERSIST")
        connection.execute("PRAGMA cache_size = 1")  # what does not fit is written to the file before the commit
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE holdtrue_entries SET spent = 0, analyst = zeroblob(100000)")
        connection.execute("CREATE TABLE more AS SELECT zeroblob(100000) AS much")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert path.stat().st_size > 100_000
    assert verify(path, receipts=[receipt]).spent == 1000
    assert path.stat().st_size < 100_000
    with open_ledger(path) as ledger:
        assert ledger.charge(**request("b")).spent == 2000


def test_a_ledger_that_is_locked_says_so_and_goes_on_later(lasting):
    ledger = lasting.open()
    ledger.close()
    sqlite = lasting.kind == "sqlite"
    store = SqliteStore(Path(lasting.where), seconds=0.05) if sqlite else PostgresStore(lasting.where, seconds=0.05)
    impatient = Ledger(store)
    with connect(lasting) as connection:
        if lasting.kind == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql("SELECT * FROM holdtrue_ledger FOR UPDATE")
        with pytest.raises(Busy, match="locked by another process"):
            impatient.charge(**request("a"))
        connection.rollback()
    assert impatient.charge(**request("a")).number == 1
    impatient.close()


def test_p6_after_the_first_failed_commit_nothing_is_answered(place):
    ledger = place.open()
    number = ledger.charge(**request("a")).number
    ledger.respond(number, "stored before")
    commit = ledger.store.commit

    def failing(_):
        message = "injected"
        raise ht.ReleaseError(message)

    ledger.store.commit = failing
    with pytest.raises(ht.ReleaseError, match="injected"):
        ledger.charge(**request("b"))
    ledger.store.commit = commit
    for action in (
        lambda: ledger.charge(**request("c")),
        lambda: ledger.charge(**request("a")),
        lambda: ledger.respond(number, "x"),
        lambda: ledger.find(request_id="id a"),
        lambda: ledger.grant("ann", allowance=1),
        ledger.entries,
        lambda: ledger.spent,
    ):
        with pytest.raises(ht.RefusedError, match="failed earlier"):
            action()
    if place.kind != "memory":
        again = place.reopen()
        assert again.spent == 1000
        assert again.charge(**request("a")).response == "stored before"
        assert again.charge(**request("b")).fresh


def test_p6_a_commit_that_fails_in_the_engine_is_everybodys_failure(lasting):
    ledger = lasting.open()
    outcomes = []

    driver = ledger.store._driver

    class FailingDriver:
        def execute(self, statement, *values):
            if statement == "COMMIT":
                message = "a secret of the engine"
                raise ledger.store._driver_errors(message)
            return driver.execute(statement, *values)

        def close(self):
            driver.close()

    ledger.store._driver = FailingDriver()

    def work(name):
        try:
            outcomes.append(ledger.charge(**request(name)))
        except ht.HoldtrueError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {type(outcome) for outcome in outcomes} <= {ht.ReleaseError, ht.RefusedError}
    assert any(isinstance(outcome, ht.ReleaseError) for outcome in outcomes)
    assert not any("secret" in str(outcome) for outcome in outcomes)
    assert verify(lasting.where).entries == 0


def test_p6_a_full_disk_stops_the_answers_and_loses_nothing(quick):
    """The kernel refuses to let the file grow, at each of many sizes; what was answered before is all there."""
    path = quick / "people.ledger"
    open_ledger(path, kind="gdp", cap=10**15, fingerprint=rows).close()

    def fill():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        ledger = open_ledger(path)
        start, answered = ledger.head[0], 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 16384,) * 2)
        try:
            for step in range(1000):
                name = f"{os.getpid()} {step}"
                ledger.respond(ledger.charge(**request(name)).number, "x" * 100)
                answered += 1
        except ht.HoldtrueError as error:
            after = "answers"
            try:
                ledger.charge(**request("after"))
            except ht.RefusedError:
                after = "refuses"
            message = f"{type(error).__name__} {after} {start} {answered}"
            raise SystemExit(message) from None

    for _ in range(5):
        words = in_child(fill, rights=True).split()[1:]
        assert words[0] in {"ReleaseError", "RefusedError"}
        assert words[1] == "refuses"
        report = verify(path)
        assert report.entries >= int(words[2]) + 2 * int(words[3])
        assert int(words[3]) > 0
    with open_ledger(path) as ledger:
        assert ledger.charge(**request("room again")).fresh

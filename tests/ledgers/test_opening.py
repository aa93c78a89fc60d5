"""Creating, reopening and everything that can be wrong with the place."""

import contextlib
import dataclasses
import os
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest
import sqlalchemy as sa

import holdtrue as ht
from holdtrue.ledgers import open_ledger, read_terms, verify
from holdtrue.ledgers.entries import COLUMNS, Terms
from holdtrue.ledgers.migrations import HEAD, VERSIONS, read_scripts
from holdtrue.ledgers.sql_store import find_statement
from holdtrue.ledgers.sqlite import may_use_wal
from ledgers.places import connect, other_rows, request, rows
from ledgers.tables import ENTRIES, METADATA, TERMS


def test_reopening_gives_back_what_was_stored(lasting):
    with lasting.open(kind="zcdp", cap=5000, plan='{"rows":7}', card='{"age":"int"}', iid=False) as ledger:
        terms, receipt = ledger.terms, ledger.charge(**request("a")).receipt
    with lasting.reopen(fingerprint=rows) as ledger:
        assert ledger.terms == terms
        assert (terms.kind, terms.cap, terms.plan, terms.card, terms.iid) == (
            "zcdp",
            5000,
            '{"rows":7}',
            '{"age":"int"}',
            False,
        )
        assert ledger.head == receipt
    assert len(terms.ledger_id) == 32
    assert len(bytes.fromhex(terms.key)) == 40


def test_terms_are_read_where_there_is_a_ledger_and_are_none_elsewhere(tmp_path):
    where = tmp_path / "rows.ledger"
    assert read_terms(where) is read_terms(None) is None
    assert not where.exists()
    with open_ledger(where, kind="gdp", cap=1, fingerprint=rows) as ledger:
        terms = ledger.terms
    assert read_terms(where) == terms


def test_other_data_are_refused(lasting):
    lasting.open().close()
    with pytest.raises(ht.FingerprintMismatch):
        lasting.reopen(fingerprint=other_rows)
    with pytest.raises(ht.FingerprintMismatch):
        lasting.open(fingerprint=other_rows)


@pytest.mark.parametrize(
    "other", [{"iid": False}, {"plan": '{"rows":11}'}, {"cap": 10**14}, {"kind": "pure"}, {"card": "{1}"}]
)
def test_other_terms_are_refused(lasting, other):
    lasting.open().close()
    with pytest.raises(ht.RefusedError, match=f"another {next(iter(other))}"):
        lasting.reopen(fingerprint=rows, **other)


def test_no_two_ledgers_share_a_number_or_a_key(place):
    one, two = place.open().terms, open_ledger(None, kind="gdp", cap=1, fingerprint=rows).terms
    assert one.ledger_id != two.ledger_id
    assert one.key != two.key


def test_secrets_are_in_no_repr_and_no_entry(place):
    ledger = place.open()
    ledger.respond(ledger.charge(**request("a")).number, "answer")
    shown = repr(ledger) + repr(ledger.terms) + repr(ledger.entries()) + repr(verify(ledger))
    assert ledger.terms.key not in shown
    assert ledger.terms.fingerprint not in shown
    assert ("not durable" in repr(ledger)) == (place.kind == "memory") != ledger.durable


@pytest.mark.parametrize("wrong", [{"cap": 0}, {"cap": 2**63}, {"cap": 0.5}, {"kind": "rdp"}, {"plan": 7}, {"iid": 1}])
def test_wrong_terms_create_nothing(place, wrong):
    with pytest.raises(ht.InvalidParameter):
        place.open(**wrong)
    if place.kind != "memory":
        with pytest.raises(ht.UnknownName):
            place.reopen()
        place.open()


def test_creation_needs_a_filter_and_a_fingerprint(place):
    with pytest.raises(ht.InvalidParameter, match="kind, cap and fingerprint"):
        place.reopen(kind="gdp", cap=1000)


def test_many_may_create_one_ledger_at_once(lasting):
    start, found = threading.Barrier(8), []

    def create():
        start.wait()
        found.append(lasting.open().terms)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_closed_ledger_refuses(place):
    ledger = place.open()
    ledger.close()
    ledger.close()
    with pytest.raises(ht.RefusedError, match="closed"):
        ledger.charge(**request("a"))
    with pytest.raises(ht.RefusedError, match="closed"):
        ledger.entries()


def test_a_forked_child_must_open_its_own(place):
    ledger = place.open()
    ledger.charge(**request("a"))
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(**request("b"))
        except ht.RefusedError as error:
            os._exit(0 if "another process" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ledger.charge(**request("b")).number == 2


def test_a_newer_schema_is_refused(lasting):
    lasting.open().close()
    with connect(lasting) as connection:
        connection.execute(sa.text("UPDATE holdtrue_version SET version_num = '9999'"))
        connection.commit()
    for action in (lasting.reopen, lasting.open, lambda: verify(lasting.where)):
        with pytest.raises(ht.RefusedError, match="newer Holdtrue"):
            action()


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_a_ledger_whose_digests_have_another_form_is_refused_and_left_alone(lasting, revision):
    lasting.open().close()
    with connect(lasting) as connection:
        connection.execute(sa.text(f"UPDATE holdtrue_version SET version_num = '{revision}'"))  # noqa: S608
        connection.commit()
    for action in (lasting.reopen, lasting.open, lambda: verify(lasting.where)):
        with pytest.raises(ht.RefusedError, match="earlier Holdtrue"):
            action()


def test_a_ledger_with_the_indexes_of_before_is_verified_as_it_is_and_goes_on(lasting):
    with lasting.open() as ledger:
        first = ledger.respond(ledger.charge(**request("a")).number, "told").receipt
    with connect(lasting) as connection:
        for name, unique, columns in (
            ("request", "UNIQUE ", "request_id"),
            ("response", "UNIQUE ", "answers"),
            ("question", "", "request_digest, kind, number"),
            ("analyst", "", "analyst, number"),
        ):
            connection.execute(sa.text(f"DROP INDEX holdtrue_{name}"))
            connection.execute(sa.text(f"CREATE {unique}INDEX holdtrue_{name} ON holdtrue_entries ({columns})"))
        connection.execute(sa.text("UPDATE holdtrue_version SET version_num = '0003'"))
        connection.commit()
    assert verify(lasting.where).charges == 1
    assert _revision(lasting) == "0003"
    with lasting.reopen() as ledger:
        assert ledger.charge(**request("a")).response == "told"
        assert ledger.charge(**request("b")).previous == first[1]
    assert _revision(lasting) == HEAD
    assert verify(lasting.where).charges == 2


def _revision(place):
    with connect(place) as connection:
        return connection.execute(sa.text("SELECT version_num FROM holdtrue_version")).scalar_one()


def test_the_migrations_make_the_tables_that_the_code_reads(lasting):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    lasting.open().close()
    with connect(lasting) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSIONS})
        assert compare_metadata(context, METADATA) == []
    assert tuple(ENTRIES.c.keys()) == COLUMNS
    assert set(TERMS.c.keys()) == {"number", "digest", *(item.name for item in dataclasses.fields(Terms))}
    assert read_scripts().get_current_head() == HEAD


@pytest.mark.parametrize("few", [1, 2])
def test_a_charge_finds_its_rows_by_indexes_alone(quick, few):
    path = quick / "people.ledger"
    open_ledger(path, kind="gdp", cap=10, fingerprint=rows).close()
    statement = find_statement(ids=few, digests=few, numbers=few, responses=few, analysts=2, mark="?")
    keys = ["a"] * few + ["b"] * few + [1] * 3 * few + ["c"] * 2
    with contextlib.closing(sqlite3.connect(path)) as connection:
        plan = [line[3] for line in connection.execute(f"EXPLAIN QUERY PLAN {statement}", keys)]
    assert any("USING" in line for line in plan)
    assert not [line for line in plan if line.startswith("SCAN")]


def test_sqlite_makes_commits_durable(quick):
    ledger = open_ledger(quick / "people.ledger", kind="gdp", cap=10, fingerprint=rows)
    pragma = ledger.store._driver.execute
    assert pragma("PRAGMA synchronous").fetchone() == (3,)
    assert pragma("PRAGMA journal_mode").fetchone() == ("persist",)
    assert stat.S_IMODE((quick / "people.ledger").stat().st_mode) == 0o600
    ledger.close()


def test_wal_is_for_versions_that_keep_it_whole(quick, monkeypatch):
    assert not may_use_wal((3, 40, 1))
    assert not may_use_wal((3, 51, 2))
    assert may_use_wal((3, 51, 3))
    path = quick / "people.ledger"
    open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows).close()
    for version, mode in (((3, 51, 3), "wal"), ((3, 51, 2), "persist")):
        monkeypatch.setattr("holdtrue.ledgers.sqlite.may_use_wal", lambda _, version=version: may_use_wal(version))
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        with open_ledger(path) as ledger:
            assert ledger.store._driver.execute("PRAGMA journal_mode").fetchone() == (mode,)
            ledger.charge(**request(mode))
    assert verify(path).charges == 2


def test_postgres_makes_commits_durable_and_refuses_a_server_that_does_not(server):
    url = server.schema() + "%20-csynchronous_commit%3Doff"
    with open_ledger(url, kind="gdp", cap=10, fingerprint=rows) as ledger:
        assert ledger.store._driver.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_places_that_cannot_be(tmp_path):
    new = {"kind": "gdp", "cap": 10, "fingerprint": rows}
    with pytest.raises(ht.UnknownName, match="no ledger"):
        open_ledger(tmp_path / "missing.ledger")
    with pytest.raises(ht.UnknownName, match="no ledger"):
        verify(tmp_path / "missing.ledger")
    assert not (tmp_path / "missing.ledger").exists()
    with pytest.raises(ht.InvalidParameter, match="directory that exists"):
        open_ledger(tmp_path / "nowhere" / "people.ledger", **new)
    with pytest.raises(ht.InvalidParameter, match="not of a directory"):
        open_ledger(tmp_path, **new)
    with pytest.raises(ht.InvalidParameter):
        open_ledger("", **new)
    with pytest.raises(ht.InvalidParameter):
        open_ledger("mysql://host/people", **new)
    (tmp_path / "text").write_text("age,smoker\n65,yes\n" * 100)
    for action in (open_ledger, verify):
        with pytest.raises(ht.IntegrityError, match="not a ledger"):
            action(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE people (age INTEGER)")
    connection.close()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(ht.InvalidParameter, match="a ledger, or a place where there is nothing"):
        open_ledger(tmp_path / "other.db", **new)
    assert (tmp_path / "other.db").read_bytes() == before


def test_postgres_places_that_cannot_be(server, monkeypatch):
    with pytest.raises(ht.RefusedError, match="cannot connect to the PostgreSQL database") as refused:
        open_ledger("postgresql://somebody:hunter2@/nothing?host=/nowhere")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ht.InvalidParameter):
        open_ledger("postgresql://host:port/people")
    with pytest.raises(ht.UnknownName):
        open_ledger(server.schema())
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ht.MissingExtra, match=r"holdtrue\[postgres\]"):
        open_ledger(server.schema())


@pytest.mark.parametrize("module", ["holdtrue", "holdtrue.ledgers"])
def test_import_brings_no_database(module):
    code = f"import sys, {module}; sys.exit(bool({{'sqlalchemy', 'alembic', 'psycopg'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0  # noqa: S603


def test_an_empty_file_is_damage_and_not_a_place_for_a_new_ledger(quick):
    """A ledger that was lost to 0 bytes must not come back with its whole budget (P4, P6)."""
    path = quick / "people.ledger"
    with open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows) as ledger:
        ledger.charge(**request("a"))
    path.write_bytes(b"")
    for terms in ({}, {"kind": "gdp", "cap": 10**6, "fingerprint": rows}):
        with pytest.raises(ht.IntegrityError, match="is empty"):
            open_ledger(path, **terms)
    with pytest.raises(ht.IntegrityError, match="is empty"):
        verify(path)


def test_control_a_ledger_in_an_empty_file_would_have_its_whole_budget_again(quick, monkeypatch):
    path = quick / "people.ledger"
    with open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows) as ledger:
        ledger.charge(**request("a"))
    path.write_bytes(b"")
    monkeypatch.setattr("holdtrue.ledgers.sqlite._check_file", lambda _: None)
    with open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows) as ledger:
        assert ledger.spent == 0


def test_a_ledger_is_in_its_place_whole_or_not_at_all(quick, monkeypatch):
    """Whoever is killed while creating leaves no empty file at the path, and the next one creates the ledger."""
    path = quick / "people.ledger"

    def leave(*_, **__):
        os._exit(9)

    for step in ("_open_connection", "_move_file"):
        child = os.fork()
        if child == 0:
            monkeypatch.setattr(f"holdtrue.ledgers.sqlite.{step}", leave)
            open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert not path.exists()
    with open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows) as ledger:
        assert ledger.charge(**request("a")).fresh
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_ledger_is_created_where_files_have_no_links(quick, monkeypatch):
    def refuse(*_):
        raise OSError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = quick / "people.ledger"
    with open_ledger(path, kind="gdp", cap=10**6, fingerprint=rows) as ledger:
        assert ledger.charge(**request("a")).fresh
    assert sorted(each.name for each in quick.iterdir() if each.name.endswith((".new", ".new-journal"))) == []
    assert verify(path).charges == 1


def test_a_clock_that_makes_no_sense_is_no_error_outside_the_tree(tmp_path, monkeypatch):
    """SQLAlchemy's pool compares clocks, and closes a connection that it takes for an old one."""
    opened = ht.Curator  # imported before, as other libraries cannot be while the clock is wrong
    with monkeypatch.context() as patch:
        patch.setattr("time.time", lambda: -9.2e18)
        with pytest.raises(ht.HoldtrueError):
            opened({"x": [1.0] * 5_000}, ledger=tmp_path / "x.ledger", queries=10, epsilon=1, delta=1e-6)
    ht.Curator({"x": [1.0] * 5_000}, ledger=tmp_path / "x.ledger", queries=10, epsilon=1, delta=1e-6).close()

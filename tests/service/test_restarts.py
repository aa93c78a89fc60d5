"""A ledger that is gone, empty, cut off or another one is noticed at a restart (P4, P5, P6, P12), and can be accepted."""

import logging
import shutil
import threading
from types import SimpleNamespace

import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa

import holdtrue as ht
from holdtrue.curator import Curator
from holdtrue.errors import IntegrityError, RefusedError, UnknownName
from holdtrue.ledgers import open_ledger, verify
from holdtrue.service import create
from holdtrue.service.database import RECEIPTS
from holdtrue.service.datasets import Datasets, _read_given
from holdtrue.service.holdouts import Holdouts
from holdtrue.service.receipts import accept_ledger, read_state
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start
from service.conftest import PEOPLE, closed, made, write_people
from service.living import living

HOLDOUT = {"kind": "holdout", "y_true": [0, 1] * 300, "looks": 20}
ASKS = 5


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request):
    """Return the settings of a service on each store in turn."""
    return {} if request.param == "sqlite" else {"ledger": request.getfixturevalue("postgres").database()}


def asked(found, *, start=0, stop=ASKS):
    """Ask some questions, and score once."""
    curator = found.service.registry.open_dataset("people").curator
    for number in range(start, stop):
        curator.ask(f"age > {number}")
    return curator


def registered(folder, shared):
    found = made(folder, **shared)
    found.service.registry.register_holdout("cases", HOLDOUT)
    found.service.registry.holdouts.find("cases")._kept.score([0, 1] * 300)
    asked(found)
    return found


def place(found, kind):
    """Return where a ledger is: the path, or the schema."""
    name = "people" if kind == "dataset" else "cases"
    return found.service.registry.ledger_url(name, kind=kind)


def schema(kind):
    return "ht_people" if kind == "dataset" else "hh_cases"


def lose(found, kind, *, how, before):
    """Do to a ledger what a disk, a restore or a hand may do; ``before`` is a copy from before the last entries."""
    where = place(found, kind)
    if found.service.settings.ledger is None:
        match how:
            case "missing":
                where.unlink()
            case "empty":
                where.write_bytes(b"")
            case "cut off":
                where.write_bytes(where.read_bytes()[: where.stat().st_size // 2])
            case "set back":
                shutil.copy(before, where)
        return
    with psycopg.connect(found.service.settings.ledger, autocommit=True) as connection:
        if how == "missing":
            connection.execute(f"DROP SCHEMA {schema(kind)} CASCADE")
        elif how == "empty":
            connection.execute(f"TRUNCATE {schema(kind)}.holdtrue_entries, {schema(kind)}.holdtrue_ledger")
        else:
            entries = f"{schema(kind)}.holdtrue_entries"
            connection.execute(f"DELETE FROM {entries} WHERE number >= (SELECT max(number) - 1 FROM {entries})")  # noqa: S608


def lost(folder, shared, kind, how):
    """Return a service whose ledger was lost after it was stopped."""
    found = registered(folder, shared)
    copy = folder / "copy.ledger"
    if not shared:
        shutil.copy(place(found, kind), copy)
    asked(found, start=ASKS, stop=2 * ASKS)
    found.service.registry.holdouts.find("cases")._kept.score([1, 0] * 300)
    closed(found)
    lose(found, kind, how=how, before=copy)
    return found


HOWS = ["missing", "empty", "cut off", "set back"]


@pytest.mark.parametrize("kind", ["dataset", "holdout"])
@pytest.mark.parametrize("how", HOWS)
def test_p6_a_registered_ledger_that_is_lost_never_comes_back_with_its_budget(tmp_path, shared, kind, how, caplog):
    found = lost(tmp_path, shared, kind, how)
    app = create(found.service.settings)
    registry = app.state.service.registry
    path = "/v1/datasets/people/budget" if kind == "dataset" else "/v1/holdouts/cases"
    with caplog.at_level(logging.ERROR, logger="holdtrue.service"), living(app) as client:
        registry._threads[0].join()
        ready = client.get("/readyz")
        told = [client.get(path, headers={"Authorization": f"Bearer {found.keys['owner']}"}) for _ in range(3)]
    assert ready.status_code == 503
    assert {each.status_code for each in told} == {500}
    assert told[0].json()["type"] == "urn:holdtrue:integrity-error"
    assert str(tmp_path) not in told[0].text
    assert "ht_" not in told[0].text
    lines = [record for record in caplog.records if record.getMessage() == f"{kind} not opened"]
    assert [(line.kind, line.dataset) for line in lines] == [("IntegrityError", "people" if kind == "dataset" else "cases")]
    if how == "missing":
        with pytest.raises(UnknownName):
            open_ledger(place(found, kind))


def open_as_before(datasets, name, document, where):
    """The old way: whatever is at the place is opened, and created where there is nothing."""
    place = datasets._find_place(document["path"])
    return datasets._make_dataset(name, document, Curator(place, ledger=where, second_budget=True, **_read_given(document)))


def check_as_before(kind_of_ledgers, name):
    document, where = kind_of_ledgers.read_document(name), kind_of_ledgers.ledger_url(name, create=True)
    opened = kind_of_ledgers.open_under(name, document, where)
    return opened, read_state(opened.ledger)


@pytest.mark.parametrize("how", ["missing", "set back"])
def test_control_a_service_that_opens_whatever_it_finds_gives_the_budget_again(tmp_path, shared, how, monkeypatch):
    found = lost(tmp_path, shared, "dataset", how)
    monkeypatch.setattr(Datasets, "open_under", open_as_before)
    for kind in (Datasets, Holdouts):
        monkeypatch.setattr(kind, "_open_one", check_as_before)
    app = create(found.service.settings)
    with living(app) as client:
        app.state.service.registry._threads[0].join()
        assert client.get("/readyz").status_code == 200
        curator = app.state.service.registry.open_dataset("people").curator
        assert len(curator.history) < 2 * ASKS


def test_another_ledger_over_the_same_rows_is_not_the_one_that_was_registered(tmp_path):
    found = registered(tmp_path, {})
    closed(found)
    where = place(found, "dataset")
    where.unlink()
    Curator(str(tmp_path / "people.parquet"), ledger=where, **_read_given(PEOPLE)).close()
    registry = create(found.service.settings).state.service.registry
    with pytest.raises(IntegrityError):
        registry.open_dataset("people")
    registry.close()


def test_a_service_that_was_killed_opens_what_it_finds_if_it_is_newer_than_the_receipt(tmp_path, shared):
    found = registered(tmp_path, shared)
    kept = found.service.registry.receipts.find("dataset", "people")
    assert kept.number == 0  # nothing was stored since registering: the service is not served, so nothing watches it
    again = create(found.service.settings).state.service
    assert len(again.registry.open_dataset("people").curator.history) == ASKS
    closed(SimpleNamespace(service=again))
    closed(found)


def test_a_ledger_from_before_receipts_is_entered_when_it_is_first_opened(tmp_path, shared):
    found = registered(tmp_path, shared)
    closed(found)
    again = create(found.service.settings).state.service
    with again.database.begin() as connection:
        connection.execute(sa.delete(RECEIPTS))
    assert again.registry.open_dataset("people").curator.budget.spent > 0
    assert again.registry.receipts.find("dataset", "people").number == 2 * ASKS
    closed(SimpleNamespace(service=again))
    if not shared:
        lose(found, "dataset", how="missing", before=None)
        with pytest.raises(IntegrityError):
            create(found.service.settings).state.service.registry.open_dataset("people")


def test_receipts_are_stored_after_so_many_entries_and_after_a_minute(tmp_path, monkeypatch):
    found = made(tmp_path, receipt_entries=6)
    registry = found.service.registry
    curator = asked(found, stop=2)
    registry.datasets.store_receipts()
    assert registry.receipts.find("dataset", "people").number == 0
    asked(found, start=2, stop=3)
    registry.datasets.store_receipts()
    kept = registry.receipts.find("dataset", "people")
    assert (kept.number, kept.digest) == curator.ledger.head
    assert (kept.spent, kept.draws, kept.other_spent) == (curator.ledger.spent, 3, 0)
    curator.select({"young": "age < 50", "old": "age > 50"})
    monkeypatch.setattr("holdtrue.service.open_ledgers._MINUTE", 0.0)
    registry.datasets.store_receipts()
    kept = registry.receipts.find("dataset", "people")
    assert kept.number == curator.ledger.head[0] == 8
    assert kept.other_spent == curator.ledger.spent - 3 * curator.plan.cost
    closed(found)


def test_an_older_receipt_never_replaces_a_newer_one(tmp_path):
    found = made(tmp_path)
    receipts = found.service.registry.receipts
    curator = asked(found, stop=1)
    older = read_state(curator.ledger)
    asked(found, start=1, stop=3)
    newer = read_state(curator.ledger)
    receipts.store("dataset", "people", newer)
    receipts.store("dataset", "people", older)
    assert receipts.find("dataset", "people") == newer
    closed(found)


@pytest.mark.parametrize("kind", ["dataset", "holdout"])
def test_what_a_restored_ledger_has_forgotten_is_entered_as_spent(tmp_path, shared, kind):
    found = lost(tmp_path, shared, kind, "set back")
    service = create(found.service.settings).state.service
    registry, name = service.registry, "people" if kind == "dataset" else "cases"
    kept = registry.receipts.find(kind, name)
    restored = verify(place(found, kind))
    assert restored.spent < kept.spent or kind == "holdout"
    with pytest.raises(RefusedError, match="ends with"):
        accept_ledger(registry.of_kind(kind), name, receipt=(kept.number, kept.digest))
    accepted = accept_ledger(registry.of_kind(kind), name, receipt=restored.receipt)
    assert (accepted.state.spent, accepted.state.draws, accepted.state.other_spent) == (
        kept.spent,
        kept.draws,
        kept.other_spent,
    )
    assert accepted.spent == kept.spent - restored.spent
    found_again = verify(place(found, kind))
    assert found_again.spent == kept.spent
    # Accepting once more charges nothing more.
    assert accept_ledger(registry.of_kind(kind), name, receipt=found_again.receipt).spent == 0
    if kind == "dataset":
        curator = registry.open_dataset("people").curator
        assert curator.budget.asks == 1000 - 2 * ASKS
        assert curator.ask("age > 77").value > 0
        assert curator.history[-2].verb == "restore"
    else:
        assert registry.holdouts.find("cases")._kept.looks_left == 18
    closed(SimpleNamespace(service=service))


def test_a_ledger_that_is_another_one_is_charged_all_that_was_spent(tmp_path):
    found = registered(tmp_path, {})
    curator = asked(found)
    curator.select({"young": "age < 50", "old": "age > 50"})
    closed(found)
    where = place(found, "dataset")
    where.unlink()
    Curator(str(tmp_path / "people.parquet"), ledger=where, **_read_given(PEOPLE)).close()
    service = create(found.service.settings).state.service
    kept = service.registry.receipts.find("dataset", "people")
    accepted = accept_ledger(service.registry.datasets, "people", receipt=verify(where).receipt)
    assert (accepted.spent, accepted.draws, accepted.state.other_spent) == (kept.spent, kept.draws, kept.other_spent)
    assert kept.other_spent > 0
    # Killed between the charge and the receipt: the same ledger is accepted again, and charged nothing more.
    service.registry.receipts.replace("dataset", "people", kept)
    assert accept_ledger(service.registry.datasets, "people", receipt=verify(where).receipt).spent == 0
    assert verify(where).spent == kept.spent
    with pytest.raises(UnknownName):
        accept_ledger(service.registry.datasets, "nobody", receipt=(1, "0" * 64))
    where.unlink()
    with pytest.raises(UnknownName):
        accept_ledger(service.registry.datasets, "people", receipt=(1, "0" * 64))
    closed(SimpleNamespace(service=service))


def test_a_ledger_whose_file_is_taken_away_while_it_is_open_stops_and_is_not_ready(tmp_path):
    found = made(tmp_path)
    with living(found.app) as client:
        while client.get("/readyz").status_code == 503:
            pass
        place(found, "dataset").rename(tmp_path / "elsewhere.ledger")
        assert client.get("/readyz").status_code == 503
        (tmp_path / "elsewhere.ledger").rename(place(found, "dataset"))
        while client.get("/readyz").status_code == 503:
            pass
        assert found.service.registry.open_dataset("people").curator.ask("age > 3").value > 0


def test_p12_rows_that_have_a_budget_are_registered_again_only_if_told(tmp_path):
    found = made(tmp_path)
    registry, document = found.service.registry, {**PEOPLE, "second_budget": False}
    with pytest.raises(RefusedError, match="as the dataset people; use it, or give second_budget"):
        registry.register("again", document)
    assert not found.service.registry.ledger_url("again").exists()
    # The same rows in another order and in another format are the same rows.
    pd.read_parquet(tmp_path / "people.parquet").sort_values("income").to_csv(tmp_path / "copied.csv", index=False)
    with pytest.raises(RefusedError, match="as the dataset people"):
        registry.register("again", document | {"path": "copied.csv"})
    # Other rows, even as many, are not.
    write_people(tmp_path / "other", canary=False)
    assert registry.register("other", document | {"path": "other/people.parquet"}).name == "other"
    assert registry.register("again", PEOPLE).name == "again"
    closed(found)


def test_rows_under_a_ledger_beside_their_file_are_registered_only_if_told(tmp_path):
    found = made(tmp_path)
    registry, document = found.service.registry, {**PEOPLE, "second_budget": False, "path": "mine/people.parquet"}
    write_people(tmp_path / "mine", canary=False)
    ht.Curator(
        str(tmp_path / "mine" / "people.parquet"), ledger=tmp_path / "mine" / "people.ledger", queries=10, iid=True
    ).close()
    with pytest.raises(RefusedError, match="in a ledger near the file"):
        registry.register("mine", document)
    assert registry.register("mine", document | {"second_budget": True}).name == "mine"
    closed(found)


def test_control_without_the_look_the_same_rows_have_two_budgets(tmp_path, monkeypatch):
    found = made(tmp_path)
    monkeypatch.setattr("holdtrue.service.datasets.refuse_second_budget", lambda *_, **__: None)
    again = found.service.registry.register("again", {**PEOPLE, "second_budget": False})
    assert again.curator.budget.left == found.service.registry.open_dataset("people").curator.budget.left
    closed(found)


def test_a_dataset_that_is_slow_to_open_keeps_no_other_waiting(tmp_path, monkeypatch):
    found = made(tmp_path)
    found.service.registry.register("second", PEOPLE)
    closed(found)
    registry = create(found.service.settings).state.service.registry
    open_one, release, begun = registry.datasets._open_one, threading.Event(), threading.Event()

    def slow(name):
        if name == "people":
            begun.set()
            release.wait()
        return open_one(name)

    monkeypatch.setattr(registry.datasets, "_open_one", slow)
    thread = threading.Thread(target=registry.open_dataset, args=("people",))
    thread.start()
    begun.wait()
    assert registry.open_dataset("second").name == "second"
    assert registry.datasets.get("people") is None
    release.set()
    thread.join()
    assert registry.open_dataset("people").name == "people"
    registry.close()

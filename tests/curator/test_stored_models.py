"""Models that every worker and every restart finds, and that nobody but the curator wrote."""

import json
import multiprocessing
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from holdtrue.curator import Curator, models
from holdtrue.errors import IntegrityError, RefusedError, UnknownName
from holdtrue.ledgers import Busy
from holdtrue.ledgers.sealed_store import SealedDocument, TableStore, seal_document, store_beside
from ledgers.conftest import server  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start

ROWS = 8000
POINT = {"x": 0.9}


def _rows():
    x = np.random.default_rng(0).random(ROWS)
    return {"x": x, "v": x, "y": x > 0.5}


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(request, tmp_path):
    """A place for a ledger that lasts."""
    if request.param == "sqlite":
        return str(tmp_path / "people.ledger")
    return request.getfixturevalue("server").schema()


def _opened(ledger, **terms):
    given = {"epsilon": 8.0, "delta": 1e-6, "bounds": {"v": (0, 1)}} if terms.pop("new", False) else {}
    return Curator(_rows(), ledger=ledger, **given)


def _train(curator, name="m", estimator=None, **facts):
    # So many that a label is wrong once in 10^10: a row moves two votes here, and epsilon is shared between them.
    facts = {"target": "y", "features": ["x"], "parts": 200} | facts
    return curator.train(name, estimator or LogisticRegression(), **facts)


def _in_another_process(work, *given):
    """Return what a function returns in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, given)


def _predict_there(ledger, points):
    with Curator(_rows(), ledger=ledger) as curator:
        found = [curator.predict("m", point, epsilon=0.5) for point in points]
        return [(said.label, said.repeated, said.certificate.entry) for said in found]


def _train_elsewhere(ledger, target):
    """Train as another worker does, which shares nothing but the ledger."""
    with Curator(_rows(), ledger=ledger) as curator:
        return _train(curator, target=target, replace=True).asked.digest


def test_a_model_trained_in_one_process_predicts_in_another(ledger):
    with _opened(ledger, new=True) as curator:
        _train(curator)
        here = curator.predict("m", POINT, epsilon=0.5)
        known, fresh = _in_another_process(_predict_there, ledger, [POINT, {"x": 0.05}])
        assert known == (True, True, here.certificate.entry)
        assert fresh[:2] == (False, False)


def test_a_model_trained_again_elsewhere_is_noticed(ledger):
    with _opened(ledger, new=True) as curator:
        first = _train(curator)
        assert curator.predict("m", POINT, epsilon=0.5).label is True
        digest = _train_elsewhere(ledger, "x < 0.5")
        assert digest != first.asked.digest
        assert curator.model("m").asked.digest == digest
        assert curator.predict("m", POINT, epsilon=0.5).label is False


def test_a_model_held_without_a_look_at_the_store_is_caught(ledger, monkeypatch):
    """The control: a worker that trusts its memory answers by a model that is no more."""
    with _opened(ledger, new=True) as curator:
        _train(curator)
        curator.predict("m", POINT, epsilon=0.5)
        _train_elsewhere(ledger, "x < 0.5")
        with monkeypatch.context() as patch:
            patch.setattr(curator._models, "_store", None)
            assert curator.predict("m", {"x": 0.91}, epsilon=0.5).label is True


@pytest.mark.parametrize(
    ("estimator", "facts"),
    [
        (LogisticRegression(), {}),
        (DecisionTreeClassifier(max_depth=2), {"order": "fixed"}),
        (Ridge(), {"target": "v"}),
    ],
    ids=["labels", "trees", "numbers"],
)
def test_a_model_reads_back_as_it_was_kept(ledger, estimator, facts):
    with _opened(ledger, new=True) as curator:
        first = _train(curator, estimator=estimator, **facts)
        points = [{"x": value} for value in np.linspace(0, 1, 21).tolist()]
        seen = first.measure(first.read(points))
    with _opened(ledger) as curator:
        again = curator.model("m")
        assert again.asked == first.asked
        assert np.array_equal(again.measure(again.read(points)), seen)
        assert repr(again) == repr(first)


def test_members_that_cannot_be_written_take_the_place_of_those_that_were(ledger):
    with _opened(ledger, new=True) as curator:
        _train(curator)
        kept = _train(curator, estimator=KNeighborsClassifier(), replace=True)
        assert "in memory only" in repr(kept)
        assert curator.predict("m", POINT, epsilon=0.5).label is True
        with _opened(ledger) as other, pytest.raises(UnknownName, match="only in memory"):
            other.predict("m", POINT, epsilon=0.5)


def _store(ledger):
    return store_beside(ledger, "models")


def _changed(stored):
    """Yield what a hand that does not have the ledger's key could put there."""
    kept = json.loads(stored.facts)
    labels = kept["made"] | {"labels": [True, False]}
    yield "labels", SealedDocument(json.dumps(kept | {"made": labels}), stored.content, stored.seal)
    priced = kept["made"] | {"rows": {"by": "position", "key": None}}
    yield "votes", SealedDocument(json.dumps(kept | {"made": priced}), stored.content, stored.seal)
    yield "digest", SealedDocument(json.dumps(kept | {"digest": "0" * 64}), stored.content, stored.seal)
    flipped = bytearray(stored.content)
    flipped[len(flipped) // 2] ^= 1
    yield "members", SealedDocument(stored.facts, bytes(flipped), stored.seal)
    yield "shorter", SealedDocument(stored.facts, stored.content[:-10], stored.seal)
    yield "seal", SealedDocument(stored.facts, stored.content, "0" * 64)
    yield "another key", seal_document("00" * 32, "m", facts=stored.facts, content=stored.content)
    yield "another name", SealedDocument(stored.facts, stored.content, stored.seal)


def test_what_this_ledgers_curator_did_not_write_is_refused(ledger):
    with _opened(ledger, new=True) as curator:
        _train(curator)
    store = _store(ledger)
    stored = store.read("m")
    for way, changed in _changed(stored):
        name = "n" if way == "another name" else "m"
        store.write(name, changed)
        with _opened(ledger) as curator:
            with pytest.raises(IntegrityError, match=r"(make|train) it again"):
                curator.predict(name, POINT, epsilon=0.5)
            assert curator.history == []
    store.write("m", stored)
    with _opened(ledger) as curator:
        assert curator.predict("m", POINT, epsilon=0.5).label is True
    store.close()


def test_without_a_seal_a_changed_model_answers(ledger, monkeypatch):
    """The control: with no look at the seal and at the digest, as it was, labels are exchanged and nobody notices."""
    with _opened(ledger, new=True) as curator:
        _train(curator)
    store = _store(ledger)
    (_, changed), *_ = _changed(store.read("m"))
    store.write("m", changed)
    store.close()
    monkeypatch.setattr(models, "check_seal", lambda *_: None)
    with _opened(ledger) as curator, pytest.raises(IntegrityError, match="inconsistent"):
        curator.predict("m", POINT, epsilon=0.5)
    monkeypatch.setattr(models, "digest_of", lambda _: json.loads(changed.facts)["digest"])
    with _opened(ledger) as curator:
        assert curator.predict("m", POINT, epsilon=0.5).label is False


def test_models_beside_a_ledger_are_their_owners_alone(tmp_path):
    with _opened(tmp_path / "x.ledger", new=True) as curator:
        _train(curator)
        folder = tmp_path / "x.ledger.models"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
        assert [file.name for file in folder.iterdir()] == ["m.sealed"]


def test_a_folder_that_cannot_be_written_keeps_nothing_and_says_so(tmp_path):
    with _opened(tmp_path / "x.ledger", new=True) as curator:
        (tmp_path / "x.ledger.models").write_text("in the way")
        with pytest.raises(RefusedError, match="write beside"):
            _train(curator)


def test_a_server_that_was_started_again_has_its_models(server):  # noqa: F811 - the fixture
    where = server.schema()
    with _opened(where, new=True) as curator:
        _train(curator)
        store = curator._models._store
        assert store.read_seal("m") is not None
        server.stop()
        with pytest.raises(RefusedError, match="try again"):
            store.read_seal("m")
        server.start()
        assert store.read_seal("m") is not None


def test_names_are_data_in_postgresql(server):  # noqa: F811 - the fixture
    store = TableStore(server.schema(), "models")
    assert store.read_seal("m") is None
    store.remove("m")
    store.write("m' OR 'a' = 'a", SealedDocument("{}", b"", "s"))
    assert store.read_seal("m") is None
    assert store.read_seal("m' OR 'a' = 'a") == "s"
    store.close()
    with pytest.raises(Busy):
        TableStore("postgresql://nobody@/nowhere?host=/nowhere", "models").read_seal("m")


def test_workers_that_keep_their_first_models_at_once_make_one_table(server):  # noqa: F811 - the fixture
    where = server.schema()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(_write_alone, [(where, f"m{number}") for number in range(8)]))
    store = TableStore(where, "models")
    assert [store.read_seal(f"m{number}") for number in range(8)] == ["s"] * 8
    store.close()


def _write_alone(given):
    where, name = given
    store = TableStore(where, "models")
    store.write(name, SealedDocument("{}", b"members", "s"))
    store.close()

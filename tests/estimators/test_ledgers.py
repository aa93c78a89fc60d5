"""Ledgers of estimators: one form of entry, rows of their own, and nobody else's ledger (w1, w2)."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import holdtrue as ht
from holdtrue.codec import encode
from holdtrue.curator.answer_index import AnswerIndex
from holdtrue.curator.history import history_of
from holdtrue.estimators import (
    Handle,
    PrivateLearner,
    SoftMajorityClassifier,
    StableClassifier,
    StableRegressor,
    ThresholdClassifier,
    handles,
)
from holdtrue.ledgers import Ledger, open_ledger
from holdtrue.ledgers.entries import Charge
from holdtrue.planning.plans import read_plan
from laws import generator

STUMPS = ht.Stumps(bounds=(-10, 10), steps=20)


@pytest.fixture
def rows(request):
    random = generator(request)
    points = random.normal(0, 3, (400, 2))
    return points, (points[:, 0] + random.normal(0, 1, 400) > 0).astype(int)


def every_estimator(ledger):
    """Return all of them, each way of releasing, with what each is charged for: fits, and calls of predict."""
    return [
        (PrivateLearner(STUMPS, epsilon=0.2, ledger=ledger), 1, 0),
        (SoftMajorityClassifier(LogisticRegression(), epsilon=0.1, parts=10, ledger=ledger), 0, 1),
        (ThresholdClassifier(epsilon=0.1, ledger=ledger), 0, 1),
        (StableClassifier(epsilon=0.3, delta=1e-7, ledger=ledger), 1, 0),
        (StableClassifier(epsilon=0.1, release="each", ledger=ledger), 0, 1),
        (StableRegressor(epsilon=0.3, delta=1e-7, ledger=ledger), 1, 0),
        (StableRegressor(epsilon=0.1, release="each", ledger=ledger), 0, 1),
    ]


def test_every_estimators_entries_can_be_read_by_whoever_reads_ledgers(rows, tmp_path):
    path = tmp_path / "fits.ledger"
    handle = Handle(path, epsilon=8, delta=1e-6)
    expected = []
    for estimator, fits, predictions in every_estimator(handle):
        estimator.fit(*rows).predict(rows[0][:3])
        expected += [("fit", estimator)] * fits + [("predict", estimator)] * predictions
    charged = [entry for entry in handle.ledger.entries() if entry.kind == "charge"]
    assert [entry.verb for entry in charged] == [verb for verb, _ in expected]
    for entry, (verb, estimator) in zip(charged, expected, strict=True):
        told = json.loads(entry.body)
        assert (told["draws"], told["parts"]) == (0, [])
        assert told["request"] == {"verb": verb, "estimator": type(estimator).__name__, "epsilon": str(estimator.epsilon)}
    assert [entry.body for entry in handle.ledger.entries() if entry.kind == "response"] == ["[]"] * len(expected)
    assert ht.verify(path).charges == len(expected) == handle.charges
    inspection = ht.audit_ledger(path)
    assert inspection.breaches == ()
    assert (inspection.charges, inspection.responses) == (len(expected), len(expected))
    assert [line.verb for line in history_of(handle.ledger)] == [verb for verb, _ in expected]
    register = AnswerIndex(handle.ledger)
    register.follow()
    assert (register.charges, register.draws) == (len(expected), 0)


@pytest.fixture
def old_form(monkeypatch):
    """Write what was written before: a body without draws and parts, which no curator could read."""
    monkeypatch.setattr(Charge, "write_body", lambda charge, _: encode({"verb": charge.verb}))


@pytest.mark.usefixtures("old_form")
def test_the_form_of_before_is_found(rows):
    """The control of the test above: whoever reads the old body stops there."""
    handle = Handle(epsilon=1)
    PrivateLearner(STUMPS, epsilon=0.2, ledger=handle).fit(*rows)
    for read in (lambda ledger: AnswerIndex(ledger).follow(), history_of, ht.verify):
        with pytest.raises(ht.IntegrityError, match="malformed"):
            read(handle.ledger)


@pytest.fixture(params=["curator", "holdout"])
def foreign(request, rows, tmp_path):
    """Return the path of a ledger that counts what is let out of rows, and what opens it again."""
    path = tmp_path / "other.ledger"
    points, labels = rows
    data = {"age": points[:, 0], "smoker": labels == 1}
    if request.param == "holdout":
        with ht.Holdout(labels, looks=20, ledger=path) as holdout:
            holdout.score(labels)
        return path, lambda: ht.Holdout(labels, ledger=path).score(1 - labels)
    with ht.Curator(data, epsilon=2, delta=1e-6, iid=True, ledger=path) as curator:
        curator.ask("age > 0")

    def go_on():
        with ht.Curator(data, ledger=path) as again:
            again.ask("age > 1")
            again.select(["age > 1", "age > 2"])
            assert again.budget.left > 0
            assert len(again.history) == 3
            again.report(tmp_path / "page.html")

    return path, go_on


def test_w1_the_ledger_of_a_curator_or_a_holdout_is_refused_and_unharmed(rows, foreign):
    """Before rows are read, by every estimator, and by whoever would create a handle over it."""
    path, go_on = foreign
    before = ht.verify(path)
    for ledger in (path, Handle(str(path))):
        for estimator, _, _ in every_estimator(ledger):
            with pytest.raises(ht.FingerprintMismatch, match="Handle with a path of its own"):
                estimator.fit(None, None)
            with pytest.raises(ht.FingerprintMismatch, match=r"Curator\.learn"):
                estimator.fit(*rows)
    for terms in ({"epsilon": 1}, {"epsilon": 2, "delta": 1e-6}):
        with pytest.raises(ht.FingerprintMismatch):
            Handle(path, **terms)
    assert ht.verify(path) == before
    go_on()


def test_w1_without_the_check_the_ledger_is_charged_for_other_rows(rows, foreign, monkeypatch):
    """The control: the old opening compares nothing, and the old form of entry stops the ledger's owner."""
    path, go_on = foreign
    spent = ht.verify(path).spent
    with monkeypatch.context() as planted:
        planted.setattr(Handle, "ledger", property(lambda self: open_ledger(self.path)))
        planted.setattr(handles, "_refuse_foreign", lambda _: None)
        planted.setattr(Charge, "write_body", lambda charge, _: encode({"verb": charge.verb}))
        StableClassifier(epsilon=0.001, delta=1e-9, ledger=path).fit(rows[0][:100], rows[1][:100])
    assert open_ledger(path).spent > spent
    with pytest.raises(ht.IntegrityError, match="malformed"):
        go_on()


@pytest.fixture
def table(rows):
    points, labels = rows
    return {"a": points[:, 0], "b": points[:, 1], "y": labels, "word": np.where(labels, "yes", "no")}


def open_curator(table, path=None, **terms):
    given = {"queries": 5, "epsilon": 6, "delta": 1e-6, "reserve": 0.9, "cap": "privacy", "iid": True} | terms
    return ht.Curator(table, ledger=path, **given)


def test_w1_estimators_share_the_ledger_of_the_curator_of_their_rows(rows, table, tmp_path):
    """Every estimator, copies too: one entry form, the curator's reserve, and an audit that finds nothing."""
    path, points = tmp_path / "rows.ledger", rows[0]
    with open_curator(table, path) as curator:
        expected = []
        for estimator, fits, predictions in every_estimator(curator):
            clone(estimator).fit(*rows).predict(points[:3])
            expected += ["fit"] * fits + ["predict"] * predictions
        assert [line.verb for line in curator.history] == expected
        assert all(line.told.startswith("kept by ") for line in curator.history)
        spent = curator.budget.spent
        assert spent > 0
        StableClassifier(mu=0.1, ledger=curator).fit(points[:, ::-1], table["word"]).predict(points)
        assert curator.budget.spent == pytest.approx(spent + 0.01)
        later = PrivateLearner(STUMPS, epsilon=0.2, ledger=curator).fit(*rows)
        assert later.excess_error_ is None
        curator.ask("a > 0")
        with pytest.raises(ht.BudgetExceeded):
            StableClassifier(mu=50, ledger=curator).fit(*rows)
        with pytest.raises(ht.RefusedError, match="other processes"):
            pickle.dumps(handles.handle_of(curator))
    assert not ht.audit_ledger(path).breaches
    with pytest.raises(ht.CuratorClosed):
        StableClassifier(mu=0.1, ledger=curator).fit(*rows)


def test_w1_a_curators_ledger_pays_for_its_own_rows_only(rows, table):
    points, labels = rows
    other = points.copy()
    other[7, 0] += 1e-9
    with open_curator(table) as curator:
        for x, y in (
            (other, labels),
            (points[::-1], labels),
            (points[:200], labels[:200]),
            (points, 1 - labels),
            (points, np.where(labels, "no", "yes")),
            (np.vstack([points, points]), np.concatenate([labels, labels])),
        ):
            for estimator, _, _ in every_estimator(curator):
                with pytest.raises(ht.FingerprintMismatch, match="all rows in their order"):
                    estimator.fit(x, y)
        assert curator.budget.spent == 0
        assert not curator.history


def test_w1_without_the_comparison_other_rows_are_charged_to_a_curator(rows, table, monkeypatch):
    """The control: the planted handle compares nothing."""
    monkeypatch.setattr(handles._CuratorHandle, "check_rows", lambda *_: None)
    with open_curator(table) as curator:
        StableClassifier(mu=0.1, ledger=curator).fit(rows[0][:100], rows[1][:100])
        assert curator.budget.spent > 0


def test_w1_a_curator_of_groups_or_persons(rows, table):
    with open_curator(table, group=3, iid=None) as curator:
        StableClassifier(mu=0.01, ledger=curator).fit(*rows)
        assert curator.budget.spent == pytest.approx(9e-4)
    table["person"] = np.arange(400) // 2
    with ht.Curator(table, epsilon=1, delta=1e-6, unit="person") as curator, pytest.raises(ht.NotCertified):
        StableClassifier(mu=0.1, ledger=curator).fit(*rows)


def test_w2_nobody_else_opens_the_ledger_of_estimators(rows, tmp_path):
    path = tmp_path / "fits.ledger"
    Handle(path, epsilon=1.0, delta=1e-6)
    data = {"x": rows[0][:, 0]}
    with pytest.raises(ht.FingerprintMismatch, match="counts estimators' fits"):
        ht.Curator(data, ledger=path)
    with pytest.raises(ht.FingerprintMismatch, match="counts estimators' fits"):
        ht.Curator(data, epsilon=1, delta=1e-6, ledger=path)
    with pytest.raises(ht.RefusedError, match="not to a holdout"):
        ht.Holdout(rows[1], looks=20, ledger=path)
    ht.Holdout(rows[1], looks=20, ledger=tmp_path / "looks.ledger").close()
    with pytest.raises(ht.FingerprintMismatch, match="counts a holdout's looks"):
        ht.Curator(data, ledger=tmp_path / "looks.ledger")
    with pytest.raises(ht.RequestError, match="has no plan"):
        read_plan(open_ledger(path).terms.plan)
    assert ht.verify(path).charges == 0


def test_w2_a_curator_that_is_open_goes_on_beside_an_estimator(rows, tmp_path):
    path = tmp_path / "rows.ledger"
    with ht.Curator({"x": rows[0][:, 0], "y": rows[1] == 1}, epsilon=1, delta=1e-6, ledger=path) as curator:
        curator.ask("x > 0.3")
        with pytest.raises(ht.FingerprintMismatch):
            PrivateLearner(STUMPS, epsilon=0.1, ledger=path).fit(*rows)
        curator.ask("x > 0.4")
        assert len(curator.history) == 2


def test_a_copy_of_a_ledger_is_not_charged(rows, tmp_path):
    """An exported copy has no key; before, a handle would have charged it in the place of the ledger."""
    from holdtrue.ledgers.sqlite import export

    handle = Handle(tmp_path / "fits.ledger", epsilon=1)
    PrivateLearner(STUMPS, epsilon=0.2, ledger=handle).fit(*rows)
    export(handle.ledger, tmp_path / "copy.ledger")
    with pytest.raises(ht.RefusedError, match="copy"):
        PrivateLearner(STUMPS, epsilon=0.2, ledger=tmp_path / "copy.ledger").fit(*rows)


def test_a_response_that_cannot_be_stored_keeps_what_was_drawn(rows, monkeypatch):
    """What was drawn leaves only once the ledger has that it did; the charge stays."""
    handle = Handle(epsilon=8, delta=1e-6)

    settle = Ledger.settle

    def fails(self, bodies, charges):
        if bodies:
            message = "the disk is full"
            raise ht.ReleaseError(message)
        return settle(self, bodies, charges)

    monkeypatch.setattr(Ledger, "settle", fails)
    for estimator, fits, _ in every_estimator(handle):
        spent = handle.spent
        if fits:
            with pytest.raises(ht.ReleaseError):
                estimator.fit(*rows)
            assert [name for name in vars(estimator) if name.endswith("_")] == []
        else:
            estimator.fit(*rows)
            with pytest.raises(ht.ReleaseError):
                estimator.predict(rows[0][:3])
            assert estimator.released_ == {}
        assert handle.spent > spent


def test_equal_fits_are_charged_each_however_many_there_were(rows, monkeypatch):
    """A release without parts is charged for what it costs, also where no more free keys are taken."""
    monkeypatch.setattr("holdtrue.curator.answer_index._MOST_FREE_KEYS", 2)
    handle = Handle(epsilon=8, delta=1e-6)
    learner = PrivateLearner(STUMPS, epsilon=0.2, ledger=handle)
    spent = [learner.fit(*rows) and handle.spent for _ in range(6)]
    assert len(set(spent)) == 6
    assert handle.charges == 6
    assert ht.audit_ledger(handle.ledger).breaches == ()


def test_a_release_without_parts_that_is_taken_for_a_known_one_is_caught(rows, monkeypatch):
    """The control: a pipeline that calls known whatever has no parts would let fits out for nothing."""
    monkeypatch.setattr("holdtrue.curator.answer_index._MOST_FREE_KEYS", 0)
    monkeypatch.setattr("holdtrue.curator.pipeline._Item.is_known", property(lambda item: not item.planned.release.parts))
    handle = Handle(epsilon=8, delta=1e-6)
    with pytest.raises(ht.ReleaseError, match="nothing was drawn"):  # since nothing was charged
        PrivateLearner(STUMPS, epsilon=0.2, ledger=handle).fit(*rows)
    assert handle.charges == 0


def test_fits_in_threads_are_charged_each(rows, tmp_path):
    handle = Handle(tmp_path / "fits.ledger", epsilon=8, delta=1e-6)
    learners = [PrivateLearner(STUMPS, epsilon=0.1, ledger=handle) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda learner: learner.fit(*rows), learners))
    assert handle.charges == 8
    assert ht.verify(tmp_path / "fits.ledger").charges == 8
    assert sum(learner.excess_error_ is not None for learner in learners) == 1  # the first charge of all


def test_a_failed_fit_leaves_the_handle_of_use(rows, monkeypatch):
    handle = Handle(epsilon=8, delta=1e-6)

    def fails(*_, **__):
        message = "canary"
        raise SystemExit(message)

    broken = PrivateLearner(STUMPS, epsilon=0.1, ledger=handle)
    with monkeypatch.context() as planted:
        planted.setattr(type(STUMPS), "error_counts", fails)
        with pytest.raises(ht.ReleaseError, match="charge stays") as caught:
            broken.fit(*rows)
    assert (caught.value.entry, handle.charges) == (1, 1)
    assert "canary" not in str(caught.value)
    assert PrivateLearner(STUMPS, epsilon=0.1, ledger=handle).fit(*rows).excess_error_ is None
    assert handle.charges == 2

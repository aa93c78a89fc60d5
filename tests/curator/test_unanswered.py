"""A charge that a crash left unanswered is answered by the same event at no higher cost, and by nothing else."""

import multiprocessing
import os
import signal
from fractions import Fraction

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.curator import pipeline
from holdtrue.curator.pipeline import Job, Pending, may_answer
from holdtrue.events import GaussianNoise, NoCost
from holdtrue.records import Prediction
from holdtrue.verbs import Planned, Release

ROWS = {"a": np.random.default_rng(0).random(20_000) < 0.3}


def opened(path):
    return ht.Curator(ROWS, queries=2, epsilon=1, delta=1e-6, iid=True, ledger=path)


def _die_after_charge(path, query, key):
    curator = opened(path)
    pipeline.Pipeline._measure_and_draw = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    curator.ask(query, key=key)


def kill_after_charge(path, query, key):
    process = multiprocessing.get_context("spawn").Process(target=_die_after_charge, args=(path, query, key))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_the_last_planned_question_is_answered_after_a_crash(tmp_path):
    path = tmp_path / "rows.ledger"
    with opened(path) as curator:
        curator.ask("a", key="k1")
    kill_after_charge(path, "NOT a", "k2")
    with opened(path) as curator:
        assert curator.budget.asks == 0
        answer = curator.ask("NOT a", key="k2")
        assert (answer.certificate.entry, answer.repeated) == (3, False)
        with pytest.raises(ht.BudgetExceeded):
            curator.ask("a AND a OR NOT a", key="k3")
    assert ht.verify(path).charges == 2


def test_a_limit_that_is_looked_at_before_the_charge_loses_the_last_question(tmp_path, monkeypatch):
    # The planted fault: the plan is looked at first, as if a charge that is there already were another one.
    path = tmp_path / "rows.ledger"
    with opened(path) as curator:
        curator.ask("a", key="k1")
    kill_after_charge(path, "NOT a", "k2")
    charge = pipeline.Pipeline._make_charge

    def look_first(self, *given):
        if self.index.draws >= self.plan.queries:
            raise ht.BudgetExceeded(requested=1, left=0, unit="questions")
        return charge(self, *given)

    monkeypatch.setattr(pipeline.Pipeline, "_make_charge", look_first)
    with opened(path) as curator, pytest.raises(ht.BudgetExceeded):
        curator.ask("NOT a", key="k2")


def respond(drawn, certificate, standing):
    del standing
    return [Prediction(str(drawn[0]), certificate) for _ in drawn]


def release_of(event, cost, *, parts=("look",), draws=1):
    return Release("score", {"run": 1}, parts, event, cost, draws, (), lambda sums: [int(sums[0])], respond)


@pytest.fixture
def waiting(tmp_path):
    """Return a curator whose ledger has one unanswered charge of no cost, and the entry."""
    with opened(tmp_path / "rows.ledger") as curator:
        release = release_of(NoCost(), 0)
        planned = Planned(release.parts, release, '{"part":"look"}')
        entry = curator.ledger.settle((), [curator.pipeline._make_charge(Job(None, "key", "ann"), planned)])[1][0]
        yield curator, entry.with_response(None)


def test_only_the_same_event_at_no_higher_cost_answers_a_charge(waiting):
    _, entry = waiting
    assert may_answer(entry, release_of(NoCost(), 0))
    assert not may_answer(entry, release_of(GaussianNoise(Fraction(1, 100)), 10**11))
    assert not may_answer(entry, release_of(NoCost(), 1))
    assert not may_answer(entry, release_of(NoCost(), 0, parts=("another look",)))
    assert not may_answer(entry, release_of(NoCost(), 0, draws=2))
    assert not may_answer(entry.with_response("[]"), release_of(NoCost(), 0))


def test_a_costly_release_never_goes_out_under_a_free_charge(waiting, monkeypatch):
    curator, _ = waiting
    monkeypatch.setattr(curator.ledger, "wait", lambda number: (_ for _ in ()).throw(ht.ReleaseError("late", entry=number)))
    measured = []
    costly = release_of(GaussianNoise(Fraction(1, 100)), 10**11)

    def carry():
        planned = Planned(costly.parts, costly, '{"part":"look"}', lambda: measured.append(1) or [7])
        return curator.pipeline.submit(Job(lambda _: planned, "key", "ann")).exception(60)

    assert isinstance(carry(), Pending)
    assert not measured
    assert curator.budget.spent == 0
    # The planted fault: the same parts were enough, whatever the charge had paid for.
    monkeypatch.setattr(pipeline, "may_answer", lambda entry, _: entry.response is None)
    carry()
    assert measured
    assert curator.budget.spent == 0

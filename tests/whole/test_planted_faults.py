"""The machines find every fault that was there before: each is planted again, and a machine must break."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky, FlakyStrategyDefinition
from hypothesis.stateful import rule, run_state_machine_as_test
from msgspec import structs
from sklearn.dummy import DummyClassifier

import holdtrue as ht
from holdtrue.curator import pipeline
from holdtrue.curator.pipeline import Pipeline
from holdtrue.estimators import handles
from holdtrue.holdouts import depth_gates, gating, mode, sparse, submissions
from holdtrue.holdouts.mode import request_id_of
from holdtrue.ledgers import open_ledger, read_charge
from holdtrue.verbs import predicting
from holdtrue.verbs.asking import QuestionRule
from whole import holdout_machine
from whole.curator_machine import KEY, PARTS, POINTS, WORKER, CuratorMachine

TRIES = 5
SEARCH = settings(
    max_examples=400,  # it ends with the first that breaks; noise decides how soon that is
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
    report_multiple_bugs=False,
)


def breaks(machine):
    """Run a machine until it breaks; what it breaks with."""
    for _ in range(TRIES):
        # Noise makes the second run of a failing example another one, which Hypothesis calls flaky, or inconsistent.
        with pytest.raises((AssertionError, ht.HoldtrueError, Flaky, FlakyStrategyDefinition)) as found:
            run_state_machine_as_test(machine, settings=SEARCH)
        if not isinstance(found.value, FlakyStrategyDefinition):
            break
    return "\n".join(map(str, (found.value, *getattr(found.value, "exceptions", ()))))


def answer_by_parts_alone(entry, release):
    return entry.response is None and read_charge(entry).parts == release.parts


@pytest.mark.parametrize(
    "machine",
    [holdout_machine.PrivateGateMachine, holdout_machine.ThresholdoutMachine, holdout_machine.PrivateLadderMachine],
    ids=lambda machine: machine.__name__,
)
def test_a_free_look_that_is_answered_with_an_unpaid_threshold(machine, monkeypatch):
    monkeypatch.setattr(pipeline, "may_answer", answer_by_parts_alone)
    monkeypatch.setattr(sparse, "request_id_in_run", lambda part, _: request_id_of(part))
    breaks(machine)


def test_private_results_that_are_recognised_by_what_they_hold(monkeypatch):
    given = submissions.given_cases

    def name_by_contents(cases, values, ids=None, **named):
        asked = given(cases, values, ids, **named)
        return replace(asked, content=(bytes(cases.order_by_ids(values, ids)),))

    monkeypatch.setattr("holdtrue.holdouts.holdout.given_cases", name_by_contents)
    breaks(holdout_machine.PrivateResultsMachine)


def test_private_numbers_that_are_recognised_by_what_they_hold(monkeypatch):
    ask_values = QuestionRule.ask_values

    def name_by_contents(self, pipeline, values, *, known_as, **given):
        public = known_as.startswith("named ")
        named = known_as if public else hashlib.sha256(values.tobytes()).hexdigest()
        return ask_values(self, pipeline, values, known_as=named, **given)

    monkeypatch.setattr(QuestionRule, "ask_values", name_by_contents)
    assert "recognised" in breaks(CuratorMachine)


class ByPosition(CuratorMachine):
    """Parts by position in an order that values decide."""

    @staticmethod
    def vote(table):
        with ht.Curator(table, epsilon=1.0, delta=1e-6) as held:
            estimator = DummyClassifier(strategy="most_frequent")
            held.train("m", estimator, target="y", features=["x"], parts=PARTS, order="fixed")
            return held.model("m").measure(np.array([[3.0]]))[0]


def test_parts_by_the_rank_of_a_value():
    assert "two votes" in breaks(ByPosition)


def test_a_yes_that_counts_from_whoever_is_the_incumbent_by_then(monkeypatch):
    accept = gating.GateState.accept

    def chain(state, look):
        return accept(state, structs.replace(look, request=look.request | {"against": state.incumbent}))

    monkeypatch.setattr(gating.GateState, "accept", chain)
    breaks(holdout_machine.GateMachine)


def test_a_level_that_counts_only_the_yes_that_were_told(monkeypatch):
    monkeypatch.setattr(depth_gates, "_was_open", lambda *_: False)
    breaks(holdout_machine.GateMachine)


def test_a_ladder_that_shows_what_was_told_last(monkeypatch):
    def follow(self):
        self._transcript.follow()
        for look in self._transcript.looks[self._read :]:
            self._read += 1
            led = self.best is None or look.told.value != self.best.value
            self.best, self.leading = look.told, str(look.request["values"])
            self._shown[look.number] = look.told, led
            self._teams.append((str(look.request["team"]), look.number))

    monkeypatch.setattr(mode.BestSoFar, "follow", follow)
    breaks(holdout_machine.LadderMachine)


def test_an_estimator_that_charges_any_ledger(monkeypatch):
    monkeypatch.setattr(handles.Handle, "ledger", property(lambda self: open_ledger(self.path)))
    monkeypatch.setattr(handles, "_refuse_foreign", lambda _: None)
    breaks(CuratorMachine)


class PredictingMachine(CuratorMachine):
    """A curator of few verbs and of dear answers, so that predictions soon meet a budget that pays for the screen alone."""

    table = mean = statistic = quantile = quantile_and_die = ask_values = None
    select_by_scores = select_top = watch = watch_and_die = ask_deducing_first = deduce = None
    ask_and_die = ask_while_another_asks = fit_an_estimator_on_this_ledger = replace_one_row_and_sort_again = reopen = None

    @rule(place=WORKER, points=POINTS, key=KEY)
    def predict(self, place, points, key):
        self.predict_points(place, points, epsilon=1, screen=0.3, key=key)


def test_a_request_that_is_charged_piece_by_piece(monkeypatch):
    monkeypatch.setattr(predicting, "_refuse_unless_affordable", lambda *_, **__: None)
    monkeypatch.setattr(predicting, "_make_overtaken", lambda *_: ht.BudgetExceeded(requested=1, left=0, unit="mu squared"))
    assert "spent" in breaks(PredictingMachine)


def test_a_plan_that_is_not_checked_in_the_transaction(monkeypatch):
    charge = Pipeline._make_charge
    monkeypatch.setattr(Pipeline, "_make_charge", lambda self, *given: structs.replace(charge(self, *given), limits=None))
    breaks(CuratorMachine)

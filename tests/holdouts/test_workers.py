"""Crashes and two workers on one ledger: prices and answers follow from what was told, each with the old rule as control."""

import json
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace

import holdtrue as ht
from holdouts.interrupting import kill_during, when_measured
from holdouts.old_gates import open_counted
from holdtrue.bounds.transcripts import check_cells, guess_and_check_level
from holdtrue.curator import pipeline
from holdtrue.holdouts import Holdout, Leaderboard, gating, ladders, mode, scoring, sparse
from holdtrue.holdouts.mode import Transcript
from holdtrue.mechanisms import AboveThreshold
from holdtrue.records import Answer

CASES = 20_000
TRUTH, TRAIN = np.random.default_rng(43).integers(0, 2, (2, CASES))


def right(share, seed, truth=TRUTH):
    return np.where(np.random.default_rng([seed, 43]).random(CASES) < share, truth, 1 - truth)


def open_mode(mode, path, *, looks=50):
    match mode:
        case "private gate":
            return Holdout(TRUTH, looks=looks, yes=4, private=True, epsilon=1, ledger=path)
        case "thresholdout":
            return Holdout(TRUTH, looks=looks, train=TRAIN, overfits=4, threshold=0.4, ledger=path)
        case "private ladder":
            return Leaderboard(TRUTH, submissions=looks, rule="private ladder", moves=4, ledger=path)
        case "ladder":
            return Leaderboard(TRUTH, submissions=looks, ledger=path)
        case "private":
            return Leaderboard(TRUTH, submissions=looks, rule="private", ledger=path)
        case "scores":
            return Holdout(TRUTH, looks=looks, ledger=path)
        case "rounding":
            return Holdout(TRUTH, looks=looks, private=False, ledger=path)
        case "gate":
            return Holdout(TRUTH, looks=looks, yes=1, incumbent=right(0.5, 0), ledger=path)
        case _:
            return Holdout(TRUTH, looks=looks, train=TRAIN, overfits=4, private=False, ledger=path)


def look(opened, seed, share=0.7):
    """Make one look that is silent in every mode of runs, unless the share is large."""
    if isinstance(opened, Leaderboard):
        return opened.submit("team", right(share, seed))
    match opened.facts.mode:
        case "private gate":
            return opened.gate(right(share, seed), margin=0.95 if share < 0.9 else 0)
        case "gate":
            return opened.gate(right(share, seed), margin=0.2)
        case "thresholdout" | "guess-and-check":
            return opened.score(right(share, seed), train=right(0.7, 1, TRAIN))
        case _:
            return opened.score(right(share, seed))


RUNS = ("private gate", "thresholdout", "private ladder")


@pytest.fixture
def drawn(monkeypatch):
    """The thresholds that were drawn."""
    drawn, watch = [], AboveThreshold.watch
    monkeypatch.setattr(AboveThreshold, "watch", lambda self: (drawn.append(self), watch(self))[1])
    return drawn


def paid(opened):
    return opened.ledger.spent // (opened.plan.cap_units // 4)


def begin(mode, path):
    """Return a holdout with a run under way: on a private ladder the first submission leads, and the second begins it."""
    opened = open_mode(mode, path)
    look(opened, 1)
    look(opened, 2, 0.5)
    return opened


@pytest.fixture
def unnamed_runs(monkeypatch):
    """Names looks by the submission alone, and has any charge of the same parts answered: as it was."""
    monkeypatch.setattr(sparse, "request_id_in_run", lambda part, _: sparse.request_id_of(part))
    same = lambda entry, release: entry.response is None and json.loads(entry.body)["parts"] == list(release.parts)  # noqa: E731
    monkeypatch.setattr(pipeline, "may_answer", same)


def crash_and_retry(mode, path):
    """Die in a look that costs nothing, and ask again in the next process; twice."""
    opened = begin(mode, path)
    for seed in (3, 4):
        kill_during(partial(look, opened, seed, 0.5))
        opened = open_mode(mode, path)
        look(opened, seed, 0.5)
    return opened


def race(mode, path):
    """While one worker measures a look that costs nothing, another asks for the same submission, and goes on."""
    one, other = begin(mode, path), open_mode(mode, path)
    with when_measured(partial(look, other, 3, 0.5)):
        look(one, 3, 0.5)
    look(other, 4, 0.5)
    look(other, 5, 0.98)
    return one


@pytest.mark.parametrize("way", [crash_and_retry, race])
@pytest.mark.parametrize("mode", RUNS)
def test_a_threshold_that_is_drawn_is_one_that_was_paid_for(tmp_path, drawn, mode, way):
    opened = way(mode, tmp_path / "a.ledger")
    assert len(drawn) <= paid(opened)
    assert ht.verify(tmp_path / "a.ledger")


@pytest.mark.usefixtures("unnamed_runs")
@pytest.mark.parametrize("way", [crash_and_retry, race])
@pytest.mark.parametrize("mode", RUNS)
def test_looks_without_the_name_of_their_run_are_answered_for_nothing(tmp_path, drawn, mode, way):
    """The control: more thresholds are drawn than were paid for."""
    opened = way(mode, tmp_path / "a.ledger")
    assert len(drawn) > paid(opened)


@pytest.mark.parametrize("mode", RUNS)
def test_a_look_that_was_charged_nothing_and_killed_is_wasted_and_the_retry_pays(tmp_path, mode):
    path = tmp_path / "a.ledger"
    opened = begin(mode, path)
    before, runs = len(opened.ledger.entries()), paid(opened)
    kill_during(partial(look, opened, 3, 0.5))
    again = open_mode(mode, path)
    told = look(again, 3, 0.5)
    assert (told.repeated, paid(again)) == (False, runs + 1)
    charges = [entry for entry in again.ledger.entries(before + 1) if entry.kind == "charge"]
    assert [entry.cost > 0 for entry in charges] == [False, True]
    assert look(open_mode(mode, path), 3, 0.5).repeated  # what was answered is known to everybody


@pytest.mark.parametrize("mode", RUNS)
def test_whatever_fails_after_a_draw_ends_the_run(tmp_path, drawn, monkeypatch, mode):
    """The same object goes on: a threshold that was compared with is not used again once its answer was lost."""
    opened = begin(mode, tmp_path / "a.ledger")
    runs, thresholds = paid(opened), len(drawn)
    with monkeypatch.context() as patch:
        patch.setattr(sparse, "Certificate", None, raising=False)
        patch.setattr("holdtrue.records.Certificate.with_theorem", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            look(opened, 3, 0.5)
    look(opened, 4, 0.5)
    assert (paid(opened), len(drawn)) == (runs + 1, thresholds + 1)
    with monkeypatch.context() as patch:  # control: nothing drawn, and the run goes on
        patch.setattr(opened._pipeline, "run", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            look(opened, 5, 0.5)
    look(opened, 6, 0.5)
    assert (paid(opened), len(drawn)) == (runs + 1, thresholds + 1)


@pytest.mark.parametrize("mode", ["private", "ladder", "scores", "rounding", "gate", "guess-and-check"])
def test_the_last_planned_look_is_answered_after_a_crash(tmp_path, mode):
    """Under its own charge, although no look is left; and the control, another submission, is refused."""
    path = tmp_path / "a.ledger"
    opened = open_mode(mode, path, looks=2)
    look(opened, 1)
    kill_during(partial(look, opened, 2))
    opened.close()
    with open_mode(mode, path, looks=2) as again:
        with pytest.raises(ht.BudgetExceeded):
            look(again, 3)
        told = look(again, 2)
        assert not told.repeated
        assert look(again, 2).repeated
        with pytest.raises(ht.BudgetExceeded):
            look(again, 3)
    assert ht.verify(path)


class InTheOrderOfCharges:
    """The old rule of ladders: what was told last, by the number of the charge, is the best so far."""

    def __init__(self, transcript):
        self._transcript = transcript

    def follow(self):
        self._transcript.follow()
        self.best, self.leading = None, None
        for each in sorted(self._transcript.looks, key=lambda look: look.number):
            if self.best is None or each.told.value != self.best.value:
                self.best, self.leading = each.told, each.request["values"]

    def show(self, told):
        self.follow()
        return told


def submit_after_a_crash(path):
    """Return what is told after the best submission was charged, killed and made again."""
    board = open_mode("ladder", path)
    board.submit("ada", right(0.7, 1))
    kill_during(lambda: board.submit("eve", right(0.95, 2)))
    board = open_mode("ladder", path)
    board.submit("bob", right(0.6, 3))
    return [board.submit(name, right(share, seed)).value for name, share, seed in (("eve", 0.95, 2), ("cid", 0.5, 4))]


def submit_beside(path):
    """Return what is told where a worse submission is stored while a better one is measured."""
    one, other = open_mode("ladder", path), open_mode("ladder", path)
    one.submit("ada", right(0.6, 1))
    with when_measured(lambda: other.submit("bob", right(0.7, 2))):
        led = one.submit("eve", right(0.95, 3)).value
    return [led, one.submit("cid", right(0.5, 4)).value]


@pytest.mark.parametrize("way", [submit_after_a_crash, submit_beside])
def test_the_best_so_far_never_falls(tmp_path, monkeypatch, way):
    led, later = way(tmp_path / "a.ledger")
    assert led == later == pytest.approx(0.95, abs=0.05)
    monkeypatch.setattr(ladders, "BestSoFar", InTheOrderOfCharges)  # the control
    led, later = way(tmp_path / "b.ledger")
    assert later < led - 0.15


def test_a_ladder_shows_one_rising_sequence_whatever_lies_between(tmp_path):
    """A look that was measured against an older best is shown the best that stands, and its own only above that."""
    path = tmp_path / "a.ledger"
    one, other = open_mode("ladder", path), open_mode("ladder", path)
    one.submit("ada", right(0.6, 1))
    with when_measured(lambda: other.submit("bob", right(0.95, 2))):
        stale = one.submit("eve", right(0.8, 3))
    assert stale.value == pytest.approx(0.95, abs=0.05)
    assert stale.value in stale.interval
    assert other.submit("eve", right(0.8, 3)).value == stale.value
    assert [(place.name, place.rank) for place in one.standings()] == [("bob", 1), ("ada", 2), ("eve", 3)]
    for board in (one, other):
        assert board.submit("cid", right(0.5, 4)).value == stale.value


def yes_beside_yes(path):
    """Have two workers say yes against the same incumbent; return the gate and the incumbent's share of right cases."""
    start, first, second = right(0.5, 1), right(0.72, 2), right(0.73, 3)
    one = Holdout(TRUTH, looks=100, yes=5, ledger=path)
    other = Holdout(TRUTH, ledger=path)
    assert one.gate(start, margin=0.45)
    with when_measured(lambda: other.gate(second, margin=0.18)):
        assert one.gate(first, margin=0.18)
    assert other.looks_left == 97
    return Holdout(TRUTH, incumbent=first, ledger=path), float((first == TRUTH).mean())


def test_a_yes_is_about_the_incumbent_that_it_was_asked_against(tmp_path, monkeypatch):
    gate, score = yes_beside_yes(tmp_path / "a.ledger")
    assert score in gate.incumbent
    assert gate.incumbent.low == pytest.approx(0.63)
    gate.close()
    accept = gating.GateState.accept

    def chained(state, look):
        return accept(state, replace(look, request=look.request | {"against": state.incumbent}))

    monkeypatch.setattr(gating.GateState, "accept", chained)  # the control: as if every yes had met the last one
    (tmp_path / "control").mkdir()
    gate, score = yes_beside_yes(tmp_path / "control" / "b.ledger")
    assert score < gate.incumbent.low


def test_a_gate_is_opened_with_one_incumbent_also_by_two_at_once(tmp_path, monkeypatch):
    """One score is told in a cell, and the count pays for one; the control names each incumbent's request by itself."""
    first, second = right(0.5, 1), right(0.6, 2)

    def open_beside(path):
        Holdout(TRUTH, looks=100, yes=5, ledger=path).close()
        one, other = Holdout(TRUTH, ledger=path), Holdout(TRUTH, ledger=path)
        follow = one._mode._follow

        def beside():
            monkeypatch.setattr(one._mode, "_follow", follow)
            found = follow()
            other._start_gate(second, None)  # after this one has read an empty ledger
            return found

        monkeypatch.setattr(one._mode, "_follow", beside)
        one._start_gate(first, None)

    with pytest.raises(ht.InvalidParameter, match="the submission that last had a yes"):
        open_beside(tmp_path / "a.ledger")
    monkeypatch.setattr(gating, "request_id_of", lambda _: None)
    mode._GATES.clear()  # as in another process
    (tmp_path / "control").mkdir()
    place = tmp_path / "control" / "b.ledger"
    open_beside(place)
    assert [entry.verb for entry in Holdout(TRUTH, ledger=place).ledger.entries()].count("incumbent") > 2


def test_an_incumbent_that_was_charged_and_killed_is_told_by_the_next_who_opens(tmp_path):
    path, start = tmp_path / "a.ledger", right(0.5, 1)
    kill_during(lambda: open_counted(TRUTH, looks=100, yes=5, incumbent=start, ledger=path))
    with pytest.raises(ht.InvalidParameter, match="the submission that last had a yes"):
        Holdout(TRUTH, incumbent=right(0.6, 2), ledger=path)
    with Holdout(TRUTH, incumbent=start, ledger=path) as gate:
        assert gate.incumbent.width < 0.2
        assert gate.looks_left == 100


def check_after_crashes(path, crashes=3):
    """Return a holdout whose first looks were killed, whose next one failed, and whose killed ones passed then."""
    holdout = open_mode("guess-and-check", path)
    for seed in range(crashes):
        kill_during(partial(look, holdout, seed))
        holdout = open_mode("guess-and-check", path)
    told = holdout.score(right(0.5, 99), train=TRAIN)
    for seed in range(crashes):
        look(holdout, seed)
    return holdout, told


def test_later_checks_count_the_cells_that_were_told(tmp_path):
    holdout, told = check_after_crashes(tmp_path / "a.ledger")
    cells = round(1 / told.sample_interval.width)
    assert float((right(0.5, 99) == TRUTH).mean()) in told.sample_interval
    assert (holdout._mode.failures, holdout._mode._cells()) == (1, (cells,))
    assert 0.5 in told.interval
    # The control: cells that are worked out again from the charges are others than those that were told.
    again = check_cells(CASES, tolerance=holdout._mode.tolerance, query=4, beta=holdout.facts.beta, cells=(cells,) * 3)
    assert again > cells


def test_a_passed_guess_is_never_taken_for_a_failure_nor_the_other_way_round():
    interval = ht.Holdout(TRUTH, looks=5, train=TRAIN, overfits=1, private=False)._mode._interval(0.5)
    cell = replace(interval, low=0.5, high=0.5 + 1 / 7, confidence=1.0)
    certificate = None
    assert scoring.count_cells(Answer(0.5, interval, interval, certificate)) is None
    assert scoring.count_cells(Answer(0.5, interval, cell, certificate)) == 7
    for cells in (*range(1, 400), 2**19 + 1):
        low, high = cells // 3 / cells, (cells // 3 + 1) / cells
        assert scoring.count_cells(Answer(0.5, interval, replace(cell, low=low, high=high), certificate)) == cells


@pytest.mark.parametrize("answered", [(0, 1, 2, 3), (0, 0, 0, 0), (0, 0, 1, 3), (3, 0, 1, 2), (2, 0, 0, 5)])
def test_failures_of_checks_sum_to_at_most_beta_over_all_transcripts_of_a_schedule(answered):
    """Enumerated: how many responses each look had before its draw; a number of its own for every look (T12)."""
    beta, cells, total = 0.05, 3, 0.0
    for query, before in enumerate(answered, start=1):
        for failures in range(before + 1):
            level = guess_and_check_level(beta, query=query, cells=(cells,) * failures, answered=before)
            total += math.comb(before, failures) * cells**failures * math.exp(-level)
    assert total <= beta
    shared = sum(math.exp(-guess_and_check_level(beta, query=1, answered=0)) for _ in answered)
    assert shared > beta  # the control: several looks under one number


def test_a_transcript_is_in_the_order_of_responses(tmp_path):
    path = tmp_path / "a.ledger"
    opened = open_mode("scores", path)
    kill_during(partial(look, opened, 1))
    opened = open_mode("scores", path)
    look(opened, 2)
    transcript = Transcript(opened.ledger)
    transcript.follow()
    assert ([each.place for each in transcript], list(transcript.unanswered)) == ([2], [1])
    look(opened, 1)
    transcript.follow()
    assert ([each.place for each in transcript], transcript.unanswered) == ([2, 1], {})
    assert Fraction(transcript.find(1).told.value) >= 0

"""Holdouts and leaderboards at a distance: the same looks and records as here."""

import httpx
import numpy as np
import pytest

import holdtrue as ht

CASES = 3_000
RANDOM = np.random.default_rng(1873)
TRUTH = RANDOM.integers(0, 2, CASES)


def right(share):
    return np.where(RANDOM.random(CASES) < share, TRUTH, 1 - TRUTH)


GOOD, BETTER = right(0.8), right(0.95)


def registered(served, name, **given):
    headers = {"Authorization": f"Bearer {served.key('custodian', 'owner')}"}
    body = {"name": name, "y_true": TRUTH.tolist()} | given
    made = httpx.post(f"{served.url}/v1/holdouts", json=body, headers=headers, timeout=60)
    assert made.status_code == 201, made.text


def test_scores_are_the_holdouts_own_records(served, analyst):
    registered(served, "scores", looks=10)
    holdout = analyst.holdout("scores")
    score = holdout.score(GOOD, key="one")
    assert isinstance(score, ht.Score)
    assert score == holdout.score(GOOD, key="one")
    here = served.service.registry.holdouts.find("scores")._kept.score(GOOD)
    assert (here.value, here.interval, here.certificate) == (score.value, score.interval, score.certificate)
    assert here.repeated
    assert "9 looks left" in score.sentence
    assert 0.8 in score.interval
    assert holdout.score(GOOD, metric="error").value == pytest.approx(1 - score.value)
    assert isinstance(holdout.compare(BETTER, GOOD), ht.Score)
    assert isinstance(holdout.compare_cases(GOOD, BETTER), ht.Score)
    assert holdout.score(cases=GOOD.astype(float) / 2).metric == "cases"
    assert (holdout.looks_left, holdout.card["looks"]) == (6, 10)
    assert (holdout.budget.looks_left, holdout.budget.yes_left) == (6, None)
    told = [line.responses[0] for line in holdout.history]
    assert [found.value for found in told[:1]] == [score.value]
    assert len(told) == 4
    with served.connect("somebody else") as other:
        assert other.holdout("scores").history == []
    assert "scores" in analyst.holdouts


def test_a_key_is_the_callers_to_choose_and_a_name_is_public(served, analyst, owner):
    registered(served, "chosen", looks=10)
    holdout = analyst.holdout("chosen")
    cases = GOOD.astype(float)
    looks = (
        lambda given: holdout.score(GOOD, key=given),
        lambda given: holdout.compare(BETTER, GOOD, key=given),
        lambda given: holdout.compare_cases(GOOD, BETTER, key=given),
    )
    for number, look in enumerate(looks):
        assert look(f"key {number}") == look(f"key {number}")
    assert holdout.looks_left == 7
    first = holdout.score(cases=cases, name="monday")
    again = holdout.score(cases=cases, name="monday")
    assert (again.value, again.repeated) == (first.value, True)
    first = holdout.compare_cases(GOOD, BETTER, name="tuesday")
    assert holdout.compare_cases(GOOD, BETTER, name="tuesday").repeated
    assert holdout.looks_left == 5
    registered(served, "chosen-gate", looks=10, yes=3, incumbent=GOOD.tolist())
    gate = analyst.holdout("chosen-gate")
    assert gate.gate(BETTER, key="a") == gate.gate(BETTER, key="a")
    certified = owner.holdout("chosen-gate").certify(key="b")
    assert owner.holdout("chosen-gate").certify(key="b") == certified
    registered(
        served, "bound-gate", looks=10, yes=3, incumbent=GOOD.tolist(), tells="bounds at the end", gain=0.1, discordant=0.3
    )
    said = analyst.holdout("bound-gate").gate(BETTER)
    assert owner.holdout("bound-gate").certify("bound", of=said.submission).interval.low > 0.05
    registered(served, "chosen-board", kind="leaderboard", submissions=5)
    board = analyst.leaderboard("chosen-board")
    assert board.submit("one", GOOD, key="a") == board.submit("one", GOOD, key="a")
    with pytest.raises(ht.RefusedError):
        board.submit("one", BETTER, key="a")


def test_a_gate_says_yes_or_no(served, analyst, owner):
    registered(served, "gate", looks=20, yes=3, incumbent=GOOD.tolist())
    gate = analyst.holdout("gate")
    said = gate.gate(BETTER, margin=0.05)
    assert isinstance(said, ht.Verdict)
    assert said
    assert said.gain.low > 0
    assert not gate.gate(right(0.5))
    with pytest.raises(ht.RefusedError, match="gate"):
        gate.score(GOOD)
    with pytest.raises(ht.RefusedError, match="owner"):
        gate.certify()
    assert owner.holdout("gate").certify().value == pytest.approx(float((BETTER == TRUTH).mean()))


def test_a_leaderboard_ranks(served, analyst):
    registered(served, "board", kind="leaderboard", submissions=20, rule="private")
    board = analyst.leaderboard("board")
    assert isinstance(board.submit(None, GOOD), ht.Score)
    board.submit("again", BETTER)
    places = board.standings()
    assert {place.name for place in places} == {"test_a_leaderboard_ranks", "test_a_leaderboard_ranks/again"}
    assert all(place.interval.low <= place.score <= place.interval.high for place in places)
    assert board.left == 18


def test_looks_run_out_for_everyone(served, analyst):
    registered(served, "short", looks=1)
    analyst.holdout("short").score(GOOD)
    with served.connect("somebody else") as other, pytest.raises(ht.BudgetExceeded) as spent:
        other.holdout("short").score(BETTER)
    assert (spent.value.requested, spent.value.left, spent.value.unit) == (1, 0, "looks")


@pytest.mark.parametrize(
    "call",
    [
        lambda holdout: holdout.score(),
        lambda holdout: holdout.score(GOOD, cases=GOOD),
        lambda holdout: holdout.score(GOOD[1:]),
        lambda holdout: holdout.score(GOOD.reshape(2, -1)),
        lambda holdout: holdout.score(GOOD, metric=lambda truth, said: truth == said),
        lambda holdout: holdout.score(np.where(GOOD == 1, np.nan, 0.0)),
        lambda holdout: holdout.score([object()] * CASES),
        lambda holdout: holdout.score(cases=2 * GOOD),
        lambda holdout: holdout.score(GOOD, of=1, metric="recall"),
    ],
)
def test_what_cannot_be_scored_costs_nothing(served, analyst, call):
    if "wrong" not in analyst.holdouts:
        registered(served, "wrong", looks=10)
    holdout = analyst.holdout("wrong")
    with pytest.raises(ht.RequestError):
        call(holdout)
    assert holdout.looks_left == 10

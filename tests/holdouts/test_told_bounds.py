"""What a gate may tell besides yes and no, and the bets it plans with: THEORY V1.1 (iii), (iv) and V1.2."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.bounds.gate_levels import BOUND_STEPS, betting_end, betting_tail, depth_error, depth_level, depth_levels
from holdtrue.errors import HoldtrueError, InvalidParameter, RefusedError

END, ONCE = "bounds at the end", "bounds"


def test_levels_are_those_of_the_sheet():
    assert np.round(depth_levels(100, yes=5, beta=0.05, tells=ONCE), 2).tolist() == [9.9, 15.88, 21.45, 26.71, 31.75]
    at_end = depth_levels(100, yes=5, beta=0.05, tells=END)
    assert np.round(np.subtract(at_end, depth_levels(100, yes=5, beta=0.05)), 2).tolist() == [0.79] * 5
    assert [round(at_end[0], 2), round(at_end[-1], 2)] == [9.21, 22.74]


def count_error(levels, looks, answers, after=0):
    """The recursion of V1.1 (iv), look by look."""
    if after == len(levels):
        return levels[-1]
    if not looks:
        return levels[after]
    behind = count_error(levels, looks - 1, answers, after + 1)
    worst = max(levels[after] + (answers - 1) * behind, answers * behind)
    return count_error(levels, looks - 1, answers, after) + worst


@pytest.mark.parametrize(("looks", "yes"), [(1, 1), (4, 2), (6, 3), (5, 5)])
def test_all_errors_of_a_gate_that_tells_bounds_sum_to_beta(looks, yes):
    once = np.exp(-np.array(depth_levels(looks, yes=yes, beta=0.05, tells=ONCE)))
    assert count_error(once, looks, len(BOUND_STEPS)) == pytest.approx(0.05, rel=1e-9)
    assert depth_error(once, looks=looks, answers=len(BOUND_STEPS)) == pytest.approx(0.05, rel=1e-9)
    # At the end nothing is passed on: every look after j yes pays its own level, and there are at most C(k, j + 1).
    end = np.exp(-np.array(depth_levels(looks, yes=yes, beta=0.05, tells=END)))
    assert sum(level * math.comb(looks, after + 1) for after, level in enumerate(end)) <= 0.05
    assert (np.diff(once) <= 0).all()
    assert (np.diff(end) <= 0).all()


def test_levels_of_very_long_gates_are_found_without_the_recursion():
    short, long = (depth_level(looks, yes=300, beta=0.05, after=7, tells=ONCE) for looks in (1000, 100_000))
    assert math.isfinite(short)
    assert short < long < 400


def test_a_planned_bet_keeps_the_level_and_finds_the_gain_it_was_planned_for():
    plain, planned = (betting_tail([1, -1, 0], counts=[35, 15, 450], margin=0, planned=bet) for bet in (None, 0.4))
    assert planned < plain - 0.5
    random = np.random.default_rng(3)
    outcomes = np.array(list(itertools.product([-1, 0, 1], repeat=5)))
    for _ in range(20):
        chances = random.dirichlet([1, 1, 1], size=5)
        gains = chances[:, 2] - chances[:, 0]
        margin = float(np.clip(gains.mean(), -0.9, 0.9))
        weights = np.prod(chances[np.arange(5), outcomes + 1], axis=1)
        tails = np.array([betting_tail(outcome, margin=margin, planned=0.9) for outcome in outcomes])
        order = np.argsort(tails)
        assert (np.cumsum(weights[order]) <= np.exp(tails[order]) + 1e-9).all()


def make_holdout(where=None, **terms):
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 600)
    first, second, third = (np.where(random.random(600) < share, labels, 1 - labels) for share in (0.6, 0.75, 0.9))
    given = {"looks": 20, "yes": 3, "incumbent": first, "unseen": True, "ledger": where} | terms
    return ht.Holdout(labels, **given), labels, (first, second, third)


def test_a_yes_tells_its_bound_at_once(tmp_path):
    holdout, _, (_, second, third) = make_holdout(tmp_path / "gate.ledger", tells=ONCE)
    with holdout:
        told = [holdout.gate(each) for each in (second, third)]
        assert [verdict.gain.low for verdict in told] == [0.02, 0.03]
        assert {Fraction(verdict.gain.low).limit_denominator(100) for verdict in told} <= set(BOUND_STEPS)
        assert holdout.incumbent.low == pytest.approx(0.05)
        assert "by more than 0.03" in told[1].claim
        assert not holdout.gate(second)
    again, *_ = make_holdout(tmp_path / "gate.ledger", incumbent=None, looks=None, yes=None, unseen=None)
    with again:
        assert again.incumbent.low == pytest.approx(0.05)
        repeated = again.gate(third)
        assert (repeated.repeated, repeated.gain.low) == (True, 0.03)
        assert again.certify("gain").interval.low > 0
    with pytest.raises(InvalidParameter, match="tells"):
        make_holdout(tmp_path / "gate.ledger", incumbent=None, tells=END)


def test_a_margin_is_the_least_bound():
    holdout, _, (_, second, _) = make_holdout(tells=ONCE)
    with holdout:
        assert holdout.gate(second, margin=-0.1).gain.low == pytest.approx(0.02)
        assert holdout.gate(second, margin=-0.1).repeated


@pytest.mark.parametrize("lasting", [False, True])
def test_bounds_of_all_yes_are_told_once_the_gate_has_closed(tmp_path, lasting):
    where = tmp_path / "gate.ledger" if lasting else None
    holdout, labels, (first, second, third) = make_holdout(where, tells=END)
    with holdout:
        told = [holdout.gate(each) for each in (second, third)]
        assert [verdict.gain.low for verdict in told] == [0, 0]
        with pytest.raises(InvalidParameter, match="'bound'"):
            holdout.certify()
        for nobody in ("nobody", ["a"], 3):
            with pytest.raises(InvalidParameter, match="of a verdict"):
                holdout.certify("bound", of=nobody)
        assert holdout.looks_left == 18
        bounds = [holdout.certify("bound", of=verdict.submission) for verdict in told]
        for after, (score, better, worse) in enumerate(zip(bounds, (second, third), (first, second), strict=True)):
            gains = (better == labels) * 1.0 - (worse == labels)
            least = betting_end(gains, level=depth_level(20, yes=3, beta=0.05, after=after, tells=END))
            assert score.interval.low == pytest.approx(least, abs=1e-9)
            assert score.interval.high == 1
            assert score.value == score.interval.low  # the mean itself is not told
        assert holdout.certify("bound").value == bounds[1].value
        assert holdout.looks_left == 0
        with pytest.raises(RefusedError):
            holdout.gate(first)


def test_bounds_are_behind_a_yes_only():
    holdout, *_ = make_holdout(tells=END)
    with holdout, pytest.raises(RefusedError, match="had no yes"):
        holdout.certify("bound")
    plain, *_ = make_holdout()
    with plain, pytest.raises(InvalidParameter, match="tells="):
        plain.certify("bound")


def test_planned_bets_are_fixed_when_a_gate_is_opened(tmp_path):
    where = tmp_path / "gate.ledger"
    holdout, *_ = make_holdout(where, metric="cases", gain=0.1, discordant=0.4)
    with holdout:
        assert holdout.facts.bet == 0.25
    with pytest.raises(InvalidParameter, match=r"bet .* 0\.25"):
        make_holdout(where, metric="cases", incumbent=None, gain=0.2, discordant=0.4)
    capped, *_ = make_holdout(gain=0.1, discordant=0.1)
    with capped:
        assert capped.facts.bet == pytest.approx(0.98)


@pytest.mark.parametrize(
    "terms",
    [
        {"tells": "everything"},
        {"tells": ONCE, "yes": None, "incumbent": None},
        {"tells": ONCE, "private": True, "incumbent": None},
        {"gain": 0.1},
        {"discordant": 0.1},
        {"gain": 0.2, "discordant": 0.1},
        {"gain": 0.1, "discordant": 0.2, "yes": None, "incumbent": None},
    ],
    ids=str,
)
def test_terms_that_no_gate_has_are_refused(terms):
    with pytest.raises(HoldtrueError):
        make_holdout(**terms)


def test_plans_know_what_a_gate_tells():
    plain, once = (ht.plan_holdout(cases=500, looks=100, yes=5, discordant=0.3, tells=tells) for tells in (None, ONCE))
    assert once.gate.finds > plain.gate.finds
    assert once.alpha_at(1) > plain.alpha_at(1)
    for wrong in ({"tells": ONCE}, {"tells": "all", "yes": 5}, {"tells": ONCE, "yes": 5, "private": True}):
        with pytest.raises(InvalidParameter):
            ht.plan_holdout(cases=500, looks=100, **wrong)

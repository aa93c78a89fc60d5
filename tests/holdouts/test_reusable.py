"""The reusable holdout: Thresholdout, private, and guess-and-check, which is not."""

import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht
from holdtrue.bounds.sparse_vector import above_threshold_alpha
from holdtrue.bounds.transcripts import check_cells, check_passes, check_width, guess_and_check_alpha, guess_and_check_level
from holdtrue.events import NonPrivate
from holdtrue.holdouts import Holdout, terms
from holdtrue.holdouts.cases import BITS
from holdtrue.holdouts.scoring import check_guess
from holdtrue.mechanisms import AboveThreshold
from holdtrue.testing import SeededBits, drawing_from

CASES = 40_000
RANDOM = np.random.default_rng(17)
TRUTH, TRAIN = RANDOM.integers(0, 2, (2, CASES))


def with_error(truth, rate):
    return np.where(RANDOM.random(CASES) < rate, 1 - truth, truth)


def test_thresholdout_tells_the_training_score_until_it_overfits():
    with Holdout(TRUTH, train=TRAIN, looks=50, overfits=2) as holdout:
        quiet = [holdout.score(with_error(TRUTH, 0.2), train=with_error(TRAIN, 0.2)) for _ in range(5)]
        assert all(abs(score.value - 0.8) < 0.02 for score in quiet)
        spent = quiet[0].certificate.spent
        assert spent > 0
        assert {score.certificate.spent for score in quiet} == {spent}
        loud = holdout.score(RANDOM.integers(0, 2, CASES), train=TRAIN)
        assert loud.value < 0.7
        assert 0.5 in loud.interval
        assert loud.private
        holdout.score(RANDOM.integers(0, 2, CASES), train=TRAIN)
        with pytest.raises(ht.BudgetExceeded, match="run"):
            holdout.score(RANDOM.integers(0, 2, CASES), train=TRAIN)
        assert holdout.plan.epsilon == pytest.approx(2 * spent)


def test_the_same_submission_is_told_the_same_for_nothing():
    mine, own = with_error(TRUTH, 0.3), with_error(TRAIN, 0.3)
    for private in (True, False):
        with Holdout(TRUTH, train=TRAIN, looks=50, overfits=2, private=private) as holdout:
            first = holdout.score(mine, train=own)
            again = holdout.score(mine, train=own)
            assert again.repeated
            assert (again.value, holdout.looks_left) == (first.value, 49)


def test_a_look_may_have_a_threshold_of_its_own_and_its_interval_follows():
    overfitted = with_error(TRAIN, 0.3)
    with Holdout(TRUTH, train=TRAIN, looks=50, overfits=3, threshold=0.3) as holdout:
        quiet = holdout.score(with_error(TRUTH, 0.5), train=overfitted)  # 0.7 on train, 0.5 here: within 0.3
        assert quiet.value == pytest.approx(0.7, abs=0.02)
        loud = holdout.score(with_error(TRUTH, 0.5), train=overfitted, threshold=0.05)
        assert loud.value == pytest.approx(0.5, abs=0.1)
        assert 0.5 in loud.interval
        near = holdout.facts.alpha_released
        assert (quiet.interval.high, loud.interval.high - loud.value) == pytest.approx((1.0, near))
        assert near < holdout.plan.alpha - 0.3
        mine = with_error(TRUTH, 0.5)
        again = [holdout.score(mine, train=overfitted, threshold=level).repeated for level in (0.2, 0.25, 0.2)]
        assert again == [False, False, True]
    with Holdout(TRUTH, looks=5) as scores, pytest.raises(ht.InvalidParameter, match="threshold"):
        scores.score(TRUTH, threshold=0.1)


def test_v2_1_a_new_ledger_has_one_sided_noise_and_an_older_one_keeps_its_own(tmp_path, monkeypatch):
    """What silence says depends on thresholds alone; a ledger without a word about noise has it on both sides."""
    path, given = tmp_path / "old.ledger", {"train": TRAIN, "looks": 10_000, "overfits": 3, "threshold": 0.1}
    found = above_threshold_alpha(CASES, looks=10_000, runs=3, beta=0.05, one_sided=True)
    with Holdout(TRUTH, **given) as holdout:
        assert holdout.facts.noise == "one-sided"
        assert "V2.1" in holdout.plan.theorem
        assert holdout.plan.alpha == pytest.approx(0.1 + found.alpha, abs=1e-6)
        assert holdout._mode._above.one_sided

    def plan_as_before(cases, common, given, *, overfits):
        numbers = {"looks": common["looks"], "runs": overfits, "beta": common["beta"]}
        older = terms.sparse_numbers(cases.number, **numbers, epsilon=None)
        plan = terms.sparse_plan(cases.number, older, **numbers, method="thresholdout", theorem="S3", level=given.threshold)
        facts = terms.Facts("thresholdout", private=True, overfits=overfits, threshold=0.1, scale=older.scale, **common)
        return facts, plan

    with monkeypatch.context() as patch:
        patch.setattr(terms, "_plan_reusable", plan_as_before)
        Holdout(TRUTH, ledger=path, **given).close()
    with Holdout(TRUTH, ledger=path, train=TRAIN) as holdout:
        assert not holdout._mode._above.one_sided
        assert holdout.plan.alpha > 0.1 + 1.5 * found.alpha
        told = holdout.score(with_error(TRUTH, 0.2), train=with_error(TRAIN, 0.2))
        assert told.interval.width / 2 == pytest.approx(holdout.plan.alpha, abs=1e-6)


@pytest.mark.parametrize("one_sided", [True, False])
def test_v2_1_silent_looks_are_within_the_box_of_thresholds(one_sided, monkeypatch):
    """150 runs, a look in each that is off by what a threshold passes one time in 20; noise on both sides misses more."""
    truth = np.zeros(100_000, dtype=int)
    with Holdout(truth, train=truth, looks=150, overfits=150, threshold=0.01) as holdout:
        mode, bits = holdout._mode, SeededBits(f"reusable {one_sided}")
        epsilon, unit = mode._above.event.epsilon, mode._above.sensitivity
        drawn = drawing_from(AboveThreshold(epsilon=epsilon, sensitivity=unit, one_sided=one_sided), bits)
        monkeypatch.setattr(mode, "_above", SimpleNamespace(event=mode._above.event, watch=drawn.watch))
        off = math.ceil((0.01 + holdout.facts.scale * 2 * math.log(20)) * len(truth))
        silent = 0
        for start in range(150):
            told = holdout.score((np.arange(len(truth)) - start) % len(truth) < off, train=truth)
            silent += told.value == 1.0
            mode._run = None
    assert (silent <= 7) == one_sided  # in the mean 2.5 and 21


def test_epsilon_is_kept():
    with Holdout(TRUTH, train=TRAIN, looks=50, overfits=2, epsilon=0.05) as holdout:
        assert holdout.plan.epsilon <= 0.05 * (1 + 1e-9)


def test_guess_and_check_says_that_it_is_not_private():
    with Holdout(TRUTH, train=TRAIN, looks=50, overfits=3, private=False, tolerance=0.05) as holdout:
        good = holdout.score(with_error(TRUTH, 0.2), train=with_error(TRAIN, 0.2))
        assert not good.private
        assert "not private" in str(good)
        assert isinstance(good.certificate.event, NonPrivate)
        loud = holdout.score(RANDOM.integers(0, 2, CASES), train=TRAIN)
        assert 0.5 in loud.interval
        assert loud.interval.width == pytest.approx(0.1)


def outcome(holdout, predicted, train):
    try:
        return holdout.score(predicted, train=train).value
    except ht.BudgetExceeded:
        return None


def test_guess_and_check_stops_for_good_when_no_cell_is_fine_enough():
    small, train = RANDOM.integers(0, 2, (2, 300))
    with Holdout(small, train=train, looks=500, overfits=1, private=False, tolerance=0.2) as holdout:
        told = [outcome(holdout, RANDOM.integers(0, 2, 300), train) for _ in range(100)]
        stopped = told.index(None)
        assert stopped > 0
        assert told[stopped:] == [None] * (100 - stopped)
        with pytest.raises(ht.BudgetExceeded, match="checks"):
            holdout.score(small, train=train)


def test_failures_spend_no_more_than_beta_over_all_transcripts():
    """Enumerated for four queries: the sum of beta_i over every place in the tree of passes and cells is at most beta."""
    beta, cells_of = 0.05, 3
    total = 0.0
    for query in range(1, 5):
        for past in product((False, True), repeat=query - 1):
            failures = sum(past)
            level = guess_and_check_level(beta, query=query, cells=(cells_of,) * failures)
            total += cells_of**failures * math.exp(-level)
    assert total <= beta


@pytest.mark.parametrize("guess", [0.3, 0.52, 0.9])
def test_a_check_passes_only_where_both_tails_are_small(guess):
    rows, tolerance, level = 2000, 0.1, 12.0
    for hits in range(0, 2001, 20):
        passed = check_passes(guess, total=hits << BITS, rows=rows, bits=BITS, tolerance=tolerance, level=level, whole=True)
        low, high = guess - tolerance, guess + tolerance
        right = (low <= 0 or stats.binom.sf(hits - 1, rows, low) <= math.exp(-level)) and (
            high >= 1 or stats.binom.cdf(hits, rows, high) <= math.exp(-level)
        )
        assert passed == right
        loose = check_passes(guess, total=hits << BITS, rows=rows, bits=BITS, tolerance=tolerance, level=level, whole=False)
        assert passed or not loose  # Chernoff's bound is never the sharper one


def test_answers_after_a_failure_are_within_the_tolerance():
    for total in range(0, 1001, 7):
        cell, number = check_guess(
            0.5 if abs(total - 500) > 300 else 0.95,
            total=total << BITS,
            cases=1000,
            whole=True,
            tolerance=0.15,
            beta=0.05,
            query=3,
            cells=(10,),
        )
        if cell >= 0:
            middle = (2 * cell + 1) / (2 * number)
            assert abs(middle - total / 1000) <= 1 / (2 * number) + 1e-12
            assert 1 / (2 * number) + check_width(1000, query=3, beta=0.05, cells=(10,)) <= 0.15 + 1e-9
    assert check_cells(100, tolerance=0.05, query=3, beta=0.05) is None


def test_the_planned_tolerance_answers_all_planned_looks():
    tolerance = guess_and_check_alpha(20_000, queries=40, overfits=4, beta=0.05)
    cells = ()
    for query in range(1, 41):
        assert check_width(20_000, query=query, beta=0.05, cells=cells) <= tolerance / 2
        if query <= 4:
            cells = (*cells, check_cells(20_000, tolerance=tolerance, query=query, beta=0.05, cells=cells))


def test_bad_training_scores_are_refused():
    with Holdout(TRUTH, train=TRAIN, looks=50, overfits=2) as holdout:
        for wrong in (None, TRAIN[:-1]):
            with pytest.raises(ht.InvalidParameter, match="train"):
                holdout.score(TRUTH, train=wrong)
        with pytest.raises(ht.InvalidParameter, match="accuracy on a reusable"):
            holdout.score(TRUTH, train=TRAIN, metric="error")
        with pytest.raises(ht.InvalidParameter, match=r"results in \[0, 1\]"):
            holdout.score(cases=TRUTH, train=[2.0])
        assert holdout.looks_left == 50
    with pytest.raises(ht.InsufficientSamples, match="too few"):
        Holdout(TRUTH[:50], train=TRAIN, looks=500, overfits=20)

"""Intervals of adaptive looks cover at once; plain means with plain intervals do not."""

import numpy as np
import pytest

from holdouts.analysts import ANALYSTS, lower_rate, value_of
from holdouts.old_gates import open_counted
from holdtrue.bounds.accuracy import hoeffding_alpha
from holdtrue.holdouts import Holdout
from laws import generator

RUNS = 100


@pytest.mark.parametrize("analyst", ANALYSTS)
def test_simultaneous_miss_rate_of_score_intervals_is_at_most_beta(request, analyst):
    random, missed = generator(request), 0
    for _ in range(RUNS):
        with Holdout(random.integers(0, 2, 300), looks=15, beta=0.05) as holdout:
            answers = ANALYSTS[analyst](random, 300, 15, holdout.score)
        missed += any(0.5 not in answer.interval for answer in answers)
    assert lower_rate(missed, RUNS) <= 0.05


@pytest.mark.parametrize(("analyst", "looks"), [("signs", 200), ("climbing", 400), ("search", 400)])
def test_the_same_analysts_against_plain_means_miss_nearly_always(request, analyst, looks):
    """The control: the interval that is right for one look, around the raw score."""
    random, missed = generator(request), 0
    near = hoeffding_alpha(400, beta=0.05)
    for _ in range(30):
        truth = random.integers(0, 2, 400)
        answers = ANALYSTS[analyst](random, 400, looks, lambda row, truth=truth: float((row == truth).mean()))
        missed += max(abs(value_of(answer) - 0.5) for answer in answers) > near
    assert missed >= 24


def test_a_comparison_covers_the_true_difference(request):
    random, missed = generator(request), 0
    for _ in range(60):
        with Holdout(random.integers(0, 2, 1000), looks=5) as holdout:
            first = random.integers(0, 2, 1000)
            second = np.where(random.random(1000) < 0.2, 1 - first, first)
            missed += 0.0 not in holdout.compare(first, second).interval
    assert lower_rate(missed, 60) <= 0.05


def climb_gate(random, gate, cases, looks, margin):
    """Offer variations of the incumbent; return what is certified at the end."""
    best = random.integers(0, 2, cases)
    said = gate(best, margin=0)
    for _ in range(looks - 1):
        if not said.looks_left:
            break
        changed = np.where(random.random(cases) < 0.4, random.integers(0, 2, cases), best)
        said = gate(changed, margin=margin)
        if said.yes:
            best = changed
    return best


def test_the_certified_incumbent_of_a_gate_that_counts_transcripts_covers_the_truth(request):
    random, missed, naive = generator(request), 0, 0
    for _ in range(RUNS):
        truth = random.integers(0, 2, 400)
        with open_counted(truth, looks=50, yes=6) as holdout:
            climb_gate(random, holdout.gate, 400, 50, margin=0.02)
            score = holdout.certify()
        missed += 0.5 not in score.interval
        naive += abs(score.value - 0.5) > hoeffding_alpha(400, beta=0.05)
    assert lower_rate(missed, RUNS) <= 0.05
    assert lower_rate(naive, RUNS) > 0.05  # the control: the interval that is right for one look


@pytest.mark.parametrize("private", [True, False])
def test_reusable_holdouts_tell_the_truth_within_their_width(request, private):
    random, missed = generator(request), 0
    for _ in range(30):
        train, truth = random.integers(0, 2, (2, 3000))
        with Holdout(truth, train=train, looks=30, overfits=5, private=private) as holdout:
            rows = random.integers(0, 2, (30, 2, 3000))
            told = [holdout.score(rows[j, 0], train=rows[j, 1]) for j in range(12)]
            told.append(holdout.score(rows[29, 0], train=train))  # right on every training case, and worth nothing
        missed += any(0.5 not in score.interval for score in told)
    assert lower_rate(missed, 30) <= 0.05

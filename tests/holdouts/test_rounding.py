"""Full scores without privacy are rounded: the middle of a cell, an interval for all looks, and it says what it is not."""

import numpy as np
import pytest

import holdtrue as ht
from holdouts.analysts import ANALYSTS, lower_rate
from holdtrue.bounds.transcripts import rounding_alpha, rounding_cells, rounding_width
from holdtrue.events import NonPrivate
from holdtrue.holdouts import Holdout
from laws import generator

RANDOM = np.random.default_rng(31)
TRUTH = RANDOM.integers(0, 2, 4000)
GOOD = np.where(RANDOM.random(4000) < 0.2, 1 - TRUTH, TRUTH)


def test_a_score_is_the_middle_of_its_cell_and_says_that_it_is_not_private():
    with Holdout(TRUTH, looks=5, private=False) as holdout:
        cells = holdout.facts.cells
        score = holdout.score(GOOD)
        raw = float((GOOD == TRUTH).mean())
        assert raw in score.sample_interval
        assert score.value == pytest.approx(raw, abs=1 / (2 * cells))
        assert (score.value * 2 * cells) % 2 == pytest.approx(1)
        near = rounding_width(cells, cases=4000, looks=5, beta=0.05, look=1)
        assert score.interval.width == pytest.approx(2 * near, abs=1e-5)
        assert near < holdout.plan.alpha
        assert not score.private
        assert "not private" in str(score)
        assert isinstance(score.certificate.event, NonPrivate)
        assert holdout.score(GOOD, metric="error").value == pytest.approx(1 - score.value)
        assert holdout.score(cases=GOOD == TRUTH).looks_left == 3
        assert not holdout.score(cases=GOOD == TRUTH).repeated  # that results are equal is told to nobody, here neither
        assert not holdout.score(cases=GOOD == TRUTH, name="commit 1").repeated
        assert holdout.score(cases=GOOD == TRUTH, name="commit 1").repeated
        assert "rounding" in repr(holdout)


def test_the_plan_that_names_rounding_is_the_one_that_is_opened():
    plan = ht.plan_holdout(cases=4000, looks=5, private=False)
    assert plan.mode == "rounding"
    with Holdout(TRUTH, looks=5, private=False) as holdout:
        assert holdout.plan.alpha == pytest.approx(plan.alpha, rel=1e-4)
        assert holdout.plan.delta == 1
    for cases, looks in ((1000, 50), (20_000, 5), (5000, 500)):
        cells = rounding_cells(cases, looks=looks, beta=0.05)
        width = rounding_width(cells, cases=cases, looks=looks, beta=0.05)
        assert width == pytest.approx(rounding_alpha(cases, queries=looks, beta=0.05), rel=1e-3)


@pytest.mark.parametrize("analyst", ANALYSTS)
def test_simultaneous_miss_rate_of_rounded_scores_is_at_most_beta(request, analyst):
    random, missed = generator(request), 0
    for _ in range(60):
        with Holdout(random.integers(0, 2, 600), looks=15, private=False) as holdout:
            answers = ANALYSTS[analyst](random, 600, 15, holdout.score)
        missed += any(0.5 not in answer.interval for answer in answers)
    assert lower_rate(missed, 60) <= 0.05


def test_what_is_no_mean_over_all_cases_is_refused_and_costs_nothing(tmp_path):
    path = tmp_path / "rounded.ledger"
    with Holdout(TRUTH, looks=2, private=False, classes={1: int(TRUTH.sum())}, ledger=path) as holdout:
        with pytest.raises(ht.InvalidParameter, match="mean over all cases"):
            holdout.score(GOOD, metric="recall", of=1)
        with pytest.raises(ht.RefusedError, match="does not compare"):
            holdout.compare(GOOD, TRUTH)
        holdout.score(GOOD)
    with Holdout(TRUTH, ledger=path) as holdout:
        assert holdout.looks_left == 1
        assert holdout.score(GOOD).repeated
        holdout.score(TRUTH)
        with pytest.raises(ht.BudgetExceeded, match="all 2 looks are used"):
            holdout.score(1 - TRUTH)
    assert ht.verify(path)

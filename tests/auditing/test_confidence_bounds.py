"""Confidence limits: the pins, their coverage, and rules that are narrower than two limits."""

import math

import numpy as np
import pytest
from scipy import stats

from holdtrue.auditing.search.confidence_bounds import (
    Counts,
    Distance,
    Pooled,
    Separate,
    combine_stages,
    lower_limit,
    upper_limit,
)


def test_clopper_pearson_of_a_perfect_attack_is_the_pin():
    assert float(Separate(0.0, 0.01).limit(500.0, 0.0, 500.0)) == pytest.approx(4.541915810224092, abs=1e-9)
    assert float(Separate(0.0, 0.01).limit(500.0, 500.0, 500.0)) < 0


def test_limits_are_those_of_the_beta_law_and_never_inside_them():
    hits = np.array([0, 1, 17, 500, 999, 1000])
    low, high = lower_limit(hits, 1000, alpha=0.025), upper_limit(hits, 1000, alpha=0.025)
    exact_low = np.where(hits > 0, stats.beta.ppf(0.025, np.maximum(hits, 1), 1001 - hits), 0.0)
    exact_high = np.where(hits < 1000, stats.beta.isf(0.025, hits + 1, np.maximum(1000 - hits, 1)), 1.0)
    assert low == pytest.approx(exact_low, rel=1e-9)
    assert high == pytest.approx(exact_high, rel=1e-9)
    assert (low <= exact_low).all()
    assert (high >= exact_high).all()


def _missed(rule, p, q, *, runs=200):
    """Return the exact probability that a rule's bound is above the truth."""
    truth = p - q if isinstance(rule, Distance) else max(0.0, math.log((p - rule.delta) / q))
    if rule.pooled:
        first, second = (stats.poisson.pmf(np.arange(3 * runs), runs * chance) for chance in (p, q))
    else:
        first, second = (stats.binom.pmf(np.arange(runs + 1), runs, chance) for chance in (p, q))
    k = np.arange(first.size, dtype=float)
    wrong = rule.limit(k[:, None], k[None, :], float(runs)) > truth
    return float(first @ wrong @ second)


@pytest.mark.parametrize(("p", "q"), [(0.9, 0.6), (0.5, 0.4), (0.3, 0.05), (0.05, 0.04), (0.02, 0.0199)])
def test_no_rule_is_above_the_truth_more_often_than_alpha(p, q):
    for rule in (Separate(0.0, 0.05), Pooled(0.0, 0.05), Separate(0.01, 0.05), Pooled(0.01, 0.05), Distance(0.05)):
        assert _missed(rule, p, q) <= 0.05


def test_a_rule_without_the_slack_is_caught():
    """Planted fault: at delta = 0.015 the counts of an event that the slack explains are put through the rule for 0."""
    runs, p, q, delta = 400, 0.02, 0.002, 0.015
    first, second = (stats.poisson.pmf(np.arange(200), runs * chance) for chance in (p, q))
    k = np.arange(200.0)
    truth = math.log((p - delta) / q)
    wrong = {slack: Pooled(slack, 0.2).limit(k[:, None], k[None, :], float(runs)) > truth for slack in (0.0, delta)}
    assert float(first @ wrong[delta] @ second) <= 0.2
    assert float(first @ wrong[0.0] @ second) > 0.2


def test_one_limit_is_narrower_than_two():
    for p, q in ((0.5, 0.4524), (0.03, 0.0234), (0.003, 0.002)):
        hits = 1e6 * p, 1e6 * q
        assert Pooled(0.0, 0.05).limit(*hits, 1e6) > Separate(0.0, 0.05).limit(*hits, 1e6)


@pytest.mark.parametrize("rule", [Separate(0.0, 0.05), Pooled(0.0, 0.05), Pooled(1e-3, 0.05), Distance(0.05)], ids=repr)
def test_counts_of_one_stage_prove_what_their_rule_says_but_for_a_step(rule):
    for first, second in ((500, 300), (900, 880), (40, 0), (1000, 0)):
        found = combine_stages([Counts(rule, first, second, 1000.0, weight=1000)], alpha=0.05)
        assert rule.at_level(0.0495).limit(first, second, 1000.0) <= found <= max(rule.limit(first, second, 1000.0), 0)


def test_halves_of_one_count_prove_about_as_much_as_the_whole():
    rule = Pooled(0.0, 0.05)
    half = Counts(rule, 30_000, 27_000, 1e5, weight=1)
    assert combine_stages([half, half], alpha=0.05) == pytest.approx(rule.limit(60_000, 54_000, 2e5), rel=0.01)


def test_counts_that_lack_runs_or_speak_for_the_other_side_prove_nothing():
    good, rule = Counts(Pooled(0.0, 0.05), 500, 100, 1000.0, weight=1), Pooled(0.0, 0.05)
    assert combine_stages([good, good], alpha=0.05) > 1
    assert combine_stages([good, Counts(rule, 500, 100, 1000.0, weight=1, valid=False)], alpha=0.05) == 0
    assert combine_stages([good, Counts(rule, 0, 900, 1000.0, weight=1)], alpha=0.05) == 0
    assert combine_stages([good, Counts(rule, 100, 400, 1000.0, weight=1)], alpha=0.05) == 0


def _adaptive(rng, truth):
    """Count one event, and then a rare one if that went well and a frequent one if it did not; all tell the same epsilon."""
    first = rng.poisson([300 * math.exp(truth), 300])
    lucky = first[0] > first[1] * math.exp(truth)
    return first, rng.poisson((30 if lucky else 3000) * np.array([math.exp(truth), 1]))


def test_what_is_put_together_is_above_the_truth_at_most_as_often_as_stated_whatever_was_chosen_in_between():
    rng, rule, truth, runs = np.random.default_rng(31), Pooled(0.0, 0.1), 0.5, 1500
    wrong = 0
    for _ in range(runs):
        stages = [
            Counts(rule, *hits, 1e4, weight=weight) for hits, weight in zip(_adaptive(rng, truth), (5, 7), strict=True)
        ]
        wrong += combine_stages(stages, alpha=0.1) > truth
    assert wrong / runs > 0.05
    assert stats.beta.ppf(1e-6, wrong, runs - wrong + 1) <= 0.1


def test_believing_the_better_stage_is_caught():
    """Planted fault: all weight goes to the stage that turned out to prove more."""
    rng, rule, truth, runs = np.random.default_rng(32), Pooled(0.0, 0.1), 0.5, 4000
    wrong = sum(max(rule.limit(*hits, 1e4) for hits in _adaptive(rng, truth)) > truth for _ in range(runs))
    assert stats.beta.ppf(1e-6, wrong, runs - wrong + 1) > 0.1

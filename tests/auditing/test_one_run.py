"""One-run audits: the pins, the slack's term, and canaries from coins."""

import math

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht
from holdtrue.auditing.one_run import Canaries, audit_one_run, chance_of_guesses, one_run_epsilon
from holdtrue.testing import SeededBits


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "epsilon"),
    [
        (100, 100, 75, 0.0, 0.7022139),
        (100, 100, 75, 1e-4, 0.6994668),
        (1000, 100, 75, 1e-4, 0.6729847),
        (100_000, 1510, 1439, 1e-5, 2.6758510),
        (10_000, 10_000, 9820, 1e-5, 3.8713169),
        (16, 16, 16, 0.0, 1.5803231),
    ],
)
def test_lower_bounds_are_the_published_ones(canaries, guesses, right, delta, epsilon):
    found = one_run_epsilon(right, guesses=guesses, canaries=canaries, delta=delta)
    assert found == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize(("canaries", "epsilon"), [(16, 1.5798), (64, 3.0364), (128, 3.7396), (512, 5.1245)])
def test_a_perfect_guesser(canaries, epsilon):
    assert one_run_epsilon(canaries, guesses=canaries, canaries=canaries, delta=1e-5) == pytest.approx(epsilon, abs=1e-4)
    closed = -math.log(0.05 ** (-1 / canaries) - 1)
    assert one_run_epsilon(canaries, guesses=canaries, canaries=canaries) == pytest.approx(closed, abs=1e-9)


def test_the_chance_of_guesses_and_the_term_of_the_slack():
    assert chance_of_guesses(75, guesses=100, canaries=100, epsilon=math.log(3)) == pytest.approx(0.5534708, abs=1e-6)
    without = one_run_epsilon(1439, guesses=1510, canaries=100_000)
    assert without == pytest.approx(2.8062068, abs=1e-6)
    assert one_run_epsilon(1439, guesses=1510, canaries=100_000, delta=1e-5) < without


def test_guesses_about_noise_prove_nothing_and_a_leak_is_flagged(bits):
    canaries = Canaries.draw(2000, bits=bits)
    assert 0.4 < canaries.included.mean() < 0.6
    noise = np.random.default_rng(3).normal(size=2000)
    assert canaries.audit(noise, guesses=400, epsilon=1.0).lower_bound < 0.5
    leak = canaries.included + 0.3 * noise
    found = canaries.audit(leak, guesses=400, epsilon=1.0, delta=1e-6)
    assert found.violated
    assert "400 guesses about 2,000 canaries" in found.event
    assert canaries.count_right(leak, guesses=2000) == 2000 - int(((leak > np.median(leak)) != canaries.included).sum())


def test_groups_of_rows_share_the_bound():
    single = audit_one_run(100, guesses=100, canaries=100, epsilon=1.0)
    pair = audit_one_run(100, guesses=100, canaries=100, epsilon=1.0, group=2)
    assert pair.lower_bound == pytest.approx(single.lower_bound / 2)
    with pytest.raises(ht.InvalidParameter, match="group must be 1 where delta"):
        audit_one_run(100, guesses=100, canaries=100, epsilon=1.0, delta=1e-6, group=2)


def test_bad_input_is_refused():
    with pytest.raises(ht.InvalidParameter, match="right must be at most the number of guesses, 10"):
        one_run_epsilon(11, guesses=10, canaries=10)
    with pytest.raises(ht.InvalidParameter, match="at most the number of canaries"):
        one_run_epsilon(5, guesses=11, canaries=10)
    with pytest.raises(ht.InsufficientSamples, match="use at least 62") as short:
        audit_one_run(16, guesses=16, canaries=16, epsilon=3.0)
    assert short.value.required == 62
    with pytest.raises(ht.InvalidParameter, match="scores"):
        Canaries(np.ones(4, dtype=bool)).count_right([1.0, 2.0], guesses=2)


def test_the_chance_of_guesses_is_a_binomial_tail_without_slack():
    for right, guesses, epsilon in ((0, 10, 1.0), (7, 10, 0.5), (10, 10, 2.0), (60, 100, 0.0)):
        exact = stats.binom.sf(right - 1, guesses, 1 / (1 + math.exp(-epsilon)))
        found = chance_of_guesses(right, guesses=guesses, canaries=guesses, epsilon=epsilon)
        assert exact <= found <= min(1.0, exact * (1 + 1e-9) + 1e-15)


def test_the_term_of_the_slack_is_that_of_the_theorem():
    """f(v) + 2 m delta max over i of (f(v - i) - f(v)) / i, by its definition."""
    right, guesses, canaries, epsilon, delta = 18, 20, 50, 1.0, 1e-3
    tail = [stats.binom.sf(t - 1, guesses, 1 / (1 + math.exp(-epsilon))) for t in range(right + 1)]
    worst = max((tail[right - i] - tail[right]) / i for i in range(1, right + 1))
    expected = tail[right] + 2 * canaries * delta * worst
    found = chance_of_guesses(right, guesses=guesses, canaries=canaries, epsilon=epsilon, delta=delta)
    assert found == pytest.approx(expected, rel=1e-9)


def test_no_right_guess_rules_out_nothing():
    assert chance_of_guesses(0, guesses=10, canaries=10, epsilon=0.0, delta=0.1) == 1.0
    assert one_run_epsilon(0, guesses=10, canaries=10) == 0.0
    assert one_run_epsilon(55, guesses=100, canaries=100) == 0.0


def test_bounds_rise_with_right_guesses_and_fall_with_confidence_and_slack():
    rising = [one_run_epsilon(right, guesses=100, canaries=100) for right in range(50, 101, 10)]
    assert rising == sorted(rising)
    assert one_run_epsilon(80, guesses=100, canaries=100, confidence=0.99) < one_run_epsilon(80, guesses=100, canaries=100)
    assert one_run_epsilon(80, guesses=100, canaries=100, delta=1e-3) < one_run_epsilon(80, guesses=100, canaries=100)


def test_the_bound_is_where_the_chance_crosses_its_level():
    bound = one_run_epsilon(90, guesses=100, canaries=200, delta=1e-5, confidence=0.95)
    below, above = (
        chance_of_guesses(90, guesses=100, canaries=200, epsilon=bound + step, delta=1e-5) for step in (-1e-6, 1e-6)
    )
    assert below < 0.05 <= above


def test_the_bound_is_above_the_truth_at_most_as_often_as_stated():
    """Exact, for randomised response of each canary: the probability that so many right guesses prove too much."""
    guesses, truth = 200, 1.0
    chance = 1 / (1 + math.exp(-truth))
    wrong = sum(
        stats.binom.pmf(right, guesses, chance)
        for right in range(guesses + 1)
        if one_run_epsilon(right, guesses=guesses, canaries=guesses) > truth
    )
    assert 0.01 < wrong <= 0.05


def test_canaries_are_fair_coins_from_the_bits_that_are_given():
    first, again, other = (Canaries.draw(4000, bits=SeededBits(seed)) for seed in ("a", "a", "b"))
    assert np.array_equal(first.included, again.included)
    assert not np.array_equal(first.included, other.included)
    assert abs(first.included.mean() - 0.5) < 6 * 0.5 / math.sqrt(4000)


def test_guesses_are_about_the_highest_and_the_lowest_scores():
    canaries = Canaries(np.array([True, True, False, False, True, False]))
    scores = [0.9, 0.8, 0.1, 0.2, 0.5, 0.5]
    assert canaries.count_right(scores, guesses=4) == 4
    assert canaries.count_right(scores, guesses=2) == 2
    assert canaries.count_right([-score for score in scores], guesses=4) == 0
    assert canaries.count_right(scores, guesses=6) == 4  # ties go by position: the fifth is guessed out, the sixth in
    assert canaries.count_right(scores, guesses=1) == 1  # an odd guess is that a canary is in


@pytest.mark.parametrize("scores", [[1.0], [[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0, 3.0, math.nan]])
def test_scores_of_another_shape_or_missing_are_refused(scores):
    with pytest.raises(ht.InvalidParameter, match="4 numbers"):
        Canaries(np.ones(4, dtype=bool)).count_right(scores, guesses=2)


def test_more_guesses_than_canaries_are_refused():
    with pytest.raises(ht.InvalidParameter, match="at most the number of canaries, 4"):
        Canaries(np.ones(4, dtype=bool)).count_right([1, 2, 3, 4], guesses=5)

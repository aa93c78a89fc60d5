"""What a private pick is worth (B5, B6, P3, T5), by exact selection probabilities."""

import math

import numpy as np
import pytest

from holdtrue.bounds import learned
from holdtrue.bounds.selection import selection_probabilities
from holdtrue.bounds.transfer import gaussian_shift
from holdtrue.planning import plan_learning
from laws import generator


@pytest.mark.parametrize(("size", "rows", "epsilon"), [(2, 597, 1), (100, 1147, 1), (100, 2020, 0.1), (10_000, 7441, 0.5)])
def test_p3_one_class_without_a_handicap_is_the_planned_size(size, rows, epsilon):
    beta = 0.05 if size < 10_000 else 0.01
    found = learned.fixed_excess([size], handicaps=[0], place=0, rows=rows, epsilon=epsilon, beta=beta)
    assert found == pytest.approx(plan_learning(size=size, rows=rows, beta=beta, epsilon=epsilon).alpha, rel=0.01)


def failure(rng, *, sizes, handicaps, errors, rows, epsilon, alpha, runs=4000):
    """Return the probability that the pick errs by more than alpha above the best, over samples, by exact selection."""
    rates = np.repeat(errors, sizes)
    added = np.repeat(handicaps, sizes)
    bad = rates > rates.min() + alpha
    total = 0.0
    for _ in range(runs):
        counts = rng.binomial(rows, rates) + added
        total += selection_probabilities(-counts, rate=epsilon / 2)[bad].sum()
    return total / runs


@pytest.mark.parametrize("handicaps", [[0, 0], [0, 12], [30, 0]])
def test_p3_a_union_fails_no_more_often_than_beta(request, handicaps):
    """The worst case that the bound knows: all others just worse than alpha, the best in the class that is looked from."""
    rng, sizes, rows, epsilon, beta = generator(request), [3, 40], 900, 0.4, 0.1
    for place in range(2):
        alpha = learned.fixed_excess(sizes, handicaps=handicaps, place=place, rows=rows, epsilon=epsilon, beta=beta)
        assert 0 < alpha < 0.4
        errors = [0.3 + alpha * 1.001] * 2
        rates = np.repeat(errors, sizes)
        rates[0 if place == 0 else sizes[0]] = 0.3
        found = failure(
            rng, sizes=[1] * 43, handicaps=np.repeat(handicaps, sizes), errors=rates, rows=rows, epsilon=epsilon, alpha=alpha
        )
        assert found <= beta


def test_p3_too_small_an_excess_fails_more_often(request):
    """The control: at half of the certified excess the failures are many."""
    rng, rows, epsilon, beta = generator(request), 900, 0.4, 0.1
    alpha = learned.fixed_excess([43], handicaps=[0], place=0, rows=rows, epsilon=epsilon, beta=beta) / 2
    errors = [0.3] + [0.3 + alpha * 1.001] * 42
    found = failure(
        rng, sizes=[1] * 43, handicaps=[0] * 43, errors=errors, rows=rows, epsilon=epsilon, alpha=alpha, runs=500
    )
    assert found > 2 * beta


def test_b5_the_tail_behind_a_fixed_hypothesis_is_at_most_the_seen_size(request):
    """Pr[errors(pick) >= errors(h*) + s] <= N e^(-epsilon s / 2), on random counts with handicaps, exactly."""
    rng = generator(request)
    for _ in range(300):
        sizes = rng.integers(1, 6, 3).tolist()
        handicaps = rng.integers(0, 20, 3).tolist()
        epsilon = float(rng.choice([0.05, 0.3, 1.0]))
        counts = rng.integers(0, 60, sum(sizes))
        law = selection_probabilities(-(counts + np.repeat(handicaps, sizes)), rate=epsilon / 2)
        for place in range(3):
            star = sum(sizes[:place])
            seen = learned.seen_size(sizes, handicaps=handicaps, place=place, rate=epsilon / 2)
            for s in (1, 5, 20):
                tail = law[counts >= counts[star] + s].sum()
                assert tail <= seen * math.exp(-epsilon * s / 2) * (1 + 1e-12) + 1e-15


def test_t5_adaptive_rows_are_enough_and_needed():
    def gap(beta):
        return gaussian_shift(0.02, beta=beta).gamma

    seen, alpha = 10_000.0, 0.1
    rows = learned.adaptive_rows(seen, alpha=alpha, epsilon=0.2, beta=0.05, gap=gap)
    assert learned.adaptive_excess(seen, rows=rows, epsilon=0.2, beta=0.05, gap=gap) <= alpha
    assert learned.adaptive_excess(seen, rows=int(0.98 * rows), epsilon=0.2, beta=0.05, gap=gap) > alpha
    assert learned.adaptive_rows(seen, alpha=0.01, epsilon=0.2, beta=0.05, gap=gap) is None


def test_a_single_hypothesis_is_its_own_best():
    assert learned.seen_size([1], handicaps=[0], place=0, rate=0.5) == pytest.approx(0, abs=1e-9)
    assert learned.fixed_excess([1], handicaps=[0], place=0, rows=1, epsilon=1, beta=0.05) == 0
    assert learned.adaptive_excess(0.0, rows=1, epsilon=1, beta=0.05, gap=lambda _: 1.0) == 0

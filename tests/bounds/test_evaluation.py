"""Private evaluations and the threshold predictor (E18-E21, T13)."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from holdtrue.bounds import agnostic_prediction, generalization, prediction
from holdtrue.errors import InvalidParameter
from laws import generator


@pytest.fixture
def rng(request):
    return generator(request)


# E18 - E21


def test_e18_expectations_of_close_variables(rng):
    grid = np.arange(6) / 5
    for _ in range(10_000):
        p, q = rng.dirichlet(np.ones(6), 2)
        epsilon = rng.random()
        slack = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert p @ grid <= generalization.expectation_bound(float(q @ grid), epsilon=epsilon, delta=float(slack)) + 1e-12


def test_e19_a_loss_of_a_private_prediction_is_private_and_its_fresh_mean_is_the_populations(rng):
    losses = rng.random((2, 3))  # of each label, at each of three points
    for epsilon in (0.1, 0.5, 2.0):
        here, there = (prediction.vote_probabilities(votes, epsilon=epsilon) for votes in ([7, 3], [6, 4]))
        most = [generalization.expectation_bound(float(there @ each), epsilon=epsilon) for each in losses.T]
        assert np.all(here @ losses <= np.array(most))
        doubled = prediction.vote_probabilities([7, 3], epsilon=4 * epsilon)  # a prediction that costs more is caught
        assert np.abs(np.log(doubled / prediction.vote_probabilities([6, 4], epsilon=4 * epsilon))).max() > epsilon
    weights = rng.dirichlet(np.ones(3))
    fresh = [(np.prod(weights[list(s)]), losses[0, list(s)].mean()) for s in itertools.product(range(3), repeat=3)]
    assert sum(chance * mean for chance, mean in fresh) == pytest.approx(float(weights @ losses[0]))
    with pytest.raises(InvalidParameter):
        generalization.expectation_bound(0.1, epsilon=1, bound=0)


def test_e18_is_attained():
    assert generalization.expectation_bound(0.2, epsilon=0.3, delta=0.05) == pytest.approx(
        math.exp(0.3) * 0.2 + 0.05, rel=1e-12
    )


def enumerated_moments(rng):
    """Yield (epsilon, k, moment outside the sample, values inside) for random epsilon-DP tables, n = 2, three points."""
    samples = list(itertools.product(range(3), repeat=2))
    for _ in range(200):
        epsilon = float(rng.choice([0.1, 0.5, 1.0]))
        moves, base = rng.uniform(-0.5, 0.5, (3, 3)), rng.uniform(-3, -2, 3)
        table = np.array([np.exp(base + epsilon * moves[:, list(s)].sum(axis=1) - 1.5 * epsilon) for s in samples])
        inside = np.array([table[i, list(s)].mean() for i, s in enumerate(samples)])
        outside = np.array([[table[i, list(t)].mean() for t in samples] for i in range(9)])
        for k in (1, 2, 3):
            yield epsilon, k, float((outside**k).mean()), inside


def test_e20_moment_outside_is_never_above_the_bound(rng):
    checked = 0
    for epsilon, k, outside, inside in enumerated_moments(rng):
        bound = generalization.moment_bound(inside, weights=np.full(9, 1 / 9), order=k, epsilon=epsilon)
        assert outside <= bound * (1 + 1e-9)
        checked += 1
    assert checked == 600


@pytest.mark.parametrize(
    ("epsilon", "beta", "exponent"), [(0.1, 0.05, 1.0991), (0.01, 0.01, 0.4293), (2, 0.05, 4.9957), (1, 0.9, 1.1054)]
)
def test_e21_exponents(epsilon, beta, exponent):
    found, k = generalization.evaluation_exponent(epsilon, beta=beta)
    assert found == pytest.approx(exponent, abs=1e-4)
    assert found == pytest.approx(min(j * epsilon + math.log(1 / beta) / j for j in range(1, 2000)), rel=1e-9)
    bound = generalization.population_bound(0.01, epsilon=epsilon, beta=beta)
    assert (bound.order, bound.bound) == (k, pytest.approx(0.01 * math.exp(found), rel=1e-9))


def test_e21_least_over_whole_k_with_delta():
    found = generalization.population_bound(0.01, epsilon=0.01, beta=0.01, delta=0.001, bound=2)
    least = min(math.exp(k * 0.01 + math.log(100) / k) * (0.01 + k * 0.002) for k in range(1, 500))
    assert found.bound == pytest.approx(least, rel=1e-9)
    with pytest.raises(InvalidParameter, match="alpha"):
        generalization.population_bound(0, epsilon=1, beta=0.1)
    with pytest.raises(InvalidParameter, match="bound"):
        generalization.population_bound(0.1, epsilon=1, beta=0.1, bound=0)


# T13


def brute_errors(points, labels, at, top):
    """Return E_0 and E_1 at a point by trying every threshold."""
    least = {0: len(points) + 1, 1: len(points) + 1}
    for t in range(top + 2):
        errors = sum((x >= t) != y for x, y in zip(points, labels, strict=True))
        side = int(at >= t)
        least[side] = min(least[side], errors)
    return least[0], least[1]


def test_t13_sensitivity_is_one_by_brute_force_over_all_small_samples():
    top = 3
    worst = 0
    for n in (1, 2, 3):
        rows = list(itertools.product(itertools.product(range(top + 1), (0, 1)), repeat=n))
        found = {}
        for sample in rows:
            points, labels = zip(*sample, strict=True)
            zero, one = agnostic_prediction.constrained_errors(points, labels, at=range(top + 1))
            brute = [brute_errors(points, labels, at, top) for at in range(top + 1)]
            assert list(zip(zero, one, strict=True)) == brute
            found[sample] = zero - one
        for sample in rows:
            for other in itertools.product(range(top + 1), (0, 1)):
                worst = max(worst, np.abs(found[sample] - found[(other, *sample[1:])]).max())
    assert worst == 2


def test_t13_sensitivity_on_random_samples_of_up_to_six(rng):
    for _ in range(1500):
        n = rng.integers(2, 7)
        points, labels = rng.integers(0, 6, n), rng.integers(0, 2, n)
        i = rng.integers(0, n)
        others, flipped = points.copy(), labels.copy()
        others[i], flipped[i] = rng.integers(0, 6), rng.integers(0, 2)
        here, there = (
            agnostic_prediction.constrained_errors(x, y, at=range(6)) for x, y in ((points, labels), (others, flipped))
        )
        assert np.abs(here[0] - there[0]).max() <= 1
        assert np.abs(here[1] - there[1]).max() <= 1
        assert [brute_errors(points, labels, at, 5) for at in range(6)] == list(zip(*here, strict=True))


def test_t13_points_between_the_rows():
    zero, one = agnostic_prediction.constrained_errors([1.0, 2.0, 3.0], [0, 1, 1], at=[0.0, 1.5, 2.5, 9.0])
    assert zero.tolist() == [0, 0, 1, 2]
    assert one.tolist() == [1, 0, 0, 0]


def test_t13_response_rises_and_its_excess_is_within_the_bound_on_800_samples(rng):
    closest = 0.0
    for n, epsilon, noise in [(200, 0.2, 0.1), (200, 0.2, 0.4), (1000, 0.1, 0.3), (1000, 1.0, 0.45)]:
        bound = agnostic_prediction.threshold_excess(n, epsilon=epsilon)
        assert bound <= 4 * math.log(2) / (epsilon * n) * (1 + 1e-12)
        for _ in range(200):
            points = np.sort(rng.integers(0, 400, n))
            labels = (points >= 200) ^ (rng.random(n) < noise)
            one = agnostic_prediction.threshold_probabilities(points, labels, at=points, epsilon=epsilon)
            assert np.diff(one).min() >= -1e-12
            zeros, ones = agnostic_prediction.constrained_errors(points, labels, at=points)
            best = min(zeros.min(), ones.min())
            excess = (np.where(labels, 1 - one, one).sum() - best) / n
            closest = max(closest, excess / bound)
            assert excess <= bound + 1e-12
    assert closest > 0.9


def test_t13_excess_is_the_series():
    series = 2 / 200 * sum(1 / (1 + math.exp(0.1 * g)) for g in range(1, 5000))
    assert agnostic_prediction.threshold_excess(200, epsilon=0.2) == pytest.approx(series, rel=1e-9)
    assert agnostic_prediction.threshold_excess(200, epsilon=0.2) == pytest.approx(0.06684, abs=1e-5)
    assert agnostic_prediction.threshold_excess(10, epsilon=1e-9) == pytest.approx(4 * math.log(2) / 1e-8, rel=1e-6)
    assert agnostic_prediction.threshold_excess(10, epsilon=100) == pytest.approx(0.2 * math.exp(-50), rel=1e-6)


def test_t13_realizable_error_in_simulation(rng):
    n, epsilon, errors = 400, 0.5, []
    grid = (np.arange(2000) + 0.5) / 2000
    for _ in range(200):
        points = np.sort(rng.random(n))
        distance = np.abs(np.searchsorted(points, grid) - np.searchsorted(points, 0.37))
        errors.append(special.expit(-epsilon * distance / 2).mean())
    bound = agnostic_prediction.threshold_realizable_error(n, epsilon=epsilon)
    assert bound == pytest.approx(0.0226, abs=1e-4)
    assert np.mean(errors) == pytest.approx(0.0149, abs=3e-4)
    assert np.mean(errors) <= bound


def test_t13_population_excess_and_rate():
    assert agnostic_prediction.threshold_population_excess(10**4, epsilon=0.1, beta=0.05) == pytest.approx(
        agnostic_prediction.threshold_excess(10**4, epsilon=0.1) + 4 * math.sqrt(math.log(80) / 20_000), rel=1e-9
    )
    assert agnostic_prediction.threshold_rate(1) == pytest.approx(0.5)
    assert agnostic_prediction.threshold_rate(1, tolerance=1) == pytest.approx(0.25)

"""A1-A4, A6, E2, E17, E18: distances of discrete laws, and what the lectures print wrongly about them."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from holdtrue import events
from holdtrue.accounting import event_privacy
from holdtrue.accounting.conversions import bounded_range_tv, private_tv
from holdtrue.accounting.divergences import (
    approximate_max_divergence,
    hockey_stick,
    max_divergence,
    total_variation,
)
from holdtrue.errors import InvalidParameter

EPSILONS = [0.01, 0.1, 0.5, 1.0, 2.0, 3.0]
ANY_EVENT = [
    events.GaussianNoise(0.7),
    events.DiscreteLaplace(1.3, 1),
    events.DiscreteLaplace(1.3, 5),
    events.BoundedRange(2),
    events.Pure(0.4),
    events.Approximate(0.4, 0.01),
    events.ZeroConcentrated(0.3),
    events.DiscreteGaussian(2, 1),
]


def flipped_bit(epsilon):
    keep = 1 / (1 + math.exp(-epsilon))
    return [keep, 1 - keep], [1 - keep, keep]


def random_pair(rng, size):
    return rng.dirichlet(np.full(size, 0.7)), rng.dirichlet(np.full(size, 0.7))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a1_a6_randomised_response_attains_the_tangent(epsilon):
    exact = total_variation(*flipped_bit(epsilon))
    assert exact == pytest.approx(math.tanh(epsilon / 2), abs=1e-12)
    assert private_tv(epsilon) == pytest.approx(exact, abs=1e-12)
    assert private_tv(epsilon) >= exact * (1 - 1e-15)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.3])
def test_a6_with_delta_is_attained(epsilon, delta):
    stay, leave = flipped_bit(epsilon)
    p = [delta, 0.0, *((1 - delta) * np.array(stay))]
    q = [0.0, delta, *((1 - delta) * np.array(leave))]
    assert hockey_stick(p, q, epsilon=epsilon) == pytest.approx(delta, rel=1e-9)
    assert private_tv(epsilon, delta=delta) == pytest.approx(total_variation(p, q), abs=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a6_bounded_range_is_attained_by_two_losses(epsilon):
    # Losses epsilon / 2 and -epsilon / 2: the two-point pair with log-odds ratio epsilon.
    high = 1 / (1 + math.exp(-epsilon / 2))
    exact = total_variation([high, 1 - high], [1 - high, high])
    assert bounded_range_tv(epsilon) == pytest.approx(exact, abs=1e-12)
    assert event_privacy.tv(events.BoundedRange(epsilon)) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_erratum_9_the_printed_bound_is_valid_but_can_exceed_one(epsilon):
    printed = math.expm1(epsilon) / 2
    laplace = -math.expm1(-epsilon / 2)
    assert laplace <= private_tv(epsilon) <= min(1.0, printed)
    assert (printed > 1) == (epsilon > math.log(3))


def test_a2_gaussian_total_variation_by_integration():
    for rows, sigma in [(100, 0.01), (10, 0.01), (1000, 0.002)]:
        mu = 1 / (rows * sigma)
        numeric, _ = integrate.quad(lambda x, mu=mu: abs(stats.norm.pdf(x) - stats.norm.pdf(x - mu)) / 2, -40, 60, limit=500)
        exact = event_privacy.tv(events.GaussianNoise(mu))
        assert exact == pytest.approx(special.erf(mu / (2 * math.sqrt(2))), abs=1e-12)
        assert exact == pytest.approx(numeric, abs=1e-6)
    assert event_privacy.tv(events.GaussianNoise(1)) == pytest.approx(0.382925, abs=1e-6)


def test_a2_gaussian_total_variation_by_simulation(rng):
    draws = rng.normal(size=(2, 10**6))
    frequency = (draws[0] > -0.5).mean() - (draws[1] > 0.5).mean()
    assert frequency == pytest.approx(event_privacy.tv(events.GaussianNoise(1)), abs=5e-3)


def test_erratum_6_the_printed_gaussian_bound_can_exceed_one_and_ours_does_not():
    for rows, sigma in [(100, 0.01), (10, 0.01)]:
        printed = 1 / (math.sqrt(2 * math.pi) * rows * sigma)
        assert event_privacy.tv(events.GaussianNoise(1 / (rows * sigma))) <= min(1.0, printed)
    assert printed == pytest.approx(3.989, abs=1e-3)


def test_a3_max_divergence():
    assert max_divergence([0.5, 0.5], [0.5, 0.5]) == 0
    assert max_divergence([1, 0], [0.5, 0.5]) == math.inf
    assert max_divergence(*flipped_bit(1.0)) == pytest.approx(1.0, abs=1e-12)


def test_erratum_7_events_that_cannot_happen_are_skipped():
    # As printed, the third outcome is 0 / 0 and two equal laws would have no distance at all.
    with np.errstate(invalid="ignore", divide="ignore"):
        printed = np.abs(np.log(np.array([0.5, 0.5, 0.0]) / np.array([0.5, 0.5, 0.0]))).max()
    assert math.isnan(printed)
    assert max_divergence([0.5, 0.5, 0.0], [0.5, 0.5, 0.0]) == 0
    assert max_divergence([*flipped_bit(1.0)[0], 0.0], [*flipped_bit(1.0)[1], 0.0]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("event", ANY_EVENT, ids=str)
def test_a4_delta_falls_from_total_variation(event):
    values = [event_privacy.delta(event, epsilon) for epsilon in np.linspace(0, 4, 50)]
    if isinstance(event, events.ZeroConcentrated | events.DiscreteGaussian):  # what rho says of it may be less (V6.4)
        assert event_privacy.tv(event) <= values[0]
    else:
        assert values[0] == event_privacy.tv(event)
    assert all(0 <= later <= earlier <= 1 for earlier, later in itertools.pairwise(values))


def test_e2_is_the_inverse_of_the_hockey_stick(rng):
    for _ in range(100):
        p, q = random_pair(rng, 4)
        delta = rng.uniform(0, 0.3)
        epsilon = approximate_max_divergence(p, q, delta=delta)
        assert hockey_stick(p, q, epsilon=epsilon) == pytest.approx(delta, abs=1e-12)
        assert hockey_stick(p, q, epsilon=epsilon - 1e-6) > delta


def test_e2_without_slack_is_the_max_divergence(rng):
    for _ in range(50):
        p, q = random_pair(rng, 5)
        both = max(approximate_max_divergence(p, q, delta=0), approximate_max_divergence(q, p, delta=0))
        assert both == pytest.approx(max_divergence(p, q), rel=1e-12)
    assert approximate_max_divergence([0.9, 0.1], [1.0, 0.0], delta=0.05) == math.inf
    assert approximate_max_divergence([0.9, 0.1], [1.0, 0.0], delta=0.1) == pytest.approx(math.log(0.9), abs=1e-12)


def test_erratum_10_the_slack_is_delta_and_not_a_failure_probability(rng):
    # Titled "beta-approximate", the definition invites the accuracy's beta: what it then gives is not (epsilon, delta)-DP.
    delta, beta = 1e-3, 0.05
    for _ in range(50):
        p, q = random_pair(rng, 4)
        printed = approximate_max_divergence(p, q, delta=beta)
        right = approximate_max_divergence(p, q, delta=delta)
        assert hockey_stick(p, q, epsilon=printed) > delta
        assert hockey_stick(p, q, epsilon=right) <= delta + 1e-12


def test_e17_post_processing_never_raises_delta(rng):
    for _ in range(200):
        channel = rng.dirichlet(np.ones(4), size=2)
        after = channel @ rng.dirichlet(np.full(4, 0.5), size=4)
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
            before = hockey_stick(channel[0], channel[1], epsilon=epsilon)
            assert hockey_stick(after[0], after[1], epsilon=epsilon) <= before + 1e-12


def test_e17_products_of_pure_pairs_add_up(rng):
    for _ in range(200):
        first, second = rng.dirichlet(np.ones(4), size=2), rng.dirichlet(np.ones(4), size=2)
        total = max_divergence(*first) + max_divergence(*second)
        joint = [np.outer(a, b) for a, b in zip(first, second, strict=True)]
        assert hockey_stick(joint[0], joint[1], epsilon=total) <= 1e-12
        assert max_divergence(joint[0], joint[1]) <= total + 1e-12


def test_e18_expectations_of_bounded_values(rng):
    grid = np.linspace(0, 3.0, 6)
    for _ in range(10**4):
        p, q = random_pair(rng, 6)
        epsilon = rng.uniform(0, 2)
        delta = hockey_stick(p, q, epsilon=epsilon)
        assert float(p @ grid) <= math.exp(epsilon) * float(q @ grid) + delta * 3.0 + 1e-12


def test_e18_is_attained():
    epsilon, delta, q = 0.5, 0.1, 0.3
    p = math.exp(epsilon) * q + delta
    assert hockey_stick([p, 1 - p], [q, 1 - q], epsilon=epsilon) == pytest.approx(delta, abs=1e-12)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.5], [1.0]),
        ([0.5, 0.6], [0.5, 0.5]),
        ([-0.5, 1.5], [0.5, 0.5]),
        ([math.nan, 1.0], [0.5, 0.5]),
        ([], []),
        ([True, False], [True, False]),
        ([[0.5], [0.2, 0.3]], [0.5, 0.5]),
    ],
)
def test_what_is_no_pair_of_laws_is_refused(p, q):
    with pytest.raises(InvalidParameter):
        total_variation(p, q)


def test_slack_outside_its_range_is_refused():
    for delta in (-0.1, 1.0, math.nan, True):
        with pytest.raises(InvalidParameter, match="delta"):
            approximate_max_divergence([0.5, 0.5], [0.5, 0.5], delta=delta)

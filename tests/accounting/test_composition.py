"""D3, T1, T3: what many events cost together, with the numbers of the theory and dp_accounting beside."""

import itertools
import logging
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import special

import holdtrue as ht
from holdtrue import events
from holdtrue.accounting import event_privacy
from holdtrue.accounting.composition import (
    Bound,
    advanced_epsilon,
    basic_epsilon,
    compose,
    count_events,
    optimal_delta,
    optimal_epsilon,
)
from holdtrue.accounting.conversions import zero_concentrated_epsilon, zero_concentrated_epsilon_simple
from holdtrue.accounting.filters import GaussianFilter, PureFilter, ZeroConcentratedFilter
from holdtrue.accounting.purses import counted_mixture
from holdtrue.errors import InvalidParameter
from holdtrue.events import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianNoise,
    NoCost,
    NonPrivate,
    Pure,
    Repeated,
    ZeroConcentrated,
)

FINE = 2**20
# times, epsilon | basic, DRV, zCDP simple, zCDP CKS, Laplace rho with CKS, optimal, Laplace PLD, bounded range with CKS
TABLE = [
    (10, 0.1, 1.000, 1.767, 1.712, 1.472, 1.446, 0.999, 0.999, 0.700),
    (100, 0.1, 10, 6.308, 5.757, 5.222, 5.125, 4.775, 4.693, 2.419),
    (100, 0.01, 1, 0.536, 0.531, 0.430, 0.429, 0.392, 0.391, 0.206),
    (1000, 0.01, 10, 1.763, 1.712, 1.472, 1.469, 1.365, 1.363, 0.700),
    (1000, 0.1, 100, 27.14, 21.623, 20.552, 20.127, 19.345, 18.95, 8.846),
    (10, 1.0, 10, 33.805, 21.623, 20.552, 16.954, 10.0, 9.999, 8.846),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}x{row[1]}")
def test_t1_table(row):
    times, epsilon, summed, drv, simple, cks, laplace, kov, spectral, ranged = row
    delta = 1e-6
    rho = times * epsilon**2 / 2
    assert basic_epsilon([epsilon] * times) == pytest.approx(summed, abs=2e-3)
    assert advanced_epsilon(epsilon, times=times, delta=delta, lecture=True) == pytest.approx(drv, abs=1e-3)
    assert zero_concentrated_epsilon_simple(rho, delta=delta) == pytest.approx(simple, abs=2e-3)
    assert zero_concentrated_epsilon(rho, delta=delta) == pytest.approx(cks, abs=2e-3)
    continuous = times * (epsilon + math.expm1(-epsilon))
    assert zero_concentrated_epsilon(continuous, delta=delta) == pytest.approx(laplace, abs=2e-3)
    assert optimal_epsilon(epsilon, times=times, delta=delta) == pytest.approx(kov, abs=2e-3)
    assert zero_concentrated_epsilon(rho / 4, delta=delta) == pytest.approx(ranged, abs=2e-3)
    found = compose([DiscreteLaplace(epsilon, FINE)] * times, delta=delta)
    assert found.method == "pld"
    assert found.epsilon == pytest.approx(spectral, abs=1e-3)
    assert found.epsilon <= optimal_epsilon(epsilon, times=times, delta=delta)
    assert optimal_epsilon(epsilon, times=times, delta=delta) <= min(
        basic_epsilon([epsilon] * times), advanced_epsilon(epsilon, times=times, delta=delta)
    )


def test_t1_gaussian_line():
    bound = compose([GaussianNoise(0.25)] * 16, delta=1e-6)
    assert bound == Bound(bound.epsilon, 1e-6, "gdp")
    assert bound.epsilon == pytest.approx(4.88655, abs=1e-5)
    assert compose([ZeroConcentrated(0.5)], delta=1e-6).epsilon == pytest.approx(5.22153, abs=1e-4)
    theirs = pld.from_gaussian_mechanism(4.0).self_compose(16).get_epsilon_for_delta(1e-6)
    assert bound.epsilon == pytest.approx(theirs, abs=1e-5)


def test_t1_optimal_composition_has_its_closed_form():
    times, epsilon = 10, 0.3
    for i in (1, 2, 3, 5):
        terms = [
            special.comb(times, j) * (math.exp((times - j) * epsilon) - math.exp((times - 2 * i + j) * epsilon))
            for j in range(i)
        ]
        exact = sum(terms) / (1 + math.exp(epsilon)) ** times
        assert optimal_delta(epsilon, times=times, at=(times - 2 * i) * epsilon) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize(("times", "epsilon"), [(1, 1.0), (7, 0.3), (60, 0.2), (2000, 0.03), (100_000, 0.001)])
def test_t1_optimal_delta_is_never_too_small(times, epsilon):
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        p = 1 / (1 + mpmath.exp(e))
        for at in (0.0, 0.3 * min(1, times * epsilon), 0.9 * min(2, times * epsilon)):
            spread = 12 * math.sqrt(times) + 12
            centre = times / (1 + math.exp(epsilon))
            flips = range(max(0, int(centre - spread)), min(times, int(centre + spread)) + 1)
            exact = mpmath.fsum(
                mpmath.binomial(times, j) * p**j * (1 - p) ** (times - j) * (1 - mpmath.exp(at - (times - 2 * j) * e))
                for j in flips
                if (times - 2 * j) * epsilon > at
            )
            assert exact <= optimal_delta(epsilon, times=times, at=at) <= exact * (1 + mpmath.mpf(1e-8)) + 1e-300


def test_d3_lies_above_the_optimum_on_a_grid():
    for epsilon in np.geomspace(0.01, 1, 20):
        for times in np.unique(np.geomspace(2, 1000, 20).astype(int)):
            best = optimal_epsilon(epsilon, times=int(times), delta=1e-6)
            sharper = advanced_epsilon(epsilon, times=int(times), delta=1e-6)
            assert best <= sharper <= advanced_epsilon(epsilon, times=int(times), delta=1e-6, lecture=True)


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan])
def test_d3_refuses_bad_delta(delta):
    with pytest.raises(InvalidParameter, match="delta"):
        advanced_epsilon(0.1, times=10, delta=delta)


@pytest.mark.parametrize(("times", "epsilon", "delta"), [(1, 1, 1e-6), (30, 0.2, 1e-9), (3, 2, 0.1), (5000, 0.01, 1e-5)])
def test_pure_events_reach_the_optimum(times, epsilon, delta):
    bound = compose([Pure(epsilon)] * times, delta=delta)
    assert bound.epsilon <= optimal_epsilon(epsilon, times=times, delta=delta)


def test_different_pure_events_reach_the_optimum(rng):
    for _ in range(20):
        epsilons = rng.uniform(0.05, 1.5, size=10)
        signs = np.array(list(itertools.product([1, -1], repeat=10)))
        losses = signs @ epsilons
        masses = np.exp(np.sum(-np.log1p(np.exp(-signs * epsilons)), axis=1))
        bound = compose([Pure(epsilon) for epsilon in epsilons], delta=1e-4)
        exact = float(masses @ np.maximum(0, -np.expm1(bound.epsilon - losses)))
        assert exact == pytest.approx(1e-4, rel=1e-9)
        assert exact <= 1e-4


def frozen_list(rng):
    """Return events with parameters fixed in advance, and dp_accounting's two estimates of each."""
    listed, theirs = [], []
    for _ in range(rng.integers(1, 4)):
        times = int(rng.integers(1, 16))
        epsilon = float(rng.choice([0.05, 0.1, 0.3, 0.7, 1.5]) * rng.uniform(0.9, 1.1))
        kind = rng.integers(5)
        if kind == 0:
            event, law = (
                Pure(epsilon),
                lambda up, e=epsilon: pld.from_randomized_response(
                    2 / (1 + math.exp(e)), 2, pessimistic_estimate=up, value_discretization_interval=2e-3
                ),
            )
        elif kind == 1:
            width = int(rng.choice([1, 2, 5, 40]))
            event, law = (
                DiscreteLaplace(epsilon, width),
                lambda up, e=epsilon, w=width: pld.from_discrete_laplace_mechanism(
                    e / w, sensitivity=w, pessimistic_estimate=up, value_discretization_interval=2e-3
                ),
            )
        elif kind == 2:
            event, law = (
                DiscreteLaplace(epsilon, FINE),
                lambda up, e=epsilon: pld.from_laplace_mechanism(
                    1 / e, pessimistic_estimate=up, value_discretization_interval=2e-3
                ),
            )
        elif kind == 3:
            event, law = (
                GaussianNoise(epsilon),
                lambda up, e=epsilon: pld.from_gaussian_mechanism(
                    1 / e, pessimistic_estimate=up, value_discretization_interval=2e-3
                ),
            )
        else:
            sigma = float(rng.uniform(1, 4) / epsilon)
            event, law = (
                DiscreteGaussian(sigma, 1),
                lambda up, s=sigma: pld.from_discrete_gaussian_mechanism(
                    s, pessimistic_estimate=up, value_discretization_interval=2e-3
                ),
            )
        listed.append(Repeated(event, times))
        theirs.append((law, times))
    return listed, theirs


def their_epsilon(laws, delta, *, pessimistic):
    total = None
    for law, times in laws:
        one = law(pessimistic)
        one = one.self_compose(times) if times > 1 else one
        total = one if total is None else total.compose(one)
    return total.get_epsilon_for_delta(delta)


@pytest.mark.parametrize("part", range(4))
def test_compose_lies_between_dp_accountings_estimates(rng, part):
    del part
    logging.getLogger().setLevel(logging.ERROR)
    for _ in range(50):
        listed, laws = frozen_list(rng)
        delta = float(10 ** rng.uniform(-9, -3))
        ours = compose(listed, delta=delta).epsilon
        # Their discrete Laplace is the continuous one in the limit, off by less than the slack at width 2^20.
        assert their_epsilon(laws, delta, pessimistic=False) <= ours * (1 + 1e-9)
        assert ours <= their_epsilon(laws, delta, pessimistic=True) * (1 + 1e-3)


@pytest.mark.parametrize(
    "event",
    [
        Pure(0.001),
        DiscreteLaplace(0.001, 1),
        DiscreteLaplace(0.001, FINE),
        BoundedRange(0.001),
        GaussianNoise(0.003),
        DiscreteGaussian(200, 1),
        Approximate(0.001, 1e-13),
        ZeroConcentrated(1e-7),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_hundred_thousand_events_of_one_kind_are_composed_as_one_group(event):
    """Their time is measured by `make bench NAME=accounting`; here, that the work does not grow with their number."""
    assert count_events([event] * 10**5) == {event: 10**5}
    assert compose([event] * 10**5, delta=1e-6) == compose([Repeated(event, 10**5)], delta=1e-6)


def test_equal_events_are_counted_however_they_are_written():
    single = compose([Pure(0.1)] * 30, delta=1e-6)
    assert compose([Repeated(Pure(0.1), 30)], delta=1e-6) == single
    assert compose([Composed([Repeated(Pure(0.1), 10), Pure(0.1)]), *(Pure(0.1) for _ in range(19))], delta=1e-6) == single
    assert compose(Repeated(Pure(0.1), 30), delta=1e-6) == single
    assert compose(iter([Pure(0.1), NoCost()] * 30), delta=1e-6) == single
    assert count_events([Composed([Repeated(Composed([Pure(1), NoCost()]), 3)]), Pure(1)]) == {Pure(1): 4, NoCost(): 3}


def test_no_guarantee_and_no_cost_compose():
    assert compose([Pure(1), NonPrivate()], delta=0.1) == Bound(math.inf, 0.1, "none")
    assert compose([NoCost()] * 5, delta=0) == Bound(0.0, 0.0, "basic")
    assert compose([], delta=0) == Bound(0.0, 0.0, "basic")


def test_failure_probabilities_are_taken_off_delta():
    assert compose([Approximate(1, 1e-6)], delta=1e-6) == Bound(1.0, 1e-6, "basic")
    assert compose([Approximate(1, 1e-6)] * 2, delta=1e-6).epsilon == math.inf
    both = compose([Approximate(0.1, 1e-8)] * 50, delta=1e-6)
    assert both.epsilon == pytest.approx(compose([Pure(0.1)] * 50, delta=5e-7).epsilon, rel=1e-6)
    theirs = pld.from_privacy_parameters(ht_parameters(0.1, 1e-8), value_discretization_interval=1e-4).self_compose(50)
    assert both.epsilon <= theirs.get_epsilon_for_delta(1e-6) * (1 + 1e-6)
    assert compose([Approximate(0, 1e-8)] * 3, delta=1e-6).epsilon == 0


def ht_parameters(epsilon, delta):
    from dp_accounting.pld import common

    return common.DifferentialPrivacyParameters(epsilon, delta)


def test_without_delta_only_the_sum_holds():
    assert compose([Pure(1), BoundedRange(0.5), DiscreteLaplace(0.25, 3)], delta=0) == Bound(1.75, 0.0, "basic")
    with pytest.raises(InvalidParameter, match="Gaussian noise needs delta > 0"):
        compose([Pure(1), GaussianNoise(1)], delta=0)
    assert compose([ZeroConcentrated(1)], delta=0).epsilon == math.inf


def test_t3_adaptive_parameters_use_filters_only(rng):
    for _ in range(50):
        listed = [Pure(float(rng.uniform(0.01, 0.5))) for _ in range(20)]
        found = compose(listed, delta=1e-6, adaptive=True)
        assert found.method in {"pure", "zcdp", "gdp"}
        assert found.epsilon >= compose(listed, delta=1e-6).epsilon
    assert compose([GaussianNoise(0.3), GaussianNoise(0.4)], delta=1e-6, adaptive=True) == compose(
        [GaussianNoise(0.5)], delta=1e-6
    )
    assert compose([GaussianNoise(0.3), DiscreteGaussian(10)], delta=1e-6, adaptive=True).method == "zcdp"
    assert compose([Pure(0.5), Approximate(0.5, 1e-7)], delta=1e-6, adaptive=True) == Bound(1.0, 1e-6, "pure")
    assert compose([Approximate(0.5, 1e-5)], delta=1e-6, adaptive=True).epsilon == math.inf


def test_bounded_range_events_gain_over_pure_ones():
    for times, epsilon in [(1, 1), (5, 0.5), (100, 0.1)]:
        ranged = compose([BoundedRange(epsilon)] * times, delta=1e-6).epsilon
        assert ranged <= compose([Pure(epsilon)] * times, delta=1e-6).epsilon
    assert compose([BoundedRange(0.1)] * 100, delta=1e-6).epsilon == pytest.approx(2.419, abs=2e-3)


def test_one_event_alone_has_its_own_curve():
    for event in (
        ht.Laplace(epsilon=1).event,
        ht.Laplace(epsilon=1, sensitivity=7).event,
        BoundedRange(1),
        GaussianNoise(0.4),
    ):
        for delta in (1e-9, 1e-4, 0.05):
            exact = event_privacy.epsilon(event, delta)
            assert compose([event], delta=delta).epsilon == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("bad", [-0.1, 1, math.nan, True, "1e-6", None])
def test_delta_outside_its_range_is_refused(bad):
    with pytest.raises(InvalidParameter, match="delta"):
        compose([Pure(1)], delta=bad)


@pytest.mark.parametrize("bad", [[1], ["Pure"], [Pure(1), None], [ht.Laplace(epsilon=1)]])
def test_what_is_no_event_is_refused(bad):
    with pytest.raises(InvalidParameter, match="events"):
        compose(bad, delta=1e-6)


# V6.4


@pytest.mark.parametrize(("mu", "expected"), [(0.1, 0.03988), (0.5, 0.19741), (1, 0.38292)])
def test_v6_4_total_variation_of_a_composition_in_mu_and_rho(mu, expected):
    single = compose([events.GaussianNoise(mu)], delta=1e-6)
    assert single.tv == pytest.approx(expected, abs=5e-6)
    assert GaussianFilter.of(mu).tv == pytest.approx(expected, abs=5e-6)
    assert compose([events.GaussianNoise(mu / 2)] * 4, delta=1e-6, adaptive=True).tv == pytest.approx(expected, abs=5e-6)
    rho = mu * mu / 2
    assert compose([events.ZeroConcentrated(rho)], delta=1e-6).tv == pytest.approx(mu / 2, abs=1e-9)
    assert ZeroConcentratedFilter.of(rho).tv == pytest.approx(min(mu / 2, math.sqrt(-math.expm1(-rho))), abs=1e-9)


def test_v6_4_total_variation_of_draws_of_bounded_range():
    exact, by_mu = (0.2449, 0.3034, 0.3600, 0.4047), (0.2449, 0.3409, 0.4110, 0.4673)
    for times, (least, most) in enumerate(zip(exact, by_mu, strict=True), start=1):
        draws = [events.BoundedRange(1)] * times
        assert least - 1e-4 <= compose(draws, delta=1e-6).tv <= least + 6e-4
        assert compose(draws, delta=1e-6, adaptive=True).tv == pytest.approx(most, abs=5e-5)


def test_v6_4_total_variation_of_other_events():
    assert compose([events.Pure(1)], delta=1e-6).tv == pytest.approx(math.tanh(0.5), abs=1e-12)
    assert PureFilter.of(1).tv == pytest.approx(math.tanh(0.5), abs=1e-12)
    together = (math.exp(2) - 1 + 2 * 0.02) / (math.exp(2) + 1)
    assert compose([events.Approximate(1, 0.01)] * 2, delta=0.1).tv == pytest.approx(together, abs=1e-9)
    assert compose([], delta=0).tv == 0
    assert compose([events.NonPrivate(), events.Pure(1)], delta=0).tv == 1
    mixed = compose([events.GaussianNoise(0.3), events.BoundedRange(0.5)], delta=1e-6)
    assert mixed.tv == pytest.approx(counted_mixture(0.5, 1, 0.3, 0.0))

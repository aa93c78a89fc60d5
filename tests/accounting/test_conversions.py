"""A7, E3, T2, T2b and 0.2: from one guarantee to another, with the numbers of the theory."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy import special

from holdtrue import events
from holdtrue.accounting import closed_forms, event_privacy
from holdtrue.accounting.conversions import (
    gaussian_mu,
    gaussian_sigma,
    group_delta,
    group_event,
    replace_one,
    zero_concentrated_epsilon,
    zero_concentrated_epsilon_simple,
)
from holdtrue.accounting.filters import largest_cap
from holdtrue.errors import InvalidParameter, PreconditionError
from holdtrue.exact import amount

CALIBRATIONS = [(1, 0.1, 1e-5, 30.75), (1, 1, 1e-5, 3.7306), (1, 5, 1e-5, 0.89187), (0.01, 1, 1e-6, 0.042247)]


def gaussian_delta(epsilon, mu):
    """The formula of A7 in fifty digits."""
    with mpmath.workdps(50):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(("sensitivity", "epsilon", "delta", "expected"), CALIBRATIONS)
def test_a7_calibration(sensitivity, epsilon, delta, expected):
    sigma = gaussian_sigma(epsilon, delta=delta, sensitivity=sensitivity)
    assert sigma == pytest.approx(expected, rel=1e-4)
    achieved = gaussian_delta(epsilon, Fraction(sensitivity) / Fraction(sigma))
    assert achieved <= delta
    assert abs(achieved - delta) <= 1e-9 * delta + 1e-15


@pytest.mark.parametrize(("sensitivity", "epsilon", "delta", "_expected"), CALIBRATIONS)
def test_a7_agrees_with_dp_accounting(sensitivity, epsilon, delta, _expected):
    sigma = gaussian_sigma(epsilon, delta=delta, sensitivity=sensitivity)
    theirs = privacy_loss_distribution.from_gaussian_mechanism(sigma, sensitivity=sensitivity).get_epsilon_for_delta(delta)
    assert theirs == pytest.approx(epsilon, abs=1e-4)


def test_a7_is_never_too_little_noise(rng):
    for _ in range(200):
        epsilon, delta = float(10 ** rng.uniform(-3, 1.3)), float(10 ** rng.uniform(-12, -0.5))
        mu = gaussian_mu(epsilon, delta=delta)
        assert gaussian_delta(epsilon, mu) <= delta
        assert gaussian_delta(epsilon, mu * (1 + 1e-6)) > delta


def test_erratum_15_the_printed_variance_has_too_little_noise():
    for sensitivity, epsilon, delta, true in [(1, 0.1, 1e-5, 7.1e-3), (100, 1, 1e-6, 0.72)]:
        printed = math.sqrt(sensitivity * math.log(1 / delta) / epsilon)
        achieved = gaussian_delta(epsilon, sensitivity / printed)
        assert float(achieved) == pytest.approx(true, rel=0.02)
        assert achieved > 100 * delta
        assert gaussian_delta(epsilon, sensitivity / gaussian_sigma(epsilon, delta=delta, sensitivity=sensitivity)) <= delta
    over = math.sqrt(0.01 * math.log(1e6)) / gaussian_sigma(1, delta=1e-6, sensitivity=0.01)
    assert over == pytest.approx(8.8, abs=0.05)


def test_a7_the_textbook_formula_fails_for_large_epsilon():
    classical = math.sqrt(2 * math.log(1.25 / 1e-5)) / 10
    assert float(gaussian_delta(10, 1 / classical)) == pytest.approx(2.27e-5, rel=0.01)
    assert gaussian_sigma(10, delta=1e-5) > classical


def test_a7_refuses_what_normal_noise_cannot_do():
    with pytest.raises(InvalidParameter, match="Gaussian noise needs delta > 0"):
        gaussian_sigma(1, delta=0)
    with pytest.raises(PreconditionError, match="delta"):
        gaussian_sigma(0, delta=1e-12)
    for bad in (math.nan, math.inf, -1, True, "1"):
        with pytest.raises(InvalidParameter):
            gaussian_sigma(bad, delta=1e-6)
        with pytest.raises(InvalidParameter):
            gaussian_sigma(1, delta=1e-6, sensitivity=bad)
    assert gaussian_mu(10**9, delta=0.5) == 1e4


def test_e3_group_privacy_factors():
    assert group_delta(0.5, delta=1e-6, size=5) / 1e-6 == pytest.approx(17.2377, abs=1e-4)
    assert group_delta(0.5, delta=1e-6, size=10) / 1e-6 == pytest.approx(227.2365, abs=1e-3)
    assert group_delta(0, delta=1e-6, size=7) == pytest.approx(7e-6, rel=1e-12)
    assert group_delta(500, delta=1e-6, size=10) == math.inf
    assert group_delta(1, delta=0, size=10) == 0
    for epsilon in (0.01, 0.5, 2):
        for size in (1, 2, 5, 10):
            exact = sum(math.exp(i * epsilon) for i in range(size)) * 1e-6
            assert exact * (1 - 1e-14) <= group_delta(epsilon, delta=1e-6, size=size) <= exact * (1 + 1e-12)
            assert group_delta(epsilon, delta=1e-6, size=size) <= size * math.exp((size - 1) * epsilon) * 1e-6 * (1 + 1e-12)


def test_e3_groups_of_events():
    assert group_event(events.GaussianNoise(0.5), size=3) == events.GaussianNoise(1.5)
    assert group_event(events.ZeroConcentrated(0.5), size=3) == events.ZeroConcentrated(4.5)
    assert group_event(events.Pure(0.5), size=3) == events.Pure(1.5)
    assert group_event(events.BoundedRange(0.5), size=3) == events.BoundedRange(1.5)
    assert group_event(events.DiscreteLaplace(0.5, 2), size=3) == events.DiscreteLaplace(1.5, 6)
    assert group_event(events.DiscreteGaussian(4, 2), size=3) == events.DiscreteGaussian(4, 6)
    assert group_event(events.NoCost(), size=3) == events.NoCost()
    assert group_event(events.NonPrivate(), size=3) == events.NonPrivate()
    assert group_event(events.Approximate(1, 0.5), size=2) == events.NonPrivate()
    grown = group_event(events.Approximate(0.5, 1e-6), size=5)
    assert grown.epsilon == Fraction(5, 2)
    assert float(grown.delta) == pytest.approx(17.2377e-6, abs=1e-10)
    nested = events.Composed([events.Repeated(events.Pure(1), 2), events.GaussianNoise(1)])
    assert group_event(nested, size=2) == events.Composed([events.Repeated(events.Pure(2), 2), events.GaussianNoise(2)])
    with pytest.raises(InvalidParameter, match="size"):
        group_event(events.Pure(1), size=0)


def test_0_2_replacing_a_row_is_removing_and_adding():
    assert replace_one(events.Pure(0.5)) == events.Pure(1)
    assert replace_one(events.GaussianNoise(0.5)) == events.GaussianNoise(1)
    assert replace_one(events.ZeroConcentrated(0.5)) == events.ZeroConcentrated(2)


def test_t2_conversion_number():
    assert zero_concentrated_epsilon(0.5, delta=1e-6) == pytest.approx(5.22153, abs=1e-4)
    assert zero_concentrated_epsilon_simple(0.5, delta=1e-6) == pytest.approx(5.75652, abs=1e-4)
    assert zero_concentrated_epsilon(0, delta=1e-6) == 0


def test_t2_conversion_is_the_inverse_of_the_curve(rng):
    for _ in range(200):
        rho, delta = float(10 ** rng.uniform(-5, 1.5)), float(10 ** rng.uniform(-12, -1))
        epsilon = zero_concentrated_epsilon(rho, delta=delta)
        if epsilon > 0:
            assert closed_forms.zero_concentrated_delta(rho, epsilon) == pytest.approx(delta, rel=1e-8)
            back = amount(largest_cap("zcdp", epsilon, delta))
            assert zero_concentrated_epsilon(back, delta=delta) <= epsilon * (1 + 1e-12)
            assert back == pytest.approx(rho, rel=1e-6)
        assert epsilon <= zero_concentrated_epsilon_simple(rho, delta=delta)


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf])
def test_t2_refuses_bad_rho(bad):
    with pytest.raises(InvalidParameter, match="rho"):
        zero_concentrated_epsilon(bad, delta=1e-6)
    with pytest.raises(InvalidParameter, match="delta"):
        zero_concentrated_epsilon(1, delta=0)


def renyi(losses, masses, order):
    return float(special.logsumexp((order - 1) * losses, b=masses)) / (order - 1)


def laplace_losses(epsilon, width):
    q = math.exp(-epsilon / width)
    z = np.arange(1, width)
    losses = np.concatenate([[epsilon], epsilon / width * (width - 2 * z), [-epsilon]])
    masses = np.concatenate([[1.0], q**z * (1 - q), [q**width]]) / (1 + q)
    return losses, masses


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("width", [1, 2, 10, 1000])
def test_t2_laplace_rho_is_the_supremum_of_renyi_over_order(epsilon, width):
    losses, masses = laplace_losses(epsilon, width)
    rho = event_privacy.rho(events.DiscreteLaplace(epsilon, width))
    ratios = [renyi(losses, masses, a) / a for a in 1 + np.geomspace(1e-5, 199, 400)]
    assert max(ratios) <= rho * (1 + 1e-9)
    assert ratios[0] >= 0.999 * rho


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_t2_bounded_range_rho_is_the_supremum_over_two_point_pairs(epsilon):
    rho, best = event_privacy.rho(events.BoundedRange(epsilon)), 0.0
    for t in np.linspace(1e-3, 1 - 1e-3, 400) * epsilon:
        p = math.expm1(epsilon - t) / (math.exp(epsilon - t) - math.exp(-t))
        for a in 1 + np.geomspace(1e-5, 199, 30):
            best = max(best, renyi(np.array([t, t - epsilon]), np.array([p, 1 - p]), a) / a)
    assert best <= rho * (1 + 1e-6)
    assert best >= 0.999 * rho


def test_t2_rho_of_fine_laplace_noise_keeps_its_digits():
    # Geometric sums over 2^40 whole numbers cancel; the closed form must not fall below the continuous limit.
    for epsilon in (1e-6, 0.1, 1, 20):
        with mpmath.workdps(50):
            limit = mpmath.mpf(epsilon) + mpmath.expm1(-mpmath.mpf(epsilon))
            for width in (2**20, 2**30, 2**40, 2**60):
                rate = mpmath.mpf(epsilon) / width
                exact = epsilon + mpmath.expm1(-mpmath.mpf(epsilon)) * rate / mpmath.sinh(rate)
                found = event_privacy.rho(events.DiscreteLaplace(epsilon, width))
                assert limit < exact <= found <= exact * (1 + 1e-12)


def test_t2b_costs():
    assert event_privacy.mu(events.BoundedRange(1)) == pytest.approx(0.623893, abs=1e-6)
    assert event_privacy.mu(events.BoundedRange(0.1)) == pytest.approx(0.0626629, abs=1e-6)
    assert event_privacy.mu(events.Pure(1)) == pytest.approx(1.23204, abs=1e-5)
    assert event_privacy.mu(events.Pure(1)) == pytest.approx(event_privacy.mu(events.BoundedRange(2)), abs=1e-12)
    assert event_privacy.mu(events.Pure(2000)) <= math.sqrt(2 * 2000) * 2 * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1, 2, 4, 8])
def test_t2b_two_point_pairs_stay_below_the_gaussian_curve(epsilon):
    mu = event_privacy.mu(events.BoundedRange(epsilon))
    above = 0.0
    for t in np.linspace(0.01, 0.99, 49) * epsilon:
        p = math.expm1(epsilon - t) / (math.exp(epsilon - t) - math.exp(-t))
        for x in np.linspace(0, t, 15):
            delta = p * -math.expm1(x - t)
            assert delta <= closed_forms.gaussian_delta(mu, float(x)) + 1e-12
            above = max(above, delta - closed_forms.gaussian_delta(0.99 * mu, float(x)))
    assert above > 0

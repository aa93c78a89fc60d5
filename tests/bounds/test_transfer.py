"""The transfer theorem: THEORY T5, T6, T6b, T7, by formulas, by exact posteriors and by enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logit

from holdtrue.accounting.closed_forms import gaussian_delta, zero_concentrated_delta
from holdtrue.bounds.accuracy import gaussian_maximum
from holdtrue.bounds.generalization import jung20
from holdtrue.bounds.transfer import (
    concentrated_rho,
    concentrated_shift,
    drop_in,
    first_query,
    gaussian_mu,
    gaussian_shift,
    interval,
    intervals,
    position_alpha,
    position_interval,
    shift,
    stitched_level,
    stitched_noise,
    stitched_shift,
)
from holdtrue.errors import InvalidParameter

FAILURES = (0.5, 0.2, 0.05, 0.01, 1e-3)


def test_t5a_formulas():
    assert shift(1) == pytest.approx(0.24491866, abs=1e-8)
    assert gaussian_shift(0.1, beta=0.05).gamma == pytest.approx(0.06465, abs=1e-5)
    assert gaussian_shift(0.05, beta=0.005).gamma == pytest.approx(0.04129, abs=1e-5)


@pytest.mark.parametrize(
    ("mu", "beta", "gdp", "zcdp"),
    [
        (0.01, 0.04, 0.00666, 0.00759),
        (0.05, 0.004, 0.04207, 0.04643),
        (0.1, 0.04, 0.06656, 0.07576),
        (0.3, 0.004, 0.24834, 0.27300),
    ],
)
def test_t5_price_of_the_zcdp_curve(mu, beta, gdp, zcdp):
    assert gaussian_shift(mu, beta=beta).gamma == pytest.approx(gdp, abs=1e-5)
    assert concentrated_shift(mu * mu / 2, beta=beta).gamma == pytest.approx(zcdp, abs=1e-5)


def test_t5i_gamma_solves_its_inequality():
    for epsilon, delta, beta in itertools.product((0.0, 0.1, 1.0, 5.0), (0.0, 1e-6, 1e-3), (0.05, 0.5)):
        gamma = shift(epsilon, delta=delta, beta=beta)
        assert gamma - math.expm1(epsilon) * (1 - gamma) ** 2 / 4 == pytest.approx(delta / beta, rel=1e-9, abs=1e-12)
    assert shift(0.1, delta=0.1, beta=0.05) == 1
    assert shift(1e6, delta=0, beta=0.5) == 1


def test_t5_randomised_response_attains_tanh():
    for epsilon in (0.1, 0.5, 1, 2):
        prior = np.linspace(1e-4, 1 - 1e-4, 200_001)
        posterior = prior * math.exp(epsilon) / (1 - prior + prior * math.exp(epsilon))
        assert float(np.max(posterior - prior)) == pytest.approx(shift(epsilon), rel=1e-8)
        assert float(np.max(posterior - prior)) <= shift(epsilon)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-5, 6), st.floats(1e-9, 0.9))
def test_t5_gdp_root_is_the_minimum_over_epsilon(mu, beta):
    best = gaussian_shift(mu, beta=beta)
    epsilons = best.epsilon + mu * np.linspace(-3, 3, 61)
    others = [shift(at, delta=min(gaussian_delta(mu, at), beta) / 1.0000001, beta=beta) for at in epsilons if at >= 0]
    assert best.gamma <= min(others) * (1 + 1e-6) + 1e-12
    assert best.gamma == pytest.approx(
        shift(best.epsilon, delta=min(gaussian_delta(mu, best.epsilon), 0.99), beta=beta), rel=1e-6
    )
    closed = mu / 4 * gaussian_maximum(1, beta=beta / 2)
    assert best.gamma <= min(1.0, closed) * (1 + 1e-6)
    assert best.epsilon >= 0


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-8, 4), st.floats(1e-9, 0.9))
def test_t5_zcdp_root_is_the_minimum_over_epsilon(rho, beta):
    best = concentrated_shift(rho, beta=beta)
    epsilons = best.epsilon + math.sqrt(2 * rho) * np.linspace(-2, 2, 21)
    others = [
        shift(at, delta=min(zero_concentrated_delta(rho, at), beta) / 1.0000001, beta=beta) for at in epsilons if at >= 0
    ]
    assert best.gamma <= min(others) * (1 + 1e-5) + 1e-10


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-4, 0.95), st.floats(1e-8, 0.5))
def test_t5_inverses_agree(gamma, beta):
    assert gaussian_shift(gaussian_mu(gamma, beta=beta), beta=beta).gamma == pytest.approx(gamma, rel=1e-7)
    assert concentrated_shift(concentrated_rho(gamma, beta=beta), beta=beta).gamma == pytest.approx(gamma, rel=1e-6)
    # zCDP is implied by GDP, so its bound can only be wider.
    assert concentrated_shift(gaussian_mu(gamma, beta=beta) ** 2 / 2, beta=beta).gamma >= gamma * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-4, 3), st.floats(1e-8, 0.4))
def test_t5_gap_grows_with_privacy_loss_and_confidence(mu, beta):
    here = gaussian_shift(mu, beta=beta).gamma
    assert here <= gaussian_shift(mu * 1.1, beta=beta).gamma
    assert here <= gaussian_shift(mu, beta=beta / 2).gamma


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 0.3), st.floats(0, 0.1), st.floats(0, 5), st.floats(0, 0.1), st.floats(1e-4, 0.5))
def test_t5_drop_in_is_never_wider_than_t4(alpha, beta, epsilon, delta, total):
    ours = drop_in(alpha, beta=beta, epsilon=epsilon, delta=delta, total=total)
    assert ours <= jung20(alpha, beta=beta, epsilon=epsilon, delta=delta, total=total) * (1 + 1e-9)
    # With exact sample answers it can only be wider than gamma itself, whose failure it bounds from above.
    exact = drop_in(0, beta=0, epsilon=epsilon, delta=delta, total=total)
    assert shift(epsilon, delta=delta, beta=total) <= exact * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize("mu", [0.05, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("beta", FAILURES)
def test_t5_one_row_exactly(mu, beta):
    """One bit behind Gaussian noise: the law of its posterior is explicit."""
    gamma = gaussian_shift(mu, beta=beta).gamma
    worst = 0.0
    for p in np.linspace(0.01, 0.99, 99):
        above = (logit(p + gamma) - logit(p)) / mu + mu / 2 if p + gamma < 1 else math.inf
        below = (logit(p - gamma) - logit(p)) / mu + mu / 2 if p - gamma > 0 else -math.inf
        upper = p * stats.norm.sf(above - mu) + (1 - p) * stats.norm.sf(above)
        lower = p * stats.norm.cdf(below - mu) + (1 - p) * stats.norm.cdf(below)
        worst = max(worst, float(upper + lower))
    assert worst <= beta


def test_t5_a_gap_a_third_smaller_would_fail():
    """The control: at one half the posterior moves by (mu/4) Z, so 0.7 gamma is passed too often."""
    mu, beta, p = 0.05, 0.05, 0.5
    gamma = 0.7 * gaussian_shift(mu, beta=beta).gamma
    above = (logit(p + gamma) - logit(p)) / mu + mu / 2
    below = (logit(p - gamma) - logit(p)) / mu + mu / 2
    upper = p * stats.norm.sf(above - mu) + (1 - p) * stats.norm.sf(above)
    lower = p * stats.norm.cdf(below - mu) + (1 - p) * stats.norm.cdf(below)
    assert upper + lower > beta * 1.3


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 10, 30])
@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_t5_exact_posteriors(rows, mu):
    """Independent bits and one Gaussian mean: posterior means on a fine grid of answers."""
    s = 1 / (rows * mu)
    answers = np.linspace(-8 * s - 0.2, 1.2 + 8 * s, 20_001)
    means = np.arange(rows + 1) / rows
    likelihood = stats.norm.pdf(answers[:, None], means[None, :], s)
    for p in (0.1, 0.3, 0.5):
        joint = likelihood * stats.binom.pmf(np.arange(rows + 1), rows, p)
        density = joint.sum(1)
        posterior = (joint * means).sum(1) / np.maximum(density, 1e-300)
        for beta in FAILURES:
            gamma = gaussian_shift(mu, beta=beta).gamma
            missed = density[np.abs(posterior - p) > gamma].sum() * (answers[1] - answers[0])
            assert missed <= beta + 1e-6


@pytest.mark.parametrize(
    "case",
    [
        (2, 1, 4, 6.0, False),
        (2, 3, 4, 2.0, False),
        (4, 3, 4, 2.0, False),
        (6, 3, 6, 3.0, True),
        (8, 2, 6, 4.0, False),
        (3, 4, 3, 1.2, True),
        (12, 1, 8, 8.0, False),
        (3, 3, 5, 0.8, True),
    ],
)
def test_t5_adaptive_queries_with_enumerated_posteriors(request, case):
    """The worst query of all after adaptive ones: the total variation between a row's posterior and its prior."""
    values, rows, queries, sigma, skewed = case
    rng = np.random.default_rng(list(request.node.name.encode()))
    runs = 3000
    prior = np.arange(1, values + 1) / (values * (values + 1) / 2) if skewed else np.full(values, 1 / values)
    samples = np.array(list(itertools.product(range(values), repeat=rows)))
    shares = np.stack([(samples == value).mean(1) for value in range(values)], axis=1)
    log_weights = np.tile(np.log(prior[samples]).sum(1), (runs, 1))
    truth = rng.choice(len(samples), runs, p=np.prod(prior[samples], axis=1))

    def posterior():
        weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
        return weights @ shares / weights.sum(1, keepdims=True)

    for turn in range(queries):
        query = rng.integers(0, 2, (runs, values)).astype(float)
        greedy = (posterior() > prior) & (rng.random((runs, 1)) < 0.7) if turn else np.zeros((runs, values), dtype=bool)
        query = np.where(greedy.any(1, keepdims=True), greedy, query)
        means = query @ shares.T
        answer = means[np.arange(runs), truth] + sigma * rng.normal(size=runs)
        log_weights -= (answer[:, None] - means) ** 2 / (2 * sigma**2)
    distance = np.abs(posterior() - prior).sum(1) / 2
    mu = math.sqrt(queries) / (rows * sigma)
    for beta in FAILURES:
        missed = int((distance > gaussian_shift(mu, beta=beta).gamma).sum())
        assert missed == 0 or stats.beta.ppf(1e-6, missed, runs - missed + 1) <= beta


def test_t6_numbers():
    frozen = gaussian_shift(0.1, beta=0.05)
    assert frozen.epsilon == pytest.approx(0.2243, abs=5e-5)
    assert frozen.slack == pytest.approx(0.00967, abs=5e-6)
    low, high = interval(0.5, noise=0, epsilon=frozen.epsilon, slack=frozen.slack)
    assert high - 0.5 == pytest.approx(0.06442, abs=1e-5)
    assert 0.5 - low == pytest.approx(0.06442, abs=1e-5)
    assert interval(0.0, noise=0, epsilon=frozen.epsilon, slack=frozen.slack)[1] == pytest.approx(0.0097, abs=5e-5)


def test_t6_the_whole_cap_counts():
    assert gaussian_shift(0.2367, beta=0.035).gamma == pytest.approx(0.159, abs=1e-3)
    assert gaussian_shift(math.sqrt(100) / (10_909 * 0.01241), beta=0.035).gamma == pytest.approx(0.051, abs=2e-3)


@pytest.mark.parametrize(("mu", "beta", "missed"), [(0.1, 0.05, 0.00965), (0.5, 0.05, 0.01000), (1.0, 0.01, 0.00188)])
@pytest.mark.parametrize("ends", [interval, position_interval])
def test_t6_exact_coverage_of_one_row(mu, beta, missed, ends):
    frozen = gaussian_shift(mu, beta=beta)
    answers = np.linspace(-9, 9 + mu, 20_001)
    worst = 0.0
    for p in np.linspace(0.01, 0.99, 25):
        posterior = expit(logit(p) + mu * answers - mu * mu / 2)
        density = p * stats.norm.pdf(answers, mu) + (1 - p) * stats.norm.pdf(answers)
        covered = [ends(v, noise=0, epsilon=frozen.epsilon, slack=frozen.slack) for v in posterior[::20]]
        out = np.array([not low <= p <= high for low, high in covered])
        worst = max(worst, float((density[::20] * out).sum() * 20 * (answers[1] - answers[0])))
    assert worst <= min(beta, missed * 1.1)


@settings(max_examples=80, deadline=None)
@given(st.floats(-2, 3), st.floats(0, 0.7), st.floats(0, 3), st.floats(0, 1.2))
def test_t6_contained_in_the_symmetric_interval(answer, noise, epsilon, slack):
    low, high = interval(answer, noise=noise, epsilon=epsilon, slack=slack)
    gamma = shift(epsilon, delta=min(slack, 0.999999), beta=1) if slack < 1 else 1.0
    clipped = min(1.0, max(0.0, answer))
    assert 0 <= low <= clipped <= high <= 1 or (slack >= 1 and (low, high) == (0, 1))
    assert max(0.0, clipped - noise - gamma) - 1e-9 <= low
    assert high <= min(1.0, clipped + noise + gamma) + 1e-9
    wide = position_interval(answer, noise=noise, epsilon=epsilon, slack=slack)
    assert wide[0] <= low + 1e-12
    assert high <= wide[1] + 1e-12
    assert max(wide[1] - clipped, clipped - wide[0]) <= position_alpha(noise=noise, epsilon=epsilon, slack=slack) + 1e-9


def test_t6_shrinks_near_the_ends():
    epsilon, slack, noise = 0.3, 0.01, 0.05
    high = interval(0.0, noise=noise, epsilon=epsilon, slack=slack)[1]
    assert high <= slack + math.exp(epsilon) * noise
    assert interval(0.5, noise=noise, epsilon=epsilon, slack=1.0) == (0.0, 1.0)


def test_t6b_is_about_one_per_cent_wider():
    for mu, beta in ((0.05, 0.04), (0.1, 0.04)):
        frozen = gaussian_shift(mu, beta=beta)
        ours = position_alpha(noise=0, epsilon=frozen.epsilon, slack=frozen.slack)
        assert frozen.gamma < ours < frozen.gamma * 1.02


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (0.5, 0.05), (1.5, 0.02), (0.1, 0.1)])
def test_t6b_enumerated_tables_of_two_rows(epsilon, delta):
    """Two rows with their own chances .1 and .9, every table on a grid: no event has Pr[o] (v - F(u)) above delta."""
    chances = np.array([0.1, 0.9])
    states = np.array(list(itertools.product((0, 1), repeat=2)))
    prior = np.prod(np.where(states == 1, chances, 1 - chances), axis=1)
    neighbours = [(a, b) for a in range(4) for b in range(4) if np.abs(states[a] - states[b]).sum() == 1]
    steps = np.linspace(0, 1, 25)
    tables = np.array(list(itertools.product(steps, repeat=4)))
    private = np.ones(len(tables), dtype=bool)
    for a, b in neighbours:
        private &= tables[:, a] <= math.exp(epsilon) * tables[:, b] + delta + 1e-12
        private &= 1 - tables[:, a] <= math.exp(epsilon) * (1 - tables[:, b]) + delta + 1e-12
    tables = tables[private]
    u = chances.mean()
    limit = u * math.exp(epsilon) / (1 + math.expm1(epsilon) * u)
    for outputs in (tables, 1 - tables):
        weights = outputs * prior
        chance = weights.sum(1)
        v = (weights @ states).mean(1) / np.maximum(chance, 1e-300)
        for value, bound in ((v, limit), (1 - v, (1 - u) * math.exp(epsilon) / (1 + math.expm1(epsilon) * (1 - u)))):
            assert float((chance * (value - bound)).max()) <= delta + 1e-12
    assert len(tables) > 100


def test_t7_levels_are_powers_of_two_in_mu_squared():
    assert [stitched_level(spent, first=1) for spent in (0, 0.5, 1, 1.01, 2, 2.5, 4, 5, 8, 1000)] == [
        0,
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        10,
    ]
    assert stitched_level(2**60 + 1, first=2) == 60
    widths = [stitched_shift(level, first=0.0001, beta=0.04).gamma for level in range(12)]
    assert widths == sorted(widths)


def test_t7_failures_sum_to_what_was_given():
    noise = sum(6 / (math.pi * draw) ** 2 for draw in range(1, 10**6))
    assert noise < 1
    assert stitched_noise(1, beta=0.01) == pytest.approx(3.046, abs=1e-3)
    assert stitched_noise(100, beta=0.01) == pytest.approx(5.176, abs=1e-3)
    assert stitched_noise(10**6, beta=0.01) == pytest.approx(7.927, abs=1e-3)


def test_t7_first_query_needs_no_transfer():
    width = first_query(0.01, rows=10_000, noise_beta=0.025, sample_beta=0.025)
    assert width == pytest.approx(0.01 * stats.norm.isf(0.0125) + math.sqrt(math.log(80) / 20_000), rel=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: shift(-1),
        lambda: shift(1, delta=1.0),
        lambda: gaussian_shift(0, beta=0.1),
        lambda: gaussian_shift(math.nan, beta=0.1),
        lambda: gaussian_shift(1, beta=0),
        lambda: concentrated_shift(True, beta=0.1),
        lambda: interval(math.nan, noise=0.1, epsilon=1, slack=0),
        lambda: interval(0.5, noise=-0.1, epsilon=1, slack=0),
        lambda: stitched_noise(0, beta=0.1),
        lambda: stitched_level(1, first=0),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(InvalidParameter):
        call()


@pytest.mark.parametrize("noise", [0.0, 0.013, 0.4, 1.0])
@pytest.mark.parametrize(("epsilon", "slack"), [(0.0, 0.0), (0.21, 0.004), (3.0, 0.3), (701.0, 0.1), (0.1, 1.0)])
def test_t6_many_intervals_are_those_of_each_answer(noise, epsilon, slack):
    answers = [0.0, 5e-324, 1e-9, *np.random.default_rng(5).random(2000).tolist(), 1 - 2.0**-53, 1.0]
    terms = {"noise": noise, "epsilon": epsilon, "slack": slack}
    expected = [interval(answer, **terms) for answer in answers]
    assert list(zip(*intervals(answers, **terms), strict=True)) == expected

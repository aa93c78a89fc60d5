"""Accuracy of noise and samples: THEORY C2, D4, T5 ii, T9."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from holdtrue.bounds.accuracy import (
    binomial_excess,
    chernoff_interval,
    gaussian_maximum,
    gaussian_quantile,
    grid,
    hoeffding_alpha,
    hoeffding_rows,
    laplace_maximum,
    laplace_rows,
    laplace_tail,
    uniform_rows,
)
from holdtrue.errors import InvalidParameter
from holdtrue.noise.samplers import discrete_laplace


def exact_maximum(queries, beta):
    """CVaR of max |Z_j| by quadrature on the exact law, naively."""

    def tail(w):
        return -np.expm1(queries * np.log1p(-2 * stats.norm.sf(w)))

    w = stats.norm.isf(-np.expm1(np.log1p(-beta) / queries) / 2)
    return w + integrate.quad(tail, w, w + 12, epsabs=0, epsrel=1e-10, limit=200)[0] / beta


def test_t5b_maximum_of_a_hundred():
    assert gaussian_maximum(100, beta=0.01) == pytest.approx(4.1208, abs=5e-5)


@pytest.mark.parametrize("queries", [1, 2, 3, 10, 100, 10**4, 10**6])
@pytest.mark.parametrize("beta", [0.3, 0.04, 0.01, 1e-4, 1e-9])
def test_t5ii_maximum_is_the_exact_cvar_from_above(queries, beta):
    exact = exact_maximum(queries, beta)
    # Above the truth but for the quadrature's own error; within 0.1 % even at a beta nobody asks for.
    assert exact * (1 - 1e-9) <= gaussian_maximum(queries, beta=beta) <= exact * (1 + (1e-5 if beta < 0.1 else 1e-3))


@pytest.mark.parametrize(("queries", "mean"), [(1, 2.063), (10, 2.888), (100, 3.551), (1000, 4.118)])
def test_s6_one_sided_constants(queries, mean):
    assert gaussian_maximum(queries, beta=0.05, one_sided=True) == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize("queries", [1, 2, 3, 10, 1000, 10**5])
@pytest.mark.parametrize("beta", [0.3, 0.04, 1e-4])
def test_s6_one_sided_maximum_is_the_exact_cvar_from_above(queries, beta):
    """And the quantile in its place is not enough: the mean over the worst beta is above it."""
    chance = np.linspace(0, 1, 200_001)[:-1] + 0.5 / 200_000
    worst = (1 - beta) + beta * chance
    exact = float(stats.norm.isf(-np.expm1(np.log(worst) / queries)).mean())
    found = gaussian_maximum(queries, beta=beta, one_sided=True)
    assert exact - 1e-4 <= found <= exact * (1 + (1e-2 if beta > 0.1 else 1e-4))
    assert found > stats.norm.isf(-np.expm1(np.log1p(-beta) / queries)) + 1e-3


def test_t5ii_maximum_is_below_the_union_bound():
    for queries in (1, 7, 1000):
        z = stats.norm.isf(0.01 / (2 * queries))
        assert gaussian_maximum(queries, beta=0.01) <= 2 * queries * stats.norm.pdf(z) / 0.01 * (1 + 1e-9)


def test_t7_widths_of_single_draws():
    for draw, expected in ((1, 3.0458), (10, 4.2349), (100, 5.1756), (1000, 5.9776), (10**6, 7.9266)):
        assert gaussian_maximum(1, beta=0.01 * 6 / (math.pi * draw) ** 2) == pytest.approx(expected, abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**9), st.floats(1e-12, 0.9))
def test_t5ii_maximum_grows_with_queries_and_confidence(queries, beta):
    here = gaussian_maximum(queries, beta=beta)
    assert gaussian_quantile(queries, beta=beta) <= here <= gaussian_maximum(2 * queries, beta=beta)
    assert here <= gaussian_maximum(queries, beta=beta / 2) * (1 + 1e-3)
    assert laplace_maximum(queries, beta=beta) == pytest.approx(math.log(queries / beta) + 1)


def test_t5ii_adversarial_coarsening_attains_the_cvar():
    z = stats.norm.isf(0.025)
    assert gaussian_maximum(1, beta=0.05) == pytest.approx(stats.norm.pdf(z) / stats.norm.sf(z), rel=1e-9)


def test_d4_tail_and_rows_have_constant_one(bits):
    rows, epsilon, alpha, beta = 500, 0.3, 0.02, 0.05
    assert laplace_tail(alpha, rows=rows, epsilon=epsilon) == pytest.approx(math.exp(-3), rel=1e-9)
    needed = laplace_rows(alpha, epsilon=epsilon, beta=beta)
    assert needed == math.ceil(math.log(20) / (epsilon * alpha))
    unit = 1 << 16
    draws = np.abs(discrete_laplace(unit / epsilon, size=200_000, bits=bits) / (unit * rows))
    for t in (0.5, 1.0, 3.0):
        share, expected = float(np.mean(draws >= t / (rows * epsilon))), math.exp(-t)
        assert abs(share - expected) <= 5 * math.sqrt(expected * (1 - expected) / draws.size) + 1e-4


def test_x8_the_scale_is_not_epsilon():
    """Erratum 8: noise of scale epsilon has another tail, and another privacy."""
    rows, epsilon = 50, 0.3
    ours, printed = 1 / (rows * epsilon), epsilon
    assert laplace_tail(ours, rows=rows, epsilon=epsilon) == pytest.approx(math.exp(-1))
    assert math.exp(-ours / printed) == pytest.approx(0.8007, abs=1e-4)
    # The privacy of Lap(b) on a mean is 1 / (rows b): the printed scale gives 0.067, not the 0.3 that was meant.
    assert 1 / (rows * ours) == pytest.approx(epsilon)
    assert 1 / (rows * printed) == pytest.approx(0.0667, abs=1e-4)


def test_x32_rows_are_a_lower_bound():
    """Erratum 32: "m in O(.)" would allow fewer rows, and with fewer the claim is false."""
    for alpha, epsilon, beta in ((0.1, 0.1, 0.05), (0.03, 1.0, 1e-6)):
        needed = laplace_rows(alpha, epsilon=epsilon, beta=beta)
        assert laplace_tail(alpha, rows=needed, epsilon=epsilon) <= beta * (1 + 1e-9)
        assert laplace_tail(alpha, rows=needed - 1, epsilon=epsilon) > beta


@pytest.mark.parametrize(
    ("case", "exact", "hoeffding", "printed"),
    [((1, 0.1, 0.05), 106, 185, 1107), ((100, 0.1, 0.05), 313, 415, 2489), ((10**4, 0.05, 0.01), 2412, 2902, 17411)],
)
def test_c2_uniform_convergence_sizes(case, exact, hoeffding, printed):
    size, alpha, beta = case
    assert uniform_rows(alpha, beta=beta, size=size) == exact
    assert hoeffding_rows(alpha, beta=beta, queries=size) == hoeffding
    assert math.ceil(3 * math.log(2 * size / beta) / alpha**2) == printed


def test_c2_supremum_is_not_at_one_half():
    assert binomial_excess(37, alpha=0.13) == pytest.approx(0.0779, abs=5e-5)
    at_half = stats.binom.sf(math.ceil(37 * 0.63) - 1, 37, 0.5)
    assert at_half == pytest.approx(0.0494, abs=5e-5)


@pytest.mark.parametrize(("rows", "alpha"), [(10, 0.3), (50, 0.1), (100, 0.1), (37, 0.13)])
def test_c2_supremum_is_above_every_p(rows, alpha):
    p = np.linspace(0, 1 - alpha, 20_001)
    brute = stats.binom.sf(np.ceil(rows * (p + alpha) - 1e-9) - 1, rows, p).max()
    ours = binomial_excess(rows, alpha=alpha)
    assert brute <= ours <= min(brute * 1.01 + 1e-3, math.exp(-2 * rows * alpha**2))


def test_c2_scan_stops_at_hoeffding_for_many_rows():
    assert uniform_rows(0.005, beta=0.05) == hoeffding_rows(0.005, beta=0.05)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1), st.integers(1, 10**5), st.floats(1e-6, 0.5))
def test_t9_chernoff_interval_is_the_level_set(mean, rows, beta):
    low, high = chernoff_interval(mean, rows=rows, beta=beta)
    width = hoeffding_alpha(rows, beta=beta)
    assert max(0.0, mean - width) - 1e-12 <= low <= mean <= high <= min(1.0, mean + width) + 1e-12

    def divergence(p):
        return stats.entropy([mean, 1 - mean], [p, 1 - p]) * rows

    for end in (low, high):
        if 1e-9 < end < 1 - 1e-9 and abs(end - mean) > 1e-6:
            assert divergence(end) == pytest.approx(math.log(2 / beta), rel=1e-5)


def test_t9_chernoff_interval_covers(request):
    rng = np.random.default_rng(list(request.node.name.encode()))
    rows, p, beta, runs = 60, 0.07, 0.2, 20_000
    missed = sum(
        count * (not low <= p <= high)
        for hits, count in zip(*np.unique(rng.binomial(rows, p, runs), return_counts=True), strict=True)
        for low, high in (chernoff_interval(hits / rows, rows=rows, beta=beta),)
    )
    assert missed == 0 or stats.beta.ppf(1e-6, missed, runs - missed + 1) <= beta


def test_t2b_grid_is_half_a_unit_of_noise_and_of_each_value():
    assert grid(1000, bits=10) == pytest.approx(2**-11 + 2**-11 / 1000, rel=1e-9)
    assert grid(1000, bits=10, boolean=True) == pytest.approx(2**-11 / 1000, rel=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: laplace_tail(1.5, rows=10, epsilon=1),
        lambda: laplace_tail(0.1, rows=0, epsilon=1),
        lambda: laplace_rows(0.1, epsilon=0, beta=0.05),
        lambda: gaussian_maximum(0, beta=0.1),
        lambda: gaussian_maximum(True, beta=0.1),
        lambda: gaussian_maximum(10, beta=1),
        lambda: binomial_excess(10, alpha=0),
        lambda: binomial_excess(10, alpha=float("nan")),
        lambda: chernoff_interval(1.2, rows=10, beta=0.1),
        lambda: hoeffding_rows(math.inf, beta=0.1),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(InvalidParameter):
        call()

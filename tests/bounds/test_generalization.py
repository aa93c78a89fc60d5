"""The theorems before the transfer theorem: THEORY B1, D1-D5, T4, T8, and errata 1, 30, 31, 33."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from holdtrue.accounting.closed_forms import gaussian_delta
from holdtrue.bounds.generalization import (
    FEWEST_ROWS,
    bassily16,
    bassily16_gaussian,
    expected_gap,
    expected_gap_epsilon,
    information_factor,
    jung20,
    lecture19,
    lecture19_query_epsilon,
    lecture19_terms,
    rrstww20,
)
from holdtrue.bounds.transfer import gaussian_shift, shift
from holdtrue.errors import InvalidParameter, PreconditionError


def test_b1_expected_gap_of_laplace_answers():
    epsilon = expected_gap_epsilon(0.1, queries=100)
    assert epsilon == pytest.approx(0.02, rel=1e-9)
    assert expected_gap(100, epsilon=epsilon) == pytest.approx(0.09966777, rel=1e-6)
    assert expected_gap(100, epsilon=epsilon) <= 0.1


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-9, 30), st.integers(1, 10**6))
def test_b1_is_on_the_safe_side(epsilon, queries):
    exact = math.sqrt(queries * (epsilon**2 / 2 if epsilon < 1e-5 else epsilon + math.expm1(-epsilon)) / 2)
    assert (
        min(1.0, exact * (1 - 1e-5))
        <= expected_gap(queries, epsilon=epsilon)
        <= min(1.0, epsilon * math.sqrt(queries) / 2) * (1 + 1e-9)
    )


def test_x1_the_printed_noise_rate_drowns_the_answer():
    """Erratum 1: tau / sqrt(queries rows) gives noise of scale 1 where 0.005 is enough."""
    tau, queries, rows = 0.1, 100, 10_000
    ours, printed = expected_gap_epsilon(tau, queries=queries), tau / math.sqrt(queries * rows)
    assert 1 / (rows * ours) == pytest.approx(0.005, rel=1e-9)
    assert 1 / (rows * printed) == pytest.approx(1.0)
    assert expected_gap(queries, epsilon=ours) <= tau


def margin(constant, sharp=False):
    """Lower bound minus upper bound on the monitor's gap, over epsilon, least over the region of theorem 1.1."""
    worst = math.inf
    for epsilon in np.geomspace(1e-3, 1 / 8, 30):
        for rows in np.geomspace(12 / epsilon**2, 1e4 / epsilon**2, 25):
            least = max(math.exp(-(epsilon**2) * rows / 8), 1e-12)
            p = np.concatenate(
                [np.geomspace(least, 0.999999, 300), 1 / np.arange(2, 40) + 1e-9, 1 / np.arange(1, 40) - 1e-9]
            )
            p = p[(p >= least) & (p < 1)]
            runs, delta = np.floor(1 / p), np.minimum(p * epsilon / 4, epsilon / 16)
            lower = constant * epsilon * (1 - (1 - p) ** runs) - 2 / (epsilon * rows) * np.log(2 * runs)
            upper = math.expm1(2 * epsilon) + runs * delta
            if sharp:
                upper = (math.expm1(2 * epsilon) + 2 * runs * delta) / (math.exp(2 * epsilon) + 1)
            worst = min(worst, float(((lower - upper) / epsilon).min()))
    return worst


def test_d1_region_scan():
    assert margin(6) >= 0.54
    assert margin(5) > 0
    assert margin(4.8) < 0
    assert margin(2.8, sharp=True) > 0


def test_d1_certifies_what_it_says():
    rows, beta = 10_000, 0.05
    epsilon = math.sqrt(max(12, 8 * math.log(1 / beta)) / rows)
    found = bassily16(rows, epsilon=epsilon)
    assert found.alpha == pytest.approx(0.2937, abs=1e-3)
    assert found.beta <= beta * (1 + 1e-9)
    assert bassily16(rows, epsilon=0.1, delta=0.1 / 16).beta == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("rows", "epsilon", "delta", "named", "nearest"),
    [
        (767, 0.125, 0, "at least 768 rows", "rows = 768"),
        (10_000, 0.13, 0, "epsilon at most 1/8", "epsilon = 0.125"),
        (10_000, 0.03, 0, "epsilon at least sqrt(12/rows)", "epsilon = 0.0346"),
        (10_000, 0.1, 0.01, "delta at most epsilon/16", "delta = 0.0062"),
    ],
)
def test_d1_preconditions_are_named_with_the_nearest_value(rows, epsilon, delta, named, nearest):
    with pytest.raises(PreconditionError) as caught:
        bassily16(rows, epsilon=epsilon, delta=delta)
    assert named in str(caught.value)
    assert nearest in str(caught.value)
    name, value = str(caught.value).rsplit("is ", 1)[1].split(" = ")
    bassily16(**{"rows": rows, "epsilon": epsilon, "delta": delta, name: int(value) if name == "rows" else float(value)})


def test_x30_below_768_rows_the_region_is_empty():
    """Erratum 30: with sqrt(12/m), not sqrt(12/n), there is an epsilon exactly from 768 rows on."""
    assert math.sqrt(12 / FEWEST_ROWS) == 1 / 8
    bassily16(FEWEST_ROWS, epsilon=1 / 8)
    for epsilon in np.geomspace(1e-4, 1, 50):
        with pytest.raises(PreconditionError):
            bassily16(FEWEST_ROWS - 1, epsilon=float(epsilon))


def test_d2_adds_the_noise_and_the_union():
    gap = bassily16(10**6, epsilon=0.01, delta=1e-7)
    whole = lecture19(10**6, epsilon=0.01, delta=1e-7, queries=100, noise_alpha=0.02, noise_beta=1e-4)
    assert whole.alpha == pytest.approx(gap.alpha + 0.02)
    assert whole.beta == pytest.approx(0.01 + gap.beta)


def test_x31_preconditions_and_the_place_of_the_maximum():
    """Erratum 31: theorem 1.2 needs theorem 1.1's region, and the maximum belongs around the sum."""
    with pytest.raises(PreconditionError):
        lecture19(500, epsilon=0.1, delta=0, queries=10, noise_alpha=0.01, noise_beta=0.001)
    # Answers, sample means and population means of two queries: the printed form bounds 0.0 + 0.1, the error is 0.3.
    answers, sample, population = np.array([0.5, 0.8]), np.array([0.5, 0.8]), np.array([0.4, 0.5])
    error = np.abs(answers - population).max()
    first = np.abs(answers - sample)
    printed = first.max() + np.abs(sample - population)[int(first.argmax())]
    ours = (first + np.abs(sample - population)).max()
    assert printed < error <= ours


def test_d3_inversion_is_exact():
    for epsilon, queries, delta in ((0.01, 100, 1e-5), (0.1, 10**4, 1e-6), (0.05, 3, 1e-4)):
        each = lecture19_query_epsilon(epsilon, queries=queries, delta=delta)
        strong = each * math.sqrt(2 * queries * math.log(1 / delta)) + queries * each * math.expm1(each)
        assert min(strong, queries * each) == pytest.approx(epsilon, rel=1e-9)
        assert min(strong, queries * each) <= epsilon * (1 + 1e-12)


def test_d5_constants():
    """Half of alpha = 0.1 and half of beta = 0.05 for each part, a hundred queries."""
    noise, gap, least = lecture19_terms(100, epsilon=0.05 / 6, gap_beta=0.025, noise_beta=0.025)
    assert gap == pytest.approx(0.05)
    assert math.ceil(least) == pytest.approx(424_959, abs=1)
    leading = 0.05 / (6 * math.sqrt(200 * math.log(24 / (0.05 * 0.025))))
    assert math.ceil(math.log(4000) / (0.05 * leading)) == pytest.approx(884_077, abs=1)
    # The exact inversion also has the second-order term of the composition, which adds 0.04 %.
    assert 884_077 < noise / 0.05 < 884_077 * 1.001


def test_x33_the_printed_size_lacks_a_logarithm_and_constants():
    """Erratum 33: at the printed epsilon and size, neither the composition nor the tail is anywhere near."""
    queries, alpha, beta = 100, 0.1, 0.05
    each, rows = alpha / math.sqrt(queries), math.ceil(math.sqrt(queries) * math.log(queries / beta) / alpha**2)
    delta = beta * alpha / 24
    composed = each * math.sqrt(2 * queries * math.log(1 / delta)) + queries * each * math.expm1(each)
    assert composed > 6 * alpha / 6
    assert math.exp(-(alpha**2) * rows / 8) < beta < math.exp(-((alpha / 6) ** 2) * rows / 8)
    with pytest.raises(PreconditionError):
        bassily16(rows, epsilon=alpha / 6 / 10)
    # The ratio of the sizes grows like sqrt(ln(1/(alpha beta))), which no constant covers.
    ratios = [
        min(
            noise / (0.1 - gap)
            for epsilon in np.geomspace(1e-4, 0.016, 100)
            for noise, gap, _ in (lecture19_terms(100, epsilon=float(epsilon), gap_beta=b / 2, noise_beta=b / 2),)
        )
        / (math.log(200 / b) * 10 / 0.01)
        for b in (0.05, 1e-4, 1e-8, 1e-16)
    ]
    assert ratios == sorted(ratios)
    assert ratios[-1] > 1.8 * ratios[0]


def test_t4_split_is_the_best():
    alpha, beta, epsilon, delta, total = 0.02, 1e-5, 0.05, 1e-6, 0.05

    def width(c):
        d = delta / (total - beta / c)
        return alpha + math.expm1(epsilon) + c + 2 * d

    best = optimize.minimize_scalar(width, bounds=(beta / total * 1.0001, 0.05), method="bounded", options={"xatol": 1e-12})
    assert jung20(alpha, beta=beta, epsilon=epsilon, delta=delta, total=total) == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("mu", np.geomspace(0.005, 2, 10))
@pytest.mark.parametrize("beta", np.geomspace(1e-6, 0.3, 10))
def test_t4_is_never_narrower_than_t5(mu, beta):
    old = min(
        jung20(0, beta=0, epsilon=float(at), delta=min(gaussian_delta(float(mu), float(at)), 0.99), total=float(beta))
        for at in mu * np.linspace(0.05, 8, 80)
    )
    new = gaussian_shift(float(mu), beta=float(beta)).gamma
    assert new <= old
    if 0.01 <= mu <= 0.3 and 0.005 <= beta <= 0.05:
        assert 3.5 < old / new < 6


def test_t4_pure_case_is_four_times_wider():
    assert jung20(0, beta=0, epsilon=0.01, delta=0, total=0.05) / shift(0.01) == pytest.approx(4, abs=0.05)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1e6))
def test_t8_factor_is_the_minimum(information):
    u = information_factor(information)
    assert u - math.log(u) >= (1 + 2 * information) * (1 - 1e-9)
    for t in (0.1, 0.5, 0.9, 1 - 1 / u if u > 1.001 else 0.5, 0.999):
        assert u <= (2 * information - math.log1p(-t)) / t * (1 + 1e-6)


def test_t8_public_code_has_half_of_the_noise_term():
    ours = rrstww20(10**12, information=0, sigma=1, queries=1, beta=0.05)
    assert ours == pytest.approx(math.sqrt(2 * math.log(80)), rel=1e-4)
    assert 2 * stats.norm.sf(ours) < 0.025
    assert 2 * stats.norm.sf(ours / 2) == pytest.approx(0.139, abs=1e-3)


def test_d1_monitor_with_gaussian_noise():
    width = bassily16_gaussian(10, epsilon=0.03, delta=1e-5, sigma=0.005, beta=0.05)
    by_hand = (math.expm1(0.03) + 40e-5 + 0.005 * math.sqrt(2 * math.log(40 / 1e-5))) / (1 - 0.95**20)
    assert width == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: bassily16(0, epsilon=0.1),
        lambda: bassily16(1000, epsilon=math.nan),
        lambda: bassily16(1000, epsilon=0.1, delta=1.0),
        lambda: jung20(-0.1, beta=0.1, epsilon=1, delta=0, total=0.05),
        lambda: information_factor(-1),
        lambda: expected_gap_epsilon(0, queries=10),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(InvalidParameter):
        call()

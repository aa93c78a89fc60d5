"""Plans for small shares (U6)."""

import itertools
import math

import numpy as np
import pytest

from holdtrue.accounting.closed_forms import cdf, gaussian_delta, golden, upper_quantile
from holdtrue.bounds.transfer import gaussian_shift, interval
from holdtrue.codec import decode, encode
from holdtrue.errors import InvalidParameter
from holdtrue.planning.asking import open_plan, plan
from holdtrue.planning.plans import Plan

SHARES = (0.01, 0.05, 0.2, 0.5)
# Half-widths at these shares for 300 questions with beta split: balanced; shares=0.05 without and with the limit; 0.2.
TABLE = {
    10**4: (
        (0.1009, 0.1093, 0.1318, 0.1389),
        (0.0782, 0.0966, 0.1439, 0.1591),
        (0.0810, 0.0969, 0.1384, 0.1521),
        (0.0938, 0.1039, 0.1308, 0.1398),
    ),
    45_000: (
        (0.0429, 0.0471, 0.0592, 0.0665),
        (0.0282, 0.0384, 0.0667, 0.0829),
        (0.0322, 0.0396, 0.0604, 0.0728),
        (0.0375, 0.0429, 0.0584, 0.0677),
    ),
    10**6: (
        (0.0084, 0.0093, 0.0121, 0.0142),
        (0.0046, 0.0070, 0.0141, 0.0193),
        (0.0060, 0.0075, 0.0121, 0.0155),
        (0.0071, 0.0083, 0.0118, 0.0145),
    ),
}
TERMS = ({}, {"shares": 0.05, "strict": False}, {"shares": 0.05}, {"shares": 0.2})


@pytest.mark.parametrize("rows", sorted(TABLE))
@pytest.mark.parametrize("column", range(4))
def test_u6_table(rows, column):
    made = plan(rows=rows, queries=300, method="transfer-gaussian", **TERMS[column])
    widths = [made.alpha_at(share) for share in SHARES]
    assert widths == pytest.approx(TABLE[rows][column], rel=0.02)
    # With one beta for noise and gap all of it is narrower still.
    joint = plan(rows=rows, queries=300, **TERMS[column])
    assert all(joint.alpha_at(share) < 0.97 * width for share, width in zip(SHARES, widths, strict=True))


@pytest.mark.parametrize("rows", [2000, 10**5])
@pytest.mark.parametrize("method", ["joint-gaussian", "joint-gaussian-zcdp", "transfer-gaussian"])
def test_u6_strict_plans_lose_a_tenth_at_most(rows, method):
    balanced = plan(rows=rows, queries=100, method=method)
    tuned = plan(rows=rows, queries=100, method=method, shares=0.02)
    loose = plan(rows=rows, queries=100, method=method, shares=0.02, strict=False)
    assert loose.alpha_at(0.02) <= tuned.alpha_at(0.02) * (1 + 1e-6) < 0.95 * balanced.alpha_at(0.02)
    assert tuned.alpha <= 1.1 * balanced.alpha * (1 + 1e-6) < loose.alpha
    # Less noise, and less privacy: the price of it.
    assert tuned.sigma < balanced.sigma
    assert tuned.cap > balanced.cap


def test_u6_alpha_is_the_largest_over_all_shares():
    for made in (plan(rows=5000, queries=50), plan(rows=5000, queries=50, shares=0.1)):
        widths = [made.alpha_at(share / 100) for share in range(101)]
        assert max(widths) <= made.alpha * (1 + 1e-9)
        assert widths == pytest.approx(widths[::-1], rel=1e-6)
        assert widths[0] < 0.8 * widths[50]
    assert open_plan(rows=5000, epsilon=1, delta=1e-6).alpha_at(0.01) < open_plan(rows=5000, epsilon=1, delta=1e-6).alpha
    for wrong in (-0.1, 1.1, math.nan, True):
        with pytest.raises(InvalidParameter):
            plan(rows=5000, queries=50).alpha_at(wrong)


def test_u6_a_cap_by_privacy_leaves_only_the_interval_to_tune():
    terms = {"rows": 20_000, "queries": 100, "epsilon": 0.05, "delta": 1e-6}
    balanced, tuned = plan(**terms), plan(**terms, shares=0.05)
    assert tuned.cap <= balanced.cap * (1 + 1e-9)
    assert tuned.alpha_at(0.05) < balanced.alpha_at(0.05)


def test_u6_the_slack_pays_for_the_epsilon_that_is_frozen():
    """An epsilon other than that of the middle is frozen with its own delta."""
    made = plan(rows=10_000, queries=300, shares=0.05)
    frozen = made.transfer
    assert frozen.slack * made.beta >= gaussian_delta(made.cap, frozen.epsilon) + math.exp(frozen.epsilon) * frozen.overshoot
    assert made.cost * made.queries <= made.cap_units


@pytest.mark.parametrize(("share", "end", "epsilon"), [(0.06, 0.069535, 0.143025), (0.5, 0.533833, 0.118839)])
def test_u6_the_best_epsilon_of_a_share(share, end, epsilon):
    """The exact root: where the upper end of an answer without noise is least, at mu = 0.05 and a failure of 0.035."""
    mu, beta = 0.05, 0.035

    def high(log):
        return interval(share, noise=0.0, epsilon=math.exp(log), slack=gaussian_delta(mu, math.exp(log)) / beta)[1]

    best = golden(high, math.log(0.02), math.log(0.5), steps=60)
    assert high(best) == pytest.approx(end, abs=1e-6)
    assert math.exp(best) == pytest.approx(epsilon, abs=1e-4)


def test_u6_the_shorter_form_is_right_for_small_shares_only():
    """epsilon = mu z_B - mu^2/2, B = beta (share + noise): the least v e^epsilon + delta/beta, nearly the least end."""
    mu, beta, share = 0.05, 0.035, 0.06
    z = upper_quantile(beta * share)
    epsilon = mu * z - mu**2 / 2
    value = share * math.exp(epsilon) + gaussian_delta(mu, epsilon) / beta
    assert (epsilon, value) == (pytest.approx(0.141887, abs=1e-6), pytest.approx(0.070174, abs=1e-6))
    assert value == pytest.approx(cdf(mu - z) / beta, abs=1e-9)
    for share, lost in ((0.06, 0.00001), (0.2, 0.0001), (0.5, 0.0018)):
        short = mu * upper_quantile(beta * share) - mu**2 / 2
        ends = [
            interval(share, noise=0.0, epsilon=each, slack=gaussian_delta(mu, each) / beta)[1]
            for each in (short, *(0.1 + 0.001 * step for step in range(60)))
        ]
        assert ends[0] - min(ends) == pytest.approx(lost, abs=6e-5)


def test_u6_two_frozen_points_that_share_beta_cover_one_row():
    """Exactly, for one row that is 1 with probability u, seen with normal noise: the worst misses in .00197 of .05."""
    beta, answers, worst = 0.05, np.linspace(-12, 14, 40_001), 0.0
    for mu, share in itertools.product((0.5, 1.0, 2.0), (0.02, 0.1, 0.3, 0.5)):
        one, other = share * np.exp(-((answers - mu) ** 2) / 2), (1 - share) * np.exp(-(answers**2) / 2)
        held, out = one / (one + other), np.zeros(answers.size, dtype=bool)
        for part, times in ((0.8, 1.5), (0.2, 1.0)):
            epsilon = gaussian_shift(mu, beta=beta * part).epsilon * times
            slack, growth = gaussian_delta(mu, epsilon) / (beta * part), math.expm1(epsilon)
            out |= (held - slack) / (1 + growth * (1 - held)) > share
            out |= (1 - held - slack) / (1 + growth * held) > 1 - share
        missed = ((one + other) * out).sum() * (answers[1] - answers[0]) / math.sqrt(2 * math.pi)
        worst = max(worst, missed)
    assert worst == pytest.approx(0.00197, abs=2e-5)


def test_u6_plans_say_both_widths_and_read_back():
    made = plan(rows=45_000, queries=300, shares=0.05)
    assert decode(encode(made), Plan) == made
    assert f"within {made.alpha:.4g} of the population" in str(made)
    assert f"{made.alpha_at(0.05):.4g} where an answer is 0.05" in str(made)
    assert "shares" not in encode(plan(rows=45_000, queries=300))
    assert made.compare()["joint-gaussian"].alpha == pytest.approx(made.alpha)
    rows = plan(queries=300, alpha=0.05, shares=0.05).rows
    assert plan(rows=rows, queries=300, shares=0.05).alpha <= 0.05


@pytest.mark.parametrize("shares", [0, 0.6, -1, math.nan, True, "0.1"])
def test_u6_bad_shares_are_named(shares):
    with pytest.raises(InvalidParameter, match="shares"):
        plan(rows=10_000, queries=10, shares=shares)


def test_u6_methods_with_one_width_for_all_shares_refuse_them():
    for terms in ({"method": "jung20"}, {"pure": True}, {"iid": False, "epsilon": 1, "delta": 1e-6}):
        with pytest.raises(InvalidParameter, match="shares"):
            plan(rows=50_000, queries=10, shares=0.05, **terms)

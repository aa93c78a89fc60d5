"""One beta for noise and gap (S1): its numbers, its purse, and the form that looks like it and is false."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from holdtrue.accounting.closed_forms import gaussian_delta, zero_concentrated_delta
from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_overshoot, gaussian_quantile, grid
from holdtrue.bounds.transfer import interval, position_interval
from holdtrue.codec import decode, encode
from holdtrue.curator import Curator
from holdtrue.planning.asking import plan
from holdtrue.planning.plans import Plan, read_plan
from laws import generator

BETA = 0.05

RUNS, NARROW, WIDE, GAP = 400_000, 1e-4, 0.5, 0.01

# As it was written when beta was split by default.
SPLIT = (
    '{"plan":"ask","rows":2000,"queries":10,"alpha":0.12116558350759936,"beta":0.05,"epsilon":0.34492877492670276,'
    '"delta":1e-6,"limited":false,"sigma":0.01802785283474105,"event":{"kind":"Gaussian",'
    '"mu":"4503599627370496/162380462617659875"},"ledger":"gdp","cost":769222537766,"cap_units":7692225377660,'
    '"reserve":0.0,"uses":10,"rule":"validity","iid":true,"bits":20,"method":"transfer-gaussian",'
    '"theorem":"transfer theorem (T5, T6), Gaussian differential privacy","transfer":{"epsilon":0.21406689964729525,'
    '"slack":0.007977753472163222,"noise":0.060529157884540975,"gamma":0.0606364256230515,'
    '"noise_beta":0.020604017525098463,"transfer_beta":0.02939598247490151},"alpha_otherwise":null}'
)


@pytest.mark.parametrize(
    ("queries", "mean", "quantile"), [(1, 2.3378, 1.96), (10, 3.1008, 2.7996), (100, 3.73, 3.474), (1000, 4.2758, 4.0497)]
)
def test_s1_constants(queries, mean, quantile):
    assert gaussian_maximum(queries, beta=BETA) == pytest.approx(mean, abs=1e-4)
    assert gaussian_quantile(queries, beta=BETA) == pytest.approx(quantile, abs=1e-4)


def test_s1_constants_of_five_hundred():
    assert gaussian_maximum(500, beta=BETA) == pytest.approx(4.1184, abs=1e-4)
    assert gaussian_quantile(500, beta=BETA) == pytest.approx(3.8844, abs=1e-4)


@pytest.mark.parametrize(
    ("queries", "rows", "split"), [(1, 614, 729), (10, 2561, 2938), (100, 9716, 10_902), (1000, 35_168, 38_867)]
)
def test_s1_rows(queries, rows, split):
    """Form (b) with the sum of overshoots; beside it, the form with beta split."""
    made = plan(queries=queries, alpha=0.1, beta=BETA)
    assert made.method == "joint-gaussian"
    assert made.rows == pytest.approx(rows, rel=1e-3)
    beside = made.compare()["transfer-gaussian"]
    assert beside.rows == pytest.approx(split, rel=1e-3)
    assert beside.alpha > made.alpha


@pytest.mark.parametrize(("queries", "rows"), [(10, 2559), (100, 9708), (1000, 35_143)])
def test_s1_rows_with_the_sum_of_overshoots_are_those_with_the_largest_within_half_a_percent(queries, rows):
    assert plan(queries=queries, alpha=0.1, beta=BETA).rows == pytest.approx(rows, rel=5e-3)


@pytest.mark.parametrize(("rows", "alpha"), [(10**4, 0.15489), (45_000, 0.07291), (10**6, 0.01545)])
def test_s1_half_widths_of_five_hundred_questions(rows, alpha):
    # The record has the largest overshoot; the sum of them costs up to 0.04 % of alpha.
    assert plan(rows=rows, queries=500, beta=BETA).alpha == pytest.approx(alpha, rel=1e-3)


@pytest.mark.parametrize("box", [0.01, 0.5, 1.0, 2.5, 4.0, 6.0, 9.0, 30.0])
def test_s1_overshoot_of_one_draw(box):
    tail = integrate.quad(lambda x: 2 * stats.norm.sf(x), box, box + 20, epsabs=0, epsrel=1e-11)[0]
    assert tail * (1 - 1e-9) <= gaussian_overshoot(box) <= tail * (1 + 1e-6) + 1e-300


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 10**5),
    st.floats(0.01, 0.5),
    st.floats(1e-6, 0.4),
    st.sampled_from([0, 0.25]),
    st.sampled_from(["joint-gaussian", "joint-gaussian-zcdp"]),
)
def test_s1_purse_holds_every_planned_answer(queries, alpha, beta, reserve, method):
    """The overshoots of all planned answers fit, those of five per cent more do not, and the slack pays for the purse."""
    made = plan(queries=queries, alpha=alpha, beta=beta, reserve=reserve, method=method)
    frozen = made.transfer
    box = (frozen.noise - grid(made.rows, bits=made.bits)) / made.sigma
    one = made.sigma * 2 * (stats.norm.pdf(box) - box * stats.norm.sf(box))
    assert queries * one <= frozen.overshoot * (1 + 1e-7)
    assert 1.05 * queries * one > frozen.overshoot
    curve = gaussian_delta if made.ledger == "gdp" else lambda cap, at: zero_concentrated_delta(cap**2 / 2, at)
    paid = curve(made.cap, frozen.epsilon) + math.exp(frozen.epsilon) * frozen.overshoot
    assert frozen.slack * beta >= paid * (1 - 1e-12)
    assert frozen.noise + frozen.gamma <= made.alpha
    assert decode(encode(made), Plan) == made


def test_s1_zcdp_costs_what_knowing_rho_only_costs():
    for queries in (10, 1000):
        ratio = plan(queries=queries, alpha=0.1, method="joint-gaussian-zcdp").rows / plan(queries=queries, alpha=0.1).rows
        assert 1.1 < ratio < 1.2


def misses_of_two_scales(rng, *, boxes, slack):
    """How often some interval misses where one draw has tiny noise and nine have noise far above the slack.

    With probability ``shown`` a mechanism shows all rows, each kept with probability ``kept`` and replaced by a fresh one
    otherwise: (0, shown kept)-DP, and delta is BETA times GAP. Rows are draws of a continuous law, so the share of those
    that equal what was shown is 0 in the population; the draw with tiny noise asks for it.
    """
    kept = (boxes[0] + 3) * NARROW + slack  # three deviations above the upper end of what the interval forgives
    shown = BETA * GAP / kept
    share = rng.binomial(10**9, kept, RUNS) / 10**9
    caught = (rng.random(RUNS) < shown) & (share + NARROW * rng.standard_normal(RUNS) > boxes[0] * NARROW + slack)
    others = np.abs(rng.standard_normal((9, RUNS))).max(axis=0)
    return float((caught | (WIDE * others > boxes[1] * WIDE + slack)).mean())


def test_s1_one_constant_for_draws_of_different_scale_is_false(request):
    """The negative control: each draw's own scale times one constant, beside delta/beta, misses more often than beta."""
    constant = gaussian_maximum(10, beta=BETA)
    missed = misses_of_two_scales(generator(request), boxes=(constant, constant), slack=GAP)
    assert stats.binom.sf(round(missed * RUNS) - 1, RUNS, BETA) < 1e-9
    assert missed == pytest.approx(0.0618, abs=0.003)


def test_s1_a_common_purse_holds_for_draws_of_different_scale(request):
    """The same attack on boxes of each draw's own scale; the overshoot of the widest is in every interval's slack."""
    box = gaussian_quantile(10, beta=BETA)
    overshoot = WIDE * (gaussian_maximum(10, beta=BETA) - box) * BETA
    missed = misses_of_two_scales(generator(request), boxes=(box, box), slack=GAP + overshoot / BETA)
    assert missed <= BETA


def test_s1_by_position_the_same_slack_covers(request):
    """T6b with the slack of form (b), which is above that of form (a): its test multiplies the noise by 1 and not more."""
    made = plan(rows=3000, queries=20, beta=BETA)
    frozen = made.transfer
    needed = (gaussian_delta(made.cap, frozen.epsilon) + frozen.overshoot) / BETA
    assert needed < frozen.slack
    ends = {"noise": frozen.noise, "epsilon": frozen.epsilon, "slack": frozen.slack}
    for answer in generator(request).random(50):
        assert made.interval(answer) == interval(answer, **ends)
        assert made.interval(answer, by_position=True) == position_interval(answer, **ends)


def test_s1_a_plan_that_split_beta_keeps_its_bytes_and_its_intervals():
    old = read_plan(SPLIT)
    assert encode(old) == SPLIT
    assert old.transfer.overshoot == 0
    assert old == plan(rows=2000, queries=10, beta=BETA, method="transfer-gaussian")
    assert old.interval(0.3) == (0.19592446899549762, 0.41854693669014564)
    assert old.interval(0.3, by_position=True) == (0.1956091987401022, 0.41956469102336447)
    assert "overshoot" in encode(plan(rows=2000, queries=10, beta=BETA))


def test_s1_a_ledger_opened_with_a_split_beta_keeps_its_theorem(tmp_path):
    rows, path = {"x": np.arange(2000) / 2000}, tmp_path / "old.ledger"
    with Curator(rows, plan=read_plan(SPLIT), ledger=path) as curator:
        first = curator.ask("x > 0.5")
    with Curator(rows, ledger=path) as curator:
        again = curator.ask("x > 0.7")
        assert encode(curator.plan) == SPLIT
    for answer in (first, again):
        assert answer.certificate.theorem == "transfer theorem (T5, T6), Gaussian differential privacy"
        assert (answer.interval.low, answer.interval.high) == read_plan(SPLIT).interval(answer.value)

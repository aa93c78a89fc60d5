"""V4.2 iii: intervals of a plan where T6 at several pairs of epsilon and slack meet, all of which share one beta."""

import math

import numpy as np
import pytest
from msgspec import structs
from scipy import stats

import holdtrue as ht
from holdtrue.accounting.closed_forms import gaussian_delta, zero_concentrated_delta
from holdtrue.bounds.accuracy import gaussian_overshoot, grid
from holdtrue.bounds.transfer import EDGE_RATES, EDGE_SHARE, edge_rates, gaussian_shift, interval, level_pairs, meet_ends
from holdtrue.codec import decode, encode
from holdtrue.planning.asking import open_plan, plan
from holdtrue.planning.plans import Plan, meet_pairs
from laws import generator

PRIVATE = {"rows": 100_000, "queries": 100, "epsilon": 1, "delta": 1e-6, "cap": "privacy"}


def _curve(made):
    """Return delta of everything that the ledger of a plan may pay for."""
    if made.second is not None:
        return lambda at: made.second.delta(made.cap, at)
    if made.ledger == "zcdp":
        return lambda at: zero_concentrated_delta(made.cap, at)
    return lambda at: gaussian_delta(made.cap, at)


def _failing(made, pair):
    """Return with which probability the statements by one pair fail, by S1: noise beyond its boxes, and the gap."""
    deviations = (pair.noise - grid(made.rows, bits=made.bits)) / made.sigma
    beyond = made.sigma * made.queries * gaussian_overshoot(deviations, one_sided=made.side != "both")
    return (_curve(made)(pair.epsilon) + math.exp(pair.epsilon) * beyond) / pair.slack


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"side": "high"},
        {"method": "joint-gaussian-zcdp"},
        {"queries": 1},
        {
            "cap": "validity",
            "epsilon": None,
            "delta": None,
            "reserve": {"predictions": 9, "epsilon": 0.1, "currency": "rho"},
        },
    ],
)
def test_v4_2_all_pairs_of_a_plan_fail_with_probability_beta_at_most(given):
    made = plan(**(PRIVATE | given))
    first, *edges = made.pairs
    assert len(edges) == len(EDGE_RATES)
    failures = [_failing(made, each) for each in edges]
    assert max(failures) <= EDGE_SHARE * made.beta * (1 + 1e-9)
    assert _failing(made, first) + sum(failures) <= made.beta * (1 + 1e-9)
    assert decode(encode(made), Plan) == made


def test_v4_2_a_plan_that_splits_beta_splits_the_share_of_each_pair():
    made = plan(**PRIVATE, method="transfer-gaussian")
    first, *edges = made.pairs
    assert made.transfer.noise_beta + made.transfer.transfer_beta <= (1 - 2 * EDGE_SHARE) * made.beta
    ratio = made.transfer.transfer_beta / (made.transfer.noise_beta + made.transfer.transfer_beta)
    for pair in edges:
        assert gaussian_delta(made.cap, pair.epsilon) / pair.slack <= ratio * EDGE_SHARE * made.beta * (1 + 1e-6)
        assert pair.noise > first.noise, "the noise of all answers has a smaller share of beta, too"


def test_v4_2_pairs_are_far_narrower_at_0_and_cost_a_hundredth_in_the_middle():
    made = plan(**PRIVATE)
    one = plan(**PRIVATE, beta=0.05).transfer
    assert made.interval(0.0)[1] == pytest.approx(0.0055, abs=1e-4)
    alone = structs.replace(made, transfer=structs.replace(one, edges=()))
    assert alone.interval(0.0)[1] > 5 * made.interval(0.0)[1]
    assert made.alpha_at(0.01) < 0.65 * alone.alpha_at(0.01)
    assert made.alpha == pytest.approx(0.1561, abs=1e-4)
    for answer in np.linspace(-0.1, 1.1, 121).tolist():
        low, high = made.interval(answer)
        assert low <= min(1.0, max(0.0, answer)) <= high
        assert max(high - answer, answer - low) <= made.alpha + max(0.0, -answer, answer - 1)
        assert (1 - high, 1 - low) == pytest.approx(made.interval(1 - answer), abs=1e-12)
        wide = made.interval(answer, by_position=True)
        assert wide[0] <= low + 1e-12
        assert high <= wide[1] + 1e-12


def test_v4_2_plans_whose_noise_is_like_their_gap_keep_one_pair():
    """Further ones would gain nothing there; a plan for small shares has the pair that is best for them."""
    for given in ({"queries": 1}, {"queries": 1000}, {"queries": 100, "reserve": 0.8}):
        made = plan(rows=100_000, **given)
        assert made.pairs == made.pairs[:1]
        assert "edges" not in encode(made)
    assert plan(**PRIVATE, shares=0.01).transfer.edges == ()


@pytest.mark.parametrize(("mu", "beta"), [(0.1, 0.05), (0.5, 0.05), (1.0, 0.01)])
def test_v4_2_exact_coverage_of_one_row_by_several_pairs(mu, beta):
    """One row that is 1 with probability p, seen with normal noise."""
    first = gaussian_shift(mu, beta=beta * (1 - 2 * EDGE_SHARE))
    pairs = [(first.epsilon, first.slack)]
    share = beta * EDGE_SHARE
    pairs += [(rate * mu, gaussian_delta(mu, rate * mu) / share) for rate in edge_rates(share)]
    answers = np.linspace(-9, 9 + mu, 20_001)[::20]
    worst = 0.0
    for p in np.linspace(0.01, 0.99, 25):
        weight = p * stats.norm.pdf(answers, mu) + (1 - p) * stats.norm.pdf(answers)
        held = p * stats.norm.pdf(answers, mu) / weight
        ends = [[interval(v, noise=0, epsilon=e, slack=d) for e, d in pairs] for v in held]
        out = np.array([any(not low <= p <= high for low, high in each) for each in ends])
        worst = max(worst, float((weight * out).sum() * (answers[1] - answers[0])))
    assert worst <= beta


def test_v4_2_the_luckiest_of_many_rare_questions_is_covered(request):
    """Shares of 1 in 100, and the one that looks rarest asked again with another: by all pairs never far from beta."""
    random, missed, narrow, runs = generator(request), 0, 0, 40
    terms = {"queries": 22, "epsilon": 2.0, "delta": 1e-6, "cap": "privacy", "iid": True}
    for _ in range(runs):
        rows = {f"c{place}": random.random(20_000) < 0.01 for place in range(20)}
        with ht.Curator(rows, **terms) as curator:
            assert len(curator.plan.pairs) > 1
            told = curator.ask([f"c{place}" for place in range(20)])
            order = np.argsort([each.value for each in told])
            told.append(curator.ask(f"c{order[0]} OR c{order[1]}"))
            truth = [0.01] * 20 + [1 - 0.99**2]
            missed += any(true not in answer.interval for answer, true in zip(told, truth, strict=True))
            near = [answer.sample_interval for answer in told]
            narrow += any(true not in each for each, true in zip(near, truth, strict=True))
    assert missed <= 0.05 * runs
    assert narrow > 0.5 * runs, "the noise alone misses the population nearly always"


def test_v4_2_open_ended_plans_meet_several_pairs_and_older_ones_keep_one():
    made = open_plan(rows=100_000, epsilon=1, delta=1e-6)
    older = structs.replace(made, edges=False)
    place = {"draw": 500, "spent": 500 * made.cost}
    assert made.interval(0.0, **place)[1] < 0.75 * older.interval(0.0, **place)[1]
    assert made.interval(0.5, **place)[1] == pytest.approx(older.interval(0.5, **place)[1], rel=0.01)
    shifts = made.find_pairs(made.transfer_beta, spent=500 * made.cost)
    terms = made.transfer_terms(**place)
    assert (shifts[0].epsilon, shifts[0].slack) == terms[1:], "tables and curves rest on the first of the pairs"
    assert "edges" not in encode(older)
    assert older.transfer_terms(**place)[1] != terms[1]


def test_v4_2_pairs_are_placed_by_their_share_of_beta():
    """As the sheet has them at its own; elsewhere so that the slack over mu is the same."""
    assert edge_rates(0.04 * EDGE_SHARE) == pytest.approx(EDGE_RATES, abs=1e-9)
    for share in (0.03, 1e-3, 1e-5, 1e-9):
        for rate, at in zip(EDGE_RATES, edge_rates(share), strict=True):
            height = gaussian_overshoot(rate, one_sided=True) / (0.04 * EDGE_SHARE)
            assert gaussian_overshoot(at, one_sided=True) / share == pytest.approx(height, rel=1e-6)
    units = {"spent": 10**14, "first": 10**12, "cap": 10**16, "beta": 0.04}
    near = [meet_ends((0.0, 0.001), pairs=level_pairs("gdp", **units, scaled=each))[1] for each in (True, False)]
    assert near[0] < 0.5 * near[1], "on a ledger of which much is spent, shares of beta are small"


def test_v4_2_no_interval_is_empty():
    made = plan(**PRIVATE)
    for answer in np.linspace(0, 1, 11).tolist():
        low, high = meet_pairs(made.pairs, answer)
        assert low <= answer <= high

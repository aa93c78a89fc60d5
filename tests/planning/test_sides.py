"""Plans that promise one end of every interval (S6 b): their numbers, their coverage, and what they refuse to quote."""

import math

import msgspec
import numpy as np
import pytest
from scipy import stats

from holdtrue.accounting.closed_forms import gaussian_delta
from holdtrue.auditing.ledger import audit_ledger
from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_overshoot, grid
from holdtrue.bounds.transfer import interval, position_interval
from holdtrue.codec import decode, encode
from holdtrue.curator import Curator
from holdtrue.errors import IntegrityError, InvalidParameter, NotCertified
from holdtrue.holdouts.scoring import ends_of
from holdtrue.holdouts.submissions import Question
from holdtrue.noise.samplers import rounded_gaussian
from holdtrue.planning.asking import open_plan, plan
from holdtrue.planning.plans import Plan, read_plan
from laws import LEVEL, generator

BETA = 0.05
RUNS, QUERIES = 400_000, 10
METHODS = ("joint-gaussian", "joint-gaussian-zcdp", "transfer-gaussian", "transfer-gaussian-zcdp")
ROWS = 4000


@pytest.mark.parametrize(
    ("queries", "one", "both"), [(1, 2.063, 2.338), (10, 2.888, 3.101), (100, 3.551, 3.730), (1000, 4.118, 4.276)]
)
def test_s6b_constants(queries, one, both):
    assert gaussian_maximum(queries, beta=BETA, one_sided=True) == pytest.approx(one, abs=1e-3)
    assert gaussian_maximum(queries, beta=BETA) == pytest.approx(both, abs=1e-3)


@pytest.mark.parametrize("box", [0.0, 0.01, 0.5, 2.5, 6.0, 30.0])
def test_s6b_overshoot_of_one_draw_is_half(box):
    exact = stats.norm.pdf(box) - box * stats.norm.sf(box)
    found = gaussian_overshoot(box, one_sided=True)
    assert found == gaussian_overshoot(box) / 2
    assert exact * (1 - 1e-7) <= found <= exact * (1 + 1e-6) + 1e-300


@pytest.mark.parametrize(
    ("queries", "rows", "both"), [(1, 544, 614), (10, 2389, 2561), (100, 9256, 9716), (1000, 33_884, 35_168)]
)
def test_s6b_rows_saved(queries, rows, both):
    made = plan(queries=queries, alpha=0.1, beta=BETA, side="low")
    assert made.rows == pytest.approx(rows, rel=1e-3)
    assert plan(queries=queries, alpha=0.1, beta=BETA).rows == pytest.approx(both, rel=1e-3)
    assert plan(queries=queries, alpha=0.1, beta=BETA, side="high").rows == made.rows


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("side", ["low", "high"])
def test_s6b_one_end_is_promised_and_the_other_says_nothing(method, side):
    made, both = (plan(rows=5000, queries=50, method=method, side=each) for each in (side, "both"))
    assert made.alpha < both.alpha
    assert both.theorem in made.theorem
    assert f"{'lower' if side == 'low' else 'upper'} ends only (S6)" in made.theorem
    frozen = {name: getattr(made.transfer, name) for name in ("noise", "epsilon", "slack")}
    for answer in (0.0, 0.03, 0.5, 0.9, 1.0):
        for by_position, ends in ((False, interval), (True, position_interval)):
            low, high = ends(answer, **frozen)
            expected = (low, 1.0) if side == "low" else (0.0, high)
            assert made.interval(answer, by_position=by_position) == expected
        reach = answer - made.interval(answer)[0] if side == "low" else made.interval(answer)[1] - answer
        assert made.alpha_at(answer) == reach <= made.alpha
    assert made.sample_alpha == pytest.approx(made.sigma * both.sample_alpha / both.sigma, rel=1e-3)  # still of both sides


@pytest.mark.parametrize("queries", [1, 10, 1000])
def test_s6b_slack_pays_for_the_overshoots_in_one_direction(queries):
    made = plan(queries=queries, alpha=0.1, beta=BETA, side="high")
    frozen = made.transfer
    box = (frozen.noise - grid(made.rows, bits=made.bits)) / made.sigma
    one = made.sigma * (stats.norm.pdf(box) - box * stats.norm.sf(box))
    assert queries * one <= frozen.overshoot * (1 + 1e-7) <= 1.05 * queries * one
    paid = gaussian_delta(made.cap, frozen.epsilon) + math.exp(frozen.epsilon) * frozen.overshoot
    assert frozen.slack * BETA >= paid * (1 - 1e-12)


def without_gap(side):
    """Return a plan in the limit of no gap, whose slack pays for the overshoot alone: there the noise is all that misses."""
    made = plan(rows=10**6, queries=QUERIES, beta=BETA, side=side)
    frozen = made.transfer
    bare = msgspec.structs.replace(frozen, epsilon=0.0, slack=frozen.overshoot / BETA)
    return msgspec.structs.replace(made, transfer=bare)


def miss_most(made, noise):
    """Return how often some interval misses where answers are told coarsely: all of the worst runs as their mean.

    The promise is about anything that is computed from answers (T5 ii), so also about the mean of a class of runs. The
    largest class whose mean is missed is made of the runs with the largest noise.
    """
    worst = np.sort(noise)[::-1]
    means = 0.5 + made.sigma * np.cumsum(worst) / np.arange(1, worst.size + 1)
    missed = [made.interval(float(mean))[0] > 0.5 for mean in means[: worst.size // 4 : 100]]
    return 100 * int(np.sum(missed)) / worst.size


def test_s6b_one_sided_constants_hold_and_are_used_up(request):
    noise = generator(request).standard_normal((QUERIES, RUNS))
    assert miss_most(without_gap("low"), noise.max(axis=0)) == pytest.approx(BETA, abs=0.002)
    assert miss_most(without_gap("both"), np.abs(noise).max(axis=0)) == pytest.approx(BETA, abs=0.002)


def test_s6b_both_ends_quoted_with_the_one_sided_constant_fail(request):
    """The planted fault: a plan for one side that says it is for both; by symmetry the worse end may be the lower one."""
    planted = msgspec.structs.replace(without_gap("low"), side="both")
    missed = miss_most(planted, np.abs(generator(request).standard_normal((QUERIES, RUNS))).max(axis=0))
    assert stats.binom.sf(round(missed * RUNS) - 1, RUNS, BETA) < LEVEL
    assert missed == pytest.approx(0.099, abs=0.01)


@pytest.mark.parametrize("side", ["low", "high"])
def test_s6b_planned_answers_hold_against_an_analyst_who_adapts(request, bits, side):
    """Ask for every feature, weigh all by the sign of its answer, ask how often that is right; the truth is always 1/2."""
    runs, queries = 200, 20
    made = plan(queries=queries, alpha=0.1, beta=BETA, side=side)
    rng, sign = generator(request), 1 if side == "low" else -1
    drawn = rounded_gaussian(made.noise_scale, size=runs * queries, bits=bits).reshape(runs, queries)
    noise, missed, furthest = drawn / (made.rows << made.bits), 0, 0.0
    for run in range(runs):
        hits = rng.integers(0, 2, (made.rows, queries - 1)) * 2 - 1
        answers = hits.mean(axis=0) / 2 + 0.5 + noise[run, :-1]
        votes = sign * hits @ np.where(answers > 0.5, 1, -1)
        answers = np.append(answers, (votes > 0).mean() + noise[run, -1])
        ends = np.array([made.interval(float(answer)) for answer in answers])
        missed += bool(((ends[:, 0] > 0.5) | (ends[:, 1] < 0.5)).any())
        furthest = max(furthest, float(sign * (answers[-1] - 0.5)))
    assert missed == 0
    assert furthest > 0.02  # the last question does overfit in the direction that is promised


def test_s6b_plans_for_both_sides_keep_their_bytes():
    made = plan(rows=2000, queries=10, beta=BETA)
    assert made == plan(rows=2000, queries=10, beta=BETA, side="both")
    assert '"side"' not in encode(made)
    one = plan(rows=2000, queries=10, beta=BETA, side="low")
    assert encode(one).endswith('"side":"low"}')
    assert decode(encode(one), Plan) == read_plan(encode(one)) == one
    assert open_plan(rows=10**5, epsilon=1, delta=1e-6).side == "both"


def test_s6b_a_plan_and_its_comparison_say_the_side():
    low, high = (plan(rows=9256, queries=100, side=side) for side in ("low", "high"))
    assert "every answer's lower end, at most 0.1" in str(low)
    assert "upper ends are not promised" in " ".join(str(low).split())
    assert "every answer's upper end, at most 0.1" in str(high)
    compared = low.compare()
    assert compared.title.startswith("100 adaptive questions, every lower end within 0.1")
    assert compared["joint-gaussian"].note == "(lower ends only)"
    assert compared["joint-gaussian"].rows == pytest.approx(9256, abs=2)
    assert compared["transfer-laplace"].side == "both"
    assert compared["transfer-laplace"].note == ""


def test_s6b_small_shares_are_served_on_one_side():
    balanced, tuned = (plan(rows=45_000, queries=300, side="high", shares=shares) for shares in (None, 0.05))
    assert tuned.alpha_at(0.01) < 0.9 * balanced.alpha_at(0.01)
    assert tuned.alpha <= 1.1 * balanced.alpha * (1 + 1e-6)
    assert "as in all up to it or near 1" in str(tuned)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"side": "left"}, "one of 'both', 'low', 'high'"),
        ({"side": True}, "one of 'both', 'low', 'high'"),
        ({"side": "low", "method": "jung20"}, "jung20 promises both ends"),
        ({"side": "low", "method": "splitting"}, "splitting promises both ends"),
        ({"side": "low", "pure": True}, "transfer-laplace promises both ends"),
        ({"side": "high", "iid": False, "epsilon": 1, "delta": 1e-6}, "intervals for the sample have both ends"),
    ],
)
def test_s6b_a_side_that_no_theorem_has_is_refused(given, words):
    with pytest.raises(InvalidParameter, match=words):
        plan(rows=100_000, queries=10, **given)


def data():
    return {"x": np.arange(ROWS) / ROWS, "g": np.array(["a", "b"])[np.arange(ROWS) % 2]}


def open_one(side="low", **given):
    return Curator(data(), queries=50, side=side, iid=True, labels={"g": ["a", "b"]}, bounds={"x": (0, 1)}, **given)


@pytest.mark.parametrize("side", ["low", "high"])
def test_s6b_answers_quote_the_promised_end(side):
    with open_one(side) as curator:
        for answer in (curator.ask("x > 0.3"), curator.ask(values=np.full(ROWS, 0.25), name="v"), curator.ask("x > 0.3")):
            ends = (answer.interval.low, answer.interval.high)
            assert (1.0 in ends) if side == "low" else (0.0 in ends)
            assert "ends only (S6)" in answer.certificate.theorem
            # Those for these rows have a quantile of their own, for both sides.
            rows = answer.sample_interval
            assert 0 < rows.low < answer.value < rows.high < 1
        seen = curator.preview("x > 0.4")
        assert seen.side == side
        assert f"population's {'lower' if side == 'low' else 'upper'} end within" in str(seen)
        assert '"side"' in encode(seen)


def test_s6b_what_has_both_ends_is_refused_before_anything_is_charged():
    with open_one(epsilon=2, delta=1e-6) as curator:
        calls = (
            lambda: curator.table("g"),
            lambda: curator.ask("x > 0.5", by="g"),
            lambda: curator.mean("x", low=0, high=1, by="g"),
            lambda: curator.histogram("x", low=0, high=1, bins=4),
            lambda: curator.median("x", low=0, high=1, step=0.01),
            lambda: curator.quantile("x", [0.1, 0.3, 0.5, 0.9], low=0, high=1, step=0.1, method="curve"),
            lambda: curator.preview_quantile("x", 0.5, low=0, high=1, step=0.01),
        )
        for call in calls:
            with pytest.raises(NotCertified, match=r"promises lower ends only \(side='low'\)"):
                call()
        assert curator.budget.spent == 0


def test_s6b_a_ledger_whose_plan_quotes_both_ends_for_the_price_of_one_fails_its_audit(tmp_path):
    path = tmp_path / "planted.ledger"
    planted = msgspec.structs.replace(plan(rows=ROWS, queries=50, side="low"), side="both")
    with Curator(data(), plan=planted, ledger=path) as curator:
        curator.ask("x > 0.3")
    (breach,) = audit_ledger(path).breaches
    assert "side='both'" in str(breach)
    for method in METHODS:
        for side in ("both", "low", "high"):
            for queries in (1, 50, 10**5):
                assert not plan(alpha=0.2, queries=queries, side=side, method=method).has_small_purse


def test_s6b_scores_are_never_told_by_a_plan_for_one_side():
    made, asked = plan(rows=ROWS, queries=10, side="low"), Question("", (), lambda: 0, ROWS << 20, ROWS << 20)
    with pytest.raises(IntegrityError, match="no transfer theorem for both ends"):
        ends_of(asked, ROWS << 19, plan=made, grid=ROWS << made.bits)


def test_s6b_the_side_is_frozen_with_the_ledger(tmp_path):
    path = tmp_path / "low.ledger"
    with open_one(ledger=path) as curator:
        first = curator.ask("x > 0.3")
    assert audit_ledger(path).breaches == ()
    with Curator(data(), ledger=path) as curator:
        assert curator.plan.side == "low"
        assert curator.ask("x > 0.3").interval == first.interval
    with pytest.raises(InvalidParameter, match="the plan of this ledger has side='low'"):
        Curator(data(), ledger=path, side="high")
    with pytest.raises(InvalidParameter, match="the plan of this ledger has side='both'"):
        Curator(data(), plan=plan(rows=ROWS, queries=10), side="low")
    with pytest.raises(InvalidParameter, match="an open-ended budget promises both ends"):
        Curator(data(), epsilon=1, delta=1e-6, iid=True, side="low")
    with pytest.raises(InvalidParameter, match="one of 'both', 'low', 'high'"):
        Curator(data(), queries=10, iid=True, side="up")

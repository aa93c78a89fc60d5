"""The sign-aggregation attack: planned answers hold, answers without noise do not (THEORY N6, T5, T6, T6b, T7)."""

import math

import numpy as np
import pytest
from scipy import stats

from holdtrue.bounds.accuracy import hoeffding_alpha
from holdtrue.bounds.transfer import interval, stitched_level, stitched_noise, stitched_shift
from holdtrue.noise.samplers import rounded_gaussian
from holdtrue.planning.asking import plan

BETA = 0.05
RUNS = 400


def generator(request):
    return np.random.default_rng(list(request.node.name.encode()))


def agreements(rng, rows, features):
    """Whether each feature agrees with the label, in rows of fair bits: all that the attack depends on."""
    packed = np.frombuffer(rng.bytes(rows * features // 8 + 1), dtype=np.uint8)
    return np.unpackbits(packed, count=rows * features).reshape(rows, features)


def transcript(rng, *, rows, queries, noise):
    """Ask for every feature, weigh all by the sign of its answer, ask for the accuracy of that; the truth is 1/2 each time.

    ``noise(j)`` is what is added to the j-th mean.
    """
    hits = agreements(rng, rows, queries - 1)
    answers = hits.mean(0) + np.array([noise(j) for j in range(queries - 1)])
    signs = np.where(answers > 0.5, 1, -1).astype(np.float32)
    votes = (2 * hits.astype(np.float32) - 1) @ signs
    right = np.where(votes == 0, rng.integers(0, 2, rows), votes > 0)
    return np.append(answers, right.mean() + noise(queries - 1))


def lower_limit(violations):
    return stats.beta.ppf(1e-6, violations, RUNS - violations + 1) if violations else 0.0


@pytest.mark.parametrize(("rows", "queries"), [(2561, 10), (9716, 100)])
def test_n6_planned_answers_hold(request, bits, rows, queries):
    made = plan(rows=rows, queries=queries, beta=BETA)
    assert made.alpha == pytest.approx(0.1, abs=1e-3)
    rng = generator(request)
    unit = rows << made.bits
    noise = rounded_gaussian(made.noise_scale, size=RUNS * queries, bits=bits).reshape(RUNS, queries) / unit
    assert noise.std() == pytest.approx(made.sigma, rel=0.1)
    missed, missed_by_position, largest = 0, 0, 0.0
    for run in range(RUNS):
        answers = transcript(rng, rows=rows, queries=queries, noise=lambda j, row=noise[run]: row[j])
        low, high = np.array([made.interval(float(answer)) for answer in answers]).T
        missed += bool(((low > 0.5) | (high < 0.5)).any())
        low, high = np.array([made.interval(float(answer), by_position=True) for answer in answers]).T
        missed_by_position += bool(((low > 0.5) | (high < 0.5)).any())
        largest = max(largest, float(np.abs(answers - 0.5).max()))
    assert missed == missed_by_position == 0
    assert largest <= made.alpha


@pytest.mark.parametrize(("rows", "queries"), [(2000, 201), (9716, 100)])
def test_n6_control_without_noise_fails(request, rows, queries):
    """The control that must fail: plain means with the naive simultaneous interval."""
    rng = generator(request)
    naive = hoeffding_alpha(rows, beta=BETA, queries=queries)
    runs = 60
    answers = np.array([transcript(rng, rows=rows, queries=queries, noise=lambda _: 0.0) for _ in range(runs)])
    covered = (np.abs(answers - 0.5) <= naive).all(1)
    assert covered.mean() < 0.5
    overfit = stats.norm.cdf(math.sqrt(2 * (queries - 1) / (math.pi * rows))) - 0.5
    assert (answers[:, -1] - 0.5).mean() == pytest.approx(overfit, abs=0.004)


def test_n6_a_plan_for_fewer_rows_says_so():
    assert plan(rows=2000, queries=201, beta=BETA).alpha == pytest.approx(0.2691, rel=0.01)
    split = {"beta": BETA, "method": "transfer-gaussian"}
    assert plan(rows=2000, queries=201, **split).alpha == pytest.approx(0.2830, rel=0.01)
    assert plan(rows=2939, queries=10, **split).sigma == pytest.approx(0.01484, rel=0.03)
    assert plan(rows=10_909, queries=100, **split).sigma == pytest.approx(0.01241, rel=0.03)


def test_t7_stitched_answers_hold_with_scales_chosen_on_the_way(request, bits):
    """No number of questions is fixed; every answer draws its own scale, and its level follows from what is spent."""
    rows, queries, base = 2939, 10, 0.01
    noise_beta, transfer_beta, first = 0.01, 0.04, 1 / (rows * base) ** 2
    rng = generator(request)
    scales = base * rng.choice([1.0, 1.5, 3.0], (RUNS, queries))
    spent = np.cumsum(1 / (rows * scales) ** 2, axis=1)
    noise = rounded_gaussian((scales * rows * 2.0**20).ravel(), size=RUNS * queries, bits=bits).reshape(RUNS, queries)
    noise = noise / (rows << 20)
    factors = [stitched_noise(draw, beta=noise_beta) for draw in range(1, queries + 1)]
    shifts = [stitched_shift(level, first=first, beta=transfer_beta) for level in range(6)]
    missed = 0
    for run in range(RUNS):
        answers = transcript(rng, rows=rows, queries=queries, noise=lambda j, row=noise[run]: row[j])
        for draw, answer in enumerate(answers):
            gap = shifts[stitched_level(spent[run, draw] * (1 - 1e-12), first=first)]
            width = scales[run, draw] * factors[draw] + 2.0**-20
            low, high = interval(float(answer), noise=width, epsilon=gap.epsilon, slack=gap.slack)
            if not low <= 0.5 <= high:
                missed += 1
                break
    assert lower_limit(missed) <= BETA


@pytest.mark.parametrize(("queries", "factor"), [(10, 1.48), (100, 1.47), (1000, 1.43)])
def test_t7_is_for_open_ended_sessions_only(queries, factor):
    """Stitched from one question's cost, the last answer is wider than a plan's, and the first one narrower."""
    made = plan(queries=queries, alpha=0.1, method="transfer-gaussian")
    square, frozen = made.event.mu**2, made.transfer

    def width(draw):
        gap = stitched_shift(stitched_level(draw * square, first=square), first=square, beta=frozen.transfer_beta)
        return made.sigma * stitched_noise(draw, beta=frozen.noise_beta) + gap.gamma

    assert width(queries) / made.alpha == pytest.approx(factor, rel=0.02)
    if queries == 100:
        assert width(1) == pytest.approx(0.042, abs=2e-3)

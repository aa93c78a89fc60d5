"""Runs of above threshold: T10, S3, S4."""

import math

import numpy as np
import pytest
from scipy import integrate

from holdtrue.bounds.sparse_vector import (
    above_threshold,
    above_threshold_alpha,
    highest_threshold,
    ladder_step,
    private_ladder,
)
from holdtrue.bounds.transfer import concentrated_shift, gaussian_shift, shift
from holdtrue.errors import InvalidParameter
from laws import generator

BETA = 0.05


def older_alpha(rows, *, looks, runs, scale, noise_beta, beta):
    """T10's half-width beyond the threshold, for one query for all rows, with beta split."""
    noise = 4 * (math.log((looks + runs) / noise_beta) + 1) + 2 * (math.log((runs + 1) / noise_beta) + 1)
    costs = above_threshold(rows, looks=looks, runs=runs, scale=scale, beta=beta)
    forms = shift(costs.epsilon), gaussian_shift(costs.mu, beta=beta).gamma, concentrated_shift(costs.rho, beta=beta).gamma
    return scale * noise + min(forms)


@pytest.mark.parametrize(
    ("rows", "looks", "runs", "alpha"), [(10**4, 10**6, 10, 0.353), (10**4, 10**3, 10, 0.293), (10**5, 10**6, 100, 0.204)]
)
def test_t10_numbers(rows, looks, runs, alpha):
    """The older form at its best, and that S3 is narrower although it is for queries by position."""
    found = above_threshold_alpha(rows, looks=looks, runs=runs, beta=BETA)
    older = min(
        older_alpha(
            rows, looks=looks, runs=runs, scale=found.scale * factor, noise_beta=BETA * share, beta=BETA * (1 - share)
        )
        for factor in np.geomspace(0.6, 1.4, 30)
        for share in np.geomspace(0.05, 0.8, 30)
    )
    assert older == pytest.approx(alpha, abs=1e-3)
    assert found.alpha < 0.93 * older


def test_t10_costs():
    rows, looks, runs, s = 20_000, 500, 7, 0.001
    each = 1 / (rows * s)
    found = above_threshold(rows, looks=looks, runs=runs, scale=s, beta=BETA)
    assert found.epsilon == pytest.approx(14 * each)
    assert found.rho == pytest.approx(14 * each * math.tanh(each / 2))
    # Each run and each release is charged as any pure event: never less than the continuous law's cost.
    assert found.rho >= runs * (each * math.tanh(each / 2) + each + math.expm1(-each))


@pytest.mark.parametrize(("runs", "mean"), [(1, 4 / 3), (2, 1.8667), (5, 2.8727), (10, 4.0132), (20, 5.6401), (50, 8.8845)])
def test_s3_highest_threshold(runs, mean):
    assert highest_threshold(runs) == pytest.approx(mean, abs=1e-4)


def test_s3_highest_threshold_is_the_integral_from_above():
    """Also beyond the number of runs up to which it is summed."""
    for runs in (1, 3, 17, 100, 256, 257, 1000, 10**6):
        low = integrate.quad(lambda y, runs=runs: 1 - (y * y / 2) ** runs, 0, 1)[0]
        end = 1000 * math.sqrt(runs)
        places = [math.sqrt(runs) * factor for factor in (0.3, 1, 3, 10, 100)]
        high = integrate.quad(
            lambda y, runs=runs: -math.expm1(runs * math.log1p(-1 / (2 * y * y))), 1, end, points=places, limit=500
        )[0]
        exact = low + high + runs / (2 * end)
        assert exact * (1 - 1e-6) <= highest_threshold(runs) <= exact * (1.0001 if runs <= 256 else 1.14)


WIDTHS = [
    ((5000, 200, 10), 0.3990, 0.330, (0.3305, 0.212, 0.189)),
    ((10**4, 10**3, 10), 0.2972, 0.251, (0.251, 0.156, 0.141)),
    ((20_000, 200, 10), 0.1982, 0.164, None),
    ((10**4, 10**6, 10), 0.3589, 0.3175, None),
    ((10**5, 10**3, 5), 0.0743, 0.0652, (0.0652, 0.0405, 0.0366)),
]


@pytest.mark.parametrize(("given", "older", "alone", "both"), WIDTHS)
def test_s3_and_s4_half_widths(given, older, alone, both):
    rows, looks, runs = given
    found = above_threshold_alpha(rows, looks=looks, runs=runs, beta=BETA)
    # Silent looks without releases need a tenth of the scale less.
    assert found.alpha - 0.1 * found.scale == pytest.approx(alone, abs=1e-3)
    assert found.alpha < older - 0.005
    if both is not None:
        ladder = private_ladder(rows, moves=runs, scale=found.scale, beta=BETA).alpha
        assert (found.alpha, found.alpha_released, ladder) == pytest.approx(both, abs=1e-3)


def test_s4_formula():
    rows, looks, runs, s = 20_000, 500, 7, 0.001
    found = above_threshold(rows, looks=looks, runs=runs, scale=s, beta=BETA)
    assert found.alpha - found.alpha_released == pytest.approx(
        s * (4 * math.log(looks * highest_threshold(runs) / (2 * BETA)) - math.log(10 * runs / BETA)), rel=1e-9
    )
    gap = found.alpha_released - s * (math.log(10 * runs / BETA) + 4.1)
    assert 0 < gap <= shift(found.epsilon) + 1e-12
    assert found.epsilon == pytest.approx(2 * runs / (rows * s))


def test_s4_what_noise_exceeds_its_boxes_by_is_what_the_slack_pays_for(request):
    """In the mean over many transcripts, runs ended at will: at most 4.1 s beta, most of it by silent looks."""
    random, looks, runs, count = generator(request), 50, 5, 200_000
    threshold = kept_threshold(random, runs, count)
    noise = 4 * random.laplace(size=(looks, count)) + threshold
    silent = np.maximum(noise - 4 * math.log(looks * highest_threshold(runs) / (2 * BETA)), 0).sum(axis=0)
    released = np.maximum(np.abs(random.laplace(size=(runs, count))) - math.log(10 * runs / BETA), 0).sum(axis=0)
    assert silent.mean() <= 4 * BETA
    assert released.mean() == pytest.approx(0.1 * BETA, rel=0.2)
    assert (silent + released).mean() <= 4.1 * BETA


@pytest.mark.parametrize(
    ("rows", "looks", "runs", "alpha", "released"),
    [(5000, 200, 10, 0.2076, 0.1941), (10**4, 10**6, 10, 0.1789, 0.1722), (10**5, 1000, 5, 0.0390, 0.0372)],
)
def test_v2_1_half_widths_do_not_count_looks(rows, looks, runs, alpha, released):
    """Beside S3 with the threshold that noise seldom passes: a quarter and more is saved, and looks widen nothing."""
    found = above_threshold_alpha(rows, looks=looks, runs=runs, beta=BETA, one_sided=True)
    assert (found.alpha, found.alpha_released) == pytest.approx((alpha, released), abs=2e-4)
    older = above_threshold_alpha(rows, looks=looks, runs=runs, beta=BETA)
    assert found.alpha + ladder_step(looks, scale=found.scale) < 0.75 * (older.alpha + ladder_step(looks, scale=older.scale))
    given = {"runs": runs, "scale": found.scale, "beta": BETA, "one_sided": True}
    assert above_threshold(rows, looks=10**9, **given).alpha == found.alpha


def test_v2_1_what_noise_exceeds_its_boxes_by_is_what_the_slack_pays_for(request):
    """In the mean over many transcripts at most 2.1 s beta, whichever threshold is kept: the largest of all is counted."""
    random, runs, count = generator(request), 5, 400_000
    thresholds = 2 * random.exponential(size=(runs, count)).max(axis=0)
    silent = np.maximum(thresholds - 2 * math.log(runs / BETA), 0)
    released = np.maximum(np.abs(random.laplace(size=(runs, count))) - math.log(10 * runs / BETA), 0).sum(axis=0)
    assert silent.mean() == pytest.approx(2 * BETA, rel=0.1)
    assert (silent + released).mean() <= 2.1 * BETA
    found = above_threshold(5000, looks=7, runs=runs, scale=0.004, beta=BETA, one_sided=True)
    assert (found.alpha - found.alpha_released) / 0.004 == pytest.approx(
        2 * math.log(runs / BETA) - math.log(10 * runs / BETA)
    )


def kept_threshold(random, runs, count):
    """Thresholds in units of s that an analyst keeps who ends a run whenever a later one is worth more (optimal stopping).

    The worth of a threshold is exp(x / 4); that of r runs to come is v + 1/(2 v) for v that of r - 1, from 4/3 on.
    """
    worth = [0.0, 4 / 3]
    while len(worth) < runs:
        worth.append(worth[-1] + 1 / (2 * worth[-1]))
    kept = 2 * random.laplace(size=count)
    for rest in reversed(range(1, runs)):
        ended = np.exp(kept / 4) < worth[rest]
        kept = np.where(ended, 2 * random.laplace(size=count), kept)
    return kept


def misses_of_silent_looks(random, *, runs, factor):
    """How often some of a thousand comparisons is off by more than 4 s ln(k factor / (2 beta)) in the run that was kept."""
    looks, count = 1000, 400_000
    tail = -np.expm1(np.log(random.random(count)) / looks)
    highest = -4 * np.log(2 * tail)  # of so many draws of scale 4
    return float((kept_threshold(random, runs, count) + highest > 4 * math.log(looks * factor / (2 * BETA))).mean())


@pytest.mark.parametrize("runs", [10, 50])
def test_s3_the_law_of_one_run_fails_for_several(request, runs):
    """The negative control: 4/3, which is right for one run, misses more often than beta where runs can be ended."""
    assert misses_of_silent_looks(generator(request), runs=runs, factor=4 / 3) > 1.5 * BETA
    assert misses_of_silent_looks(generator(request), runs=runs, factor=highest_threshold(runs)) <= BETA
    assert misses_of_silent_looks(generator(request), runs=1, factor=4 / 3) <= BETA


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"scale": 0}, {"looks": 0}, {"beta": 1}])
def test_s3_bad_numbers_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        above_threshold(10, **({"looks": 5, "runs": 1, "scale": 0.1, "beta": 0.1} | wrong))

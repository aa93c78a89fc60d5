"""Privacy of each mechanism by enumeration: the worst ratio is what is claimed, and planted faults are caught."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import holdtrue as ht
from holdtrue import events
from holdtrue.exact import rationals
from holdtrue.noise.samplers import _FoldedGaussian, _FoldedLaplace, _laplace_shifts

EPSILONS = [0.1, 0.5, 1.0, 2.0]
BITS = 400


def masses(law, reach):
    """Return Pr[noise = z] for |z| <= reach from the very thresholds that draws are settled by."""
    tails = [Fraction(1)] + [Fraction(sum(law.at_least(0, k)(BITS)), 2 << BITS) for k in range(1, reach + 2)]
    sizes = [float(a - b) for a, b in itertools.pairwise(tails)]
    return np.array([sizes[abs(z)] / (2 if z else 1) for z in range(-reach, reach + 1)])


def laplace_masses(scale, reach):
    scales = rationals("scale", scale)
    return masses(_FoldedLaplace(scales, _laplace_shifts(scales)), reach)


def losses(mass, shift):
    """Return the log-ratios between a release on 0 and a release on ``shift``."""
    return np.log(mass[shift:] / mass[: mass.size - shift])


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_is_epsilon_dp_and_attains_it(epsilon, sensitivity):
    mechanism = ht.Laplace(epsilon=epsilon, sensitivity=sensitivity)
    worst = np.abs(losses(laplace_masses(mechanism.scale, 40), sensitivity)).max()
    assert 0.97 * epsilon <= worst <= epsilon + 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_with_its_scale_halved_is_caught(epsilon):
    faulty = laplace_masses(ht.Laplace(epsilon=epsilon).scale / 2, 40)
    assert np.abs(losses(faulty, 1)).max() > epsilon + 1e-12


@pytest.mark.parametrize("sensitivity", [1, 2, 5])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_curves_are_those_of_the_discrete_law(epsilon, sensitivity):
    """A5: delta, TV and rho of what is drawn, not of the continuous limit, which would be too small."""
    mechanism = ht.Laplace(epsilon=epsilon, sensitivity=sensitivity)
    reach = 60 + math.ceil(60 * sensitivity / epsilon)
    q = math.exp(-epsilon / sensitivity)
    z = np.arange(-reach, reach + 1)
    left, right = ((1 - q) / (1 + q) * q ** np.abs(z - shift) for shift in (0, sensitivity))
    for at in (0.0, 0.3 * epsilon, 0.77 * epsilon):
        assert mechanism.delta(at) == pytest.approx(np.maximum(left - math.exp(at) * right, 0).sum(), rel=1e-9)
    loss = epsilon / sensitivity * (np.abs(z - sensitivity) - np.abs(z))
    orders = np.concatenate([np.linspace(1.001, 3, 50), np.geomspace(3, 200, 50)])
    renyi = [math.log((left * np.exp((a - 1) * loss)).sum()) / (a - 1) / a for a in orders]
    assert 0.999 * mechanism.rho <= max(*renyi, (left * loss).sum()) <= mechanism.rho + 1e-12
    assert mechanism.tv == pytest.approx(np.abs(left - right).sum() / 2, rel=1e-9)
    assert mechanism.tv >= 1 - math.exp(-epsilon / 2)
    assert mechanism.rho >= epsilon + math.exp(-epsilon) - 1
    if sensitivity == 1:
        assert mechanism.tv == pytest.approx(math.tanh(epsilon / 2), rel=1e-9)
        assert mechanism.rho == pytest.approx(epsilon * math.tanh(epsilon / 2), rel=1e-9)


@pytest.mark.parametrize("sigma", [2, 5, 20])
def test_gaussian_is_mu_gdp(sigma):
    """0.7: the hockey-stick of the rounded law never passes the Gaussian curve, and comes close to it."""
    mechanism = ht.Gaussian(sigma=sigma)
    reach = 10 * sigma
    mass = masses(_FoldedGaussian(rationals("scale", sigma)), reach)
    left, right = mass[1:], mass[:-1]
    assert mechanism.mu == 1 / sigma
    for at in np.linspace(0, 3 / sigma, 25):
        exact = np.maximum(left - math.exp(at) * right, 0).sum()
        assert exact <= mechanism.delta(at) + 1e-12
    assert np.maximum(left - right, 0).sum() >= 0.97 * mechanism.tv


def test_gaussian_with_its_scale_halved_is_caught():
    mechanism = ht.Gaussian(sigma=6)
    mass = masses(_FoldedGaussian(rationals("scale", 3)), 40)
    assert np.maximum(mass[1:] - mass[:-1], 0).sum() > mechanism.tv + 1e-12


def softmax(scores, rate):
    weights = np.exp(rate * (scores - scores.max(axis=-1, keepdims=True)))
    return weights / weights.sum(axis=-1, keepdims=True)


def neighbours(candidates, *, monotone):
    """Return differences of scores between neighbours: every vector with entries in -1..1, or 0..1."""
    return np.array(list(itertools.product((0, 1) if monotone else (-1, 0, 1), repeat=candidates)))


def worst_loss_and_range(rate, *, monotone):
    worst = span = 0.0
    for candidates in (2, 3, 5):
        for base in itertools.product((0, 2, 200), repeat=candidates):
            left = softmax(np.array(base, dtype=float), rate)
            right = softmax(np.array(base, dtype=float) + neighbours(candidates, monotone=monotone), rate)
            loss = np.log(left) - np.log(right)
            worst = max(worst, np.abs(loss).max())
            span = max(span, (loss.max(axis=1) - loss.min(axis=1)).max())
    return worst, span


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exponential_is_epsilon_dp_and_bounded_range(epsilon, monotone):
    """T-B3a and T-B3b: loss and range are at most epsilon, and attained."""
    mechanism = ht.Exponential(epsilon=epsilon, monotone=monotone)
    worst, span = worst_loss_and_range(float(mechanism.rate), monotone=monotone)
    assert 0.97 * epsilon <= worst <= epsilon + 1e-12
    assert 0.97 * epsilon <= span <= epsilon + 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exponential_with_the_monotone_weights_on_other_scores_is_caught(epsilon):
    """T-B3d: weights e^(epsilon f / sensitivity) on scores that move both ways lose 2 epsilon."""
    faulty = ht.Exponential(epsilon=epsilon, monotone=True)
    worst, span = worst_loss_and_range(float(faulty.rate), monotone=False)
    assert worst > 1.9 * epsilon
    assert span > 1.9 * epsilon


def test_exponential_releases_what_its_rate_says(bits):
    """B6: scores (0, -1, -3) at epsilon 1 are chosen with probabilities softmax(0, -1/2, -3/2)."""
    from holdtrue.testing import drawing_from
    from laws import LEVEL, chi_square_of_counts

    mechanism = drawing_from(ht.Exponential(epsilon=1.0), bits)
    rows = np.tile([0, -1, -3], (300_000, 1))
    counts = np.bincount(mechanism.release(rows), minlength=3)
    assert chi_square_of_counts(counts, softmax(np.array([0.0, -1, -3]), 0.5)) > LEVEL
    rationals_ = [Fraction(0), Fraction(-1, 3), Fraction(-1)]
    scaled = drawing_from(ht.Exponential(epsilon=1.0, sensitivity=Fraction(1, 3)), bits)
    counts = np.bincount([scaled.release(rationals_) for _ in range(20_000)], minlength=3)
    assert chi_square_of_counts(counts, softmax(np.array([0.0, -1, -3]), 0.5)) > LEVEL


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounded_range_curves_are_attained_by_the_exponential_mechanism(epsilon):
    """A6, B3: no pair of neighbours passes delta, TV or rho, and the worst two-point pair attains them."""
    mechanism = ht.Exponential(epsilon=epsilon)
    seen = {0.0: 0.0, 0.4 * epsilon: 0.0}
    best_rho = 0.0
    for logit in np.linspace(-epsilon - 2, 2, 801):
        q = 1 / (1 + math.exp(-logit))
        p = 1 / (1 + math.exp(-logit - epsilon))
        seen = {at: max(delta, p - math.exp(at) * q) for at, delta in seen.items()}
        kl = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
        best_rho = max(best_rho, kl)
    for at, delta in seen.items():
        assert 0.999 * mechanism.delta(at) <= delta <= mechanism.delta(at) + 1e-12
    assert 0.999 * mechanism.rho <= best_rho <= mechanism.rho + 1e-12
    assert mechanism.tv == pytest.approx(math.tanh(epsilon / 4), rel=1e-9)
    assert mechanism.rho <= epsilon**2 / 8


def flip_law(scores, rate):
    """Return the law of permute-and-flip: a uniform choice among the heads, summed over which coins show heads."""
    heads = np.exp(rate * (np.array(scores, dtype=float) - max(scores)))
    result = np.zeros(len(scores))
    for shown in itertools.product((False, True), repeat=len(scores)):
        chance = np.prod([h if s else 1 - h for h, s in zip(heads, shown, strict=True)])
        for candidate in np.flatnonzero(shown):
            result[candidate] += chance / sum(shown)
    return result


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_permute_and_flip_is_epsilon_dp_and_not_bounded_range(epsilon, monotone):
    rate = float(ht.PermuteAndFlip(epsilon=epsilon, monotone=monotone).rate)
    worst = span = 0.0
    for base in itertools.product((0, 1, 3, 30), repeat=3):
        left = flip_law(base, rate)
        for change in neighbours(3, monotone=monotone):
            loss = np.log(left) - np.log(flip_law(np.array(base) + change, rate))
            worst, span = max(worst, np.abs(loss).max()), max(span, loss.max() - loss.min())
    assert 0.97 * epsilon <= worst <= epsilon + 1e-12
    assert span > epsilon + 0.01


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_permute_and_flip_with_doubled_weights_is_caught(epsilon):
    rate = 2 * float(ht.PermuteAndFlip(epsilon=epsilon).rate)
    left, right = flip_law([0, 30, 30], rate), flip_law([1, 29, 29], rate)
    assert np.abs(np.log(left) - np.log(right)).max() > epsilon + 1e-12


def test_permute_and_flip_expects_no_less_than_the_exponential_mechanism(request):
    """B3: over random scores the expected score is never below that of the exponential mechanism."""
    from laws import generator

    for scores in generator(request).integers(0, 12, (200, 5)):
        assert flip_law(scores, 0.5) @ scores >= softmax(scores.astype(float), 0.5) @ scores - 1e-12


def first_above_law(mechanism, counts, reach):
    """Return Pr[the first yes is at i], and Pr[none], summed over the threshold's noise."""
    noisy = np.arange(-reach, reach + 1)
    weight = _laplace_mass(float(mechanism.threshold_scale), noisy)
    gaps = mechanism.threshold + noisy - np.array(counts)[:, None]
    below = _laplace_cdf(float(mechanism.value_scale), gaps - 1)
    still = np.cumprod(np.vstack([np.ones_like(weight), below]), axis=0)
    yes = still[:-1] * _laplace_cdf(float(mechanism.value_scale), -gaps)
    return np.append((yes * weight).sum(axis=1), (still[-1] * weight).sum())


def _laplace_mass(scale, z):
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** np.abs(z)


def _laplace_cdf(scale, z):
    q = math.exp(-1 / scale)
    lower = np.exp(-np.abs(z) / scale) / (1 + q)
    return np.where(z < 0, lower, 1 - lower * q)


def worst_run(mechanism, moves):
    worst = 0.0
    for base in ([0, 0, 0], [-20, -20, 20], [-3, 1, 5], [-40, -40, 0], *([0] * noes + [-60] for noes in (1, 20, 200))):
        left = first_above_law(mechanism, base, 4000)
        for *noes, last in moves:
            move = [*(noes * len(base))[: len(base) - 1], last]
            right = first_above_law(mechanism, np.array(base) + np.array(move), 4000)
            worst = max(worst, np.abs(np.log(left / right)).max())
    return worst


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_above_threshold_is_epsilon_dp_for_the_whole_run(epsilon):
    """T10: any number of noes and one yes cost epsilon once."""
    every = list(itertools.product((-1, 0, 1), repeat=3))
    worst = worst_run(ht.AboveThreshold(epsilon=epsilon, threshold=5), every)
    assert 0.9 * epsilon <= worst <= epsilon + 1e-9
    together = [*itertools.product((0, 1), repeat=3), *itertools.product((0, -1), repeat=3)]
    assert worst_run(ht.AboveThreshold(epsilon=epsilon, threshold=5, monotone=True), together) <= epsilon + 1e-9


def test_above_threshold_with_the_monotone_noise_on_other_counts_is_caught():
    """With (-1, -1, ..., +1) a long run of noes and one yes, the smaller noise loses more than epsilon."""
    mechanism = ht.AboveThreshold(epsilon=1.0, threshold=0, monotone=True)
    base = np.array([-2] * 60 + [2])
    left, right = (first_above_law(mechanism, base + sign * np.array([1] * 60 + [-1]), 4000) for sign in (0, 1))
    assert np.abs(np.log(left / right)).max() > 1.0 + 1e-9


def test_above_threshold_releases_its_law(bits):
    from holdtrue.testing import drawing_from
    from laws import LEVEL, chi_square_of_counts

    mechanism = drawing_from(ht.AboveThreshold(epsilon=2.0, threshold=5), bits)
    counts = [3, 0, 6]
    seen = np.zeros(4)
    watched = np.zeros(4)
    for _ in range(20_000):
        place = mechanism.release(counts)
        seen[3 if place is None else place] += 1
        watch = mechanism.watch()
        watched[next((i for i, count in enumerate(counts) if watch.above(count)), 3)] += 1
    law = first_above_law(mechanism, counts, 4000)
    assert chi_square_of_counts(seen, law) > LEVEL
    assert chi_square_of_counts(watched, law) > LEVEL


def test_a_watch_is_over_after_its_yes(bits):
    from holdtrue.testing import drawing_from

    watch = drawing_from(ht.AboveThreshold(epsilon=1.0), bits).watch()
    assert watch.above(10**6)
    with pytest.raises(ht.RefusedError, match="start a new run"):
        watch.above(10**6)


def test_rejection_sampler_of_the_lecture_agrees_and_its_rounds_tell_nothing(request):
    """B4: accepting y with probability D(y) samples D; the rounds are geometric with mean |Y|, whatever the scores."""
    from laws import LEVEL, chi_square_of_counts, generator

    random = generator(request)
    for scores in ([0, 0, 0, 0, 0, 0, 0, 0], [9, 0, 0, 0, 0, 0, 0, 3]):
        law = softmax(np.array(scores, dtype=float), 0.5)
        proposed = random.integers(0, 8, 600_000)
        accepted = np.flatnonzero(random.random(600_000) < law[proposed])
        assert chi_square_of_counts(np.bincount(proposed[accepted], minlength=8), law) > LEVEL
        assert np.diff(accepted).mean() == pytest.approx(8, abs=0.25)


def test_events_name_what_was_drawn():
    assert ht.Laplace(epsilon=0.5, sensitivity=2).event == events.DiscreteLaplace(Fraction(1, 2), 2)
    assert ht.Gaussian(mu=Fraction(1, 4)).event == events.GaussianNoise(Fraction(1, 4))
    assert ht.Exponential(epsilon=1).event == events.BoundedRange(1)
    assert ht.PermuteAndFlip(epsilon=1).event == events.Pure(1)
    assert ht.AboveThreshold(epsilon=Fraction(1, 3)).event == events.Pure(Fraction(1, 3))


@pytest.mark.parametrize(
    "mechanism",
    [
        ht.Laplace(epsilon=1),
        ht.Gaussian(sigma=2),
        ht.Exponential(epsilon=1),
        ht.PermuteAndFlip(epsilon=1),
        ht.AboveThreshold(epsilon=1),
    ],
    ids=repr,
)
def test_a_release_from_seeded_bits_promises_nothing(mechanism):
    """P11: a seeded source cannot release; its event is NonPrivate, whose delta is 1."""
    from holdtrue.testing import SeededBits, drawing_from

    seeded = drawing_from(mechanism, SeededBits("any"))
    assert seeded.event == events.NonPrivate()
    assert seeded.delta(1) == 1.0
    assert seeded.mu is None
    assert seeded.rho is None
    assert seeded.epsilon(1e-6) == math.inf
    assert mechanism.event != events.NonPrivate()


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [
        (ht.Exponential(epsilon=1), 0.6238926),
        (ht.Exponential(epsilon=0.1), 0.0626629),
        (ht.PermuteAndFlip(epsilon=1), 1.2320354),
        (ht.Exponential(epsilon=2), 1.2320354),
        (ht.Laplace(epsilon=1), 1.2320354),
        (ht.Gaussian(sigma=4), 0.25),
    ],
    ids=repr,
)
def test_t2b_gdp_costs(mechanism, value):
    assert mechanism.mu == pytest.approx(value, abs=1e-6)


def test_a7_calibration_numbers():
    for sigma, epsilon, delta in ((30.75, 0.1, 1e-5), (3.7306, 1, 1e-5), (0.89187, 5, 1e-5)):
        assert ht.Gaussian(sigma=sigma).delta(epsilon) == pytest.approx(delta, rel=2e-3)
    assert ht.Gaussian(mu=1).epsilon(1e-6) == pytest.approx(4.88655, abs=1e-4)
    with pytest.raises(ht.InvalidParameter, match="Gaussian noise needs delta > 0"):
        ht.Gaussian(mu=1).epsilon(0)


@pytest.mark.parametrize(
    "mechanism",
    [
        ht.Laplace(epsilon=0.7, sensitivity=3),
        ht.Gaussian(sigma=2),
        ht.Exponential(epsilon=1.3),
        ht.PermuteAndFlip(epsilon=0.4),
    ],
    ids=repr,
)
def test_a4_curves_fall_from_tv_to_zero(mechanism):
    """A4: delta does not rise with epsilon, starts at TV, lies in [0, 1], and epsilon(delta) is its inverse."""
    deltas = [mechanism.delta(at) for at in np.linspace(0, 3, 61)]
    assert deltas[0] == mechanism.tv
    assert all(0 <= later <= earlier <= 1 for earlier, later in itertools.pairwise(deltas))
    for delta in (0.2, 0.01, 1e-6):
        epsilon = mechanism.epsilon(delta)
        assert mechanism.delta(epsilon) <= delta
        assert epsilon == 0 or mechanism.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)

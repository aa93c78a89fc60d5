"""Every sampler draws the law it claims, and the test would notice a scale that is 10 % off."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from holdtrue.exact import rationals
from holdtrue.noise.samplers import (
    bernoulli,
    bernoulli_exponential,
    discrete_laplace,
    geometric,
    rounded_gaussian,
    uniform_below,
)
from holdtrue.noise.selection import gumbel_argmax, permute_and_flip
from laws import LEVEL, chi_square, chi_square_of_counts, gaussian_cdf, geometric_cdf, laplace_cdf

DRAWS = 400_000
SCALES = [Fraction(1, 3), Fraction(7, 2), 250, 10**7, 2.0**36]
SAMPLERS = {
    "geometric": (geometric, geometric_cdf),
    "discrete_laplace": (discrete_laplace, laplace_cdf),
    "rounded_gaussian": (rounded_gaussian, gaussian_cdf),
}


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("name", SAMPLERS)
def test_law_is_met_and_scales_ten_percent_off_are_rejected(name, scale, bits):
    sampler, cdf = SAMPLERS[name]
    size = DRAWS if scale < 10**9 else DRAWS // 8
    draws = sampler(scale, size=size, bits=bits)
    assert chi_square(draws, cdf(float(scale))) > LEVEL
    assert chi_square(draws, cdf(float(scale) * 1.1)) < LEVEL
    assert chi_square(draws, cdf(float(scale) / 1.1)) < LEVEL


@pytest.mark.parametrize("name", SAMPLERS)
def test_arrays_of_scales_give_each_draw_its_own(name, bits):
    sampler, cdf = SAMPLERS[name]
    scales = [Fraction(1, 2), 5.5, 40, Fraction(10**6, 7)]
    draws = sampler(scales * (DRAWS // 4), bits=bits)
    for position, scale in enumerate(scales):
        assert chi_square(draws[position::4], cdf(float(scale))) > LEVEL
        assert chi_square(draws[position::4], cdf(float(scale) * 1.1)) < LEVEL


def test_array_of_scales_draws_what_single_scales_draw():
    from holdtrue.testing import SeededBits

    for sampler, _ in SAMPLERS.values():
        for scale in (Fraction(1, 3), Fraction(33, 2), 10**6):
            alone = sampler(scale, size=1000, bits=SeededBits("one"))
            assert np.array_equal(alone, sampler([scale] * 1000, bits=SeededBits("one")))
            assert np.array_equal(
                sampler(float(scale), size=1000, bits=SeededBits("one")),
                sampler(np.full(1000, float(scale)), bits=SeededBits("one")),
            )


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000, 2**31 + 7, 2**32])
def test_uniform_below_is_uniform(n, bits):
    draws = uniform_below(n, size=DRAWS, bits=bits)
    assert 0 <= draws.min() <= draws.max() < n
    cells = min(n, 50)
    counts = np.bincount((draws * cells) // n, minlength=cells)
    widths = [(-(-(i + 1) * n // cells)) - (-(-i * n // cells)) for i in range(cells)]
    if cells > 1:
        assert chi_square_of_counts(counts, np.array(widths) / n) > LEVEL
        tilted = np.linspace(0.95, 1.05, cells) * np.array(widths) / n
        assert chi_square_of_counts(counts, tilted / tilted.sum()) < LEVEL


def test_uniform_below_takes_one_bound_for_each_draw(bits):
    bounds = np.tile([2, 3, 7], 50_000)
    draws = uniform_below(bounds, bits=bits)
    for position, bound in enumerate((2, 3, 7)):
        counts = np.bincount(draws[position::3], minlength=bound)
        assert counts.size == bound
        assert chi_square_of_counts(counts, np.full(bound, 1 / bound)) > LEVEL


@pytest.mark.parametrize("chance", [Fraction(1, 3), 0.01, Fraction(999, 1000)])
def test_bernoulli_has_its_probability(chance, bits):
    heads = int(bernoulli(chance, size=DRAWS, bits=bits).sum())
    spread = 6.5 * math.sqrt(DRAWS * float(chance) * (1 - float(chance)))
    assert abs(heads - DRAWS * float(chance)) < spread
    assert bernoulli([0, 1, Fraction(1, 2)] * 5, bits=bits)[::3].sum() == 0
    assert bernoulli([0, 1, Fraction(1, 2)] * 5, bits=bits)[1::3].all()


@pytest.mark.parametrize("exponent", [0, Fraction(1, 1000), Fraction(2, 3), 5.0, 80])
def test_bernoulli_exponential_has_its_probability(exponent, bits):
    chance = math.exp(-exponent)
    heads = int(bernoulli_exponential(exponent, size=DRAWS, bits=bits).sum())
    assert abs(heads - DRAWS * chance) <= 6.5 * math.sqrt(DRAWS * chance * (1 - chance)) + 1e-9
    if 0 < exponent < 10:
        other = math.exp(-1.1 * exponent)
        assert abs(heads - DRAWS * other) > 6.5 * math.sqrt(DRAWS * other * (1 - other)) or exponent < 0.01


SCORES = [[0, 1, 3, 3], [-5, 2, 2, 0], [7, 7, 7, 7]]


@pytest.mark.parametrize("scores", SCORES, ids=str)
@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(5, 3)], ids=str)
def test_gumbel_argmax_is_softmax(scores, rate, bits):
    """T-B3c: the law of Gumbel-max is the softmax, and a rate 10 % off is noticed."""
    rows = np.tile(np.array(scores), (10**6 if len(set(scores)) > 1 else 10**5, 1))
    counts = np.bincount(gumbel_argmax(rows, rate=rate, bits=bits), minlength=4)
    assert chi_square_of_counts(counts, _softmax(scores, float(rate))) > LEVEL
    if len(set(scores)) > 1:
        assert chi_square_of_counts(counts, _softmax(scores, float(rate) * 1.1)) < LEVEL


def test_gumbel_argmax_weighs_by_the_base_measure(bits):
    scores, weights = [0, 2, 1], [Fraction(5), Fraction(1, 3), Fraction(2)]
    rows = np.tile(np.array(scores), (300_000, 1))
    drawn = gumbel_argmax(rows, rate=Fraction(1, 2), weights=rationals("weights", weights), bits=bits)
    wanted = np.exp(np.array(scores) / 2) * np.array([float(w) for w in weights])
    assert chi_square_of_counts(np.bincount(drawn, minlength=3), wanted / wanted.sum()) > LEVEL
    assert chi_square_of_counts(np.bincount(drawn, minlength=3), _softmax(scores, 0.5)) < LEVEL


@pytest.mark.parametrize("length", [4, 70_000])
def test_a_candidate_of_weight_zero_is_never_chosen_and_moves_no_other(length, bits):
    """The best by far has weight 0: the law is that of the others, in short rows and in long ones."""
    scores = np.zeros(length, dtype=np.int64)
    scores[:4] = [1, 2**62, 3, -(2**62)]
    weights = np.zeros(length)
    weights[[0, 2]] = 2, 1
    runs = 200_000 if length == 4 else 150
    rows = np.tile(scores, (runs, 1)) if length == 4 else np.broadcast_to(scores, (runs, length))
    drawn = gumbel_argmax(rows, rate=Fraction(1, 2), weights=rationals("weights", weights, zero=True), bits=bits)
    wanted = np.array([2 * np.exp(0.5), np.exp(1.5)])
    assert set(drawn.tolist()) == {0, 2}
    assert chi_square_of_counts(np.bincount(drawn, minlength=3)[[0, 2]], wanted / wanted.sum()) > LEVEL


def test_gumbel_argmax_over_long_rows_has_the_same_law(bits):
    """Rows longer than a block take the streaming path: half of a long row is one group, half the other."""
    length = 40_000
    scores = np.zeros((400, length), dtype=np.int64)
    scores[:, length // 2 :] = 1
    drawn = gumbel_argmax(scores, rate=Fraction(1), bits=bits)
    upper = int((drawn >= length // 2).sum())
    chance = math.e / (1 + math.e)
    assert abs(upper - 400 * chance) < 6.2 * math.sqrt(400 * chance * (1 - chance))
    assert len(set(drawn.tolist())) > 350


def test_gumbel_argmax_takes_scores_of_any_size(bits):
    huge = np.array([[10**40, 10**40 + 1, 0]], dtype=object).repeat(2000, axis=0)
    drawn = gumbel_argmax(huge, rate=Fraction(1), bits=bits)
    assert set(drawn.tolist()) == {0, 1}
    extremes = np.array([[-(2**63), 2**63 - 1]] * 1000)
    assert gumbel_argmax(extremes, rate=Fraction(1, 2**60), bits=bits).sum() > 950


@pytest.mark.parametrize("scores", SCORES, ids=str)
def test_permute_and_flip_has_the_law_of_its_sequential_form(scores, bits):
    rate = Fraction(1, 2)
    rows = np.tile(np.array(scores), (500_000, 1))
    counts = np.bincount(permute_and_flip(rows, rate=rate, bits=bits), minlength=4)
    assert chi_square_of_counts(counts, _sequential(scores, 0.5)) > LEVEL
    if len(set(scores)) > 1:
        assert chi_square_of_counts(counts, _sequential(scores, 0.55)) < LEVEL


def _softmax(scores, rate):
    weights = np.exp(rate * (np.array(scores) - max(scores)))
    return weights / weights.sum()


def _sequential(scores, rate):
    """Enumerate the orders in which candidates are taken."""
    heads = np.exp(rate * (np.array(scores, dtype=float) - max(scores)))
    result = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        alive = 1.0
        for candidate in order:
            result[candidate] += alive * heads[candidate] / len(orders)
            alive *= 1 - heads[candidate]
    return result

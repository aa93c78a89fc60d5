"""The filter is exact: what floats decide is what integers would have decided."""

import math
import os
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from holdtrue.noise import samplers, selection
from holdtrue.noise.samplers import (
    bernoulli,
    bernoulli_exponential,
    discrete_laplace,
    geometric,
    rounded_gaussian,
    uniform_below,
)
from holdtrue.noise.selection import gumbel_argmax, permute_and_flip
from holdtrue.testing import SeededBits

DRAWS = int(os.environ.get("HOLDTRUE_DRAWS", "200000"))
FORCED = {
    "geometric": lambda bits: geometric(Fraction(22, 7), size=DRAWS, bits=bits),
    "discrete_laplace": lambda bits: discrete_laplace(Fraction(22, 7), size=DRAWS, bits=bits),
    "rounded_gaussian": lambda bits: rounded_gaussian(Fraction(22, 7), size=DRAWS, bits=bits),
    "bernoulli_exponential": lambda bits: bernoulli_exponential(Fraction(2, 3), size=DRAWS, bits=bits),
    "gumbel_argmax": lambda bits: gumbel_argmax(_rows(DRAWS // 10, 10), rate=Fraction(1, 3), bits=bits),
    "permute_and_flip": lambda bits: permute_and_flip(_rows(DRAWS // 10, 10), rate=Fraction(1, 3), bits=bits),
}


def _rows(rows, columns):
    return np.arange(rows * columns).reshape(rows, columns) * 7919 % 11


@pytest.mark.parametrize("name", FORCED)
def test_every_draw_settled_exactly_is_every_draw_proposed(name, monkeypatch):
    """The same bits with the margin forced wide, so that floats decide nothing; a million draws in `make soak`."""
    normal = FORCED[name](SeededBits(name))
    monkeypatch.setattr(samplers, "MARGIN", math.inf)
    monkeypatch.setattr(selection, "CLOSE", math.inf)
    assert np.array_equal(normal, FORCED[name](SeededBits(name)))


def test_a_margin_of_nothing_is_caught(monkeypatch):
    """The control: without a margin, floats alone decide wrongly somewhere near a boundary."""
    monkeypatch.setattr(samplers, "MARGIN", 0.0)
    monkeypatch.setattr(samplers, "FLOOR", 0.0)
    wrong = 0
    scale = 2**44
    for seed in range(4):
        draws = discrete_laplace(scale, size=500, bits=SeededBits(str(seed)))
        words = SeededBits(str(seed)).words(500)
        wrong += sum(int(draw) != _laplace(int(word), Fraction(scale)) for draw, word in zip(draws, words, strict=True))
    assert wrong > 0


def _uniform(word):
    """Return the middle of what a word leaves possible for the uniform."""
    return (mpmath.mpf(word >> 1) + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** 63


def _laplace(word, scale):
    scale = mpmath.mpf(scale.numerator) / scale.denominator
    shift = mpmath.log(2 / (1 + mpmath.exp(-1 / scale)))
    size = int(mpmath.floor(scale * (shift - mpmath.log(_uniform(word)))))
    return -size if word & 1 else size


def _geometric(word, scale):
    return int(mpmath.floor(-mpmath.log(_uniform(word)) * scale.numerator / scale.denominator))


def _tail(k, scale):
    return mpmath.erfc((mpmath.mpf(k) - mpmath.mpf(1) / 2) * scale.denominator / scale.numerator / mpmath.sqrt(2))


def _is_gaussian(word, scale, value):
    """Whether |value| is the one size k with Pr[size >= k + 1] < U <= Pr[size >= k]."""
    size = abs(value)
    fits = _tail(size + 1, scale) < _uniform(word) and (size == 0 or _uniform(word) <= _tail(size, scale))
    return fits and (value == 0 or (value < 0) == bool(word & 1))


SCALES = [Fraction(1, 3), Fraction(355, 113), Fraction(10**6, 7)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_ten_thousand_draws_agree_with_mpmath_to_the_last_integer(scale):
    count = 10_000
    words = [int(word) for word in SeededBits("oracle").words(count)]
    with mpmath.workdps(40):
        laplace = discrete_laplace(scale, size=count, bits=SeededBits("oracle")).tolist()
        assert laplace == [_laplace(word, scale) for word in words]
        assert geometric(scale, size=count, bits=SeededBits("oracle")).tolist() == [
            _geometric(word, scale) for word in words
        ]
        gaussian = rounded_gaussian(scale, size=count, bits=SeededBits("oracle")).tolist()
        assert all(_is_gaussian(word, scale, value) for word, value in zip(words, gaussian, strict=True))


def test_ten_thousand_choices_agree_with_mpmath():
    rows, rate = _rows(10_000, 5), Fraction(1, 3)
    words = SeededBits("choices").words(50_000).reshape(-1, 5)
    chosen = gumbel_argmax(rows, rate=rate, bits=SeededBits("choices"))
    with mpmath.workdps(40):
        for row, noise, choice in zip(rows.tolist(), words.tolist(), chosen.tolist(), strict=True):
            keys = [
                score / mpmath.mpf(3) - mpmath.log(-mpmath.log(_uniform(w))) for score, w in zip(row, noise, strict=True)
            ]
            assert keys.index(max(keys)) == choice


def test_uniform_below_is_the_floor_of_the_product():
    words = SeededBits("floor").words(DRAWS)
    for n in (3, 1000, 2**32):
        drawn = uniform_below(n, size=DRAWS, bits=SeededBits("floor"))
        assert drawn[:20_000].tolist() == [(int(word) * n) >> 64 for word in words[:20_000]]


class _Given:
    """Bits that are told what to give."""

    generation = None

    def __init__(self, words, more=()):
        self._words = np.array(words, dtype=np.uint64)
        self._more = list(more)

    def words(self, count):
        taken, self._words = self._words[:count], self._words[count:]
        return taken

    def more(self):
        return self._more.pop(0)


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1, 2), 1, Fraction(5, 2), 6], ids=str)
@pytest.mark.parametrize("name", ["discrete_laplace", "geometric", "rounded_gaussian"])
def test_enumerating_the_uniform_meets_the_mass_function(name, scale):
    """Inversion is monotone: of 2^18 equally spaced uniforms, a value gets its mass times 2^18, give or take one.

    For the discrete Laplace law at 1/4 .. 6 this is the enumeration of its mass function (A5).
    """
    cells = 1 << 18
    signed = name != "geometric"
    words = (np.arange(cells, dtype=np.uint64) << np.uint64(46)) | np.uint64(1 << 45)
    sampler = {"discrete_laplace": discrete_laplace, "geometric": geometric, "rounded_gaussian": rounded_gaussian}[name]
    for sign in (0, 1) if signed else (0,):
        drawn = sampler(scale, size=cells, bits=_Given(words | np.uint64(sign)))
        assert not signed or ((drawn <= 0) if sign else (drawn >= 0)).all()
        counts = np.bincount(np.abs(drawn))
        for size, seen in enumerate(counts.tolist()):
            assert abs(seen - cells * _mass(name, float(scale), size)) <= 1.01


def _mass(name, scale, size):
    q = math.exp(-1 / scale)
    if name == "geometric":
        return q**size * (1 - q)
    if name == "discrete_laplace":
        return q**size * (1 - q) / (1 + q) * (2 if size else 1)
    upper = math.erfc((size + 0.5) / scale / math.sqrt(2))
    return 1 - upper if size == 0 else math.erfc((size - 0.5) / scale / math.sqrt(2)) - upper


@pytest.mark.parametrize("sampler", [discrete_laplace, geometric, rounded_gaussian])
def test_an_all_zero_prefix_is_refined_and_neither_infinite_nor_clipped(sampler):
    """Sixty-three zero bits: the next ones decide, however far out that is (0.7)."""
    smaller = sampler(10, size=1, bits=_Given([0], more=[1 << 63] * 8))[0]
    larger = sampler(10, size=1, bits=_Given([0], more=[1 << 20] * 8))[0]
    farthest = sampler(10, size=1, bits=_Given([0], more=[0, 0, 5] + [1 << 63] * 8))[0]
    assert 80 < smaller < larger < farthest < 5000


def test_a_uniform_on_a_boundary_asks_for_more_bits():
    """Bernoulli(1/3): the word 0x5555... is the start of one third, so the next word decides."""
    third = 0x5555555555555555
    assert bernoulli(Fraction(1, 3), size=1, bits=_Given([third], more=[third - 1])).tolist() == [True]
    assert bernoulli(Fraction(1, 3), size=1, bits=_Given([third], more=[third + 1])).tolist() == [False]
    assert uniform_below(3, size=1, bits=_Given([third], more=[third - 1])).tolist() == [0]
    assert uniform_below(3, size=1, bits=_Given([third], more=[third + 1])).tolist() == [1]


def test_draws_do_not_depend_on_how_they_are_cut_into_calls():
    one, many = SeededBits("cut"), SeededBits("cut")
    whole = discrete_laplace(5, size=40_000, bits=one)
    parts = [discrete_laplace(5, size=size, bits=many) for size in (1, 16_384, 7, 23_608)]
    assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 300), Fraction(1, 2), Fraction(30)], ids=str)
@pytest.mark.parametrize("spread", [1, 5, 1000, 10**9])
def test_looking_closely_at_a_few_chooses_what_looking_at_all_does(rate, spread):
    """Long rows are screened by one comparison a candidate: with the same words, the choice is the same."""
    scores = np.arange(60_000).reshape(2, -1) * 2654435761 % spread
    screened = gumbel_argmax(scores, rate=rate, bits=SeededBits(f"{rate} {spread}"))
    candidates = selection._prepare_candidates(scores, rate, None)
    bits = SeededBits(f"{rate} {spread}")
    assert screened.tolist() == [selection._choose_in_any_long_row(candidates, number, bits) for number in range(2)]


def test_a_choice_without_survivors_is_drawn_again(monkeypatch):
    """With a bound that lets almost nobody pass, many draws are needed; the law does not change."""
    monkeypatch.setattr(selection, "SURVIVORS", 0.25)
    scores = np.zeros((200, 20_000), dtype=np.int64)
    scores[:, 10_000:] = 1
    upper = int((gumbel_argmax(scores, rate=Fraction(1), bits=SeededBits("again")) >= 10_000).sum())
    chance = math.e / (1 + math.e)
    assert abs(upper - 200 * chance) < 6.2 * math.sqrt(200 * chance * (1 - chance))


def test_looked_up_bounds_are_above_the_exponential():
    for rate in (Fraction(1, 10**7), Fraction(1, 97), Fraction(2), Fraction(400)):
        bounds = selection._ExpBounds.of(rate)
        for step in (0, 1, 7, 500, 4095):
            gap = step << bounds.shift
            truth = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator * gap)
            assert truth <= bounds.weights[step]
            assert truth < mpmath.mpf(2) ** -30 or bounds.weights[step] <= truth * (1 + mpmath.mpf(2) ** -29)

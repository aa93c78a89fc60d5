"""Choices by levels: the law of the exponential mechanism and of permute-and-flip, the last level included."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.kernels import levels, levels_compiled
from holdtrue.mechanisms import choosing
from holdtrue.noise.levels import _Runner, count_needed, draw_by_flips
from holdtrue.testing import SeededBits, drawing_from

SCORES = np.array([3, 0, 3, -5, 2, 1, 3, 2])
RATE = 0.5
RUNS = 1000


def exponential_law(scores):
    weights = np.exp(RATE * (scores - scores.max()))
    return weights / weights.sum()


def flip_law(scores):
    """Return the law of permute-and-flip: all coins at once, then one of the heads."""
    chances = np.exp(RATE * (scores - scores.max()))
    law = np.zeros(scores.size)
    for heads in itertools.product((0, 1), repeat=scores.size):
        weight = math.prod(p if head else 1 - p for p, head in zip(chances, heads, strict=True))
        law += weight * np.array(heads) / max(1, sum(heads))
    return law


@pytest.mark.parametrize(
    ("kind", "law"), [(ht.Exponential, exponential_law), (ht.PermuteAndFlip, flip_law)], ids=["exponential", "flips"]
)
@pytest.mark.parametrize("told_apart", [1, 2, 50], ids="levels {}".format)
def test_the_law_is_exact_however_few_levels_are_told_apart(monkeypatch, kind, law, told_apart):
    """With one level or two most members are beyond the last, and are kept by their coins."""
    monkeypatch.setattr(choosing, "BLOCK", 1)
    monkeypatch.setattr(choosing, "count_needed", lambda _: told_apart)
    mechanism = drawing_from(kind(epsilon=1.0), SeededBits(f"levels {kind.__name__} {told_apart}"))
    found = Counter(mechanism.release(SCORES) for _ in range(RUNS))
    expected = law(SCORES)
    statistic = sum((found[i] - RUNS * p) ** 2 / (RUNS * p) for i, p in enumerate(expected))
    assert statistic < 60  # chi-square with 7 degrees of freedom: 1e-9
    wrong = expected * np.where(np.arange(SCORES.size) == 0, 0.7, 1)
    wrong /= wrong.sum()
    assert sum((found[i] - RUNS * p) ** 2 / (RUNS * p) for i, p in enumerate(wrong)) > statistic


def test_the_order_of_flips_takes_every_member_once():
    counts = np.array([1, 0, 3])
    order = draw_by_flips(counts, rate=Fraction(1, 2), bits=SeededBits("order"))
    taken = list(itertools.islice(order, 4))
    assert sorted(taken) == [(0, 0), (2, 0), (2, 1), (2, 2)]


def test_a_key_is_enclosed_ever_more_narrowly():
    runner = _Runner(3, 10**7, Fraction(1, 3), np.uint64(1 << 60), SeededBits("narrower"))
    value = -math.log((1 << 59) / 2**63)
    expected = math.log(-math.expm1(-value / 10**7)) + 1
    widths = []
    for _ in range(3):
        low, high = runner.enclose_key(runner.precision)
        unit = 1 << runner.precision
        assert low / unit - 1e-12 <= expected <= high / unit + 1e-12
        widths.append((high - low) / unit)
        runner.extend()
    assert widths[0] > widths[1] * 2**50 > widths[2] * 2**100
    endless = _Runner(0, 5, Fraction(1), np.uint64(0), SeededBits("zero"))
    low, high = endless.enclose_key(endless.precision)
    assert low < high


@pytest.mark.parametrize("size", [1, 3, 5000, 40_003])
def test_compiled_kernels_give_the_integers_of_their_twins(size, monkeypatch):
    source = np.random.default_rng(size)
    scores = source.integers(-50, 50, size)
    scores[source.integers(size)] = -(2**63)
    scores[source.integers(size)] = 2**62
    best = int(scores.max())
    monkeypatch.setattr(levels, "_COMPILED", lambda _: None)
    counts = levels.count_levels(scores, best, 64)
    assert counts.sum() == size
    assert (counts == levels_compiled.count_levels(scores, best, 64)).all()
    for level in np.flatnonzero(counts).tolist():
        for rank in {0, int(counts[level]) - 1}:
            beyond = level == 64
            place = levels.find_member(scores, best, level, rank, beyond=beyond)
            assert place == levels_compiled.find_member(scores, best, level, rank, beyond)
            assert min(best - int(scores[place]), 64) == level


def test_small_rates_need_too_many_levels():
    assert count_needed(Fraction(1, 2)) == 80
    assert count_needed(Fraction(1, 10**6)) is None

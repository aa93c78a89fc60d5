"""Levels by depth and p-values of one look (V1)."""

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from holdtrue.bounds.gate_levels import (
    _BETS,
    betting_end,
    betting_tail,
    depth_error,
    depth_level,
    depth_levels,
    depth_width,
    pairs_tail,
    threshold_tail,
    wins_needed,
)
from holdtrue.bounds.transcripts import gate_level
from holdtrue.errors import InvalidParameter, PreconditionError
from laws import generator

BETA = 0.05


@pytest.mark.parametrize(
    ("looks", "yes", "first", "last", "share"),
    [
        (20, 3, 6.559, 10.602, 1.764),
        (100, 3, 8.061, 15.449, 1.584),
        (100, 5, 8.424, 21.956, 2.278),
        (100, 20, 9.782, 52.908, 8.859),
        (500, 5, 9.999, 30.050, 2.200),
        (500, 20, 11.250, 86.607, 7.689),
    ],
)
def test_v1_level_table(looks, yes, first, last, share):
    levels = depth_levels(looks, yes=yes, beta=BETA)
    assert (levels[0], levels[-1]) == pytest.approx((first, last), abs=2e-3)
    assert BETA / (looks * math.exp(-levels[0])) == pytest.approx(share, abs=2e-3)


def test_v1_levels_of_a_hundred_looks_and_five_yes():
    levels = [math.exp(-level) for level in depth_levels(100, yes=5, beta=BETA)]
    assert levels == pytest.approx([2.195e-4, 4.435e-6, 1.358e-7, 5.598e-9, 2.916e-10], rel=1e-3)


@pytest.mark.parametrize("looks", [1, 2, 3, 4, 5])
def test_v1_the_recursion_is_the_worst_case_over_truths(looks):
    """Played through: at each node the claim is true or false, whichever errs more often; a certificate ends every game."""
    for yes in range(1, looks + 1):
        levels = [math.exp(-level) for level in depth_levels(looks, yes=yes, beta=BETA)]

        @lru_cache(None)
        def worst(left, used, levels=tuple(levels)):
            if used == len(levels):
                return levels[-1]
            if not left:
                return levels[used]
            refused, accepted = worst(left - 1, used), worst(left - 1, used + 1)
            return max(levels[used] + refused, refused + accepted)

        assert worst(looks, 0) == pytest.approx(BETA, abs=1e-12)
        assert depth_error(levels, looks=looks) == pytest.approx(BETA, abs=1e-12)
        assert depth_error(levels, looks=looks) <= BETA


@pytest.mark.parametrize(("looks", "yes"), [(20, 3), (100, 5), (100, 100), (500, 20)])
def test_v1_levels_spend_beta_and_no_more(looks, yes):
    levels = depth_levels(looks, yes=yes, beta=BETA)
    assert list(levels) == sorted(levels)  # l_j does not rise
    assert depth_error([math.exp(-level) for level in levels], looks=looks) == pytest.approx(BETA, abs=1e-12)


def test_v1_levels_beyond_floats_are_a_little_lower_and_at_hand_at_once(monkeypatch):
    """The closed share 2 B + 1 is always enough, and dear by a logarithm only."""
    exact = {(looks, yes): depth_levels(looks, yes=yes, beta=BETA) for looks, yes in ((5, 5), (40, 30), (100, 5), (300, 20))}
    monkeypatch.setattr("holdtrue.bounds.gate_levels._MOST_STEPS", 0)
    for (looks, yes), known in exact.items():
        levels = depth_levels(looks, yes=yes, beta=BETA)
        assert all(known[j] <= levels[j] <= known[j] + math.log(2 * yes + 1) for j in range(yes))
        assert depth_error([math.exp(-level) for level in levels], looks=looks) <= BETA
    assert 700 < depth_level(10**9, yes=10**6, beta=BETA, after=10**5) < math.inf


def test_v1_never_looser_than_counting_transcripts():
    for looks in (1, 2, 3, 5, 8, 20, 50, 100, 200, 500):
        for yes in (1, 2, 3, 5, 10, 20, 50):
            if yes <= looks:
                assert depth_levels(looks, yes=yes, beta=BETA)[-1] <= gate_level(looks, yes=yes, beta=BETA)


def test_v1_wins_needed_of_fifty():
    levels = depth_levels(100, yes=5, beta=BETA)
    assert [wins_needed(50, level=level) for level in levels] == [38, 41, 43, 45, 46]
    gains = [(2 * wins_needed(50, level=level) - 50) / 500 for level in levels]
    assert gains == pytest.approx([0.052, 0.064, 0.072, 0.080, 0.084])
    assert wins_needed(50, level=levels[0], cases=500) == 41
    assert wins_needed(10, level=levels[0]) == 11  # ten of ten are no yes
    assert wins_needed(10, level=depth_level(20, yes=3, beta=BETA)) == 10
    assert wins_needed(0, level=levels[0]) == 1


def test_v1_half_widths_above_a_threshold():
    shown = {
        (100, 20, 3): (0.160, 0.210),
        (100, 100, 5): (0.180, 0.310),
        (500, 20, 3): (0.068, 0.092),
        (500, 100, 5): (0.080, 0.140),
        (5000, 100, 5): (0.025, 0.044),
    }
    for (cases, looks, yes), ends in shown.items():
        levels = depth_levels(looks, yes=yes, beta=BETA)
        found = depth_width(cases, level=levels[0]), depth_width(cases, level=levels[-1])
        assert found == pytest.approx(ends, abs=5e-4)
    assert depth_width(500, level=depth_level(100, yes=5, beta=BETA), threshold=0.8) == pytest.approx(0.062)
    assert depth_width(5, level=20.0) is None


@pytest.mark.parametrize("cases", [3, 7, 12])
def test_v1_exact_pairs_are_valid_for_cases_that_are_alike(cases):
    """Exactly, over all wins and losses: never above the level where neither is better; a half more wins is refuted."""
    for level in (0.2, 0.05, 0.01, 0.001):
        for share in (0.1, 0.5, 1.0):
            chance = 0.0
            for differing in range(cases + 1):
                won = [w for w in range(differing + 1) if pairs_tail(w, differing) <= math.log(level)]
                chance += stats.binom.pmf(differing, cases, share) * stats.binom.pmf(won, differing, 0.5).sum()
            assert chance <= level * (1 + 1e-9)
    lowered = [w for w in range(13) if pairs_tail(min(12, w + 1), 12) <= math.log(0.05)]
    assert stats.binom.pmf(lowered, 12, 0.5).sum() > 0.05


def test_v1_a_public_differing_set_needs_the_cut(request):
    """Unlike coins with mean half: their tail is below the binomial's from N/2 + 1 wins on, and above it just below."""
    random, number = generator(request), 9
    for _ in range(300):
        chances = random.random(number)
        chances *= min(1.0, number / 2 / chances.sum())
        law = np.array([1.0])
        for chance in chances:
            law = np.convolve(law, [1 - chance, chance])
        tails = law[::-1].cumsum()[::-1]
        for wins in range(number + 1):
            assert tails[wins] <= math.exp(pairs_tail(wins, number)) * (1 + 1e-9)
    # Five sure wins of ten: the binomial tail would be too small.
    assert pairs_tail(5, 10) == 0.0 > math.log(stats.binom.sf(4, 10, 0.5))


def test_v1_e_values_of_unlike_trinomials_have_mean_at_most_one(request):
    """Exactly by the product; a control whose mean is above the margin is refuted."""
    random, largest = generator(request), 0.0
    for _ in range(3000):
        number, margin = int(random.integers(1, 8)), float(random.choice([0.0, 0.05, 0.2, -0.3]))
        chances = random.dirichlet(np.ones(3), number)[:, :2]
        excess = chances[:, 0].sum() - chances[:, 1].sum() - margin * number
        if excess > 0:
            chances[:, 0] *= max(0.0, 1 - excess / chances[:, 0].sum())
        means = chances[:, 0] - chances[:, 1]
        if means.mean() <= margin + 1e-12:
            wealth = np.prod(1 + _BETS[:, None] / (1 + margin) * (means - margin), axis=1)
            largest = max(largest, float(wealth.mean()))
    assert 0.9 < largest <= 1 + 1e-9
    assert np.prod(1 + _BETS[:, None] * np.full(7, 0.1), axis=1).mean() > 1.1


def test_v1_betting_by_counts_is_betting_by_cases_and_is_rounded_up(request):
    random = generator(request)
    for margin in (0.0, 0.1, -0.2):
        values = random.choice([1.0, 0.0, -1.0], size=400, p=[0.3, 0.5, 0.2])
        counts = [int((values == each).sum()) for each in (1.0, 0.0, -1.0)]
        by_case = betting_tail(values, margin=margin)
        assert by_case == pytest.approx(betting_tail([1.0, 0.0, -1.0], counts=counts, margin=margin), abs=1e-9)
        bets = [math.fsum(math.log1p(bet / (1 + margin) * (x - margin)) for x in values) for bet in _BETS]
        exact = -(math.log(math.fsum(math.exp(each) for each in bets)) - math.log(14))
        assert min(0.0, exact) <= by_case <= min(0.0, exact) + 1e-9


def test_v1_betting_rises_with_the_margin_and_its_end_is_where_it_stands(request):
    random = generator(request)
    values = random.uniform(-1, 1, 200) * 0.5 + 0.3
    tails = [betting_tail(values, margin=margin) for margin in np.linspace(-0.99, 0.99, 100)]
    assert all(first <= second + 1e-9 for first, second in pairwise(tails))
    end = betting_end(values, level=8.0)
    assert -1 < end < values.mean()
    assert betting_tail(values, margin=end) <= -8.0 < betting_tail(values, margin=end + 1e-6)
    assert betting_end(np.zeros(50), level=8.0, least=0.0) == 0.0
    assert betting_end(np.full(500, -1.0), level=8.0) == -1.0
    assert 0.9 < betting_end(np.ones(500), level=8.0, least=0.0) < 1


def test_v1_a_threshold_is_passed_by_hits():
    assert threshold_tail(0, cases=10, threshold=0.0) == 0.0
    assert threshold_tail(1, cases=10, threshold=0.0) == -math.inf
    assert threshold_tail(9_000, cases=10_000, threshold=0.5) == pytest.approx(-3680.6, abs=0.1)  # Chernoff's
    assert threshold_tail(5, cases=10, threshold=0.5) == 0.0
    assert math.exp(threshold_tail(9, cases=10, threshold=0.5)) == pytest.approx(11 / 1024)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: depth_level(0, yes=1, beta=BETA), InvalidParameter),
        (lambda: depth_level(10, yes=0, beta=BETA), InvalidParameter),
        (lambda: depth_level(10, yes=11, beta=BETA), PreconditionError),
        (lambda: depth_level(10, yes=2, beta=1), InvalidParameter),
        (lambda: depth_level(10, yes=2, beta=BETA, after=2), InvalidParameter),
        (lambda: depth_error([0.01, 0.02], looks=2), PreconditionError),
        (lambda: betting_tail([0.5], margin=1.0), PreconditionError),
        (lambda: betting_tail([0.5], margin=-1.5), PreconditionError),
    ],
)
def test_v1_bad_numbers(call, error):
    with pytest.raises(error):
        call()

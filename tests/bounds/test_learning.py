"""Sizes for learning finite classes against tables, enumeration and simulation (B2, B4-B7, C1-C5, N3)."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from holdtrue.bounds import learning, selection
from holdtrue.bounds.accuracy import hoeffding_alpha, hoeffding_rows
from holdtrue.errors import InsufficientSamples, InvalidParameter, PreconditionError
from laws import generator

# size, alpha, beta, epsilon: Lecture 4, with Hoeffding, Lecture 16, pair, split, realizable.
TABLE = [
    (2, 0.1, 0.05, 1, 13_703, 2_284, 4_061, 597, 738, 75),
    (100, 0.1, 0.05, 1, 24_266, 4_045, 7_190, 1_511, 1_147, 190),
    (100, 0.1, 0.05, 0.1, 24_266, 4_977, 7_190, 2_020, 2_463, 1_553),
    (100, 0.1, 0.05, 0.01, 49_765, 49_765, 33_177, 15_568, 17_666, 15_216),
    (10**4, 0.05, 0.01, 0.5, 164_180, 27_364, 48_646, 11_039, 7_441, 1_243),
    (10**6, 0.01, 0.05, 1, 4_913_336, 818_890, 1_455_803, 336_209, 184_552, 4_265),
]


@pytest.fixture
def rng(request):
    return generator(request)


def selected_wrong(rng, *, size, alpha, epsilon, rows, best=None, runs=4000):
    """Return the mean probability of picking a hypothesis worse by alpha, over samples of independent hypotheses."""
    start = 0.5 - alpha / 2 if best is None else best
    good = rng.binomial(rows, start, runs)
    bad = rng.binomial(rows, start + alpha, (runs, size - 1))
    least = np.minimum(good, bad.min(axis=1))
    weight = np.exp(-(epsilon / 2) * (bad - least[:, None])).sum(axis=1)
    wrong = weight / (weight + np.exp(-(epsilon / 2) * (good - least)))
    return float(wrong.mean()), float(wrong.std() / math.sqrt(runs))


# N3


@pytest.mark.parametrize("row", TABLE)
def test_n3_table_is_reproduced_to_the_row(row):
    size, alpha, beta, epsilon, lecture4, hoeffding, lecture16, pair, split, realizable = row
    parameters = {"alpha": alpha, "beta": beta, "epsilon": epsilon}
    assert learning.lecture4_rows(size, **parameters) == lecture4
    assert learning.lecture4_hoeffding_rows(size, **parameters) == hoeffding
    assert learning.lecture16_rows(size, **parameters) == lecture16
    assert learning.pair_rows(size, **parameters) == pair
    assert learning.split_rows(size, **parameters) == split
    assert learning.realizable_rows(size, **parameters) == realizable
    assert learning.learning_rows(size, **parameters) == min(pair, split)


@pytest.mark.parametrize(
    ("size", "alpha", "epsilon", "rows"), [(50, 0.2, 0.1, 784), (2, 0.2, 1.0, 147), (1000, 0.2, 0.2, 654)]
)
def test_n3_pair_size_fails_within_beta_in_simulation(rng, size, alpha, epsilon, rows):
    assert learning.pair_rows(size, alpha=alpha, beta=0.05, epsilon=epsilon) == rows
    mean, error = selected_wrong(rng, size=size, alpha=alpha, epsilon=epsilon, rows=rows)
    assert mean - 5 * error <= 0.05


def test_n3_realizable_size_is_nearly_tight_in_simulation(rng):
    rows = learning.realizable_rows(50, alpha=0.1, beta=0.05, epsilon=1)
    assert rows == 172
    mean, error = selected_wrong(rng, size=50, alpha=0.1, epsilon=1.0, rows=rows, best=0.0)
    assert 0.04 <= mean <= 0.05 + 5 * error
    short, _ = selected_wrong(rng, size=50, alpha=0.1, epsilon=1.0, rows=int(0.6 * rows), best=0.0)
    assert short == pytest.approx(0.43, abs=0.03)


@pytest.mark.parametrize("row", TABLE[:5])
def test_n3_split_is_the_best_of_a_fine_grid_of_splits(row):
    size, alpha, beta, epsilon = row[:4]
    split = learning.split_rows(size, alpha=alpha, beta=beta, epsilon=epsilon)
    a = np.linspace(0, 1, 20_001)[1:-1] * alpha
    rate = np.minimum(epsilon / 2, 4 * (alpha - a))
    psi = rate * (alpha - a) - rate**2 / 8

    def failure(m):
        return (np.exp(-2 * m * a**2) + (size - 1) * np.exp(-m * psi)).min()

    assert failure(split + 1) <= beta < failure(split - 1)


def test_n3_pair_moment_is_the_worst_of_all_laws_on_three_points():
    alpha, epsilon = 0.2, 0.5
    rates = np.linspace(0, epsilon / 2, 2001)
    worst = 0.0
    for mass in np.linspace(alpha, 1, 200):
        up, down = (mass + alpha) / 2, (mass - alpha) / 2
        worst = max(worst, (up * np.exp(-rates) + down * np.exp(rates) + 1 - mass).min())
    rate = min(epsilon / 2, math.atanh(alpha))
    assert worst == pytest.approx(math.cosh(rate) - alpha * math.sinh(rate), abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(2, 10**9),
    alpha=st.floats(1e-3, 0.9),
    beta=st.floats(1e-6, 0.6),
    epsilon=st.floats(1e-3, 20),
)
def test_n3_sizes_fall_with_every_parameter_and_realizable_is_least(size, alpha, beta, epsilon):
    for rows in (learning.pair_rows, learning.split_rows, learning.realizable_rows, learning.lecture16_rows):
        here = rows(size, alpha=alpha, beta=beta, epsilon=epsilon)
        assert rows(size, alpha=min(0.95, alpha * 1.1), beta=beta, epsilon=epsilon) <= here
        assert rows(size, alpha=alpha, beta=min(0.9, beta * 1.1), epsilon=epsilon) <= here
        assert rows(size, alpha=alpha, beta=beta, epsilon=epsilon * 1.1) <= here
        assert rows(size + 1, alpha=alpha, beta=beta, epsilon=epsilon) >= here
        assert rows(size, alpha=alpha, beta=beta) <= here
    best = learning.learning_rows(size, alpha=alpha, beta=beta, epsilon=epsilon)
    assert learning.realizable_rows(size, alpha=alpha, beta=beta, epsilon=epsilon) <= best


def test_n3_one_hypothesis_needs_one_row():
    for rows in (learning.pair_rows, learning.split_rows, learning.realizable_rows):
        assert rows(1, alpha=0.1, beta=0.05, epsilon=1) == 1


def test_n3_classes_beyond_floats_are_counted():
    assert learning.realizable_rows(10**400, alpha=0.1, beta=0.05) == math.ceil(
        (400 * math.log(10) - math.log(0.05)) / -math.log(0.9)
    )


# C1 - C5


def test_c1_error_empirical_error_and_minimiser_by_hand():
    # Eight points, uniform; truth is x >= 3, thresholds at 2, 3 and 6 get 1, 0 and 3 of them wrong.
    points = np.arange(8)
    truth = points >= 3
    wrong = np.array([(points >= t) != truth for t in (2, 3, 6)])
    assert learning.population_error(wrong, weights=[1 / 8] * 8) == pytest.approx([1 / 8, 0, 3 / 8], abs=1e-15)
    rows = [0, 2, 2, 5]
    assert learning.empirical_error(wrong[:, rows]) == pytest.approx([1 / 2, 0, 1 / 4], abs=1e-15)
    assert learning.empirical_minimiser(wrong[:, rows].sum(axis=1)) == 1


def test_c1_ties_go_to_the_lowest_index():
    assert learning.empirical_minimiser([3, 1, 1, 2]) == 1


@pytest.mark.parametrize(
    ("size", "half_width", "beta", "hoeffding", "lecture"),
    [(1, 0.1, 0.05, 185, 1_107), (100, 0.1, 0.05, 415, 2_489), (10**4, 0.05, 0.01, 2_902, 17_411)],
)
def test_c2_uniform_convergence_sizes(size, half_width, beta, hoeffding, lecture):
    assert hoeffding_rows(half_width, beta=beta, queries=size) == hoeffding
    assert learning.lecture4_uniform_rows(size, half_width=half_width, beta=beta) == lecture
    assert hoeffding_alpha(hoeffding, beta=beta, queries=size) <= half_width
    assert hoeffding_alpha(hoeffding - 1, beta=beta, queries=size) > half_width


def test_c2_hoeffding_holds_exactly_for_every_bias():
    rows = hoeffding_rows(0.1, beta=0.05, queries=1)
    for p in np.linspace(0, 1, 201):
        inside = stats.binom.cdf(math.floor(rows * (p + 0.1)), rows, p) - stats.binom.cdf(
            math.ceil(rows * (p - 0.1)) - 1, rows, p
        )
        assert 1 - inside <= 0.05


def test_c3_minimiser_is_within_twice_the_deviation_in_ten_thousand_tables(rng):
    for _ in range(10_000):
        size, points, rows = rng.integers(1, 21), rng.integers(1, 12), rng.integers(1, 15)
        wrong = rng.random((size, points)) < rng.random()
        weights = rng.dirichlet(np.ones(points))
        true = learning.population_error(wrong, weights=weights)
        seen = learning.empirical_error(wrong[:, rng.choice(points, rows, p=weights)])
        deviation = np.abs(true - seen).max()
        pick = learning.empirical_minimiser(seen)
        assert true[pick] <= true.min() + learning.erm_excess(half_width=min(1.0, deviation)) + 1e-12


def test_c4_thirds_and_halves_give_the_literal_size():
    size, alpha, beta, epsilon = 100, 0.1, 0.05, 0.01
    uniform = learning.lecture4_uniform_rows(size, half_width=alpha / 3, beta=beta / 2)
    shortfall = selection.selection_shortfall(size, epsilon=epsilon, beta=beta / 2)
    literal = max(uniform, math.ceil(shortfall / (alpha / 3)))
    assert abs(learning.lecture4_rows(size, alpha=alpha, beta=beta, epsilon=epsilon) - literal) <= 1
    assert learning.erm_excess(half_width=alpha / 3, slack=alpha / 3) == pytest.approx(alpha)


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_c4_lecture4_refuses_more_than_one_half(name):
    parameters = {"alpha": 0.1, "beta": 0.05, "epsilon": 1} | {name: 0.6}
    with pytest.raises(PreconditionError, match=rf"{name} in \(0, 1/2\]; got 0.6, and 0.5 would do"):
        learning.lecture4_rows(10, **parameters)
    assert learning.lecture4_hoeffding_rows(10, **(parameters | {name: 0.5})) > 0


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.2])
def test_c5_privacy_is_free_from_twice_atanh_alpha_on(alpha):
    free = learning.free_epsilon(alpha)
    assert free == pytest.approx(2 * math.atanh(alpha), rel=1e-12)
    parameters = {"alpha": alpha, "beta": 1e-9}
    assert learning.pair_rows(10**9, **parameters, epsilon=free) == learning.pair_rows(10**9, **parameters)
    assert learning.pair_rows(10**9, **parameters, epsilon=0.9 * free) > learning.pair_rows(10**9, **parameters)


def test_c5_threshold_at_a_tenth():
    assert learning.free_epsilon(0.1) == pytest.approx(0.2007, abs=5e-5)


# B4 - B7


def rejection(rng, law, draws):
    """Draw by Lecture 16's Algorithm 2: propose uniformly, accept with probability law[y]; return draws and rounds."""
    chosen, rounds = np.full(draws, -1), np.zeros(draws, dtype=int)
    open_ = np.arange(draws)
    while open_.size:
        proposed = rng.integers(0, law.size, open_.size)
        rounds[open_] += 1
        accepted = rng.random(open_.size) < law[proposed]
        chosen[open_[accepted]] = proposed[accepted]
        open_ = open_[~accepted]
    return chosen, rounds


def test_b4_rejection_sampler_has_the_law_and_takes_as_many_rounds_as_candidates(rng):
    draws = 60_000
    for scores in ([0, 3, 1, 7, 2, 2, 5, 4], [0] * 8):
        law = selection.selection_probabilities(scores, rate=0.5)
        chosen, rounds = rejection(rng, law, draws)
        distance = np.abs(np.bincount(chosen, minlength=8) / draws - law).sum() / 2
        assert distance <= 4 * np.sqrt(law * (1 - law) / draws).sum() / 2
        assert rounds.mean() == pytest.approx(8.0, abs=0.1)


def test_b5_exact_tail_never_exceeds_e_to_minus_t(rng):
    worst = 0.0
    for _ in range(5000):
        scores = rng.integers(0, 12, rng.integers(1, 30))
        rate = Fraction(int(rng.integers(1, 40)), 20)
        top = int((scores == scores.max()).sum())
        for t in (-1, 0, 0.5, 1, 2, 5):
            miss = (math.log(scores.size / top) + t) / float(rate)
            if miss >= 0:
                worst = max(worst, selection.selection_tail(scores, rate=rate, shortfall=miss) * math.exp(t))
    assert worst <= 1 + 1e-12


@pytest.mark.parametrize("sharp", [False, True])
def test_b5_shortfall_holds_for_every_small_score_vector(sharp):
    for scores in itertools.product(range(6), repeat=4):
        top = scores.count(max(scores))
        for beta in (0.5, 0.1, 0.01):
            miss = selection.selection_shortfall(4, epsilon=2, beta=beta, best=top, sharp=sharp)
            if miss > 0:
                assert selection.selection_tail(scores, rate=1, shortfall=miss) <= beta + 1e-12


def test_b5_expected_shortfall_holds(rng):
    for _ in range(2000):
        scores = rng.integers(0, 30, rng.integers(1, 40))
        law = selection.selection_probabilities(scores, rate=0.5)
        assert scores.max() - law @ scores <= selection.expected_shortfall(scores.size, epsilon=1) + 1e-9


def test_b6_law_of_three_hypotheses():
    law = selection.selection_probabilities([0, -1, -3], rate=0.5)
    weights = np.exp([0, -0.5, -1.5])
    assert law == pytest.approx(weights / weights.sum(), abs=1e-12)


def test_b7_is_uniform_convergence_at_a_quarter_and_a_choice_at_a_half():
    size, alpha, beta = 100, 0.1, 0.05
    uniform = hoeffding_rows(alpha / 4, beta=beta / 2, queries=size)
    assert learning.lecture16_rows(size, alpha=alpha, beta=beta) == uniform
    shortfall = selection.selection_shortfall(size, epsilon=0.01, beta=beta / 2)
    assert learning.lecture16_rows(size, alpha=alpha, beta=beta, epsilon=0.01) == math.ceil(shortfall / (alpha / 2))
    assert learning.erm_excess(half_width=alpha / 4, slack=alpha / 2) == pytest.approx(alpha)


# 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", 0),
        ("alpha", 1),
        ("alpha", math.nan),
        ("beta", 0.0),
        ("beta", 1),
        ("epsilon", 0),
        ("epsilon", -1.0),
        ("epsilon", math.inf),
        ("epsilon", True),
        ("size", 0),
        ("size", 2.0),
        ("size", True),
    ],
)
def test_0_5_bad_parameters_are_named(name, value):
    parameters = {"size": 10, "alpha": 0.1, "beta": 0.05, "epsilon": 1} | {name: value}
    size = parameters.pop("size")
    for rows in (learning.pair_rows, learning.split_rows, learning.lecture16_rows, learning.lecture4_rows):
        with pytest.raises(InvalidParameter, match=name):
            rows(size, **parameters)


def test_0_5_more_rows_than_can_be_counted():
    with pytest.raises(InsufficientSamples) as caught:
        learning.learning_rows(10, alpha=1e-200, beta=0.05, epsilon=1)
    assert caught.value.required is None


@pytest.mark.parametrize("scores", [[], [1.0, math.nan], [[1, 2]], [math.inf]])
def test_b2_scores_must_be_finite_and_some(scores):
    with pytest.raises(InvalidParameter, match="scores"):
        selection.selection_probabilities(scores, rate=1)


def test_b2_more_best_than_candidates():
    with pytest.raises(InvalidParameter, match="best"):
        selection.selection_shortfall(3, epsilon=1, beta=0.1, best=4)

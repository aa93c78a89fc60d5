"""Responses of an ensemble: their laws, their privacy by enumeration, and their events (E4, E9-E11, T2b)."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

import holdtrue as ht
from holdtrue import events
from holdtrue.ensembles.responding import GRID, Agnostic, LaplaceMax, NoisyAverage, NoisyMax, SoftMajority
from holdtrue.errors import InvalidParameter
from holdtrue.testing import SeededBits, drawing_from
from laws import LEVEL, chi_square_of_counts, generator


@pytest.fixture
def rng(request):
    return generator(request)


def vote_vectors(labels, votes):
    """Return every way to spread so many votes over so many labels."""
    cuts = itertools.combinations(range(votes + labels - 1), labels - 1)
    walls = np.array([(-1, *cut, votes + labels - 1) for cut in cuts])
    return np.diff(walls, axis=1) - 1


def worst_loss(labels, votes, rate):
    """Return the largest log-ratio over all neighbouring vote vectors of the law softmax(rate votes)."""
    counts = vote_vectors(labels, votes)
    law = special.log_softmax(float(rate) * counts, axis=1)
    worst = 0.0
    for source, sink in itertools.permutations(range(labels), 2):
        moved = counts.copy()
        moved[:, source] -= 1
        moved[:, sink] += 1
        possible = counts[:, source] > 0
        other = special.log_softmax(float(rate) * moved[possible], axis=1)
        worst = max(worst, np.abs(law[possible] - other).max())
    return worst


SIZES = {2: 64, 3: 20, 4: 20, 5: 20}


@pytest.mark.parametrize("labels", SIZES)
def test_e4_the_rate_of_soft_majority_is_epsilon_dp_over_all_neighbouring_votes_and_attained(labels):
    for votes in range(1, SIZES[labels] + 1):
        assert worst_loss(labels, votes, SoftMajority(0.1).rate) <= 0.1 + 1e-12
        worst = worst_loss(labels, votes, SoftMajority(1.0).rate)
        assert worst <= 1 + 1e-12
        assert votes < 10 or worst >= 0.97


@pytest.mark.parametrize("labels", SIZES)
def test_e4_twice_that_rate_is_caught(labels):
    for votes in range(10, SIZES[labels] + 1):
        assert worst_loss(labels, votes, 2 * SoftMajority(1.0).rate) >= 1.95


def drawn(rule, votes, bits, times):
    return drawing_from(rule, bits).release(np.tile(votes, (times, 1)))


@pytest.mark.parametrize(("votes", "points"), [([7, 4, 5], 1), ([3, 3], 1), ([30, 10, 22, 2], 5)])
def test_e4_soft_majority_draws_its_law(bits, votes, points):
    rule = SoftMajority(0.8, points=points)
    counts = np.bincount(drawn(rule, votes, bits, 40_000), minlength=len(votes))
    law = special.softmax(0.4 / points * np.array(votes))
    assert chi_square_of_counts(counts, law) > LEVEL
    assert chi_square_of_counts(counts, special.softmax(0.8 / points * np.array(votes))) < LEVEL or len(set(votes)) == 1


def test_e4_votes_pooled_over_points_are_as_private_as_those_of_one():
    """A member's votes on three points may all move: the worst loss over two members and two labels stays below epsilon."""
    rate, worst = float(SoftMajority(1.0, points=3).rate), 0.0
    for start, end, others in itertools.product(range(4), range(4), range(0, 61, 3)):
        here, there = np.array([start + others, 3 - start]), np.array([end + others, 3 - end])
        worst = max(worst, np.abs(special.log_softmax(rate * here) - special.log_softmax(rate * there)).max())
    assert 0.97 <= worst <= 1 + 1e-12
    assert SoftMajority(1.0, points=3).event == SoftMajority(1.0).event == events.BoundedRange(1)


def test_t2b_noisy_max_is_gaussian_of_root_two_over_sigma():
    rule = NoisyMax(40)
    assert rule.event.mu**2 > Fraction(2, 1600)
    assert rule.mu == pytest.approx(math.sqrt(2) / 40, rel=1e-12)
    assert NoisyMax(mu=rule.event.mu).sigma == 40
    assert NoisyMax(120, points=3).event == rule.event
    # Two labels: Pr[1] moves from Phi(-1 / (sqrt 2 sigma)) to Phi(1 / (sqrt 2 sigma)), a point of the curve of that mu.
    p = special.ndtr(np.array([-1, 1]) / (math.sqrt(2) * 40))
    for epsilon in (0.0, 0.02, 0.05):
        assert p[1] - math.exp(epsilon) * p[0] <= rule.delta(epsilon) + 1e-15
    assert p[1] - p[0] == pytest.approx(rule.tv, rel=1e-9)
    assert p[1] - p[0] > NoisyMax(41).tv


def test_t2b_noisy_max_draws_its_law(bits):
    counts = np.bincount(drawn(NoisyMax(3), [9, 6], bits, 40_000), minlength=2)
    assert chi_square_of_counts(counts, special.ndtr(np.array([3, -3]) / (math.sqrt(2) * 3))) > LEVEL
    assert chi_square_of_counts(counts, special.ndtr(np.array([3, -3]) / (math.sqrt(2) * 3.3))) < LEVEL


def _laplace_wins(lead, scale):
    """Return the chance that a label which leads by so many votes wins over one other, under Laplace noise on both."""
    behind = 0.5 * math.exp(-abs(lead) / scale) * (1 + abs(lead) / (2 * scale))
    return 1 - behind if lead >= 0 else behind


def test_b3_laplace_max_draws_its_law(bits):
    counts = np.bincount(drawn(LaplaceMax(0.5), [9, 6], bits, 40_000), minlength=2)
    law = _laplace_wins(3, 4.0)
    assert chi_square_of_counts(counts, [law, 1 - law]) > LEVEL
    wider = _laplace_wins(3, 4.8)
    assert chi_square_of_counts(counts, [wider, 1 - wider]) < LEVEL


@pytest.mark.parametrize("points", [1, 2])
def test_b3_laplace_max_is_epsilon_dp(points):
    """Three labels, by integration: the worst loss over neighbours is at most epsilon, and noise half as wide breaks it."""

    def wins(votes, scale):
        z = np.linspace(-60 * scale, 60 * scale, 40_001)
        density = np.exp(-np.abs(z) / scale) / (2 * scale)
        cdf = lambda x: np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0) / scale), 1 - 0.5 * np.exp(-np.maximum(x, 0) / scale))  # noqa: E731
        won = [
            np.trapezoid(density * np.prod([cdf(z + v - w) for j, w in enumerate(votes) if j != i], axis=0), z)
            for i, v in enumerate(votes)
        ]
        return np.log(won)

    rule = LaplaceMax(1.0, points=points)
    assert rule.event == events.Pure(1)
    scale = float(rule.scale / GRID)
    worst = {}
    for width in (scale, scale / 2):
        worst[width] = max(
            np.abs(wins((a, b, 5), width) - wins((a - points, b + points, 5), width)).max()
            for a, b in itertools.product(range(2, 12, 3), repeat=2)
        )
    assert 0.6 < worst[scale] <= 1 + 1e-6
    assert worst[scale / 2] > 1


def test_e11_agnostic_for_two_votes_moves_by_epsilon_over_two():
    for limit, kind in (("log-odds", events.BoundedRange), ("ratio", events.Pure)):
        rule = Agnostic(20, epsilon=1, limit=limit, votes=2)
        assert rule.event == kind(1)
        p = np.array([float(chance) for chance in rule.table.probabilities])
        loss = (
            np.abs(special.logit(p[2:]) - special.logit(p[:-2])) if limit == "log-odds" else np.abs(np.log(p[2:] / p[:-2]))
        )
        assert 0.9 < loss.max() <= 1 + 1e-9


def test_e10_an_average_of_which_a_row_moves_two_members_has_twice_the_noise():
    one, two = (NoisyAverage(50, low=0, high=1, epsilon=0.5, members=members) for members in (1, 2))
    assert one.event.epsilon == two.event.epsilon == Fraction(1, 2)
    assert two.event.sensitivity == 2 * one.event.sensitivity
    assert two.deviation == pytest.approx(2 * one.deviation)


def test_noisy_max_gives_labels_that_tie_equal_chances(bits):
    """With noise far below a part of a vote every draw ties; the first label would win them all without the coin."""
    rule = NoisyMax(Fraction(1, 100 * GRID))
    counts = np.bincount(drawn(rule, [5, 5, 2, 5], bits, 6000), minlength=4)
    assert counts[2] == 0
    assert chi_square_of_counts(counts[[0, 1, 3]], [1 / 3] * 3) > LEVEL


def test_noisy_counts_have_normal_noise_and_their_largest_is_the_label():
    votes = np.tile([30, 10, 22], (14_000, 1))
    noise = drawing_from(NoisyMax(5), SeededBits("counts")).counts(votes) - votes
    assert stats.kstest(noise.ravel() / 5, "norm").pvalue > LEVEL
    assert stats.kstest(noise.ravel() / 5.5, "norm").pvalue < LEVEL
    labels = drawing_from(NoisyMax(5), SeededBits("counts")).release(votes)
    assert (labels == (votes + noise).argmax(axis=1)).all()
    assert drawing_from(NoisyMax(5), SeededBits("one")).counts([3, 4]).shape == (2,)


@pytest.mark.parametrize("limit", ["log-odds", "ratio"])
def test_e11_agnostic_draws_the_table(bits, limit):
    rule = Agnostic(10, epsilon=0.5, limit=limit)
    for yes in (2, 9):
        said = int(drawn(rule, [10 - yes, yes], bits, 20_000).sum())
        p = float(rule.table.probabilities[yes])
        assert chi_square_of_counts([said, 20_000 - said], [p, 1 - p]) > LEVEL
        assert chi_square_of_counts([said, 20_000 - said], [0.8 * p, 1 - 0.8 * p]) < LEVEL


def test_e11_table_of_the_rule_keeps_its_steps_and_its_error():
    rule = Agnostic(100, epsilon=0.2)
    odds = np.array([math.log(p / (1 - p)) for p in rule.table.probabilities])
    assert np.abs(np.diff(odds)).max() <= 0.2 + 1e-9
    shares = np.arange(101) / 100
    assert np.abs([float(p) - s for p, s in zip(rule.table.probabilities, shares, strict=True)]).max() <= 0.0143 + 5e-5
    assert rule.event == events.BoundedRange(0.2)
    assert Agnostic(100, epsilon=0.2, limit="ratio").event == events.Pure(0.2)


def test_e9_noisy_average_is_the_mean_with_noise(bits, rng):
    outputs = rng.uniform(-2, 4, 50)
    rule = drawing_from(NoisyAverage(50, low=-2, high=4, epsilon=3.0), bits)
    answers = np.array([rule.release(outputs) for _ in range(400)])
    assert rule.deviation == pytest.approx(math.sqrt(2) * 6 / (3 * 50), rel=1e-9)
    assert answers.std() == pytest.approx(rule.deviation, rel=0.45)
    assert abs(answers.mean() - outputs.mean()) < 6 * rule.deviation / math.sqrt(400)
    assert answers.min() >= -2
    assert answers.max() <= 4


@pytest.mark.parametrize("gamma", [None, 0.01, 1e-9])
def test_e10_one_member_moves_the_sum_by_the_sensitivity_at_most(rng, gamma):
    rule = NoisyAverage(2, low=0, high=1, mu=1.0, gamma=gamma, steps=1000)
    assert rule.noise.sensitivity == {None: 1000, 0.01: 11, 1e-9: 1}[gamma]
    for _ in range(2000):
        here = rng.uniform(-0.2, 1.2)
        there = here + rng.uniform(-1, 1) * (2 if gamma is None else gamma)
        assert abs(rule.round_to_steps(here) - rule.round_to_steps(there)) <= rule.noise.sensitivity


def test_e10_a_sensitivity_without_the_rounding_is_caught():
    rule = NoisyAverage(2, low=0, high=1, mu=1.0, gamma=0.0105, steps=1000)
    moves = [abs(rule.round_to_steps(x) - rule.round_to_steps(x + 0.0105)) for x in np.linspace(0, 0.5, 999)]
    assert max(moves) == rule.noise.sensitivity > round(10.5)


@pytest.mark.parametrize(("low", "high", "steps"), [(0, 1, 8), (-0.1, 0.3, 1 << 20), (1e6, 1e6 + 1, 1000), (0, 1, 1 << 49)])
def test_floats_propose_the_exact_sum_of_an_average(rng, low, high, steps):
    """Values on the edges between two steps, and next to them, are where floats alone would be wrong."""
    rule = NoisyAverage(400, low=low, high=high, mu=1.0, steps=steps)
    for _ in range(20):
        edges = low + (rng.integers(0, min(steps, 1 << 40), 200) + 0.5) * ((high - low) / steps)
        values = np.concatenate([edges, np.nextafter(edges[:100], np.inf), rng.uniform(low - 0.1, high + 0.1, 100)])
        assert rule.sum_outputs(values) == sum(rule.round_to_steps(value) for value in values.tolist())


def test_noisy_average_is_total():
    rule = NoisyAverage(5, low=-1, high=1, epsilon=1)
    odd = np.array([math.nan, math.inf, -math.inf, 1e300, 0.0])
    assert [rule.round_to_steps(value) for value in odd.tolist()] == [0, rule.steps, 0, rule.steps, rule.steps // 2]
    assert rule.sum_outputs(odd) == 2 * rule.steps + rule.steps // 2
    assert -1 <= rule.release([math.nan, math.inf, -math.inf, 1e300, 0.0]) <= 1


RULES = [
    SoftMajority(0.5),
    NoisyMax(2),
    LaplaceMax(0.5),
    Agnostic(3, epsilon=0.5),
    NoisyAverage(2, low=0, high=1, epsilon=0.5),
    NoisyAverage(2, low=0, high=1, mu=0.5),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_seeded_bits_promise_nothing(rule):
    assert isinstance(drawing_from(rule, SeededBits("any")).event, events.NonPrivate)
    assert not isinstance(rule.event, events.NonPrivate)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_the_same_bits_give_the_same_answer(rule):
    """So that a rule draws from the bits it is given and from no others."""
    values = np.array([0.2, 0.9]) if isinstance(rule, NoisyAverage) else np.array([1, 2])
    first, again = ([drawing_from(rule, SeededBits("same")).release(values) for _ in range(2)] for _ in range(2))
    assert first == again


def test_one_point_gives_one_answer_of_its_own_type():
    assert type(SoftMajority(1).release([3, 4])) is int
    assert type(NoisyMax(1).release([3, 4])) is int
    assert type(Agnostic(7, epsilon=1).release([3, 4])) is bool


@pytest.mark.parametrize(
    "call",
    [
        lambda: SoftMajority(1).release([3]),
        lambda: SoftMajority(1).release(np.array([0.5, 1])),
        lambda: NoisyMax(1, mu=1),
        NoisyMax,
        lambda: NoisyMax(2**35),
        lambda: LaplaceMax(2**-40),
        lambda: Agnostic(7, epsilon=1).release([3, 5]),
        lambda: Agnostic(7, epsilon=1).release([8, -1]),
        lambda: NoisyAverage(3, low=1, high=1, epsilon=1),
        lambda: NoisyAverage(3, low=0, high=1),
        lambda: NoisyAverage(3, low=0, high=1, epsilon=1).release([0.5]),
    ],
)
def test_wrong_arguments_are_refused_without_a_value_of_a_row(call):
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert "0.5" not in str(caught.value)


def test_costs_on_a_ledger():
    assert ht.Exponential(epsilon=0.5).mu == SoftMajority(0.5).mu
    assert SoftMajority(0.5).rho <= 0.5**2 / 8

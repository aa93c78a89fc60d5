"""Answering only clear votes: laws, events, and what is charged when (T2b, T10)."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from holdtrue import events
from holdtrue.accounting.filters import GaussianFilter
from holdtrue.ensembles.responding import NoisyMax, SoftMajority
from holdtrue.ensembles.screening import Patience, Screen, Screened
from holdtrue.errors import BudgetExceeded, InvalidParameter
from holdtrue.testing import SeededBits, drawing_from
from laws import LEVEL, chi_square_of_counts


def test_a_row_moves_the_largest_count_by_one_at_most():
    for counts in itertools.product(range(5), repeat=3):
        for source, sink in itertools.permutations(range(3), 2):
            moved = np.array(counts)
            moved[source] -= 1
            moved[sink] += 1
            assert abs(max(counts) - moved.max()) <= 1


def test_screen_is_gaussian_of_one_over_sigma():
    assert Screen(200, sigma=150).event.mu * 150 == 1
    assert Screen(600, sigma=450, points=3).event == Screen(200, sigma=150).event


def test_screen_draws_its_law(bits):
    screen = drawing_from(Screen(12.5, sigma=2), bits)
    clear = int(screen.release(np.tile([11, 4], (40_000, 1))).sum())
    p = special.ndtr((11 - 12.5) / 2)
    assert chi_square_of_counts([clear, 40_000 - clear], [p, 1 - p]) > LEVEL
    off = special.ndtr((11 - 12.5) / 1.8)
    assert chi_square_of_counts([clear, 40_000 - clear], [off, 1 - off]) < LEVEL


def test_screen_is_as_private_as_it_says():
    screen = Screen(10, sigma=3)
    for largest in range(25):
        p, q = (special.ndtr((count - 10) / 3) for count in (largest, largest + 1))
        for epsilon in (0.0, 0.1, 0.5):
            excess = max(q - math.exp(epsilon) * p, (1 - p) - math.exp(epsilon) * (1 - q))
            assert excess <= screen.delta(epsilon) + 1e-15


class Account:
    def __init__(self, most=None):
        self.charged = []
        self.filter = most
        self.spent = 0

    def __call__(self, event):
        if self.filter is not None:
            self.spent = self.filter.charged(self.spent, event=event)
        self.charged.append(event)


def test_screened_charges_the_screen_always_and_the_answer_only_when_clear():
    rule = Screened(Screen(50, sigma=1), NoisyMax(1))
    account = Account()
    assert rule.release([100, 0], charge=account) == 0
    assert account.charged == [rule.screen.event, rule.response.event]
    assert rule.release([10, 9], charge=account) is None
    assert account.charged == [rule.screen.event, rule.response.event, rule.screen.event]
    assert rule.event == events.Composed((rule.screen.event, rule.response.event))


def test_screened_draws_nothing_that_the_budget_does_not_hold():
    rule = Screened(Screen(50, sigma=1), NoisyMax(1))
    account = Account(GaussianFilter.of(1.5))
    with pytest.raises(BudgetExceeded):
        rule.release([100, 0], charge=account)
    assert account.charged == [rule.screen.event]

    class Untouched:
        event = rule.screen.event

        def release(self, _):
            raise AssertionError

    with pytest.raises(BudgetExceeded):
        Screened(Untouched(), NoisyMax(1)).release([100, 0], charge=Account(GaussianFilter.of(0.5)))


def test_screened_from_seeded_bits_promises_nothing():
    seeded = Screened(drawing_from(Screen(50, sigma=1), SeededBits("any")), NoisyMax(1))
    assert isinstance(seeded.event.events[0], events.NonPrivate)


def test_patience_charges_a_run_once_and_the_next_after_an_unclear_vote():
    rule = Patience(150, members=200, epsilon=2.0, response=SoftMajority(1.0))
    account = Account()
    clear, unclear = [200, 0], [101, 99]
    assert [rule.release(clear, charge=account) for _ in range(5)] == [0] * 5
    run, answer = rule.noise.event, rule.response.event
    assert account.charged == [run, *[answer] * 5]
    assert rule.release(unclear, charge=account) is None
    assert account.charged == [run, *[answer] * 5]
    assert rule.release(clear, charge=account) == 0
    assert account.charged == [run, *[answer] * 5, run, answer]


def test_patience_stops_where_the_law_of_above_threshold_says(bits):
    """Dissent 30 against a threshold of 51: found above with the probability that two discrete Laplace laws give."""
    rule = Patience(150, members=200, epsilon=0.2, response=SoftMajority(1.0))
    rule.noise = drawing_from(rule.noise, bits)
    z = np.arange(-2000, 2001)
    scales = (float(rule.noise.value_scale), float(rule.noise.threshold_scale))
    difference = np.convolve(*(np.exp(-np.abs(z) / s) * math.tanh(1 / (2 * s)) for s in scales))
    p = difference[np.arange(-4000, 4001) >= 51 - 30].sum()
    unclear = 0
    for _ in range(2500):
        rule._watch = None
        unclear += rule.release([170, 30], charge=lambda _: None) is None
    assert chi_square_of_counts([unclear, 2500 - unclear], [p, 1 - p]) > LEVEL
    assert chi_square_of_counts([unclear, 2500 - unclear], [1.45 * p, 1 - 1.45 * p]) < LEVEL


@pytest.mark.parametrize(
    "call",
    [lambda: Screen(0, sigma=1), lambda: Screen(1, sigma=2**35), lambda: Screen(1, sigma=1).release([3])],
)
def test_wrong_arguments_are_refused(call):
    with pytest.raises(InvalidParameter):
        call()

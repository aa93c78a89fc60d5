"""Whether a vote is clear: the law of the screen, and what it costs (T2b)."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from holdtrue.ensembles.responding import Screen
from holdtrue.errors import InvalidParameter
from holdtrue.testing import drawing_from
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


@pytest.mark.parametrize(
    "call",
    [lambda: Screen(0, sigma=1), lambda: Screen(1, sigma=2**35), lambda: Screen(1, sigma=1).release([3])],
)
def test_wrong_arguments_are_refused(call):
    with pytest.raises(InvalidParameter):
        call()

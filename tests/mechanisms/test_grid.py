"""P1: every released statistic is an integer over rows * 2^bits, and the precision attack finds nothing."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht
from holdtrue.testing import drawing_from
from laws import generator

ROWS, BITS = 1000, 10
GRID = ROWS << BITS
MILLION = 10**6


@pytest.mark.parametrize(
    "mechanism",
    [
        ht.Laplace(epsilon=1.0, sensitivity=1 << BITS),
        ht.Gaussian(mu=0.5, sensitivity=1 << BITS),
        ht.Laplace(epsilon=math.pi, sensitivity=7),
    ],
    ids=repr,
)
def test_no_released_value_is_off_the_grid_in_a_million(mechanism, bits):
    sums = np.arange(MILLION) % (GRID + 1)
    released = drawing_from(mechanism, bits).release(sums)
    assert released.dtype == np.int64
    statistics = released / GRID
    # A double holds these quotients to far better than a grid step: rounding gives the integer back.
    assert np.array_equal(np.rint(statistics * GRID).astype(np.int64), released)
    assert all(Fraction(int(value), GRID).denominator <= GRID for value in released[:1000])
    assert isinstance(drawing_from(mechanism, bits).release(5), int)


def attack(release):
    """Count, for inputs 0 and 1, the releases near zero that are no multiple of 2^-53 (after Mironov 2012).

    A float near 1 has steps of 2^-53, so 1 + noise that lands near 0 is a multiple of it; 0 + noise need not be.
    """
    found = []
    for value in (0, 1):
        outputs = np.asarray(release(value, MILLION), dtype=float)
        near = outputs[np.abs(outputs) < 0.5]
        found.append(int((near * 2.0**53 % 1 != 0).sum()))
    return found


def is_caught(found, epsilon):
    """Whether the two counts contradict epsilon-DP with an error of one in a billion (Clopper-Pearson)."""
    high, low = max(found), min(found)
    lower = stats.beta.ppf(5e-10, high, MILLION - high + 1) if high else 0.0
    upper = stats.beta.ppf(1 - 5e-10, low + 1, MILLION - low)
    return bool(lower > math.exp(epsilon) * upper)


def test_precision_attack_finds_nothing_in_ours_and_catches_numpy(bits, request):
    epsilon = 1.0
    mechanism = drawing_from(ht.Laplace(epsilon=epsilon, sensitivity=GRID), bits)

    def ours(value, count):
        return mechanism.release(np.full(count, value * GRID)) / GRID

    random = generator(request)

    def planted(value, count):
        return value + random.laplace(scale=1 / epsilon, size=count)

    assert not is_caught(attack(ours), epsilon)
    assert is_caught(attack(planted), epsilon)


def test_values_beyond_64_bits_are_released_exactly(bits):
    mechanism = drawing_from(ht.Laplace(epsilon=1.0), bits)
    huge = 10**30
    assert abs(mechanism.release(huge) - huge) < 200
    released = mechanism.release([huge, -huge, 0])
    assert released.dtype == object
    assert abs(int(released[0]) - huge) < 200
    edges = mechanism.release(np.array([2**63 - 1, -(2**63)]))
    assert abs(int(edges[0]) - (2**63 - 1)) < 200
    assert abs(int(edges[1]) + 2**63) < 200


def test_shape_is_kept_and_empty_is_allowed(bits):
    mechanism = drawing_from(ht.Gaussian(sigma=3), bits)
    assert mechanism.release(np.zeros((3, 4), dtype=np.int32)).shape == (3, 4)
    assert mechanism.release(np.zeros(0, dtype=np.int64)).shape == (0,)
    assert mechanism.release([]).shape == (0,)

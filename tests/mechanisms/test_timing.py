"""P9: the time of a single draw says nothing about the size of its noise."""

import sys
import time

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht

DRAWS = 160_000
COUNT = 10**12


def correlation(release):
    """Return the rank correlation between the time of a release of a large count and the size of its noise.

    Who sees the release and knows the noise knows the count; so it is the noise behind a release that time must not tell.
    """
    clock = time.perf_counter_ns
    times = np.empty(DRAWS, dtype=np.int64)
    sizes = np.empty(DRAWS, dtype=np.int64)
    for i in range(DRAWS):
        start = clock()
        value = release(COUNT)
        times[i] = clock() - start
        sizes[i] = abs(value - COUNT)
    return abs(float(stats.spearmanr(times, sizes).statistic))


@pytest.mark.parametrize("mechanism", [ht.Laplace(epsilon=0.01), ht.Gaussian(sigma=100)], ids=repr)
def test_draw_time_is_not_correlated_with_noise(mechanism):
    """Of 40,000 draws and more. Under independence the statistic has deviation 1/400, so 0.02 is eight of them."""
    assert correlation(mechanism.release) < 0.02


def test_pooled_noise_has_one_size_in_memory():
    """What Python allocates does not depend on the value: small integers, which it keeps ready, are never in the list."""
    mechanism = ht.Gaussian(sigma=2)
    mechanism.release(0)
    assert {sys.getsizeof(value) for value in mechanism._buffer._values} == {sys.getsizeof(2**61)}
    assert sys.getsizeof(3) != sys.getsizeof(2**61)


def test_a_sampler_that_counts_up_to_its_noise_is_caught():
    mechanism = ht.Laplace(epsilon=0.01)

    def planted(count):
        value = mechanism.release(count)
        for _ in range(abs(value - count)):
            pass
        return value

    assert correlation(planted) > 0.2

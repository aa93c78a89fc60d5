"""P9: the time of a single draw says nothing about the size of its noise."""

import time

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht

DRAWS = 160_000


def correlation(draw):
    """Return the rank correlation between the time of a draw and its absolute value."""
    clock = time.perf_counter_ns
    times = np.empty(DRAWS, dtype=np.int64)
    sizes = np.empty(DRAWS, dtype=np.int64)
    for i in range(DRAWS):
        start = clock()
        value = draw()
        times[i] = clock() - start
        sizes[i] = abs(value)
    return abs(float(stats.spearmanr(times, sizes).statistic))


@pytest.mark.parametrize("mechanism", [ht.Laplace(epsilon=0.01), ht.Gaussian(sigma=100)], ids=repr)
def test_draw_time_is_not_correlated_with_noise(mechanism):
    """Of 40,000 draws and more. Under independence the statistic has deviation 1/400, so 0.02 is eight of them."""
    assert correlation(lambda: mechanism.release(0)) < 0.02


def test_a_sampler_that_counts_up_to_its_noise_is_caught():
    mechanism = ht.Laplace(epsilon=0.01)

    def planted():
        value = mechanism.release(0)
        for _ in range(abs(value)):
            pass
        return value

    assert correlation(planted) > 0.2

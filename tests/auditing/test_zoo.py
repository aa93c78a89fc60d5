"""The mechanisms of the zoo are those of their definitions: their outputs have the laws that the papers write down."""

import math

import numpy as np
import pytest

from holdtrue.auditing.catalogue.mechanism import draw_exponential, draw_laplace, draw_uniform
from holdtrue.auditing.catalogue.zoo import ZOO, float_laplace, make_pair, noisy_max, svt_law
from holdtrue.testing import SeededBits

DRAWS = 40_000
NAMED = {mechanism.name: mechanism for mechanism in ZOO}


def near(share, chance, number=DRAWS):
    return abs(share - chance) <= 6 * math.sqrt(chance * (1 - chance) / number) + 1e-9


def run(name, side="left"):
    """Return many outputs of a mechanism on one side of its pair, from bits that its name seeds."""
    mechanism = NAMED[name].drawing_from(SeededBits(f"{name} {side}"))
    return np.asarray(mechanism.run(getattr(mechanism, side), DRAWS))


def laplace_above(x, scale):
    return math.exp(-x / scale) / 2 if x >= 0 else 1 - math.exp(x / scale) / 2


# Noise on the grid


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_laplace_noise_has_its_tails(scale, bits):
    noise = draw_laplace(scale, DRAWS, bits)
    for x in (-2 * scale, -scale / 2, scale / 2, 3 * scale):
        assert near((noise > x).mean(), laplace_above(x, scale))


def test_exponential_noise_has_its_tail_and_is_never_negative(bits):
    noise = draw_exponential(3.0, DRAWS, bits)
    assert noise.min() >= 0
    for x in (0.5, 3.0, 9.0):
        assert near((noise > x).mean(), math.exp(-x / 3))


def test_uniform_numbers_are_in_the_unit_interval_on_a_grid_of_53_bits(bits):
    found = draw_uniform((DRAWS, 2), bits)
    assert found.shape == (DRAWS, 2)
    assert found.min() >= 0
    assert found.max() < 1
    assert np.array_equal(found * 2.0**53, np.round(found * 2.0**53))
    assert near((found < 0.3).mean(), 0.3, found.size)


def test_noise_lies_on_the_grid_whatever_its_scale(bits):
    for noise in (draw_laplace(0.3, 1000, bits), draw_exponential(0.3, 1000, bits)):
        assert np.array_equal(noise * 2**20, np.round(noise * 2**20))


# Mechanisms


def test_laplace_is_centred_on_its_data():
    for side, data in (("left", 1.0), ("right", 0.0)):
        outputs = run("Laplace", side)
        assert outputs.shape == (DRAWS, 1)
        assert near((outputs > data).mean(), 0.5)
        assert near((outputs > data + 10).mean(), laplace_above(10, 10))


def test_twenty_laplace_answers_are_of_one_number():
    outputs = run("LaplaceParallel")
    assert outputs.shape == (DRAWS, 20)
    assert near((outputs[:, 0] > 1).mean(), 0.5)
    assert abs(np.corrcoef(outputs[:, 0], outputs[:, 1])[0, 1]) < 0.05


@pytest.mark.parametrize(("name", "scale"), [("NoisyHist1", 10.0), ("NoisyHist2", 0.1)])
def test_histograms_have_a_number_for_each_bin(name, scale):
    outputs = run(name)
    assert outputs.shape == (DRAWS, 5)
    for column in range(5):
        assert near((outputs[:, column] > 1 + scale).mean(), laplace_above(scale, scale))


def test_prefix_sums_add_up_the_noisy_values():
    outputs = run("PrefixSum")
    steps = np.diff(outputs, axis=1)
    assert outputs.shape == (DRAWS, 10)
    assert near((steps[:, 3] > 1).mean(), 0.5)
    assert near((steps[:, 3] > 11).mean(), laplace_above(10, 10))


def test_the_truncated_geometric_has_six_outcomes():
    outputs = run("TruncatedGeometric")
    assert set(outputs.tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}
    weight = [(8 / 9) ** abs(step) / 17 for step in range(-60, 61)]
    chances = dict.fromkeys(range(6), 0.0)
    for step, chance in zip(range(-60, 61), weight, strict=True):
        chances[min(5, max(0, 2 + step))] += chance
    for value, chance in chances.items():
        assert near((outputs == value).mean(), chance + (value == 5) * (1 - sum(weight)))


def test_noisy_max_says_whose_value_is_largest(bits):
    data = np.array([0.0, 0.0, 500.0])
    assert set(noisy_max(data, 200, bits, one_sided=False, value=False).tolist()) == {2.0}
    even = noisy_max(np.zeros(4), DRAWS, bits, one_sided=True, value=False)
    for place in range(4):
        assert near((even == place).mean(), 0.25)


def test_noisy_max_may_release_the_value_itself(bits):
    found = noisy_max(np.full(5, 2.0), DRAWS, bits, one_sided=True, value=True, scale=3)
    assert found.min() >= 2.0
    assert near((found < 5).mean(), (1 - math.exp(-1)) ** 5)


def test_above_threshold_answers_one_by_one_and_stops_after_the_first_above(bits):
    outputs = svt_law(1, 1, 1)(np.array([-1000.0, 1000.0, 1000.0]), 500, bits)
    assert np.array_equal(outputs, np.tile([0.0, 1.0, -1.0], (500, 1)))


def test_above_threshold_that_never_stops_answers_all(bits):
    outputs = svt_law(1, 1, None)(np.array([1000.0, -1000.0, 1000.0]), 500, bits)
    assert np.array_equal(outputs, np.tile([1.0, 0.0, 1.0], (500, 1)))


def test_above_threshold_may_go_on_to_a_second_above(bits):
    outputs = svt_law(1, 1, 2)(np.array([1000.0, 1000.0, 1000.0]), 500, bits)
    assert np.array_equal(outputs, np.tile([1.0, 1.0, -1.0], (500, 1)))


def test_above_threshold_without_noise_on_values_compares_them_with_one_threshold(bits):
    outputs = svt_law(2, 0, None)(np.array([1.0, 1.0]), DRAWS, bits)
    assert (outputs[:, 0] == outputs[:, 1]).all()
    assert near(outputs[:, 0].mean(), 0.5)


def test_above_threshold_compares_with_the_threshold_that_is_given(bits):
    far = svt_law(1, 0, None, threshold=100)(np.array([50.0]), 300, bits)
    assert not far.any()


def test_the_value_that_was_compared_may_be_released(bits):
    outputs = svt_law(1, 1, 1, release="value")(np.array([-1000.0, 1000.0, 0.0]), 500, bits)
    assert np.isnan(outputs[:, 0]).all()
    assert (np.abs(outputs[:, 1] - 1000) < 60).all()
    assert np.isneginf(outputs[:, 2]).all()


def test_a_fresh_value_may_be_released_in_its_place(bits):
    outputs = svt_law(1, 1, None, release="fresh")(np.array([-1000.0, 1000.0]), DRAWS, bits)
    assert not outputs[:, 0].any()
    assert near((outputs[:, 1] > 1060).mean(), laplace_above(60, 60))


def test_two_variants_in_parallel_are_side_by_side():
    outputs = run("SVT34Parallel")
    assert outputs.shape == (DRAWS, 20)
    assert np.isin(outputs[:, 10:], [-1.0, 0.0, 1.0]).all()


@pytest.mark.parametrize(("name", "on", "off"), [("Rappor", 0.5125, 0.4875), ("OneTimeRappor", 0.525, 0.475)])
def test_rappor_sets_the_bits_of_its_value_more_often(name, on, off):
    left, right = run(name), run(name, "right")
    assert left.shape == (DRAWS, 20)
    for place in range(20):
        assert near(left[:, place].mean(), on if place in (3, 10, 13) else off)
        assert near(right[:, place].mean(), on if place in (0, 11, 18) else off)


def test_float_laplace_is_laplace_noise_in_floats(bits):
    outputs = float_laplace(1.0, DRAWS, bits, scale=2.0)
    for x in (-1.0, 0.5, 3.0):
        assert near((outputs > 1 + x).mean(), laplace_above(x, 2))


def test_snapped_laplace_lies_on_its_grid_within_its_bounds():
    outputs = run("SnappedLaplace")
    assert np.array_equal(outputs, np.clip(np.round(outputs / 4) * 4, -100, 100))
    assert np.abs(outputs).max() <= 100
    assert np.unique(outputs).size <= 15


def test_pairs_are_the_published_ones():
    assert [x.tolist() for x in make_pair(1, 3)] == [[1, 1, 1], [0, 1, 1]]
    assert [x.tolist() for x in make_pair(2, 3)] == [[1, 1, 1], [2, 1, 1]]
    assert [x.tolist() for x in make_pair(3, 3)] == [[1, 1, 1], [2, 0, 0]]
    assert [x.tolist() for x in make_pair(4, 3)] == [[1, 1, 1], [0, 2, 2]]
    assert [x.tolist() for x in make_pair(6, 3)] == [[1, 1, 1], [2, 2, 2]]
    assert [x.tolist() for x in make_pair(7, 3)] == [[1, 1, 1], [0, 0, 0]]
    assert [x.tolist() for x in make_pair(8, 4)] == [[1, 1, 0, 0], [0, 0, 1, 1]]


def test_what_is_unsound_says_why_and_what_is_sound_does_not():
    for mechanism in ZOO:
        known = mechanism.truth is not None
        assert mechanism.sound or mechanism.truth is None or mechanism.truth > mechanism.epsilon
        assert not (mechanism.sound and known and mechanism.truth > mechanism.epsilon + 1e-12)
        assert mechanism.group == "published zoo"

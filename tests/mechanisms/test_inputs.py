"""Bad input: every constructor and release names the parameter, shows the value and says what would do."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import holdtrue as ht

TAKES_EPSILON = [ht.Laplace, ht.Exponential, ht.PermuteAndFlip, ht.AboveThreshold]
TAKES_SENSITIVITY = {
    ht.Laplace: {"epsilon": 1},
    ht.Gaussian: {"sigma": 1},
    ht.Exponential: {"epsilon": 1},
    ht.PermuteAndFlip: {"epsilon": 1},
    ht.AboveThreshold: {"epsilon": 1},
}
BAD_NUMBERS = [
    0,
    -1,
    -0.5,
    math.nan,
    math.inf,
    -math.inf,
    True,
    False,
    "1",
    None,
    [1],
    1j,
    np.float64("nan"),
    np.bool_(True),
]


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize("mechanism", TAKES_EPSILON)
def test_epsilon_is_a_finite_number_above_zero(mechanism, value):
    with pytest.raises(ht.InvalidParameter, match=r"epsilon must be a finite number above 0") as caught:
        mechanism(epsilon=value)
    assert repr(value) in str(caught.value)
    assert caught.value.parameter == "epsilon"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize("mechanism", TAKES_SENSITIVITY)
def test_sensitivity_is_above_zero(mechanism, value):
    with pytest.raises(ht.InvalidParameter, match="sensitivity must be"):
        mechanism(**TAKES_SENSITIVITY[mechanism], sensitivity=value)


@pytest.mark.parametrize("name", ["sigma", "mu"])
@pytest.mark.parametrize("value", [v for v in BAD_NUMBERS if v is not None], ids=repr)
def test_gaussian_scales_are_finite_and_above_zero(name, value):
    with pytest.raises(ht.InvalidParameter, match=f"{name} must be a finite number above 0"):
        ht.Gaussian(**{name: value})


def test_gaussian_takes_one_of_sigma_and_mu():
    with pytest.raises(ht.InvalidParameter, match="sigma must be given, or mu instead"):
        ht.Gaussian()
    with pytest.raises(ht.InvalidParameter, match="mu must be left out when sigma is given"):
        ht.Gaussian(sigma=1, mu=1)


@pytest.mark.parametrize("sensitivity", [0.5, Fraction(1, 2), 1.0])
@pytest.mark.parametrize("mechanism", [ht.Laplace, ht.Gaussian, ht.AboveThreshold])
def test_whole_numbers_have_a_whole_sensitivity(mechanism, sensitivity):
    with pytest.raises(ht.InvalidParameter, match="sensitivity must be a whole number, 1 or above"):
        mechanism(**TAKES_SENSITIVITY[mechanism], sensitivity=sensitivity)


def test_scales_beyond_the_sampler_are_refused_with_the_limit():
    with pytest.raises(ht.InvalidParameter, match="at least sensitivity / 2\\^50"):
        ht.Laplace(epsilon=1e-16)
    with pytest.raises(ht.InvalidParameter, match="sigma <= 2\\^50"):
        ht.Gaussian(sigma=1e16)
    with pytest.raises(ht.InvalidParameter, match="at least sensitivity / 2\\^48"):
        ht.AboveThreshold(epsilon=1e-15)


@pytest.mark.parametrize(
    "values", [1.0, [1.0, 2.0], np.array([1.0]), [math.nan], ["1"], "12", True, [True, False], None, [[1], [2, 3]]]
)
@pytest.mark.parametrize("mechanism", [ht.Laplace(epsilon=1), ht.Gaussian(sigma=1)], ids=repr)
def test_counts_are_whole_numbers_by_type(mechanism, values):
    with pytest.raises(ht.InvalidParameter, match="values must be whole numbers"):
        mechanism.release(values)


@pytest.mark.parametrize("values", [[], np.zeros((3, 0), dtype=int), np.zeros((2, 2, 2), dtype=int), 5])
@pytest.mark.parametrize("mechanism", [ht.Exponential(epsilon=1), ht.PermuteAndFlip(epsilon=1)], ids=repr)
def test_candidates_are_a_row_of_scores_not_empty(mechanism, values):
    with pytest.raises(ht.InvalidParameter, match="not empty"):
        mechanism.release(values)


@pytest.mark.parametrize("values", [[1.5, 2], [math.nan, 1], [math.inf], ["a"], [True], np.array([0.5]), [None]])
@pytest.mark.parametrize("mechanism", [ht.Exponential(epsilon=1), ht.PermuteAndFlip(epsilon=1)], ids=repr)
def test_scores_are_whole_or_rational(mechanism, values):
    with pytest.raises(ht.InvalidParameter, match="values must be whole numbers"):
        mechanism.release(values)


@pytest.mark.parametrize("values", [[], 3, [[1]], [1.5], np.array([math.nan])])
def test_above_threshold_takes_one_row_of_counts(values):
    with pytest.raises(ht.InvalidParameter, match="values must be"):
        ht.AboveThreshold(epsilon=1).release(values)


@pytest.mark.parametrize("threshold", [0.5, math.nan, "1", True, None])
def test_threshold_is_a_whole_number(threshold):
    with pytest.raises(ht.InvalidParameter, match="threshold must be"):
        ht.AboveThreshold(epsilon=1, threshold=threshold)


@pytest.mark.parametrize("weights", [[], [0], [0, 0], [1, -1], [1, math.nan], [math.inf], ["1"], 5, [True], [2**-1023, 1]])
def test_weights_are_a_measure(weights):
    with pytest.raises(ht.InvalidParameter, match="weights must be"):
        ht.Exponential(epsilon=1, weights=weights)


def test_weights_and_scores_have_one_length():
    with pytest.raises(ht.InvalidParameter, match="3 scores, one per weight"):
        ht.Exponential(epsilon=1, weights=[1, 2, 3]).release([1, 2])
    with pytest.raises(ht.InvalidParameter, match="weight above 0"):
        ht.Exponential(epsilon=1, weights=[1, 0, 3]).release_top([1, 2, 3], 3)


def test_range_and_monotone_are_not_given_together():
    with pytest.raises(ht.InvalidParameter, match="monotone must be left out when range is given"):
        ht.Exponential(epsilon=1, range=1, monotone=True)
    assert ht.Exponential(epsilon=1, range=1).rate == ht.Exponential(epsilon=1, monotone=True).rate


@pytest.mark.parametrize(("name", "value"), [("epsilon", -1), ("epsilon", math.nan), ("epsilon", True)])
def test_curves_check_their_argument(name, value):
    with pytest.raises(ht.InvalidParameter, match=f"{name} must be"):
        ht.Laplace(epsilon=1).delta(value)


@pytest.mark.parametrize("value", [-0.1, 1, 2, math.nan, True, "x"])
def test_delta_is_below_one(value):
    with pytest.raises(ht.InvalidParameter, match=r"delta must be a number in \[0, 1\)"):
        ht.Laplace(epsilon=1).epsilon(value)


MECHANISMS = [
    ht.Laplace(epsilon=0.1),
    ht.Gaussian(mu=0.1),
    ht.Exponential(epsilon=1, weights=[1, 2]),
    ht.AboveThreshold(epsilon=1),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_mechanisms_are_frozen_values(mechanism):
    again = type(mechanism).__new__(type(mechanism))
    again.__dict__.update(mechanism.__getstate__())
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    with pytest.raises(AttributeError):
        mechanism.sensitivity = 2


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])  # noqa: S301
def test_a_copied_mechanism_serves_none_of_the_original_noise(duplicate):
    """P11: what the pool holds belongs to one object in one process."""
    mechanism = ht.Gaussian(sigma=2**50)
    mechanism.release(0)
    twin = duplicate(mechanism)
    assert twin == mechanism
    ours, theirs = ([m.release(0) for _ in range(1500)] for m in (mechanism, twin))
    assert set(ours).isdisjoint(theirs)


def test_a_buffer_cannot_be_pickled():
    mechanism = ht.Laplace(epsilon=1)
    mechanism.release(0)
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(mechanism._buffer)

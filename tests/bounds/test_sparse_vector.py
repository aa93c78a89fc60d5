"""The reusable holdout: THEORY T10."""

import math

import pytest

from holdtrue.bounds.sparse_vector import thresholdout, thresholdout_alpha
from holdtrue.bounds.transfer import concentrated_shift, shift
from holdtrue.errors import InvalidParameter


def test_t10_numbers():
    assert thresholdout_alpha(10**4, queries=10**6, overfits=10, beta=0.05).alpha == pytest.approx(0.353, abs=1e-3)
    assert thresholdout_alpha(10**4, queries=10**3, overfits=10, beta=0.05).alpha == pytest.approx(0.293, abs=1e-3)
    assert thresholdout_alpha(10**5, queries=10**6, overfits=100, beta=0.05).alpha == pytest.approx(0.204, abs=1e-3)


def test_t10_formula():
    rows, queries, overfits, s = 20_000, 500, 7, 0.001
    each = 1 / (rows * s)
    found = thresholdout(rows, queries=queries, overfits=overfits, scale=s, noise_beta=0.02, beta=0.03)
    noise = s * (4 * (math.log(507 / 0.02) + 1) + 2 * (math.log(8 / 0.02) + 1))
    assert found.epsilon == pytest.approx(14 * each)
    assert found.rho == pytest.approx(14 * each * math.tanh(each / 2))
    assert found.alpha <= noise + min(shift(found.epsilon), concentrated_shift(found.rho, beta=0.03).gamma) + 1e-9
    # Each run and each release is charged as any pure event: never less than the continuous law's cost.
    assert found.rho >= overfits * (each * math.tanh(each / 2) + each + math.expm1(-each))


@pytest.mark.parametrize("wrong", [{"overfits": 0}, {"scale": 0}, {"queries": 0}, {"noise_beta": 1}])
def test_t10_bad_numbers_are_refused(wrong):
    given = {"queries": 5, "overfits": 1, "scale": 0.1, "noise_beta": 0.1, "beta": 0.1} | wrong
    with pytest.raises(InvalidParameter):
        thresholdout(10, **given)

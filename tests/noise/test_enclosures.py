"""Enclosures hold the true value, in higher precision, and narrow with more bits."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdtrue.errors import InvalidParameter
from holdtrue.noise.enclosures import exponential, logarithm, normal_quantile, normal_tail

TRUTH = {
    exponential: lambda x: mpmath.exp(-x),
    logarithm: mpmath.log,
    normal_tail: lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2,
}
FRACTIONS = st.one_of(
    st.fractions(min_value=Fraction(1, 10**12), max_value=12, max_denominator=10**12),
    st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(1, 10**6)),
    st.floats(min_value=2.0**-40, max_value=30).map(Fraction),
)


@pytest.mark.parametrize("function", TRUTH, ids=lambda f: f.__name__)
def test_enclosures_hold_the_true_value(function):
    @settings(max_examples=300, deadline=None)
    @given(FRACTIONS, st.sampled_from([64, 96, 160, 300]))
    def check(x, bits):
        low, high = function(x, bits)
        with mpmath.workprec(2600):
            truth = TRUTH[function](mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
            assert low <= truth <= high
        assert high - low <= 2

    check()


def test_logarithm_of_very_large_and_small_numbers():
    for x in (Fraction(10**200), Fraction(1, 10**200), Fraction(2**64 - 1, 2**64), 1 + Fraction(1, 2**100)):
        low, high = logarithm(x, 128)
        with mpmath.workprec(1200):
            assert low <= mpmath.log(mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** 128 <= high


def test_ends_of_the_range():
    assert exponential(Fraction(0), 64) == (1 << 64, 1 << 64)
    assert exponential(Fraction(10**9), 64) == (0, 1)
    assert logarithm(Fraction(1), 64) == (0, 0)
    assert normal_tail(Fraction(0), 64) == (1 << 63, 1 << 63)
    with pytest.raises(InvalidParameter, match="x must be 0 or above"):
        normal_tail(Fraction(-1), 64)


@pytest.mark.parametrize("p", [Fraction(49, 100), Fraction(1, 40), Fraction(1, 10**6)])
def test_normal_quantile_is_the_nearest_float(p):
    from statistics import NormalDist

    x = normal_quantile(p, -NormalDist().inv_cdf(float(p)))
    with mpmath.workdps(40):
        truth = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(p.numerator) / p.denominator)
        assert abs(truth - x) <= mpmath.mpf(2) ** -52 * abs(truth)

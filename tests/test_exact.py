"""Range checks, exact rationals and outward rounding."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue import exact
from holdtrue.errors import InvalidParameter


@pytest.mark.parametrize("value", [1, 0.1, Fraction(1, 3), Decimal("0.1"), np.int32(4), np.float32(0.1), np.uint8(7)])
def test_rational_is_exact(value):
    assert exact.rational("x", value) == Fraction(value if not isinstance(value, np.generic) else value.item())


@pytest.mark.parametrize("value", [True, np.bool_(False), math.nan, math.inf, "1", None, 1j, Decimal("NaN"), [1]])
def test_what_is_not_a_finite_number_is_refused(value):
    with pytest.raises(InvalidParameter, match="x must be a finite number"):
        exact.rational("x", value)


def test_booleans_are_told_why():
    with pytest.raises(InvalidParameter, match="True and False are not numbers"):
        exact.positive("x", value=True)
    with pytest.raises(InvalidParameter, match="True and False are not numbers"):
        exact.count("x", value=True)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (exact.positive, [1e-300, 5], [0, -1]),
        (exact.nonnegative, [0, 5], [-1e-9]),
        (exact.probability, [0.5], [0, 1, -1, 2]),
        (exact.count, [1, 10**30, np.int64(3)], [0, 1.0, -1, "1"]),
    ],
)
def test_ranges(check, good, bad):
    for value in good:
        assert check("x", value) == value
    for value in bad:
        with pytest.raises(InvalidParameter, match=r"x must be .*; got"):
            check("x", value)


def test_probability_ends_belong_where_said():
    assert exact.probability("p", 0, zero=True) == 0
    assert exact.probability("p", 1, one=True) == 1
    with pytest.raises(InvalidParameter, match=r"p must be a number in \[0, 1\); got 1"):
        exact.probability("p", 1, zero=True)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], np.int64),
        (np.array([1], dtype=np.int8), np.int64),
        (np.array([1], dtype=np.uint64), object),
        ([10**30, 1], object),
        (7, np.int64),
        ([], object),
        ((1, 2), np.int64),
    ],
)
def test_integers_keep_every_bit(values, dtype):
    array = exact.integers("v", values)
    assert array.dtype == dtype
    assert array.tolist() == (
        values.tolist() if isinstance(values, np.ndarray) else list(values) if not isinstance(values, int) else values
    )


@pytest.mark.parametrize(
    "values", [1.0, [1.0], [1, 2.5], np.array([1.0]), [True], "12", b"1", {1}, None, np.array([True]), [[1, True]]]
)
def test_integers_are_told_by_type(values):
    with pytest.raises(InvalidParameter, match="v must be whole numbers"):
        exact.integers("v", values)


def test_a_message_does_not_show_counts():
    """P8: what was passed may be private: its kind is shown, not its contents."""
    with pytest.raises(InvalidParameter) as caught:
        exact.integers("v", np.array([123.456]))
    assert "123" not in str(caught.value)
    with pytest.raises(InvalidParameter) as caught:
        exact.integers("v", [123.456, 7])
    assert str(caught.value).endswith("got a list of 2 holding float, int")
    with pytest.raises(InvalidParameter) as caught:
        exact.integers("v", 123.456)
    assert str(caught.value).endswith("got a float")


def test_rationals_hold_one_or_many():
    assert exact.rationals("s", Fraction(1, 3)).at(5) == Fraction(1, 3)
    many = exact.rationals("s", [1, Fraction(1, 3)])
    assert (many.at(0), many.at(1)) == (1, Fraction(1, 3))
    floats = exact.rationals("s", np.array([0.1, 2.0]))
    assert floats.at(0) == Fraction(0.1)
    for bad in ([0], [1, -1], np.array([math.nan]), np.array([0.0]), 0, "1", [1, "2"], math.inf):
        with pytest.raises(InvalidParameter, match="s must be finite and above 0"):
            exact.rationals("s", bad)
    with pytest.raises(InvalidParameter, match="at most 10"):
        exact.rationals("s", [11], most=10)


@given(st.fractions())
def test_rounding_goes_outwards_by_less_than_one_unit(value):
    up, down = exact.round_up(value), exact.round_down(value)
    assert Fraction(down) <= value <= Fraction(up)
    assert up == down or math.nextafter(down, math.inf) == up


def test_rounding_past_the_largest_float():
    assert exact.round_up(Fraction(10) ** 400) == math.inf
    assert exact.round_down(Fraction(10) ** 400) == exact.sys.float_info.max
    assert str(exact.round_down(Fraction(0))) == "0.0"  # -0 would be shown as such
    assert exact.round_up(-(Fraction(10) ** 400)) == -exact.sys.float_info.max


@given(st.fractions(min_value=0, max_value=1000))
def test_costs_round_up_and_budgets_down(value):
    assert exact.units_down(value) * exact.UNIT <= value <= exact.units_up(value) * exact.UNIT
    assert exact.units_up(value) - exact.units_down(value) <= 1

"""The float quantiles keep their proven error bounds: measured in higher precision, in every cell."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from holdtrue.noise import quantiles
from holdtrue.testing import SeededBits


def _words(u):
    return np.array([int(value) << 1 for value in u], dtype=np.uint64)


def _edges(cell_bits):
    """Uniforms at both ends and in the middle of every cell of a table, and the largest ones."""
    width = 1 << cell_bits
    for exponent in range(46, 63):
        for cell in range(width):
            start = (width + cell) << (exponent - cell_bits)
            stop = (width + cell + 1) << (exponent - cell_bits)
            yield from (start, (start + stop) // 2, stop - 1)
    yield from (2**63 - 1, 2**63 - 511, 2**63 - 513, 2**63 - 1024)


def test_exponentials_are_within_their_error_in_every_cell():
    uniforms = list(_edges(9)) + [int(w) >> 1 for w in SeededBits("exponentials").words(20_000)]
    uniforms = [u for u in uniforms if u >= 2**46]
    values, tail = quantiles.exponentials(_words(uniforms))
    assert tail.size == 0
    with mpmath.workdps(35):
        for u, value in zip(uniforms, values.tolist(), strict=True):
            # Whatever the unseen bits are: both ends of what the word leaves possible.
            for unseen in (0, 1):
                assert abs(value + mpmath.log(mpmath.mpf(u + unseen) / 2**63)) <= quantiles.ERROR


def test_normals_are_within_their_error_in_every_cell():
    uniforms = list(_edges(7)) + [int(w) >> 1 for w in SeededBits("normals").words(5_000)]
    uniforms = [u for u in uniforms if u >= 2**46]
    values, tail = quantiles.normals(_words(uniforms))
    assert tail.size == 0
    with mpmath.workdps(35):
        root = mpmath.sqrt(2)
        for u, value in zip(uniforms, values.tolist(), strict=True):
            # |v - v(U)| <= ERROR says that U lies between the tails at v + ERROR and at v - ERROR.
            assert mpmath.erfc((value + mpmath.mpf(quantiles.ERROR)) / root) <= mpmath.mpf(u) / 2**63
            assert mpmath.mpf(u + 1) / 2**63 <= mpmath.erfc((value - mpmath.mpf(quantiles.ERROR)) / root)


def test_logarithms_are_within_their_error():
    x = np.maximum(np.exp(np.linspace(np.log(quantiles.SMALLEST), np.log(63.9), 20_000)), quantiles.SMALLEST)
    with mpmath.workdps(35):
        for argument, value in zip(x.tolist(), quantiles.logarithms(x).tolist(), strict=True):
            assert abs(value - mpmath.log(mpmath.mpf(argument))) <= mpmath.mpf(2) ** -46


def test_taylor_remainder_constant_of_the_normal_quantile():
    """K = max P6(v) (U / phi(v))^6 / 6! < 0.075, with P6 = 120 v^5 + 326 v^3 + 127 v (docstring of ERROR)."""
    v = np.linspace(0, 4.7, 100_001)
    from scipy.special import ndtr

    mills = ndtr(-v) / (np.exp(-v * v / 2) / np.sqrt(2 * np.pi))
    assert ((120 * v**5 + 326 * v**3 + 127 * v) * mills**6 / 720).max() < 0.075


@pytest.mark.parametrize("quantile", [quantiles.exponentials, quantiles.normals])
def test_the_tail_is_where_a_cell_is_too_wide_for_floats(quantile):
    values, tail = quantile(_words([0, 1, 2**46 - 1, 2**46, 2**62]))
    assert tail.tolist() == [0, 1, 2]
    assert np.isfinite(values).all()


def test_quantiles_use_no_transcendental_function_outside_their_tables():
    """The proof covers +, -, *, / and look-ups only; a call to np.log in a quantile would escape it."""
    import inspect

    for quantile in (quantiles.exponentials, quantiles.normals, quantiles.logarithms, quantiles._log_within_cell):
        source = inspect.getsource(quantile)
        assert not any(f"np.{name}(" in source for name in ("log", "exp", "sqrt", "power", "log1p", "expm1"))


def test_normal_table_holds_quantiles_to_half_a_unit():
    table = quantiles._normal_cells()
    with mpmath.workdps(40):
        for number in range(0, table.shape[1], 7):
            exponent, cell = divmod(46 * 128 + number, 128)
            middle = Fraction(2 * (128 + cell) + 1, 256) * Fraction(2) ** (exponent - 64)
            value = mpmath.mpf(float(table[0, number]))
            tail = mpmath.erfc(value / mpmath.sqrt(2)) / 2
            density = mpmath.exp(-value * value / 2) / mpmath.sqrt(2 * mpmath.pi)
            assert abs(tail - mpmath.mpf(middle.numerator) / middle.denominator) / density <= mpmath.mpf(2) ** -51


def test_the_file_of_normal_points_is_what_the_enclosures_give():
    assert quantiles.NORMAL_POINTS.read_bytes() == quantiles.find_normal_points().astype("<f8").tobytes()

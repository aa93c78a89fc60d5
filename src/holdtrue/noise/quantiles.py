"""Quantile functions in floats, with proven error bounds.

Only operations that IEEE 754 rounds correctly are used (conversion, +, -, *, /) besides table look-ups, so that the
bounds below are theorems about this code on any processor, not measurements of a library's logarithm. The tables come from
:mod:`holdtrue.noise.enclosures`: logarithms are computed on first use, the longer table of normals is kept in a file.

A word of 64 bits gives a sign (its last bit) and the first 63 bits u of a uniform U = 0.u... in (0, 1). What a kernel
returns is within its error bound of the quantile at U *whatever the unseen bits of U are*, except where u < 2^46
(probability 2^-17): there a cell of U is too wide for floats, the position is returned among the ``tail``, and the
value is only a place to start looking.
"""

import math
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from holdtrue.entropy import Words
from holdtrue.noise.enclosures import logarithm, normal_quantile

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]

ERROR: Final = 1.5 * 2.0**-46
"""No float that :func:`exponentials` or :func:`normals` returns outside the tail is further from the truth than this.

Let x be u as a float, c the reference point of its cell, e = ln x - ln U. Unseen bits move ln U by ln(1 + 1/u) <= 2^-46
and the conversion by 2^-53, so |e| <= 2^-46 + 2^-52.

*Exponentials*, below 12.5: the table entry is off by 2^-50 (half a unit in the last place below 16), the final
subtraction by 2^-50. s = (x - c) / (x + c) < 2^-10: the difference is exact, two roundings make a relative 2^-52 of a
term below 2^-9, and the terms of 2 atanh(s) left out are below 2^-51. In all below 1.2 * 2^-46.

*Normals*, below 4.6: dv = (U / phi(v)) dlnU and U / phi(v) <= sqrt(pi / 2) < 1.2534, so e moves v by less than
1.264 * 2^-46. The entry at c is off by 2^-51, the last addition by 2^-51, the other terms, below 2^-7, by less than
2^-57. Taylor's remainder is at most K 2^-48, K = max P6(v) (U / phi(v))^6 / 6! < 0.075, with P6 from the recurrence in
:func:`_normal_cells`: below 2^-51. In all below 1.35 * 2^-46.
"""

SMALLEST: Final = 2.0**-31
"""The smallest argument of :func:`logarithms`."""

_TAIL = 2.0**46
_MANTISSA = 52
_BIAS = 1023
_TABLE_BITS = 120


class Scratch:
    """Room for the arrays of one block, used again for the next: allocating them again would cost as much as the work."""

    __slots__ = ("cells", "spare", "step", "values", "x")

    def __init__(self, size: int) -> None:
        self.x = np.empty(size)
        self.spare = np.empty(size)
        self.step = np.empty(size)
        self.values = np.empty(size)
        self.cells = np.empty(size, dtype=np.int64)

    def shorten_to(self, size: int) -> "Scratch":
        """Return a view of the first ``size`` places."""
        if size == self.x.size:
            return self
        shorter = Scratch(0)
        for name in self.__slots__:
            setattr(shorter, name, getattr(self, name)[:size])
        return shorter


def _locate_cells(x: Floats, room: Scratch, cell_bits: int, first_exponent: int) -> None:
    """Write the number of each float's cell into the room: its exponent and the leading bits of its mantissa."""
    np.right_shift(x.view(np.int64), _MANTISSA - cell_bits, out=room.cells)
    room.cells -= (first_exponent + _BIAS) << cell_bits


_NOWHERE: Positions = np.empty(0, dtype=np.intp)


def _write_uniforms(words: Words, room: Scratch) -> Positions:
    """Write u as a float for each word into the room, and return where it lies in the tail."""
    np.right_shift(words, np.uint64(1), out=room.spare.view(np.uint64))
    x = room.x
    x[...] = room.spare.view(np.int64)
    if not x.size or x.min() >= _TAIL:
        return _NOWHERE
    tail = np.flatnonzero(x < _TAIL)
    x[tail] = _TAIL  # any number that the arithmetic takes without a warning
    return tail


def _middle_of_cell(word: np.uint64) -> float:
    """Return U from a word, for a place to start looking."""
    return ((int(word) >> 1) + 0.5) * 2.0**-63


_LOG_CELLS = 9


@lru_cache(4)
def _logarithm_cells(first_exponent: int, last_exponent: int, power: int, sign: int) -> Floats:
    """Return sign * (ln c - power ln 2) rounded to the nearest float, for the left end c of every cell."""
    unit = 1 << _TABLE_BITS
    two = sum(logarithm(Fraction(2), _TABLE_BITS)) // 2
    mantissas = [sum(logarithm(1 + Fraction(cell, 1 << _LOG_CELLS), _TABLE_BITS)) // 2 for cell in range(1 << _LOG_CELLS)]
    exponents = range(first_exponent, last_exponent + 1)
    # True division of integers is correctly rounded.
    return np.array([sign * (value + (e - power) * two) / unit for e in exponents for value in mantissas])


def _log_within_cell(x: Floats, room: Scratch) -> Floats:
    """Return ln(x / c) = 2 atanh((x - c) / (x + c)) for c the left end of x's cell, 0 <= (x - c) / (x + c) < 2^-10."""
    c, s = room.spare, room.step
    np.bitwise_and(x.view(np.int64), -1 << (_MANTISSA - _LOG_CELLS), out=c.view(np.int64))
    np.subtract(x, c, out=s)
    c += x
    s /= c
    np.multiply(s, s, out=c)
    c *= 2.0 / 3.0
    c += 2.0
    s *= c
    return s


def exponentials(words: Words, room: Scratch | None = None) -> tuple[Floats, Positions]:
    """Return -ln U for each word to within :data:`ERROR`, and the positions of the tail, where it is not."""
    room = room or Scratch(words.size)
    tail = _write_uniforms(words, room)
    _locate_cells(room.x, room, _LOG_CELLS, 46)
    values: Floats = np.take(_logarithm_cells(46, 63, 63, -1), room.cells, mode="clip", out=room.values)
    values -= _log_within_cell(room.x, room)
    for position in tail.tolist():
        values[position] = -math.log(_middle_of_cell(words[position]))
    return values, tail


def logarithms(x: Floats) -> Floats:
    """Return ln x to within 2^-46 for x in [2^-31, 64): entries and sum are off by 2^-48 each, the series by 2^-50."""
    room = Scratch(x.size)
    _locate_cells(x, room, _LOG_CELLS, -31)
    values: Floats = np.take(_logarithm_cells(-31, 5, 0, 1), room.cells, mode="clip", out=room.values)
    values += _log_within_cell(x, room)
    return values


NORMAL_POINTS: Final = Path(__file__).with_name("normal_points.f8")
"""The values of :func:`find_normal_points`, as little-endian doubles."""

_NORMAL_CELLS = 7
_DEGREE = 5


@lru_cache(1)
def _normal_cells() -> Floats:
    """Return the Taylor coefficients of v(x) = Phi^-1(1 - x / 2^64) in the middle of every cell, one row a degree.

    With V = x / 2^64 the n-th derivative of v in V is (-1)^n P_n(v) / phi(v)^n, where P_1 = 1 and
    P_{n+1} = P_n' + n v P_n has coefficients >= 0. The values themselves are read from a file that holds what
    :func:`find_normal_points` returns, which takes a fifth of a second to compute.
    """
    return _taylor_rows(np.fromfile(NORMAL_POINTS, dtype="<f8").astype(np.float64, copy=False))


def find_normal_points() -> Floats:
    """Return v in the middle of every cell, to the nearest float."""
    points: list[float] = []
    normal = NormalDist()
    cells = 1 << _NORMAL_CELLS
    # The last cell starts at 2^63, to which the largest u are rounded; there v continues below 0.
    for number in range(46 * cells, 63 * cells + 1):
        exponent, cell = divmod(number, cells)
        middle = Fraction(2 * (cells + cell) + 1, 2 * cells) * Fraction(2) ** (exponent - 64)
        nearer = min(middle, 1 - middle)
        v = normal_quantile(nearer, -normal.inv_cdf(float(nearer)))
        points.append(v if nearer == middle else -v)
    return np.array(points)


def _taylor_rows(v: Floats) -> Floats:
    """Return v and its first derivatives in x, the n-th divided by n!, one row a degree."""
    inverse_density = math.sqrt(2 * math.pi) * np.exp(v * v / 2)
    coefficients = [1.0]
    rows = [v]
    for n in range(1, _DEGREE + 1):
        polynomial = sum(a * v**k for k, a in enumerate(coefficients))
        rows.append((-inverse_density * 2.0**-64) ** n * polynomial / math.factorial(n))
        grown = [0.0, *(n * a for a in coefficients)]
        for k, a in enumerate(coefficients[1:]):
            grown[k] += (k + 1) * a
        coefficients = grown
    return np.array(rows)


def normals(words: Words, room: Scratch | None = None) -> tuple[Floats, Positions]:
    """Return Phi^-1(1 - U / 2) = |Z| for each word to within :data:`ERROR`, and the positions of the tail."""
    room = room or Scratch(words.size)
    tail = _write_uniforms(words, room)
    table, x = _normal_cells(), room.x
    _locate_cells(x, room, _NORMAL_CELLS, 46)
    low = _MANTISSA - _NORMAL_CELLS
    middle = room.spare.view(np.int64)
    np.bitwise_and(x.view(np.int64), -1 << low, out=middle)
    middle |= 1 << (low - 1)
    x -= room.spare
    values: Floats = np.take(table[_DEGREE], room.cells, mode="clip", out=room.values)
    for n in range(_DEGREE - 1, -1, -1):
        values *= x
        values += np.take(table[n], room.cells, mode="clip", out=room.spare)
    for position in tail.tolist():
        values[position] = -NormalDist().inv_cdf(_middle_of_cell(words[position]) / 2)
    return values, tail

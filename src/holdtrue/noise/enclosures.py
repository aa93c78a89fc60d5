"""Transcendental functions between whole numbers: what settles a draw that floats leave open.

Each function takes an exact rational and a number of bits and returns whole numbers ``low <= f(x) * 2**bits <= high``
a few units apart. The inequality is proven, not measured: exponentials and logarithms come from :mod:`decimal`, which
documents them as correctly rounded, and are widened by one unit in the last place; the normal tail is a series of
positive terms summed in integers with an explicit remainder. Asking for more bits gives a narrower enclosure, so that
any comparison with an irrational number ends.
"""

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from holdtrue.errors import InvalidParameter

Enclosure: TypeAlias = tuple[int, int]

# Guard bits for the sums below: far more than the number of terms could ever round away.
_GUARD = 64
_REMEMBERED = 1 << 14
# Products and roundings to whole numbers in this context are exact.
_UNROUNDED = Context(prec=1 << 16, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def _make_context(bits: int, rounding: str = ROUND_HALF_EVEN) -> Context:
    digits = math.ceil(bits * math.log10(2)) + 3
    return Context(prec=max(digits, 8), rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def _divide_fraction(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _scale_outwards(low: Decimal, high: Decimal, bits: int) -> Enclosure:
    """Turn a decimal enclosure into whole numbers of 2^-bits, rounded outwards."""
    unit = Decimal(1 << bits)
    lower = _UNROUNDED.multiply(low, unit).to_integral_value(ROUND_FLOOR, _UNROUNDED)
    upper = _UNROUNDED.multiply(high, unit).to_integral_value(ROUND_CEILING, _UNROUNDED)
    return int(lower), int(upper)


@lru_cache(_REMEMBERED)
def exponential(x: Fraction, bits: int) -> Enclosure:
    """Enclose ``e**-x * 2**bits`` for ``x >= 0``.

    With q = x rounded down to the working precision and u one unit in its last place, e^-x lies between
    (1 - u) e^-q and e^-q; the exponential is correctly rounded, and each end is moved one unit outwards.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > 2 * bits + _GUARD:
        return 0, 1
    # u in terms of 1: as many digits more as x has before the point.
    precision = bits + max(x.numerator.bit_length() - x.denominator.bit_length(), 0) + 8
    context, down = _make_context(precision), _make_context(precision, ROUND_FLOOR)
    quotient = _divide_fraction(x, down)
    value = context.exp(quotient.copy_negate())
    unit = Decimal(1).scaleb(quotient.adjusted() + 1 - down.prec)
    low = down.multiply(context.next_minus(value), down.subtract(Decimal(1), unit))
    return _scale_outwards(low, context.next_plus(value), bits)


def logarithm(x: Fraction, bits: int) -> Enclosure:
    """Enclose ``ln(x) * 2**bits`` for ``x > 0``."""
    return logarithm_of_ratio(x.numerator, x.denominator, bits)


def logarithm_of_ratio(numerator: int, denominator: int, bits: int) -> Enclosure:
    """Enclose ``ln(numerator / denominator) * 2**bits`` for whole numbers above 0.

    With the ratio 2^k m and c the middle of m's cell among 256, its logarithm is k ln 2 + ln c + 2 atanh((m - c) / (m + c)),
    the series of atanh in integers. Every rounding is below a few units of 2^-(bits + 64) and there are fewer than ``bits``
    of them, besides the k units of k ln 2, so that 2^-(bits + 32) covers them all.
    """
    if numerator == denominator:
        return 0, 0
    work = bits + _GUARD
    k = numerator.bit_length() - denominator.bit_length()
    m = (numerator << max(work - k, 0)) // (denominator << max(k - work, 0))
    index = m >> (work - 8)
    c = (2 * index + 1) << (work - 9)
    s = ((m - c) << work) // (m + c)
    square = (s * s) >> work
    total, power, n = s, s, 1
    while power not in (0, -1):
        power = (power * square) >> work
        n += 2
        total += power // n
    two, cells = _cell_logarithms(work)
    value = k * two + cells[index - 128] + 2 * total
    error = 1 << (_GUARD - 32)
    return (value - error) >> _GUARD, ((value + error) >> _GUARD) + 1


@lru_cache(16)
def _cell_logarithms(bits: int) -> tuple[int, list[int]]:
    """Return ln 2 and ln((2 i + 1) / 512) for i from 128 to 511, times 2^bits, to within two units."""
    context = _make_context(bits + 8)

    def scaled(x: Fraction) -> int:
        value = context.ln(_divide_fraction(x, context))
        return _scale_outwards(value, value, bits)[0]

    return scaled(Fraction(2)), [scaled(Fraction(2 * i + 1, 512)) for i in range(128, 512)]


@lru_cache(64)
def _root_two_pi(bits: int) -> Enclosure:
    """Enclose the square root of 2 pi, with pi by Machin's formula 16 atan(1/5) - 4 atan(1/239)."""
    work = bits + _GUARD
    pi = 16 * _arctangent_of_inverse(5, work) - 4 * _arctangent_of_inverse(239, work)
    error = 20 * work  # each of at most `work` terms was rounded by less than one unit
    return math.isqrt((2 * (pi - error)) << work) >> _GUARD, (math.isqrt((2 * (pi + error)) << work) >> _GUARD) + 2


def _arctangent_of_inverse(n: int, bits: int) -> int:
    power = (1 << bits) // n
    total, divisor, sign = power, 1, 1
    while power:
        power //= n * n
        divisor += 2
        sign = -sign
        total += sign * (power // divisor)
    return total


@lru_cache(_REMEMBERED)
def normal_tail(x: Fraction, bits: int) -> Enclosure:
    """Enclose ``Pr[Z > x] * 2**bits`` for a standard normal Z and ``x >= 0``.

    ``Pr[0 < Z < x] = phi(x) * sum over n of x**(2n+1) / (2n+1)!!``, all terms positive. Subtracting from one half loses
    the leading zeros of the tail, about ``x*x / (2 ln 2)`` bits, which are worked with in addition.
    """
    if x < 0:
        raise InvalidParameter("x", x, "0 or above")
    half = 1 << (bits - 1)
    if x == 0:
        return half, half
    square = x * x
    work = bits + _GUARD + 2 * math.ceil(square) + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    low, high = _odd_series(x, square, work)
    density_low, density_high = exponential(square / 2, work)
    root_low, root_high = _root_two_pi(work)
    body_low = low * density_low // root_high
    body_high = high * density_high // root_low + 1
    shift = work - bits
    middle = half << shift
    return max((middle - body_high) >> shift, 0), ((middle - body_low) >> shift) + 1


def _odd_series(x: Fraction, square: Fraction, bits: int) -> Enclosure:
    """Enclose the sum of x^(2n+1) / (2n+1)!! over n >= 0.

    Term n is the one before times r_n = x*x / (2n+1), rounded down. A unit lost in term j is lost again, times the
    ratios that follow, in every later term: in all 1 + r + r r' + ..., which is largest for j = 0, where it is the sum
    divided by its first term. The terms after the last are below twice its error once the ratio is below one half.
    """
    first = (x.numerator << bits) // x.denominator
    top, bottom = square.numerator, square.denominator
    term, total, n = first, 0, 0
    while True:
        total += term
        n += 1
        term = term * top // (bottom * (2 * n + 1))
        if term == 0 and 2 * top < bottom * (2 * n + 1):
            return total, total + 3 * (n + 1) * (total // first + 2)


def normal_quantile(probability: Fraction, guess: float) -> float:
    """Return x > 0 with ``Pr[Z > x] = probability``, by one Newton step from a float's guess.

    A step squares the error, times x / 2: from a guess off by 2^-38 to less than 2^-73, and then one rounding.
    """
    x = Fraction(round(guess * (1 << 40)), 1 << 40)
    bits = 64 + math.ceil(x * x)
    tail = Fraction(sum(normal_tail(x, bits)), 2 << bits)
    density = math.exp(-guess * guess / 2) / math.sqrt(2 * math.pi)
    return float(x + (tail - probability) / Fraction(density))

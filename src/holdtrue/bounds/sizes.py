"""Public parameters as floats on the safe side, and real numbers of rows as whole ones."""

import math
from fractions import Fraction

from holdtrue.errors import InsufficientSamples, InvalidParameter, NotCertified
from holdtrue.exact import positive, probability, rational, round_down

__all__ = ["ROUNDING", "certified", "floored", "fraction", "rows_at_least"]

# What a handful of roundings and a library function may be off by, relative to the result.
ROUNDING = 1 + 2.0**-44

_LEAST = Fraction(1, 10**300)
_MOST = Fraction(10**300)
_MOST_ROWS = 2.0**63


def floored(name: str, value: object) -> float:
    """Return a positive number as the float just below it: a smaller epsilon or alpha only asks for more rows."""
    return _floored(name, positive(name, value))


def fraction(name: str, value: object) -> float:
    """Return a number in (0, 1) as the float just below it."""
    return _floored(name, probability(name, value))


def certified(name: str, value: object) -> float:
    """Return a public constant above 0; anything else is no certificate."""
    expected = "a finite number above 0 that is proven for every dataset"
    if value is None or rational(name, value, expected=expected) <= 0:
        message = f"{name} must be {expected}; got {value!r}"
        raise NotCertified(message)
    return _floored(name, positive(name, value))


def rows_at_least(value: float) -> int:
    """Return the smallest whole number of rows, 1 or above, that is not below a real one; rounding counts upwards."""
    if not value * ROUNDING < _MOST_ROWS:
        message = "no number of rows below 2^63 is enough; ask for less"
        raise InsufficientSamples(message, required=None)
    return max(1, math.ceil(value * ROUNDING))


def _floored(name: str, value: Fraction) -> float:
    if value < _LEAST:
        raise InvalidParameter(name, value, "at least 1e-300")
    return round_down(min(value, _MOST))

"""Rationals, outward rounding and range checks.

Every number that comes in from outside passes one of the checks here: it is a finite rational of the right kind, or
:class:`~holdtrue.errors.InvalidParameter` names the parameter, shows the value and says what would do. Floats are
taken at their exact binary value, booleans are not numbers, and NaN and infinities are refused everywhere.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InsufficientSamples, InvalidParameter, NotCertified

Number: TypeAlias = int | float | Fraction | Decimal

STITCH: Final = 6 / math.pi**2
"""The shares 6 / (pi^2 k^2) of all k >= 1 sum to one."""

LedgerKind: TypeAlias = Literal["gdp", "zcdp", "pure"]
UNIT: Final = Fraction(1, 10**15)
"""Costs and budgets are whole multiples of this: of mu squared, of rho or of epsilon, by the kind of ledger."""

ROUNDING: Final = 1 + 2.0**-44
"""What a handful of roundings and a library function may be off by, relative to the result."""

_LARGEST = Fraction(sys.float_info.max)
_LEAST_FLOORED, _MOST_FLOORED = Fraction(1, 10**300), Fraction(10**300)
_MOST_ROWS = 2.0**63
_LONGEST_LIST = 10**8
_MOST_DIGITS = 1000
_MOST = 10**_MOST_DIGITS  # more digits than any float has, few enough for every sum and message
_FEW_BITS = 1024  # fewer than the largest float and than the most digits have
_LOOKED_AT = 1000
Integers: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.object_]


def rational(name: str, value: object, *, expected: str = "a finite number") -> Fraction:
    """Return the exact value of a finite real number; refuse booleans, strings, NaN and infinities."""
    if type(value) is Fraction and max(map(int.bit_length, value.as_integer_ratio())) < _FEW_BITS:
        return value
    if isinstance(value, (bool, np.bool_)):
        raise InvalidParameter(name, value, f"{expected} (True and False are not numbers)")
    if isinstance(value, (Rational, Integral)):
        exact = Fraction(int(value.numerator), int(value.denominator))
        if max(abs(exact.numerator), exact.denominator) >= _MOST:
            raise InvalidParameter(name, value, f"{expected}, of at most {_MOST_DIGITS} digits")
        if abs(exact) > _LARGEST:
            raise InvalidParameter(name, value, f"{expected}, below 2^1024")
        return exact
    if isinstance(value, (float, np.floating, Decimal)):
        if isinstance(value, Decimal):
            # Checked before it is made exact, which takes as many digits as its exponent says.
            if not value.is_finite() or (value and abs(value.adjusted()) > _MOST_DIGITS):
                raise InvalidParameter(name, value, f"{expected}, of at most {_MOST_DIGITS} digits")
            return Fraction(value)
        if not math.isfinite(float(value)):
            raise InvalidParameter(name, value, expected)
        return Fraction(float(value))
    raise InvalidParameter(name, value, expected)


def positive(name: str, value: object) -> Fraction:
    """Return a finite rational above zero."""
    expected = "a finite number above 0"
    checked = rational(name, value, expected=expected)
    if checked.numerator <= 0:
        raise InvalidParameter(name, value, expected)
    return checked


def nonnegative(name: str, value: object) -> Fraction:
    """Return a finite rational, zero or above."""
    expected = "a finite number, 0 or above"
    checked = rational(name, value, expected=expected)
    if checked < 0:
        raise InvalidParameter(name, value, expected)
    return checked


def probability(name: str, value: object, *, zero: bool = False, one: bool = False) -> Fraction:
    """Return a rational between 0 and 1; the ends belong to the range only where ``zero`` or ``one`` say so."""
    expected = f"a number in {'[' if zero else '('}0, 1{']' if one else ')'}"
    checked = rational(name, value, expected=expected)
    if not (0 < checked < 1 or (zero and checked == 0) or (one and checked == 1)):
        raise InvalidParameter(name, value, expected)
    return checked


def count(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number, ``least`` or above, and at most ``most`` where there is one."""
    if type(value) is int and least <= value < (_MOST if most is None else most + 1):
        return value
    expected = f"a whole number, {least} or above"
    if type(value) is int and value >= least:
        limit = f"of at most {_MOST_DIGITS} digits" if most is None else f"at most {most:,}"
        raise InvalidParameter(name, value, f"{expected}, {limit}")
    if isinstance(value, (bool, np.bool_)):
        raise InvalidParameter(name, value, f"{expected} (True and False are not numbers)")
    if not isinstance(value, Integral) or value < least:
        raise InvalidParameter(name, value, expected)
    return count(name, int(value), least=least, most=most)


def truth(name: str, value: object) -> bool:
    """Return True or False; refuse anything else."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidParameter(name, value, "True or False")


def text_among(name: str, value: object, known: Sequence[str]) -> str:
    """Return one of a few words."""
    if type(value) is str and value in known:
        return value
    raise InvalidParameter(name, value, f"one of {', '.join(map(repr, known))}")


def read_list(name: str, values: object, *, expected: str) -> list[Any]:
    """Return the items of a list, a tuple, or anything else that is neither text nor a mapping and has an end."""
    if isinstance(values, (list, tuple)):
        return list(values)
    array = array_of(name, values, expected=expected)
    if array.ndim == 0 or isinstance(values, Mapping):
        raise InvalidParameter(name, _describe_kind(values), expected)
    return list(array)


def array_of(name: str, values: object, *, expected: str) -> npt.NDArray[Any]:
    """Return values as an array; InvalidParameter, naming only types, if they cannot be one."""
    if not isinstance(values, np.ndarray) and isinstance(values, Sequence) and len(values) > _LONGEST_LIST:
        raise InvalidParameter(name, _describe_kind(values), f"{expected}; put this many into an array")
    try:
        return np.asarray(values)
    except Exception:  # noqa: BLE001 - somebody else's object
        raise InvalidParameter(name, _describe_kind(values), expected) from None


def integers(name: str, values: object) -> Integers:
    """Return whole numbers as an array: int64 where the type allows, Python integers otherwise.

    Types decide, never values: an array of floats is refused even if each of them happens to be whole, since whether
    a float is whole may depend on a private row. For the same reason the message names types and lengths only.
    """
    expected = "whole numbers (integers; not floats, not booleans)"
    array: npt.NDArray[Any] = values if isinstance(values, np.ndarray) else _to_array(name, values, expected)
    if array.dtype.kind == "i":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "u":
        return array.astype(np.int64 if array.dtype.itemsize < 8 else object)  # noqa: PLR2004 - 8 bytes: beyond int64
    if array.dtype == object and all(isinstance(value, Integral) and not isinstance(value, bool) for value in array.flat):
        return array
    raise InvalidParameter(name, _describe_kind(values), expected)


def integer(name: str, value: object) -> int:
    """Return one whole number of any size, by the rules of :func:`integers`."""
    found = integers(name, value)
    if found.ndim:
        raise InvalidParameter(name, _describe_kind(value), "one whole number")
    return int(found)


def _to_array(name: str, values: object, expected: str) -> npt.NDArray[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, Integral)):
        raise InvalidParameter(name, _describe_kind(values), expected)
    try:
        array = array_of(name, values, expected=expected)
        if array.dtype.kind not in "iu" or array.size == 0:
            # NumPy would turn a mixed or huge list into floats; keep what was given and look at each.
            array = np.asarray(values, dtype=object)
    except (ValueError, OverflowError):
        raise InvalidParameter(name, _describe_kind(values), expected) from None
    if array.dtype != object and _holds_booleans(values):
        raise InvalidParameter(name, _describe_kind(values), expected)
    return array


def _holds_booleans(values: object) -> bool:
    if isinstance(values, Sequence):
        return any(_holds_booleans(value) for value in values)
    return isinstance(values, (bool, np.bool_))


@dataclass(frozen=True, slots=True)
class Shown:
    """A text that an error shows in place of an argument whose contents may be private."""

    text: str

    def __repr__(self) -> str:
        return self.text


def describe_array(array: npt.NDArray[Any]) -> Shown:
    """Describe an array by its type and shape only."""
    return Shown(f"an array of {array.dtype} with shape {array.shape}")


def _describe_kind(values: object) -> Shown:
    """Describe an argument by its types and its length only."""
    if isinstance(values, np.ndarray):
        return Shown(f"an array of {values.dtype}")
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        held = sorted({type(value).__name__ for value in values[:_LOOKED_AT]})
        return Shown(f"a {type(values).__name__} of {len(values)} holding {', '.join(held) or 'nothing'}")
    return Shown("None" if values is None else f"a {type(values).__name__}")


@dataclass(frozen=True, slots=True, eq=False)
class Rationals:
    """One rational or an array of them, with floats beside for the fast path.

    ``floats[i]`` is the float nearest to ``at(i)``, so it is off by a relative 2^-53 at most.
    """

    floats: npt.NDArray[np.float64]
    exact: tuple[Fraction, ...] | None

    @property
    def alone(self) -> bool:
        """Whether this is one number rather than an array."""
        return self.floats.ndim == 0

    def at(self, index: int) -> Fraction:
        """Return the exact value at an index; the one value at every index."""
        position = 0 if self.alone else index
        return Fraction(float(self.floats.flat[position])) if self.exact is None else self.exact[position]

    def slice(self, block: slice) -> "npt.NDArray[np.float64] | float":
        """Return the floats of a block of indices, as something that broadcasts over it."""
        return float(self.floats) if self.alone else self.floats[block]


def rationals(name: str, values: object, *, zero: bool = False, most: Number | None = None) -> Rationals:
    """Check one number or an array of them: all finite and positive, or zero where ``zero`` says so, at most ``most``."""
    expected = "finite and " + ("0 or above" if zero else "above 0") + ("" if most is None else f", at most {most}")
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "f":
        floats = values.astype(np.float64)
        wrong = ~(np.isfinite(floats) & ((floats >= 0) if zero else (floats > 0)))
        if wrong.any():
            raise InvalidParameter(name, float(floats[wrong][0]), expected)
        checked = Rationals(floats, None)
    elif isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, (str, bytes)):
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise InvalidParameter.saying(name, f"{name} has {values.ndim} dimensions; expected a flat array, {expected}")
        exact = tuple(rational(name, value, expected=expected) for value in values)
        for value in exact:
            if value < 0 or (value == 0 and not zero):
                raise InvalidParameter(name, float(value), expected)
        checked = Rationals(np.array([float(value) for value in exact], dtype=np.float64), exact)
    else:
        exact = (rational(name, values, expected=expected),)
        if exact[0] < 0 or (exact[0] == 0 and not zero):
            raise InvalidParameter(name, values, expected)
        checked = Rationals(np.array(float(exact[0])), exact)
    if most is not None and checked.floats.size and float(checked.floats.max()) > float(most):
        raise InvalidParameter(name, float(checked.floats.max()), expected)
    return checked


def round_up(value: Fraction) -> float:
    """Return the smallest float that is not below a rational; infinity where no finite one is."""
    if abs(value) > _LARGEST:
        return math.inf if value > 0 else -sys.float_info.max
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def round_down(value: Fraction) -> float:
    """Return the largest float that is not above a rational."""
    return 0.0 - round_up(-value)  # not -0, which would be shown


def units_up(value: Fraction) -> int:
    """Return a cost as a whole number of units, rounded up."""
    return math.ceil(value / UNIT)


def units_down(value: Fraction) -> int:
    """Return a budget as a whole number of units, rounded down."""
    return math.floor(value / UNIT)


def amount(units: int) -> float:
    """Return whole units in the ledger's currency, as the nearest float."""
    return units / UNIT.denominator if units.bit_length() < sys.float_info.max_exp else math.inf


def floor_positive(name: str, value: object) -> float:
    """Return a positive number as the float just below it: a smaller epsilon or alpha only asks for more rows."""
    return _floor_float(name, positive(name, value))


def floor_probability(name: str, value: object) -> float:
    """Return a number in (0, 1) as the float just below it."""
    return _floor_float(name, probability(name, value))


def require_constant(name: str, value: object) -> float:
    """Return a public constant above 0; anything else is no certificate."""
    expected = "a finite number above 0 that is proven for every dataset"
    if value is None or rational(name, value, expected=expected) <= 0:
        message = f"{name} must be {expected}; got {value!r}"
        raise NotCertified(message)
    return floor_positive(name, value)


def _floor_float(name: str, value: Fraction) -> float:
    if value < _LEAST_FLOORED:
        raise InvalidParameter(name, value, "at least 1e-300")
    return round_down(min(value, _MOST_FLOORED))


def rows_at_least(value: float) -> int:
    """Return the smallest whole number of rows, 1 or above, that is not below a real one; rounding counts upwards."""
    if not value * ROUNDING < _MOST_ROWS:
        message = "no number of rows below 2^63 is enough; ask for less"
        raise InsufficientSamples(message, required=None)
    return max(1, math.ceil(value * ROUNDING))

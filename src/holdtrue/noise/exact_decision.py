"""What decides a draw that floats leave open: more bits of the uniform, and integers.

A draw by inversion asks, for a uniform U, which is the largest k with U <= Pr[value >= k]. Here U is an endless
string of bits of which a prefix is known, and the probabilities are enclosed between whole numbers, so each comparison
is either certain or asks for more bits. Nothing is assumed about the float that proposed a value, only that it is a
place to start looking. A choice between candidates asks whose key is smallest: keys are intervals that more bits make
narrower, until one is.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from holdtrue.entropy import Bits
from holdtrue.noise.enclosures import Enclosure, logarithm, logarithm_of_ratio

Threshold = Callable[[int], Enclosure]
"""A probability p as a function of bits: whole numbers low <= p * 2**bits <= high, closer together for more bits."""

_MORE = 64
_EXTRA = 33


class Uniform:
    """A uniform number in (0, 1) as an endless string of bits, of which a prefix is known."""

    __slots__ = ("_bits", "length", "prefix")

    def __init__(self, prefix: int, length: int, bits: Bits) -> None:
        self.prefix = prefix
        self.length = length
        self._bits = bits

    def extend(self) -> None:
        """Learn 64 more bits."""
        self.prefix = (self.prefix << _MORE) | self._bits.more()
        self.length += _MORE

    def is_below(self, threshold: Threshold) -> bool:
        """Decide whether U is below a probability. Ends after n more words but with probability about 2^-64n."""
        while True:
            low, high = threshold(self.length + _EXTRA)
            if (self.prefix + 1) << _EXTRA <= low:
                return True
            if self.prefix << _EXTRA >= high:
                return False
            self.extend()


def settle_value(uniform: Uniform, guess: int, probability_of_at_least: Callable[[int], Threshold]) -> int:
    """Return the largest k >= 0 with U <= Pr[value >= k], looking outwards from a guess in doubling steps."""

    def reaches(k: int) -> bool:
        return k <= 0 or uniform.is_below(probability_of_at_least(k))

    low = high = max(guess, 0)
    step = 1
    if reaches(low):
        high = low + step
        while reaches(high):
            low, step = high, 2 * step
            high = low + step
    else:
        low = high - step
        while not reaches(low):
            high, step = low, 2 * step
            low = high - step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return max(low, 0)


class Contender:
    """A candidate whose key is ln E + offset - ln weight, for an exponential E = -ln U of which 63 bits are known."""

    __slots__ = ("_offset", "_uniform", "_weight", "column")

    def __init__(self, column: int, offset: Fraction, weight: Fraction, word: np.uint64, bits: Bits) -> None:
        self.column = column
        self._offset = offset
        self._weight = weight
        self._uniform = Uniform(int(word) >> 1, 63, bits)

    @property
    def precision(self) -> int:
        """Return the bits that are worth working with."""
        return self._uniform.length + _EXTRA

    def extend(self) -> None:
        """Learn more bits of U."""
        self._uniform.extend()

    def enclose_key(self, precision: int) -> tuple[float, float]:
        """Enclose the key, times 2^precision, between whole numbers or infinities."""
        low, high = self._log_exponential(precision)
        offset = self._offset * (1 << precision)
        weight_low, weight_high = logarithm(self._weight, precision)
        return low + math.floor(offset) - weight_high, high + math.ceil(offset) - weight_low

    def _log_exponential(self, precision: int) -> tuple[float, float]:
        prefix, whole, unit = self._uniform.prefix, 1 << self._uniform.length, 1 << precision
        smallest = -logarithm_of_ratio(prefix + 1, whole, precision)[1]
        low = -math.inf if smallest <= 0 else logarithm_of_ratio(smallest, unit, precision)[0]
        if prefix == 0:
            return low, math.inf
        largest = -logarithm_of_ratio(prefix, whole, precision)[0]
        return low, logarithm_of_ratio(largest, unit, precision)[1]

    def at_most(self, bound: Fraction) -> bool:
        """Decide whether the key is at most ln(bound)."""
        while True:
            low, high = self.enclose_key(self.precision)
            bound_low, bound_high = logarithm(bound, self.precision)
            if high <= bound_low:
                return True
            if low > bound_high:
                return False
            self.extend()


def find_smallest(contenders: list[Contender]) -> Contender:
    """Return the contender with the smallest key; ends because keys are different with probability one."""
    while len(contenders) > 1:
        precision = max(contender.precision for contender in contenders)
        keys = [contender.enclose_key(precision) for contender in contenders]
        limit = min(high for _, high in keys)
        contenders = [contender for contender, (low, _) in zip(contenders, keys, strict=True) if low <= limit]
        if len(contenders) > 1:
            for contender in contenders:
                contender.extend()
    return contenders[0]

"""What decides a draw that floats leave open: more bits of the uniform, and integers.

A draw by inversion asks, for a uniform U, which is the largest k with U <= Pr[value >= k]. Here U is an endless
string of bits of which a prefix is known, and the probabilities are enclosed between whole numbers, so each comparison
is either certain or asks for more bits. Nothing is assumed about the float that proposed a value, only that it is a
place to start looking.
"""

from collections.abc import Callable

from holdtrue.enclosures import Enclosure
from holdtrue.entropy import Bits

__all__ = ["Threshold", "Uniform", "settle"]

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

    def below(self, threshold: Threshold) -> bool:
        """Decide whether U is below a probability. Ends after n more words but with probability about 2^-64n."""
        while True:
            low, high = threshold(self.length + _EXTRA)
            if (self.prefix + 1) << _EXTRA <= low:
                return True
            if self.prefix << _EXTRA >= high:
                return False
            self.extend()


def settle(uniform: Uniform, guess: int, probability_of_at_least: Callable[[int], Threshold]) -> int:
    """Return the largest k >= 0 with U <= Pr[value >= k], looking outwards from a guess in doubling steps."""

    def reaches(k: int) -> bool:
        return k <= 0 or uniform.below(probability_of_at_least(k))

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

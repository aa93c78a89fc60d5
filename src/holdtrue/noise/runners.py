"""The end of a race between candidates: keys as intervals that more bits make narrower, until one is smallest."""

import math
from fractions import Fraction

import numpy as np

from holdtrue.enclosures import logarithm, logarithm_of_ratio
from holdtrue.entropy import Bits
from holdtrue.noise.settling import Uniform

__all__ = ["Runner", "winner"]

_EXTRA = 33


class Runner:
    """A candidate whose key is ln E + handicap - ln weight, for an exponential E = -ln U of which 63 bits are known."""

    __slots__ = ("_handicap", "_uniform", "_weight", "column")

    def __init__(self, column: int, handicap: Fraction, weight: Fraction, word: np.uint64, bits: Bits) -> None:
        self.column = column
        self._handicap = handicap
        self._weight = weight
        self._uniform = Uniform(int(word) >> 1, 63, bits)

    @property
    def precision(self) -> int:
        """Return the bits that are worth working with."""
        return self._uniform.length + _EXTRA

    def extend(self) -> None:
        """Learn more bits of U."""
        self._uniform.extend()

    def key(self, precision: int) -> tuple[float, float]:
        """Enclose the key, times 2^precision, between whole numbers or infinities."""
        low, high = self._log_exponential(precision)
        handicap = self._handicap * (1 << precision)
        weight_low, weight_high = logarithm(self._weight, precision)
        return low + math.floor(handicap) - weight_high, high + math.ceil(handicap) - weight_low

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
            low, high = self.key(self.precision)
            bound_low, bound_high = logarithm(bound, self.precision)
            if high <= bound_low:
                return True
            if low > bound_high:
                return False
            self.extend()


def winner(runners: list[Runner]) -> Runner:
    """Return the runner with the smallest key; ends because keys are different with probability one."""
    while len(runners) > 1:
        precision = max(runner.precision for runner in runners)
        keys = [runner.key(precision) for runner in runners]
        limit = min(high for _, high in keys)
        runners = [runner for runner, (low, _) in zip(runners, keys, strict=True) if low <= limit]
        if len(runners) > 1:
            for runner in runners:
                runner.extend()
    return runners[0]

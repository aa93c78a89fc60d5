"""Upper bounds of e^(-rate * gap), looked up by the gap."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from holdtrue.enclosures import exponential
from holdtrue.entropy import Words

__all__ = ["Ladder"]

_RUNGS = 1 << 12
_REACH = 40
_SLACK = 1 + 2.0**-30
# Bounds stay above what products of floats might lose to underflow.
_SMALLEST = 2.0**-200


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """One bound for all gaps from n 2^shift to (n + 1) 2^shift, and that of the last rung for all beyond.

    Guarantee: ``weights[n]`` is not below e^(-rate * gap) for any gap on the rung. Rungs are as wide as lets the last one
    lie below e^-20, and a rate above one hundredth has a rung for every gap.
    """

    shift: int
    weights: npt.NDArray[np.float64]

    @staticmethod
    def of(rate: Fraction) -> "Ladder":
        """Make the ladder of a rate."""
        shift = 0
        while rate * (_RUNGS << (shift + 1)) <= _REACH:
            shift += 1
        step = (exponential(rate * (1 << shift), 64)[1] + 1) / (1 << 64)
        # A product of n floats is off by a relative n 2^-52 at most, which the first factor covers many times over.
        factors = np.full(_RUNGS, step)
        factors[0] = _SLACK
        return Ladder(shift, np.maximum(np.multiply.accumulate(factors), _SMALLEST))

    def _rungs(self, gaps: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        rungs = gaps >> np.uint64(self.shift) if self.shift else gaps
        return np.minimum(rungs, np.uint64(_RUNGS - 1)).view(np.int64)

    def total(self, gaps: npt.NDArray[np.uint64]) -> float:
        """Return the sum of the bounds of many gaps."""
        return float(np.take(self.weights, self._rungs(gaps), mode="clip").sum())

    def limits(self, bound: float) -> Words:
        """Return, for each rung, the smallest word that may have 1 - U <= bound * weight.

        The first 63 bits u of a word w leave 1 - U at (2^63 - 1 - u) / 2^63 or above, and ~w is at most one more than
        2^64 times that. Where the bound is no bound, every word passes.
        """
        scaled = self.weights * (bound * _SLACK * 2.0**64) + 4
        inside = scaled < 2.0**64
        limits: Words = np.where(inside, ~np.where(inside, scaled, 0.0).astype(np.uint64), np.uint64(0))
        return limits

    def passes(self, gaps: npt.NDArray[np.uint64], words: Words, limits: Words) -> npt.NDArray[np.intp]:
        """Return the positions of words that reach the limits of their gaps."""
        return np.flatnonzero(words >= np.take(limits, self._rungs(gaps), mode="clip"))

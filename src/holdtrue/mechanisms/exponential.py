"""The exponential mechanism (B2, B3)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Integers, Number, Rationals, positive, rationals
from holdtrue.mechanisms.base import Array
from holdtrue.mechanisms.scoring import ChoosingMechanism, score_range
from holdtrue.noise import gumbel_argmax

__all__ = ["Exponential"]


@dataclass(frozen=True)
class Exponential(ChoosingMechanism):
    """Chooses y with probability proportional to weight(y) e^(epsilon score(y) / R).

    Guarantee: epsilon-DP and epsilon-bounded-range, attained. R is the range of the scores: twice their sensitivity, the
    sensitivity itself where all scores move the same way (``monotone=True``), or a smaller number that the caller can
    prove (``range=``). An infinite set of candidates is given as a finite partition, with the base measure of its cells
    as ``weights`` and scores that are constant on each. Needs: candidates and weights fixed before any row is seen.
    Fails: never, but with the kernel's generator.

    >>> import holdtrue as ht
    >>> ht.Exponential(epsilon=1.0).rate
    Fraction(1, 2)
    """

    weights: tuple[Fraction, ...] | None

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number = 1,
        range: Number | None = None,  # noqa: A002 - the word of the theory
        monotone: bool = False,
        weights: Array | None = None,
    ) -> None:
        spread = score_range(sensitivity, range, monotone=monotone)
        object.__setattr__(self, "rate", positive("epsilon", epsilon) / spread)
        object.__setattr__(self, "range", spread)
        object.__setattr__(self, "weights", None if weights is None else _exact_weights(weights))

    @property
    def _claim(self) -> events.Event:
        return events.BoundedRange(self.rate * self.range)

    def _choose(self, scores: Integers, rate: Fraction) -> npt.NDArray[np.int64]:
        if self.weights is not None and len(self.weights) != scores.shape[1]:
            raise InvalidParameter("values", f"{scores.shape[1]} scores", f"as many scores as weights, {len(self.weights)}")
        weights = None if self.weights is None else rationals("weights", self.weights)
        return gumbel_argmax(scores, rate=rate, weights=weights, bits=self._bits)

    def __repr__(self) -> str:
        measure = "" if self.weights is None else f", weights=<{len(self.weights)}>"
        return f"Exponential(epsilon={float(self.rate * self.range):g}, range={float(self.range):g}{measure})"


def _exact_weights(weights: Array) -> tuple[Fraction, ...]:
    checked: Rationals = rationals("weights", weights)
    if checked.alone or checked.floats.size == 0:
        raise InvalidParameter("weights", weights, "one weight above 0 for each candidate")
    return tuple(checked.at(index) for index in range(checked.floats.size))

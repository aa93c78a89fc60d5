"""Permute-and-flip (B3)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.exact import Integers, Number, positive
from holdtrue.mechanisms.scoring import ChoosingMechanism, score_range
from holdtrue.noise import permute_and_flip

__all__ = ["PermuteAndFlip"]


@dataclass(frozen=True)
class PermuteAndFlip(ChoosingMechanism):
    """Takes candidates in random order and keeps y with probability e^(epsilon (score(y) - best) / R), until one is kept.

    Guarantee: epsilon-DP, and an expected score never below that of :class:`Exponential`. It is *not* bounded-range, so
    on a GDP or zCDP ledger it costs about four times as much: prefer it on a pure ledger or for a single choice. Needs
    and fails as :class:`Exponential`.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number = 1,
        range: Number | None = None,  # noqa: A002 - the word of the theory
        monotone: bool = False,
    ) -> None:
        spread = score_range(sensitivity, range, monotone=monotone)
        object.__setattr__(self, "rate", positive("epsilon", epsilon) / spread)
        object.__setattr__(self, "range", spread)

    @property
    def _claim(self) -> events.Event:
        return events.Pure(self.rate * self.range)

    def _choose(self, scores: Integers, rate: Fraction) -> npt.NDArray[np.int64]:
        return permute_and_flip(scores, rate=rate, bits=self._bits)

    def __repr__(self) -> str:
        return f"PermuteAndFlip(epsilon={float(self.rate * self.range):g}, range={float(self.range):g})"

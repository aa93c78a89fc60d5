"""What is public about a fit that answers one prediction at a time, and the mechanism that answers (E8-E10, T13, V5)."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.responding import Constrained, NoisyAverage
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, positive
from holdtrue.mechanisms.base import Mechanism
from holdtrue.verbs.training import ModelFacts

__all__ = ["FitFacts"]

_FINE: Final = 1024
_LEAST_STEPS: Final = 1 << 20
_MOST_STEPS: Final = 1 << 44


@dataclass(frozen=True, slots=True)
class FitFacts(ModelFacts):
    """A kept fit as the public knows it.

    One row moves what it says of a point by at most ``gamma``, within ``ends``; None for thresholds, whose counts of errors
    it moves by one each. ``mu`` or ``epsilon`` is the privacy of one prediction unless another is asked for. ``claim`` says
    whose word gamma is, where it was not certified here. ``excess`` bounds the expected loss above that of what ``compared``
    says, at that privacy; None where ``reason`` says why there is no such bound. ``reads`` are the bounds of the features.
    """

    reads: tuple[tuple[float, float], ...] = ()
    ends: tuple[float, float] = (0.0, 1.0)
    gamma: float | None = None
    mu: Fraction | None = None
    epsilon: Fraction | None = None
    claim: str | None = None
    excess: float | None = None
    reason: str | None = None
    compared: str = ""

    @property
    def certificate(self) -> str:
        """Return in words what is proven of its predictions."""
        if self.claim is not None:
            return self.claim
        if self.excess is None:
            return f"no bound on its loss: {self.reason}"
        word = "error" if self.gamma is None else "loss"
        return f"expected {word} at most {self.excess:.4g} above {self.compared} (population)"

    def make_rule(self, *, epsilon: Number | None, mu: Number | None, method: str) -> Mechanism:
        """Return the mechanism that answers one point: epsilon-DP by Laplace noise, or mu-GDP by normal noise.

        The grid is finer than a 1,024th of gamma, so that rounding adds next to nothing to the noise (V4.3).
        """
        if method != "soft-majority":
            raise InvalidParameter.saying("method", "leave out method: it is for votes, and this model is one fit")
        if mu is not None and self.gamma is None:
            raise InvalidParameter.saying("mu", "give epsilon instead of mu: thresholds are drawn by errors, not by noise")
        if epsilon is None and mu is None:
            epsilon, mu = self.epsilon, self.mu
        if self.gamma is None:
            return Constrained(positive("epsilon", epsilon))
        low, high = self.ends
        fine = 2 ** math.ceil(math.log2(_FINE * (high - low) / self.gamma))
        steps = min(max(fine, _LEAST_STEPS), _MOST_STEPS)
        given: dict[str, Any] = {"epsilon": epsilon} if mu is None else {"mu": mu}
        return NoisyAverage(1, low=low, high=high, gamma=self.gamma, steps=steps, **given)

    @property
    def document(self) -> dict[str, Any]:
        """Return the facts as plain JSON, to be kept with the fit."""
        found = {name: value for name, value in asdict(self).items() if name != "cut"}
        return found | {name: None if found[name] is None else str(found[name]) for name in ("mu", "epsilon")}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "FitFacts":
        """Return the facts whose :attr:`document` this is; a TypeError, KeyError or ValueError for any other."""
        found = dict(document)
        found |= {name: None if found[name] is None else Fraction(found[name]) for name in ("mu", "epsilon")}
        found |= {name: None if found[name] is None else tuple(found[name]) for name in ("labels", "bounds", "ends")}
        return cls(**found | {"cut": PartRule("whole"), "reads": tuple(tuple(pair) for pair in found["reads"])})

    def find_place(self, answer: float) -> int:
        """Return the place among two labels: of thresholds as drawn, else the second in the upper half of the ends."""
        return int(answer) if self.gamma is None else int(answer > sum(self.ends) / 2)

"""What is proven of predictions whose members are the best of one finite class, each on its own rows (V4.1)."""

from dataclasses import dataclass
from typing import Any, Literal

from holdtrue.bounds.prediction import member_error, member_excess, soft_majority_error
from holdtrue.ensembles.responding import Agnostic, SoftMajority
from holdtrue.exact import ROUNDING
from holdtrue.mechanisms.base import Mechanism

__all__ = ["ClassTerms", "ErrorBound"]

_REALIZABLE = "Theorem 1 for the best of a class, if some hypothesis is never wrong (V4.1, E5)"
_AGNOSTIC = "Corollary 1 for the best of a class (V4.1, E11)"


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """How often predictions err at most in the population, or how much more often than the best of the class."""

    value: float
    confidence: float
    excess: bool
    theorem: str

    @property
    def words(self) -> str:
        """Return it in words."""
        more = " more often than the best of its class" if self.excess else ""
        often = "err at most" if self.excess else "err at most in"
        share = f"{self.value:.4g}" if self.excess else f"{self.value:.4g} of all cases"
        return f"predictions {often} {share}{more} ({self.confidence:.0%}, population); {self.theorem}"


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """A class of ``size``, fixed before any answer, whose best on each part of ``rows`` rows votes.

    Guarantee: with probability 1 - ``beta`` over the rows the bound holds for all points, all later charges and every
    epsilon at once, since it is about members alone; this model by itself. Where ``lost`` says why, there is none.
    """

    size: int
    rows: int
    beta: float
    assuming: Literal["realizable"] | None = None
    lost: str | None = None

    def bound_errors(self, rule: Mechanism, *, parts: int) -> ErrorBound | None:
        """Return what is proven of predictions by a rule; None where nothing is.

        A soft majority is bounded where some hypothesis is never wrong; the agnostic rule also without that, by how much
        more often it errs than the best of the class.
        """
        if self.lost is not None:
            return None
        given: dict[str, Any] = {"rows": self.rows, "parts": parts, "beta": self.beta}
        realizable = self.assuming == "realizable"
        confidence = 1 - self.beta
        if realizable and isinstance(rule, SoftMajority):
            epsilon = 2 * rule.rate  # one vote weighs as much as one vote
            error = soft_majority_error(parts, epsilon=epsilon, base_error=min(1.0, member_error(self.size, **given)))
            return ErrorBound(error, confidence, excess=False, theorem=_REALIZABLE)
        if isinstance(rule, Agnostic):
            base = member_error(self.size, **given) if realizable else member_excess(self.size, **given)
            value = min(1.0, (base + float(rule.table.tau)) * ROUNDING)
            return ErrorBound(value, confidence, excess=not realizable, theorem=_REALIZABLE if realizable else _AGNOSTIC)
        return None

    @property
    def says(self) -> str:
        """Return in words which rule a certificate needs, or why there is none."""
        if self.lost is not None:
            return f"the certificate of a class fixed before any answer (V4.1) is lost: {self.lost}"
        wanted = "soft-majority or agnostic" if self.assuming == "realizable" else "agnostic"
        return f"certified by method {wanted}"

"""What is proven of private predictions: by the class their members are the best of, and by held-out rows (V4.1, V4.4)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from holdtrue.bounds.prediction import member_error, member_excess, soft_majority_error
from holdtrue.ensembles.responding import Agnostic, SoftMajority
from holdtrue.errors import InvalidParameter
from holdtrue.exact import ROUNDING
from holdtrue.kernels import Integers
from holdtrue.mechanisms.base import Mechanism

__all__ = ["ClassTerms", "ErrorBound", "RobustError"]

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


_FINE = 256  # steps of a log-odds of epsilon
_BITS = 32
_LEAST_EPSILON = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class RobustError:
    """How many rows would have to change before the error of predictions on held-out rows can exceed a level.

    Law: a soft majority at ``epsilon`` errs at row i with probability p_i, whose log-odds one training row moves by epsilon
    at most. With f_j the mean over held-out rows of sigmoid(logit p_i + j epsilon), j of k changed rows may be training rows
    and the others held-out ones: l_k is the largest f_j + (k - j) / rows, and l_-k the least f_-j - (k - j) / rows, j from 0
    to k. ``distance`` is the largest k with l_k <= x, clipped to +-``reach``. Guarantee: one replaced row, training or held
    out, moves it by at most 1, for every public x, and distance >= 0 implies that the mean of p_i is at most x. In whole
    numbers: log-odds are rounded up to steps of epsilon / 256, and one more is added for what floats may get wrong; j counts
    257 such steps, so that f_j of a neighbour never exceeds f_(j+1); sigmoid is a table that never falls, rounded up.
    ``places`` are the different log-odds of the rows, and ``times`` how many rows have each.
    """

    places: Integers
    times: Integers
    table: Integers
    reach: int

    @classmethod
    def of(cls, votes: Integers, codes: Integers, *, epsilon: Fraction, reach: int) -> "RobustError":
        """Return it for the votes at each row, a column for each label, and the places of the true labels."""
        rate = float(epsilon)
        if rate < _LEAST_EPSILON:
            raise InvalidParameter("epsilon", rate, f"at least {_LEAST_EPSILON:g}")
        counts = np.asarray(votes, dtype=np.float64)
        lines = np.arange(len(counts))
        ahead = (counts - counts[lines, codes][:, None]) * (rate / 2)
        ahead[lines, codes] = -np.inf
        most = ahead.max(axis=1)
        odds = most + np.log(np.exp(ahead - most[:, None]).sum(axis=1))
        # One unit of a vote at least, and the logarithm of the labels, beyond what the votes can be.
        widest = math.ceil((counts.sum(axis=1).max(initial=0) / 2 + math.log(counts.shape[1]) / rate + 2) * _FINE)
        bottom = widest + reach * (_FINE + 1)
        at = np.arange(-bottom, bottom + 1) * (rate / _FINE)
        risen = np.ceil((1 << _BITS) * (1 + 2.0**-40) / (1 + np.exp(-np.clip(at, -700, 700))))
        table = np.maximum.accumulate(np.minimum(risen, 1 << _BITS).astype(np.int64))
        places, times = np.unique((np.ceil(odds * (_FINE / rate)).astype(np.int64) + 1) + bottom, return_counts=True)
        return cls(places, times, table, reach)

    def distance(self, at_most: Fraction) -> int:
        """Return D_x for a level x."""
        limit = math.floor(at_most * int(self.times.sum()) * (1 << _BITS))
        worst, k = self._sum_errors(0), 0  # the largest f_j - j / rows so far, or the least f_-j + j / rows
        step = 1 if worst <= limit else -1
        while abs(k) < self.reach:
            k += step
            worst = (max if step > 0 else min)(worst, self._sum_errors(k) - (k << _BITS))
            if (worst + (k << _BITS) <= limit) == (step < 0):
                return k - (step > 0)
        return k

    def _sum_errors(self, steps: int) -> int:
        """Return the sum of f_j over the rows, j = steps, in units of 2^-32."""
        return int(self.table[self.places + steps * (_FINE + 1)] @ self.times)

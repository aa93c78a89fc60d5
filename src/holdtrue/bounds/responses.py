"""Answering with a probability close to the share of votes: for labels that no hypothesis gets right always (E11).

r predictors vote, c of them for label 1, and label 1 is answered with probability p(c). If |p(c) - c / r| <= tau for all
c, the answer errs at most tau more often than the predictors do on average. A table of p is private when neighbouring
entries are close, in one of two senses.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from holdtrue.bounds.partitions import BaseRows, Partition, cheapest
from holdtrue.bounds.sizes import ROUNDING, floored, fraction
from holdtrue.errors import InvalidParameter
from holdtrue.events import BoundedRange, Event, Pure
from holdtrue.exact import Number, count, positive, probability

__all__ = [
    "Limit",
    "ResponseTable",
    "agnostic_partition",
    "clipped_laplace_bias",
    "laplace_partition",
    "response_table",
    "response_tau",
    "seed_agnostic_partition",
]

Limit: TypeAlias = Literal["log-odds", "ratio"]

_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class ResponseTable:
    """The probabilities p(0), ..., p(r) of answering 1 when c of r predictors vote for 1, and how far they are from c / r.

    Guarantee: one answer is ``event``: epsilon-bounded-range where neighbouring log-odds differ by at most epsilon
    ("log-odds"), epsilon-DP where neighbouring probabilities, of 1 and of 0, do so by a factor of at most e^epsilon
    ("ratio"). Both for one vote moved, by one row. The probabilities are rationals, so that those near 1 lose nothing.
    """

    parts: int
    epsilon: float
    limit: Limit
    tau: float
    probabilities: tuple[Fraction, ...]

    @property
    def event(self) -> Event:
        """Return what one answer is charged with."""
        return BoundedRange(self.epsilon) if self.limit == "log-odds" else Pure(self.epsilon)


def response_table(parts: int, *, epsilon: Number, limit: Limit = "log-odds") -> ResponseTable:
    """Return the table with the least tau among all of its kind (E11).

    Up to r / 2 the entry p(c) is the largest that may follow p(0) = tau and stay below c / r + tau and 1/2:
    min(c / r + tau, sigmoid(logit tau + c epsilon)), or with tau e^(c epsilon) where ratios are limited; the rest is
    mirrored, p(r - c) = 1 - p(c). The report adds Laplace noise and clips, at twice to four times the tau.
    """
    r, privacy = count("parts", parts), floored("epsilon", epsilon)
    tau = response_tau(r, epsilon=privacy, limit=limit)
    c = np.arange(r // 2 + 1)
    step = _shaded(privacy)
    if limit == "log-odds":
        rising = 1 / (1 + np.exp(np.minimum(-(_logit(tau) + c * step), 700.0)))
    else:
        rising = np.exp(np.minimum(math.log(tau) + c * step, 0.0))
    lower = [Fraction(p) for p in np.minimum(np.minimum(rising, c / r + tau), 0.5).tolist()]
    if r % 2 == 0:
        lower[-1] = Fraction(1, 2)
    upper = [1 - p for p in reversed(lower[: (r + 1) // 2])]
    return ResponseTable(r, privacy, limit, tau, tuple(lower + upper))


def response_tau(parts: int, *, epsilon: Number, limit: Limit = "log-odds") -> float:
    """Return tau, the largest |p(c) - c / r| of :func:`response_table` (E11).

    About 0.2785 / (r epsilon) once r epsilon is large and epsilon small, and more before: plan with the number itself.
    For one part it is sigmoid(-epsilon / 2) under "log-odds" and sigmoid(-epsilon) under "ratio".
    """
    r, privacy = count("parts", parts), _shaded(floored("epsilon", epsilon))
    if limit == "log-odds":
        return _log_odds_tau(r, privacy)
    if limit == "ratio":
        return _ratio_tau(r, privacy)
    raise InvalidParameter("limit", limit, "'log-odds' or 'ratio'")


def clipped_laplace_bias(parts: int, *, epsilon: Number, share: Number) -> float:
    """Return E[clip(s + Laplace(b), 0, 1)] - s = (b / 2)(e^(-s / b) - e^(-(1 - s) / b)), b = 1 / (r epsilon) (E11).

    At most b / 2 in size; the report uses b. Answering 1 with the clipped probability is epsilon-DP.
    """
    scale = 1 / (count("parts", parts) * floored("epsilon", epsilon))
    s = float(probability("share", share, zero=True, one=True))
    return scale / 2 * (math.exp(-s / scale) - math.exp(-(1 - s) / scale))


def agnostic_partition(
    *, alpha: Number, beta: Number, epsilon: Number, base_rows: BaseRows, limit: Limit = "log-odds"
) -> Partition:
    """Return the parts with the fewest rows r m(a, beta / r) such that a + tau(r, epsilon) <= alpha (E11).

    With probability 1 - beta over the rows every predictor has excess error at most a, and then the answer's expected
    error is at most min err + a + tau. ``base_rows(a, b)`` is what one predictor needs for excess a with probability
    1 - b. Needs: nothing of the labels.
    """
    target, failure = fraction("alpha", alpha), fraction("beta", beta)
    privacy = floored("epsilon", epsilon)

    def option(parts: int) -> Partition | None:
        excess = (target - response_tau(parts, epsilon=privacy, limit=limit)) / ROUNDING
        return Partition(parts, excess, base_rows(excess, failure / parts)) if excess > 0 else None

    return cheapest(option, least=lambda parts: parts * base_rows(target, failure / parts))


def laplace_partition(*, alpha: Number, beta: Number, epsilon: Number, base_rows: BaseRows) -> Partition:
    """Return r = ceil(1 / (alpha epsilon)) parts with base excess alpha / 2, for the clipped Laplace answer (E11)."""
    return _halves(alpha, beta, base_rows, parts=math.ceil(1 / (probability("alpha", alpha) * positive("epsilon", epsilon))))


def seed_agnostic_partition(*, alpha: Number, beta: Number, epsilon: Number, base_rows: BaseRows) -> Partition:
    """Return the report's Corollary 1, mended: r = ceil(2 / (alpha epsilon)), n = r m(alpha / 2, beta / r) (E11).

    The report prints n = 2 m(alpha, 2 beta alpha epsilon) / (alpha epsilon), whose excess is 3 alpha / 2 and whose
    probability of failure is 4 beta. Half as many parts are enough: :func:`laplace_partition`.
    """
    return _halves(alpha, beta, base_rows, parts=math.ceil(2 / (probability("alpha", alpha) * positive("epsilon", epsilon))))


def _halves(alpha: Number, beta: Number, base_rows: BaseRows, *, parts: int) -> Partition:
    half = fraction("alpha", alpha) / 2
    return Partition(parts, half, base_rows(half, fraction("beta", beta) / parts))


def _shaded(epsilon: float) -> float:
    """Return a slightly smaller epsilon to build a table with, so that the rounding of its entries is paid for."""
    return max(epsilon / 2, epsilon * (1 - 2.0**-40) - 2.0**-48)


@lru_cache(1 << 14)
def _log_odds_tau(parts: int, epsilon: float) -> float:
    """Return the least tau for which some table of log-odds steps <= epsilon stays within tau of c / r.

    Such a table exists exactly when logit(k / r - tau) - logit(tau) <= k epsilon for all k up to r / 2, and
    -logit(tau) <= r epsilon / 2, so that the middle is reached: by concavity of logit below one half, no other pair of
    entries binds before these do. The left side minus k epsilon is concave in k, so that its largest value over whole k
    is next to where its derivative vanishes.
    """
    product = parts * epsilon
    bend = (1 - math.sqrt(1 - 4 / product)) / 2 if product > 4 else 0.5  # noqa: PLR2004 - the slope of logit at one half
    half = parts // 2

    def enough(tau: float) -> bool:
        start = _logit(tau)
        if start < -product / 2:
            return False
        peak = math.floor(parts * (bend + tau))
        return all(
            _logit(k / parts - tau) - start <= k * epsilon
            for k in {max(1, min(half, peak)), max(1, min(half, peak + 1))}
            if half and k / parts > tau
        )

    low, high = 0.0, 0.5
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high * ROUNDING


def _ratio_tau(parts: int, epsilon: float) -> float:
    """Return the least tau for which some table of ratios <= e^epsilon stays within tau of c / r.

    From p(0) = tau entries rise by e^epsilon at most until they pass 1 / (1 + e^epsilon), and the next is past one half.
    So tau e^(k epsilon) >= k / r - tau for k up to r / 2, and the middle must be reached: tau e^(r epsilon / 2) >= 1/2
    for even r; for odd r the last entry before it must be 1 / (1 + e^epsilon) or above. k / (1 + e^(k epsilon)) is
    largest next to k epsilon = 1 + W(1 / e).
    """
    half = parts // 2
    peak = math.floor(1.2784645427610738 / epsilon) if epsilon > 1 / parts else half
    needs = [k / parts * _sigmoid(-k * epsilon) for k in {min(half, peak), min(half, peak + 1)}]
    knee = _sigmoid(-epsilon)
    reach = math.exp(-half * epsilon)
    needs += [reach / 2] if parts % 2 == 0 else [reach * knee, knee - half / parts]
    return min(0.5, max(2.0**-1000, *needs) * ROUNDING)


def _logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))

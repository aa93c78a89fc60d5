"""Predictions of labels that no hypothesis gets right always: response tables (E11) and the threshold predictor (T13).

E11 answers with a probability close to the share of votes. r predictors vote, c of them for label 1, and label 1 is answered
with probability p(c). If |p(c) - c / r| <= tau for all c, the answer errs at most tau more often than the predictors do on
average. A table of p is private when neighbouring entries are close, in one of two senses.

T13 does not depend on how many thresholds there are. Points are ordered and h_t(x) = 1 if x >= t. E_b(x) is the least number
of errors on the rows among thresholds with h(x) = b, and the label 1 is answered with probability
sigmoid(epsilon (E_0(x) - E_1(x)) / 2). One row moves each E_b by at most 1, so one answer is epsilon-DP and
epsilon-bounded-range, for any class whose constrained minimum is exact. The bounds on error are for thresholds only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.closed_forms import logit, sigmoid, smallest_float
from holdtrue.bounds.prediction import BaseRows, Partition, find_cheapest
from holdtrue.errors import InvalidParameter
from holdtrue.events import BoundedRange, Event, Pure
from holdtrue.exact import ROUNDING, Number, count, floor_positive, floor_probability, nonnegative, positive, probability

Limit: TypeAlias = Literal["log-odds", "ratio"]
Points: TypeAlias = Sequence[float] | npt.NDArray[np.generic]

_TERMS = 1 << 16


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
    r, privacy = count("parts", parts), floor_positive("epsilon", epsilon)
    tau = response_tau(r, epsilon=privacy, limit=limit)
    c = np.arange(r // 2 + 1)
    step = _shade(privacy)
    if limit == "log-odds":
        rising = 1 / (1 + np.exp(np.minimum(-(logit(tau) + c * step), 700.0)))
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
    r, privacy = count("parts", parts), _shade(floor_positive("epsilon", epsilon))
    if limit == "log-odds":
        return _log_odds_tau(r, privacy)
    if limit == "ratio":
        return _ratio_tau(r, privacy)
    raise InvalidParameter("limit", limit, "'log-odds' or 'ratio'")


def clipped_laplace_bias(parts: int, *, epsilon: Number, share: Number) -> float:
    """Return E[clip(s + Laplace(b), 0, 1)] - s = (b / 2)(e^(-s / b) - e^(-(1 - s) / b)), b = 1 / (r epsilon) (E11).

    At most b / 2 in size; the report uses b. Answering 1 with the clipped probability is epsilon-DP.
    """
    scale = 1 / (count("parts", parts) * floor_positive("epsilon", epsilon))
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
    target, failure = floor_probability("alpha", alpha), floor_probability("beta", beta)
    privacy = floor_positive("epsilon", epsilon)

    def option(parts: int) -> Partition | None:
        excess = (target - response_tau(parts, epsilon=privacy, limit=limit)) / ROUNDING
        return Partition(parts, excess, base_rows(excess, failure / parts)) if excess > 0 else None

    return find_cheapest(option, least=lambda parts: parts * base_rows(target, failure / parts))


def laplace_partition(*, alpha: Number, beta: Number, epsilon: Number, base_rows: BaseRows) -> Partition:
    """Return r = ceil(1 / (alpha epsilon)) parts with base excess alpha / 2, for the clipped Laplace answer (E11)."""
    return _partition_at_half(
        alpha, beta, base_rows, parts=math.ceil(1 / (probability("alpha", alpha) * positive("epsilon", epsilon)))
    )


def best_laplace_partition(*, alpha: Number, beta: Number, epsilon: Number, base_rows: BaseRows) -> Partition:
    """Return the parts with the fewest rows r m(a, beta / r), a = alpha - 1 / (2 r epsilon): the best cut (V6.1)."""
    target, failure = floor_probability("alpha", alpha), floor_probability("beta", beta)
    privacy = floor_positive("epsilon", epsilon)

    def option(parts: int) -> Partition | None:
        excess = (target - 1 / (2 * parts * privacy)) / ROUNDING
        return Partition(parts, excess, base_rows(excess, failure / parts)) if excess > 0 else None

    return find_cheapest(option, least=lambda parts: parts * base_rows(target, failure / parts))


def seed_agnostic_partition(*, alpha: Number, beta: Number, epsilon: Number, base_rows: BaseRows) -> Partition:
    """Return the report's Corollary 1, mended: r = ceil(2 / (alpha epsilon)), n = r m(alpha / 2, beta / r) (E11).

    The report prints n = 2 m(alpha, 2 beta alpha epsilon) / (alpha epsilon), whose excess is 3 alpha / 2 and whose
    probability of failure is 4 beta. Half as many parts are enough: :func:`laplace_partition`.
    """
    return _partition_at_half(
        alpha, beta, base_rows, parts=math.ceil(2 / (probability("alpha", alpha) * positive("epsilon", epsilon)))
    )


def _partition_at_half(alpha: Number, beta: Number, base_rows: BaseRows, *, parts: int) -> Partition:
    half = floor_probability("alpha", alpha) / 2
    return Partition(parts, half, base_rows(half, floor_probability("beta", beta) / parts))


def _shade(epsilon: float) -> float:
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
        start = logit(tau)
        if start < -product / 2:
            return False
        peak = math.floor(parts * (bend + tau))
        return all(
            logit(k / parts - tau) - start <= k * epsilon
            for k in {max(1, min(half, peak)), max(1, min(half, peak + 1))}
            if half and k / parts > tau
        )

    return smallest_float(enough, 0.0, 0.5) * ROUNDING


def _ratio_tau(parts: int, epsilon: float) -> float:
    """Return the least tau for which some table of ratios <= e^epsilon stays within tau of c / r.

    From p(0) = tau entries rise by e^epsilon at most until they pass 1 / (1 + e^epsilon), and the next is past one half.
    So tau e^(k epsilon) >= k / r - tau for k up to r / 2, and the middle must be reached: tau e^(r epsilon / 2) >= 1/2
    for even r; for odd r the last entry before it must be 1 / (1 + e^epsilon) or above. k / (1 + e^(k epsilon)) is
    largest next to k epsilon = 1 + W(1 / e).
    """
    half = parts // 2
    peak = math.floor(1.2784645427610738 / epsilon) if epsilon > 1 / parts else half
    needs = [k / parts * sigmoid(-k * epsilon) for k in {min(half, peak), min(half, peak + 1)}]
    knee = sigmoid(-epsilon)
    reach = math.exp(-half * epsilon)
    needs += [reach / 2] if parts % 2 == 0 else [reach * knee, knee - half / parts]
    return min(0.5, max(2.0**-1000, *needs) * ROUNDING)


def constrained_errors(rows: Points, labels: Points, *, at: Points) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return E_0 and E_1 at each of the given points: the fewest errors of a threshold that labels the point 0, or 1.

    They are exact counts of the rows: for the mechanism, never to be released.
    """
    return find_constrained(*count_threshold_errors(rows, labels), at=at)


def count_threshold_errors(
    rows: Points, labels: Points
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct points, and the fewest errors of a threshold at or before each and at or after it."""
    points, truth = np.asarray(rows), np.asarray(labels)
    order = np.argsort(points, kind="stable")
    values, firsts = np.unique(points[order], return_index=True)
    ones = np.concatenate([[0], np.cumsum(truth[order] == 1)])
    cuts = np.append(firsts, points.size)
    # Cut j puts the threshold at the j-th distinct value; the last one lies above them all.
    errors = ones[cuts] + (points.size - cuts) - (ones[-1] - ones[cuts])
    return values, np.minimum.accumulate(errors), np.minimum.accumulate(errors[::-1])[::-1]


def find_constrained(
    values: npt.NDArray[Any], from_left: npt.NDArray[np.int64], from_right: npt.NDArray[np.int64], *, at: Points
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return E_0 and E_1 at points from what :func:`count_threshold_errors` counted."""
    # A point between two values may have its threshold just at it or just after it: both are the cut of the next value.
    below = np.searchsorted(values, np.asarray(at), side="right")
    next_value = np.searchsorted(values, np.asarray(at), side="left")
    present = np.append(values, np.inf)[next_value] == np.asarray(at)
    zero = from_right[np.where(present, next_value + 1, next_value)]
    one = from_left[np.where(present, next_value, below)]
    return zero, one


def threshold_probabilities(rows: Points, labels: Points, *, at: Points, epsilon: Number) -> npt.NDArray[np.float64]:
    """Return the probability of answering 1 at each of the given points; it rises from left to right (T13)."""
    zero, one = constrained_errors(rows, labels, at=at)
    logits = floor_positive("epsilon", epsilon) / 2 * (zero - one)
    return np.asarray(np.exp(-np.logaddexp(0.0, -logits)), dtype=np.float64)


def threshold_rate(epsilon: Number, *, tolerance: Number = 0) -> float:
    """Return epsilon / (2 + 2 a), the weight of one error where E_b is only known to within a (T13)."""
    return floor_positive("epsilon", epsilon) / (2 + 2 * float(nonnegative("tolerance", tolerance))) / ROUNDING


def threshold_excess(rows: int, *, epsilon: Number) -> float:
    """Return (2 / n) sum over g >= 1 of 1 / (1 + e^(epsilon g / 2)), at most 4 ln 2 / (epsilon n) (T13).

    The predictor's expected errors on the rows themselves exceed those of the best threshold by no more, as a share of
    them; nearly attained. After a fixed number of terms the integral of the rest is added.
    """
    n, rate = count("rows", rows), floor_positive("epsilon", epsilon) / 2
    last = min(_TERMS, math.ceil(750 / rate)) if rate > 750 / _TERMS else _TERMS
    total = float((1 / (1 + np.exp(np.minimum(rate * np.arange(1, last + 1), 700.0)))).sum())
    rest = math.log1p(math.exp(-rate * last)) / rate
    return min(2 / n * (total + rest), 2 * math.log(2) / (rate * n)) * ROUNDING


def threshold_realizable_error(rows: int, *, epsilon: Number) -> float:
    """Return 2 / ((n + 1)(1 - e^(-epsilon / 2))): the expected error on a fresh point if some threshold is right (T13)."""
    return min(1.0, 2 / ((count("rows", rows) + 1) * -math.expm1(-floor_positive("epsilon", epsilon) / 2)) * ROUNDING)


def threshold_population_excess(rows: int, *, epsilon: Number, beta: Number) -> float:
    """Return :func:`threshold_excess` + 4 sqrt(ln(4 / beta) / (2 n)), for every distribution (T13).

    With probability 1 - beta over the rows the expected error on a fresh point exceeds the best threshold's by no more:
    the Dvoretzky-Kiefer-Wolfowitz inequality on the distributions of points labelled 0 and 1. Nothing depends on the
    number of thresholds, where choosing one privately (B6) needs ln |H| / (alpha epsilon) rows.
    """
    n, failure = count("rows", rows), floor_probability("beta", beta)
    return threshold_excess(n, epsilon=epsilon) + 4 * math.sqrt(math.log(4 / failure) / (2 * n)) * ROUNDING

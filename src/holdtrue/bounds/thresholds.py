"""A private predictor for thresholds that does not depend on how many thresholds there are (T13).

Points are ordered and h_t(x) = 1 if x >= t. E_b(x) is the least number of errors on the rows among thresholds with
h(x) = b, and the label 1 is answered with probability sigmoid(epsilon (E_0(x) - E_1(x)) / 2). One row moves each E_b by at
most 1, so one answer is epsilon-DP and epsilon-bounded-range, for any class whose constrained minimum is exact. The
bounds on error are for thresholds only.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.sizes import ROUNDING, floored, fraction
from holdtrue.exact import Number, count, nonnegative

__all__ = [
    "constrained_errors",
    "threshold_excess",
    "threshold_population_excess",
    "threshold_probabilities",
    "threshold_rate",
    "threshold_realizable_error",
]

_TERMS = 1 << 16

Points = Sequence[float] | npt.NDArray[np.generic]


def constrained_errors(rows: Points, labels: Points, *, at: Points) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return E_0 and E_1 at each of the given points: the fewest errors of a threshold that labels the point 0, or 1.

    They are exact counts of the rows: for the mechanism, never to be released.
    """
    points, truth = np.asarray(rows), np.asarray(labels)
    order = np.argsort(points, kind="stable")
    values, firsts = np.unique(points[order], return_index=True)
    ones = np.concatenate([[0], np.cumsum(truth[order] == 1)])
    cuts = np.append(firsts, points.size)
    # Cut j puts the threshold at the j-th distinct value; the last one lies above them all.
    errors = ones[cuts] + (points.size - cuts) - (ones[-1] - ones[cuts])
    from_left = np.minimum.accumulate(errors)
    from_right = np.minimum.accumulate(errors[::-1])[::-1]
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
    logits = floored("epsilon", epsilon) / 2 * (zero - one)
    return np.asarray(np.exp(-np.logaddexp(0.0, -logits)), dtype=np.float64)


def threshold_rate(epsilon: Number, *, tolerance: Number = 0) -> float:
    """Return epsilon / (2 + 2 a), the weight of one error where E_b is only known to within a (T13)."""
    return floored("epsilon", epsilon) / (2 + 2 * float(nonnegative("tolerance", tolerance))) / ROUNDING


def threshold_excess(rows: int, *, epsilon: Number) -> float:
    """Return (2 / n) sum over g >= 1 of 1 / (1 + e^(epsilon g / 2)), at most 4 ln 2 / (epsilon n) (T13).

    The predictor's expected errors on the rows themselves exceed those of the best threshold by no more, as a share of
    them; nearly attained. After a fixed number of terms the integral of the rest is added.
    """
    n, rate = count("rows", rows), floored("epsilon", epsilon) / 2
    last = min(_TERMS, math.ceil(750 / rate)) if rate > 750 / _TERMS else _TERMS
    total = float((1 / (1 + np.exp(np.minimum(rate * np.arange(1, last + 1), 700.0)))).sum())
    rest = math.log1p(math.exp(-rate * last)) / rate
    return min(2 / n * (total + rest), 2 * math.log(2) / (rate * n)) * ROUNDING


def threshold_realizable_error(rows: int, *, epsilon: Number) -> float:
    """Return 2 / ((n + 1)(1 - e^(-epsilon / 2))): the expected error on a fresh point if some threshold is right (T13)."""
    return min(1.0, 2 / ((count("rows", rows) + 1) * -math.expm1(-floored("epsilon", epsilon) / 2)) * ROUNDING)


def threshold_population_excess(rows: int, *, epsilon: Number, beta: Number) -> float:
    """Return :func:`threshold_excess` + 4 sqrt(ln(4 / beta) / (2 n)), for every distribution (T13).

    With probability 1 - beta over the rows the expected error on a fresh point exceeds the best threshold's by no more:
    the Dvoretzky-Kiefer-Wolfowitz inequality on the distributions of points labelled 0 and 1. Nothing depends on the
    number of thresholds, where choosing one privately (B6) needs ln |H| / (alpha epsilon) rows.
    """
    n, failure = count("rows", rows), fraction("beta", beta)
    return threshold_excess(n, epsilon=epsilon) + 4 * math.sqrt(math.log(4 / failure) / (2 * n)) * ROUNDING

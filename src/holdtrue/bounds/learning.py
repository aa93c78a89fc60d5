"""How many rows a private learner of a finite class needs (B6, B7, C1-C5, P3).

A class of ``size`` hypotheses is fixed before any row is seen; m rows are drawn independently. err(h) is a hypothesis'
probability of a wrong label, êrr(h) its share of wrong labels among the rows. The learner picks h with probability
proportional to e^(-(epsilon / 2) m êrr(h)) (B6), and a size is enough when err(pick) <= min err + alpha with probability
1 - beta over rows and coins. The same sizes hold for permute-and-flip, and ``epsilon=None`` gives those of the plain
empirical minimiser, without privacy. The exact binomial form of uniform convergence is in the module on accuracy.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.sizes import ROUNDING, floored, fraction, rows_at_least
from holdtrue.errors import PreconditionError
from holdtrue.exact import Number, count, nonnegative, probability

__all__ = [
    "empirical_error",
    "empirical_minimiser",
    "erm_excess",
    "free_epsilon",
    "hoeffding_half_width",
    "hoeffding_uniform_rows",
    "learning_rows",
    "lecture4_hoeffding_rows",
    "lecture4_rows",
    "lecture4_uniform_rows",
    "lecture16_rows",
    "pair_rows",
    "population_error",
    "realizable_rows",
    "split_excess",
    "split_rows",
]

_LECTURE4_LIMIT = 0.5
_GOLDEN = (math.sqrt(5) - 1) / 2
_GOLDEN_STEPS = 50

Losses = Sequence[Sequence[int]] | npt.NDArray[np.generic]


def population_error(wrong: Losses, *, weights: Sequence[float] | npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Return err(h) of each hypothesis (C1): row h of ``wrong`` marks the points it gets wrong, ``weights`` is their law.

    Lecture 4 writes "err(h) >= Pr[...]" for this equality, and states its goal about êrr where err is meant.
    """
    return np.asarray(np.asarray(wrong, dtype=np.float64) @ np.asarray(weights, dtype=np.float64))


def empirical_error(wrong: Losses) -> npt.NDArray[np.float64]:
    """Return êrr(h) of each hypothesis on these rows (C1). It depends on the rows: never to be released as it is."""
    return np.asarray(np.asarray(wrong, dtype=np.float64).mean(axis=1))


def empirical_minimiser(counts: Sequence[int] | npt.NDArray[np.generic]) -> int:
    """Return the index of the fewest errors, the lowest one of a tie (C1): ties are broken without looking at the rows."""
    return int(np.argmin(np.asarray(counts)))


def hoeffding_uniform_rows(size: int, *, half_width: Number, beta: Number) -> int:
    """Return the smallest m with Pr[some |êrr(h) - err(h)| > half_width] <= beta, by Hoeffding (C2).

    m >= ln(2 |H| / beta) / (2 half_width^2), for losses in [0, 1]. Lecture 4 calls 2 e^(-m a^2 / 3) by the same name:
    :func:`lecture4_uniform_rows` keeps it; it is true and asks for six times as many rows.
    """
    return rows_at_least(_over_square(_log_ratio(2 * count("size", size), beta) / 2, fraction("half_width", half_width)))


def lecture4_uniform_rows(size: int, *, half_width: Number, beta: Number) -> int:
    """Return m >= 3 ln(2 |H| / beta) / half_width^2: uniform convergence with Lecture 4's weaker exponent (C2)."""
    return rows_at_least(_over_square(3 * _log_ratio(2 * count("size", size), beta), fraction("half_width", half_width)))


def hoeffding_half_width(size: int, *, rows: int, beta: Number) -> float:
    """Return a with Pr[some |êrr(h) - err(h)| > a] <= beta over so many rows, by Hoeffding (C2); 1 says nothing."""
    return min(1.0, math.sqrt(_log_ratio(2 * count("size", size), beta) / (2 * count("rows", rows))) * ROUNDING)


def erm_excess(*, half_width: Number, slack: Number = 0) -> float:
    """Return 2 half_width + slack, which err(pick) - min err never exceeds where all |êrr - err| <= half_width (C3, C4).

    ``slack`` bounds êrr(pick) - min êrr: 0 for the empirical minimiser, a shortfall over m for a private pick. The chain
    is err(pick) <= êrr(pick) + a <= êrr(h*) + slack + a <= err(h*) + slack + 2 a. Lecture 4 starts it with
    êrr(pick) <= err(pick) + a, the direction that does not help, and so ends on êrr(pick).
    """
    return float(2 * probability("half_width", half_width, zero=True, one=True) + nonnegative("slack", slack)) * ROUNDING


def lecture4_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return Lecture 4's size, max{27 ln(4 |H| / beta) / alpha^2, 6 ln(2 |H| / beta) / (alpha epsilon)} (C4).

    Three thirds of alpha (uniform convergence twice, the choice once), two halves of beta. Needs: alpha and beta in
    (0, 1/2]. The lecture prints Theta(log(1/delta) ...) for log |H|, 1 - 2 beta for 1 - 2 beta', and a stray 2 Delta /
    epsilon in the score bound; the constants here are what its own steps give once those are mended.
    """
    return _lecture4(size, alpha, beta, epsilon, constant=27.0)


def lecture4_hoeffding_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return Lecture 4's size with Hoeffding's own exponent: 4.5 in the place of 27 (C2, C4). Needs: as Lecture 4."""
    return _lecture4(size, alpha, beta, epsilon, constant=4.5)


def lecture16_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return Lecture 16's size, max{8 ln(4 |H| / beta) / alpha^2, 4 ln(2 |H| / beta) / (alpha epsilon)} (B7).

    Uniform convergence at alpha / 4 in both directions fails with probability beta / 2, the choice misses by alpha / 2
    with probability beta / 2. The lecture uses alpha / 2 in one direction, which gives 3 alpha / 2, and leaves the
    statistical term out of its conclusion.
    """
    members, excess = count("size", size), fraction("alpha", alpha)
    statistical = _over_square(8 * _log_ratio(4 * members, beta), excess)
    return rows_at_least(max(statistical, _private_term(4 * _log_ratio(2 * members, beta) / excess, epsilon)))


def pair_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return m >= ln((|H| - 1) / beta) / -ln(cosh r - alpha sinh r), r = min(epsilon / 2, atanh alpha) (P3).

    A hypothesis h worse than h* by more than alpha is picked with probability at most e^(-r (X_h - X_h*)), where X
    counts errors; X_h - X_h* is a sum of m independent terms in [-1, 1] with mean above alpha, so its exponential moment
    is at most (cosh r - alpha sinh r)^m; union over h. Needs: nothing more. Replaces B7 and C4 (Lectures 16 and 4).
    """
    members, excess = count("size", size), fraction("alpha", alpha)
    log_odds = _log_ratio(max(members - 1, 1), beta)
    if members == 1:
        return 1
    rate = min(_rate(epsilon), math.atanh(excess))
    # 1 - (cosh r - alpha sinh r) without cancellation in the cosh.
    return _quotient(log_odds, -math.log1p(2 * math.sinh(rate / 2) ** 2 - excess * math.sinh(rate)))


def split_excess(size: int, *, rows: int, beta: Number, epsilon: Number | None = None) -> float:
    """Return the alpha that the split bound gives for so many rows; above 1 it says nothing (P3).

    With probability 1 - w beta, êrr(h*) <= err(h*) + a, a = sqrt(ln(1 / (w beta)) / (2 m)); given that, some h worse by
    more than a + t is picked with probability at most (|H| - 1) e^(-m psi(t)), psi(t) = r t - r^2 / 8 with
    r = min(epsilon / 2, 4 t), by Hoeffding's lemma: (1 - w) beta. The sum a + t is least at some share w, which is
    searched for: every w is valid, and the sum is convex in w for beta up to e^(-1/2).
    """
    members, m = count("size", size), count("rows", rows)
    certain, rival = _log_ratio(1, beta), _log_ratio(max(members - 1, 1), beta)
    if members == 1:
        return 0.0
    rate = _rate(epsilon)

    def total(share: float) -> float:
        first = math.sqrt((certain - math.log(share)) / (2 * m))
        return first + _inverse_psi((rival - math.log1p(-share)) / m, rate)

    return _least(total) * ROUNDING


def split_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return the smallest m for which :func:`split_excess` is at most alpha (P3)."""
    excess = fraction("alpha", alpha)
    if epsilon is None:  # then the excess falls exactly as one over the root of m
        return rows_at_least((split_excess(size, rows=1, beta=beta) / excess) ** 2)

    def enough(rows: int) -> bool:
        return split_excess(size, rows=rows, beta=beta, epsilon=epsilon) <= excess

    low, high = 0, 1
    while not enough(high):
        low, high = high, rows_at_least(2.0 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def learning_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return the smaller of :func:`pair_rows` and :func:`split_rows`: the size that Holdtrue plans with (P3).

    Both bounds hold for every distribution, so the smaller does. Pair wins for small epsilon, split for large classes.
    """
    return min(
        pair_rows(size, alpha=alpha, beta=beta, epsilon=epsilon),
        split_rows(size, alpha=alpha, beta=beta, epsilon=epsilon),
    )


def realizable_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return m >= ln((|H| - 1) / beta) / -ln(1 - alpha (1 - e^(-epsilon / 2))), if some hypothesis is never wrong (P3).

    A hypothesis with err > alpha is picked with probability at most e^(-(epsilon / 2) X_h), X_h its errors, whose mean
    is at most (1 - alpha (1 - e^(-epsilon / 2)))^m; union over h. Needs: min err = 0. Without privacy it is the familiar
    ln(|H| / beta) / alpha, a little below.
    """
    members, excess = count("size", size), fraction("alpha", alpha)
    log_odds = _log_ratio(max(members - 1, 1), beta)
    if members == 1:
        return 1
    return _quotient(log_odds, -math.log1p(excess * math.expm1(-_rate(epsilon))))


def free_epsilon(alpha: Number) -> float:
    """Return 2 atanh(alpha): at this epsilon and above, :func:`pair_rows` is the same with and without privacy (C5).

    Below it the size grows as 2 ln(|H| / beta) / (alpha epsilon): inversely in alpha and epsilon, where Lecture 4 says
    "linear".
    """
    return 2 * math.atanh(fraction("alpha", alpha)) * ROUNDING


def _lecture4(size: int, alpha: Number, beta: Number, epsilon: Number | None, *, constant: float) -> int:
    members, excess, failure = count("size", size), fraction("alpha", alpha), fraction("beta", beta)
    for name, value in (("alpha", excess), ("beta", failure)):
        if value > _LECTURE4_LIMIT:
            message = f"Lecture 4's size needs {name} in (0, 1/2]; got {value:g}, and 0.5 would do"
            raise PreconditionError(message)
    statistical = _over_square(constant * _log_ratio(4 * members, beta), excess)
    return rows_at_least(max(statistical, _private_term(6 * _log_ratio(2 * members, beta) / excess, epsilon)))


def _private_term(numerator: float, epsilon: Number | None) -> float:
    return 0.0 if epsilon is None else numerator / floored("epsilon", epsilon)


def _log_ratio(members: int, beta: Number) -> float:
    """Return ln(members / beta), for any number of members."""
    return math.log(members) - math.log(fraction("beta", beta))


def _over_square(numerator: float, value: float) -> float:
    # One division at a time: the square of a tiny number would be zero, the quotient is infinite at worst.
    return numerator / value / value


def _rate(epsilon: Number | None) -> float:
    """Return epsilon / 2, the weight of one error (B6); without privacy there is no limit to it."""
    return math.inf if epsilon is None else floored("epsilon", epsilon) / 2


def _quotient(log_odds: float, exponent: float) -> int:
    return rows_at_least(log_odds / exponent if exponent > 0 else math.inf)


def _inverse_psi(x: float, rate: float) -> float:
    """Return t with psi(t) = x: psi is 2 t^2 up to t = rate / 4 and rate t - rate^2 / 8 from there."""
    return math.sqrt(x / 2) if 8 * x <= rate * rate else x / rate + rate / 8


def _least(function: Callable[[float], float]) -> float:
    """Return the least value on (0, 1) that a golden-section search finds."""
    low, high = 0.0, 1.0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_GOLDEN_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return min(at_left, at_right)

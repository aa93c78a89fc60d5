"""How many rows a private learner of a finite class needs (B6, B7, C1-C5, N3).

A class of ``size`` hypotheses is fixed before any row is seen; m rows are drawn independently. err(h) is a hypothesis'
probability of a wrong label, êrr(h) its share of wrong labels among the rows. The learner picks h with probability
proportional to e^(-(epsilon / 2) m êrr(h)) (B6), and a size is enough when err(pick) <= min err + alpha with probability
1 - beta over rows and coins. The same sizes hold for permute-and-flip, and ``epsilon=None`` gives those of the plain
empirical minimiser, without privacy. Uniform convergence by Hoeffding and in its exact binomial form is in
:mod:`holdtrue.bounds.accuracy`.

For S2, how far a pick may be behind the best when classes and epsilon come from earlier answers, classes may have
handicaps: whole errors added to the counts of all members of a class, fixed before data. The pick is proportional to
e^(-(epsilon / 2)(errors + handicap)), which is epsilon-DP as without (B6: one row moves each count by one). Write
N_j = sum over classes i of size_i e^(-rate (handicap_i - handicap_j)) - 1, the other members as seen from a member of
class j, h*; without handicaps it is the number of members less one, for every rate. A pick h with more errors than a fixed
h* of class j is taken with probability at most e^(-rate (X_h - X_h* + c_h - c_j)), X counting errors, rate any number up to
epsilon / 2: the weight of h* is part of what is divided by, and a probability is at most any power below one of itself.
All bounds of S2 follow from this line.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.closed_forms import golden, smallest, smallest_float
from holdtrue.bounds.accuracy import largest_mean
from holdtrue.errors import PreconditionError
from holdtrue.exact import (
    ROUNDING,
    Number,
    count,
    floor_positive,
    floor_probability,
    nonnegative,
    probability,
    rows_at_least,
)

_LECTURE4_LIMIT = 0.5
_MOST_ROWS = 2**62
_LOG_ROUNDING = 2.0**-44  # what products, logarithms and their sum may be off by, relative to the largest of them
_SHARES = [2.0 ** (-k / 2) for k in range(1, 24)]

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


def lecture4_uniform_rows(size: int, *, half_width: Number, beta: Number) -> int:
    """Return m >= 3 ln(2 |H| / beta) / half_width^2: uniform convergence with Lecture 4's weaker exponent (C2)."""
    return rows_at_least(
        _over_square(3 * _log_ratio(2 * count("size", size), beta), floor_probability("half_width", half_width))
    )


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
    members, excess = count("size", size), floor_probability("alpha", alpha)
    statistical = _over_square(8 * _log_ratio(4 * members, beta), excess)
    return rows_at_least(max(statistical, _private_term(4 * _log_ratio(2 * members, beta) / excess, epsilon)))


def pair_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return m >= ln((|H| - 1) / beta) / -ln(cosh r - alpha sinh r), r = min(epsilon / 2, atanh alpha) (N3).

    A hypothesis h worse than h* by more than alpha is picked with probability at most e^(-r (X_h - X_h*)), where X
    counts errors; X_h - X_h* is a sum of m independent terms in [-1, 1] with mean above alpha, so its exponential moment
    is at most (cosh r - alpha sinh r)^m; union over h. Needs: nothing more. Replaces B7 and C4 (Lectures 16 and 4).
    """
    members, excess = count("size", size), floor_probability("alpha", alpha)
    log_odds = _log_ratio(max(members - 1, 1), beta)
    if members == 1:
        return 1
    rate = min(_rate(epsilon), math.atanh(excess))
    # 1 - (cosh r - alpha sinh r) without cancellation in the cosh.
    return _quotient(log_odds, -math.log1p(2 * math.sinh(rate / 2) ** 2 - excess * math.sinh(rate)))


def split_excess(size: int, *, rows: int, beta: Number, epsilon: Number | None = None) -> float:
    """Return the alpha that the split bound gives for this many rows; above 1 it says nothing (N3).

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

    return total(golden(total, 0.0, 1.0, steps=50)) * ROUNDING


def split_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return the smallest m for which :func:`split_excess` is at most alpha (N3)."""
    excess = floor_probability("alpha", alpha)
    if epsilon is None:  # then the excess falls exactly as one over the root of m
        return rows_at_least((split_excess(size, rows=1, beta=beta) / excess) ** 2)

    def enough(rows: int) -> bool:
        return split_excess(size, rows=rows, beta=beta, epsilon=epsilon) <= excess

    return smallest(enough, 1, most=_MOST_ROWS) or rows_at_least(math.inf)


def learning_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return the smaller of :func:`pair_rows` and :func:`split_rows`: the size that Holdtrue plans with (N3).

    Both bounds hold for every distribution, so the smaller does. Pair wins for small epsilon, split for large classes.
    """
    return min(
        pair_rows(size, alpha=alpha, beta=beta, epsilon=epsilon),
        split_rows(size, alpha=alpha, beta=beta, epsilon=epsilon),
    )


def realizable_rows(size: int, *, alpha: Number, beta: Number, epsilon: Number | None = None) -> int:
    """Return m >= ln((|H| - 1) / beta) / -ln(1 - alpha (1 - e^(-epsilon / 2))), if some hypothesis is never wrong (N3).

    A hypothesis with err > alpha is picked with probability at most e^(-(epsilon / 2) X_h), X_h its errors, whose mean
    is at most (1 - alpha (1 - e^(-epsilon / 2)))^m; union over h. Needs: min err = 0. Without privacy it is the familiar
    ln(|H| / beta) / alpha, a little below.
    """
    members, excess = count("size", size), floor_probability("alpha", alpha)
    log_odds = _log_ratio(max(members - 1, 1), beta)
    if members == 1:
        return 1
    return _quotient(log_odds, -math.log1p(excess * math.expm1(-_rate(epsilon))))


def realizable_error(log_seen: float, *, rows: int, epsilon: Number, beta: Number) -> float:
    """Return (1 - (beta / N)^(1 / m)) / (1 - e^(-epsilon / 2)), which err(pick) exceeds at most with probability beta.

    Needs: some hypothesis that is never wrong, a class fixed before any row is seen, and independent rows. It is
    :func:`realizable_rows` solved for alpha (V4.2 i), with N the other members as seen from that hypothesis: |H| - 1
    for one class.

    >>> round(realizable_error(math.log(49), rows=172, epsilon=1, beta=0.05), 4)
    0.0998
    """
    if log_seen == -math.inf:
        return 0.0
    exponent = (math.log(floor_probability("beta", beta)) - log_seen) / count("rows", rows)
    return min(1.0, math.expm1(exponent) / math.expm1(-floor_positive("epsilon", epsilon) / 2) * ROUNDING)


def localised_error(size: int, *, rows: int, share: float, beta: Number) -> float:
    """Return a bound for err(pick), given that ``share`` is at least its share of errors among the rows (V4.2 ii).

    With probability 1 - 3/4 beta no hypothesis of the class has kl(share, err) above ln(size / (3/4 beta)) / rows: however
    the pick was made, and whatever was answered before or after. A quarter of beta is left for the noise of the share.
    Needs: a class fixed before any row is seen, and independent rows.
    """
    exponent = (math.log(count("size", size)) - math.log(0.75 * floor_probability("beta", beta))) / count("rows", rows)
    return largest_mean(share, exponent * ROUNDING)


def free_epsilon(alpha: Number) -> float:
    """Return 2 atanh(alpha): at this epsilon and above, :func:`pair_rows` is the same with and without privacy (C5).

    Below it the size grows as 2 ln(|H| / beta) / (alpha epsilon): inversely in alpha and epsilon, where Lecture 4 says
    "linear".
    """
    return 2 * math.atanh(floor_probability("alpha", alpha)) * ROUNDING


def _lecture4(size: int, alpha: Number, beta: Number, epsilon: Number | None, *, constant: float) -> int:
    members, excess, failure = count("size", size), floor_probability("alpha", alpha), floor_probability("beta", beta)
    for name, value in (("alpha", excess), ("beta", failure)):
        if value > _LECTURE4_LIMIT:
            message = f"Lecture 4's size needs {name} in (0, 1/2]; got {value:g}, and 0.5 would do"
            raise PreconditionError(message)
    statistical = _over_square(constant * _log_ratio(4 * members, beta), excess)
    return rows_at_least(max(statistical, _private_term(6 * _log_ratio(2 * members, beta) / excess, epsilon)))


def _private_term(numerator: float, epsilon: Number | None) -> float:
    return 0.0 if epsilon is None else numerator / floor_positive("epsilon", epsilon)


def _log_ratio(members: int, beta: Number) -> float:
    """Return ln(members / beta), for any number of members."""
    return math.log(members) - math.log(floor_probability("beta", beta))


def _over_square(numerator: float, value: float) -> float:
    # One division at a time: the square of a tiny number would be zero, the quotient is infinite at worst.
    return numerator / value / value


def _rate(epsilon: Number | None) -> float:
    """Return epsilon / 2, the weight of one error (B6); without privacy there is no limit to it."""
    return math.inf if epsilon is None else floor_positive("epsilon", epsilon) / 2


def _quotient(log_odds: float, exponent: float) -> int:
    return rows_at_least(log_odds / exponent if exponent > 0 else math.inf)


def _inverse_psi(x: float, rate: float) -> float:
    """Return t with psi(t) = x: psi is 2 t^2 up to t = rate / 4 and rate t - rate^2 / 8 from there."""
    return math.sqrt(x / 2) if 8 * x <= rate * rate else x / rate + rate / 8


def log_seen_size(sizes: Sequence[int], *, handicaps: Sequence[int], place: int, rate: float) -> float:
    """Return ln N_j, rounded up: the logarithm of how many other members are seen from a member of the class at a place.

    Minus infinity where there are none. Only logarithms are formed, so that handicaps of any size count in full.
    """
    others = [size - (number == place) for number, size in enumerate(sizes)]
    logs = [
        math.log(other) - rate * (handicap - handicaps[place])
        for other, handicap in zip(others, handicaps, strict=True)
        if other
    ]
    if not logs:
        return -math.inf
    largest = max(logs)
    total = largest + math.log(math.fsum(math.exp(each - largest) for each in logs))
    return total + _LOG_ROUNDING * (1 + max(map(abs, logs)))


def adaptive_excess(  # noqa: PLR0913 - the statement has these symbols
    log_seen: float, *, rows: int, epsilon: Number, beta: Number, gap: float, booked: Number | None = None
) -> float:
    """Return alpha with err(pick) <= err(h*) + alpha w.p. 1 - beta, where the classes may depend on earlier answers (S2).

    alpha = 2 gap + (2 / (m epsilon))(ln(N / beta) + r - 1 - ln r), r = epsilon / booked. ``gap`` is
    tanh(e / 4) + delta(e) / beta for an (e, delta(e))-DP ledger, e fixed before data. All of beta serves both parts, so no
    split of it can be chosen after the past. ``booked``, fixed before data, is the epsilon for which the overshoot
    eta = beta / (m booked) of the pick is set aside; the pick's own epsilon may then come from the past, as N may. At
    booked = epsilon, the default, r is 1: that is for an epsilon that is itself fixed before data. Needs: independent rows.
    """
    m, privacy = count("rows", rows), floor_positive("epsilon", epsilon)
    if log_seen == -math.inf:
        return 0.0
    return (2 * gap + 2 / (m * privacy) * _pick(log_seen, epsilon, beta, booked)) * ROUNDING


def adaptive_rows(  # noqa: PLR0913 - the statement has these symbols
    log_seen: float, *, alpha: Number, epsilon: Number, beta: Number, gap: float, booked: Number | None = None
) -> int | None:
    """Return the fewest rows for which :func:`adaptive_excess` is at most alpha; None where 2 gap alone is more."""
    room = floor_probability("alpha", alpha) / ROUNDING - 2 * gap
    if room <= 0:
        return None
    return rows_at_least(2 / (floor_positive("epsilon", epsilon) * room) * _pick(log_seen, epsilon, beta, booked))


def _pick(log_seen: float, epsilon: Number, beta: Number, booked: Number | None) -> float:
    """Return ln(N / beta) + r - 1 - ln r, at least 0: what the pick adds, in units of 2 / (m epsilon)."""
    ratio = 1.0 if booked is None else floor_positive("epsilon", epsilon) / floor_positive("booked", booked)
    return max(0.0, log_seen - math.log(floor_probability("beta", beta)) + max(0.0, ratio - 1 - math.log(ratio)))


def fixed_excess(  # noqa: PLR0913 - the statement has these symbols
    sizes: Sequence[int], *, handicaps: Sequence[int], place: int, rows: int, epsilon: Number, beta: Number
) -> float:  # fmt: skip
    """Return alpha with err(pick) <= err(h*) + alpha w.p. 1 - beta, h* the best of the class at a place; 1 says nothing.

    Needs: classes and handicaps fixed before any row is seen, independent rows. The smallest alpha with
    N(r) (cosh r - alpha sinh r)^m <= beta, r = min(epsilon / 2, atanh alpha), or with the split bound's
    a + t, e^(-2 m a^2) + N(r) e^(-m (r t - r^2 / 8)) <= beta, r = min(epsilon / 2, 4 t): N3's two bounds, whose proofs
    need of |H| - 1 only that it is the sum of the factors in the last line at the head of this module.
    """
    failure, privacy, m = floor_probability("beta", beta), floor_positive("epsilon", epsilon), count("rows", rows)

    def members(rate: float) -> float:
        return log_seen_size(sizes, handicaps=handicaps, place=place, rate=rate)

    def pair(alpha: float) -> bool:
        rate = min(privacy / 2, math.atanh(alpha))
        exponent = -math.log1p(2 * math.sinh(rate / 2) ** 2 - alpha * math.sinh(rate))
        return members(rate) - m * exponent * (1 - 2.0**-40) <= math.log(failure)

    def split(alpha: float, share: float) -> bool:
        rest = alpha - math.sqrt((-math.log(failure) - math.log(share)) / (2 * m))
        if rest <= 0:
            return False
        rate = min(privacy / 2, 4 * rest)
        exponent = rate * rest - rate * rate / 8
        return members(rate) - m * exponent * (1 - 2.0**-40) <= math.log(failure) + math.log1p(-share)

    if sum(sizes) == 1:
        return 0.0
    found = [_least_alpha(pair)] + [_least_alpha(lambda alpha, share=share: split(alpha, share)) for share in _SHARES]  # type: ignore[misc]
    return min(1.0, min(found) * ROUNDING)


def _least_alpha(enough: Callable[[float], bool]) -> float:
    """Return the smallest alpha in (0, 1) that is enough, found from above; 1 where none is."""
    highest = 1 - 2.0**-40
    return smallest_float(enough, 0.0, highest) if enough(highest) else 1.0

"""How far a private pick from finite classes may be behind the best for the population.

Classes may have handicaps: whole errors added to the counts of all members of a class, fixed before data. The pick is
proportional to e^(-(epsilon / 2)(errors + handicap)), which is epsilon-DP as without (B6: one row moves each count by one).
Write N_j = sum over classes i of size_i e^(-rate (handicap_i - handicap_j)) - 1, the other members as seen from a member of
class j, h*; without handicaps it is the number of members less one, for every rate.

A pick h with more errors than a fixed h* of class j is taken with probability at most e^(-rate (X_h - X_h* + c_h - c_j)),
X counting errors, rate any number up to epsilon / 2: the weight of h* is part of what is divided by, and a probability is at
most any power below one of itself. All bounds here follow from this line.
"""

import math
from collections.abc import Callable, Sequence

from holdtrue.bounds.sizes import ROUNDING, floored, fraction, rows_at_least
from holdtrue.exact import Number, count

__all__ = ["adaptive_excess", "adaptive_rows", "fixed_excess", "log_seen_size"]

_BISECTIONS = 60
_LOG_ROUNDING = 2.0**-44  # what products, logarithms and their sum may be off by, relative to the largest of them
_SHARES = [2.0 ** (-k / 2) for k in range(1, 24)]


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
    """Return alpha with err(pick) <= err(h*) + alpha but for beta, where the classes may depend on earlier answers (S2).

    alpha = 2 gap + (2 / (m epsilon))(ln(N / beta) + r - 1 - ln r), r = epsilon / booked. ``gap`` is
    tanh(e / 4) + delta(e) / beta for an (e, delta(e))-DP ledger, e fixed before data. All of beta serves both parts, so no
    split of it can be chosen after the past. ``booked``, fixed before data, is the epsilon for which the overshoot
    eta = beta / (m booked) of the pick is set aside; the pick's own epsilon may then come from the past, as N may. At
    booked = epsilon, the default, r is 1: that is for an epsilon that is itself fixed before data. Needs: independent rows.
    """
    m, privacy = count("rows", rows), floored("epsilon", epsilon)
    if log_seen == -math.inf:
        return 0.0
    return (2 * gap + 2 / (m * privacy) * _pick(log_seen, epsilon, beta, booked)) * ROUNDING


def adaptive_rows(  # noqa: PLR0913 - the statement has these symbols
    log_seen: float, *, alpha: Number, epsilon: Number, beta: Number, gap: float, booked: Number | None = None
) -> int | None:
    """Return the fewest rows for which :func:`adaptive_excess` is at most alpha; None where 2 gap alone is more."""
    room = fraction("alpha", alpha) / ROUNDING - 2 * gap
    if room <= 0:
        return None
    return rows_at_least(2 / (floored("epsilon", epsilon) * room) * _pick(log_seen, epsilon, beta, booked))


def _pick(log_seen: float, epsilon: Number, beta: Number, booked: Number | None) -> float:
    """Return ln(N / beta) + r - 1 - ln r, at least 0: what the pick adds, in units of 2 / (m epsilon)."""
    ratio = 1.0 if booked is None else floored("epsilon", epsilon) / floored("booked", booked)
    return max(0.0, log_seen - math.log(fraction("beta", beta)) + max(0.0, ratio - 1 - math.log(ratio)))


def fixed_excess(  # noqa: PLR0913 - the statement has these symbols
    sizes: Sequence[int], *, handicaps: Sequence[int], place: int, rows: int, epsilon: Number, beta: Number
) -> float:  # fmt: skip
    """Return alpha with err(pick) <= err(h*) + alpha but for beta, h* the best of the class at a place; 1 says nothing.

    Needs: classes and handicaps fixed before any row is seen, independent rows. The smallest alpha with
    N(r) (cosh r - alpha sinh r)^m <= beta, r = min(epsilon / 2, atanh alpha), or with the split bound's
    a + t, e^(-2 m a^2) + N(r) e^(-m (r t - r^2 / 8)) <= beta, r = min(epsilon / 2, 4 t): P3's two bounds, whose proofs
    need of |H| - 1 only that it is the sum of the factors in the line at the head of this module.
    """
    failure, privacy, m = fraction("beta", beta), floored("epsilon", epsilon), count("rows", rows)

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
    found = [_least(pair)] + [_least(lambda alpha, share=share: split(alpha, share)) for share in _SHARES]  # type: ignore[misc]
    return min(1.0, min(found) * ROUNDING)


def _least(enough: Callable[[float], bool]) -> float:
    """Return the smallest alpha in (0, 1) that is enough, found from above; 1 where none is."""
    low, high = 0.0, 1 - 2.0**-40
    if not enough(high):
        return 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if middle > 0 and enough(middle) else (middle, high)
    return high

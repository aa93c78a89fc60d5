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

__all__ = ["adaptive_excess", "adaptive_rows", "fixed_excess", "seen_size"]

_BISECTIONS = 60
_SHARES = [2.0 ** (-k / 2) for k in range(1, 24)]


def seen_size(sizes: Sequence[int], *, handicaps: Sequence[int], place: int, rate: float) -> float:
    """Return N_j: how many other members all classes have together, as seen from a member of the class at a place."""
    pairs = zip(sizes, handicaps, strict=True)
    factors = [size * math.exp(min(700.0, -rate * (other - handicaps[place]))) for size, other in pairs]
    return max(0.0, sum(factors) * ROUNDING - 1)


def adaptive_excess(
    seen: float, *, rows: int, epsilon: Number, beta: Number, gap: Callable[[float], float]
) -> float:  # fmt: skip
    """Return alpha with err(pick) <= err(h*) + alpha but for beta, where the classes may depend on earlier answers (T5).

    alpha = 2 gamma(p2) + (2 / (m epsilon))(ln(N / p1) + 1) with p1 + p2 = beta; ``gap(p2)`` is T5's gamma for the ledger
    that pays, fixed before data. Let q be (1 + wrong(pick) - wrong(h*)) / 2, a query into [0, 1] that the transcript and the
    population determine, h* being the best of the population. T5 moves its mean by at most gamma from the sample to the
    population, but for p2; and given the rows and the past, errors(pick) - errors(h*) passes s with probability at most
    N e^(-epsilon s / 2), whose mean over its worst p1-fraction is (2 / epsilon)(ln(N / p1) + 1). Needs: independent rows.
    """
    failure, privacy, m = fraction("beta", beta), floored("epsilon", epsilon), count("rows", rows)

    def total(share: float) -> float:
        """Return alpha where this share of beta goes to the pick, the rest to the gap."""
        picked = 2 / (m * privacy) * max(0.0, _log(seen) - math.log(failure * share) + 1)
        return picked + 2 * gap(failure * (1 - share))

    return min(total(share) for share in _SHARES) * ROUNDING if seen > 0 else 0.0


def adaptive_rows(seen: float, *, alpha: Number, epsilon: Number, beta: Number, gap: Callable[[float], float]) -> int | None:
    """Return the fewest rows for which :func:`adaptive_excess` is at most alpha; None where 2 gamma alone is more."""
    failure, privacy, target = fraction("beta", beta), floored("epsilon", epsilon), fraction("alpha", alpha)
    found = []
    for share in _SHARES:
        room = target / ROUNDING - 2 * gap(failure * (1 - share))
        if room > 0:
            found.append(2 / (privacy * room) * max(0.0, _log(seen) - math.log(failure * share) + 1))
    return rows_at_least(min(found)) if found else None


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
        return _log(seen_size(sizes, handicaps=handicaps, place=place, rate=rate))

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


def _log(seen: float) -> float:
    return math.log(seen) if seen > 0 else -math.inf


def _least(enough: Callable[[float], bool]) -> float:
    """Return the smallest alpha in (0, 1) that is enough, found from above; 1 where none is."""
    low, high = 0.0, 1 - 2.0**-40
    if not enough(high):
        return 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if middle > 0 and enough(middle) else (middle, high)
    return high

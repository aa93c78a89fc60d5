"""Levels of a budget: a transcript up to a total is as private as the level above that total, fixed before data (T7)."""

import math
from functools import lru_cache

from holdtrue.bounds.accuracy import SAFE
from holdtrue.bounds.transfer import Shift, concentrated_shift, gaussian_shift, position_alpha, stitched_level
from holdtrue.exact import UNIT, round_up
from holdtrue.planning.tasks import Ledger

__all__ = ["STITCH", "joint_gap", "level_shift"]

STITCH = 6 / math.pi**2
"""The shares 6 / (pi^2 k^2) of all k >= 1 sum to one."""


def level_shift(ledger: Ledger, spent: int, *, first: int, cap: int, beta: float) -> Shift:
    """Return T5's shift for all that was let out when so many units were spent, at every total at once, but for beta.

    Level l holds totals up to first 2^l units, or up to the cap, and has a share 6 / (pi^2 (l + 1)^2) of beta. Needs:
    ``first``, ``cap`` and ``beta`` fixed before data. On a pure ledger there are no levels, and nothing can fail.
    """
    if ledger == "pure":
        total = round_up(spent * UNIT)
        return Shift(math.tanh(total / 4) * SAFE, total, 0.0)
    level = stitched_level(min(spent, cap), first=first)
    return _shift(ledger, min(first << level, cap), _share(level, beta))


def joint_gap(ledger: Ledger, spent: int, *, first: int, cap: int, beta: float) -> tuple[float, float]:
    """Return tanh(e / 4) + delta(e) / b at the level of a total, and the share b of beta that the level has (S2, T7).

    Levels, shares and needs are those of :func:`level_shift`, and so is e, which depends on level and beta alone. On a pure
    ledger delta is 0, and b all of beta.
    """
    gap = level_shift(ledger, spent, first=first, cap=cap, beta=beta)
    share = beta if ledger == "pure" else _share(stitched_level(min(spent, cap), first=first), beta)
    return position_alpha(noise=0.0, epsilon=gap.epsilon, slack=gap.slack), share


def _share(level: int, beta: float) -> float:
    return beta * STITCH / (level + 1) ** 2


@lru_cache(4096)
def _shift(ledger: Ledger, units: int, beta: float) -> Shift:
    total = round_up(units * UNIT)
    if ledger == "gdp":
        return gaussian_shift(math.sqrt(total) * SAFE, beta=beta)
    return concentrated_shift(total, beta=beta)

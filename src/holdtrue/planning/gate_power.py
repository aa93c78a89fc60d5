"""What a gate finds: how often it says yes to a true gain, which gain it finds, and how many cases that needs (V1.3)."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.closed_forms import smallest_float
from holdtrue.bounds.gate_levels import bet_on_wins

__all__ = ["POWER", "cases_for_gain", "count_wins", "find_gain", "gate_power"]

Whole: TypeAlias = npt.NDArray[np.int64]

POWER = 0.8
_REACH = 7  # deviations of the number of differing cases that are counted; beyond lie 3e-12
_STEADY = 20  # power is not monotone in the cases, which come one by one: it must hold for as many sizes in a row
_MOST_CASES = 1 << 26
_MOST_NUMBERS = 1 << 10  # numbers of differing cases that are summed over; of more, some that lie evenly
_DEEPEST = 700.0


@lru_cache(maxsize=1024)
def gate_power(cases: int, *, discordant: float, gain: float, level: float, betting: bool = False) -> float:
    """Return how often a gate says yes at a level, with margin 0, to a submission that is truly better.

    By exact pairs, or by ``betting``, with each case that differs won or lost.

    Each case differs with probability ``discordant``, and is then won with probability (1 + gain/discordant)/2: the
    binomial number of differing cases, and of wins among them, are summed over.
    """
    if level > _DEEPEST:
        return 0.0
    spread = _REACH * math.sqrt(cases * discordant * (1 - discordant)) + 3
    differing: Whole = np.arange(
        max(0, math.floor(cases * discordant - spread)), min(cases, math.ceil(cases * discordant + spread)) + 1
    )
    differing = differing[:: 1 + differing.size // _MOST_NUMBERS]
    chance = min(1.0, (1 + gain / discordant) / 2)
    weights = _binomial_chance(differing, cases, discordant)
    needed = count_wins(differing, math.exp(-level), betting=betting)
    return float((weights * _binomial_tail(needed, differing, chance)).sum() / weights.sum())


def count_wins(differing: Whole, level: float, *, betting: bool = False) -> Whole:
    """Return for each number of differing cases the fewest wins that are a yes; one more than differ where none are."""
    low, high = np.zeros_like(differing), differing + 1
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = (1 / bet_on_wins(middle, differing) if betting else _binomial_tail(middle, differing, 0.5)) <= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _binomial_tail(hits: Whole, rows: Whole, chance: float) -> Any:  # noqa: ANN401 - an array of SciPy's
    """Return Pr[Bin(rows, chance) >= hits] for arrays."""
    from scipy.special import betainc

    inside = (hits > 0) & (hits <= rows)
    tail = betainc(np.where(inside, hits, 1), np.where(inside, rows - hits + 1, 1), chance)
    return np.where(inside, tail, np.where(hits <= 0, 1.0, 0.0))


def _binomial_chance(hits: Whole, rows: int, chance: float) -> Any:  # noqa: ANN401 - an array of SciPy's
    from scipy.special import gammaln, xlog1py, xlogy

    ways = gammaln(rows + 1) - gammaln(hits + 1) - gammaln(rows - hits + 1)
    return np.exp(ways + xlogy(hits, chance) + xlog1py(rows - hits, -chance))


def find_gain(cases: int, *, discordant: float, level: float, power: float = POWER, betting: bool = False) -> float | None:
    """Return the smallest true gain that is found so often; None where not even all differing cases won are enough."""

    def is_found(gain: float) -> bool:
        return gate_power(cases, discordant=discordant, gain=gain, level=level, betting=betting) >= power

    return smallest_float(is_found, 0.0, discordant, steps=20) if is_found(discordant) else None


@lru_cache(maxsize=64)
def cases_for_gain(*, discordant: float, gain: float, level: float, power: float = POWER) -> int | None:
    """Return the smallest number of cases that finds a gain so often, and for the next 20 numbers too; None beyond 2^26."""

    def is_enough(cases: int) -> bool:
        return gate_power(cases, discordant=discordant, gain=gain, level=level) >= power

    high = 16
    while not is_enough(high):
        high *= 2
        if high > _MOST_CASES:
            return None
    found = _bisect(is_enough, high // 2, high)
    while not all(is_enough(found + more) for more in reversed(range(_STEADY))):
        found += 1
    return found


def _bisect(is_enough: Callable[[int], bool], low: int, high: int) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high

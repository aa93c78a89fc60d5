"""Audits of time: what a client's clock tells of a row, and what the time of a draw tells of its noise (P9)."""

import math
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.findings import Finding, check_enough
from holdtrue.auditing.search.confidence_bounds import Floats, lower_limit, upper_limit
from holdtrue.auditing.search.outputs import MOST_SAMPLES, call_function
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, probability

__all__ = ["Nanoseconds", "audit_draws", "audit_timing"]

Nanoseconds: TypeAlias = Callable[[], int]
"""A clock in whole nanoseconds."""

_EVEN = 0.5
_WARM_UP = 8
_FEWEST = 10


def audit_timing(  # noqa: PLR0913 - what is claimed, and how hard to try
    run: Callable[[Any], object],
    left: object,
    right: object,
    *,
    auc: Number = 0.54,
    samples: int = 2000,
    confidence: Number = 0.95,
    clock: Nanoseconds = time.perf_counter_ns,
    bits: Bits = SYSTEM,
) -> Finding:
    """Time a callable on two neighbours and bound how well time tells them apart: the AUC, one half for not at all.

    Law: the two are timed one right after the other, in an order decided by a coin; a pair is won by ``right`` if that took
    longer, and by a coin if both took equally long. The share of pairs won has Clopper and Pearson's limits: the lower
    bound, which is for the larger of AUC and 1 - AUC, is above the truth with probability at most 1 - confidence. Where
    time does not depend on the data that holds on any machine, however loaded and however its speed drifts, since the coins
    alone decide who wins; otherwise it needs pairs that are independent of each other. ``auc`` is what is claimed, P9's
    unless given. Fails: with :class:`~holdtrue.errors.InsufficientSamples` where winning every pair could prove nothing.
    """
    pairs, alpha = count("samples", samples, most=MOST_SAMPLES), 1 - float(probability("confidence", confidence))
    claimed = float(probability("auc", auc))
    if claimed < _EVEN:
        raise InvalidParameter("auc", auc, "one half, which claims that time tells nothing, or above")
    show = f"an AUC above {claimed:.4g} with this confidence"
    check_enough(pairs, lambda number: claimed**number < alpha / 2, of="samples", show=show)
    times = _measure_times(run, (left, right), pairs, clock, bits)
    longer = np.sign(times[1] - times[0])
    wins = int(np.where(longer == 0, _toss_coins(pairs, bits), longer > 0).sum())
    low, high = (float(limit(wins, pairs, alpha=alpha / 2)) for limit in (lower_limit, upper_limit))
    bound = max(low, 1 - high, _EVEN)
    slower = "right" if 2 * wins >= pairs else "left"
    middle = [_print_time(float(np.median(side))) for side in times]
    often = f"{max(wins, pairs - wins):,} times of {pairs:,}"
    event = f"of two runs next to each other, the one on {slower} took longer {often}"
    notes = ("interval", f"{low:.4g} to {high:.4g} for the AUC"), ("median time", f"{middle[0]} left, {middle[1]} right")
    return Finding.of("AUC", claimed, bound, 1 - alpha, pairs, event, notes=notes, what="the AUC of time")


def _measure_times(
    run: Callable[[Any], object], sides: tuple[Any, Any], pairs: int, clock: Nanoseconds, bits: Bits
) -> npt.NDArray[np.int64]:
    """Return the times on both sides, a column for each pair; the first few pairs only warm up.

    The loop does not see the coins: times are stored by their order and sorted by side afterwards, since a processor can
    tell in nanoseconds where in memory the time before was written.
    """
    coins = _toss_coins(_WARM_UP + pairs, bits)
    orders = [(sides, sides[::-1])[coin] for coin in coins.tolist()]
    times = np.zeros((2, len(orders)), dtype=np.int64)
    for place, order in enumerate(orders):
        for turn, data in enumerate(order):
            began = call_function(clock)
            call_function(run, data)
            times[turn, place] = call_function(clock) - began
    return np.where(coins == 0, times, times[::-1])[:, _WARM_UP:]


def _toss_coins(number: int, bits: Bits) -> npt.NDArray[np.uint64]:
    return bits.words(number) >> np.uint64(63)


def _print_time(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"


def audit_draws(  # noqa: PLR0913 - what is claimed, and how hard to try
    release: Callable[[int], int],
    *,
    value: int = 10**12,
    correlation: Number = 0.02,
    samples: int = 160_000,
    confidence: Number = 0.95,
    clock: Nanoseconds = time.perf_counter_ns,
) -> Finding:
    """Time single releases of a count and bound the rank correlation between the time and the size of the noise.

    Who sees a release and knows its noise knows the count: so it is the noise behind a release that time must not tell. Law:
    the lower bound is above the size of Spearman's grade correlation, 3 E[sign(T1 - T2) sign(N1 - N3)], with probability at
    most 1 - confidence, by Hoeffding's bound for averages over triples; no law of large numbers is appealed to. Where the
    noise is drawn afresh and time does not depend on it, that holds however times depend on each other. Needs: a
    ``value`` large enough that no release is clamped. Fails: with InsufficientSamples where perfectly ordered times could
    not prove a violation.
    """
    number, alpha = count("samples", samples, most=MOST_SAMPLES), 1 - float(probability("confidence", confidence))
    claimed = float(probability("correlation", correlation, zero=True))

    def width(draws: int) -> float:
        """Return the half-width. What a triple says lies in [-1, 1]; the pairs that ranks count beside them add 3/(n-2)."""
        return math.sqrt(2 * math.log(2 / alpha) / (draws // 3)) + 3 / (draws - 2)

    show = f"a rank correlation above {claimed:.4g} this surely"
    check_enough(number, lambda draws: draws >= _FEWEST and width(draws) < 1 - claimed, of="samples", show=show)
    times, sizes = np.empty(number, dtype=np.int64), np.empty(number, dtype=np.float64)
    for place in range(number):
        began = clock()
        drawn = release(value)
        times[place] = clock() - began
        sizes[place] = abs(int(drawn) - value)
    found, near = _grade_correlation(times, sizes), width(number)
    event = f"single releases of {value:,} that take {'longer' if found >= 0 else 'less long'} have larger noise"
    ends = f"{max(-1.0, found - near):.4g} to {min(1.0, found + near):.4g}"
    notes, what = (("interval", ends), ("found", f"{found:.4g}")), "the rank correlation of time and noise"
    bound = max(0.0, abs(found) - near)
    return Finding.of("rank correlation", claimed, bound, 1 - alpha, number, event, notes=notes, what=what)


def _grade_correlation(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> float:
    """Return the sample's grade correlation; ties count 0."""
    number = first.size
    centred = _centre_ranks(first), _centre_ranks(second)
    return float(12 * (centred[0] * centred[1]).sum() / (number * (number - 1.0) * (number - 2.0)))


def _centre_ranks(values: npt.NDArray[Any]) -> Floats:
    """Return ranks around 0, equal values at the middle of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: Floats = (last - (counts - 1) / 2 - (values.size + 1) / 2)[places]
    return middle

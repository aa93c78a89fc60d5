"""How surely a fault that is known is found: the exact power of counting one event that tells it (A1, A4)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.limits import Pooled
from holdtrue.auditing.outputs import Outputs
from holdtrue.auditing.searching import MANNERS, Parts, mean

__all__ = ["POWER", "Telling", "power_of", "power_of_counts"]

POWER = 0.999
"""The power that every control of ``holdtrue audit self`` has at its default confidence, or more."""

# Totals of hits further than so many standard deviations from their mean weigh less than 1e-15 together.
_REACH = 9.0


@dataclass(frozen=True, slots=True)
class Telling:
    """An event that tells two neighbours apart, and its exact probabilities on the ``likelier`` side and on the other.

    ``happened(outputs)`` says for each output whether it is in the event. A test draws outputs and compares.
    """

    words: str
    likelier: str
    likely: float
    unlikely: float
    happened: Callable[[Outputs], npt.NDArray[np.bool_]]


def power_of(  # noqa: PLR0913 - an event, a claim, and how hard it is tried
    telling: Telling, *, claimed: float, delta: float, samples: int, search: float, alpha: float
) -> float:
    """Return the power of an audit that counts this event on all runs that are left after its search.

    It is that of an audit whose search finds this event. A search may find a worse one, or a better one.
    """
    counted = Parts.of(samples, search).counting
    # Each manner of choosing has an equal share of alpha.
    return power_of_counts(telling, claimed=claimed, delta=delta, runs=counted, alpha=alpha / len(MANNERS))


def power_of_counts(telling: Telling, *, claimed: float, delta: float, runs: int, alpha: float) -> float:
    """Return the probability that the counts of an event prove more than a claim at level alpha.

    Law: exact, for the rule :class:`~holdtrue.auditing.limits.Pooled`. Each side is run a Poisson number of times with one
    mean, so that the sum s of both counts is Poisson and the first of them, given s, binomial with probability
    p / (p + q). The rule proves more than the claim if and only if the first count reaches a least number, which depends on
    s alone: the power is the sum over s of two known tails. Needs: the event's true probabilities. Fails: never; what lies
    further than 9 standard deviations from the mean of s counts as not found.
    """
    from scipy import stats

    each = mean(runs, pooled=True)
    rule = Pooled(delta, alpha)
    both = each * (telling.likely + telling.unlikely)
    reach = _REACH * math.sqrt(both) + 40
    totals = np.arange(max(0, math.floor(both - reach)), math.ceil(both + reach))
    least = _least_hits(rule, totals, claimed, each)
    share = telling.likely / (telling.likely + telling.unlikely)
    found: npt.NDArray[Any] = stats.poisson.pmf(totals, both) * stats.binom.sf(least - 1, totals, share)
    return min(1.0, float(found.sum()))


def _least_hits(rule: Pooled, totals: npt.NDArray[np.int64], claimed: float, runs: float) -> npt.NDArray[np.int64]:
    """Return for each total the least first count with which the rule proves more than a claim; one more where none does."""
    low, high = np.full_like(totals, -1), totals + 1  # none below low is enough, all from high on are
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = rule.limit(middle, totals - middle, runs) > claimed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high

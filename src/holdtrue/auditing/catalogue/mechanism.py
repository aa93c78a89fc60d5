"""Mechanisms to be audited: what they do, what is claimed of them, a pair of neighbours, and what is known of the truth.

Noise of others' mechanisms, whose definitions have real numbers, is drawn on a grid of 2^-20: all that is claimed of the
real-valued law holds for it, and no lattice gives anything away that the definition does not. How surely a known fault is
found is computed from the exact probabilities of one event that tells it (A1, A4).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.findings import Finding
from holdtrue.auditing.search import audit_privacy
from holdtrue.auditing.search.confidence_bounds import Floats, Pooled
from holdtrue.auditing.search.events import STRATEGIES, Parts, mean_runs
from holdtrue.auditing.search.outputs import Outputs
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.noise.samplers import discrete_laplace, geometric

__all__ = [
    "POWER",
    "AuditedMechanism",
    "TellingEvent",
    "draw_exponential",
    "draw_laplace",
    "draw_uniform",
    "power_of_counts",
]

POWER = 0.999
"""The power that every control of ``holdtrue audit self`` has at its default confidence, or more."""

# Totals of hits further than this many standard deviations from their mean weigh less than 1e-15 together.
_REACH = 9.0
_GRID: Final = 1 << 20
_BITS = 53


@dataclass(frozen=True, slots=True)
class TellingEvent:
    """An event that tells two neighbours apart, and its exact probabilities on the ``likelier`` side and on the other.

    ``happened(outputs)`` says for each output whether it is in the event. A test draws outputs and compares.
    """

    words: str
    likelier: str
    likely: float
    unlikely: float
    happened: Callable[[Outputs], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class AuditedMechanism:
    """A mechanism with what is claimed of it.

    ``law(data, count, bits)`` returns ``count`` independent outputs on one of a ``pair`` of neighbours. ``why`` says what is
    wrong with the claim, nothing where it is right; ``truth`` is the true epsilon of the pair where it is known,
    ``reference`` what the published audit found and ``ceiling`` what Clopper-Pearson could prove from 10^6 runs per side if
    the best event were known. What is slow takes ``most`` samples and no more, with a share ``search`` of them to find the
    event; a fault shows from ``least`` of them on. ``telling`` returns an event that tells a fault, with its exact
    probabilities, where they are known.
    """

    group: str
    name: str
    law: Callable[[Any, int, Bits], Outputs]
    pair: tuple[Any, Any]
    epsilon: float
    why: str = ""
    delta: float = 0.0
    truth: float | None = None
    reference: float | None = None
    ceiling: float | None = None
    bits: Bits = SYSTEM
    search: float = 0.4
    most: int | None = None
    least: int = 10**5
    telling: Callable[[], TellingEvent] | None = None

    @property
    def left(self) -> Any:  # noqa: ANN401 - whatever the mechanism is about
        """Return one of the two neighbours."""
        return self.pair[0]

    @property
    def right(self) -> Any:  # noqa: ANN401 - whatever the mechanism is about
        """Return the other neighbour."""
        return self.pair[1]

    def run(self, data: object, count: int) -> Outputs:
        """Return ``count`` independent outputs of the mechanism on some data."""
        return self.law(data, count, self.bits)

    def drawing_from(self, bits: Bits) -> Self:
        """Return the same mechanism, drawing from other bits."""
        return replace(self, bits=bits)

    @property
    def sound(self) -> bool:
        """Return whether the claim is right."""
        return not self.why

    def limit_samples(self, samples: int) -> int:
        """Return the number of samples per side: those asked for, or ``most``."""
        return samples if self.most is None else min(samples, self.most)

    def audit(self, *, samples: int = 10**6, confidence: float = 0.95) -> Finding:
        """Audit the claim on the worst pair that is known, with ``samples`` per side, or ``most``."""
        return audit_privacy(
            self.run,
            *self.pair,
            epsilon=self.epsilon,
            delta=self.delta,
            samples=self.limit_samples(samples),
            confidence=confidence,
            search=self.search,
            bits=self.bits,
        )

    def find_power(self, *, samples: int, confidence: float) -> float | None:
        """Return the probability that an audit finds the fault if its search finds the telling event; None without one.

        A search may find a worse event, or a better one. All runs that are left after it are counted.
        """
        if self.telling is None:
            return None
        runs = Parts.of(self.limit_samples(samples), self.search).counting
        # Each strategy of choosing has an equal share of alpha.
        alpha = (1 - confidence) / len(STRATEGIES)
        return power_of_counts(self.telling(), claimed=self.epsilon, delta=self.delta, runs=runs, alpha=alpha)


def power_of_counts(telling: TellingEvent, *, claimed: float, delta: float, runs: int, alpha: float) -> float:
    """Return the probability that the counts of an event prove more than a claim at level alpha.

    Law: exact, for the rule :class:`~holdtrue.auditing.search.confidence_bounds.Pooled`. Each side is run a Poisson number
    of times with one mean, so that the sum s of both counts is Poisson and the first of them, given s, binomial with
    probability p / (p + q). The rule proves more than the claim if and only if the first count reaches a least number,
    which depends on s alone: the power is the sum over s of two known tails. Needs: the event's true probabilities. Fails:
    never; what lies further than 9 standard deviations from the mean of s counts as not found.
    """
    from scipy import stats

    each = mean_runs(runs, pooled=True)
    rule = Pooled(delta, alpha)
    both = each * (telling.likely + telling.unlikely)
    reach = _REACH * math.sqrt(both) + 40
    totals = np.arange(max(0, math.floor(both - reach)), math.ceil(both + reach))
    least = _find_least_hits(rule, totals, claimed, each)
    share = telling.likely / (telling.likely + telling.unlikely)
    found: npt.NDArray[Any] = stats.poisson.pmf(totals, both) * stats.binom.sf(least - 1, totals, share)
    return min(1.0, float(found.sum()))


def _find_least_hits(rule: Pooled, totals: npt.NDArray[np.int64], claimed: float, runs: float) -> npt.NDArray[np.int64]:
    """Return for each total the least first count with which the rule proves more than a claim; one more where none does."""
    low, high = np.full_like(totals, -1), totals + 1  # none below low is enough, all from high on are
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = rule.limit(middle, totals - middle, runs) > claimed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def draw_laplace(scale: float | Fraction, shape: int | Sequence[int], bits: Bits) -> Floats:
    """Draw Laplace noise on the grid."""
    noise = discrete_laplace(Fraction(scale) * _GRID, size=int(np.prod(shape)), bits=bits)
    return np.reshape(noise / _GRID, shape)


def draw_exponential(scale: float | Fraction, shape: int | Sequence[int], bits: Bits) -> Floats:
    """Draw exponential noise on the grid."""
    return np.reshape(geometric(Fraction(scale) * _GRID, size=int(np.prod(shape)), bits=bits) / _GRID, shape)


def draw_uniform(shape: int | Sequence[int], bits: Bits) -> Floats:
    """Draw numbers in [0, 1) as floating-point programs do: 53 bits."""
    words = bits.words(int(np.prod(shape))) >> np.uint64(64 - _BITS)
    return np.reshape(words.astype(np.float64) * 2.0**-_BITS, shape)

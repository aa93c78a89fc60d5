"""What counts of hits prove: confidence limits of probabilities, of epsilon and of total variation (A1, A4, E2).

An event is fixed, two mechanisms are run, and the event is counted. Each rule below turns the two counts into a number that
is above the truth with probability at most ``alpha``, whatever the two mechanisms are. Counts that came one after the other,
of events that were chosen in between, are put together by :func:`combine_stages`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

__all__ = ["BoundRule", "Counts", "Distance", "Floats", "Pooled", "Separate", "combine_stages", "lower_limit", "upper_limit"]

Floats = npt.NDArray[np.float64]

# The library's inverse beta function is good to 1e-13 or so, relative; limits are pushed outwards by more.
_OUTWARD = 2.0**-40
# The part of alpha that Pooled spends on how often the slack may have struck.
_SLACK_SHARE = 0.1
# Levels are compared on a grid of standard deviations: its step, and its end.
_STEP = 1 / 256
_FARTHEST = 9.0
_HALVINGS = 50


def lower_limit(hits: npt.ArrayLike, runs: npt.ArrayLike, *, alpha: "float | Floats") -> Floats:
    """Return the lower Clopper-Pearson limit: above the true probability in at most a share alpha of all experiments."""
    from scipy import special

    k, n = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(runs, dtype=np.float64))
    found: Floats = np.where(k > 0, special.betaincinv(np.maximum(k, 1e-9), n - k + 1, alpha), 0.0) * (1 - _OUTWARD)
    return found


def upper_limit(hits: npt.ArrayLike, runs: npt.ArrayLike, *, alpha: "float | Floats") -> Floats:
    """Return the upper Clopper-Pearson limit: below the true probability in at most a share alpha of all experiments."""
    from scipy import special

    k, n = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(runs, dtype=np.float64))
    inside = special.betainccinv(k + 1, np.maximum(n - k, 1e-9), alpha)
    return np.where(k < n, np.minimum(1.0, inside * (1 + _OUTWARD)), 1.0)


class BoundRule(ABC):
    """A way to prove a lower bound from the hits of one event on the ``first`` side, where it is likelier, and the other.

    ``pooled`` says that the number of runs on each side is itself drawn, from the Poisson law with mean ``runs``;
    ``relative`` that it bounds the logarithm of a ratio of probabilities, rather than their difference.
    """

    __slots__ = ()
    pooled: ClassVar[bool] = False
    relative: ClassVar[bool] = True

    def at_level(self, alpha: float | Floats) -> Self:
        """Return the same rule at another level, or at several."""
        return replace(self, alpha=alpha)  # type: ignore[type-var]  # every rule is a record

    @abstractmethod
    def limit(self, first: Any, second: Any, runs: float) -> Floats:  # noqa: ANN401 - counts, one or an array of them
        """Return the confidence limit; below 0 it says nothing, but how far below says how much is missing."""


@dataclass(frozen=True, slots=True)
class Separate(BoundRule):
    """Bounds epsilon at delta by one Clopper-Pearson limit on each side, alpha / 2 each.

    Law: with probability at least 1 - alpha, p >= its lower limit and q <= its upper limit at once; then
    (epsilon, delta)-DP needs e^epsilon >= (p - delta) / q.
    """

    delta: float
    alpha: float | Floats

    def limit(self, first: Any, second: Any, runs: float) -> Floats:  # noqa: ANN401 - counts, one or an array of them
        """Return a confidence limit of epsilon."""
        p = lower_limit(first, runs, alpha=self.alpha / 2)
        q = upper_limit(second, runs, alpha=self.alpha / 2)
        return _log_ratio(p - self.delta, q)


@dataclass(frozen=True, slots=True)
class Pooled(BoundRule):
    """Bounds epsilon at delta by one Clopper-Pearson limit on the share of all hits that fell on the first side.

    Law: if each side is run a Poisson number of times with the same mean, the two counts are independent Poisson
    variables, and given their sum the first is binomial with probability p / (p + q): its lower limit s at level alpha gives
    epsilon >= ln(s / (1 - s)). This needs one limit where :class:`Separate` needs two, and is narrower by a third or more
    unless p is near 1. With delta > 0 the hits that the slack explains are at most a Poisson variable of mean
    runs * delta: its quantile is taken off first, for a tenth of alpha. Fails: never; where more runs were drawn than
    there are, the auditor proves nothing.
    """

    delta: float
    alpha: float | Floats
    pooled: ClassVar[bool] = True

    def limit(self, first: Any, second: Any, runs: float) -> Floats:  # noqa: ANN401 - counts, one or an array of them
        """Return a confidence limit of epsilon."""
        alpha = self.alpha * (1 - _SLACK_SHARE if self.delta else 1)
        kept = np.maximum(np.asarray(first, dtype=np.float64) - self._count_explained(runs), 0.0)
        share = lower_limit(kept, kept + np.asarray(second, dtype=np.float64), alpha=alpha)
        return _log_ratio(share, 1 - share)

    def _count_explained(self, runs: float) -> float | Floats:
        """Return how many hits the slack explains, except with its share of alpha."""
        from scipy import special

        if not self.delta:
            return 0.0
        mean = runs * self.delta
        most = math.ceil(mean + 8 * math.sqrt(mean + 1) + 40)
        below = special.pdtr(np.arange(most), mean)
        found: Floats = np.searchsorted(below, 1 - self.alpha * _SLACK_SHARE).astype(np.float64)
        return found


@dataclass(frozen=True, slots=True)
class Distance(BoundRule):
    """Bounds total variation by p - q, one Clopper-Pearson limit on each side, alpha / 2 each (A1)."""

    alpha: float | Floats
    relative: ClassVar[bool] = False

    def limit(self, first: Any, second: Any, runs: float) -> Floats:  # noqa: ANN401 - counts, one or an array of them
        """Return a confidence limit of the total variation."""
        p = lower_limit(first, runs, alpha=self.alpha / 2)
        q = upper_limit(second, runs, alpha=self.alpha / 2)
        return np.subtract(p, q)


def _log_ratio(p: Floats, q: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, np.log(np.maximum(p, 0.0)) - np.log(q), -np.inf)


@dataclass(frozen=True, slots=True)
class Counts:
    """The hits of one event in runs of their own, the rule they go through, and how much they weigh beside others.

    ``valid`` is False where more runs would have been needed than there were; such counts prove nothing.
    """

    rule: BoundRule
    first: float
    second: float
    runs: float
    weight: float
    valid: bool = True


def combine_stages(stages: Sequence[Counts], *, alpha: float) -> float:
    """Return the largest bound that counts of several events prove at level alpha, one after the other.

    Law: let the level of a stage at a value be the least alpha at which its rule proves more than that. If the truth is at
    most the value, then whatever came before, that level is at most u with probability at most u. So the sum of its normal
    scores, each times the root of the stage's share of weights fixed in advance, exceeds the normal quantile of alpha with
    probability at most alpha, although each event was chosen in the light of the stages before it (the inverse normal
    method of adaptive trials: Lehmacher and Wassmer, Biometrics 55, 1999). Needs: weights that no count has influenced.
    Fails: never; levels are rounded up, to a step of 1/256 standard deviations.
    """
    from scipy import special

    if not all(stage.valid for stage in stages):
        return 0.0
    scores = np.arange(-_FARTHEST, _FARTHEST, _STEP)
    # What each stage proves at each score: less and less, also where the library's last digits say otherwise.
    proved = [
        np.minimum.accumulate(stage.rule.at_level(special.ndtr(-scores)).limit(stage.first, stage.second, stage.runs))
        for stage in stages
    ]
    roots = [math.sqrt(stage.weight / sum(each.weight for each in stages)) for stage in stages]
    needed = float(-special.ndtri(alpha))

    def exceeds(value: float) -> bool:
        """Return whether all stages together say that the truth is above a value."""
        passed = [int(np.searchsorted(-limits, -value)) for limits in proved]
        return all(passed) and sum(w * scores[each - 1] for w, each in zip(roots, passed, strict=True)) >= needed

    if not exceeds(0.0):
        return 0.0
    low, high = 0.0, max(float(limits[np.isfinite(limits)].max(initial=0.0)) for limits in proved)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return low

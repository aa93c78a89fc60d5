"""Mechanisms that choose a candidate, scores in and an index out: exponential and permute-and-flip (B2, B3)."""

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import overload

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.entropy import Bits
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Integers, Number, Rationals, count, integers, positive, rationals, truth
from holdtrue.kernels.levels import count_levels, find_member
from holdtrue.mechanisms.base import Array, Mechanism
from holdtrue.noise.levels import count_needed, draw_by_flips, draw_by_weights
from holdtrue.noise.samplers import BLOCK, bernoulli_exponential, uniform_below
from holdtrue.noise.selection import gumbel_argmax, permute_and_flip

_MOST_POINTS = 1 << 32  # of a run, one of which is drawn
_LEAST_WEIGHT = Fraction(1, 1 << 1022)  # smaller ones have no float that is near enough


def score_range(sensitivity: Number, range_: Number | None, *, monotone: bool) -> Fraction:
    """Return R, the most that the scores' changes between neighbours may differ from each other (B2).

    Twice the sensitivity in general; the sensitivity where all scores move the same way; or what the caller knows.
    """
    width = positive("sensitivity", sensitivity)
    monotone = truth("monotone", monotone)
    if range_ is None:
        return width if monotone else 2 * width
    if monotone:
        raise InvalidParameter("monotone", monotone, "left out when range is given")
    return positive("range", range_)


@dataclass(frozen=True)
class ChoosingMechanism(Mechanism):
    """Chooses candidates with probabilities that rise with rate * score."""

    rate: Fraction
    range: Fraction

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number = 1,
        range: Number | None = None,  # noqa: A002 - the word of the theory
        monotone: bool = False,
    ) -> None:
        spread = score_range(sensitivity, range, monotone=monotone)
        object.__setattr__(self, "rate", positive("epsilon", epsilon) / spread)
        object.__setattr__(self, "range", spread)

    @abstractmethod
    def _choose_in_rows(self, scores: Integers, rate: Fraction, without: Collection[int] = ()) -> npt.NDArray[np.int64]:
        """Choose one candidate of each row; ``without`` are the places of those whose scores were taken out."""

    def _count_possible(self, size: int) -> int:
        """Return how many of so many candidates can be chosen."""
        return size

    @overload
    def release(self, values: list[int] | list[Fraction]) -> int: ...
    @overload
    def release(self, values: Array) -> int | npt.NDArray[np.int64]: ...
    def release(self, values: Array) -> int | npt.NDArray[np.int64]:
        """Return the index of the chosen candidate; for a matrix of scores, that of each row.

        Scores are whole numbers, or rationals (:class:`fractions.Fraction`); never floats.
        """
        scores, rate = _whole_scores(values, self.rate)
        if scores.ndim not in (1, 2) or scores.shape[-1] == 0:
            raise InvalidParameter.without_value(
                "values", f"one or more rows of scores, not empty; the shape is {scores.shape}"
            )
        chosen = self._choose_in_rows(np.ascontiguousarray(np.atleast_2d(scores)), rate)
        return int(chosen[0]) if scores.ndim == 1 else chosen

    def release_top(self, values: Array, top: int) -> list[int]:
        """Return the indices of several candidates, chosen one after the other, each among those that are left.

        Every one of them costs the event. For :class:`Exponential` the law is that of the largest Gumbel scores in order.
        """
        scores, rate = _whole_scores(values, self.rate)
        if scores.ndim != 1 or scores.size < count("top", top):
            raise InvalidParameter.without_value("values", f"one row of {top} or more scores; the shape is {scores.shape}")
        if self._count_possible(scores.size) < top:
            raise InvalidParameter("top", top, "at most the number of candidates with a weight above 0")
        gone: list[int] = []
        for _ in range(top):
            left = scores if not gone else np.delete(scores, gone)
            row: Integers = np.ascontiguousarray(left).reshape(1, -1)
            place = int(self._choose_in_rows(row, rate, without=gone)[0])
            for earlier in sorted(gone):  # from a place among those left to its place among all
                place += place >= earlier
            gone.append(place)
        return gone


def _whole_scores(values: Array, rate: Fraction) -> tuple[Integers, Fraction]:
    """Bring rational scores to their common denominator, which divides the rate."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return integers("values", values), rate
    array = np.asarray(values, dtype=object) if _holds_fractions(values) else None
    if array is None or not all(isinstance(v, Rational) and not isinstance(v, bool) for v in array.flat):
        return integers("values", values), rate
    denominator = math.lcm(*(int(v.denominator) for v in array.flat))
    whole = np.array([int(v * denominator) for v in array.flat], dtype=object).reshape(array.shape)
    return whole, rate / denominator


def _holds_fractions(values: object) -> bool:
    if isinstance(values, Fraction):
        return True
    return isinstance(values, (list, tuple, np.ndarray)) and any(_holds_fractions(value) for value in values)


@dataclass(frozen=True)
class Exponential(ChoosingMechanism):
    """Chooses y with probability proportional to weight(y) e^(epsilon score(y) / R).

    Guarantee: epsilon-DP and epsilon-bounded-range, attained. R is the range of the scores: twice their sensitivity, the
    sensitivity itself where all scores move the same way (``monotone=True``), or a smaller number that the caller can
    prove (``range=``). An infinite set of candidates is given as a finite partition, with the base measure of its cells
    as ``weights`` and scores that are constant on each; one of weight 0 is never chosen. Needs: candidates and weights
    fixed before any row is seen.
    Fails: only if the kernel's generator does.

    >>> import holdtrue as ht
    >>> ht.Exponential(epsilon=1.0).rate
    Fraction(1, 2)
    """

    weights: tuple[Fraction, ...] | None

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number = 1,
        range: Number | None = None,  # noqa: A002 - the word of the theory
        monotone: bool = False,
        weights: Array | None = None,
    ) -> None:
        super().__init__(epsilon=epsilon, sensitivity=sensitivity, range=range, monotone=monotone)
        object.__setattr__(self, "weights", None if weights is None else _exact_weights(weights))

    @property
    def _claim(self) -> events.Event:
        return events.BoundedRange(self.rate * self.range)

    def _count_possible(self, size: int) -> int:
        return size if self.weights is None else sum(map(bool, self.weights))

    def _choose_in_rows(self, scores: Integers, rate: Fraction, without: Collection[int] = ()) -> npt.NDArray[np.int64]:
        if self.weights is not None and len(self.weights) != scores.shape[1] + len(without):
            raise InvalidParameter.without_value(
                "values", f"{len(self.weights)} scores, one per weight, not {scores.shape[1]}"
            )
        left = self.weights if self.weights is None or not without else _leave_out(self.weights, without)
        weights = None if left is None else rationals("weights", left, zero=True)
        found = _choose_by_level(scores, rate, draw_by_weights, self._bits) if weights is None else None
        return gumbel_argmax(scores, rate=rate, weights=weights, bits=self._bits) if found is None else found

    def release_on_line(self, values: Array, ends: Sequence[int] | npt.NDArray[np.int64]) -> int:
        """Return a point of a line of whole numbers, whose score is constant on each of several runs of points.

        Law: that of the points as so many candidates, with probability proportional to e^(epsilon score / R); a run is drawn
        with its length as its weight, then a point of it, each as likely (U3.3). Run i has the points from ends[i] on, up to
        ends[i + 1] and without it; one without a point is never drawn. Runs may depend on rows: what must not move by more
        than the sensitivity is the score at each point. The work depends on the number of runs alone.
        """
        scores, rate = _whole_scores(values, self.rate)
        lengths = np.diff(np.asarray(ends, dtype=np.int64))
        if scores.ndim != 1 or len(lengths) != scores.size or (lengths < 0).any() or not lengths.any():
            raise InvalidParameter.without_value("ends", "ends of runs that do not fall, one more than there are scores")
        if lengths.max() > _MOST_POINTS:
            raise InvalidParameter.without_value("ends", "ends of runs of 2^32 points each at most")
        weights = rationals("weights", lengths.astype(np.float64), zero=True)
        row: Integers = np.ascontiguousarray(np.atleast_2d(scores))
        place = int(gumbel_argmax(row, rate=rate, weights=weights, bits=self._bits)[0])
        return int(ends[place]) + int(uniform_below(int(lengths[place]), size=1, bits=self._bits)[0])

    def __repr__(self) -> str:
        measure = "" if self.weights is None else f", weights=<{len(self.weights)}>"
        return f"Exponential(epsilon={float(self.rate * self.range):g}, range={float(self.range):g}{measure})"


def _choose_by_level(
    scores: Integers, rate: Fraction, draw: Callable[..., Iterator[tuple[int, int]]], bits: Bits
) -> npt.NDArray[np.int64] | None:
    """Choose one candidate of each row by the levels of its scores; None where rows are short or levels too many."""
    levels = count_needed(rate)
    if levels is None or scores.dtype == object or scores.shape[1] <= BLOCK:
        return None
    chosen = np.empty(scores.shape[0], dtype=np.int64)
    for number, row in enumerate(scores):
        best = int(row.max())
        for level, rank in draw(count_levels(row, best, levels), rate=rate, bits=bits):
            place = find_member(row, best, level, rank, beyond=level == levels)
            missing = (best - int(row[place]) - level) * rate
            if not missing or bernoulli_exponential(missing, bits=bits)[0]:
                chosen[number] = place
                break
    return chosen


def _leave_out(weights: tuple[Fraction, ...], places: Collection[int]) -> tuple[Fraction, ...]:
    return tuple(weight for place, weight in enumerate(weights) if place not in places)


def _exact_weights(weights: Array) -> tuple[Fraction, ...]:
    checked: Rationals = rationals("weights", weights, zero=True)
    if checked.alone or not checked.floats.any():
        raise InvalidParameter("weights", weights, "one weight for each candidate, 0 or above, and not all of them 0")
    found = tuple(checked.at(index) for index in range(checked.floats.size))
    if any(0 < weight < _LEAST_WEIGHT for weight in found):
        raise InvalidParameter.without_value("weights", "0, or 2^-1022 and above")
    return found


@dataclass(frozen=True, init=False)
class PermuteAndFlip(ChoosingMechanism):
    """Takes candidates in random order and keeps y with probability e^(epsilon (score(y) - best) / R), until one is kept.

    Guarantee: epsilon-DP, and an expected score never below that of :class:`Exponential`. It is *not* bounded-range, so
    on a GDP or zCDP ledger it costs about four times as much: prefer it on a pure ledger or for a single choice. Needs
    and fails as :class:`Exponential`.
    """

    @property
    def _claim(self) -> events.Event:
        return events.Pure(self.rate * self.range)

    def _choose_in_rows(self, scores: Integers, rate: Fraction, without: Collection[int] = ()) -> npt.NDArray[np.int64]:
        del without  # it has no weights
        found = _choose_by_level(scores, rate, draw_by_flips, self._bits)
        return permute_and_flip(scores, rate=rate, bits=self._bits) if found is None else found

    def __repr__(self) -> str:
        return f"PermuteAndFlip(epsilon={float(self.rate * self.range):g}, range={float(self.range):g})"

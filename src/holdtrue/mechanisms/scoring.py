"""What mechanisms that choose a candidate share: scores in, an index out."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import overload

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter
from holdtrue.exact import Integers, Number, integers, positive, truth
from holdtrue.mechanisms.base import Array, Mechanism

__all__ = ["ChoosingMechanism", "score_range"]


def score_range(sensitivity: Number, range_: Number | None, *, monotone: bool) -> Fraction:
    """Return R, the most that the scores' changes between neighbours may differ from each other (B2).

    Twice the sensitivity in general; the sensitivity where all scores move the same way; or what the caller knows.
    """
    width = positive("sensitivity", sensitivity)
    monotone = truth("monotone", monotone)
    if range_ is None:
        return width if monotone else 2 * width
    if monotone:
        raise InvalidParameter("monotone", monotone, "left out when range is given, which says more")
    return positive("range", range_)


@dataclass(frozen=True)
class ChoosingMechanism(Mechanism):
    """Chooses candidates with probabilities that rise with rate * score."""

    rate: Fraction
    range: Fraction

    @abstractmethod
    def _choose(self, scores: Integers, rate: Fraction) -> npt.NDArray[np.int64]:
        """Choose one candidate of each row."""

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
            raise InvalidParameter("values", f"scores of shape {scores.shape}", "one row of scores or several, not empty")
        chosen = self._choose(np.ascontiguousarray(np.atleast_2d(scores)), rate)
        return int(chosen[0]) if scores.ndim == 1 else chosen


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

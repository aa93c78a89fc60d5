"""Controls: what answers without noise would say, with the interval of somebody who forgets that questions adapt.

An audit that does not find them wanting has no power. They release means of rows as they are: never give them a secret.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.populations import Labelled
from holdtrue.bounds.accuracy import hoeffding_alpha
from holdtrue.engines import open_engine
from holdtrue.exact import Number, count
from holdtrue.queries.parser import parse
from holdtrue.records import Interval

__all__ = ["PlainAnswer", "PlainMeans", "PlainScores"]

_GRID_BITS = 20


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """A mean as it is, and the interval around it."""

    value: float
    interval: Interval


def _around(value: float, *, rows: int, beta: Number, questions: int) -> PlainAnswer:
    near = hoeffding_alpha(rows, beta=beta, queries=questions)
    return PlainAnswer(value, Interval(max(0.0, value - near), min(1.0, value + near), 1 - float(beta), "population"))


class PlainMeans:
    """Answers questions by sample means, without noise, as a :class:`~holdtrue.Curator` would be asked.

    The interval is Hoeffding's for ``questions`` of them at once: right if they had all been written down beforehand.
    """

    def __init__(self, sample: Labelled, *, beta: Number = 0.05, questions: int = 1) -> None:
        self._engine = open_engine(sample)
        self._beta, self._questions = beta, count("questions", questions)

    def ask(self, text: str) -> PlainAnswer:
        """Return the sample mean of a question."""
        card = self._engine.card
        (total,) = self._engine.sums([parse(text, card)], bits=_GRID_BITS)
        return _around(total / (card.rows << _GRID_BITS), rows=card.rows, beta=self._beta, questions=self._questions)

    def close(self) -> None:
        """Let go of the sample."""
        self._engine.close()


class PlainScores:
    """Scores predictions by plain accuracy, without noise, as a :class:`~holdtrue.Holdout` would be looked at."""

    def __init__(self, y_true: npt.ArrayLike, *, beta: Number = 0.05, looks: int = 1) -> None:
        self._truth = np.asarray(y_true)
        self._beta, self._looks = beta, count("looks", looks)

    def score(self, y_pred: npt.ArrayLike) -> PlainAnswer:
        """Return the share of predictions that are right."""
        value = float((np.asarray(y_pred) == self._truth).mean())
        return _around(value, rows=self._truth.size, beta=self._beta, questions=self._looks)

"""Answering by constrained errors: E_b is the fewest errors on the rows among hypotheses that label the point b (T13).

Privacy holds for any class whose constrained minima are computed exactly. The bounds on error in
:mod:`holdtrue.bounds.agnostic_prediction` hold for thresholds only: for the class of all functions this answers little
better than a coin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.agnostic_prediction import constrained_errors
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Integers, Number, integers, nonnegative
from holdtrue.mechanisms import Exponential

__all__ = ["Constrained", "answer_thresholds", "constrained_minima"]

Points = npt.NDArray[Any] | Sequence[float]


@dataclass(frozen=True)
class Constrained(Exponential):
    """Answers 1 with probability sigmoid(epsilon (E_0 - E_1) / 2): b has weight e^(-epsilon E_b / 2) (T13).

    Guarantee: epsilon-DP and epsilon-bounded-range, for any class of hypotheses, since one row moves each E_b by at most 1.
    Where E_b is only known to within ``tolerance`` a, the exponent is divided by 2 + 2 a instead of 2. For thresholds the
    answers rise with the point, so that they are those of a random threshold, and their expected errors on the rows exceed
    the best threshold's by at most 4 ln 2 / epsilon; for other classes no such bound holds. Needs: E_b exact, not of a
    search that may fail. Fails: never, but with the kernel's generator.
    """

    def __init__(self, epsilon: Number, *, tolerance: Number = 0) -> None:
        super().__init__(epsilon=epsilon, range=2 + 2 * nonnegative("tolerance", tolerance))

    @overload
    def answer(self, zero: int | None, one: int | None) -> int: ...
    @overload
    def answer(self, zero: Integers, one: Integers) -> npt.NDArray[np.int64]: ...
    def answer(self, zero: int | Integers | None, one: int | Integers | None) -> int | npt.NDArray[np.int64]:
        """Return 0 or 1 given E_0 and E_1, for one point or for many.

        None stands for a label that no hypothesis of the class gives the point. The other one is then answered; the class
        is public, so that this tells nothing of the rows.
        """
        if zero is None and one is None:
            raise InvalidParameter.saying("one", "zero and one cannot both be None: some hypothesis labels the point 0 or 1")
        if zero is None or one is None:
            return 1 if zero is None else 0
        errors: npt.NDArray[Any] = np.stack([integers("zero", zero), integers("one", one)], axis=-1)
        said: int | npt.NDArray[np.int64] = self.release(np.negative(errors))
        return said

    def __repr__(self) -> str:
        return f"Constrained(epsilon={float(self.rate * self.range):g}, tolerance={float(self.range / 2 - 1):g})"


def constrained_minima(errors: npt.NDArray[Any], labels: npt.NDArray[Any]) -> tuple[int | None, int | None]:
    """Return E_0 and E_1 at a point, from every hypothesis's errors on the rows and its label there; None where none is.

    They are exact counts of the rows: for :class:`Constrained`, never to be released.
    """
    counts, given = integers("errors", errors), np.asarray(labels)
    if counts.ndim != 1 or counts.shape != given.shape or counts.size == 0:
        raise InvalidParameter.saying("labels", f"labels has shape {given.shape}; expected one label per hypothesis")
    chosen = [counts[given != 1], counts[given == 1]]
    zero, one = (int(group.min()) if group.size else None for group in chosen)
    return zero, one


def answer_thresholds(rows: Points, labels: Points, *, at: Points, rule: Constrained) -> npt.NDArray[np.int64]:
    """Return a label for each of the given points by the class of all thresholds on the line; each costs the rule's event.

    Nothing depends on how many thresholds there are. A missing number counts as the least of all, and a label that is not 1
    as 0.
    """
    zero, one = constrained_errors(_to_points(rows), np.asarray(labels), at=_to_points(at))
    return rule.answer(zero, one)


def _to_points(values: Points) -> npt.NDArray[np.float64]:
    points = np.array(values, dtype=np.float64, ndmin=1)
    points[np.isnan(points)] = -np.inf
    return points

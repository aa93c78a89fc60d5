"""Private classifiers: one hypothesis of a finite class (B6, N3); votes of members (E4, E5); constrained errors (T13)."""

from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from holdtrue.bounds.agnostic_prediction import constrained_errors, threshold_excess
from holdtrue.bounds.learning import fixed_excess
from holdtrue.ensembles import train
from holdtrue.ensembles.responding import Constrained, SoftMajority
from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.estimators.handles import LedgerGiven, handle_of
from holdtrue.estimators.releasing import (
    PrivateEstimator,
    answer_points,
    charge_and_draw,
    encode_labels,
    find_labels,
    points_of,
    read_points,
    read_rows,
    run_quietly,
    unchanged_if_refused,
)
from holdtrue.exact import Number, count, positive, probability
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.kernels import Floats, Integers
from holdtrue.mechanisms import Exponential, PermuteAndFlip

__all__ = ["PrivateLearner", "SoftMajorityClassifier", "ThresholdClassifier"]

Direction: TypeAlias = Literal["up", "down", "either"]

_SIGNS: dict[str, tuple[int, ...]] = {"up": (1,), "down": (-1,), "either": (1, -1)}
_TWO = 2


class PrivateLearner(PrivateEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Picks one hypothesis of a finite class by the exponential mechanism on its errors.

    Guarantee: each ``fit`` is epsilon-DP in its rows, replace-one, and is charged to ``ledger`` before they are scored. If
    the rows are independent draws and the class was fixed before anyone saw them, then with probability 1 - beta the fitted
    hypothesis errs at most ``excess_error_`` more often than the best of the class; it is None where earlier fits on the
    ledger may have led to the class. Needs: two classes. Their names, the number of rows and of columns, and that every
    cell is a finite number, count as public. No error quotes a cell.

    Parameters: ``hypotheses``, a class such as ``Stumps(bounds=(-10, 10), steps=50)``; ``epsilon``; ``beta``; ``ledger``, a
    :class:`Handle`, the path of a ledger, or the curator of these rows, or None for a stand-alone fit that nobody counts.
    """

    _binary_only = True

    def __init__(
        self,
        hypotheses: HypothesisClass | None = None,
        *,
        epsilon: Number = 1.0,
        beta: Number = 0.05,
        ledger: LedgerGiven = None,
    ) -> None:
        self.hypotheses = hypotheses
        self.epsilon = epsilon
        self.beta = beta
        self.ledger = ledger

    def fit(self, X: object, y: object) -> Self:
        """Charge, score every hypothesis on all rows, and pick one."""
        with unchanged_if_refused(self):
            self._learn_rows(X, y)
        return self

    def _learn_rows(self, X: object, y: object) -> None:
        privacy, failure = positive("epsilon", self.epsilon), probability("beta", self.beta)
        if not isinstance(self.hypotheses, HypothesisClass):
            raise InvalidParameter("hypotheses", self.hypotheses, "a class such as Stumps(bounds=(-10, 10), steps=50)")
        handle = handle_of(self.ledger)
        rows, labels = read_rows(self, X, y, handle=handle)
        self.classes_, codes = find_labels(labels)
        if self.classes_.size != _TWO:
            message = (
                f"Only binary classification is supported: y has {self.classes_.size} class(es), where 2 classes are needed"
            )
            raise RequestError(message)
        settled = self.hypotheses.over(rows.shape[1])
        if settled.width != rows.shape[1]:
            raise InvalidParameter.saying("X", f"X has {rows.shape[1]} columns; the class has {settled.width}")
        settled.try_out(np.ones((1, rows.shape[1]), dtype=rows.dtype))
        # Without a ledger, or on a pure one, permute-and-flip costs as much and picks better (B3).
        plain = handle is None or handle.kind == "pure"
        mechanism = (PermuteAndFlip if plain else Exponential)(epsilon=privacy, sensitivity=1)
        index, first = charge_and_draw(
            handle,
            mechanism.event,
            verb="fit",
            estimator=self,
            measure=lambda: settled.error_counts(rows, codes == 1),
            draw=lambda counts: int(mechanism.release(-counts)),
        )
        self.hypotheses_, self.index_, self.hypothesis_ = settled, index, settled.describe(index)
        # Nothing left this ledger before its first charge, so nothing on it led to the class.
        self.excess_error_ = (
            fixed_excess([settled.size], handicaps=[0], place=0, rows=len(rows), epsilon=privacy, beta=failure)
            if first
            else None
        )

    def predict(self, X: object) -> npt.NDArray[Any]:
        """Return the labels that the fitted hypothesis gives; costs nothing more."""
        check_is_fitted(self)
        rows = read_points(self, X)
        return self.classes_[self.hypotheses_.evaluate(rows, self.index_).astype(np.int64)]


class SoftMajorityClassifier(PrivateEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Answers each point by a soft majority of copies of an estimator, each trained on its own part of the rows.

    Guarantee (E4): each point that ``predict`` answers is epsilon-DP and epsilon-bounded-range in the rows of ``fit``,
    replace-one, for any estimator and any number of labels; ``fit`` lets nothing out and costs nothing. With a ``ledger`` a
    call is charged for its new points together, before their votes are drawn; equal points share an answer and a charge,
    and a point that this fit answered before costs nothing. Without one nobody adds up: ``epsilon_per_prediction_`` is what
    each new point costs. Needs: an estimator that is deterministic given its ``random_state`` and keeps nothing outside
    itself; and public ``keys`` for ``fit``, one for each row, that stay when a row is replaced. Without keys parts go by
    position, which *assumes* an order of rows that no value decides: rows sorted by a column break it. Failure:
    InsufficientSamples for more parts than rows; BudgetExceeded, with nothing charged or answered. There is no
    ``predict_proba``: shares of votes are private.

    Parameters: ``estimator``, logistic regression unless told; ``epsilon``, of one point; ``parts``; ``classes``, the public
    list of labels (a label that is not in it counts as the first), or None for those in ``y``, which then count as public;
    ``bounds``, public, of every column or of each, to which features are clamped; ``ledger``, a :class:`Handle`, the path of
    a ledger, the curator of these rows, or None; ``jobs``, how many members are trained at a time. The number of rows and
    of columns, and that every cell is a finite number, count as public; no error quotes a cell. What is fitted
    (``ensemble_``) is private; ``released_`` holds what was released.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, given by name
        self,
        estimator: Any = None,  # noqa: ANN401 - any scikit-learn classifier
        *,
        epsilon: Number = 1.0,
        parts: int = 100,
        classes: object = None,
        bounds: object = None,
        ledger: LedgerGiven = None,
        jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.parts = parts
        self.classes = classes
        self.bounds = bounds
        self.ledger = ledger
        self.jobs = jobs

    def fit(self, X: object, y: object, *, keys: object = None) -> Self:
        """Train a copy of the estimator on each part; nothing is released, and nothing charged.

        A row's part is a hash of its key, and then rows may come in any order (E4, E10); without keys it is its position.
        """
        with unchanged_if_refused(self):
            self._train_parts(X, y, keys)
        return self

    def _train_parts(self, X: object, y: object, keys: object) -> None:
        rule = SoftMajority(positive("epsilon", self.epsilon))
        self.handle_ = handle_of(self.ledger)
        rows, labels = read_rows(self, X, y, handle=self.handle_)
        self.classes_, codes = encode_labels(labels, classes=self.classes)
        self.ensemble_ = run_quietly(
            lambda: train(
                LogisticRegression() if self.estimator is None else self.estimator,
                rows,
                codes,
                parts=self.parts,
                labels=range(self.classes_.size),
                bounds=self.bounds,
                keys=keys,
                jobs=self.jobs,
            )
        )
        self.event_ = rule.event
        self.epsilon_per_prediction_ = float(positive("epsilon", self.epsilon))
        self._rule = rule
        self.released_: dict[Any, Any] = {}

    def predict(self, X: object) -> npt.NDArray[Any]:
        """Return a label for each point, each new one drawn and charged (E4)."""
        check_is_fitted(self)
        points = points_of(self.ensemble_.domain.clamp_points(read_points(self, X)))
        said = answer_points(self, points, measure=self.ensemble_.votes, draw=self._draw_labels)
        return self.classes_[np.array(said, dtype=np.int64)]

    def _draw_labels(self, votes: Integers) -> Integers:
        return np.asarray(self._rule.release(votes), dtype=np.int64)


class ThresholdClassifier(PrivateEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Answers each point by how many errors on the rows it costs to label it 0, and 1: thresholds, with no grid (T13).

    Guarantee: E_b being the fewest errors on the rows among the hypotheses that label the point b, the second label is
    answered with probability sigmoid(epsilon (E_0 - E_1) / 2), which is epsilon-DP and epsilon-bounded-range for each point,
    replace-one, for *any* class, since the minima are exact. The bound on errors is for thresholds on one column in one
    direction only: there the answers' expected errors on the rows exceed the best threshold's by at most the share
    ``sample_excess_``, however many thresholds there are. For all else it is None: a class with a hypothesis for every
    labelling answers little better than a coin. ``fit`` lets nothing out and costs nothing; charges and answers given
    before are as in :class:`SoftMajorityClassifier`. Failure: BudgetExceeded, with nothing charged.

    Parameters: ``hypotheses``, a finite class such as ``Stumps(bounds=(-10, 10), steps=50)`` with a hypothesis for each
    number, or None for all thresholds; ``epsilon``, of one point; of thresholds, the ``column`` they are on (None: any of
    them, at no cost beyond epsilon, but without the bound) and the ``direction`` in which the second label lies: "up",
    "down", or "either" likewise; ``classes``, the public pair of labels, or None for those in ``y``, which then count as
    public; ``ledger``, a :class:`Handle`, the path of a ledger, the curator of these rows, or None. Column, direction and
    class must not come from the rows. The number of rows and of columns, and that every cell is a finite number, count as
    public; no error quotes a cell.
    """

    _binary_only = True

    def __init__(  # noqa: PLR0913 - each is a setting of its own, given by name
        self,
        hypotheses: HypothesisClass | None = None,
        *,
        epsilon: Number = 1.0,
        column: int | None = None,
        direction: Direction = "either",
        classes: object = None,
        ledger: LedgerGiven = None,
    ) -> None:
        self.hypotheses = hypotheses
        self.epsilon = epsilon
        self.column = column
        self.direction = direction
        self.classes = classes
        self.ledger = ledger

    def fit(self, X: object, y: object) -> Self:
        """Keep the rows, which stay private; nothing is released, and nothing charged."""
        with unchanged_if_refused(self):
            self._keep_rows(X, y)
        return self

    def _keep_rows(self, X: object, y: object) -> None:
        rule = Constrained(positive("epsilon", self.epsilon))
        self.handle_ = handle_of(self.ledger)
        rows, labels = read_rows(self, X, y, handle=self.handle_)
        self.classes_, codes = encode_labels(labels, classes=self.classes)
        if self.classes_.size != _TWO:
            message = f"Only binary classification is supported: there are {self.classes_.size} classes, where 2 are needed"
            raise RequestError(message)
        points = points_of(rows)
        self._class = _class_of(self.hypotheses, self.direction, self.column, width=points.shape[1])
        run_quietly(lambda: self._class.learn_rows(points, codes))
        plain = isinstance(self._class, _LineThresholds) and len(self._class.lines) == 1
        self.sample_excess_ = threshold_excess(len(points), epsilon=self.epsilon) if plain else None
        self.event_ = rule.event
        self.epsilon_per_prediction_ = float(positive("epsilon", self.epsilon))
        self._rule = rule
        self.released_: dict[Any, Any] = {}

    def predict(self, X: object) -> npt.NDArray[Any]:
        """Return a label for each point, each new one drawn and charged (T13)."""
        check_is_fitted(self)
        points = points_of(read_points(self, X))
        said = answer_points(self, points, measure=self._class.find_minima, draw=self._draw_labels)
        return self.classes_[np.array(said, dtype=np.int64)]

    def _draw_labels(self, minima: tuple[Integers, Integers]) -> Integers:
        zero, one = minima
        said = self._rule.answer(np.maximum(zero, 0), np.maximum(one, 0))
        # A label that no hypothesis gives the point is never answered; the class is public, so this tells nothing.
        return np.where(zero < 0, 1, np.where(one < 0, 0, said))


class _LineThresholds:
    """All thresholds on some columns, each in one direction or two; a line is a column and a sign."""

    def __init__(self, lines: list[tuple[int, int]]) -> None:
        self.lines = lines

    def learn_rows(self, points: Floats, codes: Integers) -> None:
        self._points, self._codes = points, codes

    def find_minima(self, points: Floats) -> tuple[Integers, Integers]:
        """Return E_0 and E_1 at each point: the least over all lines, which is exact as each line's is."""
        found = [
            constrained_errors(sign * self._points[:, column], self._codes, at=sign * points[:, column])
            for column, sign in self.lines
        ]
        zeros, ones = (np.min(np.stack(errors), axis=0) for errors in zip(*found, strict=True))
        return zeros, ones


class _Finite:
    """The hypotheses of a finite class, by their errors on the rows; a minimum is -1 where no hypothesis gives the label."""

    def __init__(self, hypotheses: HypothesisClass) -> None:
        self._hypotheses = hypotheses

    def learn_rows(self, points: Floats, codes: Integers) -> None:
        self._rows = len(points)
        self._errors = np.asarray(self._hypotheses.error_counts(points, codes == 1), dtype=np.int64)

    def find_minima(self, points: Floats) -> tuple[Integers, Integers]:
        """Return E_0 and E_1 at each point, from every hypothesis's label there."""
        least = np.full((2, len(points)), self._rows + 1, dtype=np.int64)
        places = np.arange(len(points))
        for index, errors in enumerate(self._errors.tolist()):
            given = self._hypotheses.evaluate(points, index).astype(np.int64)
            least[given, places] = np.minimum(least[given, places], errors)
        zero, one = np.where(least > self._rows, -1, least)
        return zero, one


def _class_of(hypotheses: object, direction: str, column: int | None, *, width: int) -> _LineThresholds | _Finite:
    if hypotheses is not None:
        if not isinstance(hypotheses, HypothesisClass):
            raise InvalidParameter("hypotheses", hypotheses, "a class such as Stumps(bounds=(-10, 10), steps=50), or None")
        settled = hypotheses.over(width)
        if settled.width != width:
            raise InvalidParameter.saying("X", f"X has {width} columns; the class has {settled.width}")
        settled.try_out(np.ones((1, width)))
        return _Finite(settled)
    if direction not in _SIGNS:
        raise InvalidParameter("direction", direction, "'up', 'down' or 'either'")
    if column is not None and count("column", column, least=0) >= width:
        raise InvalidParameter("column", column, f"a whole number from 0 to {width - 1}, as X has {width} columns")
    columns = range(width) if column is None else [column]
    return _LineThresholds([(place, sign) for place in columns for sign in _SIGNS[direction]])

"""A private classifier from votes of members trained on disjoint parts (E4, E5)."""

from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from holdtrue.ensembles import train
from holdtrue.ensembles.responding import SoftMajority
from holdtrue.estimators.handles import Handle, handle_of
from holdtrue.estimators.masking import MaskedScore, read_points, read_rows, run_quietly
from holdtrue.estimators.releasing import answer_points, encode_labels, points_of, unchanged_if_refused
from holdtrue.exact import Number, positive
from holdtrue.kernels import Integers

__all__ = ["SoftMajorityClassifier"]


class SoftMajorityClassifier(MaskedScore, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Answers each point by a soft majority of copies of an estimator, each trained on a part of the rows of its own.

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
    a ledger, or None; ``jobs``, how many members are trained at a time. The number of rows and of columns, and that every
    cell is a finite number, count as public; no error quotes a cell. What is fitted (``ensemble_``) is private;
    ``released_`` holds what was let out.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, given by name
        self,
        estimator: Any = None,  # noqa: ANN401 - any scikit-learn classifier
        *,
        epsilon: Number = 1.0,
        parts: int = 100,
        classes: object = None,
        bounds: object = None,
        ledger: Handle | str | PathLike[str] | None = None,
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
        rows, labels = read_rows(self, X, y)
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
        said = answer_points(
            points,
            known=self.released_,
            event=self.event_,
            handle=self.handle_,
            estimator=self,
            measure=self.ensemble_.votes,
            draw=self._draw_labels,
        )
        return self.classes_[np.array(said, dtype=np.int64)]

    def _draw_labels(self, votes: Integers) -> Integers:
        return np.asarray(self._rule.release(votes), dtype=np.int64)

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's own
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

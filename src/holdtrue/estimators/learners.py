"""A private learner over a finite class, as a scikit-learn classifier (B6, N3)."""

from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from holdtrue.bounds.learning import fixed_excess
from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.estimators.handles import Handle, handle_of
from holdtrue.estimators.masking import MaskedScore, find_labels, read_points, read_rows
from holdtrue.estimators.releasing import charge_and_draw, unchanged_if_refused
from holdtrue.exact import Number, positive, probability
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.mechanisms import Exponential, PermuteAndFlip

__all__ = ["PrivateLearner"]

_TWO = 2


class PrivateLearner(MaskedScore, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Picks one hypothesis of a finite class by the exponential mechanism on its errors.

    Guarantee: each ``fit`` is epsilon-DP in its rows, replace-one, and is charged to ``ledger`` before they are scored. If
    the rows are independent draws and the class was fixed before anyone saw them, then with probability 1 - beta the fitted
    hypothesis errs at most ``excess_error_`` more often than the best of the class; it is None where earlier fits on the
    ledger may have led to the class. Needs: two classes. Their names, the number of rows and of columns, and that every
    cell is a finite number, count as public. No error quotes a cell.

    Parameters: ``hypotheses``, a class such as ``Stumps(bounds=(-10, 10), steps=50)``; ``epsilon``; ``beta``; ``ledger``, a
    :class:`Handle` or the path of a ledger, or None for a stand-alone fit that nobody counts.
    """

    def __init__(
        self,
        hypotheses: HypothesisClass | None = None,
        *,
        epsilon: Number = 1.0,
        beta: Number = 0.05,
        ledger: Handle | str | PathLike[str] | None = None,
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
        rows, labels = read_rows(self, X, y)
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

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's own
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.classifier_tags.multi_class = False
        return tags

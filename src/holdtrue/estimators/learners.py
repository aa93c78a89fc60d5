"""A private learner over a finite class, as a scikit-learn classifier (B6, P3)."""

from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from holdtrue.bounds.learned import fixed_excess
from holdtrue.errors import InvalidParameter
from holdtrue.estimators.handles import Handle, handle_of
from holdtrue.exact import Number, positive, probability
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.mechanisms import Exponential, PermuteAndFlip

__all__ = ["PrivateLearner"]

_TWO = 2


class PrivateLearner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Picks one hypothesis of a finite class by the exponential mechanism on its errors.

    Guarantee: each ``fit`` is epsilon-DP in its rows, replace-one, and is charged to ``ledger`` before they are scored. If
    the rows are independent draws and the class was fixed before anyone saw them, then with probability 1 - beta the fitted
    hypothesis errs at most ``excess_error_`` more often than the best of the class; it is None where earlier fits on the
    ledger may have led to the class. Needs: two classes. Their names, the number of rows and of columns count as public.

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
        privacy, failure = positive("epsilon", self.epsilon), probability("beta", self.beta)
        if not isinstance(self.hypotheses, HypothesisClass):
            raise InvalidParameter("hypotheses", self.hypotheses, "a class such as Stumps(bounds=(-10, 10), steps=50)")
        rows, labels = validate_data(self, X, y, dtype="numeric")
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if self.classes_.size != _TWO:
            message = (
                f"Only binary classification is supported: y has {self.classes_.size} class(es), where 2 classes are needed"
            )
            raise ValueError(message)
        settled = self.hypotheses.over(rows.shape[1])
        if settled.width != rows.shape[1]:
            raise InvalidParameter("X", f"{rows.shape[1]} columns", f"{settled.width} columns, as the class has")
        handle = handle_of(self.ledger)
        # Without a ledger, or on a pure one, permute-and-flip costs as much and picks better (B3).
        plain = handle is None or handle.kind == "pure"
        mechanism = (PermuteAndFlip if plain else Exponential)(epsilon=privacy, sensitivity=1)
        entry = None if handle is None else handle.charge(mechanism.event, verb="fit")
        counts = settled.error_counts(rows, labels == self.classes_[1])
        self.hypotheses_ = settled
        self.index_ = int(mechanism.release(-counts))
        self.hypothesis_ = settled.describe(self.index_)
        first = entry is None or entry.number == 1
        self.excess_error_ = (
            fixed_excess([settled.size], handicaps=[0], place=0, rows=len(rows), epsilon=privacy, beta=failure)
            if first
            else None
        )
        return self

    def predict(self, X: object) -> npt.NDArray[Any]:
        """Return the labels that the fitted hypothesis gives; costs nothing more."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype="numeric", reset=False)
        return self.classes_[self.hypotheses_.evaluate(rows, self.index_).astype(np.int64)]

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's own
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.classifier_tags.multi_class = False
        return tags

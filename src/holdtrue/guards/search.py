"""Guards for hyperparameter searches: an objective that is told nothing of the gate's cases but who was promoted.

The number that a search sees is the place of a promotion: 1 for the first candidate that had a yes, 2 for the one that beat
it, and 0 for every no. So the largest is the incumbent's, whatever maximises it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtrue.errors import BudgetExceeded, InvalidParameter

if TYPE_CHECKING:
    from holdtrue.exact import Number
    from holdtrue.holdouts import Holdout

__all__ = ["GateScorer", "count_promotions", "gated_objective"]


class GateScorer:
    """A scorer for ``GridSearchCV(..., scoring=GateScorer(gate, features), cv=one_split)``: one look per fitted model.

    ``gate`` is over labels (``metric="accuracy"``), with ``features`` those of its cases. Use a single split: each fit of
    each fold is a look. Copies and worker processes share the gate's ledger.
    """

    def __init__(self, gate: "Holdout", features: object, *, margin: "Number" = 0) -> None:
        self.gate, self.features, self.margin = gate, features, margin

    def __call__(self, estimator: Any, X: object = None, y: object = None) -> float:  # noqa: ANN401, N803 - scikit-learn's
        """Return the place of the promotion, 0 for a no."""
        del X, y
        return count_promotions(self.gate, estimator.predict(self.features), margin=self.margin)


def count_promotions(gate: "Holdout", y_pred: object, *, margin: "Number" = 0) -> float:
    """Return how many promotions there were up to this one; 0 for a no, and for whom the gate was opened with."""
    try:
        verdict = gate.gate(y_pred, margin=margin)
    except InvalidParameter:
        if gate.named(y_pred) == gate.leading:
            return 0.0
        raise
    return float((gate.facts.yes or 0) - verdict.yes_left) if verdict.yes else 0.0


def gated_objective(gate: "Holdout", predict: Callable[[Any], object], *, margin: "Number" = 0) -> Callable[[Any], float]:
    """Return an objective for Optuna, to be maximised; ``predict`` makes a trial's predictions for the gate's cases.

    The study stops, and its last trial is pruned, once the gate has no look left.
    """

    def objective(trial: Any) -> float:  # noqa: ANN401 - Optuna's
        from optuna import TrialPruned

        y_pred = predict(trial)
        try:
            return count_promotions(gate, y_pred, margin=margin)
        except BudgetExceeded as refusal:
            trial.study.stop()
            raise TrialPruned(str(refusal)) from None

    return objective

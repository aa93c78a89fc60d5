"""Holdtrue: a curator for a dataset. Its rows keep their secrets, and its answers hold for the population.

What is exported here is loaded when it is first used, so that importing Holdtrue costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdtrue.errors import (
    BudgetExceeded,
    CuratorClosed,
    FingerprintMismatch,
    HoldtrueError,
    InsufficientSamples,
    IntegrityError,
    InvalidParameter,
    MissingExtra,
    NotCertified,
    NotPrivate,
    PreconditionError,
    RefusedError,
    ReleaseError,
    RequestError,
    Unauthorized,
    UnknownColumn,
    UnknownName,
    UnsupportedQuery,
    UsedKey,
)
from holdtrue.version import __version__

if TYPE_CHECKING:
    from holdtrue.accounting.composition import Bound, compose
    from holdtrue.auditing import (
        Finding,
        audit_generalization,
        audit_privacy,
        audit_replicability,
        audit_stability,
        audit_timing,
    )
    from holdtrue.auditing.ledger import audit_ledger
    from holdtrue.clients import connect
    from holdtrue.curator import Curator
    from holdtrue.holdouts import Holdout, Leaderboard, Score, Verdict
    from holdtrue.hypotheses import (
        Conjunctions,
        DecisionLists,
        Disjunctions,
        Hypotheses,
        Intervals,
        LinearNet,
        Parities,
        Rectangles,
        Stumps,
        Thresholds,
        Trees,
    )
    from holdtrue.ledgers import verify
    from holdtrue.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, PermuteAndFlip
    from holdtrue.planning.asking import Intractable, plan
    from holdtrue.planning.comparing import Comparison
    from holdtrue.planning.holdout_plan import HoldoutPlan, plan_holdout
    from holdtrue.planning.learning import LearningPlan, plan_learning
    from holdtrue.planning.plans import Plan
    from holdtrue.planning.predicting import PredictionPlan, plan_prediction
    from holdtrue.planning.regression import RegressionPlan, plan_regression
    from holdtrue.planning.selecting import SelectionPlan, plan_selection
    from holdtrue.requests import Fourier, Polynomial
    from holdtrue.verbs.tables import cut

__all__ = [
    "AboveThreshold",
    "Bound",
    "BudgetExceeded",
    "Comparison",
    "Conjunctions",
    "Curator",
    "CuratorClosed",
    "DecisionLists",
    "Disjunctions",
    "Exponential",
    "Finding",
    "FingerprintMismatch",
    "Fourier",
    "Gaussian",
    "Holdout",
    "HoldoutPlan",
    "HoldtrueError",
    "Hypotheses",
    "InsufficientSamples",
    "IntegrityError",
    "Intervals",
    "Intractable",
    "InvalidParameter",
    "Laplace",
    "Leaderboard",
    "LearningPlan",
    "LinearNet",
    "MissingExtra",
    "NotCertified",
    "NotPrivate",
    "Parities",
    "PermuteAndFlip",
    "Plan",
    "Polynomial",
    "PreconditionError",
    "PredictionPlan",
    "Rectangles",
    "RefusedError",
    "RegressionPlan",
    "ReleaseError",
    "RequestError",
    "Score",
    "SelectionPlan",
    "Stumps",
    "Thresholds",
    "Trees",
    "Unauthorized",
    "UnknownColumn",
    "UnknownName",
    "UnsupportedQuery",
    "UsedKey",
    "Verdict",
    "__version__",
    "audit_generalization",
    "audit_ledger",
    "audit_privacy",
    "audit_replicability",
    "audit_stability",
    "audit_timing",
    "compose",
    "connect",
    "cut",
    "plan",
    "plan_holdout",
    "plan_learning",
    "plan_prediction",
    "plan_regression",
    "plan_selection",
    "verify",
]

_HOMES = {
    "accounting.composition": ["Bound", "compose"],
    "auditing": [
        "Finding",
        "audit_generalization",
        "audit_privacy",
        "audit_replicability",
        "audit_stability",
        "audit_timing",
    ],
    "auditing.ledger": ["audit_ledger"],
    "clients": ["connect"],
    "curator": ["Curator"],
    "holdouts": ["Holdout", "Leaderboard", "Score", "Verdict"],
    "hypotheses": [
        "Conjunctions",
        "DecisionLists",
        "Disjunctions",
        "Hypotheses",
        "Intervals",
        "LinearNet",
        "Parities",
        "Rectangles",
        "Stumps",
        "Thresholds",
        "Trees",
    ],
    "ledgers": ["verify"],
    "mechanisms": ["AboveThreshold", "Exponential", "Gaussian", "Laplace", "PermuteAndFlip"],
    "planning.asking": ["Intractable", "plan"],
    "planning.comparing": ["Comparison"],
    "planning.holdout_plan": ["HoldoutPlan", "plan_holdout"],
    "planning.learning": ["LearningPlan", "plan_learning"],
    "planning.plans": ["Plan"],
    "planning.predicting": ["PredictionPlan", "plan_prediction"],
    "planning.regression": ["RegressionPlan", "plan_regression"],
    "planning.selecting": ["SelectionPlan", "plan_selection"],
    "requests": ["Fourier", "Polynomial"],
    "verbs.tables": ["cut"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    if name == "Curator":  # so that gates that are open on its rows hold its answers back
        import_module(f"{__name__}.holdouts")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

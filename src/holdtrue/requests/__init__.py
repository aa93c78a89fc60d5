"""What may be asked: frozen records, each field declared once with its type, default, range and one sentence.

A request says what is asked, and nothing of who asks or under which key: those travel beside it. What lives in a process
only (a class of hypotheses, an estimator, an array) stands here as its document. Ranges are checked where a record is read
from JSON; a record made in Python is checked by the verb that it is for.
"""

from typing import TypeAlias

from holdtrue.requests.fields import (
    ClassDocument,
    ConjunctionsDocument,
    DatasetName,
    DecisionListsDocument,
    DisjunctionsDocument,
    FieldDescription,
    IntervalsDocument,
    LinearNetDocument,
    ParitiesDocument,
    RectanglesDocument,
    StumpsDocument,
    ThresholdsDocument,
    TreesDocument,
    UnionDocument,
    class_document,
    describe,
)
from holdtrue.requests.models import (
    Basis,
    Distill,
    EstimatorDocument,
    Evaluate,
    Fit,
    FitKind,
    Fourier,
    Learn,
    Polynomial,
    Predict,
    Train,
)
from holdtrue.requests.questions import (
    Ask,
    Auc,
    BestError,
    By,
    Correlation,
    Covariance,
    Cut,
    Gini,
    MarginalSets,
    Mean,
    Pairs,
    Quantile,
    Ratio,
    RSquared,
    Select,
    Synthesize,
    Table,
    Total,
    Variance,
    WatchQuestion,
)
from holdtrue.requests.terms import (
    Certify,
    Compare,
    Gate,
    Grant,
    HoldoutTerms,
    ReceiptDocument,
    Register,
    RegisterHoldout,
    Reserved,
    Score,
    Submit,
    Terms,
    Verify,
)

__all__ = [
    "Ask",
    "Auc",
    "Basis",
    "BestError",
    "By",
    "Certify",
    "ClassDocument",
    "Compare",
    "ConjunctionsDocument",
    "Correlation",
    "Covariance",
    "Cut",
    "DatasetName",
    "DecisionListsDocument",
    "DisjunctionsDocument",
    "Distill",
    "EstimatorDocument",
    "Evaluate",
    "FieldDescription",
    "Fit",
    "FitKind",
    "Fourier",
    "Gate",
    "Gini",
    "Grant",
    "HoldoutTerms",
    "IntervalsDocument",
    "Learn",
    "LinearNetDocument",
    "MarginalSets",
    "Mean",
    "Pairs",
    "ParitiesDocument",
    "Polynomial",
    "Predict",
    "Quantile",
    "RSquared",
    "Ratio",
    "ReceiptDocument",
    "RectanglesDocument",
    "Register",
    "RegisterHoldout",
    "Request",
    "Reserved",
    "Score",
    "Select",
    "StumpsDocument",
    "Submit",
    "Synthesize",
    "Table",
    "Terms",
    "ThresholdsDocument",
    "Total",
    "Train",
    "TreesDocument",
    "UnionDocument",
    "Variance",
    "Verify",
    "WatchQuestion",
    "class_document",
    "describe",
]

Request: TypeAlias = (
    Ask
    | Table
    | Mean
    | Total
    | Quantile
    | Select
    | Learn
    | Train
    | Predict
    | Distill
    | Score
    | Compare
    | Gate
    | Certify
    | Submit
    | Grant
    | Verify
    | Register
    | RegisterHoldout
    | Variance
    | Covariance
    | Gini
    | Pairs
    | Auc
    | Correlation
    | RSquared
    | BestError
    | Ratio
    | WatchQuestion
    | Evaluate
    | MarginalSets
    | Synthesize
    | Fit
)

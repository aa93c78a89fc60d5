"""Holdtrue: a curator for a dataset. Its rows keep their secrets, and its answers hold for the population."""

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
)
from holdtrue.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, PermuteAndFlip

__version__ = "0.1.0.dev0"

__all__ = [
    "AboveThreshold",
    "BudgetExceeded",
    "CuratorClosed",
    "Exponential",
    "FingerprintMismatch",
    "Gaussian",
    "HoldtrueError",
    "InsufficientSamples",
    "IntegrityError",
    "InvalidParameter",
    "Laplace",
    "MissingExtra",
    "NotCertified",
    "NotPrivate",
    "PermuteAndFlip",
    "PreconditionError",
    "RefusedError",
    "ReleaseError",
    "RequestError",
    "Unauthorized",
    "UnknownColumn",
    "UnknownName",
    "UnsupportedQuery",
    "__version__",
]

"""Scikit-learn estimators: private learning and private prediction behind fit and predict."""

from holdtrue.estimators.handles import Handle
from holdtrue.estimators.learners import PrivateLearner

__all__ = ["Handle", "PrivateLearner"]

"""Scikit-learn estimators: private learning and private prediction behind fit and predict.

Every fit draws fresh noise, also on the same rows. Repeating the output of an equal fit would satisfy the checks of
scikit-learn that compare two fits, but it would reveal whether two sets of rows are equal; so those checks are named in
:data:`EXPECTED_FAILED_CHECKS`, for ``check_estimator(..., expected_failed_checks=EXPECTED_FAILED_CHECKS)``.
"""

from holdtrue.estimators.classifiers import PrivateLearner, SoftMajorityClassifier, ThresholdClassifier
from holdtrue.estimators.handles import Handle
from holdtrue.estimators.stable import StableClassifier, StableRegressor

_REASON = "it compares two fits of the same rows, and private fits draw their noise afresh"

EXPECTED_FAILED_CHECKS = dict.fromkeys(
    (
        "check_classifier_data_not_an_array",
        "check_fit_idempotent",
        "check_regressor_data_not_an_array",
        "check_regressors_int",
        "check_supervised_y_2d",
    ),
    _REASON,
)
"""The checks of scikit-learn that ask for the same answer twice, with the reason why a private estimator has none."""

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "Handle",
    "PrivateLearner",
    "SoftMajorityClassifier",
    "StableClassifier",
    "StableRegressor",
    "ThresholdClassifier",
]

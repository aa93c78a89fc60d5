"""The estimators that an owner may train over HTTP, by name: no code, no class path, only these and these parameters."""

from collections.abc import Callable, Mapping
from typing import Any

from holdtrue.errors import InvalidParameter

__all__ = ["ESTIMATORS", "make_estimator"]

_Check = Callable[[Any], bool]
_MOST = 100_000


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1e9  # noqa: PLR2004 - far enough


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST


def _is_depth(value: object) -> bool:
    return value is None or (_is_whole(value) and int(str(value)) <= 32)  # noqa: PLR2004 - a tree deeper than this memorises


_TREE: dict[str, _Check] = {
    "max_depth": _is_depth,
    "min_samples_leaf": _is_whole,
    "min_samples_split": lambda v: _is_whole(v) and v > 1,
}
# kind -> (module of scikit-learn, class, parameters and what they may be)
ESTIMATORS: dict[str, tuple[str, str, dict[str, _Check]]] = {
    "logistic-regression": (
        "sklearn.linear_model",
        "LogisticRegression",
        {"C": _is_positive, "fit_intercept": _is_flag, "max_iter": _is_whole},
    ),
    "linear-regression": ("sklearn.linear_model", "LinearRegression", {"fit_intercept": _is_flag}),
    "ridge": ("sklearn.linear_model", "Ridge", {"alpha": _is_positive, "fit_intercept": _is_flag}),
    "decision-tree": ("sklearn.tree", "DecisionTreeClassifier", _TREE),
    "decision-tree-regressor": ("sklearn.tree", "DecisionTreeRegressor", _TREE),
    "gaussian-naive-bayes": ("sklearn.naive_bayes", "GaussianNB", {"var_smoothing": _is_positive}),
}


def make_estimator(kind: str, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a scikit-learn estimator
    """Return an estimator that was not fitted yet; InvalidParameter for what is not on the list."""
    from importlib import import_module

    if kind not in ESTIMATORS:
        raise InvalidParameter("kind", kind, f"one of {', '.join(ESTIMATORS)}")
    module, name, known = ESTIMATORS[kind]
    for parameter, value in parameters.items():
        check = known.get(parameter)
        if check is None or not check(value):
            raise InvalidParameter("parameters", parameter, f"within their ranges, and of {', '.join(known)}")
    return getattr(import_module(module), name)(**parameters)

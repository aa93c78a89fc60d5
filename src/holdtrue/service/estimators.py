"""The estimators that an owner may train over HTTP, by name: no code, no class path, only these and these parameters."""

from collections.abc import Callable, Mapping
from typing import Any

from holdtrue.errors import InvalidParameter

__all__ = ["ESTIMATORS", "estimator_of"]

_Check = Callable[[Any], bool]
_MOST = 100_000


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1e9  # noqa: PLR2004 - far enough


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST


def _depth(value: object) -> bool:
    return value is None or (_whole(value) and int(str(value)) <= 32)  # noqa: PLR2004 - a tree deeper than this memorises


_TREE: dict[str, _Check] = {
    "max_depth": _depth,
    "min_samples_leaf": _whole,
    "min_samples_split": lambda v: _whole(v) and v > 1,
}
# kind -> (module of scikit-learn, class, parameters and what they may be)
ESTIMATORS: dict[str, tuple[str, str, dict[str, _Check]]] = {
    "logistic-regression": (
        "sklearn.linear_model",
        "LogisticRegression",
        {"C": _positive, "fit_intercept": _flag, "max_iter": _whole},
    ),
    "linear-regression": ("sklearn.linear_model", "LinearRegression", {"fit_intercept": _flag}),
    "ridge": ("sklearn.linear_model", "Ridge", {"alpha": _positive, "fit_intercept": _flag}),
    "decision-tree": ("sklearn.tree", "DecisionTreeClassifier", _TREE),
    "decision-tree-regressor": ("sklearn.tree", "DecisionTreeRegressor", _TREE),
    "gaussian-naive-bayes": ("sklearn.naive_bayes", "GaussianNB", {"var_smoothing": _positive}),
}


def estimator_of(kind: str, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a scikit-learn estimator
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

"""Classes, estimators and rows as requests name them, held to what the service allows: no code, no path of a class."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdtrue.errors import InvalidParameter
from holdtrue.hypotheses import read_class
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.requests import BestError, Learn, Train
from holdtrue.service.http.problems import Refused
from holdtrue.service.settings import Settings

if TYPE_CHECKING:
    from holdtrue.service.datasets import Dataset

__all__ = ["ESTIMATORS", "check_size", "make_estimator", "read_classes", "to_columns"]


def read_classes(
    dataset: "Dataset", body: Learn | BestError | Train, settings: Settings
) -> HypothesisClass | list[HypothesisClass]:
    """Return the classes of a request that has any, which this service has room for."""
    several = body.hypotheses
    if several is None:
        raise InvalidParameter.without_value("hypotheses", "a class, or several")
    classes = [read_class(each) for each in several] if isinstance(several, tuple) else read_class(several)
    # How many columns a class goes over that does not say so itself, at most.
    columns = len(dataset.curator.card.columns if body.features is None else body.features)
    check_size(classes, columns=columns, rows=dataset.curator.card.rows, settings=settings)
    return classes


def check_size(classes: HypothesisClass | Sequence[HypothesisClass], *, columns: int, rows: int, settings: Settings) -> None:
    """Refuse classes that are larger, or longer to count, than the settings allow, together and before anything starts."""
    several = [classes] if isinstance(classes, HypothesisClass) else list(classes)
    settled = [each.over(columns) if each.width is None else each for each in several]
    most = f"{settings.class_limit:,} in one request"
    if sum(each.size for each in settled) <= settings.class_limit:
        if sum(each.count_steps(rows) for each in settled) <= settings.work_limit:
            return
        most = f"as many as {settings.work_limit:,} steps count on {rows:,} rows"
    detail = f"too many hypotheses: this service takes at most {most}; use a smaller class"
    raise Refused(422, "class too large", detail)


# What an owner may train over HTTP: no code, no class path, only these and these parameters.
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
    if kind not in ESTIMATORS:
        raise InvalidParameter("estimator", kind, f"one of {', '.join(ESTIMATORS)}")
    module, name, known = ESTIMATORS[kind]
    for parameter, value in parameters.items():
        check = known.get(parameter)
        if check is None or not check(value):
            raise InvalidParameter("parameters", parameter, f"within their ranges, and of {', '.join(known)}")
    return getattr(import_module(module), name)(**parameters)


def to_columns(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return rows as columns, each value as it was sent; all rows must have the same columns."""
    import numpy as np

    names = list(rows[0])
    if any(set(row) != set(names) for row in rows):
        raise InvalidParameter.saying("rows", "all rows must have the same columns")
    table = {}
    for name in names:
        column = np.empty(len(rows), dtype=object)
        column[:] = [row[name] for row in rows]
        table[name] = column
    return table

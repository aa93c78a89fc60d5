"""Pipelines that read data frames: columns by name, and labels of text columns as text."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.errors import MissingExtra

__all__ = ["FrameReader", "reads_frames"]


def reads_frames(estimator: object, columns: Sequence[str]) -> bool:
    """Return whether an estimator is a pipeline that picks some of the columns by name. Looks at public facts only."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline):
        return False
    transformers = [step for _, step in estimator.steps if isinstance(step, ColumnTransformer)]
    named = [spec[2] for transformer in transformers for spec in transformer.transformers]
    picked = [each for spec in named if isinstance(spec, (list, tuple)) for each in spec if isinstance(each, str)]
    return any(not isinstance(spec, (list, tuple)) or not spec for spec in named) or bool(set(picked) & set(columns))


class FrameReader:
    """An estimator that gives a pipeline each row as one of a data frame.

    Law: the frame is a function of the same clamped numbers that any other estimator is given, row by row; a place in a
    public list of labels is the label, and None where the row has none of them. So what is promised of members holds of
    these (E4). Needs: pandas. Failure: MissingExtra where it is not installed, before training begins.
    """

    def __init__(self, estimator: Any, columns: Sequence[str], labels: Mapping[str, Sequence[object]]) -> None:  # noqa: ANN401
        self.estimator, self.columns, self.labels = estimator, columns, labels
        try:
            import pandas as pd  # noqa: F401 - looked for
        except ImportError:
            raise MissingExtra("frames", purpose="a pipeline that reads columns by name") from None

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002 - as scikit-learn calls it
        """Return the parameters, those of the pipeline after ``estimator__``."""
        inner = self.estimator.get_params(deep=True) if deep else {}
        own = {"estimator": self.estimator, "columns": self.columns, "labels": self.labels}
        return own | {f"estimator__{name}": value for name, value in inner.items()}

    def set_params(self, **given: Any) -> "FrameReader":  # noqa: ANN401 - as scikit-learn calls it
        """Set parameters of the pipeline, named as :meth:`get_params` names them."""
        self.estimator.set_params(**{name.removeprefix("estimator__"): value for name, value in given.items()})
        return self

    def fit(self, X: npt.NDArray[np.float64], y: npt.NDArray[Any]) -> "FrameReader":
        """Fit the pipeline on the rows as a data frame."""
        self.estimator.fit(self._make_frame(X), y)
        return self

    def predict(self, X: npt.NDArray[np.float64]) -> Any:  # noqa: ANN401 - an array
        """Return what the pipeline predicts."""
        return self.estimator.predict(self._make_frame(X))

    def _make_frame(self, X: npt.NDArray[np.float64]) -> Any:  # noqa: ANN401 - pandas' data frame
        import pandas as pd

        found: dict[str, Any] = {}
        for place, name in enumerate(self.columns):
            listed = self.labels.get(name)
            if listed is None:
                found[name] = X[:, place]
            else:
                words = np.array([*listed, None], dtype=object)  # the place -1 is the last
                found[name] = pd.Series(words[X[:, place].astype(np.int64)], dtype=object)
        return pd.DataFrame(found)

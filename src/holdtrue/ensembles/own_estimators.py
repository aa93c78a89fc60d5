"""Estimators of our own for an ensemble's parts: the best of a finite class, and pipelines that read data frames (V4.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from holdtrue.errors import MissingExtra
from holdtrue.kernels import Floats, Integers

__all__ = ["ExactMinimiser", "FiniteClass", "FrameReader", "Pick", "PickMembers", "reads_frames"]


class FiniteClass(Protocol):
    """What members need of a class: its size, the errors of every hypothesis, and the labels of one."""

    kind: ClassVar[str]

    @property
    def size(self) -> int:
        """Return the number of hypotheses."""
        ...

    def error_counts(self, X: object, y: object) -> Integers:
        """Return how many rows each hypothesis gets wrong."""
        ...

    def label_rows(self, X: Any, index: int) -> npt.NDArray[np.bool_]:  # noqa: ANN401 - a matrix of numbers
        """Return the labels that a hypothesis gives to rows."""
        ...


class Pick(NamedTuple):
    """A member: the number of its hypothesis."""

    number: int


@dataclass(frozen=True, eq=False, repr=False)
class ExactMinimiser:
    """What is trained on a part: the first hypothesis of a class that errs least on it. Nothing is drawn, nothing fails.

    ``document`` is the class as JSON, None where it was made of code. A part without rows has the first hypothesis.
    """

    hypotheses: FiniteClass
    document: str | None

    def __sklearn_clone__(self) -> "ExactMinimiser":
        return self

    def get_params(self, *, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's signature
        """Return no parameters: there is nothing to choose but the class."""
        return {}

    def set_params(self) -> "ExactMinimiser":
        """Return itself."""
        return self

    def fit(self, X: Floats, y: Integers) -> Pick:
        """Return the first of the hypotheses with the fewest errors; ``y`` has 0 and 1."""
        return Pick(int(self.hypotheses.error_counts(X, y).argmin()) if len(X) else 0)

    def predict(self, X: Floats) -> npt.NDArray[np.bool_]:
        """Return what the first hypothesis says, which is what is known without rows."""
        return self.hypotheses.label_rows(X, 0)

    def __repr__(self) -> str:
        return f"best of {self.hypotheses.size:,} {self.hypotheses.kind}"


@dataclass(frozen=True, eq=False)
class PickMembers:
    """Members that are hypotheses of one class, by their numbers."""

    source: ExactMinimiser
    indices: Integers
    kind: ClassVar[Literal["picks"]] = "picks"

    @property
    def parts(self) -> int:
        """Return the number of members."""
        return self.indices.size

    def votes(self, points: Floats, *, labels: tuple[Any, ...]) -> Integers:
        """Return how many members vote for each of two labels at each point."""
        del labels
        yes = np.zeros(len(points), dtype=np.int64)
        for index, members in zip(*np.unique(self.indices, return_counts=True), strict=True):
            yes += self.source.hypotheses.label_rows(points, int(index)) * int(members)
        return np.stack([self.parts - yes, yes], axis=1)

    def outputs(self, points: Floats, *, fallback: float) -> Floats:
        """Return the label of each member at each point as a number."""
        del fallback
        label = self.source.hypotheses.label_rows
        return np.stack([label(points, int(index)) for index in self.indices], axis=1).astype(np.float64)


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

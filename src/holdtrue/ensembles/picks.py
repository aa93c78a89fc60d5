"""Members that are the best of a finite class on their part: the least errors, and of those the first (V4.1)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from holdtrue.kernels import Floats, Integers

__all__ = ["ExactMinimiser", "FiniteClass", "Pick", "PickMembers"]


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

"""Learning: a class of hypotheses laid over the columns of a card, and the pick that is learned."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from holdtrue.curator.pipeline import Job, Pipeline
from holdtrue.entropy import SYSTEM
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, listed
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.unions import Union
from holdtrue.queries.cards import Card
from holdtrue.queries.columns import names_of
from holdtrue.queries.features import Feature, Numbers, feature, matrix
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Hypothesis
from holdtrue.verbs import Answered, Measured, Planned, learning, plan_single

__all__ = ["LearningTask"]

_NUMBERS = ("integer", "real", "boolean")


@dataclass(frozen=True, slots=True, eq=False)
class LearningTask:
    """A class with names for its columns, what each of them reads, and the question to predict."""

    pipeline: Pipeline
    hypotheses: HypothesisClass
    columns: tuple[str, ...]
    features: tuple[Feature, ...]
    target: Query

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        hypotheses: HypothesisClass | Sequence[HypothesisClass],
        *,
        target: str,
        features: Sequence[str] | None,
        weights: Sequence[Number] | None,
    ) -> "LearningTask":
        """Lay a class, or several joined, over the columns of a card. Nothing is read but the card."""
        joined = _joined(hypotheses, weights)
        question = pipeline.parse(target)
        if joined.columns is not None:
            if features is not None:
                raise InvalidParameter("features", features, "left out: the class names its columns")
            names = joined.columns
        else:
            names = tuple(
                _default(pipeline, question)
                if features is None
                else listed("features", features, expected="a list of columns or questions")
            )
            joined = joined.over(names)
        # Both refuse before anything is charged: what would take too long, and what would not fit into memory.
        joined.check_work(pipeline.card.rows)
        joined.blank()
        read = tuple(feature(name, pipeline.card) for name in names)
        joined.try_out(_invented(read, pipeline.card))
        return cls(pipeline, joined, names, read, question)

    def learn(  # noqa: PLR0913 - the numbers of one pick, and who asks for it
        self,
        *,
        epsilon: Number | None,
        alpha: Number | None,
        beta: Number | None,
        anyway: bool,
        key: str | None,
        analyst: str | None,
    ) -> Hypothesis:
        """Return the pick, with its class at hand so that it predicts."""
        pipeline, nonce = self.pipeline, SYSTEM.words(2).tobytes().hex()

        def plan(answered: Answered) -> Planned:
            release = learning.learn(
                self.hypotheses,
                target=self.target,
                columns=self.columns,
                plan=pipeline.plan,
                limit=pipeline.limit,
                rows=pipeline.card.rows,
                standing=answered.standing(),
                epsilon=epsilon,
                alpha=alpha,
                beta=beta,
                anyway=anyway,
                nonce=nonce,
            )
            return plan_single(release, answered, measure=self._counts)

        (found,) = pipeline.run(Job(plan, key=key, analyst=analyst, slow=True))
        if not isinstance(found, Hypothesis):
            raise InvalidParameter("key", key, "a key of its own: this one was used for another request")
        return found.with_class(partial(self._labels, index=found.index))

    def _counts(self) -> Measured:
        engine, progress = self.pipeline.engine, self.pipeline.progress
        return engine.error_counts(self.hypotheses, self.features, self.target, progress=progress)

    def _labels(self, rows: object, *, index: int) -> npt.NDArray[np.bool_]:
        read = matrix(rows, self.features, self.pipeline.card) if names_of(rows) is not None else rows
        return self.hypotheses.evaluate(read, index)


def _joined(hypotheses: HypothesisClass | Sequence[HypothesisClass], weights: Sequence[Number] | None) -> HypothesisClass:
    expected = "a class such as Stumps, or a list of them"
    classes = (
        [hypotheses] if isinstance(hypotheses, HypothesisClass) else listed("hypotheses", hypotheses, expected=expected)
    )
    for item in classes:
        if not isinstance(item, HypothesisClass):
            raise InvalidParameter("hypotheses", type(item).__name__, expected)
    if not classes:
        raise InvalidParameter("hypotheses", [], "one class or more")
    if len(classes) == 1:
        if weights is not None:
            raise InvalidParameter("weights", weights, "left out with a single class")
        return classes[0]
    return Union(classes, weights=weights)


def _default(pipeline: Pipeline, target: Query) -> list[str]:
    named = [
        column.name for column in pipeline.card.columns if column.type in _NUMBERS and column.name not in target.columns
    ]
    if not named:
        raise InvalidParameter("features", None, "given: no column of numbers is left beside those of the target")
    return named


def _invented(features: Sequence[Feature], card: Card) -> npt.NDArray[np.float64]:
    """Return one row of the card's types that no data were read for: the middle of declared bounds, 1 or yes otherwise."""
    declared = {column.name: column.bounds for column in card.columns if column.bounds is not None}
    middles = [sum(declared.get(item.column, (1.0, 1.0))) / 2 if isinstance(item, Numbers) else 1.0 for item in features]
    return np.array([middles], dtype=np.float64)

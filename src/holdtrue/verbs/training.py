"""TRAIN: copies of an estimator on disjoint parts of the rows, kept under a name; nothing is released (E4, E10)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.codec import digest_of
from holdtrue.ensembles.certificates import ClassTerms, ErrorBound
from holdtrue.ensembles.members import Ensemble
from holdtrue.ensembles.own_estimators import ExactMinimiser, FrameReader, reads_frames
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.training import Recipe, make_recipe
from holdtrue.entropy import SYSTEM
from holdtrue.errors import InvalidParameter, NotCertified, PreconditionError
from holdtrue.exact import Number, count, probability, read_list, text_among
from holdtrue.hypotheses.classes import HypothesisClass
from holdtrue.hypotheses.unions import join_classes, write_document
from holdtrue.mechanisms.base import Mechanism
from holdtrue.queries.cards import Card
from holdtrue.queries.columns import names_of
from holdtrue.queries.features import (
    Feature,
    Labelled,
    Numbers,
    columns_of,
    default_features,
    expand_labels,
    parse_feature,
    parse_labelled,
    read_matrix,
    types_given,
)
from holdtrue.verbs import Curation
from holdtrue.verbs.asking import NOT_INDEPENDENT

__all__ = [
    "Bounds",
    "Model",
    "ModelFacts",
    "Training",
    "choose_goal",
    "find_limits",
    "goal_of",
    "is_model_name",
    "plan_training",
]

Bounds: TypeAlias = Mapping[str, tuple[float, float]]

_LONGEST_NAME = 64
_NOT_BY_POSITION = "rows of one key or content need not be draws of the population; order='fixed' cuts parts by position"
_WIDEST = (-1e30, 1e30)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model as the public knows it: what it is called, what it was made of, and what it answers with.

    ``digest`` names what it was made of, so that a label is never taken from the answers of another model of this name.
    ``cut`` is how its rows were cut into parts, and so how many votes one row moves; ``kind`` is the estimator of each.
    ``split_first``: which rows it holds out was said before the first answer about the rows, and cannot follow from one.
    ``terms`` are what a certificate rests on, where members are the best of a finite class.
    """

    name: str
    digest: str
    parts: int
    labels: tuple[str | int | float | bool, ...] | None
    bounds: tuple[float, float] | None
    cut: PartRule
    target: str = ""
    kind: str = ""
    split_first: bool = False
    terms: ClassTerms | None = None

    @property
    def certificate(self) -> str | None:
        """Return in words what is proven of the model's errors, or why nothing is; None where no class was given."""
        return None if self.terms is None else self.terms.says

    def name_part(self, verb: str, point: Mapping[str, object], *, rule: Mechanism | None = None, number: int = 1) -> str:
        """Return the name under which a response to a point is found again; by the rule too, where it decides.

        ``number`` counts the answers to a point, each with less noise than was asked of those before it, or by another rule.
        """
        content = {"model": self.digest, "point": dict(point)} | ({} if rule is None else {"rule": repr(rule)})
        return f"{verb} {digest_of(content | ({} if number == 1 else {'answer': number}))}"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A trained ensemble, the features that it reads, and what the public knows of it.

    ``reads`` has the type of every column that the features read. ``offers`` keeps what is the same for all requests at one
    price, by what was asked for.
    """

    asked: ModelFacts
    ensemble: Ensemble
    columns: tuple[str, ...]
    features: tuple[Feature, ...]
    reads: Mapping[str, str]
    offers: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, asked: ModelFacts, ensemble: Ensemble, columns: tuple[str, ...], *, card: Card) -> "Model":
        """Return a model that reads the named columns and questions of a card."""
        read = tuple(parse_labelled(text, card) for text in columns)
        return cls(asked, ensemble, columns, read, types_given(read, card))

    def read_points(self, rows: object) -> list[dict[str, object]]:
        """Return rows as public points: the columns that the model reads and their values, one mapping a row."""
        held = names_of(rows) or []
        if not set(self.reads) <= set(held):
            raise InvalidParameter.saying("rows", f"rows need every column that the model reads: {', '.join(self.reads)}")
        table = {name: np.atleast_1d(np.asarray(rows[name])) for name in self.reads}  # type: ignore[index]  # it has columns
        lengths = {values.shape for values in table.values()}
        if len(lengths) != 1:
            raise InvalidParameter.saying("rows", "all columns of rows must have the same length")
        (size,) = lengths.pop()
        return [{name: _to_plain(values[place]) for name, values in table.items()} for place in range(size)]

    def read(self, points: Sequence[Mapping[str, object]]) -> npt.NDArray[np.float64]:
        """Return the features of public points, a row each; InvalidParameter or RequestError where they cannot be read."""
        if not points:
            return np.zeros((0, len(self.features)))
        return read_matrix({name: [point[name] for point in points] for name in self.reads}, self.features, self.reads)

    def measure(self, points: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return what the members say of points that :meth:`read` read: votes by label, or outputs by member. Private."""
        return self.ensemble.outputs(points) if self.asked.labels is None else self.ensemble.votes(points)

    @property
    def certificate(self) -> str | None:
        """Return in words what is proven of the model's errors, or why nothing is; None where no class was given."""
        return self.asked.certificate

    def bound_errors(self, rule: Mechanism) -> ErrorBound | None:
        """Return what is proven of predictions by a rule (V4.1); None where nothing is."""
        terms = self.asked.terms
        return None if terms is None else terms.bound_errors(rule, parts=self.asked.parts)

    def __repr__(self) -> str:
        says = (
            f"labels {', '.join(map(repr, self.asked.labels))}" if self.asked.labels else f"numbers in {self.asked.bounds}"
        )
        held = "" if self.ensemble.stored else "; in memory only"
        read = ", ".join(self.columns)
        proven = "" if self.certificate is None else f"; {self.certificate}"
        cut = self.asked.cut.sentence
        return f"<Model {self.asked.name!r}: {self.asked.parts} parts over {read}; {says}; {cut}{held}{proven}>"


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The public facts of one training, checked; ``made`` is what the digest of the model names."""

    asked: ModelFacts
    made: Mapping[str, object]
    columns: tuple[str, ...]
    features: tuple[Feature, ...]
    goal: Feature
    recipe: Recipe

    def run(self, curation: Curation) -> Model:
        """Train on all rows, where they are. Nothing about them is released."""
        rule, progress = self.asked.cut, curation.progress
        ensemble = curation.engine.train(self.recipe, self.features, self.goal, rule=rule, progress=progress)
        return Model.of(self.asked, ensemble, self.columns, card=curation.card)


def plan_training(  # noqa: PLR0913 - the public facts of one model
    curation: Curation,
    name: str,
    estimator: Any,  # noqa: ANN401 - any scikit-learn estimator, or None
    *,
    target: str,
    features: Sequence[str] | None,
    parts: int,
    labels: Sequence[Any] | None,
    bounds: Bounds | None,
    key: str | None,
    order: Literal["fixed"] | None,
    held_out: Number | None = None,
    hypotheses: HypothesisClass | Sequence[HypothesisClass] | None = None,
    assuming: Literal["realizable"] | None = None,
) -> Training:
    """Return what is to be trained, after every check that public facts allow. Reads only the card."""
    if not is_model_name(name):
        raise InvalidParameter("name", name, "letters, digits, '-' and '_', at most 64 of them")
    card, number = curation.card, count("parts", parts)
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidParameter("bounds", type(bounds).__name__, "a mapping from columns to pairs")
    given = None if labels is None else read_list("labels", labels, expected="a list of labels")
    goal, public, span = choose_goal(curation, target, given, bounds or {})
    cut = _hold_out(_choose_cut(curation, key, order), held_out, labels=public)
    default = default_features(card, [*columns_of([goal]), cut.key]) if features is None else features
    chosen = tuple(read_list("features", default, expected="a list of columns"))
    if hypotheses is not None or assuming is not None:
        estimator, chosen = _choose_class(curation, estimator, hypotheses, chosen, features, labels=public)
    learner, framed = estimator, reads_frames(estimator, [text for text in chosen if text in card])
    if not framed:
        chosen = tuple(each for text in chosen for each in expand_labels(text, card))
    read = tuple((parse_labelled if framed else parse_feature)(text, card) for text in chosen)
    if framed:
        listed = {item.column: item.labels for item in read if isinstance(item, Labelled)}
        learner = FrameReader(estimator, chosen, listed)
    if cut.key in columns_of([*read, goal]):
        raise InvalidParameter("key", cut.key, "a column that the model does not read")
    limits = find_limits(card, chosen, bounds or {})
    if not callable(getattr(estimator, "fit", None)):
        raise InvalidParameter("estimator", type(estimator).__name__, "a scikit-learn estimator")
    made: dict[str, object] = {
        "estimator": repr(estimator),
        "target": target,
        "features": list(chosen),
        "parts": number,
        "labels": None if public is None else list(public),
        "bounds": {text: list(pair) for text, pair in limits.items()},
    }
    if cut.by != "position" or cut.held_out:
        # A share of 0 is left out, so that digests are what they were before there were shares.
        made["rows"] = {name: value for name, value in asdict(cut).items() if name != "held_out" or value}
    if isinstance(estimator, ExactMinimiser):
        made["hypotheses"] = estimator.document or SYSTEM.words(2).tobytes().hex()
    terms = _find_terms(curation, estimator, cut, parts=number, assuming=assuming)
    asked = ModelFacts(name, digest_of(made), number, public, span, cut, target, repr(estimator), terms=terms)
    places = {item.column: (-1.0, len(item.labels) - 1.0) for item in read if isinstance(item, Labelled)}
    domain = [places.get(text) or limits.get(text, _WIDEST) for text in chosen]
    answers: dict[str, Any] = {"output_bounds": span} if public is None else {"labels": list(range(len(public)))}
    recipe = make_recipe(learner, width=len(chosen), parts=number, bounds=domain, **answers)
    return Training(asked, made, chosen, read, goal, recipe)


def _choose_class(  # noqa: PLR0913 - what was given, and what it means
    curation: Curation,
    estimator: object,
    hypotheses: HypothesisClass | Sequence[HypothesisClass] | None,
    chosen: tuple[str, ...],
    features: Sequence[str] | None,
    *,
    labels: tuple[Any, ...] | None,
) -> tuple[ExactMinimiser, tuple[str, ...]]:
    """Return what picks the best of a class, and the columns that the class reads. Reads only the card."""
    if hypotheses is None:
        raise InvalidParameter.saying("assuming", "leave out assuming: it is said of a class, which hypotheses= gives")
    if estimator is not None:
        raise InvalidParameter.saying("hypotheses", "give either an estimator or hypotheses")
    if labels is None or len(labels) != 2:  # noqa: PLR2004 - no and yes
        raise InvalidParameter.saying("hypotheses", "a class has two labels: give a target with two, or a question")
    joined = join_classes(hypotheses, None)
    if joined.columns is not None and features is not None:
        raise InvalidParameter.saying("features", "leave out features: the class names its columns")
    names = chosen if joined.columns is None else joined.columns
    settled = joined.over(names)
    settled.check_work(curation.card.rows)
    settled.make_totals()
    return ExactMinimiser(settled, write_document(settled)), names


def _find_terms(
    curation: Curation, estimator: object, cut: PartRule, *, parts: int, assuming: Literal["realizable"] | None
) -> ClassTerms | None:
    """Return what a certificate of a class rests on; whether the class came first is for whoever knows the ledger."""
    if not isinstance(estimator, ExactMinimiser):
        return None
    if assuming is not None:
        text_among("assuming", assuming, ("realizable",))
    left = curation.card.rows
    if cut.by == "position" and cut.held_out:
        left -= int(cut.find_held_out(left, None).sum())
    lost = None if curation.plan.iid else NOT_INDEPENDENT
    if lost is None and cut.by != "position":
        lost = _NOT_BY_POSITION
    return ClassTerms(estimator.hypotheses.size, max(1, left // parts), curation.plan.beta, assuming, lost)


def is_model_name(name: object) -> bool:
    """Return whether this is a valid name of a model."""
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None


def _choose_cut(curation: Curation, key: str | None, order: Literal["fixed"] | None) -> PartRule:
    """Return how rows are cut into parts: as requested, or else as declared when the rows were opened."""
    if order not in (None, "fixed") or (order is not None and key is not None):
        raise InvalidParameter.saying("order", "order must be 'fixed' or left out, and cannot be combined with key")
    if order == "fixed":
        if not curation.engine.ordered:
            message = "the rows of a relation have no fixed order; give key=, or leave out order"
            raise NotCertified(message)
        return PartRule("position")
    named = curation.engine.key if key is None else key
    if named is None:
        return PartRule("content")
    if curation.card.column(named).type not in ("integer", "text"):
        raise InvalidParameter("key", named, "a column of whole numbers or text")
    return PartRule("key", named)


def _hold_out(cut: PartRule, share: Number | None, *, labels: tuple[Any, ...] | None) -> PartRule:
    """Return a rule that keeps a share of the rows out of every part; which ones, no value may decide (V4.4 v)."""
    if share is None:
        return cut
    part = float(probability("held_out", share))
    if labels is None:
        raise InvalidParameter.saying("held_out", "leave out held_out: it is for models of labels, and this one has numbers")
    if cut.by == "content":
        message = "rows are held out by their keys or positions: give key=, or order= where no value decides their order"
        raise PreconditionError(message)
    return replace(cut, held_out=part)


def goal_of(curation: Curation, model: ModelFacts) -> Feature:
    """Return what a model learned: the feature whose values are places in its list of labels, or numbers."""
    card = curation.card
    plain = model.target in card and card.column(model.target).type == "boolean" and model.labels == (False, True)
    span = {} if model.bounds is None else {model.target: model.bounds}
    return choose_goal(curation, model.target, None if plain else model.labels, span)[0]


def choose_goal(
    curation: Curation, target: str, labels: Sequence[Any] | None, bounds: Bounds
) -> tuple[Feature, tuple[Any, ...] | None, tuple[float, float] | None]:
    """Return what is learned: places in a public list of labels, or numbers within public bounds."""
    card = curation.card
    column = card.column(target) if target in card else None
    if column is None:
        query = curation.parse(target)
        if not query.boolean:
            raise InvalidParameter("target", target, "a column, or a yes-or-no question")
        return query, (False, True), None
    public = tuple(labels) if labels is not None else column.labels
    if public is not None and len(public) > card.rows:
        raise InvalidParameter.saying("labels", f"give at most as many labels as there are rows, {card.rows:,}")
    if public is not None and len(set(map(repr, public))) != len(public):
        raise InvalidParameter.saying("labels", "give each label once")
    if public is not None:
        return Labelled(target, tuple(public)), tuple(public), None
    if column.type == "boolean":
        return Numbers(target), (False, True), None
    span = bounds.get(target, column.bounds)
    if span is None or column.type == "text":
        message = f"the values of {target!r} must be public: give labels=[...] or, for a number, its bounds (low, high)"
        raise NotCertified(message)
    return Numbers(target), None, (float(span[0]), float(span[1]))


def find_limits(card: Card, chosen: Sequence[str], bounds: Bounds) -> dict[str, tuple[float, float]]:
    """Return the public bounds of the features that have any: those given, or else those of the card."""
    declared = {column.name: column.bounds for column in card.columns if column.bounds is not None}
    return {name: pair for name in chosen if (pair := bounds.get(name, declared.get(name))) is not None}


def _to_plain(value: Any) -> object:  # noqa: ANN401 - one cell of a request
    """Return a cell of a request as a JSON value; anything but a number, a text or a boolean is missing."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not np.isfinite(plain):
        return None
    return plain if isinstance(plain, (bool, int, float, str)) else None

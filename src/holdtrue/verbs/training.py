"""TRAIN: copies of an estimator on disjoint parts of the rows, kept under a name; nothing is released (E4, E10)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.codec import digest_of
from holdtrue.ensembles.members import Ensemble
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.training import Recipe, make_recipe
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import count, listed
from holdtrue.mechanisms.base import Mechanism
from holdtrue.queries.cards import Card
from holdtrue.queries.columns import names_of
from holdtrue.queries.features import Feature, Labelled, Numbers, columns_of, default_features, feature, read_matrix
from holdtrue.verbs import Curation

__all__ = ["Asked", "Model", "Training", "is_model_name", "plan_training"]

Bounds: TypeAlias = Mapping[str, tuple[float, float]]

_LONGEST_NAME = 64
_WIDEST = (-1e30, 1e30)


@dataclass(frozen=True, slots=True)
class Asked:
    """A model as the public knows it: what it is called, what it was made of, and what it answers with.

    ``digest`` names what it was made of, so that a label is never taken from the answers of another model of this name.
    ``cut`` is how its rows were cut into parts, and so how many votes one row moves.
    """

    name: str
    digest: str
    parts: int
    labels: tuple[str | int | float | bool, ...] | None
    bounds: tuple[float, float] | None
    cut: PartRule

    def part(self, verb: str, point: Mapping[str, object], *, rule: Mechanism | None = None) -> str:
        """Return the name under which the response to a point is found again; by the rule too, where it decides."""
        content = {"model": self.digest, "point": dict(point)} | ({} if rule is None else {"rule": repr(rule)})
        return f"{verb} {digest_of(content)}"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A trained ensemble, the features that it reads, and what the public knows of it.

    ``reads`` has the type of every column that the features read. ``offers`` keeps what is the same for all requests at one
    price, by what was asked for.
    """

    asked: Asked
    ensemble: Ensemble
    columns: tuple[str, ...]
    features: tuple[Feature, ...]
    reads: Mapping[str, str]
    offers: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, asked: Asked, ensemble: Ensemble, columns: tuple[str, ...], *, card: Card) -> "Model":
        """Return a model that reads the named columns and questions of a card."""
        read = tuple(feature(text, card) for text in columns)
        return cls(asked, ensemble, columns, read, {name: card.column(name).type for name in columns_of(read)})

    def points(self, rows: object) -> list[dict[str, object]]:
        """Return rows as public points: the columns that the model reads and their values, one mapping a row."""
        held = names_of(rows) or []
        missing = [name for name in self.reads if name not in held]
        if missing:
            raise InvalidParameter("rows", held, f"a record or a table with a column {missing[0]!r}")
        table = {name: np.atleast_1d(np.asarray(rows[name])) for name in self.reads}  # type: ignore[index]  # it has columns
        lengths = {values.shape for values in table.values()}
        if len(lengths) != 1:
            raise InvalidParameter("rows", sorted(self.reads), "columns of one length")
        (size,) = lengths.pop()
        return [{name: _plain(values[place]) for name, values in table.items()} for place in range(size)]

    def read(self, points: Sequence[Mapping[str, object]]) -> npt.NDArray[np.float64]:
        """Return the features of public points, a row each; InvalidParameter or RequestError where they cannot be read."""
        if not points:
            return np.zeros((0, len(self.features)))
        return read_matrix({name: [point[name] for point in points] for name in self.reads}, self.features, self.reads)

    def seen(self, points: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return what the members say of points that :meth:`read` read: votes by label, or outputs by member. Private."""
        return self.ensemble.outputs(points) if self.asked.labels is None else self.ensemble.votes(points)

    def __repr__(self) -> str:
        says = (
            f"labels {', '.join(map(repr, self.asked.labels))}" if self.asked.labels else f"numbers in {self.asked.bounds}"
        )
        held = "" if self.ensemble.stored else "; in memory only"
        read = ", ".join(self.columns)
        return f"<Model {self.asked.name!r}: {self.asked.parts} parts over {read}; {says}; {self.asked.cut.sentence}{held}>"


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The public facts of one training, checked; ``made`` is what the digest of the model names."""

    asked: Asked
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
    estimator: Any,  # noqa: ANN401 - any scikit-learn estimator
    *,
    target: str,
    features: Sequence[str] | None,
    parts: int,
    labels: Sequence[Any] | None,
    bounds: Bounds | None,
    key: str | None,
    order: Literal["fixed"] | None,
) -> Training:
    """Return what is to be trained, after every check that public facts allow. Nothing is read but the card."""
    if not is_model_name(name):
        raise InvalidParameter("name", name, "letters, digits, '-' and '_', at most 64 of them")
    card, number = curation.card, count("parts", parts)
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidParameter("bounds", type(bounds).__name__, "a mapping from columns to pairs")
    given = None if labels is None else listed("labels", labels, expected="a list of labels")
    goal, public, span = _goal(curation, target, given, bounds or {})
    cut = _cut(curation, key, order)
    default = default_features(card, [*columns_of([goal]), cut.key]) if features is None else features
    chosen = tuple(listed("features", default, expected="a list of columns"))
    read = tuple(feature(text, card) for text in chosen)
    if cut.key in columns_of([*read, goal]):
        raise InvalidParameter("key", cut.key, "a column that the model does not read: it stays when a row is replaced")
    limits = _limits(card, chosen, bounds or {})
    made: dict[str, object] = {
        "estimator": repr(estimator),
        "target": target,
        "features": list(chosen),
        "parts": number,
        "labels": None if public is None else list(public),
        "bounds": {text: list(pair) for text, pair in limits.items()},
    }
    if cut.by != "position":
        made["rows"] = asdict(cut)
    asked = Asked(name, digest_of(made), number, public, span, cut)
    domain = [limits.get(text, _WIDEST) for text in chosen]
    answers: dict[str, Any] = {"output_bounds": span} if public is None else {"labels": list(range(len(public)))}
    recipe = make_recipe(estimator, width=len(chosen), parts=number, bounds=domain, **answers)
    return Training(asked, made, chosen, read, goal, recipe)


def is_model_name(name: object) -> bool:
    """Return whether a model may be called so."""
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None


def _cut(curation: Curation, key: str | None, order: Literal["fixed"] | None) -> PartRule:
    """Return how rows are cut into parts: by what is said, or by what whoever opened the rows said of them."""
    if order not in (None, "fixed") or (order is not None and key is not None):
        raise InvalidParameter("order", order, "'fixed', or left out, and without a key")
    if order == "fixed":
        if not curation.engine.ordered:
            message = "the rows of a relation come in the order that its plan decides; give key=, or leave order out"
            raise NotCertified(message)
        return PartRule("position")
    named = curation.engine.key if key is None else key
    if named is None:
        return PartRule("content")
    if curation.card.column(named).type not in ("integer", "text"):
        raise InvalidParameter("key", named, "a column of whole numbers or text")
    return PartRule("key", named)


def _goal(
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
    if public is not None:
        return Labelled(target, tuple(public)), tuple(public), None
    if column.type == "boolean":
        return Numbers(target), (False, True), None
    span = bounds.get(target, column.bounds)
    if span is None or column.type == "text":
        message = f"what {target!r} can be must be public: give labels=[...], or for a number its bounds (low, high)"
        raise NotCertified(message)
    return Numbers(target), None, (float(span[0]), float(span[1]))


def _limits(card: Card, chosen: Sequence[str], bounds: Bounds) -> dict[str, tuple[float, float]]:
    """Return the public bounds of the features that have any: those given, or else those of the card."""
    declared = {column.name: column.bounds for column in card.columns if column.bounds is not None}
    return {name: pair for name in chosen if (pair := bounds.get(name, declared.get(name))) is not None}


def _plain(value: Any) -> object:  # noqa: ANN401 - one cell of a request
    """Return a cell of a request as JSON holds it; what is not a number, a text or a truth is missing."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not np.isfinite(plain):
        return None
    return plain if isinstance(plain, (bool, int, float, str)) else None

"""Models: ensembles trained on disjoint parts of the rows, kept behind the curator, answering point by point."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from holdtrue.codec import digest_of, encode
from holdtrue.curator.pipeline import Pipeline
from holdtrue.ensembles import Ensemble
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.saving import from_bytes, to_bytes
from holdtrue.ensembles.training import make_recipe
from holdtrue.errors import HoldtrueError, IntegrityError, InvalidParameter, NotCertified, UnknownName
from holdtrue.exact import count, listed
from holdtrue.ledgers.sealed_store import SealedDocument, SealedStore, check_seal, seal_document
from holdtrue.queries.columns import names_of
from holdtrue.queries.features import Feature, Labelled, Numbers, columns_of, feature, matrix
from holdtrue.verbs.predicting import Asked

__all__ = ["Model", "Models"]

_NUMBERS = ("integer", "real", "boolean")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A trained ensemble, the features that it reads, and what the public knows of it."""

    asked: Asked
    ensemble: Ensemble
    columns: tuple[str, ...]
    features: tuple[Feature, ...]

    def points(self, rows: object) -> list[dict[str, object]]:
        """Return rows as public points: the columns that the model reads and their values, one mapping a row."""
        read = columns_of(self.features)
        held = names_of(rows) or []
        missing = [name for name in read if name not in held]
        if missing:
            raise InvalidParameter("rows", held, f"a record or a table with a column {missing[0]!r}")
        table = {name: np.atleast_1d(np.asarray(rows[name])) for name in read}  # type: ignore[index]  # it has columns
        lengths = {values.shape for values in table.values()}
        if len(lengths) != 1:
            raise InvalidParameter("rows", sorted(read), "columns of one length")
        (size,) = lengths.pop()
        return [{name: _plain(values[place]) for name, values in table.items()} for place in range(size)]

    def seen(self, points: Sequence[Mapping[str, object]], pipeline: Pipeline) -> npt.NDArray[Any]:
        """Return what the members say of points: votes by label, or outputs by member. Private."""
        table = {name: [point[name] for point in points] for name in columns_of(self.features)}
        rows = matrix(table, self.features, pipeline.card)
        return self.ensemble.outputs(rows) if self.asked.labels is None else self.ensemble.votes(rows)

    def __repr__(self) -> str:
        says = (
            f"labels {', '.join(map(repr, self.asked.labels))}" if self.asked.labels else f"numbers in {self.asked.bounds}"
        )
        held = "" if self.ensemble.stored else "; in memory only"
        read = ", ".join(self.columns)
        return f"<Model {self.asked.name!r}: {self.asked.parts} parts over {read}; {says}; {self.asked.cut.sentence}{held}>"


class Models:
    """The models of one curator, by name: in memory, and with a ledger that lasts where their members can be written.

    Law: which model a name means is what the store says, for every worker that shares the ledger: one that was trained
    again elsewhere is read again before it answers. What is read was sealed by this ledger's curator, and its public facts
    are those that its digest names; IntegrityError otherwise. Members other than linear ones and trees are in the memory of
    one process only.
    """

    def __init__(self, pipeline: Pipeline, *, store: SealedStore | None) -> None:
        self._pipeline = pipeline
        self._store = store
        self._held: dict[str, Model] = {}
        self._seals: dict[str, str] = {}

    def train(  # noqa: PLR0913 - the public facts of one model
        self,
        name: str,
        estimator: Any,  # noqa: ANN401 - any scikit-learn estimator
        *,
        target: str,
        features: Sequence[str] | None,
        parts: int,
        labels: Sequence[Any] | None,
        bounds: Mapping[str, tuple[float, float]] | None,
        key: str | None,
        order: Literal["fixed"] | None,
    ) -> Model:
        """Train a model on all rows and keep it under a name. Nothing about the rows is released."""
        pipeline = self._pipeline
        known = _named(name)
        number = count("parts", parts)
        if bounds is not None and not isinstance(bounds, Mapping):
            raise InvalidParameter("bounds", type(bounds).__name__, "a mapping from columns to pairs")
        given = None if labels is None else listed("labels", labels, expected="a list of labels")
        goal, public, span = self._goal(target, given, bounds or {})
        cut = self._cut(key, order)
        default = self._default(goal, cut.key) if features is None else features
        chosen = tuple(listed("features", default, expected="a list of columns"))
        read = tuple(feature(text, pipeline.card) for text in chosen)
        if cut.key in columns_of([*read, goal]):
            raise InvalidParameter("key", cut.key, "a column that the model does not read: it stays when a row is replaced")
        made: dict[str, object] = {
            "estimator": repr(estimator),
            "target": target,
            "features": list(chosen),
            "parts": number,
            "labels": None if public is None else list(public),
            "bounds": {text: list(pair) for text, pair in self._bounds(chosen, bounds or {}).items()},
        }
        if cut.by != "position":
            made["rows"] = asdict(cut)
        asked = Asked(known, _digest_of(made), number, public, span, cut)
        limits = self._bounds(chosen, bounds or {})
        domain = [limits.get(text, (-1e30, 1e30)) for text in chosen]
        ensemble = self._trained(estimator, read, goal, asked, domain)
        model = Model(asked, ensemble, chosen, read)
        self._keep(model, made)
        self._held[known] = model
        return model

    def named(self, name: str) -> Model:
        """Return the model of a name, as it is now; UnknownName where there is none."""
        given: object = name
        if self._store is not None and _is_name(given):
            current = self._store.current(name)
            if current != self._seals.get(name):
                self._held.pop(name, None)
                stored = None if current is None else self._store.read(name)
                if stored is not None:
                    self._held[name] = self._opened(name, stored)
                self._seals.pop(name, None)
                if stored is not None:
                    self._seals[name] = stored.seal
        found = self._held.get(name) if isinstance(given, str) else None
        if found is None:
            known = ", ".join(sorted(self._held)) or "none"
            shown = given if isinstance(given, str) else type(given).__name__
            message = (
                f"there is no model {shown!r}; trained: {known}. Train it first, or again where it lived in memory only"
            )
            raise UnknownName(message)
        return found

    @property
    def held(self) -> list[Model]:
        """Return the models that this process has used."""
        return list(self._held.values())

    def close(self) -> None:
        """Let go of the store; what it keeps stays."""
        if self._store is not None:
            self._store.close()

    def _cut(self, key: str | None, order: Literal["fixed"] | None) -> PartRule:
        """Return how rows are cut into parts: by what is said, or by what whoever opened the rows said of them."""
        engine = self._pipeline.engine
        if order not in (None, "fixed") or (order is not None and key is not None):
            raise InvalidParameter("order", order, "'fixed', or left out, and without a key")
        if order == "fixed":
            if not engine.ordered:
                message = "the rows of a relation come in the order that its plan decides; give key=, or leave order out"
                raise NotCertified(message)
            return PartRule("position")
        named = engine.key if key is None else key
        if named is None:
            return PartRule("content")
        if self._pipeline.card.column(named).type not in ("integer", "text"):
            raise InvalidParameter("key", named, "a column of whole numbers or text")
        return PartRule("key", named)

    def _goal(
        self, target: str, labels: Sequence[Any] | None, bounds: Mapping[str, tuple[float, float]]
    ) -> tuple[Feature, tuple[Any, ...] | None, tuple[float, float] | None]:
        """Return what is learned: places in a public list of labels, or numbers within public bounds."""
        card = self._pipeline.card
        column = card.column(target) if target in card else None
        if column is None:
            query = self._pipeline.parse(target)
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

    def _default(self, goal: Feature, key: str | None) -> list[str]:
        used = [*columns_of([goal]), key]
        named = [
            column.name for column in self._pipeline.card.columns if column.type in _NUMBERS and column.name not in used
        ]
        if not named:
            raise InvalidParameter("features", None, "given: no column of numbers is left beside those of the target")
        return named

    def _bounds(self, chosen: Sequence[str], bounds: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        declared = {column.name: column.bounds for column in self._pipeline.card.columns if column.bounds is not None}
        return {name: pair for name in chosen if (pair := bounds.get(name, declared.get(name))) is not None}

    def _trained(
        self,
        estimator: Any,  # noqa: ANN401 - any scikit-learn estimator
        features: Sequence[Feature],
        goal: Feature,
        asked: Asked,
        domain: Sequence[tuple[float, float]],
    ) -> Ensemble:
        pipeline = self._pipeline
        given: dict[str, Any] = (
            {"output_bounds": asked.bounds} if asked.labels is None else {"labels": list(range(len(asked.labels)))}
        )
        recipe = make_recipe(estimator, width=len(features), parts=asked.parts, bounds=list(domain), **given)
        return pipeline.engine.train(recipe, features, goal, rule=asked.cut, progress=pipeline.progress)

    def _keep(self, model: Model, made: Mapping[str, object]) -> None:
        """Store a model, sealed, in the place of any other of its name; one that cannot be written takes that place too."""
        name = model.asked.name
        self._seals.pop(name, None)
        if self._store is None:
            return
        if not model.ensemble.stored:
            self._store.remove(name)
            return
        facts = encode({"made": dict(made), "digest": model.asked.digest, "span": model.asked.bounds})
        sealed = seal_document(self._pipeline.ledger.terms.key, name, facts=facts, content=to_bytes(model.ensemble))
        self._store.write(name, sealed)
        self._seals[name] = sealed.seal

    def _opened(self, name: str, stored: SealedDocument) -> Model:
        """Return a stored model; IntegrityError unless its seal, its digest and its members are right."""
        check_seal(self._pipeline.ledger.terms.key, name, stored)
        try:
            kept = json.loads(stored.facts)
            made = kept["made"]
            right = _digest_of(made) == kept["digest"]
            labels = None if made["labels"] is None else tuple(made["labels"])
            span = None if kept["span"] is None else (float(kept["span"][0]), float(kept["span"][1]))
            cut = PartRule(**made["rows"]) if "rows" in made else PartRule("position")
            asked = Asked(name, str(kept["digest"]), int(made["parts"]), labels, span, cut)
            chosen = tuple(map(str, made["features"]))
            read = tuple(feature(text, self._pipeline.card) for text in chosen)
            ensemble = from_bytes(stored.content, where=name)
        except (HoldtrueError, ValueError, KeyError, TypeError, IndexError):
            right = False
        if not right:
            message = f"what is stored of the model {name!r} contradicts itself; train it again"
            raise IntegrityError(message)
        return Model(asked, ensemble, chosen, read)


def _digest_of(made: Mapping[str, object]) -> str:
    """Return the digest that names what a model was made of."""
    return digest_of(made)


def _named(name: str) -> str:
    if not _is_name(name):
        raise InvalidParameter("name", name, "letters, digits, '-' and '_', at most 64 of them")
    return name


def _is_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None


def _plain(value: Any) -> object:  # noqa: ANN401 - one cell of a request
    """Return a cell of a request as JSON holds it; what is not a number, a text or a truth is missing."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not np.isfinite(plain):
        return None
    return plain if isinstance(plain, (bool, int, float, str)) else None

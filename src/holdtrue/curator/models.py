"""Models: ensembles trained on disjoint parts of the rows, kept behind the curator, answering point by point."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.curator.houses import House
from holdtrue.engines import Trainer
from holdtrue.engines.features import Feature, Labelled, Numbers, columns_of, feature, matrix
from holdtrue.ensembles import Ensemble, load, save, train
from holdtrue.ensembles.training import recipe_of
from holdtrue.errors import InvalidParameter, NotCertified, RequestError, UnknownName
from holdtrue.exact import count, listed
from holdtrue.hypotheses.matrices import names_of
from holdtrue.records import canonical
from holdtrue.verbs.predicting import Asked

__all__ = ["Model", "Models", "folder_of"]

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

    def seen(self, points: Sequence[Mapping[str, object]], house: House) -> npt.NDArray[Any]:
        """Return what the members say of points: votes by label, or outputs by member. Private."""
        table = {name: [point[name] for point in points] for name in columns_of(self.features)}
        rows = matrix(table, self.features, house.card)
        return self.ensemble.outputs(rows) if self.asked.labels is None else self.ensemble.votes(rows)

    def __repr__(self) -> str:
        says = (
            f"labels {', '.join(map(repr, self.asked.labels))}" if self.asked.labels else f"numbers in {self.asked.bounds}"
        )
        held = "" if self.ensemble.stored else "; in memory only"
        return f"<Model {self.asked.name!r}: {self.asked.parts} parts over {', '.join(self.columns)}; {says}{held}>"


class Models:
    """The models of one curator, by name: in memory, and beside a ledger on disk where their members can be written."""

    def __init__(self, house: House, *, folder: Path | None) -> None:
        self._house = house
        self._folder = folder
        self._held: dict[str, Model] = {}

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
    ) -> Model:
        """Train a model on all rows and keep it under a name. Nothing about the rows is released."""
        house = self._house
        known = _named(name)
        number = count("parts", parts)
        if bounds is not None and not isinstance(bounds, Mapping):
            raise InvalidParameter("bounds", type(bounds).__name__, "a mapping from columns to pairs")
        given = None if labels is None else listed("labels", labels, expected="a list of labels")
        goal, public, span = self._goal(target, given, bounds or {})
        named = self._default(goal) if features is None else listed("features", features, expected="a list of columns")
        chosen = tuple(named)
        read = tuple(feature(text, house.card) for text in chosen)
        made = {
            "estimator": repr(estimator),
            "target": target,
            "features": list(chosen),
            "parts": number,
            "labels": None if public is None else list(public),
            "bounds": {text: list(pair) for text, pair in self._bounds(chosen, bounds or {}).items()},
        }
        asked = Asked(known, hashlib.sha256(canonical(made).encode("ascii")).hexdigest(), number, public, span)
        limits = self._bounds(chosen, bounds or {})
        domain = [limits.get(text, (-1e30, 1e30)) for text in chosen]
        ensemble = self._trained(estimator, read, goal, asked, domain)
        model = Model(asked, ensemble, chosen, read)
        self._held[known] = model
        self._keep(model, made)
        return model

    def named(self, name: str) -> Model:
        """Return the model of a name; UnknownName where there is none."""
        given: object = name
        found = (self._held.get(name) or self._read(name)) if isinstance(given, str) else None
        if found is None:
            known = ", ".join(sorted(self._held)) or "none"
            shown = given if isinstance(given, str) else type(given).__name__
            message = (
                f"there is no model {shown!r}; trained: {known}. Train it first, or again where it lived in memory only"
            )
            raise UnknownName(message)
        self._held[name] = found
        return found

    def _goal(
        self, target: str, labels: Sequence[Any] | None, bounds: Mapping[str, tuple[float, float]]
    ) -> tuple[Feature, tuple[Any, ...] | None, tuple[float, float] | None]:
        """Return what is learned: places in a public list of labels, or numbers within public bounds."""
        card = self._house.card
        column = card.column(target) if target in card else None
        if column is None:
            query = self._house.parse(target)
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

    def _default(self, goal: Feature) -> list[str]:
        used = columns_of([goal])
        named = [column.name for column in self._house.card.columns if column.type in _NUMBERS and column.name not in used]
        if not named:
            raise InvalidParameter("features", None, "given: no column of numbers is left beside those of the target")
        return named

    def _bounds(self, chosen: Sequence[str], bounds: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        declared = {column.name: column.bounds for column in self._house.card.columns if column.bounds is not None}
        return {name: pair for name in chosen if (pair := bounds.get(name, declared.get(name))) is not None}

    def _trained(
        self,
        estimator: Any,  # noqa: ANN401 - any scikit-learn estimator
        features: Sequence[Feature],
        goal: Feature,
        asked: Asked,
        domain: Sequence[tuple[float, float]],
    ) -> Ensemble:
        house = self._house
        given: dict[str, Any] = (
            {"output_bounds": asked.bounds} if asked.labels is None else {"labels": list(range(len(asked.labels)))}
        )
        if isinstance(house.engine, Trainer):
            recipe = recipe_of(estimator, width=len(features), parts=asked.parts, bounds=list(domain), **given)
            return house.engine.train(recipe, features, goal, progress=house.progress)
        pieces: list[list[npt.NDArray[Any]]] = []
        house.engine.feed([*features, goal], lambda arrays: pieces.append(arrays), progress=house.progress)  # noqa: PLW0108 - typed
        columns = [np.concatenate([piece[number] for piece in pieces]) for number in range(len(features) + 1)]
        *read, y = columns
        rows = np.column_stack([column.astype(np.float64) for column in read])
        if asked.labels is not None:
            y = np.nan_to_num(y.astype(np.float64), nan=0.0).astype(np.int64)
        return train(
            estimator, rows, y, parts=asked.parts, bounds=list(domain), progress=house.progress, **given
        )  # fmt: skip

    def _keep(self, model: Model, made: Mapping[str, object]) -> None:
        """Write a model beside the ledger, readable by its owner only."""
        if self._folder is None or not model.ensemble.stored:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        save(model.ensemble, self._folder / f"{model.asked.name}.npz")
        words = canonical({"made": dict(made), "digest": model.asked.digest, "span": model.asked.bounds})
        place = self._folder / f"{model.asked.name}.json"
        place.touch(mode=0o600)
        place.write_text(words, encoding="utf-8")

    def _read(self, name: str) -> Model | None:
        if self._folder is None or not _is_name(name) or not (self._folder / f"{name}.npz").exists():
            return None
        try:
            kept = json.loads((self._folder / f"{name}.json").read_text(encoding="utf-8"))
            made = kept["made"]
            labels = None if made["labels"] is None else tuple(made["labels"])
            span = None if kept["span"] is None else (float(kept["span"][0]), float(kept["span"][1]))
            asked = Asked(name, str(kept["digest"]), int(made["parts"]), labels, span)
            chosen = tuple(map(str, made["features"]))
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            message = f"what is written beside the ledger of the model {name!r} cannot be read; train it again"
            raise RequestError(message) from None
        read = tuple(feature(text, self._house.card) for text in chosen)
        return Model(asked, load(self._folder / f"{name}.npz"), chosen, read)


def folder_of(ledger: "str | os.PathLike[str] | None") -> Path | None:
    """Return the folder beside a ledger on disk where its models are kept; None for ledgers elsewhere."""
    if ledger is None or "://" in os.fspath(ledger):
        return None
    return Path(f"{os.fspath(ledger)}.models")


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

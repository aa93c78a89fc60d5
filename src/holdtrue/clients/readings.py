"""JSON of the service as the records that a curator returns."""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.filters import Filter, GaussianFilter, PureFilter, ZeroConcentratedFilter
from holdtrue.curator.budget import Budget, Preview
from holdtrue.curator.history import Line
from holdtrue.engines.features import Feature, feature, matrix
from holdtrue.errors import HoldtrueError, RequestError
from holdtrue.exact import UNIT
from holdtrue.holdouts import Place, Score, Verdict
from holdtrue.hypotheses import HypothesisClass
from holdtrue.hypotheses import from_json as class_from_json
from holdtrue.hypotheses.classes import names_of
from holdtrue.ledgers import Verification
from holdtrue.queries.cards import Card
from holdtrue.records import Answer, Choice, Hypothesis, Interval, Prediction, Response, from_json

__all__ = [
    "answer",
    "budget",
    "choice",
    "hypothesis",
    "line",
    "place",
    "prediction",
    "preview",
    "score",
    "verdict",
    "verification",
]

_FILTERS: dict[str, type[Filter]] = {kind.currency: kind for kind in (GaussianFilter, ZeroConcentratedFilter, PureFilter)}
_Kind = TypeVar("_Kind")


def _read(kind: type[_Kind], document: object) -> _Kind:
    """Return a record of a kind; whatever else comes is no answer of a service that speaks as this client does."""
    try:
        found = from_json(document) if isinstance(document, Mapping) else None
    except (RequestError, TypeError, ValueError, KeyError):
        found = None
    if isinstance(found, kind):
        return found
    raise _strange(kind.__name__)


def _strange(what: str) -> HoldtrueError:
    return HoldtrueError(f"the service answered with something else than a {what}; are both of the same version?")


def _fields(kind: type[Any], document: object) -> dict[str, Any]:
    """Return the fields of a record out of a document that may have more."""
    names = [item.name for item in fields(kind)]
    if not isinstance(document, Mapping) or any(name not in document for name in names):
        raise _strange(kind.__name__)
    return {name: document[name] for name in names}


def answer(document: object) -> Answer:
    """Return an answer."""
    return _read(Answer, document)


def choice(document: object) -> Choice:
    """Return a choice."""
    return _read(Choice, document)


def prediction(document: object) -> Prediction:
    """Return a prediction."""
    return _read(Prediction, document)


def hypothesis(document: object, card: Card) -> Hypothesis:
    """Return a hypothesis that predicts: its class is read from its document, its features from the public card."""
    found = _read(Hypothesis, document)
    if found.document is None:
        return found
    import json

    kind = class_from_json(json.loads(found.document)).over(found.columns)
    features = tuple(feature(name, card) for name in found.columns)
    return replace(found, evaluate=partial(_labels, kind=kind, features=features, card=card, index=found.index))


def _labels(
    rows: object, *, kind: HypothesisClass, features: tuple[Feature, ...], card: Card, index: int
) -> npt.NDArray[np.bool_]:
    read = matrix(rows, features, card) if names_of(rows) is not None else rows
    return kind.evaluate(read, index)


def budget(document: object) -> Budget:
    """Return a budget; its filter follows from its unit and its cap."""
    if not isinstance(document, Mapping) or document.get("unit") not in _FILTERS:
        raise _strange("budget")
    told = {name: document.get(name) for name in ("unit", "cap", "spent", "left", "asks", "reserve")}
    if any(value is None for value in told.values()):
        raise _strange("budget")
    limit = _FILTERS[str(told["unit"])](round(Fraction(document["cap"]) / UNIT))
    return Budget(**told, limit=limit)  # type: ignore[arg-type]  # each is there


def preview(document: object) -> Preview:
    """Return a preview."""
    return Preview(**_fields(Preview, document))


def line(document: object) -> Line:
    """Return a line of the history."""
    told = _fields(Line, document)
    return Line(
        **told
        | {
            "time": datetime.fromisoformat(str(told["time"])),
            "responses": tuple(_read(Response, item) for item in told["responses"]),  # type: ignore[arg-type]  # one of four
        }
    )


def verification(document: object) -> Verification:
    """Return what a ledger was found to be."""
    return Verification(**_fields(Verification, document))


def score(document: object) -> Score:
    """Return the score of a look."""
    return Score(**_looked(Score, document))


def verdict(document: object) -> Verdict:
    """Return what a gate said."""
    return Verdict(**_looked(Verdict, document))


def _looked(kind: type[Any], document: object) -> dict[str, Any]:
    told = _fields(kind, document)
    return {name: from_json(value) if isinstance(value, Mapping) else value for name, value in told.items()}


def place(document: object) -> Place:
    """Return a line of the standings."""
    told = _fields(Place, document)
    return Place(**told | {"interval": None if told["interval"] is None else _read(Interval, told["interval"])})

"""What crosses a boundary: responses, with the interval and the certificate that come with them, and their JSON.

Records are frozen, hold public numbers only, and read back as they were written: ``from_json(to_json(record))`` is the
record.
"""

import html
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from holdtrue import events
from holdtrue.errors import InvalidParameter
from holdtrue.events import Event

__all__ = ["Answer", "Certificate", "Choice", "Interval", "Prediction", "Record", "canonical", "from_json", "to_json"]

Target: TypeAlias = Literal["population", "sample"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Low and high ends around a value of the target, simultaneously right for all answers with this confidence."""

    low: float
    high: float
    confidence: float
    target: Target

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise InvalidParameter("interval", (self.low, self.high), "two finite numbers, the lower one first")
        if not 0 < self.confidence <= 1:
            raise InvalidParameter("confidence", self.confidence, "a number in (0, 1]")
        if self.target not in ("population", "sample"):
            raise InvalidParameter("target", self.target, "'population' or 'sample'")

    @property
    def width(self) -> float:
        """Return the distance between the ends."""
        return self.high - self.low

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}] ({self.confidence:.0%}, {self.target})"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a response cost, what is left, by which theorem its interval holds, and where the ledger has it."""

    event: Event
    cost: float
    spent: float
    left: float
    entry: int
    digest: str
    theorem: str | None
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a question. ``interval`` is for the population, and None where ``reason`` says why there is none.

    ``repeated`` says that the question was answered before, and that this is the same answer, for nothing.
    """

    value: float
    interval: Interval | None
    sample_interval: Interval
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False

    def __str__(self) -> str:
        about = f"population {_ends(self.interval)}" if self.interval else f"no interval for the population: {self.reason}"
        return f"{self.value:.4g}  {about}  {_paid(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        return _table(
            {
                "value": f"{self.value:.4g}",
                "population": _ends(self.interval) if self.interval else f"none: {self.reason}",
                "these rows": _ends(self.sample_interval),
                "cost": _paid(self.certificate, repeated=self.repeated),
                "receipt": f"entry {self.certificate.entry}, {self.certificate.digest[:16]}…",
            }
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """The response to a selection: the chosen candidate, and by how many rows it may miss the best."""

    name: str
    index: int
    shortfall: float
    certificate: Certificate
    repeated: bool = False

    def __str__(self) -> str:
        paid = _paid(self.certificate, repeated=self.repeated)
        return f"{self.name}  at most {self.shortfall:.4g} rows behind the best  {paid}"

    def _repr_html_(self) -> str:
        return _table(
            {
                "chosen": self.name,
                "behind the best": f"{self.shortfall:.4g} rows at most",
                "cost": _paid(self.certificate, repeated=self.repeated),
                "receipt": f"entry {self.certificate.entry}, {self.certificate.digest[:16]}…",
            }
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """The response to a request for a prediction."""

    label: str | int | float
    certificate: Certificate


def _ends(interval: Interval) -> str:
    return f"{interval.low:.4g} to {interval.high:.4g} ({interval.confidence:.0%})"


def _paid(certificate: Certificate, *, repeated: bool) -> str:
    left = f"{certificate.left:.3g} left"
    return f"asked before: nothing, {left}" if repeated else f"cost {certificate.cost:.3g}, {left}"


def _table(lines: Mapping[str, str]) -> str:
    rows = "".join(
        f"<tr><th style='text-align:right'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in lines.items()
    )
    return f"<table>{rows}</table>"


Record: TypeAlias = Interval | Certificate | Answer | Choice | Prediction

_KINDS: dict[str, Any] = {kind.__name__.lower(): kind for kind in (Interval, Certificate, Answer, Choice, Prediction)}
_FIELDS: dict[Any, tuple[str, ...]] = {kind: tuple(field.name for field in fields(kind)) for kind in _KINDS.values()}
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def to_json(record: Record) -> dict[str, Any]:
    """Return a record as plain JSON: every record names its kind, every event its own."""
    kind = type(record)
    return {"record": kind.__name__.lower()} | {name: _plain(getattr(record, name)) for name in _FIELDS[kind]}


def _plain(value: object) -> object:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (Interval, Certificate)):
        return to_json(value)
    return events.to_json(value)  # type: ignore[arg-type]  # the only other kind of field; checked there


def from_json(document: Mapping[str, Any]) -> Record:
    """Return the record that :func:`to_json` wrote."""
    kind = _KINDS.get(str(document.get("record")))
    if kind is None:
        raise InvalidParameter("record", document.get("record"), f"one of {', '.join(_KINDS)}")
    names = _FIELDS[kind]
    if set(document) - {"record"} != set(names):
        raise InvalidParameter("record", sorted(document), f"{kind.__name__} with the fields {', '.join(names)}")
    record: Record = kind(**{name: _read(document[name]) for name in names})
    return record


def _read(value: object) -> object:
    if isinstance(value, Mapping):
        return from_json(value) if "record" in value else events.from_json(value)
    return value


def canonical(document: Mapping[str, Any]) -> str:
    """Return JSON in one way only (sorted keys, no spaces, no NaN), fit to be hashed."""
    return _ENCODER.encode(document)

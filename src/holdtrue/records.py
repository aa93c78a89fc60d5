"""What crosses a boundary: responses, with the interval and the certificate that come with them, and their JSON.

Records are frozen, hold public numbers only, and read back as they were written: ``from_json(to_json(record))`` is the
record.
"""

import html
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from holdtrue import events
from holdtrue.errors import InvalidParameter, NotCertified, RequestError
from holdtrue.events import Event

__all__ = [
    "Answer",
    "Certificate",
    "Choice",
    "Hypothesis",
    "Interval",
    "Prediction",
    "Record",
    "Response",
    "canonical",
    "from_json",
    "mark_repeat",
    "to_json",
]

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

    def proving(self, theorem: str | None) -> "Certificate":
        """Return the same receipt for a response that rests on another theorem."""
        return replace(self, theorem=theorem)


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

    @property
    def brief(self) -> str:
        """Return the value and the interval that is promised for it, in a few words."""
        ends = self.interval or self.sample_interval
        return f"{self.value:.4g} ({ends.low:.4g} to {ends.high:.4g})"

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

    @property
    def brief(self) -> str:
        """Return what was chosen."""
        return self.name

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
class Hypothesis:
    """The response to learning: one hypothesis of a finite class, and how far behind the best of the class it may be.

    ``excess_error`` bounds err(this) - min err for the population, with ``confidence``; None where ``reason`` says why there
    is no such bound. ``shortfall`` bounds the same on these rows, in rows. ``document`` is the class as JSON, None where it
    was made of code. ``columns`` are the features it reads, in order.
    """

    text: str
    index: int
    size: int
    excess_error: float | None
    confidence: float
    shortfall: float
    columns: tuple[str, ...]
    document: str | None
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False
    evaluate: Callable[[object], Any] | None = field(default=None, repr=False, compare=False)

    def predict(self, rows: object) -> Any:  # noqa: ANN401 - an array of labels
        """Return the label of each row, True or False: a data frame, a mapping from names to columns, or one record."""
        if self.evaluate is None:
            message = "this hypothesis was read without its class; learn again, or read the class from its document"
            raise NotCertified(message)
        return self.evaluate(rows)

    @property
    def brief(self) -> str:
        """Return the hypothesis in words."""
        return self.text

    def __str__(self) -> str:
        return f"{self.text}  {self.behind}  {_paid(self.certificate, repeated=self.repeated)}"

    @property
    def behind(self) -> str:
        """Return in words how far behind the best it may be."""
        if self.excess_error is None:
            return (
                f"at most {self.shortfall:.4g} rows behind the best of {self.size:,} on these rows ({self.confidence:.0%})"
            )
        sure = f"({self.confidence:.0%}, population)"
        return f"errs at most {self.excess_error:.4g} more often than the best of {self.size:,} {sure}"

    def _repr_html_(self) -> str:
        return _table(
            {
                "hypothesis": self.text,
                "behind the best": self.behind,
                "cost": _paid(self.certificate, repeated=self.repeated),
                "receipt": f"entry {self.certificate.entry}, {self.certificate.digest[:16]}…",
            }
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """The response to a request for a prediction: a label, a number, or None where the vote was not clear enough."""

    label: str | int | float | bool | None
    certificate: Certificate
    repeated: bool = False

    @property
    def brief(self) -> str:
        """Return the label."""
        return "unclear" if self.label is None else str(self.label)

    def __str__(self) -> str:
        return f"{self.brief}  {_paid(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        return _table(
            {
                "prediction": self.brief,
                "cost": _paid(self.certificate, repeated=self.repeated),
                "receipt": f"entry {self.certificate.entry}, {self.certificate.digest[:16]}…",
            }
        )


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


Response: TypeAlias = Answer | Choice | Hypothesis | Prediction
Record: TypeAlias = Interval | Certificate | Response


def mark_repeat(response: Response, *, repeated: bool) -> Response:
    """Return a response that says of itself whether it is a repeat."""
    return response if response.repeated == repeated else replace(response, repeated=repeated)


_KINDS: dict[str, Any] = {
    kind.__name__.lower(): kind for kind in (Interval, Certificate, Answer, Choice, Hypothesis, Prediction)
}
_FIELDS: dict[Any, tuple[str, ...]] = {
    kind: tuple(item.name for item in fields(kind) if item.name != "evaluate") for kind in _KINDS.values()
}
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
    if isinstance(value, tuple):
        return list(value)
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
    return tuple(value) if isinstance(value, list) else value


def canonical(document: Mapping[str, Any]) -> str:
    """Return JSON in one way only (sorted keys, no spaces, no NaN), fit to be hashed."""
    try:
        return _ENCODER.encode(document)
    except (TypeError, ValueError, RecursionError):
        pass
    message = "this cannot be written as JSON: use text, finite numbers, True, False, None, and lists and mappings of them"
    raise RequestError(message)

"""What crosses a boundary: responses, with the interval and the certificate that come with them.

Records are frozen, hold public numbers only, and read back as they were written: with :mod:`holdtrue.codec`,
``decode(encode(record), Response)`` is the record.
"""

import html
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec.structs import astuple, replace

from holdtrue.codec import Record
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.events import Event

__all__ = [
    "Answer",
    "Certificate",
    "Choice",
    "Hypothesis",
    "Interval",
    "Prediction",
    "Response",
    "Tagged",
    "mark_repeat",
    "text_table",
]

Target: TypeAlias = Literal["population", "sample"]


class Tagged(Record, frozen=True, tag_field="record", tag=str.lower):
    """A record that names its kind in JSON, in lower case."""


def _finite(name: str, *values: float | None) -> None:
    for value in values:
        if value is not None and not math.isfinite(value):
            raise InvalidParameter(name, value, "a finite number")


class Interval(Tagged, frozen=True):
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


class Certificate(Tagged, frozen=True):
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

    def __post_init__(self) -> None:
        if not math.isfinite(self.cost + self.spent + self.left + self.epsilon + self.delta):
            _finite("certificate", self.cost, self.spent, self.left, self.epsilon, self.delta)

    def proving(self, theorem: str | None, *, event: Event | None = None) -> "Certificate":
        """Return the same receipt for a response that rests on another theorem, or that did something else to privacy."""
        return replace(self, theorem=theorem, event=event or self.event)


class Answer(Tagged, frozen=True):
    """The response to a question. ``interval`` is for the population, and None where ``reason`` says why there is none.

    ``repeated`` says that the question was answered before, and that this is the same answer, for nothing.
    """

    value: float
    interval: Interval | None
    sample_interval: Interval
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise InvalidParameter("value", self.value, "a finite number")

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


class Choice(Tagged, frozen=True):
    """The response to a selection: the chosen candidate, and by how many rows it may miss the best."""

    name: str
    index: int
    shortfall: float
    certificate: Certificate
    repeated: bool = False

    def __post_init__(self) -> None:
        _finite("shortfall", self.shortfall)

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


class Hypothesis(Tagged, frozen=True, dict=True):
    """The response to learning: one hypothesis of a finite class, and how far behind the best of the class it may be.

    ``excess_error`` bounds err(this) - min err for the population, with ``confidence``; None where ``reason`` says why there
    is no such bound. ``shortfall`` bounds the same on these rows, in rows. ``document`` is the class as JSON, None where it
    was made of code. ``columns`` are the features it reads, in order. It predicts once :meth:`with_class` has given it its
    class; that is neither written nor compared.
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

    def __post_init__(self) -> None:
        _finite("hypothesis", self.excess_error, self.confidence, self.shortfall)

    def with_class(self, evaluate: Callable[[object], Any] | None) -> "Hypothesis":
        """Return the same hypothesis with what labels rows as it does."""
        found = replace(self)
        found.__dict__["evaluate"] = evaluate
        return found

    @property
    def evaluate(self) -> Callable[[object], Any] | None:
        """Return what labels rows as this hypothesis does; None where it was read without its class."""
        return self.__dict__.get("evaluate")

    def __copy__(self) -> "Hypothesis":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _hypothesis, (astuple(self), self.evaluate)

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


class Prediction(Tagged, frozen=True):
    """The response to a request for a prediction: a label, a number, or None where the vote was not clear enough."""

    label: str | int | float | bool | None
    certificate: Certificate
    repeated: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.label, float):
            _finite("label", self.label)

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


def _hypothesis(values: tuple[Any, ...], evaluate: Callable[[object], Any] | None) -> Hypothesis:
    return Hypothesis(*values).with_class(evaluate)


def _ends(interval: Interval) -> str:
    return f"{interval.low:.4g} to {interval.high:.4g} ({interval.confidence:.0%})"


def _paid(certificate: Certificate, *, repeated: bool) -> str:
    left = f"{certificate.left:.3g} left"
    return f"asked before: nothing, {left}" if repeated else f"cost {certificate.cost:.3g}, {left}"


def text_table(title: str, lines: Mapping[str, str]) -> str:
    """Return a title over a column of names and a column of values."""
    width = max(len(name) for name in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines.items())])


def _table(lines: Mapping[str, str]) -> str:
    rows = "".join(
        f"<tr><th style='text-align:right'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in lines.items()
    )
    return f"<table>{rows}</table>"


Response: TypeAlias = Answer | Choice | Hypothesis | Prediction


def mark_repeat(response: Response, *, repeated: bool) -> Response:
    """Return a response that says of itself whether it is a repeat."""
    return response if response.repeated == repeated else replace(response, repeated=repeated)

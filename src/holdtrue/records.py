"""What crosses a boundary: responses, with the interval and the certificate that come with them.

Records are frozen, hold public numbers only, and read back as they were written: with :mod:`holdtrue.codec`,
``decode(encode(record), Response)`` is the record.
"""

import html
import math
from collections.abc import Callable, Iterator, Mapping
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
    "Table",
    "Tagged",
    "mark_repeat",
    "text_table",
]

Target: TypeAlias = Literal["population", "sample"]


class Tagged(Record, frozen=True, tag_field="record", tag=str.lower):
    """A record that names its kind in JSON, in lower case."""


def _check_finite(name: str, *values: float | None) -> None:
    for value in values:
        if value is not None and not math.isfinite(value):
            raise InvalidParameter(name, value, "a finite number")


class Interval(Tagged, frozen=True):
    """Low and high ends for a value of the target; all answers' intervals hold at once with this confidence."""

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
            _check_finite("certificate", self.cost, self.spent, self.left, self.epsilon, self.delta)

    def with_theorem(self, theorem: str | None, *, event: Event | None = None) -> "Certificate":
        """Return the same receipt with another theorem and, if given, another event."""
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
        none = f"no interval for the population: {self.reason}"
        about = f"population {_format_ends(self.interval)}" if self.interval else none
        return f"{self.value:.4g}  {about}  {_format_cost(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        return _format_table(
            {
                "value": f"{self.value:.4g}",
                "population": _format_ends(self.interval) if self.interval else f"none: {self.reason}",
                "these rows": _format_ends(self.sample_interval),
            },
            self,
        )


class Choice(Tagged, frozen=True):
    """The response to a selection: the chosen candidate, and by how many rows it may miss the best."""

    name: str
    index: int
    shortfall: float
    certificate: Certificate
    repeated: bool = False

    def __post_init__(self) -> None:
        _check_finite("shortfall", self.shortfall)

    @property
    def brief(self) -> str:
        """Return what was chosen."""
        return self.name

    def __str__(self) -> str:
        paid = _format_cost(self.certificate, repeated=self.repeated)
        return f"{self.name}  at most {self.shortfall:.4g} rows behind the best  {paid}"

    def _repr_html_(self) -> str:
        return _format_table(
            {
                "chosen": self.name,
                "behind the best": f"{self.shortfall:.4g} rows at most",
            },
            self,
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
        _check_finite("hypothesis", self.excess_error, self.confidence, self.shortfall)

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
        return _rebuild_hypothesis, (astuple(self), self.evaluate)

    def predict(self, rows: object) -> Any:  # noqa: ANN401 - an array of labels
        """Return the label of each row, True or False: a data frame, a mapping from names to columns, or one record."""
        if self.evaluate is None:
            message = "this hypothesis was loaded without its class; learn again, or read the class from its document"
            raise NotCertified(message)
        return self.evaluate(rows)

    @property
    def brief(self) -> str:
        """Return the hypothesis in words."""
        return self.text

    def __str__(self) -> str:
        return f"{self.text}  {self.behind}  {_format_cost(self.certificate, repeated=self.repeated)}"

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
        return _format_table(
            {
                "hypothesis": self.text,
                "behind the best": self.behind,
            },
            self,
        )


class Prediction(Tagged, frozen=True):
    """The response to a request for a prediction: a label, a number, or None where the vote was not clear enough."""

    label: str | int | float | bool | None
    certificate: Certificate
    repeated: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.label, float):
            _check_finite("label", self.label)

    @property
    def brief(self) -> str:
        """Return the label."""
        return "unclear" if self.label is None else str(self.label)

    def __str__(self) -> str:
        return f"{self.brief}  {_format_cost(self.certificate, repeated=self.repeated)}"

    def _repr_html_(self) -> str:
        return _format_table(
            {
                "prediction": self.brief,
            },
            self,
        )


class Table(Tagged, frozen=True):
    """The response to a table: the share of the rows in each cell, a sequence of answers with labels.

    The last cell holds the rows in none of the others, missing values included; its labels are None. ``low`` and ``high``
    are for the population, None where ``reason`` says why; all cells, and all other answers, are right at once with
    ``confidence``. A union of cells that is chosen afterwards has the sum of their widths.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[str | int | float | bool | None, ...], ...]
    values: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    sample_low: tuple[float, ...]
    sample_high: tuple[float, ...]
    confidence: float
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False

    def __post_init__(self) -> None:
        _check_finite("table", *self.values, *(self.low or ()), *(self.high or ()), *self.sample_low, *self.sample_high)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> Answer:
        """Return the answer about one cell, by its place."""
        ends = None
        if self.low is not None and self.high is not None:
            ends = Interval(self.low[place], self.high[place], self.confidence, "population")
        rows = Interval(self.sample_low[place], self.sample_high[place], self.confidence, "sample")
        return Answer(self.values[place], ends, rows, self.certificate, self.reason, self.repeated)

    def __iter__(self) -> Iterator[Answer]:
        return (self[place] for place in range(len(self)))

    def cell(self, *labels: str | float | bool | None) -> Answer:
        """Return the answer about the cell with these labels, one for each column."""
        if labels not in self.labels:
            raise InvalidParameter("labels", labels, "the labels of a cell of this table")
        return self[self.labels.index(labels)]

    @property
    def brief(self) -> str:
        """Return how many cells there are."""
        return f"{len(self):,} cells by {', '.join(self.columns)}"

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the table by column: the labels, the share, and the ends for the population, or for these rows."""
        found: dict[str, list[Any]] = {
            name: [each[place] for each in self.labels] for place, name in enumerate(self.columns)
        }
        low, high = (self.sample_low, self.sample_high) if self.low is None else (self.low, self.high or ())
        return found | {"share": list(self.values), "low": list(low), "high": list(high)}

    def to_pandas(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return a pandas data frame: the labels, share, low and high."""
        import pandas as pd

        return pd.DataFrame(self.to_columns())

    def to_polars(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return a Polars data frame: the labels, share, low and high."""
        import polars as pl

        return pl.DataFrame(self.to_columns(), strict=False)

    def to_arrow(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return an Arrow table: the labels, share, low and high."""
        import pyarrow as pa  # type: ignore[import-untyped]

        return pa.table(self.to_columns())

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401 - matplotlib's axes
        """Draw a bar for each cell with its interval; return the axes."""
        import matplotlib.pyplot as plt

        axes = plt.subplots(figsize=(6, 0.35 * len(self) + 1))[1] if ax is None else ax
        found, places = self.to_columns(), range(len(self))
        below = [share - low for share, low in zip(found["share"], found["low"], strict=True)]
        above = [high - share for share, high in zip(found["share"], found["high"], strict=True)]
        axes.barh(places, self.values, xerr=[below, above], color="#5fa8a0", ecolor="#00695f", capsize=3)
        axes.set_yticks(places, [_cell_name(each) for each in self.labels])
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel(f"share of the {'rows' if self.low is None else 'population'} ({self.confidence:.0%}, all at once)")
        return axes

    def __str__(self) -> str:
        found = self.to_columns()
        names = [_cell_name(each) for each in self.labels]
        width = max(len(name) for name in (*names, ", ".join(self.columns)))
        lines = [f"{', '.join(self.columns):<{width}}   share      low     high"]
        for name, share, low, high in zip(names, found["share"], found["low"], found["high"], strict=True):
            lines.append(f"{name:<{width}}  {share:6.4f}   {low:6.4f}   {high:6.4f}")
        target = "the rows" if self.low is None else "the population"
        paid = _format_cost(self.certificate, repeated=self.repeated)
        return "\n".join([*lines, f"{self.confidence:.0%} for {target}, all cells at once; {paid}"])

    def _repr_html_(self) -> str:
        found = self.to_columns()
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in (*self.columns, "share", "", "low", "high"))
        rows = []
        for labels, share, low, high in zip(self.labels, found["share"], found["low"], found["high"], strict=True):
            cells = "".join(f"<td>{html.escape('other' if each is None else str(each))}</td>" for each in labels)
            bar = f"<div style='background:#5fa8a0;height:0.8em;width:{100 * share:.1f}px'></div>"
            rows.append(f"<tr>{cells}<td>{share:.4f}</td><td>{bar}</td><td>{low:.4f}</td><td>{high:.4f}</td></tr>")
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _cell_name(labels: tuple[Any, ...]) -> str:
    return "other" if all(each is None for each in labels) else ", ".join(map(str, labels))


def _rebuild_hypothesis(values: tuple[Any, ...], evaluate: Callable[[object], Any] | None) -> Hypothesis:
    return Hypothesis(*values).with_class(evaluate)


def _format_ends(interval: Interval) -> str:
    return f"{interval.low:.4g} to {interval.high:.4g} ({interval.confidence:.0%})"


def _format_cost(certificate: Certificate, *, repeated: bool) -> str:
    left = f"{certificate.left:.3g} left"
    return f"asked before: nothing, {left}" if repeated else f"cost {certificate.cost:.3g}, {left}"


def text_table(title: str, lines: Mapping[str, str]) -> str:
    """Return a title over a column of names and a column of values."""
    width = max(len(name) for name in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines.items())])


def _format_table(facts: Mapping[str, str], response: "Response") -> str:
    certificate = response.certificate
    receipt = f"entry {certificate.entry}, {certificate.digest[:16]}…"
    lines = {**facts, "cost": _format_cost(certificate, repeated=response.repeated), "receipt": receipt}
    rows = "".join(
        f"<tr><th style='text-align:right'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in lines.items()
    )
    return f"<table>{rows}</table>"


Response: TypeAlias = Answer | Choice | Hypothesis | Prediction | Table


def mark_repeat(response: Response, *, repeated: bool) -> Response:
    """Return a response marked as a repeat or not."""
    return response if response.repeated == repeated else replace(response, repeated=repeated)

"""The response to a request for quantiles (U3)."""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdtrue.errors import InvalidParameter
from holdtrue.records.answers import Answer, Certificate, Interval, Target, check_finite, format_cost
from holdtrue.records.showing import import_plots
from holdtrue.records.tables import Tabular


@dataclass(frozen=True, slots=True)
class DateInterval:
    """Low and high ends for a date or timestamp of the target, as :class:`Interval` has them for a number."""

    low: date
    high: date
    confidence: float
    target: Target

    @property
    def width(self) -> timedelta:
        """Return the time between the ends."""
        return self.high - self.low

    def __contains__(self, value: date) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}] ({self.confidence:.0%}, {self.target})"


@dataclass(frozen=True, slots=True)
class DateAnswer:
    """The quantile of one level of a column of dates or timestamps, as an :class:`Answer` has that of numbers."""

    value: date
    interval: DateInterval | None
    sample_interval: DateInterval
    certificate: Certificate
    reason: str | None = None
    repeated: bool = False

    @property
    def brief(self) -> str:
        """Return the date and the interval that is promised for it, in a few words."""
        ends = self.interval or self.sample_interval
        return f"{self.value} ({ends.low} to {ends.high})"


def _read_point(value: float | str) -> Any:  # noqa: ANN401 - a number, or a date
    """Return a number as it is, and text as a date, or as a timestamp where it has a time of day."""
    if not isinstance(value, str):
        return value
    return datetime.fromisoformat(value) if " " in value else date.fromisoformat(value)


class Quantiles(Tabular, frozen=True):
    """The response to a request for quantiles: for each level where the values of a column reach it, in their own units.

    The quantile of a level is the lowest point of the public grid up to which at least that share of the population lies,
    of those that meet ``where`` if there is one; it is between ``low`` and ``high``, None where ``reason`` says why. All of
    them, and all other answers, are right at once with ``confidence``; those of the method "exponential" by themselves.
    Values outside the grid count as its nearer end, missing ones as its upper end. Of dates and timestamps the fields hold
    text such as 2026-01-31; answers, columns and ``value`` have dates. ``shares`` are the answers about
    ``thresholds``, from which all of it follows; ``asks`` and ``cost`` are what this request paid for. Where the budget ran
    out, ``complete`` is False: the ends hold all the same, and are wider. ``place`` is there for a curve on a ledger without
    a set number of questions: which draw it was, and how many units were spent with it.
    """

    column: str
    levels: tuple[float, ...]
    values: tuple[float | str, ...]
    low: tuple[float | str, ...] | None
    high: tuple[float | str, ...] | None
    sample_low: tuple[float | str, ...]
    sample_high: tuple[float | str, ...]
    confidence: float
    thresholds: tuple[float | str, ...]
    shares: tuple[float, ...]
    where: str | None
    method: str
    asks: int
    cost: float
    certificate: Certificate
    complete: bool = True
    reason: str | None = None
    repeated: bool = False
    place: tuple[int, int] | UnsetType = UNSET

    def __post_init__(self) -> None:
        ends = (*(self.low or ()), *(self.high or ()), *self.sample_low, *self.sample_high)
        try:
            points = [_read_point(each) for each in (*self.values, *ends, *self.thresholds)]
        except ValueError:
            raise InvalidParameter.without_value("quantiles", "numbers, or dates such as 2026-01-31") from None
        check_finite("quantiles", *(each for each in points if not isinstance(each, date)), *self.levels, *self.shares)
        check_finite("quantiles", self.confidence, self.cost)

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, place: int) -> Answer | DateAnswer:
        """Return the answer about one level, by its place."""
        dated = isinstance(self.values[place], str)
        answer: Any = DateAnswer if dated else Answer
        interval: Any = DateInterval if dated else Interval
        ends = None
        if self.low is not None and self.high is not None:
            ends = interval(_read_point(self.low[place]), _read_point(self.high[place]), self.confidence, "population")
        near = _read_point(self.sample_low[place]), _read_point(self.sample_high[place])
        rows = interval(*near, self.confidence, "sample")
        found: Answer | DateAnswer = answer(
            _read_point(self.values[place]), ends, rows, self.certificate, self.reason, self.repeated
        )
        return found

    def __iter__(self) -> Iterator[Answer | DateAnswer]:
        return (self[place] for place in range(len(self)))

    @property
    def value(self) -> Any:  # noqa: ANN401 - a number, or a date
        """Return the quantile of the first level."""
        return _read_point(self.values[0])

    @property
    def interval(self) -> Interval | DateInterval | None:
        """Return the interval for the population of the first level."""
        return self[0].interval

    @property
    def sample_interval(self) -> Interval | DateInterval:
        """Return the interval for these rows of the first level."""
        return self[0].sample_interval

    @property
    def brief(self) -> str:
        """Return each level with its quantile and the interval that is promised for it."""
        return "; ".join(f"{level:g}: {each.brief}" for level, each in zip(self.levels, self, strict=True))

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the quantiles by column: level, value, and the ends for the population, or for these rows."""
        low, high = (self.sample_low, self.sample_high) if self.low is None else (self.low, self.high or ())
        points = {"value": self.values, "low": low, "high": high}
        return {"level": list(self.levels)} | {name: list(map(_read_point, each)) for name, each in points.items()}

    def write_number(self, value: float | date) -> str:
        """Return a value, an end or a level as it is shown."""
        return str(value) if isinstance(value, date) else f"{value:.6g}"

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401 - matplotlib's axes
        """Draw the answers about thresholds, and the quantiles with their intervals; return the axes."""
        plt = import_plots()
        axes = plt.subplots(figsize=(6, 4))[1] if ax is None else ax
        found = self.to_columns()
        below = [value - low for value, low in zip(found["value"], found["low"], strict=True)]
        above = [high - value for value, high in zip(found["value"], found["high"], strict=True)]
        axes.plot([*map(_read_point, self.thresholds)], self.shares, ".", color="#5fa8a0")
        axes.errorbar(found["value"], self.levels, xerr=[below, above], fmt="o", color="#00695f", capsize=3)
        axes.set_ylim(0, 1)
        axes.set_xlabel(self._subject)
        axes.set_ylabel(f"share at or below ({self.confidence:.0%}, all at once)")
        return axes

    @property
    def _subject(self) -> str:
        return self.column if self.where is None else f"{self.column} where {self.where}"

    @property
    def paid(self) -> str:
        """Return in words what the request cost, and whether the budget ran out on the way."""
        asked = f"{self.asks:,} questions, " if self.asks and not self.repeated else ""
        cost = asked + format_cost(replace(self.certificate, cost=self.cost), repeated=self.repeated)
        return cost if self.complete else f"{cost}; the budget ran out, and these are the intervals so far"

    def __str__(self) -> str:
        level, *others = self.to_columns().values()
        rows = [("value", "low", "high"), *([self.write_number(each) for each in row] for row in zip(*others, strict=True))]
        wide = max(9, *(len(each) for row in rows for each in row))
        names = ["level", *(f"{each:.4g}" for each in level)]
        lines = [self._subject]
        for name, row in zip(names, rows, strict=True):
            lines.append(f"{name:<7} {'   '.join(f'{each:>{wide}}' for each in row)}")
        target = f"the rows ({self.reason})" if self.low is None else "the population"
        return "\n".join([*lines, f"{self.confidence:.0%} for {target}, all at once; {self.paid}"])

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in ("level", self._subject, "low", "high"))
        rows = [
            "<tr>" + "".join(f"<td>{self.write_number(each)}</td>" for each in row) + "</tr>"
            for row in zip(*self.to_columns().values(), strict=True)
        ]
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table><p>{html.escape(self.paid)}</p>"

"""The response to a request for quantiles (U3)."""

import html
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdtrue.records.answers import Answer, Certificate, Interval, check_finite, format_cost
from holdtrue.records.showing import import_plots
from holdtrue.records.tables import Tabular


class Quantiles(Tabular, frozen=True):
    """The response to a request for quantiles: for each level where the values of a column reach it, in their own units.

    The quantile of a level is the lowest point of the public grid up to which at least that share of the population lies,
    of those that meet ``where`` if there is one; it is between ``low`` and ``high``, None where ``reason`` says why. All of
    them, and all other answers, are right at once with ``confidence``; those of the method "exponential" by themselves.
    Values outside the grid count as its nearer end, missing ones as its upper end. ``shares`` are the answers about
    ``thresholds``, from which all of it follows; ``asks`` and ``cost`` are what this request paid for. Where the budget ran
    out, ``complete`` is False: the ends hold all the same, and are wider. ``place`` is there for a curve on a ledger without
    a set number of questions: which draw it was, and how many units were spent with it.
    """

    column: str
    levels: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    sample_low: tuple[float, ...]
    sample_high: tuple[float, ...]
    confidence: float
    thresholds: tuple[float, ...]
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
        check_finite("quantiles", *self.levels, *self.values, *ends, *self.thresholds, *self.shares)
        check_finite("quantiles", self.confidence, self.cost)

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, place: int) -> Answer:
        """Return the answer about one level, by its place."""
        ends = None
        if self.low is not None and self.high is not None:
            ends = Interval(self.low[place], self.high[place], self.confidence, "population")
        rows = Interval(self.sample_low[place], self.sample_high[place], self.confidence, "sample")
        return Answer(self.values[place], ends, rows, self.certificate, self.reason, self.repeated)

    def __iter__(self) -> Iterator[Answer]:
        return (self[place] for place in range(len(self)))

    @property
    def value(self) -> float:
        """Return the quantile of the first level."""
        return self.values[0]

    @property
    def interval(self) -> Interval | None:
        """Return the interval for the population of the first level."""
        return self[0].interval

    @property
    def sample_interval(self) -> Interval:
        """Return the interval for these rows of the first level."""
        return self[0].sample_interval

    @property
    def brief(self) -> str:
        """Return each level with its quantile and the interval that is promised for it."""
        return "; ".join(f"{level:g}: {each.brief}" for level, each in zip(self.levels, self, strict=True))

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the quantiles by column: level, value, and the ends for the population, or for these rows."""
        low, high = (self.sample_low, self.sample_high) if self.low is None else (self.low, self.high or ())
        return {"level": list(self.levels), "value": list(self.values), "low": list(low), "high": list(high)}

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401 - matplotlib's axes
        """Draw the answers about thresholds, and the quantiles with their intervals; return the axes."""
        plt = import_plots()
        axes = plt.subplots(figsize=(6, 4))[1] if ax is None else ax
        found = self.to_columns()
        below = [value - low for value, low in zip(found["value"], found["low"], strict=True)]
        above = [high - value for value, high in zip(found["value"], found["high"], strict=True)]
        axes.plot(self.thresholds, self.shares, ".", color="#5fa8a0")
        axes.errorbar(self.values, self.levels, xerr=[below, above], fmt="o", color="#00695f", capsize=3)
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
        found = self.to_columns()
        lines = [self._subject, "level       value         low        high"]
        for level, value, low, high in zip(*found.values(), strict=True):
            lines.append(f"{level:<7.4g} {value:>9.6g}   {low:>9.6g}   {high:>9.6g}")
        target = f"the rows ({self.reason})" if self.low is None else "the population"
        return "\n".join([*lines, f"{self.confidence:.0%} for {target}, all at once; {self.paid}"])

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in ("level", self._subject, "low", "high"))
        rows = [
            "<tr>" + "".join(f"<td>{number:.6g}</td>" for number in each) + "</tr>"
            for each in zip(*self.to_columns().values(), strict=True)
        ]
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table><p>{html.escape(self.paid)}</p>"

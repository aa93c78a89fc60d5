"""Means and sums of groups, what follows from them, and statistics that are no means of rows (U2, U5)."""

import math
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdtrue.codec import Record
from holdtrue.errors import InvalidParameter
from holdtrue.exact import count, round_down, round_up
from holdtrue.records.answers import Answer, Certificate, Interval, Tagged, check_finite, format_cost, format_table
from holdtrue.records.tables import LabelledCells

MOST_PEOPLE = 10**12
"""A population whose total is told has no more people than this."""
_MANY, _TOO_MANY = 1e5, 1e15  # between these, a number is shown without decimals
_OPEN = "the denominator may be 0, so an end is open"
_NO_TOTAL = "this is the sum over these rows; per_head speaks of the population, and population= gives its total"
_Ends: TypeAlias = tuple[float | None, float | None]


class Estimates(Record, frozen=True):
    """Numbers, one for each group, with ends for the population (None where there are none) and for these rows."""

    values: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    sample_low: tuple[float, ...]
    sample_high: tuple[float, ...]

    def __post_init__(self) -> None:
        check_finite("values", *self.values, *(self.low or ()), *(self.high or ()), *self.sample_low, *self.sample_high)

    @property
    def most(self) -> float:
        """Return the largest upper end, for the population or else for these rows."""
        return max(self.high or self.sample_high)


class Contrast(Record, frozen=True):
    """The difference or the ratio of two groups of one release, with ends that follow from theirs (U2.4). Free.

    An end is None where it is open, as a ratio's is whose denominator may be 0; ``reason`` says so, or says why nothing is
    known of the population.
    """

    kind: Literal["difference", "ratio"]
    first: str
    second: str
    value: float | None
    low: float | None
    high: float | None
    sample_low: float | None
    sample_high: float | None
    confidence: float
    certificate: Certificate
    reason: str | None = None

    def __post_init__(self) -> None:
        check_finite("contrast", self.value, self.low, self.high, self.sample_low, self.sample_high)

    def __contains__(self, value: float) -> bool:
        """Return whether a number is between the ends for the population; an open end holds every number."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        shown = "undefined" if self.value is None else f"{self.value:,.6g}"
        low, high = ("open" if each is None else f"{each:,.6g}" for each in (self.low, self.high))
        sure = f"{low} to {high} ({self.confidence:.0%}, population)"
        note = "" if self.reason is None else f"; {self.reason}"
        return f"{self.kind} of {self.first} and {self.second}: {shown}  {sure}{note}"


class Means(LabelledCells, frozen=True, kw_only=True):
    """The response to a mean or a sum: a number for each group in the column's own units, a sequence of answers with labels.

    A mean is over the rows of a group that have a value, counted within ``bounds``: ``shares`` are the shares of all rows
    that these are, ``below`` and ``above`` the shares of all rows in the group that lie outside (None where nothing can),
    and ``missing`` the share of the rows without a value or in no group. ``per_head`` is the sum over a group divided by all
    rows. ``low`` and ``high`` are for the population, None where ``reason`` says why; all of these numbers, and all other
    answers, are right at once with ``confidence``. ``whole``: the cells behind these numbers are all rows, and their answers
    were moved so that they add up to 1 (U1.5).
    """

    measure: Literal["mean", "share", "sum"]
    column: str
    bounds: tuple[float, float]
    rows: int
    where: str | None
    shares: Estimates
    per_head: Estimates
    below: Estimates | None
    above: Estimates | None
    missing: Estimates
    population: int | None = None
    whole: bool | UnsetType = UNSET

    @property
    def measure_name(self) -> str:
        """Return what the numbers are: share, mean or sum."""
        return self.measure

    @property
    def axis(self) -> tuple[float, float]:
        """Return between which numbers values lie, to be drawn."""
        if self.measure != "sum":
            return self.bounds
        ends = (0.0, *self.values, *(self.low or self.sample_low), *(self.high or self.sample_high))
        return (min(ends), max(ends)) if min(ends) < max(ends) else (0.0, 1.0)

    def write_number(self, value: float) -> str:
        """Return a value as it is shown."""
        return f"{value:,.0f}" if _MANY <= abs(value) < _TOO_MANY else f"{value:,.6g}"

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the groups by column: labels, the mean or sum, its ends, and the group's share of all rows."""
        return LabelledCells.to_columns(self) | {"group_share": list(self.shares.values)}

    @property
    def value(self) -> float:
        """Return the number, where there is one group."""
        return self._only.value

    @property
    def interval(self) -> Interval | None:
        """Return the interval for the population, where there is one group."""
        return self._only.interval

    @property
    def sample_interval(self) -> Interval:
        """Return the interval for these rows, where there is one group."""
        return self._only.sample_interval

    @property
    def _only(self) -> Answer:
        if len(self) != 1:
            raise InvalidParameter.saying("value", f"there are {len(self):,} groups; take one by its place, or cell(labels)")
        return self[0]

    @property
    def sentence(self) -> str:
        """Return in words what the numbers are: how values outside count, and which rows are left out."""
        by = "" if not self.columns else f" by {', '.join(self.columns)}"
        of = f"the {self.measure} of {self.column}{by}" + ("" if self.where is None else f" where {self.where}")
        people = "these rows" if self.missing.low is None else "the population"
        if self.below is None or self.above is None:
            return f"{of}; at most {_percent_up(self.missing.most)} of {people} is in no group"
        low, high = (f"{end:,.10g}" for end in self.bounds)
        each = " in any one group" if len(self) > 1 else ""
        above, below, missing = (_percent_up(each.most) for each in (self.above, self.below, self.missing))
        return (
            f"{of}, counting values above {high} as {high} and below {low} as {low}; at most {above} of {people} lies above "
            f"and {below} below{each}; over rows with a value: at most {missing} of {people} has none"
            f"{' or is in no group' if self.columns else ''}"
        )

    @property
    def brief(self) -> str:
        """Return the value, or how many groups there are."""
        if len(self) == 1:
            return f"{self.measure} of {self.column}: {self[0].brief}"
        return f"{self.measure} of {self.column} in {len(self):,} groups"

    def __str__(self) -> str:
        return f"{self.sentence}\n{LabelledCells.__str__(self)}"

    def difference(self, first: object, second: object) -> Contrast:
        """Return the first group's number less the second's, by their labels. Free: it follows from this release (U2.4)."""
        return self._contrast("difference", first, second)

    def ratio(self, first: object, second: object) -> Contrast:
        """Return the first group's number over the second's, by their labels. Free.

        Where the second may be 0, an end that has no limit is None, and the reason says so.
        """
        return self._contrast("ratio", first, second)

    def _contrast(self, kind: Literal["difference", "ratio"], first: object, second: object) -> Contrast:
        one, other = self.find_place(first), self.find_place(second)
        combine = _divide_ends if kind == "ratio" else _subtract_ends
        rows = combine((self.sample_low[one], self.sample_high[one]), (self.sample_low[other], self.sample_high[other]))
        ends: tuple[float | None, float | None] = None, None
        reason = self.reason
        if self.low is not None and self.high is not None:
            ends = combine((self.low[one], self.high[one]), (self.low[other], self.high[other]))
            reason = _OPEN if None in ends else None
        elif None in rows:
            reason = _OPEN if reason is None else f"{_OPEN}; {reason}"
        a, b = self.values[one], self.values[other]
        value = a - b if kind == "difference" else a / b if b else None
        names = self.names
        return Contrast(kind, names[one], names[other], value, *ends, *rows, self.confidence, self.certificate, reason)

    def total(self, population: int | None = None) -> "Means":
        """Return the sums: over these rows, or over a population of this size. Free: they follow from the same release.

        Without a ``population`` there is no interval for it: what is known of it is ``per_head``. With one, all numbers are
        per head times its size.
        """
        size = self.rows if population is None else count("population", population, most=MOST_PEOPLE)
        found = self.per_head
        reason = self.reason if found.low is None else None if population is not None else _NO_TOTAL
        low, high = (None, None) if population is None else (found.low, found.high)
        # Responses of earlier versions have ends of per_head that are beyond these.
        least, most = min(self.bounds[0], 0.0), max(self.bounds[1], 0.0)
        lows, sample_lows = (
            [round_down(size * Fraction(max(least, end))) for end in ends or ()] for ends in (low, found.sample_low)
        )
        highs, sample_highs = (
            [round_up(size * Fraction(min(most, end))) for end in ends or ()] for ends in (high, found.sample_high)
        )
        return replace(
            self,
            measure="sum",
            values=tuple(size * each for each in found.values),
            low=tuple(lows) or None,
            high=tuple(highs) or None,
            sample_low=tuple(sample_lows),
            sample_high=tuple(sample_highs),
            population=population,
            reason=reason,
        )


def _percent_up(share: float) -> str:
    return f"{math.ceil(min(share, 1.0) * 1000) / 10:g} %"


def _subtract_ends(first: tuple[float, float], second: tuple[float, float]) -> _Ends:
    """Return the ends of a difference, rounded outward, and not at all where floats hold them."""
    (least, most), (low, high) = ((Fraction(end) for end in ends) for ends in (first, second))
    return round_down(least - high), round_up(most - low)


def _divide_ends(first: tuple[float, float], second: tuple[float, float]) -> _Ends:
    """Return the ends of a quotient, rounded outward; None where it has no limit on that side."""
    (least, most), (low, high) = ((Fraction(end) for end in ends) for ends in (first, second))
    if high <= 0 and low < 0:
        return _divide_ends((-first[1], -first[0]), (-second[1], -second[0]))
    if low > 0:
        found = [over / under for over in (least, most) for under in (low, high)]
        ends = round_down(min(found)), round_up(max(found))
        return ends[0] if math.isfinite(ends[0]) else None, ends[1] if math.isfinite(ends[1]) else None
    if low == 0 and high > 0:
        return round_down(least / high) if least >= 0 else None, round_up(most / high) if most <= 0 else None
    return None, None


class Statistic(Tagged, frozen=True, kw_only=True):
    """The response to a statistic that is not a mean of rows, such as a variance, or to a ratio of such ones (U5).

    One row moves it by ``sensitivity`` / rows at most, in its own units; None for a ratio, which follows for nothing from
    ``parts``. ``interval`` is for what ``target`` says in words, and None where ``reason`` says why; it is right at once
    with all other answers.
    """

    measure: str
    subject: str
    value: float
    interval: Interval | None
    sample_interval: Interval
    sensitivity: float | None
    target: str
    certificate: Certificate
    parts: tuple["Statistic", ...] = ()
    reason: str | None = None
    repeated: bool = False

    def __post_init__(self) -> None:
        check_finite("statistic", self.value, self.sensitivity)

    @property
    def sentence(self) -> str:
        """Return in words what the number is, how far one row can move it, and what its interval is for."""
        one, all_rows = (self.certificate.unit, "units") if self.certificate.unit else ("row", "rows")
        moved = (
            f"; one {one} moves it by at most {self.sensitivity:.6g} / {all_rows}" if self.sensitivity is not None else ""
        )
        return f"{self.measure} of {self.subject}; the interval is for {self.target}{moved}"

    @property
    def brief(self) -> str:
        """Return what it is, the value, and the interval that is promised for it, in a few words."""
        ends = self.interval or self.sample_interval
        return f"{self.measure} of {self.subject}: {self.value:.6g} ({ends.low:.6g} to {ends.high:.6g})"

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"{name}: {words}" for name, words in self.lines().items())])

    def lines(self) -> dict[str, str]:
        """Return the value, its intervals and its cost, each in words by its name."""
        none = f"no interval: {self.reason}"
        sure = f"({self.sample_interval.confidence:.0%})"
        return {
            "value": f"{self.value:.6g}",
            "population": none if self.interval is None else f"{self.interval.low:.6g} to {self.interval.high:.6g} {sure}",
            "these rows": f"{self.sample_interval.low:.6g} to {self.sample_interval.high:.6g} {sure}",
            "cost": format_cost(self.certificate, repeated=self.repeated).removeprefix("cost "),
        }

    def _repr_html_(self) -> str:
        return format_table({"statistic": self.sentence} | self.lines(), self)

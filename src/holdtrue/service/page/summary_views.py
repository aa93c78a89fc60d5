"""Tables, means and quantiles as the page shows them: the columns that can be chosen, and responses as bars and lines."""

import csv
import datetime as dt
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from holdtrue.queries.cards import Card, Column, Label
from holdtrue.queries.dates import Point, read_moment
from holdtrue.records import Answer, Certificate, DateAnswer, Means, Quantiles, Statistic, Table

__all__ = [
    "MOMENTS",
    "Builder",
    "ColumnChoice",
    "ShownCell",
    "Summary",
    "from_means",
    "from_quantiles",
    "from_statistic",
    "from_table",
    "make_builder",
    "suggest_points",
    "suggest_step",
    "write_csv",
]

MOMENTS = ("date", "timestamp")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - without a zone, as all timestamps
_PARTS = 5
_STEPS = 200
_DIGITS = 2
_MOST_DECIMALS = 6
_TABLE_PLACES = 3
_ROOM = 1.06


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """A column that can be chosen, and what its card suggests for the fields beside it, by the end of their names."""

    name: str
    cut: bool
    fills: dict[str, str]


@dataclass(frozen=True, slots=True)
class Builder:
    """What can be chosen: columns that make groups, of numbers, and of these or dates, and what is filled in and open.

    ``kind`` is the form that is open, ``filled`` what was written into it, ``priced`` what it would cost.
    """

    groups: tuple[ColumnChoice, ...]
    numbers: tuple[ColumnChoice, ...]
    ordered: tuple[ColumnChoice, ...]
    kind: str = "share"
    filled: dict[str, str] | None = None
    priced: dict[str, Any] | None = None

    def fill(self, kind: str, field: str, default: str = "") -> str:
        """Return what stands in a field of a form."""
        return (self.filled or {}).get(field, default) if kind == self.kind else default

    def price_of(self, kind: str) -> dict[str, Any]:
        """Return what a form would cost, as far as it was asked for."""
        return (self.priced or {}) if kind == self.kind else {}


def make_builder(card: Card) -> Builder:
    """Return the choices that a card has: labels that are public and yes-or-no columns, then numbers, which are cut."""
    groups = [_to_group(column) for column in card.columns if _makes_groups(column)]
    numbers, moments = (
        tuple(_to_line(column) for column in card.columns if column.type in kinds)
        for kinds in (("integer", "real"), MOMENTS)
    )
    return Builder(tuple(sorted(groups, key=lambda choice: choice.cut)), numbers, (*numbers, *moments))


def _makes_groups(column: Column) -> bool:
    return column.labels is not None or column.type in ("boolean", "integer", "real", *MOMENTS)


def _to_group(column: Column) -> ColumnChoice:
    cut = column.labels is None and column.type != "boolean"
    if column.type in MOMENTS:
        return ColumnChoice(column.name, cut, {"points": ""})
    return ColumnChoice(column.name, cut, {"points": ", ".join(f"{point:g}" for point in suggest_points(column))})


def _to_line(column: Column) -> ColumnChoice:
    low, high = ("", "") if column.bounds is None else (f"{end:.12g}" for end in column.bounds)
    return ColumnChoice(column.name, cut=False, fills={"low": low, "high": high, "step": f"{suggest_step(column):g}"})


def _round_up(width: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is not below a width."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= width)


def suggest_points(column: Column) -> tuple[float, ...]:
    """Return a few round numbers inside a column's bounds to cut it at; none where it has labels or no bounds."""
    if column.bounds is None or column.labels is not None or column.type == "boolean":
        return ()
    low, high = map(float, column.bounds)
    step = _round_up((high - low) / _PARTS)
    first = math.floor(low / step) + 1
    return tuple(step * at for at in range(first, math.ceil(high / step)))


def suggest_step(column: Column) -> float:
    """Return a round step for the grid of a column's quantiles: 1 for whole numbers unless their bounds are far apart."""
    low, high = (0.0, 0.0) if column.bounds is None else map(float, column.bounds)
    step = _round_up((high - low) / _STEPS) if high > low else 1.0
    return max(1.0, step) if column.type == "integer" else step


@dataclass(frozen=True, slots=True)
class ShownCell:
    """One number with its ends: for the population (None where there are none), and for these rows; and the truth."""

    name: str
    value: float
    low: float | None
    high: float | None
    near: float
    far: float
    truth: float | None
    places: int
    kind: str = "number"

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends for the population, or else for these rows."""
        return (self.near, self.far) if self.low is None or self.high is None else (self.low, self.high)

    @property
    def holds(self) -> bool | None:
        """Return whether the truth is inside the interval for the population; None where one of them is not known."""
        return None if self.truth is None or self.low is None or self.high is None else self.low <= self.truth <= self.high

    def write(self, number: float) -> str:
        """Return a number of this cell as it is shown; one that counts milliseconds as a date or a timestamp."""
        if self.kind == "number":
            return f"{number:,.{self.places}f}"
        moment = _EPOCH + dt.timedelta(milliseconds=number)
        return str(moment.date()) if self.kind == "date" else moment.isoformat(sep=" ")

    def to_plot(self, place: int) -> dict[str, Any]:
        """Return the cell as plots read it."""
        low, high = self.ends
        return {
            "place": place,
            "name": self.name,
            "said": self.write(self.value),
            "value": self.value,
            "low": low,
            "high": high,
            "near": self.near,
            "far": self.far,
            "truth": self.truth,
            "ends": f"{self.write(low)} to {self.write(high)}",
            "told": "not known" if self.truth is None else self.write(self.truth),
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """A table, means, quantiles or a statistic, shown.

    ``curve`` has the shares up to each point, where they were released at once, ``parts`` what a ratio follows from,
    ``contrasts`` the differences and ratios of the first group and each other one, written.
    """

    kind: str
    title: str
    heads: tuple[str, str]
    cells: tuple[ShownCell, ...]
    axis: tuple[float, float]
    confidence: float
    note: str
    paid: str
    certificate: Certificate
    file: str
    csv: str
    reason: str | None = None
    curve: tuple[dict[str, float], ...] = ()
    levels: tuple[float, ...] = ()
    grid: tuple[float, float] = (0.0, 1.0)
    parts: tuple[ShownCell, ...] = ()
    contrasts: tuple[tuple[str, ...], ...] = ()

    @property
    def marks(self) -> list[dict[str, Any]]:
        """Return the quantiles as the plot of the distribution reads them, each at its level."""
        return [found | {"level": level} for found, level in zip(self.plotted, self.levels, strict=True)]

    @property
    def plotted(self) -> list[dict[str, Any]]:
        """Return the cells as plots read them."""
        return [cell.to_plot(place) for place, cell in enumerate(self.cells)]

    @property
    def inside(self) -> int | None:
        """Return how many truths lie inside their intervals; None where no truth is known."""
        known = [cell.holds for cell in self.cells if cell.holds is not None]
        return sum(known) if known else None

    @property
    def known(self) -> int:
        """Return how many truths are known."""
        return sum(cell.holds is not None for cell in self.cells)

    @property
    def receipt(self) -> str:
        """Return what to keep away from the ledger."""
        return f"{self.certificate.entry}:{self.certificate.digest}"


def from_table(
    found: Table, *, where: str | None, questions: int, truths: Sequence[float | None], sums: Sequence[Sequence[Label]]
) -> Summary:
    """Return a table as it is shown, with the sums of labels that were declared with it after its cells."""
    names, columns = [" + ".join(map(str, each)) for each in sums], found.to_columns()
    answers = [*found, *(found.union(*each) for each in sums)]
    parts = [[truths[found.find_place(label)] for label in each] for each in sums]
    told = [*truths, *(None if None in each else sum(filter(None, each)) for each in parts)]
    cells = _make_cells(answers, [*_name_cells(found), *names], told, places=[_TABLE_PLACES] * len(answers))
    for cell in cells[len(found) :]:
        for column, each in zip(columns.values(), (cell.name, cell.value, *cell.ends), strict=True):
            column.append(each)
    by = " and ".join(found.columns)
    return Summary(
        kind="table",
        title=f"The share of {'these rows' if found.low is None else 'the population'} by {by}" + _write_where(where),
        heads=(", ".join(found.columns), "Share"),
        cells=cells,
        axis=(0.0, min(1.0, _ROOM * _find_most(cells))),
        confidence=found.confidence,
        note='Shares are of all rows; "none of these" holds the rows in none of the cells, missing values included.',
        paid=_write_paid(questions, repeated=found.repeated),
        certificate=found.certificate,
        file=f"table-{found.certificate.entry}",
        csv=write_csv(columns),
        reason=found.reason,
    )


def from_means(found: Means, *, questions: int, truths: Sequence[float | None]) -> Summary:
    """Return means as they are shown, in the column's own units."""
    names = _name_cells(found) if found.columns else ["all rows" if found.where is None else found.where]
    lows, highs = found.low or found.sample_low, found.high or found.sample_high
    places = [_count_places(high - low) for low, high in zip(lows, highs, strict=True)]
    cells = _make_cells(found, names, truths, places=places)
    by = f" by {' and '.join(found.columns)}" if found.columns else ""
    least, most = found.axis
    return Summary(
        kind="mean",
        title=f"The {found.measure} of {found.column}{by}" + _write_where(found.where),
        heads=(", ".join(found.columns) or "group", f"{found.measure.capitalize()} of {found.column}"),
        cells=cells,
        axis=(least, min(most, least + _ROOM * (_find_most(cells) - least)) if found.measure != "sum" else most),
        confidence=found.confidence,
        note=found.sentence,
        paid=_write_paid(questions, repeated=found.repeated),
        certificate=found.certificate,
        file=f"{found.measure}-{found.certificate.entry}",
        csv=write_csv(found.to_columns()),
        reason=found.reason,
        contrasts=tuple(_write_contrast(found, names, place, cells[0].write) for place in range(1, len(found))),
    )


def _write_contrast(found: Means, names: Sequence[str], place: int, write: Callable[[float], str]) -> tuple[str, ...]:
    """Return the difference and the ratio of the first group and another one, each with its ends, as they are shown."""
    shown = [f"{names[0]} and {names[place]}"]
    pair, as_ratio = (found.labels[0], found.labels[place]), "{:,.3f}".format
    for told, spell in ((found.difference(*pair), write), (found.ratio(*pair), as_ratio)):
        ends = (told.sample_low, told.sample_high) if found.low is None else (told.low, told.high)
        shown += ["open" if number is None else spell(number) for number in (told.value, *ends)]
    return tuple(shown)


def from_quantiles(found: Quantiles, *, grid: tuple[Point, Point], truths: Sequence[float | None]) -> Summary:
    """Return quantiles as they are shown: each on a line, and on the distribution between the ends of the grid."""
    ends, thresholds = (_to_number(grid[0]), _to_number(grid[1])), [_to_number(each) for each in found.thresholds]
    kind = "number" if isinstance(found.value, float) else "timestamp" if isinstance(found.value, dt.datetime) else "date"
    places = 0 if kind != "number" else _count_decimals((*ends, *map(_to_number, found.values), *thresholds))
    names = ["the median" if level == 0.5 else f"{100 * level:.10g} % at or below" for level in found.levels]  # noqa: PLR2004 - a half
    cells = _make_cells(found, names, truths, places=[places] * len(found), kind=kind)
    curve = zip(thresholds, found.shares, strict=True) if found.method == "curve" else ()
    note = "Values outside count as the nearer end, missing ones as the upper end."
    if not found.complete:
        note = f"The budget ran out on the way: these are the intervals so far, which hold and are wider. {note}"
    return Summary(
        kind="quantile",
        title=f"{_name_levels(found.levels)} of {found.column}" + _write_where(found.where),
        heads=("level", found.column),
        cells=cells,
        axis=_zoom(cells, ends),
        confidence=found.confidence,
        note=note,
        paid=_write_paid(found.asks, repeated=found.repeated),
        certificate=found.certificate,
        file=f"quantile-{found.certificate.entry}",
        csv=write_csv(found.to_columns()),
        reason=found.reason,
        levels=found.levels,
        grid=ends,
        curve=tuple({"at": at, "share": share} for at, share in curve),
    )


def from_statistic(found: Statistic, *, questions: int, truth: float | None) -> Summary:
    """Return a statistic as it is shown, in its own units; a ratio with the statistics that it follows from."""
    shown = (found, *found.parts)
    cells = [_to_cell(each, truth if each is found else None) for each in shown]
    known = [end for cell in cells[:1] for end in (*cell.ends, cell.value, *([] if truth is None else [truth]))]
    room = (max(known) - min(known)) / 4 or 1.0
    open_end = None if found.interval is None else found.reason
    columns: dict[str, list[Any]] = {
        "statistic": [f"{each.measure} of {each.subject}" for each in shown],
        "value": [each.value for each in shown],
        "low": [cell.ends[0] for cell in cells],
        "high": [cell.ends[1] for cell in cells],
    }
    return Summary(
        kind="quantile",
        title=f"The {found.measure} of {found.subject}",
        heads=("statistic", "Value"),
        cells=tuple(cells[:1]),
        parts=tuple(cells[1:]),
        axis=(min(known) - room, max(known) + room),
        confidence=found.sample_interval.confidence,
        note=f"The interval is for {found.target}" + ("" if open_end is None else f"; {open_end}"),
        paid=_write_paid(questions, repeated=found.repeated),
        certificate=found.certificate,
        file=f"{found.measure.replace(' ', '-')}-{found.certificate.entry}",
        csv=write_csv(columns),
        reason=None if found.interval is not None else found.reason,
    )


def _to_cell(found: Statistic, truth: float | None) -> ShownCell:
    ends = found.interval
    wide = found.sample_interval if ends is None else ends
    return ShownCell(
        name=found.measure if not found.parts else f"{found.measure} of {found.subject}",
        value=found.value,
        low=None if ends is None else ends.low,
        high=None if ends is None else ends.high,
        near=found.sample_interval.low,
        far=found.sample_interval.high,
        truth=truth,
        places=_count_places(wide.high - wide.low),
    )


def _make_cells(
    found: Iterable[Answer | DateAnswer],
    names: Sequence[str],
    truths: Sequence[float | None],
    *,
    places: Sequence[int],
    kind: str = "number",
) -> tuple[ShownCell, ...]:
    return tuple(
        ShownCell(
            name=name,
            value=_to_number(answer.value),
            low=None if answer.interval is None else _to_number(answer.interval.low),
            high=None if answer.interval is None else _to_number(answer.interval.high),
            near=_to_number(answer.sample_interval.low),
            far=_to_number(answer.sample_interval.high),
            truth=truth,
            places=decimals,
            kind=kind,
        )
        for name, answer, truth, decimals in zip(names, found, truths, places, strict=True)
    )


def _to_number(value: Point) -> float:
    """Return a number as it is, and a date, a timestamp or the text of one as milliseconds since 1970, as plots read it."""
    micros = read_moment(value)
    return float(value) if micros is None else micros / 1000  # type: ignore[arg-type]  # a number


def _name_cells(found: Table | Means) -> list[str]:
    """Return the labels of each cell in words that say which column they are of."""
    alone = len(found.columns) == 1
    return [
        "none of these"
        if all(label is None for label in labels)
        else ", ".join(_name_label(column, label, alone=alone) for column, label in zip(found.columns, labels, strict=True))
        for labels in found.labels
    ]


def _name_label(column: str, label: Label | None, *, alone: bool) -> str:
    if isinstance(label, bool):
        return column if label else f"not {column}"
    plain = str(label)
    cut = plain[:1].isdigit() or plain.startswith(("below ", "-"))
    return f"{column} {plain}" if cut and not alone else plain


def _name_levels(levels: Sequence[float]) -> str:
    if list(levels) == [0.5]:
        return "The median"
    return f"The quantile{'s' if len(levels) > 1 else ''} {', '.join(f'{level:g}' for level in levels)}"


def _find_most(cells: Sequence[ShownCell]) -> float:
    return max(max(cell.ends[1], cell.value, cell.truth or -math.inf) for cell in cells)


def _zoom(cells: Sequence[ShownCell], grid: tuple[float, float]) -> tuple[float, float]:
    """Return the part of a grid that is drawn: all intervals and truths, and as much again on both sides."""
    known = [each for cell in cells for each in (*cell.ends, cell.value, cell.truth) if each is not None]
    low, high = min(known), max(known)
    room = max(high - low, (grid[1] - grid[0]) / _STEPS)
    return max(grid[0], low - room), min(grid[1], high + room)


def _count_places(width: float) -> int:
    """Return how many decimals say a number as sharply as an interval of this width deserves."""
    return min(_MOST_DECIMALS, max(0, _DIGITS - math.floor(math.log10(width)))) if width > 0 else _DIGITS


def _count_decimals(points: Sequence[float]) -> int:
    """Return how many decimals write all points of a grid."""
    written = [f"{point:.10g}" for point in points]
    return min(_MOST_DECIMALS, max(len(text.partition(".")[2]) if "e" not in text else 0 for text in written))


def _write_where(where: str | None) -> str:
    return "" if where is None else f", where {where}"


def _write_paid(questions: int, *, repeated: bool) -> str:
    if repeated:
        return "Asked before: free."
    return f"Cost {questions:,} question{'s' if questions != 1 else ''}."


def write_csv(columns: dict[str, list[Any]]) -> str:
    """Return released numbers with their labels as a file, in an address that holds all of it: a link needs no script."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return "data:text/csv;charset=utf-8," + quote(text.getvalue())

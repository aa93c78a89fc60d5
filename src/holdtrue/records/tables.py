"""The response to a table: the shares of disjoint cells, and of unions of them (U1)."""

import html
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from holdtrue.codec import Record
from holdtrue.errors import InvalidParameter
from holdtrue.records.answers import (
    SUMMED,
    Answer,
    Certificate,
    Interval,
    PlannedQuestions,
    Tagged,
    check_finite,
    format_cost,
)
from holdtrue.records.showing import import_frames, import_plots

_OUTWARD, _CLOSE, _LARGEST_EPSILON = 1 + 2.0**-44, 2.0**-48, 700.0


class Tabular(Tagged, frozen=True):
    """A record that is a table: columns by name."""

    @abstractmethod
    def to_columns(self) -> dict[str, list[Any]]:
        """Return the table by column."""

    def to_pandas(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return :meth:`to_columns` as a pandas data frame."""
        return import_frames("pandas").DataFrame(self.to_columns())

    def to_polars(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return :meth:`to_columns` as a Polars data frame."""
        return import_frames("polars").DataFrame(self.to_columns(), strict=False)

    def to_arrow(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return :meth:`to_columns` as an Arrow table."""
        import pyarrow as pa  # type: ignore[import-untyped]

        return pa.table(self.to_columns())


class LabelledCells(Tabular, frozen=True):
    """Numbers about cells of the rows with their ends, a sequence of answers with labels."""

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
        check_finite("table", *self.values, *(self.low or ()), *(self.high or ()), *self.sample_low, *self.sample_high)

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
        return self[self.find_place(labels)]

    def find_place(self, labels: object) -> int:
        """Return the place of the cell with these labels: one, or a tuple with one for each column."""
        given = labels if isinstance(labels, tuple) else (labels,)
        if given not in self.labels:
            raise InvalidParameter("labels", given, "the labels of a cell of this table")
        return self.labels.index(given)

    def explain(self, plan: "PlannedQuestions | None" = None) -> str:
        """Return in words why the widest cell is as wide as it is; see :meth:`Answer.explain`."""
        cells = list(self)
        ends = [cell.interval or cell.sample_interval for cell in cells]
        return cells[max(range(len(cells)), key=lambda place: ends[place].width)].explain(plan)

    @property
    def measure_name(self) -> str:
        """Return what the numbers are: share, mean or sum."""
        return "share"

    @property
    def axis(self) -> tuple[float, float]:
        """Return between which numbers values lie, to be drawn."""
        return 0.0, 1.0

    @property
    def names(self) -> list[str]:
        """Return the labels of each cell in words."""
        return [_cell_name(each) for each in self.labels]

    def write_number(self, value: float) -> str:
        """Return a value as it is shown."""
        return f"{value:6.4f}"

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the table by column: the labels, the values, and the ends for the population, or for these rows."""
        found: dict[str, list[Any]] = {
            name: [each[place] for each in self.labels] for place, name in enumerate(self.columns)
        }
        low, high = (self.sample_low, self.sample_high) if self.low is None else (self.low, self.high or ())
        return found | {self.measure_name: list(self.values), "low": list(low), "high": list(high)}

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401 - matplotlib's axes
        """Draw a bar for each cell with its interval; return the axes."""
        plt = import_plots()
        axes = plt.subplots(figsize=(6, 0.35 * len(self) + 1))[1] if ax is None else ax
        found, places, start = self.to_columns(), range(len(self)), self.axis[0]
        below = [max(0.0, value - low) for value, low in zip(self.values, found["low"], strict=True)]
        above = [max(0.0, high - value) for value, high in zip(self.values, found["high"], strict=True)]
        long = [value - start for value in self.values]
        axes.barh(places, long, left=start, xerr=[below, above], color="#5fa8a0", ecolor="#00695f", capsize=3)
        axes.set_yticks(places, self.names)
        axes.invert_yaxis()
        axes.set_xlim(*self.axis)
        target = "rows" if self.low is None else "population"
        axes.set_xlabel(f"{self.measure_name} of the {target} ({self.confidence:.0%}, all at once)")
        return axes

    def __str__(self) -> str:
        found, names = self.to_columns(), self.names
        numbers = [self.measure_name, "low", "high"]
        rows = [[self.write_number(each) for each in row] for row in zip(*(found[name] for name in numbers), strict=True)]
        wide = max(len(name) for name in (*names, ", ".join(self.columns)))
        narrow = max(6, *(len(each) for row in rows for each in row))
        lines = [
            f"{name:<{wide}}  {'   '.join(f'{each:>{narrow}}' for each in row)}"
            for name, row in zip((", ".join(self.columns), *names), (numbers, *rows), strict=True)
        ]
        target = "the rows" if self.low is None else "the population"
        paid = format_cost(self.certificate, repeated=self.repeated)
        return "\n".join([*lines, f"{self.confidence:.0%} for {target}, all cells at once; {paid}"])

    def _repr_html_(self) -> str:
        found, (start, end) = self.to_columns(), self.axis
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in (*self.columns, self.measure_name, "", "low", "high"))
        rows = []
        for labels, value, low, high in zip(self.labels, self.values, found["low"], found["high"], strict=True):
            cells = "".join(f"<td>{html.escape('other' if each is None else str(each))}</td>" for each in labels)
            bar = f"<div style='background:#5fa8a0;height:0.8em;width:{100 * (value - start) / (end - start):.1f}px'></div>"
            shown = [self.write_number(each) for each in (value, low, high)]
            rows.append(f"<tr>{cells}<td>{shown[0]}</td><td>{bar}</td><td>{shown[1]}</td><td>{shown[2]}</td></tr>")
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _cell_name(labels: tuple[Any, ...]) -> str:
    if not labels:
        return "all"
    return "other" if all(each is None for each in labels) else ", ".join(map(str, labels))


def count_boxes(number: int, *, declared: bool, whole: int = 0) -> float:
    """Return how many boxes of one cell a union of this many cells has, given before the draw or chosen after it (U1.6).

    ``whole`` is the number of all cells where these are all rows, so that their total is known, and 0 otherwise: each answer
    is then less its part of what the answers exceed the total by, and a union has the noise of sqrt(n (1 - n/whole)) cells;
    one that was chosen later has the boxes of its cells, or of all others (U1.5).
    """
    if whole:
        one = math.sqrt(1 - 1 / whole)
        return math.sqrt(number * (1 - number / whole)) if declared or number == 1 else min(number, whole - number) * one
    return math.sqrt(number) if declared else float(number)


class Unions(Record, frozen=True):
    """What says how sure a union of a table's cells is: answers before clipping, and the numbers of the plan (U1.6).

    ``declared`` names the unions that were declared with the release, ``sizes`` how many labels each column has. ``noise``
    and ``sample_noise`` are the boxes of one cell for the population and for these rows, ``epsilon`` and ``slack`` those of
    the transfer theorem; None where it does not speak. ``whole``: the cells are all rows, answers were moved so that they
    add up to 1, and boxes are narrower by what :func:`count_boxes` says (U1.5). ``rollups`` are the places of the cells of
    each union that was declared by its labels.
    """

    declared: tuple[Literal["margins", "ranges"], ...]
    sizes: tuple[int, ...]
    answers: tuple[float, ...]
    sample_noise: float
    rounding: float
    noise: float | None = None
    epsilon: float | None = None
    slack: float | None = None
    whole: bool | UnsetType = UNSET
    rollups: tuple[tuple[int, ...], ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        check_finite("unions", *self.answers, self.sample_noise, self.rounding, self.noise, self.epsilon, self.slack)

    def is_declared(self, places: Sequence[int]) -> bool:
        """Return whether the cells at these places, in order, are one cell or a union that was declared."""
        if len(places) == 1:
            return True
        if max(places) >= math.prod(self.sizes):  # the rest of the rows is in no union
            return False
        if self.rollups and tuple(places) in self.rollups:
            return True
        if "ranges" in self.declared and places[-1] - places[0] + 1 == len(places):
            return True
        if "margins" not in self.declared:
            return False
        found, rest = [], list(places)
        for size in reversed(self.sizes):
            found.append(({place % size for place in rest}, size))
            rest = [place // size for place in rest]
        whole = [len(labels) in (1, size) for labels, size in found]
        fixed = any(len(labels) == 1 for labels, _ in found)
        return all(whole) and fixed and math.prod(len(labels) for labels, _ in found) == len(places)


class Table(LabelledCells, frozen=True):
    """The response to a table: the share of the rows in each cell, a sequence of answers with labels.

    The last cell holds the rows in none of the others, missing values included; its labels are None. ``low`` and ``high``
    are for the population, None where ``reason`` says why; all cells, and all other answers, are right at once with
    ``confidence``. ``unions`` says how sure a union of cells is; tables that were stored earlier have none.
    """

    unions: Unions | UnsetType = UNSET

    @property
    def brief(self) -> str:
        """Return how many cells there are."""
        return f"{len(self):,} cells by {', '.join(self.columns)}"

    def find_places(self, labels: Mapping[str, str | float | bool]) -> list[int]:
        """Return the places of all cells with these labels, by column; the cell of all other rows is none of them."""
        wanted = [(at, labels[name]) for at, name in enumerate(self.columns) if name in labels]
        cells = self.labels[:-1]
        found = [place for place, each in enumerate(cells) if all(each[at] == label for at, label in wanted)]
        if not found:
            raise InvalidParameter("labels", dict(labels), "labels of cells of this table")
        return found

    def union(self, *cells: object) -> Answer:
        """Return the answer about several cells together, each by its label, or a tuple of them. Free.

        A union that was declared with the table (``margins``, ``ranges``, ``rollups``) has the noise of its sum. Any other,
        chosen after the table was seen, has the sum of its cells' boxes, since the noise may have had a part in the choice;
        the gap to the population is added once in either case (U1.6).
        """
        places = sorted(self.find_place(each) for each in cells)
        if not places or len(set(places)) < len(places):
            raise InvalidParameter.without_value("cells", "different cells, one or more, each by its labels")
        return self.union_at(places)

    def share(self, labels: Mapping[str, str | float | bool]) -> Answer:
        """Return the answer about the rows with these labels, by column, whatever they have in the other columns. Free.

        Rows in none of the cells may have these labels too, as one whose other column is missing has: the upper end counts
        all of them, which the last cell bounds.
        """
        places = self.find_places(labels)
        return self.union_at(places) if set(labels) >= set(self.columns) else self._sum_cells(places, rest=True)

    def union_at(self, places: Sequence[int]) -> Answer:
        """Return the answer about the cells at these places, different ones in order; see :meth:`union`."""
        return self[places[0]] if len(places) == 1 else self._sum_cells(places)

    def bound_rest(self) -> tuple[float, float]:
        """Return the most that rows in none of the cells are: of these rows, and in the noise box of the population."""
        rule = self.unions
        if isinstance(rule, UnsetType):
            return self.sample_high[-1], 1.0
        one = count_boxes(1, declared=True, whole=len(rule.answers) if rule.whole is True else 0)
        ends = [
            (self.values[-1] + one * noise + rule.rounding) * _OUTWARD for noise in (rule.sample_noise, rule.noise or 1.0)
        ]
        return min(1.0, ends[0]), min(1.0, ends[1])

    def _sum_cells(self, places: Sequence[int], *, rest: bool = False) -> Answer:
        """Return the answer about these cells; with ``rest``, about them and any part of the rows in no cell."""
        if isinstance(self.unions, UnsetType):
            return self._add_ends(places, rest=rest)
        rule, number = self.unions, len(places)
        declared, whole = rule.is_declared(places), len(rule.answers) if rule.whole is True else 0
        wide = count_boxes(number, declared=declared, whole=whole)
        rounding = number * rule.rounding if whole or (declared and number > 1) else 0.0
        # Boxes of cells begin at 0; a declared union, and what the others leave of all rows, has the sum of raw answers.
        exact = (declared and number > 1) or 0 < whole < 2 * number
        total = math.fsum(rule.answers[place] if exact else self.values[place] for place in places)
        value = min(max(total, 0.0), 1.0)

        near, more = (wide * rule.sample_noise + rounding) * _OUTWARD, self.bound_rest() if rest else (0.0, 0.0)
        rows = Interval(max(0.0, value - near), min(1.0, value + near + more[0]), self.confidence, "sample")
        ends = None
        if rule.noise is not None and rule.epsilon is not None and rule.slack is not None:
            box = (wide * rule.noise + rounding) * _OUTWARD
            low = _lower_share(max(0.0, value - box), rule.epsilon, rule.slack)
            high = 1 - _lower_share(max(0.0, 1 - value - box - more[1]), rule.epsilon, rule.slack)
            ends = Interval(max(0.0, low - _CLOSE), min(1.0, high + _CLOSE), self.confidence, "population")
        elif self.low is not None:
            ends = self._add_ends(places, rest=rest).interval
        receipt = self.certificate if declared else self.certificate.with_theorem(SUMMED)
        return Answer(value, ends, rows, receipt, self.reason, self.repeated)

    def _add_ends(self, places: Sequence[int], *, rest: bool = False) -> Answer:
        """Return the answer about a union from the ends of its cells alone; see :meth:`_sum_cells`."""
        upper = [*places, len(self) - 1] if rest else places

        def add(ends: tuple[float, ...], chosen: Sequence[int]) -> float:
            return min(1.0, math.fsum(ends[place] for place in chosen))

        known = None
        if self.low is not None and self.high is not None:
            known = Interval(add(self.low, places), add(self.high, upper), self.confidence, "population")
        rows = Interval(add(self.sample_low, places), add(self.sample_high, upper), self.confidence, "sample")
        receipt = self.certificate.with_theorem(SUMMED)
        return Answer(add(self.values, places), known, rows, receipt, self.reason, self.repeated)


def _lower_share(share: float, epsilon: float, slack: float) -> float:
    """Return T6's lower end for the population, given that E[share of these rows | all answers] is at least ``share``."""
    if slack >= 1 or epsilon > _LARGEST_EPSILON:
        return 0.0
    return max(0.0, (share - slack) / (1 + math.expm1(epsilon) * (1 - share)))

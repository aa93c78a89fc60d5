"""Every method side by side: a table in text and in HTML, and a plot."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from holdtrue.errors import InvalidParameter, MissingExtra, RequestError, UnknownName
from holdtrue.planning.methods import METHODS, fewest_rows
from holdtrue.planning.tasks import Method, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Comparison", "Line", "compared"]

_CHOSEN, _TRANSFER, _PRIVATE, _OPEN = "#00695f", "#5fa8a0", "#a8703a", "#9aa0a6"
_INK, _FAINT = "#202124", "#e8eaec"
_POINTS = 9
_BAR = 150


@dataclass(frozen=True, slots=True)
class Line:
    """What one method needs, and what it gives: None where its theorem does not speak or says nothing."""

    method: str
    theorem: str
    rows: int | None
    alpha: float | None
    private: bool
    adaptive: bool

    @property
    def note(self) -> str:
        """Return what a reader must know before choosing it."""
        if not self.adaptive:
            return "(questions fixed in advance)"
        return "" if self.private else "(not private)"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Methods in order of the rows they need for the same questions at the same half-width.

    ``rows`` of a line: how many it needs to give ``queries`` answers within ``alpha``. ``alpha`` of a line: the half-width
    it gives with this plan's own rows. Methods that keep no privacy are shown without the caps on it.
    """

    rows: int
    alpha: float
    chosen: str
    task: Task
    lines: tuple[Line, ...]

    @property
    def queries(self) -> int:
        """Return how many questions are asked."""
        return self.task.queries

    @property
    def beta(self) -> float:
        """Return how often any answer may miss."""
        return self.task.beta

    def __getitem__(self, method: str) -> Line:
        for line in self.lines:
            if line.method == method:
                return line
        message = f"there is no method {method!r} here; there are {', '.join(line.method for line in self.lines)}"
        raise UnknownName(message)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def title(self) -> str:
        """Return what is compared, in words."""
        questions = f"{self.queries:,} adaptive question{'s' if self.queries > 1 else ''}"
        return f"{questions}, every answer within {self.alpha:.3g} of the population, but for a chance of {self.beta:g}"

    @property
    def _header(self) -> tuple[str, str, str, str]:
        return "method", "rows needed", f"alpha with {self.rows:,} rows", "private"

    def __str__(self) -> str:
        body = [_cells(line) for line in self.lines]
        widths = [max(map(len, column)) for column in zip(self._header, *body, strict=True)]

        def rendered(cells: tuple[str, str, str, str], mark: str, note: str) -> str:
            padded = [
                cells[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
            ]
            return f"{mark} {'   '.join(padded)}   {note}".rstrip()

        table = [
            rendered(cells, "*" if line.method == self.chosen else " ", line.note)
            for cells, line in zip(body, self.lines, strict=True)
        ]
        return "\n".join([self.title, "", rendered(self._header, " ", ""), *table])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        left, right = "style='text-align:left'", "style='text-align:right'"
        method, rows, alpha, private = self._header
        head = (
            f"<th {left}>{method}</th><th {right}>{rows}</th><th {left}>on a logarithmic scale</th>"
            f"<th {right}>{alpha}</th><th {left}>{private}</th><th></th>"
        )
        body = ""
        for line in self.lines:
            name, needed, width, kept = _cells(line)
            weight = "bold" if line.method == self.chosen else "normal"
            body += (
                f"<tr style='font-weight:{weight}'><td {left}>{name}</td><td {right}>{needed}</td><td>{self._bar(line)}</td>"
                f"<td {right}>{width}</td><td {left}>{kept}</td><td {left}>{line.note}</td></tr>"
            )
        return f"<table><caption>{self.title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _bar(self, line: Line) -> str:
        known = [math.log(other.rows) for other in self.lines if other.rows is not None]
        if line.rows is None:
            return ""
        low, high = min(known) - 0.5, max(known)
        width = round(_BAR * (math.log(line.rows) - low) / (high - low))
        return f"<div style='height:.7em;width:{width}px;background:{self._colour(line)}'></div>"

    def _colour(self, line: Line) -> str:
        if line.method == self.chosen:
            return _CHOSEN
        if line.method.startswith("transfer"):
            return _TRANSFER
        return _PRIVATE if line.private else _OPEN

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the rows that each method needs as questions grow, this plan's own point marked; return the axes.

        Needs the extra ``plots``.
        """
        try:
            from matplotlib import pyplot as plt
        except ImportError:
            raise MissingExtra("plots", purpose="a plot of the comparison") from None
        axes: Axes = plt.subplots(figsize=(9.6, 6.2), layout="constrained")[1] if ax is None else ax
        most = max(1000, 10 ** math.ceil(math.log10(self.queries * 3)))
        grid = sorted({round(most ** (point / (_POINTS - 1))) for point in range(_POINTS)})
        axes.set(xscale="log", yscale="log", xlim=(1, most))
        ends: list[tuple[float, Line]] = []
        for line in self.lines:
            needed = [_needed(METHODS[line.method], replace(self.task, queries=queries), self.alpha) for queries in grid]
            chosen = line.method == self.chosen
            axes.plot(
                grid,
                needed,
                color=self._colour(line),
                linewidth=3.2 if chosen else 1.5,
                linestyle="-" if line.private else (0, (4, 2)),
                zorder=3 if chosen else 2,
            )
            if math.isfinite(needed[-1]):
                ends.append((needed[-1], line))
        self._label(axes, ends)
        self._mark(axes)
        _dress(axes)
        axes.set_xlabel("adaptive questions", color=_INK)
        axes.set_title(
            f"Rows needed to keep every answer within {self.alpha:.3g} of the population\n",
            loc="left",
            color=_INK,
            fontsize=13,
            fontweight="bold",
        )
        axes.text(
            0,
            1.02,
            f"all of them at once, {100 * (1 - self.beta):.4g} % of the time; dashed lines keep no privacy",
            transform=axes.transAxes,
            color=_INK,
            fontsize=10,
        )
        return axes

    def _label(self, axes: "Axes", ends: list[tuple[float, Line]]) -> None:
        """Write each method's name beside the end of its line, with a thin leader where names had to move apart."""
        low, high = axes.get_ylim()
        heights = [math.log(end / low) / math.log(high / low) for end, _ in ends]
        for height, place, (_, line) in zip(heights, _spaced(heights), ends, strict=True):
            axes.annotate(
                f"{line.method} {line.note}".rstrip(),
                (1.0, height),
                (1.035, place),
                xycoords="axes fraction",
                va="center",
                fontsize=9.5,
                color=self._colour(line),
                fontweight="bold" if line.method == self.chosen else "normal",
                arrowprops={
                    "arrowstyle": "-",
                    "color": self._colour(line),
                    "linewidth": 0.7,
                    "relpos": (0, 0.5),
                    "shrinkA": 1,
                    "shrinkB": 0,
                },
                annotation_clip=False,
            )

    def _mark(self, axes: "Axes") -> None:
        """Mark what the plan itself asks for."""
        needed = self[self.chosen].rows
        if needed is None:
            return
        axes.plot([self.queries], [needed], "o", color=_CHOSEN, markersize=9, markeredgecolor="white", zorder=4)
        axes.annotate(
            f"{self.queries:,} questions\n{needed:,} rows",
            (self.queries, needed),
            (14, -12),
            textcoords="offset points",
            va="top",
            color=_CHOSEN,
            fontweight="bold",
            fontsize=10.5,
            zorder=5,
        )


def _dress(axes: "Axes") -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.minorticks_off()
    axes.grid(visible=True, color=_FAINT, linewidth=0.9)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0, colors=_INK, labelsize=9.5)


def _spaced(heights: list[float], *, gap: float = 0.041) -> list[float]:
    """Return places near the heights, in the same order and at least a gap apart."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    places = list(heights)
    for _ in range(300):
        for lower, upper in pairwise(order):
            short = max(0.0, gap - (places[upper] - places[lower])) / 2
            places[lower] -= short
            places[upper] += short
    return places


def _cells(line: Line) -> tuple[str, str, str, str]:
    needed = "-" if line.rows is None else f"{line.rows:,}"
    width = "-" if line.alpha is None else f"{line.alpha:.4f}"
    return line.method, needed, width, "yes" if line.private else "no"


def compared(task: Task, *, rows: int, alpha: float, chosen: str) -> Comparison:
    """Return the comparison of every method for a task, with the rows and the half-width of a plan."""
    if chosen not in METHODS:
        raise InvalidParameter(
            "plan", chosen, "one for independent rows: methods are compared by what holds for a population"
        )
    lines = [_line(method, task, rows=rows, alpha=alpha) for method in METHODS.values()]
    lines.sort(key=lambda line: math.inf if line.rows is None else line.rows)
    return Comparison(rows=rows, alpha=alpha, chosen=chosen, task=task, lines=tuple(lines))


def _line(method: Method, task: Task, *, rows: int, alpha: float) -> Line:
    fitted = _fitted(method, task)
    if fitted.epsilon is not None and not fitted.delta and method.needs_delta:
        return Line(method.name, method.theorem, None, None, method.private, method.adaptive)
    try:
        needed = fewest_rows(method, fitted, alpha)
        if needed is not None:
            method.check(fitted, needed)
    except RequestError:
        needed = None
    try:
        method.check(fitted, rows)
        width = method.design(fitted, rows).alpha
    except RequestError:
        width = math.inf
    return Line(method.name, method.theorem, needed, width if width < 1 else None, method.private, method.adaptive)


def _fitted(method: Method, task: Task) -> Task:
    """Leave out of a task what a method cannot be asked for."""
    bare = task if method.shares else replace(task, reserve=0.0)
    return bare if method.private else replace(bare, rule="validity", epsilon=None, delta=None)


def _needed(method: Method, task: Task, alpha: float) -> float:
    needed = max(method.rows(_fitted(method, task), alpha), method.fewest)
    return needed if math.isfinite(needed) else math.nan

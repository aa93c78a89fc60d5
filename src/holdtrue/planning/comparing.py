"""Every way to answer, by name, what each needs, and all of them side by side in text and in HTML."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from textwrap import fill
from typing import TYPE_CHECKING

from holdtrue.accounting.closed_forms import largest, smallest
from holdtrue.bounds.accuracy import hoeffding_alpha, hoeffding_rows
from holdtrue.bounds.transcripts import rounding_alpha, rounding_rows, splitting_alpha, splitting_rows
from holdtrue.errors import InsufficientSamples, InvalidParameter, RequestError, UnknownName
from holdtrue.planning.methods import SIDES, AskingMethod, AskingTask, Side
from holdtrue.planning.older_theorems import Bassily, Information, Jung, Lecture, NonPrivateMethod, SharpInformation
from holdtrue.planning.transfer import PRIVATE_METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS: dict[str, AskingMethod] = {
    method.name: method
    for method in (
        *PRIVATE_METHODS,
        Jung(),
        Bassily(),
        Information(),
        SharpInformation(),
        Lecture(),
        NonPrivateMethod("splitting", "Hoeffding on disjoint parts (T9)", rows=splitting_rows, alpha=splitting_alpha),
        NonPrivateMethod("rounding", "description length (T9)", rows=rounding_rows, alpha=rounding_alpha),
        NonPrivateMethod(
            "nonadaptive",
            "Hoeffding, queries fixed in advance (T9)",
            rows=hoeffding_rows,
            alpha=hoeffding_alpha,
            adaptive=False,
        ),
    )
}

MOST = 10**15
"""No plan is for more rows or more queries than this."""

_SECANTS = 30
_MANY = 2.0**63
_CHOSEN, _TRANSFER, _PRIVATE, _OPEN = "#00695f", "#5fa8a0", "#a8703a", "#9aa0a6"
_BAR = 150


def find_method(name: str) -> AskingMethod:
    """Return a method by its name."""
    if type(name) is str and name in METHODS:
        return METHODS[name]
    given: object = name
    shown = given if isinstance(given, str) else type(given).__name__
    message = f"there is no method {shown!r}; the methods are {', '.join(METHODS)}"
    raise UnknownName(message)


def rows_about(method: AskingMethod, task: AskingTask, alpha: float) -> float:
    """Return about how many rows a method needs; infinite where no number is enough."""
    try:
        return method.rows(task, alpha)
    except InsufficientSamples:
        return math.inf


def fewest_rows(method: AskingMethod, task: AskingTask, alpha: float) -> int | None:
    """Return the fewest rows whose certified half-width is at most alpha, or None where no number is enough."""
    guess = rows_about(method, task, alpha)
    if guess > MOST:
        return None
    return smallest(lambda rows: method.design(task, rows).alpha <= alpha, math.ceil(guess), least=method.fewest, most=MOST)


def most_queries(method: AskingMethod, task: AskingTask, *, rows: int, alpha: float) -> int | None:
    """Return the most queries whose certified half-width is at most alpha, or None where one is too many."""
    return largest(
        lambda queries: method.design(task.asking(queries), rows).alpha <= alpha,
        _queries_about(method, task, rows=rows, alpha=alpha),
        most=MOST,
    )


def _queries_about(method: AskingMethod, task: AskingTask, *, rows: int, alpha: float) -> int:
    """Solve rows needed = rows for the queries by secants on logarithms, between which it is nearly a straight line."""

    def excess(queries: int) -> float:
        return math.log(min(rows_about(method, task.asking(queries), alpha), _MANY) / rows)

    low, at_low = 1, excess(1)
    if at_low >= 0:
        return 1
    high, at_high = 4, excess(4)
    for _ in range(_SECANTS):
        slope = (at_high - at_low) / math.log(high / low)
        step = math.log(high) - at_high / slope if slope > 0 else math.log(MOST)
        guess = round(math.exp(min(max(step, 0.0), math.log(high) + 12, math.log(MOST))))
        if guess in (low, high):
            break
        low, at_low, high, at_high = high, at_high, guess, excess(guess)
    return high


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """What one method needs, and what it gives: None where its theorem does not speak or says nothing."""

    method: str
    theorem: str
    rows: int | None
    alpha: float | None
    private: bool
    adaptive: bool
    side: Side = "both"

    @property
    def note(self) -> str:
        """Return what a reader must know before choosing it."""
        if not self.adaptive:
            return "(questions fixed in advance)"
        if self.side != "both":
            return f"({SIDES[self.side]}s only)"
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
    task: AskingTask
    lines: tuple[ComparedMethod, ...]

    @property
    def queries(self) -> int:
        """Return how many questions are asked."""
        return self.task.queries

    @property
    def beta(self) -> float:
        """Return how often any answer may miss."""
        return self.task.beta

    def __getitem__(self, method: str) -> ComparedMethod:
        for line in self.lines:
            if line.method == method:
                return line
        message = f"there is no method {method!r} here; there are {', '.join(line.method for line in self.lines)}"
        raise UnknownName(message)

    def __iter__(self) -> Iterator[ComparedMethod]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def title(self) -> str:
        """Return what is compared, in words."""
        questions = f"{self.queries:,} adaptive question{'s' if self.queries > 1 else ''}"
        ends = f"every {SIDES[self.task.side]} within {self.alpha:.3g} of its answer, for the population"
        if not self.task.one_sided:
            ends = f"every answer within {self.alpha:.3g} of the population"
        return f"{questions}, {ends}, {100 * (1 - self.beta):.6g}% of the time"

    @property
    def _header(self) -> tuple[str, str, str, str]:
        return "method", "rows needed", f"alpha with {self.rows:,} rows", "private"

    def __str__(self) -> str:
        cells = [self._header, *map(_cells, self.lines)]
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        marks = [" ", *("*" if line.method == self.chosen else " " for line in self.lines)]
        table = [
            f"{mark} {name:<{wide[0]}}   {rows:>{wide[1]}}   {width:>{wide[2]}}   {kept:>{wide[3]}}"
            for mark, (name, rows, width, kept) in zip(marks, cells, strict=True)
        ]
        for note in dict.fromkeys(line.note for line in self.lines if line.note):
            noted = ", ".join(line.method for line in self.lines if line.note == note)
            table.append(fill(f"  {noted} {note}", 80, subsequent_indent="  "))
        return "\n".join([fill(self.title, 80), "", *table])

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

    def _bar(self, line: ComparedMethod) -> str:
        known = [math.log(other.rows) for other in self.lines if other.rows is not None]
        if line.rows is None:
            return ""
        low, high = min(known) - 0.5, max(known)
        width = round(_BAR * (math.log(line.rows) - low) / (high - low))
        return f"<div style='height:.7em;width:{width}px;background:{self.colour_of(line)}'></div>"

    def colour_of(self, line: ComparedMethod) -> str:
        """Return the colour that a method is drawn in."""
        if line.method == self.chosen:
            return _CHOSEN
        if line.method.startswith(("joint", "transfer")):
            return _TRANSFER
        return _PRIVATE if line.private else _OPEN

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the rows that each method needs as questions grow, this plan's own point marked; return the axes.

        Needs the extra ``plots``.
        """
        from holdtrue.planning.plotting import plot_comparison

        return plot_comparison(self, ax=ax)


def _cells(line: ComparedMethod) -> tuple[str, str, str, str]:
    needed = "-" if line.rows is None else f"{line.rows:,}"
    width = "-" if line.alpha is None else f"{line.alpha:.4f}"
    return line.method, needed, width, "yes" if line.private else "no"


def compare_methods(task: AskingTask, *, rows: int, alpha: float, chosen: str) -> Comparison:
    """Return the comparison of every method for a task, with the rows and the half-width of a plan."""
    if chosen not in METHODS:
        raise InvalidParameter(
            "plan", chosen, "one for independent rows: methods are compared by what holds for a population"
        )
    lines = [_compare(method, task, rows=rows, alpha=alpha) for method in METHODS.values()]
    lines.sort(key=lambda line: math.inf if line.rows is None else line.rows)
    return Comparison(rows=rows, alpha=alpha, chosen=chosen, task=task, lines=tuple(lines))


def _compare(method: AskingMethod, task: AskingTask, *, rows: int, alpha: float) -> ComparedMethod:
    fitted = fit_task(method, task)
    shown = ComparedMethod(method.name, method.theorem, None, None, method.private, method.adaptive, fitted.side)
    if fitted.epsilon is not None and not fitted.delta and method.needs_delta:
        return shown
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
    return replace(shown, rows=needed, alpha=width if width < 1 else None)


def fit_task(method: AskingMethod, task: AskingTask) -> AskingTask:
    """Leave out of a task what a method cannot be asked for."""
    bare = task if method.shares else replace(task, reserve=0.0)
    bare = bare if method.tunes else replace(bare, shares=None)
    bare = bare if method.one_sided else replace(bare, side="both")
    return bare if method.private else replace(bare, rule="validity", epsilon=None, delta=None)

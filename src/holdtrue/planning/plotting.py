"""Plots of plans: what other methods would need, and what more or less privacy would buy."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from holdtrue.errors import MissingExtra, RequestError
from holdtrue.planning.comparing import METHODS, ComparedMethod, Comparison, fit_task, rows_about
from holdtrue.planning.learning import LearningPlan
from holdtrue.planning.predicting import PredictionPlan, plan_prediction
from holdtrue.planning.selecting import SelectionPlan, plan_selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CHOSEN, _OTHER, _INK, _FAINT = "#00695f", "#9aa0a6", "#202124", "#e8eaec"
_POINTS = 9


def make_axes(ax: "Axes | None", title: str, subtitle: str, *, size: tuple[float, float] = (8.4, 4.6)) -> "Axes":
    """Return the axes of a plot, new ones unless some are given, with a title and a line below it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtra("plots", purpose="a plot") from None
    axes: Axes = plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
    axes.set_title(f"{title}\n", loc="left", color=_INK, fontsize=13, fontweight="bold")
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, color=_INK, fontsize=10)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0, colors=_INK, labelsize=9.5)
    axes.set_axisbelow(True)
    return axes


def plot_comparison(comparison: Comparison, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the rows that each method needs as questions grow, the plan's own point marked; return the axes."""
    title = f"Rows needed to keep every answer within {comparison.alpha:.3g} of the population"
    share = f"{100 * (1 - comparison.beta):.4g} % of the time"
    axes = make_axes(ax, title, f"all of them at once, {share}; dashed lines keep no privacy", size=(9.6, 6.2))
    most = max(1000, 10 ** math.ceil(math.log10(comparison.queries * 3)))
    grid = sorted({round(most ** (point / (_POINTS - 1))) for point in range(_POINTS)})
    axes.set(xscale="log", yscale="log", xlim=(1, most))
    ends: list[tuple[float, ComparedMethod]] = []
    for line in comparison.lines:
        needed = [_rows_needed(comparison, line.method, queries) for queries in grid]
        chosen = line.method == comparison.chosen
        axes.plot(
            grid,
            needed,
            color=comparison.colour_of(line),
            linewidth=3.2 if chosen else 1.5,
            linestyle="-" if line.private else (0, (4, 2)),
            zorder=3 if chosen else 2,
        )
        if math.isfinite(needed[-1]):
            ends.append((needed[-1], line))
    _label_ends(axes, comparison, ends)
    own = comparison[comparison.chosen].rows
    if own is not None:
        _mark(axes, (comparison.queries, own), f"{comparison.queries:,} questions\n{own:,} rows", (14, -12))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.minorticks_off()
    axes.grid(visible=True, color=_FAINT, linewidth=0.9)
    axes.set_xlabel("adaptive questions", color=_INK)
    return axes


def _rows_needed(comparison: Comparison, name: str, queries: int) -> float:
    method = METHODS[name]
    task = fit_task(method, replace(comparison.task, queries=queries))
    needed = max(rows_about(method, task, comparison.alpha), method.fewest)
    return needed if math.isfinite(needed) else math.nan


def _label_ends(axes: "Axes", comparison: Comparison, ends: list[tuple[float, ComparedMethod]]) -> None:
    """Write each method's name beside the end of its line, with a thin leader where names had to move apart."""
    low, high = axes.get_ylim()
    heights = [math.log(end / low) / math.log(high / low) for end, _ in ends]
    for height, place, (_, line) in zip(heights, _space_out(heights), ends, strict=True):
        colour = comparison.colour_of(line)
        axes.annotate(
            f"{line.method} {line.note}".rstrip(),
            (1.0, height),
            (1.035, place),
            xycoords="axes fraction",
            va="center",
            fontsize=9.5,
            color=colour,
            fontweight="bold" if line.method == comparison.chosen else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.7,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
            annotation_clip=False,
        )


def _space_out(heights: list[float], *, gap: float = 0.041) -> list[float]:
    """Return places near the heights, in the same order and at least a gap apart."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    places = list(heights)
    for _ in range(300):
        for lower, upper in pairwise(order):
            short = max(0.0, gap - (places[upper] - places[lower])) / 2
            places[lower] -= short
            places[upper] += short
    return places


def plot_learning(plan: LearningPlan, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the rows that each method needs as bars on a logarithmic scale; return the axes. Needs the extra ``plots``."""
    title = f"Rows to learn one of {plan.size:,} hypotheses"
    axes = make_axes(
        ax, title, f"excess error at most {plan.alpha:.3g} with probability {1 - plan.beta:g}, at epsilon {plan.epsilon:.3g}"
    )
    chosen = "realizable" if plan.realizable else plan.method
    needed = sorted(((rows, name) for name, rows in plan.compare().items()), reverse=True)
    for place, (rows, name) in enumerate(needed):
        colour = _CHOSEN if name == chosen else _OTHER
        axes.plot([rows], [place], "o", color=colour, markersize=13)
        axes.annotate(
            f"{rows:,}", (rows, place), (14, 0), textcoords="offset points", va="center", color=_INK, fontsize=10.5
        )
    axes.set_yticks(range(len(needed)), [name for _, name in needed])
    axes.set_ylim(-0.7, len(needed) - 0.3)
    axes.set_xscale("log")
    axes.set_xlim(needed[-1][0] / 2, needed[0][0] * 4)
    _mark_ticks(axes)
    axes.grid(visible=True, axis="both", color=_FAINT, linewidth=0.9)
    return axes


def plot_selection(plan: SelectionPlan, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the shortfall against epsilon, the plan's own point marked; return the axes. Needs the extra ``plots``."""
    axes = make_axes(
        ax,
        f"Rows by which a choice among {plan.candidates:,} may miss the best",
        f"less than this with probability {1 - plan.beta:g}, by the privacy spent on the choice",
    )
    privacy = [plan.epsilon * 10 ** (step / 10) for step in range(-10, 11)]
    shortfalls = [
        plan_selection(candidates=plan.candidates, beta=plan.beta, epsilon=epsilon, range=plan.range).shortfall
        for epsilon in privacy
    ]
    _curve(
        axes, privacy, shortfalls, (plan.epsilon, plan.shortfall), f"epsilon {plan.epsilon:.3g}\n{plan.shortfall:.3g} rows"
    )
    axes.set_xlabel("epsilon", color=_INK)
    return axes


def plot_prediction(plan: PredictionPlan, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the rows needed against alpha, the plan's own point marked; return the axes. Needs the extra ``plots``."""
    extra = "" if plan.realizable else " above the best hypothesis"
    axes = make_axes(
        ax,
        "Rows for private predictions, by the error allowed",
        f"error at most alpha{extra} with probability {1 - plan.beta:g}, at epsilon {plan.epsilon:.3g} per prediction",
    )
    points = []
    for step in range(-8, 9):
        alpha = plan.alpha * 10 ** (step / 12)
        try:
            points.append((alpha, _rows_at(plan, alpha)))
        except RequestError:
            continue
    alphas, rows = [alpha for alpha, _ in points], [float(needed) for _, needed in points]
    _curve(axes, alphas, rows, (plan.alpha, float(plan.rows)), f"alpha {plan.alpha:.3g}\n{plan.rows:,} rows")
    axes.set_xlabel("alpha", color=_INK)
    return axes


def _rows_at(plan: PredictionPlan, alpha: float) -> int:
    return plan_prediction(
        beta=plan.beta,
        size=plan.size,
        dimension=plan.dimension,
        alpha=alpha,
        epsilon=plan.epsilon,
        predictions=plan.predictions,
        realizable=plan.realizable,
        method=plan.method,  # type: ignore[arg-type]  # the plan's own, checked when it was made
        ledger=plan.ledger,  # type: ignore[arg-type]  # likewise
    ).rows


def _curve(axes: "Axes", x: list[float], y: list[float], point: tuple[float, float], label: str) -> None:
    axes.plot(x, y, color=_CHOSEN, linewidth=2.4)
    _mark(axes, point, label, (12, 8))
    axes.set(xscale="log", yscale="log")
    _mark_ticks(axes)
    axes.grid(visible=True, color=_FAINT, linewidth=0.9)


def _mark(axes: "Axes", point: tuple[float, float], label: str, place: tuple[float, float]) -> None:
    """Mark what the plan itself asks for, with a label beside it."""
    axes.plot(*([value] for value in point), "o", color=_CHOSEN, markersize=9, markeredgecolor="white", zorder=4)
    side = "bottom" if place[1] > 0 else "top"
    axes.annotate(
        label, point, place, textcoords="offset points", color=_CHOSEN, fontweight="bold", fontsize=10.5, va=side, zorder=5
    )


def _mark_ticks(axes: "Axes") -> None:
    """Write ticks of a logarithmic axis as plain numbers, at 1, 2 and 5 where powers of ten would be too few."""
    from matplotlib.ticker import LogLocator

    axes.minorticks_off()
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0)))  # noqa: PLR2004 - decades
            axis.set_major_formatter(lambda value, _: f"{value:,.4g}" if value < 1 else f"{value:,.0f}")

"""Plots of the small plans: what other methods would need, and what more or less privacy would buy."""

from typing import TYPE_CHECKING

from holdtrue.errors import MissingExtra, RequestError
from holdtrue.planning.learning import LearningPlan
from holdtrue.planning.predicting import PredictionPlan, plan_prediction
from holdtrue.planning.selecting import SelectionPlan, plan_selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_learning", "plot_prediction", "plot_selection"]

_CHOSEN, _OTHER, _INK, _FAINT = "#00695f", "#9aa0a6", "#202124", "#e8eaec"


def _axes(ax: "Axes | None", title: str, subtitle: str) -> "Axes":
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtra("plots", purpose="a plot of a plan") from None
    axes: Axes = plt.subplots(figsize=(8.4, 4.6), layout="constrained")[1] if ax is None else ax
    axes.set_title(f"{title}\n", loc="left", color=_INK, fontsize=13, fontweight="bold")
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, color=_INK, fontsize=10)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0, colors=_INK, labelsize=9.5)
    axes.set_axisbelow(True)
    return axes


def plot_learning(plan: LearningPlan, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the rows that each method needs as bars on a logarithmic scale; return the axes. Needs the extra ``plots``."""
    title = f"Rows to learn one of {plan.size:,} hypotheses"
    axes = _axes(ax, title, f"excess error at most {plan.alpha:.3g} but for {plan.beta:g}, at epsilon {plan.epsilon:.3g}")
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
    axes = _axes(
        ax,
        f"Rows by which a choice among {plan.candidates:,} may miss the best",
        f"less than this but for {plan.beta:g}, by the privacy spent on the choice",
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
    axes = _axes(
        ax,
        "Rows for private predictions, by the error allowed",
        f"error at most alpha{extra} but for {plan.beta:g}, at epsilon {plan.epsilon:.3g} a prediction",
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
    axes.plot(*([value] for value in point), "o", color=_CHOSEN, markersize=9, markeredgecolor="white", zorder=4)
    axes.annotate(
        label, point, (12, 8), textcoords="offset points", color=_CHOSEN, fontweight="bold", fontsize=10.5, va="bottom"
    )
    axes.set(xscale="log", yscale="log")
    _mark_ticks(axes)
    axes.grid(visible=True, color=_FAINT, linewidth=0.9)


def _mark_ticks(axes: "Axes") -> None:
    """Write ticks of a logarithmic axis as plain numbers, at 1, 2 and 5 where powers of ten would be too few."""
    from matplotlib.ticker import LogLocator

    axes.minorticks_off()
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0)))  # noqa: PLR2004 - decades
            axis.set_major_formatter(lambda value, _: f"{value:,.4g}" if value < 1 else f"{value:,.0f}")

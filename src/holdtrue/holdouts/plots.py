"""A picture of looks: what was told, the interval that holds for all of them, the truth where it is known, and the naive."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdtrue.errors import InvalidParameter, MissingExtra
from holdtrue.holdouts.records import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_looks"]

_HOLDTRUE, _NAIVE, _TRUTH, _INK, _FAINT = "#00695f", "#c2571a", "#202124", "#202124", "#e8eaec"


def plot_looks(
    history: Sequence[Score],
    *,
    truth: Sequence[float] | float | None = None,
    naive: Sequence[float] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw scores in the order of their looks with their intervals; return the axes. Needs the extra ``plots``.

    ``truth`` is one number, or one per look, where a demonstration knows it. ``naive`` is what a plain holdout would have
    told, one number a look; it is for demonstrations only, since it gives the cases away.
    """
    if not history:
        raise InvalidParameter.saying("history", "history has no scores to plot")
    for name, values in (("truth", truth), ("naive", naive)):
        if isinstance(values, Sequence) and len(values) != len(history):
            raise InvalidParameter.saying(name, f"{name} needs one for each of {len(history):,} looks, not {len(values):,}")
    axes, looks = _axes(ax, history), range(1, len(history) + 1)
    whole = [(look, score.interval) for look, score in zip(looks, history, strict=True) if score.interval is not None]
    if whole:
        ends = [(interval.low, interval.high) for _, interval in whole]
        places, lows, highs = [look for look, _ in whole], [low for low, _ in ends], [high for _, high in ends]
        sure = f"interval, {whole[0][1].confidence:.0%} for all looks at once"
        axes.fill_between(places, lows, highs, color=_HOLDTRUE, alpha=0.15, linewidth=0, label=sure)
    told = [score.value for score in history]
    axes.plot(looks, told, "o-", color=_HOLDTRUE, markersize=3, linewidth=1.2, label="told by Holdtrue")
    if naive is not None:
        axes.plot(looks, naive, "o-", color=_NAIVE, markersize=3, linewidth=1.2, label="a plain holdout")
    if truth is not None:
        known = [float(value) for value in truth] if isinstance(truth, Sequence) else [float(truth)] * len(history)
        axes.plot(looks, known, "--", color=_TRUTH, linewidth=1.4, label="truth")
    axes.legend(frameon=False, fontsize=9.5, loc="upper left", bbox_to_anchor=(-0.01, -0.12), ncols=4, labelcolor=_INK)
    return axes


def _axes(ax: "Axes | None", history: Sequence[Score]) -> "Axes":
    try:
        from matplotlib import pyplot as plt
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise MissingExtra("plots", purpose="a plot of looks") from None
    axes: Axes = plt.subplots(figsize=(8.4, 4.6), layout="constrained")[1] if ax is None else ax
    last = history[-1]
    axes.set_title("One holdout, look after look\n", loc="left", color=_INK, fontsize=13, fontweight="bold")
    subtitle = f"{last.metric} over {len(history):,} of {last.looks:,} looks, for {last.about}"
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, color=_INK, fontsize=10)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0, colors=_INK, labelsize=9.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("look", color=_INK)
    axes.grid(visible=True, color=_FAINT, linewidth=0.9)
    axes.set_axisbelow(True)
    return axes

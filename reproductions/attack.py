"""The adaptive attack on a plain holdout and on Holdtrue: how often each one's interval misses, and a picture of one run."""

from pathlib import Path

from holdtrue.demo.attack import FEATURES, ROUNDS, ROWS, TRUTH, Bar, Step, attack
from reproductions.writing import write

__all__ = ["picture", "run"]

_INK, _GREY, _FAINT = "#16201d", "#6b7672", "#dfe5e2"
_SIDES = (("A plain holdout", "naive", "#b0361f"), ("Holdtrue", "held", "#0b6b5e"))


def run(data: Path | None, out: Path, *, runs: int = 20) -> None:
    """Write attack.md and attack.svg."""
    del data
    told = [list(attack()) for _ in range(runs)]
    rows = []
    for name, side in (("plain holdout", "naive"), ("Holdtrue", "held")):
        bars: list[list[Bar]] = [[getattr(step, side) for step in steps] for steps in told]
        missed = sum(not all(bar.holds for bar in each) for each in bars)
        last = [each[-1] for each in bars]
        value, width = (
            sum(numbers) / runs for numbers in ([bar.value for bar in last], [bar.high - bar.low for bar in last])
        )
        rows.append([name, f"{value:.4f}", f"± {width / 2:.4f}", f"{missed} of {runs}"])
    words = (
        f"{ROWS:,} rows of fair coins: {FEATURES:,} features and a label that have nothing to do with each other. The "
        f"analyst asks about each feature and scores the vote of the lucky ones {ROUNDS} times. The truth is {TRUTH}. The "
        "plain interval is Hoeffding's for all looks at once, as if they had been chosen beforehand. Means over runs on "
        "fresh rows."
    )
    header = ["", "last score", "interval", "runs in which an interval missed"]
    write(out / "attack.md", title="Fool a holdout in a thousand looks", words=words, header=header, rows=rows)
    picture(out / "attack.svg", told[0])


def picture(path: Path, steps: list[Step] | None = None) -> None:
    """Draw one run: what each side told after so many looks, the interval it claimed, and the truth."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    told = list(attack()) if steps is None else steps
    with mpl.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11}):
        figure, sides = plt.subplots(1, 2, figsize=(9.2, 3.9), sharey=True, layout="constrained")
        looks = [step.looks for step in told]
        for axes, (name, side, colour) in zip(sides, _SIDES, strict=True):
            bars: list[Bar] = [getattr(step, side) for step in told]
            lows, highs = [bar.low for bar in bars], [bar.high for bar in bars]
            axes.fill_between(looks, lows, highs, color=colour, alpha=0.18, linewidth=0)
            axes.plot(looks, [bar.value for bar in bars], "o-", color=colour, markersize=3.5, linewidth=1.6)
            axes.axhline(TRUTH, color=_INK, linewidth=1.4)
            verdict = "holds" if bars[-1].holds else "misses the truth"
            axes.set_title(f"{name}: the interval {verdict}", color=colour, loc="left", fontsize=11, fontweight="bold")
            axes.set(xlabel="looks at the same rows", xlim=(0, max(looks) * 1.02), ylim=(0.32, 0.7))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color=_FAINT)
            axes.set_axisbelow(True)
        sides[0].set_ylabel("share of right guesses")
        handles = [
            Patch(facecolor=_GREY, alpha=0.3, label="the interval claimed"),
            Line2D([], [], color=_GREY, marker="o", markersize=3.5, linewidth=1.6, label="the score told"),
            Line2D([], [], color=_INK, linewidth=1.4, label="the truth"),
        ]
        figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=3, fontsize=10)
        figure.savefig(path, metadata={"Date": None}, facecolor="white")
        plt.close(figure)
    print(f"written to {path}", flush=True)

"""Three published experiments with holdouts: the mechanism as published, and Holdtrue's in the same harness.

The reusable holdout (Dwork et al., Science 2015), boosting a leaderboard (Blum and Hardt, ICML 2015), and guess-and-check
under the quadratic-adaptive analyst (Rogers et al., AISTATS 2020). Populations and published mechanisms are drawn from
seeds; Holdtrue's mechanisms draw their own noise.
"""

import csv
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.transcripts import guess_and_check_level
from holdtrue.holdouts import Holdout, Leaderboard
from holdtrue.holdouts.cases import BITS
from holdtrue.holdouts.scoring import check_guess
from reproductions.writing import write

__all__ = ["run"]

Numbers = npt.NDArray[Any]
_SEED = 20150807
_ROWS = 10_000
_FEATURES = 10_000
_SIZES = (0, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 400, 500)
_OVERFITS = 20


def run(data: Path | None, out: Path, *, share: float = 1.0) -> None:
    """Write holdout-reuse, holdout-boosting and holdout-checking; ``share`` of the repetitions, for a quick look."""
    del data
    _reuse(out, max(1, round(20 * share)))
    _boosting(out, max(1, round(50 * share)))
    _checking(out, share)


def _generator(*words: int) -> np.random.Generator:  # noqa: TID251 - populations need no secrecy
    return np.random.default_rng([_SEED, *words])  # noqa: TID251 - likewise


# The reusable holdout.


@dataclass(frozen=True)
class _Sets:
    """Labels of train, holdout and fresh cases; each feature's mean product with the label, and columns that may be used.

    ``told`` is what our holdout said of each feature's query, scaled back.
    """

    labels: Numbers
    train: Numbers
    held: Numbers
    told: Numbers
    columns: dict[int, tuple[Numbers, Numbers]]
    signal: bool
    fresh: np.random.Generator  # noqa: TID251 - likewise


def _labels(seed: int, *, signal: bool) -> tuple[np.random.Generator, Numbers]:  # noqa: TID251 - likewise
    random = _generator(1, seed, int(signal))
    return random, random.choice(np.array([-1, 1], dtype=np.float32), (3, _ROWS))


def _sets(random: np.random.Generator, labels: Numbers, holdout: Holdout, *, signal: bool) -> _Sets:  # noqa: TID251 - likewise
    """Draw the features, block by block, and ask our holdout for each; the columns that no analyst could use are let go."""
    means, told, columns = np.zeros((2, _FEATURES)), np.zeros(_FEATURES), {}
    for start in range(0, _FEATURES, 500):
        block = [random.standard_normal((_ROWS, 500), dtype=np.float32) for _ in range(2)]
        scaled = []
        for which in range(2):
            if signal and start == 0:
                block[which][:, :20] += labels[which][:, None] * np.float32(0.06)
            products = block[which] * labels[which][:, None]
            means[which, start : start + 500] = products.mean(axis=0)
            scaled.append(((np.clip(products, -4, 4) + 4) / 8).T.copy())
        for place, (train, held) in enumerate(zip(*scaled, strict=True), start=start):
            told[place] = 8 * holdout.score(cases=held, train=train).value - 4
        t, h = means[:, start : start + 500]
        near = 1 / math.sqrt(_ROWS)
        wanted = (np.abs(t) > 0.018) | ((t * h > 0) & (np.abs(t) > near) & (np.abs(h) > near))
        for j in np.flatnonzero(wanted):
            columns[start + int(j)] = (block[0][:, j].copy(), block[1][:, j].copy())
    return _Sets(labels, means[0], means[1], told, columns, signal, random)


def _curves(sets: _Sets, answers: Numbers, told: Callable[[Numbers], float]) -> Numbers:
    """Return accuracy on train, as told of the predictions, and on fresh cases, for every number of features."""
    near, t = 1 / math.sqrt(_ROWS), sets.train
    kept = ((t > near) & (answers > near)) | ((t < -near) & (answers < -near))
    order = np.argsort(-np.abs(np.where(kept, t, 0.0)), kind="stable")[: _SIZES[-1]]
    fresh_labels, found = sets.labels[2], [(0.5, 0.5, 0.5)]
    votes = np.zeros((3, _ROWS), dtype=np.float32)
    done = 0
    for size in _SIZES[1:]:
        for j in order[done:size]:
            if kept[j]:
                sign = np.float32(np.sign(t[j]))
                column = sets.fresh.standard_normal(_ROWS, dtype=np.float32)
                if sets.signal and j < 20:
                    column = column + fresh_labels * np.float32(0.06)
                for which, values in enumerate((*sets.columns[int(j)], column)):
                    votes[which] += sign * values
        done = size
        predicted = np.sign(votes)
        right = (predicted == sets.labels).mean(axis=1)
        found.append((right[0], told(predicted), right[2]))
    return np.array(found)


def _right(sets: _Sets, predicted: Numbers, which: int) -> float:
    return float((predicted[which] == sets.labels[which]).mean())


def _published(sets: _Sets, random: np.random.Generator) -> tuple[Numbers, Callable[[Numbers], float]]:  # noqa: TID251 - likewise
    limit, spread = 4 / math.sqrt(_ROWS), 1 / math.sqrt(_ROWS)

    above = np.abs(sets.train - sets.held) > limit + random.normal(0, spread, _FEATURES)
    features = np.where(above, sets.held + random.normal(0, spread, _FEATURES), sets.train)

    def told(predicted: Numbers) -> float:
        train, held = _right(sets, predicted, 0), _right(sets, predicted, 1)
        quiet = abs(train - held) < limit + random.normal(0, spread)
        return train if quiet else held + float(random.normal(0, spread))

    return features, told


class _Ours:
    """The reusable holdout itself, opened as anybody would: every feature and every accuracy is a look of its own.

    Features are told by the threshold it was planned with; accuracies by one of their own, which their intervals follow.
    """

    def __init__(self, labels: Numbers) -> None:
        self.looks = _FEATURES + len(_SIZES) - 1
        train, held = (side.astype(np.int8) for side in labels[:2])
        self.holdout = Holdout(held, train=train, looks=self.looks, overfits=_OVERFITS)
        self.intervals: list[tuple[float, float]] = []
        self.spent = 0.0

    def told(self, predicted: Numbers) -> float:
        """Ask for the accuracy of predictions; ties are zeros, which are no label."""
        train, held = (side.astype(np.int8) for side in predicted[:2])
        score = self.holdout.score(held, train=train, threshold=4 / math.sqrt(_ROWS))
        self.spent = score.certificate.spent
        self.intervals.append((0.0, 1.0) if score.interval is None else (score.interval.low, score.interval.high))
        return score.value

    @property
    def runs(self) -> int:
        """Return how many runs of above threshold were begun: each is the same share of epsilon, and silence is free."""
        return round(_OVERFITS * self.spent / (self.holdout.plan.epsilon or 1.0))

    @property
    def words(self) -> str:
        """Return how it was opened, and what that costs."""
        facts, plan = self.holdout.facts, self.holdout.plan
        near = 4 / math.sqrt(_ROWS) + plan.alpha - (facts.threshold or 0)
        return (
            f"Holdout(held, train=train, looks={self.looks}, overfits={_OVERFITS}), epsilon = {plan.epsilon:.3f} in all, "
            f"s = {facts.scale:.5f}, threshold {facts.threshold:.3f} for features and {4 / math.sqrt(_ROWS):.3f} for "
            f"accuracies, whose stated interval is ±{near:.3f}"
        )


def _reuse(out: Path, runs: int) -> None:
    began = time.perf_counter()
    curves: dict[tuple[bool, str], list[Numbers]] = {}
    most, missed, words = 0, 0, ""
    for signal in (False, True):
        for seed in range(runs):
            random, labels = _labels(seed, signal=signal)
            ours = _Ours(labels)
            sets = _sets(random, labels, ours.holdout, signal=signal)
            features, told = _published(sets, _generator(2, seed))
            for name, answers, report in (
                ("standard", sets.held, lambda predicted, sets=sets: _right(sets, predicted, 1)),
                ("Thresholdout as published (no proof)", features, told),
                ("Holdtrue (private)", sets.told, ours.told),
            ):
                curves.setdefault((signal, name), []).append(_curves(sets, answers, report))
            truth = curves[signal, "Holdtrue (private)"][-1][1:, 2]
            missed += any(not low <= true <= high for (low, high), true in zip(ours.intervals, truth, strict=True))
            most, words = max(most, ours.runs), ours.words
            ours.holdout.close()
        print(f"signal {signal}: {time.perf_counter() - began:.0f} s", flush=True)
    rows = []
    for (signal, name), values in curves.items():
        mean, deviation = np.mean(values, axis=0), np.std(values, axis=0, ddof=1 if runs > 1 else 0)
        for size in (20, 100, 300, 500):
            at = _SIZES.index(size)
            figures = [f"{m:.4f} ({d:.4f})" for m, d in zip(mean[at], deviation[at], strict=True)]
            rows.append(["signal" if signal else "none", name, str(size), *figures])
    said = (
        f"n = d = {_ROWS:,}; mean (sd) of {runs} runs, seeds {_SEED}/0..{runs - 1}, {time.perf_counter() - began:.0f} s. "
        f"Ours: {words}; {most} runs of above threshold were begun at most, and {missed} of {2 * runs} repetitions left the "
        "stated interval at any k. Queries are clipped to [-4, 4] and scaled to [0, 1]."
    )
    header = ["signal", "holdout", "k", "train", "reported", "truth"]
    write(out / "holdout-reuse.md", title="Reusable holdout", words=said, header=header, rows=rows)
    _save(out / "holdout-reuse.csv", header, rows)
    _plot(out / "holdout-reuse.png", curves)


def _save(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def _plot(path: Path, curves: dict[tuple[bool, str], list[Numbers]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.4), layout="constrained")
    figure.suptitle("A holdout asked for 10,000 features, then for the accuracy of what was chosen", x=0.01, ha="left")
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    colours = {"train": "#8a9099", "reported": "#c2571a", "truth": "#202124"}
    for ax, ((signal, name), values) in zip(axes.flat, curves.items(), strict=True):
        mean, deviation = np.mean(values, axis=0), np.std(values, axis=0)
        for place, (what, colour) in enumerate(colours.items()):
            style = "--" if what == "truth" else "-"
            ax.plot(_SIZES, mean[:, place], style, color=colour, label=what)
            low, high = mean[:, place] - deviation[:, place], mean[:, place] + deviation[:, place]
            ax.fill_between(_SIZES, low, high, color=colour, alpha=0.2, linewidth=0)
        ax.set_title(f"{name}\n{'20 features with signal' if signal else 'no signal'}", fontsize=10, loc="left")
        ax.set(ylim=(0.45, 0.75))
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("features in the classifier")
    for ax in axes[:, 0]:
        ax.set_ylabel("accuracy, mean ± sd")
    axes.flat[0].legend(frameon=False, loc="upper left")
    figure.savefig(path)
    print(f"written to {path}", flush=True)


# Boosting a leaderboard.

_CASES, _SUBMISSIONS, _SHOWN = 4000, 400, (50, 100, 200, 400)


def _boosting(out: Path, runs: int) -> None:
    began = time.perf_counter()
    found: dict[str, list[list[float]]] = {}
    for seed in range(runs):
        random = _generator(3, seed)
        truth, rows = random.integers(0, 2, _CASES), random.integers(0, 2, (_SUBMISSIONS, _CASES))
        losses = (rows != truth).mean(axis=1)
        boards = {
            "rounding, 5 decimals": np.round(losses, 5) <= 0.5,
            "rounding, 2 decimals": np.round(losses, 2) <= 0.5,
            "parameter-free ladder as published": _free_ladder(rows != truth),
            "Holdtrue, parameter-free ladder": _board(truth, rows, "parameter-free ladder"),
            "Holdtrue, ladder (T11)": _board(truth, rows, "ladder"),
            "Holdtrue, private ladder (T10)": _board(truth, rows, "private ladder"),
            "Holdtrue, private, every score": _board(truth, rows, "private"),
        }
        for name, kept in boards.items():
            found.setdefault(name, []).append([_boosted(rows[:k], kept[:k], truth) for k in _SHOWN])
        fresh = random.integers(0, 2, (2, 2 * _CASES))
        found.setdefault("truth: fresh labels", []).append([float((fresh[0] != fresh[1]).mean())] * len(_SHOWN))
    lines = []
    for name, values in found.items():
        mean, deviation = np.mean(values, axis=0), np.std(values, axis=0, ddof=1 if runs > 1 else 0)
        lines.append([name, *(f"{m:.4f} ({d:.4f})" for m, d in zip(mean, deviation, strict=True))])
    words = (
        f"{_CASES:,} random labels, {_SUBMISSIONS} random submissions; loss on the same labels of the majority of those "
        f"that the board seemed to like. Mean (sd) of {runs} runs, seeds {_SEED}/0..{runs - 1}, "
        f"{time.perf_counter() - began:.0f} s. "
        "The ladders are validity devices and keep no privacy, but for the private one, which tells a noisy score when the "
        "lead changes. The private board with every score shows 400 noisy ones, of which the attacker keeps those of 1/2 or "
        "better: noise as small as its intervals allow still gives 400 answers a drift."
    )
    header = ["leaderboard", *(f"k = {k}" for k in _SHOWN)]
    write(out / "holdout-boosting.md", title="Boosting attack on a leaderboard", words=words, header=header, rows=lines)
    _save(out / "holdout-boosting.csv", header, lines)


def _boosted(rows: Numbers, kept: Numbers, truth: Numbers) -> float:
    chosen = rows[kept]
    return float(((2 * chosen.sum(axis=0) >= len(chosen)).astype(int) != truth).mean())


def _free_ladder(wrong: Numbers) -> Numbers:
    best, leader, kept = math.inf, np.zeros(wrong.shape[1]), []
    for row in wrong.astype(np.float64):
        loss, gap = row.mean(), (row - leader).std(ddof=1) / math.sqrt(row.size)
        moved = loss < best - gap
        kept.append(bool(moved and (math.isfinite(best) or loss < 0.5)))
        if moved:
            best, leader = loss, row
    return np.array(kept)


def _board(truth: Numbers, rows: Numbers, rule: Any) -> Numbers:  # noqa: ANN401 - one of the names of rules
    kept, best = [], 0.5
    with Leaderboard(truth, submissions=_SUBMISSIONS, rule=rule) as board:
        for row in rows:
            value = board.submit("attacker", row).value
            kept.append(value >= 0.5 if rule == "private" else value > best)
            best = value if rule != "private" else best
    return np.array(kept)


# Guess and check.

_SETTINGS = ((2000, 400, 0.7, 100), (5000, 900, 0.6, 50), (10_000, 2500, 0.5, 20))


def _checking(out: Path, share: float) -> None:
    lines = []
    for rows, most, fraction, runs in _SETTINGS:
        repeated = max(1, round(runs * share))
        for name, part, rule in (
            ("rule as published", 0.5 if rows == _ROWS else 0.7, _published_check),
            ("Holdtrue", fraction, _sharper_check),
        ):
            began = time.perf_counter()
            found = [_quadratic(seed, rows, most, part, rule) for seed in range(repeated)]
            answered = np.array([number for number, _ in found], dtype=np.float64)
            deviation = answered.std(ddof=1) if repeated > 1 else 0.0
            farthest = max(far for _, far in found)
            missed = sum(far > 0.1 for _, far in found)
            lines.append(
                [
                    f"{rows:,}",
                    f"{name} ({part:g} held out)",
                    f"{answered.mean():.1f}",
                    f"{deviation:.1f}",
                    f"{deviation / math.sqrt(repeated):.1f}",
                    str(repeated),
                    f"{farthest:.3f}",
                    str(missed),
                    f"{time.perf_counter() - began:.0f}",
                ]
            )
            print(" ".join(lines[-1]), flush=True)
    words = (
        f"tolerance 0.1, beta 0.05, seeds {_SEED}/0..; answers given before the stop. Both rules are validity devices and "
        "keep no privacy. A miss is an answer farther than 0.1 from 1/2, the truth of every query."
    )
    header = ["rows", "rule", "answers", "sd", "standard error", "runs", "farthest", "runs with a miss", "seconds"]
    write(out / "holdout-checking.md", title="Guess and check", words=words, header=header, rows=lines)
    _save(out / "holdout-checking.csv", header, lines)


_Check = Callable[[float, int, int, int, "list[int]"], float | None]


def _quadratic(seed: int, rows: int, most: int, fraction: float, check: _Check) -> tuple[int, float]:
    """Return how many queries of the quadratic-adaptive analyst are answered, and the farthest answer from 1/2."""
    random = _generator(4, seed, rows)
    signs = random.choice(np.array([-1, 1], dtype=np.int8), (most, rows))
    label, held = signs[-1], math.floor(fraction * rows)
    sums = np.zeros(rows)
    cells: list[int] = []
    farthest, column = 0.0, 0
    for query in range(1, most):
        adaptive = query > 1 and math.isqrt(query) ** 2 == query
        hits = (np.where(sums >= 0, 1, -1) == label) if adaptive else (signs[column] == label)
        guess = min(1.0, max(0.0, float(hits[held:].mean()) + float(random.normal(0, 0.01))))
        told = check(guess, int(hits[:held].sum()), held, query, cells)
        if told is None:
            return query - 1, farthest
        farthest = max(farthest, abs(told - 0.5))
        if not adaptive:
            clipped = min(1 - 1e-15, max(1e-15, told))
            sums += math.log(clipped / (1 - clipped)) * signs[column]
            column += 1
    return most - 1, farthest


def _sharper_check(guess: float, hits: int, held: int, query: int, cells: list[int]) -> float | None:
    cell, number = check_guess(
        guess, total=hits << BITS, cases=held, whole=True, tolerance=0.1, beta=0.05, query=query, cells=tuple(cells)
    )
    if number:
        cells.append(number)
        return (2 * cell + 1) / (2 * number)
    return guess if cell == -1 else None


def _published_check(guess: float, hits: int, held: int, query: int, cells: list[int]) -> float | None:
    level = math.log(2) + guess_and_check_level(0.05, query=query, cells=cells)
    mean = hits / held
    low = guess - 0.1 if guess > mean else 1 - guess - 0.1
    if abs(guess - mean) <= 0.1 - (_chernoff(low, level / held) if low > 0 else 0.0):
        return guess
    step = 0.1 - math.sqrt(level / (2 * held))
    if step <= 0:
        return None
    cells.append(math.ceil(1 / step))
    return round(mean / step) * step


def _chernoff(mean: float, level: float) -> float:
    """Return the smallest w with kl(mean + w, mean) >= level."""
    low, high = 0.0, 1 - mean
    for _ in range(60):
        w = (low + high) / 2
        a = mean + w
        far = a * math.log(a / mean) + ((1 - a) * math.log((1 - a) / (1 - mean)) if a < 1 else 0.0)
        low, high = (low, w) if far >= level else (w, high)
    return high

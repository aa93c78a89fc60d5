"""How often intervals of adaptive looks miss: Holdtrue's, and the one that is right for a single look, side by side.

Labels are fair coins, so the truth of every submission is one half. Three analysts look at scores and one climbs through a
gate; a run counts as a miss if any of its intervals does.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.accuracy import hoeffding_alpha
from holdtrue.holdouts import Holdout
from reproductions.writing import write

__all__ = ["run"]

Numbers = npt.NDArray[Any]
Told = Callable[[Numbers], tuple[float, bool]]
_SEED = 20200824
_CASES, _LOOKS = 2000, 100


def run(data: Path | None, out: Path, *, share: float = 1.0) -> None:
    """Write coverage.md; ``share`` of the repetitions, for a quick look."""
    del data
    runs = max(2, round(200 * share))
    rows = []
    for number, (name, analyst) in enumerate(_ANALYSTS.items()):
        began, missed, naive = time.perf_counter(), 0, 0
        for seed in range(runs):
            random = np.random.default_rng([_SEED, number, seed])  # noqa: TID251 - analysts need no secrecy
            truth = random.integers(0, 2, _CASES)
            with Holdout(truth, looks=_LOOKS) as holdout:
                missed += analyst(random, _holdtrue(holdout))
            naive += analyst(random, _plain(truth))
        rows.append(_line(f"{name}: {_CASES:,} cases, {_LOOKS} looks", runs, missed, naive, time.perf_counter() - began))
    rows.append(_gates(runs))
    words = (
        f"Runs with any interval that misses the truth, of {runs} each at beta = 0.05; seeds {_SEED}/analyst/0..{runs - 1}. "
        "The naive interval is Hoeffding's for one look around the raw score, which the same analyst is shown. The upper "
        "end is Clopper and Pearson's at 97.5 %."
    )
    header = ["analyst", "runs", "Holdtrue misses", "rate at most", "naive misses", "seconds"]
    write(out / "coverage.md", title="Coverage under adaptive looks", words=words, header=header, rows=rows)


def _line(name: str, runs: int, missed: int, naive: int, seconds: float) -> list[str]:
    from scipy.special import betaincinv

    most = 1.0 if missed == runs else float(betaincinv(missed + 1, runs - missed, 0.975))
    line = [name, str(runs), str(missed), f"{most:.4f}", str(naive), f"{seconds:.0f}"]
    print(" ".join(line), flush=True)
    return line


def _holdtrue(holdout: Holdout) -> Told:
    def told(row: Numbers) -> tuple[float, bool]:
        score = holdout.score(row)
        return score.value, score.interval is None or 0.5 not in score.interval

    return told


def _plain(truth: Numbers) -> Told:
    near = hoeffding_alpha(truth.size, beta=0.05)

    def told(row: Numbers) -> tuple[float, bool]:
        value = float((row == truth).mean())
        return value, abs(value - 0.5) > near

    return told


def _signs(random: np.random.Generator, told: Told) -> bool:  # noqa: TID251 - analysts need no secrecy
    """Submit coins, then let those that did well vote."""
    rows = random.integers(0, 2, (_LOOKS - 1, _CASES))
    answers = [told(row) for row in rows]
    signs = np.where([value > 0.5 for value, _ in answers], 1, -1)
    majority = ((signs[:, None] * (2 * rows - 1)).sum(axis=0) > 0).astype(int)
    return any(missed for _, missed in [*answers, told(majority)])


def _climbing(random: np.random.Generator, told: Told) -> bool:  # noqa: TID251 - likewise
    """Change a tenth of the predictions at a time and keep what scores better."""
    best = random.integers(0, 2, _CASES)
    top, missed = told(best)
    for _ in range(_LOOKS - 1):
        changed = np.where(random.random(_CASES) < 0.1, random.integers(0, 2, _CASES), best)
        value, miss = told(changed)
        missed = missed or miss
        best, top = (changed, value) if value > top else (best, top)
    return missed


def _search(random: np.random.Generator, told: Told) -> bool:  # noqa: TID251 - likewise
    """Submit coins until one looks three deviations better than a coin."""
    missed = False
    for _ in range(_LOOKS):
        value, miss = told(random.integers(0, 2, _CASES))
        missed = missed or miss
        if value > 0.5 + 1.5 / np.sqrt(_CASES):
            break
    return missed


_ANALYSTS = {"sign aggregation": _signs, "hill climbing": _climbing, "random search, stopped early": _search}


def _gates(runs: int) -> list[str]:
    """Climb through a gate of 5,000 cases, 200 looks and 10 yes; the incumbent is certified at the end. A yes is a miss."""
    cases, looks, began, missed, naive = 5000, 200, time.perf_counter(), 0, 0
    for seed in range(runs):
        random = np.random.default_rng([_SEED, 9, seed])  # noqa: TID251 - likewise
        best = random.integers(0, 2, cases)
        with Holdout(random.integers(0, 2, cases), looks=looks, yes=10, incumbent=best) as holdout:
            intervals, false = [holdout.incumbent], False
            while holdout.looks_left:
                changed = np.where(random.random(cases) < 0.4, random.integers(0, 2, cases), best)
                told = holdout.gate(changed, margin=0.005)
                intervals.append(told.interval)
                best, false = changed if told.yes else best, false or told.yes
            score = holdout.certify()
        ends = [*intervals, score.interval]
        missed += false or any(interval is None or 0.5 not in interval for interval in ends)
        naive += abs(score.value - 0.5) > hoeffding_alpha(cases, beta=0.05)
    return _line("gate: 5,000 cases, 200 looks, 10 yes", runs, missed, naive, time.perf_counter() - began)

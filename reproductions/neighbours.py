"""The neighbours of a gate: who claims falsely, and who finds what is there, in three situations.

Fifty candidates are claimed better than what they meet, or not, on 500 cases; five truly are. They are fixed in advance; or
each comes with fresh cases of its own; or all are on the same cases, and the last one is made of what was told about those
that are no better. It is no better than they are on any other cases. A method that shows p-values or scores tells the
analyst the sign of each observed gain; a gate tells yes and no; splitting tells what it saw on the part of one look.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.gate_levels import depth_levels
from holdtrue.planning.asking import plan
from holdtrue.planning.gate_power import count_wins
from reproductions.writing import write

__all__ = ["METHODS", "SITUATIONS", "simulate"]

Numbers = npt.NDArray[Any]
BETA, CASES, LOOKS, TRUE, YES = 0.05, 500, 50, 5, 5
DISCORDANT, GAIN = 0.2, 0.09
_SEED, _POOL = 20261117, 100
_BETS = 0.98 * 2.0 ** (-np.arange(14) / 2)
_ONE_BET = 0.4


def run(data: Path | None, out: Path, *, runs: int = 2_000) -> None:
    """Write neighbours.md."""
    del data
    rows = []
    found = {situation: simulate(situation, runs=runs) for situation in SITUATIONS}
    for method in METHODS:
        cells = [found[situation][method] for situation in SITUATIONS]
        rows.append([method, *(f"{each.false:.3f} / {each.share:.3f} / {each.power:.2f}" for each in cells)])
    words = (
        f"Runs with a false claim / mean false share of the claims / share of the true improvements that are claimed; "
        f"{runs:,} runs, beta = {BETA}, {LOOKS} looks at {CASES} cases, {TRUE} of them at a gain of {GAIN} where "
        f"{DISCORDANT:.0%} of the cases differ; seed {_SEED}. A gate may say yes {YES} times."
    )
    write(out / "neighbours.md", title="The neighbours of a gate", words=words, header=["method", *SITUATIONS], rows=rows)


@dataclass(frozen=True)
class Outcome:
    """How often a run has a false claim, how much of what is claimed is false, and how much of what is true is claimed."""

    false: float
    share: float
    power: float


def simulate(situation: str, *, runs: int) -> dict[str, Outcome]:
    """Return what each method does in a situation."""
    random = np.random.default_rng([_SEED, SITUATIONS.index(situation)])  # noqa: TID251 - no secrets here
    sums = {method: np.zeros(3) for method in METHODS}
    for _ in range(runs // _POOL):
        gains, truth = _draw_gains(random)
        for method, (shows, claim) in METHODS.items():
            given = _aggregate(gains, truth, shows(gains[:, :-1], random), random) if situation == SITUATIONS[2] else gains
            said = claim(given, random)
            false, true = (said & ~truth).sum(axis=1), (said & truth).sum(axis=1)
            sums[method] += [(false > 0).sum(), (false / np.maximum(false + true, 1)).sum(), true.sum() / truth[0].sum()]
    return {method: Outcome(*(total / (runs // _POOL * _POOL)).tolist()) for method, total in sums.items()}


def _draw_gains(random: Any) -> tuple[Numbers, Numbers]:  # noqa: ANN401 - a generator
    """Return the difference of each candidate on each case, and which candidates are truly better; the last one never is."""
    truth = np.zeros((_POOL, LOOKS), dtype=bool)
    truth[:, : LOOKS - 1] = np.argsort(random.random((_POOL, LOOKS - 1)), axis=1) < TRUE
    drawn = random.random((_POOL, LOOKS, CASES), dtype=np.float32)
    wins = (DISCORDANT + GAIN * truth) / 2
    gains = (drawn < wins[..., None]).astype(np.int8) - (drawn > 1 - (DISCORDANT - wins)[..., None])
    return gains.astype(np.int8), truth


def _aggregate(gains: Numbers, truth: Numbers, told: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    """Return the gains with the last candidate made of what was told of those that are no better: their sum on each case."""
    signs = np.where(told > 0, 1, -1) * ~truth[:, :-1]
    votes = np.sign(np.einsum("rl,rlc->rc", signs, gains[:, :-1], dtype=np.int64))
    taken = random.random(votes.shape) < 2 * DISCORDANT
    return np.concatenate([gains[:, :-1], (votes * taken)[:, None].astype(np.int8)], axis=1)


def _counts(gains: Numbers) -> tuple[Numbers, Numbers]:
    return (gains > 0).sum(axis=2), (gains != 0).sum(axis=2)


def _table() -> Numbers:
    from scipy.stats import binom

    numbers = np.arange(CASES + 1)
    tails: Numbers = np.asarray(binom.sf(numbers[None, :] - 1, numbers[:, None], 0.5))
    return tails


def _p_values(gains: Numbers, tails: Numbers = _table()) -> Numbers:  # noqa: B008 - made once
    """Return the exact p-value of each candidate: the sign test over the cases that differ."""
    wins, differing = _counts(gains)
    found: Numbers = tails[differing, wins]
    return found


def _signs(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    del random
    found: Numbers = gains.sum(axis=2, dtype=np.int64)
    return found


def _claim_at(level: float) -> Callable[[Numbers, Any], Numbers]:
    return lambda gains, random: _p_values(gains) <= level  # noqa: ARG005 - one shape for all


def _mcnemar(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    return (2 * _p_values(gains) <= BETA) & (_signs(gains, random) > 0)


def _holm(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    del random
    p = _p_values(gains)
    passed = np.cumprod(np.sort(p, axis=1) <= BETA / (LOOKS - np.arange(LOOKS)), axis=1).sum(axis=1)
    return _claim_first(p, passed)


def _benjamini_hochberg(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    del random
    p = _p_values(gains)
    return _claim_first(p, _last_true(np.sort(p, axis=1) <= BETA * np.arange(1, LOOKS + 1) / LOOKS))


def _e_benjamini_hochberg(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    del random
    wins, differing = _counts(gains)
    logs = wins[..., None] * np.log1p(_BETS) + (differing - wins)[..., None] * np.log1p(-_BETS)
    inverse = 1 / np.exp(np.minimum(logs, 600)).mean(axis=2)
    return _claim_first(inverse, _last_true(np.sort(inverse, axis=1) <= BETA * np.arange(1, LOOKS + 1) / LOOKS))


def _last_true(passed: Numbers) -> Numbers:
    found: Numbers = (passed * np.arange(1, LOOKS + 1)).max(axis=1)
    return found


def _claim_first(values: Numbers, number: Numbers) -> Numbers:
    """Return the candidates with the smallest values, so many in each run."""
    found: Numbers = np.argsort(np.argsort(values, axis=1), axis=1) < number[:, None]
    return found


def _lord(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    """Return what LORD++ claims: levels that it wins back with each claim (Ramdas et al. 2017)."""
    del random
    p, place = _p_values(gains), np.arange(1, 10 * LOOKS + 1)
    weights = np.log(np.maximum(place, 2)) / (place * np.exp(np.sqrt(np.log(place))))
    weights = (weights / weights.sum())[:LOOKS]
    levels = np.tile(BETA / 2 * weights, (_POOL, 1))
    said, claimed = np.zeros_like(p, dtype=bool), np.zeros(_POOL, dtype=int)
    for look in range(LOOKS):
        said[:, look] = p[:, look] <= levels[:, look]
        won = said[:, look] * np.where(claimed == 0, BETA / 2, BETA)
        levels[:, look + 1 :] += won[:, None] * weights[: LOOKS - look - 1]
        claimed += said[:, look]
    return said


def _confidence_sequence(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    """Return which candidates' confidence sequence is above 0 at any number of cases: a bet that grew past 1/beta."""
    del random
    logs = np.array([np.log1p(-_ONE_BET), 0, np.log1p(_ONE_BET)], dtype=np.float32)[gains + 1]
    found: Numbers = np.cumsum(logs, axis=2).max(axis=2) >= np.log(1 / BETA)
    return found


def _parts(gains: Numbers) -> Numbers:
    """Return each look's part of the cases."""
    looks, size = gains.shape[1], CASES // LOOKS
    return np.stack([gains[:, look, look * size : (look + 1) * size] for look in range(looks)], axis=1)


def _split(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    return _claim_at(BETA / LOOKS)(_parts(gains), random)


def _ask_gate(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    """Return where a gate says yes, at levels by depth."""
    del random
    wins, differing = _counts(gains)
    said, used = np.zeros(wins.shape, dtype=bool), np.zeros(wins.shape[0], dtype=int)
    for look in range(wins.shape[1]):
        enough = wins[:, look] >= _WINS[np.minimum(used, YES - 1), differing[:, look]]
        said[:, look] = enough & (used < YES)
        used += said[:, look]
    return said


_WINS = np.array([count_wins(np.arange(CASES + 1), np.exp(-level)) for level in depth_levels(LOOKS, yes=YES, beta=BETA)])
_PLAN = plan(rows=CASES, queries=LOOKS, beta=BETA, cap="validity")


def _noisy_scores(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    """Return the differences as a holdout of full scores tells them: with noise, on the scale from 0 to 1."""
    exact = (1 + gains.mean(axis=2)) / 2
    found: Numbers = exact + random.normal(size=exact.shape) * _PLAN.sigma
    return found


def _score(gains: Numbers, random: Any) -> Numbers:  # noqa: ANN401 - a generator
    return _noisy_scores(gains, random) - _PLAN.alpha > 0.5


SITUATIONS = ("fixed in advance", "fresh cases for each", "adaptive on the same cases")
METHODS: dict[str, tuple[Callable[[Numbers, Any], Numbers], Callable[[Numbers, Any], Numbers]]] = {
    "naive, every look at beta": (_signs, _claim_at(BETA)),
    "McNemar's test": (_signs, _mcnemar),
    "confidence sequence for each": (_signs, _confidence_sequence),
    "Bonferroni": (_signs, _claim_at(BETA / LOOKS)),
    "Holm": (_signs, _holm),
    "Benjamini-Hochberg": (_signs, _benjamini_hochberg),
    "LORD++": (_signs, _lord),
    "e-BH": (_signs, _e_benjamini_hochberg),
    "splitting": (lambda gains, random: _signs(_parts(gains), random), _split),
    "our gate": (_ask_gate, _ask_gate),
    "our scores": (lambda gains, random: _noisy_scores(gains, random) - 0.5, _score),
}

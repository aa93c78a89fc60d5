"""The gate by depth beside the rule that counted transcripts: widths, gains that are found, and attacks on it (V1.3).

Three attackers climb: on label noise, with true improvements in between, and by claims that are true but leak a bit each. A
run counts as false if any yes of it is. The same climbs refute three rules that look right: every look at beta, "strictly
greater", and Bonferroni's beta/k with any number of yes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.closed_forms import smallest_float
from holdtrue.bounds.gate_levels import depth_levels, depth_width
from holdtrue.bounds.transcripts import gate_alpha, gate_level
from holdtrue.planning.gate_power import POWER, count_wins, find_gain
from holdtrue.planning.holdout_plan import GatePlan, plan_holdout
from reproductions.writing import write

__all__ = ["ATTACKS", "FAULTS", "GateRule", "bound_rate", "make_rule", "run"]

Numbers = npt.NDArray[Any]
BETA = 0.05
_SEED = 20261116
_CASES, _SIZES, _SHARES = (100, 200, 500, 1_200, 5_000), ((20, 3), (100, 5), (500, 20)), (0.05, 0.1, 0.3)
_POOL = 500
_WISHES = (  # gain, share of differing cases, looks, yes
    (0.05, 0.1, 100, 5),
    (0.1, 0.1, 100, 5),
    (0.05, 0.05, 100, 5),
    (0.05, 0.3, 100, 5),
    (0.02, 0.1, 100, 5),
    (0.05, 0.1, 20, 3),
    (0.05, 0.1, 500, 5),
)


def run(data: Path | None, out: Path, *, share: float = 1.0) -> None:
    """Write gate.md, gate_cases.md and gate_attacks.md; ``share`` of the climbs, for a quick look."""
    del data
    _write_widths(out / "gate.md")
    _write_cases(out / "gate_cases.md")
    _write_attacks(out / "gate_attacks.md", runs=max(_POOL, round(10_000 * share)))


def _write_widths(path: Path) -> None:
    rows = []
    for cases in _CASES:
        for looks, yes in _SIZES:
            levels = depth_levels(looks, yes=yes, beta=BETA)
            widths = [depth_width(cases, level=levels[after]) for after in (0, -1)]
            today = gate_alpha(cases, looks=looks, yes=yes, beta=BETA)
            gains = []
            for discordant in _SHARES:
                first, last = (find_gain(cases, discordant=discordant, level=levels[after]) for after in (0, -1))
                gains.append(f"{_show(first)} … {_show(last)} ({_show(_today(cases, discordant, looks, yes))})")
            shown = f"±{_show(widths[0])} … ±{_show(widths[1])} (±{_show(today if today < 1 else None)})"
            bets = [_show(find_gain(cases, discordant=each, level=levels[0], betting=True)) for each in _SHARES]
            rows.append([f"{cases:,}", str(looks), str(yes), shown, *gains, " / ".join(bets)])
    header = ["cases", "looks", "yes", "half-width", *(f"gain, {each:.0%} differ" for each in _SHARES), "by betting"]
    words = (
        "Half-width above a threshold of one half, and the smallest true gain over the incumbent that has a yes 80 % of the "
        "time, margin 0, by exact pairs: at the first look … at the last yes. In brackets the rule that counts "
        "transcripts, at every look, where the differing cases are known. Last, what betting finds at the first look, where "
        "so many differ. A dash: not even a win in every differing case."
    )
    write(path, title="What a gate finds", words=words, header=header, rows=rows)


def _write_cases(path: Path) -> None:
    """Write how many cases a gain needs: what plan_holdout(gain=, discordant=, looks=, yes=) says."""
    rows = []
    for gain, discordant, looks, yes in _WISHES:
        plan = cast("GatePlan", plan_holdout(gain=gain, discordant=discordant, looks=looks, yes=yes, beta=BETA).gate)
        found = [f"{number:,}" if number else "–" for number in (plan.cases, plan.cases_last)]
        rows.append([f"{gain:g}", f"{discordant:.0%}", str(looks), str(yes), *found])
    header = ["gain", "differ", "looks", "yes", "cases", "for the last yes"]
    words = "The fewest cases that find a true gain 80 % of the time, margin 0, by exact pairs, as plan_holdout says."
    write(path, title="How many cases a gate needs", words=words, header=header, rows=rows)


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".lstrip("0")


def _today(cases: int, discordant: float, looks: int, yes: int) -> float | None:
    """Return the gain that the rule which counts transcripts finds: W - L must be above sqrt(2 N ln(2 k N'/beta))."""
    from scipy.stats import binom

    level, number = gate_level(looks, yes=yes, beta=BETA), np.arange(cases + 1)
    needed = np.minimum(np.floor((number + np.sqrt(2 * number * level)) / 2) + 1, number + 1)
    weights = binom.pmf(number, cases, discordant)

    def is_found(gain: float) -> bool:
        found = (weights * binom.sf(needed - 1, number, min(1.0, (1 + gain / discordant) / 2))).sum()
        return bool(found >= POWER)

    return smallest_float(is_found, 0.0, discordant, steps=20) if is_found(discordant) else None


@dataclass(frozen=True)
class GateRule:
    """How a gate decides: the fewest wins of so many differing cases, after so many yes, and how many yes there may be."""

    name: str
    yes: int
    table: Numbers

    def says_yes(self, wins: Numbers, differing: Numbers, used: Numbers) -> Numbers:
        """Return where a yes is said, for many runs at once."""
        found: Numbers = (wins >= self.table[np.minimum(used, self.yes - 1), differing]) & (used < self.yes)
        return found


def make_rule(name: str, *, cases: int, looks: int, yes: int) -> GateRule:
    """Return a rule by name, for comparisons in up to so many cases."""
    numbers = np.arange(cases + 1)
    match name:
        case "by depth":
            levels: Sequence[float] = [math.exp(-level) for level in depth_levels(looks, yes=yes, beta=BETA)]
        case "every look at beta":
            levels = [BETA] * yes
        case "Bonferroni, any number of yes":
            yes, levels = looks, [BETA / looks] * looks
        case _:
            return GateRule(name, yes, np.tile(numbers // 2 + 1, (yes, 1)))
    return GateRule(name, yes, np.array([count_wins(numbers, level) for level in levels]))


def climb_on_noise(rule: str, runs: int, seed: int) -> tuple[int, float]:
    """Return how many climbs on fair coins were told a yes, and true yes a run: each look flips a fifth of the answers."""
    cases, looks = 100, 100
    decide, random, false = make_rule(rule, cases=cases, looks=looks, yes=5), _bits(seed), 0
    for _ in range(runs // _POOL):
        truth, best = random.random((2, _POOL, cases)) < 0.5
        used, wrong = np.zeros(_POOL, dtype=int), np.zeros(_POOL, dtype=bool)
        for _ in range(looks):
            flipped = random.random((_POOL, cases)) < 0.2
            wins = (flipped & (best != truth)).sum(axis=1)
            said = decide.says_yes(wins, flipped.sum(axis=1), used)
            best, used, wrong = np.where(said[:, None], best ^ flipped, best), used + said, wrong | said
        false += int(wrong.sum())
    return false, 0.0


def climb_with_gains(rule: str, runs: int, seed: int) -> tuple[int, float]:
    """Return how many climbs were told a false yes, and true yes a run: true improvements come in between."""
    cases, looks = 300, 100
    decide, random, false, true = make_rule(rule, cases=cases, looks=looks, yes=5), _bits(seed), 0, 0
    for _ in range(runs // _POOL):
        truth, best = random.random((2, _POOL, cases)) < 0.5
        used, wrong, known = np.zeros(_POOL, dtype=int), np.zeros(_POOL, dtype=bool), np.zeros((_POOL, cases), dtype=bool)
        for _ in range(looks):
            real = random.random(_POOL) < 0.03
            changed = (random.random((_POOL, cases)) < 0.25) & ~known  # what is still a coin
            better = np.where(changed, truth ^ (random.random((_POOL, cases)) >= 0.93), best)
            given = np.where(real[:, None], better, best ^ changed)
            differ = given != best
            said = decide.says_yes((differ & (given == truth)).sum(axis=1), differ.sum(axis=1), used)
            known |= (said & real)[:, None] & changed
            true += int((said & real).sum())
            best, used, wrong = np.where(said[:, None], given, best), used + said, wrong | (said & ~real)
        false += int(wrong.sum())
    return false, true / runs


def leak_bits(rule: str, runs: int, seed: int) -> tuple[int, float]:
    """Return how often an aggregate of 100 coins passes for better than a coin, and true yes a run: one look at each before.

    The claims are above thresholds so low that they are true, and a yes comes just where a coin did well: a bit each.
    """
    cases, looks = 200, 101
    decide, random, false, true = make_rule(rule, cases=cases, looks=looks, yes=looks), _bits(seed), 0, 0
    for _ in range(runs // 100):
        coins = random.random((100, looks - 1, cases)) < 0.5
        told = coins.sum(axis=2) > cases / 2
        votes = (np.where(told[:, :, None], 1, -1) * np.where(coins, 1, -1)).sum(axis=1)
        said = decide.says_yes((votes > 0).sum(axis=1), np.full(100, cases), told.sum(axis=1))
        false, true = false + int(said.sum()), true + int(told.sum())
    return false, true / runs


def _bits(seed: int) -> Any:  # noqa: ANN401 - a generator
    return np.random.default_rng([_SEED, seed])  # noqa: TID251 - attackers need no secrecy


ATTACKS: dict[str, Callable[[str, int, int], tuple[int, float]]] = {
    "label noise: 100 cases, 100 looks, 5 yes": climb_on_noise,
    "true gains in between: 300 cases, 100 looks, 5 yes": climb_with_gains,
    "bits of true claims: 200 cases, 101 looks, any number of yes": leak_bits,
}
FAULTS: dict[Callable[[str, int, int], tuple[int, float]], tuple[str, ...]] = {
    climb_on_noise: ("every look at beta", "strictly greater"),
    climb_with_gains: ("every look at beta", "strictly greater"),
    leak_bits: ("Bonferroni, any number of yes",),
}


def bound_rate(false: int, runs: int, *, upper: bool) -> float:
    """Return Clopper and Pearson's end for the rate, at 1e-6."""
    from scipy.special import betaincinv

    if upper:
        return 1.0 if false == runs else float(betaincinv(false + 1, runs - false, 1 - 1e-6))
    return 0.0 if not false else float(betaincinv(false, runs - false + 1, 1e-6))


def _write_attacks(path: Path, *, runs: int) -> None:
    rows = []
    for number, (name, attack) in enumerate(ATTACKS.items()):
        for rule in ("by depth", *FAULTS[attack]):
            tried = runs if rule == "by depth" else max(_POOL, runs // 10)
            false, true = attack(rule, tried, number)
            low, high = (bound_rate(false, tried, upper=upper) for upper in (False, True))
            kept = "holds" if high <= BETA else "refuted" if low > BETA else "open"
            rows.append([name, rule, f"{tried:,}", f"{false:,}", f"{low:.4f} to {high:.4f}", f"{true:.2f}", kept])
            print(" | ".join(rows[-1]), flush=True)
    words = (
        f"Runs with a false yes, at beta = {BETA}; the rate is Clopper and Pearson's at 1e-6 on each side; seeds "
        f"{_SEED}/0..2. A rule holds if the upper end is at most beta, and is refuted if the lower one is above."
    )
    header = ["attack", "rule", "runs", "false", "rate", "true yes a run", ""]
    write(path, title="Attacks on a gate", words=words, header=header, rows=rows)

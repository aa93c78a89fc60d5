"""How events are counted: on runs that are drawn after they were chosen, in two stages with a second choice in between."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from holdtrue.auditing.features import Seen
from holdtrue.auditing.limits import Counts, Rule, together
from holdtrue.auditing.outputs import Reader, drawn
from holdtrue.auditing.searching import BATCH, MANNERS, Parts, Tally, Trial, Witness, chosen, mean, searched
from holdtrue.entropy import Bits

__all__ = ["NOTHING", "provable", "proved"]

NOTHING: Final = "none: no output told the two sides apart"
_ONE_IN = 2.0**-53


def proved(trial: Trial, *, bits: Bits) -> tuple[float, str]:
    """Search and count; return the largest bound that is proved at the trial's alpha, and its event in words.

    Law: the bound is above the truth with probability at most alpha. Each manner of choosing has an equal share of alpha,
    and all of it where the manners agree before anything is counted; its stages are put together by
    :func:`~holdtrue.auditing.limits.together`, with weights that the numbers of runs fix.
    """
    reader, tallies = searched(trial)
    if not tallies:
        return 0.0, NOTHING
    manners, runs = list(MANNERS), trial.parts.counting
    stages: list[list[Counts]] = [[] for _ in manners]
    witnesses: list[Witness] = []
    for number, size in enumerate(trial.parts.stages):
        if not size:
            continue
        witnesses = [chosen(tallies, manner, rules=trial.rules, runs=runs) for manner in manners]
        if number == 0 and all(witness == witnesses[0] for witness in witnesses):
            manners, witnesses = manners[-1:], witnesses[-1:]
        counts, tallies = _counted(witnesses, tallies if number == 0 else (), trial, reader, size, bits=bits)
        for before, count in zip(stages, counts, strict=False):
            before.append(count)
        runs -= size
    bounds = [together(each, alpha=trial.alpha / len(manners)) for each in stages[: len(manners)]]
    best = int(np.argmax(bounds))
    return bounds[best], witnesses[best].words


def provable(parts: Parts, rules: Sequence[Rule], *, alpha: float) -> float:
    """Return the bound that outputs which always tell the sides apart would prove."""
    found = [0.0]
    for rule in rules:
        sizes = [(size, mean(size, pooled=rule.pooled)) for size in parts.stages if size]
        found.append(together([Counts(rule, runs, 0.0, runs, weight=size) for size, runs in sizes], alpha=alpha))
    return max(found)


def _counted(  # noqa: PLR0913 - what is counted, of which runs, and where numbers come from
    witnesses: Sequence[Witness], tallies: Sequence[Tally], trial: Trial, reader: Reader, size: int, *, bits: Bits
) -> tuple[list[Counts], list[Tally]]:
    """Run a mechanism so often on both sides; return the counts of events, and the tallies with these runs added."""
    # The same Poisson number for all that need one: each count has the law that its rule wants.
    poisson = [_poisson(mean(size, pooled=True), bits) for _ in trial.sides]
    hits = np.zeros((2, len(witnesses)))
    added = [np.zeros((2, tally.cuts.size)) for tally in tallies]
    for side, data in enumerate(trial.sides):
        limits = [poisson[side] if witness.rule.pooled else size for witness in witnesses]
        for start in range(0, size, BATCH):
            seen = Seen(reader.matrix(drawn(trial.run, data, min(BATCH, size - start))))
            for place, witness in enumerate(witnesses):
                hits[side, place] += witness.happened(seen)[: max(0, limits[place] - start)].sum()
            for total, tally in zip(added, tallies, strict=True):
                total[side] += tally.passed(seen)
    counts = []
    for place, witness in enumerate(witnesses):
        pooled = witness.rule.pooled
        first, second = hits[::-1, place] if witness.swapped else hits[:, place]
        valid = not pooled or max(poisson) <= size
        counts.append(Counts(witness.rule, float(first), float(second), mean(size, pooled=pooled), size, valid))
    grown = [
        replace(tally, over=(tally.over[0] + total[0], tally.over[1] + total[1]), size=tally.size + size)
        for tally, total in zip(tallies, added, strict=True)
    ]
    return counts, grown


def _poisson(expected: float, bits: Bits) -> int:
    """Draw from the Poisson law by inversion of a uniform of 53 bits: within 1e-9 of it in total variation."""
    from scipy import special

    uniform = (int(bits.words(1)[0]) >> 11) * _ONE_IN + _ONE_IN / 2
    reach = 12 * math.sqrt(expected) + 40
    around = np.arange(max(0, math.floor(expected - reach)), math.ceil(expected + reach))
    return int(around[0] + np.searchsorted(special.pdtr(around, expected), uniform))

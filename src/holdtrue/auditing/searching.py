"""How an event is found and then counted: never on the same outputs.

Outputs come in four parts. The first makes scores, the second sifts events of the form "score at least c" or "below c", the
third, with the second, chooses up to three of the few that are left, each with the order of the two sides and the rule, and
the fourth is only counted. It is drawn after the choice is made, so the rules' guarantees hold whatever was tried.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.features import Seen
from holdtrue.auditing.limits import Floats, Rule
from holdtrue.auditing.outputs import Reader, Run, drawn
from holdtrue.auditing.scores import Score, scores
from holdtrue.entropy import Bits

__all__ = ["NOTHING", "Parts", "Trial", "Witness", "counted", "found"]

NOTHING: Final = "none: no output told the two sides apart"

_BATCH = 1 << 18
_MOST_SEARCHED = 5 << 18
_MOST_VALUES = 5 << 21
_CUTS = 160
_FEW_CUTS = 400
_SPARE = 5.0
# Sifting keeps, for each of these numbers of standard deviations that luck is charged with, the most promising events.
_CAUTION = (1.0, 2.0, 3.0)
_KEPT = 8
# Of what is left, the best when luck is charged with so many is chosen, and is counted with such a share of alpha.
_CHOICES = {0.5: 0.15, 1.5: 0.7, 3.0: 0.15}
_ONE_IN = 2.0**-53


@dataclass(frozen=True, slots=True)
class Parts:
    """How many runs on each side make scores, sift events, choose one of them, and are counted."""

    learning: int
    sifting: int
    choosing: int
    counting: int

    @classmethod
    def of(cls, samples: int, share: float, *, width: int = 1) -> "Parts":
        """Spend a share of the samples on the search, a fifth of it on scores; memory bounds how many that can be.

        ``width`` is how many numbers an output has.
        """
        fifth = min(math.floor(samples * share), max(_MOST_SEARCHED, _MOST_VALUES // width)) // 5
        return cls(fifth, 2 * fifth, 2 * fifth, samples - 5 * fifth)

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """Return where the three steps of the search find their outputs; the last step looks at those sifted on as well."""
        ends = self.learning, self.learning + self.sifting, self.searched
        return slice(0, ends[0]), slice(ends[0], ends[1]), slice(ends[0], ends[2])

    @property
    def searched(self) -> int:
        """Return how many runs on each side the search takes."""
        return self.learning + self.sifting + self.choosing

    def mean(self, *, pooled: bool) -> float:
        """Return the mean number of runs counted on a side: less than there are where it is drawn."""
        return max(1.0, self.counting - _SPARE * math.sqrt(self.counting)) if pooled else float(self.counting)


@dataclass(frozen=True, slots=True)
class Witness:
    """An event, the side on which it is likelier, which rule its counts will be put through, and its share of alpha."""

    reader: Reader
    score: Score
    cut: float
    above: bool
    swapped: bool
    rule: int
    share: float = 0.0

    @property
    def words(self) -> str:
        """Return the event in words."""
        sign = "at least" if self.above else "below"
        side = "right" if self.swapped else "left"
        return f"{self.score.words} is {sign} {self.cut:.6g}; likelier on the {side}"

    def happened(self, seen: Seen) -> npt.NDArray[np.bool_]:
        """Return for each output whether it is in the event."""
        # Events often differ in their cuts alone.
        high: npt.NDArray[np.bool_] = seen.once(self.score, lambda: self.score(seen)) >= self.cut
        return high if self.above else ~high


@dataclass(frozen=True, slots=True)
class Trial:
    """A mechanism on two data sets, how many runs there are, and the rules by which something may be proved at a level."""

    run: Run
    left: object
    right: object
    parts: Parts
    rules: Callable[[float], Sequence[Rule]]
    alpha: float

    @property
    def sides(self) -> tuple[object, object]:
        """Return both data sets."""
        return self.left, self.right


def found(trial: Trial) -> list[Witness]:
    """Search for the events that promise most: a bold choice, a careful one, and one in between; none where none do."""
    parts = trial.parts
    outputs = [_gathered(trial.run, data, parts.searched) for data in trial.sides]
    learning, sifting, choosing = parts.slices
    reader = Reader.of(*(side[learning] for side in outputs))
    matrices = [reader.matrix(side) for side in outputs]
    first, sifted, chosen = (tuple(Seen(side[part]) for side in matrices) for part in (learning, sifting, choosing))
    tried = trial.rules(trial.alpha * max(_CHOICES.values()))
    kept: list[list[tuple[float, Witness]]] = [[] for _ in _CAUTION]
    for score in scores(first[0], first[1], reader.numeric):
        sides = _Sides.of(score(sifted[0]), score(sifted[1]))
        for number, rule in enumerate(tried):
            for place, promise, cut, above, swapped in sides.best(rule, parts.mean(pooled=rule.pooled)):
                kept[place].append((promise, Witness(reader, score, cut, above, swapped, number)))
    left_over = {id(w): w for each in kept for _, w in sorted(each, key=lambda pair: -pair[0])[:_KEPT]}
    promises = [(*_promise_again(w, chosen, tried[w.rule], parts), w) for w in left_over.values()]
    return _chosen(promises)


def _chosen(promises: Sequence[tuple[float, float, Witness]]) -> list[Witness]:
    """Return the best for each degree of caution; one that is best for several has the shares of all of them."""
    best: dict[int, Witness] = {}
    for caution, share in _CHOICES.items() if promises else ():
        _, _, witness = max(promises, key=lambda each: each[0] - caution * each[1])
        before = best.get(id(witness), witness)
        best[id(witness)] = replace(before, share=before.share + share)
    return list(best.values())


def _gathered(run: Run, data: object, size: int) -> npt.NDArray[Any]:
    """Run a mechanism in batches; shorter rows are filled up with NaN."""
    made = [drawn(run, data, min(_BATCH, size - start)) for start in range(0, size, _BATCH)]
    width = max(each.shape[1] for each in made)
    if any(each.shape[1] < width for each in made):
        made = [np.pad(each.astype(object), ((0, 0), (0, width - each.shape[1])), constant_values=np.nan) for each in made]
    return np.concatenate(made)


def _promise_again(witness: Witness, chosen: tuple[Seen, ...], rule: Rule, parts: Parts) -> tuple[float, float]:
    hits = [np.array([float(witness.happened(seen).sum())]) for seen in chosen]
    expected, luck = _promises(
        *(hits[::-1] if witness.swapped else hits),
        size=chosen[0].matrix.shape[0],
        rule=rule,
        runs=parts.mean(pooled=rule.pooled),
    )
    return float(expected[0]), float(luck[0])


@dataclass(frozen=True, slots=True)
class _Sides:
    """A score's cuts, and how many outputs of each side lie at or above each."""

    cuts: Floats
    over: tuple[Floats, Floats]
    size: int

    @classmethod
    def of(cls, left: Floats, right: Floats) -> "_Sides":
        left, right = np.sort(left), np.sort(right)
        cuts = _cuts(np.sort(np.concatenate([left, right]), kind="stable"))
        over = tuple((side.size - np.searchsorted(side, cuts)).astype(np.float64) for side in (left, right))
        return cls(cuts, (over[0], over[1]), left.size)

    def best(self, rule: Rule, runs: float) -> Iterator[tuple[int, float, float, bool, bool]]:
        """Return for each degree of caution the most promising event: its promise, its cut, the side of it, the order."""
        if self.cuts.size == 0:
            return
        found = []
        for above in (True, False):
            for swapped in (False, True):
                hits = [side if above else self.size - side for side in self.over]
                promises = _promises(*(hits[::-1] if swapped else hits), size=self.size, rule=rule, runs=runs)
                found.append((above, swapped, *promises))
        for place, caution in enumerate(_CAUTION):
            worths = [expected - caution * luck for _, _, expected, luck in found]
            which = int(np.argmax([worth.max() for worth in worths]))
            cut = int(worths[which].argmax())
            yield place, float(worths[which][cut]), float(self.cuts[cut]), found[which][0], found[which][1]


def _promises(first: Floats, second: Floats, *, size: int, rule: Rule, runs: float) -> tuple[Floats, Floats]:
    """Return the bounds to be expected from events with these hits, and what luck in so few hits may have added."""
    scale = runs / size
    expected = rule.limit(first * scale, np.minimum((second + 0.5) * scale, runs), runs)
    p, q = (first + 1) / (size + 2), (second + 1) / (size + 2)
    if rule.relative:
        return expected, np.sqrt(((1 - p) / p + (1 - q) / q) / size)
    return expected, np.sqrt((p * (1 - p) + q * (1 - q)) / size)


def _cuts(pooled: Floats) -> Floats:
    """Return values to cut at: all where they are few, else ranks that lie closer together towards both ends."""
    some = np.unique(pooled)
    if some.size > _FEW_CUTS:
        ranks = np.unique(np.geomspace(1, pooled.size // 2, _CUTS).astype(np.int64))
        some = np.unique(pooled[np.concatenate([ranks, pooled.size - ranks])])
    return some[1:] if some.size and some[0] == pooled[0] else some


def counted(witnesses: Sequence[Witness], trial: Trial, *, bits: Bits) -> tuple[float, str]:
    """Count the events in fresh runs; return the largest bound that their rules prove, and its event in words.

    Every event has its share of alpha, and the shares add up to 1, so that all bounds hold at once but for alpha.
    """
    if not witnesses:
        return 0.0, NOTHING
    parts = trial.parts
    asked = [trial.rules(trial.alpha * witness.share)[witness.rule] for witness in witnesses]
    # The same Poisson number for all that need one: each count has the law that its rule wants.
    poisson = [_poisson(parts.mean(pooled=True), bits) for _ in trial.sides]
    limits = [[drawn_runs if rule.pooled else parts.counting for rule in asked] for drawn_runs in poisson]
    hits = [_hits(witnesses, trial, data, limits[side]) for side, data in enumerate(trial.sides)]
    best = 0.0, witnesses[-1].words
    for place, (witness, rule) in enumerate(zip(witnesses, asked, strict=True)):
        if rule.pooled and max(poisson) > parts.counting:
            continue
        first, second = (hits[side][place] for side in ((1, 0) if witness.swapped else (0, 1)))
        bound = float(rule.bound(float(first), float(second), parts.mean(pooled=rule.pooled)))
        best = max(best, (bound, witness.words))
    return best


def _hits(witnesses: Sequence[Witness], trial: Trial, data: object, limits: Sequence[int]) -> list[int]:
    """Run a mechanism, and return how often each event happened in as many of the first runs as are asked for it."""
    totals = [0] * len(witnesses)
    for start in range(0, trial.parts.counting, _BATCH):
        size = min(_BATCH, trial.parts.counting - start)
        seen = Seen(witnesses[0].reader.matrix(drawn(trial.run, data, size)))
        for place, witness in enumerate(witnesses):
            totals[place] += int(witness.happened(seen)[: max(0, limits[place] - start)].sum())
    return totals


def _poisson(mean: float, bits: Bits) -> int:
    """Draw from the Poisson law by inversion of a uniform of 53 bits: within 1e-9 of it in total variation."""
    from scipy import special

    uniform = (int(bits.words(1)[0]) >> 11) * _ONE_IN + _ONE_IN / 2
    reach = 12 * math.sqrt(mean) + 40
    around = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach))
    return int(around[0] + np.searchsorted(special.pdtr(around, mean), uniform))

"""How events are found and counted: scores are made, sifted, the best cuts of the few that are left are chosen, twice.

Outputs come in parts. The first makes scores, the second sifts events of the form "score at least c" or "below c", the
third, with the second, chooses among all cuts of the scores that are left. None of that can make a bound wrong, only weak.
What is drawn after that is counted in two stages, and between them the choice is made again, on all that was seen so far.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.search.confidence_bounds import BoundRule, Counts, Floats, combine_stages
from holdtrue.auditing.search.outputs import OutputReader, Run, Seen, draw_outputs
from holdtrue.auditing.search.scores import OutputScore, make_scores
from holdtrue.entropy import Bits

__all__ = [
    "NOTHING",
    "STRATEGIES",
    "ChosenEvent",
    "Parts",
    "Strategy",
    "Tally",
    "Trial",
    "choose_event",
    "largest_provable",
    "mean_runs",
    "prove_bound",
    "search_scores",
]

NOTHING: Final = "none: no output differed between the two sides"
_BATCH: Final = 1 << 18
_ONE_IN = 2.0**-53
_MOST_SEARCHED = 5 << 18
_MOST_VALUES = 5 << 21
_CUTS = 160
_FEW_CUTS = 400
_SPARE = 5.0
# Sifting keeps, for each of these numbers of standard deviations that luck is charged with, the most promising events.
_CAUTION = (1.0, 2.0, 3.0)
_KEPT = 8
_MANY = 10**6


@dataclass(frozen=True, slots=True)
class Strategy:
    """How to choose a cut: ``caution`` deviations are taken off for luck, and ``neighbours`` on each side count too.

    What tells the sides apart does so at neighbouring cuts as well; luck does not. The more outputs were seen, the less of
    it there is, and the fewer neighbours are asked, which may lie beyond the point where an event begins to tell less.
    """

    caution: float
    neighbours: int

    def rate_cuts(self, expected: Floats, luck: Floats, *, size: int) -> Floats:
        """Return a rating of each cut from its expected bound and the luck in it, when ``size`` outputs were seen."""
        asked = round(self.neighbours * min(1.0, math.sqrt(_MANY / size)))
        return _smooth_cuts(expected, asked) - self.caution * luck


STRATEGIES: Final = (Strategy(1.0, 0), Strategy(2.0, 15))
"""A bold choice, which finds rare events that tell much, and a careful one, which finds frequent ones that tell little."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How many runs on each side make scores, sift events, choose among them, and are counted, before and after a change."""

    learning: int
    sifting: int
    choosing: int
    first: int
    second: int

    @classmethod
    def of(cls, samples: int, share: float, *, width: int = 1) -> "Parts":
        """Spend a share of the samples on the search, a quarter of it on scores; memory bounds how many that can be.

        ``width`` is how many numbers an output has.
        """
        most = max(_MOST_SEARCHED, _MOST_VALUES // width)
        eighth = min(math.floor(samples * share), most) // 8
        counting = samples - 8 * eighth
        first = min(5 * counting // 12, most)
        return cls(2 * eighth, 3 * eighth, 3 * eighth, first, counting - first)

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """Return where the three steps of the search find their outputs; the last step looks at those sifted on as well."""
        ends = self.learning, self.learning + self.sifting, self.searched
        return slice(0, ends[0]), slice(ends[0], ends[1]), slice(ends[0], ends[2])

    @property
    def searched(self) -> int:
        """Return how many runs on each side the search takes."""
        return self.learning + self.sifting + self.choosing

    @property
    def stages(self) -> tuple[int, int]:
        """Return how many runs on each side are counted before the choice is made again, and after."""
        return self.first, self.second

    @property
    def counting(self) -> int:
        """Return how many runs on each side are counted."""
        return self.first + self.second


def mean_runs(runs: int, *, pooled: bool) -> float:
    """Return the mean number of runs counted on a side out of ``runs``: fewer where the number itself is drawn."""
    return max(1.0, runs - _SPARE * math.sqrt(runs)) if pooled else float(runs)


@dataclass(frozen=True, slots=True)
class ChosenEvent:
    """An event, the side on which it is likelier, and the rule its counts will be put through."""

    score: OutputScore
    cut: float
    above: bool
    swapped: bool
    rule: BoundRule

    @property
    def words(self) -> str:
        """Return the event in words."""
        sign = "at least" if self.above else "below"
        side = "right" if self.swapped else "left"
        return f"{self.score.words} is {sign} {self.cut:.6g}; likelier on the {side}"

    def find_hits(self, seen: Seen) -> npt.NDArray[np.bool_]:
        """Return for each output whether it is in the event."""
        high: npt.NDArray[np.bool_] = self.score.of_known(seen) >= self.cut
        return high if self.above else ~high


@dataclass(frozen=True, slots=True)
class Trial:
    """A mechanism on two data sets, how many runs there are, and the rules by which something may be proved, at alpha."""

    run: Run
    left: object
    right: object
    parts: Parts
    rules: Sequence[BoundRule]
    alpha: float

    @property
    def sides(self) -> tuple[object, object]:
        """Return both data sets."""
        return self.left, self.right


_Event: TypeAlias = tuple[bool, bool, BoundRule, Floats, Floats]


@dataclass(frozen=True, slots=True)
class Tally:
    """A score's cuts, how many outputs of each side lie at or above each, and of how many."""

    score: OutputScore
    cuts: Floats
    over: tuple[Floats, Floats]
    size: int

    @classmethod
    def of(cls, score: OutputScore, left: Seen, right: Seen) -> "Tally":
        """Cut a score of some outputs where their ranks say, and count."""
        sides = [np.sort(score(seen)) for seen in (left, right)]
        cuts = _choose_cuts(np.sort(np.concatenate(sides), kind="stable"))
        over = [(side.size - np.searchsorted(side, cuts)).astype(np.float64) for side in sides]
        return cls(score, cuts, (over[0], over[1]), sides[0].size)

    def count_above(self, seen: Seen) -> Floats:
        """Return how many of some outputs lie at or above each cut."""
        places = np.searchsorted(self.cuts, self.score.of_known(seen), side="right")
        found: Floats = np.bincount(places, minlength=self.cuts.size + 1)[::-1].cumsum()[-2::-1].astype(np.float64)
        return found

    def list_events(self, rules: Iterable[BoundRule], runs: int) -> Iterator[_Event]:
        """Yield side of the cut, order of the sides and rule, with the bound to expect at each cut, and its luck."""
        for above in (True, False):
            hits = [side if above else self.size - side for side in self.over]
            for swapped in (False, True):
                for rule in rules:
                    ordered = hits[::-1] if swapped else hits
                    yield above, swapped, rule, *_expect_bounds(*ordered, size=self.size, rule=rule, runs=runs)


def search_scores(trial: Trial) -> tuple[OutputReader, list[Tally]]:
    """Make scores and sift them; return how outputs are read, and the scores that are left, counted at their cuts."""
    parts = trial.parts
    outputs = [_draw_in_batches(trial.run, data, parts.searched) for data in trial.sides]
    learning, sifting, choosing = parts.slices
    reader = OutputReader.of(*(side[learning] for side in outputs))
    matrices = [reader.to_matrix(side) for side in outputs]
    first, sifted, seen = ([Seen(side[part]) for side in matrices] for part in (learning, sifting, choosing))
    kept: list[list[tuple[float, OutputScore]]] = [[] for _ in _CAUTION]
    for score in make_scores(first[0], first[1], reader.numeric):
        tally = Tally.of(score, sifted[0], sifted[1])
        if tally.cuts.size:
            for _, _, _, expected, luck in tally.list_events(trial.rules, parts.counting):
                for place, caution in enumerate(_CAUTION):
                    kept[place].append((float((expected - caution * luck).max()), score))
    left_over = {score: None for each in kept for _, score in sorted(each, key=lambda pair: -pair[0])[:_KEPT]}
    tallies = [Tally.of(score, seen[0], seen[1]) for score in left_over]
    return reader, [tally for tally in tallies if tally.cuts.size]


def choose_event(tallies: Sequence[Tally], strategy: Strategy, *, rules: Sequence[BoundRule], runs: int) -> ChosenEvent:
    """Return the event with the largest expected bound when ``runs`` are counted."""

    def candidates() -> Iterator[tuple[float, ChosenEvent]]:
        for tally in tallies:
            for above, swapped, rule, expected, luck in tally.list_events(rules, runs):
                worth = strategy.rate_cuts(expected, luck, size=tally.size)
                place = int(worth.argmax())
                yield float(worth[place]), ChosenEvent(tally.score, float(tally.cuts[place]), above, swapped, rule)

    return max(candidates(), key=lambda candidate: candidate[0])[1]


def _draw_in_batches(run: Run, data: object, size: int) -> npt.NDArray[Any]:
    """Run a mechanism in batches; shorter rows are filled up with NaN."""
    made = [draw_outputs(run, data, min(_BATCH, size - start)) for start in range(0, size, _BATCH)]
    width = max(each.shape[1] for each in made)
    if any(each.shape[1] < width for each in made):
        made = [np.pad(each.astype(object), ((0, 0), (0, width - each.shape[1])), constant_values=np.nan) for each in made]
    return np.concatenate(made)


def _expect_bounds(first: Floats, second: Floats, *, size: int, rule: BoundRule, runs: int) -> tuple[Floats, Floats]:
    """Return the bounds to be expected from events with these hits, and what luck in so few hits may have added."""
    number = mean_runs(runs, pooled=rule.pooled)
    scale = number / size
    expected = rule.limit(first * scale, np.minimum((second + 0.5) * scale, number), number)
    p, q = (first + 1) / (size + 2), (second + 1) / (size + 2)
    if rule.relative:
        return expected, np.sqrt(((1 - p) / p + (1 - q) / q) / size)
    return expected, np.sqrt((p * (1 - p) + q * (1 - q)) / size)


def _smooth_cuts(expected: Floats, neighbours: int) -> Floats:
    """Return the mean over the neighbouring cuts on both sides, if there are enough; a cut without a bound counts as -1."""
    if not neighbours or expected.size <= 2 * neighbours + 1:
        return expected
    window = np.ones(2 * neighbours + 1)
    total = np.convolve(np.where(np.isfinite(expected), expected, -1.0), window, mode="same")
    found: Floats = total / np.convolve(np.ones(expected.size), window, mode="same")
    return found


def _choose_cuts(pooled: Floats) -> Floats:
    """Return values to cut at: all where they are few, else ranks that lie closer together towards both ends."""
    some = np.unique(pooled)
    if some.size > _FEW_CUTS:
        ranks = np.unique(np.geomspace(1, pooled.size // 2, _CUTS).astype(np.int64))
        some = np.unique(pooled[np.concatenate([ranks, pooled.size - ranks])])
    return some[1:] if some.size and some[0] == pooled[0] else some


def prove_bound(trial: Trial, *, bits: Bits) -> tuple[float, str]:
    """Search and count; return the largest bound that is proved at the trial's alpha, and its event in words.

    Law: the bound is above the truth with probability at most alpha. Each strategy of choosing has an equal share of alpha,
    and all of it where the strategies agree before anything is counted; its stages are put together by
    :func:`~holdtrue.auditing.search.confidence_bounds.combine_stages`, with weights that the numbers of runs fix.
    """
    reader, tallies = search_scores(trial)
    if not tallies:
        return 0.0, NOTHING
    strategies, runs = list(STRATEGIES), trial.parts.counting
    stages: list[list[Counts]] = [[] for _ in strategies]
    events: list[ChosenEvent] = []
    for number, size in enumerate(trial.parts.stages):
        if not size:
            continue
        events = [choose_event(tallies, strategy, rules=trial.rules, runs=runs) for strategy in strategies]
        if number == 0 and all(event == events[0] for event in events):
            strategies, events = strategies[-1:], events[-1:]
        counts, tallies = _count_events(events, tallies if number == 0 else (), trial, reader, size, bits=bits)
        for before, count in zip(stages, counts, strict=False):
            before.append(count)
        runs -= size
    bounds = [combine_stages(each, alpha=trial.alpha / len(strategies)) for each in stages[: len(strategies)]]
    best = int(np.argmax(bounds))
    return bounds[best], events[best].words


def largest_provable(parts: Parts, rules: Sequence[BoundRule], *, alpha: float) -> float:
    """Return the bound that outputs which always tell the sides apart would prove."""
    found = [0.0]
    for rule in rules:
        sizes = [(size, mean_runs(size, pooled=rule.pooled)) for size in parts.stages if size]
        found.append(combine_stages([Counts(rule, runs, 0.0, runs, weight=size) for size, runs in sizes], alpha=alpha))
    return max(found)


def _count_events(  # noqa: PLR0913 - what is counted, of which runs, and where numbers come from
    events: Sequence[ChosenEvent], tallies: Sequence[Tally], trial: Trial, reader: OutputReader, size: int, *, bits: Bits
) -> tuple[list[Counts], list[Tally]]:
    """Run a mechanism ``size`` times per side; return the counts of events, and the tallies with these runs added."""
    # The same Poisson number for all that need one: each count has the law that its rule wants.
    poisson = [_draw_poisson(mean_runs(size, pooled=True), bits) for _ in trial.sides]
    hits = np.zeros((2, len(events)))
    added = [np.zeros((2, tally.cuts.size)) for tally in tallies]
    for side, data in enumerate(trial.sides):
        limits = [poisson[side] if event.rule.pooled else size for event in events]
        for start in range(0, size, _BATCH):
            seen = Seen(reader.to_matrix(draw_outputs(trial.run, data, min(_BATCH, size - start))))
            for place, event in enumerate(events):
                hits[side, place] += event.find_hits(seen)[: max(0, limits[place] - start)].sum()
            for total, tally in zip(added, tallies, strict=True):
                total[side] += tally.count_above(seen)
    counts = []
    for place, event in enumerate(events):
        pooled = event.rule.pooled
        first, second = hits[::-1, place] if event.swapped else hits[:, place]
        valid = not pooled or max(poisson) <= size
        counts.append(Counts(event.rule, float(first), float(second), mean_runs(size, pooled=pooled), size, valid))
    grown = [
        replace(tally, over=(tally.over[0] + total[0], tally.over[1] + total[1]), size=tally.size + size)
        for tally, total in zip(tallies, added, strict=True)
    ]
    return counts, grown


def _draw_poisson(expected: float, bits: Bits) -> int:
    """Draw from the Poisson law by inversion of a uniform of 53 bits: within 1e-9 of it in total variation."""
    from scipy import special

    uniform = (int(bits.words(1)[0]) >> 11) * _ONE_IN + _ONE_IN / 2
    reach = 12 * math.sqrt(expected) + 40
    around = np.arange(max(0, math.floor(expected - reach)), math.ceil(expected + reach))
    return int(around[0] + np.searchsorted(special.pdtr(around, expected), uniform))

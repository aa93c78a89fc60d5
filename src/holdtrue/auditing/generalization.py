"""Audits of generalization: how often intervals miss the population when an analyst chooses its questions along the way.

An analyst is a function of a curator and a population: it may ask anything, and learns about the rows only from the answers.
The curator that it is given is a :class:`RecordedCurator`, which passes questions on and records every answer. The named
analysts choose their last questions so as to fool themselves.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from holdtrue.auditing.findings import Finding, check_enough
from holdtrue.auditing.populations import Population, Signs, Vote
from holdtrue.auditing.search.confidence_bounds import lower_limit, upper_limit
from holdtrue.auditing.search.outputs import MOST_SAMPLES, call_function
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.errors import BudgetExceeded, InvalidParameter, UnknownName
from holdtrue.exact import Number, count, probability, truth
from holdtrue.mechanisms.choosing import Exponential
from holdtrue.records import Interval

__all__ = ["ANALYSTS", "Analyst", "Coverage", "RecordedCurator", "audit_generalization", "pick_worst"]

_EVEN = 0.5
_SCREENED = 1.15  # deviations: one column in four that knows nothing passes, as in Freedman's example
_STAGES = 4
_MONITORED_ROWS = 1000
_STEPS = 3

Analyst: TypeAlias = Callable[[Any, Any], object]
"""A function of a curator (a recorded one) and a population; what it returns is ignored, but an iterator is followed."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question of a run: the answer, and the truth."""

    question: Any
    value: float
    interval: Interval
    truth: float

    @property
    def missed(self) -> bool:
        """Return whether the interval misses the truth."""
        return self.truth not in self.interval


class Stopped(Exception):
    """The curator's budget is spent; the run ends with the answers so far."""


@dataclass(slots=True)
class RecordedCurator:
    """A curator over one sample, and every question and answer.

    Votes are asked as texts where the curator takes questions (``ask``), and as predictions where it scores them.
    ``bits`` are for analysts that toss coins.
    """

    _curator: Any
    _sample: Any
    population: Population
    bits: Bits
    exchanges: list[Exchange] = field(default_factory=list)

    def ask(self, question: Any) -> Any:  # noqa: ANN401 - whatever the population knows the truth of
        """Return the curator's answer to a question, and record it."""
        asking = getattr(self._curator, "ask", None)
        sent = question
        if isinstance(question, Vote):
            sent = question.to_query() if asking is not None else question.predict(self._sample)
        try:
            told = asking(sent) if asking is not None else self._curator.score(sent)
        except BudgetExceeded:
            raise Stopped from None
        if told.interval is None:
            expected = "a function whose curator gives intervals for the population; open it with iid=True"
            raise InvalidParameter.without_value("factory", expected)
        fresh = asking is not None or _is_of_fresh_cases(told)
        truth = self.population.mean(question if fresh else sent, sample=self._sample)
        self.exchanges.append(Exchange(question, told.value, told.interval, truth))
        return told

    def score(self, y_pred: Any) -> Any:  # noqa: ANN401 - one prediction a case, or a vote
        """Return the curator's score of predictions: the same as :meth:`ask`, under the name that holdouts use."""
        return self.ask(y_pred)


def _is_of_fresh_cases(told: object) -> bool:
    """Return whether a score is about fresh cases, as answers always are, and not these cases with fresh labels."""
    from holdtrue.holdouts.records import FRESH, Score

    return isinstance(told, Score) and told.about == FRESH


@dataclass(frozen=True, slots=True)
class Coverage(Finding):
    """How many runs of an analyst had an interval that misses the truth, beside the beta that was claimed.

    Guarantee: ``lower_bound`` is above, and ``upper_bound`` below, the true miss rate against this analyst with probability
    at most 1 - ``confidence`` each. ``violated`` says that the claim is wrong, ``held`` that it was kept: coverage of at
    least 1 - beta is shown for this analyst and this population, and for no other. ``questions`` and ``error`` are means
    over runs: of how many were asked, and of how far the worst answer was from the truth.
    """

    misses: int = 0
    upper_bound: float = 1.0
    questions: float = 0.0
    error: float = 0.0

    @property
    def runs(self) -> int:
        """Return how many samples were drawn and asked about."""
        return self.samples

    @property
    def coverage(self) -> float:
        """Return the share of runs in which every interval covered."""
        return 1 - self.misses / self.samples

    @property
    def held(self) -> bool:
        """Return whether coverage of at least 1 - beta is shown with the confidence."""
        return self.upper_bound <= self.claimed

    def lines(self) -> list[tuple[str, str]]:
        """Return the finding as names and words, a line each."""
        verdict = "VIOLATED" if self.violated else "held" if self.held else "not violated"
        return [
            ("verdict", verdict),
            ("claimed", f"{self.quantity} at most {self.claimed:.6g}"),
            ("found", f"{self.misses:,} of {self.runs:,} runs missed: {self.lower_bound:.4g} to {self.upper_bound:.4g}"),
            ("confidence", f"{self.confidence:.6g} for each end"),
            ("event", self.event),
            ("asked", f"{self.questions:.4g} questions a run; the worst answer was {self.error:.4g} off, on average"),
            *self.notes,
        ]


def audit_generalization(  # noqa: PLR0913 - who asks what of whom, and how hard to try
    factory: Callable[[Any], Any],
    analyst: str | Analyst = "sign-aggregation",
    population: Population | None = None,
    *,
    beta: Number | None = None,
    runs: int = 200,
    confidence: Number = 0.95,
    monitor: bool = False,
    bits: Bits = SYSTEM,
) -> Coverage:
    """Let an analyst ask adaptively about fresh samples, and count the runs in which any interval misses the truth.

    Law: the finding's limits are Clopper and Pearson's, so each is wrong with probability at most 1 - confidence. Needs:
    ``factory(sample)`` opens a new curator, with its own ledger, that has ``ask(query)`` or ``score(y_pred)`` and
    answers with ``value`` and ``interval``; ``population`` draws samples and knows the truth, as
    :class:`~holdtrue.auditing.Signs` does. ``analyst`` is "sign-aggregation", "screening", "greedy", "boosting", or a
    function ``analyst(curator, population)`` that asks through ``curator.ask``. A run ends early where the budget does.
    ``beta`` is read off the intervals unless given. With ``monitor`` both monitors of the lectures' proofs run as well, on
    the population's truth, and are told in the notes: one reads a transcript and names its worst question (D1), the other
    picks the worst of all runs by the exponential mechanism (B1). Fails: with
    :class:`~holdtrue.errors.InsufficientSamples` where not even intervals that always miss could prove a violation.
    """
    if population is None or not all(callable(getattr(population, name, None)) for name in ("draw", "mean")):
        raise InvalidParameter("population", population, "one that knows its truth, such as Signs(rows=2000, columns=80)")
    number, alpha = count("runs", runs, most=MOST_SAMPLES), 1 - float(probability("confidence", confidence))
    asking = _find_analyst(analyst, population) if isinstance(analyst, str) else analyst
    name = analyst if isinstance(analyst, str) else getattr(analyst, "__name__", "an analyst of your own")
    given = None if beta is None else float(probability("beta", beta))
    first = _record_run(factory, asking, population, bits)
    claimed = 1 - min(each.interval.confidence for each in first) if given is None else given
    show = f"that more than {claimed:.4g} of all miss, with this confidence"
    check_enough(number, lambda runs: claimed**runs < alpha, of="runs", show=show)
    told = [first, *(_record_run(factory, asking, population, bits) for _ in range(number - 1))]
    found = _count_misses(told, name, claimed, alpha)
    return (
        replace(found, notes=(*found.notes, *_monitor_runs(told, rows=_count_rows(population))))
        if truth("monitor", monitor)
        else found
    )


def _name_worst(run: Sequence[Exchange]) -> Exchange:
    """Return the exchange of a transcript whose answer is farthest from the population: the monitor of a transcript (D1).

    It sees answers and the population only, so what it names is as private as the answers are.
    """
    return max(run, key=lambda each: abs(each.value - each.truth))


def pick_worst(gaps: Sequence[float], *, rows: int, epsilon: float = 1.0) -> int:
    """Return a run whose gap is among the largest, by the exponential mechanism: the monitor of independent runs.

    The mean of a sample moves by 1/rows where a row is replaced, so gaps are counted in rows.
    """
    scores = [round(gap * rows) for gap in gaps]
    return int(Exponential(epsilon=epsilon, sensitivity=1).release(scores))


def _count_rows(population: Population) -> int:
    rows = getattr(population, "rows", None)
    return rows if isinstance(rows, int) else _MONITORED_ROWS


def _monitor_runs(told: Sequence[Sequence[Exchange]], *, rows: int) -> tuple[tuple[str, str], ...]:
    """Return in words what both monitors found in transcripts whose population is known."""
    named = [_name_worst(run) for run in told]
    gaps = [abs(each.value - each.truth) for each in named]
    picked = named[pick_worst(gaps, rows=rows)]
    mean = sum(gaps) / len(gaps)
    return (
        ("monitor of a run", f"names the question that is farthest off: {mean:.4g} on average, {max(gaps):.4g} at most"),
        ("monitor of runs", f"picks {picked.question}, told {picked.value:.4g}, truly {picked.truth:.4g}"),
    )


def _record_run(factory: Callable[[Any], Any], analyst: Analyst, population: Population, bits: Bits) -> list[Exchange]:
    sample = population.draw(bits)
    curator = call_function(factory, sample)
    if not callable(getattr(curator, "ask", None)) and not callable(getattr(curator, "score", None)):
        raise InvalidParameter.without_value(
            "factory", f"a function that returns something with ask or score, not a {type(curator).__name__}"
        )
    recorded = RecordedCurator(curator, sample, population, bits)
    try:
        made = analyst(recorded, population)
        if isinstance(made, Iterator):
            deque(made, maxlen=0)
    except Stopped:
        pass
    finally:
        if callable(close := getattr(curator, "close", None)):
            close()
    if not recorded.exchanges:
        raise InvalidParameter.without_value("analyst", "a function that calls curator.ask; this one asked nothing")
    return recorded.exchanges


def _count_misses(told: list[list[Exchange]], name: str, claimed: float, alpha: float) -> Coverage:
    runs, missed = len(told), [[each for each in run if each.missed] for run in told]
    misses = sum(map(bool, missed))
    low, high = (float(limit(misses, runs, alpha=alpha)) for limit in (lower_limit, upper_limit))
    first = next((run[0] for run in missed if run), None)
    seen = "" if first is None else f"; the first to miss: {first.question} in {first.interval}, truly {first.truth:.4g}"
    if low > claimed:
        said = f"more than {low:.4g} of all runs miss: {claimed:.4g} was claimed. The claim is wrong."
    elif high <= claimed:
        said = f"at most {high:.4g} of all runs miss; {claimed:.4g} was claimed. The claim held."
    else:
        said = f"{low:.4g} to {high:.4g} of all runs miss; {claimed:.4g} was claimed. Nothing contradicts it."
        needed = math.ceil(math.log(alpha) / math.log1p(-claimed))
        said += f" {needed:,} runs without a miss would show that it holds." if runs < needed else ""
    return Coverage(
        "miss rate",
        claimed,
        low,
        1 - alpha,
        runs,
        f"any interval of a run of {name} misses the truth{seen}",
        f"With confidence {1 - alpha:.6g}, against {name}, {said}",
        misses=misses,
        upper_bound=high,
        questions=sum(map(len, told)) / runs,
        error=sum(max(abs(each.value - each.truth) for each in run) for run in told) / runs,
    )


def _find_analyst(name: str, population: Population) -> Analyst:
    """Return the analyst of that name."""
    if name not in ANALYSTS:
        message = f"there is no analyst {name!r}: give one of {', '.join(ANALYSTS)}, or a function of curator and population"
        raise UnknownName(message)
    if not isinstance(population, Signs):
        expected = "Signs, whose columns the named analysts ask about; or a function as the analyst"
        raise InvalidParameter("population", type(population).__name__, expected)
    return ANALYSTS[name]


def _ask_columns(curator: RecordedCurator, population: Signs) -> dict[int, float]:
    """Ask how often each column agrees with the label; return by how much each answer exceeds one half."""
    return {column: curator.ask(Vote.of({column: 1})).value - _EVEN for column in range(population.columns)}


def _round_to_signs(edges: Mapping[int, float]) -> dict[int, int]:
    return {column: 1 if edge > 0 else -1 for column, edge in edges.items()}


def _sort_by_edge(edges: Mapping[int, float]) -> list[int]:
    return sorted(edges, key=lambda column: -abs(edges[column]))


def aggregate_signs(curator: RecordedCurator, population: Signs) -> None:
    """Ask about every column, turn each to the side it leans to, and ask how often they are right together (N6)."""
    curator.ask(Vote.of(_round_to_signs(_ask_columns(curator, population))))


def screen_columns(curator: RecordedCurator, population: Signs) -> None:
    """Keep the columns that correlate with the label and ask about those alone, then about the best half of them, and so on.

    After Freedman (1983), who screened at one in four and then tested as if nothing had been screened.
    """
    edges = _ask_columns(curator, population)
    order = _sort_by_edge(edges)
    kept = [column for column in order if abs(edges[column]) > _SCREENED * _EVEN / math.sqrt(population.rows)] or order[:1]
    while kept:
        curator.ask(Vote.of(_round_to_signs({column: edges[column] for column in kept})))
        kept = kept[: len(kept) // 2]


def build_greedily(curator: RecordedCurator, population: Signs) -> None:
    """Build a vote forwards: two more columns at a time, the ones that lean most first, kept if the answer gets better."""
    edges = _ask_columns(curator, population)
    order, signs = _sort_by_edge(edges), _round_to_signs(edges)
    chosen, best = order[:1], abs(edges[order[0]])
    for place in range(1, len(order) - 1, 2):
        tried = chosen + order[place : place + 2]
        edge = curator.ask(Vote.of({column: signs[column] for column in tried})).value - _EVEN
        chosen, best = (tried, edge) if edge > best else (chosen, best)


def boost_columns(curator: RecordedCurator, population: Signs) -> None:
    """Weigh columns by the log-odds they are told to have, as boosting does, and ask for the vote after every stage."""
    edges: dict[int, float] = {}
    stage = math.ceil(population.columns / _STAGES)
    for column in range(population.columns):
        edges[column] = curator.ask(Vote.of({column: 1})).value - _EVEN
        if (column + 1) % stage == 0 or column + 1 == population.columns:
            curator.ask(_weigh_by_odds(edges))


def _weigh_by_odds(edges: Mapping[int, float]) -> Vote:
    """Return the vote by log-odds in whole steps. Columns that weigh less than half a step are left out."""
    odds = {column: math.atanh(max(-1 + 1e-9, min(1 - 1e-9, 2 * edge))) for column, edge in edges.items()}
    step = max(max(map(abs, odds.values())) / _STEPS, 1e-12)
    weights = {column: round(value / step) for column, value in odds.items()}
    heavy = {column: weight for column, weight in weights.items() if weight}
    return Vote.of(heavy or dict.fromkeys(edges, 1))


ANALYSTS: dict[str, Analyst] = {
    "boosting": boost_columns,
    "greedy": build_greedily,
    "screening": screen_columns,
    "sign-aggregation": aggregate_signs,
}

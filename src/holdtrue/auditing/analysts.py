"""Adaptive analysts with names, who choose their last questions so as to fool themselves, and the witness of a run.

An analyst is a function of a curator and a population: it may ask what it likes, and knows of the rows what it is told. What
it is given as the curator is a :class:`Witness`, which passes questions on and writes down every answer.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from holdtrue.auditing.populations import Population, Signs, Vote
from holdtrue.entropy import Bits
from holdtrue.errors import BudgetExceeded, InvalidParameter, UnknownName
from holdtrue.records import Interval

__all__ = ["ANALYSTS", "Analyst", "Exchange", "Stopped", "Told", "Witness", "named"]

_EVEN = 0.5
_SCREENED = 1.15  # deviations: one column in four that knows nothing passes, as in Freedman's example
_STAGES = 4
_STEPS = 3


class Told(Protocol):
    """What an answer must have: a value, and an interval for the population."""

    @property
    def value(self) -> float:
        """Return the answer."""
        ...

    @property
    def interval(self) -> Interval | None:
        """Return the interval that must cover the truth."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question of a run: what was told, and what is true."""

    question: Any
    value: float
    interval: Interval
    truth: float

    @property
    def missed(self) -> bool:
        """Return whether the interval misses the truth."""
        return self.truth not in self.interval


class Stopped(Exception):
    """The curator has nothing left to give; the run ends with what was told so far."""


@dataclass(slots=True)
class Witness:
    """A curator over one sample, and everything that it was asked.

    Votes are asked as texts where the curator takes questions (``ask``), and as predictions where it scores them.
    ``bits`` are for analysts that toss coins.
    """

    _curator: Any
    _sample: Any
    population: Population
    bits: Bits
    exchanges: list[Exchange] = field(default_factory=list)

    def ask(self, question: Any) -> Told:  # noqa: ANN401 - whatever the population knows the truth of
        """Return what the curator tells of a question, and write it down."""
        asking = getattr(self._curator, "ask", None)
        sent = question
        if isinstance(question, Vote):
            sent = question.text if asking is not None else question.predict(self._sample)
        try:
            told: Told = asking(sent) if asking is not None else self._curator.score(sent)
        except BudgetExceeded:
            raise Stopped from None
        if told.interval is None:
            expected = "one whose answers have intervals for the population: a curator opened with iid=True"
            raise InvalidParameter("factory", "a curator without them", expected)
        fresh = asking is not None or _of_fresh_cases(told)
        truth = self.population.mean(question if fresh else sent, sample=self._sample)
        self.exchanges.append(Exchange(question, told.value, told.interval, truth))
        return told

    def score(self, y_pred: Any) -> Told:  # noqa: ANN401 - one prediction a case, or a vote
        """Return what the curator tells of predictions: the same as :meth:`ask`, in the word that holdouts have for it."""
        return self.ask(y_pred)


def _of_fresh_cases(told: Told) -> bool:
    """Return whether a score speaks of fresh cases, as questions always do, or of these very cases with fresh labels."""
    from holdtrue.holdouts.records import FRESH, Score

    return isinstance(told, Score) and told.about == FRESH


Analyst: TypeAlias = Callable[[Any, Any], object]
"""A function of a curator (a witness) and a population; what it returns is not looked at, but an iterator is followed."""


def named(name: str, population: Population) -> Analyst:
    """Return the analyst of that name."""
    if name not in ANALYSTS:
        message = f"there is no analyst {name!r}: give one of {', '.join(ANALYSTS)}, or a function of curator and population"
        raise UnknownName(message)
    if not isinstance(population, Signs):
        expected = "Signs, whose columns the named analysts ask about; or a function as the analyst"
        raise InvalidParameter("population", type(population).__name__, expected)
    return ANALYSTS[name]


def _edges(curator: Witness, population: Signs) -> dict[int, float]:
    """Ask whether each column agrees with the label; return by how much more often than a coin it is told to."""
    return {column: curator.ask(Vote.of({column: 1})).value - _EVEN for column in range(population.columns)}


def _signed(edges: Mapping[int, float]) -> dict[int, int]:
    return {column: 1 if edge > 0 else -1 for column, edge in edges.items()}


def _by_edge(edges: Mapping[int, float]) -> list[int]:
    return sorted(edges, key=lambda column: -abs(edges[column]))


def sign_aggregation(curator: Witness, population: Signs) -> None:
    """Ask about every column, turn each to the side it leans to, and ask how often they are right together (P6)."""
    curator.ask(Vote.of(_signed(_edges(curator, population))))


def screening(curator: Witness, population: Signs) -> None:
    """Keep the columns that correlate with the label and ask about those alone, then about the best half of them, and so on.

    After Freedman (1983), who screened at one in four and then tested as if nothing had been screened.
    """
    edges = _edges(curator, population)
    order = _by_edge(edges)
    kept = [column for column in order if abs(edges[column]) > _SCREENED * _EVEN / math.sqrt(population.rows)] or order[:1]
    while kept:
        curator.ask(Vote.of(_signed({column: edges[column] for column in kept})))
        kept = kept[: len(kept) // 2]


def greedy(curator: Witness, population: Signs) -> None:
    """Build a vote forwards: two more columns at a time, the ones that lean most first, kept if the answer gets better."""
    edges = _edges(curator, population)
    order, signs = _by_edge(edges), _signed(edges)
    chosen, best = order[:1], abs(edges[order[0]])
    for place in range(1, len(order) - 1, 2):
        tried = chosen + order[place : place + 2]
        edge = curator.ask(Vote.of({column: signs[column] for column in tried})).value - _EVEN
        chosen, best = (tried, edge) if edge > best else (chosen, best)


def boosting(curator: Witness, population: Signs) -> None:
    """Weigh columns by the log-odds they are told to have, as boosting does, and ask for the vote after every stage."""
    edges: dict[int, float] = {}
    stage = math.ceil(population.columns / _STAGES)
    for column in range(population.columns):
        edges[column] = curator.ask(Vote.of({column: 1})).value - _EVEN
        if (column + 1) % stage == 0 or column + 1 == population.columns:
            curator.ask(_weighed(edges))


def _weighed(edges: Mapping[int, float]) -> Vote:
    """Return the vote by log-odds in whole steps. Columns that weigh less than half a step are left out."""
    odds = {column: math.atanh(max(-1 + 1e-9, min(1 - 1e-9, 2 * edge))) for column, edge in edges.items()}
    step = max(max(map(abs, odds.values())) / _STEPS, 1e-12)
    weights = {column: round(value / step) for column, value in odds.items()}
    heavy = {column: weight for column, weight in weights.items() if weight}
    return Vote.of(heavy or dict.fromkeys(edges, 1))


ANALYSTS: dict[str, Analyst] = {
    "boosting": boosting,
    "greedy": greedy,
    "screening": screening,
    "sign-aggregation": sign_aggregation,
}

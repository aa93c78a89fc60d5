"""Audits of generalization: how often intervals miss the population when an analyst chooses its questions along the way."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from holdtrue.auditing.analysts import Analyst, Exchange, Stopped, Witness, named
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.limits import lower_limit, upper_limit
from holdtrue.auditing.outputs import MOST_SAMPLES, call
from holdtrue.auditing.populations import Population
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import Number, count, probability

__all__ = ["Coverage", "audit_generalization"]


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
    bits: Bits = SYSTEM,
) -> Coverage:
    """Let an analyst ask adaptively about fresh samples, and count the runs in which any interval misses the truth.

    Law: the finding's limits are Clopper and Pearson's, so each is wrong with probability at most 1 - confidence. Needs:
    ``factory(sample)`` opens a new curator, with a ledger of its own, that has ``ask(query)`` or ``score(y_pred)`` and
    answers with ``value`` and ``interval``; ``population`` draws samples and knows the truth, as
    :class:`~holdtrue.auditing.Signs` does. ``analyst`` is "sign-aggregation", "screening", "greedy", "boosting", or a
    function ``analyst(curator, population)`` that asks through ``curator.ask``. A run ends early where the budget does.
    ``beta`` is read off the intervals unless given. Fails: with :class:`~holdtrue.errors.InsufficientSamples` where not
    even intervals that always miss could prove a violation.
    """
    if not callable(getattr(population, "draw", None)) or not callable(getattr(population, "mean", None)):
        raise InvalidParameter("population", population, "one that knows its truth, such as Signs(rows=2000, columns=80)")
    number, alpha = count("runs", runs, most=MOST_SAMPLES), 1 - float(probability("confidence", confidence))
    asking = named(analyst, population) if isinstance(analyst, str) else analyst
    name = analyst if isinstance(analyst, str) else getattr(analyst, "__name__", "an analyst of your own")
    claimed = None if beta is None else float(probability("beta", beta))
    told: list[list[Exchange]] = []
    for _ in range(number):
        told.append(_one_run(factory, asking, population, bits))
        claimed = 1 - min(each.interval.confidence for each in told[0]) if claimed is None else claimed
        _enough_runs(number, claimed, alpha)
    return _coverage(told, name, float(claimed or 0.0), alpha)


def _one_run(factory: Callable[[Any], Any], analyst: Analyst, population: Population, bits: Bits) -> list[Exchange]:
    sample = population.draw(bits)
    curator = call(factory, sample)
    if not callable(getattr(curator, "ask", None)) and not callable(getattr(curator, "score", None)):
        raise InvalidParameter("factory", f"one of {type(curator).__name__}", "a function that opens what has ask or score")
    witness = Witness(curator, sample, population, bits)
    try:
        made = analyst(witness, population)
        if isinstance(made, Iterator):
            deque(made, maxlen=0)
    except Stopped:
        pass
    finally:
        if callable(close := getattr(curator, "close", None)):
            close()
    if not witness.exchanges:
        raise InvalidParameter("analyst", "one who asked nothing", "a function that asks through curator.ask")
    return witness.exchanges


def _enough_runs(runs: int, claimed: float, alpha: float) -> None:
    """Refuse runs all of which could miss without proving anything: alpha^(1 / runs) must pass the claim."""
    required = 1 if claimed <= 0 else math.floor(math.log(alpha) / math.log(claimed)) + 1
    if runs < required:
        message = (
            f"{runs:,} runs cannot show that more than {claimed:.4g} of all miss, with this confidence: {required:,} could"
        )
        raise InsufficientSamples(message, required=required)


def _coverage(told: list[list[Exchange]], name: str, claimed: float, alpha: float) -> Coverage:
    runs, missed = len(told), [[each for each in run if each.missed] for run in told]
    misses = sum(map(bool, missed))
    low, high = (float(limit(misses, runs, alpha=alpha)) for limit in (lower_limit, upper_limit))
    first = next((run[0] for run in missed if run), None)
    seen = "" if first is None else f"; the first to miss: {first.question} in {first.interval}, truly {first.truth:.4g}"
    error = sum(max(abs(each.value - each.truth) for each in run) for run in told) / runs
    return Coverage(
        "miss rate",
        claimed,
        low,
        1 - alpha,
        runs,
        f"any interval of a run of {name} misses the truth{seen}",
        _sentence(claimed, (low, high), alpha, name=name, runs=runs),
        misses=misses,
        upper_bound=high,
        questions=sum(map(len, told)) / runs,
        error=error,
    )


def _sentence(claimed: float, limits: tuple[float, float], alpha: float, *, name: str, runs: int) -> str:
    low, high = limits
    sure = f"With confidence {1 - alpha:.6g}, against {name}"
    if low > claimed:
        return f"{sure}, more than {low:.4g} of all runs miss: {claimed:.4g} was claimed. The claim is wrong."
    if high <= claimed:
        return f"{sure}, at most {high:.4g} of all runs miss; {claimed:.4g} was claimed. The claim held."
    needed = math.ceil(math.log(alpha) / math.log1p(-claimed))
    more = f" {needed:,} runs without a miss would show that it holds." if runs < needed else ""
    return f"{sure}, {low:.4g} to {high:.4g} of all runs miss; {claimed:.4g} was claimed. Nothing contradicts it.{more}"

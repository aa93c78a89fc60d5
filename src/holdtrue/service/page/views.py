"""From records to what a page shows: plain numbers and words, nothing that is not in the ledger or on the card."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from anyio import to_thread
from starlette.requests import Request

from holdtrue.curator import Curator
from holdtrue.curator.budget import Budget
from holdtrue.curator.history import Line
from holdtrue.demo.population import EXAMPLES
from holdtrue.errors import HoldtrueError
from holdtrue.exact import amount
from holdtrue.planning.methods import REACHES
from holdtrue.planning.plans import AnyPlan, OpenPlan
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.sql_words import quote_text, spell_name
from holdtrue.records import Answer, Response
from holdtrue.reports import promise, questions_of
from holdtrue.service import service_of
from holdtrue.service.datasets import Dataset, visible_page
from holdtrue.service.http.learners import ESTIMATORS
from holdtrue.service.identity import Caller
from holdtrue.service.identity.api_keys import Share, share_of
from holdtrue.service.page.form_fields import list_statistics
from holdtrue.service.page.summary_views import make_builder, suggest_points

__all__ = ["AskedQuestion", "DatasetStanding", "Gauge", "find_dataset", "from_answer", "make_context", "read_standing"]

Truth = Callable[[str], float] | None

_DRAWN = 12
_LISTED = 50
_LONGEST = 4096
_SUGGESTED = 6


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question with its answer. Ends and truth are None where there are none."""

    entry: int
    time: datetime
    analyst: str
    verb: str
    question: str
    said: str
    cost: float
    digest: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    near: float | None = None
    far: float | None = None
    truth: float | None = None
    repeated: bool = False
    reason: str | None = None
    confidence: float | None = None
    theorem: str | None = None
    why: str | None = None
    deduced: bool = False

    @property
    def holds(self) -> bool | None:
        """Return whether the truth is inside the interval; None where one of them is not known."""
        if self.truth is None or self.low is None or self.high is None:
            return None
        return self.low <= self.truth <= self.high

    @property
    def receipt(self) -> str:
        """Return what to keep away from the ledger."""
        return f"{self.entry}:{self.digest}"


@dataclass(frozen=True, slots=True)
class Gauge:
    """A budget as shares of its cap; ``beside`` says what a second purse has left for other verbs than ask."""

    spent: float
    reserve: float
    next: float
    asks: int
    queries: int
    beside: str = ""

    @property
    def has_reserve(self) -> bool:
        """Return whether anything is left for other verbs than ask."""
        return self.reserve > 0 or bool(self.beside)

    @classmethod
    def of(cls, budget: Budget, plan: AnyPlan) -> "Gauge":
        """Return the shares."""
        cap = budget.cap or 1.0
        kept = plan.use_units > 0 or isinstance(plan, OpenPlan)
        return cls(
            spent=min(1.0, budget.spent / cap),
            reserve=min(1.0, budget.reserve / cap) if budget.purse is None and kept else 0.0,
            next=amount(plan.cost) / cap,
            asks=budget.asks,
            queries=plan.queries,
            beside=f"{budget.reserve:.4g} {budget.reserve_unit}" if budget.purse is not None and budget.reserve else "",
        )

    @property
    def words(self) -> str:
        """Return the same in words, for those who cannot see it."""
        return f"{self.spent:.1%} of the budget spent; {self.asks:,} of {self.queries:,} questions left"


@dataclass(frozen=True, slots=True)
class DatasetStanding:
    """What the page knows of one dataset at one moment, as one caller may see it; ``share`` is the caller's allowance."""

    dataset: Dataset
    budget: Budget
    gauge: Gauge
    lines: tuple[Line, ...]
    before: int | None
    share: Share | None = None

    @property
    def plan(self) -> AnyPlan:
        """Return the plan."""
        return self.dataset.curator.plan

    @property
    def alpha(self) -> float:
        """Return how far an interval reaches from an answer, at most."""
        return self.plan.alpha if self.plan.iid else self.plan.sample_alpha

    @property
    def reach(self) -> tuple[str, str]:
        """Return where the promised ends are from an answer, as a sign and as a word."""
        return REACHES[self.plan.side]

    def list_latest(self, count: int) -> list[AskedQuestion]:
        """Return the newest answers, newest first."""
        return list(islice(self._iterate_backwards(), count))

    def list_paid(self, count: int) -> list[AskedQuestion]:
        """Return the newest answers that cost something, newest first."""
        return list(islice((asked for asked in self._iterate_backwards() if asked.cost), count))

    def list_answers(self, count: int) -> list[AskedQuestion]:
        """Return the newest answers to questions, newest first."""
        return list(islice((asked for asked in self._iterate_backwards() if asked.value is not None), count))

    def _iterate_backwards(self) -> Iterator[AskedQuestion]:
        for line in reversed(self.lines):
            yield from reversed(_asked_of(line, self.dataset.truth))


async def read_standing(dataset: Dataset, caller: Caller, *, before: int | None = None) -> DatasetStanding:
    """Return where a dataset stands, with its newest lines; analysts see their own lines, owner and auditor all."""
    return await dataset.dispatcher.run_short(_read_now, dataset, caller, before)


def _read_now(dataset: Dataset, caller: Caller, before: int | None) -> DatasetStanding:
    curator: Curator = dataset.curator
    budget, page = curator.budget, visible_page(curator, caller, before=before)
    share = share_of(curator, dataset=dataset.name, name=caller.name)
    own = None if share.allowance is None else share
    return DatasetStanding(dataset, budget, Gauge.of(budget, curator.plan), page.lines, page.before, own)


async def find_dataset(request: Request, name: str) -> Dataset:
    """Return a dataset by its name, open; its card says which field a refusal is about."""
    found = await to_thread.run_sync(service_of(request).registry.open_dataset, name)
    request.scope["card"] = found.curator.card
    return found


def make_context(request: Request, now: DatasetStanding) -> dict[str, Any]:
    """Return what the page of a dataset shows besides what was just asked."""
    answers = now.list_answers(_DRAWN)
    dataset = now.dataset
    return {
        "now": now,
        "dataset": dataset,
        "answers": answers,
        "plotted": _to_plot_data(answers),
        "listed": now.list_latest(_LISTED),
        "columns": _card_of(dataset.curator.card),
        "promise": promise(now.plan, population=dataset.curator.card.population),
        "examples": EXAMPLES if dataset.truth is not None else (),
        "query": request.query_params.get("query", "")[:_LONGEST],
        "said": [],
        "seen": {},
        "form_field": "form-id",
        "summary": None,
        "released": None,
        "estimators": tuple(ESTIMATORS),
        "builder": make_builder(dataset.curator.card),
        "statistics": list_statistics(dataset.curator.card),
        "suggested": _suggest_questions(dataset.curator.card),
    }


def _asked_of(line: Line, truth: Truth = None) -> list[AskedQuestion]:
    """Return a line of the history question by question; a charge without a response says so."""
    questions = questions_of(line)
    responses: Sequence[Response | None] = line.responses or (None,)
    if len(questions) != len(responses):
        questions = questions * len(responses)
    share = line.cost / len(responses)
    return [
        _make_asked(line, question, response, share, truth) for question, response in zip(questions, responses, strict=True)
    ]


def _make_asked(line: Line, question: str, response: Response | None, cost: float, truth: Truth) -> AskedQuestion:
    shared: dict[str, Any] = {
        "entry": line.entry,
        "time": line.time,
        "analyst": line.analyst,
        "verb": line.verb,
        "question": question,
        "cost": cost,
        "digest": line.digest,
    }
    if not isinstance(response, Answer):
        said = response.brief if response is not None else "not answered" if cost else "free"
        if response is None and not cost and line.verb != "quantile":  # a search begins by binding its key, for nothing
            shared["question"] = "asked before"
        return AskedQuestion(said=said, **shared)
    ends, sample = response.interval, response.sample_interval
    return AskedQuestion(
        said=f"{response.value:.3f}",
        value=response.value,
        low=None if ends is None else ends.low,
        high=None if ends is None else ends.high,
        near=max(0.0, sample.low),
        far=min(1.0, sample.high),
        truth=_find_truth(question, truth),
        repeated=response.repeated,
        reason=response.reason,
        confidence=(ends or sample).confidence,
        theorem=response.certificate.theorem,
        why=response.explain(),
        deduced=isinstance(response.deduced, tuple),
        **shared,
    )


def from_answer(question: str, answer: Answer, truth: Truth = None) -> AskedQuestion:
    """Return an answer that has just come."""
    receipt = answer.certificate
    line = Line(
        receipt.entry, datetime.now(UTC), "", "ask", question, receipt.cost, receipt.spent, receipt.digest, (answer,)
    )
    return _make_asked(line, question, answer, receipt.cost, truth)


def _find_truth(question: str, truth: Truth) -> float | None:
    if truth is None or question == "values":
        return None
    try:
        return truth(question)
    except HoldtrueError:
        return None


def _to_plot_data(answers: Sequence[AskedQuestion]) -> list[dict[str, Any]]:
    """Return answers as the plot of them reads them."""
    return [
        {
            "place": place,
            "question": asked.question,
            "said": asked.said,
            "value": asked.value,
            "low": asked.near if asked.low is None else asked.low,
            "high": asked.far if asked.high is None else asked.high,
            "near": asked.near,
            "far": asked.far,
            "truth": asked.truth,
            "ends": "" if asked.low is None else f"{asked.low:.3f} to {asked.high:.3f}",
            "told": "not known" if asked.truth is None else f"{asked.truth:.4f}",
        }
        for place, asked in enumerate(answers)
    ]


def _card_of(card: Card) -> list[dict[str, str]]:
    """Return the columns with what is public about them, in a few words; names that need quotes have them.

    A column of rows that units own goes into a question within an aggregate.
    """
    listed = [(column.name, _quote_name(column), column) for column in card.columns]
    for table in card.tables:
        prefix = f"{table.name}." if table.name else ""
        listed += [(f"{prefix}{column.name}", f"{prefix}{_put_in_aggregate(column)}", column) for column in table.columns]
    return [{"name": name, "insert": insert, "told": _describe_column(column)} for name, insert, column in listed]


def _put_in_aggregate(column: Column) -> str:
    name = _quote_name(column)
    condition = _suggest_question(column, name)
    return f"ANY({condition})" if condition else f"ANY({name} = '')" if column.type == "text" else f"MAX({name})"


def _suggest_questions(card: Card) -> list[str]:
    """Return a few conditions over the columns of a card, made of its names, bounds and labels."""
    found = [_suggest_question(column, _quote_name(column)) for column in card.columns]
    for table in card.tables:
        prefix = f"{table.name}." if table.name else ""
        inner = [_suggest_question(column, _quote_name(column)) for column in table.columns if column.name != card.unit]
        found += [f"{prefix}ANY({condition})" for condition in inner if condition]
    return [condition for condition in found if condition][:_SUGGESTED]


def _suggest_question(column: Column, name: str) -> str:
    if column.type == "boolean":
        return name
    if column.labels:
        label = column.labels[0]
        return f"{name} = {quote_text(label)}" if isinstance(label, str) else f"{name} = {label}"
    points = suggest_points(column)
    return f"{name} >= {points[len(points) // 2]:g}" if points else ""


def _quote_name(column: Column) -> str:
    return spell_name(column.name)


def _describe_column(column: Column) -> str:
    if column.labels is not None:
        words = ", ".join(map(str, column.labels))
        return words if len(words) <= 32 else f"{len(column.labels)} labels"  # noqa: PLR2004 - the width of a column
    if column.bounds is not None:
        low, high = column.bounds
        return f"{low:g} to {high:g}"
    shown = {"boolean": "yes or no", "integer": "whole number", "real": "number", "timestamp": "date and time"}
    return shown.get(column.type, column.type)

"""Pages that anyone can open: what was promised, asked, answered and spent, and what an audit found.

A page is one file without scripts and without a reference to anything outside it. A report holds only what the ledger has
already released, so anyone who may see the answers may see the report. This package is below the curator, which passes it
plain records: a report needs no curator.
"""
# ruff: noqa: D102 - the fields of a protocol are described by its class

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdtrue.errors import printable
from holdtrue.planning.methods import REACHES, SIDES, Side
from holdtrue.planning.plans import AnyPlan
from holdtrue.records import (
    Answer,
    Choice,
    Evaluation,
    FittedModel,
    Hypothesis,
    Means,
    Prediction,
    Quantiles,
    Response,
    Statistic,
    Table,
    WatchAnswer,
    WatchRun,
    Workload,
)

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["ReportedBudget", "ReportedCharge", "html_report", "promise", "questions_of", "render_page"]

_PARTS = re.compile(r"""((?:'[^']*'|"[^"]*"|[^;'"])+)(?:; |$)""")
_MOST_CELLS = 4000  # of all tables of one page
_UNITS = " A row stands for all that one unit owns, in every table; intervals for the population are about {}."


class ReportedBudget(Protocol):
    """What a report says of a budget."""

    @property
    def unit(self) -> str: ...
    @property
    def cap(self) -> float: ...
    @property
    def spent(self) -> float: ...
    @property
    def left(self) -> float: ...
    @property
    def asks(self) -> int: ...
    @property
    def reserve(self) -> float: ...
    @property
    def reserve_unit(self) -> str: ...


class ReportedCharge(Protocol):
    """One charge of the history and what came back."""

    @property
    def entry(self) -> int: ...
    @property
    def time(self) -> datetime: ...
    @property
    def analyst(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def request(self) -> str: ...
    @property
    def cost(self) -> float: ...
    @property
    def digest(self) -> str: ...
    @property
    def responses(self) -> tuple[Response, ...]: ...


@lru_cache(1)
def _make_environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value),
    )


def render_page(template: str, **facts: object) -> str:
    """Return a page. Everything that people wrote is escaped, and signs that cannot be seen are written out."""
    return _make_environment().get_template(template).render(facts)


def promise(plan: AnyPlan, *, population: str | None = None) -> str:
    """Return in one paragraph what holds for everything that the ledger releases; ``population`` is the card's."""
    sure = f"{1 - plan.beta:.4g}"
    if plan.iid:
        valid = (
            f"The {plan.rows:,} rows were declared independent draws from one population. Then, with probability at least "
            f"{sure}, every interval for the population holds the true value there, for {plan.extent} "
            "at once, however each question was chosen after seeing the answers before it. For a question about the "
            f"columns an interval reaches at most {plan.alpha:.4g} from the answer"
            f"{'.' if plan.side == 'both' else _say_side(plan.side)}"
        )
    else:
        valid = (
            f"With probability at least {sure}, every answer lies within {plan.sample_alpha:.4g} of the value over these "
            f"{'' if plan.group > 1 else f'{plan.rows:,} '}rows, {plan.extent} at once. The rows were not declared "
            "independent draws from a population, so nothing is said about any population."
        )
    if population is not None:
        valid += _UNITS.format(population)
    if plan.epsilon is None:
        return valid
    slack = f", with a slack of {plan.delta:.3g}" if plan.delta else ""
    changed = "any one row" if plan.group == 1 else f"all rows of anybody who owns up to {plan.group:,} of them"
    return (
        f"{valid} Whatever is asked, and whoever asks: changing {changed} changes the probability of everything that can "
        f"ever be seen by a factor of at most exp({plan.epsilon:.4g}){slack} (differential privacy)."
    )


def _say_side(side: Side) -> str:
    """Return what a plan for one side does not promise, as the end of a sentence."""
    return f" at its {SIDES[side]}; nothing is promised at the other, which is {1 if side == 'low' else 0}."


def html_report(  # noqa: PLR0913 - the sections of a page
    *,
    title: str,
    plan: AnyPlan,
    budget: ReportedBudget,
    history: Sequence[ReportedCharge],
    receipt: tuple[int, str],
    columns: Sequence[tuple[str, str]] = (),
    whole: bool = True,
    population: str | None = None,
    promised: str | None = None,
) -> str:
    """Return a report as one HTML page. Everything that people wrote is escaped; nothing in it is fetched or run.

    ``receipt`` is the newest entry's number and digest; ``columns`` the names and types of the card, to be listed.
    ``whole=False`` says that older charges than those of ``history`` were left out. ``population`` says whom intervals are
    about where rows belong to units, ``promised`` what holds where that does not follow from the plan, as of a holdout.
    """
    share = min(1.0, budget.spent / budget.cap) if budget.cap else 1.0
    charges = f"{len(history):,} charge{'s' * (len(history) != 1)}"
    within, target = (plan.alpha, "population") if plan.iid else (plan.sample_alpha, "rows held")
    sign, around = REACHES[plan.side]
    slack = f", δ {plan.delta:.3g}" if plan.delta else ""
    tiles = (
        (f"{budget.asks:,}", f"of {plan.queries:,} questions left"),
        (f"{sign} {within:.3g}", f"{around} an answer, for the {target}"),
        (f"{share:.1%}", "of the budget spent" + (f", by {charges}" if whole else "")),
        ("none" if plan.epsilon is None else f"ε {plan.epsilon:.3g}", f"privacy of everything{slack}"),
    )
    spending = (
        f"{budget.spent:.4g} of {budget.cap:.4g} {budget.unit} spent, {budget.left:.4g} left, "
        f"{budget.reserve:.3g} {'of' if plan.second is None else f'{budget.reserve_unit} beside'} it for other requests "
        "than questions"
    )
    return render_page(
        "report.html",
        title=title,
        promise=promised or promise(plan, population=population),
        tiles=tiles,
        plan=plan,
        budget=budget,
        spending=spending,
        share=share,
        history=history,
        charges=charges,
        released=_list_released(history),
        drawn=any(isinstance(response, Answer) for line in history for response in line.responses),
        whole=whole,
        columns=columns,
        receipt=receipt,
        questions_of=questions_of,
        words_of=_words_of,
    )


def _list_released(history: Sequence[ReportedCharge]) -> tuple[list[tuple[int, Table | Workload]], int]:
    """Return the tables of a history with their entries, up to as many cells as a page shows, and how many are left out."""
    every = [(line.entry, each) for line in history for each in line.responses if isinstance(each, (Table, Workload))]
    shown: list[tuple[int, Table | Workload]] = []
    cells = 0
    for entry, each in every:
        if cells + len(each) <= _MOST_CELLS:
            shown.append((entry, each))
            cells += len(each)
    return shown, len(every) - len(shown)


def questions_of(line: ReportedCharge) -> list[str]:
    """Return a question for each response: the parts of the request where they are as many, else all of it for all."""
    asked = _PARTS.findall(line.request)
    return asked if line.verb == "ask" and len(asked) == max(1, len(line.responses)) else [line.request]


def _words_of(response: Response) -> tuple[str, str]:
    """Return what a response says, and what is said beside it in smaller letters."""
    match response:
        case Answer(value=value, interval=interval, sample_interval=sample):
            ends = interval or sample
            return f"{value:.4g}", f"{ends.low:.4g} to {ends.high:.4g}"
        case Choice(shortfall=shortfall):
            return response.brief, f"at most {shortfall:.4g} rows behind the best"
        case FittedModel(behind=behind) | Hypothesis(behind=behind):
            return response.brief, behind
        case Prediction(says=says):
            return response.brief, says or ""
        case WatchRun():
            return response.brief, ""
        case Evaluation(about=about):
            return response.brief, about
        case Table(confidence=sure) | Workload(confidence=sure) | Means(confidence=sure) | Quantiles(confidence=sure):
            return response.brief, f"each with its interval, {sure:.0%} for all at once"
        case WatchAnswer(interval=interval, sample_interval=sample):
            ends = interval or sample
            return response.brief, f"{ends.low:.4g} to {ends.high:.4g}"
        case Statistic(target=target):
            return response.brief, f"the interval is for {target}"

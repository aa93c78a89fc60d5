"""What the ledger of a holdout tells by itself: looks left, width, and a report. No case is needed, and no look is spent."""

import json
from collections.abc import Iterable
from dataclasses import replace as modify

from msgspec.structs import replace

from holdtrue.codec import convert, decode
from holdtrue.curator.answer_index import AnswerIndex
from holdtrue.curator.history import Line, Page, history_of, history_page
from holdtrue.exact import UNIT, amount
from holdtrue.holdouts.mode import Transcript
from holdtrue.holdouts.open_gates import count_looks
from holdtrue.holdouts.records import HoldoutBudget
from holdtrue.holdouts.terms import Facts, say_width
from holdtrue.ledgers import Ledger
from holdtrue.planning.plans import Plan
from holdtrue.records import Listing
from holdtrue.reports import html_report

__all__ = ["list_looks", "make_report", "read_budget", "read_looks"]


def read_budget(ledger: Ledger) -> HoldoutBudget:
    """Return what the holdout of a ledger may still tell, from the ledger alone. Free."""
    document = json.loads(ledger.terms.card)
    facts, plan = convert(document["holdout"], Facts), decode(ledger.terms.plan, Plan)
    looks, index = Transcript(ledger), AnswerIndex(ledger)
    looks.follow()
    index.follow()
    _, used, closed = count_looks(looks)
    over = closed or (facts.yes is not None and used >= facts.yes)
    kept = facts.private
    return HoldoutBudget(
        mode=facts.mode,
        cases=int(document["cases"]),
        looks=facts.looks,
        looks_left=0 if over else max(0, facts.looks - index.draws),
        yes=facts.yes,
        yes_left=None if facts.yes is None else max(0, facts.yes - used),
        closed=closed,
        private=kept,
        unit=ledger.terms.filter.currency if kept else "looks",
        spent=amount(ledger.spent) if kept else float(index.draws),
        cap=amount(ledger.terms.cap) if kept else float(facts.looks),
        width=say_width(facts, plan),
    )


def list_looks(ledger: Ledger) -> Listing[Line]:
    """Return a line for every charge, oldest first; where no privacy is kept, what it cost is in looks."""
    return Listing(_count_in_looks(ledger, history_of(ledger)))


def read_looks(ledger: Ledger, *, before: int | None = None, limit: int = 100, analyst: str | None = None) -> Page:
    """Return the newest charges, or the newest before an entry, as :func:`list_looks` has them; of one analyst if named."""
    page = history_page(ledger, before=before, limit=limit, analyst=analyst)
    return modify(page, lines=tuple(_count_in_looks(ledger, page.lines)))


def _count_in_looks(ledger: Ledger, lines: Iterable[Line]) -> list[Line]:
    if json.loads(ledger.terms.card)["holdout"]["private"]:
        return list(lines)
    looks = UNIT.denominator
    return [modify(line, cost=round(line.cost * looks), spent=round(line.spent * looks)) for line in lines]


def make_report(ledger: Ledger, *, title: str) -> str:
    """Return the report of a holdout as one HTML page, with what was told already and nothing else. Free."""
    plan, budget = decode(ledger.terms.plan, Plan), read_budget(ledger)
    words = (
        f"With probability at least {1 - plan.beta:.4g} everything that was told here holds at once, however each "
        f"submission was chosen after seeing the answers before it: {budget.width}. "
    )
    if budget.private:
        slack = f", {plan.delta:.3g}" if plan.delta else ""
        words += f"All of it together is ({plan.epsilon:.4g}{slack or ', 0'})-differentially private."
    else:
        words += "It keeps no privacy."
        plan = replace(plan, epsilon=None, delta=None)
    given = {"plan": plan, "budget": budget, "history": list_looks(ledger), "receipt": ledger.head}
    return html_report(title=title, promised=words, **given)  # type: ignore[arg-type]  # by name

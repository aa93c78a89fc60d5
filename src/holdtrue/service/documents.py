"""What the API says about a dataset, as JSON: public numbers only."""

from typing import Any

from holdtrue.curator import Curator
from holdtrue.curator.budget import Preview
from holdtrue.curator.history import Line, Page, history_page
from holdtrue.records import to_json
from holdtrue.reports import html_report
from holdtrue.service.callers import Caller
from holdtrue.service.registry import Dataset

__all__ = [
    "budget_document",
    "dataset_document",
    "history_document",
    "preview_for",
    "report_text",
    "visible_page",
]

_BUDGET = ("unit", "cap", "spent", "left", "asks", "reserve")
_LINE = ("entry", "analyst", "verb", "request", "cost", "spent", "digest")


def budget_document(curator: Curator) -> dict[str, Any]:
    """Return what is spent and left, over all analysts."""
    found, plan = curator.budget, curator.plan
    return {name: getattr(found, name) for name in _BUDGET} | {
        "queries": plan.queries,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
    }


def dataset_document(dataset: Dataset) -> dict[str, Any]:
    """Return a dataset's card, plan and budget."""
    return {
        "name": dataset.name,
        "description": dataset.description,
        "unit": str(dataset.document.get("unit", "row")),
        "card": dataset.curator.card.to_json(),
        "plan": dataset.curator.plan.to_json(),
        "budget": budget_document(dataset.curator),
    }


def preview_for(curator: Curator, query: str, caller: Caller) -> Preview:
    """Return what a question would cost and how wide its answer would be, as a caller may see it.

    An analyst is told that it was asked before where the same name paid for it: whether anybody else did is not told. The
    owner, who sees the whole history, is told of everybody's.
    """
    return curator.preview(query, analyst=caller.name if caller.role == "analyst" else None)


def visible_page(curator: Curator, caller: Caller, *, before: int | None = None, limit: int = 100) -> Page:
    """Return the newest lines of a history that a caller may see: an analyst's own, or all for the owner and an auditor.

    The curator's lock is not taken: the ledger is read a few hundred entries at a time.
    """
    analyst = caller.name if caller.role == "analyst" else None
    return history_page(curator.ledger, before=before, limit=limit, analyst=analyst)


def history_document(page: Page) -> dict[str, Any]:
    """Return a part of a history as JSON."""
    return {"lines": [_line_document(line) for line in page.lines], "before": page.before}


def _line_document(line: Line) -> dict[str, Any]:
    told = {name: getattr(line, name) for name in _LINE}
    return told | {"time": line.time.isoformat(), "responses": [to_json(response) for response in line.responses]}


def report_text(dataset: Dataset, caller: Caller, *, before: int | None = None, limit: int = 1000) -> str:
    """Return plan, budget and the newest lines that a caller may see as one HTML page."""
    curator = dataset.curator
    shown = visible_page(curator, caller, before=before, limit=limit)
    return html_report(
        title=dataset.name,
        plan=curator.plan,
        budget=curator.budget,
        history=shown.lines,
        receipt=curator.ledger.head,
        columns=[(column.name, column.type) for column in curator.card.columns],
        whole=before is None and shown.before is None,
    )

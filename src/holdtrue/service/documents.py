"""What the API says about a dataset, as JSON: public numbers only."""

from collections.abc import Sequence
from typing import Any

from holdtrue.curator import Curator
from holdtrue.curator.histories import Line
from holdtrue.records import to_json
from holdtrue.service.callers import Caller
from holdtrue.service.registry import Dataset

__all__ = ["budget_document", "dataset_document", "history_document", "visible"]

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


def visible(lines: Sequence[Line], caller: Caller) -> list[Line]:
    """Return the lines of a history that a caller may see: an analyst's own, or all for the owner and an auditor."""
    return [line for line in lines if caller.role != "analyst" or line.analyst == caller.name]


def history_document(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return lines of a history as JSON."""
    return [
        {name: getattr(line, name) for name in _LINE}
        | {"time": line.time.isoformat(), "responses": [to_json(response) for response in line.responses]}
        for line in lines
    ]

"""The page of one dataset: ask, see before what it costs, see after what it says."""

from dataclasses import replace
from functools import partial
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from holdtrue.curator import Curator
from holdtrue.curator.budget import Preview
from holdtrue.demo.population import EXAMPLES
from holdtrue.errors import HoldtrueError, InvalidParameter
from holdtrue.exact import amount
from holdtrue.queries import Query, parse
from holdtrue.records import Answer, Choice
from holdtrue.reports import promise
from holdtrue.service import service_of
from holdtrue.service.http.problems import detail_of
from holdtrue.service.http.routes.verbs import preview_for
from holdtrue.service.identity.authentication import Caller, request_id_of
from holdtrue.service.page.access import PageRoute, Visitor, demand
from holdtrue.service.page.forms import form_of, text_of
from holdtrue.service.page.rendering import asked_by_htmx, show
from holdtrue.service.page.views import Asked, Standing, beyond, card_of, from_answer, plotted, standing
from holdtrue.service.registry import Dataset

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_DRAWN = 12
_LISTED = 50
_LONGEST = 4096
_MOST_CANDIDATES = 100


async def _dataset(request: Request, name: str) -> Dataset:
    return await to_thread.run_sync(service_of(request).registry.dataset, name)


def _context(request: Request, now: Standing) -> dict[str, Any]:
    answers = now.answers(_DRAWN)
    dataset = now.dataset
    return {
        "now": now,
        "dataset": dataset,
        "answers": answers,
        "plotted": plotted(answers),
        "listed": now.latest(_LISTED),
        "columns": card_of(dataset.curator.card.columns),
        "promise": promise(now.plan),
        "examples": EXAMPLES if dataset.truth is not None else (),
        "query": request.query_params.get("query", "")[:_LONGEST],
    }


@router.get("/datasets/{name}")
async def desk(request: Request, caller: Visitor, name: str) -> Response:
    """Show a dataset: its budget, its card, the question to be asked, and what was answered."""
    dataset = await _dataset(request, name)
    context = _context(request, await standing(dataset, caller))
    entry = request.query_params.get("answer", "")
    said = [asked for asked in context["listed"] if str(asked.entry) == entry]
    seen = await _previewed(dataset, caller, context["query"]) if context["query"].strip() else {}
    return show(request, "dataset.html", context | {"said": said, "seen": seen})


@router.post("/page/datasets/{name}/preview")
async def preview(request: Request, caller: Visitor, name: str) -> Response:
    """Say what a question would cost and how wide its answer would be, while it is being written. Free."""
    dataset = await _dataset(request, name)
    query = text_of(await form_of(request), "query", longest=_LONGEST)
    seen = await _previewed(dataset, caller, query) if query.strip() else {}
    return show(request, "parts/preview.html", {"seen": seen, "dataset": dataset})


async def _previewed(dataset: Dataset, caller: Caller, query: str) -> dict[str, Any]:
    try:
        found, asks, read = await dataset.desk.call(_looked, dataset.curator, caller, query)
    except HoldtrueError as error:
        return {"wrong": detail_of(error)}
    cap = amount(dataset.curator.plan.cap_units)
    seen: dict[str, Any] = {"preview": found, "share": found.cost / cap if cap else 0.0, "fits": asks > 0}
    return seen if read.boolean else seen | {"number": beyond(read, dataset.curator.card)}


def _looked(curator: Curator, caller: Caller, query: str) -> tuple[Preview, int, Query]:
    return preview_for(curator, query, caller), curator.budget.asks, parse(query, curator.card)


@router.post("/page/datasets/{name}/ask")
async def ask(request: Request, caller: Visitor, name: str) -> Response:
    """Ask one question, or the examples of the demonstration together. The same form sent twice is charged once."""
    demand(caller, "owner", "analyst")
    dataset = await _dataset(request, name)
    form = await form_of(request)
    examples = "examples" in form and dataset.truth is not None
    queries = list(EXAMPLES) if examples else [text_of(form, "query", longest=_LONGEST, least=1)]
    key = _key(caller, form, *queries)
    answers = await dataset.desk.ask(queries, key, caller.name)
    request.scope["entry"] = answers[-1].certificate.entry
    if not asked_by_htmx(request):
        return RedirectResponse(f"/datasets/{dataset.name}?answer={answers[-1].certificate.entry}#said", 303)
    now = await standing(dataset, caller)
    said = [] if examples else [_said(queries[0], answers[0], now)]
    return show(request, "parts/asked.html", _context(request, now) | {"said": said})


def _said(query: str, answer: Answer, now: Standing) -> Asked:
    """Return an answer as it is shown on its own: with the question as it was written, and free where it was known."""
    found = from_answer(query, answer, now.dataset.truth)
    return replace(found, cost=0.0) if answer.repeated else found


@router.post("/page/datasets/{name}/select")
async def select(request: Request, caller: Visitor, name: str) -> Response:
    """Choose among candidates, one a line: a name, a colon, a question."""
    demand(caller, "owner", "analyst")
    dataset = await _dataset(request, name)
    form = await form_of(request)
    candidates = _candidates(text_of(form, "candidates", longest=_LONGEST * 4, least=1))
    key = _key(caller, form, *(f"{label}\n{query}" for label, query in candidates.items()))
    select_one = partial(dataset.curator.select, candidates, key=key, analyst=caller.name)
    choice: Choice = await dataset.desk.work(caller.name, select_one)
    request.scope["entry"] = choice.certificate.entry
    now = await standing(dataset, caller)
    if not asked_by_htmx(request):
        return RedirectResponse(f"/datasets/{dataset.name}?answer={choice.certificate.entry}#said", 303)
    return show(request, "parts/chosen.html", _context(request, now) | {"choice": choice, "count": len(candidates)})


def _candidates(text: str) -> dict[str, str]:
    """Return candidates by name; a line without a colon is its own name."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    pairs = [tuple(part.strip() for part in line.split(":", 1)) if ":" in line else (line, line) for line in lines]
    found = {pair[0]: pair[1] for pair in pairs}
    if not 1 < len(found) <= _MOST_CANDIDATES or len(found) != len(lines):
        raise InvalidParameter("candidates", "what was given", f"2 to {_MOST_CANDIDATES} lines with different names")
    return found


def _key(caller: Caller, form: dict[str, str], *asked: str) -> str:
    """Return the ledger's request id: of this form, and of what it asks, so that an edited form is another request."""
    return request_id_of(caller, "\n".join(("page", text_of(form, "form", longest=64), *asked)))

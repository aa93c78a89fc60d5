"""The page of one dataset: ask, see before what it costs, see after what it says."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from holdtrue.codec import encode
from holdtrue.demo.population import EXAMPLES
from holdtrue.errors import HoldtrueError
from holdtrue.exact import amount
from holdtrue.records import Answer, Choice
from holdtrue.service.datasets import Dataset, preview_for
from holdtrue.service.http.problems import detail_of
from holdtrue.service.identity import Caller, demand_role
from holdtrue.service.page.access import PageRoute, Visitor, form_of, make_key, text_of
from holdtrue.service.page.form_fields import read_selection
from holdtrue.service.page.rendering import asked_by_htmx, show_page
from holdtrue.service.page.views import (
    AskedQuestion,
    DatasetStanding,
    find_dataset,
    from_answer,
    make_context,
    read_standing,
)

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_LONGEST = 4096


@router.get("/datasets/{name}")
async def show_dataset(request: Request, caller: Visitor, name: str) -> Response:
    """Show a dataset: its budget, its card, the question to be asked, and what was answered."""
    dataset = await find_dataset(request, name)
    context = make_context(request, await read_standing(dataset, caller))
    entry = request.query_params.get("answer", "")
    said = [asked for asked in context["listed"] if str(asked.entry) == entry]
    seen = await _preview_question(dataset, caller, context["query"]) if context["query"].strip() else {}
    return show_page(request, "dataset.html", context | {"said": said, "seen": seen})


@router.post("/page/datasets/{name}/preview")
async def show_preview(request: Request, caller: Visitor, name: str) -> Response:
    """Show what a question would cost and how wide its interval would be, while it is being written. Free."""
    dataset = await find_dataset(request, name)
    query = text_of(await form_of(request), "query", longest=_LONGEST)
    seen = await _preview_question(dataset, caller, query) if query.strip() else {}
    return show_page(request, "parts/preview.html", {"seen": seen, "dataset": dataset})


async def _preview_question(dataset: Dataset, caller: Caller, query: str) -> dict[str, Any]:
    try:
        found = await dataset.dispatcher.run_short(preview_for, dataset.curator, query, caller)
    except HoldtrueError as error:
        return {"wrong": detail_of(error)}
    cap = amount(dataset.curator.plan.cap_units)
    return {"preview": found, "share": found.cost / cap if cap else 0.0, "free": found.is_told and not found.repeated}


@router.post("/page/datasets/{name}/ask")
async def ask_question(request: Request, caller: Visitor, name: str) -> Response:
    """Ask one question, or the examples of the demonstration together. The same form sent twice is charged once.

    "Take it" tells what follows from earlier answers: nothing is ever paid for it, whatever came since its price was shown.
    """
    demand_role(caller, "owner", "analyst")
    dataset = await find_dataset(request, name)
    form = await form_of(request)
    examples = "examples" in form and dataset.truth is not None
    queries = list(EXAMPLES) if examples else [text_of(form, "query", longest=_LONGEST, least=1)]
    free = not examples and form.get("deduce") == "first"
    key = make_key(caller, form, *(["deduce"] if free else []), *queries)
    if free:
        given: dict[str, Any] = {"key": key, "analyst": caller.name, "seen_by": caller.seen_by, "paying": False}
        answers = await dataset.dispatcher.run_long(caller.name, partial(dataset.curator.ask_free, queries, **given))
    else:
        answers = await dataset.dispatcher.ask(queries, key, caller.name)
    request.scope["entry"] = answers[-1].certificate.entry
    if not asked_by_htmx(request):
        return RedirectResponse(f"/datasets/{dataset.name}?answer={answers[-1].certificate.entry}#said", 303)
    now = await read_standing(dataset, caller)
    said = [] if examples else [_to_shown(queries[0], answers[0], now)]
    return show_page(request, "parts/asked.html", make_context(request, now) | {"said": said})


def _to_shown(query: str, answer: Answer, now: DatasetStanding) -> AskedQuestion:
    """Return an answer as shown on its own: with the question as it was written, and free if it is a repeat."""
    found = from_answer(query, answer, now.dataset.truth)
    return replace(found, cost=0.0) if answer.repeated else found


@router.post("/page/datasets/{name}/select")
async def select_candidate(request: Request, caller: Visitor, name: str) -> Response:
    """Choose among candidates, one per line: a name, a colon, a question."""
    demand_role(caller, "owner", "analyst")
    dataset = await find_dataset(request, name)
    form = await form_of(request)
    candidates, asked = read_selection(form)
    given: dict[str, Any] = {"top": asked.top, "epsilon": asked.epsilon, "analyst": caller.name}
    choose = partial(dataset.curator.select, candidates, key=make_key(caller, form, encode(asked)), **given)
    choice: Choice = await dataset.dispatcher.run_long(caller.name, choose)
    request.scope["entry"] = choice.certificate.entry
    now = await read_standing(dataset, caller)
    if not asked_by_htmx(request):
        return RedirectResponse(f"/datasets/{dataset.name}?answer={choice.certificate.entry}#said", 303)
    shown = {"choice": choice, "many": asked.top > 1, "behind": choice.population_shortfall or None}
    shown |= {"count": len(candidates), "truth": _find_best(dataset, candidates)}
    return show_page(request, "parts/chosen.html", make_context(request, now) | shown)


def _find_best(dataset: Dataset, candidates: Mapping[str, str]) -> str | None:
    """Return which candidate is the best in truth, where the population is known."""
    if dataset.truth is None:
        return None
    with suppress(HoldtrueError):  # what was paid for is shown whatever becomes of its truth
        shares = {name: float(dataset.truth(query)) for name, query in candidates.items()}
        best = max(shares, key=shares.__getitem__)
        return f"In truth {best} is the best, with {shares[best]:.3f}"
    return None

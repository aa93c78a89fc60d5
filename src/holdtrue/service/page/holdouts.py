"""Holdouts on the page: registered from a file, asked by dropping one, their looks as a picture, their standings."""

import hashlib
from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import RedirectResponse, Response

from holdtrue.codec import encode
from holdtrue.errors import HoldtrueError, InvalidParameter
from holdtrue.holdouts import Score as HoldoutScore
from holdtrue.holdouts import Verdict
from holdtrue.planning.holdout_plan import plan_holdout
from holdtrue.requests import Certify, Compare, Gate, RegisterHoldout, Score, Submit
from holdtrue.service import service_of
from holdtrue.service.holdouts import HoldoutDispatcher
from holdtrue.service.http.bodies import decode_body, fields_of
from holdtrue.service.http.problems import Refused, detail_of
from holdtrue.service.identity import Caller, demand_role
from holdtrue.service.page.access import PageRoute, Visitor, form_of, make_key, number_of, text_of
from holdtrue.service.page.holdout_views import HoldoutStanding, describe_told, to_standing
from holdtrue.service.page.rendering import asked_by_htmx, show_page
from holdtrue.service.page.uploads import Upload, UploadedForm, read_choice, read_result_file, read_values, upload_form_of

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_LONGEST_NAME = 63
_MOST_LOOKS = 1e9
_KINDS = ("gate", "scores", "leaderboard")


@router.get("/holdouts")
async def show_holdouts(request: Request, caller: Visitor) -> Response:
    """Show every holdout, the standings of every leaderboard, and to the owner the form that registers another one."""
    dispatchers = await to_thread.run_sync(service_of(request).registry.holdouts.list_open)
    shown = []
    for dispatcher in dispatchers:
        now = await _read_standing(dispatcher, caller)
        board = now.card["kind"] == "leaderboard"
        shown.append((now, await dispatcher.read_standings() if board else []))
    return show_page(request, "holdouts.html", {"shown": shown, "filled": {}})


@router.get("/holdouts/{name}")
async def show_holdout(request: Request, caller: Visitor, name: str) -> Response:
    """Show a holdout: what is left of it, the form for a submission, and what was told so far."""
    return show_page(request, "holdout.html", await _make_context(request, caller, await _find(request, name)))


async def _find(request: Request, name: str) -> HoldoutDispatcher:
    return await service_of(request).registry.holdouts.find_soon(name)


async def _read_standing(dispatcher: HoldoutDispatcher, caller: Caller) -> HoldoutStanding:
    card, lines = await dispatcher.read_card(), await dispatcher.run_short(dispatcher.read_lines)
    return to_standing(card, lines, analyst=caller.seen_by)


async def _make_context(request: Request, caller: Caller, dispatcher: HoldoutDispatcher) -> dict[str, Any]:
    now = await _read_standing(dispatcher, caller)
    board = now.card["kind"] == "leaderboard"
    return {
        "now": now,
        "standings": await dispatcher.read_standings() if board else [],
        "files": sorted(request.app.state.demo_files)
        if dispatcher.name == getattr(request.app.state, "demo_holdout", None)
        else [],
        "told": None,
        "reading": {},
    }


@router.get("/page/demo/{name}")
async def send_demo_file(request: Request, _: Visitor, name: str) -> Response:
    """Return a file of results that the demonstration has for its holdout."""
    text = getattr(request.app.state, "demo_files", {}).get(name)
    if text is None:
        raise Refused(404, "not found", "there is no such file")
    return Response(text, headers={"Content-Disposition": f'attachment; filename="{name}"'}, media_type="text/csv")


@router.post("/page/holdouts/width")
async def show_width(request: Request, caller: Visitor) -> Response:
    """Show what a holdout of a chosen file would tell, and how sharply, before it is registered. Free."""
    demand_role(caller, "owner")
    form = await upload_form_of(request)
    return show_page(request, "parts/width.html", await to_thread.run_sync(_find_width, form))


def _find_width(form: UploadedForm) -> dict[str, Any]:
    try:
        if "file" not in form.files or not form.files["file"].content:
            return {"plan": None, "cases": None}
        body = _read_registration(form)
        return {"plan": _plan_registration(body), "cases": body.cases or len(body.y_true or ())}
    except HoldtrueError as error:
        return {"wrong": detail_of(error)}


def _plan_registration(body: RegisterHoldout) -> dict[str, Any]:
    """Return how sharply the holdout that a form describes tells what it tells, and a gate on the same cases."""
    cases, looks = body.cases or len(body.y_true or ()), body.looks or body.submissions or 1
    made = plan_holdout(cases=cases, looks=looks, yes=body.yes, beta=body.beta or 0.05, tells=body.tells)
    mode = "ladder" if body.kind == "leaderboard" else "gate" if body.yes is not None else "scores"
    return {"mode": mode, "alpha": made[mode].alpha, "gate": made["gate"].alpha, "looks": looks, "yes": made.yes}


@router.post("/page/holdouts")
async def register_holdout(request: Request, caller: Visitor) -> Response:
    """Register cases from a file, permanently. The file itself is not kept."""
    demand_role(caller, "owner")
    form = await upload_form_of(request)
    body = await to_thread.run_sync(_read_registration, form)
    document = {field: value for field, value in fields_of(body).items() if field != "name"}
    await to_thread.run_sync(service_of(request).registry.register_holdout, body.name, document)
    place = f"/holdouts/{body.name}"
    return Response(headers={"HX-Redirect": place}) if asked_by_htmx(request) else RedirectResponse(place, 303)


def _read_registration(form: UploadedForm) -> RegisterHoldout:
    """Return the request that a form and its file make: the same record as over HTTP."""
    fields, upload = form.fields, form.find_file("file")
    kind = text_of(fields, "kind", longest=20) or "gate"
    if kind not in _KINDS:
        raise InvalidParameter.saying("kind", f"kind is one of {', '.join(_KINDS)}")
    looks = int(number_of(fields, "looks", low=1, high=_MOST_LOOKS, default=100))
    document: dict[str, Any] = {
        "name": text_of(fields, "name", longest=_LONGEST_NAME).strip() or "unnamed",
        "description": text_of(fields, "description", longest=4096).strip(),
        "kind": "leaderboard" if kind == "leaderboard" else "holdout",
        "beta": number_of(fields, "beta", low=1e-9, high=0.5, default=0.05),
        "unseen": bool(text_of(fields, "unseen", longest=8)),
        "submissions" if kind == "leaderboard" else "looks": looks,
    }
    if kind == "gate":
        document["yes"] = int(number_of(fields, "yes", low=1, high=_MOST_LOOKS, default=5))
        document["tells"] = text_of(fields, "tells", longest=20) or None
        planned = [name for name in ("gain", "discordant") if text_of(fields, name, longest=20).strip()]
        document |= {name: number_of(fields, name, low=1e-9, high=0.999, default=0) for name in planned}
    has_labels = _read_holds(fields, "labels") or kind == "leaderboard"
    document |= _read_labels(fields, upload) if has_labels else _read_cases(fields, upload, gate=kind == "gate")
    return decode_body(document, RegisterHoldout)


def _read_labels(fields: Mapping[str, str], upload: Upload) -> dict[str, Any]:
    values, ids = read_values(upload, column=text_of(fields, "column", longest=200).strip() or None)
    return {"y_true": values} | ({} if ids is None else {"ids": ids})


def _read_cases(fields: Mapping[str, str], upload: Upload, *, gate: bool) -> dict[str, Any]:
    """Return the cases of a result file; on a gate its results are the incumbent."""
    found = read_result_file(upload, read_choice(fields))
    cases: dict[str, Any] = {"cases": found.number, "ids": found.ids.tolist()}
    if not gate:
        return cases
    metric = "hits" if text_of(fields, "hits", longest=8) else "cases"
    return cases | {"metric": metric, "incumbent": found.values.tolist()}


@router.post("/page/holdouts/{name}/check")
async def check_file(request: Request, caller: Visitor, name: str) -> Response:
    """Show how a file is read and what submitting it would cost. Free; no label is looked at."""
    dispatcher, form = await _find(request, name), await upload_form_of(request)
    now = await _read_standing(dispatcher, caller)
    reading = await to_thread.run_sync(_check_reading, now, form)
    if asked_by_htmx(request):
        return show_page(request, "parts/reading.html", {"now": now, "reading": reading})
    return show_page(request, "holdout.html", await _make_context(request, caller, dispatcher) | {"reading": reading})


def _check_reading(now: HoldoutStanding, form: UploadedForm) -> dict[str, Any]:
    try:
        body, read_as = _read_submission(now, form)
        given: Any = body
        values = getattr(given, "y_pred", None) or getattr(given, "cases", ()) or ()
        wanted = int(now.card["cases"])
        if len(values) != wanted:
            return {"wrong": f"these are {len(values):,} cases; the holdout has {wanted:,}, and a look covers all of them"}
    except HoldtrueError as error:
        return {"wrong": detail_of(error)}
    return {"cases": wanted, "read_as": read_as, "ids": given.ids is not None}


def _read_submission(now: HoldoutStanding, form: UploadedForm) -> tuple[Struct, str]:
    """Return the request that a form and its file make, the same record as over HTTP, and how the file was read."""
    fields, results = form.fields, _has_results(now, form)
    name = text_of(fields, "name", longest=128).strip() or None
    values, ids, read_as = _read_file(form, "file", results=results)
    document: dict[str, Any] = {"cases" if results else "y_pred": values, "ids": ids}
    if name is not None and (results or now.verb == "submit"):
        document["name"] = name
    if now.verb == "gate":
        document["margin"] = number_of(fields, "margin", low=-0.999, high=0.999, default=0)
    kinds: dict[str, type[Struct]] = {"gate": Gate, "score": Score, "submit": Submit}
    return decode_body(document, kinds[now.verb]), read_as


def _has_results(now: HoldoutStanding, form: UploadedForm) -> bool:
    """Return whether the files of a form have results, and no predictions."""
    return now.takes_results or (now.verb == "score" and not _read_holds(form.fields, "predictions"))


def _read_holds(fields: Mapping[str, str], values: str) -> bool:
    """Return whether a file holds these values, and not results."""
    holds = text_of(fields, "holds", longest=_LONGEST_NAME)
    if holds not in ("", "results", values):
        raise InvalidParameter.saying("holds", f"the file holds results or {values}")
    return holds == values


def _read_file(form: UploadedForm, field: str, *, results: bool) -> tuple[list[Any], list[Any] | None, str]:
    """Return the values of a file, the ids of their cases where it has any, and how it was read."""
    upload = form.find_file(field)
    if not results:
        values, ids = read_values(upload, column=text_of(form.fields, "column", longest=200).strip() or None)
        return values, ids, "predictions"
    found = read_result_file(upload, read_choice(form.fields))
    tries = f", {found.repeats} attempts per case averaged" if found.repeats > 1 else ""
    read_as = f"results of {'a table' if found.tool == 'plain' else found.tool}, {found.metric}{tries}"
    return found.values.tolist(), found.ids.tolist(), read_as


def _read_comparison(now: HoldoutStanding, form: UploadedForm) -> tuple[Struct, str]:
    """Return the request that a form with two files makes; the second comes in the order of the first, by their ids."""
    results = _has_results(now, form)
    first, ids, read_as = _read_file(form, "file", results=results)
    second, others, _ = _read_file(form, "second", results=results)
    if ids is not None and others is not None and ids != others:
        places = {name: place for place, name in enumerate(others)}
        if set(places) != set(ids):
            raise InvalidParameter.saying("second", "the two files have different cases; both need a line for each case")
        second = [second[places[name]] for name in ids]
    document: dict[str, Any] = {"first": first, "second": second, "ids": ids, "results": results}
    name = text_of(form.fields, "name", longest=128).strip()
    return decode_body(document | ({"name": name} if name and results else {}), Compare), read_as


@router.post("/page/holdouts/{name}/gate")
async def ask_gate(request: Request, caller: Visitor, name: str) -> Response:
    """Ask a gate about a file: one look. The same form sent twice is charged once."""
    return await _take_look(request, caller, name, "gate")


@router.post("/page/holdouts/{name}/score")
async def ask_score(request: Request, caller: Visitor, name: str) -> Response:
    """Score a file: one look. The same form sent twice is charged once."""
    return await _take_look(request, caller, name, "score")


@router.post("/page/holdouts/{name}/compare")
async def compare_files(request: Request, caller: Visitor, name: str) -> Response:
    """Say by how much one file is above another: one look. The same form sent twice is charged once."""
    return await _take_look(request, caller, name, "compare")


@router.post("/page/holdouts/{name}/submit")
async def submit_file(request: Request, caller: Visitor, name: str) -> Response:
    """Submit a file to a leaderboard. The same form sent twice is charged once."""
    return await _take_look(request, caller, name, "submit")


async def _take_look(request: Request, caller: Caller, name: str, verb: str) -> Response:
    demand_role(caller, "owner", "analyst")
    dispatcher, form = await _find(request, name), await upload_form_of(request)
    now = await _read_standing(dispatcher, caller)
    if now.verb != ("score" if verb == "compare" else verb):
        raise Refused(409, "another kind of holdout", f"this holdout takes {now.verb}, not {verb}")
    body, _ = await to_thread.run_sync(_read_comparison if verb == "compare" else _read_submission, now, form)
    given = fields_of(body)
    if verb == "submit" and (caller.role != "owner" or "name" not in given):
        given["name"] = f"{caller.name}/{given['name']}" if "name" in given else caller.name
    digest = await to_thread.run_sync(lambda: hashlib.sha256(encode(body).encode()).hexdigest())
    key = make_key(caller, form.fields, verb, digest)
    told = await dispatcher.take_look(verb, given, key=key, analyst=caller.name)
    return await _show_told(request, caller, dispatcher, told)


@router.post("/page/holdouts/{name}/certify")
async def certify_incumbent(request: Request, caller: Visitor, name: str) -> Response:
    """Close a gate for good, and show its incumbent's score."""
    demand_role(caller, "owner")
    dispatcher, form = await _find(request, name), await form_of(request)
    body = decode_body({"what": text_of(form, "what", longest=10) or "score"}, Certify)
    key = make_key(caller, form, "certify", body.what)
    told = await dispatcher.take_look("certify", fields_of(body), key=key, analyst=caller.name)
    return await _show_told(request, caller, dispatcher, told)


async def _show_told(
    request: Request, caller: Caller, dispatcher: HoldoutDispatcher, told: HoldoutScore | Verdict
) -> Response:
    request.scope["entry"] = told.certificate.entry
    context = await _make_context(request, caller, dispatcher) | {"told": describe_told(told)}
    return show_page(request, "parts/told.html" if asked_by_htmx(request) else "holdout.html", context)

"""Holdouts over HTTP: the owner registers cases, everyone with a key shares their looks."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import anyio
from fastapi import APIRouter, Path, Request
from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response

from holdtrue.requests import Certify, Compare, Gate, RegisterHoldout, Score, Submit
from holdtrue.service import service_of
from holdtrue.service.http.bodies import body_of, describe_body, fields_of, make_reply
from holdtrue.service.http.problems import PROBLEMS
from holdtrue.service.http.routes.verbs import Before, Lines
from holdtrue.service.identity import Analyst, Anyone, Caller, IdempotencyKey, Owner

if TYPE_CHECKING:
    from holdtrue.service.holdouts import HoldoutDispatcher

__all__ = ["router"]

router = APIRouter(prefix="/v1/holdouts", tags=["holdouts"], responses=PROBLEMS)
CertifyBody = Annotated[Certify, body_of(Certify)]
CompareBody = Annotated[Compare, body_of(Compare)]
GateBody = Annotated[Gate, body_of(Gate)]
RegisterHoldoutBody = Annotated[RegisterHoldout, body_of(RegisterHoldout)]
ScoreBody = Annotated[Score, body_of(Score)]
SubmitBody = Annotated[Submit, body_of(Submit)]
HoldoutName = Annotated[str, Path(max_length=63, pattern=r"^[a-z][a-z0-9_-]{0,62}$")]


async def _find_dispatcher(request: Request, name: str) -> "HoldoutDispatcher":
    return await service_of(request).registry.holdouts.find_soon(name)


async def _take_look(  # noqa: PLR0913 - a look, and whose it is
    request: Request, name: str, verb: str, body: Struct, *, key: str, caller: Caller
) -> Response:
    dispatcher = await _find_dispatcher(request, name)
    told = await dispatcher.take_look(verb, fields_of(body), key=key, analyst=caller.name)
    request.scope["entry"] = told.certificate.entry
    return make_reply(told)


@router.get("")
async def holdouts(request: Request, _: Anyone) -> Response:
    """Return the cards of all holdouts and leaderboards."""
    found = await anyio.to_thread.run_sync(service_of(request).registry.holdouts.list_open)
    return make_reply({"holdouts": [await dispatcher.read_card() for dispatcher in found]})


@router.post("", status_code=201, openapi_extra=describe_body(RegisterHoldout))
async def register(request: Request, _: Owner, body: RegisterHoldoutBody) -> Response:
    """Register cases under a name, permanently. The labels stay with the service."""
    document = {field: value for field, value in fields_of(body).items() if field != "name"}
    dispatcher = await anyio.to_thread.run_sync(service_of(request).registry.register_holdout, body.name, document)
    return make_reply(await dispatcher.read_card(), status=201)


@router.get("/{name}")
async def card(request: Request, name: HoldoutName, _: Anyone) -> Response:
    """Return what is public about a holdout: its mode, its numbers, and how many looks are left."""
    return make_reply(await (await _find_dispatcher(request, name)).read_card())


@router.get("/{name}/budget")
async def budget(request: Request, name: HoldoutName, _: Anyone) -> Response:
    """Return how many looks are left, on a gate how many yes, and how wide what is told is. Free."""
    dispatcher = await _find_dispatcher(request, name)
    return make_reply(await dispatcher.run_short(dispatcher.read_budget))


@router.get("/{name}/history")
async def history(
    request: Request, caller: Anyone, name: HoldoutName, before: Before = None, limit: Lines = 100
) -> Response:
    """Return the newest looks and what they said: an analyst's own, or all for the owner and an auditor. Free.

    ``before`` in the response is what to ask for to see older ones, or null where there are none.
    """
    dispatcher = await _find_dispatcher(request, name)
    page = partial(dispatcher.read_lines, analyst=caller.seen_by, before=before, limit=limit)
    return make_reply(await dispatcher.run_short(page))


@router.get("/{name}/standings")
async def standings(request: Request, name: HoldoutName, _: Anyone) -> Response:
    """Return the standings of a leaderboard. Free."""
    return make_reply({"standings": await (await _find_dispatcher(request, name)).read_standings()})


@router.post("/{name}/score", openapi_extra=describe_body(Score))
async def score(request: Request, name: HoldoutName, caller: Analyst, key: IdempotencyKey, body: ScoreBody) -> Response:
    """Score a submission: one look."""
    return await _take_look(request, name, "score", body, key=key, caller=caller)


@router.post("/{name}/gate", openapi_extra=describe_body(Gate))
async def gate(request: Request, name: HoldoutName, caller: Analyst, key: IdempotencyKey, body: GateBody) -> Response:
    """Say yes or no: is this better than the incumbent by more than the margin? One look."""
    return await _take_look(request, name, "gate", body, key=key, caller=caller)


@router.post("/{name}/compare", openapi_extra=describe_body(Compare))
async def compare(request: Request, name: HoldoutName, caller: Analyst, key: IdempotencyKey, body: CompareBody) -> Response:
    """Return by how much the first submission is better than the second: one look."""
    return await _take_look(request, name, "compare", body, key=key, caller=caller)


@router.post("/{name}/certify", openapi_extra=describe_body(Certify))
async def certify(request: Request, name: HoldoutName, caller: Owner, key: IdempotencyKey, body: CertifyBody) -> Response:
    """Close a gate permanently and return its incumbent's score. For the owner, since nothing can be asked afterwards."""
    return await _take_look(request, name, "certify", body, key=key, caller=caller)


@router.post("/{name}/submit", openapi_extra=describe_body(Submit))
async def submit(request: Request, name: HoldoutName, caller: Analyst, key: IdempotencyKey, body: SubmitBody) -> Response:
    """Submit to a leaderboard under the caller's name, followed by the given one; the owner may submit for anyone."""
    own = caller.name if body.name is None else f"{caller.name}/{body.name}"
    team = body.name if caller.role == "owner" and body.name else own
    return await _take_look(request, name, "submit", replace(body, name=team), key=key, caller=caller)

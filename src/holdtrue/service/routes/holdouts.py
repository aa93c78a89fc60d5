"""Holdouts over HTTP: the owner registers cases, everyone with a key shares their looks."""

from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from holdtrue.codec import encode
from holdtrue.service.bodies import Epsilon, Label, Labels, Name, Strict, StrictModel, Text
from holdtrue.service.callers import Analyst, Anyone, Caller, IdempotencyKey, Owner
from holdtrue.service.problems import PROBLEMS
from holdtrue.service.state import service_of

if TYPE_CHECKING:
    from holdtrue.service.holdout_desks import HoldoutDesk

__all__ = ["router"]

_MOST = 10_000_000
_JSON = "application/json"
Values = Annotated[list[Label], Field(min_length=1, max_length=_MOST)]
Results = Annotated[list[bool | Annotated[float, Field(ge=0, le=1)]], Field(min_length=1, max_length=_MOST)]
Weights = Annotated[list[Annotated[float, Field(ge=0, le=1e300)]], Field(min_length=1, max_length=_MOST)]
Share = Annotated[float | None, Field(gt=0, lt=1)]
Count = Annotated[int | None, Field(ge=1, le=10**9)]
Class = Annotated[list[Label], Field(min_length=2, max_length=2)]


router = APIRouter(prefix="/v1/holdouts", tags=["holdouts"], route_class=Strict, responses=PROBLEMS)
HoldoutName = Annotated[str, Path(max_length=63, pattern=r"^[a-z][a-z0-9_-]{0,62}$")]


class HoldoutBody(StrictModel):
    """Cases to guard, their labels and the plan. Everything here is fixed for good.

    Labels are ``y_true``, or stand in a file at ``path`` (with ``column`` for a table); ``cases`` is a number of cases whose
    results come with every look. ``classes`` are pairs of a label and its number of cases, which is public then.
    """

    name: Name
    kind: Literal["holdout", "leaderboard"] = "holdout"
    description: Annotated[str, Field(max_length=4096)] = ""
    y_true: Values | None = None
    path: Text | None = None
    column: Text | None = None
    cases: Annotated[int | None, Field(ge=1, le=_MOST)] = None
    looks: Count = None
    submissions: Count = None
    beta: Share = None
    yes: Count = None
    incumbent: Values | None = None
    train: Values | None = None
    overfits: Count = None
    private: bool | None = None
    epsilon: Epsilon = None
    delta: Share = None
    threshold: Share = None
    tolerance: Share = None
    metric: Literal["accuracy", "cases"] | None = None
    ids: Values | None = None
    weights: Weights | None = None
    labels: Labels | None = None
    classes: Annotated[list[Class], Field(min_length=1, max_length=4096)] | None = None
    unseen: bool | None = None
    rule: Literal["ladder", "parameter-free ladder", "private ladder", "private"] | None = None
    step: Share = None
    moves: Count = None


class ScoreBody(StrictModel):
    """Predictions, or results from elsewhere (``cases``), one a case."""

    y_pred: Values | None = None
    cases: Results | None = None
    metric: Literal["accuracy", "error", "brier", "recall"] | None = None
    train: Values | None = None
    of: Label | None = None
    ids: Values | None = None
    name: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    threshold: Share = None


class GateBody(StrictModel):
    """A submission to be compared with the incumbent."""

    y_pred: Values | None = None
    cases: Results | None = None
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.0
    ids: Values | None = None
    name: Annotated[str | None, Field(min_length=1, max_length=128)] = None


class CompareBody(StrictModel):
    """Two submissions: predictions, or with ``results`` what they reached on each case."""

    first: Values
    second: Values
    ids: Values | None = None
    results: bool = False
    differ: Annotated[list[bool], Field(min_length=1, max_length=_MOST)] | None = None


class CertifyBody(StrictModel):
    """Nothing: the gate's incumbent is certified."""


class SubmitBody(StrictModel):
    """Predictions for a leaderboard, which stand there under the caller's name."""

    y_pred: Values
    name: Annotated[str | None, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")] = None
    ids: Values | None = None


async def _desk(request: Request, name: str) -> "HoldoutDesk":
    return await anyio.to_thread.run_sync(service_of(request).registry.holdout, name)


def _answer(document: object, *, status: int = 200) -> Response:
    return Response(encode(document), status, media_type=_JSON)


async def _told(  # noqa: PLR0913 - a look, and whose it is
    request: Request, name: str, verb: str, body: StrictModel, *, key: str, caller: Caller
) -> Response:
    desk = await _desk(request, name)
    told = await desk.look(verb, body.model_dump(exclude_none=True), key=key, analyst=caller.name)
    request.scope["entry"] = told.certificate.entry
    return _answer(told)


@router.get("")
async def holdouts(request: Request, _: Anyone) -> Response:
    """Return the cards of all holdouts and leaderboards."""
    found = await anyio.to_thread.run_sync(service_of(request).registry.holdouts)
    return _answer({"holdouts": [await desk.card() for desk in found]})


@router.post("", status_code=201)
async def register(request: Request, body: HoldoutBody, _: Owner) -> Response:
    """Register cases under a name, for good. The labels stay with the service."""
    document = body.model_dump(exclude_none=True, exclude={"name"})
    desk = await anyio.to_thread.run_sync(service_of(request).registry.register_holdout, body.name, document)
    return _answer(await desk.card(), status=201)


@router.get("/{name}")
async def card(request: Request, name: HoldoutName, _: Anyone) -> Response:
    """Return what is public about a holdout: its mode, its numbers, and how many looks are left."""
    return _answer(await (await _desk(request, name)).card())


@router.get("/{name}/standings")
async def standings(request: Request, name: HoldoutName, _: Anyone) -> Response:
    """Return the standings of a leaderboard. Free."""
    return _answer({"standings": await (await _desk(request, name)).standings()})


@router.post("/{name}/score")
async def score(request: Request, name: HoldoutName, body: ScoreBody, caller: Analyst, key: IdempotencyKey) -> Response:
    """Score a submission: one look."""
    return await _told(request, name, "score", body, key=key, caller=caller)


@router.post("/{name}/gate")
async def gate(request: Request, name: HoldoutName, body: GateBody, caller: Analyst, key: IdempotencyKey) -> Response:
    """Say yes or no: is this better than the incumbent by more than the margin? One look."""
    return await _told(request, name, "gate", body, key=key, caller=caller)


@router.post("/{name}/compare")
async def compare(request: Request, name: HoldoutName, body: CompareBody, caller: Analyst, key: IdempotencyKey) -> Response:
    """Say by how much the first submission is above the second: one look."""
    return await _told(request, name, "compare", body, key=key, caller=caller)


@router.post("/{name}/certify")
async def certify(request: Request, name: HoldoutName, body: CertifyBody, caller: Owner, key: IdempotencyKey) -> Response:
    """Close a gate for good and tell its incumbent's score. For the owner, since nothing can be asked afterwards."""
    return await _told(request, name, "certify", body, key=key, caller=caller)


@router.post("/{name}/submit")
async def submit(request: Request, name: HoldoutName, body: SubmitBody, caller: Analyst, key: IdempotencyKey) -> Response:
    """Submit to a leaderboard: under the caller's name, with the given one behind it; the owner submits for anyone."""
    team = body.name if caller.role == "owner" and body.name else _team(caller, body.name)
    return await _told(request, name, "submit", body.model_copy(update={"name": team}), key=key, caller=caller)


def _team(caller: Caller, name: str | None) -> str:
    return caller.name if name is None else f"{caller.name}/{name}"

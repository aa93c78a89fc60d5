"""Is the process there, is it ready, and what has it counted."""

from typing import Any

from fastapi import APIRouter, Request, Response

from holdtrue.service import service_of
from holdtrue.service.http.problems import PROBLEMS, Refused
from holdtrue.service.http.telemetry import MEDIA
from holdtrue.service.identity.authentication import caller_of, headers_of

__all__ = ["router"]

router = APIRouter(tags=["health"])
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Yes.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/healthz", responses=_TEXT, response_class=Response, summary="Is the process there?")
async def healthz() -> Response:
    """Answer as long as the process runs."""
    return Response("ok\n", media_type="text/plain")


@router.get("/readyz", responses={**_TEXT, 503: PROBLEMS[503]}, response_class=Response, summary="Is everything open?")
async def readyz(request: Request) -> Response:
    """Answer 200 while everything registered is open in this worker and the ledgers answer, 503 otherwise."""
    if not await service_of(request).registry.is_ready():
        raise Refused(
            503,
            "not ready",
            "something that is registered is not open, or its ledger does not answer",
            headers={"Retry-After": "1"},
        )
    return Response("ready\n", media_type="text/plain")


@router.get("/metrics", responses=_TEXT, response_class=Response, summary="Counts, in Prometheus' text format.")
async def metrics(request: Request) -> Response:
    """Return this worker's counters; durations and datasets only with the owner's key. No key is needed for the rest."""
    given = headers_of(request.scope, b"authorization")
    owner = bool(given) and (await caller_of(request)).role == "owner"
    return Response(service_of(request).metrics.format_text(owner=owner), media_type=MEDIA)

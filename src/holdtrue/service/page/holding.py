"""Holdouts and leaderboards at a glance: how many looks are left, and who leads. Public numbers, for free."""

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from holdtrue.service.page.guards import PageRoute, Visitor
from holdtrue.service.page.rendering import show
from holdtrue.service.state import service_of

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/holdouts")
async def holdouts(request: Request, _: Visitor) -> Response:
    """Show every holdout, and the standings of every leaderboard."""
    shown = []
    for desk in await to_thread.run_sync(service_of(request).registry.holdouts):
        card = await desk.card()
        shown.append((card, await desk.standings() if card["kind"] == "leaderboard" else []))
    return show(request, "holdouts.html", {"shown": shown})

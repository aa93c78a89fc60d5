"""The page: what the service does, for people. HTML made here, htmx for what moves, Vega-Lite for plots, no other origin."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

__all__ = ["mount_page"]

_PROGRAMS = ("/v1/", "/v2/", "/static/")


def mount_page(app: "FastAPI") -> None:
    """Add the page to an application: under "/", its forms under "/page/", its files under "/static/"."""
    from holdtrue.service.page import access, asking, attack, holdouts, home, models, planner, summaries
    from holdtrue.service.page.rendering import send_file

    for part in (home, asking, summaries, models, holdouts, planner, attack, access):
        app.include_router(part.router)
    app.add_api_route("/static/{version}/{name:path}", send_file, include_in_schema=False, response_model=None)
    app.add_exception_handler(404, _answer_missing)


async def _answer_missing(request: "Request", error: Exception) -> "Response":
    """Tell a person in a browser that there is no such page, and a program by a problem document."""
    from holdtrue.service.http import problems
    from holdtrue.service.page import access
    from holdtrue.service.page.rendering import show_refusal

    wanted = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(_PROGRAMS)
    if wanted and request.method in ("GET", "HEAD"):
        told = show_refusal(request, problems.Refused(404, "not found", "there is no page at this address"))
        told.headers["Content-Security-Policy"] = access.POLICY
        return told
    return await problems.answer_refusal(request, error)

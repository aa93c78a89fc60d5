"""Every route of the page, put onto the application."""

from fastapi import FastAPI, Request, Response

from holdtrue.service import problems
from holdtrue.service.page import asking, attacking, entering, glancing, holding, keyholding, planner
from holdtrue.service.page.rendering import refusal
from holdtrue.service.page.statics import static

__all__ = ["mount"]

_PROGRAMS = ("/v1/", "/v2/", "/static/")


def mount(app: FastAPI) -> None:
    """Add the page to an application: under "/", its forms under "/page/", its files under "/static/"."""
    for part in (glancing, asking, holding, planner, attacking, keyholding, entering):
        app.include_router(part.router)
    app.add_api_route("/static/{version}/{name:path}", static, include_in_schema=False, response_model=None)
    app.add_exception_handler(404, _missing)


async def _missing(request: Request, error: Exception) -> Response:
    """Tell a person in a browser that there is no such page, and a program by a problem document."""
    wanted = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(_PROGRAMS)
    if wanted and request.method in ("GET", "HEAD"):
        return refusal(request, problems.Refused(404, "not found", "there is no page at this address"))
    return await problems.refusal(request, error)

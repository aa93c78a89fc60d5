"""Every route of the page, put onto the application."""

from fastapi import FastAPI

from holdtrue.service.page import asking, attacking, entering, glancing, holding, keyholding, planner
from holdtrue.service.page.statics import static

__all__ = ["mount"]


def mount(app: FastAPI) -> None:
    """Add the page to an application: under "/", its forms under "/page/", its files under "/static/"."""
    for part in (glancing, asking, holding, planner, attacking, keyholding, entering):
        app.include_router(part.router)
    app.add_api_route("/static/{version}/{name:path}", static, include_in_schema=False, response_model=None)

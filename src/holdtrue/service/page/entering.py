"""Signing in with a key, and out again."""

from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from holdtrue.errors import Unauthorized
from holdtrue.service.page.guards import PageRoute, home_address
from holdtrue.service.page.reading import form_of, text_of
from holdtrue.service.page.rendering import show
from holdtrue.service.sessions import COOKIE, forget_cookie, set_cookie
from holdtrue.service.state import service_of

__all__ = ["router"]

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/login")
async def login(request: Request) -> Response:
    """Ask for a key."""
    return show(request, "login.html", {"next": home_address(request.query_params.get("next")), "wrong": False})


@router.post("/page/login")
async def begin(request: Request) -> Response:
    """Begin a session for who brings a valid key; say no more than that it is not one otherwise."""
    form = await form_of(request)
    service = service_of(request)
    place = home_address(text_of(form, "next", longest=2_000))
    try:
        caller = await service.keyring.known(text_of(form, "key", longest=300).strip())
    except Unauthorized:
        return show(request, "login.html", {"next": place, "wrong": True}, status=401)
    request.scope["caller"] = caller
    service.rates.check(caller)
    cookie = await to_thread.run_sync(service.keyring.sessions.begin, caller)
    response = RedirectResponse(quote(place, safe="/?=&%#+,:;'()*!~"), 303)
    set_cookie(response, cookie, service.settings)
    return response


@router.post("/page/logout")
async def end(request: Request) -> Response:
    """End a session."""
    service = service_of(request)
    await to_thread.run_sync(service.keyring.sessions.end, request.cookies.get(COOKIE, ""))
    response = RedirectResponse("/login", 303)
    forget_cookie(response, service.settings)
    return response

"""Who is at the page: signing in, a session's cookie, requests of this origin only, small forms, refusals in words.

A cookie travels by itself, so whatever changes something also has to come from a page of this origin.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlsplit

from anyio import to_thread
from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdtrue.errors import HoldtrueError, InvalidParameter, RefusedError, Unauthorized
from holdtrue.service import service_of
from holdtrue.service.http.problems import Refused
from holdtrue.service.identity import Caller, request_id_of
from holdtrue.service.identity.api_keys import COOKIE, forget_cookie, set_cookie
from holdtrue.service.page.rendering import show_page, show_refusal

__all__ = ["POLICY", "PageRoute", "Visitor", "form_of", "home_address", "make_key", "number_of", "router", "text_of"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_LOOPBACK = ("127.0.0.1", "::1")
_READING = ("GET", "HEAD")
_MOST_FIELDS = 200
_MEDIA = "application/x-www-form-urlencoded"


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; if two have the same name, the last. No files, and no other kind of body."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MEDIA:
        raise Refused(415, "another kind of body", f"the page sends its forms as {_MEDIA}")
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "unreadable form", "the form could not be read") from None
    request.scope["form"] = dict(pairs)
    return dict(pairs)


def text_of(form: Mapping[str, str], name: str, *, longest: int, least: int = 0) -> str:
    """Return a field, empty where it was not sent."""
    text = form.get(name, "")
    if not least <= len(text) <= longest or "\0" in text:
        raise InvalidParameter.without_value(name, f"a text of {least} to {longest} characters")
    return text


def number_of(form: Mapping[str, str], name: str, *, low: float, high: float, default: float) -> float:
    """Return a number of a field between two ends, the default where it is empty."""
    text = form.get(name, "").strip()
    try:
        number = float(text) if text else default
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise InvalidParameter.without_value(name, f"a number from {low:g} to {high:g}")
    return number


def make_key(caller: Caller, form: Mapping[str, str], *asked: str) -> str:
    """Return the ledger's request id: of this form, and of what it asks, so that an edited form is another request."""
    return request_id_of(caller, "\n".join(("page", text_of(form, "form", longest=64), *asked)))


class SignInFirst(RefusedError):
    """There is no session, or it has ended."""


class PageRoute(APIRoute):
    """A route of the page: refusals are told in HTML, and no script but ours may run.

    Guarantee: whatever is not a plain read is refused with 403 unless the browser says that a page of this origin sent it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler between the checks and the headers."""
        inner = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                if request.method not in _READING:
                    check_origin(request)
                response = await inner(request)
            except SignInFirst:
                response = _to_login(request)
            except HoldtrueError as error:
                request.scope.setdefault("entry", getattr(error, "entry", None))
                response = show_refusal(request, error)
            response.headers.setdefault("Content-Security-Policy", POLICY)
            response.headers.setdefault("Cache-Control", "no-store")
            begun = getattr(request.state, "session", None)
            if begun is not None:
                set_cookie(response, begun, service_of(request).settings)
            return response

        return guarded


def check_origin(request: Request) -> None:
    """Refuse a request that a page of another origin may have sent, or of which the browser does not say whence it comes."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    ours = origin is not None and urlsplit(origin).netloc == request.headers.get("host", "")
    # Browsers that keep the referrer to themselves send "null" along with same-origin.
    same = ours if site is None else site == "same-origin" and (ours or origin in (None, "null"))
    if not same:
        raise Refused(403, "another origin", "this was not sent by a page of this service; nothing was done")


async def find_visitor(request: Request) -> Caller:
    """Return who is at the page; in a demonstration on this machine, whoever comes is let in."""
    service = service_of(request)
    cookie = request.cookies.get(COOKIE, "")
    try:
        caller = await to_thread.run_sync(service.keyring.sessions.caller_of, cookie)
    except Unauthorized:
        caller = None
    if caller is None:
        caller = await _let_in(request)
    if caller is None:
        message = "sign in with a key first"
        raise SignInFirst(message)
    request.scope["caller"] = caller
    service.rates.check(caller)
    request.state.caller = caller
    return caller


Visitor = Annotated[Caller, Depends(find_visitor)]
"""Whoever has a session."""


async def _let_in(request: Request) -> Caller | None:
    """Begin a session for a visitor of the demonstration; nobody is let in that way otherwise.

    Needs all of: settings that say demo, a start that named the visitor's key, a peer and a Host on this machine, a read.
    """
    service = service_of(request)
    prefix = getattr(request.app.state, "demo_visitor", None)
    here = request.client is not None and request.client.host in _LOOPBACK
    named = (request.url.hostname or "") in ("localhost", "127.0.0.1", "::1")
    if not service.settings.demo or prefix is None or not here or not named or request.method not in _READING:
        return None
    caller = await to_thread.run_sync(service.keyring.find_holder, prefix)
    request.state.session = await to_thread.run_sync(service.keyring.sessions.begin, caller)
    return caller


def home_address(given: str | None) -> str:
    """Return where to go after signing in: a place of this page, or its front."""
    fine = given is not None and given.startswith("/") and not given.startswith(("//", "/\\", "/page/", "/login"))
    return given if fine and given is not None and given.isprintable() else "/"


def _to_login(request: Request) -> Response:
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    place = "/login" if request.method not in _READING or asked == "/" else f"/login?next={quote(home_address(asked))}"
    if "hx-request" in request.headers:
        return Response(headers={"HX-Redirect": place})
    return RedirectResponse(place, 303)


router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/login")
async def show_login(request: Request) -> Response:
    """Ask for a key."""
    return show_page(request, "login.html", {"next": home_address(request.query_params.get("next")), "wrong": False})


@router.post("/page/login")
async def begin_session(request: Request) -> Response:
    """Begin a session for who brings a valid key; say no more than that it is not one otherwise."""
    form = await form_of(request)
    service = service_of(request)
    place = home_address(text_of(form, "next", longest=2_000))
    try:
        caller = await service.keyring.find_caller(text_of(form, "key", longest=300).strip())
    except Unauthorized:
        return show_page(request, "login.html", {"next": place, "wrong": True}, status=401)
    request.scope["caller"] = caller
    service.rates.check(caller)
    cookie = await to_thread.run_sync(service.keyring.sessions.begin, caller)
    response = RedirectResponse(quote(place, safe="/?=&%#+,:;'()*!~"), 303)
    set_cookie(response, cookie, service.settings)
    return response


@router.post("/page/logout")
async def end_session(request: Request) -> Response:
    """End a session."""
    service = service_of(request)
    await to_thread.run_sync(service.keyring.sessions.end, request.cookies.get(COOKIE, ""))
    response = RedirectResponse("/login", 303)
    forget_cookie(response, service.settings)
    return response

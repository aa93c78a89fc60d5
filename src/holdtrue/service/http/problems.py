"""Refusals over HTTP: problem documents (RFC 9457) made of the error tree, which repeat nothing of the request."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from holdtrue.codec import encode
from holdtrue.errors import BudgetExceeded, HoldtrueError, InvalidParameter, MissingExtra, RefusedError, UnknownColumn

__all__ = [
    "PROBLEMS",
    "Refused",
    "add_handlers",
    "answer_refusal",
    "detail_of",
    "internal_problem",
    "make_problem",
    "to_kebab",
    "to_problem",
]

MEDIA = "application/problem+json"
_FIELDS = ("required", "requested", "left", "unit", "entry", "parameter")
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_OUR_WORDS = """pattern population sample - _ soft-majority agnostic noisy-max validity privacy pairs triples once each both
search exponential minimiser descent one-pass content key position fixed gain score bound brier recall 2026-01-31 ..."""
_OURS = frozenset(f"'{word}'" for word in _OUR_WORDS.split()) | {'"..."', "'2026-01-31 10:00:00'"}
_WORD = re.compile(r"[a-z][a-z_, ]{0,60}|[a-z_]{1,40}(\[[0-9]{1,8}\])?(\.[a-z_]{1,40}(\[[0-9]{1,8}\])?){0,4}")
_LOGGER = logging.getLogger("holdtrue.service")


class Refused(RefusedError):
    """A refusal that only HTTP knows: a body too large, a route that is not there, a key missing. Nothing was spent."""

    def __init__(
        self, status: int, title: str, detail: str, *, headers: Mapping[str, str] | None = None, parameter: str = ""
    ) -> None:
        super().__init__(detail)
        self.parameter = parameter
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = dict(headers or {})


def detail_of(error: HoldtrueError) -> str:
    """Return an error's words without what they quote of the request: names of the card and our own stay."""
    if isinstance(error, Refused):
        return error.detail
    if isinstance(error, MissingExtra):
        return str(error)
    if isinstance(error, InvalidParameter) and not error.is_sentence:
        return f"{_name_parameter(error)} must be {_mask_literals(error.expected)}"
    text = str(error)
    if isinstance(error, UnknownColumn):
        # The end of the message is the card's; before it stands a name from the request, whatever that name contains.
        cuts = (text.rpartition(mark) for mark in ("; did you mean ", "; the card has "))
        _, mark, tail = max(cuts, key=lambda cut: len(cut[0]))
        return f"there is no such column{mark}{tail}" if mark else "there is no such column"
    return _mask_literals(text)


def _mask_literals(text: str) -> str:
    return _LITERAL.sub(lambda found: found.group() if found.group() in _OURS else "…", text)


def _name_parameter(error: InvalidParameter) -> str:
    name = error.parameter.partition(" of ")[0]
    return name if _WORD.fullmatch(name) else "a parameter"


def make_problem(  # noqa: PLR0913 - the members of a problem document
    status: int,
    title: str,
    detail: str,
    *,
    kind: str,
    request_id: str | None = None,
    headers: Mapping[str, str] | None = None,
    **fields: object,
) -> Response:
    """Return a problem document."""
    document: dict[str, Any] = {"type": f"urn:holdtrue:{kind}", "title": title, "status": status, "detail": detail}
    known = {name: value for name, value in fields.items() if value is not None}
    body = encode(document | known | ({} if request_id is None else {"request_id": request_id}))
    return Response(body, status, dict(headers or {}), media_type=MEDIA)


def to_problem(error: HoldtrueError, *, request_id: str | None = None) -> Response:
    """Return the problem document of an error of the tree."""
    if isinstance(error, Refused):
        kind = error.title.replace(" ", "-")
        return make_problem(error.status, error.title, error.detail, kind=kind, request_id=request_id, headers=error.headers)
    name = to_kebab(type(error).__name__)
    fields = {field: getattr(error, field, None) for field in _FIELDS}
    if isinstance(error, InvalidParameter):
        fields["parameter"] = _name_parameter(error)
    if not isinstance(error, BudgetExceeded):
        fields = {field: value for field, value in fields.items() if field not in ("requested", "left", "unit")}
    title = name.replace("-", " ")
    return make_problem(error.http_status, title, detail_of(error), kind=name, request_id=request_id, **fields)


def to_kebab(name: str) -> str:
    """Return a class name as the type of a problem: ``BudgetExceeded`` is ``budget-exceeded``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


Handler = Callable[[Request, Any], Awaitable[Response]]


def _find_id(request: Request) -> str | None:
    found = request.scope.get("request_id")
    return found if isinstance(found, str) else None


async def _answer_error(request: Request, error: HoldtrueError) -> Response:
    request.scope["problem"] = to_kebab(type(error).__name__)
    request.scope.setdefault("entry", getattr(error, "entry", None))
    return to_problem(error, request_id=_find_id(request))


async def _answer_http_error(request: Request, error: HTTPException) -> Response:
    status = HTTPStatus(error.status_code)
    kind = to_kebab(status.phrase.title().replace(" ", "").replace("-", ""))
    detail = _PHRASES.get(error.status_code, "the request was refused")
    return make_problem(
        status, status.phrase.lower(), detail, kind=kind, request_id=_find_id(request), headers=error.headers
    )


async def _answer_invalid(request: Request, error: RequestValidationError) -> Response:
    places = sorted({_name_place(item.get("loc", ())) for item in error.errors()} - {""})
    where = f": look at {', '.join(places[:8])}" if places else ""
    detail = f"the request does not have the form that /openapi.json describes{where}"
    return make_problem(422, "invalid request", detail, kind="invalid-request", request_id=_find_id(request))


def _name_place(location: object) -> str:
    """Return the part of a location that the document of the API gives: where it stands, and its first name if known."""
    first, *names = location if isinstance(location, (tuple, list)) else ("",)
    name = names[0] if names and isinstance(names[0], str) and names[0] in FIELD_NAMES else ""
    return f"{first} {name}".strip() if first in ("body", "query", "path", "header") else ""


async def _answer_database_error(request: Request, error: SQLAlchemyError) -> Response:
    _LOGGER.error("database error", extra={"kind": type(error).__name__, "request_id": _find_id(request)})
    detail = "the service's database does not answer; try again"
    again = {"Retry-After": "1"}
    return make_problem(
        503, "service unavailable", detail, kind="service-unavailable", request_id=_find_id(request), headers=again
    )


def internal_problem(error: Exception, *, request_id: str | None) -> Response:
    """Return the problem document of a failure that nobody foresaw; only its type is told, and only to the log."""
    # A message or a traceback could quote a row.
    _LOGGER.error("internal error", extra={"kind": type(error).__name__, "request_id": request_id})
    detail = "the service failed; its log has the kind of failure under this request's id"
    return make_problem(500, "internal", detail, kind="internal", request_id=request_id)


FIELD_NAMES: set[str] = set()
"""Names of parameters and of fields of bodies that the document of the API gives, so that a refusal may say them."""

_PHRASES = {
    400: "the request could not be read",
    401: "a valid key is needed: Authorization: Bearer",
    403: "the key does not give this right",
    404: "there is nothing at this address",
    405: "this address does not support that method",
    408: "the body did not arrive in time",
    413: "the body is too large",
    415: "send Content-Type: application/json",
    429: "too many requests",
}


_HANDLERS: list[tuple[type[Exception], Handler]] = [
    (HoldtrueError, _answer_error),
    (HTTPException, _answer_http_error),
    (RequestValidationError, _answer_invalid),
    (SQLAlchemyError, _answer_database_error),
]


def add_handlers(app: FastAPI) -> None:
    """Make every refusal of an application a problem document; :func:`internal_problem` is for what nobody foresaw."""
    for kind, handler in _HANDLERS:
        app.add_exception_handler(kind, handler)


async def answer_refusal(request: Request, error: Exception) -> Response:
    """Return the problem document of an error that one of the handlers knows."""
    handler = next(handler for kind, handler in _HANDLERS if isinstance(error, kind))
    return await handler(request, error)


_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:holdtrue:"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "required": {"type": "integer"},
        "requested": {"type": "number"},
        "left": {"type": "number"},
        "unit": {"type": "string"},
        "entry": {"type": "integer"},
        "parameter": {"type": "string"},
    },
}
_SAID = {
    400: "The request could not be read.",
    401: "There is no valid key.",
    403: "Understood, and refused.",
    404: "There is nothing of that name.",
    405: "The address does not support the method.",
    408: "The request did not arrive in time.",
    409: "It conflicts with what is stored.",
    413: "The body is too large.",
    415: "The body is of another kind.",
    422: "Understood, and not possible; nothing was spent.",
    429: "The budget is used up, or requests come too fast.",
    500: "The service failed.",
    501: "A part of the service is not installed.",
    502: "Failed after the charge; the cost stays.",
    503: "Not ready, or overloaded; try again.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {MEDIA: {"schema": _SCHEMA}}} for status, text in _SAID.items()
}
"""``responses=PROBLEMS`` describes every refusal of a route."""

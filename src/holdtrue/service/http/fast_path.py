"""The fast path for asking: one question or several, batched with those that others ask at the same time.

It is read, checked and answered without FastAPI's dependencies and models, which cost more than the answer does; what it
takes and gives stands in the API's document all the same.
"""

import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from holdtrue.codec import encode
from holdtrue.errors import HoldtrueError, InvalidParameter, RefusedError
from holdtrue.requests import Ask
from holdtrue.service import service_of
from holdtrue.service.http import bodies
from holdtrue.service.http.bodies import describe_body
from holdtrue.service.http.middleware import send_json
from holdtrue.service.http.problems import PROBLEMS, answer_refusal
from holdtrue.service.identity import caller_in, demand_role, headers_of, request_id_in

if TYPE_CHECKING:
    from holdtrue.service import Service

__all__ = ["Application", "FastPath", "router"]

_QUOTES = 4
_READER = msgspec.json.Decoder(Ask)
_PATH = re.compile(r"/v1/datasets/([^/]+)/ask")


class Application(FastAPI):
    """FastAPI, except that questions go to ``fast``, which answers them as the application's own route does."""

    fast: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request, or the server's own messages."""
        hot = scope["type"] == "http" and scope["method"] == "POST" and _PATH.fullmatch(scope["path"]) is not None
        if hot and self.fast is not None:
            scope["app"] = self
            await self.fast(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class FastPath:
    """Answers what is posted to the hot route, past the routing and the layers of the application.

    The same endpoint stands in the application's own routes, where the document of the API finds it.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question."""
        name = str(scope["path"]).split("/")[3]
        scope["route"], scope["endpoint"], scope["path_params"] = _ROUTE, ask, {"name": name}
        try:
            content = await _answer_request(self._service, scope, name, lambda: _receive_body(receive))
        except (HoldtrueError, HTTPException, SQLAlchemyError) as error:
            refused = await answer_refusal(Request(scope, receive), error)
            await refused(scope, receive, send)
        else:
            await send_json(send, content)


async def _receive_body(receive: Receive) -> bytes:
    """Return the whole body of a request."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
    raise ClientDisconnect


class _PlainRoute(APIRoute):
    """A route that calls its endpoint with the request alone."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint


router = APIRouter(tags=["verbs"], route_class=_PlainRoute)


async def ask(request: Request) -> Response:
    """Answer one question, or several that are charged and measured together.

    A question that was asked before is answered from the ledger and costs nothing.
    """
    content = await _answer_request(service_of(request), request.scope, request.path_params["name"], request.body)
    return Response(content, media_type="application/json")


async def _answer_request(service: "Service", scope: Scope, name: str, body: Callable[[], Awaitable[bytes]]) -> bytes:
    """Return the answers to a request as JSON."""
    caller = demand_role(await caller_in(scope, service), "analyst", "owner")
    own: dict[str, Any] = {"key": request_id_in(scope, caller), "analyst": caller.name}
    media = next(iter(headers_of(scope, b"content-type")), "")
    if media != "application/json":
        bodies.check_media(media)
    asked = _decode_ask(await body())
    queries = (asked.query,) if asked.query is not None else asked.queries or ()
    dataset = await service.registry.find_dataset(name)
    if asked.values is not None:
        if caller.role != "owner":
            message = "values come from the rows, so only the owner may give them; ask a question instead"
            raise RefusedError(message)
        mean = partial(dataset.curator.ask, values=asked.values, name=asked.name, **own)
        measured = [await dataset.dispatcher.run_long(caller.name, mean)]
        service.metrics.note_charge(scope, name, "ask", measured)
        return encode(measured[0]).encode()
    if asked.by is not None:
        given = own | {"by": asked.by, "keys": asked.keys, "questions": asked.questions}
        found = await dataset.dispatcher.run_long(caller.name, partial(dataset.curator.ask, asked.query, **given))
        scope["entry"] = found.certificate.entry
        service.metrics.count_ask(name, "mean", charged=not found.repeated, left=found.certificate.left)
        return encode(found).encode()
    if asked.deduce is None:
        answers = await dataset.dispatcher.ask(queries, **own)
    else:
        job = partial(dataset.curator.ask_free, list(queries), **own, seen_by=caller.seen_by)
        answers = await dataset.dispatcher.run_long(caller.name, job)
    service.metrics.note_charge(scope, name, "ask", answers)
    return encode(answers[0] if asked.query is not None else {"answers": answers}).encode()


def _decode_ask(content: bytes) -> Ask:
    """Return a body as the question, or the questions, that it asks.

    Needs: a body that msgspec reads at once has four quotes and no backslash, and so one name and one text: nothing in it
    can come twice, be nested, or be no number. Whatever else there is goes through the strict reader.
    """
    if content.count(b'"') == _QUOTES and b"\\" not in content:
        with suppress(ValueError):
            asked = _READER.decode(content)
            if asked.query is not None:
                return asked
    asked = bodies.decode_body(bodies.parse_json(content), Ask)
    by_group = Ask(query=asked.query, by=asked.by, keys=asked.keys, questions=asked.questions)
    grouped = asked.query is not None and asked.by is not None and asked == by_group
    plain = (Ask(query=asked.query, deduce=asked.deduce), Ask(queries=asked.queries, deduce=asked.deduce))
    measured = asked.values is not None and asked == Ask(values=asked.values, name=asked.name)
    if not grouped and not measured and (asked not in plain or asked == Ask(deduce=asked.deduce)):
        raise InvalidParameter.without_value(
            "query", "given, with by= where it is asked by group, or queries in its place, or values with their name"
        )
    return asked


_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "Names this request: sent again with the same key, it is charged once and gets the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]([ -~]{0,126}[!-~])?$"},
}
_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 63}}
_ANSWER = {"description": "The answer, or the answers.", "content": {"application/json": {"schema": {"type": "object"}}}}

router.add_api_route(
    "/v1/datasets/{name}/ask",
    ask,
    methods=["POST"],
    summary="Ask.",
    response_class=Response,
    responses={**PROBLEMS, 200: _ANSWER},
    openapi_extra={"parameters": [_NAME, _HEADER], "security": [{"key": []}]}
    | describe_body(Ask, only=("query", "queries", "values", "name", "by", "keys", "questions", "deduce")),
)
_ROUTE = router.routes[-1]

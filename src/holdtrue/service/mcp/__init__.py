"""The door for agents: the verbs as tools of the Model Context Protocol, at /mcp of the service or over standard streams.

Needs the extra ``mcp``; without it the service runs as ever, and /mcp answers 501.
"""

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import Route

from holdtrue.errors import MissingExtra
from holdtrue.service.http.bodies import decode_body, read_body
from holdtrue.service.identity import caller_in

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from holdtrue.service import Service

__all__ = ["ToolCall", "mount_agents"]

_PATH = "/mcp"


class RpcMessage(Struct, frozen=True):
    """A request or a notification of JSON-RPC, as far as it is looked at before the protocol's own reader."""

    jsonrpc: Literal["2.0"]
    method: Annotated[str, Meta(min_length=1, max_length=128)]
    id: int | str | None = None
    params: dict[str, Any] | None = None


class ToolCall(Struct, frozen=True):
    """What a call of a tool says."""

    name: Annotated[str, Meta(max_length=128)]
    arguments: dict[str, Any] | None = None


def mount_agents(app: "FastAPI", service: "Service") -> None:
    """Let agents in at /mcp, with the keys, the limits and the tick that every address has."""
    app.router.routes.append(Route(_PATH, AgentEndpoint(service), methods=["POST"]))


class AgentEndpoint:
    """Takes what is posted to /mcp: one message, one response in JSON, and nothing kept between two of them.

    Guarantee: nothing is read or checked for somebody without a valid key. The protocol's library is loaded for the first
    message, outside of the event loop.
    """

    path = _PATH

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._answer: ASGIApp | None = None

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one message."""
        scope["route"] = self  # by whose path it is logged and counted
        request = Request(scope, receive)
        await caller_in(scope, self._service)
        decode_body(await read_body(request), RpcMessage)
        if self._answer is None:
            self._answer = await anyio.to_thread.run_sync(partial(_load_door, self._service))
        waiting: list[Message] = [{"type": "http.request", "body": await request.body()}]

        async def receive_again() -> "Message":
            return waiting.pop() if waiting else await receive()

        await self._answer(scope, receive_again, send)


def _load_door(service: "Service") -> "ASGIApp":
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", purpose="the address for agents")
    from holdtrue.service.mcp.door import create_endpoint

    return create_endpoint(service)

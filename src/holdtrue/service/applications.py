"""The application: FastAPI, with a way past its layers for the route that most requests take."""

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from holdtrue.service.routes.asks import is_hot

__all__ = ["Application"]


class Application(FastAPI):
    """FastAPI, but for questions: they go to ``lane``, which answers them as the application's own route does."""

    lane: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request, or the server's own messages."""
        if self.lane is not None and is_hot(scope):
            scope["app"] = self
            await self.lane(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

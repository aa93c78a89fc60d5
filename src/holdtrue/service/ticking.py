"""P9: answers leave on a fixed tick, so that how long the rows took shows only as a whole number of ticks."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdtrue.service.bodies import Strict
from holdtrue.service.state import service_of

__all__ = ["Clock", "Ticked"]

_MILLISECOND = 1e-3


class Clock:
    """Lets responses leave together.

    Guarantee: :meth:`leave` returns at a multiple of ``tick`` seconds of a clock that started at a moment nobody outside
    knows, never before the next one, and all that wait for one tick leave by the same wake-up. Needs: an event loop that is
    not blocked. Fails: late, by as much as the loop is busy. ``tick=0`` turns it off.
    """

    def __init__(self, tick: float) -> None:
        self.tick = tick
        self._number = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def leave(self) -> int:
        """Wait for the next tick, and return its number: it stands at so many ticks of the monotonic clock."""
        if self.tick <= 0:
            return 0
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # those of a loop that is gone are waited for by nobody
            self._loop, self._waiting = loop, []
        future = loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            now = time.monotonic()
            # A timer may fire a little early; the tick it stood for is over then, and the next one is waited for.
            self._number = max(math.floor(now / self.tick), self._number) + 1
            # Loops count in milliseconds: rounded up, so that nothing leaves before the tick.
            delay = math.ceil((self._number * self.tick - now) / _MILLISECOND) * _MILLISECOND
            loop.call_later(delay, self._open)
        number = self._number
        await future
        return number

    def _open(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Ticked(Strict):
    """A strict route whose responses and refusals, whatever they are, leave on the tick.

    ``APIRouter(route_class=Ticked)`` makes all routes of a router so.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the strict handler, held until the tick."""
        inner = super().get_route_handler()

        async def ticked(request: Request) -> Response:
            try:
                return await inner(request)
            finally:
                await service_of(request).clock.leave()

        return ticked

"""P9: a response leaves a whole number of ticks after its request arrived, so that a duration shows only as that number."""

import asyncio
import math

__all__ = ["Departure"]


class Departure:
    """When the response to one request leaves.

    Guarantee: :meth:`leave` returns at the arrival plus k ticks, with k the smallest whole number, at least 1, that the work
    fits into; so the time of leaving depends on how long the work took through k alone. The timers that end the wait are set
    at the arrival and at each tick, never when the work is done, so that their rounding tells nothing either. Needs: an
    event loop that is not blocked. Fails: late, by as much as the loop is busy. ``tick=0`` turns it off.

    The arrival is when the head of a request was read, or the end of its body where it has one: whoever holds back the last
    byte of a body moves the ticks along with it.
    """

    __slots__ = ("_arrival", "_loop", "_number", "_tick", "_timer", "_waiting")

    def __init__(self, tick: float) -> None:
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        self._arrival = self._loop.time()
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Future[None] | None = None

    def arrive(self) -> None:
        """Count ticks from now on: the whole request is here."""
        self.end()
        self._arrival, self._number = self._loop.time(), 0
        self._set_timer()

    async def leave(self) -> int:
        """Wait for the next tick, and return its number."""
        if self._tick <= 0:
            return 0
        if self._timer is None:  # refused before its body was read
            self._set_timer()
        self._waiting = self._loop.create_future()
        await self._waiting
        return self._number

    def end(self) -> None:
        """Set no more timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._tick > 0:
            # A timer may fire late, after further ticks: those are over.
            passed = math.floor((self._loop.time() - self._arrival) / self._tick)
            self._number = max(self._number, passed) + 1
            self._timer = self._loop.call_at(self._arrival + self._number * self._tick, self._pass)

    def _pass(self) -> None:
        self._timer = None
        if self._waiting is None:
            self._set_timer()
        elif not self._waiting.done():
            self._waiting.set_result(None)

"""What every request passes and every response carries: id, Host, limits, the tick (P9), security headers, a log line."""

import asyncio
import ctypes
import heapq
import math
import os
import re
import sys
import time
import weakref
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdtrue.entropy import SYSTEM
from holdtrue.service.http import telemetry
from holdtrue.service.http.problems import internal_problem, make_problem

if TYPE_CHECKING:
    from holdtrue.service.http.telemetry import Metrics, Spans
    from holdtrue.service.settings import Settings

__all__ = ["WHOLE", "WRITE", "Departure", "Envelope", "send_json"]

WHOLE = "holdtrue.whole"
"""Stands in the scope of a request whose last byte has arrived."""
WRITE = "holdtrue.write"
"""In the scope of such a request, what writes a whole response of status 200, given lines of its head and its body."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TOO_SLOW = 408
_TOO_LARGE = 413
_MISDIRECTED = 421
_LABELS = ("/v1/holdouts", "/page/holdouts")
_DRAWN = 256
_ABSOLUTE = 1  # of timerfd_settime: the end is a time of the clock, and no distance
# Nothing that these say was computed for the request.
_UNTICKED = ("/healthz", "/readyz", "/openapi.json", "/static/")
_FIXED = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
# Unless the response says otherwise, as the page does for what a browser may show.
_DEFAULT = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
]
_JSON = (b"content-type", b"application/json")
_JSON_HEAD = b"".join([b"%s: %s\r\n" % field for field in (_JSON, *_DEFAULT, *_FIXED)])


class _Waits:
    """Ends the waits of one event loop; those that end at the same microsecond end together.

    The clock of uvloop goes by whole milliseconds, and so do its waits, which begin when the loop last woke. On Linux a
    timer of the system, on the system's own clock, wakes the loop to the microsecond, whenever it was set and whatever
    woke the loop before; arrivals count from the next millisecond, so that many end at once. Elsewhere the loop's own
    timers do.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due: dict[int, list[asyncio.Future[None]]] = {}
        self._ends: list[int] = []  # a heap of microseconds
        self._timer = _open_timer() if type(loop).__module__.partition(".")[0] == "uvloop" else None
        self._end = (ctypes.c_long * 4)()  # as the system takes it: seconds between ends, then the seconds of the end
        if self._timer is not None:
            loop.add_reader(self._timer, self._wake)
            weakref.finalize(loop, os.close, self._timer)

    def now(self, loop: asyncio.AbstractEventLoop) -> float:
        """Return the time of the clock that waits go by."""
        return loop.time() if self._timer is None else time.monotonic()

    def begin(self, loop: asyncio.AbstractEventLoop) -> float:
        """Return the time from which ticks are counted for what arrives now."""
        return loop.time() if self._timer is None else math.ceil(time.monotonic() * 1000) / 1000

    async def wait_until(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        """Return at a time of the clock."""
        end = round(when * 1e6)
        waiting: asyncio.Future[None] = loop.create_future()
        due = self._due.get(end)
        if due is None:
            due = self._due[end] = []
            if self._timer is None:
                loop.call_at(when, self._end_waits, end)
            else:
                heapq.heappush(self._ends, end)
                if self._ends[0] == end:
                    self._set_timer()
        due.append(waiting)
        await waiting

    def _wake(self) -> None:
        now = time.monotonic() * 1e6
        while self._ends and self._ends[0] <= now:
            self._end_waits(heapq.heappop(self._ends))
        self._set_timer()

    def _set_timer(self) -> None:
        """Have the timer end at the first end, or not at all; for ends that have passed it wakes the loop no more."""
        seconds, rest = divmod(self._ends[0], 1_000_000) if self._ends else (0, 0)
        self._end[2], self._end[3] = seconds, max(1, rest * 1000) if self._ends else 0
        _load_system().timerfd_settime(self._timer, _ABSOLUTE, self._end, None)

    def _end_waits(self, end: int) -> None:
        for waiting in self._due.pop(end, ()):
            if not waiting.done():
                waiting.set_result(None)


_WAITS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waits] = weakref.WeakKeyDictionary()


@cache
def _load_system() -> ctypes.PyDLL:
    # Its calls keep the interpreter's lock: they never block, and other threads would take it, for up to a millisecond.
    return ctypes.PyDLL(None)


def _open_timer() -> int | None:
    """Return a timer of the system that a loop can wait for; None where there is none."""
    if sys.platform != "linux":
        return None
    found: int = _load_system().timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    return None if found < 0 else found


class Departure:
    """When the response to one request leaves.

    Guarantee: :meth:`leave` returns at the arrival plus k ticks, with k the smallest whole number, at least 1, that the work
    fits into; so the time of leaving depends on how long the work took through k alone. One timer is set, when the work is
    done, for the arrival plus k ticks. Needs: an event loop that is not blocked. Fails: late, by as much as the loop is
    busy; without a timer of the system, which Linux has, also by less than a millisecond that the loop's wait adds: it
    lasts whole milliseconds from when the loop last woke, which may be when the work was done. ``tick=0`` turns it off.

    The arrival is when the head of a request was read, or the end of its body where it has one: whoever holds back the last
    byte of a body moves the ticks along with it.
    """

    __slots__ = ("_arrival", "_loop", "_tick", "_waits")

    def __init__(self, tick: float) -> None:
        self._tick, self._loop = tick, asyncio.get_running_loop()
        waits = _WAITS.get(self._loop)
        if waits is None:
            waits = _WAITS[self._loop] = _Waits(self._loop)
        self._waits = waits
        self._arrival = waits.begin(self._loop)

    def arrive(self) -> None:
        """Count ticks from now on: the whole request is here."""
        self._arrival = self._waits.begin(self._loop)

    async def leave(self) -> int:
        """Wait for the next tick, and return its number."""
        if self._tick <= 0:
            return 0
        # A part in a million for rounding: what ends on a tick is late for it.
        number = max(1, math.floor((self._waits.now(self._loop) - self._arrival) / self._tick + 1e-6) + 1)
        await self._waits.wait_until(self._arrival + number * self._tick, self._loop)
        return number


class Envelope:
    """Wraps an application.

    Guarantee: whatever happens inside, exactly one response leaves, with its id and security headers, on the tick; a failure
    that nobody foresaw is told by its type in the log and by nothing else; the log line holds public facts only.
    """

    def __init__(self, app: ASGIApp, *, settings: "Settings", metrics: "Metrics", spans: "Spans | None" = None) -> None:
        self._app = app
        self._limit, self._labels_limit = settings.body_limit, settings.holdout_limit
        self._tick, self._patience = settings.tick, settings.read_seconds
        self._hosts = None if "*" in settings.hosts else {host.lower() for host in settings.hosts}
        self._metrics, self._spans = metrics, spans
        self._ids = _draw_ids()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        raw_id = given if given and _ID.fullmatch(given) else next(self._ids)
        request_id = scope["request_id"] = raw_id.decode()
        path = str(scope["path"])
        departure = Departure(0.0 if path.startswith(_UNTICKED) else self._tick)
        sent = _Sent(send, raw_id, departure, scope)
        limit = self._labels_limit if path.startswith(_LABELS) else self._limit
        early = self._refuse_early(headers, request_id, limit)
        body = _Bounded(receive, scope, limit=limit, seconds=self._patience, departure=departure)
        if b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0":
            body.end()
        if early is None:
            try:
                await self._app(scope, body, sent)
            except Exception as error:  # noqa: BLE001 - its text may quote a row, so it ends here
                early = internal_problem(error, request_id=request_id)
        if early is not None and not sent.status:
            await early(scope, receive, sent)
        found = scope.get("route")
        route = "other" if "endpoint" in scope else "unmatched"
        route = route if found is None else getattr(found, "path", route)
        seconds = time.perf_counter() - started
        self._metrics.count_request(route, scope["method"], sent.status, seconds, scope.get("problem"))
        telemetry.log_request(scope, route=route, status=sent.status)
        if self._spans is not None:
            self._spans.send(scope, route=route, status=sent.status, seconds=seconds)

    def _refuse_early(self, headers: dict[bytes, bytes], request_id: str, limit: int) -> Response | None:
        if self._hosts is not None and not self._is_known_host(headers.get(b"host", b"")):
            detail = "this service does not answer to that name; its operator adds it with --allow-host, or in the settings"
            return make_problem(
                _MISDIRECTED, "misdirected request", detail, kind="misdirected-request", request_id=request_id
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > limit:
            detail = f"the body must be at most {limit} bytes"
            return make_problem(_TOO_LARGE, "content too large", detail, kind="content-too-large", request_id=request_id)
        return None

    def _is_known_host(self, host: bytes) -> bool:
        name = host.decode("latin-1").lower()
        bare = name if name.endswith("]") else name.rpartition(":")[0] or name
        hosts = self._hosts or set()
        return bare in hosts or any(each.startswith("*.") and bare.endswith(each[1:]) for each in hosts)


class _Sent:
    """Sends on the tick, with the headers that every response carries."""

    def __init__(self, send: Send, request_id: bytes, departure: Departure, scope: Scope) -> None:
        self.send, self.id, self.scope = send, request_id, scope
        self._departure = departure
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message["headers"])
            added = [each for each in _DEFAULT if each[0] not in dict(given)]
            message["headers"] = [*given, *added, *_FIXED, (b"x-request-id", self.id)]
            await self.begin(message["status"])
        await self.send(message)

    async def begin(self, status: int) -> None:
        """Wait for the tick of a response with this status."""
        self.status = status
        await self._departure.leave()


async def send_json(send: Send, content: bytes) -> None:
    """Send a response of status 200 with JSON, on its tick: at once where the server writes whole responses."""
    if isinstance(send, _Sent) and (write := send.scope.get(WRITE)) is not None:
        await send.begin(200)
        # Every line is a constant, a number or an id of plain letters: none has to be checked again each time.
        await write(b"content-length: %d\r\n%sx-request-id: %s\r\n" % (len(content), _JSON_HEAD, send.id), content)
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(content)), _JSON]})
    await send({"type": "http.response.body", "body": content})


class _Bounded:
    """Receives a body up to its limit, also where its length was not told before, and in time; its end is the arrival."""

    def __init__(self, receive: Receive, scope: Scope, *, limit: int, seconds: float, departure: Departure) -> None:
        self._receive, self._scope = receive, scope
        self._left = limit
        self._seconds = seconds
        self._departure = departure
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        message = await (self._receive() if WHOLE in self._scope else self._receive_in_time())
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise HTTPException(_TOO_LARGE)
            if not message.get("more_body", False):
                self.end()
        return message

    async def _receive_in_time(self) -> Message:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._receive()
        except TimeoutError:
            raise HTTPException(_TOO_SLOW) from None

    def end(self) -> None:
        """Note that the whole request is here."""
        self._whole = True
        self._departure.arrive()


def _draw_ids() -> Iterator[bytes]:
    """Yield random ids, drawn many at a time."""
    while True:
        content = SYSTEM.words(2 * _DRAWN).tobytes().hex().encode()
        yield from [content[start : start + 32] for start in range(0, len(content), 32)]

"""What every request passes and every response carries: id, Host, limits, the tick (P9), security headers, a log line."""

import asyncio
import math
import re
import time
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

__all__ = ["WHOLE", "Departure", "Envelope"]

WHOLE = "holdtrue.whole"
"""Stands in the scope of a request whose last byte has arrived."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TOO_SLOW = 408
_TOO_LARGE = 413
_MISDIRECTED = 421
_LABELS = ("/v1/holdouts", "/page/holdouts")
_DRAWN = 256
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


class _Timers:
    """Ends ticks; those that end at the same microsecond share a timer, since the clock of uvloop goes by milliseconds."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due: dict[int, list[Departure]] = {}

    def add(self, departure: "Departure", loop: asyncio.AbstractEventLoop, when: float) -> int:
        """Have a departure told of the end of a tick; return what names that end."""
        if loop is not self._loop:  # those of a loop that is gone are waited for by nobody
            self._loop, self._due = loop, {}
        end = round(when * 1e6)
        due = self._due.get(end)
        if due is None:
            due = self._due[end] = []
            loop.call_at(when, self._finish_ticks, end)
        due.append(departure)
        return end

    def _finish_ticks(self, end: int) -> None:
        for departure in self._due.pop(end, ()):
            departure.finish_tick(end)


class Departure:
    """When the response to one request leaves.

    Guarantee: :meth:`leave` returns at the arrival plus k ticks, with k the smallest whole number, at least 1, that the work
    fits into; so the time of leaving depends on how long the work took through k alone. The timers that end the wait are set
    at the arrival and at each tick, never when the work is done, so that their rounding tells nothing either. Needs: an
    event loop that is not blocked. Fails: late, by as much as the loop is busy. ``tick=0`` turns it off.

    The arrival is when the head of a request was read, or the end of its body where it has one: whoever holds back the last
    byte of a body moves the ticks along with it.
    """

    __slots__ = ("_arrival", "_end", "_loop", "_number", "_tick", "_timers", "_waiting")

    def __init__(self, tick: float, timers: _Timers | None = None) -> None:
        self._tick, self._timers = tick, timers or _Timers()
        self._loop = asyncio.get_running_loop()
        self._arrival = self._loop.time()
        self._number = 0
        self._end: int | None = None  # of the tick under way
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
        if self._end is None:  # refused before its body was read
            self._set_timer()
        self._waiting = self._loop.create_future()
        await self._waiting
        return self._number

    def end(self) -> None:
        """Set no more timers."""
        self._end = None

    def _set_timer(self) -> None:
        if self._tick > 0:
            # A timer may fire late, after further ticks: those are over.
            passed = math.floor((self._loop.time() - self._arrival) / self._tick)
            self._number = max(self._number, passed) + 1
            self._end = self._timers.add(self, self._loop, self._arrival + self._number * self._tick)

    def finish_tick(self, end: int) -> None:
        """Let the response leave if it waits, or begin the next tick; nothing if this tick is not under way any more."""
        if end != self._end:
            return
        self._end = None
        if self._waiting is None:
            self._set_timer()
        elif not self._waiting.done():
            self._waiting.set_result(None)


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
        self._ids = _Ids()
        self._timers = _Timers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        raw_id = given if given and _ID.fullmatch(given) else self._ids.draw_id()
        request_id = scope["request_id"] = raw_id.decode()
        path = str(scope["path"])
        departure = Departure(0.0 if path.startswith(_UNTICKED) else self._tick, self._timers)
        sent = _Sent(send, raw_id, departure)
        limit = self._labels_limit if path.startswith(_LABELS) else self._limit
        early = self._refuse_early(headers, request_id, limit)
        body = _Bounded(receive, scope, limit=limit, seconds=self._patience, departure=departure)
        if b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0":
            body.end()
        try:
            if early is None:
                early = await self._call_application(scope, body, sent, request_id)
            if early is not None and not sent.status:
                await early(scope, receive, sent)
        finally:
            departure.end()
        found = scope.get("route")
        route = "other" if "endpoint" in scope else "unmatched"
        route = route if found is None else getattr(found, "path", route)
        seconds = time.perf_counter() - started
        self._metrics.count_request(route, scope["method"], sent.status, seconds, scope.get("problem"))
        telemetry.log_request(scope, route=route, status=sent.status)
        if self._spans is not None:
            self._spans.send(scope, route=route, status=sent.status, seconds=seconds)

    async def _call_application(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> Response | None:
        """Let the application answer; return the response to a failure."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - its text may quote a row, so it ends here
            return internal_problem(error, request_id=request_id)
        return None

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

    def __init__(self, send: Send, request_id: bytes, departure: Departure) -> None:
        self._send = send
        self._id = request_id
        self._departure = departure
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message["headers"])
            given = {name for name, _ in headers}
            headers += [each for each in _DEFAULT if each[0] not in given]
            message["headers"] = [*headers, *_FIXED, (b"x-request-id", self._id)]
            await self._departure.leave()
        await self._send(message)


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


class _Ids:
    """Random ids, drawn many at a time."""

    def __init__(self) -> None:
        self._drawn: list[bytes] = []

    def draw_id(self) -> bytes:
        if not self._drawn:
            content = SYSTEM.words(2 * _DRAWN).tobytes().hex().encode()
            self._drawn = [content[start : start + 32] for start in range(0, len(content), 32)]
        return self._drawn.pop()

"""Bytes in and out: request heads limited in size and time, a limit on connections, responses in one write."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdtrue.service.http.middleware import WHOLE, WRITE

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BoundedProtocol", "Connections"]

_HEAD_BYTES = 16_384
_HEAD_FIELDS = 100
_BETWEEN = 4  # bytes around the name and the value of a field
_PIPELINED = 64
_LAST = "content-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
_TOO_LARGE = "431 Request Header Fields Too Large"
_TOO_SLOW = "408 Request Timeout"
_FULL = "503 Service Unavailable"


class Connections:
    """The connections of one worker, and how many seconds the head of a request may take.

    Those that wait for a request are kept in the order in which they began to wait, apart by whether they ever sent one.
    """

    def __init__(self, *, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        self._silent: dict[BoundedProtocol, None] = {}
        self._idle: dict[BoundedProtocol, None] = {}

    def note_waiting(self, protocol: "BoundedProtocol", *, silent: bool) -> None:
        """Note that a connection waits for a request; ``silent`` if it never sent one."""
        (self._silent if silent else self._idle)[protocol] = None

    def note_leaving(self, protocol: "BoundedProtocol") -> None:
        """Note that a connection waits no more: a request came, or it is gone."""
        self._silent.pop(protocol, None)
        self._idle.pop(protocol, None)

    def find_longest(self) -> "BoundedProtocol | None":
        """Return the connection that has waited longest, first of those that never sent a request; None where none waits."""
        return next(iter(self._silent), None) or next(iter(self._idle), None)


class _Joining:
    """A transport that holds the first write back until the second, or until the loop's next turn.

    Law: what was written leaves whole and in its order; nothing is held longer than one turn of the event loop. All else is
    the transport's own.
    """

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: bytes | None = None

    def write(self, data: bytes) -> None:
        if self._held is None:
            self._held = bytes(data)
            self._loop.call_soon(self._write_held)
        else:
            held, self._held = self._held, None
            self._transport.write(held + data)

    def writelines(self, several: "Iterable[bytes]") -> None:
        held, self._held = self._held, None
        self._transport.write(b"".join(several if held is None else (held, *several)))

    def write_eof(self) -> None:
        self._write_held()
        self._transport.write_eof()

    def close(self) -> None:
        self._write_held()
        self._transport.close()

    def _write_held(self) -> None:
        held, self._held = self._held, None
        if held is not None and not self._transport.is_closing():
            self._transport.write(held)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self._transport, name)


class _TooMuch(Exception):
    """A head is larger than a head may be, or too many requests came before their turn."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, within bounds, over a transport that joins small writes: one call of the kernel for a response.

    Guarantee: a head of more than 16 KiB or 100 fields is refused with 431 as soon as that much has arrived; one that is
    not whole in time is refused with 408; and a worker has no more than ``places.most`` connections. Where it has that
    many, a newcomer takes the place of the one that has waited longest for a request, first of those that never sent one;
    where a request is under way on every connection, the newcomer is refused with 503. So connections that send nothing keep
    nobody out.
    """

    def __init__(self, *given: Any, places: Connections, **named: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*given, **named)
        self._places = places
        self._in_head = False
        self._head_bytes = 0
        self._requests = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin with a connection, or refuse it."""
        full = len(self.connections) >= self._places.most
        super().connection_made(_Joining(transport, self.loop))  # type: ignore[arg-type]  # has all that a transport has
        if full:
            longest = self._places.find_longest()
            if longest is None:
                self._refuse_connection(_FULL)
                return
            longest.drop()
        self._places.note_waiting(self, silent=True)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with a connection."""
        self._places.note_leaving(self)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read some bytes of requests; whatever comes after a refusal is not looked at."""
        if self.transport.is_closing():
            return
        requests = self._requests
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and requests == self._requests:
            # A field that is not whole yet waits in the parser, so bytes are counted and not fields.
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES:
                self._refuse_connection(_TOO_LARGE)
                return
        cycle: RequestResponseCycle | None = self.cycle  # which is None before the first request
        if self._timer is None and (cycle is None or cycle.response_complete):
            self._set_timer()

    def on_message_begin(self) -> None:
        """Begin with a head."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Begin with a request whose head is whole."""
        if self._is_too_large() or len(self.pipeline) >= _PIPELINED:
            raise _TooMuch
        self._in_head = False
        self._places.note_leaving(self)
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End with the body of a request."""
        super().on_message_complete()
        if self.cycle is not None:
            # A weak reference: a request that held itself would wait for the garbage collector, which stops all others.
            self.cycle.scope.update({WHOLE: True, WRITE: partial(self._write_response, ref(self.cycle))})  # type: ignore[misc]
        self._requests += 1

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._places.note_waiting(self, silent=False)

    async def _write_response(self, asked: "ref[RequestResponseCycle]", head: bytes, body: bytes) -> None:
        """Write a whole response of status 200 at once, as the cycle would, which looks at every field of every head again.

        Needs: whole lines of a head that fits the body, and a request that is not HEAD.
        """
        await self.flow.drain()
        cycle = asked()
        if cycle is None or cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        always = [b"%s: %s\r\n" % field for field in cycle.default_headers]
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        self.transport.writelines((b"HTTP/1.1 200 OK\r\n", *always, head, end, body))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, or is larger than a head may be."""
        if self._in_head and self._is_too_large():
            self._refuse_connection(_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def drop(self) -> None:
        """Make room for another connection."""
        self._places.note_leaving(self)
        self.connections.discard(self)
        self.transport.abort()

    def _is_too_large(self) -> bool:
        length = len(self.url) + sum([len(name) + len(value) + _BETWEEN for name, value in self.headers])
        return length > _HEAD_BYTES or len(self.headers) > _HEAD_FIELDS

    def _set_timer(self) -> None:
        self._timer = self.loop.call_later(self._places.seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._in_head:
            self._refuse_connection(_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse_connection(self, status: str) -> None:
        self._stop_timer()
        self._places.note_leaving(self)
        self.connections.discard(self)
        self.transport.write(f"HTTP/1.1 {status}\r\n{_LAST}".encode("ascii"))
        self.transport.close()

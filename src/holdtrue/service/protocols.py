"""How bytes leave: the head of a response and its body go to the kernel together."""

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["JoiningProtocol"]


class _Joining:
    """A transport that holds what is written first until the second write, or until the loop's next turn.

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
            self._loop.call_soon(self._release)
        else:
            held, self._held = self._held, None
            self._transport.write(held + data)

    def writelines(self, several: "Iterable[bytes]") -> None:
        self.write(b"".join(several))

    def write_eof(self) -> None:
        self._release()
        self._transport.write_eof()

    def close(self) -> None:
        self._release()
        self._transport.close()

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None and not self._transport.is_closing():
            self._transport.write(held)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self._transport, name)


class JoiningProtocol(HttpToolsProtocol):
    """uvicorn's protocol over a transport that joins small writes: one call of the kernel for a response, not two."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin with a connection."""
        super().connection_made(_Joining(transport, self.loop))  # type: ignore[arg-type]  # has all that a transport has

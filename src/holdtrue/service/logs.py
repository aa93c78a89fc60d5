"""Structured logs: one line of JSON a request, with public facts only. Never a query, a body or a row."""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

__all__ = ["configure", "request"]

_SERVICE = logging.getLogger("holdtrue.service")
_ACCESS = logging.getLogger("holdtrue.service.requests")
_KEPT = ("kind", "request_id", "dataset")


class _Lines(logging.Formatter):
    """Writes a record as one line of JSON; a traceback is never written, since it may quote a row."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name == _ACCESS.name:
            return record.getMessage()
        document = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps(document | {name: getattr(record, name) for name in _KEPT if hasattr(record, name)})


class _Stream(logging.StreamHandler[Any]):
    """Writes to a stream; lines of requests are written together, once in a turn of the event loop, in their order."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - any text file
        super().__init__(stream)
        self._waiting: list[str] = []

    def line(self, text: str) -> None:
        """Write a line soon: with the others of this turn, or at once where there is no loop."""
        self._waiting.append(f"{text}\n")
        if len(self._waiting) > 1:
            return
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, after the lines that came before it."""
        self.flush()
        super().emit(record)

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.acquire()
            try:
                self.stream.write("".join(waiting))
            except (OSError, ValueError):  # a log that cannot be written keeps no answer back
                pass
            finally:
                self.release()
        super().flush()


def configure(stream: Any = None) -> None:  # noqa: ANN401 - any text file
    """Send the service's log lines to a stream, standard error unless given. Calling it again replaces the stream."""
    handler = _Stream(stream or sys.stderr)
    handler.setFormatter(_Lines())
    _SERVICE.handlers[:] = [handler]
    _SERVICE.setLevel(logging.INFO)
    _SERVICE.propagate = False


def request(scope: Mapping[str, Any], *, route: str, status: int) -> None:
    """Log one request: when, its id, method, route template, status, the caller's key prefix and the entry it made."""
    if not _ACCESS.isEnabledFor(logging.INFO):
        return
    caller, entry = scope.get("caller"), scope.get("entry")
    line = (
        f'{{"time": {round(time.time(), 3)!r}, "request_id": {quoted(scope["request_id"])}, '
        f'"method": {quoted(scope["method"])}, "route": {quoted(route)}, "status": {status}, '
        f'"key": {"null" if caller is None else quoted(caller.prefix)}, "entry": {"null" if entry is None else entry}}}'
    )
    handlers = _SERVICE.handlers
    if len(handlers) == 1 and type(handlers[0]) is _Stream and not _ACCESS.handlers and not _SERVICE.propagate:
        # As the logger would, without a record for every line.
        handlers[0].line(line)
    else:
        _ACCESS.info(line)

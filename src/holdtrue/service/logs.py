"""Structured logs: one line of JSON a request, with public facts only. Never a query, a body or a row."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

__all__ = ["configure", "request"]

_ACCESS = logging.getLogger("holdtrue.service.requests")
_KEPT = ("kind", "request_id", "dataset")


class _Lines(logging.Formatter):
    """Writes a record as one line of JSON; a traceback is never written, since it may quote a row."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name == _ACCESS.name:
            return record.getMessage()
        document = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps(document | {name: getattr(record, name) for name in _KEPT if hasattr(record, name)})


def configure(stream: Any = None) -> None:  # noqa: ANN401 - any text file
    """Send the service's log lines to a stream, standard error unless given. Calling it again replaces the stream."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Lines())
    logger = logging.getLogger("holdtrue.service")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def request(scope: Mapping[str, Any], *, route: str, status: int) -> None:
    """Log one request: when, its id, method, route template, status, the caller's key prefix and the entry it made."""
    if not _ACCESS.isEnabledFor(logging.INFO):
        return
    line = {
        "time": round(time.time(), 3),
        "request_id": scope["request_id"],
        "method": scope["method"],
        "route": route,
        "status": status,
        "key": getattr(scope.get("caller"), "prefix", None),
        "entry": scope.get("entry"),
    }
    _ACCESS.info(json.dumps(line))

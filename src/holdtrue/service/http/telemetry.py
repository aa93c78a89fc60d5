"""What the service tells of itself: whether it is there and ready, log lines, counters and spans. Public facts only.

Never a query, a body or a row. Every worker counts for itself; scrape each, or add them up by ``worker``.
"""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from holdtrue.errors import MissingExtra
from holdtrue.service import service_of
from holdtrue.service.http.problems import PROBLEMS, Refused
from holdtrue.service.identity import caller_of, headers_of
from holdtrue.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from starlette.types import Scope

__all__ = ["MEDIA", "Metrics", "Spans", "configure_logs", "log_request", "require_ready", "router"]

_SERVICE = logging.getLogger("holdtrue.service")
_ACCESS = logging.getLogger("holdtrue.service.requests")
_KEPT = ("kind", "request_id", "dataset")
_NOT_READY = "something that is registered is not open, or its ledger does not answer"
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Yes.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}

router = APIRouter(tags=["health"])


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

    def write_line(self, text: str) -> None:
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


def configure_logs(stream: Any = None) -> None:  # noqa: ANN401 - any text file
    """Send the service's log lines to a stream, standard error unless given. Calling it again replaces the stream."""
    handler = _Stream(stream or sys.stderr)
    handler.setFormatter(_Lines())
    _SERVICE.handlers[:] = [handler]
    _SERVICE.setLevel(logging.INFO)
    _SERVICE.propagate = False


def log_request(scope: Mapping[str, Any], *, route: str, status: int) -> None:
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
        handlers[0].write_line(line)
    else:
        _ACCESS.info(line)


MEDIA = CONTENT_TYPE_LATEST
_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """What one worker counts.

    Guarantee: :meth:`format_text` without ``owner`` holds no duration and no name of a dataset, and nothing in it depends
    on a row: its labels are route templates, methods, statuses and kinds of error. How many ticks a response took may
    depend on rows, so durations are for the owner, who has them anyway.
    """

    def __init__(self) -> None:
        self._public, self._private = CollectorRegistry(), CollectorRegistry()
        public: dict[str, Any] = {"namespace": "holdtrue", "registry": self._public}
        private: dict[str, Any] = {"namespace": "holdtrue", "registry": self._private}
        self._requests = Counter("requests", "Requests answered.", ["route", "method", "status"], **public)
        self._refusals = Counter("refusals", "Requests refused.", ["kind"], **public)
        Gauge("worker_info", "Which process counts.", ["worker"], **public).labels(str(os.getpid())).set(1)
        self._seconds = Histogram(
            "request_seconds", "Seconds until the response left, on the tick.", ["route"], buckets=_BUCKETS, **private
        )
        self._asks = Counter("asks", "Requests that may spend budget.", ["dataset", "verb"], **private)
        self._charges = Counter("charges", "Requests that did.", ["dataset", "verb"], **private)
        self._left = Gauge("budget_left", "What is left of the budget, in its unit.", ["dataset"], **private)
        self._children: dict[tuple[str, str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}
        self._verbs: dict[tuple[str, str], tuple[Counter, Counter, Gauge]] = {}

    def count_request(self, route: str, method: str, status: int, seconds: float, problem: str | None = None) -> None:
        """Count a request that was answered, or refused with a problem of a kind."""
        key = (route, method if method in _METHODS else "other", status)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._requests.labels(key[0], key[1], str(status))
            self._timers[route] = self._seconds.labels(route)
        child.inc()
        self._timers[route].observe(seconds)
        if problem is not None:
            self._refusals.labels(problem).inc()

    def note_charge(self, scope: "Scope", dataset: str, verb: str, responses: Sequence[Any]) -> None:
        """Tell the log and the counters what the responses to one request were charged."""
        newest = max([response.certificate for response in responses], key=lambda certificate: certificate.entry)
        scope["entry"] = newest.entry
        self.count_ask(dataset, verb, charged=not all(response.repeated for response in responses), left=newest.left)

    def count_ask(self, dataset: str, verb: str, *, charged: bool, left: float) -> None:
        """Count a response of a verb that may spend, and note what it left."""
        found = self._verbs.get((dataset, verb))
        if found is None:
            found = self._asks.labels(dataset, verb), self._charges.labels(dataset, verb), self._left.labels(dataset)
            self._verbs[dataset, verb] = found
        asks, charges, gauge = found
        asks.inc()
        if charged:
            charges.inc()
        gauge.set(left)

    def note_left(self, dataset: str, left: float) -> None:
        """Note what is left of a budget."""
        self._left.labels(dataset).set(left)

    def format_text(self, *, owner: bool = False) -> bytes:
        """Return what everybody may see in Prometheus' text format, and the rest for the owner."""
        return generate_latest(self._public) + (generate_latest(self._private) if owner else b"")


class Spans:
    """Sends a span for each request to a collector of OpenTelemetry, where the settings say ``telemetry``.

    Guarantee: a span has the route template, the method, the status, the kind of a problem and the id of the request, and it
    lasts until the response left on its tick; nothing of it depends on a row but how many ticks that took, which whoever
    asked sees too. No header of a request decides what it belongs to. Needs: the extra ``telemetry``; where the collector is
    stands in the variables OTEL_*. Fails: with MissingExtra at the start; a collector that does not answer loses spans.
    """

    def __init__(self) -> None:
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise MissingExtra("telemetry", purpose="sending spans") from None
        named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "holdtrue")}
        self._provider = TracerProvider(resource=Resource.create(named))
        self._provider.add_span_processor(BatchSpanProcessor(_make_exporter()))
        self._tracer = self._provider.get_tracer("holdtrue", __version__)

    def send(self, scope: "Scope", *, route: str, status: int, seconds: float) -> None:
        """Send the span of a request that was answered now, that many seconds after it came."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        method, ended = scope["method"] if scope["method"] in _METHODS else "other", time.time_ns()
        facts = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        facts |= {"holdtrue.request_id": scope["request_id"]}
        facts |= {"error.type": problem} if (problem := scope.get("problem")) else {}
        began = ended - round(seconds * 1e9)
        span = self._tracer.start_span(
            f"{method} {route}", context=Context(), kind=SpanKind.SERVER, attributes=facts, start_time=began
        )
        span.end(ended)

    def close(self) -> None:
        """Send what waits, and no more."""
        self._provider.shutdown()


def _make_exporter() -> "SpanExporter":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise MissingExtra("telemetry", purpose="sending spans") from None
    return OTLPSpanExporter()


async def require_ready(request: Request) -> None:
    """Refuse with 503 unless everything registered is open in this worker and the ledgers answer."""
    if not await service_of(request).registry.is_ready():
        raise Refused(503, "not ready", _NOT_READY, headers={"Retry-After": "1"})


@router.get("/healthz", responses=_TEXT, response_class=Response, summary="Is the process there?")
async def healthz() -> Response:
    """Answer as long as the process runs."""
    return Response("ok\n", media_type="text/plain")


@router.get("/readyz", responses={**_TEXT, 503: PROBLEMS[503]}, response_class=Response, summary="Is everything open?")
async def readyz(request: Request) -> Response:
    """Answer 200 while everything registered is open in this worker and the ledgers answer, 503 otherwise."""
    await require_ready(request)
    return Response("ready\n", media_type="text/plain")


@router.get("/metrics", responses=_TEXT, response_class=Response, summary="Counts, in Prometheus' text format.")
async def metrics(request: Request) -> Response:
    """Return this worker's counters; durations and datasets only with the owner's key. No key is needed for the rest."""
    given = headers_of(request.scope, b"authorization")
    owner = bool(given) and (await caller_of(request)).role == "owner"
    return Response(service_of(request).metrics.format_text(owner=owner), media_type=MEDIA)

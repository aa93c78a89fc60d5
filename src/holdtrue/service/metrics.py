"""Prometheus metrics: requests, charges, what is left of budgets, latencies on the tick. Public numbers only.

Every worker counts for itself; scrape each, or add them up by ``worker``.
"""

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["MEDIA", "Metrics"]

MEDIA = CONTENT_TYPE_LATEST
_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """What one worker counts. Labels are route templates, methods, statuses, kinds of error and names of datasets."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        given: dict[str, Any] = {"namespace": "holdtrue", "registry": self._registry}
        self._requests = Counter("requests", "Requests answered.", ["route", "method", "status"], **given)
        self._seconds = Histogram(
            "request_seconds", "Seconds until the response left, on the tick.", ["route"], buckets=_BUCKETS, **given
        )
        self._refusals = Counter("refusals", "Requests refused.", ["kind"], **given)
        self._asks = Counter("asks", "Requests that may spend budget.", ["dataset", "verb"], **given)
        self._charges = Counter("charges", "Requests that did.", ["dataset", "verb"], **given)
        self._left = Gauge("budget_left", "What is left of the budget, in its unit.", ["dataset"], **given)
        Gauge("worker_info", "Which process counts.", ["worker"], **given).labels(str(os.getpid())).set(1)
        self._children: dict[tuple[str, str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}
        self._verbs: dict[tuple[str, str], tuple[Counter, Counter, Gauge]] = {}

    def request(self, route: str, method: str, status: int, seconds: float, problem: str | None = None) -> None:
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

    def asked(self, dataset: str, verb: str, *, charged: bool, left: float) -> None:
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

    def left(self, dataset: str, left: float) -> None:
        """Note what is left of a budget."""
        self._left.labels(dataset).set(left)

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)

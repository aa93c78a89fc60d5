"""Prometheus metrics: for everybody how many requests came and were refused; for the owner datasets and durations too.

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
    """What one worker counts.

    Guarantee: :meth:`text` without ``owner`` holds no duration and no name of a dataset, and nothing in it depends on a row:
    its labels are route templates, methods, statuses and kinds of error. How many ticks a response took may depend on rows,
    so durations are for the owner, who has them anyway.
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

    def text(self, *, owner: bool = False) -> bytes:
        """Return what everybody may see in Prometheus' text format, and the rest for the owner."""
        return generate_latest(self._public) + (generate_latest(self._private) if owner else b"")

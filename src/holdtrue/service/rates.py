"""How fast one key may ask: a limit for each caller, counted in this worker's memory.

Each worker counts for itself, so that no request waits for a shared counter: with several workers a caller who spreads
requests over many connections gets up to that many times the rate. Budgets are what protects rows; a rate protects time.
"""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from limits import parse_many
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from holdtrue.service.problems import Refused

if TYPE_CHECKING:
    from holdtrue.service.callers import Caller

__all__ = ["Rates"]


class Rates:
    """Counts requests over moving windows; the one that is too much is refused and says when to come back."""

    def __init__(self, rate: str, *, now: Callable[[], float] = time.time) -> None:
        # The tightest first: a request that it refuses does not count against the others.
        self._limits = sorted(parse_many(rate), key=lambda limit: limit.amount / limit.get_expiry())
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._now = now

    def check(self, caller: "Caller") -> None:
        """Count a request of a caller, or refuse it with 429 and Retry-After."""
        for limit in self._limits:
            if not self._limiter.hit(limit, caller.prefix, caller.name):
                reset, _ = self._limiter.get_window_stats(limit, caller.prefix, caller.name)
                seconds = max(1, math.ceil(reset - self._now()))
                detail = f"more than {limit.amount} requests in {limit.get_expiry()} seconds; wait for Retry-After"
                raise Refused(429, "too many requests", detail, headers={"Retry-After": str(seconds)})

"""How fast one key may ask: a limit for each caller, counted in this worker's memory.

Each worker counts for itself, so that no request waits for a shared counter: with several workers a caller who spreads
requests over many connections gets up to that many times the rate. Budgets are what protects rows; a rate protects time.

The library ``limits`` reads what the settings say. It would count too, with a thread every hundredth of a second; what is
needed here is one number for each caller and limit.
"""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from limits import parse_many

from holdtrue.service.problems import Refused

if TYPE_CHECKING:
    from holdtrue.service.callers import Caller

__all__ = ["Rates"]

_MOST_CALLERS = 100_000


class Rates:
    """Lets a caller's requests through at a steady rate, and as many at once as the limit's whole amount.

    Law: for each limit, ``amount`` over ``seconds``, a caller has a time until which its share is used up; a request moves
    it on by seconds / amount, and is refused if that would take it more than ``seconds`` ahead of now. So no more than twice
    the amount passes in any such span, and no more than the rate in the long run. What is refused counts against no limit.
    """

    def __init__(self, rate: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = [(limit.amount, float(limit.get_expiry())) for limit in parse_many(rate)]
        self._used: dict[tuple[str, str], list[float]] = {}
        self._now = now

    def check(self, caller: "Caller") -> None:
        """Count a request of a caller, or refuse it with 429 and Retry-After."""
        now, name = self._now(), (caller.prefix, caller.name)
        used = self._used.get(name) or self._new(name, now)
        moved = [max(until, now) + span / amount for until, (amount, span) in zip(used, self._limits, strict=True)]
        for until, (amount, span) in zip(moved, self._limits, strict=True):
            # A part in a million for rounding, so that the whole amount passes at once.
            early = until - now - span * (1 + 1e-6)
            if early > 0:
                detail = f"more than {amount} requests in {span:.0f} seconds; wait for Retry-After"
                raise Refused(429, "too many requests", detail, headers={"Retry-After": str(max(1, math.ceil(early)))})
        self._used[name] = moved

    def _new(self, name: tuple[str, str], now: float) -> list[float]:
        """Begin to count for a caller; those whose share is whole again are forgotten when there are very many."""
        if len(self._used) >= _MOST_CALLERS:
            self._used = {known: used for known, used in self._used.items() if max(used) > now}
        return self._used.setdefault(name, [now] * len(self._limits))

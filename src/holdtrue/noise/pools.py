"""Single draws at the price of a share in a vector."""

import threading
from collections.abc import Callable

from holdtrue.entropy import Bits

__all__ = ["Pool"]

_AT_ONCE = 1024


class Pool:
    """Serves one value at a time from a vector that was drawn in advance.

    Each value is served once. A call does the same work whatever the value: it takes the last of a list, and every
    1,024th call refills the list, so that time says nothing about size (P9). Values drawn before a fork are dropped in
    the child, and a pickled or copied pool is an empty one, so that no two processes serve the same value (P11).
    """

    def __init__(self, draw: Callable[[int], list[int]], bits: Bits) -> None:
        self._draw = draw
        self._bits = bits
        self._values: list[int] = []
        self._generation: object = None
        self._lock = threading.Lock()

    def take(self) -> int:
        """Return the next value."""
        if self._generation is self._bits.generation:
            try:
                return self._values.pop()
            except IndexError:
                pass
        return self._refilled()

    def _refilled(self) -> int:
        # A child must not wait for a lock that a thread of its parent held: draw for this call alone instead.
        if not self._lock.acquire(blocking=False):
            return self._draw(1)[0]
        try:
            generation = self._bits.generation
            values = self._draw(_AT_ONCE)
            value = values.pop()
            self._values = values
            self._generation = generation
            return value
        finally:
            self._lock.release()

    def __reduce__(self) -> tuple[type["Pool"], tuple[Callable[[int], list[int]], Bits]]:
        return Pool, (self._draw, self._bits)

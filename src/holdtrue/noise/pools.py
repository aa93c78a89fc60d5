"""Single draws at the price of a share in a vector."""

import threading
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from holdtrue.entropy import Bits

__all__ = ["Pool"]

_AT_ONCE = 1024
_BIAS = 1 << 61


class Pool:
    """Serves one value at a time from a vector that was drawn in advance.

    Each value is served once. A call does the same work whatever the value: it takes the last of a list, and every
    1,024th call refills the list, so that time says nothing about size (P9). Python keeps small integers ready and
    allocates larger ones, which shows in time; so values lie in the list with a bias that makes all of them large. Values
    drawn before a fork are dropped in the child, and a pool cannot be copied or pickled, so that no value is served twice
    (P11).
    """

    def __init__(self, draw: Callable[[int], npt.NDArray[np.int64]], bits: Bits) -> None:
        self._draw = draw
        self._bits = bits
        self._values: list[int] = []
        self._generation: object = None
        self._lock = threading.Lock()

    def added_to(self, value: int) -> int:
        """Return a number plus the next value."""
        shifted = value - _BIAS
        if self._generation is self._bits.generation:
            try:
                return shifted + self._values.pop()
            except IndexError:
                pass
        return shifted + self._refilled()

    def _refilled(self) -> int:
        # A child must not wait for a lock that a thread of its parent held: draw for this call alone instead.
        if not self._lock.acquire(blocking=False):
            return int(self._draw(1)[0]) + _BIAS
        try:
            generation = self._bits.generation
            values: list[int] = (self._draw(_AT_ONCE) + _BIAS).tolist()
            value = values.pop()
            self._values = values
            self._generation = generation
            return value
        finally:
            self._lock.release()

    def __reduce__(self) -> NoReturn:
        message = "a pool of noise cannot be copied: two copies would serve the same values"
        raise TypeError(message)

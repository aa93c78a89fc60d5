"""What all mechanisms share: their privacy follows from their event, and their noise from one source of bits."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NoReturn, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from holdtrue.accounting import event_privacy
from holdtrue.entropy import SYSTEM, Bits, SystemBits
from holdtrue.events import Event, NonPrivate
from holdtrue.exact import Integers, Number, integers

Array: TypeAlias = Sequence[Any] | npt.NDArray[Any]

# Noise of the largest scale stays below this in 64 bits but with probability 2^-8000.
_ROOM = 1 << 62
_AT_ONCE = 1024
_BIAS = 1 << 61


class NoiseBuffer:
    """Serves one value at a time from a vector that was drawn in advance: single draws at the price of a share in it.

    Each value is served once. A call does the same work whatever the value: it takes the last of a list, and every
    1,024th call refills the list, so that time says nothing about size (P9). Python keeps small integers ready and
    allocates larger ones, which shows in time; so values lie in the list with a bias that makes all of them large. Values
    drawn before a fork, or in a process of another number, are dropped, and a buffer cannot be copied or pickled, so that
    no value is served twice (P11).
    """

    def __init__(self, draw: Callable[[int], npt.NDArray[np.int64]], bits: Bits) -> None:
        self._draw = draw
        self._bits = bits
        self._values: list[int] = []
        self._process = -1
        self._generation: object = None
        self._lock = threading.Lock()

    def add_to(self, value: int) -> int:
        """Return a number plus the next value."""
        shifted = value - _BIAS
        # Fork hooks renew the generation; a process copied by other means still has another number.
        if self._generation is self._bits.generation and self._process == os.getpid():
            try:
                return shifted + self._values.pop()
            except IndexError:
                pass
        return shifted + self._refill_values()

    def _refill_values(self) -> int:
        # A child must not wait for a lock that a thread of its parent held: draw for this call alone instead.
        if not self._lock.acquire(blocking=False):
            return int(self._draw(1)[0]) + _BIAS
        try:
            process, generation = os.getpid(), self._bits.generation
            values: list[int] = (self._draw(_AT_ONCE) + _BIAS).tolist()
            value = values.pop()
            self._values = values
            self._process = process
            self._generation = generation
            return value
        finally:
            self._lock.release()

    def __reduce__(self) -> NoReturn:
        message = "buffered noise cannot be copied: two copies would serve the same values"
        raise TypeError(message)


class Mechanism(ABC):
    """A randomised function of counts.

    Guarantee: ``event`` states the privacy of one ``release`` under replace-one neighbours, provided that the stated
    sensitivity is right. Noise drawn from anything but the system's bits is reported as
    :class:`~holdtrue.events.NonPrivate`.
    """

    _bits: ClassVar[Bits] = SYSTEM

    @property
    @abstractmethod
    def _claim(self) -> Event:
        """Return the event of one release from system bits."""

    @cached_property
    def event(self) -> Event:
        """Return what one release is charged with."""
        # Of frozen numbers, so made once: the same object each time lets a ledger remember its cost.
        return self._claim if type(self._bits) is SystemBits else NonPrivate()

    def delta(self, epsilon: Number) -> float:
        """Return the smallest delta for which one release is (epsilon, delta)-DP, rounded up."""
        return event_privacy.delta(self.event, epsilon)

    def epsilon(self, delta: Number) -> float:
        """Return the smallest epsilon for which one release is (epsilon, delta)-DP, rounded up."""
        return event_privacy.epsilon(self.event, delta)

    @property
    def tv(self) -> float:
        """Return how far apart two neighbours' outputs can be in total variation, rounded up (A1)."""
        return event_privacy.tv(self.event)

    @property
    def rho(self) -> float | None:
        """Return the zCDP cost of one release, rounded up (T2)."""
        return event_privacy.rho(self.event)

    @property
    def mu(self) -> float | None:
        """Return the GDP cost of one release, rounded up (T2b)."""
        return event_privacy.mu(self.event)

    def __getstate__(self) -> dict[str, object]:
        # A copy, in this process or another, must never serve noise that was drawn for the original, nor claim its event:
        # it may draw from other bits.
        kept = self.__dict__.items()
        return {name: value for name, value in kept if name != "event" and not isinstance(value, NoiseBuffer)}


class AdditiveMechanism(Mechanism):
    """Adds integer noise to whole numbers."""

    @abstractmethod
    def _draw_noise(self, size: int) -> npt.NDArray[np.int64]:
        """Draw ``size`` independent noise values."""

    @cached_property
    def _buffer(self) -> NoiseBuffer:
        return NoiseBuffer(self._draw_noise, self._bits)

    @overload
    def release(self, values: int) -> int: ...
    @overload
    def release(self, values: Array) -> Integers: ...
    def release(self, values: int | Array) -> int | Integers:
        """Return the values with noise: one whole number for one, an array of the same shape for many."""
        if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
            return self._buffer.add_to(int(values))
        exact = integers("values", values)
        noise: Integers = self._draw_noise(exact.size).reshape(exact.shape)
        if exact.dtype == object or (exact.size and not -_ROOM < exact.min() <= exact.max() < _ROOM):
            exact, noise = exact.astype(object), noise.astype(object)
        noisy: Integers = exact + noise
        return noisy

"""What all mechanisms share: their privacy follows from their event, and their noise from one source of bits."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from holdtrue.accounting import curves
from holdtrue.entropy import SYSTEM, Bits, SystemBits
from holdtrue.events import Event, NonPrivate
from holdtrue.exact import Integers, Number, integers
from holdtrue.noise import Pool

__all__ = ["AdditiveMechanism", "Array", "Mechanism"]

Array: TypeAlias = Sequence[Any] | npt.NDArray[Any]

# Noise of the largest scale stays below this in 64 bits but with probability 2^-8000.
_ROOM = 1 << 62


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

    @property
    def event(self) -> Event:
        """Return what one release is charged with."""
        return self._claimed if type(self._bits) is SystemBits else NonPrivate()

    @cached_property
    def _claimed(self) -> Event:
        # Of frozen numbers, so made once: the very same object lets whoever charges it know what it costs.
        return self._claim

    def delta(self, epsilon: Number) -> float:
        """Return the smallest delta for which one release is (epsilon, delta)-DP, rounded up."""
        return curves.delta(self.event, epsilon)

    def epsilon(self, delta: Number) -> float:
        """Return the smallest epsilon for which one release is (epsilon, delta)-DP, rounded up."""
        return curves.epsilon(self.event, delta)

    @property
    def tv(self) -> float:
        """Return how far apart two neighbours' outputs can be in total variation, rounded up (A1)."""
        return curves.tv(self.event)

    @property
    def rho(self) -> float | None:
        """Return the zCDP cost of one release, rounded up (T2)."""
        return curves.rho(self.event)

    @property
    def mu(self) -> float | None:
        """Return the GDP cost of one release, rounded up (T2b)."""
        return curves.mu(self.event)

    def __getstate__(self) -> dict[str, object]:
        # A copy, in this process or another, must never serve noise that was drawn for the original.
        return {name: value for name, value in self.__dict__.items() if not isinstance(value, Pool)}


class AdditiveMechanism(Mechanism):
    """Adds integer noise to whole numbers."""

    @abstractmethod
    def _noise(self, size: int) -> npt.NDArray[np.int64]:
        """Draw so many independent noise values."""

    @cached_property
    def _pool(self) -> Pool:
        return Pool(self._noise, self._bits)

    @overload
    def release(self, values: int) -> int: ...
    @overload
    def release(self, values: Array) -> Integers: ...
    def release(self, values: int | Array) -> int | Integers:
        """Return the values with noise: one whole number for one, an array of the same shape for many."""
        if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
            return self._pool.added_to(int(values))
        exact = integers("values", values)
        noise: Integers = self._noise(exact.size).reshape(exact.shape)
        if exact.dtype == object or (exact.size and not -_ROOM < exact.min() <= exact.max() < _ROOM):
            exact, noise = exact.astype(object), noise.astype(object)
        noisy: Integers = exact + noise
        return noisy

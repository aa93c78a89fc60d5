"""What all mechanisms share: their privacy follows from their event, and their noise from one source of bits.

And those that add noise to counts: discrete Laplace (A5) and rounded normal (0.7, A2, A7).
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NoReturn, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.accounting import event_privacy
from holdtrue.entropy import SYSTEM, Bits, SystemBits
from holdtrue.errors import InvalidParameter
from holdtrue.events import Event, NonPrivate
from holdtrue.exact import Integers, Number, count, integers, positive, round_up
from holdtrue.noise.samplers import LARGEST_SCALE, discrete_laplace, rounded_gaussian

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


@dataclass(frozen=True)
class Laplace(AdditiveMechanism):
    """Adds Z with Pr[Z = z] proportional to e^(-epsilon |z| / sensitivity).

    Guarantee: epsilon-DP, attained, for whole numbers that move by at most ``sensitivity`` between neighbours; for a
    vector, by at most that in all (L1). Needs: epsilon > 0 and finite, a whole sensitivity >= 1. Fails: only if
    the kernel's generator does. The lecture's "epsilon, scale parameter" is the privacy parameter; the scale is
    sensitivity / epsilon (A5).

    >>> import holdtrue as ht
    >>> ht.Laplace(epsilon=0.5).scale
    Fraction(2, 1)
    """

    scale: Fraction
    sensitivity: int

    def __init__(self, *, epsilon: Number, sensitivity: int = 1) -> None:
        width = count("sensitivity", sensitivity)
        object.__setattr__(self, "scale", width / positive("epsilon", epsilon))
        object.__setattr__(self, "sensitivity", width)
        if self.scale > LARGEST_SCALE:
            raise InvalidParameter(
                "epsilon", epsilon, f"at least sensitivity / 2^50 = {round_up(Fraction(width, LARGEST_SCALE)):.3g}"
            )

    @property
    def _claim(self) -> events.Event:
        return events.DiscreteLaplace(self.sensitivity / self.scale, self.sensitivity)

    def _draw_noise(self, size: int) -> npt.NDArray[np.int64]:
        return discrete_laplace(self.scale, size=size, bits=self._bits)

    def __repr__(self) -> str:
        return f"Laplace(epsilon={float(self.sensitivity / self.scale):g}, sensitivity={self.sensitivity})"


@dataclass(frozen=True)
class Gaussian(AdditiveMechanism):
    """Adds round(sigma Z) for a standard normal Z; sigma is the standard deviation, not the variance.

    Guarantee: mu-GDP with mu = sensitivity / sigma, for whole numbers that move by at most ``sensitivity`` between
    neighbours; for a vector, by at most that in Euclidean length. A whole number plus rounded noise is the rounding of
    the Gaussian mechanism, so nothing is lost to discretisation (0.7). Needs: one of sigma and mu, finite and > 0, and
    a whole sensitivity >= 1. Fails: only if the kernel's generator does.

    >>> import holdtrue as ht
    >>> ht.Gaussian(mu=0.5, sensitivity=2).sigma
    Fraction(4, 1)
    """

    sigma: Fraction
    sensitivity: int

    def __init__(self, *, sigma: Number | None = None, mu: Number | None = None, sensitivity: int = 1) -> None:
        width = count("sensitivity", sensitivity)
        match sigma, mu:
            case (None, None):
                raise InvalidParameter.without_value("sigma", "given, or mu instead")
            case (_, None):
                deviation = positive("sigma", sigma)
            case (None, _):
                deviation = width / positive("mu", mu)
            case _:
                raise InvalidParameter("mu", mu, "left out when sigma is given")
        if deviation > LARGEST_SCALE:
            raise InvalidParameter(
                "mu" if sigma is None else "sigma", mu if sigma is None else sigma, "such that sigma <= 2^50"
            )
        object.__setattr__(self, "sigma", deviation)
        object.__setattr__(self, "sensitivity", width)

    @property
    def _claim(self) -> events.Event:
        return events.GaussianNoise(self.sensitivity / self.sigma)

    def _draw_noise(self, size: int) -> npt.NDArray[np.int64]:
        return rounded_gaussian(self.sigma, size=size, bits=self._bits)

    def __repr__(self) -> str:
        return f"Gaussian(sigma={float(self.sigma):g}, sensitivity={self.sensitivity})"

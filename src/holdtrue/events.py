"""What mechanisms did, for accounting: a closed vocabulary of frozen records.

An event says which guarantee a release has under replace-one neighbours, in numbers that are exact. The list is
append-only: a ledger written years ago must read the same today. In JSON rationals are text such as "1/3", so that nothing
is rounded, and every number passes its event's own checks again when it is read. "No guarantee" is an event too
(:class:`NonPrivate`), so that forgetting it is impossible.
"""

from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias, get_args

from msgspec.structs import force_setattr

from holdtrue.codec import Record
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, nonnegative, positive, probability

__all__ = [
    "Approximate",
    "BoundedRange",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "GaussianNoise",
    "NoCost",
    "NonPrivate",
    "Pure",
    "Repeated",
    "ZeroConcentrated",
]


class _Event(Record, frozen=True, tag_field="kind", tag=True):
    """An event; numbers may be given as any kind of number, and are kept as exact rationals."""


class NoCost(_Event, frozen=True):
    """Nothing about the rows was released."""


class NonPrivate(_Event, frozen=True):
    """A release without any guarantee, such as one drawn from seeded bits."""


class GaussianNoise(_Event, frozen=True, tag="Gaussian"):
    """A release that is mu-GDP: normal noise, rounded or not, of standard deviation sensitivity / mu (A2, A7)."""

    mu: Fraction

    if TYPE_CHECKING:

        def __init__(self, mu: Number) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "mu", positive("mu", self.mu))


class DiscreteGaussian(_Event, frozen=True):
    """Noise with P(z) proportional to exp(-z^2 / (2 sigma^2)) on a whole number of the given sensitivity (0.7)."""

    sigma: Fraction
    sensitivity: int = 1

    if TYPE_CHECKING:

        def __init__(self, sigma: Number, sensitivity: int = 1) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "sigma", positive("sigma", self.sigma))
        force_setattr(self, "sensitivity", count("sensitivity", self.sensitivity))


class DiscreteLaplace(_Event, frozen=True):
    """Noise with P(z) proportional to exp(-epsilon |z| / sensitivity) on a whole number of that sensitivity (A5)."""

    epsilon: Fraction
    sensitivity: int = 1

    if TYPE_CHECKING:

        def __init__(self, epsilon: Number, sensitivity: int = 1) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "epsilon", positive("epsilon", self.epsilon))
        force_setattr(self, "sensitivity", count("sensitivity", self.sensitivity))


class BoundedRange(_Event, frozen=True):
    """A release whose privacy losses span at most epsilon: the exponential mechanism, soft majority (B3, E4)."""

    epsilon: Fraction

    if TYPE_CHECKING:

        def __init__(self, epsilon: Number) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "epsilon", positive("epsilon", self.epsilon))


class Pure(_Event, frozen=True):
    """Any release that is epsilon-DP (A4)."""

    epsilon: Fraction

    if TYPE_CHECKING:

        def __init__(self, epsilon: Number) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "epsilon", positive("epsilon", self.epsilon))


class Approximate(_Event, frozen=True):
    """Any release that is (epsilon, delta)-DP (A4)."""

    epsilon: Fraction
    delta: Fraction

    if TYPE_CHECKING:

        def __init__(self, epsilon: Number, delta: Number) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "epsilon", nonnegative("epsilon", self.epsilon))
        force_setattr(self, "delta", probability("delta", self.delta, zero=True))


class ZeroConcentrated(_Event, frozen=True):
    """Any release that is rho-zCDP (T2)."""

    rho: Fraction

    if TYPE_CHECKING:

        def __init__(self, rho: Number) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "rho", positive("rho", self.rho))


class Repeated(_Event, frozen=True):
    """The same event ``times`` times, with parameters fixed in advance."""

    event: "Event"
    times: int

    def __post_init__(self) -> None:
        force_setattr(self, "event", _check_event("event", self.event))
        force_setattr(self, "times", count("times", self.times))


class Composed(_Event, frozen=True):
    """Several events on the same rows, in order, with parameters fixed in advance."""

    events: tuple["Event", ...]

    if TYPE_CHECKING:

        def __init__(self, events: "tuple[Event, ...] | list[Event]") -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "events", tuple(_check_event("events", event) for event in self.events))


Event: TypeAlias = (
    NoCost
    | NonPrivate
    | GaussianNoise
    | DiscreteGaussian
    | DiscreteLaplace
    | BoundedRange
    | Pure
    | Approximate
    | ZeroConcentrated
    | Repeated
    | Composed
)

_KINDS = get_args(Event)


def _check_event(name: str, value: object) -> Event:
    if not isinstance(value, _KINDS):
        raise InvalidParameter(name, value, "an event of holdtrue.events")
    event: Event = value
    return event


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "Gaussian":
            message = "holdtrue.events.Gaussian is now called GaussianNoise; holdtrue.Gaussian is the mechanism"
            raise ImportError(message)
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)

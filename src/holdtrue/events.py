"""What mechanisms did, for accounting: a closed vocabulary of frozen records.

An event says which guarantee a release has under replace-one neighbours, in numbers that are exact. The list is
append-only: a ledger written years ago must read the same today. "No guarantee" is an event too (:class:`NonPrivate`),
so that forgetting it is impossible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, TypeAlias, get_args

from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, nonnegative, positive, probability

__all__ = [
    "Approximate",
    "BoundedRange",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Gaussian",
    "NoCost",
    "NonPrivate",
    "Pure",
    "Repeated",
    "ZeroConcentrated",
    "from_json",
    "to_json",
]


@dataclass(frozen=True, slots=True)
class NoCost:
    """Nothing about the rows was released."""


@dataclass(frozen=True, slots=True)
class NonPrivate:
    """A release without any guarantee, such as one drawn from seeded bits."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A release that is mu-GDP: normal noise, rounded or not, of standard deviation sensitivity / mu (A2, A7)."""

    mu: Fraction

    def __init__(self, mu: Number) -> None:
        object.__setattr__(self, "mu", positive("mu", mu))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Noise with P(z) proportional to exp(-z^2 / (2 sigma^2)) on a whole number of the given sensitivity (0.7)."""

    sigma: Fraction
    sensitivity: int

    def __init__(self, sigma: Number, sensitivity: int = 1) -> None:
        object.__setattr__(self, "sigma", positive("sigma", sigma))
        object.__setattr__(self, "sensitivity", count("sensitivity", sensitivity))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Noise with P(z) proportional to exp(-epsilon |z| / sensitivity) on a whole number of that sensitivity (A5)."""

    epsilon: Fraction
    sensitivity: int

    def __init__(self, epsilon: Number, sensitivity: int = 1) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "sensitivity", count("sensitivity", sensitivity))


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """A release whose privacy losses span at most epsilon: the exponential mechanism, soft majority (B3, E4)."""

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))


@dataclass(frozen=True, slots=True)
class Pure:
    """Any release that is epsilon-DP (A4)."""

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))


@dataclass(frozen=True, slots=True)
class Approximate:
    """Any release that is (epsilon, delta)-DP (A4)."""

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", nonnegative("epsilon", epsilon))
        object.__setattr__(self, "delta", probability("delta", delta, zero=True))


@dataclass(frozen=True, slots=True)
class ZeroConcentrated:
    """Any release that is rho-zCDP (T2)."""

    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", positive("rho", rho))


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same event so many times, with parameters fixed in advance."""

    event: "Event"
    times: int

    def __init__(self, event: "Event", times: int) -> None:
        object.__setattr__(self, "event", _event("event", event))
        object.__setattr__(self, "times", count("times", times))


@dataclass(frozen=True, slots=True)
class Composed:
    """Several events on the same rows, in order, with parameters fixed in advance."""

    events: tuple["Event", ...]

    def __init__(self, events: "tuple[Event, ...] | list[Event]") -> None:
        object.__setattr__(self, "events", tuple(_event("events", event) for event in events))


Event: TypeAlias = (
    NoCost
    | NonPrivate
    | Gaussian
    | DiscreteGaussian
    | DiscreteLaplace
    | BoundedRange
    | Pure
    | Approximate
    | ZeroConcentrated
    | Repeated
    | Composed
)

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Event)}
_FIELDS: dict[Any, tuple[str, ...]] = {kind: tuple(field.name for field in fields(kind)) for kind in _KINDS.values()}


def _event(name: str, value: object) -> Event:
    if not isinstance(value, get_args(Event)):
        raise InvalidParameter(name, value, "an event of holdtrue.events")
    event: Event = value
    return event


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as plain JSON; rationals are strings such as "1/3", so that nothing is rounded."""
    kind = type(event)
    return {"kind": kind.__name__} | {name: _plain(getattr(event, name)) for name in _FIELDS[kind]}


def _plain(value: object) -> object:
    match value:
        case Fraction():
            return str(value)
        case tuple():
            return [_plain(item) for item in value]
        case int():
            return value
        case _:
            return to_json(_event("event", value))


def from_json(document: Mapping[str, Any]) -> Event:
    """Return the event that :func:`to_json` wrote; every number passes the event's own checks again."""
    kind = _KINDS.get(str(document.get("kind")))
    if kind is None:
        raise InvalidParameter("kind", document.get("kind"), f"one of {', '.join(_KINDS)}")
    names = _FIELDS[kind]
    if set(document) - {"kind"} != set(names):
        raise InvalidParameter("event", dict(document), f"{kind.__name__} with the fields {sorted(names)}")
    return _event("event", kind(**{name: _read(document[name]) for name in names}))


def _read(value: object) -> object:
    match value:
        case str():
            return _fraction(value)
        case list():
            return [_read(item) for item in value]
        case dict():
            return from_json(value)
        case _:
            return value


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidParameter("event", text, 'a rational such as "1/3"') from None

"""Filters for events whose parameters are chosen along the way, in whole numbers (T3).

A filter is a property of a ledger, fixed before the first event: one currency and one cap. An event is charged only if the
sum of all costs stays within the cap. Costs and caps are whole multiples of 1e-15, costs rounded up and caps down, so that
the sum is exact and no rounding ever overspends. The guarantee is that of the cap, for the whole transcript, however the
events were chosen; what was spent so far is a running total and no guarantee.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from holdtrue import events
from holdtrue.accounting import event_privacy
from holdtrue.accounting.closed_forms import (
    concentrated_tv,
    gaussian_delta,
    largest_float,
    smallest_epsilon,
    zero_concentrated_delta,
)
from holdtrue.accounting.conversions import private_tv, zero_concentrated_epsilon
from holdtrue.errors import BudgetExceeded, InvalidParameter, NotPrivate
from holdtrue.events import Event
from holdtrue.exact import (
    UNIT,
    LedgerKind,
    Number,
    amount,
    count,
    positive,
    probability,
    round_down,
    round_up,
    units_down,
    units_up,
)


@dataclass(frozen=True, slots=True)
class Filter(ABC):
    """A cap, in units of 1e-15, on the sum of the costs of adaptively chosen events.

    Guarantee: if every event was admitted before its rows were read, the whole transcript satisfies :meth:`epsilon`, also
    if analysts chose each event, its parameters and when to stop after seeing all answers before (T3). Where ``group`` is r,
    all of it is said of whoever owns up to r rows: an event's mu or epsilon counts r times, its rho r^2 times (V6.6).
    """

    budget: int
    group: int = 1
    currency: ClassVar[str]
    _advice: ClassVar[str]
    _power: ClassVar[int] = 2

    def __post_init__(self) -> None:
        count("budget", self.budget)
        count("group", self.group)

    @abstractmethod
    def _single_cost(self, event: Event) -> Fraction | float | None:
        """Return the exact or rounded-up cost of a single event; None where there is none in this currency."""

    @abstractmethod
    def epsilon(self, delta: Number) -> float:
        """Return an epsilon for which the whole transcript is (epsilon, delta)-DP: that of the cap, whatever was spent."""

    @property
    @abstractmethod
    def tv(self) -> float:
        """Return the total variation that the whole transcript keeps within: that of the cap (V6.4).

        In the mean over samples, no answer of any adaptive session is farther from the population than this (A1).
        """

    def cost(self, event: Event) -> int:
        """Return what an event costs, in units, rounded up; raise NotPrivate if it has no finite cost in this currency."""
        match event:
            case events.NoCost():
                return 0
            case events.Repeated(event=inner, times=times):
                return times * self.cost(inner)
            case events.Composed(events=inner):
                return sum(map(self.cost, inner))
            case _:
                exact = self._single_cost(event)
        if exact is None or exact == math.inf:
            message = f"{type(event).__name__} has no finite cost in {self.currency}; {self._advice}"
            raise NotPrivate(message)
        # A float below may have underflowed to 0; what is not free costs a unit at least.
        return max(1, units_up(Fraction(exact) * self.group**self._power))

    def admits(self, spent: int, *, cost: int) -> bool:
        """Return whether a cost still fits; both are in units."""
        return count("spent", spent, least=0) + count("cost", cost, least=0) <= self.budget

    def charge(self, spent: int, *, event: Event) -> int:
        """Return what is spent once an event is charged; raise BudgetExceeded, with nothing changed, if it does not fit."""
        cost = self.cost(event)
        if not self.admits(spent, cost=cost):
            requested, left = amount(cost), amount(self.budget - spent)
            raise BudgetExceeded(requested=requested, left=left, unit=self.currency)
        return spent + cost


@dataclass(frozen=True, slots=True)
class PureFilter(Filter):
    """The sum of epsilons is at most the cap: the transcript is epsilon-DP (T3)."""

    currency: ClassVar[str] = "epsilon"
    _advice: ClassVar[str] = "a ledger in mu squared or in rho takes Gaussian noise"
    _power: ClassVar[int] = 1

    @classmethod
    def of(cls, epsilon: Number) -> "PureFilter":
        """Return the filter with cap epsilon."""
        return cls(_cap_units("epsilon", positive("epsilon", epsilon)))

    def _single_cost(self, event: Event) -> Fraction | float | None:
        match event:
            case events.Pure(epsilon=value) | events.BoundedRange(epsilon=value) | events.DiscreteLaplace(epsilon=value):
                return value
            case events.Approximate(epsilon=value, delta=slack) if slack == 0:
                return value
            case _:
                return None

    def epsilon(self, delta: Number) -> float:
        """Return the cap, for every delta."""
        probability("delta", delta, zero=True)
        return round_up(self.budget * UNIT)

    @property
    def tv(self) -> float:
        """Return tanh(epsilon / 2) of the cap (A6)."""
        return private_tv(self.budget * UNIT)


@dataclass(frozen=True, slots=True)
class ZeroConcentratedFilter(Filter):
    """The sum of rhos is at most the cap: the transcript is rho-zCDP (T3; Feldman and Zrnic, Whitehouse et al.)."""

    currency: ClassVar[str] = "rho"
    _advice: ClassVar[str] = "an event with delta > 0 fits no filter but by its own (epsilon, delta)"

    @classmethod
    def of(cls, rho: Number) -> "ZeroConcentratedFilter":
        """Return the filter with cap rho."""
        return cls(_cap_units("rho", positive("rho", rho)))

    def _single_cost(self, event: Event) -> Fraction | float | None:
        match event:
            case events.GaussianNoise(mu=value):
                return value * value / 2
            case events.DiscreteGaussian():
                return event.sensitivity**2 / (2 * event.sigma**2)
            case events.ZeroConcentrated(rho=value):
                return value
            case _:
                return event_privacy.rho(event)

    def epsilon(self, delta: Number) -> float:
        """Return the conversion of the cap by T2."""
        return zero_concentrated_epsilon(self.budget * UNIT, delta=delta)

    @property
    def tv(self) -> float:
        """Return min(sqrt(rho / 2), sqrt(1 - e^-rho)) of the cap."""
        return concentrated_tv(round_up(self.budget * UNIT))


@dataclass(frozen=True, slots=True)
class GaussianFilter(Filter):
    """The sum of squared mus is at most the cap: the transcript is mu-GDP (T2b, T3; Smith and Thakurta).

    Refuses the discrete Gaussian, which is only approximately GDP: normal noise rounded to whole numbers is exactly.
    """

    currency: ClassVar[str] = "mu squared"
    _advice: ClassVar[str] = "a ledger in rho takes the discrete Gaussian and rho-zCDP events"

    @classmethod
    def of(cls, mu: Number) -> "GaussianFilter":
        """Return the filter with cap mu squared."""
        return cls(_cap_units("mu", positive("mu", mu) ** 2))

    def _single_cost(self, event: Event) -> Fraction | float | None:
        if isinstance(event, events.GaussianNoise):
            return event.mu * event.mu
        mu = event_privacy.mu(event)
        return None if mu is None or mu == math.inf else Fraction(mu) ** 2

    @property
    def mu(self) -> float:
        """Return the square root of the cap, rounded up."""
        return _root_up(self.budget * UNIT)

    def epsilon(self, delta: Number) -> float:
        """Return the epsilon of one Gaussian mechanism with the cap's mu (A7)."""
        return event_privacy.epsilon(events.GaussianNoise(self.mu), delta)

    @property
    def tv(self) -> float:
        """Return 2 Phi(mu / 2) - 1, exact for the cap's mu (A2)."""
        return event_privacy.tv(events.GaussianNoise(self.mu))


@dataclass(frozen=True, slots=True)
class RhoPurse(ZeroConcentratedFilter):
    """The sum of rhos is at most the cap of a purse beside one in mu squared; the guarantee is that of both (V3.1)."""

    def cost(self, event: Event) -> int:
        """Return what an event costs, in units; raise InvalidParameter where it has no rho."""
        try:
            return ZeroConcentratedFilter.cost(self, event)
        except NotPrivate:
            told = f"this ledger's reserve is a purse in rho, which {type(event).__name__} has none of"
            raise InvalidParameter.saying("event", told) from None


@dataclass(frozen=True, slots=True)
class CountedFilter(Filter):
    """At most so many draws, each of bounded range ``each`` at most, which is fixed at opening (V3.1).

    A draw of a smaller range counts as a full one. What is epsilon-DP has a range of twice epsilon; an interactive run of
    it is one randomised response, drawn at its opening. Nothing else is a draw.
    """

    each: Fraction = Fraction(0)
    currency: ClassVar[str] = "draws"
    _advice: ClassVar[str] = "a reserve in rho takes other events"
    _power: ClassVar[int] = 0

    def _single_cost(self, event: Event) -> Fraction | float | None:
        match event:
            case events.BoundedRange(epsilon=value):
                span = value
            case events.Pure(epsilon=value) | events.DiscreteLaplace(epsilon=value):
                span = 2 * value
            case events.Approximate(epsilon=value, delta=slack) if slack == 0:
                span = 2 * value
            case _:
                told = (
                    f"this ledger's reserve counts draws of epsilon {float(self.each):g}, and {type(event).__name__} is "
                    "none; give epsilon where the verb takes one, or open a ledger whose reserve is in rho"
                )
                raise InvalidParameter.saying("event", told)
        if span * self.group > self.each:
            told = (
                f"this ledger's reserve counts draws of epsilon {float(self.each):g} at most, and this one has a range of "
                f"{float(span * self.group):g}; give a smaller epsilon"
            )
            raise InvalidParameter.saying("epsilon", told)
        return Fraction(1)

    def epsilon(self, delta: Number) -> float:
        """Return the epsilon of all draws together, without what questions spend."""
        from holdtrue.accounting.purses import counted_mixture  # a ledger with one currency does without

        target = round_down(probability("delta", delta))
        return smallest_epsilon(
            lambda at: counted_mixture(round_up(self.each), self.budget // UNIT.denominator, 0.0, at), target
        )

    @property
    def tv(self) -> float:
        """Return D_K(0), the total variation of all draws together."""
        from holdtrue.accounting.purses import counted_mixture  # likewise

        return counted_mixture(round_up(self.each), self.budget // UNIT.denominator, 0.0, 0.0)


def _cap_units(name: str, exact: Fraction) -> int:
    budget = units_down(exact)
    if budget < 1:
        raise InvalidParameter(name, float(exact), "large enough for a cap of one unit, 1e-15")
    return budget


def _root_up(square: Fraction) -> float:
    """Return the smallest float found whose square is not below a rational."""
    root = math.sqrt(round_up(square))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


@lru_cache(maxsize=64)
def largest_cap(kind: LedgerKind, epsilon: float, delta: float) -> int:
    """Return the most units for which everything on a ledger is (epsilon, delta)-DP, rounded down (A7, T2)."""
    if kind == "pure":
        return units_down(Fraction(epsilon))
    curve = gaussian_delta if kind == "gdp" else zero_concentrated_delta
    log = largest_float(lambda at: curve(math.exp(at), epsilon) <= delta, -60.0, 60.0, steps=80)
    value = Fraction(math.exp(log))
    return units_down(value * value if kind == "gdp" else value)

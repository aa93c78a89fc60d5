"""What many events cost together: the named composition theorems, and the tightest that applies (D3, T1, T2, T3).

With parameters fixed in advance, every theorem here may be used and the smallest result holds. Where an analyst chose the
next event's parameters after seeing answers, only filters hold: the sum of epsilons, of rhos, or of squared mus.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

from holdtrue.accounting import curves
from holdtrue.accounting.atoms import Atoms, randomised_responses
from holdtrue.accounting.conversions import zero_concentrated_epsilon
from holdtrue.accounting.losses import BoundedRangeLoss, DiscreteNormalLoss, LaplaceLoss, Law, NormalLoss
from holdtrue.accounting.spectra import spectral_epsilon
from holdtrue.errors import InvalidParameter
from holdtrue.events import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    NoCost,
    NonPrivate,
    Pure,
    Repeated,
)
from holdtrue.exact import Number, count, nonnegative, positive, probability, round_down, round_up, truth

__all__ = ["Bound", "advanced", "basic", "compose", "counted", "optimal_delta", "optimal_epsilon"]

_ROUNDING = 1 + 2.0**-44


@dataclass(frozen=True, slots=True)
class Bound:
    """The composition is (epsilon, delta)-DP, by ``method``. An infinite epsilon is no guarantee."""

    epsilon: float
    delta: float
    method: str


def basic(epsilons: Iterable[Number]) -> float:
    """Return the sum of epsilons, rounded up: what epsilon_i-DP events are together, however they were chosen (E17)."""
    return round_up(sum((nonnegative("epsilons", epsilon) for epsilon in epsilons), start=Fraction(0)))


def advanced(epsilon: Number, *, times: int, delta: Number, lecture: bool = False) -> float:
    """Return epsilon sqrt(2 times ln(1/delta)) + times epsilon tanh(epsilon / 2) (D3; Dwork, Rothblum and Vadhan).

    ``times`` epsilon-DP events, each chosen after the answers before it but with epsilon fixed in advance, are
    (this, delta)-DP for every delta in (0, 1). With ``lecture=True`` the mean loss of an event is bounded by
    epsilon (e^epsilon - 1), as the lecture has it, instead of by its largest value epsilon tanh(epsilon / 2).
    """
    slack = probability("delta", delta)
    return _advanced([(round_up(positive("epsilon", epsilon)), count("times", times))], float(slack), lecture=lecture)


def _advanced(groups: Sequence[tuple[float, int]], delta: float, *, lecture: bool = False) -> float:
    square = math.fsum(times * epsilon * epsilon for epsilon, times in groups)
    drift = math.fsum(
        times * epsilon * (_expm1(epsilon) if lecture else math.tanh(epsilon / 2)) for epsilon, times in groups
    )
    return (math.sqrt(-2 * math.log(delta) * square) + drift) * _ROUNDING


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 700 else math.inf  # noqa: PLR2004 - where floats end


def optimal_delta(epsilon: Number, *, times: int, at: Number) -> float:
    """Return the sum over l of C(k, l) p^l (1-p)^(k-l) (1 - e^(at - (k - 2 l) epsilon))_+, p = 1 / (1 + e^epsilon) (T1).

    The smallest delta for which every composition of k epsilon-DP events, epsilon fixed in advance, is (at, delta)-DP.
    """
    return min(1.0, _optimal(epsilon, times).delta(round_down(nonnegative("at", at))))


def optimal_epsilon(epsilon: Number, *, times: int, delta: Number) -> float:
    """Return the smallest epsilon for which every composition of so many epsilon-DP events is (epsilon, delta)-DP (T1)."""
    slack = probability("delta", delta, zero=True)
    every = basic([positive("epsilon", epsilon) * count("times", times)])
    return every if slack == 0 else min(every, _optimal(epsilon, times).epsilon(round_down(slack)))


def _optimal(epsilon: Number, times: int) -> Atoms:
    atoms = randomised_responses([(round_up(positive("epsilon", epsilon)), count("times", times))])
    if atoms is None:
        raise InvalidParameter("times", times, "at most 100,000 events of one epsilon; compose has other bounds for more")
    return atoms


def compose(events: Iterable[Event], *, delta: Number, adaptive: bool = False) -> Bound:
    """Return the tightest bound that holds for events on the same rows, given how they were chosen, and its name.

    Guarantee: the events together are (bound.epsilon, delta)-DP under replace-one neighbours. Each event may be asked
    after seeing the answers before it. With ``adaptive=False`` the *list* of events (kinds, epsilons, scales, how many) was
    fixed in advance, and the smallest of these is returned: "basic" (E17), "advanced" (D3), "optimal" (T1, Kairouz, Oh and
    Viswanath), "gdp" (T2b), "zcdp" (T2), "pld" (T1, sums of privacy losses), "curve" (A4, for one event alone). With
    ``adaptive=True`` parameters, too, were chosen along the way, and only filters may be used (T3): "pure", "zcdp" or
    "gdp". Such a bound is the guarantee of a ledger of that currency whose cap, set before the first event, is the total of
    these events; the currency, too, is to be chosen beforehand.

    An (epsilon, delta)-DP event is an epsilon-DP one that fails altogether with probability delta; these probabilities are
    taken off delta first. Needs: delta in [0, 1), above 0 if there is Gaussian noise. An event without a guarantee makes
    epsilon infinite.

    >>> from holdtrue.events import Pure
    >>> compose([Pure(0.1)] * 100, delta=1e-6).method
    'optimal'
    """
    slack = probability("delta", delta, zero=True)
    adaptive = truth("adaptive", adaptive)
    groups = counted(events)
    groups.pop(NoCost(), None)
    if not groups:
        return Bound(0.0, float(slack), "basic")
    if NonPrivate() in groups:
        return Bound(math.inf, float(slack), "none")
    candidates = _filters(groups, slack) if adaptive else _theorems(groups, slack)
    epsilon, method = min(candidates, default=(math.inf, "none"))
    return Bound(epsilon, float(slack), method if epsilon < math.inf else "none")


def counted(events: Iterable[Event]) -> dict[Event, int]:
    """Return how often each single event occurs, with repeated and composed events taken apart."""
    if not isinstance(events, (*get_args(Event), Iterable)) or isinstance(events, (str, bytes)):
        raise InvalidParameter("events", type(events).__name__, "a list of events")
    listed = [events] if isinstance(events, get_args(Event)) else list(events)
    totals: dict[Event, int] = {}
    for event, times in _occurrences(listed):
        for single, inner in _taken_apart(event):
            totals[single] = totals.get(single, 0) + inner * times
    return totals


def _occurrences(listed: Sequence[Event]) -> Iterable[tuple[Event, int]]:
    """Count by identity first: hashing a record costs a hundred times more than comparing addresses."""
    if listed and all(event is listed[0] for event in listed):
        return [(listed[0], len(listed))]
    seen: dict[int, int] = {}
    first: dict[int, Event] = {}
    for event in listed:
        key = id(event)
        if key in seen:
            seen[key] += 1
        else:
            seen[key], first[key] = 1, event
    return [(first[key], times) for key, times in seen.items()]


def _taken_apart(event: Event) -> Iterable[tuple[Event, int]]:
    match event:
        case Repeated(event=inner, times=times):
            return [(single, times * count) for single, count in _taken_apart(inner)]
        case Composed(events=inner):
            return list(counted(inner).items())
        case _ if isinstance(event, get_args(Event)):
            return [(event, 1)]
        case _:
            raise InvalidParameter("events", event, "events of holdtrue.events")


def _filters(groups: Mapping[Event, int], delta: Fraction) -> list[tuple[float, str]]:
    """Return what T3 allows: sums of (epsilon, delta) as they are, of rho, of squared mu."""
    failing = sum((times * event.delta for event, times in groups.items() if isinstance(event, Approximate)), Fraction(0))
    found = []
    if failing <= delta:
        found.append((_pure_sum(groups, delta), "pure"))
    if failing == 0 and delta > 0:
        found += _totals(groups, round_down(delta))
    return found


def _theorems(groups: Mapping[Event, int], delta: Fraction) -> list[tuple[float, str]]:
    """Return every bound that holds with parameters fixed in advance."""
    whole, room = _peeled(groups, delta)
    if room < 0:
        return []
    found = [(_pure_sum(whole, delta), "basic")]
    if room == 0 or not whole:
        return found
    found += _totals(whole, room)
    if list(whole.values()) == [1]:
        found.append((curves.epsilon(next(iter(whole)), room), "curve"))
    pure = _pure_groups(whole)
    if pure is not None:
        found.append((_advanced(pure, room), "advanced"))
        atoms = randomised_responses(pure)
        if atoms is not None:
            found.append((atoms.epsilon(room), "optimal"))
            if all(isinstance(event, Pure) for event in whole):
                return found
    laws = _laws(whole)
    if laws is not None:
        found.append((spectral_epsilon(laws, delta=room), "pld"))
    return found


def _peeled(groups: Mapping[Event, int], delta: Fraction) -> tuple[dict[Event, int], float]:
    """Return the events with their failure probabilities taken off, and a lower bound of the delta that is left.

    With D = 1 - prod(1 - delta_i), the composition is (epsilon, D + (1 - D) delta')-DP if the rest is (epsilon, delta')-DP.
    """
    whole: dict[Event, int] = {}
    failing, survival = Fraction(0), 0.0
    for event, times in groups.items():
        single: Event = event
        if isinstance(event, Approximate):
            failing += times * event.delta
            survival += times * math.log1p(-round_up(event.delta)) * (1 + 2.0**-50)
            single = Pure(event.epsilon) if event.epsilon > 0 else NoCost()
        whole[single] = whole.get(single, 0) + times
    whole.pop(NoCost(), None)
    if failing == 0:
        return whole, round_down(delta)
    failed = min(round_up(failing), -math.expm1(survival) * (1 + 2.0**-50))
    if failing <= delta or failed <= delta:
        return whole, max(0.0, (round_down(delta) - failed) * (1 - 2.0**-50))
    return whole, -1.0


def _pure_sum(groups: Mapping[Event, int], delta: Fraction) -> float:
    """Return the sum of epsilons, infinite if there is an event without one."""
    total = Fraction(0)
    for event, times in groups.items():
        match event:
            case DiscreteLaplace(epsilon=value) | BoundedRange(epsilon=value) | Pure(epsilon=value):
                total += times * value
            case Approximate(epsilon=value):
                total += times * value
            case _:
                if delta == 0:
                    curves.epsilon(event, 0)  # says why Gaussian noise has none
                return math.inf
    return round_up(total)


def _totals(groups: Mapping[Event, int], delta: float) -> list[tuple[float, str]]:
    """Return the bounds by the sum of rho and by the sum of squared mu, where every event has one."""
    found = []
    rhos = [(curves.rho(event), times) for event, times in groups.items()]
    if all(value is not None for value, _ in rhos):
        total = math.fsum(times * (value or 0.0) for value, times in rhos) * _ROUNDING
        found.append((zero_concentrated_epsilon(total, delta=delta), "zcdp"))
    mus = [(curves.mu(event), times) for event, times in groups.items()]
    if all(value is not None for value, _ in mus):
        total = math.sqrt(math.fsum(times * (value or 0.0) ** 2 for value, times in mus)) * (1 + 2.0**-50)
        found.append((curves.smallest_epsilon(lambda at: curves.gaussian_delta(total, at), delta), "gdp"))
    return found


def _pure_groups(groups: Mapping[Event, int]) -> list[tuple[float, int]] | None:
    """Return how often each epsilon occurs, if all events are epsilon-DP."""
    found: dict[Fraction, int] = {}
    for event, times in groups.items():
        match event:
            case DiscreteLaplace(epsilon=value) | BoundedRange(epsilon=value) | Pure(epsilon=value):
                found[value] = found.get(value, 0) + times
            case _:
                return None
    return [(round_up(value), times) for value, times in found.items()]


def _laws(groups: Mapping[Event, int]) -> list[tuple[Law, int]] | None:
    """Return the laws of the losses, all Gaussian noise as one, if every event has one."""
    laws: list[tuple[Law, int]] = []
    square = Fraction(0)
    for event, times in groups.items():
        match event:
            case Gaussian(mu=value):
                square += times * value * value
            case DiscreteLaplace():
                laws.append((LaplaceLoss(float(event.epsilon), event.sensitivity), times))
            case Pure(epsilon=value):
                laws.append((LaplaceLoss(float(value), 1), times))
            case BoundedRange(epsilon=value):
                laws.append((BoundedRangeLoss(float(value)), times))
            case DiscreteGaussian():
                laws.append((DiscreteNormalLoss(float(event.sigma), event.sensitivity), times))
            case _:
                return None
    if square and not laws:
        return None  # the curve of the sum of squared mu is exact
    return [*laws, (NormalLoss(math.sqrt(round_up(square)) * (1 + 2.0**-50)), 1)] if square else laws

"""What many events cost together: the named composition theorems, and the tightest that applies (D3, T1, T2, T3).

With parameters fixed in advance, every theorem here may be used and the smallest result holds. Where an analyst chose the
next event's parameters after seeing answers, only filters hold: the sum of epsilons, of rhos, or of squared mus.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import get_args

import numpy as np
import numpy.typing as npt

from holdtrue.accounting import closed_forms, event_privacy
from holdtrue.accounting.closed_forms import concentrated_tv, gaussian_delta
from holdtrue.accounting.conversions import private_tv, zero_concentrated_epsilon
from holdtrue.accounting.loss_distributions import BoundedRangeLoss, DiscreteNormalLoss, LaplaceLoss, Law, NormalLoss
from holdtrue.accounting.pld_composition import spectral_epsilon
from holdtrue.accounting.purses import counted_mixture
from holdtrue.errors import InvalidParameter
from holdtrue.events import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    GaussianNoise,
    NoCost,
    NonPrivate,
    Pure,
    Repeated,
)
from holdtrue.exact import ROUNDING, Number, count, nonnegative, positive, probability, round_down, round_up, truth

_MOST_ATOMS = 1 << 15
# Masses below this part of the largest can be left out without being seen in a float delta.
_NEGLIGIBLE = -760.0
_UNIT = 2.0**-52
_MOST_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Bound:
    """The composition is (epsilon, delta)-DP, by ``method``. An infinite epsilon is no guarantee."""

    epsilon: float
    delta: float
    method: str
    _groups: tuple[tuple[Event, int], ...] = field(default=(), repr=False, compare=False)
    _adaptive: bool = field(default=False, repr=False, compare=False)

    @property
    def tv(self) -> float:
        """Return the total variation between neighbours that the composition keeps within, whatever delta (V6.4).

        The smallest of delta(0) of the sum of squared mu, of the sum of rho, of the sum of (epsilon, delta); and, where the
        list of events was fixed in advance, of draws of bounded range beside the normal noise (V3.1). In the mean over
        samples, no answer is farther from the population (A1).
        """
        return min([1.0, *_variations(dict(self._groups), adaptive=self._adaptive)])


def basic_epsilon(epsilons: Iterable[Number]) -> float:
    """Return the sum of epsilons, rounded up: what epsilon_i-DP events are together, however they were chosen (E17)."""
    return round_up(sum((nonnegative("epsilons", epsilon) for epsilon in epsilons), start=Fraction(0)))


def advanced_epsilon(epsilon: Number, *, times: int, delta: Number, lecture: bool = False) -> float:
    """Return epsilon sqrt(2 times ln(1/delta)) + times epsilon tanh(epsilon / 2) (D3; Dwork, Rothblum and Vadhan).

    ``times`` epsilon-DP events, each chosen after the answers before it but with epsilon fixed in advance, are
    (this, delta)-DP for every delta in (0, 1). With ``lecture=True`` the mean loss of an event is bounded by
    epsilon (e^epsilon - 1), as the lecture has it, instead of by its largest value epsilon tanh(epsilon / 2).
    """
    slack = probability("delta", delta)
    return _advanced_sum([(round_up(positive("epsilon", epsilon)), count("times", times))], float(slack), lecture=lecture)


def _advanced_sum(groups: Sequence[tuple[float, int]], delta: float, *, lecture: bool = False) -> float:
    square = math.fsum(times * epsilon * epsilon for epsilon, times in groups)
    drift = math.fsum(
        times * epsilon * (_expm1(epsilon) if lecture else math.tanh(epsilon / 2)) for epsilon, times in groups
    )
    return (math.sqrt(-2 * math.log(delta) * square) + drift) * ROUNDING


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 700 else math.inf  # noqa: PLR2004 - where floats end


def optimal_delta(epsilon: Number, *, times: int, at: Number) -> float:
    """Return the sum over l of C(k, l) p^l (1-p)^(k-l) (1 - e^(at - (k - 2 l) epsilon))_+, p = 1 / (1 + e^epsilon) (T1).

    The smallest delta for which every composition of k epsilon-DP events, epsilon fixed in advance, is (at, delta)-DP.
    """
    return min(1.0, _compose_pure(epsilon, times).delta(round_down(nonnegative("at", at))))


def optimal_epsilon(epsilon: Number, *, times: int, delta: Number) -> float:
    """Return the smallest epsilon for which every composition of ``times`` epsilon-DP events is (epsilon, delta)-DP (T1)."""
    slack = probability("delta", delta, zero=True)
    every = basic_epsilon([positive("epsilon", epsilon) * count("times", times)])
    return every if slack == 0 else min(every, _compose_pure(epsilon, times).epsilon(round_down(slack)))


def _compose_pure(epsilon: Number, times: int) -> "_Atoms":
    atoms = _compose_responses([(round_up(positive("epsilon", epsilon)), count("times", times))])
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
    these events; the currency must be chosen in advance too.

    An (epsilon, delta)-DP event is an epsilon-DP one that fails altogether with probability delta; these probabilities are
    taken off delta first. Needs: delta in [0, 1), above 0 if there is Gaussian noise. An event without a guarantee makes
    epsilon infinite.

    >>> from holdtrue.events import Pure
    >>> compose([Pure(0.1)] * 100, delta=1e-6).method
    'optimal'
    """
    slack = probability("delta", delta, zero=True)
    adaptive = truth("adaptive", adaptive)
    groups = count_events(events)
    groups.pop(NoCost(), None)
    if not groups:
        return Bound(0.0, float(slack), "basic")
    if NonPrivate() in groups:
        return Bound(math.inf, float(slack), "none", tuple(groups.items()), adaptive)
    candidates = _filter_bounds(groups, slack) if adaptive else _theorem_bounds(groups, slack)
    epsilon, method = min(candidates, default=(math.inf, "none"))
    return Bound(epsilon, float(slack), method if epsilon < math.inf else "none", tuple(groups.items()), adaptive)


def count_events(events: Iterable[Event]) -> dict[Event, int]:
    """Return how often each single event occurs, with repeated and composed events taken apart."""
    given: object = events
    if not isinstance(given, (*get_args(Event), Iterable)) or isinstance(given, (str, bytes)):
        raise InvalidParameter("events", type(given).__name__, "a list of events")
    listed = [events] if isinstance(events, get_args(Event)) else list(events)
    totals: dict[Event, int] = {}
    for event, times in _count_objects(listed):
        for single, inner in _take_apart(event):
            totals[single] = totals.get(single, 0) + inner * times
    return totals


def _count_objects(listed: Sequence[Event]) -> Iterable[tuple[Event, int]]:
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


def _take_apart(event: Event) -> Iterable[tuple[Event, int]]:
    match event:
        case Repeated(event=inner, times=times):
            return [(single, times * count) for single, count in _take_apart(inner)]
        case Composed(events=inner):
            return list(count_events(inner).items())
        case _ if isinstance(event, get_args(Event)):
            return [(event, 1)]
        case _:
            raise InvalidParameter("events", event, "events of holdtrue.events")


def _filter_bounds(groups: Mapping[Event, int], delta: Fraction) -> list[tuple[float, str]]:
    """Return what T3 allows: sums of (epsilon, delta) as they are, of rho, of squared mu."""
    failing = sum((times * event.delta for event, times in groups.items() if isinstance(event, Approximate)), Fraction(0))
    found = []
    if failing <= delta:
        found.append((_pure_sum(groups, delta), "pure"))
    if failing == 0 and delta > 0:
        found += _total_bounds(groups, round_down(delta))
    return found


def _theorem_bounds(groups: Mapping[Event, int], delta: Fraction) -> list[tuple[float, str]]:
    """Return every bound that holds with parameters fixed in advance."""
    whole, room = _take_off_failures(groups, delta)
    if room < 0:
        return []
    found = [(_pure_sum(whole, delta), "basic")]
    if room == 0 or not whole:
        return found
    found += _total_bounds(whole, room)
    if list(whole.values()) == [1]:
        found.append((event_privacy.epsilon(next(iter(whole)), room), "curve"))
    pure = _pure_groups(whole)
    if pure is not None:
        found.append((_advanced_sum(pure, room), "advanced"))
        atoms = _compose_responses(pure)
        if atoms is not None:
            found.append((atoms.epsilon(room), "optimal"))
            if all(isinstance(event, Pure) for event in whole):
                return found
    laws = _loss_laws(whole)
    if laws is not None:
        found.append((spectral_epsilon(laws, delta=room), "pld"))
    return found


def _take_off_failures(groups: Mapping[Event, int], delta: Fraction) -> tuple[dict[Event, int], float]:
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
                    event_privacy.epsilon(event, 0)  # says why Gaussian noise has none
                return math.inf
    return round_up(total)


def _total_bounds(groups: Mapping[Event, int], delta: float) -> list[tuple[float, str]]:
    """Return the bounds by the sum of rho and by the sum of squared mu, where every event has one."""
    found = []
    rhos = [(event_privacy.rho(event), times) for event, times in groups.items()]
    if all(value is not None for value, _ in rhos):
        total = math.fsum(times * (value or 0.0) for value, times in rhos) * ROUNDING
        found.append((zero_concentrated_epsilon(total, delta=delta), "zcdp"))
    mus = [(event_privacy.mu(event), times) for event, times in groups.items()]
    if all(value is not None for value, _ in mus):
        total = math.sqrt(math.fsum(times * (value or 0.0) ** 2 for value, times in mus)) * (1 + 2.0**-50)
        found.append((closed_forms.smallest_epsilon(lambda at: closed_forms.gaussian_delta(total, at), delta), "gdp"))
    return found


def _variations(groups: Mapping[Event, int], *, adaptive: bool) -> Iterable[float]:
    """Yield every total variation that holds for events, given how they were chosen; 0 for none."""
    if not groups:
        yield 0.0
    if not groups or NonPrivate() in groups:
        return
    if sum(groups.values()) == 1:
        yield event_privacy.tv(next(iter(groups)))
    failing = sum((times * event.delta for event, times in groups.items() if isinstance(event, Approximate)), Fraction(0))
    whole = _pure_sum(groups, Fraction(1))
    if whole < math.inf and failing < 1:
        yield private_tv(whole, delta=failing)
    rhos = [(event_privacy.rho(event), times) for event, times in groups.items()]
    if all(value is not None for value, _ in rhos):
        yield concentrated_tv(math.fsum(times * (value or 0.0) for value, times in rhos) * ROUNDING)
    mus = [(event_privacy.mu(event), times) for event, times in groups.items()]
    if all(value is not None for value, _ in mus):
        yield gaussian_delta(math.sqrt(math.fsum(times * (value or 0.0) ** 2 for value, times in mus)) * ROUNDING, 0.0)
    spans = {event.epsilon: times for event, times in groups.items() if isinstance(event, BoundedRange)}
    square = sum((times * event.mu**2 for event, times in groups.items() if isinstance(event, GaussianNoise)), Fraction(0))
    alike = all(isinstance(event, (BoundedRange, GaussianNoise)) for event in groups)
    if spans and alike and not adaptive and sum(spans.values()) <= _MOST_COUNTED:
        mu = math.sqrt(round_up(square)) * ROUNDING if square else 0.0
        yield counted_mixture(round_up(max(spans)), sum(spans.values()), mu, 0.0)


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


def _loss_laws(groups: Mapping[Event, int]) -> list[tuple[Law, int]] | None:
    """Return the laws of the losses, all Gaussian noise as one, if every event has one."""
    laws: list[tuple[Law, int]] = []
    square = Fraction(0)
    for event, times in groups.items():
        match event:
            case GaussianNoise(mu=value):
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


@dataclass(frozen=True, slots=True, eq=False)
class _Atoms:
    """Losses of a composition of epsilon-DP events, in rising order, with their masses.

    Every epsilon-DP pair of laws is a post-processing of randomised response, whose privacy loss is +epsilon with
    probability 1 / (1 + e^-epsilon) and -epsilon otherwise. The losses of a composition therefore add up to finitely many
    atoms, and delta(x) = sum over atoms of mass (1 - e^(x - loss))_+ is the smallest delta that holds for all such
    compositions. Sums are kept with an account of their rounding: ``shift`` bounds the error of any loss, ``relative`` that
    of any mass, and ``beyond`` is mass left out, taken as an infinite loss. Since delta rises with every loss and every
    mass, delta(x) computed, times 1 + relative, plus beyond, is an upper bound of the true delta at x + shift.
    """

    losses: npt.NDArray[np.float64]
    masses: npt.NDArray[np.float64]
    beyond: float
    shift: float
    relative: float

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of the composition's delta at epsilon."""
        return self._sum_atoms(epsilon - self.shift) * (1 + self.relative) + self.beyond

    def _sum_atoms(self, at: float) -> float:
        start = int(np.searchsorted(self.losses, at, side="right"))
        return -float((self.masses[start:] * np.expm1(at - self.losses[start:])).sum())

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 at which :meth:`delta` is at most ``delta``, up to rounding, from above.

        Between two atoms delta is A - B e^epsilon, which is solved directly; a bisection over atoms finds which two.
        """
        if self.delta(0.0) <= delta:
            return 0.0
        target = (delta - self.beyond) / (1 + self.relative)
        if target < 0:
            return math.inf
        low, high = -1, self.losses.size - 1  # delta is above the target before atom low + 1, and at most it at high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._sum_atoms(float(self.losses[middle])) <= target else (middle, high)
        above, top = self.masses[high:], float(self.losses[high])
        rest = float((above * np.exp(top - self.losses[high:])).sum())
        room = (float(above.sum()) - target) / rest
        guess = top + math.log(room) if room > 0 else -math.inf
        lowest = float(self.losses[low]) if low >= 0 else -math.inf
        answer = max(0.0, lowest, min(top, guess)) + self.shift
        step = _UNIT * (1 + answer)
        while self.delta(answer) > delta:
            answer, step = answer + step, 2 * step
            if answer >= top + self.shift:
                return (top + self.shift) * (1 + _UNIT) if self.beyond <= delta else math.inf
        return answer


def _compose_responses(groups: Sequence[tuple[float, int]]) -> _Atoms | None:
    """Return the losses of ``times`` randomised responses for each (epsilon, times); None if they are too many atoms."""
    sizes = [_likely_flips(epsilon, times) for epsilon, times in groups]
    if math.prod(last - first + 1 for first, last in sizes) > _MOST_ATOMS:
        return None
    total = _Atoms(np.zeros(1), np.ones(1), 0.0, 0.0, 0.0)
    for (epsilon, times), window in zip(groups, sizes, strict=True):
        one = _binomial_atoms(epsilon, times, window)
        total = _Atoms(
            np.add.outer(total.losses, one.losses).ravel(),
            np.multiply.outer(total.masses, one.masses).ravel(),
            total.beyond + one.beyond,
            total.shift + one.shift + _UNIT * (abs(float(total.losses[0])) + abs(float(one.losses[0]))),
            total.relative + one.relative + _UNIT,
        )
    order = np.argsort(total.losses, kind="stable")
    spread = 2 * (total.relative + total.losses.size * _UNIT)
    return _Atoms(total.losses[order], total.masses[order], total.beyond, total.shift, spread)


def _likely_flips(epsilon: float, times: int) -> tuple[int, int]:
    """Return the numbers of flips worth keeping: all but those e^-760 times less likely than the likeliest.

    By Chernoff's bound, within sqrt(2 * 760 / 4 * times) of the mean, for a variance of at most times / 4.
    """
    flips = times / (1 + math.exp(min(epsilon, 700.0)))
    reach = math.sqrt(-_NEGLIGIBLE / 2 * times) + 1
    return max(0, math.floor(flips - reach)), min(times, math.ceil(flips + reach))


def _binomial_atoms(epsilon: float, times: int, window: tuple[int, int]) -> _Atoms:
    """Return the atoms (times - 2 l) epsilon, l ~ Binomial(times, 1 / (1 + e^epsilon)).

    Masses come from the logarithms of the ratios of neighbouring ones, and are divided by their own sum: it is at most
    the whole, so what lies outside the window only makes them larger. What lies above the window, by Hoeffding's
    inequality less than e^-760, is far below the least float that is not zero.
    """
    first, last = window
    flips = np.arange(first, last + 1, dtype=np.float64)
    logs = np.concatenate([np.zeros(1), np.cumsum(np.log((times - flips[:-1]) / flips[1:]) - epsilon)])
    masses = np.exp(logs - logs.max())
    masses /= masses.sum()
    relative = 8 * flips.size * _UNIT * (1 + epsilon + math.log(times + 1))
    beyond = math.ulp(0.0) if first > 0 else 0.0
    losses = (times - 2 * flips) * epsilon
    return _Atoms(losses[::-1], masses[::-1], beyond, 2 * _UNIT * times * epsilon, relative)

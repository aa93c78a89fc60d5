"""From one guarantee to another: to total variation, to noise, to groups of rows, from zCDP to (epsilon, delta).

And events in the words of Google's dp_accounting, for those who account there (extra ``accounting``).

Every number is rounded to the safe side: privacy parameters and noise up. Neighbours replace one row (0.1).
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from holdtrue import events
from holdtrue.accounting.closed_forms import gaussian_delta
from holdtrue.errors import InvalidParameter, MissingExtra, NotPrivate, PreconditionError
from holdtrue.events import Event
from holdtrue.exact import ROUNDING, Number, count, nonnegative, positive, probability, round_down, round_up

_LEAST_MU, _MOST_MU = 1e-8, 1e4
_ENDLESS = 700.0


def private_tv(epsilon: Number, *, delta: Number = 0) -> float:
    """Return (e^epsilon - 1 + 2 delta) / (e^epsilon + 1): no (epsilon, delta)-DP pair is farther apart (A6).

    With delta = 0 it is tanh(epsilon / 2), and randomised response attains it. The lecture's (e^epsilon - 1) / 2 is a
    valid but looser bound, above 1 once epsilon passes ln 3.
    """
    at = round_up(nonnegative("epsilon", epsilon))
    slack = round_up(probability("delta", delta, zero=True))
    spread = math.tanh(at / 2) * ROUNDING + slack * (1 - math.tanh(at / 2) * (1 - 2.0**-50)) * ROUNDING
    return min(1.0, spread)


def bounded_range_tv(epsilon: Number) -> float:
    """Return tanh(epsilon / 4): no epsilon-bounded-range pair is farther apart in total variation (A6)."""
    return min(1.0, math.tanh(round_up(nonnegative("epsilon", epsilon)) / 4) * ROUNDING)


def gaussian_mu(epsilon: Number, *, delta: Number) -> float:
    """Return the largest mu whose Gaussian mechanism is (epsilon, delta)-DP, rounded down (A7).

    Solves Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) = delta, which rises with mu, by bracketing on
    [1e-8, 1e4]. Needs: delta > 0.
    """
    at = round_down(nonnegative("epsilon", epsilon))
    if delta == 0:
        raise InvalidParameter("delta", delta, "above 0: Gaussian noise needs delta > 0")
    target = round_down(probability("delta", delta))
    if gaussian_delta(_LEAST_MU, at) > target:
        message = (
            f"epsilon={at:g} and delta={target:g} ask for more noise than 1e8 sensitivities; "
            f"delta={gaussian_delta(_LEAST_MU, at):.3g} is the least that works at this epsilon"
        )
        raise PreconditionError(message)
    low, high = _LEAST_MU, _MOST_MU
    if gaussian_delta(high, at) <= target:
        return high
    while True:
        middle = math.sqrt(low * high) if high > 2 * low else (low + high) / 2
        if middle in (low, high):
            return low
        low, high = (middle, high) if gaussian_delta(middle, at) <= target else (low, middle)


def gaussian_sigma(epsilon: Number, *, delta: Number, sensitivity: Number = 1) -> float:
    """Return the least standard deviation of normal noise that is (epsilon, delta)-DP, rounded up (A7).

    Exact for every epsilon >= 0 (Balle and Wang). The report's variance, sensitivity ln(1/delta) / epsilon, has the wrong
    dimension and too little noise; the textbook's sensitivity sqrt(2 ln(1.25/delta)) / epsilon is enough for epsilon <= 1
    only.
    """
    width = positive("sensitivity", sensitivity)
    return round_up(width / Fraction(gaussian_mu(epsilon, delta=delta)))


def group_delta(epsilon: Number, *, delta: Number, size: int) -> float:
    """Return delta (e^(size epsilon) - 1) / (e^epsilon - 1), rounded up, which may be above 1 (E3).

    What is (epsilon, delta)-DP for one row is (size epsilon, this)-DP for a group of ``size`` rows. The report's
    size e^((size - 1) epsilon) delta bounds every term of the geometric sum by its largest.
    """
    at = round_up(nonnegative("epsilon", epsilon))
    slack = round_up(probability("delta", delta, zero=True))
    rows = count("size", size)
    if slack == 0 or rows == 1:
        return slack
    if at * rows > _ENDLESS:
        return math.inf
    factor = rows if at == 0 else math.expm1(rows * at) / math.expm1(at)
    return slack * factor * (1 + (8 + rows * at) * 2.0**-50)


def group_event(event: Event, *, size: int) -> Event:  # noqa: C901 - one case for every kind of event
    """Return what an event guarantees to a group of ``size`` rows that change together (E3).

    Epsilon, mu and sensitivity grow ``size`` times, rho ``size`` squared times, delta as :func:`group_delta`.
    """
    rows = count("size", size)
    match event:
        case events.NoCost() | events.NonPrivate():
            return event
        case events.GaussianNoise(mu=value):
            return events.GaussianNoise(rows * value)
        case events.DiscreteGaussian():
            return events.DiscreteGaussian(event.sigma, rows * event.sensitivity)
        case events.DiscreteLaplace():
            return events.DiscreteLaplace(rows * event.epsilon, rows * event.sensitivity)
        case events.BoundedRange(epsilon=value):
            return events.BoundedRange(rows * value)
        case events.Pure(epsilon=value):
            return events.Pure(rows * value)
        case events.ZeroConcentrated(rho=value):
            return events.ZeroConcentrated(rows * rows * value)
        case events.Approximate(epsilon=value, delta=slack):
            grown = group_delta(value, delta=slack, size=rows)
            return events.Approximate(rows * value, grown) if grown < 1 else events.NonPrivate()
        case events.Repeated(event=inner, times=times):
            return events.Repeated(group_event(inner, size=rows), times)
        case events.Composed(events=inner):
            return events.Composed(tuple(group_event(one, size=rows) for one in inner))


def replace_one(event: Event) -> Event:
    """Return what a guarantee for adding or removing one row means for replacing one (0.2).

    Replacing is removing and adding: a group of two. There is no way back.
    """
    return group_event(event, size=2)


def zero_concentrated_epsilon(rho: Number, *, delta: Number) -> float:
    """Return an epsilon for which every rho-zCDP release is (epsilon, delta)-DP (T2; Canonne, Kamath and Steinke).

    The smallest over a > 1 of a rho + (ln(1/delta) - ln a) / (a - 1) + ln(1 - 1/a), at the a where
    (a - 1)^2 rho = ln(1/delta) - ln a. Any a is valid, so its rounding costs nothing.
    """
    total, logarithm = _zero_concentrated(rho, delta)
    if total == 0:
        return 0.0
    low, high = 0.0, 1 + math.sqrt(logarithm / total)  # around a - 1
    while high - low > 2.0**-40 * high:
        middle = (low + high) / 2
        below = middle * middle * total < logarithm - math.log1p(middle)
        low, high = (middle, high) if below else (low, middle)
    parts = (total, high * total, (logarithm - math.log1p(high)) / high, -math.log1p(1 / high))
    return max(0.0, math.fsum(parts) + 2.0**-48 * math.fsum(map(abs, parts)))


def zero_concentrated_epsilon_simple(rho: Number, *, delta: Number) -> float:
    """Return rho + 2 sqrt(rho ln(1/delta)), the older and looser conversion (T2; Bun and Steinke)."""
    total, logarithm = _zero_concentrated(rho, delta)
    return (total + 2 * math.sqrt(total * logarithm)) * ROUNDING


def _zero_concentrated(rho: Number, delta: Number) -> tuple[float, float]:
    """Return rho and ln(1/delta), both rounded up."""
    total = round_up(nonnegative("rho", rho))
    if delta == 0:
        raise InvalidParameter("delta", delta, "above 0: zCDP alone gives no epsilon at delta = 0")
    return total, -math.log(round_down(probability("delta", delta))) * ROUNDING


def to_dp_events(events: Iterable[Event]) -> list[Any]:
    """Return dp_accounting's DpEvents, one for each event, in the same order.

    Guarantee: each is no more private than the event it stands for. Gaussian noise, discrete Laplace noise and zCDP have
    an event of their own there. An epsilon-DP or bounded-range event becomes discrete Laplace noise on a count of
    sensitivity 1: that is randomised response, which dominates it, in words that fit the same neighbours as all others. The
    discrete Gaussian becomes its zCDP. An (epsilon, delta)-DP event with delta > 0 has no counterpart and is refused with
    NotPrivate. Accountants there are to be set up so that their sensitivities mean one row replaced, as ours do
    (``NeighboringRelation.REPLACE_SPECIAL`` for the PLD accountant). Needs the extra ``accounting``.
    """
    try:
        from dp_accounting import dp_event
    except ImportError:
        raise MissingExtra("accounting", purpose="exporting events to dp_accounting") from None
    return [_to_dp_event(event, dp_event) for event in events]


def _to_dp_event(event: Event, kinds: Any) -> Any:  # noqa: ANN401, C901 - dp_accounting carries no types; one case for each kind
    match event:
        case events.NoCost():
            return kinds.NoOpDpEvent()
        case events.NonPrivate():
            return kinds.NonPrivateDpEvent()
        case events.GaussianNoise(mu=value):
            return kinds.GaussianDpEvent(round_down(1 / value))
        case events.DiscreteLaplace():
            return kinds.DiscreteLaplaceDpEvent(round_up(event.epsilon / event.sensitivity), event.sensitivity)
        case events.BoundedRange(epsilon=value) | events.Pure(epsilon=value):
            return kinds.DiscreteLaplaceDpEvent(round_up(value), 1)
        case events.Approximate(epsilon=value, delta=slack) if slack == 0:
            return kinds.DiscreteLaplaceDpEvent(round_up(value), 1) if value else kinds.NoOpDpEvent()
        case events.ZeroConcentrated(rho=value):
            return kinds.ZCDpEvent(round_up(value))
        case events.DiscreteGaussian():
            return kinds.ZCDpEvent(round_up(event.sensitivity**2 / (2 * event.sigma**2)))
        case events.Repeated(event=inner, times=times):
            return kinds.SelfComposedDpEvent(_to_dp_event(inner, kinds), times)
        case events.Composed(events=inner):
            return kinds.ComposedDpEvent([_to_dp_event(one, kinds) for one in inner])
        case _:
            message = (
                "dp_accounting has no event for an (epsilon, delta)-DP release with delta > 0; "
                "give holdtrue.compose the list, or export the release's own mechanism"
            )
            raise NotPrivate(message)

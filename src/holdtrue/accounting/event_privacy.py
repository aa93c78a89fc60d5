"""The privacy of one event: delta(epsilon), epsilon(delta), total variation, zCDP and GDP, in closed form.

Every number is an upper bound: formulas are exact for the law that is drawn (THEORY A2-A7, B3, T2, T2b) and their
rounding is pushed outwards. All of it is for replace-one neighbours.
"""

import math
from fractions import Fraction

from holdtrue import events
from holdtrue.accounting.closed_forms import (
    bounded_range_mu,
    bounded_range_rho,
    concentrated_tv,
    gaussian_delta,
    pure_mu,
    pure_rho,
    smallest_epsilon,
    zero_concentrated_delta,
)
from holdtrue.errors import InvalidParameter, NotPrivate, RequestError
from holdtrue.events import Event
from holdtrue.exact import ROUNDING, Number, nonnegative, probability, round_up


def delta(event: Event, epsilon: Number) -> float:
    """Return a delta for which the event is (epsilon, delta)-DP: the hockey-stick divergence at epsilon (A4)."""
    at = round_up(nonnegative("epsilon", epsilon))
    match event:
        case events.NoCost():
            return 0.0
        case events.NonPrivate():
            return 1.0
        case events.GaussianNoise(mu=value):
            result = gaussian_delta(round_up(value), at)
        case events.DiscreteLaplace():
            result = _laplace_delta(event, at)
        case events.BoundedRange(epsilon=value):
            result = _bounded_range_delta(round_up(value), at)
        case events.Pure(epsilon=value):
            result = _pure_delta(round_up(value), at)
        case events.Approximate():
            result = _approximate_delta(event, at)
        case events.ZeroConcentrated(rho=value):
            result = zero_concentrated_delta(round_up(value), at)
        case events.DiscreteGaussian():
            result = zero_concentrated_delta(round_up(Fraction(event.sensitivity**2) / (2 * event.sigma**2)), at)
        case _:
            raise _refuse_composite(event)
    return min(1.0, max(0.0, result))


def epsilon(event: Event, delta_: Number) -> float:
    """Return an epsilon for which the event is (epsilon, delta)-DP, the smallest up to rounding.

    A bisection whose answer is always on the safe side: delta(event, answer) <= delta. Infinite where no epsilon will do.
    """
    target = probability("delta", delta_, zero=True)
    if target == 0:
        return _pure_epsilon(event)
    return smallest_epsilon(lambda at: delta(event, at), float(target))


def _pure_epsilon(event: Event) -> float:
    match event:
        case events.NoCost():
            return 0.0
        case events.DiscreteLaplace(epsilon=value) | events.BoundedRange(epsilon=value) | events.Pure(epsilon=value):
            return round_up(value)
        case events.Approximate(epsilon=value, delta=slack) if slack == 0:
            return round_up(value)
        case events.GaussianNoise() | events.DiscreteGaussian():
            raise InvalidParameter("delta", 0, "above 0: Gaussian noise needs delta > 0")
        case _:
            return math.inf


def tv(event: Event) -> float:
    """Return a bound on the total variation between neighbours: delta at epsilon = 0 (A1, A2, A6); of zCDP by V6.4."""
    cost = rho(event) if isinstance(event, events.ZeroConcentrated | events.DiscreteGaussian) else None
    return delta(event, 0) if cost is None else min(delta(event, 0), concentrated_tv(cost))


def rho(event: Event) -> float | None:
    """Return the zCDP cost (T2): None where there is none."""
    match event:
        case events.NoCost():
            return 0.0
        case events.GaussianNoise(mu=value):
            return round_up(value * value / 2)
        case events.DiscreteGaussian():
            return round_up(Fraction(event.sensitivity**2) / (2 * event.sigma**2))
        case events.ZeroConcentrated(rho=value):
            return round_up(value)
        case events.DiscreteLaplace():
            return _laplace_rho(event)
        case events.BoundedRange(epsilon=value):
            return bounded_range_rho(round_up(value))
        case events.Pure(epsilon=value):
            return pure_rho(round_up(value))
        case events.Approximate(epsilon=value, delta=slack) if slack == 0:
            return pure_rho(round_up(value))
        case events.Approximate() | events.NonPrivate():
            return None
        case _:
            raise _refuse_composite(event)


def mu(event: Event) -> float | None:
    """Return the GDP cost (T2b): None where there is none, as for the discrete Gaussian."""
    match event:
        case events.NoCost():
            return 0.0
        case events.GaussianNoise(mu=value):
            return round_up(value)
        case events.BoundedRange(epsilon=value):
            return bounded_range_mu(round_up(value))
        case events.DiscreteLaplace(epsilon=value) | events.Pure(epsilon=value):
            return pure_mu(round_up(value))
        case events.Approximate(epsilon=value, delta=slack) if slack == 0:
            return pure_mu(round_up(value))
        case events.Approximate() | events.NonPrivate() | events.DiscreteGaussian() | events.ZeroConcentrated():
            return None
        case _:
            raise _refuse_composite(event)


def _refuse_composite(event: Event) -> RequestError | NotPrivate:
    return InvalidParameter("event", event, "a single event; several are composed with holdtrue.compose")


def _laplace_delta(event: events.DiscreteLaplace, at: float) -> float:
    """Return F(z) - e^epsilon F(z - sensitivity), z the largest whole number with a loss above epsilon (A5)."""
    claimed, width = float(event.epsilon), event.sensitivity
    if at >= claimed:
        return 0.0
    rate = claimed / width
    # The loss at z is (claimed / width)(width - 2 z) between 0 and width, and constant outside.
    z = max(math.ceil(Fraction(width, 2) * (1 - Fraction(at) / event.epsilon)) - 1, 0)
    both = math.exp(-rate * (z + 1)) + math.exp(at + rate * (z - width))
    return (1 - both / (1 + math.exp(-rate))) * ROUNDING + 2.0**-52


def _laplace_rho(event: events.DiscreteLaplace) -> float:
    """Return the mean of the loss, which is the supremum of the Renyi divergence of order a over a (A5).

    With r = epsilon / sensitivity the mean, r (E|Z + sensitivity| - E|Z|), is epsilon - (1 - e^-epsilon) r / sinh r. It
    is summed as (epsilon + e^-epsilon - 1) + (1 - e^-epsilon)(1 - r / sinh r), whose terms are positive.
    """
    claimed = round_up(event.epsilon)
    rate = round_up(event.epsilon / event.sensitivity)
    continuous = _exponential_excess(claimed)
    return min(pure_rho(claimed), (continuous - math.expm1(-claimed) * _sinh_deficit(rate)) * ROUNDING)


def _exponential_excess(x: float) -> float:
    """Return x + e^-x - 1 to a relative 2^-46; below 1/4 by its alternating series, whose terms fall."""
    if x > 0.25:  # noqa: PLR2004 - the subtraction loses five bits at most from here on
        return x + math.expm1(-x)
    total = 0.0
    for n in range(12, 1, -1):
        total = (1 - total) * x / n
    return total * x


def _sinh_deficit(x: float) -> float:
    """Return 1 - x / sinh x, rounded up; below 1/16 by three terms of its alternating series."""
    if x > 0.0625:  # noqa: PLR2004 - the subtraction loses eleven bits at most from here on
        return 1 - (x / math.sinh(x) if x < 700 else 0.0) * (1 - 2.0**-50)  # noqa: PLR2004 - sinh overflows past 710
    square = x * x
    return square / 6 * (1 - square * 7 / 60 * (1 - square * 31 / 294))


def _bounded_range_delta(range_: float, at: float) -> float:
    """Return (1 - e^((epsilon - range)/2))^2 / (1 - e^-range).

    The worst pair has two losses, t and t - range; its delta (e^-t - e^-range)(e^t - e^epsilon) / (1 - e^-range) is
    largest at t = (range + epsilon) / 2. At epsilon = 0 this is tanh(range / 4) (A6).
    """
    if at >= range_:
        return 0.0
    return math.expm1((at - range_) / 2) ** 2 / -math.expm1(-range_) * ROUNDING


def _pure_delta(claimed: float, at: float) -> float:
    """Return the delta of randomised response, (e^claimed - e^epsilon) / (1 + e^claimed), which no event exceeds."""
    if at >= claimed:
        return 0.0
    return -math.expm1(at - claimed) / (1 + math.exp(-claimed)) * ROUNDING


def _approximate_delta(event: events.Approximate, at: float) -> float:
    """Return delta past the claimed epsilon; before it, that of the worst (epsilon, delta)-DP pair (A6)."""
    slack = round_up(event.delta)
    return slack + (1 - slack) * _pure_delta(round_up(event.epsilon), at) if at < event.epsilon else slack

"""A second purse beside a ledger's GDP purse, and the privacy curve of both together (V3.1).

Questions spend mu squared. What other verbs release is mostly of bounded range, and cheaper in another currency: in rho
(zCDP), or counted in draws of one epsilon that is fixed at opening. Both caps are fixed at opening, costs and order are as
adaptive as analysts like, and neither purse lends to the other. Then the whole transcript has

    delta(epsilon) <= E[D(epsilon - L)],  L ~ N(mu^2/2, mu^2),

where D is the curve of the second purse alone: given the whole path of the first purse, the losses of the second one are an
adaptive composition within its own cap. Every evaluation is outward: cells of L with their exact normal masses, and in each
cell a number that D is not above.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from holdtrue.accounting.closed_forms import (
    bounded_range_mu,
    bounded_range_rho,
    gaussian_delta,
    largest_float,
    smallest_epsilon,
    zero_concentrated_delta,
)
from holdtrue.errors import InvalidParameter
from holdtrue.exact import UNIT, round_down, round_up, units_down, units_up

__all__ = ["Currency", "Purse", "concentrated_mixture", "counted_mixture", "largest_mu", "most_draws", "purse_of"]

Currency: TypeAlias = Literal["mu", "rho", "draws"]
Floats: TypeAlias = npt.NDArray[np.float64]

_MOST_DRAWS = 9_000
_DRAW = UNIT.denominator
_CELLS = 400
_REACH = 12.0  # of the normal law; what is beyond is added, 4e-33
_STRETCH = 4.0
_LOG_MU = 5.0  # beyond a mu of 148 nothing is private
_SLACK = 1 + 2.0**-30  # a million roundings
_GRID, _FINEST = 64, 1024  # steps of the proved recursion within one epsilon
_LOWEST = -6.0  # below it D is taken as 1
_WORK, _LITTLE_WORK = 6e8, 3e7
_LEAST_GRID = 8
_NEGLIGIBLE = 1e-25
_LEAST_LOG = -45.0
_NEWTON_STEPS = 8
_MOST_POWER, _MOST_SHIFT = 1e4, 300.0  # beyond, exponents are too large for the slack to cover their rounding


class Purse(Struct, frozen=True, forbid_unknown_fields=True):
    """What a ledger keeps for ``predictions`` releases of bounded range ``epsilon``, in one currency.

    "rho": ``cap_units`` of 1e-15 rho, for every event that has one. "draws": so many draws, 1e15 units each, of bounded
    range epsilon at most. "mu": no second purse; so many units of the one currency, mu squared, are kept. ``widths`` are
    the plan's alpha, rows or queries, as ``solved`` says, in each currency, of which the best was taken.
    """

    currency: Currency
    cap_units: int
    predictions: int
    epsilon: Fraction
    solved: str = ""
    widths: tuple[tuple[str, float], ...] = ()

    @property
    def cap(self) -> float:
        """Return the cap in rho, in draws or in mu squared."""
        return round_up(self.cap_units * UNIT)

    @property
    def is_second(self) -> bool:
        """Return whether it is a purse beside the one in mu squared, not a part of it."""
        return self.currency != "mu"

    @property
    def square(self) -> float:
        """Return about how much of mu squared it is worth: only where to look for a good epsilon."""
        if self.currency == "draws":
            return 2 * self.predictions * bounded_range_rho(round_up(self.epsilon))
        return self.cap * (2 if self.currency == "rho" else 1)

    def delta(self, mu: float, epsilon: float) -> float:
        """Return delta at epsilon of a transcript whose questions spend mu squared at most, and others this purse."""
        return _purse_delta(self, mu, epsilon)

    def find_epsilon(self, mu: float, delta: float) -> float:
        """Return an epsilon at which both purses together are (epsilon, delta)-DP."""
        return smallest_epsilon(lambda at: _purse_delta(self, mu, at), delta)

    def __str__(self) -> str:
        return f"{self.predictions:,} predictions of epsilon {float(self.epsilon):g}"


def purse_of(currency: Currency, *, predictions: int, epsilon: Fraction) -> Purse:
    """Return the purse that pays for this many draws of bounded range epsilon.

    Failure: InvalidParameter for more draws than can be counted one by one.
    """
    each = round_up(epsilon)
    epsilon = Fraction(each)  # so that the float of a decimal is no more than what was opened
    if currency == "draws":
        if predictions > _MOST_DRAWS or _steps_of(each, predictions) is None:
            told = "give fewer predictions, or currency='rho': this many draws are too many to be counted one by one"
            raise InvalidParameter.saying("reserve", told)
        return Purse("draws", predictions * _DRAW, predictions, epsilon)
    exact = Fraction(bounded_range_rho(each)) if currency == "rho" else Fraction(bounded_range_mu(each)) ** 2
    return Purse(currency, predictions * max(1, units_up(exact)), predictions, epsilon)


def _purse_delta(purse: Purse, mu: float, epsilon: float) -> float:
    """Return an upper bound of E[D(epsilon - L)], L ~ N(mu^2/2, mu^2): delta of both purses together (V3.1).

    Exact where one of them is empty: A7 without the second purse, the curve of the second one alone without questions.
    """
    if purse.currency == "mu":
        return min(1.0, gaussian_delta(math.sqrt(mu * mu + purse.cap) * _SLACK, epsilon))
    if not purse.cap_units:
        return min(1.0, gaussian_delta(mu, epsilon))
    if purse.currency == "rho":
        return concentrated_mixture(purse.cap, mu, epsilon)
    return counted_mixture(round_up(purse.epsilon), purse.cap_units // _DRAW, mu, epsilon)


def concentrated_mixture(rho: float, mu: float, epsilon: float, *, cells: int = _CELLS) -> float:
    """Return delta of a purse in rho beside one in mu squared, rounded up.

    In each cell of L an order a > 1 is fixed, any of which is valid, and E[e^((a - 1) L); cell] has a closed form: the
    mass of the cell under a shifted normal law. So cells only decide how near to the best a the order is.
    """
    if not mu:
        return min(1.0, zero_concentrated_delta(rho, epsilon))
    if mu > math.exp(_LOG_MU):
        return 1.0
    from scipy.special import ndtr  # a plain GDP ledger needs none of it

    edges = _spread_edges((epsilon - mu * mu / 2) / mu, cells)
    middle = (edges[1:] + edges[:-1]) / 2
    power = _best_powers(epsilon - mu * mu / 2 - mu * middle, rho, most=min(_MOST_POWER, _MOST_SHIFT / mu))
    order, log_power = 1 + power, np.log(power)
    log_bound = power * (order * (rho + mu * mu / 2) - epsilon) - log_power + order * (log_power - np.log1p(power))
    bounds = np.exp(np.minimum(log_bound + _log_masses(edges[:-1] - power * mu, edges[1:] - power * mu), 0.0))
    masses = np.exp(_log_masses(edges[:-1], edges[1:]))
    return min(1.0, float(np.minimum(bounds, masses).sum() + 2 * ndtr(-_REACH)) * _SLACK)


def _spread_edges(kink: float, cells: int) -> Floats:
    """Return the ends of cells within +-12, narrower near the place where the curve of an empty purse has its kink."""
    spread = np.sinh(np.linspace(-_STRETCH, _STRETCH, cells + 1)) / math.sinh(_STRETCH)
    center = min(_REACH, max(-_REACH, kink))
    found: Floats = np.unique(np.clip(center + 2 * _REACH * spread, -_REACH, _REACH))
    return found


def _best_powers(at: Floats, rho: float, *, most: float) -> Floats:
    """Return a - 1 where the bound at each of these is about least: (2 a - 1) rho + ln(1 - 1/a) rises through it."""
    log = np.where(at > 0, np.log(np.maximum(at, 0.0) / (2 * rho) + 1), at)
    for _ in range(_NEWTON_STEPS):
        log = np.clip(log, _LEAST_LOG, math.log(most))
        power = np.exp(log)
        log = log - ((2 * power + 1) * rho + log - np.log1p(power) - at) / (2 * rho * power + 1 / (1 + power))
    found: Floats = np.exp(np.clip(log, _LEAST_LOG, math.log(most)))
    return found


def _log_masses(low: Floats, high: Floats) -> Floats:
    """Return ln Pr[low < Z < high], from the side where nothing cancels."""
    from scipy.special import log_ndtr

    near, far = np.where(low > 0, -low, high), np.where(low > 0, -high, low)
    large, small = log_ndtr(near), log_ndtr(far)
    found: Floats = large + np.log(-np.expm1(np.minimum(small - large, -(2.0**-60))))
    return found


def counted_mixture(epsilon_each: float, draws: int, mu: float, epsilon: float) -> float:
    """Return delta of ``draws`` draws of one bounded range beside a purse in mu squared, rounded up."""
    return _mix_with_normal(*_counted_curve(epsilon_each, draws), mu, epsilon)


def _mix_with_normal(points: Floats, curve: Floats, mu: float, epsilon: float) -> float:
    """Return E[D(epsilon - L)] with D at the left end of each cell, where it is largest; 1 below all, the last above all."""
    if not mu:
        place = int(np.searchsorted(points, epsilon, side="right")) - 1
        return 1.0 if place < 0 else min(1.0, float(curve[place]) * _SLACK)
    from scipy.special import ndtr

    # Of cells beyond +-12 only the tail counts: as 1 where the loss is large, at their first value where it is small.
    near = np.searchsorted(points, (epsilon - mu * mu / 2 - _REACH * mu, epsilon - mu * mu / 2 + _REACH * mu))
    first = max(0, min(int(near[0]) - 1, points.size - 2))  # below them all, also where they lie between two points
    points, curve = points[first : max(int(near[1]), first + 2)], curve[first : max(int(near[1]), first + 2)]
    edges = (epsilon - mu * mu / 2 - points) / mu  # falling
    masses = np.where(edges[1:] > 0, ndtr(-edges[1:]) - ndtr(-edges[:-1]), ndtr(edges[:-1]) - ndtr(edges[1:]))
    total = float((masses * curve[:-1]).sum() + ndtr(-edges[0]) + ndtr(edges[-1]) * curve[-1])
    return min(1.0, total * _SLACK)


@lru_cache(maxsize=16)
def _counted_curve(epsilon: float, draws: int) -> tuple[Floats, Floats]:
    """Return the grid and D_K on it, as far as it is worth anything."""
    steps = _steps_of(epsilon, draws)
    if steps is None:
        raise InvalidParameter("draws", draws, "fewer: a purse in rho takes any number")
    *_, last = _follow_draws(epsilon, draws, highest=_farthest(epsilon, draws), steps=steps)
    return last


def _follow_draws(epsilon: float, draws: int, *, highest: float, steps: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield the grid and D_1, D_2, ... on it: the optimal adaptive curve, from above (V3.1).

    D_0(x) = (1 - e^x)_+ and D_i(x) = max over t of q_t D_(i-1)(x - t) + (1 - q_t) D_(i-1)(x - t + epsilon): a step of
    bounded range has e^-loss between e^-t and e^(epsilon - t) with mean 1, and D is convex in e^x, so the worst law sits on
    both ends. Proved on the grid of step epsilon/G: with epsilon' = epsilon (1 + 1/G) every pair lies within one whose t is
    a grid point. Left of the grid D is taken as 1; right of it as its last value, below which it never rises.
    """
    h = epsilon / steps
    wide = steps + 1
    first, last = math.floor(_LOWEST / h), math.ceil(highest / h)
    points: Floats = np.arange(first, last + 1, dtype=np.float64) * h
    curve: Floats = np.maximum(0.0, -np.expm1(np.minimum(points, 0.0)))
    shares = [math.expm1((wide - g) * h) / math.expm1(wide * h) * math.exp(g * h) for g in range(wide + 1)]
    size = points.size
    padded, best, other, term = np.empty(size + 2 * wide), *(np.empty(size) for _ in range(3))
    for _ in range(draws):
        padded[:wide], padded[wide : wide + size], padded[wide + size :] = 1.0, curve, curve[-1]
        best.fill(0.0)
        for g, share in enumerate(shares):
            np.multiply(padded[wide - g : wide - g + size], share, out=term)
            np.multiply(padded[2 * wide - g : 2 * wide - g + size], 1 - share, out=other)
            np.add(term, other, out=term)
            np.maximum(best, term, out=best)
        curve = np.minimum(best, 1.0)
        yield points, curve


def _farthest(epsilon: float, draws: int) -> float:
    """Return where the curve is negligible: the sum of all epsilons, or before."""
    rho = draws * bounded_range_rho(epsilon)
    return min((draws + 1) * epsilon * 1.2, smallest_epsilon(lambda at: zero_concentrated_delta(rho, at), _NEGLIGIBLE)) + 1


def _steps_of(epsilon: float, draws: int) -> int | None:
    """Return how fine a grid is affordable: 64 steps within epsilon, more for few draws; None where it is too coarse."""
    work = max(1, draws) * (_farthest(epsilon, draws) - _LOWEST) / epsilon
    steps = max(min(_GRID, math.isqrt(int(_WORK / work))), min(_FINEST, math.isqrt(int(_LITTLE_WORK / work))))
    return steps if steps >= _LEAST_GRID else None


def most_draws(currency: Currency, *, each: Fraction, mu: float, epsilon: float, delta: float) -> int:
    """Return how many draws of bounded range ``each`` a purse may pay for beside mu, under (epsilon, delta)."""
    privacy = round_up(each)
    if currency == "draws":
        for number, found in enumerate(_follow_draws(privacy, _MOST_DRAWS, highest=epsilon + 4, steps=_GRID)):
            if _mix_with_normal(*found, mu, epsilon) > delta:
                return number
        return _MOST_DRAWS
    one = purse_of(currency, predictions=1, epsilon=each).cap_units

    def fits(log_cap: float) -> bool:
        units = units_down(Fraction(math.exp(log_cap)))
        return not units or _purse_delta(Purse(currency, units, 1, each), mu, epsilon) <= delta

    if not fits(-60.0) or _purse_delta(Purse(currency, one, 1, each), mu, epsilon) > delta:
        return 0
    return units_down(Fraction(math.exp(largest_float(fits, -60.0, 10.0, steps=60)))) // one


@lru_cache(maxsize=64)
def _largest_mu(currency: Currency, cap_units: int, each: Fraction, privacy: tuple[float, float]) -> float:
    purse = Purse(currency, cap_units, 1, each)
    epsilon, delta = privacy
    if _purse_delta(purse, math.exp(-60.0), epsilon) > delta:
        return 0.0
    return math.exp(largest_float(lambda at: _purse_delta(purse, math.exp(at), epsilon) <= delta, -60.0, _LOG_MU, steps=60))


def largest_mu(purse: Purse, *, epsilon: float, delta: float) -> float:
    """Return the largest mu of the questions for which both purses together are (epsilon, delta)-DP; 0 where none is."""
    return _largest_mu(purse.currency, purse.cap_units, purse.epsilon, (round_down(Fraction(epsilon)), delta))

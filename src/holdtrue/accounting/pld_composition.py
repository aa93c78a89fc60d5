"""Sums of many independent privacy losses, by one Fourier transform, never below the truth (T1).

Given laws of losses on a common grid (:mod:`holdtrue.accounting.loss_distributions`), delta(x) = E[(1 - e^(x - S))_+] for
their sum S is computed with these steps, each of which can only raise it:

1. *Tilting.* Under the law with masses proportional to e^(theta S), theta > 0, values near the x that matters are
   typical, so that rounding is relative to delta and not to one. With K = ln E[e^(theta S)],
   delta(x) = e^(K - theta x) E_theta[k(S - x)], k(y) = e^(-theta y) (1 - e^-y)_+.
2. *Wrapping.* A discrete transform of N points gives c_n, the tilted masses of all S that agree modulo W = N step. With
   each c_n the sum of k over all its points above x is taken: more than what S itself would get, because all terms are
   positive, so no mass is cut off on either side. The excess is e^(theta W j) delta(x + j W), summed over whole j other
   than 0: below 1e-8 of delta for the chosen theta and W.
3. *Rounding.* A transform of length N has a Euclidean error below 8 u log2(N) of the norm of its result (Higham,
   Accuracy and Stability of Numerical Algorithms, theorem 24.2, u = 2^-53); twice that is charged. Complex products are
   right to sqrt(5) u (Brent, Percival and Zimmermann), powers come from repeated squaring. Transforms of laws are at most
   one in size, so the product of all is off by at most the sum of these errors; the inverse keeps the norm, and the sum
   against k gains at most the norm of k. The total is added to delta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.loss_distributions import Lattice, Law

_Floats: TypeAlias = npt.NDArray[np.float64]
_Complexes: TypeAlias = npt.NDArray[np.complex128]

_ROUNDOFF = 2.0**-53
_LEAST_POINTS, _MOST_POINTS = 1 << 10, 1 << 15
_MANY_POINTS = 1 << 13
_LONGEST_WINDOW = 500.0
# How much of epsilon the grid may cost (four times that where it would have many points, more where it would have too
# many), and ln of how much of delta the wrapping may.
_GRID_COST = 4e-7
_WRAPPED = -math.log(1e-8)
_STEEPEST = 8.0
# From this many events on, the decay of the transform is worth its price in the error bound.
_MANY = 1000


@dataclass(frozen=True, slots=True)
class _Aim:
    """Where to look: the tilt, about the epsilon that is sought, the grid's step and its number of points."""

    theta: float
    epsilon: float
    step: float
    points: int


def spectral_epsilon(parts: Sequence[tuple[Law, int]], *, delta: float) -> float:
    """Return an epsilon for which independent losses, each law repeated, have E[(1 - e^(epsilon - S))_+] <= delta.

    Infinite where a law has too many atoms for the grid, or losses are so large that floats end.
    """
    aim = _choose_aim(parts, delta)
    if aim is None:
        return math.inf
    lattices = [(law.to_lattice(aim.step, aim.theta), times) for law, times in parts]
    known = [(lattice, times) for lattice, times in lattices if lattice is not None]
    if len(known) < len(lattices):
        return math.inf
    return _Sum(known, aim).epsilon(delta)


def _choose_aim(parts: Sequence[tuple[Law, int]], delta: float) -> _Aim | None:
    """Choose tilt and grid. Only tightness depends on this choice."""
    rarity = -math.log(delta)

    def moment(theta: float) -> float:
        return math.fsum(times * law.log_moment(theta) for law, times in parts)

    def chernoff(theta: float) -> float:
        # The largest e^(-theta y)(1 - e^-y) is (theta / (theta + 1))^theta / (theta + 1).
        return (moment(theta) + rarity - theta * math.log1p(1 / theta) - math.log1p(theta)) / theta

    theta, factor = 1.0, 2.0
    best = chernoff(theta)
    while best > 0 and abs(factor - 1) > 0.1:  # noqa: PLR2004 - any theta nearby will do
        ahead = chernoff(theta * factor)
        if ahead < best - 0.02 * abs(best):
            theta, best = theta * factor, ahead
        elif factor > 1:
            factor = 1 / factor
        else:
            factor = math.sqrt(1 / factor)
    ladder = [theta * 1.3**rung for rung in range(12)]
    moments = [moment(rung) for rung in ladder]
    # Rounding is relative to e^(K - theta epsilon): a steeper tilt allows a shorter window until that outgrows delta.
    excess = [value + rarity - rung * best for rung, value in zip(ladder, moments, strict=True)]
    window, tilt = min(
        (max((rarity + _WRAPPED) / low, _right_window(ladder, moments, at, best, rarity)), low)
        for at, low in enumerate(ladder[:6])
        if excess[at] <= max(_STEEPEST, excess[0] + 3)
    )
    if not window < _LONGEST_WINDOW:
        return None
    cost = _GRID_COST * abs(best) * 2 / (theta + 1)
    step, points = _choose_grid(parts, window=window, cost=cost)
    if points > _MANY_POINTS:
        step, points = _choose_grid(parts, window=window, cost=4 * cost)
    if points > _MOST_POINTS:
        step, points = window / _MOST_POINTS, _MOST_POINTS
    return _Aim(tilt, best, step, points)


def _right_window(ladder: list[float], moments: list[float], at: int, epsilon: float, rarity: float) -> float:
    """Return a window W with e^(theta W) delta(epsilon + W) negligible, delta by Chernoff's bound at a steeper tilt."""
    return min(
        (moments[rung] - ladder[rung] * epsilon + rarity + _WRAPPED) / (ladder[rung] - ladder[at])
        for rung in range(at + 1, len(ladder))
    )


def _choose_grid(parts: Sequence[tuple[Law, int]], *, window: float, cost: float) -> tuple[float, int]:
    """Return a step that adds at most ``cost`` of variance and divides the base of the law that would add the most."""
    gains = [
        (times * (law.added_variance(aligned=False) - law.added_variance(aligned=True)), law.base) for law, times in parts
    ]
    gain, base = max(gains, key=lambda pair: pair[0])
    spread = math.fsum(times * law.added_variance(aligned=False) for law, times in parts) - gain
    wanted = window / _LEAST_POINTS
    if spread > 0:
        wanted = min(wanted, math.sqrt(cost / spread))
    if base is None or gain <= 0:
        points = _round_up_length(window / wanted)
        return window / points, points
    step = base / math.ceil(base / wanted)
    return step, _round_up_length(window / step)


def _round_up_length(least: float) -> int:
    """Return the smallest of 2^k and 3 * 2^k that is not below ``least``: lengths that transform quickly."""
    power = 1 << max(math.ceil(math.log2(max(least, 2.0))), 2)
    return power * 3 // 4 if power * 3 // 4 >= least else power


class _Sum:
    """The tilted law of a sum of losses, wrapped around a circle of points."""

    def __init__(self, lattices: Sequence[tuple[Lattice, int]], aim: _Aim) -> None:
        self.aim = aim
        unit = 16 * _ROUNDOFF * math.log2(aim.points)
        spectrum: _Complexes = np.ones(aim.points // 2 + 1, dtype=np.complex128)
        self.offset = self.beyond = self.shift = self.moment = self.wobble = 0.0
        slips: list[tuple[_Complexes, int, float]] = []
        for lattice, times in lattices:
            exponents = (aim.theta * aim.step) * lattice.positions
            peak = float(exponents.max())
            masses = lattice.masses * np.exp(exponents - peak)
            total = float(masses.sum())
            law = np.bincount(lattice.positions % aim.points, masses / total, aim.points).astype(np.float64, copy=False)
            transform = np.fft.rfft(law)
            spectrum *= _raise_to_power(transform, times)
            slips.append((transform, times, unit * math.sqrt(aim.points) * _euclidean_norm(law) + 4 * _ROUNDOFF))
            start = aim.theta * lattice.offset
            self.moment += times * (math.log(total) + peak + start)
            self.wobble += times * 2.0**-50 * (8 + abs(peak) + abs(start) + masses.size * _ROUNDOFF * 8)
            self.wobble += times * masses.size * 2 * _ROUNDOFF
            self.offset += times * lattice.offset
            self.beyond += times * lattice.beyond
            self.shift += times * (lattice.shift + 2.0**-50 * abs(lattice.offset))
        circle = np.fft.irfft(spectrum, aim.points)
        self.circle: _Floats = np.maximum(circle, 0.0)
        self.noise = _bound_rounding(slips, aim.points) + unit * _euclidean_norm(circle)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that these numbers prove, looking from below the aim upwards."""
        room = (delta - self.beyond) / (1 + self.wobble)
        if room <= 0:
            return math.inf
        window = self.aim.step * self.aim.points
        low = self.aim.epsilon - 0.3 * window
        for _ in range(8):
            found = self._search_upwards(low, room)
            if found is not None or low < 0:
                break
            low -= window / 2
        return max(0.0, (low if found is None else found) + self.shift)

    def _search_upwards(self, low: float, room: float) -> float | None:
        """Return the first epsilon from ``low`` up with a delta of at most ``room``; None if that is ``low`` itself."""
        theta, step, points = self.aim.theta, self.aim.step, self.aim.points
        first = math.ceil((low - self.offset) / step)
        start = self.offset + step * first
        logarithm = self.moment - theta * start
        target = room * math.exp(min(-logarithm, 700.0)) * (1 - 2.0**-48 * (1 + abs(logarithm)))
        y = step * np.arange(points)
        decay = np.exp(-theta * y)
        upper = np.roll(self.circle, -first % points) * decay
        growth = np.exp(y)
        above = _suffix_sums(upper)
        fallen = upper / growth
        again = _geometric_sum(theta * step * points) + math.ulp(0.0)
        wrapped = again * float(upper.sum())
        rest = _suffix_sums(fallen) + float(fallen.sum()) * _geometric_sum((theta + 1) * step * points)
        norm = self.noise / math.sqrt(-math.expm1(-2 * theta * step))
        rounding = 4 * points * _ROUNDOFF
        least = above * (1 + rounding) + (wrapped * (1 + rounding) + norm * again) + norm * decay
        enough = least - growth * rest * (1 - rounding) <= target
        at = int(np.argmax(enough))
        if not enough[at]:
            return math.inf
        if at == 0:
            return None
        remaining = float(rest[at - 1]) * (1 - rounding)
        within = math.log((float(least[at - 1]) - target) / remaining) if remaining > 0 else float(y[at])
        return start + min(float(y[at]), max(within, float(y[at - 1]))) + 2.0**-50 * (abs(start) + float(y[at]))


def _suffix_sums(values: _Floats) -> _Floats:
    """Return for each position the sum of all later values."""
    sums: _Floats = np.empty_like(values)
    np.cumsum(values[:0:-1], out=sums[-2::-1])
    sums[-1] = 0.0
    return sums


def _geometric_sum(x: float) -> float:
    """Return e^-x + e^-2x + e^-3x + ..."""
    return -math.exp(-x) / math.expm1(-x)


def _euclidean_norm(values: _Floats) -> float:
    """Return the Euclidean norm; without BLAS, whose threads wait for each other longer than this takes."""
    return math.sqrt(float(np.square(values).sum()))


def _raise_to_power(base: _Complexes, exponent: int) -> _Complexes:
    """Return a power by repeated squaring."""
    result: _Complexes | None = None
    square = base.copy()
    while True:
        if exponent & 1:
            result = square.copy() if result is None else result * square
        exponent >>= 1
        if not exponent:
            return result if result is not None else np.ones_like(base)
        np.multiply(square, square, out=square)


def _bound_rounding(slips: Sequence[tuple[_Complexes, int, float]], points: int) -> float:
    """Return a bound on the Euclidean error, after the inverse transform, of a product of powers.

    The product of all a_i^n_i changes by at most the sum over i of n_i e_i times all factors but one, each at most
    |a_i| + e_i in size. For few events the other factors are taken as one.
    """
    total = math.fsum(times * slip for _, times, slip in slips)
    if sum(times for _, times, _ in slips) < _MANY:
        return total * math.exp(total)
    sizes = [np.abs(transform) + slip for transform, _, slip in slips]
    logarithms = np.sum([times * np.log(size) for size, (_, times, _) in zip(sizes, slips, strict=True)], axis=0)
    factors = np.sum([times * slip / size for size, (_, times, slip) in zip(sizes, slips, strict=True)], axis=0)
    errors = factors * np.exp(np.minimum(logarithms, total))
    return math.sqrt(2 / points) * _euclidean_norm(errors)

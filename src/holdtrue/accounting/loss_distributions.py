"""The privacy losses of single events, as laws on a grid that are never better than the truth (T1, A5, B3).

The loss of a pair of laws (P, Q) is L = ln(dP/dQ) under P, and delta(x) = E[(1 - e^(x - L))_+]. As a function of
s = e^-L the bracket is convex, so by Jensen's inequality a loss between two grid points a < b may be moved to a and b
with weights that keep the mean of s: every delta, also after any number of independent losses are added, can only rise.
A set of losses inside one cell may be moved together, by the mean of its s. This costs second order in the grid's
step, where rounding up would cost first order.

For three families that mean needs no quadrature. Where the mass at L is proportional to e^(L/2), as for Laplace noise
and for the worst bounded-range pair, the mean of e^-L over equally spaced losses (or an interval of them) is e^-m, m the
middle of the first and the last.

Each law is symmetric: the loss of (Q, P) under Q has the same law, so one direction is enough.
"""

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

_Floats: TypeAlias = npt.NDArray[np.float64]

# Laplace noise on so few whole numbers is kept on a grid that holds all its losses.
_FEW = 64
_MOST_ATOMS = 1 << 17
# Standard deviations of normal noise that are kept; what is beyond has probability 1e-22.
_REACH = 9.75
# Past here the normal tail is no longer a normal float.
_LAST_TAIL = 37.0


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Masses at losses offset + step * position; ``beyond`` is mass at an infinite loss.

    Masses are upper bounds, so that they may sum to a little more than one. ``shift`` bounds how far rounding may have
    moved any loss.
    """

    offset: float
    positions: npt.NDArray[np.int64]
    masses: _Floats
    beyond: float
    shift: float


class Law(Protocol):
    """The privacy loss of one event."""

    @property
    def base(self) -> float | None:
        """Return a distance that the grid's step should divide, if there is one."""

    def log_moment(self, theta: float) -> float:
        """Return about ln E[e^(theta L)]: where to look, never what is reported."""

    def added_variance(self, *, aligned: bool) -> float:
        """Return about how much variance, in squared steps, the grid adds."""

    def to_lattice(self, step: float, theta: float) -> Lattice | None:
        """Return a law on the grid that is nowhere better; None if it has too many atoms. ``theta`` says where to look."""


@dataclass(frozen=True, slots=True)
class LaplaceLoss:
    """Discrete Laplace noise: +epsilon, -epsilon and width - 1 losses between (A5). Width 1 is randomised response."""

    epsilon: float
    width: int

    @property
    def base(self) -> float | None:
        """Return the distance between losses where they are few, and of the two ends otherwise."""
        return 2 * self.epsilon / self.width if self.width <= _FEW else 2 * self.epsilon

    def log_moment(self, theta: float) -> float:
        """Return the logarithm of the geometric sums of A5, by the continuous law where the width is large."""
        epsilon, rate = self.epsilon, self.epsilon / self.width
        q = math.exp(-rate)
        ends = (1 + math.exp(-(1 + 2 * theta) * epsilon)) / (1 + q)
        growth = (1 + 2 * theta) * rate
        # Sum of q^z e^(-2 theta rate z) over 0 < z < width, times (1 - q) / (1 + q).
        inner = (math.exp(-growth) - math.exp(-growth * self.width)) / -math.expm1(-growth) * -math.expm1(-rate) / (1 + q)
        return theta * epsilon + math.log(ends + inner)

    def added_variance(self, *, aligned: bool) -> float:
        """Return a sixth for what lies between the ends, and a quarter for ends off the grid."""
        between = -math.expm1(-self.epsilon / 2) / 6 if self.width > 1 else 0.0
        if aligned:
            return 0.0 if self.width <= _FEW else between
        return between + 0.25

    def to_lattice(self, step: float, theta: float) -> Lattice | None:
        """Return the two ends and the losses between, one by one where they are fewer than cells."""
        del theta
        epsilon, width = self.epsilon, self.width
        rate = epsilon / width
        cells = math.ceil(2 * epsilon / step)
        if cells > _MOST_ATOMS:
            return None
        if width - 1 <= cells:
            first = np.arange(1, width, dtype=np.float64)
            until = first + 1
        else:
            # Cell j holds the z with j step <= 2 epsilon - 2 rate z < (j + 1) step.
            edges = np.floor((2 * epsilon - step * np.arange(cells + 1)) / (2 * rate)) + 1
            edges = np.clip(edges, 1, width)
            edges[0] = width
            first, until = edges[1:], edges[:-1]
        share = 1 / (1 + math.exp(-rate))
        between = np.exp(-rate * first) * -np.expm1(-rate * (until - first)) * share
        middles = rate * (2 * width - (first + until - 1))  # above -epsilon
        losses = np.concatenate([[0.0], middles, [2 * epsilon]])
        masses = np.concatenate([[math.exp(-epsilon) * share], between, [share]])
        return _split_to_grid(losses, masses, step=step, offset=-epsilon, scale=epsilon, lost=2.0**-50 * (8 + epsilon))


@dataclass(frozen=True, slots=True)
class BoundedRangeLoss:
    """The worst of all epsilon-bounded-range pairs at every x at once (B3).

    Their deltas have the envelope (1 - e^((x - epsilon)/2))^2 / (1 - e^-epsilon) on [-epsilon, epsilon]. It is convex in
    e^x, so it is the delta of one pair, whose loss has density e^((x - epsilon)/2) / (2 (1 - e^-epsilon)).
    """

    epsilon: float

    @property
    def base(self) -> float | None:
        """Return None: the law is continuous."""
        return None

    def log_moment(self, theta: float) -> float:
        """Return the integral of e^(theta x) times the density."""
        slope = theta + 0.5
        return theta * self.epsilon + math.log(
            math.expm1(-2 * slope * self.epsilon) / math.expm1(-self.epsilon) / (2 * slope)
        )

    def added_variance(self, *, aligned: bool) -> float:
        """Return a sixth: the mean square of what an even law in a cell gains."""
        del aligned
        return 1 / 6

    def to_lattice(self, step: float, theta: float) -> Lattice | None:
        """Return the mass of each cell, split by the middle of the cell."""
        del theta
        cells = math.ceil(2 * self.epsilon / step)
        if cells > _MOST_ATOMS:
            return None
        edges = np.minimum(np.arange(cells + 1) * step, 2 * self.epsilon)
        low, high = edges[:-1], edges[1:]
        masses = np.exp(high / 2 - self.epsilon) * np.expm1((low - high) / 2) / math.expm1(-self.epsilon)
        lost = 2.0**-50 * (8 + self.epsilon)
        return _split_to_grid((low + high) / 2, masses, step=step, offset=-self.epsilon, scale=self.epsilon, lost=lost)


@dataclass(frozen=True, slots=True)
class NormalLoss:
    """Normal noise: a normal loss of mean mu^2 / 2 and standard deviation mu (A7)."""

    mu: float

    @property
    def base(self) -> float | None:
        """Return None: the law is continuous."""
        return None

    def log_moment(self, theta: float) -> float:
        """Return theta (theta + 1) mu^2 / 2."""
        return theta * (theta + 1) * self.mu**2 / 2

    def added_variance(self, *, aligned: bool) -> float:
        """Return a sixth: the mean square of what an even law in a cell gains."""
        del aligned
        return 1 / 6

    def to_lattice(self, step: float, theta: float) -> Lattice | None:
        """Return the mass of each cell under P and Q around theta; the rest goes up to the lowest cell, or beyond.

        With x = (L - mu^2/2) / mu, P has x ~ N(0, 1) and Q has x ~ N(-mu, 1).
        """
        mu = self.mu
        width = step / mu
        low, high = max(-_REACH, theta * mu - _REACH), theta * mu + _REACH
        cells = math.ceil((high - low) / width)
        if cells > _MOST_ATOMS or high + mu + width > _LAST_TAIL:
            return None
        x: _Floats = low + width * np.arange(cells + 1, dtype=np.float64)
        under_p, under_q = _normal_masses(x), _normal_masses(x + mu)
        offset = mu * mu / 2 + mu * low
        starts = step * np.arange(cells)
        within = np.clip(np.log(under_p / under_q) - (offset + starts), 0.0, step)
        losses = np.concatenate([[0.0], starts + within])
        masses = np.concatenate([[math.erfc(-low / math.sqrt(2)) / 2], under_p])
        # Differences of neighbouring tails lose about `width` of their digits, and so does the logarithm of their ratio.
        lost = 2.0**-49 * (high + mu) * (1 + 1 / width)
        beyond = math.erfc(float(x[-1]) / math.sqrt(2))
        return _split_to_grid(
            losses, masses, step=step, offset=offset, scale=abs(offset) + mu, lost=lost, beyond=beyond, moved=lost
        )


@dataclass(frozen=True, slots=True)
class DiscreteNormalLoss:
    """Discrete Gaussian noise on one whole number: losses (width^2 + 2 width w) / (2 sigma^2), w as the noise (0.7)."""

    sigma: float
    width: int

    @property
    def base(self) -> float | None:
        """Return the distance between losses where it is not tiny."""
        gap = self.width / self.sigma**2
        return gap if self.sigma <= _FEW else None

    def log_moment(self, theta: float) -> float:
        """Return that of the continuous law."""
        return theta * (theta + 1) * (self.width / self.sigma) ** 2 / 2

    def added_variance(self, *, aligned: bool) -> float:
        """Return nothing for losses on the grid, a sixth for losses anywhere."""
        return 0.0 if aligned and self.sigma <= _FEW else 1 / 6

    def to_lattice(self, step: float, theta: float) -> Lattice | None:
        """Return the losses around theta; those below go up to the lowest kept, those above beyond.

        The law is subgaussian: noise of at least t has probability at most e^(-t^2 / (2 sigma^2)). What is left out of
        the normalising sum only makes masses larger.
        """
        reach, centre = 1.25 * _REACH * self.sigma, theta * self.width
        lowest, highest = -math.ceil(reach), math.ceil(centre + reach)
        if highest - lowest > _MOST_ATOMS:
            return None
        noise = np.arange(lowest, highest + 1, dtype=np.float64)
        masses = np.exp(-((noise / self.sigma) ** 2) / 2)
        masses /= masses.sum()
        beyond = math.exp(-((highest / self.sigma) ** 2) / 2)
        masses[0] += math.exp(-((lowest / self.sigma) ** 2) / 2)
        gap = self.width / self.sigma**2
        losses, offset = gap * (noise - lowest), gap * (self.width / 2 + lowest)
        lost = 2.0**-50 * (8 + noise.size + (highest / self.sigma) ** 2)
        scale = gap * (highest + self.width)
        return _split_to_grid(losses, masses, step=step, offset=offset, scale=scale, lost=lost, beyond=beyond)


def _split_to_grid(  # noqa: PLR0913 - the parts of a law on a grid, and three bounds on its rounding
    losses: _Floats,
    masses: _Floats,
    *,
    step: float,
    offset: float,
    scale: float,
    lost: float,
    beyond: float = 0.0,
    moved: float = 0.0,
) -> Lattice:
    """Move masses at offset + losses to the grid points around them, keeping the mean of e^-loss of each.

    ``lost`` bounds the relative error of the masses and is added to them: at least 2^-47, so that it also covers a mass
    that rounding the weights took from the upper point or gave to neither.
    """
    floors = np.floor(losses / step)
    weights = np.clip(np.expm1(step * floors - losses) / math.expm1(-step), 0.0, 1.0)
    below = floors.astype(np.int64)
    positions = np.concatenate([below, below + 1])
    parts = np.concatenate([masses * (1 - weights), masses * weights]) * (1 + lost)
    return Lattice(offset, positions, parts, beyond, 2.0**-48 * scale + moved)


def _normal_masses(x: _Floats) -> _Floats:
    """Return Pr[x_j < Z < x_j+1], by whichever tail keeps its digits."""
    tails = np.fromiter(map(math.erfc, (np.abs(x) / math.sqrt(2)).tolist()), np.float64, x.size) / 2
    signs = np.sign(x)
    masses: _Floats = np.where(signs[1:] * signs[:-1] > 0, np.abs(np.diff(tails)), 1 - tails[1:] - tails[:-1])
    return masses

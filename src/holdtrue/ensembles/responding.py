"""How an ensemble answers: from its members' votes or outputs to one label or one number (E4, E9-E11, T2b).

Members are trained on disjoint parts of the rows, so that one row moves one member, or two where parts go by content (see
:mod:`.parts`); a rule is told how many votes one row moves, and its claim is for that many. What a rule is given are
exact private counts; what it returns is public, and costs its ``event``. All of them are mechanisms: they draw from the
system's bits.

Points may also be answered by constrained errors: E_b is the fewest errors on the rows among hypotheses that label the point
b (T13). Privacy then holds for any class whose minima are exact; the bounds on error in
:mod:`holdtrue.bounds.agnostic_prediction` hold for thresholds only.
"""

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, Final, TypeVar, overload

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.bounds.agnostic_prediction import Limit, ResponseTable, response_table
from holdtrue.entropy import Bits
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Integers, Number, count, integers, nonnegative, positive, rational
from holdtrue.mechanisms.base import Array, Gaussian, Laplace, Mechanism
from holdtrue.mechanisms.choosing import Exponential
from holdtrue.noise.samplers import LARGEST_SCALE, bernoulli, discrete_laplace, rounded_gaussian, uniform_below

__all__ = [
    "GRID",
    "Agnostic",
    "Constrained",
    "LaplaceMax",
    "NoisyAverage",
    "NoisyMax",
    "Screen",
    "SoftMajority",
    "drawn_by",
    "vote_matrix",
]

GRID: Final = 1 << 16
"""Noise on votes is drawn in these parts of a vote, so that ties are rare and the law is close to the continuous one."""

ROOT_TWO: Final = Fraction(math.isqrt(2 << 128) + 1, 1 << 64)
"""The square root of 2, rounded up."""

_LEAST_LABELS = 2
_STEPS = 1 << 20
_WIDEST = 0.25
_UPWARD = 1 + 2.0**-40

M = TypeVar("M", bound=Mechanism)


def vote_matrix(votes: Array) -> Integers:
    """Return the counts of one point or of many as a matrix, a row a point; whole numbers, for two labels or more."""
    counts = integers("votes", votes)
    if counts.ndim not in (1, 2) or counts.shape[-1] < _LEAST_LABELS:
        raise InvalidParameter.saying("votes", f"votes has shape {counts.shape}; expected counts of two or more labels")
    return counts[None, :] if counts.ndim == 1 else counts


def drawn_by(owner: Mechanism, inner: M) -> M:
    """Return a mechanism that draws from its owner's bits: itself, unless the owner's were exchanged for a test."""
    if inner._bits is owner._bits:  # noqa: SLF001 - one family
        return inner
    clone = copy.copy(inner)
    object.__setattr__(clone, "_bits", owner._bits)  # noqa: SLF001 - likewise
    return clone


@dataclass(frozen=True)
class SoftMajority(Exponential):
    """Answers label b with probability proportional to e^((epsilon / 2) votes for b), for two labels or more (E4).

    Guarantee: epsilon-DP and epsilon-bounded-range, attained, since one row takes one vote from a label and gives it to
    another. The weight e^(epsilon votes) would be 2 epsilon-DP. Votes may be added up over several public ``points``
    that shall have one label: a member then moves as many votes, and each counts for that much less; where one row moves
    two members, ``points`` is twice as many. Needs: members trained on disjoint parts. Fails: never, but with the
    kernel's generator.

    >>> SoftMajority(1.0).rate
    Fraction(1, 2)
    """

    def __init__(self, epsilon: Number, *, points: int = 1) -> None:
        super().__init__(epsilon=epsilon, sensitivity=count("points", points))

    def release(self, votes: Array) -> Any:  # noqa: ANN401 - one label for one point, an array for many
        """Return the index of a label; for a matrix of counts, that of each row."""
        vote_matrix(votes)
        return super().release(votes)

    def __repr__(self) -> str:
        return f"SoftMajority(epsilon={float(self.rate * self.range):g}, points={self.range // 2})"


@dataclass(frozen=True)
class NoisyMax(Mechanism):
    """Adds normal noise to the votes for every label and answers the label with the most.

    Law: argmax over b of GRID votes(b) + round(GRID sigma Z_b), Z_b independent standard normals; labels that tie on the
    grid are equally likely. Guarantee: mu-GDP with mu = sqrt(2) points / sigma, rounded up. One row takes at most
    ``points`` votes from some labels and gives as many to others, so that the vector of counts moves by sqrt(2) points at
    most in Euclidean length; whole numbers plus rounded noise are a rounding of the Gaussian mechanism (0.7), and the
    largest and the choice among ties are functions of it. No smaller mu is right: for two labels the difference of the
    votes moves by 2 under noise of deviation sqrt(2) sigma. Needs: one of sigma and mu. Fails: never, but with the
    kernel's generator.

    >>> round(NoisyMax(40).mu, 6)
    0.035355
    """

    sigma: Fraction
    points: int

    def __init__(self, sigma: Number | None = None, *, mu: Number | None = None, points: int = 1) -> None:
        pooled = count("points", points)
        if (sigma is None) == (mu is None):
            raise InvalidParameter.saying("sigma", "give either sigma or mu")
        deviation = positive("sigma", sigma) if mu is None else ROOT_TWO * pooled / positive("mu", mu)
        if deviation * GRID > LARGEST_SCALE:
            raise InvalidParameter(
                "mu" if sigma is None else "sigma", mu if sigma is None else sigma, "such that sigma <= 2^34"
            )
        object.__setattr__(self, "sigma", deviation)
        object.__setattr__(self, "points", pooled)

    @property
    def _claim(self) -> events.Event:
        return events.GaussianNoise(ROOT_TWO * self.points / self.sigma)

    def release(self, votes: Array) -> Any:  # noqa: ANN401 - one label for one point, an array for many
        """Return the index of a label; for a matrix of counts, that of each row."""
        chosen = _find_largest(self._add_noise(votes), self._bits)
        return int(chosen[0]) if integers("votes", votes).ndim == 1 else chosen

    def counts(self, votes: Array) -> npt.NDArray[np.float64]:
        """Return the noisy counts instead of the label, at the same cost; they show how clear the vote was.

        One charge pays for these or for a label; a label must then be read off these, and not drawn again.
        """
        noisy = self._add_noise(votes).astype(np.float64) / GRID
        return np.asarray(noisy[0] if integers("votes", votes).ndim == 1 else noisy)

    def _add_noise(self, votes: Array) -> npt.NDArray[np.object_]:
        counts = vote_matrix(votes)
        noise = rounded_gaussian(self.sigma * GRID, size=counts.size, bits=self._bits).reshape(counts.shape)
        return np.asarray(counts.astype(object) * GRID + noise.astype(object))

    def __repr__(self) -> str:
        return f"NoisyMax(sigma={float(self.sigma):g}, points={self.points})"


@dataclass(frozen=True)
class Screen(Mechanism):
    """Says whether the largest count, with normal noise, is at least a threshold: whether the vote is clear (T2b).

    It costs the same whatever the votes, is paid for every point, and can bear several times the noise of an answer, which
    is then paid for clear points only.

    Law: GRID largest + round(GRID sigma Z) >= GRID threshold for a standard normal Z. Guarantee: mu-GDP with
    mu = points / sigma, whatever the votes: a row moves each count, and so the largest, by at most ``points``, the number of
    points that the votes were added up over. Needs: a threshold and a sigma that do not come from the rows.
    """

    threshold: Fraction
    sigma: Fraction
    points: int

    def __init__(self, threshold: Number, *, sigma: Number, points: int = 1) -> None:
        deviation = positive("sigma", sigma)
        if deviation * GRID > LARGEST_SCALE:
            raise InvalidParameter("sigma", sigma, "at most 2^34")
        object.__setattr__(self, "threshold", positive("threshold", threshold))
        object.__setattr__(self, "sigma", deviation)
        object.__setattr__(self, "points", count("points", points))

    @property
    def _noise(self) -> Gaussian:
        return Gaussian(sigma=self.sigma * GRID, sensitivity=self.points * GRID)

    @property
    def _claim(self) -> events.Event:
        return self._noise.event

    def release(self, votes: Array) -> Any:  # noqa: ANN401 - one answer for one point, an array for many
        """Return whether the vote is clear; for a matrix of counts, for each row."""
        largest = vote_matrix(votes).max(axis=1).astype(object) * GRID
        noisy = np.asarray(drawn_by(self, self._noise).release(largest))
        clear = (noisy.astype(object) >= self.threshold * GRID).astype(bool)
        return bool(clear[0]) if integers("votes", votes).ndim == 1 else clear


@dataclass(frozen=True)
class LaplaceMax(Mechanism):
    """Adds discrete Laplace noise to the votes for every label and answers the label with the most.

    Law: argmax over b of GRID votes(b) + Z_b, with Pr[Z_b = z] proportional to e^(-epsilon |z| / (2 GRID points)); labels
    that tie on the grid are equally likely. Guarantee: epsilon-DP. One row moves each count by ``points`` at most. Given the
    noise of all other labels, a label wins where its own noise, with a uniform number below 1 added to break ties, passes a
    threshold; neighbours' thresholds are 2 GRID points apart at most, and over that distance the density of the noise
    changes by a factor of e^epsilon at most. Fails: never, but with the kernel's generator.
    """

    scale: Fraction
    points: int

    def __init__(self, epsilon: Number, *, points: int = 1) -> None:
        pooled = count("points", points)
        scale = 2 * GRID * pooled / positive("epsilon", epsilon)
        if scale > LARGEST_SCALE:
            raise InvalidParameter("epsilon", epsilon, "such that 2 points / epsilon <= 2^34")
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "points", pooled)

    @property
    def _claim(self) -> events.Event:
        return events.Pure(2 * GRID * self.points / self.scale)

    def release(self, votes: Array) -> Any:  # noqa: ANN401 - one label for one point, an array for many
        """Return the index of a label; for a matrix of counts, that of each row."""
        counts = vote_matrix(votes)
        noise = discrete_laplace(self.scale, size=counts.size, bits=self._bits).reshape(counts.shape)
        chosen = _find_largest(np.asarray(counts.astype(object) * GRID + noise.astype(object)), self._bits)
        return int(chosen[0]) if integers("votes", votes).ndim == 1 else chosen

    def __repr__(self) -> str:
        return f"LaplaceMax(epsilon={float(2 * GRID * self.points / self.scale):g}, points={self.points})"


def _find_largest(noisy: npt.NDArray[np.object_], bits: Bits) -> npt.NDArray[np.int64]:
    """Return the place of the largest count of each row; ties are broken at random."""
    tied = noisy == noisy.max(axis=1, keepdims=True)
    chosen: npt.NDArray[np.int64] = np.argmax(tied, axis=1)
    for row in np.flatnonzero(tied.sum(axis=1) > 1).tolist():
        equal = np.flatnonzero(tied[row])
        chosen[row] = equal[int(uniform_below(equal.size, size=1, bits=bits)[0])]
    return chosen


@dataclass(frozen=True)
class Agnostic(Mechanism):
    """Answers yes with a probability close to the share of votes for it: for labels that nothing predicts always (E11).

    Guarantee: one answer is ``table.event``, epsilon-bounded-range where the table limits its log-odds and epsilon-DP where
    it limits its ratios; it errs at most ``table.tau`` more often than the members do on average. The coin shows the
    table's rational probability exactly. Where one row moves several ``votes``, the table has epsilon / votes for each of
    them, and log-odds and ratios add up to epsilon. Needs: two labels and a fixed number of parts.

    >>> round(Agnostic(100, epsilon=0.2).table.tau, 4)
    0.0143
    """

    parts: int
    table: ResponseTable
    votes: int

    def __init__(self, parts: int, *, epsilon: Number, limit: Limit = "log-odds", votes: int = 1) -> None:
        object.__setattr__(self, "parts", count("parts", parts))
        object.__setattr__(self, "votes", count("votes", votes))
        each = positive("epsilon", epsilon) / self.votes
        object.__setattr__(self, "table", response_table(self.parts, epsilon=each, limit=limit))

    @property
    def _claim(self) -> events.Event:
        kind = events.BoundedRange if self.table.limit == "log-odds" else events.Pure
        return kind(self.votes * Fraction(self.table.epsilon))

    def release(self, votes: Array) -> Any:  # noqa: ANN401 - one answer for one point, an array for many
        """Return whether the answer is yes, given the votes for no and for yes; for a matrix of counts, for each row."""
        counts = vote_matrix(votes)
        if counts.shape[1] != _LEAST_LABELS or (counts < 0).any() or (counts.sum(axis=1) != self.parts).any():
            raise InvalidParameter.saying("votes", f"votes must be votes for no and yes, {self.parts} in all, in each row")
        chances = [self.table.probabilities[int(yes)] for yes in counts[:, 1]]
        said = bernoulli(chances, bits=self._bits)  # type: ignore[arg-type]  # a list of Fractions is one of Numbers
        return bool(said[0]) if integers("votes", votes).ndim == 1 else said

    def __repr__(self) -> str:
        more = "" if self.votes == 1 else f", votes={self.votes}"
        return f"Agnostic({self.parts}, epsilon={self.table.epsilon * self.votes:g}, limit={self.table.limit!r}{more})"


@dataclass(frozen=True)
class NoisyAverage(Mechanism):
    """Answers the mean of the members' outputs with noise, within public bounds (E9, E10).

    Law: each output is clamped to [low, high] (no number counts as low) and rounded to one of ``steps`` + 1 evenly spaced
    values; these whole numbers are summed, discrete Laplace noise (``epsilon``) or rounded normal noise (``mu``) is added,
    and the mean is brought back into [low, high], which by E9 never hurts a convex loss with its minimum there.
    Guarantee: epsilon-DP or mu-GDP: one row moves one member, by at most the whole range, or by ``gamma`` where every
    member is certified to be gamma-stable: two roundings of values that are gamma apart differ by at most
    ceil(gamma steps / (high - low)) steps. Where one row moves several ``members``, that many times as much. Arithmetic is
    exact; only the answer is a float. A member that may fall back to a fixed output is not gamma-stable, and needs the whole
    range (0.4). Fails: never, but with the kernel's generator.
    """

    parts: int
    low: Fraction
    high: Fraction
    steps: int
    noise: Laplace | Gaussian

    def __init__(  # noqa: PLR0913 - the public description of an average
        self,
        parts: int,
        *,
        low: Number,
        high: Number,
        epsilon: Number | None = None,
        mu: Number | None = None,
        gamma: Number | None = None,
        steps: int = _STEPS,
        members: int = 1,
    ) -> None:
        least, most = rational("low", low), rational("high", high)
        if least >= most:
            raise InvalidParameter("high", high, "above low")
        if (epsilon is None) == (mu is None):
            raise InvalidParameter.saying("epsilon", "give either epsilon or mu")
        fine = count("steps", steps)
        moved = fine if gamma is None else min(fine, math.ceil(positive("gamma", gamma) * fine / (most - least)))
        moved *= count("members", members)
        noise = Gaussian(mu=mu, sensitivity=moved) if epsilon is None else Laplace(epsilon=epsilon, sensitivity=moved)
        for name, value in zip(("parts", "low", "high", "steps"), (count("parts", parts), least, most, fine), strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "noise", noise)

    @property
    def _claim(self) -> events.Event:
        return self.noise.event

    @cached_property
    def deviation(self) -> float:
        """Return the standard deviation of the answer, before it is brought back into the bounds."""
        spread = self.noise.sigma if isinstance(self.noise, Gaussian) else ROOT_TWO * self.noise.scale
        return float(spread * self._unit / self.parts)

    def half_width(self, beta: float) -> float:
        """Return how far the answer may be from the mean of the clamped outputs, but with probability ``beta`` (V4.3).

        Law: the noise is within its quantile, each output within half a step of its rounding; bringing the answer back into
        the bounds brings it no further from a mean that is within them. Rounded up.
        """
        if isinstance(self.noise, Gaussian):
            steps = float(self.noise.sigma) * -NormalDist().inv_cdf(beta / 2) + 0.5
        else:
            scale = float(self.noise.scale)
            steps = max(0.0, math.ceil(scale * math.log(2 / (beta * (1 + math.exp(-1 / scale))))) - 1)
        return (steps / self.parts + 0.5) * float(self._unit) * _UPWARD

    @property
    def _unit(self) -> Fraction:
        return (self.high - self.low) / self.steps

    def release(self, outputs: npt.NDArray[np.floating[Any]] | list[float]) -> float:
        """Return the noisy mean of one output of every member."""
        values = np.asarray(outputs, dtype=np.float64)
        if values.shape != (self.parts,):
            raise InvalidParameter.saying("outputs", f"outputs has shape {values.shape}; expected {self.parts} numbers")
        noisy = drawn_by(self, self.noise).release(self.sum_outputs(values))
        mean = self.low + Fraction(noisy, self.parts) * self._unit
        return float(min(max(mean, self.low), self.high))

    def sum_outputs(self, values: npt.NDArray[np.float64]) -> int:
        """Return the sum of the rounded outputs: floats propose, and exact arithmetic decides what is close to an edge."""
        low, high = float(self.low), float(self.high)
        # Five roundings, of numbers no larger than the bounds and their difference, in units of a step; all of it doubled.
        margin = 10 * 2.0**-53 * self.steps * (2 + 2 * max(abs(low), abs(high)) / (high - low)) if low < high else 1.0
        if margin > _WIDEST:
            return sum(self.round_to_steps(value) for value in values.tolist())
        proposed = (np.clip(np.where(np.isnan(values), low, values), low, high) - low) / float(self._unit) + 0.5
        close = np.flatnonzero(np.abs(proposed - np.rint(proposed)) <= margin)
        whole = np.floor(proposed).astype(np.int64)
        whole[close] = [self.round_to_steps(value) for value in values[close].tolist()]
        return int(whole.sum())

    def round_to_steps(self, value: float) -> int:
        """Return how many steps above ``low`` an output is: clamped, to the nearest step, exactly; NaN is 0."""
        if math.isnan(value) or value <= self.low:
            return 0
        if value >= self.high:
            return self.steps
        return math.floor((Fraction(value) - self.low) / self._unit + Fraction(1, 2))

    def __repr__(self) -> str:
        return f"NoisyAverage({self.parts}, low={float(self.low):g}, high={float(self.high):g}, noise={self.noise!r})"


@dataclass(frozen=True)
class Constrained(Exponential):
    """Answers 1 with probability sigmoid(epsilon (E_0 - E_1) / 2): b has weight e^(-epsilon E_b / 2) (T13).

    Guarantee: epsilon-DP and epsilon-bounded-range, for any class of hypotheses, since one row moves each E_b by at most 1.
    Where E_b is only known to within ``tolerance`` a, the exponent is divided by 2 + 2 a instead of 2. For thresholds the
    answers rise with the point, so that they are those of a random threshold, and their expected errors on the rows exceed
    the best threshold's by at most 4 ln 2 / epsilon; for other classes no such bound holds. Needs: E_b exact, not of a
    search that may fail. Fails: never, but with the kernel's generator.
    """

    def __init__(self, epsilon: Number, *, tolerance: Number = 0) -> None:
        super().__init__(epsilon=epsilon, range=2 + 2 * nonnegative("tolerance", tolerance))

    @overload
    def answer(self, zero: int | None, one: int | None) -> int: ...
    @overload
    def answer(self, zero: Integers, one: Integers) -> npt.NDArray[np.int64]: ...
    def answer(self, zero: int | Integers | None, one: int | Integers | None) -> int | npt.NDArray[np.int64]:
        """Return 0 or 1 given E_0 and E_1, for one point or for many.

        None stands for a label that no hypothesis of the class gives the point. The other one is then answered; the class
        is public, so that this tells nothing of the rows.
        """
        if zero is None and one is None:
            raise InvalidParameter.saying("one", "zero and one cannot both be None: some hypothesis labels the point 0 or 1")
        if zero is None or one is None:
            return 1 if zero is None else 0
        errors: npt.NDArray[Any] = np.stack([integers("zero", zero), integers("one", one)], axis=-1)
        said: int | npt.NDArray[np.int64] = self.release(np.negative(errors))
        return said

    def __repr__(self) -> str:
        return f"Constrained(epsilon={float(self.rate * self.range):g}, tolerance={float(self.range / 2 - 1):g})"

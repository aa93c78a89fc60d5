"""Losses with certified constants, rows within public bounds, and solvers of a fixed number of steps (E9, E13-E16).

A loss is a convex function of a prediction p and a label y. Its constants hold for every p and y: the slope in p is at most
``lipschitz`` in size and moves by at most ``smoothness`` times the move of p. Features are brought into public bounds row by
row, so that every row is at most ``lipschitz`` long and a linear prediction moves by no more than that times the move of the
weights. Labels are -1 and 1, or numbers that public bounds bring into [-1, 1].

The number of a solver's steps, their lengths and the start are fixed before any row is seen, and sums are taken in a fixed
order, so that the weights are one deterministic function of the rows. Each exact step is non-expansive; the computed one
differs from it by at most a public bound e, and so the computed weights from the exact ones by e times the number of steps,
or by e / (1 - c) where steps contract by a factor c. Stability needs twice that (E15).
"""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.ensembles import feature_maps
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import ROUNDING, Number, count, rational, require_constant, round_up
from holdtrue.kernels import Floats
from holdtrue.requests import Basis

__all__ = [
    "UNIT",
    "Features",
    "Labels",
    "Loss",
    "Pairs",
    "Problem",
    "Solved",
    "corner_suboptimality",
    "hinge",
    "huber",
    "is_squared",
    "logistic",
    "minimise",
    "one_pass",
    "run_descent",
    "run_subgradients",
    "squared",
    "squared_clipped",
]

Pairs: TypeAlias = tuple[Number, Number] | Sequence[tuple[Number, Number]]
Slope: TypeAlias = Callable[[Floats, Floats], Floats]

UNIT: Final = 2.0**-53
"""The relative error of one rounding."""

_PIECE: Final = 1024
"""Sums over rows are taken over this many, and then over those sums."""

_BLOCK: Final = 1 << 15

_MOST_NEWTONS: Final = 100
_PILOT: Final = 65_536
_SHRINKS: Final = 0.25
_SHORTEST: Final = 2.0**-6

SLOPE_ERROR: Final = 2.0**-48
"""What a computed slope may be off by, relative to the loss's constant: a product, an exponential and a quotient."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss, convex in the prediction, by its slope there, and its constants; None where there is none to certify.

    Guarantee: computed slopes are within a relative 2^-48 of ``lipschitz`` of the exact slope at the same float prediction.
    ``curve``, about the second derivative, only makes steps shorter or longer: nothing is certified of it.
    """

    name: str
    lipschitz: float | None
    smoothness: float | None
    slope: Slope
    margins: bool
    curve: Slope | None = None

    def bound_slope(self, reach: float) -> "Loss":
        """Return the loss for predictions in [-reach, reach]: with labels in [-1, 1] the squared loss is Lipschitz there."""
        if self.lipschitz is not None:
            return self
        return Loss(self.name, (reach + 1) * ROUNDING, self.smoothness, self.slope, self.margins, self.curve)


def logistic() -> Loss:
    """Return ln(1 + e^(-y p)): slope at most 1, smoothness 1/4."""
    return Loss("logistic", 1.0, 0.25, _logistic_slope, margins=True, curve=_logistic_curve)


def hinge(bend: Number = 0) -> Loss:
    """Return max(0, 1 - y p), its corner rounded over a width ``bend``: slope at most 1, smoothness 1 / bend.

    Between y p = 1 - bend and 1 it is (1 - y p)^2 / (2 bend), and a line before. With no bend it has no smoothness: gradient
    steps refuse it (NotCertified), and subgradient steps, of a larger certified distance, do not.
    """
    width = rational("bend", bend)
    if width < 0:
        raise InvalidParameter("bend", bend, "0 or above")
    inverse = None if width == 0 else round_up(1 / width)
    slope = float(inverse or 0.0)

    def steep(p: Floats, y: Floats) -> Floats:
        missing = 1 - y * p
        part = np.clip(missing * slope, 0.0, 1.0) if inverse else (missing > 0).astype(np.float64)
        return np.asarray(-y * part)

    def bent(p: Floats, y: Floats) -> Floats:
        missing = 1 - y * p
        return np.where((missing > 0) & (missing * slope < 1), slope, 0.0)

    return Loss("hinge", 1.0, None if inverse is None else inverse * ROUNDING, steep, margins=True, curve=bent)


def huber(bend: Number = 1) -> Loss:
    """Return (p - y)^2 / 2 where |p - y| <= bend, and bend |p - y| - bend^2 / 2 beyond: slope at most bend, smoothness 1."""
    width = require_constant("bend", bend)
    bent: Slope = lambda p, y: (np.abs(p - y) < width).astype(np.float64)  # noqa: E731 - one of two alike
    return Loss("huber", width, 1.0, lambda p, y: np.clip(p - y, -width, width), margins=False, curve=bent)


def squared() -> Loss:
    """Return (p - y)^2 / 2: smoothness 1, and a slope that is bounded only where predictions are, by a ball of weights."""
    return Loss("squared", None, 1.0, _squared_slope, margins=False, curve=lambda p, _: np.ones_like(p))


def squared_clipped(most: Number = 1) -> Loss:
    """Return (p - y)^2 / 2 for predictions in [-most, most], continued linearly beyond: slope at most ``most`` + 1.

    Smoothness 1. Convex, unlike the square of a clipped prediction, which has no certificate (V5).
    """
    width = require_constant("most", most)
    bent: Slope = lambda p, _: (np.abs(p) < width).astype(np.float64)  # noqa: E731 - one of two alike
    slope: Slope = lambda p, y: np.clip(p, -width, width) - y  # noqa: E731 - likewise
    return Loss("squared-clipped", (width + 1) * ROUNDING, 1.0, slope, margins=False, curve=bent)


def is_squared(loss: Loss) -> bool:
    """Return whether this is our own squared loss, whose minimisers have a length that the strength bounds."""
    return loss.slope is _squared_slope


def _squared_slope(p: Floats, y: Floats) -> Floats:
    return p - y


def _logistic_slope(p: Floats, y: Floats) -> Floats:
    # 1 / (1 + e^m) loses nothing for large m, and for m below -700 it is 1 to the last bit.
    return np.asarray(-y / (1 + np.exp(np.clip(y * p, -700.0, 700.0))))


def _logistic_curve(p: Floats, _y: Floats) -> Floats:
    tame = np.exp(-np.abs(p))
    return np.asarray(tame / (1 + tame) ** 2)


@dataclass(frozen=True, slots=True)
class Features:
    """Public bounds of the columns, and how a row becomes a vector of certified length.

    Every column is clamped to its bounds, a missing number counting as the low end, and mapped evenly onto [-1, 1]; rows
    longer than ``norm`` are shortened to it, where one is given; an intercept of 1 is appended. With a ``basis`` a row then
    becomes its functions, at most 1 long, and no intercept is appended. Rows are mapped one by one.
    """

    bounds: tuple[tuple[float, float], ...]
    norm: float | None
    intercept: bool
    basis: Basis | None

    def __init__(
        self,
        bounds: Pairs,
        *,
        columns: int,
        norm: Number | None = None,
        intercept: bool = True,
        basis: Basis | None = None,
    ) -> None:
        pairs = _expand_bounds(bounds, count("columns", columns))
        object.__setattr__(self, "bounds", tuple(_check_pair(pair) for pair in pairs))
        object.__setattr__(self, "norm", None if norm is None else require_constant("norm", norm))
        object.__setattr__(self, "intercept", intercept and basis is None)
        object.__setattr__(self, "basis", basis)

    @property
    def dimension(self) -> int:
        """Return the number of weights."""
        if self.basis is not None:
            return feature_maps.count_functions(self.basis, len(self.bounds))
        return len(self.bounds) + self.intercept

    @property
    def lipschitz(self) -> float:
        """Return a bound on the length of every row."""
        if self.basis is not None:
            return ROUNDING
        return math.hypot(self.longest, float(self.intercept)) * ROUNDING

    def scale_rows(self, X: npt.NDArray[Any] | Sequence[Any]) -> Floats:
        """Return a matrix of rows, each at most ``lipschitz`` long whatever the input holds."""
        raw = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if raw.ndim != 2 or raw.shape[1] != len(self.bounds):  # noqa: PLR2004 - a matrix
            raise InvalidParameter.saying("X", f"X has shape {raw.shape}; expected a matrix of {len(self.bounds)} columns")
        scaled = np.empty((len(raw), raw.shape[1] + self.intercept))
        starts = range(0, len(raw), _BLOCK)
        if len(starts) > 1:
            # A row becomes the same vector in whichever thread.
            with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1), thread_name_prefix="holdtrue-rows") as pool:
                list(pool.map(partial(self._scale_block, raw, scaled), starts))
        elif len(raw):
            self._scale_block(raw, scaled, 0)
        return scaled if self.basis is None else feature_maps.apply_basis(self.basis, scaled, norm=self.longest)

    @property
    def longest(self) -> float:
        """Return a bound on the length of the scaled columns of a row, before an intercept or a basis."""
        full = math.sqrt(len(self.bounds))
        return full if self.norm is None else min(full, self.norm)

    def _scale_block(self, raw: Floats, scaled: Floats, start: int) -> None:
        """Write a block of rows, scaled, a few at a time: as many as stay in the processor's cache."""
        low, high = np.array(self.bounds, dtype=np.float64).T
        # Whole blocks of numbers, not a row at a time: nothing else is as fast on rows of few columns.
        middles, slopes = (np.tile(each, (_PIECE, 1)) for each in (low + (high - low) / 2, 2 / (high - low)))
        for first in range(start, min(start + _BLOCK, len(raw)), _PIECE):
            piece = scaled[first : min(first + _PIECE, start + _BLOCK)]
            piece[:, len(low) :] = 1.0
            self._scale_piece(raw[first : first + len(piece)], piece[:, : len(low)], middles, slopes)

    def _scale_piece(self, raw: Floats, scaled: Floats, middles: Floats, slopes: Floats) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            moved = (raw - middles[: len(raw)]) * slopes[: len(raw)]
        # The larger of a missing number and the low end is the low end.
        np.minimum(np.fmax(moved, -1.0, out=moved), 1.0, out=moved)
        if self.norm is None:
            scaled[:] = moved
            return
        # The factor is short of the exact one by more than the rounding errors of a sum of that many squares.
        slack = ROUNDING * (1 + scaled.shape[1] * 2.0**-52)
        lengths = np.sqrt(np.einsum("ij,ij->i", moved, moved)) * slack
        np.multiply(moved, np.minimum(1.0, self.norm / ROUNDING / np.maximum(lengths, self.norm / 2))[:, None], out=scaled)


@dataclass(frozen=True, slots=True)
class Labels:
    """How labels become -1 and 1 (``bounds`` left out: 1 where positive), or numbers in [-1, 1] by public bounds."""

    bounds: tuple[float, float] | None

    @classmethod
    def of(cls, loss: Loss, bounds: tuple[Number, Number] | None) -> "Labels":
        """Return the labels that a loss takes; a loss for numbers needs public bounds of them."""
        if loss.margins:
            return cls(None)
        if bounds is None:
            message = f"the {loss.name} loss needs public bounds of the label"
            raise NotCertified(message)
        return cls(_check_pair(bounds))

    def read(self, y: npt.NDArray[Any] | Sequence[Any], *, rows: int) -> Floats:
        """Return one label per row; a missing one is -1."""
        raw = np.asarray(y, dtype=np.float64)
        if raw.shape != (rows,):
            raise InvalidParameter.saying("y", f"y has shape {raw.shape}; expected {rows} labels, one per row")
        if self.bounds is None:
            return np.where(raw > 0, 1.0, -1.0)
        low, high = self.bounds
        clamped = np.minimum(np.maximum(np.where(np.isnan(raw), low, raw), low), high)
        return np.clip((clamped - low) / (high - low) * 2 - 1, -1.0, 1.0)

    def write(self, predictions: Floats) -> Floats:
        """Return predictions in the labels' own units: 1 or 0, or a number within the bounds."""
        if self.bounds is None:
            return (predictions > 0).astype(np.float64)
        low, high = self.bounds
        return low + (np.clip(predictions, -1.0, 1.0) + 1) / 2 * (high - low)


def _expand_bounds(bounds: Pairs, columns: int) -> Sequence[tuple[Number, Number]]:
    pairs: Any = bounds
    if len(pairs) == 2 and not isinstance(pairs[0], (tuple, list)):  # noqa: PLR2004 - one pair for every column
        return [pairs] * columns
    if len(pairs) != columns:
        raise InvalidParameter.saying("bounds", f"bounds has {len(pairs)} pairs; expected one, or {columns}, one per column")
    checked: Sequence[tuple[Number, Number]] = pairs
    return checked


def _check_pair(pair: object) -> tuple[float, float]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:  # noqa: PLR2004 - low and high
        raise InvalidParameter("bounds", pair, "pairs (low, high) with low below high")
    low, high = (float(rational("bounds", end)) for end in pair)
    if not low < high or not math.isfinite(high - low):
        raise InvalidParameter("bounds", pair, "pairs (low, high) with low below high")
    return low, high


@dataclass(frozen=True, slots=True)
class Problem:
    """The mean loss of a linear model plus (strength / 2)|w|^2, over weights of length at most ``radius``.

    ``reach`` bounds the length of all weights on the way: the radius, or L / strength, which gradient steps from 0 never
    leave, whichever is smaller. ``row`` bounds the length of a row.
    """

    rows: Floats
    labels: Floats
    loss: Loss
    row: float
    strength: float
    radius: float | None
    reach: float

    @property
    def size(self) -> tuple[int, int]:
        """Return the numbers of rows and weights."""
        return int(self.rows.shape[0]), int(self.rows.shape[1])

    @property
    def gradient_error(self) -> float:
        """Return a bound on the rounding error of the gradient of all rows, summed piece by piece, in Euclidean length."""
        rows = self.size[0]
        summed = min(rows, _PIECE) + rows // _PIECE + 1
        return self.step_error(1.0, summed)

    def step_error(self, step: float, rows: int) -> float:
        """Return e, a bound on the rounding error of one step with the mean gradient of this many rows, in Euclidean length.

        With u the unit of rounding, d weights, |w| <= W, |x| <= F, slopes at most l and smoothness s. A prediction is off by
        at most 2 d u W F in any order of summation, so a slope by 2 d u s W F + SLOPE_ERROR l. The mean gradient is off
        by F times that, and by 2 (rows + 2) u l F for its own sum of products, in any order. Shrinking, adding and
        projecting cost relative roundings: (d + 12) u of the lengths involved.
        """
        d = self.size[1]
        steep, smooth = self.loss.lipschitz or 0.0, self.loss.smoothness or 0.0
        slope = 2 * d * UNIT * smooth * self.reach * self.row + SLOPE_ERROR * steep
        gradient = self.row * slope + 2 * (rows + 2) * UNIT * steep * self.row
        lengths = self.reach + step * (steep * self.row + self.strength * self.reach)
        return (step * gradient + (d + 12) * UNIT * lengths) * (1 + 2.0**-20)


@dataclass(frozen=True, slots=True)
class Solved:
    """Weights, and how far they may be from what exact arithmetic gives."""

    weights: Floats
    error: float


def corner_suboptimality(problem: Problem, *, steps: int) -> float:
    """Return how far above its minimum the objective of exact arithmetic is at the point of :func:`run_subgradients` (E15).

    2 G^2 / (strength (T + 1)) for subgradients of length at most G = L + strength W (Lacoste-Julien, Schmidt and Bach), plus
    what roundings add to each step's inequality. A slope computed at a prediction k = 2 d u W F away is a subgradient up to
    2 l k; an error b of the rest of the gradient adds 2 W b; a point that is off by r after its step adds
    (4 W r + r^2) / (2 step), and the step is at least 2 / (strength (T + 1)).
    """
    rows, d = problem.size
    steep, reach = problem.loss.lipschitz or 0.0, problem.reach
    longest = steep * problem.row + problem.strength * reach
    away = 2 * d * UNIT * reach * problem.row
    gradient = problem.row * steep * (SLOPE_ERROR + 2 * (rows + 2) * UNIT)
    moved = (d + 12) * UNIT * (reach + longest / problem.strength)
    rounding = 2 * steep * away + 2 * reach * gradient + problem.strength * (steps + 1) * (reach * moved + moved**2)
    return (2 * longest**2 / (problem.strength * (steps + 1)) + rounding) * (1 + 2.0**-20)


def run_descent(problem: Problem, *, step: float, steps: int) -> Solved:
    """Return the last of T projected full-batch gradient steps from 0, w - step (gradient + strength w)."""
    w = np.zeros(problem.size[1])
    for _ in range(steps):
        w = _project_weights(w - step * _find_gradient(problem, w), problem.radius)
    each = problem.step_error(step, problem.size[0])
    shrinking = step * problem.strength
    times = steps if shrinking == 0 else min(steps, 1 / shrinking * (1 + 2.0**-20))
    return Solved(w, each * times)


def minimise(problem: Problem, *, distance: float) -> Floats | None:
    """Return weights within ``distance`` of the exact minimiser; None where they were not found.

    Law: |w - minimiser| <= |gradient(w)| / strength. The computed gradient and the bound on its error decide, so that
    whatever comes before may be rough: linear equations for squares; otherwise Newton steps on some of the rows, then on
    all, with the second derivatives of an earlier point as long as those do.
    """
    rows, width = problem.size
    stop = problem.strength * distance - problem.gradient_error
    w, known = np.zeros(width), None
    if is_squared(problem.loss):
        sums = _sum_pieces(problem, lambda x, y: np.column_stack([x.T @ x, x.T @ y]))
        known = sums[:, :-1] + problem.strength * np.eye(width)
        w = np.linalg.lstsq(known, sums[:, -1])[0].astype(np.float64)
    elif rows > 2 * _PILOT:
        few = replace(problem, rows=problem.rows[:: rows // _PILOT], labels=problem.labels[:: rows // _PILOT])
        w, known = _take_newtons(few, stop)[:2]
    found, _, gradient = _take_newtons(problem, stop, start=w, curves=known)
    # Whatever went wrong on the way, steps of a fixed number go on from here: no row makes a fit fail.
    return found if gradient <= stop else None


def _take_newtons(
    problem: Problem, stop: float, *, start: Floats | None = None, curves: Floats | None = None
) -> tuple[Floats, Floats | None, float]:
    """Return the last of some Newton steps, the curvatures that it used, and the length of the computed gradient there."""
    w = np.zeros(problem.size[1]) if start is None else start
    gradient, before, length = _sum_gradient(problem, w), math.inf, math.inf
    for _ in range(_MOST_NEWTONS):
        length = float(np.sqrt(gradient @ gradient))
        if length <= stop:
            break
        if curves is None or length > _SHRINKS * before:
            curves = _find_curves(problem, w)
        way, part, before = np.linalg.lstsq(curves, -gradient)[0], 1.0, length
        while True:
            there = _project_weights(w + part * way, problem.reach)
            found = _sum_gradient(problem, there)
            # On a line the slope of a convex function rises: far above 0 is far past the lowest point.
            if part <= _SHORTEST or found @ way <= -(gradient @ way) / 2:
                break
            part /= 2
        w, gradient = there, found
    return w, curves, length


def _sum_gradient(problem: Problem, w: Floats) -> Floats:
    return _sum_pieces(problem, lambda x, y: x.T @ problem.loss.slope(x @ w, y)) + problem.strength * w


def _find_curves(problem: Problem, w: Floats) -> Floats:
    """Return the second derivatives of the objective at w; a bound on them where the loss has none."""
    curve, most = problem.loss.curve, problem.loss.smoothness or 1.0

    def weigh(x: Floats, y: Floats) -> Floats:
        weights = np.full(len(y), most) if curve is None else curve(x @ w, y)
        return np.asarray(x.T @ (x * weights[:, None]))

    return _sum_pieces(problem, weigh) + problem.strength * np.eye(len(w))


def _sum_pieces(problem: Problem, weigh: Callable[[Floats, Floats], Floats]) -> Floats:
    """Return the mean over rows of what a function gives for some of them at a time."""
    rows = problem.size[0]
    pieces = [slice(start, start + _PIECE) for start in range(0, rows, _PIECE)]
    total: Floats = sum(weigh(problem.rows[piece], problem.labels[piece]) for piece in pieces) / rows  # type: ignore[assignment]  # arrays
    return total


def one_pass(problem: Problem, *, step: float) -> Solved:
    """Return the mean of the points before each of n projected gradient steps, one for each row in order, from 0.

    The mean of n points of length at most W adds (n + 2) u W to their own error.
    """
    rows, d = problem.size
    w, total = np.zeros(d), np.zeros(d)
    for index in range(rows):
        total += w
        x = problem.rows[index]
        slope = problem.loss.slope(np.einsum("j,j->", x, w).reshape(1), problem.labels[index : index + 1])
        w = _project_weights(w - step * (slope[0] * x + problem.strength * w), problem.radius)
    error = problem.step_error(step, 1) * rows + (rows + 2) * UNIT * problem.reach
    return Solved(total / rows, error * (1 + 2.0**-20))


def run_subgradients(problem: Problem, *, steps: int) -> Solved:
    """Return the mean of T points of projected subgradient steps 2 / (strength (t + 1)) from 0, the t-th with weight t.

    For losses with corners; :func:`corner_suboptimality` says how good the mean is, and taking it costs (T + 4) u W. Needs:
    a strength above 0, and a radius.
    """
    w, total, weight = np.zeros(problem.size[1]), np.zeros(problem.size[1]), 0
    for t in range(1, steps + 1):
        total += t * w
        weight += t
        w = _project_weights(w - 2 / (problem.strength * (t + 1)) * _find_gradient(problem, w), problem.radius)
    return Solved(total / weight, (steps + 4) * UNIT * problem.reach * (1 + 2.0**-20))


def _find_gradient(problem: Problem, w: Floats) -> Floats:
    # Not the matrix product of a library, whose order of summation may depend on the number of threads.
    predictions = np.einsum("ij,j->i", problem.rows, w)
    slopes = problem.loss.slope(predictions, problem.labels)
    gradient: Floats = np.einsum("ij,i->j", problem.rows, slopes) / len(slopes) + problem.strength * w
    return gradient


def _project_weights(w: Floats, radius: float | None) -> Floats:
    if radius is None:
        return w
    length = float(np.sqrt(np.einsum("j,j->", w, w)))
    return w if length <= radius else w * (radius / length)

"""Stable learners: linear models that one row changes very little, by constants certified before any row is seen (E13-E16).

The weights of a fit are private. They are published once with normal noise (:func:`output_perturbation`, the default), after
which predictions are free; or each prediction gets Laplace noise of its own (:func:`predict_privately`), for pure epsilon
and few predictions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.bounds import stability as bounds_of
from holdtrue.ensembles import losses
from holdtrue.ensembles.losses import Features, Labels, Loss, Pairs
from holdtrue.ensembles.responding import drawn_by
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import ROUNDING, Number, count, floor_positive, positive, require_constant
from holdtrue.kernels import Floats
from holdtrue.mechanisms import Gaussian, Laplace
from holdtrue.mechanisms.base import Mechanism
from holdtrue.requests import Basis

__all__ = [
    "LinearModel",
    "NoisyPrediction",
    "OutputPerturbation",
    "StableFit",
    "fit_stable",
    "output_perturbation",
    "output_strength",
    "predict_privately",
]

Matrix: TypeAlias = npt.NDArray[Any] | Sequence[Any]
Method: TypeAlias = Literal["minimiser", "descent", "one-pass", "subgradients"]

_FINE = 1024
"""Weights and predictions are rounded to this part of their stability, or finer."""

_MOST_STEPS = 10_000
_CLOSE = 2.0**-11
"""A minimiser is found up to this part of its stability."""


@dataclass(frozen=True, eq=False)
class StableFit:
    """A fitted linear model that must not be shown, and public constants that say how far one row can move it.

    Guarantee: replacing one row moves the weights by at most ``stability`` (Gamma) in Euclidean length, and each prediction
    by at most ``gamma``, for every dataset; errors of floating-point arithmetic are counted. ``distance`` bounds how far
    the weights are from the exact minimiser, where that is known; it is for accuracy.
    """

    features: Features
    labels: Labels
    loss: Loss
    rows: int
    stability: float
    distance: float | None
    reach: float
    private_weights: Floats = field(repr=False)

    @property
    def gamma(self) -> float:
        """Return how far one row can move a prediction."""
        return self.stability * self.features.lipschitz * ROUNDING


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Published weights: any number of predictions at no further cost. ``deviation`` is the noise on each weight."""

    weights: Floats
    features: Features
    labels: Labels
    deviation: float

    def scores(self, X: Matrix) -> Floats:
        """Return <w, x> for each row: above 0 for label 1, or the label on the scale of [-1, 1]."""
        return np.asarray(np.einsum("ij,j->i", self.features.scale_rows(X), self.weights))

    def predict(self, X: Matrix) -> Floats:
        """Return the predictions: 0 and 1, or numbers within the labels' public bounds."""
        return self.labels.write(self.scores(X))


def fit_stable(  # noqa: PLR0913 - the public description of a learner
    X: Matrix,
    y: Matrix,
    *,
    loss: Loss,
    bounds: Pairs,
    strength: Number | None = None,
    radius: Number | None = None,
    steps: int | None = None,
    step: Number | None = None,
    method: Method | None = None,
    label_bounds: tuple[Number, Number] | None = None,
    norm: Number | None = None,
    intercept: bool = True,
    basis: Basis | None = None,
) -> StableFit:
    """Return a linear model with its certified stability.

    With L = L_f L_l: "minimiser", taken unless steps or a radius are given, needs a strength and a smooth loss, and has
    Gamma = 2 L / (strength n) plus twice a public distance within which every dataset's own minimiser is found (E13, E15);
    for the squared loss L is that of weights of length 1 / (2 sqrt(strength)), which no minimiser passes. "descent" on a
    loss of certified smoothness has Gamma = 2 L / (strength n) after any number of steps, or 2 L step T / n without a
    regulariser (E13, E16); "one-pass" takes one step a row, in order, and has 2 L step (E16); "subgradients" is for losses
    with corners and has 2 L / (strength n) plus twice the distance that its steps are certified to leave (E15). To each is
    added twice the error of its arithmetic. Needs: public bounds of every column, a ``radius`` or a strength, and for steps
    a radius where the loss is Lipschitz on bounded predictions only (squared). Raises NotCertified where a constant is
    missing; never because of a value in a row.
    """
    shape = np.shape(X)
    if len(shape) != 2 or 0 in shape:  # noqa: PLR2004 - a matrix
        raise InvalidParameter.saying("X", f"X has shape {shape}; expected a matrix with at least one row and one column")
    features = Features(bounds, columns=shape[1], norm=norm, intercept=intercept, basis=basis)
    labels = Labels.of(loss, label_bounds)
    plan = _plan_fit(loss, features, rows=shape[0], method=method, strength=strength, radius=radius, steps=steps, step=step)
    problem = losses.Problem(
        rows=features.scale_rows(X),
        labels=labels.read(y, rows=shape[0]),
        loss=plan.loss,
        row=features.lipschitz,
        strength=plan.strength,
        radius=plan.radius,
        reach=plan.reach,
    )
    exact, distance = plan.stability(), plan.descent_distance() if plan.method == "descent" else None
    if plan.method == "minimiser":
        close = plan.choose_distance(problem, exact)
        found = losses.minimise(problem, distance=close)
        if found is None:
            found = losses.run_descent(problem, step=plan.step, steps=plan.count_steps_within(close / 2)).weights
        solved, distance, exact = losses.Solved(found, 0.0), close, bounds_of.inexact_stability(exact, distance=close)
    elif plan.method == "descent":
        solved = losses.run_descent(problem, step=plan.step, steps=plan.steps)
    elif plan.method == "one-pass":
        solved = losses.one_pass(problem, step=plan.step)
    else:
        solved = losses.run_subgradients(problem, steps=plan.steps)
        suboptimality = losses.corner_suboptimality(problem, steps=plan.steps)
        distance = bounds_of.suboptimal_distance(suboptimality, strength=plan.strength)
        exact = bounds_of.inexact_stability(exact, distance=distance)
    total = bounds_of.inexact_stability(exact, distance=solved.error)
    return StableFit(features, labels, plan.loss, shape[0], total, distance, plan.reach, solved.weights)


@dataclass(frozen=True, slots=True)
class _FitPlan:
    """The public numbers of a fit."""

    loss: Loss
    row: float
    rows: int
    method: Method
    strength: float
    radius: float | None
    reach: float
    steps: int
    step: float

    @property
    def slope(self) -> float:
        return self.row * require_constant("loss_lipschitz", self.loss.lipschitz)

    @property
    def smooth(self) -> float:
        return self.row**2 * require_constant("loss_smoothness", self.loss.smoothness) * ROUNDING

    def stability(self) -> float:
        if self.method == "one-pass":
            return bounds_of.one_pass_stability(step=self.step, lipschitz=self.slope, smoothness=self.smooth)
        if self.strength > 0:
            return bounds_of.erm_stability(
                rows=self.rows,
                strength=self.strength,
                loss_lipschitz=self.loss.lipschitz,
                predictor_lipschitz=self.row,
            )
        return bounds_of.descent_stability(
            rows=self.rows, steps=self.steps, step=self.step, lipschitz=self.slope, smoothness=self.smooth
        )

    def choose_distance(self, problem: losses.Problem, stability: float) -> float:
        """Return how far from the minimiser weights may be: a small part of the stability that arithmetic can reach."""
        rounding = max(problem.gradient_error, problem.step_error(self.step, problem.size[0]) / self.step)
        return max(stability * _CLOSE, 8 * rounding / self.strength)

    def count_steps_within(self, distance: float) -> int:
        """Return how many gradient steps end within a distance of every dataset's minimiser (E15)."""
        start = self.slope / self.strength / distance * ROUNDING
        return math.ceil(math.log(max(start, 2.0)) * (1 + self.smooth / self.strength) * ROUNDING)

    def descent_distance(self) -> float | None:
        if self.strength == 0 or self.step < 1 / (self.smooth + self.strength) / ROUNDING**2:
            return None
        return bounds_of.descent_distance(
            steps=self.steps, strength=self.strength, smoothness=self.smooth, lipschitz=self.slope
        )


def _plan_fit(  # noqa: PLR0913 - see above
    loss: Loss,
    features: Features,
    *,
    rows: int,
    method: Method | None,
    strength: Number | None,
    radius: Number | None,
    steps: int | None,
    step: Number | None,
) -> _FitPlan:
    if method is None:
        free = strength is not None and loss.smoothness is not None and radius is steps is step is None
        method = "minimiser" if free else "descent"
    if method == "minimiser":
        return _plan_minimiser(loss, features, rows=rows, strength=strength)
    if method not in ("descent", "one-pass", "subgradients"):
        raise InvalidParameter("method", method, "'minimiser', 'descent', 'one-pass' or 'subgradients'")
    row = features.lipschitz
    ball = None if radius is None else require_constant("radius", radius)
    if ball is None and loss.lipschitz is None:
        message = f"the {loss.name} loss is Lipschitz only on bounded predictions; give a radius of the weights"
        raise NotCertified(message)
    bounded = loss.bound_slope(row * (ball or 0.0))
    slope = row * require_constant("loss_lipschitz", bounded.lipschitz)
    if strength is None and (ball is None or method == "subgradients"):
        message = "certifying stability needs a strength of the regulariser or, for smooth losses, a radius"
        raise NotCertified(message)
    if method == "one-pass" and (strength is not None or ball is None):
        raise InvalidParameter.saying("strength", "method 'one-pass' takes no strength and needs a radius")
    convex = 0.0 if strength is None else require_constant("strength", strength)
    reach = min(ball or math.inf, slope / convex * ROUNDING if convex else math.inf)
    if method == "subgradients":
        taken = _MOST_STEPS if steps is None else count("steps", steps)
        return _FitPlan(bounded, row, rows, method, convex, reach, reach, taken, 0.0)
    smooth = row**2 * require_constant("loss_smoothness", bounded.smoothness) * ROUNDING
    longest = 1 / (smooth + convex) / ROUNDING
    if method == "one-pass":
        best = min(longest, reach / (2 * slope * math.sqrt(rows)))
        return _FitPlan(
            bounded, row, rows, method, 0.0, ball, reach, rows, best if step is None else floor_positive("step", step)
        )
    chosen = longest if step is None else min(floor_positive("step", step), longest)
    taken = _count_steps(steps, rows, chosen, convex, slope, reach)
    return _FitPlan(bounded, row, rows, method, convex, ball, reach, taken, chosen)


def _plan_minimiser(loss: Loss, features: Features, *, rows: int, strength: Number | None) -> _FitPlan:
    row, convex = features.lipschitz, require_constant("strength", strength)
    # |(A'A + strength)^-1 A' b| <= |b| / (2 sqrt(strength)), and labels are in [-1, 1].
    bounded = loss if not losses.is_squared(loss) else loss.bound_slope(row / (2 * math.sqrt(convex)) * ROUNDING)
    slope = row * require_constant("loss_lipschitz", bounded.lipschitz)
    reach = (slope / convex if loss.lipschitz is not None else 1 / (2 * math.sqrt(convex))) * ROUNDING
    smooth = row**2 * require_constant("loss_smoothness", bounded.smoothness) * ROUNDING
    return _FitPlan(bounded, row, rows, "minimiser", convex, None, reach, 1, 1 / (smooth + convex) / ROUNDING)


def _count_steps(steps: int | None, rows: int, step: float, strength: float, slope: float, reach: float) -> int:  # noqa: PLR0917, PLR0913
    """Return the given number; else enough steps for a tenth of the stability, or to travel R sqrt(n) / (2 L) (E16)."""
    if steps is not None:
        return count("steps", steps)
    if strength > 0:
        return min(_MOST_STEPS, math.ceil(math.log(5 * rows + 1) / (step * strength)))
    return min(_MOST_STEPS, max(1, math.ceil(reach * math.sqrt(rows) / (2 * slope) / step)))


def output_strength(rows: int, *, mu: Number, radius: Number, lipschitz: Number) -> float:
    """Return the strength for weights published with mu-GDP noise: (2 L / R) sqrt((1 + sqrt(2 / pi) / mu) / n).

    E14's strength with the noise of :func:`output_perturbation` in the place of Laplace: it makes the expected excess
    (2 L^2 / (strength n)) (1 + sqrt(2 / pi) / mu) + strength R^2 / 2 least. ``lipschitz`` is L, ``radius`` R a guess of the
    best weights' length.
    """
    inverse = 1 + math.sqrt(2 / math.pi) / floor_positive("mu", mu)
    root = math.sqrt(inverse / count("rows", rows))
    return 2 * require_constant("lipschitz", lipschitz) / require_constant("radius", radius) * root


def output_perturbation(fit: StableFit, *, mu: Number) -> LinearModel:
    """Return the fit's weights with normal noise, for mu-GDP in all (E13); charge ``OutputPerturbation(mu).event`` first."""
    return OutputPerturbation(mu).release(fit)


def predict_privately(fit: StableFit, X: Matrix, *, epsilon: Number) -> Floats:
    """Return a prediction with Laplace noise per row, each epsilon-DP (E8, E9); charge the event first, once per row."""
    return NoisyPrediction(fit, epsilon=epsilon).release(X)


@dataclass(frozen=True)
class OutputPerturbation(Mechanism):
    """Publishes the weights of a stable fit once, rounded to a grid, with rounded normal noise on each (E13, 0.7).

    Guarantee: mu-GDP for the weights and everything computed from them. Rounding d weights to a grid g moves those of
    neighbours apart by g sqrt d at most, so that the whole numbers move by (Gamma + g sqrt d) / g, rounded up, in Euclidean
    length, and the noise has that over mu. g is a power of 2, below a 1,024th of Gamma / sqrt d, and public.
    """

    target: Fraction

    def __init__(self, mu: Number) -> None:
        object.__setattr__(self, "target", positive("mu", mu))

    @property
    def _claim(self) -> events.Event:
        return events.GaussianNoise(self.target)

    def release(self, fit: StableFit) -> LinearModel:
        """Return a model that anyone may see."""
        d = fit.features.dimension
        grid = _choose_grid(fit.stability / math.sqrt(d))
        width = bounds_of.output_sigma(fit.stability, mu=1, grid=grid, dimension=d)
        noise = Gaussian(mu=self.target, sensitivity=math.ceil(Fraction(width) / Fraction(grid)))
        noisy = drawn_by(self, noise).release(_on_grid(fit.private_weights, grid))
        return LinearModel(np.asarray(noisy, dtype=np.float64) * grid, fit.features, fit.labels, float(noise.sigma) * grid)


@dataclass(frozen=True)
class NoisyPrediction(Mechanism):
    """Answers predictions of a stable fit one by one, each with discrete Laplace noise (E8, E9).

    Guarantee: each is epsilon-DP. A prediction moves by at most gamma, and its computed value by twice the rounding of d
    products more; rounding to a grid below a 1,024th of gamma adds one unit.
    """

    fit: StableFit
    noise: Laplace
    grid: float

    def __init__(self, fit: StableFit, *, epsilon: Number) -> None:
        grid = _choose_grid(fit.gamma)
        rounding = 2 * fit.features.dimension * losses.UNIT * fit.reach * fit.features.lipschitz
        moved = math.ceil(Fraction((fit.gamma + 2 * rounding) * ROUNDING) / Fraction(grid)) + 1
        object.__setattr__(self, "fit", fit)
        object.__setattr__(self, "noise", Laplace(epsilon=epsilon, sensitivity=moved))
        object.__setattr__(self, "grid", grid)

    @property
    def _claim(self) -> events.Event:
        return self.noise.event

    def release(self, X: Matrix) -> Floats:
        """Return a prediction for each row, within the labels' public bounds; each costs the event."""
        return self.draw(self.on_grid(X))

    def on_grid(self, X: Matrix) -> npt.NDArray[np.object_]:
        """Return the fit's own predictions as whole multiples of the grid. Private."""
        predictions = np.einsum("ij,j->i", self.fit.features.scale_rows(X), self.fit.private_weights)
        return _on_grid(predictions, self.grid)

    def draw(self, exact: npt.NDArray[np.object_]) -> Floats:
        """Return predictions with noise, from those that :meth:`on_grid` returned."""
        noisy = drawn_by(self, self.noise).release(exact)
        return self.fit.labels.write(np.asarray(noisy, dtype=np.float64) * self.grid)


def _choose_grid(stability: float) -> float:
    """Return the largest power of 2 that is not above a 1,024th of a stability."""
    return 2.0 ** (math.frexp(stability / _FINE)[1] - 1)


def _on_grid(values: Floats, grid: float) -> npt.NDArray[np.object_]:
    # Dividing by a power of 2 is exact, and so is rounding.
    return np.array([int(value) for value in np.rint(values / grid)], dtype=object)

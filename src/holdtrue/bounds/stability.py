"""Real-valued predictions: how much one row can move them, and what noise of that size costs (E7-E10, E13-E16).

A learner A is gamma-stable when |A(S, x) - A(S', x)| <= gamma for all neighbouring S, S' and all x; then
A(S, x) + Laplace(gamma / epsilon) is epsilon-DP and A(S, x) + N(0, (gamma / mu)^2) is mu-GDP. All constants are public and
proven for every dataset: the loss of a prediction is L_l-Lipschitz in the prediction, the prediction L_f-Lipschitz in
the weights w, so that a row's loss is L = L_f L_l-Lipschitz in w. A constant that is missing is NotCertified.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdtrue.accounting.closed_forms import golden
from holdtrue.errors import PreconditionError
from holdtrue.exact import (
    ROUNDING,
    Number,
    count,
    floor_positive,
    floor_probability,
    nonnegative,
    probability,
    require_constant,
)


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise added to a prediction, and what it costs in expected loss (E9)."""

    scale: float
    first_moment: float
    second_moment: float

    def lipschitz_excess(self, constant: Number) -> float:
        """Return L_l E|noise|: the expected loss rises by no more, if the loss is L_l-Lipschitz in the prediction."""
        return require_constant("loss_lipschitz", constant) * self.first_moment * ROUNDING

    def smooth_excess(self, constant: Number) -> float:
        """Return (smoothness / 2) E[noise^2]: the expected loss rises by no more, if its derivative has that constant.

        Equality for quadratic losses. The report's Theorem 4 squares the smoothness, which is too little when it is
        below 1. Convexity is not needed.
        """
        return require_constant("loss_smoothness", constant) / 2 * self.second_moment * ROUNDING


def laplace_noise(gamma: Number | None, *, epsilon: Number) -> Noise:
    """Return the noise that makes a gamma-stable prediction epsilon-DP: Laplace of scale gamma / epsilon (A5, E8, E9).

    Its excess is L_l gamma / epsilon for Lipschitz losses and smoothness gamma^2 / epsilon^2 for smooth ones.
    """
    scale = require_constant("gamma", gamma) / floor_positive("epsilon", epsilon) * ROUNDING
    return Noise(scale, scale, 2 * scale * scale)


def gaussian_noise(gamma: Number | None, *, mu: Number) -> Noise:
    """Return the noise that makes a gamma-stable prediction mu-GDP: N(0, (gamma / mu)^2) (A7, E9).

    Its excess is L_l (gamma / mu) sqrt(2 / pi) for Lipschitz losses and smoothness (gamma / mu)^2 / 2 for smooth ones.
    """
    sigma = require_constant("gamma", gamma) / floor_positive("mu", mu) * ROUNDING
    return Noise(sigma, sigma * math.sqrt(2 / math.pi), sigma * sigma)


def averaged_stability(gamma: Number | None, *, parts: int) -> float:
    """Return gamma / r, the stability of the mean of r copies of a gamma-stable learner on disjoint parts (E10).

    For a loss convex in the prediction the mean's expected loss is *at most* the copies' (Jensen); Lemma 2 of the report
    prints "at least", which averaging r signs refutes.
    """
    return require_constant("gamma", gamma) / count("parts", parts) * ROUNDING


def averaging_failure(beta: Number, *, parts: int) -> float:
    """Return min(1, r beta): if one copy's loss passes a level with probability beta, their mean's does with this (E10)."""
    return min(1.0, float(nonnegative("beta", beta)) * count("parts", parts) * ROUNDING)


def erm_stability(
    *,
    rows: int,
    strength: Number | None,
    loss_lipschitz: Number | None,
    predictor_lipschitz: Number | None = 1,
    gradient_gap: Number | None = None,
) -> float:
    """Return Gamma >= |w - w'| for exact minimisers on neighbours of a ``strength``-strongly convex mean loss (E13).

    Gamma = D / (strength n), where D bounds |grad F(w; z) - grad F(w; z')| over all w, z, z' (``gradient_gap``), 2 L if
    nothing better is known. The predictions are then gamma = L_f Gamma-stable. A regulariser that does not look at the
    rows cancels, so L is the constant of the loss without it. Attained by linear losses. The report's constant is
    4 L^2 / (strength n) for the loss, twice as large.
    """
    slope = require_constant("predictor_lipschitz", predictor_lipschitz) * require_constant("loss_lipschitz", loss_lipschitz)
    gap = 2 * slope if gradient_gap is None else require_constant("gradient_gap", gradient_gap)
    return gap / require_constant("strength", strength) / count("rows", rows) * ROUNDING


def strongly_convex_excess(
    *, rows: int, epsilon: Number, strength: Number, loss_lipschitz: Number, predictor_lipschitz: Number = 1
) -> float:
    """Return (2 L^2 / (strength n)) (1 + 1 / epsilon), the expected excess loss of A + Laplace(gamma / epsilon) (E13).

    L Gamma for generalisation and L_l gamma / epsilon for the noise. Corollary 2 of the report has 4 in the place of 2.
    """
    gap = erm_stability(rows=rows, strength=strength, loss_lipschitz=loss_lipschitz, predictor_lipschitz=predictor_lipschitz)
    slope = require_constant("predictor_lipschitz", predictor_lipschitz) * require_constant("loss_lipschitz", loss_lipschitz)
    return gap * slope * (1 + 1 / floor_positive("epsilon", epsilon)) * ROUNDING


def output_sigma(stability: Number | None, *, mu: Number, grid: Number = 0, dimension: int = 1) -> float:
    """Return (Gamma + grid sqrt d) / mu: normal noise on each weight of a linear model, released once for mu-GDP (E13).

    Each prediction <w, x> then has noise of deviation |x| sigma, for as many predictions as anyone asks. Rounding the d
    weights to a grid first moves them apart by grid sqrt d at most.
    """
    width = require_constant("stability", stability) + float(nonnegative("grid", grid)) * math.sqrt(
        count("dimension", dimension)
    )
    return width / floor_positive("mu", mu) * ROUNDING


@dataclass(frozen=True, slots=True)
class Regularised:
    """A convex loss with (strength / 2)|w|^2 added, its stability and its expected excess (E14)."""

    strength: float
    gamma: float
    excess: float


def regularised(
    *,
    rows: int,
    epsilon: Number,
    radius: Number | None,
    loss_lipschitz: Number | None,
    predictor_lipschitz: Number | None = 1,
) -> Regularised:
    """Return the best strength for weights within ``radius`` R and a Laplace answer (E14).

    strength = (2 L / R) sqrt(A), A = (1 + 1 / epsilon) / n; gamma = L_f R / sqrt(n (1 + 1 / epsilon)); excess
    2 R L sqrt(A), the least over strengths of (2 L^2 / strength) A + strength R^2 / 2. Corollary 3 of the report adds
    strength |w|^2, without the half, and has 4 R L sqrt(A): true, and twice as much.
    """
    n, inverse = count("rows", rows), 1 + 1 / floor_positive("epsilon", epsilon)
    reach, steep = require_constant("radius", radius), require_constant("predictor_lipschitz", predictor_lipschitz)
    slope = steep * require_constant("loss_lipschitz", loss_lipschitz)
    root = math.sqrt(inverse / n)
    return Regularised(
        2 * slope / reach * root, steep * reach / math.sqrt(n * inverse) * ROUNDING, 2 * reach * slope * root * ROUNDING
    )


@dataclass(frozen=True, slots=True)
class FitExcess:
    """The expected excess of a stable learner with noise, and its terms; ``bias`` is of regulariser or few steps (V5)."""

    stability: float
    generalisation: float
    noise: float
    bias: float

    @property
    def total(self) -> float:
        """Return the sum: how far the expected loss may be above the least of weights within the radius."""
        return (self.generalisation + self.noise + self.bias) * ROUNDING


def fit_excess(  # noqa: PLR0913 - the statement has these symbols
    *,
    rows: int,
    strength: Number,
    radius: Number,
    noise: Callable[[float], Noise],
    loss_lipschitz: Number | None,
    loss_smoothness: Number | None,
    predictor_lipschitz: Number = 1,
) -> FitExcess:
    """Return L Gamma + (what the noise adds) + strength R^2 / 2, Gamma = 2 L / (strength n) (E13, E14, V5).

    ``noise`` gives the noise for a stability gamma = L_f Gamma of predictions; of its two bounds (E9), that of a Lipschitz
    loss and that of a smooth one, the smaller one counts. Needs: rows that are independent draws, and everything here chosen
    before any answer about them. Without a ``loss_lipschitz`` the loss is squared, half of it, with labels in [-1, 1]: no
    minimiser is longer than 1 / (2 sqrt(strength)), which bounds its slope by L_f / (2 sqrt(strength)) + 1; the noise has
    the smooth bound only.
    """
    weight, steep = require_constant("strength", strength), require_constant("predictor_lipschitz", predictor_lipschitz)
    squared = loss_lipschitz is None
    slope = steep / (2 * math.sqrt(weight)) + 1 if squared else require_constant("loss_lipschitz", loss_lipschitz)
    gap = erm_stability(rows=rows, strength=weight, loss_lipschitz=slope, predictor_lipschitz=steep)
    drawn = noise(steep * gap)
    rough = math.inf if squared else drawn.lipschitz_excess(slope)
    smooth = math.inf if loss_smoothness is None else drawn.smooth_excess(loss_smoothness)
    reach = require_constant("radius", radius)
    return FitExcess(gap, steep * slope * gap * ROUNDING, min(rough, smooth), weight * reach * reach / 2 * ROUNDING)


def best_strength(**given: Any) -> float:  # noqa: ANN401 - as fit_excess takes them
    """Return the strength that makes :func:`fit_excess` least."""

    def total(log_strength: float) -> float:
        return fit_excess(strength=math.exp(log_strength), **given).total

    return math.exp(golden(total, math.log(1e-12), math.log(1e6), steps=60))


def travel_excess(  # noqa: PLR0913 - the statement has these symbols
    *,
    rows: int,
    travel: Number,
    radius: Number,
    noise: Callable[[float], Noise],
    loss_lipschitz: Number,
    loss_smoothness: Number,
    predictor_lipschitz: Number = 1,
) -> FitExcess:
    """Return L Gamma + (what the noise adds) + R^2 / (2 s), Gamma = 2 L s / n, of gradient steps that travel s (E16, V5).

    As :func:`fit_excess`, for T steps of length s / T, at most 1 / smoothness in w, from a start within R of the minimiser.
    """
    n, s, steep = count("rows", rows), floor_positive("travel", travel), require_constant("loss_lipschitz", loss_lipschitz)
    longest, reach = require_constant("predictor_lipschitz", predictor_lipschitz), require_constant("radius", radius)
    gap = 2 * steep * longest * s / n * ROUNDING
    drawn = noise(longest * gap)
    added = min(drawn.lipschitz_excess(steep), drawn.smooth_excess(loss_smoothness))
    return FitExcess(gap, steep * longest * gap * ROUNDING, added, reach * reach / (2 * s) * ROUNDING)


def best_travel(**given: Any) -> float:  # noqa: ANN401 - as travel_excess takes them
    """Return the travel s that makes :func:`travel_excess` least."""
    return math.exp(golden(lambda log: travel_excess(travel=math.exp(log), **given).total, -30.0, 60.0, steps=70))


def inexact_stability(stability: Number | None, *, distance: Number) -> float:
    """Return Gamma + 2 distance: the stability of an approximate minimiser within ``distance`` of the exact one (E15).

    Needs: the distance holds for *every* dataset: |gradient| / strength at the returned point, sqrt(2 suboptimality /
    strength) for losses without a gradient, or :func:`descent_distance` after a fixed number of steps; never a stopping
    rule that looks at the rows. The report assumes exact minimisers throughout.
    """
    return (require_constant("stability", stability) + 2 * float(nonnegative("distance", distance))) * ROUNDING


def suboptimal_distance(suboptimality: Number, *, strength: Number | None) -> float:
    """Return sqrt(2 suboptimality / strength), which bounds the distance to the minimiser (E15)."""
    return (
        math.sqrt(2 * float(nonnegative("suboptimality", suboptimality)) / require_constant("strength", strength)) * ROUNDING
    )


def descent_distance(*, steps: int, strength: Number | None, smoothness: Number | None, lipschitz: Number | None) -> float:
    """Return (1 - s / (m + s))^T L / s: where T gradient steps from 0 end, at most so far from the minimiser (E15).

    s is the strength of the regulariser, m the smoothness of the loss without it, and the step 1 / (m + s).
    """
    convex, smooth = require_constant("strength", strength), require_constant("smoothness", smoothness)
    contraction = math.log1p(-convex / (smooth + convex))
    return (
        math.exp(count("steps", steps, least=0) * contraction) * require_constant("lipschitz", lipschitz) / convex * ROUNDING
    )


def descent_stability(  # noqa: PLR0913 - the statement has these symbols
    *, rows: int, steps: int, step: Number, lipschitz: Number | None, smoothness: Number | None, averaged: bool = False
) -> float:
    """Return 2 L step T / n >= |w_T - w_T'| for T projected full-batch gradient steps from a fixed start (E16).

    For the mean of w_1, ..., w_T (``averaged``) L step (T + 1) / n. Needs: a convex loss of that smoothness in w, and
    step <= 2 / smoothness, so that no step expands distances. Strong convexity, which Corollary 4 of the report asks
    for, is not needed; its one sigma is two constants, of the loss in the prediction and of the loss in w.
    """
    length, t = _step(step, smoothness), count("steps", steps)
    drift = require_constant("lipschitz", lipschitz) * length / count("rows", rows) * ROUNDING
    return drift * (t + 1) if averaged else 2 * drift * t


def descent_excess(  # noqa: PLR0913 - the statement has these symbols
    *, rows: int, epsilon: Number, travel: Number, radius: Number, lipschitz: Number, loss_smoothness: Number
) -> float:
    """Return R^2 / (2 s) + 2 L^2 s / n + smoothness (2 L s / n)^2 / epsilon^2, s = step * T the ``travel`` (E16).

    The expected excess of T gradient steps and a Laplace answer, for L_f = 1, step <= 1 / smoothness in w, and a start
    within R of the minimiser. s = R sqrt(n) / (2 L) gives Corollary 4's 2 R L / sqrt n + smoothness R^2 / (n epsilon^2);
    its condition on smoothness only says that n steps reach that far.
    """
    n, s, slope = count("rows", rows), floor_positive("travel", travel), require_constant("lipschitz", lipschitz)
    optimisation = require_constant("radius", radius) ** 2 / (2 * s)
    moved = 2 * slope * s / n
    noise = laplace_noise(moved, epsilon=epsilon).smooth_excess(loss_smoothness)
    return (optimisation + slope * moved + noise) * ROUNDING


def free_descent_epsilon(
    *,
    rows: int,
    radius: Number | None,
    lipschitz: Number | None,
    loss_smoothness: Number | None,
    predictor_lipschitz: Number | None = 1,
) -> float:
    """Return sqrt(smoothness R L_f^2 / (2 L)) n^(-1/4): the epsilon of one prediction that costs as much as sampling (V6.2).

    There the noise term of Corollary 4, smoothness R^2 L_f^2 / (n epsilon^2), equals its sampling term 2 R L / sqrt n, and
    the bound is twice the one without privacy; far above it privacy is free in rate. It is per prediction: many compose.
    """
    reach, slope = require_constant("radius", radius), require_constant("lipschitz", lipschitz)
    smooth, steep = (
        require_constant("loss_smoothness", loss_smoothness),
        require_constant("predictor_lipschitz", predictor_lipschitz),
    )
    return math.sqrt(smooth * reach * steep * steep / (2 * slope) / math.sqrt(count("rows", rows))) * ROUNDING


def stable_error_gap(*, rows: int, stability: Number | None, beta: Number) -> float:
    """Return gamma + (2 n gamma + 1) sqrt(ln(1/beta) / (2 n)): how far the population's loss may be above the rows' (V6.3).

    Law: with probability 1 - beta over the rows, R(A(S)) <= R_S(A(S)) + this, for a loss in [0, 1]. Needs: rows that are
    independent draws, and uniform stability for fixed coins: replacing one row moves the loss at *every* point by gamma at
    most, for each value of the coins. A mechanism that is stable in total variation, or differentially private, has that in
    expectation over its coins only; of what it released this theorem says nothing (:func:`lookup_gap`).
    """
    n, moved = count("rows", rows), require_constant("stability", stability)
    deviation = math.sqrt(-math.log(floor_probability("beta", beta)) / (2 * n))
    return (moved + (2 * n * moved + 1) * deviation) * ROUNDING


def lookup_gap(*, tau: Number, gap: Number) -> float:
    """Return Pr[R - R_S >= gap] of the mechanism that looks its rows up with probability tau, and else says 0 (V6.3).

    It predicts 1[z in S] with probability tau, for rows from a law without atoms: tau-stable in total variation, and its gap
    is 1 with probability tau whatever the number of rows. So no bound that falls with the rows holds for a realised output
    of a mechanism that is stable in total variation only.
    """
    return float(probability("tau", tau, one=True)) if probability("gap", gap, zero=True, one=True) > 0 else 1.0


def one_pass_stability(*, step: Number, lipschitz: Number | None, smoothness: Number | None) -> float:
    """Return 2 L step >= |w - w'| for one pass of projected stochastic gradient steps in a fixed order (E16).

    Wherever the rows differ, for the last point and for the mean of the points before each step.
    Needs: step <= 2 / smoothness.
    """
    return 2 * require_constant("lipschitz", lipschitz) * _step(step, smoothness) * ROUNDING


def one_pass_excess(*, rows: int, step: Number, lipschitz: Number, smoothness: Number, radius: Number) -> float:
    """Return R^2 / (2 step n) + step L^2 / 2, the expected excess of the mean of the points before each step (E16).

    1.25 R L / sqrt n at step = R / (2 L sqrt n), against 2 R L / sqrt n for full-batch steps of the same stability.
    """
    length = _step(step, smoothness)
    reach, slope = require_constant("radius", radius), require_constant("lipschitz", lipschitz)
    return (reach * reach / (2 * length * count("rows", rows)) + length * slope * slope / 2) * ROUNDING


def _step(step: Number, smoothness: Number | None) -> float:
    length, smooth = floor_positive("step", step), require_constant("smoothness", smoothness)
    if length * smooth > 2 * ROUNDING:
        message = f"gradient steps contract only for step <= 2 / smoothness; got {length:g}, and {2 / smooth:.6g} would do"
        raise PreconditionError(message)
    return length

"""Solvers that take a fixed number of steps, with a proven bound on the error of their arithmetic (E15, E16).

The number of steps, their lengths and the start are fixed before any row is seen, and sums are taken in a fixed order, so
that the weights are one deterministic function of the rows. Each exact step is non-expansive; the computed one differs from
it by at most a public bound e, and so the computed weights from the exact ones by e times the number of steps, or by
e / (1 - c) where steps contract by a factor c. Stability needs twice that (E15).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from holdtrue.ensembles.losses import Floats, Loss

__all__ = ["Problem", "Solved", "corner_suboptimality", "descend", "one_pass", "subgradients"]

UNIT: Final = 2.0**-53
"""The relative error of one rounding."""

SLOPE_ERROR: Final = 2.0**-48
"""What a computed slope may be off by, relative to the loss's constant: a product, an exponential and a quotient."""


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

    def step_error(self, step: float, rows: int) -> float:
        """Return e, what one computed step with the mean gradient of so many rows may be off by, in Euclidean length.

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
    """Return how far above its minimum the objective of exact arithmetic is at the point of :func:`subgradients` (E15).

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


def descend(problem: Problem, *, step: float, steps: int) -> Solved:
    """Return the last of T projected full-batch gradient steps from 0, w - step (gradient + strength w)."""
    w = np.zeros(problem.size[1])
    for _ in range(steps):
        w = _projected(w - step * _gradient(problem, w), problem.radius)
    each = problem.step_error(step, problem.size[0])
    shrinking = step * problem.strength
    times = steps if shrinking == 0 else min(steps, 1 / shrinking * (1 + 2.0**-20))
    return Solved(w, each * times)


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
        w = _projected(w - step * (slope[0] * x + problem.strength * w), problem.radius)
    error = problem.step_error(step, 1) * rows + (rows + 2) * UNIT * problem.reach
    return Solved(total / rows, error * (1 + 2.0**-20))


def subgradients(problem: Problem, *, steps: int) -> Solved:
    """Return the mean of T points of projected subgradient steps 2 / (strength (t + 1)) from 0, the t-th with weight t.

    For losses with corners; :func:`corner_suboptimality` says how good the mean is, and taking it costs (T + 4) u W. Needs:
    a strength above 0, and a radius.
    """
    w, total, weight = np.zeros(problem.size[1]), np.zeros(problem.size[1]), 0
    for t in range(1, steps + 1):
        total += t * w
        weight += t
        w = _projected(w - 2 / (problem.strength * (t + 1)) * _gradient(problem, w), problem.radius)
    return Solved(total / weight, (steps + 4) * UNIT * problem.reach * (1 + 2.0**-20))


def _gradient(problem: Problem, w: Floats) -> Floats:
    # Not the matrix product of a library, whose order of summation may depend on the number of threads.
    predictions = np.einsum("ij,j->i", problem.rows, w)
    slopes = problem.loss.slope(predictions, problem.labels)
    gradient: Floats = np.einsum("ij,i->j", problem.rows, slopes) / len(slopes) + problem.strength * w
    return gradient


def _projected(w: Floats, radius: float | None) -> Floats:
    if radius is None:
        return w
    length = float(np.sqrt(np.einsum("j,j->", w, w)))
    return w if length <= radius else w * (radius / length)

"""Many small logistic regressions at once, by Newton's method in numba. Without numba scikit-learn fits each separately.

Each part is solved separately, in a fixed order of operations: its weights are a function of its own rows, to the last bit,
whatever the other parts hold and whichever thread solves it.
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from holdtrue.kernels import compile_kernel

__all__ = ["newton"]

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 40
_TOLERANCE: Final = 1e-9
_SMALLEST_PIVOT: Final = 1e-13
_ENOUGH: Final = 1e-4
_SETTLED: Final = 1e-11


@compile_kernel
def newton(rows: Doubles, labels: Integers, strength: float, weights: Doubles, solved: Flags) -> None:
    """Minimise |w|^2 / 2 + strength * sum_i (ln(1 + exp(z_i)) - y_i z_i), z_i = w x_i + b, for every part.

    ``rows`` are rows of a part by parts by columns, and ``labels`` 0 or 1. ``weights`` has a line for every part, with one
    number more than there are columns if there is an intercept b, which is not penalised. Where ``solved`` is set, no entry
    of the gradient exceeds 1e-9 of the sum of the magnitudes of its terms; it is not where the matrix of second derivatives
    is singular to working precision or 100 steps are not enough.
    """
    held, parts, columns = rows.shape
    width = weights.shape[1]
    table = np.ones((held, width))
    for part in range(parts):
        for i in range(held):
            for k in range(columns):
                table[i, k] = rows[i, part, k]
        solved[part] = _solve_part(table, labels[:, part], strength, columns, weights[part])


@compile_kernel
def _solve_part(table: Doubles, labels: Integers, strength: float, penalised: int, w: Doubles) -> bool:
    held, width = table.shape
    z, u, slopes, curves = np.zeros(held), np.zeros(held), np.zeros(held), np.zeros(held)
    sizes, gradient, step, hessian = np.zeros(width), np.zeros(width), np.zeros(width), np.zeros((width, width))
    w[:] = 0.0
    if not _sum_magnitudes(table, strength, sizes):
        return False
    value = strength * _sum_losses(z, u, 0.0, labels)
    for _ in range(_MOST_STEPS):
        _write_rates(z, labels, strength, slopes, curves)
        _write_derivatives(table, slopes, curves, gradient, hessian)
        for k in range(penalised):
            gradient[k] += w[k]
            hessian[k, k] += 1.0
        if _is_settled(gradient, sizes):
            return True
        if not _find_direction(hessian, gradient, step):
            return False
        _multiply_rows(table, step, u)
        fall = 0.0
        for k in range(width):
            fall -= gradient[k] * step[k]
        length = 1.0
        for _halving in range(_MOST_HALVINGS):
            found = strength * _sum_losses(z, u, length, labels) + _find_penalty(w, step, length, penalised)
            # So close to the minimum the sums are noise, and whole steps are right.
            if found <= value - _ENOUGH * length * fall or fall <= _SETTLED * (1.0 + abs(value)):
                break
            length /= 2.0
        else:
            return False
        value = found
        w += length * step
        _multiply_rows(table, w, z)
    return False


@compile_kernel
def _sum_magnitudes(table: Doubles, strength: float, sizes: Doubles) -> bool:
    """Write the sum of the magnitudes of the terms of each entry of the gradient; return whether all are finite."""
    for k in range(sizes.size):
        for i in range(table.shape[0]):
            sizes[k] += strength * abs(table[i, k])
        if not sizes[k] < np.inf:
            return False
    return True


@compile_kernel
def _is_settled(gradient: Doubles, sizes: Doubles) -> bool:
    worst = 0.0
    for k in range(gradient.size):
        # A NaN is no number below the tolerance.
        worst = max(worst, 0.0 if abs(gradient[k]) <= _TOLERANCE * sizes[k] else 1.0)
    return worst == 0.0


@compile_kernel
def _write_rates(z: Doubles, labels: Integers, strength: float, slopes: Doubles, curves: Doubles) -> None:
    """Write the first and second derivatives of the loss of each row by z."""
    for i in range(z.size):
        small = math.exp(-abs(z[i]))
        p = 1.0 / (1.0 + small) if z[i] >= 0.0 else small / (1.0 + small)
        slopes[i] = strength * (p - labels[i])
        curves[i] = strength * (small / ((1.0 + small) * (1.0 + small)))


@compile_kernel
def _write_derivatives(table: Doubles, slopes: Doubles, curves: Doubles, gradient: Doubles, hessian: Doubles) -> None:
    """Write the gradient and the lower half of the second derivatives."""
    held, width = table.shape
    for a in range(width):
        gradient[a] = 0.0
        for b in range(a + 1):
            hessian[a, b] = 0.0
    for i in range(held):
        row = table[i]
        for a in range(width):
            gradient[a] += slopes[i] * row[a]
            scaled = curves[i] * row[a]
            line = hessian[a]
            for b in range(a + 1):
                line[b] += scaled * row[b]


@compile_kernel
def _find_direction(hessian: Doubles, gradient: Doubles, step: Doubles) -> bool:
    """Write -H^-1 g by Cholesky's method, which overwrites H; return False where a pivot is nothing but rounding."""
    width = gradient.size
    for a in range(width):
        whole = hessian[a, a]
        for b in range(a + 1):
            rest = hessian[a, b]
            for k in range(b):
                rest -= hessian[a, k] * hessian[b, k]
            if b < a:
                hessian[a, b] = rest / hessian[b, b]
            elif rest > _SMALLEST_PIVOT * whole:
                hessian[a, a] = math.sqrt(rest)
            else:
                return False
    for a in range(width):
        rest = -gradient[a]
        for k in range(a):
            rest -= hessian[a, k] * step[k]
        step[a] = rest / hessian[a, a]
    for a in range(width - 1, -1, -1):
        rest = step[a]
        for k in range(a + 1, width):
            rest -= hessian[k, a] * step[k]
        step[a] = rest / hessian[a, a]
    return True


@compile_kernel
def _multiply_rows(table: Doubles, w: Doubles, z: Doubles) -> None:
    for i in range(table.shape[0]):
        total = 0.0
        for k in range(table.shape[1]):
            total += table[i, k] * w[k]
        z[i] = total


@compile_kernel
def _sum_losses(z: Doubles, u: Doubles, length: float, labels: Integers) -> float:
    total = 0.0
    for i in range(z.size):
        at = z[i] + length * u[i]
        total += max(at, 0.0) + math.log1p(math.exp(-abs(at))) - labels[i] * at
    return total


@compile_kernel
def _find_penalty(w: Doubles, step: Doubles, length: float, penalised: int) -> float:
    total = 0.0
    for k in range(penalised):
        at = w[k] + length * step[k]
        total += at * at
    return total / 2.0

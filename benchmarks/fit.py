"""Fits of ridge and logistic regression beside scikit-learn's own, on rows in memory."""

import gc
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import best_time, show
from holdtrue.bounds.stability import best_strength, gaussian_noise
from holdtrue.ensembles.losses import Loss, logistic, squared
from holdtrue.ensembles.stable import fit_stable

__all__ = ["run"]

_ROWS = 1_000_000
_COLUMNS = 50
_RNG = np.random.default_rng(7)  # noqa: TID251 - rows to be measured on


def run() -> None:
    """Print the times side by side; scikit-learn takes the same scaled rows and strength, and its fastest documented solver.

    Ours includes clipping, scaling and shortening all rows; scikit-learn is given rows that are scaled already.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    rows = _RNG.normal(size=(_ROWS, _COLUMNS)).clip(-3, 3)
    weights = _RNG.normal(size=_COLUMNS)
    numbers = np.clip(rows @ weights / 7 + 0.3 * _RNG.normal(size=_ROWS), -1, 1)
    signs = rows @ weights + _RNG.normal(size=_ROWS) > 0
    lines = []
    ridge, logit = _find_strength(squared()), _find_strength(logistic())
    peers: dict[str, tuple[Loss, float, Any, Callable[[], object]]] = {
        "ridge, cholesky": (
            squared(),
            ridge,
            numbers,
            lambda: Ridge(alpha=ridge * _ROWS, solver="cholesky").fit(rows, numbers),
        ),
        "logistic, newton-cholesky": (
            logistic(),
            logit,
            signs,
            lambda: LogisticRegression(C=1 / (logit * _ROWS), solver="newton-cholesky").fit(rows, signs),
        ),
        "logistic, lbfgs": (
            logistic(),
            logit,
            signs,
            lambda: LogisticRegression(C=1 / (logit * _ROWS), solver="lbfgs").fit(rows, signs),
        ),
    }
    for name, (loss, strength, labels, peer) in peers.items():
        ours = best_time(lambda: _fit(rows, labels, loss, strength), repeat=3)  # noqa: B023 - called at once
        gc.collect()
        theirs = best_time(peer, repeat=3)
        lines.append([name, f"{ours:.2f} s", f"{theirs:.2f} s", f"{ours / theirs:.2f} (<= 1.5)"])
    cores = os.cpu_count() or 1
    show(f"{_ROWS:,} x {_COLUMNS}, {cores} cores", ["what", "holdtrue", "scikit-learn", "holdtrue / scikit-learn"], lines)


def _find_strength(loss: Loss) -> float:
    slopes = {"loss_lipschitz": loss.lipschitz, "loss_smoothness": loss.smoothness, "predictor_lipschitz": 1.5}
    return best_strength(rows=_ROWS, radius=1, noise=_make_noise, **slopes)


def _make_noise(gamma: float) -> Any:  # noqa: ANN401 - the noise of a stability
    return gaussian_noise(gamma, mu=0.5)


def _fit(rows: Any, labels: Any, loss: Loss, strength: float) -> object:  # noqa: ANN401 - arrays
    return fit_stable(rows, labels, loss=loss, bounds=(-3, 3), norm=1.5, strength=strength, label_bounds=(-1, 1))

"""Curves of delta and of Rényi divergence: exact for laws, below the truth and near it for samples."""

import math

import matplotlib as mpl
import numpy as np
import pytest

import holdtrue as ht
from holdtrue.auditing import law_curves, privacy_curves

mpl.use("Agg")
P = 1 / (1 + math.exp(-1))


def test_a_law_has_its_exact_curves():
    curves = law_curves([P, 1 - P], [1 - P, P], epsilons=(0.0, 0.5, 1.0, 2.0), orders=(2.0, 64.0))
    assert curves.deltas[0] == pytest.approx(math.tanh(0.5))
    assert curves.deltas[2:] == (pytest.approx(0, abs=1e-12), 0.0)
    assert curves.divergences[0] == pytest.approx(math.log(P**2 / (1 - P) + (1 - P) ** 2 / P))
    assert curves.divergences[1] < 1
    assert law_curves([1.0, 0.0], [0.5, 0.5], orders=(2.0,)).divergences == (math.inf,)
    with pytest.raises(ht.InvalidParameter, match="orders"):
        law_curves([1.0], [1.0], orders=(1.0,))


def test_curves_from_samples_are_below_the_truth_and_near_it():
    rng = np.random.default_rng(5)
    run = lambda bit, n: np.where(rng.random(n) < P, bit, 1 - bit)  # noqa: E731 - randomised response
    exact = law_curves([P, 1 - P], [1 - P, P])
    wrong = 0
    for _ in range(10):
        proved = privacy_curves(run, 0, 1, samples=20_000)
        wrong += any(a > b + 1e-9 for a, b in zip(proved.deltas, exact.deltas, strict=True))
        wrong += any(a > b + 1e-9 for a, b in zip(proved.divergences, exact.divergences, strict=True))
        assert proved.deltas[0] > 0.9 * exact.deltas[0]
        assert proved.divergences[2] > 0.7 * exact.divergences[2]
    assert wrong <= 3
    assert privacy_curves(lambda _, n: np.zeros(n), 0, 1, samples=400).deltas[0] == 0.0
    with pytest.raises(ht.InsufficientSamples, match="give at least 200"):
        privacy_curves(run, 0, 1, samples=20)


def test_curves_are_drawn():
    from matplotlib import pyplot as plt

    curves = law_curves([P, 1 - P], [1 - P, P])
    assert curves.plot().get_xlabel() == "epsilon"
    assert "exact" in curves.plot_renyi().get_title(loc="left")
    plt.close("all")

"""The noise of scores is what their cost on the ledger says; noise that is halved, or left out, is found."""

import numpy as np
import pytest
from scipy import stats

from holdtrue.exact import units_up
from holdtrue.holdouts import Holdout
from holdtrue.mechanisms import Gaussian

CASES, MANY, FEW = 2000, 2500, 500
TRUTH = np.arange(CASES) % 2
LEVEL = 1e-9


def right(labels, predictions):
    """Score predictions case by case; a function has no name, so every call is a look."""
    return labels == predictions


def noise_of(holdout):
    """Return the noise of all looks, in cases, and the certificate of the last."""
    scores = [holdout.score(np.ones(CASES), metric=right) for _ in range(holdout.looks_left)]
    assert holdout.looks_left == 0
    return CASES * (np.array([score.value for score in scores]) - 0.5), scores[-1].certificate


def as_private_as_charged(noise, mu):
    """Say whether noise has the deviation 1/mu of one case's weight: its mean square, at an error rate of 1e-9."""
    total = float(((noise * mu) ** 2).sum())
    return stats.chi2.ppf(LEVEL, noise.size) < total < stats.chi2.isf(LEVEL, noise.size)


class Halved(Gaussian):
    """A planted fault: half of the noise at the same price."""

    def release(self, values):
        return (super().release(values) + values) // 2


class Bare(Gaussian):
    """A planted fault: no noise at the same price."""

    def release(self, values):
        return values


class Quarter(Gaussian):
    """A planted fault: noise that is a quarter too small, fifteen deviations of the mean square away."""

    def release(self, values):
        return values + 3 * (super().release(values) - values) // 4


def test_the_scores_of_all_looks_are_as_private_as_the_plans_cap_says():
    with Holdout(TRUTH, looks=MANY) as holdout:
        noise, last = noise_of(holdout)
        mu = holdout.plan.cap / np.sqrt(MANY)
        assert as_private_as_charged(noise, mu)
        assert float(last.event.mu) == pytest.approx(mu, rel=1e-6)
        # mu squared adds up to the cap, rounded up by a unit a look at most.
        assert units_up(last.event.mu**2) * MANY <= holdout.plan.cap_units


@pytest.mark.parametrize(("fault", "looks"), [(Halved, FEW), (Bare, FEW), (Quarter, MANY)])
def test_planted_faults_in_the_noise_of_scores_are_found(fault, looks):
    with Holdout(TRUTH, looks=looks) as holdout:
        mode = holdout._mode
        mode.mechanism = fault(sigma=mode.mechanism.sigma, sensitivity=mode.mechanism.sensitivity)
        noise, last = noise_of(holdout)
        assert not as_private_as_charged(noise, float(last.event.mu))

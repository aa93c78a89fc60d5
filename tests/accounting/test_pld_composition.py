"""T1: laws on a grid never flatter an event, and their Fourier sums never fall below exact ones."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from holdtrue import events
from holdtrue.accounting import event_privacy
from holdtrue.accounting.composition import _compose_responses
from holdtrue.accounting.loss_distributions import BoundedRangeLoss, DiscreteNormalLoss, LaplaceLoss, NormalLoss
from holdtrue.accounting.pld_composition import _Aim, _choose_aim, _Sum, spectral_epsilon

LAWS = [
    (LaplaceLoss(1.0, 1), events.DiscreteLaplace(1, 1)),
    (LaplaceLoss(0.8, 5), events.DiscreteLaplace(0.8, 5)),
    (LaplaceLoss(0.8, 3000), events.DiscreteLaplace(0.8, 3000)),
    (LaplaceLoss(0.8, 2**45), events.DiscreteLaplace(0.8, 2**45)),
    (BoundedRangeLoss(1.5), events.BoundedRange(1.5)),
    (NormalLoss(0.7), events.GaussianNoise(0.7)),
]


@pytest.mark.parametrize(("law", "event"), LAWS, ids=lambda value: str(value)[:32])
@pytest.mark.parametrize("step", [0.3, 0.01, 0.00037])
def test_a_law_on_the_grid_is_never_better_and_nearly_as_good(law, event, step):
    lattice = law.to_lattice(step, 2.0)
    losses = lattice.offset + step * lattice.positions
    for x in np.linspace(0, 1.2, 25):
        found = float(lattice.masses @ np.maximum(0, -np.expm1(x - losses))) + lattice.beyond
        exact = event_privacy.delta(event, float(x))
        assert found >= exact * (1 - 1e-12) - 1e-14
        # Only where x falls between the grid points around an atom is the price of first order.
        assert found <= exact + step / 4
    assert float(lattice.masses.sum()) + lattice.beyond >= 1 - 1e-14


@pytest.mark.parametrize(("law", "event"), LAWS[2:], ids=lambda value: str(value)[:32])
def test_the_price_of_a_fine_grid_is_of_second_order(law, event):
    for step in (0.1, 0.02, 0.004):
        lattice = law.to_lattice(step, 2.0)
        losses = lattice.offset + step * lattice.positions
        for x in 0.3 + step * np.linspace(0, 1, 7):
            found = float(lattice.masses @ np.maximum(0, -np.expm1(x - losses))) + lattice.beyond
            assert found <= event_privacy.delta(event, float(x)) + step**2 / 4


@pytest.mark.parametrize("sigma", [0.6, 3.0, 40.0])
def test_the_discrete_gaussian_on_the_grid_is_never_better(sigma):
    lattice = DiscreteNormalLoss(sigma, 2).to_lattice(0.003, 1.0)
    losses = lattice.offset + 0.003 * lattice.positions
    with mpmath.workdps(40):
        reach = int(40 * sigma) + 40
        masses = [mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for z in range(-reach, reach + 1)]
        whole = mpmath.fsum(masses)
        for x in (0.0, 0.1, 0.5, 1.0):
            exact = mpmath.fsum(max(a - mpmath.exp(x) * b, 0) for a, b in zip(masses[:-2], masses[2:], strict=True)) / whole
            found = float(lattice.masses @ np.maximum(0, -np.expm1(x - losses))) + lattice.beyond
            assert exact - 1e-14 <= found <= exact + 0.003 / 4


@pytest.mark.parametrize(
    "parts",
    [
        [(LaplaceLoss(0.5, 3), 4)],
        [(LaplaceLoss(0.5, 3), 2), (LaplaceLoss(0.21, 2), 3)],
        [(LaplaceLoss(1.1, 1), 3), (LaplaceLoss(0.3, 4), 2)],
    ],
)
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-2, 0.2])
def test_sums_against_enumeration_in_forty_digits(parts, delta):
    epsilon = spectral_epsilon(parts, delta=delta)
    singles = []
    with mpmath.workdps(40):
        for law, times in parts:
            q = mpmath.exp(-mpmath.mpf(law.epsilon) / law.width)
            inner = [
                (mpmath.mpf(law.epsilon) * (law.width - 2 * z) / law.width, q**z * (1 - q)) for z in range(1, law.width)
            ]
            atoms = [(mpmath.mpf(law.epsilon), mpmath.mpf(1)), *inner, (-mpmath.mpf(law.epsilon), q**law.width)]
            singles += [[(loss, mass / (1 + q)) for loss, mass in atoms]] * times

        def exact(x):
            total = mpmath.mpf(0)
            for combination in itertools.product(*singles):
                loss = mpmath.fsum(one for one, _ in combination)
                if loss > x:
                    total += mpmath.fprod(mass for _, mass in combination) * (1 - mpmath.exp(x - loss))
            return total

        assert exact(epsilon) <= delta
        if epsilon > 0:
            assert exact(epsilon * (1 - 1e-4)) > delta


def test_rounding_is_accounted_for_on_any_grid_and_tilt(rng):
    # However badly tilt and window are chosen, the result is never below the exact one; only its tightness suffers.
    for _ in range(150):
        times, epsilon = int(rng.integers(1, 200)), float(10 ** rng.uniform(-2.5, 0.3))
        delta = float(10 ** rng.uniform(-12, -1))
        law = LaplaceLoss(epsilon, 1)
        good = _choose_aim([(law, times)], delta)
        aim = _Aim(
            good.theta * float(10 ** rng.uniform(-0.7, 0.7)),
            good.epsilon * float(rng.uniform(0.3, 2)),
            good.step * float(10 ** rng.uniform(-0.7, 0.7)),
            int(rng.choice([256, 1024, 3072])),
        )
        found = _Sum([(law.to_lattice(aim.step, aim.theta), times)], aim).epsilon(delta)
        exact = _compose_responses([(epsilon, times)])
        assert found >= exact.epsilon(delta) * (1 - 1e-9) - 1e-9
        assert exact.delta(found * (1 + 1e-12) + 1e-12) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("mu", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_normal_losses_agree_with_their_curve(mu, delta):
    exact = event_privacy.epsilon(events.GaussianNoise(mu), delta)
    found = spectral_epsilon([(NormalLoss(mu), 1)], delta=delta)
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 5e-6) + 1e-9


def test_many_normal_losses_and_one_are_the_same():
    whole = spectral_epsilon([(NormalLoss(1.0), 1)], delta=1e-6)
    parts = spectral_epsilon([(NormalLoss(0.25), 16)], delta=1e-6)
    assert whole == pytest.approx(parts, rel=1e-5)


def test_what_the_grid_cannot_hold_is_no_bound():
    assert spectral_epsilon([(NormalLoss(50.0), 1)], delta=1e-6) == math.inf
    assert spectral_epsilon([(DiscreteNormalLoss(1e7, 1), 1)], delta=1e-6) == math.inf

"""Methods by the transfer theorem: what is frozen, that the whole cap pays for it, and their noise (N1, S1, T5, T6)."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from holdtrue.accounting.closed_forms import gaussian_delta, zero_concentrated_delta
from holdtrue.accounting.event_privacy import rho
from holdtrue.bounds.accuracy import gaussian_overshoot, gaussian_quantile, grid, laplace_maximum
from holdtrue.errors import InsufficientSamples
from holdtrue.events import DiscreteLaplace
from holdtrue.exact import UNIT
from holdtrue.planning.asking import plan
from holdtrue.planning.comparing import METHODS, fewest_rows
from holdtrue.planning.methods import AskingTask, split_beta
from holdtrue.planning.transfer import (
    PRIVATE_METHODS,
    JointConcentrated,
    JointGaussian,
    NoiseOnly,
    TransferConcentrated,
    TransferGaussian,
    TransferLaplace,
    half_width,
)

TASK = AskingTask(queries=100, beta=0.05, reserve=0.0, bits=20, rule="validity")
CAPPED = dataclasses.replace(TASK, epsilon=1.0, delta=1e-6)
ROWS = 20_000
GAUSSIAN = [TransferGaussian(), TransferConcentrated(), JointGaussian(), JointConcentrated()]


def total_mu(design):
    return math.sqrt(design.cap * (1 if design.ledger == "gdp" else 2) * UNIT)


def delta_of(design, epsilon):
    mu = total_mu(design)
    return gaussian_delta(mu, epsilon) if design.ledger == "gdp" else zero_concentrated_delta(mu * mu / 2, epsilon)


@pytest.mark.parametrize("method", GAUSSIAN, ids=lambda method: method.name)
@pytest.mark.parametrize("reserve", [0.0, 0.3])
def test_t6_the_slack_pays_for_the_whole_cap(method, reserve):
    design = method.design(dataclasses.replace(TASK, reserve=reserve), ROWS)
    frozen = design.transfer
    delta = delta_of(design, frozen.epsilon)
    needed = (delta + math.exp(frozen.epsilon) * frozen.overshoot) / frozen.transfer_beta
    assert needed <= frozen.slack <= needed * (1 + 1e-6)
    assert design.alpha == pytest.approx(frozen.noise + frozen.gamma)


@pytest.mark.parametrize("method", GAUSSIAN, ids=lambda method: method.name)
def test_t6_half_of_the_cap_would_promise_too_much(method):
    """Planted: what is frozen for half of the ledger's mu has a smaller slack than the whole of it needs."""
    design = method.design(TASK, ROWS)
    point = method.thaw(design.transfer, design.sigma)
    honest = method.freeze(TASK, point, rows=ROWS, sigma=design.sigma, cap=total_mu(design))
    planted = method.freeze(TASK, point, rows=ROWS, sigma=design.sigma, cap=total_mu(design) / 2)
    needed = delta_of(design, planted.epsilon) + math.exp(planted.epsilon) * planted.overshoot
    assert planted.slack < 0.5 * needed / planted.transfer_beta
    assert honest.slack >= needed / honest.transfer_beta * (1 - 1e-9)


@pytest.mark.parametrize("method", GAUSSIAN, ids=lambda method: method.name)
def test_a_frozen_point_is_found_again(method):
    design = method.design(TASK, ROWS)
    point = method.thaw(design.transfer, design.sigma)
    again = method.freeze(TASK, point, rows=ROWS, sigma=design.sigma, cap=total_mu(design))
    assert again.epsilon == pytest.approx(design.transfer.epsilon)
    assert again.noise == pytest.approx(design.transfer.noise, rel=1e-4)
    assert again.slack == pytest.approx(design.transfer.slack, rel=1e-2)


@pytest.mark.parametrize("method", GAUSSIAN, ids=lambda method: method.name)
@pytest.mark.parametrize("aside", [-0.2, 0.2])
def test_no_point_beside_the_frozen_one_is_narrower(method, aside):
    design = method.design(TASK, ROWS)
    point = method.thaw(design.transfer, design.sigma)
    for place in range(len(point)):
        moved = [each + aside * (at == place) for at, each in enumerate(point)]
        other = method.freeze(TASK, moved, rows=ROWS, sigma=design.sigma, cap=total_mu(design))
        assert other.noise + other.gamma >= design.alpha * (1 - 1e-4)


def test_t5_the_zcdp_curve_costs_ten_to_fourteen_per_cent_of_rows():
    for queries in (10, 100, 1000):
        gdp, zcdp = (fewest_rows(each, TASK.asking(queries), 0.1) for each in GAUSSIAN[:2])
        assert 1.10 <= zcdp / gdp <= 1.15


def test_s1_one_beta_needs_fewer_rows_than_two():
    for queries in (1, 10, 100, 1000):
        joint, split = (fewest_rows(each, TASK.asking(queries), 0.1) for each in (JointGaussian(), TransferGaussian()))
        assert 0.82 <= joint / split <= 0.92


@pytest.mark.parametrize("queries", [1, 10, 500])
def test_s1_the_overshoot_is_that_of_all_planned_answers(queries):
    design = JointGaussian().design(TASK.asking(queries), ROWS)
    box = (design.transfer.noise - grid(ROWS, bits=20)) / design.sigma
    assert design.transfer.overshoot == pytest.approx(queries * design.sigma * gaussian_overshoot(box), rel=1e-5)
    assert design.transfer.noise_beta == design.transfer.transfer_beta == 0.05


def test_t5_shares_of_beta_are_kept_by_the_split_form():
    frozen = TransferGaussian().design(TASK, ROWS).transfer
    assert frozen.noise_beta + frozen.transfer_beta <= TASK.beta
    assert frozen.overshoot == 0
    assert split_beta(TASK, math.log(frozen.noise_beta / frozen.transfer_beta))[0] == pytest.approx(frozen.noise_beta)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 1.0])
def test_the_width_at_a_share_is_that_of_the_plan(share):
    made = plan(rows=ROWS, queries=100)
    assert half_width(share, made.transfer) == pytest.approx(made.alpha_at(share), rel=1e-9)
    assert half_width(share, made.transfer) <= made.alpha * (1 + 1e-9)


def test_a_cap_by_privacy_is_used_up():
    for method in GAUSSIAN:
        design = method.design(CAPPED.under("privacy"), ROWS)
        assert design.cap == CAPPED.limit(method.ledger)
        assert design.alpha >= method.design(CAPPED, ROWS).alpha * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5])
def test_a_tight_cap_widens_every_method(epsilon):
    tight = dataclasses.replace(TASK, epsilon=epsilon, delta=1e-6)
    for method in PRIVATE_METHODS:
        assert method.design(tight, ROWS).alpha >= method.design(TASK, ROWS).alpha * (1 - 1e-6)
        assert method.design(tight, ROWS).cap <= tight.limit(method.design(tight, ROWS).ledger)


# Noise only: rows that are not independent draws.


def test_noise_only_is_the_quantile_of_the_largest_noise():
    design = NoiseOnly().design(CAPPED, ROWS)
    expected = design.sigma * gaussian_quantile(100, beta=0.05) + grid(ROWS, bits=20)
    assert design.alpha == pytest.approx(expected)
    assert design.transfer is None
    assert NoiseOnly().rows(CAPPED, design.alpha) == pytest.approx(ROWS, rel=1e-3)


def test_noise_only_covers_all_answers_and_a_tenth_less_does_not(request):
    design = NoiseOnly().design(CAPPED, ROWS)
    draws = np.random.default_rng(list(request.node.name.encode())).normal(0, design.sigma, (20_000, 100))
    largest = np.abs(draws).max(axis=1)
    spare = 6 * math.sqrt(0.05 * 0.95 / len(largest))  # six deviations of a share of beta
    assert (largest > design.alpha).mean() <= 0.05 + spare
    assert (largest > 0.9 * design.alpha).mean() > 0.05 + spare


# Laplace noise.


def test_t5_a_pure_ledger_has_a_certain_gap():
    design = TransferLaplace().design(dataclasses.replace(TASK, pure=True), ROWS)
    frozen, cap = design.transfer, float(design.cap * UNIT)
    assert design.ledger == "pure"
    assert frozen.slack == 0
    assert frozen.noise_beta == 0.05
    assert frozen.gamma == pytest.approx(math.tanh(cap / 4))
    scale = 1 / (ROWS * float(design.event.epsilon))
    assert frozen.noise == pytest.approx(scale * laplace_maximum(100, beta=0.05) + grid(ROWS, bits=20))
    assert laplace_maximum(100, beta=0.05) == pytest.approx(math.log(100 / 0.05) + 1)


@pytest.mark.parametrize("task", [TASK, CAPPED, dataclasses.replace(CAPPED, delta=None)])
def test_laplace_answers_are_charged_for_the_discrete_law(task):
    design = TransferLaplace().design(task, ROWS)
    assert isinstance(design.event, DiscreteLaplace)
    assert design.event.sensitivity == 1 << 20
    price = Fraction(design.event.epsilon) if design.ledger == "pure" else Fraction(rho(design.event))
    assert price <= design.cost * UNIT < price + UNIT
    assert design.cost * task.queries <= design.cap


def test_without_a_delta_the_ledger_is_pure():
    assert TransferLaplace().design(dataclasses.replace(TASK, epsilon=1.0), ROWS).ledger == "pure"
    assert TransferLaplace().design(TASK.asking(1000), 10**6).ledger == "zcdp"
    assert TransferLaplace().design(TASK.asking(1), ROWS).ledger == "pure"


def test_n1_laplace_has_the_rows_of_the_sheet():
    for queries, rows in ((100, 29_543), (1000, 116_688)):
        assert METHODS["transfer-laplace"].rows(TASK.asking(queries), 0.1) == pytest.approx(rows, rel=0.02)


def test_laplace_refuses_privacy_too_little_to_share():
    with pytest.raises(InsufficientSamples, match="too little"):
        TransferLaplace().design(dataclasses.replace(TASK, queries=10**12, epsilon=1e-6, pure=True), ROWS)


@pytest.mark.parametrize("pure", [True, False])
def test_a_reserve_widens_laplace_answers(pure):
    task = dataclasses.replace(TASK, pure=pure)
    whole, shared = (TransferLaplace().design(dataclasses.replace(task, reserve=each), ROWS) for each in (0.0, 0.5))
    assert shared.alpha > whole.alpha
    assert shared.cost * 100 == pytest.approx(shared.cap / 2, rel=1e-3)

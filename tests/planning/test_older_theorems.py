"""Older theorems as methods: each design is its theorem's own bound, where it may be used (D1, D2, N1, N2, T4, T8, T9)."""

import dataclasses
import math
from fractions import Fraction

import pytest

from holdtrue.accounting.closed_forms import gaussian_delta
from holdtrue.bounds.accuracy import gaussian_quantile, grid, hoeffding_alpha, hoeffding_rows
from holdtrue.bounds.generalization import FEWEST_ROWS, bassily16_gaussian, jung20, lecture19, rrstww20
from holdtrue.bounds.transcripts import splitting_alpha, splitting_rows
from holdtrue.errors import PreconditionError
from holdtrue.exact import UNIT
from holdtrue.planning.asking import plan
from holdtrue.planning.comparing import METHODS, fewest_rows
from holdtrue.planning.methods import AskingTask
from holdtrue.planning.older_theorems import (
    Bassily,
    Information,
    Jung,
    Lecture,
    NonPrivateMethod,
    SharpInformation,
    preconditions,
    rrstww20_gap,
)
from holdtrue.planning.transfer import TransferGaussian

TASK = AskingTask(queries=100, beta=0.05, reserve=0.0, bits=20, rule="validity")
ROWS = 200_000


def total_mu(design):
    return math.sqrt(design.cap * UNIT)


# Jung et al.


@pytest.mark.parametrize("ratio", [1.5, 2.5, 3.5])
@pytest.mark.parametrize("share", [1e-6, 1e-4, 1e-3])
def test_t4_no_other_parameters_are_narrower(ratio, share):
    design = Jung().design(TASK, ROWS)
    noise_beta, epsilon = TASK.beta * share, ratio * total_mu(design)
    noise = design.sigma * gaussian_quantile(100, beta=noise_beta)
    delta = gaussian_delta(total_mu(design), epsilon)
    other = jung20(noise, beta=noise_beta, epsilon=epsilon, delta=delta, total=TASK.beta)
    assert design.alpha <= other * (1 + 1e-3)


@pytest.mark.parametrize("queries", [1, 30, 1000])
def test_t4_is_four_to_six_times_the_rows_of_the_transfer_theorem(queries):
    older, newer = (fewest_rows(method, TASK.asking(queries), 0.1) for method in (Jung(), TransferGaussian()))
    assert 4 < older / newer < 6.5


# Bassily et al.


def test_d1_the_design_is_the_monitors_bound_at_its_cap():
    """No epsilon on the ledger's own curve gives a narrower one."""
    design = Bassily().design(TASK, ROWS)
    mu = total_mu(design)
    others = [
        bassily16_gaussian(
            100, epsilon=step * mu / 8, delta=gaussian_delta(mu, step * mu / 8), sigma=design.sigma, beta=0.05
        )
        for step in range(8, 41)
    ]
    assert min(others) <= design.alpha <= min(others) * 1.01 + 2 * grid(ROWS, bits=20)


@pytest.mark.parametrize(
    ("rows", "epsilon", "delta", "word"),
    [
        (FEWEST_ROWS - 1, None, None, "768"),
        (ROWS, 0.5, 1e-6, "1/8"),
        (1000, 0.1, 1e-6, "sqrt"),
        (ROWS, 0.1, 0.05, "delta"),
    ],
)
@pytest.mark.parametrize("method", [Bassily(), Lecture()])
def test_d1_preconditions_name_what_fails_and_what_would_do(method, rows, epsilon, delta, word):
    task = dataclasses.replace(TASK, epsilon=epsilon, delta=delta)
    for check in (preconditions, method.check):
        with pytest.raises(PreconditionError, match=word) as caught:
            check(task, rows)
        assert "the nearest that works is" in str(caught.value)


@pytest.mark.parametrize(("rows", "epsilon", "delta"), [(FEWEST_ROWS, None, None), (ROWS, 0.1, 1e-6), (ROWS, 0.125, 0.0)])
def test_d1_what_the_theorem_allows_passes(rows, epsilon, delta):
    preconditions(dataclasses.replace(TASK, epsilon=epsilon, delta=delta), rows)


def test_d1_other_theorems_speak_of_any_number_of_rows():
    for method in (Jung(), Information(), TransferGaussian()):
        method.check(TASK, 1)
        assert method.fewest == 1


# Mutual information.


@pytest.mark.parametrize("method", [Information(), SharpInformation()])
def test_t8_rows_fall_with_the_square_of_alpha(method):
    assert method.rows(TASK, 0.05) / method.rows(TASK, 0.1) == pytest.approx(4, rel=1e-3)
    assert method.rows(TASK, 2.0**-50) == math.inf


@pytest.mark.parametrize(("method", "divisor"), [(Information(), 2), (SharpInformation(), 8)])
def test_t8_the_design_counts_the_information_of_every_answer(method, divisor):
    design = method.design(TASK, ROWS)
    information = ROWS * (TASK.queries / (ROWS * design.sigma) ** 2) / divisor
    width = rrstww20(ROWS, information=information, sigma=design.sigma, queries=100, beta=0.05)
    assert design.alpha == pytest.approx(width + grid(ROWS, bits=20), rel=1e-4)


def test_t8_the_reserve_counts_as_published_information():
    """A quarter of the bound is proved for the asks' own noise alone; what others spend is counted at one half."""
    shared = dataclasses.replace(TASK, reserve=0.5)
    whole, half = SharpInformation().design(TASK, ROWS), SharpInformation().design(shared, ROWS)
    assert half.alpha > whole.alpha
    asks = ROWS * TASK.queries / (ROWS * half.sigma) ** 2
    information = asks / 8 + max(0.0, ROWS * total_mu(half) ** 2 - asks) / 2
    width = rrstww20(ROWS, information=information, sigma=half.sigma, queries=100, beta=0.05)
    assert half.alpha == pytest.approx(width + grid(ROWS, bits=20), rel=1e-4)


def test_t8_the_gap_is_the_bound_without_noise():
    assert rrstww20_gap(3.0, 10_000.7, TASK) == rrstww20(10_000, information=3.0, sigma=0, queries=100, beta=0.05)
    assert rrstww20_gap(3.0, 0.2, TASK) == rrstww20(1, information=3.0, sigma=0, queries=100, beta=0.05)


@pytest.mark.parametrize("beta", [0.1, 0.01, 0.001])
def test_t8_a_small_beta_is_dear(beta):
    """The bound has 1/sqrt(beta), the transfer theorem only a logarithm: the ratio of rows grows as beta falls."""
    task = dataclasses.replace(TASK, beta=beta)
    ratio = SharpInformation().rows(task, 0.1) / TransferGaussian().rows(task, 0.1)
    assert ratio > 0.3 / math.sqrt(beta)


# Lecture 19.


@pytest.mark.parametrize("queries", [1, 10, 100])
def test_n2_the_design_is_theorem_1_2_where_it_may_be_used(queries):
    task, rows = TASK.asking(queries), 10**6
    design = Lecture().design(task, rows)
    epsilon, delta = design.privacy
    assert math.sqrt(12 / rows) <= epsilon <= 1 / 8
    assert delta <= epsilon / 16
    each = 1 / (rows * float(design.event.epsilon))
    # Laplace noise of one answer is within this but for noise_beta; what is left of beta is the gap's.
    gap_beta = max(4 * delta / epsilon, math.exp(-(epsilon**2) * rows / 8))
    noise_beta = (TASK.beta - gap_beta) / queries
    found = lecture19(
        rows, epsilon=epsilon, delta=delta, queries=queries, noise_alpha=each * -math.log(noise_beta), noise_beta=noise_beta
    )
    assert found.beta <= TASK.beta * (1 + 1e-9)
    assert found.alpha <= design.alpha * (1 + 1e-6)


def test_n2_all_answers_together_keep_the_privacy_that_is_claimed():
    """By strong composition, as the lecture composes: sqrt(2 k ln(1/delta)) e + k e (exp(e) - 1)."""
    design = Lecture().design(TASK, 10**6)
    epsilon, delta = design.privacy
    each = float(design.event.epsilon)
    composed = math.sqrt(2 * 100 * math.log(1 / delta)) * each + 100 * each * math.expm1(each)
    assert composed <= epsilon * (1 + 1e-3)
    assert composed >= 0.9 * epsilon
    assert design.cost * UNIT >= Fraction(design.event.epsilon)
    assert design.cap == 100 * design.cost


def test_n2_the_fewest_rows_are_enough_and_three_per_cent_fewer_are_not():
    task = TASK.asking(10)
    rows = fewest_rows(Lecture(), task, 0.1)
    assert rows == pytest.approx(192_265, rel=0.01)
    assert Lecture().design(task, rows).alpha <= 0.1 < Lecture().design(task, math.floor(0.97 * rows)).alpha


def test_n2_privacy_that_was_asked_for_is_kept():
    capped = dataclasses.replace(TASK, epsilon=0.01, delta=1e-9)
    epsilon, delta = Lecture().design(capped, 10**7).privacy
    assert epsilon <= 0.01
    assert delta <= 1e-9
    assert Lecture().rows(dataclasses.replace(TASK, epsilon=0.0), 0.1) == math.inf


# Without privacy.


def test_t9_methods_without_privacy_are_their_bounds():
    splitting, once = METHODS["splitting"], METHODS["nonadaptive"]
    assert splitting.rows(TASK, 0.1) == splitting_rows(0.1, queries=100, beta=0.05) == 41_500
    assert splitting.design(TASK, 41_500).alpha == splitting_alpha(41_500, queries=100, beta=0.05) <= 0.1
    assert once.rows(TASK, 0.1) == hoeffding_rows(0.1, queries=100, beta=0.05) == 415
    assert once.design(TASK, 415).alpha == hoeffding_alpha(415, queries=100, beta=0.05)
    assert not once.adaptive
    assert splitting.adaptive


def test_t9_a_part_without_a_row_promises_nothing():
    design = METHODS["splitting"].design(TASK, 99)  # a hundred parts of less than one row
    assert design.alpha == math.inf
    assert (design.ledger, design.event, design.cap) == (None, None, 0)


def test_t9_bounds_of_ones_own_become_methods():
    own = NonPrivateMethod(
        "own", "a bound of one's own", rows=lambda alpha, **_: round(1 / alpha), alpha=lambda rows, **_: 1 / rows
    )
    assert (own.rows(TASK, 0.1), own.design(TASK, 10).alpha) == (10, 0.1)
    assert fewest_rows(own, TASK, 0.1) == 10
    assert not own.private


@pytest.mark.parametrize("method", ["jung20", "bassily16", "rrstww20", "rrstww20-sharp"])
def test_a_cap_on_privacy_never_narrows(method):
    free = plan(rows=ROWS, queries=100, method=method)
    capped = plan(rows=ROWS, queries=100, method=method, epsilon=0.05, delta=1e-6)
    assert capped.alpha >= free.alpha * (1 - 1e-6)
    assert capped.epsilon <= 0.05

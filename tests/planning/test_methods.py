"""What every method of asking shares: tasks, whole units, the split of beta, and the search for the best parameters."""

import dataclasses
import math
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.accounting.filters import largest_cap
from holdtrue.bounds.accuracy import grid
from holdtrue.codec import decode, encode
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.events import GaussianNoise
from holdtrue.exact import UNIT
from holdtrue.planning.asking import plan
from holdtrue.planning.comparing import METHODS
from holdtrue.planning.methods import (
    AskingTask,
    Design,
    GaussianMethod,
    Transfer,
    least_sigma,
    split_beta,
    spread_of,
    too_little_privacy,
)
from holdtrue.planning.transfer import JointGaussian, TransferConcentrated, TransferGaussian

TASK = AskingTask(queries=100, beta=0.05, reserve=0.0, bits=20, rule="validity")
CAPPED = dataclasses.replace(TASK, epsilon=0.5, delta=1e-6)


@pytest.mark.parametrize("ledger", ["gdp", "zcdp"])
def test_privacy_limits_a_ledger_only_where_it_was_asked_for(ledger):
    assert TASK.limit(ledger) is None
    assert CAPPED.limit(ledger) == largest_cap(ledger, 0.5, 1e-6)


def test_a_pure_ledger_may_spend_its_whole_epsilon():
    pure = dataclasses.replace(TASK, epsilon=0.5, pure=True)
    assert pure.limit("pure") == math.floor(Fraction(1, 2) / UNIT)


def test_a_task_is_frozen_and_changes_by_copies():
    assert TASK.asking(7) == dataclasses.replace(TASK, queries=7)
    assert TASK.under("privacy").rule == "privacy"
    assert TASK.queries == 100
    with pytest.raises(dataclasses.FrozenInstanceError):
        TASK.queries = 7


@given(beta=st.floats(1e-9, 0.5), point=st.floats(-1e6, 1e6))
def test_the_shares_of_beta_never_exceed_it(beta, point):
    noise, transfer = split_beta(dataclasses.replace(TASK, beta=beta), point)
    assert noise > 0
    assert transfer > 0
    assert Fraction(noise) + Fraction(transfer) <= Fraction(beta)


def test_log_odds_of_zero_halve_beta():
    assert split_beta(TASK, 0.0) == pytest.approx((0.025, 0.025))
    assert split_beta(TASK, math.log(3)) == pytest.approx((0.0375, 0.0125))


@given(rows=st.integers(1, 10**9), units=st.integers(1, 10**15))
def test_noise_is_never_less_than_its_charge_allows(rows, units):
    """1/(rows sigma)^2 is the squared mu of one answer: at most what is charged, and all of it but for rounding."""
    cost = units * UNIT
    sigma = least_sigma(rows, cost)
    assert 1 / (rows * Fraction(sigma)) ** 2 <= cost
    smaller = Fraction(sigma) * (1 - Fraction(1, 2**48))
    assert 1 / (rows * smaller) ** 2 > cost  # a hair less noise would cost more than is charged


@pytest.mark.parametrize(("reserve", "spread"), [(0.0, 10.0), (0.75, 20.0)])
def test_a_reserve_leaves_less_of_mu_to_the_asks(reserve, spread):
    assert spread_of(dataclasses.replace(TASK, reserve=reserve)) == pytest.approx(spread)


@pytest.mark.parametrize("method", [TransferGaussian(), TransferConcentrated(), JointGaussian()])
@pytest.mark.parametrize("reserve", [0.0, 0.25, 0.9])
@pytest.mark.parametrize("task", [TASK, CAPPED, CAPPED.under("privacy")])
def test_planned_answers_and_the_reserve_fit_the_cap(method, reserve, task):
    shared = dataclasses.replace(task, reserve=reserve)
    priced, mu = method.price(shared, 20_000, 0.05)
    assert priced.cost * shared.queries <= priced.cap * (1 - Fraction(reserve)) + shared.queries
    assert priced.cost * shared.queries <= priced.cap
    weight = 1 if method.ledger == "gdp" else 2
    assert mu**2 >= priced.cap * weight * float(UNIT)
    limit = shared.limit(method.ledger)
    assert limit is None or priced.cap <= limit
    assert shared.rule != "privacy" or priced.cap == limit


@pytest.mark.parametrize("method", [TransferGaussian(), TransferConcentrated()])
def test_the_event_of_one_answer_is_the_noise_that_is_drawn(method):
    priced, _ = method.price(TASK, 20_000, 0.05)
    assert isinstance(priced.event, GaussianNoise)
    assert Fraction(priced.event.mu) == 1 / (20_000 * Fraction(priced.sigma))
    weight = 1 if method.ledger == "gdp" else 2
    assert Fraction(priced.event.mu) ** 2 <= priced.cost * weight * UNIT


@pytest.mark.parametrize("method", [TransferGaussian(), TransferConcentrated()])
def test_mu_stays_within_what_privacy_allows(method):
    assert method.most(TASK) == math.inf
    assert method.limit_mu(TASK, 3.0) == 3.0
    most = method.most(CAPPED)
    assert method.limit_mu(CAPPED, most / 2) == most / 2
    assert method.limit_mu(CAPPED, most * 2) == most
    assert method.limit_mu(CAPPED.under("privacy"), most / 2) == most


def test_privacy_too_little_to_share_is_said_without_a_number_of_rows():
    error = too_little_privacy(TASK.asking(12_345))
    assert isinstance(error, InsufficientSamples)
    assert error.required is None
    assert "12,345 queries" in str(error)


@pytest.mark.parametrize("method", ["joint-gaussian", "transfer-gaussian-zcdp", "transfer-laplace"])
@pytest.mark.parametrize(("queries", "epsilon"), [(1_000_000_000, 1e-6), (100, 1e-16)])
def test_a_unit_cannot_be_shared(method, queries, epsilon):
    tiny = dataclasses.replace(TASK, queries=queries, epsilon=epsilon, delta=1e-20)
    with pytest.raises(InsufficientSamples, match="too little"):
        METHODS[method].design(tiny, 10_000)


class Valley(GaussianMethod):
    """A method whose best parameter is known: sqrt(queries)/(rows mu) + mu is least where its two terms are equal."""

    name = "valley"
    theorem = "arithmetic and geometric mean"

    def start(self, task, alpha):
        del task
        return [math.log(alpha / 4)]

    def terms(self, task, point, rows):
        del task, rows
        mu = math.exp(point[0])
        return 1.0, mu, mu, 1.0

    def certify_design(self, task, point, *, rows, sigma, cap):
        del point
        return Design(sigma + cap + grid(rows, bits=task.bits))


@pytest.mark.parametrize("rows", [1_000, 40_000, 10**6])
def test_the_best_parameters_are_found(rows):
    best = math.sqrt(math.sqrt(TASK.queries) / rows)
    found = Valley().design(TASK, rows)
    assert found.alpha == pytest.approx(2 * best, rel=1e-3)
    assert math.sqrt(found.cap * UNIT) == pytest.approx(best, rel=0.05)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.4])
def test_rows_are_those_at_which_the_best_parameters_reach_alpha(alpha):
    assert Valley().rows(TASK, alpha) == pytest.approx(4 * math.sqrt(TASK.queries) / alpha**2, rel=1e-3)


def test_no_rows_are_enough_below_the_grid():
    assert Valley().rows(TASK, 2.0**-40) == math.inf


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is(name):
    method = METHODS[name]
    assert method.name == name
    assert method.theorem
    assert method.fewest >= 1
    assert method.private or not method.shares  # there is no ledger to share


def test_what_is_frozen_before_data_reads_back_exactly():
    frozen = plan(rows=20_000, queries=100).transfer
    assert decode(encode(frozen), Transfer) == frozen
    split = plan(rows=20_000, queries=100, method="transfer-gaussian").transfer
    assert b"overshoot" in msgspec.json.encode(frozen)
    assert b"overshoot" not in msgspec.json.encode(split)  # plans that split beta keep the bytes they had


@pytest.mark.parametrize("text", ['{"epsilon": 0.1}', '{"surprise": 1}', "[]"])
def test_what_was_not_frozen_is_refused(text):
    with pytest.raises(InvalidParameter):
        decode(text, Transfer)

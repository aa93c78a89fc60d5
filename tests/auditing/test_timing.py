"""P9 for any callable: time that tells a row or a noise is found; time that tells nothing is not, on any machine."""

import itertools
import time

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht
from holdtrue.auditing import Finding, audit_draws
from holdtrue.auditing.timing import _centre_ranks, _grade_correlation

SURE = 1 - 1e-6


class Machine:
    """A clock of the test's own: it advances by what a run is said to take."""

    def __init__(self):
        self.now = 0

    def clock(self):
        return self.now


def test_p9_a_mechanism_that_sleeps_for_a_row_is_found():
    def leaking(rows):
        if rows[2]:
            time.sleep(0.001)

    finding = ht.audit_timing(leaking, [0, 1, 1], [0, 1, 0], samples=200, confidence=SURE)
    assert finding.violated
    assert finding.quantity == "AUC"
    assert finding.lower_bound > 0.6
    assert "the one on left took longer" in finding.event


def test_p9_a_mechanism_that_takes_no_notice_is_not_flagged():
    """Who is first is decided by a coin, so that no load of the machine makes a difference but for one in a million.

    Both sides are one object: where two objects lie in memory is a difference that a processor can tell in nanoseconds.
    """
    rows = [0, 1, 1]
    finding = ht.audit_timing(lambda _: sum(range(60)), rows, rows, auc=0.5, samples=4000, confidence=SURE)
    assert not finding.violated
    assert finding.lower_bound >= 0.5


def test_p9_drift_and_order_cancel(bits):
    """A machine that slows down all the time, and every second run more so."""
    machine, runs = Machine(), itertools.count()

    def run(_):
        number = next(runs)
        machine.now += 1000 + number + 500 * (number % 2)

    finding = ht.audit_timing(run, 0, 1, auc=0.5, samples=2000, confidence=SURE, clock=machine.clock, bits=bits)
    assert not finding.violated


@pytest.mark.parametrize(("share", "found"), [(0.25, True), (0.0, False)])
def test_p9_a_small_leak_is_bounded_below_its_truth(request, bits, share, found):
    """A run on the right takes longer in a share of the pairs: the AUC is 1/2 + share/2."""
    machine, random = Machine(), np.random.default_rng(len(request.node.name))

    def run(row):
        machine.now += int(random.integers(1000)) + (1000 if row and random.random() < share else 0)

    finding = ht.audit_timing(run, 0, 1, auc=0.5, samples=4000, confidence=SURE, clock=machine.clock, bits=bits)
    assert finding.violated == found
    assert finding.lower_bound <= 0.5 + share / 2
    assert Finding.read(finding.document) == finding


def test_ties_are_decided_by_coins(bits):
    assert not ht.audit_timing(lambda _: None, 0, 1, auc=0.5, confidence=SURE, clock=lambda: 0, bits=bits).violated


def test_p9_draw_time_of_our_mechanisms_tells_no_noise():
    for mechanism in (ht.Laplace(epsilon=0.01), ht.Gaussian(sigma=100)):
        assert not audit_draws(mechanism.release, samples=60_000, confidence=SURE).violated


@pytest.mark.parametrize(("jitter", "least"), [(1, 0.9), (400, 0.1)])
def test_p9_a_sampler_whose_time_grows_with_its_noise_is_found(request, jitter, least):
    mechanism, machine, random = ht.Laplace(epsilon=0.01), Machine(), np.random.default_rng(len(request.node.name))

    def planted(count):
        value = mechanism.release(count)
        machine.now += abs(value - count) + int(random.integers(jitter))
        return value

    finding = audit_draws(planted, samples=20_000, confidence=SURE, clock=machine.clock)
    assert finding.violated
    assert finding.quantity == "rank correlation"
    assert least < finding.lower_bound <= 1
    assert "longer" in finding.event


def triples(first, second):
    """The definition: the mean of 3 sign(x - x') sign(y - y'') over all ordered triples."""
    found = [
        3 * np.sign(first[i] - first[j]) * np.sign(second[i] - second[k])
        for i, j, k in itertools.permutations(range(len(first)), 3)
    ]
    return float(np.mean(found))


def test_what_a_triple_says_lies_within_one():
    """Hoeffding's bound needs the range of the kernel: all orders of three, ties included."""
    orders = list(itertools.product(range(3), repeat=3))
    assert max(abs(triples(one, other)) for one in orders for other in orders) == 1


@pytest.mark.parametrize("values", [1000, 7])
def test_rank_correlation_is_that_of_the_definition(request, values):
    random = np.random.default_rng(len(request.node.name))
    first = random.integers(values, size=40)
    second = first + random.integers(values, size=40)
    assert _grade_correlation(first, second) == pytest.approx(triples(first, second), abs=3 / 38)
    assert _grade_correlation(first, -second) == -_grade_correlation(first, second)
    np.testing.assert_allclose(_centre_ranks(first) + 20.5, stats.rankdata(first))


@pytest.mark.parametrize(
    ("audit", "message", "required"),
    [
        (lambda: ht.audit_timing(print, 0, 1, samples=5, auc=0.5), "use at least 6", 6),
        (lambda: ht.audit_timing(print, 0, 1, samples=23, confidence=SURE), "use at least 24", 24),
        (lambda: audit_draws(int, samples=20), "rank correlation above 0.02", 30),
    ],
)
def test_too_few_samples_say_how_many(audit, message, required):
    with pytest.raises(ht.InsufficientSamples, match=message) as error:
        audit()
    assert error.value.required == required


@pytest.mark.parametrize("change", [{"auc": 0.4}, {"auc": 1}, {"samples": 0}, {"confidence": 1}, {"confidence": 0}])
def test_bad_input_is_refused(change):
    with pytest.raises(ht.InvalidParameter, match=next(iter(change))):
        ht.audit_timing(print, 0, 1, **change)

"""T3, T7: filters never overspend, refuse what has no cost, and hold for trees of adaptively chosen events."""

import math
import threading
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from holdtrue.accounting import event_privacy
from holdtrue.accounting.filters import GaussianFilter, PureFilter, ZeroConcentratedFilter, largest_cap
from holdtrue.errors import BudgetExceeded, InvalidParameter, NotPrivate
from holdtrue.events import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianNoise,
    NoCost,
    NonPrivate,
    Pure,
    Repeated,
    ZeroConcentrated,
)
from holdtrue.exact import UNIT

FILTERS = [PureFilter.of(1.7), ZeroConcentratedFilter.of(0.3), GaussianFilter.of(0.9)]


def random_event(rng):
    size = float(10 ** rng.uniform(-3, 0.3))
    kinds = [
        lambda: Pure(size),
        lambda: BoundedRange(size),
        lambda: DiscreteLaplace(size, int(rng.integers(1, 50))),
        lambda: GaussianNoise(size),
        NoCost,
        lambda: Repeated(Pure(size / 4), int(rng.integers(1, 5))),
        lambda: Composed([BoundedRange(size / 2), Pure(size / 3)]),
        NonPrivate,
        lambda: Approximate(size, 1e-6),
        lambda: DiscreteGaussian(1 / size, 1),
        lambda: ZeroConcentrated(size),
    ]
    return kinds[rng.integers(len(kinds))]()


@pytest.mark.parametrize("guard", FILTERS, ids=lambda guard: guard.currency)
def test_t3_random_streams_never_overspend(rng, guard):
    refused = unpaid = 0
    pool = [random_event(rng) for _ in range(400)]
    for _ in range(10**4):
        spent, costs = 0, []
        for index in rng.integers(len(pool), size=8):
            before = spent
            try:
                spent = guard.charge(spent, event=pool[index])
            except BudgetExceeded:
                refused += 1
                assert spent == before
                assert not guard.admits(spent, cost=guard.cost(pool[index]))
            except NotPrivate:
                unpaid += 1
                assert spent == before
            else:
                costs.append(spent - before)
        assert sum(costs) == spent <= guard.budget
    assert refused > 1000
    assert unpaid > 1000


def test_t3_concurrent_charges_never_overspend():
    guard, lock = PureFilter.of(1), threading.Lock()
    state = {"spent": 0, "granted": 0}

    def analyst():
        for _ in range(100):
            with lock:
                try:
                    state["spent"] = guard.charge(state["spent"], event=Pure(Fraction(1, 100)))
                except BudgetExceeded:
                    continue
                state["granted"] += 1

    threads = [threading.Thread(target=analyst) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state == {"spent": guard.budget, "granted": 100}


def test_costs_are_rounded_up_and_caps_down():
    third = Fraction(1, 3)
    assert PureFilter.of(third).budget * UNIT < third < PureFilter.of(1).cost(Pure(third)) * UNIT
    assert GaussianFilter.of(1).cost(GaussianNoise(third)) == math.ceil(third**2 / UNIT)
    assert ZeroConcentratedFilter.of(1).cost(GaussianNoise(third)) == math.ceil(third**2 / 2 / UNIT)
    assert GaussianFilter.of(third).budget == math.floor(third**2 / UNIT)
    assert GaussianFilter.of(1).cost(Pure(1)) >= Fraction(event_privacy.mu(Pure(1))) ** 2 / UNIT
    assert PureFilter.of(1).cost(Pure(Fraction(1, 10**30))) == 1
    assert PureFilter.of(3).charge(0, event=Repeated(Pure(1), 3)) == PureFilter.of(3).budget


def test_floats_that_do_not_add_up_still_do():
    guard, spent = PureFilter.of(Fraction(1)), 0
    for _ in range(10):
        spent = guard.charge(spent, event=Pure(Fraction(1, 10)))
    assert spent == guard.budget
    with pytest.raises(BudgetExceeded, match="epsilon"):
        guard.charge(spent, event=Pure(Fraction(1, 10**20)))


@pytest.mark.parametrize(
    ("guard", "event"),
    [
        (PureFilter.of(1), GaussianNoise(1)),
        (PureFilter.of(1), ZeroConcentrated(1)),
        (PureFilter.of(1), Approximate(1, 1e-9)),
        (PureFilter.of(1), NonPrivate()),
        (ZeroConcentratedFilter.of(1), Approximate(1, 1e-9)),
        (ZeroConcentratedFilter.of(1), NonPrivate()),
        (GaussianFilter.of(1), DiscreteGaussian(10)),
        (GaussianFilter.of(1), ZeroConcentrated(1)),
        (GaussianFilter.of(1), Approximate(1, 1e-9)),
        (GaussianFilter.of(1), NonPrivate()),
        (GaussianFilter.of(1), Composed([Pure(1), Repeated(DiscreteGaussian(10), 2)])),
    ],
)
def test_an_event_without_a_cost_is_refused(guard, event):
    with pytest.raises(NotPrivate, match=guard.currency):
        guard.cost(event)


def test_every_event_with_a_cost_is_accepted():
    for event in (Pure(1), BoundedRange(1), DiscreteLaplace(1, 3), Approximate(1, 0), NoCost()):
        for guard in FILTERS:
            assert guard.cost(event) >= 0
    assert ZeroConcentratedFilter.of(1).cost(DiscreteGaussian(10, 2)) == math.ceil(Fraction(4, 200) / UNIT)
    assert PureFilter.of(1).cost(NoCost()) == 0


def test_the_guarantee_is_that_of_the_cap():
    assert PureFilter.of(0.5).epsilon(0) == 0.5
    assert GaussianFilter.of(1).epsilon(1e-6) == pytest.approx(4.88655, abs=1e-5)
    assert ZeroConcentratedFilter.of(0.5).epsilon(1e-6) == pytest.approx(5.22153, abs=1e-5)
    for epsilon, delta in [(1, 1e-6), (0.1, 1e-9), (5, 1e-3)]:
        caps = largest_cap("gdp", epsilon, delta), largest_cap("zcdp", epsilon, delta)
        for guard in (GaussianFilter(caps[0]), ZeroConcentratedFilter(caps[1])):
            assert epsilon * (1 - 1e-6) <= guard.epsilon(delta) <= epsilon * (1 + 1e-12)
    assert GaussianFilter(largest_cap("gdp", 1, 1e-6)).mu == pytest.approx(0.2367, abs=1e-4)


def test_filters_are_values():
    assert PureFilter.of(1) == PureFilter.of(Fraction(1))
    assert PureFilter.of(1) != ZeroConcentratedFilter.of(1)
    with pytest.raises(FrozenInstanceError):
        PureFilter.of(1).budget = 5


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "1"])
def test_bad_caps_are_refused(bad):
    for make in (PureFilter.of, ZeroConcentratedFilter.of, GaussianFilter.of):
        with pytest.raises(InvalidParameter):
            make(bad)
    with pytest.raises(InvalidParameter, match="1e-15"):
        PureFilter.of(Fraction(1, 10**16))
    with pytest.raises(InvalidParameter, match="cost"):
        PureFilter.of(1).admits(0, cost=-1)
    with pytest.raises(InvalidParameter, match="spent"):
        PureFilter.of(1).admits(0.5, cost=1)


def tree(rng, guard, spent, depth):
    """Return the laws of all transcripts of an analyst who picks kind and epsilon by the answers so far, and may stop."""
    if depth == 0:
        return np.ones(1), np.ones(1)
    kind = (Pure, BoundedRange)[rng.integers(2)]
    epsilon = float(rng.uniform(0.05, 0.9))
    cost = guard.cost(kind(epsilon))
    if not guard.admits(spent, cost=cost):
        return np.ones(1), np.ones(1)
    if kind is Pure:
        keep = 1 / (1 + math.exp(-epsilon))
        first, second = keep, 1 - keep
    else:
        second = float(rng.uniform(0.02, 0.98))
        odds = math.exp(epsilon) * second / (1 - second)
        first = odds / (1 + odds)
    yes, no = (tree(rng, guard, spent + cost, depth - 1) for _ in range(2))
    p = np.concatenate([first * yes[0], (1 - first) * no[0]])
    q = np.concatenate([second * yes[1], (1 - second) * no[1]])
    return p, q


@pytest.mark.parametrize("guard", [PureFilter.of(1), ZeroConcentratedFilter.of(0.1), GaussianFilter.of(0.6)], ids=str)
def test_t3_exact_trees_of_adaptive_events_stay_within_the_guarantee(rng, guard):
    deltas = [1e-6, 1e-3, 0.02, 0.1]
    allowed = [guard.epsilon(delta) for delta in deltas]
    closest = 0.0
    for _ in range(300):
        p, q = tree(rng, guard, 0, 7)
        for a, b in ((p, q), (q, p)):
            for epsilon, delta in zip(allowed, deltas, strict=True):
                found = float(np.maximum(a - math.exp(epsilon) * b, 0).sum())
                assert found <= delta + 1e-12
                closest = max(closest, found / delta)
    assert closest > 0 or isinstance(guard, PureFilter)

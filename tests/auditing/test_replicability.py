"""V6.5: two runs with shared coins, exactly and by audit; a planted fault; and that no ledger takes part."""

import itertools

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.auditing import SharedCoins
from holdtrue.bounds.selection import least_agreement, shared_agreement
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.testing import SeededBits
from laws import generator

ERRORS = 0.2 + 0.01 * np.arange(20)


def draw_counts(bits, rows=200):
    """Return how many of so many rows each of 20 hypotheses gets right, on a sample of their own."""
    source = np.random.default_rng(int(bits.words(1)[0]))
    return rows - source.binomial(rows, ERRORS)


def learn_with(epsilon):
    return lambda scores, coins: coins.choose(scores, epsilon=epsilon)


def test_v6_5_exact_formula_against_draws(request):
    source = generator(request)
    p, q = source.dirichlet(np.ones(6)), source.dirichlet(np.ones(6))
    noise = source.gumbel(size=(200_000, 6))
    same = np.mean((np.log(p) + noise).argmax(axis=1) == (np.log(q) + noise).argmax(axis=1))
    assert shared_agreement(p, q) == pytest.approx(same, abs=0.006)
    fresh = np.mean((np.log(p) + noise).argmax(axis=1) == (np.log(q) + source.gumbel(size=noise.shape)).argmax(axis=1))
    assert abs(fresh - same) > 0.05, "fresh coins would be told apart"


def test_v6_5_picks_agree_at_least_as_often_as_the_total_variation_says(request):
    source = generator(request)
    for _ in range(60):
        size = int(source.integers(2, 12))
        p, q = source.dirichlet(np.ones(size)), source.dirichlet(np.ones(size))
        apart = abs(p - q).sum() / 2
        assert shared_agreement(p, q) >= least_agreement(apart) - 1e-12
    assert shared_agreement([0.5, 0.5, 0], [0.5, 0, 0.5]) == pytest.approx(least_agreement(0.5)), "attained"
    assert shared_agreement([0.3, 0.7], [0.3, 0.7]) == pytest.approx(1)
    with pytest.raises(InvalidParameter):
        shared_agreement([0.5, 0.6], [0.5, 0.5])


def test_v6_5_learning_twice_with_one_seed_and_the_planted_fault_of_fresh_coins():
    """20 hypotheses 0.01 apart, 200 rows, epsilon 0.02: the same pick in about 95 of 100 pairs, and hardly ever without."""
    bits = SeededBits("v6.5 audit")
    found = ht.audit_replicability(learn_with(0.02), draw_counts, claim=0.92, runs=1500, confidence=0.999, bits=bits)
    assert not found.violated
    fresh = itertools.count()

    def forget_coins(scores, _):
        return SharedCoins(str(next(fresh)).encode()).choose(scores, epsilon=0.02)

    broken = ht.audit_replicability(forget_coins, draw_counts, claim=0.92, runs=200, bits=bits)
    assert broken.violated
    assert "differ" in str(broken)


def test_v6_5_every_candidate_has_a_stream_of_its_own():
    """More bits for one candidate leave all others as they are; in one common stream they shift, and runs part."""
    coins = SharedCoins(b"one")
    before = [coins.draw_gumbel(index) for index in range(10)]
    assert coins.draw_uniform(3, place=1) != coins.draw_uniform(3)
    assert [coins.draw_gumbel(index) for index in range(10)] == before
    agreed = {"own": 0, "common": 0}
    for number in range(300):
        coins = SharedCoins(str(number).encode())
        noise = [coins.draw_gumbel(index) for index in range(21)]
        agreed["own"] += np.argmax(noise[:20]) == np.argmax(noise[:20])
        agreed["common"] += np.argmax(noise[:20]) == np.argmax(noise[1:21])
    assert agreed["own"] == 300
    assert agreed["common"] < 60


def test_v6_5_no_ledger_takes_part():
    with ht.Curator({"x": np.arange(2000.0)}, queries=5, epsilon=1, delta=1e-6) as curator:
        with pytest.raises(InvalidParameter, match="touches no ledger"):
            ht.audit_replicability(curator.ask, draw_counts, claim=0.9)
        assert curator.ledger.newest() == 0
    with pytest.raises(InvalidParameter, match="fresh sample"):
        ht.audit_replicability(learn_with(1), None, claim=0.9)
    with pytest.raises(InsufficientSamples):
        ht.audit_replicability(learn_with(1), draw_counts, claim=0.5, runs=2)

"""One-run audits: the pins, the slack's term, and canaries from coins."""

import math

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.auditing.one_run import Canaries, audit_one_run, chance_of_guesses, one_run_epsilon


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "epsilon"),
    [
        (100, 100, 75, 0.0, 0.7022139),
        (100, 100, 75, 1e-4, 0.6994668),
        (1000, 100, 75, 1e-4, 0.6729847),
        (100_000, 1510, 1439, 1e-5, 2.6758510),
        (10_000, 10_000, 9820, 1e-5, 3.8713169),
        (16, 16, 16, 0.0, 1.5803231),
    ],
)
def test_lower_bounds_are_the_published_ones(canaries, guesses, right, delta, epsilon):
    found = one_run_epsilon(right, guesses=guesses, canaries=canaries, delta=delta)
    assert found == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize(("canaries", "epsilon"), [(16, 1.5798), (64, 3.0364), (128, 3.7396), (512, 5.1245)])
def test_a_perfect_guesser(canaries, epsilon):
    assert one_run_epsilon(canaries, guesses=canaries, canaries=canaries, delta=1e-5) == pytest.approx(epsilon, abs=1e-4)
    closed = -math.log(0.05 ** (-1 / canaries) - 1)
    assert one_run_epsilon(canaries, guesses=canaries, canaries=canaries) == pytest.approx(closed, abs=1e-9)


def test_the_chance_of_guesses_and_the_term_of_the_slack():
    assert chance_of_guesses(75, guesses=100, canaries=100, epsilon=math.log(3)) == pytest.approx(0.5534708, abs=1e-6)
    without = one_run_epsilon(1439, guesses=1510, canaries=100_000)
    assert without == pytest.approx(2.8062068, abs=1e-6)
    assert one_run_epsilon(1439, guesses=1510, canaries=100_000, delta=1e-5) < without


def test_guesses_about_noise_prove_nothing_and_a_leak_is_flagged(bits):
    canaries = Canaries.drawn(2000, bits=bits)
    assert 0.4 < canaries.included.mean() < 0.6
    noise = np.random.default_rng(3).normal(size=2000)
    assert canaries.audit(noise, guesses=400, epsilon=1.0).lower_bound < 0.5
    leak = canaries.included + 0.3 * noise
    found = canaries.audit(leak, guesses=400, epsilon=1.0, delta=1e-6)
    assert found.violated
    assert "400 guesses about 2,000 canaries" in found.event
    assert canaries.right(leak, guesses=2000) == 2000 - int(((leak > np.median(leak)) != canaries.included).sum())


def test_groups_of_rows_share_the_bound():
    single = audit_one_run(100, guesses=100, canaries=100, epsilon=1.0)
    pair = audit_one_run(100, guesses=100, canaries=100, epsilon=1.0, group=2)
    assert pair.lower_bound == pytest.approx(single.lower_bound / 2)
    with pytest.raises(ht.InvalidParameter, match="group must be 1 where delta"):
        audit_one_run(100, guesses=100, canaries=100, epsilon=1.0, delta=1e-6, group=2)


def test_bad_input_is_refused():
    with pytest.raises(ht.InvalidParameter, match="right must be at most the number of guesses, 10"):
        one_run_epsilon(11, guesses=10, canaries=10)
    with pytest.raises(ht.InvalidParameter, match="at most the number of canaries"):
        one_run_epsilon(5, guesses=11, canaries=10)
    with pytest.raises(ht.InsufficientSamples, match="62 could") as short:
        audit_one_run(16, guesses=16, canaries=16, epsilon=3.0)
    assert short.value.required == 62
    with pytest.raises(ht.InvalidParameter, match="scores"):
        Canaries(np.ones(4, dtype=bool)).right([1.0, 2.0], guesses=2)

"""Holdtrue's own mechanisms: never more than they claim, and nearly all of it where the worst pair is known."""

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.auditing import audit_privacy, audit_stability
from holdtrue.testing import SeededBits, drawing_from

SAMPLES = 100_000
SURE = 0.9999
# (mechanism, left, right, whether this pair is the worst)
CASES = {
    "laplace": (ht.Laplace(epsilon=1), 0, 1, True),
    "laplace in steps of ten": (ht.Laplace(epsilon=0.5, sensitivity=10), 0, 10, True),
    "exponential": (ht.Exponential(epsilon=1), [0] * 16 + [1], [1] * 16 + [0], True),
    "permute and flip": (ht.PermuteAndFlip(epsilon=1), [0, 1], [1, 0], False),
    "gaussian": (ht.Gaussian(sigma=64, sensitivity=64), 0, 64, True),
}


def _many(mechanism):
    def run(data, n):
        return mechanism.release(
            np.tile(np.asarray(data), (n, 1)).squeeze(axis=1) if np.ndim(data) == 0 else np.tile(data, (n, 1))
        )

    return run


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_mechanism_is_as_private_as_it_claims_and_no_more(name):
    """Sure enough that an audit from any bits would pass."""
    mechanism, left, right, worst = CASES[name]
    delta = 0.02 if name == "gaussian" else 0.0
    claimed = mechanism.epsilon(delta)
    bits = SeededBits(f"audit of {name}")
    run = _many(drawing_from(mechanism, bits))
    found = audit_privacy(run, left, right, epsilon=claimed, delta=delta, samples=SAMPLES, confidence=SURE, bits=bits)
    assert not found.violated
    assert found.lower_bound >= (0.8 if worst else 0.5) * claimed
    half = audit_privacy(run, left, right, epsilon=0.4 * claimed, delta=delta, samples=SAMPLES, confidence=SURE, bits=bits)
    assert half.violated


def test_above_threshold_is_as_private_as_it_claims():
    bits = SeededBits("audit of above threshold")
    mechanism = drawing_from(ht.AboveThreshold(epsilon=2.0), bits)

    def run(data, n):
        return [mechanism.release(data) for _ in range(n)]

    found = audit_privacy(run, [0, 0, 0], [1, 1, -1], epsilon=2.0, samples=8000, confidence=SURE, bits=bits)
    assert 0.2 < found.lower_bound <= 2.0


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_total_variation_is_what_is_claimed(name):
    mechanism, left, right, _ = CASES[name]
    bits = SeededBits(f"stability of {name}")
    found = audit_stability(
        _many(drawing_from(mechanism, bits)), left, right, tv=mechanism.tv, samples=SAMPLES, confidence=SURE, bits=bits
    )
    assert not found.violated
    assert found.lower_bound >= 0.9 * mechanism.tv

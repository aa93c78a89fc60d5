"""Attacks on a gate (V1.3): the rule by depth keeps beta, and three rules that look right are refuted by the same climbs.

``HOLDTRUE_CLIMBS=10000`` makes the long run of it (``make soak``); ``make reproduce NAME=gate`` prints it.
"""

import os

import numpy as np
import pytest

from holdtrue.bounds.gate_levels import depth_levels, pairs_tail
from holdtrue.holdouts import Holdout
from reproductions.gate import ATTACKS, BETA, FAULTS, bound_rate, climb_with_gains, make_rule

RUNS = int(os.environ.get("HOLDTRUE_CLIMBS", "1000"))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=lambda attack: attack.__name__)
def test_v1_false_promotions_by_depth_are_at_most_beta(attack):
    false, true = attack("by depth", RUNS, 11)
    assert bound_rate(false, RUNS, upper=True) <= BETA
    assert true > 1 or attack is not climb_with_gains  # true promotions did come in between


@pytest.mark.parametrize(
    ("attack", "fault"),
    [(attack, fault) for attack, faults in FAULTS.items() for fault in faults],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_v1_planted_faults_are_refuted(attack, fault):
    runs = RUNS // 2
    false, _ = attack(fault, runs, 12)
    assert bound_rate(false, runs, upper=False) > BETA


def test_v1_the_climbs_are_judged_as_the_product_judges():
    rule = make_rule("by depth", cases=60, looks=100, yes=5)
    for after, level in enumerate(depth_levels(100, yes=5, beta=BETA)):
        for differing in (0, 1, 10, 37, 60):
            fewest = [wins for wins in range(differing + 1) if pairs_tail(wins, differing) <= -level]
            assert rule.table[after, differing] == min(fewest, default=differing + 1)


def test_v1_a_climb_through_the_product_itself():
    """Twenty climbs on label noise by public calls, where every yes is false; "strictly greater" says very many."""
    random, naive, false = np.random.default_rng(1718), 0, 0
    for _ in range(20):
        truth, best = random.integers(0, 2, (2, 100))
        plain = best
        with Holdout(truth, looks=30, yes=3, incumbent=best, unseen=True) as gate:
            for _ in range(30):
                if not gate.looks_left:
                    break
                flips = random.random(100) < 0.2
                false += gate.gate(np.where(flips, 1 - best, best)).yes
                tried = np.where(flips, 1 - plain, plain)
                if (tried == truth).sum() > (plain == truth).sum():
                    plain, naive = tried, naive + 1
    assert bound_rate(min(20, false), 20, upper=False) <= BETA
    assert naive > 50

"""Terms of a holdout: which go together, what is frozen of them, and what must be said again as it was."""

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.bounds.accuracy import grid
from holdtrue.codec import decode, encode
from holdtrue.exact import UNIT
from holdtrue.holdouts.cases import BITS
from holdtrue.holdouts.terms import (
    Facts,
    counting_plan,
    ladder_numbers,
    scoring_plan,
    sparse_numbers,
    sparse_plan,
    stored_facts,
    widen_for_rounding,
)

TRUTH = np.random.default_rng(list(b"terms of a holdout")).integers(0, 2, 2_000)


@pytest.mark.parametrize(
    ("terms", "named"),
    [
        ({"yes": 2, "overfits": 2}, "yes"),
        ({"yes": 2, "train": TRUTH}, "yes"),
        ({"overfits": 2}, "overfits"),
        ({"train": TRUTH}, "overfits"),
        ({"yes": 0}, "yes"),
        ({"looks": 0}, "looks"),
        ({"beta": 0}, "beta"),
        ({"private": "no"}, "private"),
        ({"metric": "auc", "yes": 2}, "metric"),
        ({"weights": np.ones(2_000), "yes": 2}, "weights"),
        ({"weights": np.ones(2_000), "private": False}, "weights"),
        ({"epsilon": 1.0, "private": False}, "epsilon"),
        ({"epsilon": 1.0, "yes": 2}, "epsilon"),
    ],
)
def test_terms_that_do_not_go_together_are_named(tmp_path, terms, named):
    with pytest.raises(ht.InvalidParameter, match=named):
        ht.Holdout(TRUTH, ledger=tmp_path / "h.ledger", **{"looks": 5} | terms)
    assert stored_facts(tmp_path / "h.ledger") is None


@pytest.mark.parametrize(
    ("terms", "mode", "private"),
    [
        ({}, "scores", True),
        ({"private": False}, "rounding", False),
        ({"yes": 2}, "gate", False),
        ({"yes": 2, "private": True}, "private gate", True),
        ({"train": TRUTH, "overfits": 2}, "thresholdout", True),
        ({"train": TRUTH, "overfits": 2, "private": False}, "guess-and-check", False),
    ],
)
def test_what_is_frozen_is_read_back_from_the_ledger(tmp_path, terms, mode, private):
    place = tmp_path / "h.ledger"
    with ht.Holdout(TRUTH, looks=5, ledger=place, **terms) as holdout:
        facts, plan = stored_facts(place)
        assert facts == holdout.facts
    assert (facts.mode, facts.private, facts.looks) == (mode, private, 5)
    assert plan.rows == 2_000
    assert decode(encode(facts), Facts) == facts
    facts.agree({"looks": 5, "beta": None})
    with pytest.raises(ht.InvalidParameter, match="as the ledger was created with"):
        facts.agree({"looks": 6})
    with pytest.raises(ht.InvalidParameter, match="looks"):
        ht.Holdout(TRUTH, looks=6, ledger=place, **terms)


def test_other_ledgers_are_told_apart(tmp_path):
    with ht.Curator({"age": np.arange(100)}, queries=5, epsilon=1, delta=1e-6, ledger=tmp_path / "c.ledger"):
        pass
    with pytest.raises(ht.RefusedError, match="not to a holdout"):
        stored_facts(tmp_path / "c.ledger")
    assert stored_facts(None) is None


def test_an_epsilon_adds_noise_where_the_best_would_spend_more():
    free = sparse_numbers(50_000, looks=100, runs=5, beta=0.05, epsilon=None)
    tight = sparse_numbers(50_000, looks=100, runs=5, beta=0.05, epsilon=0.02)
    assert tight.scale > free.scale
    assert tight.alpha > free.alpha
    plan = sparse_plan(50_000, tight, looks=100, runs=5, beta=0.05, method="m", theorem="t")
    assert plan.cap_units * UNIT <= 0.02
    assert sparse_plan(50_000, free, looks=100, runs=5, beta=0.05, method="m", theorem="t").cap_units * UNIT > 0.02
    assert ladder_numbers(50_000, looks=100, moves=5, beta=0.05, epsilon=0.02).scale == pytest.approx(tight.scale)


def test_every_run_is_charged_for_its_threshold_and_its_release():
    found = sparse_numbers(5_000, looks=100, runs=5, beta=0.05, epsilon=None)
    plan = sparse_plan(5_000, found, looks=100, runs=5, beta=0.05, method="m", theorem="t", level=0.1)
    assert plan.cap_units * float(UNIT) == pytest.approx(5 * 2 / (found.scale * 5_000))
    assert plan.cap_units * UNIT >= 10 / (found.scale * 5_000) * (1 - 1e-12)
    assert plan.alpha == pytest.approx(widen_for_rounding(0.1 + found.alpha, 5_000))


def test_modes_without_privacy_promise_none():
    plan = counting_plan(5_000, looks=7, beta=0.05, alpha=0.1, method="gate", theorem="t")
    assert (plan.epsilon, plan.delta, plan.ledger, plan.cap_units, plan.cost) == (0.0, 1.0, None, 7, 1)
    assert not plan.private


def test_widths_above_one_are_refused():
    with pytest.raises(ht.InsufficientSamples, match="see plan_holdout"):
        counting_plan(10, looks=7, beta=0.05, alpha=1.0, method="gate", theorem="t")
    found = sparse_numbers(5_000, looks=100, runs=5, beta=0.05, epsilon=None)
    with pytest.raises(ht.InsufficientSamples, match="see plan_holdout"):
        sparse_plan(5_000, found, looks=100, runs=5, beta=0.05, method="m", theorem="t", level=1.0)


def test_rounding_is_part_of_the_width():
    assert widen_for_rounding(0.1, 1_000) - 0.1 >= grid(1_000, bits=BITS)
    assert widen_for_rounding(0.1, 1_000) < 0.1001


def test_full_scores_are_planned_as_questions():
    plan = scoring_plan(5_000, looks=20, beta=0.05, epsilon=None, delta=None, reserve=0.25)
    assert (plan.queries, plan.rows, plan.rule, plan.ledger) == (20, 5_000, "validity", "gdp")
    assert plan.reserve_units > 0

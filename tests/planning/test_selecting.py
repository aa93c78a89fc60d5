"""The plan for a private choice (B5, N5)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import holdtrue as ht
from holdtrue.accounting import closed_forms
from holdtrue.codec import decode, encode
from holdtrue.errors import InvalidParameter
from holdtrue.planning.selecting import SelectionPlan, plan_selection
from holdtrue.testing import drawing_from
from laws import generator


def test_n5_shortfall_in_rows():
    plan = plan_selection(candidates=50, epsilon=0.5, beta=0.05)
    assert plan.shortfall == pytest.approx(4 * (math.log(50) + math.log(20)), rel=1e-9)
    assert (plan.mu, plan.rho) == (closed_forms.bounded_range_mu(0.5), closed_forms.bounded_range_rho(0.5))


@pytest.mark.parametrize("kind", [ht.Exponential, ht.PermuteAndFlip])
def test_n5_shortfall_holds_in_simulation(request, bits, kind):
    draws, plan = 100_000, plan_selection(candidates=50, epsilon=0.5, beta=0.05)
    # The worst scores: one best, all others together just as low as the bound speaks of.
    scores = np.zeros(50, dtype=np.int64)
    scores[generator(request).integers(50)] = math.ceil(plan.shortfall)
    mechanism = drawing_from(kind(epsilon=0.5), bits)
    chosen = mechanism.release(np.broadcast_to(scores, (draws, 50)).copy())
    missed = int(np.sum(scores[chosen] <= scores.max() - plan.shortfall))
    assert (0.0 if missed == 0 else stats.beta.ppf(1e-6, missed, draws - missed + 1)) <= 0.05


def test_n5_bound_is_nearly_attained_and_a_smaller_one_fails():
    plan = plan_selection(candidates=50, epsilon=0.5, beta=0.05)
    weight = 49 * math.exp(-plan.shortfall / 4)
    assert weight / (1 + weight) == pytest.approx(0.0467, abs=1e-3)
    short = 49 * math.exp(-0.9 * plan.shortfall / 4)
    assert short / (1 + short) > 0.05


@pytest.mark.parametrize("candidates", [2, 50, 10**6])
@pytest.mark.parametrize("parameters", [{}, {"monotone": True}, {"range": Fraction(1, 3)}, {"sensitivity": 4}])
def test_n5_inverse_leads_back(candidates, parameters):
    plan = plan_selection(candidates=candidates, shortfall=30, beta=0.01, **parameters)
    assert plan.shortfall == 30
    again = plan_selection(candidates=candidates, epsilon=plan.epsilon, beta=0.01, **parameters)
    assert again.shortfall <= 30
    assert again.shortfall == pytest.approx(30, rel=1e-9)


def test_n5_range_of_the_scores():
    assert plan_selection(candidates=5, epsilon=1, beta=0.1).range == 2
    assert plan_selection(candidates=5, epsilon=1, beta=0.1, monotone=True).range == 1
    assert plan_selection(candidates=5, epsilon=1, beta=0.1, sensitivity=3).range == 6
    half = plan_selection(candidates=5, epsilon=1, beta=0.1, range=1).shortfall
    assert plan_selection(candidates=5, epsilon=1, beta=0.1).shortfall == pytest.approx(2 * half)


def test_n5_one_candidate_misses_nothing():
    assert plan_selection(candidates=1, epsilon=1, beta=0.1).shortfall == 0
    with pytest.raises(InvalidParameter, match="candidates"):
        plan_selection(candidates=1, shortfall=3, beta=0.1)


def test_plan_reads_back_as_it_was_written():
    plan = plan_selection(candidates=7, epsilon=0.3, beta=0.01)
    assert decode(encode(plan), SelectionPlan) == plan
    assert str(plan).splitlines()[0] == "a private choice among 7 candidates"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"epsilon": None}, "either epsilon or shortfall"),
        ({"shortfall": 3}, "either epsilon or shortfall"),
        ({"candidates": 0}, "candidates"),
        ({"beta": 1}, "beta"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": None, "shortfall": 0}, "shortfall"),
        ({"range": 1, "monotone": True}, "monotone"),
        ({"sensitivity": 0}, "sensitivity"),
    ],
)
def test_bad_parameters_are_named(change, word):
    with pytest.raises(InvalidParameter, match=word):
        plan_selection(**({"candidates": 5, "epsilon": 1, "beta": 0.1} | change))

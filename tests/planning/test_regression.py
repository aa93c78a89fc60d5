"""Plans for linear models: any two of rows, excess and privacy give the third (E14, E16, V5, V6.2)."""

import json
import math

import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.bounds.stability import best_travel, fit_excess, gaussian_noise, laplace_noise, travel_excess
from holdtrue.codec import decode, encode
from holdtrue.command import application


@pytest.mark.parametrize(
    ("rows", "once", "each", "smooth"),
    [(1_000, 0.1019, 0.1095, 0.0642), (10_000, 0.0322, 0.0346, 0.0201), (100_000, 0.0102, 0.0110, 0.0063)],
)
def test_v5_the_excess_is_that_of_the_sheet(rows, once, each, smooth):
    """R = L = 1, mu = epsilon = 1/2, smoothness 1/4."""
    assert ht.plan_regression(rows=rows, mu=0.5).excess == pytest.approx(once, abs=1e-4)
    assert ht.plan_regression(rows=rows, epsilon=0.5).excess == pytest.approx(each, abs=1e-4)
    assert ht.plan_regression(rows=rows, epsilon=0.5, smoothness=0.25).excess == pytest.approx(smooth, abs=1e-4)


def test_v5_the_rows_are_those_of_the_sheet():
    assert ht.plan_regression(excess=0.05, mu=0.5).rows == 4_154
    assert ht.plan_regression(excess=0.05, epsilon=0.5).rows == 4_800
    fewest = ht.plan_regression(excess=0.05, epsilon=0.5, smoothness=0.25).rows
    assert ht.plan_regression(rows=fewest, epsilon=0.5, smoothness=0.25).excess <= 0.05
    assert ht.plan_regression(rows=fewest - 1, epsilon=0.5, smoothness=0.25).excess > 0.05


@pytest.mark.parametrize("terms", [{"release": "once"}, {"release": "each"}, {"release": "each", "smoothness": 0.25}])
def test_any_two_give_the_third(terms):
    shape = {"radius": 2, "loss_lipschitz": 0.5, "predictor_lipschitz": 1.5} | terms
    private = ht.plan_regression(rows=20_000, excess=0.06, **shape)
    given = {"mu": private.mu} if terms["release"] == "once" else {"epsilon": private.epsilon}
    assert ht.plan_regression(rows=20_000, **given, **shape).excess == pytest.approx(0.06, rel=1e-9)
    assert ht.plan_regression(excess=0.06, **given, **shape).rows == pytest.approx(20_000, abs=1)
    assert private.within(0.1) == pytest.approx(0.6)
    assert decode(encode(private), ht.RegressionPlan) == private


def test_v5_the_strength_and_the_travel_are_the_best():
    """The formula of the strength is the least of the sum on a fine grid; a strength 10 % off is not."""
    plan = ht.plan_regression(rows=1_000, mu=0.5)
    given = {"rows": 1_000, "radius": 1, "loss_lipschitz": 1, "loss_smoothness": None, "noise": _normal}
    best = min(fit_excess(strength=plan.strength * (1 + step / 1e5), **given).total for step in range(-50, 51))
    assert plan.excess == pytest.approx(best, rel=1e-9)
    assert fit_excess(strength=1.1 * plan.strength, **given).total > plan.excess * (1 + 1e-3)
    smooth = {"rows": 1_000, "radius": 1, "loss_lipschitz": 1, "loss_smoothness": 0.25, "noise": _laplace}
    found = travel_excess(travel=best_travel(**smooth), **smooth).total
    assert found <= min(travel_excess(travel=math.exp(step / 50), **smooth).total for step in range(-200, 400))


def test_v6_2_at_the_free_epsilon_noise_costs_as_much_as_sampling():
    for rows, sheet in ((10**4, 0.0354), (10**6, 0.0112)):
        free = ht.plan_regression(rows=rows, epsilon=1, smoothness=0.25).free_epsilon
        assert free == pytest.approx(sheet, abs=1e-4)
        assert ht.plan_regression(rows=rows, epsilon=free, smoothness=0.25).excess <= 4 / math.sqrt(rows) * (1 + 1e-9)
    assert ht.plan_regression(rows=100, mu=1).free_epsilon is None


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"rows": 100},
        {"rows": 100, "mu": 1, "epsilon": 1},
        {"rows": 100, "mu": 1, "excess": 0.1},
        {"rows": 100, "mu": 1, "release": "each"},
        {"rows": 100, "epsilon": 1, "release": "once"},
        {"rows": 100, "epsilon": 1, "release": "twice"},
        {"rows": 0, "mu": 1},
        {"rows": 100, "mu": 0},
        {"excess": -1, "mu": 1},
        {"rows": 100, "mu": 1, "radius": 0},
        {"rows": 100, "mu": 1, "loss_lipschitz": -1},
        {"rows": 100, "mu": 1, "smoothness": 0},
    ],
)
def test_a_plan_that_is_not_one_is_refused(given):
    with pytest.raises(ht.InvalidParameter):
        ht.plan_regression(**given)


def test_an_excess_that_no_privacy_reaches_says_how_many_rows_would():
    with pytest.raises(ht.InsufficientSamples, match="even without privacy") as found:
        ht.plan_regression(rows=100, excess=0.05)
    assert ht.plan_regression(rows=found.value.required, excess=0.05).excess == 0.05


def test_the_command_plans_a_regression():
    said = CliRunner().invoke(application, ["plan", "regression", "--excess", "0.05", "--mu", "0.5"])
    assert "4,154 rows" in said.output
    written = CliRunner().invoke(application, ["plan", "regression", "--rows", "1000", "--epsilon", "0.5", "--json"])
    assert json.loads(written.output)["excess"] == pytest.approx(0.1095, abs=1e-4)


def _normal(gamma):
    return gaussian_noise(gamma, mu=0.5)


def _laplace(gamma):
    return laplace_noise(gamma, epsilon=0.5)

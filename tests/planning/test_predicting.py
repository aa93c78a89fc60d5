"""The plan for private predictions: E5's and E11's cuts, shared budgets, JSON and refusals (E1, E5, E6, E11, N4)."""

import math

import pytest

from holdtrue.accounting import closed_forms
from holdtrue.bounds import agnostic_prediction, prediction
from holdtrue.bounds.learning import learning_rows
from holdtrue.codec import decode, encode
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.planning.predicting import PredictionPlan, plan_prediction

# alpha, epsilon: parts, base error, of a class so large that the parts' own union bound does not matter.
BEST = {
    (0.2, 0.1): (48, 0.1277),
    (0.2, 0.5): (10, 0.1326),
    (0.2, 1.0): (5, 0.1339),
    (0.1, 0.1): (69, 0.0631),
    (0.1, 0.5): (14, 0.0640),
    (0.1, 1.0): (7, 0.0640),
    (0.05, 0.1): (88, 0.0315),
    (0.05, 0.5): (18, 0.0322),
    (0.05, 1.0): (9, 0.0322),
    (0.01, 0.1): (127, 0.00618),
    (0.01, 0.5): (25, 0.00608),
    (0.01, 1.0): (13, 0.00638),
}


@pytest.mark.parametrize(("alpha", "epsilon"), BEST)
def test_e5_table_of_parts_and_errors(alpha, epsilon):
    parts, error = BEST[alpha, epsilon]
    plan = plan_prediction(epsilon=epsilon, alpha=alpha, beta=0.05, size=10**200)
    assert abs(plan.parts - parts) <= 1
    if plan.parts == parts:
        assert plan.base_error == pytest.approx(error, abs=6e-5)
    assert prediction.soft_majority_error(plan.parts, epsilon=epsilon, base_error=plan.base_error) <= alpha
    seed = plan_prediction(epsilon=epsilon, alpha=alpha, beta=0.05, size=10**200, method="seed")
    assert seed.parts == math.ceil(6 * math.log(4 / alpha) / epsilon)
    assert 6.9 < seed.rows / plan.rows < 9.8


def test_e5_plan_of_the_design():
    plan = plan_prediction(epsilon=1.0, alpha=0.1, beta=0.05, size=1000)
    assert (plan.parts, plan.part_rows, plan.rows) == (7, 185, 1295)
    assert plan.part_rows == math.ceil(math.log(1000 * 7 / 0.05) / plan.base_error)
    assert (plan.rate, plan.tau, plan.lower_bound) == (0.5, None, None)
    seed = plan_prediction(epsilon=1.0, alpha=0.1, beta=0.05, size=1000, method="seed")
    assert (seed.parts, seed.base_error, seed.rows) == (23, pytest.approx(0.025), 23 * math.ceil(math.log(460_000) / 0.025))


def test_e5_no_other_number_of_parts_is_cheaper():
    plan = plan_prediction(epsilon=0.3, alpha=0.1, beta=0.05, size=1000)
    for parts in range(1, 120):
        error = prediction.largest_base_error(parts, epsilon=0.3, alpha=0.1)
        if error > 0:
            assert parts * math.ceil(math.log(1000 * parts / 0.05) / error) >= plan.rows


def test_e5_small_epsilon_is_planned_quickly_and_close_to_the_scaling_law():
    plan, tiny = (plan_prediction(epsilon=e, alpha=0.1, beta=0.05, size=10**200) for e in (1e-2, 1e-5))
    assert tiny.parts / plan.parts == pytest.approx(1000, rel=0.02)


@pytest.mark.parametrize("ledger", ["gdp", "pure"])
@pytest.mark.parametrize(("alpha", "epsilon"), [(0.1, 0.5), (0.1, 1.0), (0.05, 0.2), (0.3, 3.0)])
def test_e11_plan_keeps_alpha_and_beats_laplace_and_the_report(alpha, epsilon, ledger):
    parameters = {"epsilon": epsilon, "alpha": alpha, "beta": 0.05, "size": 1000, "realizable": False}
    plan = plan_prediction(**parameters, ledger=ledger)
    limit = "ratio" if ledger == "pure" else "log-odds"
    assert plan.tau == agnostic_prediction.response_tau(plan.parts, epsilon=epsilon, limit=limit)
    assert plan.base_error + plan.tau <= alpha
    laplace, seed = (plan_prediction(**parameters, method=method) for method in ("laplace", "seed"))
    assert laplace.parts == math.ceil(1 / (alpha * epsilon))
    assert seed.parts == math.ceil(2 / (alpha * epsilon))
    for other in (laplace, seed):
        assert other.base_error == pytest.approx(alpha / 2)
        assert other.part_rows == math.ceil(2 * math.log(2 * 1000 * other.parts / 0.05) / (alpha / 2) ** 2)
        assert other.base_error + other.tau <= alpha
    assert plan.rows < laplace.rows < seed.rows


def test_e12_rows_of_vc_classes_grow_with_the_third_power_of_alpha_and_the_first_of_epsilon():
    def rows(alpha, epsilon):
        found = agnostic_prediction.agnostic_partition(
            alpha=alpha, beta=0.05, epsilon=epsilon, base_rows=lambda a, b: math.ceil(2 * (5 + math.log(1 / b)) / a**2)
        )
        return found.rows

    assert 7 < rows(0.01, 0.5) / rows(0.02, 0.5) < 10
    assert 8 < rows(0.02, 0.05) / rows(0.02, 0.5) < 13


def test_t14_the_share_of_each_prediction_falls_with_the_root_of_their_number():
    shares = {k: prediction.epsilon_each(k, mu=1) for k in (100, 10_000)}
    assert shares[100] / shares[10_000] == pytest.approx(10, rel=0.01)
    assert shares[10_000] == pytest.approx(2 * math.sqrt(2 / math.pi) / 100, rel=0.01)


def test_e11_no_other_number_of_parts_is_cheaper():

    plan = plan_prediction(epsilon=0.3, alpha=0.1, beta=0.05, size=1000, realizable=False)
    for parts in range(1, 120):
        excess = 0.1 - agnostic_prediction.response_tau(parts, epsilon=0.3)
        if excess > 0:
            assert parts * learning_rows(1000, alpha=excess, beta=0.05 / parts) >= plan.rows


def test_e11_cost_is_bounded_range_unless_ratios_are_limited():
    parameters = {"epsilon": 0.5, "alpha": 0.1, "beta": 0.05, "size": 10, "realizable": False}
    assert plan_prediction(**parameters).mu == pytest.approx(closed_forms.bounded_range_mu(0.5))
    assert plan_prediction(**parameters, ledger="pure").mu == pytest.approx(closed_forms.pure_mu(0.5))
    assert plan_prediction(**parameters, method="laplace").rho == pytest.approx(closed_forms.pure_rho(0.5))


def test_n4_predictions_share_a_gaussian_budget():
    plan = plan_prediction(mu=1.0, predictions=400, alpha=0.1, beta=0.05, size=1000)
    assert plan.epsilon == prediction.epsilon_each(400, mu=1.0)
    assert 0.999999 <= plan.mu <= 1 + 1e-9
    assert plan.ledger == "gdp"


def test_n4_predictions_share_a_zero_concentrated_budget():
    plan = plan_prediction(rho=0.5, predictions=400, alpha=0.1, beta=0.05, size=1000)
    assert plan.epsilon == pytest.approx(math.sqrt(8 * 0.5 / 400))
    assert 0.99 <= plan.rho / 0.5 <= 1 + 1e-9
    assert plan.ledger == "zcdp"


def test_n4_cost_of_many_grows_as_the_root():
    one, many = (plan_prediction(epsilon=0.2, predictions=k, alpha=0.1, beta=0.05, size=1000) for k in (1, 100))
    assert many.mu == pytest.approx(10 * one.mu)
    assert many.rows == one.rows


@pytest.mark.parametrize(
    "parameters", [{}, {"realizable": False}, {"method": "seed"}, {"realizable": False, "method": "laplace"}]
)
def test_n4_rows_are_solved_for_alpha(parameters):
    forward = plan_prediction(epsilon=0.5, alpha=0.1, beta=0.05, size=1000, **parameters)
    back = plan_prediction(epsilon=0.5, rows=forward.rows, beta=0.05, size=1000, **parameters)
    assert back.alpha <= 0.1 * (1 + 1e-9)
    assert back.rows == forward.rows
    assert back.parts * back.part_rows <= back.rows
    assert plan_prediction(epsilon=0.5, alpha=back.alpha, beta=0.05, size=1000, **parameters).rows <= forward.rows


def test_e6_dimension_gives_a_lower_bound_where_the_theorem_applies():
    plan = plan_prediction(epsilon=0.125, alpha=0.125, beta=0.05, dimension=101)
    assert plan.lower_bound == 201 < plan.rows
    assert (plan.size, plan.dimension) == (None, 101)
    assert plan_prediction(epsilon=0.125, alpha=0.125, beta=0.2, dimension=101).lower_bound is None
    assert plan_prediction(epsilon=0.125, alpha=0.3, beta=0.05, dimension=101).lower_bound is None
    assert "never below" in str(plan)


@pytest.mark.parametrize("parameters", [{"size": 1000}, {"dimension": 3}, {"size": 50, "realizable": False}])
def test_plan_reads_back_as_it_was_written(parameters):
    plan = plan_prediction(epsilon=1 / 3, alpha=0.1, beta=0.05, **parameters)
    assert decode(encode(plan), PredictionPlan) == plan
    assert str(plan).startswith(f"{plan.rows:,} rows for private predictions")


def test_too_few_rows_say_how_many_would_do():
    with pytest.raises(InsufficientSamples) as caught:
        plan_prediction(epsilon=0.5, rows=3, beta=0.05, size=1000)
    assert caught.value.required == plan_prediction(epsilon=0.5, rows=caught.value.required, beta=0.05, size=1000).rows


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"alpha": None}, "either alpha or rows"),
        ({"rows": 10}, "either alpha or rows"),
        ({"alpha": 1}, "alpha"),
        ({"beta": 0}, "beta"),
        ({"size": 0}, "size"),
        ({"size": None}, "either the size .* or its VC dimension"),
        ({"dimension": 3}, "either the size .* or its VC dimension"),
        ({"epsilon": None}, "give one of epsilon"),
        ({"mu": 1}, "give one of epsilon"),
        ({"method": "laplace"}, "method"),
        ({"method": "x"}, "method"),
        ({"ledger": "x"}, "ledger"),
        ({"predictions": 0}, "predictions"),
        ({"epsilon": None, "mu": 1, "ledger": "pure"}, "ledger"),
        ({"epsilon": None, "mu": 1, "realizable": False, "method": "seed"}, "mu"),
    ],
)
def test_bad_parameters_are_named(change, word):
    with pytest.raises(InvalidParameter, match=word):
        plan_prediction(**({"epsilon": 1, "alpha": 0.1, "beta": 0.05, "size": 10} | change))


@pytest.mark.parametrize(
    ("alpha", "epsilon", "rows", "parts"), [(0.2, 1, 64_472, 8), (0.2, 0.5, 133_740, 15), (0.1, 1, 603_690, 15)]
)
def test_v6_1_agnostic_predictions_of_a_class_of_a_dimension(alpha, epsilon, rows, parts):
    given = {"dimension": 5, "realizable": False, "alpha": alpha, "beta": 0.05, "epsilon": epsilon}
    plan = plan_prediction(**given, method="laplace")
    assert (plan.rows, plan.parts) == (rows, parts)
    best = plan_prediction(**given)
    assert best.rows <= rows, "the response table adds less than Laplace noise"
    assert "V6.1" in best.theorem
    assert plan_prediction(**(given | {"alpha": None, "rows": best.rows})).alpha <= alpha

"""The plan for learning: N3's table, its inverses, JSON and refusals."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdtrue.accounting import closed_forms
from holdtrue.codec import convert, decode, encode, plain
from holdtrue.errors import InsufficientSamples, InvalidParameter, PreconditionError
from holdtrue.planning.learning import LearningPlan, plan_learning

# size, alpha, beta, epsilon, rows by each method, rows of a realizable class.
METHODS = ["lecture4", "lecture4-hoeffding", "lecture16", "best"]
TABLE = [
    (2, 0.1, 0.05, 1, [13_703, 2_284, 4_061, 597], 75),
    (100, 0.1, 0.05, 1, [24_266, 4_045, 7_190, 1_147], 190),
    (100, 0.1, 0.05, 0.1, [24_266, 4_977, 7_190, 2_020], 1_553),
    (100, 0.1, 0.05, 0.01, [49_765, 49_765, 33_177, 15_568], 15_216),
    (10**4, 0.05, 0.01, 0.5, [164_180, 27_364, 48_646, 7_441], 1_243),
    (10**6, 0.01, 0.05, 1, [4_913_336, 818_890, 1_455_803, 184_552], 4_265),
]


@pytest.mark.parametrize("row", TABLE)
def test_n3_table_in_all_columns(row):
    size, alpha, beta, epsilon, numbers, realizable = row
    rows = dict(zip(METHODS, numbers, strict=True))
    parameters = {"size": size, "alpha": alpha, "beta": beta, "epsilon": epsilon}
    for method, expected in rows.items():
        plan = plan_learning(**parameters, method=method)
        assert (plan.rows, plan.method) == (expected, method)
    assert plan_learning(**parameters, realizable=True).rows == realizable
    assert plan_learning(**parameters).compare() == rows | {"realizable": realizable}


def test_n3_says_which_bound_won():
    assert plan_learning(size=2, alpha=0.1, beta=0.05, epsilon=1).theorem == "pair bound (N3)"
    assert plan_learning(size=100, alpha=0.1, beta=0.05, epsilon=1).theorem == "split bound (N3)"
    assert "realizable" in plan_learning(size=100, alpha=0.1, beta=0.05, epsilon=1, realizable=True).theorem
    assert "Lecture 16" in plan_learning(size=100, alpha=0.1, beta=0.05, epsilon=1, method="lecture16").theorem


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(2, 10**8),
    alpha=st.floats(0.01, 0.4),
    beta=st.floats(1e-4, 0.4),
    epsilon=st.floats(0.01, 5),
    method=st.sampled_from(["best", "lecture4", "lecture4-hoeffding", "lecture16", "realizable"]),
)
def test_n3_inverses_lead_back(size, alpha, beta, epsilon, method):
    given_ = {"size": size, "beta": beta}
    given_ |= {"realizable": True} if method == "realizable" else {"method": method}
    forward = plan_learning(**given_, alpha=alpha, epsilon=epsilon)
    by_rows = plan_learning(**given_, rows=forward.rows, epsilon=epsilon)
    assert by_rows.alpha <= alpha * (1 + 1e-12)
    assert plan_learning(**given_, alpha=by_rows.alpha, epsilon=epsilon).rows <= forward.rows
    by_alpha = plan_learning(**given_, rows=forward.rows, alpha=alpha)
    assert by_alpha.epsilon <= epsilon * (1 + 1e-12)
    assert plan_learning(**given_, alpha=alpha, epsilon=by_alpha.epsilon).rows <= forward.rows
    assert plan_learning(**given_, rows=2 * forward.rows, epsilon=epsilon).alpha < by_rows.alpha * (1 + 1e-12)


def test_n3_no_row_fewer_and_no_alpha_smaller():
    plan = plan_learning(size=1000, rows=5000, beta=0.05, epsilon=0.3)
    assert plan_learning(size=1000, alpha=plan.alpha, beta=0.05, epsilon=0.3).rows == 5000
    assert plan_learning(size=1000, alpha=plan.alpha * (1 - 1e-9), beta=0.05, epsilon=0.3).rows == 5001


def test_plan_costs_what_the_pick_costs():
    plan = plan_learning(size=100, alpha=0.1, beta=0.05, epsilon=1)
    assert plan.mu == closed_forms.bounded_range_mu(1.0) == pytest.approx(0.623893, abs=1e-6)
    assert plan.rho == closed_forms.bounded_range_rho(1.0) == pytest.approx(0.123302, abs=1e-6)


@pytest.mark.parametrize("realizable", [False, True])
def test_plan_reads_back_as_it_was_written(realizable):
    plan = plan_learning(size=10**30, alpha=1 / 3, beta=0.01, epsilon=0.1, realizable=realizable)
    assert decode(encode(plan), LearningPlan) == plan
    assert plain(plan)["plan"] == "learning"


def test_plan_is_frozen_and_readable():
    plan = plan_learning(size=10_000, alpha=0.05, beta=0.01, epsilon=0.5)
    with pytest.raises(AttributeError):
        plan.rows = 1
    assert str(plan).splitlines()[0] == "7,441 rows to learn one of 10,000 hypotheses"
    assert "epsilon 0.5" in str(plan)


@pytest.mark.parametrize(
    "change",
    [{"plan": "selection"}, {"rows": "many"}, {"rows": True}, {"rows": 1.5}, {"extra": 1}, {"realizable": 0}, {"mu": None}],
)
def test_plan_refuses_another_document(change):
    document = plain(plan_learning(size=10, alpha=0.1, beta=0.05, epsilon=1)) | change
    with pytest.raises(InvalidParameter):
        convert(document, LearningPlan)


def test_plan_takes_whole_numbers_where_json_wrote_them():
    plan = plan_learning(size=10, alpha=0.1, beta=0.05, epsilon=1)
    assert convert(plain(plan) | {"epsilon": 1}, LearningPlan) == plan


def test_too_few_rows_say_how_many_would_do():
    with pytest.raises(InsufficientSamples, match="even without privacy") as caught:
        plan_learning(size=10_000, rows=7_440, alpha=0.05, beta=0.01)
    assert caught.value.required == 7_441
    with pytest.raises(InsufficientSamples, match=r"up to 0\.5") as caught:
        plan_learning(size=10_000, rows=10, epsilon=1, beta=0.01, method="lecture4")
    assert plan_learning(size=10_000, rows=caught.value.required, epsilon=1, beta=0.01, method="lecture4").alpha <= 0.5


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("method", ["lecture4", "lecture4-hoeffding"])
def test_c4_lecture4_needs_one_half(method, name):
    parameters = {"alpha": 0.1, "beta": 0.05} | {name: 0.75}
    with pytest.raises(PreconditionError, match=rf"{name} .* 0\.5 would do"):
        plan_learning(size=10, epsilon=1, method=method, **parameters)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"alpha": None}, "exactly one of rows, alpha, epsilon"),
        ({"rows": 100}, "exactly one of rows, alpha, epsilon"),
        ({"method": "vc"}, "method"),
        ({"size": 0}, "size"),
        ({"alpha": 1.0}, "alpha"),
        ({"beta": math.nan}, "beta"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"method": "lecture16", "realizable": True}, "realizable"),
        ({"size": 1, "rows": 5, "alpha": None}, "size"),
    ],
)
def test_bad_parameters_are_named(change, word):
    with pytest.raises(InvalidParameter, match=word):
        plan_learning(**({"size": 10, "alpha": 0.1, "beta": 0.05, "epsilon": 1} | change))


def test_v6_2_learning_plans_say_from_which_epsilon_privacy_is_free_in_rate():
    made = plan_learning(size=10_000, alpha=0.1, beta=0.05, epsilon=0.5)
    assert made.free_epsilon == pytest.approx(2 * math.atanh(0.1))
    assert plan_learning(size=10_000, alpha=0.1, beta=0.05, epsilon=0.5, realizable=True).free_epsilon is None

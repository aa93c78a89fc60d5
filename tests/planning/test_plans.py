"""Plans as records: what they count, how they read, and what they say of an answer."""

import json
import math
from fractions import Fraction

import pytest

import holdtrue as ht
from holdtrue.codec import decode, encode
from holdtrue.errors import RefusedError, RequestError
from holdtrue.exact import UNIT
from holdtrue.planning.asking import open_plan, plan
from holdtrue.planning.plans import Plan, find_intervals, read_plan
from holdtrue.verbs.selecting import epsilon_of_use

LIMITS = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def shared():
    return plan(rows=40_000, queries=300, reserve=0.25, uses=7, **LIMITS)


@pytest.fixture(scope="module")
def endless():
    return open_plan(rows=40_000, **LIMITS)


def test_questions_and_reserve_are_the_whole_cap(shared):
    assert shared.cost * shared.queries + shared.reserve_units == shared.cap_units
    assert shared.reserve_units / shared.cap_units == pytest.approx(0.25, rel=1e-6)
    assert 0 <= shared.reserve_units - 7 * shared.use_units < 7


@pytest.mark.parametrize("limits", [{"cap": "privacy"}, {"iid": False}, {"cap": "privacy", "queries": 9_999}])
def test_what_dividing_the_cap_leaves_is_no_reserve(limits):
    """A few units beside the questions would pay for a choice at epsilon 1e-7, which tells nothing."""
    made = plan(rows=40_000, reserve=0, **{"queries": 300} | LIMITS | limits)
    assert 0 < made.reserve_units < made.queries
    assert made.use_units == 0
    with pytest.raises(RefusedError, match="this plan has no reserve"):
        epsilon_of_use(made)


def test_noise_on_sums_is_noise_on_means_times_rows_and_grid(shared):
    assert shared.noise_scale == Fraction(shared.sigma) * 40_000 * 2**shared.bits
    mu_squared = (2**shared.bits / shared.noise_scale) ** 2
    assert mu_squared <= shared.cost * UNIT  # what one question is charged covers what it draws


@pytest.mark.parametrize(
    ("numbers", "kind", "total"),
    [
        ({"method": "joint-gaussian"}, "gdp", math.sqrt),
        ({"method": "transfer-gaussian-zcdp"}, "zcdp", float),
        ({"pure": True}, "pure", float),
    ],
)
def test_the_cap_is_in_the_unit_of_the_ledger(numbers, kind, total):
    made = plan(rows=40_000, queries=100, **numbers, **LIMITS)
    assert made.ledger == kind
    assert made.cap == pytest.approx(total(made.cap_units * UNIT))
    assert made.mu == (made.cap if kind == "gdp" else None)
    assert made.private


def test_a_plan_that_keeps_no_privacy_says_so():
    made = plan(rows=40_000, queries=100, method="rounding")
    assert not made.private
    assert made.cap is None
    assert made.sample_alpha == 0
    assert "privacy" not in dict(made.lines())
    assert made.joint_gap(0.05, spent=0) == (1.0, 0.05)


@pytest.mark.parametrize("answer", [-3.0, 0.0, 0.01, 0.5, 0.99, 1.0, 7.0])
def test_an_interval_lies_in_the_unit_interval_and_around_the_clipped_answer(shared, answer):
    low, high = shared.interval(answer)
    clipped = min(1.0, max(0.0, answer))
    assert 0 <= low <= clipped <= high <= 1


@pytest.mark.parametrize("answer", [0.0, 0.2, 0.5, 0.9])
def test_yes_and_no_have_mirrored_intervals(shared, answer):
    low, high = shared.interval(answer)
    other_low, other_high = shared.interval(1 - answer)
    assert (low, high) == pytest.approx((1 - other_high, 1 - other_low), abs=1e-12)


def test_no_share_is_wider_than_alpha(shared):
    widths = [shared.alpha_at(step / 100) for step in range(101)]
    assert max(widths) <= shared.alpha * (1 + 1e-9)
    assert widths[0] < widths[50]


def test_theorems_without_a_transfer_say_nothing_of_queries_by_row():
    made = plan(rows=40_000, queries=100, method="jung20")
    assert made.interval(0.5, by_position=True) is None
    assert made.position_alpha is None
    low, high = made.interval(0.5)
    assert (low, high) == pytest.approx((0.5 - made.alpha, 0.5 + made.alpha))


def test_queries_by_row_are_never_narrower(shared):
    assert shared.position_alpha >= shared.alpha * (1 - 1e-9)


def test_the_words_of_a_plan(shared):
    said = dict(shared.lines())
    assert said["rows"] == "40,000"
    assert said["alpha"].startswith(f"every answer within {shared.alpha:.4g} of the population")
    assert said["alpha"].endswith("95% of the time")
    assert said["privacy"] == "everything released is (1, 1e-06)-DP or better"
    assert said["ledger"].endswith("25% of it reserved")
    assert all(value in shared._repr_html_() for value in said.values())
    assert str(shared).split() == " ".join(f"{name} {value}" for name, value in shared.lines()).split()


def test_shares_have_a_line_of_their_own():
    made = plan(rows=40_000, queries=100, shares=0.05)
    assert f"{made.alpha_at(0.05):.4g} where an answer is 0.05" in str(made)


def test_an_open_plan_pays_for_what_fits(endless):
    assert endless.queries * endless.cost <= endless.cap_units < (endless.queries + 1) * endless.cost
    assert endless.reserve_units == endless.cap_units
    assert endless.use_units * endless.uses <= endless.cap_units * endless.reserve


def test_answers_of_an_open_plan_widen_with_their_number_and_with_what_was_spent(endless):
    cost = endless.cost
    assert endless.alpha_after(1, cost) < endless.alpha_after(100, cost) < endless.alpha_after(100, 1000 * cost)
    assert endless.sample_alpha_at(1) < endless.sample_alpha_at(100)
    assert endless.alpha == endless.alpha_after(endless.queries, endless.cap_units)
    assert endless.position_alpha >= endless.alpha * (1 - 1e-9)
    assert endless.alpha_at(0.5) == pytest.approx(endless.alpha)


def test_the_words_of_an_open_plan(endless):
    said = dict(endless.lines())
    assert said["queries"].startswith("no set number")
    assert said["privacy"] == "everything released is (1, 1e-06)-DP"
    assert endless.extent == "all answers"
    assert "95% of the time" in said["alpha"]


def test_an_open_plan_without_independent_rows_speaks_of_these_rows_only():
    made = open_plan(rows=40_000, iid=False, **LIMITS)
    assert made.theorem is None
    assert made.interval(0.5, draw=1, spent=made.cost) is None
    assert "sample" in dict(made.lines())["alpha"]
    assert "not declared independent" in dict(made.lines())["method"]


def test_both_kinds_of_ends_at_once(shared):
    rows, people = find_intervals(shared, 0.3, draw=1, spent=shared.cost)
    assert rows == pytest.approx((0.3 - shared.sample_alpha, 0.3 + shared.sample_alpha))
    assert people == shared.interval(0.3)
    assert people[0] < rows[0] < rows[1] < people[1]


@pytest.mark.parametrize("name", ["shared", "endless"])
def test_a_plan_reads_back_as_it_was(name, request):
    made = request.getfixturevalue(name)
    assert read_plan(encode(made)) == made
    assert read_plan(encode(made)).lines() == made.lines()


def test_a_plan_with_an_unknown_or_missing_field_is_refused(shared):
    fields = json.loads(encode(shared))
    for other in (fields | {"surprise": 1}, {name: value for name, value in fields.items() if name != "rows"}):
        with pytest.raises(RequestError):
            decode(json.dumps(other), Plan)


def test_a_ledger_without_a_plan_says_what_can_read_it():
    with pytest.raises(RequestError, match="verify and audit can read"):
        read_plan("{}")


def test_a_plan_is_frozen(shared):
    with pytest.raises(AttributeError):
        shared.rows = 10**9
    assert isinstance(shared, ht.Plan)

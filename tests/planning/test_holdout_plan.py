"""Every mode's width before the first look."""

import json

import pytest

import holdtrue as ht
from holdtrue.bounds.transcripts import ladder_alpha, rounding_alpha
from holdtrue.codec import encode
from holdtrue.planning.holdout_plan import plan_holdout


def test_a_gate_is_enough_where_scores_are_too_wide():
    plan = plan_holdout(cases=5000, looks=200, yes=10)
    assert plan.mode == "gate"
    assert plan.alpha == pytest.approx(0.0688, abs=1e-4)
    assert plan["scores"].alpha == pytest.approx(0.18, abs=0.02)
    assert plan.enough
    assert "are enough" in plan.advice


def test_widths_are_those_of_the_theorems():
    plan = plan_holdout(cases=20_000, looks=50)
    assert plan["scores"].alpha == ht.plan(rows=20_000, queries=50, beta=0.05).position_alpha
    assert plan["rounding"].alpha == rounding_alpha(20_000, queries=50, beta=0.025)
    assert plan["ladder"].alpha == ladder_alpha(20_000, submissions=50, beta=0.05)
    assert not plan["naive"].holds
    assert all(line.holds for line in plan if line.mode != "naive")


@pytest.mark.parametrize("cases", [1000, 5000, 20_000])
@pytest.mark.parametrize("looks", [50, 500])
def test_modes_are_in_order_of_width(cases, looks):
    plan = plan_holdout(cases=cases, looks=looks)
    assert plan["naive"].alpha < plan["gate"].alpha < plan["scores"].alpha
    shown = str(plan)
    assert all(line.mode in shown for line in plan)
    assert f"{cases:,} cases, {looks:,} looks" in shown


@pytest.mark.parametrize(
    ("wish", "mode"),
    [
        ({}, "scores"),
        ({"private": False}, "scores"),
        ({"yes": 5}, "gate"),
        ({"yes": 5, "private": True}, "private gate"),
        ({"overfits": 5}, "thresholdout"),
        ({"overfits": 5, "private": False}, "guess-and-check"),
    ],
)
def test_the_mode_follows_the_wish(wish, mode):
    plan = plan_holdout(cases=20_000, looks=100, **wish)
    assert plan.mode == mode
    assert plan.private == plan[mode].private


def test_few_looks_without_privacy_are_rounded():
    assert plan_holdout(cases=5000, looks=5, private=False).mode == "rounding"


def test_too_few_cases_are_told_plainly_with_what_would_do():
    plan = plan_holdout(cases=1000, looks=50)
    assert not plan.enough
    assert "1,000 cases are too few for scores within 0.1" in plan.advice
    assert "gate with 2 yes is within" in plan.advice
    needed = int(plan.advice.split(" cases would do")[0].rsplit(" ", 1)[1].replace(",", ""))
    assert plan_holdout(cases=needed, looks=50).enough
    assert not plan_holdout(cases=round(0.98 * needed), looks=50).enough
    private = plan_holdout(cases=1000, looks=50, yes=2, private=True)
    assert "private ladder with 2 changes of the lead is within" in private.advice
    assert str(private).endswith("Opened by Holdout(y_true, looks=50, yes=2, private=True).")


def test_a_plan_reads_as_json():
    document = json.loads(encode(plan_holdout(cases=1000, looks=500)))
    assert document["plan"] == "holdout"
    assert {line["mode"] for line in document["modes"]} >= {"scores", "gate", "naive"}


@pytest.mark.parametrize(
    "wrong",
    [{"cases": 0}, {"looks": 0}, {"beta": 0}, {"yes": 1, "overfits": 1}, {"yes": 51}, {"overfits": 51}, {"alpha": 2}],
)
def test_bad_numbers_are_refused(wrong):
    with pytest.raises(ht.InvalidParameter):
        plan_holdout(**{"cases": 1000, "looks": 50} | wrong)


def test_there_is_no_other_mode():
    with pytest.raises(ht.UnknownName, match="there are scores"):
        plan_holdout(cases=1000, looks=50)["magic"]

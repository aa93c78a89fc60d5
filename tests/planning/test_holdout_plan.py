"""Every mode's width before the first look."""

import json
import math

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.bounds.accuracy import hoeffding_alpha
from holdtrue.bounds.gate_levels import depth_level, depth_width, pairs_tail, wins_needed
from holdtrue.bounds.sparse_vector import above_threshold_alpha, private_ladder_alpha
from holdtrue.bounds.transcripts import guess_and_check_alpha, ladder_alpha, rounding_alpha
from holdtrue.codec import decode, encode
from holdtrue.planning.gate_power import count_wins, find_gain
from holdtrue.planning.holdout_plan import HoldoutPlan, plan_holdout, quiet_threshold


def test_a_gate_is_enough_where_scores_are_too_wide():
    plan = plan_holdout(cases=5000, looks=200, yes=10)
    assert plan.mode == "gate"
    assert plan.alpha == pytest.approx(0.0626, abs=1e-4)
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
    assert "1,000 cases are too few for private gate within 0.1" in private.advice
    assert str(private).endswith("Opened by Holdout(y_true, looks=50, yes=2, private=True).")


def test_a_plan_reads_as_json():
    document = json.loads(encode(plan_holdout(cases=1000, looks=500)))
    assert document["plan"] == "holdout"
    assert {line["mode"] for line in document["modes"]} >= {"scores", "gate", "naive"}


def test_a_plan_is_a_table_and_offers_submissions_that_are_fixed_together():
    made = plan_holdout(cases=1200, looks=60)
    assert made.to_frame()["mode"].tolist() == [line.mode for line in made]
    assert "<th style='text-align:right'>gate</th>" in made._repr_html_()
    width = hoeffding_alpha(1200, beta=0.05, queries=60)
    assert made.advice.endswith(
        f"60 submissions fixed together, before any score is told, are within ±{width:.3f} by any tool."
    )
    assert width < made["gate"].alpha < made["scores"].alpha
    assert "fixed together" not in plan_holdout(cases=1200, looks=60, yes=3).advice


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


# Each width against its theorem, and how widths move.


@pytest.fixture(scope="module")
def shown():
    return plan_holdout(cases=5000, looks=200, yes=10)


@pytest.mark.parametrize(
    ("mode", "alpha"),
    [("private gate", 0.1092), ("gate", 0.0626), ("naive", 0.0192)],
)
def test_s3_s5_widths_of_the_sheet(shown, mode, alpha):
    assert shown[mode].alpha == pytest.approx(alpha, abs=1.5e-3)


def test_s4_released_scores_have_a_width_of_their_own(shown):
    assert shown["thresholdout"].alpha_released == pytest.approx(0.194, abs=1.5e-3)
    assert shown["thresholdout"].alpha_released < shown["thresholdout"].alpha
    assert f"±{shown['thresholdout'].alpha_released:.4f}" in str(shown["thresholdout"])
    assert shown["gate"].alpha_released is shown["private gate"].alpha_released is None


def test_every_mode_is_the_bound_it_names(shown):
    assert shown["gate"].alpha == depth_width(5000, level=depth_level(200, yes=10, beta=0.05, after=9))
    assert shown["guess-and-check"].alpha == guess_and_check_alpha(5000, queries=200, overfits=10, beta=0.05)
    assert shown["private ladder"].alpha == private_ladder_alpha(5000, submissions=200, moves=10, beta=0.05).alpha
    assert shown["naive"].alpha == hoeffding_alpha(5000, beta=0.05)
    watched = above_threshold_alpha(5000, looks=200, runs=10, beta=0.05, one_sided=True)
    assert shown["thresholdout"].alpha == watched.alpha + quiet_threshold(5000, looks=200, scale=watched.scale)


def test_the_threshold_is_about_one_comparison_in_all_looks(request):
    """Noise of one comparison passes 4 s ln k once in 2 k; a threshold of half that passes far more often (planted)."""
    looks, scale = 100, 0.01
    noise = np.random.default_rng(list(request.node.name.encode())).laplace(0, 4 * scale, 400_000)
    threshold = quiet_threshold(10**12, looks=looks, scale=scale)
    assert threshold == pytest.approx(4 * scale * math.log(looks), rel=1e-3)
    assert (noise > threshold).mean() == pytest.approx(1 / (2 * looks), rel=0.15)
    assert (noise > threshold / 2).mean() > 5 / (2 * looks)


def test_the_threshold_falls_with_the_cases_and_rises_with_the_looks():
    assert quiet_threshold(1000, looks=10, scale=0) == pytest.approx(3 / math.sqrt(2000))
    assert quiet_threshold(4000, looks=10, scale=0.01) < quiet_threshold(1000, looks=10, scale=0.01)
    assert quiet_threshold(1000, looks=10, scale=0.01) < quiet_threshold(1000, looks=100, scale=0.01)
    assert quiet_threshold(1000, looks=1, scale=0.01) == quiet_threshold(1000, looks=2, scale=0.01)


MODES = ["scores", "rounding", "gate", "private gate", "ladder", "private ladder", "thresholdout", "guess-and-check"]


@pytest.mark.parametrize("mode", MODES)
def test_more_cases_narrow_and_more_looks_widen(mode):
    widths = [plan_holdout(cases=cases, looks=100)[mode].alpha or 1.0 for cases in (2000, 20_000, 200_000)]
    assert widths[0] >= widths[1] > widths[2]
    widths = [plan_holdout(cases=50_000, looks=looks, yes=5, beta=0.05)[mode].alpha for looks in (20, 200, 2000)]
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize("mode", [*MODES, "naive"])
def test_more_confidence_widens(mode):
    often, seldom = (plan_holdout(cases=20_000, looks=50, beta=beta)[mode].alpha for beta in (0.2, 0.001))
    assert often < seldom


def test_without_yes_or_overfits_a_twentieth_of_the_looks_is_shown():
    plan = plan_holdout(cases=5000, looks=100)
    assert (plan.yes, plan.overfits) == (5, 5)
    assert (plan_holdout(cases=5000, looks=3).yes, plan_holdout(cases=5000, looks=3).overfits) == (1, 1)
    assert plan_holdout(cases=5000, looks=100, overfits=7).overfits == 7


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_says_how_it_is_opened(shown, mode):
    opened = shown[mode].opened
    assert opened.startswith(("Holdout(y_true, looks=200", "Leaderboard(y_true, submissions=200"))
    assert "{" not in opened
    assert ("private=False" in opened) <= (not shown[mode].private)


def test_nothing_opens_the_naive_mode(shown):
    assert shown["naive"].opened == ""
    assert not shown["naive"].private
    assert "right for one look only" in str(shown["naive"])


def test_too_few_cases_for_any_promise():
    plan = plan_holdout(cases=3, looks=2)
    assert plan.alpha is None
    assert not plan.enough
    assert "nothing that could be promised" in plan.advice
    assert "none" in str(plan["scores"])


def test_a_wish_that_no_number_of_cases_meets():
    assert "No number of cases would do" in plan_holdout(cases=1000, looks=50, alpha=1e-9).advice


@pytest.mark.parametrize("alpha", [0.3, 0.1, 0.02])
@pytest.mark.parametrize("wish", [{}, {"yes": 3}, {"overfits": 3}])
def test_cases_that_would_do_are_enough(alpha, wish):
    few = plan_holdout(cases=50, looks=30, alpha=alpha, **wish)
    needed = int(few.advice.split(" cases would do")[0].rsplit(" ", 1)[1].replace(",", ""))
    assert plan_holdout(cases=needed, looks=30, alpha=alpha, **wish).enough
    assert not plan_holdout(cases=round(0.97 * needed), looks=30, alpha=alpha, **wish).enough


def test_advice_for_private_wishes_names_private_modes_only():
    plan = plan_holdout(cases=1000, looks=50, private=True)
    other = plan.advice.split("With these cases, ")[1].split(" is within")[0].split(" with ")[0]
    assert plan[other].private
    open_wish = plan_holdout(cases=1000, looks=50)
    assert "gate with 2 yes is within" in open_wish.advice


def test_a_plan_is_a_frozen_record_that_reads_back(shown):
    assert decode(encode(shown), HoldoutPlan) == shown
    with pytest.raises(AttributeError):
        shown.cases = 7
    assert [line.mode for line in shown] == [*MODES, "naive"]


# What a gate finds (V1.3).


@pytest.mark.parametrize(
    ("wish", "first", "last"),
    [
        ({"gain": 0.05, "discordant": 0.1, "looks": 100, "yes": 5}, 759, 1915),
        ({"gain": 0.1, "discordant": 0.1, "looks": 100, "yes": 5}, 157, 364),
        ({"gain": 0.05, "discordant": 0.05, "looks": 100, "yes": 5}, 316, 730),
        ({"gain": 0.05, "discordant": 0.3, "looks": 100, "yes": 5}, 2305, 5948),
        ({"gain": 0.02, "discordant": 0.1, "looks": 100, "yes": 5}, 4804, 12378),
        ({"gain": 0.05, "discordant": 0.1, "looks": 20, "yes": 3}, 589, 946),
        ({"gain": 0.05, "discordant": 0.1, "looks": 500, "yes": 5}, 893, 2593),
    ],
)
def test_v1_cases_that_a_gate_needs(wish, first, last):
    plan = plan_holdout(**wish)
    assert (plan.cases, plan.gate.cases, plan.gate.cases_last) == (first, first, last)
    assert plan.mode == "gate"
    assert 0.8 <= plan.power < 0.83
    assert plan.enough
    assert f"{first:,} cases are enough to find a gain" in plan.advice
    assert f"{first:,} cases find it 80% of the time, {last:,} at the last yes" in str(plan)
    assert decode(encode(plan), HoldoutPlan) == plan


def test_v1_gains_that_five_hundred_cases_find():
    found = {}
    for share in (0.05, 0.1, 0.3):
        plan = plan_holdout(cases=500, looks=100, yes=5, discordant=share)
        found[share] = plan.gate.finds, plan.gate.finds_last
        assert plan.power is None
    assert found[0.05] == (pytest.approx(0.042, abs=5e-4), None)
    assert found[0.1] == pytest.approx((0.061, 0.090), abs=5e-4)
    assert found[0.3] == pytest.approx((0.107, 0.168), abs=5e-4)
    few = plan_holdout(cases=100, looks=100, yes=5, gain=0.1, discordant=0.1)
    assert "no gain is found 80% of the time" in str(few)
    assert (few.gate.finds, few.cases, few.enough) == (None, 100, False)
    assert "100 cases are too few to find a gain of 0.1" in few.advice


@pytest.mark.parametrize(
    ("cases", "looks", "yes", "discordant", "gain"),
    [
        (100, 20, 3, 0.3, 0.248),
        (200, 20, 3, 0.1, 0.096),
        (200, 100, 5, 0.3, 0.200),
        (500, 100, 5, 0.05, 0.047),
        (500, 100, 5, 0.1, 0.072),
        (500, 500, 20, 0.3, 0.144),
        (1200, 100, 5, 0.1, 0.048),
        (1200, 500, 20, 0.3, 0.095),
    ],
)
def test_v1_gains_that_betting_finds(cases, looks, yes, discordant, gain):
    level = depth_level(looks, yes=yes, beta=0.05)
    assert find_gain(cases, discordant=discordant, level=level, betting=True) == pytest.approx(gain, abs=6e-4)


def test_v1_plans_bet_as_gates_do():
    level = depth_level(100, yes=5, beta=0.05)
    for differing, wins in enumerate(count_wins(np.arange(120), math.exp(-level), betting=True).tolist()):
        assert wins == wins_needed(differing, level=level, cases=500)


def test_v1_power_is_how_often_the_gate_says_yes(request):
    """By simulation, with a control a tenth off in the gain."""
    random, runs = np.random.default_rng(list(request.node.name.encode())), 4000
    plan = plan_holdout(cases=500, looks=100, yes=5, gain=0.06, discordant=0.1)
    level = depth_level(100, yes=5, beta=0.05)
    said = {}
    for gain in (0.06, 0.054):
        wins, losses, _ = random.multinomial(500, [0.05 + gain / 2, 0.05 - gain / 2, 0.9], runs).T
        said[gain] = np.mean([pairs_tail(int(w), int(w + lost)) <= -level for w, lost in zip(wins, losses, strict=True)])
    assert abs(said[0.06] - plan.power) < 0.035 < abs(said[0.054] - plan.power)


def test_v1_half_widths_by_look_and_yes():
    plan = plan_holdout(cases=500, looks=100, yes=5)
    assert (plan.alpha_at(1), plan.alpha_at(100, 4)) == pytest.approx((0.080, 0.140), abs=5e-4)
    assert plan.alpha_at(50, 2) == plan.alpha_at(90, 2)
    assert plan.alpha == plan.alpha_at(100, 4)
    assert plan_holdout(cases=10, looks=100, yes=5).alpha_at(1) is None
    for look, yes in ((0, 0), (101, 0), (3, 3), (10, 5), (10, -1)):
        with pytest.raises(ht.InvalidParameter):
            plan.alpha_at(look, yes)


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"looks": 100}, ht.InvalidParameter),
        ({"looks": 100, "yes": 5}, ht.InvalidParameter),
        ({"looks": 100, "yes": 5, "discordant": 0.1}, ht.InvalidParameter),
        ({"looks": 100, "yes": 5, "gain": 0.1}, ht.InvalidParameter),
        ({"looks": 100, "gain": 0.05, "discordant": 0.1}, ht.InvalidParameter),
        ({"looks": 100, "yes": 5, "private": True, "gain": 0.05, "discordant": 0.1}, ht.InvalidParameter),
        ({"looks": 100, "yes": 5, "gain": 0.2, "discordant": 0.1}, ht.PreconditionError),
        ({"looks": 100, "yes": 5, "gain": 0.0, "discordant": 0.1}, ht.InvalidParameter),
        ({"looks": 100, "yes": 5, "gain": 1e-7, "discordant": 1}, ht.InsufficientSamples),
    ],
)
def test_v1_wishes_for_a_gate_that_cannot_be_planned(wish, error):
    with pytest.raises(error):
        plan_holdout(**wish)

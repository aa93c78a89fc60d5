"""Released scores have a width of their own (S4), and ledgers created before it keep theirs."""

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

import holdtrue as ht
from holdouts import old_gates
from holdouts.old_gates import open_releasing
from holdtrue.codec import decode, encode
from holdtrue.holdouts import Holdout, terms
from holdtrue.planning.holdout_plan import HoldoutPlan, plan_holdout

CASES = 40_000
RANDOM = np.random.default_rng(21)
TRUTH = RANDOM.integers(0, 2, CASES)
BEFORE = "above threshold and transfer, by position (T10, T6b)"


def with_error(rate):
    return np.where(RANDOM.random(CASES) < rate, 1 - TRUTH, TRUTH)


def passed(holdout):
    """Let a first and a better submission through a private gate, then one that is worse."""
    return [holdout.gate(with_error(rate), margin=0.01) for rate in (0.45, 0.05, 0.3)]


def test_s4_a_private_gate_quotes_released_scores_with_their_own_width():
    with open_releasing(TRUTH, looks=50, yes=3) as holdout:
        first, second, worse = passed(holdout)
        near, wide = holdout.facts.alpha_released, holdout.plan.alpha
        assert near < 0.75 * wide
        assert [verdict.yes for verdict in (first, second, worse)] == [True, True, False]
        assert first.gain is None
        assert first.interval.width == pytest.approx(2 * near)
        # After a yes: what two released scores say of their difference, on both sides.
        assert second.gain.width == pytest.approx(4 * near)
        assert 0.4 in second.gain
        # After a no: the submission is at most alpha above bar and margin, the incumbent at most near below its score.
        assert (worse.gain.low, worse.gain.high) == (-1.0, pytest.approx(0.01 + wide + near))
        assert "(S3, S4, T6b)" in first.certificate.theorem


def test_s4_a_ledger_created_before_keeps_one_width(tmp_path, monkeypatch):
    """The negative control: without a width of released scores in its facts, all are the plan's, on reopening too."""
    path, plan_gate = tmp_path / "old.ledger", old_gates._plan_with_releases

    def plan_as_before(*given, **named):
        facts, plan = plan_gate(*given, **named)
        return replace(facts, alpha_released=UNSET), replace(plan, theorem=BEFORE)

    with monkeypatch.context() as patch:
        patch.setattr(old_gates, "_plan_with_releases", plan_as_before)
        open_releasing(TRUTH, looks=50, yes=3, ledger=path).close()
    with Holdout(TRUTH, ledger=path) as holdout:
        assert holdout.facts.alpha_released is UNSET
        first, second, worse = passed(holdout)
        wide = holdout.plan.alpha
        assert first.interval.width == pytest.approx(2 * wide)
        assert (second.gain.low, second.gain.high) == (pytest.approx(0.01 - 2 * wide), 1.0)
        assert worse.gain.high == pytest.approx(0.01 + 2 * wide)
        assert first.certificate.theorem == BEFORE
    assert ht.verify(path)


def test_s4_plans_name_both_widths():
    made = plan_holdout(cases=5000, looks=200, overfits=10)
    assert made["thresholdout"].alpha == pytest.approx(0.334, abs=1e-3)
    assert made["thresholdout"].alpha_released == pytest.approx(0.194, abs=1e-3)
    assert f"±{made['thresholdout'].alpha_released:.4f}" in str(made)
    assert not made["scores"].alpha_released
    assert decode(encode(made), HoldoutPlan) == made


def test_s1_scores_name_the_theorem_of_their_plan(monkeypatch):
    with Holdout(TRUTH, looks=10) as holdout:
        assert holdout.plan.transfer.overshoot > 0
        assert holdout.score(TRUTH).certificate.theorem == "transfer, one beta for noise and gap, by position (S1, T6b)"
    split = ht.plan(rows=CASES, queries=10, method="transfer-gaussian")
    monkeypatch.setattr(terms, "scoring_plan", lambda *_, **__: split)
    with Holdout(TRUTH, looks=10) as holdout:
        assert holdout.score(TRUTH).certificate.theorem == "transfer, by position (T6b)"

"""What a difference may be said to be about, and that a submission which meets another incumbent is asked afresh."""

import numpy as np
import pytest

import holdtrue as ht
from holdouts.old_gates import open_counted
from holdtrue.bounds.transcripts import gate_gain
from holdtrue.holdouts import Holdout

RANDOM = np.random.default_rng(19)
TRUTH = RANDOM.integers(0, 2, 2_000)


def with_error(rate):
    return np.where(RANDOM.random(2_000) < rate, 1 - TRUTH, TRUTH)


POOR, FAIR, GOOD = with_error(0.4), with_error(0.3), with_error(0.1)


def test_a_submission_that_meets_another_incumbent_is_another_look():
    with Holdout(TRUTH, looks=20, yes=3, incumbent=POOR) as gate:
        assert gate.gate(FAIR)
        assert gate.gate(GOOD)
        assert not gate.gate(FAIR)  # it had its yes against another
        assert gate.looks_left == 17
        assert gate.gate(FAIR).repeated


def test_a_private_gate_asks_afresh_after_a_yes():
    truth = np.random.default_rng(1).integers(0, 2, 60_000)
    fair, good = (np.where(np.random.default_rng(2).random(60_000) < rate, 1 - truth, truth) for rate in (0.4, 0.05))
    with Holdout(truth, looks=20, yes=2, private=True) as gate:
        assert gate.gate(fair)
        assert gate.gate(good)
        with pytest.raises(ht.BudgetExceeded):  # another request than the first, though the same submission
            gate.gate(fair)


@pytest.mark.parametrize("unseen", [True, False])
def test_a_gain_counts_on_few_differences_only_where_they_are_known_without_the_labels(unseen):
    near = GOOD.copy()
    near[:20] = TRUTH[:20]
    few = int(np.count_nonzero(near != GOOD))
    terms = {"cases": 2_000, "looks": 20, "yes": 3, "beta": 0.05, "look": 1}
    widths = {number: gate_gain(number, **terms) for number in (few, 2_000)}
    with open_counted(TRUTH, looks=20, yes=3, incumbent=GOOD, unseen=unseen) as gate:
        assert gate.gate(near).gain.low == pytest.approx(-widths[2_000 if unseen else few])
    passed = (GOOD == TRUTH).astype(float)
    with open_counted(np.ones(2_000), looks=20, yes=3, metric="cases", incumbent=passed, unseen=unseen) as gate:
        assert gate.gate(cases=near == TRUTH).gain.low == pytest.approx(-widths[2_000])


def test_differences_and_recall_are_about_these_cases_whatever_is_declared():
    with Holdout(TRUTH, looks=20, unseen=True, classes={1: int(TRUTH.sum())}) as holdout:
        assert holdout.score(GOOD).about == "fresh cases"
        assert holdout.compare(GOOD, FAIR).about == "these cases with fresh labels"
        assert holdout.score(GOOD, metric="recall", of=1).about == "these cases with fresh labels"


def test_a_ledger_that_is_used_up_says_so_when_it_is_opened_again(tmp_path):
    with Holdout(TRUTH, looks=1, ledger=tmp_path / "a.ledger") as holdout:
        holdout.score(GOOD)
    with Holdout(TRUTH, ledger=tmp_path / "a.ledger") as holdout, pytest.raises(ht.BudgetExceeded, match="look"):
        holdout.score(FAIR)


def test_what_was_told_is_found_by_its_entry():
    with Holdout(TRUTH, looks=5) as holdout:
        score = holdout.score(GOOD)
        again = holdout.told(score.certificate.entry)
        assert (again.value, again.interval) == (score.value, score.interval)
        assert holdout.told(score.certificate.entry + 7) is None
        assert holdout.named(GOOD) == holdout.named(GOOD.astype(float)) != holdout.named(FAIR)

"""A submission that was charged and never answered, because its process was killed, is answered under the same charge."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.holdouts import Leaderboard
from holdtrue.holdouts.submissions import Question

RANDOM = np.random.default_rng(41)
TRUTH = RANDOM.integers(0, 2, 4000)
GOOD = np.where(RANDOM.random(4000) < 0.1, 1 - TRUTH, TRUTH)


def _killed_between_charge_and_answer(path):
    """Submit, and be killed when the labels are about to be read: the charge is on disk, the answer never comes."""
    Question.__getattribute__ = lambda self, name: (
        os.kill(os.getpid(), signal.SIGKILL) if name == "total" else object.__getattribute__(self, name)
    )
    with Leaderboard(TRUTH, ledger=path) as board:
        board.submit("ada", GOOD)


@pytest.mark.parametrize("rule", ["private", "ladder"])
@pytest.mark.parametrize("team", ["ada", "bob"])
def test_a_killed_submission_is_answered_when_made_again_under_the_same_charge(tmp_path, rule, team):
    path = tmp_path / "board.ledger"
    Leaderboard(TRUTH, submissions=5, rule=rule, ledger=path).close()
    child = multiprocessing.get_context("fork").Process(target=_killed_between_charge_and_answer, args=(path,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    with Leaderboard(TRUTH, ledger=path) as board:
        assert board.left == 4
        assert board.standings() == []
        told = board.submit(team, GOOD)
        assert told.value == pytest.approx(0.9, abs=0.4)
        assert not told.repeated
        assert board.left == 4
        assert [place.name for place in board.standings()] == ["ada"]  # who submitted it first, and paid
    with Leaderboard(TRUTH, ledger=path) as board:  # and then it is known, to whoever asks
        for other in ("ada", "bob"):
            again = board.submit(other, GOOD)
            assert (again.repeated, again.value, board.left) == (True, told.value, 4)
    assert ht.verify(path)


def test_a_failure_between_charge_and_answer_is_no_reason_to_refuse_for_good(monkeypatch):
    with Leaderboard(TRUTH, submissions=5, rule="private") as board:
        monkeypatch.setattr("holdtrue.holdouts.scoring.ends_of", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            board.submit("ada", GOOD)
        monkeypatch.undo()
        assert board.submit("bob", GOOD).looks_left == 4
        assert board.submit("ada", GOOD).repeated


def test_teams_with_the_same_predictions_pay_for_them_once_also_side_by_side(tmp_path):
    """The other board has not read what this one entered; the charge's id is that of the predictions, not of the team."""
    path = tmp_path / "board.ledger"
    with Leaderboard(TRUTH, submissions=5, rule="private", ledger=path) as board, Leaderboard(TRUTH, ledger=path) as other:
        first = board.submit("ada", GOOD)
        again = other.submit("bob", GOOD)
        assert (again.repeated, again.value) == (True, first.value)
        assert board.left == other.left == 4

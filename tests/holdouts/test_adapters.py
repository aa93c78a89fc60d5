"""Adapters for competitions: every call is a look on the one ledger, whatever labels the platform brings along."""

import json

import numpy as np
import pandas as pd
import pytest

import holdtrue as ht
from holdtrue.holdouts.adapters import codabench_program, evalai_evaluate, kaggle_metric

RANDOM = np.random.default_rng(3)
TRUTH = RANDOM.integers(0, 2, 2_000)
GOOD = np.where(RANDOM.random(2_000) < 0.1, 1 - TRUTH, TRUTH)
IDS = np.arange(2_000)


def test_kaggle_scores_by_row_id_and_uses_the_holdouts_own_labels():
    order = RANDOM.permutation(2_000)
    with ht.Holdout(TRUTH, looks=5, ids=IDS) as holdout:
        score = kaggle_metric(holdout)
        submission = pd.DataFrame({"id": IDS[order], "label": GOOD[order]})
        wrong = pd.DataFrame({"id": IDS, "label": 1 - TRUTH})
        value = score(wrong, submission, "id")
        assert value == score(wrong, submission.sort_values("id"), "id")
        assert holdout.looks_left == 4
        assert 0.9 in holdout.score(GOOD).interval
        with pytest.raises(ht.InvalidParameter, match="ids"):
            score(wrong, submission.assign(id=submission.id + 1), "id")


def _folder(tmp_path, predictions):
    for part in ("input/ref", "input/res", "output"):
        (tmp_path / part).mkdir(parents=True, exist_ok=True)
    np.savetxt(tmp_path / "input/ref/labels.csv", TRUTH, fmt="%d")
    np.savetxt(tmp_path / "input/res/labels.csv", predictions, fmt="%d")


def _labels(folder):
    return np.loadtxt(folder / "labels.csv", dtype=int)


def test_codabench_reads_both_folders_writes_scores_and_counts_over_restarts(tmp_path):
    def judge(folder):
        return ht.Leaderboard(_labels(folder), submissions=10, ledger=tmp_path / "board.ledger")

    for turn, predictions in enumerate((TRUTH[::-1], GOOD)):
        _folder(tmp_path, predictions)
        told = codabench_program(judge, read=_labels, folder=tmp_path, team=f"team {turn}")
        assert json.loads((tmp_path / "output/scores.json").read_text()) == told
        assert told["looks_left"] == 9 - turn
    assert told["low"] <= 0.9 <= told["high"]


def test_codabench_writes_no_scores_where_the_holdout_refuses(tmp_path):
    _folder(tmp_path, GOOD[:-1])
    with pytest.raises(ht.InvalidParameter, match="one per case"):
        codabench_program(lambda folder: ht.Holdout(_labels(folder), looks=5), read=_labels, folder=tmp_path)
    assert not (tmp_path / "output/scores.json").exists()


def test_evalai_returns_a_line_for_the_split_and_knows_the_team(tmp_path):
    np.savetxt(tmp_path / "labels.csv", GOOD, fmt="%d")
    with ht.Leaderboard(TRUTH, submissions=5) as board, ht.Holdout(TRUTH, looks=5) as holdout:
        evaluate = evalai_evaluate({"dev": holdout, "final": board}, read=lambda path: np.loadtxt(path, dtype=int))
        file = str(tmp_path / "labels.csv")
        told = evaluate("unused", file, "dev")
        assert pytest.approx(told["result"][0]["test_split"]["score"], abs=0.2) == 0.9
        evaluate("unused", file, "final", submission_metadata={"participant_team": 7, "participant_team_name": "ada"})
        assert [place.name for place in board.standings()] == ["ada"]
        with pytest.raises(ht.InvalidParameter, match="dev"):
            evaluate("unused", file, "unknown")


def test_a_gate_is_refused_as_a_competitions_judge():
    with ht.Holdout(TRUTH, looks=5, yes=2, ids=IDS) as gate, pytest.raises(ht.RefusedError, match="shows no score"):
        kaggle_metric(gate)(None, pd.DataFrame({"id": IDS, "label": GOOD}), "id")

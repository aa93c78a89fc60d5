"""``holdtrue submit``, ``standings`` and ``certify`` through the command's own parser, and how they refuse."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.command import application

CASES = 400


def command(*words):
    return CliRunner().invoke(application, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write the truth, and predictions that are right on 60 and on 95 of 100 cases, in another order."""
    monkeypatch.chdir(tmp_path)
    for name, right in (("truth", 100), ("ada", 60), ("eve", 95)):
        rows = [f"case {case},{case % 2 if case % 100 < right else 1 - case % 2}" for case in range(CASES)]
        lines = rows if name == "truth" else rows[::-1]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,label", *lines]) + "\n")
    for name, right in (("main", 60), ("better", 95)):
        rows = [f"case {case},{int(case % 100 < right)}" for case in range(CASES)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,score", *rows]) + "\n")


@pytest.mark.usefixtures("files")
def test_submissions_are_ranked():
    board = ("--ledger", "board.ledger")
    with pytest.raises(ht.UnknownName, match="--submissions N creates one"):
        command("submit", "truth.csv", "ada", "ada.csv", *board)
    assert "9 submissions" in command("submit", "truth.csv", "ada", "ada.csv", *board, "--submissions", 10).output
    with pytest.raises(ht.RefusedError, match="already a ledger"):
        command("submit", "truth.csv", "eve", "eve.csv", *board, "--submissions", 10)
    with pytest.raises(ht.InvalidParameter, match="--column"):
        command("submit", "truth.csv", "eve", "eve.csv", *board, "--column", "y")
    told = json.loads(command("submit", "truth.csv", "eve", "eve.csv", *board, "--json").output)
    assert told["left"] == 8
    assert 0.85 < told["score"]["value"] <= 1
    lines = command("standings", "truth.csv", *board).output.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["1", "eve"], ["2", "ada"]]
    assert json.loads(command("standings", "truth.csv", *board, "--json").output)["left"] == 8


@pytest.mark.usefixtures("files")
def test_a_gate_is_closed_with_its_incumbents_score():
    gate = ("--holdout", "gate.holdout")
    assert command("score", "main.csv", *gate, "--create", "--looks", 20, "--yes", 3).exit_code == 0
    assert command("score", "better.csv", *gate, "--submission", "second").exit_code == 0
    told = json.loads(command("certify", "main.csv", *gate, "--json").output)
    assert told["score"]["interval"]["low"] <= 0.95 <= told["score"]["interval"]["high"]
    assert told["score"]["looks_left"] == 0
    assert "the gate is closed" in command("certify", "main.csv", *gate).output
    with pytest.raises(ht.RefusedError, match="another certificate"):
        command("certify", "main.csv", *gate, "--what", "gain")


@pytest.mark.usefixtures("files")
def test_a_gate_of_clusters_is_closed_without_a_file():
    lines = [json.dumps({"id": case, "passed": case % 2, "document": case // 5}) for case in range(CASES)]
    Path("documents.jsonl").write_text("\n".join(lines), encoding="utf-8")
    gate = ("--holdout", "gate.holdout")
    terms = ("--create", "--looks", 20, "--yes", 3, "--cluster", "document")
    assert command("score", "documents.jsonl", *gate, *terms).exit_code == 0
    assert "the gate is closed" in command("certify", *gate).output
    Path("gate.holdout.ids").unlink()
    with pytest.raises(ht.InvalidParameter, match="RESULTS must be given"):
        command("certify", *gate)
    with pytest.raises(ht.UnknownName, match="there is no holdout at nowhere"):
        command("certify", "--holdout", "nowhere.holdout")

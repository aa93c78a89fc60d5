"""Results (cases=) are the same submission by a public name only: that two are equal is told to nobody, in no mode."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.holdouts import Holdout
from holdtrue.holdouts import holdout as module
from holdtrue.holdouts.submissions import given_cases

CASES = 4_000
RANDOM = np.random.default_rng(47)
RESULTS, OTHERS = RANDOM.random((2, CASES)) < 0.6
MODES = ("scores", "rounding", "gate", "private gate", "thresholdout", "guess-and-check")


def open_mode(mode, **more):
    given = {
        "scores": {},
        "rounding": {"private": False},
        "gate": {"yes": 3, "metric": "cases", "incumbent": RESULTS},
        "private gate": {"yes": 3, "metric": "cases", "private": True},
        "thresholdout": {"train": np.ones(CASES), "overfits": 3},
        "guess-and-check": {"train": np.ones(CASES), "overfits": 3, "private": False},
    }[mode]
    return Holdout(np.ones(CASES), looks=20, **given, **more)


def look(opened, results, name=None):
    if opened.facts.mode.endswith("gate"):
        return opened.gate(cases=results, margin=0.9, name=name)
    train = {"train": [0.6]} if opened._train is not None else {}
    return opened.score(cases=results, name=name, **train)


def charges(opened):
    """Return of every charge what could name its contents: the ledger's own columns."""
    entries = [entry for entry in opened.ledger.entries() if entry.kind == "charge" and entry.verb != "incumbent"]
    return [(entry.request_id, entry.request_digest, json.loads(entry.body)["request"]["values"]) for entry in entries]


@pytest.mark.parametrize("mode", MODES)
def test_equal_results_are_looks_of_their_own_and_nothing_in_the_ledger_says_that_they_are_equal(mode):
    with open_mode(mode) as opened:
        before = opened.looks_left
        told = [look(opened, RESULTS) for _ in range(3)]
        assert [each.repeated for each in told] == [False] * 3
        assert [each.looks_left for each in told] == [before - 1, before - 2, before - 3]
        for column in zip(*charges(opened), strict=True):
            assert len(set(column)) == 3
        with pytest.raises(ht.RefusedError, match="public one"):
            opened.named(cases=RESULTS)


@pytest.mark.parametrize("mode", MODES)
def test_a_public_name_is_known_again_whatever_the_results_are_now(mode):
    with open_mode(mode) as opened:
        first = look(opened, RESULTS, "commit 1")
        again = look(opened, OTHERS, "commit 1")
        assert (first.repeated, again.repeated, again.looks_left) == (False, True, first.looks_left)
        assert len(charges(opened)) == 1
        assert not look(opened, RESULTS, "commit 2").repeated
        assert opened.named(cases=RESULTS, name="commit 1") == opened.named(cases=OTHERS, name="commit 1")


def name_by_contents(cases, values, ids=None, *, known_as=None, metric="cases"):
    """Name results by what they hold: as it was."""
    asked = given_cases(cases, values, ids, known_as=known_as, metric=metric)
    return replace(asked, content=(hashlib.sha256(np.asarray(values).tobytes()).digest(),))


@pytest.mark.parametrize("mode", MODES)
def test_results_named_by_contents_are_recognised(monkeypatch, mode):
    """The control: a repeat, or a refusal, that depends on whether two private vectors are equal."""
    monkeypatch.setattr(module, "given_cases", name_by_contents)
    with open_mode(mode) as opened:
        look(opened, OTHERS)
        assert look(opened, OTHERS).repeated
        if mode == "gate":
            with pytest.raises(ht.InvalidParameter, match="the incumbent itself"):
                look(opened, RESULTS)


def learn_labels(opened, truth, kinds):
    """Try each label of each case against a gate with nothing right; return labels learned, and looks used for them."""
    known, refused, start = {}, 0, opened.looks_left
    nothing = np.full(truth.size, -1)
    for case in range(truth.size):
        for label in range(kinds):
            if opened.looks_left <= 1:
                return known, refused, start - opened.looks_left
            said = nothing.copy()
            said[case] = label
            try:
                verdict = opened.gate(cases=said == truth, margin=0.9)
            except ht.InvalidParameter:
                refused += 1
                continue
            if refused and not verdict.repeated:
                known[case] = label
                break
    return known, refused, start - opened.looks_left


@pytest.mark.parametrize("contents", [False, True])
def test_no_label_is_learned_from_whether_results_are_the_incumbents(monkeypatch, contents):
    truth = RANDOM.integers(0, 10, 500)
    if contents:  # the control
        monkeypatch.setattr(module, "given_cases", name_by_contents)
    with Holdout(np.zeros(500), looks=60, yes=2, metric="cases", incumbent=np.zeros(500, dtype=bool)) as gate:
        known, refused, used = learn_labels(gate, truth, 10)
        assert used == 59
        if contents:
            assert refused > 200
            assert sum(truth[case] == label for case, label in known.items()) == len(known) > 50
        else:
            assert (known, refused) == ({}, 0)


def test_a_gate_over_results_is_opened_again_by_the_name_of_its_incumbent(tmp_path):
    path = tmp_path / "a.ledger"
    start, better, best = (RANDOM.random(CASES) < share for share in (0.4, 0.6, 0.8))
    with Holdout(np.ones(CASES), looks=20, yes=5, metric="cases", incumbent=start, ledger=path) as gate:
        verdict = gate.gate(cases=better, margin=0.1)
        assert verdict.yes
        assert verdict.submission == gate.leading
    for wrong in ({}, {"incumbent_name": "commit 1"}):
        with pytest.raises(ht.InvalidParameter, match="incumbent_name"):
            Holdout(np.ones(CASES), incumbent=better, ledger=path, **wrong)
    with Holdout(np.ones(CASES), incumbent=better, incumbent_name=verdict.submission, ledger=path) as gate:
        assert gate.gate(cases=best, margin=0.1, name="commit 3").yes
    with Holdout(np.ones(CASES), incumbent=best, incumbent_name="commit 3", ledger=path) as gate:
        assert (gate.looks_left, gate.leading) == (18, gate.named(cases=start, name="commit 3"))
        assert gate.gate(cases=best, margin=0.1, name="commit 3").repeated
    with Holdout(np.ones(CASES), incumbent=start, incumbent_name="commit 3", ledger=path) as gate:
        assert gate.looks_left == 18  # whether these are the incumbent's own results is not said
    assert ht.verify(path)


def test_predictions_need_no_name_and_have_none():
    truth = RANDOM.integers(0, 2, CASES)
    with pytest.raises(ht.InvalidParameter, match="incumbent_name"):
        Holdout(truth, looks=20, yes=3, incumbent=truth, incumbent_name="commit 1")
    with Holdout(truth, looks=20) as holdout, pytest.raises(ht.InvalidParameter, match="left out for predictions"):
        holdout.score(truth, name="commit 1")

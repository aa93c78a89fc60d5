"""While a gate is open, a curator whose rows are its cases tells nothing new; a gate says what it rests on otherwise."""

import gc

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.command import application
from holdtrue.holdouts import held_curators, mode
from holdtrue.holdouts.held_curators import GatedRows

CASES = 400
RANDOM = np.random.default_rng(2611)
TRUTH = RANDOM.integers(0, 2, CASES)
START = np.where(RANDOM.random(CASES) < 0.3, 1 - TRUTH, TRUTH)
NAMES = np.array([f"case {number}" for number in RANDOM.permutation(CASES)])
ROWS = pd.DataFrame({"age": RANDOM.integers(0, 90, CASES), "label": TRUTH, "name": NAMES})
HELD = "a gate is open on cases that are these rows"


def open_curator(rows=ROWS, **given):
    return ht.Curator(rows, epsilon=1.0, delta=1e-6, queries=10, **given)


def open_gate(truth=TRUTH, **given):
    return ht.Holdout(truth, looks=20, yes=3, **({"incumbent": START} | given))


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.delenv("HOLDTRUE_GATES")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def forget_gates():
    """As in another process."""
    mode._GATES.clear()
    gc.collect()


@pytest.mark.parametrize("first", ["curator", "gate"])
def test_v1_no_ask_on_the_rows_of_an_open_gate_whichever_was_opened_first(first):
    curator = open_curator() if first == "curator" else None
    gate = open_gate()
    with curator or open_curator() as curator:
        for ask in (
            lambda: curator.ask("age > 40"),
            lambda: curator.ask(["age > 40", "label = 1"]),
            lambda: curator.mean("age", low=0, high=90),
            lambda: curator.select({"a": "age > 40", "b": "label = 1"}),
        ):
            with pytest.raises(ht.RefusedError, match=HELD):
                ask()
        assert curator.budget.spent == 0
        assert curator.preview("age > 40").cost > 0
        assert not gate.gate(START ^ (np.arange(CASES) < 20))
        gate.certify()
        assert curator.ask("age > 40").certificate.cost > 0
    gate.close()


def test_v1_what_was_told_before_is_told_again_and_the_gate_says_what_it_rests_on():
    with open_curator() as curator:
        known = curator.ask("age > 40")
        with open_gate() as gate:
            assert gate.facts.told_before
            assert "if submissions do not depend on what these cases told before" in gate.gate(TRUTH).claim
            assert curator.ask("age > 40").value == known.value
            with pytest.raises(ht.RefusedError, match=HELD):
                curator.ask("age > 41")
    with open_curator(), open_gate() as gate:
        assert not gate.facts.told_before


@pytest.mark.parametrize(
    "given",
    [
        {"ids": NAMES},
        {"truth": np.ones(CASES), "ids": NAMES[::-1], "metric": "hits", "incumbent": START == TRUTH},
        {"truth": TRUTH.astype(float)},
        {"truth": TRUTH.astype(str), "rows": ROWS.astype({"label": str}), "incumbent": START.astype(str)},
        {"truth": TRUTH == 1, "rows": ROWS.astype({"label": bool}), "incumbent": START},
        {"truth": NAMES, "incumbent": NAMES[::-1]},
    ],
    ids=["labels by ids", "results by ids", "floats", "text", "booleans", "names"],
)
def test_v1_rows_are_recognised_by_labels_or_by_ids(given, tmp_path):
    rows = given.pop("rows", ROWS)
    rows.to_parquet(tmp_path / "rows.parquet")
    with open_gate(**given), open_curator(rows) as curator, open_curator(tmp_path / "rows.parquet") as again:
        for each in (curator, again):
            with pytest.raises(ht.RefusedError, match=HELD):
                each.ask("age > 40")


@pytest.mark.parametrize(
    "rows",
    [ROWS.assign(label=1 - TRUTH), ROWS[:-1], ROWS.assign(label=np.where(TRUTH, 1.0, np.nan)), ROWS.drop(columns="label")],
    ids=["other labels", "fewer rows", "missing labels", "no labels"],
)
def test_other_rows_are_asked_about_as_ever(rows):
    with open_gate(), open_curator(rows.reset_index(drop=True)) as curator:
        assert curator.ask("age > 40").certificate.cost > 0


@pytest.mark.usefixtures("state")
def test_v1_a_gate_of_another_process_holds_curators_back(tmp_path):
    (tmp_path / "one").mkdir()
    with open_curator(ledger=tmp_path / "one" / "people.ledger") as curator:
        curator.ask("age > 40")
        open_gate(ledger=tmp_path / "gate.ledger").close()
        forget_gates()
        with pytest.raises(ht.RefusedError, match=HELD):
            curator.ask("age > 41")
        with open_curator(second_budget=True) as other, pytest.raises(ht.RefusedError, match=HELD):
            other.ask("age > 41")
        with ht.Holdout(TRUTH, ledger=tmp_path / "gate.ledger") as gate:
            gate.certify()
        assert curator.ask("age > 41").certificate.cost > 0


@pytest.mark.usefixtures("state")
def test_v1_the_command_refuses_to_ask_beside_an_open_gate(tmp_path):
    def call(*words):
        return CliRunner().invoke(application, [*map(str, words)])

    rows = tmp_path / "people.parquet"
    ROWS.to_parquet(rows)
    assert call("open", rows, "--queries", 10, "--epsilon", 1, "--delta", "1e-6").exit_code == 0
    open_gate(ledger=tmp_path / "gate.ledger").close()
    forget_gates()
    held = call("ask", rows, "age > 40").exception
    assert isinstance(held, ht.RefusedError)
    assert HELD in str(held)
    with ht.Holdout(TRUTH, ledger=tmp_path / "gate.ledger") as gate:
        gate.certify()
    assert call("ask", rows, "age > 40").exit_code == 0


def test_v1_a_curator_that_does_not_look_for_gates_tells_of_their_cases(monkeypatch):
    """The planted fault: without the look, whoever steers submissions learns of the cases by questions."""
    monkeypatch.setattr(GatedRows, "find", lambda *_, **__: False)
    with open_gate(), open_curator() as curator:
        curator.ask("label = 1")


def test_v1_a_question_between_the_terms_of_a_gate_and_its_opening_is_found(monkeypatch):
    with open_curator() as curator:
        real = mode.Mode._note_cases

        def ask_first(self, *, gate):
            monkeypatch.setattr(mode, "_GATES", set())  # as if the gate had not been entered when the charge was planned
            curator.ask("age > 40")
            monkeypatch.undo()
            return real(self, gate=gate)

        monkeypatch.setattr(mode.Mode, "_note_cases", ask_first)
        with pytest.raises(ht.RefusedError, match="while this gate was opened"):
            open_gate()
        assert not mode.find_open_gates(CASES)


def test_rows_that_cannot_be_read_are_refused_in_fixed_words(monkeypatch):
    def fail(_):
        raise ValueError(ROWS["name"][0])

    with open_gate(), open_curator() as curator:
        monkeypatch.setattr(held_curators, "_identify_rows", fail)
        with pytest.raises(ht.RefusedError, match="could not be compared") as caught:
            curator.ask("age > 40")
        assert ROWS["name"][0] not in str(caught.value)
        assert curator.budget.spent == 0

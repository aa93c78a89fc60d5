"""`holdtrue audit`: verdicts in a table, in JSON and on a page; exit codes that say whether they are the expected ones."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.auditing import catalogue
from holdtrue.auditing.catalogue import faults
from holdtrue.command import application
from holdtrue.command.auditing import NOT_FOUND
from holdtrue.errors import IntegrityError, InvalidParameter, UnknownName
from holdtrue.mechanisms import Laplace
from holdtrue.noise.samplers import discrete_laplace


def run(*words):
    return CliRunner().invoke(application, ["audit", *words], catch_exceptions=False)


def test_a_right_claim_stands():
    result = run("self", "--only", "Laplace mechanism", "--samples", "20000", "--confidence", "0.99999999")
    assert result.exit_code == 0
    assert "Laplace mechanism" in result.stdout
    assert "holds" in result.stdout
    assert "1 of 1 claims hold" in result.stdout
    assert "confidence 0.99999999: each lies 5.7 standard deviations" in result.stdout


def test_json_and_page_tell_the_same(tmp_path):
    page = tmp_path / "audit.html"
    result = run("self", "--only", "half the noise", "--samples", "20000", "--json", "--html", str(page))
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["as_expected"]
    (found,) = told["findings"]
    assert found["verdict"] == found["expected"] == "found"
    assert found["control"]
    assert 0.999 <= found["power"] <= 1
    assert told["violated"] == told["not_found"] == []
    assert found["finding"]["lower_bound"] > 1
    assert "half the noise" in page.read_text(encoding="utf-8")


def test_a_fault_in_this_installation_ends_with_an_error(monkeypatch):
    whole = Laplace._draw_noise
    monkeypatch.setattr(Laplace, "_draw_noise", lambda self, size: whole(self, size) // 2)
    with pytest.raises(IntegrityError, match="Laplace mechanism") as caught:
        run("self", "--only", "Laplace mechanism", "--samples", "20000")
    assert caught.value.exit_code == 5


def test_a_control_that_is_not_found_is_no_broken_promise(monkeypatch, tmp_path):
    """Its exit code is another one, and nothing says that a claim of this installation is violated."""
    page = tmp_path / "audit.html"
    fault = next(each for each in faults.FAULTS if each.name == "half the noise")
    healed = replace(fault, law=lambda data, count, bits: data + discrete_laplace(1, size=count, bits=bits))
    monkeypatch.setattr(faults, "FAULTS", (healed,))
    result = run("self", "--only", "controls", "--html", str(page))
    assert result.exit_code == NOT_FOUND == 7
    assert "NOT FOUND" in result.stdout
    assert "0 of 1 controls are found" in result.stdout
    assert "no power for it: half the noise" in result.stderr
    assert "violated" not in result.output.lower()
    assert "not found (!)" in page.read_text(encoding="utf-8")
    told = json.loads(run("self", "--only", "controls", "--json").stdout)
    assert told["not_found"] == ["half the noise"]
    assert told["violated"] == []


def test_a_broken_promise_outweighs_a_control_that_is_not_found(monkeypatch):
    whole = Laplace._draw_noise
    monkeypatch.setattr(Laplace, "_draw_noise", lambda self, size: whole(self, size) // 2)
    (own,), (fault,) = (catalogue.list_mechanisms(only=name) for name in ("Laplace mechanism", "half the noise"))
    healed = replace(fault, law=lambda data, count, bits: data + discrete_laplace(1, size=count, bits=bits))
    monkeypatch.setattr(catalogue, "list_mechanisms", lambda *, only: [own, replace(healed, group=only)])
    with pytest.raises(IntegrityError, match=r"1 of 2 claims are violated .*: Laplace mechanism$") as caught:
        run("self", "--only", "both", "--samples", "20000")
    assert caught.value.exit_code == 5


def test_what_cannot_be_done_is_refused_before_it_is_begun(tmp_path):
    with pytest.raises(UnknownName, match="there is no mechanism"):
        run("self", "--only", "nobody")
    with pytest.raises(InvalidParameter, match=r"\.html"):
        run("self", "--html", str(tmp_path / "audit.txt"))
    with pytest.raises(InvalidParameter, match="confidence"):
        run("self", "--confidence", "1.5")


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "rows.ledger"
    rows = {"x": np.arange(2000) / 2000}
    with ht.Curator(rows, queries=10, epsilon=1.0, delta=1e-6, ledger=path) as curator:
        answer = curator.ask("x > 0.5")
    return path, f"{answer.certificate.entry}:{answer.certificate.digest}"


def test_a_whole_ledger_is_found_whole(ledger):
    path, receipt = ledger
    result = run("ledger", str(path), "--receipt", receipt)
    assert result.exit_code == 0
    assert "whole" in result.stdout
    assert json.loads(run("ledger", str(path), "--json").stdout)["violated"] is False


def test_a_receipt_of_another_history_is_a_breach(ledger):
    path, receipt = ledger
    other = receipt[:-1] + ("0" if receipt[-1] != "0" else "1")
    with pytest.raises(IntegrityError):
        run("ledger", str(path), "--receipt", other)


def test_a_ledger_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UnknownName, match="there is no ledger"):
        run("ledger", str(tmp_path / "none.ledger"))

"""`holdtrue budget`, `history`, `verify` and `report`: what is in a ledger, without a look at the rows."""

import re
import sqlite3

import pytest

import holdtrue as ht
from holdtrue.command.history import read_receipt
from holdtrue.errors import InvalidParameter

DATA, LEDGER = "people.parquet", "people.ledger"


@pytest.fixture
def asked(place):
    """A ledger with two asks in one entry, one by another analyst and a choice; the receipts of all four answers."""
    with ht.Curator(place / DATA, ledger=place / LEDGER) as curator:
        first = curator.ask(["age > 65", "smoker"], analyst="ada")
        second = curator.ask("bmi / 60", analyst="bob")
        choice = curator.select({"north": "region = 'N'", "south": "region = 'S'"}, epsilon=0.05)
    return [f"{each.certificate.entry}:{each.certificate.digest}" for each in (*first, second, choice)]


@pytest.mark.usefixtures("asked")
def test_the_budget_counts_all_analysts(call):
    found = call("budget", DATA, "--json").json
    assert (found["asks"], found["queries"], found["unit"]) == (27, 30, "mu squared")
    assert 0 < found["spent"] < found["cap"]
    shown = call("budget", LEDGER)
    assert "27 of 30 left" in shown.out
    assert re.search(r"spent +\S+ of \S+ mu squared \(\d+\.\d%\)", shown.out)
    assert "for everything that can ever be asked" in shown.out


@pytest.mark.usefixtures("asked")
def test_the_budget_needs_no_rows(call, place):
    place.joinpath(DATA).unlink()
    assert call("budget", LEDGER).code == 0
    assert call("history", LEDGER).code == 0
    assert call("verify", LEDGER).code == 0
    assert call("report", LEDGER, "out.html").code == 0


@pytest.mark.usefixtures("asked")
def test_history_has_a_row_for_each_answer(call):
    shown = call("history", DATA)
    rows = shown.out.splitlines()
    assert rows[0].split() == ["entry", "time", "analyst", "verb", "request", "response", "cost"]
    assert [sum(word in row for row in rows) for word in ("ada", "bob", "smoker", "select")] == [1, 1, 1, 1]
    assert [row.split()[-1] for row in rows if "ada" in row or "bob" in row] == ["3.3%", "1.7%"]  # of what all may spend
    lines = call("history", DATA, "--json").json["history"]
    assert [(line["verb"], line["analyst"], len(line["responses"])) for line in lines] == [
        ("ask", "ada", 2),
        ("ask", "bob", 1),
        ("select", "analyst", 1),
    ]


@pytest.mark.usefixtures("place")
def test_an_empty_history_is_said_on_standard_error(call):
    done = call("history", DATA)
    assert (done.code, done.out, done.err) == (0, "", "nothing has been asked yet\n")
    assert call("history", DATA, "--json").json == {"history": []}


def test_receipts_are_compared(call, asked):
    words = [word for receipt in asked for word in ("--receipt", receipt)]
    assert re.search(r"compared +with 4 receipts\n", call("verify", DATA, *words).out)
    assert re.search(r"compared +with 1 receipt\n", call("verify", DATA, "--receipt", asked[0]).out)
    found = call("verify", LEDGER, *words, "--json").json
    assert (found["whole"], found["charges"], found["compared"]) == (True, 3, 4)
    assert read_receipt(found["receipt"])[0] == found["entries"]
    assert "give --receipt to detect a rollback" in call("verify", LEDGER).out


def test_a_ledger_that_was_cut_off_is_noticed_by_the_newest_receipt_only(call, place, asked):
    """The planted rollback: an old copy of the ledger is whole by itself, and fails against a receipt it should have."""
    with ht.Curator(place / DATA, ledger=place / LEDGER) as curator:
        ends = sqlite3.connect(place / LEDGER)
        copy = sqlite3.connect(place / "old.ledger")
        ends.backup(copy)
        copy.close()
        ends.close()
        newest = curator.ask("age > 10").certificate
    assert call("verify", "old.ledger").code == 0
    assert call("verify", "old.ledger", "--receipt", asked[0]).code == 0
    rolled = call("verify", "old.ledger", "--receipt", f"{newest.entry}:{newest.digest}")
    assert (rolled.code, rolled.out) == (5, "")
    assert f"entry {newest.entry}" in rolled.err
    assert call("verify", LEDGER, "--receipt", f"{newest.entry}:{newest.digest}").code == 0


@pytest.mark.parametrize(
    "text", ["", "1", "1:", "1:abc", f"-1:{'0' * 64}", f"1:{'0' * 63}g", f"1:{'A' * 64}", f"x:{'0' * 64}"]
)
def test_what_is_no_receipt_is_said(text):
    with pytest.raises(InvalidParameter, match="64 hexadecimal digits"):
        read_receipt(text)


def test_receipts_are_read_as_they_are_printed():
    assert read_receipt(f" 12:{'0f' * 32}\n") == (12, "0f" * 32)


def test_a_report_holds_what_was_released(call, place, asked):
    done = call("report", DATA, "out.html", "--title", "For the board & others")
    assert (done.code, done.out) == (0, "")
    page = place.joinpath("out.html").read_text(encoding="utf-8")
    assert "For the board &amp; others" in page
    assert asked[-1].split(":")[1][:12] in page
    assert "smoker" in page
    assert call("report", DATA, "again.html", "--json").json == {"report": "again.html", "charges": 3}
    assert "<title>people" in place.joinpath("again.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("budget", "nothing.ledger"), 2, "nothing.ledger"),
        (("history", "nothing.parquet"), 2, "nothing"),
        (("verify", "nothing.ledger"), 2, "there is no ledger"),
        (("report", LEDGER, "out.txt"), 2, ".html"),
        (("report", LEDGER, "nowhere/out.html"), 2, "out.html"),
        (("report", "nothing.ledger", "out.html"), 2, "nothing.ledger"),
        (("verify", LEDGER, "--receipt", f"999:{'0' * 64}"), 5, "999"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("asked")
def test_what_cannot_be_shown_is_one_line(call, words, code, said):
    done = call(*words)
    assert (done.code, done.out) == (code, "")
    assert re.fullmatch(r"error: .+\n", done.err)
    assert said in done.err


def test_a_holdout_that_keeps_no_privacy_is_counted_in_looks(call, place):
    with ht.Holdout([0, 1] * 200, looks=3, yes=1, incumbent=[0] * 400, ledger=place / "exam.ledger") as gate:
        gate.gate([1] * 400)
    assert re.search(r"spent +1 of 3 looks\n", call("verify", "exam.ledger").out)

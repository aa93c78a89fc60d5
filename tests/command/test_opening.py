"""`holdtrue open`: what is declared is frozen in the ledger, and what cannot be leaves none behind."""

import gc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdtrue as ht
from holdtrue.codec import convert

DATA = "rows.csv"
PRIVACY = ("--epsilon", 1, "--delta", 1e-6)


@pytest.fixture
def rows(tmp_path, monkeypatch):
    lines = [f"{number % 90},{'NS'[number % 2]}" for number in range(2_000)]
    (tmp_path / DATA).write_text("\n".join(["age,region", *lines]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plan_is_frozen_as_declared(call, rows):
    words = ("--queries", 20, *PRIVACY, "--iid", "--beta", 0.1, "--reserve", 0.5, "--uses", 4)
    made = call("open", DATA, *words, "--json").json
    plan = convert(made["plan"], ht.Plan)
    assert (plan.rows, plan.queries, plan.beta, plan.reserve, plan.uses, plan.iid) == (2_000, 20, 0.1, 0.5, 4, True)
    assert made["ledger"] == "rows.ledger"
    with ht.Curator(rows / DATA, ledger=rows / "rows.ledger") as curator:
        assert curator.plan == plan


@pytest.mark.usefixtures("rows")
def test_garbage_is_seldom_looked_for_while_data_are_opened_and_as_before_afterwards(call, monkeypatch):
    before, told = gc.get_threshold(), []
    monkeypatch.setattr(gc, "set_threshold", lambda *given: told.append(given))
    call("open", DATA, "--queries", 20, *PRIVACY, "--iid")
    assert told == [(50_000,), before]


@pytest.mark.parametrize(
    ("words", "kind", "rule"),
    [
        (("--queries", 20, *PRIVACY, "--iid", "--cap", "privacy"), "gdp", "privacy"),
        (("--queries", 20, "--iid"), "gdp", "validity"),
        (("--queries", 5, "--iid", "--pure", "--epsilon", 1), "pure", "validity"),
    ],
)
@pytest.mark.usefixtures("rows")
def test_kinds_of_ledgers(call, words, kind, rule):
    plan = call("open", DATA, *words, "--json").json["plan"]
    assert (plan["ledger"], plan["rule"]) == (kind, rule)


@pytest.mark.usefixtures("rows")
def test_a_group_is_frozen_with_the_plan(call):
    plan = call("open", DATA, "--queries", 20, *PRIVACY, "--group", 4, "--json").json["plan"]
    assert (plan["group"], plan["rows"]) == (4, 500)
    assert call("ask", DATA, "age > 30", "--json").json["certificate"]["group"] == 4
    assert call("open", DATA, "--queries", 20, "--iid", "--group", 2, "--second-budget", "--ledger", "b.ledger").code == 2


@pytest.mark.usefixtures("rows")
def test_a_card_says_types_bounds_and_labels(call, rows):
    card = '[types]\nage = "real"\n[bounds]\nage = [0, 120]\n[labels]\nregion = ["N", "S"]\n'
    (rows / "card.toml").write_text(card, encoding="utf-8")
    made = call("open", DATA, "--queries", 5, "--iid", "--card", "card.toml", "--json").json
    columns = {column["name"]: column for column in made["card"]["columns"]}
    assert (columns["age"]["type"], columns["age"]["bounds"]) == ("real", [0.0, 120.0])
    assert columns["region"]["labels"] == ["N", "S"]
    shown = call("ask", DATA, "age / 120")
    assert shown.code == 0


@pytest.mark.usefixtures("rows")
def test_a_second_budget_for_the_same_rows_must_be_wanted(call):
    assert call("open", DATA, "--queries", 5, "--iid").code == 0
    again = call("open", DATA, "--queries", 5, "--iid", "--ledger", "second.ledger")
    assert again.code == 3
    assert call("open", DATA, "--queries", 5, "--iid", "--ledger", "second.ledger", "--second-budget").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--queries", 0, *PRIVACY), "queries"),
        (("--queries", 5, *PRIVACY, "--beta", 2), "beta"),
        (("--queries", 5, *PRIVACY, "--reserve", 1), "reserve"),
        (("--queries", 5, "--epsilon", -1), "epsilon"),
        (("--queries", 5), "epsilon"),
        (("--queries", 5, *PRIVACY, "--card", "absent.toml"), "absent.toml"),
        (("--queries", 5, *PRIVACY, "--row-key", "age"), "Spark"),
    ],
    ids=str,
)
def test_what_cannot_be_opened_leaves_no_ledger(call, rows, words, said):
    done = call("open", DATA, *words)
    assert (done.code, done.out) == (2, "")
    assert said.lower() in done.err.lower()
    assert not (rows / "rows.ledger").exists()


def test_units_are_opened_and_asked_with_their_tables(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = ["patient_id,age", *(f"{person},{person % 90}" for person in range(2_000))]
    visits = ["patient_id,cost", *(f"{person},{person % 7}" for person in range(2_000) for _ in range(person % 3))]
    (tmp_path / "patients.csv").write_text("\n".join(people), encoding="utf-8")
    (tmp_path / "visits.csv").write_text("\n".join(visits), encoding="utf-8")
    words = ("--unit", "patient_id", "--table", "visits=visits.csv", "--queries", 20, "--iid", *PRIVACY)
    shown = call("open", "patients.csv", *words)
    assert "patient_id: 2,000 units; intervals are about a random patient_id" in shown.out
    assert "visits.cost" in shown.out
    monkeypatch.chdir(tmp_path.parent)
    answer = call("ask", tmp_path / "patients.csv", "visits.COUNT(*) >= 1", "--json").json
    assert answer["certificate"]["unit"] == "patient_id"
    assert "a random patient_id" in call("preview", tmp_path / "patients.csv", "visits.ANY(cost > 3)").out
    alone = call(
        "open", tmp_path / "visits.csv", "--unit", "patient_id", "--queries", 5, "--iid", "--second-budget", "--json"
    )
    assert alone.json["card"]["rows"] == 1_333


@pytest.mark.parametrize("table", ["visits", "=visits.csv", "a b=visits.csv", "visits="])
@pytest.mark.usefixtures("rows")
def test_tables_are_named_with_their_file(call, table):
    refused = call("open", DATA, "--queries", 5, "--unit", "age", "--table", table)
    assert refused.code == 2
    assert "NAME=FILE" in refused.err


def test_bad_units_are_one_line_and_nothing_is_charged(call, rows):
    """A key that is not there, NULL in every row, of another type or cap; a ledger of rows, which stays one."""
    (rows / "text.csv").write_text("\n".join(["age,cost", *["a,1"] * 5]), encoding="utf-8")
    pq.write_table(pa.table({"age": pa.nulls(5, pa.int64())}), rows / "none.parquet")
    (rows / "people.csv").write_text("\n".join(["age", *map(str, range(500))]), encoding="utf-8")
    planned = ("--queries", 5, *PRIVACY)
    for words, said in (
        (("open", DATA, "--unit", "person", *planned), "must have a column 'person'"),
        (("open", "people.csv", "--unit", "age", "--table", "v=none.parquet", *planned), "NULL in every row"),
        (("open", "people.csv", "--unit", "age", "--table", "v=text.csv", *planned), "whole number in one table and text"),
    ):
        refused = call(*words)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    assert not list(rows.glob("*.ledger"))
    assert call("open", DATA, *planned).code == 0
    for words, said in (
        (("open", DATA, "--unit", "age", *planned), "ledger"),
        (("ask", DATA, "ANY(age > 30)"), "open the data with --unit"),
        (("ratio", DATA, "COUNT(age > 30)", "COUNT(*)", "--cap", 3), "no column"),
    ):
        refused = call(*words)
        assert refused.code, words
        assert said in refused.err, refused.err
    with ht.Curator(rows / DATA, ledger=rows / "rows.ledger") as curator:
        assert not curator.history


@pytest.mark.usefixtures("rows")
def test_a_second_purse_is_opened_and_told_by_every_subcommand(call):
    words = ("--queries", 20, "--epsilon", 4, "--delta", 1e-6, "--iid")
    kept = "predictions=6,epsilon=0.1,currency=draws"
    plan = call("open", DATA, *words, "--reserve", kept, "--json").json["plan"]
    assert (plan["purse"]["currency"], plan["purse"]["predictions"]) == ("draws", 6)
    found = call("select", DATA, "old=age > 40", "young=age < 20", "--json").json
    assert (found["certificate"]["purse"], found["certificate"]["left"]) == ("draws", 5.0)
    assert "5 draws left to select, learn and predict" in call("budget", DATA).out
    assert call("budget", DATA, "--json").json["reserve_unit"] == "draws"
    assert "1 draw spent, 5 left" in call("verify", DATA).out
    assert call("verify", DATA, "--json").json["purse"] == {"currency": "draws", "spent": 1.0, "left": 5.0}
    assert "1 spent, 5 left of draws beside it" in " ".join(call("audit", "ledger", DATA).out.split())
    second = ("--second-budget", "--ledger", "b.ledger")
    for wrong in ("much", "predictions=6", "predictions=six,epsilon=0.1", "predictions=6,epsilon=0.1,currency=euros"):
        assert call("open", DATA, *words, "--reserve", wrong, *second).code == 2

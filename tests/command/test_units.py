"""A ledger of persons by the command: aggregates of their rows, ratios, tables of shares, and what is refused at no cost."""

import re

import numpy as np
import pandas as pd
import pytest

DATA = "visits.parquet"
PERSONS = 2_000


@pytest.fixture
def visits(tmp_path, monkeypatch, call):
    """A folder with the visits of persons and a ledger of 40 questions about persons, where the command runs."""
    random = np.random.default_rng(list(b"visits by the command"))
    person = np.repeat(np.arange(PERSONS), random.integers(1, 6, PERSONS))
    table = {
        "person": person,
        "urgent": random.random(len(person)) < 0.3,
        "cost": random.uniform(0, 100, len(person)),
        "ward": random.choice(["A", "B"], len(person)),
    }
    frame = pd.DataFrame(table)
    frame.to_parquet(tmp_path / DATA)
    monkeypatch.chdir(tmp_path)
    opened = call("open", DATA, "--unit", "person", "--queries", 40, "--iid")
    assert opened.code == 0, opened.err
    assert "person" in opened.out
    return frame


def asks_left(call):
    return call("budget", DATA, "--json").json["asks"]


TRUTHS = {
    "ANY(urgent)": lambda groups: groups.urgent.any().mean(),
    "EVERY(urgent)": lambda groups: groups.urgent.all().mean(),
    "COUNT(*) >= 3": lambda groups: (groups.size() >= 3).mean(),
    "MAX(cost) > 50": lambda groups: (groups.cost.max() > 50).mean(),
    "SHARE(urgent) > 0.5": lambda groups: (groups.urgent.mean() > 0.5).mean(),
}


def test_questions_are_about_a_random_person(call, visits):
    found = call("ask", DATA, *TRUTHS, "--json").json["answers"]
    for answer, truth in zip(found, TRUTHS.values(), strict=True):
        assert answer["interval"]["low"] <= truth(visits.groupby("person")) <= answer["interval"]["high"]
    assert asks_left(call) == 35
    assert call("preview", DATA, "ANY(urgent)", "--json").json["repeated"]
    shown = call("ask", DATA, "ANY(urgent)")
    assert "person" in call("budget", DATA).out + shown.out
    assert re.search(r"left +35 of 40 questions", shown.out)


def test_a_ratio_and_a_table_of_shares_are_of_persons(call, visits):
    shown = call("ratio", DATA, "COUNT(urgent)", "COUNT(*)", "--cap", 5, "--json").json
    assert shown["interval"]["low"] <= visits.urgent.mean() <= shown["interval"]["high"]
    assert asks_left(call) == 38
    told = call("table", DATA, "SHARE(ward)", "--keys", "SHARE(ward)=A,B", "--json")
    assert told.code == 0, told.err
    assert told.json["labels"] == [["A"], ["B"], [None]]
    shares = visits.assign(first=visits.ward == "A").groupby("person")["first"].mean()
    assert told.json["low"][0] <= shares.mean() <= told.json["high"][0]


REFUSED = [
    (("ratio", DATA, "COUNT(urgent)", "COUNT(*)", "--cap", 0), "cap"),
    (("ratio", DATA, "COUNT(nothing)", "COUNT(*)", "--cap", 2), "nothing"),
    (("ask", DATA, "ANY(cost)"), "not a condition"),
    (("ask", DATA, "cost > 5"), "cost"),
    (("table", DATA, "ward"), "ward"),
    (("table", DATA, "SHARE(ward)", "SHARE(urgent)", "--keys", "SHARE(ward)=A,B"), "SHARE"),
    (("open", DATA, "--unit", "person", "--queries", 3), "already a ledger"),
    (("open", DATA, "--unit", "nobody", "--queries", 3, "--ledger", "other.ledger", "--second-budget"), "nobody"),
    (("open", DATA, "--unit", "cost", "--queries", 3, "--ledger", "other.ledger", "--second-budget"), "cost"),
]


@pytest.mark.usefixtures("visits")
def test_what_is_refused_costs_nothing(call):
    for words, said in REFUSED:
        done = call(*words)
        assert (done.code, done.out) in ((2, ""), (3, ""))
        assert said in done.err
    assert asks_left(call) == 40


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("question", ["ANY(smoker)", "COUNT(*) >= 2", "SUM(age) / 9"])
def test_aggregates_need_a_ledger_of_units(call, question):
    done = call("ask", "people.parquet", question)
    assert (done.code, done.out) == (2, "")
    assert "unit" in done.err
    assert call("budget", "people.parquet", "--json").json["asks"] == 30

"""Statistics that are not means of rows, by the command: what is printed, what it costs, what is refused."""

import json

import numpy as np
import pytest

import holdtrue as ht

SPAN = ("--low", 0, "--high", 100)
BOUNDS = ("--bounds", "age=0:100", "--bounds", "bmi=0:60")
WORDS = {
    "variance": ("variance", "people.parquet", "age", *SPAN),
    "covariance": ("covariance", "people.parquet", "age", "bmi", *BOUNDS),
    "correlation": ("correlation", "people.parquet", "age", "bmi", *BOUNDS),
    "r-squared": ("r-squared", "people.parquet", "bmi", "age", *SPAN),
    "gini": ("gini", "people.parquet", "age", "--high", 100),
    "ratio": ("ratio", "people.parquet", "age", "bmi", "--cap", 30, "--high", 5),
    "auc": ("auc", "people.parquet", "age", "smoker", *SPAN),
    "pairs": ("pairs", "people.parquet", "abs(a.age - b.age)", *SPAN),
}
QUESTIONS = {"variance": 1, "covariance": 1, "correlation": 3, "r-squared": 2, "gini": 2, "ratio": 2, "auc": 2, "pairs": 1}


def asks_left(place):
    with ht.Curator(place / "people.parquet", ledger=place / "people.ledger") as curator:
        return curator.budget.asks


@pytest.mark.parametrize("name", WORDS)
def test_a_preview_says_the_price_and_is_free(call, place, name):
    found = call(*WORDS[name], "--preview", "--json").json
    assert found["questions"] == QUESTIONS[name]
    assert len(found["sensitivities"]) == len(found["sample_alphas"]) == QUESTIONS[name]
    shown = call(*WORDS[name], "--preview")
    several = f"{QUESTIONS[name]} questions" if QUESTIONS[name] > 1 else "one question"
    assert (shown.code, several in shown.out) == (0, True)
    assert asks_left(place) == 30


@pytest.mark.parametrize("name", WORDS)
def test_a_statistic_costs_what_its_preview_said_and_nothing_again(call, place, name):
    first = call(*WORDS[name], "--json").json
    assert first["interval"]["low"] <= first["value"] <= first["interval"]["high"]
    assert first["interval"]["target"] == "population"
    assert asks_left(place) == 30 - QUESTIONS[name]
    again = call(*WORDS[name], "--json").json
    assert (again["value"], again["repeated"]) == (first["value"], True)
    assert asks_left(place) == 30 - QUESTIONS[name]


@pytest.mark.parametrize("name", WORDS)
def test_lines_are_for_people(call, place, name):  # noqa: ARG001 - the folder it runs in
    shown = call(*WORDS[name])
    assert shown.code == 0
    for word in ("population", "these rows", "left", "receipt"):
        assert word in shown.out
    assert max(map(len, shown.out.splitlines())) <= 180


def test_a_variance_is_near_that_of_the_rows(call, place, table_of_people):  # noqa: ARG001 - the folder it runs in
    found = call(*WORDS["variance"], "--json").json
    assert found["sample_interval"]["low"] <= table_of_people.age.var() <= found["sample_interval"]["high"]


def test_a_correlation_shows_its_parts(call, place):  # noqa: ARG001 - the folder it runs in
    shown = call(*WORDS["correlation"])
    assert shown.out.count("variance") >= 2
    assert "covariance" in shown.out


def test_parts_that_were_asked_before_are_not_paid_again(call, place):
    call("variance", "people.parquet", "age", *SPAN)
    call(*WORDS["correlation"])
    assert asks_left(place) == 30 - 3


def test_the_least_error_of_a_class(call, place, table_of_people):
    document = {"class": "stumps", "bounds": [[0, 100]], "steps": 10, "columns": ["age"]}
    (place / "class.json").write_text(json.dumps(document))
    words = ("best-error", "people.parquet", "smoker", "--class", "class.json")
    found = call(*words, "--json")
    assert found.code == 0, found.err
    least = min(table_of_people.smoker.mean(), 1 - table_of_people.smoker.mean())
    assert found.json["sample_interval"]["low"] <= least + 0.01
    shown = call(*words)
    assert (shown.code, "receipt" in shown.out) == (0, True)
    assert asks_left(place) == 30 - 1


def test_keys_and_analysts_are_recorded(call, place):
    call(*WORDS["variance"], "--key", "monday", "--analyst", "ada")
    with ht.Curator(place / "people.parquet", ledger=place / "people.ledger") as curator:
        assert [line.analyst for line in curator.history] == ["ada"]
    other = call(*WORDS["gini"], "--key", "monday", "--analyst", "ada")
    assert other.code in (2, 3)
    assert asks_left(place) == 30 - 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("variance", "people.parquet", "region", *SPAN), "region"),
        (("variance", "people.parquet", "height", *SPAN), "height"),
        (("variance", "people.parquet", "age", "--low", 5, "--high", 5), "low"),
        (("variance", "people.parquet", "age", "--low", 0), "--high"),
        (("covariance", "people.parquet", "age", "age", *BOUNDS[:2]), "another column"),
        (("covariance", "people.parquet", "age", "bmi"), "bounds"),
        (("covariance", "people.parquet", "age", "bmi", "--bounds", "age=0"), "COLUMN=LOW:HIGH"),
        (("gini", "people.parquet", "age", "--low", -1, "--high", 100), "not negative"),
        (("auc", "people.parquet", "age", "bmi", *SPAN), "yes-or-no"),
        (("pairs", "people.parquet", "abs(a.age - a.bmi)", *SPAN), "both rows"),
        (("pairs", "people.parquet", "abs(a.age - b.height)", *SPAN), "height"),
        (("pairs", "people.parquet", "a.age >", *SPAN), ""),
        (("best-error", "people.parquet", "smoker", "--class", "nothing.json"), "nothing.json"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_free(call, place, words, message):
    done = call(*words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert asks_left(place) == 30


def test_a_budget_that_runs_out_is_refused_whole(call, place):
    with ht.Curator(place / "people.parquet", ledger=place / "people.ledger") as curator:
        curator.ask([f"age > {age}" for age in np.arange(28).tolist()])
    done = call(*WORDS["correlation"])
    assert (done.code, done.out) == (3, "")
    assert asks_left(place) == 2


def test_a_ledger_elsewhere_is_named(call, place):
    (place / "kept").mkdir()
    (place / "people.ledger").rename(place / "kept" / "people.ledger")
    assert call(*WORDS["variance"]).code == 2  # there is none beside the data
    named = ("--ledger", place / "kept" / "people.ledger")
    first = call(*WORDS["variance"], *named, "--json")
    assert first.code == 0, first.err
    shown = call(*WORDS["variance"], *named)
    assert f"{first.json['value']:.4g}"[:3] in shown.out
    assert "29 questions" in shown.out
    with ht.Curator(place / "people.parquet", ledger=place / "kept" / "people.ledger") as curator:
        assert curator.budget.asks == 29
        (line,) = curator.history
        assert line.analyst == "analyst"
        assert curator.variance("age", low=0, high=100).repeated


@pytest.mark.parametrize("name", WORDS)
def test_help_says_what_it_costs(call, name):
    shown = call(name, "--help")
    assert shown.code == 0
    assert "price of" in " ".join(shown.out.split())
    assert "--preview" in shown.out

"""``holdtrue theorem``: every item of the theory is found, by its names too, and computes what its function computes."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.accounting.composition import advanced_epsilon
from holdtrue.bounds.generalization import population_bound
from holdtrue.command import application
from holdtrue.command.theorems import THEOREMS

INDEX = Path(__file__).parents[2] / "docs" / "theory" / "index.md"


def command(*words):
    done = CliRunner().invoke(application, ["theorem", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_table_is_the_map_of_the_theory():
    rows = [line.strip("|\n").split("|") for line in INDEX.read_text().splitlines() if re.match(r"\| [0-9A-Z]", line)]
    assert {row[0].strip(): row[2].strip(" `") for row in rows} == {each.item: each.function for each in THEOREMS}
    assert len({each.name for each in THEOREMS}) == len(THEOREMS)


def test_a_number_is_computed_by_its_function():
    options = ("--epsilon", 0.1, "--count", 100, "--delta=1e-6")
    told = json.loads(command("advanced-composition", *options, "--json"))
    assert told["value"] == advanced_epsilon(0.1, times=100, delta=1e-6)
    assert f"{told['value']}" in command("D3", *options)
    found = json.loads(command("Lemma 7", "--alpha", 0.1, "--epsilon", 0.1, "--beta", 0.05, "--json"))
    assert found["value"]["bound"] == population_bound(0.1, epsilon=0.1, beta=0.05).bound


@pytest.mark.parametrize(("name", "item"), [("Theorem 0.2", "B5"), ("lemma 7", "E21"), ("t5", "T5"), ("compose", "T1")])
def test_a_theorem_is_found_by_item_name_function_and_lecture(name, item):
    assert [each["item"] for each in json.loads(command(name, "--json"))["theorems"]] == [item]


def test_all_are_listed_and_one_is_told_with_its_arguments():
    assert all(each.name in command() for each in THEOREMS)
    told = command("private-choice")
    assert "candidates, epsilon, beta" in told
    assert "Lecture 16, Theorem 0.2" in told


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        (("nothing",), ht.UnknownName, "lists all"),
        (("D3", "--epsilon"), ht.InvalidParameter, "--name value"),
        (("D3", "--epsilon", "0.1"), ht.InvalidParameter, "--times is missing"),
        (("Theorem 0.2", "--epsilon", "0.1", "--count", "3"), ht.InvalidParameter, "--count is unknown"),
        (("D3", "--epsilon", "0.1", "--speed", "3"), ht.InvalidParameter, "--speed is unknown"),
        (("D3", "--epsilon", "x", "--times", "3", "--delta", "1e-6"), ht.InvalidParameter, "a number"),
        (("D3", "--epsilon", "-1", "--times", "3", "--delta", "1e-6"), ht.InvalidParameter, "epsilon"),
        (("Lecture 16", "--epsilon", "1"), ht.InvalidParameter, "several are meant"),
        (("A3", "--p", "1", "--q", "2"), ht.InvalidParameter, "p"),
    ],
)
def test_what_cannot_be_computed_says_what_to_do(words, error, told):
    with pytest.raises(error, match=re.escape(told)):
        CliRunner().invoke(application, ["theorem", *words], catch_exceptions=False)

"""Every subcommand ends its help with an example that it would take; tables fit a terminal of 80 columns."""

import shlex
import sys

import pytest
from typer.main import get_command

import holdtrue as ht
from holdtrue.command import application, main
from holdtrue.command.examples import EXAMPLES
from holdtrue.command.output import print_table
from holdtrue.planning.purchases import list_purchases


def list_commands(command, names=()):
    """Yield the name of every command with the command itself; a group that can be run is one."""
    below = getattr(command, "commands", {})
    if not below or (names and command.invoke_without_command):
        yield " ".join(names), command
    for name, each in below.items():
        yield from list_commands(each, (*names, name))


COMMANDS = dict(list_commands(get_command(application)))


def test_every_subcommand_has_one_example():
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_is_one_that_the_subcommand_takes(name):
    words, command = shlex.split(EXAMPLES[name]), COMMANDS[name]
    assert words[: len(name.split())] == name.split()
    with command.make_context(name, words[len(name.split()) :]) as context:
        assert context.params
    assert command.epilog == f"Example: holdtrue {EXAMPLES[name]}"


def test_an_example_with_an_unknown_option_would_be_noticed():
    with pytest.raises(Exception, match="No such option"):
        COMMANDS["ask"].make_context("ask", ["people.csv", "age > 3", "--nonsense"])


def test_what_a_budget_buys_is_what_the_planners_say(monkeypatch, capsys):
    found = {(each.verb, each.buys): each.quality for each in list_purchases(rows=10_000, epsilon=1, delta=1e-6)}
    wide = ht.plan(rows=10_000, queries=100, epsilon=1, delta=1e-6).alpha
    assert found["ask", "100 questions"] == f"each within {wide:.3g} of the population, all at once"
    verbs = {verb for verb, _ in found}
    assert {"ask", "table", "mean, sum", "median", "select", "watch", "learn", "predict", "distill", "fit"} <= verbs
    more = {each.verb: each.buys for each in list_purchases(rows=10_000, epsilon=2, delta=1e-6)}
    less = {each.verb: each.buys for each in list_purchases(rows=10_000, epsilon=1, delta=1e-6)}
    assert int(more["predict"].split()[0]) > int(less["predict"].split()[0])
    assert "too wide" in list_purchases(rows=50)[2].quality
    monkeypatch.setattr(sys, "argv", ["holdtrue", "plan", "budget", "--rows", "10000"])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr().out
    assert left.value.code == 0
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    "wrong", [{"rows": 0}, {"rows": 10, "epsilon": 0}, {"rows": 10, "delta": 1}, {"rows": 10, "beta": 2}]
)
def test_absurd_budgets_are_refused(wrong):
    with pytest.raises(ht.InvalidParameter):
        list_purchases(**wrong)


def test_a_table_breaks_heads_and_sentences_and_no_number(capsys):
    """It fits 80 columns; a word is broken only where it would take the room of the others."""
    heads, numbers = ("name", "at most", "lower bound", "samples", "told"), ("at most", "lower bound", "samples")
    rows = [["the Laplace mechanism " * 3, "0.999999", "1.9302", "1,000,000", "holds " * 9], ["x" * 200, "1", "2", "3", "y"]]
    print_table(heads, rows, right=numbers)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    words = set(shown.split())
    assert {"Laplace", "mechanism", "0.999999", "1.9302", "1,000,000", "holds"} <= words
    assert shown.count("x") == 200
    print_table([f"c{place}" for place in range(40)], [["0.125"] * 40])
    assert capsys.readouterr().out.count("5") >= 40  # too many columns for any terminal: nothing is cut off

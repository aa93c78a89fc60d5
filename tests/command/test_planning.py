"""`holdtrue plan`: text and JSON on standard output, plots into files, errors on one line with their exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import holdtrue as ht
from holdtrue.codec import convert, decode
from holdtrue.command import application


def run(*words):
    return CliRunner().invoke(application, ["plan", *words], catch_exceptions=False)


def command(*words):
    """Run the installed command in a process of its own."""
    script = Path(sys.executable).with_name("holdtrue")
    return subprocess.run([str(script), *words], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603


def test_asking_prints_the_plan():
    result = run("--queries", "1000", "--alpha", "0.1")
    assert result.exit_code == 0
    assert "35,165" in result.stdout
    assert "joint-gaussian" in result.stdout


def test_asking_as_json_is_the_plan():
    result = run("--rows", "100000", "--queries", "1000", "--json")
    assert decode(result.stdout, ht.Plan) == ht.plan(rows=100_000, queries=1000)


def test_u6_shares_print_both_widths():
    result = run("--rows", "45000", "--queries", "300", "--shares", "0.05")
    made = ht.plan(rows=45_000, queries=300, shares=0.05)
    assert f"within {made.alpha:.4g} of the population" in result.stdout
    assert f"{made.alpha_at(0.05):.4g} where an answer is 0.05" in result.stdout


def test_s6b_a_side_is_planned_and_printed():
    result = run("--queries", "10", "--alpha", "0.1", "--side", "low", "--compare")
    shown = " ".join(result.stdout.split())
    assert "every answer's lower end, at most 0.1 below it, is below the population" in shown
    assert "upper ends are not promised" in shown
    assert "(lower ends only)" in shown
    made = decode(run("--queries", "10", "--alpha", "0.1", "--side", "high", "--json").stdout, ht.Plan)
    assert made == ht.plan(queries=10, alpha=0.1, side="high")
    assert run("--queries", "10", "--alpha", "0.1", "--side", "up").exit_code == 2


def test_comparison_shows_every_method_and_marks_privacy():
    text = run("--queries", "100", "--alpha", "0.1", "--compare").stdout
    for method in ("jung20", "lecture19", "splitting", "rounding", "nonadaptive"):
        assert method in text
    document = json.loads(run("--queries", "100", "--alpha", "0.1", "--compare", "--json").stdout)
    assert {line["method"]: line["private"] for line in document["comparison"]}["splitting"] is False


@pytest.mark.parametrize(
    ("words", "cls"),
    [
        (("learning", "--size", "10000", "--alpha", "0.05", "--beta", "0.01", "--epsilon", "0.5"), ht.LearningPlan),
        (("selection", "--candidates", "50", "--epsilon", "0.5"), ht.SelectionPlan),
        (("prediction", "--size", "1000", "--alpha", "0.1", "--epsilon", "1"), ht.PredictionPlan),
        (("prediction", "--size", "1000", "--alpha", "0.1", "--epsilon", "1", "--agnostic"), ht.PredictionPlan),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_the_other_plans_print_text_json_and_plots(words, cls, tmp_path):
    text = run(*words)
    assert text.exit_code == 0
    document = json.loads(run(*words, "--json").stdout)
    assert str(convert(document, cls)) == text.stdout.rstrip("\n")
    for suffix in ("svg", "png"):
        assert run(*words, "--plot", str(tmp_path / f"plan.{suffix}")).exit_code == 0
        assert (tmp_path / f"plan.{suffix}").stat().st_size > 5000


def test_asking_draws_its_comparison(tmp_path):
    run("--queries", "100", "--alpha", "0.1", "--plot", str(tmp_path / "plan.svg"))
    drawing = (tmp_path / "plan.svg").read_text()
    assert drawing.startswith("<?xml")
    assert drawing.count("<path") > 50  # eleven lines, and letters as outlines


def test_json_goes_to_standard_output_and_talk_to_standard_error(tmp_path):
    done = command("plan", "selection", "--candidates", "9", "--epsilon", "1", "--json", "--plot", str(tmp_path / "s.png"))
    assert done.returncode == 0
    assert json.loads(done.stdout)["candidates"] == 9
    assert done.stderr.startswith("wrote ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "--rows", "10", "--alpha", "0.001"), "rows are too few"),
        (("plan", "--rows", "10", "--queries", "10", "--alpha", "0.1"), "give exactly two of rows, queries and alpha"),
        (("plan", "--queries", "10", "--alpha", "2"), "alpha must be a number in (0, 1); got 2"),
        (("plan", "--queries", "10", "--alpha", "0.1", "--method", "magic"), "magic"),
        (("plan", "learning", "--size", "10"), "exactly one of"),
        (("plan", "selection", "--candidates", "0", "--epsilon", "1"), "candidates must be a whole number"),
        (("plan", "selection", "--candidates", "9", "--epsilon", "1", "--plot", "x.gif"), ".svg, .png, .pdf"),
        (("plan", "selection", "--candidates", "9", "--epsilon", "1", "--plot", "/nowhere/x.png"), "can be written"),
    ],
    ids=str,
)
def test_errors_are_one_line_and_exit_with_two(words, message):
    done = command(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_and_version():
    assert "plan" in command("--help").stdout
    assert command("--version").stdout == f"holdtrue {ht.__version__}\n"
    assert "Plan before reading data" in command("plan").stdout


@pytest.mark.parametrize(
    ("words", "cases", "last"),
    [
        ((0.05, 0.1, 100, 5), 759, 1_915),
        ((0.1, 0.1, 100, 5), 157, 364),
        ((0.05, 0.05, 100, 5), 316, 730),
        ((0.05, 0.1, 20, 3), 589, 946),
    ],
)
def test_v1_the_cases_that_a_gate_needs(call, words, cases, last):
    gain, discordant, looks, yes = words
    given = ("--gain", gain, "--discordant", discordant, "--looks", looks, "--yes", yes)
    shown = call("plan", "holdout", *given)
    assert shown.code == 0, shown.err
    assert f"{cases:,} cases find it 80% of the time, {last:,} at the last yes" in shown.out
    assert call("plan", "holdout", *given, "--json").json["cases"] == cases


def test_v1_the_gains_that_five_hundred_cases_find(call):
    given = ("--cases", 500, "--looks", 100, "--yes", 5, "--discordant", 0.1)
    shown = call("plan", "holdout", *given)
    assert "find a gain of 0.061 80% of the time at the first look; at the last yes 0.090" in " ".join(shown.out.split())
    gate = next(mode for mode in call("plan", "holdout", *given, "--json").json["modes"] if mode["mode"] == "gate")
    assert gate["alpha"] == pytest.approx(0.14, abs=1e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gain", 0.2, "--discordant", 0.1, "--looks", 10, "--yes", 2), "gain must be at most 0.1"),
        (("--gain", 0.05, "--looks", 100, "--yes", 5), "gain needs discordant"),
        (("--cases", 100, "--looks", 10, "--yes", 20), "yes must be at most 10, the looks"),
        (("--cases", 100, "--looks", 10, "--yes", 2, "--discordant", 1.5), "discordant"),
        (("--cases", 0, "--looks", 10, "--yes", 2), "cases"),
    ],
)
def test_a_gate_that_cannot_be_planned_is_one_line(call, words, message):
    done = call("plan", "holdout", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_reserve_for_predictions_is_planned_in_every_currency(call):
    words = ("--rows", 100_000, "--queries", 100, "--epsilon", 4, "--delta", 1e-6)
    told = call("plan", *words, "--reserve", "predictions=20,epsilon=0.1").out
    assert "20 predictions of epsilon 0.1, counted in draws" in told
    assert "in mu squared" in told
    assert "in rho" in told
    assert max(map(len, told.splitlines())) <= 125

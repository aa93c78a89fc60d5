"""``pytest --holdtrue-gate``: a suite passes through a gate, and nothing of its tests is shown."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
import os, warnings
import pytest

@pytest.fixture
def broken(case):
    if os.environ["RIGHT"] == "broken" and case == 0:
        raise RuntimeError("canary 1")

@pytest.mark.parametrize("case", range(30))
def test_case(case, broken):
    if case == 1:
        pytest.skip("canary 2")
    if case >= int(os.environ["RIGHT"].replace("broken", "25")):
        warnings.warn("canary 3")
        print("canary 4")
        raise AssertionError("canary 5")
"""
RUNS = """
import json, os, sys, io, contextlib, pytest, holdtrue.guards.pytest_plugin
print(json.dumps([0, " ".join(sys.modules)]))
for right, words in json.loads(sys.argv[1]):
    os.environ["RIGHT"] = right
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        code = pytest.main(["-p", "no:xdist", *words])  # installed as an entry point
    print(json.dumps([int(code), said.getvalue()]))
"""


def run_suites(folder, *runs):
    (folder / "test_evals.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    gated = [(right, ["--holdtrue-gate", "gate.holdout", *words]) for right, *words in runs]
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", RUNS, json.dumps(gated)],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_suite_goes_through_a_gate_and_its_tests_are_not_shown(tmp_path):
    (_, modules), *asked = run_suites(
        tmp_path,
        ("8",),
        ("8", "--holdtrue-create", "10,2", "--holdtrue-unseen", "--holdtrue-submission", "main"),
        ("8", "--holdtrue-create", "10,2"),
        ("9", "--holdtrue-submission", "small"),
        ("9", "--holdtrue-submission", "small", "-vv", "-rA"),
        ("broken", "--holdtrue-submission", "large"),
        ("25", "-k", "case and not 7"),
        ("25", "-x"),
        ("25", "--junitxml=results.xml"),
        ("25", "-s"),
        ("25", "--pdb"),
        ("25", "--holdtrue-create", "many"),
    )
    assert "holdtrue.holdouts" not in modules  # pytest starts without the rest of the package
    assert [code for code, _ in asked] == [2, 0, 2, 1, 1, 0, 3, 4, 4, 4, 4, 4]
    missing, created, again, small, repeated, large, fewer, stopped, *_, terms = (said for _, said in asked)
    assert "there is no gate at gate.holdout; --holdtrue-create creates one, once" in missing
    assert "created over 30 cases; these outcomes are the incumbent" in created
    assert "already a gate" in again
    assert "no: this candidate is not told apart from the incumbent" in small
    assert "9 looks and 2 yes left" in repeated
    assert "yes: better than the incumbent, for fresh cases; with 95% confidence every yes of this gate is true" in large
    assert "30 cases in" in large
    assert "these are 27 cases; the holdout has 30; every look is at all of them" in fewer
    assert "--holdtrue-create: invalid looks_and_yes value: 'many'" in terms
    assert "leave out -x" in stopped
    for said in (created, small, repeated, large):
        assert not [word for word in ("canary", "failed", "passed", "FAIL", "skipped", "warning") if word in said]
    kept = b"".join(path.read_bytes() for path in (tmp_path / ".pytest_cache").rglob("*") if path.is_file())
    assert b"test_case" not in kept


def test_the_plugin_is_registered_and_does_nothing_unless_asked(pytestconfig):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"holdtrue": "holdtrue.guards.pytest_plugin"}
    assert not pytestconfig.pluginmanager.has_plugin("holdtrue-gate")


@pytest.mark.parametrize("path", sorted((ROOT / "src/holdtrue/guards").glob("*.py")), ids=lambda path: path.stem)
def test_a_guard_is_short(path):
    assert len([line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]) <= 80

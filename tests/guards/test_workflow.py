"""The workflow for GitHub Actions: its own steps ask the gate and comment the verdict."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml

import holdtrue as ht

WORKFLOW = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "eval-gate.yml").read_text(encoding="utf-8"))
STEPS = {step.get("name"): step for step in WORKFLOW["jobs"]["gate"]["steps"]}
CASES = 200


def write_junit(path, right):
    cases = "".join(
        f'<testcase classname="evals" name="{n}">{"" if n < right else "<failure/>"}</testcase>' for n in range(CASES)
    )
    path.write_text(f"<testsuite>{cases}</testsuite>")


def run_steps(folder):
    """Run two steps of the job as a runner does, with a command gh that keeps what it is given."""
    (folder / "gh").write_text('#!/bin/sh\necho "$@" > said; cat verdict.md >> said\n')
    (folder / "gh").chmod(0o700)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"HOLDOUT": "gate.holdout", "RESULTS": "results.xml", "GITHUB_SHA": "77d0", "NUMBER": "12", "PATH": path}
    given |= {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    for name in ("Ask the gate", "Comment the verdict"):
        words = ["bash", "-e", "-o", "pipefail", "-c", STEPS[name]["run"]]
        subprocess.run(words, cwd=folder, env=os.environ | given, check=True, capture_output=True)  # noqa: S603 - our own
    return (folder / "output").read_text(), (folder / "said").read_text(), (folder / "summary").read_text()


def test_the_verdict_is_commented_and_decides(tmp_path):
    ids = [f"evals.{n}" for n in range(CASES)]
    terms = {
        "looks": 20,
        "yes": 2,
        "metric": "hits",
        "incumbent": np.arange(CASES) < 100,
        "ledger": tmp_path / "gate.holdout",
    }
    with ht.Holdout(np.ones(CASES), ids=ids, **terms):
        pass
    write_junit(tmp_path / "results.xml", 160)
    output, said, summary = run_steps(tmp_path)
    assert output == "code=0\n"
    assert said.startswith("pr comment 12 --body-file verdict.md --edit-last --create-if-none\n**gate: yes**")
    assert "| claim | better than the incumbent, for these cases with fresh labels" in summary


def test_a_gate_that_is_lost_fails_the_job_and_says_so(tmp_path):
    write_junit(tmp_path / "results.xml", 160)
    output, said, _ = run_steps(tmp_path)
    assert output == "code=2\n"
    assert "The gate was not asked" in said
    assert STEPS["Pass for yes only"]["run"] == "exit ${{ steps.ask.outputs.code }}"

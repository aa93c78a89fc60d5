"""Importing and using Holdtrue where there is no fork, no fcntl and no uvloop, as on Windows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SCRIPT = """
import bare_system; bare_system.take_away()
import os, sys
assert not hasattr(os, "register_at_fork") and sys.modules["fcntl"] is None
import numpy as np
import holdtrue as ht
folder = sys.argv[1]
rows = {"age": np.arange(2000) % 90, "smoker": np.arange(2000) % 3 == 0}
with ht.Curator(rows, queries=50, epsilon=1.0, delta=1e-6, iid=True, ledger=f"{folder}/our rows.ledger") as curator:
    first = curator.ask("age > 65 AND smoker")
with ht.Curator(rows, ledger=f"{folder}/our rows.ledger") as curator:
    assert curator.ask("smoker AND age > 65").value == first.value
    assert curator.budget.asks == 49
truth = np.arange(500) % 2
with ht.Holdout(truth, looks=20, ledger=f"{folder}/our cases.ledger") as holdout:
    assert holdout.score(truth).value > 0.5
assert ht.verify(f"{folder}/our rows.ledger")
"""


def run_bare(*words):
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    call = [sys.executable, *map(str, words)]
    done = subprocess.run(  # noqa: S603 - our own script
        call, capture_output=True, text=True, check=False, cwd=TESTS.parent, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_ask_score_and_reopen_without_fork_fcntl_and_uvloop(tmp_path):
    run_bare("-c", SCRIPT, tmp_path)


@pytest.mark.parametrize(
    "files", [("ledgers/test_charging.py", "-k", "sqlite"), ("curator/test_repeats.py",), ("holdouts/test_rounding.py",)]
)
def test_the_suite_passes_without_fork_fcntl_and_uvloop(files, tmp_path):
    first, *others = files
    given = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "bare_system",
        f"--basetemp={tmp_path / 'with a space'}",
    ]
    told = run_bare("-m", "pytest", *given, TESTS / first, *others)
    assert " passed" in told
    assert "failed" not in told
    assert "without fork, fcntl, resource and uvloop" in told


def test_the_service_is_made_without_limits_and_uvloop():
    taken = "import bare_system; bare_system.take_away()"
    run_bare("-c", f"{taken}; import holdtrue.service.http.serving as serving; assert serving.resource is None")

"""Runs of above threshold under SIGKILL and several processes: a threshold that is drawn is one that was paid for.

HOLDTRUE_LOOKS says how many looks to make in all, over modes, stores and numbers of workers; 400 unless given.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdouts.looking import CALM, LOOKS_OF_A_RUN, RUNS, STEPS
from ledgers.conftest import quick  # noqa: F401 - a fixture: a folder in memory, since no disk is tested here
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start

MODES = ("private gate", "thresholdout", "private ladder", "watch")
WORKERS = (2, 4)
STORES = ("sqlite", "postgresql")
LOOKS = int(os.environ.get("HOLDTRUE_LOOKS", "400"))
TIMES = -(-LOOKS // (len(MODES) * len(WORKERS) * len(STORES) * CALM))
PROGRAM = Path(__file__).parent / "looking.py"


def watched(where, folder, mode, workers, *more):
    """Have workers killed over one ledger; return what the ledger says in the end, and what was seen."""
    seen = folder / f"seen-{len(list(folder.iterdir()))}"
    command = [sys.executable, str(PROGRAM), where, str(seen), mode, str(workers), *more]
    paths = {"PYTHONPATH": os.pathsep.join([*map(str, sys.path), str(PROGRAM.parent.parent)])}
    done = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, check=False, timeout=1200, env=os.environ | paths
    )
    assert done.returncode == 0, done.stderr
    sys.stderr.write(done.stderr)  # why a process failed, where one did
    return json.loads(done.stdout), Counter(seen.read_text().splitlines())


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("mode", MODES)
def test_p3_runs_drawn_never_exceed_runs_paid_whatever_is_killed(request, quick, store, workers, mode):  # noqa: F811
    """Killed at every step of every look of a run, and asked again by every process that comes after."""
    total = Counter()
    for turn in range(TIMES):
        where = str(quick / f"{turn}.ledger") if store == "sqlite" else request.getfixturevalue("postgres").schema()
        told, seen = watched(where, quick, mode, workers)
        assert (told["failed"], told["paid"] <= RUNS, told["looks"] >= CALM) == (0, True, True)
        assert 0 < seen["run"] <= told["paid"]
        assert seen["release"] <= told["paid"]
        assert set(told["silent"]) <= set(told["opened"])  # a look that cost nothing is in a run that was paid for
        assert len(set(told["opened"])) == len(told["opened"]) == told["paid"]
        hit = {f"kill {place} {step}" for place in range(LOOKS_OF_A_RUN) for step in range(len(STEPS))}
        assert hit <= set(seen)
        kills = sum(number for line, number in seen.items() if line.startswith("kill"))
        total.update({"looks": told["looks"], "kills": kills, "runs paid": told["paid"], "runs drawn": seen["run"]})
    sys.stdout.write(f"{mode}, {workers} workers, {store}: {dict(total)}\n")


@pytest.mark.parametrize("mode", MODES)
def test_looks_named_as_before_are_answered_with_runs_that_nobody_paid_for(quick, mode):  # noqa: F811
    """The control: named by the submission alone, a look that was charged 0 is answered with a new threshold.

    A watch goes on with the run that another process paid for.
    """
    told, seen = watched(str(quick / "before.ledger"), quick, mode, 2, "before")
    assert seen["run"] > told["paid"]

"""Whatever is passed to whatever is public, only errors of the tree come out: no others, no hang, no NaN, no gigabyte.

``HOLDTRUE_CALLS=10000`` makes as many calls; 2,000 unless told.
"""

import json
import os
import random
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import holdtrue as ht
import hostile_calls
from holdtrue import errors
from holdtrue.verbs import asking
from hostile_calls import MEMORY, Hung, Target, call_once

CALLS = int(os.environ.get("HOLDTRUE_CALLS", "2000"))
CHILDREN = 4
HERE = Path(hostile_calls.__file__)


@pytest.mark.parametrize("seed", range(CHILDREN))
def test_no_hostile_call_raises_outside_the_tree_hangs_or_gives_nan(seed):
    paths = os.pathsep.join([str(Path(ht.__file__).parents[1]), str(HERE.parent)])
    environment = os.environ | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE), f"{Path(__file__).stem} {seed}", str(CALLS // CHILDREN)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["calls"] == CALLS // CHILDREN
    assert report["breaches"] == {}
    assert report["memory"] < MEMORY


def test_everything_public_is_called(tmp_path):
    """What is exported and can be called is among the targets, or is made by something that is."""
    warnings.simplefilter("ignore")
    called = {target.name.partition(".")[0].partition(" ")[0] for target in hostile_calls.targets_in(tmp_path)}
    made = {"Bound", "Comparison", "Finding", "HoldoutPlan", "LearningPlan", "PredictionPlan", "RegressionPlan", "Score"}
    made |= {"SelectionPlan"}
    left = {name for name in ht.__all__ if name not in called | made | set(errors.__all__) and callable(getattr(ht, name))}
    assert left == {"Intractable", "Verdict"}


@pytest.fixture
def dice():
    """Dice, and an alarm that ends a call that hangs."""

    def hang(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, hang)
    yield random.Random("planted")
    signal.signal(signal.SIGALRM, before)


def _look_up(value):
    return {"a": 1}[value]


def _wait_for_ever(value):
    del value
    while True:
        pass


PLANTED = {
    "KeyError": _look_up,
    "hung": _wait_for_ever,
    "NaN": lambda value: np.nan if value is not None else 1.0,
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name, dice, monkeypatch):
    monkeypatch.setattr(hostile_calls, "SECONDS", 1)
    target = Target("planted", PLANTED[name], {"value": "a"})
    found = [call_once(target, dice) for _ in range(1 if name == "hung" else 20)]
    assert any(name in breach for breach in found if breach is not None)


def test_an_old_fault_is_found_again(tmp_path, dice, monkeypatch):
    """The control: what a list of questions once was made from, before it was checked."""
    monkeypatch.setattr(asking, "read_list", lambda _, values, **__: list(values))
    with ht.Curator({"age": np.arange(400)}, epsilon=1.0, delta=1e-6, ledger=tmp_path / "x.ledger") as opened:
        target = Target("Curator.ask", opened.ask, {"queries": "age > 3"})
        assert any(breach is not None and "TypeError" in breach for breach in (call_once(target, dice) for _ in range(50)))

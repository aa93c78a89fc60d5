"""WATCH: silent until it fires, one run at a time, each paid for by whoever draws its threshold."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.bounds.sparse_vector import one_sided_boxes

ROWS = 5_000
TERMS = {"queries": 50, "epsilon": 4.0, "delta": 1e-6, "iid": True, "cap": "privacy", "reserve": 0.8}
RUN = {"threshold": 0.5, "alarms": 3, "epsilon": 0.2}


def rows():
    return {"x": np.arange(ROWS) * 17 % ROWS}


def open_rows(path=None, **given):
    return ht.Curator(rows(), **({"ledger": path} if path else {}), **(TERMS | given))


def count_paid(curator):
    return sum(line.verb == "watch" and line.cost > 0 for line in curator.history)


def test_silence_costs_a_run_once_and_an_alarm_ends_it():
    with open_rows() as curator:
        watch = curator.watch(**RUN)
        assert (watch.alarms_left, curator.budget.spent) == (3, 0)
        first = watch.ask("x < 10")
        spent = curator.budget.spent
        assert not first.above
        assert first.run_cost == pytest.approx(spent)
        for bound in range(11, 40):
            answer = watch.ask(f"x < {bound}")
            assert (answer.above, answer.run, answer.run_cost) == (False, 1, 0.0)
        assert curator.budget.spent == spent
        fired = watch.ask("x >= 0")
        assert (fired.above, fired.run, fired.alarms_left) == (True, 1, 2)
        assert watch.ask("x >= 0").repeated
        assert curator.budget.spent == spent
        assert watch.ask("x >= 1").run == 2
        assert curator.budget.spent == pytest.approx(2 * spent)
        assert watch.ask("x >= 2").alarms_left == 0
        with pytest.raises(ht.RefusedError, match="alarms"):
            watch.ask("x >= 3")
        assert watch.ask("x < 10").repeated
        assert count_paid(curator) == 3
        assert "a run began" in [line.told for line in curator.history]  # and not its random id
        assert curator.watch(**RUN) is watch
        assert curator.watch(**RUN, name="another").ask("x >= 3").run == 1


def test_what_silence_and_an_alarm_say_is_public_and_holds():
    with open_rows() as curator:
        watch = curator.watch(**RUN)
        silent, fired = watch.ask("x < 10"), watch.ask("x >= 0")
        beta = curator.plan.beta
        box = one_sided_boxes(3, look=2, epsilon=watch.epsilon, beta=beta)[0] / ROWS
        assert silent.sample_interval.high == pytest.approx(0.5 + box)
        assert silent.interval.high >= silent.sample_interval.high
        assert fired.sample_interval.low < 0.5 <= fired.sample_interval.high == 1.0
        assert "V2.1" in silent.certificate.theorem
    with open_rows(iid=False) as curator:
        answer = curator.watch(**RUN).ask("x < 10")
        assert answer.interval is None
        assert "independent" in answer.reason


def test_another_process_and_a_restart_begin_a_run_of_their_own(tmp_path):
    path = tmp_path / "rows.ledger"
    with open_rows(path) as one, open_rows(path) as two:
        first, second = one.watch(**RUN), two.watch(**RUN)
        assert (first.ask("x < 10").run, second.ask("x < 20").run) == (1, 2)
        assert (first.ask("x < 30").run, second.ask("x < 40").run) == (1, 2)
        assert second.ask("x < 10").repeated
        assert count_paid(one) == 2
    with open_rows(path) as again:
        watch = again.watch(**RUN)
        assert watch.ask("x < 10").repeated
        assert watch.alarms_left == 1
        found = watch.ask("x < 50")
        assert found.run == 3
        assert found.run_cost > 0
        assert "run 3, begun here for" in str(found)
        assert str(found).endswith("; 1 alarm left")
        assert "begun" not in str(watch.ask("x < 51"))
        assert count_paid(again) == 3
    with open_rows(path) as last, pytest.raises(ht.RefusedError, match="opened that often"):
        last.watch(**RUN).ask("x < 60")


CHILD = """
import os, signal, sys
from verbs.test_watching import RUN, open_rows
curator = open_rows(sys.argv[1])
settle, left = curator.ledger.settle, [int(sys.argv[2])]
def dying(bodies, requests):
    found = settle(bodies, requests)
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
curator.ledger.settle = dying
curator.watch(**RUN).ask("x < 10")
curator.watch(**RUN).ask("x < 20")
"""


@pytest.mark.parametrize("step", [1, 2, 3, 4] if os.environ.get("HOLDTRUE_SOAK") else [1, 3])
def test_a_run_that_died_is_never_gone_on_with_unpaid(tmp_path, step):
    """Killed after the charge of a run, after its id was stored, after a look was charged, after it was answered."""
    path = tmp_path / "rows.ledger"
    open_rows(path).close()
    command = [sys.executable, "-c", CHILD, str(path), str(step)]
    done = subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})  # noqa: S603 - this test's own program
    assert done.returncode == -signal.SIGKILL
    with open_rows(path) as curator:
        watch = curator.watch(**RUN)
        answer = watch.ask("x < 30")
        begun = 1 if step == 1 else 2  # what a run paid for and nobody was told of is what the next one begins
        assert answer.run == begun
        assert count_paid(curator) == begun
        assert not watch.ask("x < 10").above
        assert count_paid(curator) == begun
    assert ht.verify(path)


@pytest.mark.parametrize("wrong", [{"threshold": -0.1}, {"threshold": 2}, {"alarms": 0}, {"alarms": 10**6}, {"epsilon": 0}])
def test_terms_that_make_no_watch_are_refused_and_cost_nothing(wrong):
    with open_rows() as curator:
        with pytest.raises(ht.InvalidParameter):
            curator.watch(**(RUN | wrong))
        with pytest.raises(ht.HoldtrueError):
            curator.watch(**RUN).ask("nope > 1")
        assert curator.budget.spent == 0


def test_a_key_names_one_question(tmp_path):
    with open_rows(tmp_path / "rows.ledger") as curator:
        watch = curator.watch(**RUN)
        first = watch.ask("x < 10", key="k")
        assert watch.ask("x < 10", key="k").above == first.above
        with pytest.raises(ht.RefusedError, match="used for another request"):
            watch.ask("x < 11", key="k")


def test_what_a_watch_says_of_the_population_holds():
    """Thirty datasets, a watch each, an analyst who steps towards the threshold: every interval has the truth in it."""
    source = np.random.default_rng(12)
    for _ in range(30):
        with ht.Curator({"x": source.random(ROWS)}, **TERMS) as curator:
            watch, step = curator.watch(threshold=0.5, alarms=3, epsilon=0.2), 0.2
            for _ in range(12):
                found = watch.ask(f"x < {step}")
                assert step in found.interval
                step += -0.11 if found.above else 0.07
                if found.alarms_left == 0:
                    break

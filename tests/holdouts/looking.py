"""Processes that look at one private holdout or ask one watch, killed with SIGKILL at every step of every look of a run.

``python looking.py WHERE SEEN MODE WORKERS [before]``: workers ask the same submissions in the same order, so that each one
that is started again first asks what another was killed over. Every one is killed at a look and a step of its own, in turn,
until each look of a run was hit at each step; then they finish. What happens is appended to SEEN and synced before it does:
``run`` when a threshold is about to be drawn, ``release`` when a noisy sum is, ``kill LOOK STEP``. With ``before``, looks
are named and answered as they were before runs had names: any charge that a crash left unanswered is answered; and a watch
goes on with the run that another process paid for.
"""

import gc
import json
import os
import signal
import sys
import traceback
from functools import cache

import numpy as np
from msgspec.structs import replace

import holdtrue as ht
from holdtrue.curator import pipeline
from holdtrue.curator.pipeline import Pipeline
from holdtrue.holdouts import Holdout, Leaderboard, private_gates, sparse
from holdtrue.holdouts.submissions import Question
from holdtrue.mechanisms import AboveThreshold
from holdtrue.verbs import watching

CASES, RUNS, MOST = 20_000, 60, 240
CALM = 70  # the looks that a ledger has in the end, so that lives without a kill go on after the others
STEPS = ("before the charge", "before the measurement", "before the response", "after the response")
LOOKS_OF_A_RUN = 5
# Cases of their own for each ledger: gates of one database know of one another, and none opens beside another on its cases.
RANDOM = np.random.default_rng([173, *(sys.argv[1].encode() if __name__ == "__main__" else b"")])
TRUTH, TRAIN = RANDOM.integers(0, 2, (2, CASES))
WATCHED = {"queries": 50, "epsilon": 4.0, "delta": 1e-6, "iid": True, "cap": "privacy", "reserve": 0.9}


@cache
def submission(number, *, good=False):
    """Return predictions of their own for a number, right in half of the cases, or in nearly all."""
    flips = np.random.default_rng([number, 1]).random(CASES) < (0.02 if good else 0.5)
    return np.where(flips, 1 - TRUTH, TRUTH).astype(np.int8)


def open_mode(mode, where):
    match mode:
        case "private gate":
            given = {"looks": MOST, "yes": RUNS, "private": True, "epsilon": RUNS, "ledger": where}
            return Holdout(TRUTH, incumbent=submission(MOST), **given)
        case "thresholdout":
            return Holdout(TRUTH, looks=MOST, train=TRAIN, overfits=RUNS, threshold=0.45, ledger=where)
        case "watch":
            return ht.Curator({"x": np.arange(CASES), "y": TRUTH}, ledger=where, **WATCHED)
        case _:
            return Leaderboard(TRUTH, submissions=MOST, rule="private ladder", moves=RUNS, ledger=where)


def look(mode, opened, number):
    """Ask for a submission; every seventh is found above the threshold, and ends its run."""
    loud = number % 7 == 6
    match mode:
        case "private gate":
            return opened.gate(submission(number, good=loud), margin=-0.5 if loud else 0.3)
        case "thresholdout":
            return opened.score(submission(number), train=TRAIN if loud else submission(number))
        case "watch":
            return opened.watch(threshold=0.5, alarms=RUNS).ask(f"x >= {number}" if loud else f"x < {number}")
        case _:
            return opened.submit("team", submission(number, good=loud))


def paid_runs(opened):
    """Return how many runs were paid for, by the ledger."""
    if isinstance(opened, ht.Curator):
        return sum(entry.cost > 0 for entry in opened.ledger.entries())
    return opened.ledger.spent // (opened.plan.cap_units // RUNS)


def note(seen, line):
    os.write(seen, f"{line}\n".encode())
    os.fsync(seen)


def arm(seen, place, step):  # noqa: C901 - each step of each kind of look
    """Have this process killed at a step of a look, counted among those that go to the ledger."""
    calls, run, watch, noise = [0], Pipeline.run, AboveThreshold.watch, sparse.Laplace.release

    def die(at):
        # A look that another process answers in between has no measurement: then the next one is hit.
        if place is not None and calls[0] > place and STEPS[step] == at:
            note(seen, f"kill {place} {step}")
            os.kill(os.getpid(), signal.SIGKILL)

    def running(self, job):
        calls[0] += 1
        die(STEPS[0])
        found = run(self, job)
        die(STEPS[3])
        return found

    def reading(self, name):
        if name in ("total", "values"):
            die(STEPS[1])
        return object.__getattribute__(self, name)

    def before_the_response(respond):
        def dying(*given):
            die(STEPS[2])
            return respond(*given)

        return dying

    def responding(*fields):
        *others, respond = fields
        return Release(*others, before_the_response(respond))

    def watching_release(*fields):
        *others, draw, respond = fields
        return Release(*others, lambda sums: (die(STEPS[1]), draw(sums))[1], before_the_response(respond))

    def replacing(release, *, respond, **others):
        return replace(release, **others, respond=before_the_response(respond))

    Release = sparse.Release  # noqa: N806 - the class itself
    Pipeline.run, Question.__getattribute__ = running, reading
    sparse.Release, private_gates.replace, watching.Release = responding, replacing, watching_release
    AboveThreshold.watch = lambda self: (note(seen, "run"), watch(self))[1]
    sparse.Laplace.release = lambda self, *values: (note(seen, "release"), noise(self, *values))[1]


def forget_names():
    """Name and answer looks as they were before runs had names."""
    sparse.request_id_in_run = lambda part, _: sparse.request_id_of(part)

    def same_parts(entry, release):
        return entry.response is None and tuple(json.loads(entry.body)["parts"]) == tuple(release.parts)

    def go_on(self, index):
        last = self.alarms - self._count_left(index)
        return watching._OwnRun(last, "", self._above.watch(), watching.SYSTEM.generation) if last else begin(self, index)

    begin = watching.QueryWatch._begin_run
    pipeline.may_answer, watching.QueryWatch._begin_run = same_parts, go_on


def live(where, seen, mode, place, step):
    arm(seen, place, step)
    opened = open_mode(mode, where)
    try:
        for number in range(MOST):
            answered = number if mode == "watch" else opened._pipeline.index.draws
            if place is None and answered >= CALM:
                break
            look(mode, opened, number)
    except (ht.BudgetExceeded, ht.RefusedError):
        pass
    opened.close()


def start(*life):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            live(*life)
            code = 0
        except Exception:  # noqa: BLE001 - told to whoever waits, who counts it
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def name_opened(opened, entry):
    """Return the name of a run that was paid for: of a watch, what its response says, or its entry where there is none."""
    if not isinstance(opened, ht.Curator):
        return json.loads(entry.body)["request"].get("run")
    told = next((json.loads(each.body) for each in opened.ledger.entries() if each.answers == entry.number), None)
    return told[0]["id"] if told else f"unanswered {entry.number}"


def main():
    where, path, mode, workers = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    if "before" in sys.argv:
        forget_names()
    seen = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    look(mode, open_mode(mode, None), 6)  # what is compiled and planned once, all lives inherit
    for number in range(CALM + 20):
        submission(number, good=number % 7 == 6)
    open_mode(mode, where).close()
    gc.freeze()
    hits = [(place, step) for place in range(LOOKS_OF_A_RUN) for step in range(len(STEPS))]
    alive, born, ended, failed = set(), 0, 0, 0
    while ended < workers:
        while len(alive) + ended < workers:
            alive.add(start(where, seen, mode, *(hits[born] if born < len(hits) else (None, None))))
            born += 1
        child, status = os.wait()
        alive.discard(child)
        ended += os.WIFEXITED(status)
        failed += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
    with open_mode(mode, where) as opened:
        charges = [entry for entry in opened.ledger.entries() if entry.kind == "charge" and entry.verb != "incumbent"]
        told = {"paid": paid_runs(opened), "looks": len(charges), "lives": born, "failed": failed}
        told["silent"] = [json.loads(entry.body)["request"].get("run") for entry in charges if not entry.cost]
        told["opened"] = [name_opened(opened, entry) for entry in charges if entry.cost]
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()

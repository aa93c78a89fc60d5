"""P3, P4 and P5 over HTTP: a server that is killed with SIGKILL under load, and clients that ask again until they are told.

``HOLDTRUE_KILLS=1000`` makes the long run of it (``make soak``).
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from holdtrue.ledgers import open_ledger, verify
from holdtrue.service.identity import Caller, request_id_of
from ledgers.conftest import quick as memory  # noqa: F401 - a fixture: a folder in memory, since no disk is tested here
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start

HERE = Path(__file__).parent
ANN = Caller("ann", "analyst", "")


def killed(folder, *, kills, keys, ledger=None):
    """Return the lines that clients wrote down, and the entries of the ledger, after so many kills."""
    # One thread a process: forking one that has more is not safe.
    environment = os.environ | {"PYTHONPATH": str(HERE.parent), "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, HERE / "killing.py", folder, str(kills), keys, *([ledger] if ledger else [])]
    subprocess.run(command, env=environment, check=True, timeout=60 + 20 * kills)  # noqa: S603 - our own program
    lines = [line.split(" ")[:3] for line in (folder / "seen").read_text().splitlines() if line.endswith(" .")]
    where = folder / "home" / "rows.ledger" if ledger is None else f"{ledger}&options=-csearch_path%3Dht_rows"
    assert verify(where)
    with open_ledger(where) as account:
        return lines, account.entries()


def charged_questions(entries):
    """Return how often each question was charged."""
    told = [json.loads(entry.body) for entry in entries if entry.kind == "charge" and entry.cost]
    return Counter(question for body in told for question in body["request"]["queries"])


@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 40), ("postgres", 20)])
def test_p3_p5_a_killed_server_answers_nothing_uncharged_and_charges_nothing_twice(kind, kills, request):
    kills = int(os.environ.get("HOLDTRUE_KILLS", kills))
    ledger = None if kind == "sqlite" else request.getfixturevalue("postgres").database()
    lines, entries = killed(request.getfixturevalue("memory"), kills=kills, keys="same", ledger=ledger)
    charges = {entry.request_id: entry for entry in entries if entry.kind == "charge"}
    answered = {entry.answers for entry in entries if entry.kind == "response"}
    bodies = defaultdict(set)
    for key, entry, digest in lines:
        paid = charges[request_id_of(ANN, key.replace("-", " "))]
        assert (paid.number, paid.number in answered) == (int(entry), True)
        bodies[key].add(digest)
    assert len(lines) > kills
    assert all(len(digests) == 1 for digests in bodies.values())  # a retry, and a replay, get the same bytes
    assert set(charged_questions(entries).values()) == {1}
    # Nothing is lost either: every question that was begun was answered in the end, under its one charge.
    assert len(charges) == len(answered) == len(bodies)


def test_p5_control_a_new_key_for_every_try_is_charged_again(request):
    _, entries = killed(request.getfixturevalue("memory"), kills=12, keys="new")
    assert max(charged_questions(entries).values()) > 1

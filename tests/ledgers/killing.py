"""A load of writers that are killed with SIGKILL at random moments; run as a program, from which the writers are forked.

``python killing.py WHERE SEEN KILLS ORDER``: writers append to the file SEEN what an analyst would have seen, one line with
one system call: ``read ID .`` when the engine would be called, ``answer ID TEXT .`` when an answer leaves. A kill can cut a
call short where the line crosses a page: a line starts with its own break, and counts if its full stop is there. ORDER is
``charge-first``, or ``answer-first`` for the control, which lets the answer out before it charges.
"""

import gc
import os
import random
import select
import signal
import sys
import time

import sqlalchemy as sa

from holdtrue.ledgers import open_ledger
from ledgers.places import request

WRITERS = 3
LONGEST_LIFE = 0.012
EARLY = 0.1  # the share of writers that may be killed before their first answer


def warm(where):
    """Open and use the ledger once; writers inherit the statements compiled here, and open connections of their own."""
    make, made = sa.create_engine, []

    def once(*arguments, **options):
        if not made:
            made.append(make(*arguments, **options))
        return made[0]

    sa.create_engine = once
    with open_ledger(where) as ledger:
        for _ in range(2):
            ledger.respond(ledger.charge(**request("warm")).number, "warm")
    gc.freeze()


def write(where, seen, order, ready):
    ledger = open_ledger(where)
    for step in range(10**6):
        name = f"{os.getpid()}-{time.monotonic_ns()}-{step}"
        text = f"answer-to-{name}"
        if order == "answer-first":
            os.write(seen, f"\nanswer {name} {text} .".encode())
        entry = ledger.charge(**request(name))
        os.write(seen, f"\nread {name} .".encode())
        stored = ledger.respond(entry.number, text)
        if order == "charge-first":
            os.write(seen, f"\nanswer {name} {stored.body} .".encode())
        if step == 0:
            os.write(ready, os.getpid().to_bytes(8))


def fork(where, seen, order, ready):
    child = os.fork()
    if child == 0:
        try:
            write(where, seen, order, ready)
        finally:
            os._exit(1)
    return child


def main():
    where, path, kills, order = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    numbers = random.Random(3)
    seen = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    called, ready = os.pipe()
    warm(where)
    ends, killed, failed = {}, 0, 0
    while killed < kills:
        while len(ends) < WRITERS:
            life = numbers.uniform(0, LONGEST_LIFE) if numbers.random() < EARLY else 10.0
            ends[fork(where, seen, order, ready)] = time.monotonic() + life
        child = min(ends, key=ends.get)
        if select.select([called], [], [], max(0.0, ends[child] - time.monotonic()))[0]:
            opened = int.from_bytes(os.read(called, 8))
            if opened in ends:
                ends[opened] = min(ends[opened], time.monotonic() + numbers.uniform(0, LONGEST_LIFE))
            continue
        del ends[child]
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        failed += os.WIFEXITED(status)
    for child in ends:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    sys.stdout.write(f"{killed} {failed}\n")


if __name__ == "__main__":
    main()

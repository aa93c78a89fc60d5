"""P9 over HTTP: the time of an answer does not tell neighbouring tables apart; without tick, on a plain engine, it does.

``HOLDTRUE_PAIRS=1000`` asks more often than the tests do.
"""

import contextlib
import http.client
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import holdtrue as ht
from ledgers.conftest import quick as memory  # noqa: F401 - a fixture: a folder in memory, since no disk is tested here

HERE = Path(__file__).parent
TICK = 0.02
PAIRS = int(os.environ.get("HOLDTRUE_PAIRS", "500"))
SURE = 1 - 1e-6


@contextlib.contextmanager
def two_services(folder, *, tick, engine):
    """Yield the ports and keys of two services over neighbouring tables, each a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    with contextlib.ExitStack() as stack:
        for side in (0, 1):
            command = [sys.executable, HERE / "timed.py", folder, str(side), str(tick), engine]
            process = stack.enter_context(subprocess.Popen(command, env=environment))  # noqa: S603 - our own program
            stack.callback(process.terminate)
        places = [folder / f"{side}.address" for side in (0, 1)]
        while not all(place.exists() for place in places):
            time.sleep(0.05)
        yield [place.read_text().split(" ") for place in places]


def audited(folder, *, tick, engine, samples):
    """Ask both services new questions in turns, and bound how well the time of an answer tells which one it was."""
    numbers = itertools.count(1)
    with two_services(folder, tick=tick, engine=engine) as services, contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(port))))
            for port, _ in services
        ]

        def ask(side):
            number = next(numbers)
            headers = {
                "Authorization": f"Bearer {services[side][1]}",
                "Idempotency-Key": str(number),
                "Content-Type": "application/json",
            }
            body = json.dumps({"query": f"x > {1 + number / 1e6}"})
            connections[side].request("POST", "/v1/datasets/rows/ask", body, headers)
            response = connections[side].getresponse()
            assert response.status == 200, response.read()
            response.read()

        found = ht.audit_timing(ask, 0, 1, samples=samples, confidence=SURE)
    print(f"\n{engine} engine, tick {tick}: {found.event}\n{dict(found.notes)}")  # noqa: T201 - the figure of the promise
    return found


def test_p9_the_time_of_an_answer_tells_nothing_with_the_tick(request):
    found = audited(request.getfixturevalue("memory"), tick=TICK, engine="ours", samples=PAIRS)
    assert not found.violated


def test_p9_control_without_the_tick_a_plain_engine_is_told_apart(request):
    found = audited(request.getfixturevalue("memory"), tick=0, engine="plain", samples=PAIRS)
    assert found.violated
    assert found.lower_bound > 0.8

"""P3, P4, P5 under kill -9, races and replays, each with the control that must fail."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdtrue.ledgers import verify
from ledgers.places import Place, request

HERE = Path(__file__).parent


def run(program, *arguments):
    # One thread a process: forking one that has more is not safe.
    environment = os.environ | {"PYTHONPATH": str(HERE.parent), "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(HERE / program), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout.split()  # noqa: S603


def killed(place, folder, *, kills, order):
    """Return what was seen, and the charges and the responses that the ledger has, after so many kills."""
    place.open(cap=10**15).close()
    seen = folder / f"seen {order}"
    assert run("killing.py", place.where, seen, kills, order) == [str(kills), "0"]
    lines = [line.split(" ")[:-1] for line in seen.read_text().splitlines() if line.endswith(" .")]
    report = verify(place.where)
    ledger = place.reopen()
    entries = ledger.entries()
    charges = {entry.request_id.removeprefix("id "): entry for entry in entries if entry.kind == "charge"}
    responses = {entry.answers: entry.body for entry in entries if entry.kind == "response"}
    assert ledger.spent == report.spent == 1000 * len(charges)
    assert verify(place.where, receipts=[ledger.head]).charges == len(charges)
    return lines, charges, responses


def place_of(kind, folder, request):
    return Place(kind, str(folder / "people.ledger") if kind == "sqlite" else request.getfixturevalue("server").schema())


@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 1000), ("postgres", 300)])
def test_p3_no_answer_without_its_charge(kind, kills, quick, request):
    place = place_of(kind, quick, request)
    lines, charges, responses = killed(place, quick, kills=kills, order="charge-first")
    for word, name, *text in lines:
        assert name in charges
        assert word != "answer" or responses[charges[name].number] == text[0]
    assert sum(word == "answer" for word, *_ in lines) > 100
    place.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_p3_control_an_answer_before_its_charge_is_found_out(kind, quick, request):
    place = place_of(kind, quick, request)
    lines, charges, _ = killed(place, quick, kills=50, order="answer-first")
    assert any(name not in charges for _, name, *_ in lines)
    place.close()


def test_p3_a_server_that_stops_at_once_forgets_no_charge(server):
    place = Place("postgres", server.schema())
    ledger = place.open()
    charged = []

    def work(name):
        for step in range(10**6):
            try:
                charged.append(ledger.charge(**request(f"{name} {step}")).receipt)
            except Exception:  # noqa: BLE001 - whatever it is, the loop is over
                return

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    while len(charged) < 50:
        pass
    server.stop("immediate")
    for thread in threads:
        thread.join()
    server.start()
    assert verify(place.where, receipts=charged).charges >= len(charged) >= 50
    place.close()


def test_p4_a_race_spends_exactly_the_budget(lasting):
    lasting.open(cap=1000 * 1000).close()
    assert run("racing.py", lasting.where, 32, 200, "ledger") == ["1000"]
    report = verify(lasting.where)
    assert (report.charges, report.left) == (1000, 0)


def test_p4_control_reading_before_writing_overspends(lasting):
    (granted,) = run("racing.py", lasting.where, 32, 200, "naive")
    assert int(granted) > 1000


def test_p5_fifty_identical_posts_are_one_charge_and_fifty_identical_bodies(place):
    curators = [place.open()]
    curators += [curators[0] if place.kind == "memory" else place.reopen() for _ in range(4)]
    start, bodies, fresh = threading.Barrier(50), [], []

    def post(number):
        ledger = curators[number % 5]
        start.wait()
        entry = ledger.charge(**request("the same"))
        fresh.append(entry.fresh)
        if entry.fresh:
            bodies.append(ledger.respond(entry.number, f"drawn by {number}").body)
        else:
            bodies.append(ledger.wait(entry.number).response)

    threads = [threading.Thread(target=post, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fresh.count(True) == 1
    assert len(bodies) == 50
    assert len(set(bodies)) == 1
    assert [entry.kind for entry in curators[0].entries()] == ["charge", "response"]

"""P9: when a response leaves. The clock is the test's own, so every time here is exact."""

import asyncio
import math
import random
import re
import selectors
import statistics
import time

import httpx
import pytest
import uvloop

from holdtrue.service.http import middleware
from holdtrue.service.http.middleware import Departure, Envelope
from holdtrue.service.http.telemetry import Metrics
from holdtrue.service.settings import Settings

TICK = 0.025
ASKS = 600


class _Selector(selectors.SelectSelector):
    """Does not wait: the clock of its loop goes on by what it was to wait for."""

    loop = None

    def select(self, timeout=None):
        if timeout:
            self.loop.now += timeout
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while it waits."""

    def __init__(self):
        selector = _Selector()
        selector.loop, self.now = self, 1000.0
        super().__init__(selector)

    def time(self):
        return self.now


def timed(main):
    """Run a coroutine function under a clock of its own."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main())


class Grid:
    """What the service had before: one grid for all requests, whenever they came."""

    def __init__(self, tick):
        self._tick = tick

    def arrive(self):
        pass

    def end(self):
        pass

    async def leave(self):
        loop = asyncio.get_running_loop()
        await asyncio.sleep((math.floor(loop.time() / self._tick) + 1) * self._tick - loop.time())


def test_p9_the_time_of_leaving_depends_on_the_work_through_the_number_of_ticks_alone():
    durations = [0.0, 0.0001, 0.0137, 0.02499, 0.02501, 0.0371, 0.0499, 0.0501, 0.1999]

    async def times():
        found = []
        for start in (0.0, 0.00317, 0.0189):
            for duration in durations:
                loop = asyncio.get_running_loop()
                await asyncio.sleep(start)
                departure, began = Departure(TICK), loop.time()
                departure.arrive()
                await asyncio.sleep(duration)
                number = await departure.leave()
                found.append((duration, number, loop.time() - began))
        return found

    for duration, number, taken in timed(times):
        assert number == max(1, math.ceil(duration / TICK - 1e-9))
        assert taken == pytest.approx(number * TICK, abs=1e-9)


def aimed_attack(kind):
    """Ask 600 times about one of two tables, aimed at the grid's edge; return the AUC of the time that each answer took."""
    sides = random.Random("aimed at the edge")

    async def asks():
        loop, taken = asyncio.get_running_loop(), ([], [])
        for _ in range(ASKS):
            side = sides.randrange(2)
            work = 0.0120 + 0.0010 * side + sides.gauss(0, 0.0002)
            edge = (math.floor(loop.time() / TICK) + 2) * TICK
            await asyncio.sleep(edge - 0.0125 - loop.time())
            departure, began = kind(TICK), loop.time()
            departure.arrive()
            await asyncio.sleep(work)
            await departure.leave()
            taken[side].append(round(loop.time() - began, 9))
        return taken

    left, right = timed(asks)
    wins = sum((b > a) + (a == b) / 2 for a in left for b in right)
    return wins / (len(left) * len(right))


def test_p9_an_attack_aimed_at_the_edge_of_a_tick_learns_nothing():
    assert aimed_attack(Departure) == 0.5
    # The control: on one grid for all, the same attack tells the tables apart.
    assert aimed_attack(Grid) > 0.98


def leaving_times(monkeypatch, *, timer):
    """Return when answers leave under uvloop, by when work ended: at two fractions of a millisecond."""
    monkeypatch.setattr(middleware, "_open_timer", timer)
    taken = {0.0042: [], 0.0047: []}

    async def asks():
        loop = asyncio.get_running_loop()
        for _ in range(100):
            for work, found in taken.items():
                await loop.run_in_executor(None, time.sleep, -time.monotonic() % 0.001)  # to a whole millisecond
                departure, began = Departure(0.01), time.monotonic()
                await loop.run_in_executor(None, time.sleep, work)
                await departure.leave()
                found.append(time.monotonic() - began)

    uvloop.run(asks())
    return taken


def told_apart(taken):
    """Return the AUC of two lists of times."""
    left, right = taken.values()
    return sum((b > a) + (a == b) / 2 for a in left for b in right) / (len(left) * len(right))


def test_p9_fractions_of_a_millisecond_are_not_told_either(monkeypatch):
    timer = middleware._open_timer
    assert 0.4 < statistics.median(told_apart(leaving_times(monkeypatch, timer=timer)) for _ in range(5)) < 0.6
    # The control: the loop's own timers, which wait whole milliseconds from when the work was done. A busy machine hides it.
    assert any(abs(told_apart(leaving_times(monkeypatch, timer=lambda: None)) - 0.5) > 0.15 for _ in range(12))


class Answering:
    """An application that reads a body and works for a while."""

    def __init__(self, work):
        self._work = work

    async def __call__(self, _, receive, send):
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(self._work)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def enveloped(tmp_path, *, work, hold, path="/v1/me", tick=TICK):
    """Return how long after the last byte of its request a response begins."""

    async def request():
        loop = asyncio.get_running_loop()
        times = {}
        pieces = iter([(0.0, True), (hold, False)])

        async def receive():
            delay, more = next(pieces)
            await asyncio.sleep(delay)
            times["arrived"] = loop.time()
            return {"type": "http.request", "body": b"x", "more_body": more}

        async def send(message):
            times.setdefault(message["type"], loop.time())

        app = Envelope(Answering(work), settings=Settings(home=tmp_path, tick=tick, hosts=("*",)), metrics=Metrics())
        headers = [(b"content-length", b"2")]
        await app({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, send)
        return times["http.response.start"] - times["arrived"]

    return timed(request)


def test_p9_who_holds_back_the_end_of_a_body_moves_the_ticks_along(tmp_path, monkeypatch):
    holds = [0.0, 0.004, 0.0125, 0.0131, 0.02, 0.0237, 0.1]
    for work in (0.012, 0.013):
        assert {round(enveloped(tmp_path, work=work, hold=hold), 9) for hold in holds} == {TICK}
    # The control: counted from the head, what is held back shows on which side of an edge the work ends.
    monkeypatch.setattr(Departure, "arrive", lambda _: None)
    assert enveloped(tmp_path, work=0.012, hold=0.0125) < TICK / 2
    assert enveloped(tmp_path, work=0.013, hold=0.0125) > TICK


def test_without_a_tick_and_for_what_nobody_computed_nothing_waits(tmp_path):
    assert enveloped(tmp_path, work=0.003, hold=0.0, tick=0) == pytest.approx(0.003)
    assert enveloped(tmp_path, work=0.003, hold=0.0, path="/healthz") == pytest.approx(0.003)
    assert enveloped(tmp_path, work=0.003, hold=0.0, path="/nowhere") == pytest.approx(TICK)


def test_p9_every_kind_of_response_leaves_on_the_tick(held, monkeypatch):
    left, leave = [], Departure.leave

    async def counted(departure):
        found = await leave(departure)
        left.append(found)
        return found

    monkeypatch.setattr(Departure, "leave", counted)
    key = {"Authorization": f"Bearer {held.keys['owner']}"}
    asked = {"Idempotency-Key": "ticked"}
    requests = [
        ("GET", "/v1/me", key, None),
        ("GET", "/v1/keys", key, None),
        ("POST", "/v1/keys", key, {"name": "", "role": "analyst"}),
        ("GET", "/v1/datasets", key, None),
        ("GET", "/v1/datasets", {}, None),
        ("POST", "/v1/datasets/people/ask", key | asked, {"query": "age > 77"}),
        ("POST", "/v1/datasets/people/ask", {}, {"query": "age > 77"}),
        ("POST", "/v1/datasets/nowhere/preview", key, {"query": "age > 77"}),
        ("GET", "/v1/plan", key, None),
        ("GET", "/v2", key, None),
        ("GET", "/metrics", {}, None),
        ("GET", "/", {}, None),
        ("GET", "/nowhere", {}, None),
    ]

    async def send():
        transport = httpx.ASGITransport(held.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            found = [
                await client.request(method, path, headers=headers, json=body) for method, path, headers, body in requests
            ]
            unticked = len(left)
            await client.get("/healthz")
        return [response.status_code for response in found], unticked

    statuses, ticked = asyncio.run(send())
    assert statuses == [200, 200, 422, 200, 401, 200, 401, 404, 422, 200, 200, 303, 404]
    assert ticked == len(requests)
    assert all(number >= 1 for number in left[:ticked])
    assert re.fullmatch(r"0|", "".join(map(str, left[ticked:])))

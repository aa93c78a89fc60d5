"""How bytes and lines leave: whole, in their order, in as few calls as may be."""

import asyncio
import gc
import io
import json
import logging

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from holdtrue.service.database import Version
from holdtrue.service.http import telemetry
from holdtrue.service.http.middleware import WRITE, Envelope, send_json
from holdtrue.service.http.telemetry import Metrics
from holdtrue.service.http.uvicorn_protocol import BoundedProtocol, Connections, _Joining
from holdtrue.service.identity import Caller
from holdtrue.service.settings import Settings


class Transport:
    def __init__(self):
        self.calls, self.closed = [], False

    def write(self, data):
        self.calls.append(data)

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def get_extra_info(self, name):
        return f"extra {name}"


def joined(*actions):
    """Return what reached the transport after each action and after the loop's next turn."""
    transport = Transport()

    async def run():
        joining = _Joining(transport, asyncio.get_running_loop())
        for action in actions:
            action(joining)
        before = list(transport.calls)
        await asyncio.sleep(0)
        return before, transport.calls

    return asyncio.run(run())


def write(data):
    return lambda joining: joining.write(data)


def test_head_and_body_leave_in_one_call():
    before, after = joined(write(b"head"), write(b"body"))
    assert before == after == [b"headbody"]


def test_what_stands_alone_leaves_with_the_next_turn():
    assert joined(write(b"alone")) == ([], [b"alone"])
    before, after = joined(write(b"a"), write(b"b"), write(b"c"))
    assert (before, after) == ([b"ab"], [b"ab", b"c"])


@pytest.mark.parametrize("writes", range(1, 9))
def test_nothing_is_lost_or_reordered(writes):
    parts = [b"%d," % number for number in range(writes)]
    assert b"".join(joined(*map(write, parts))[1]) == b"".join(parts)


def test_closing_lets_out_what_was_written_before():
    before, after = joined(write(b"last"), lambda joining: joining.close())
    assert before == after == [b"last"]
    assert joined(write(b"late"), lambda joining: setattr(joining._transport, "closed", True)) == ([], [])


def test_all_else_is_the_transports_own():
    assert joined(lambda joining: joining.write(joining.get_extra_info("socket").encode()))[1] == [b"extra socket"]


class Connection(asyncio.Transport):
    """A connection whose other end reads everything, until it is ``paused``."""

    def __init__(self):
        super().__init__()
        self.told, self.closed = b"", False

    def write(self, data):
        self.told += data

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def get_extra_info(self, _, default=None):
        return default

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def answered(tmp_path, request, send, *, paused=False):
    """Return what reaches a connection that sends a request, and whether it is closed then; ``send`` sends the response."""

    async def app(_, receive, sending):
        await receive()
        await send(sending, b'{"value": 0.5}')

    async def run():
        settings = Settings(home=tmp_path, tick=0.0, hosts=("*",))
        config = Config(Envelope(app, settings=settings, metrics=Metrics()), lifespan="off", log_config=None)
        state = ServerState()
        state.default_headers = [(b"date", b"today")]
        config.load()
        protocol = BoundedProtocol(config, state, {}, places=Connections(most=9, seconds=9))
        protocol.connection_made(connection := Connection())
        if paused:
            protocol.pause_writing()
            asyncio.get_running_loop().call_later(0.05, protocol.resume_writing)
        protocol.data_received(request)
        if paused:
            await asyncio.sleep(0.02)
            assert not connection.told
        while state.tasks:
            await asyncio.gather(*state.tasks)
        return connection.told, connection.closed

    return asyncio.run(run())


async def by_messages(send, content):
    headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


ASKED = b"POST / HTTP/1.1\r\nhost: here\r\nx-request-id: one\r\ncontent-length: 2\r\n%s\r\n{}"


@pytest.mark.parametrize(
    "request_text", [ASKED % b"", ASKED % b"connection: close\r\n", ASKED.replace(b"1.1", b"1.0") % b""]
)
@pytest.mark.parametrize("paused", [False, True])
def test_what_is_written_whole_is_what_messages_write(tmp_path, request_text, paused):
    whole = answered(tmp_path, request_text, send_json, paused=paused)
    assert whole == answered(tmp_path, request_text, by_messages)
    assert whole[0].startswith(b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 14\r\n")
    assert whole[0].endswith(b'x-request-id: one\r\n\r\n{"value": 0.5}' if not whole[1] else b'close\r\n\r\n{"value": 0.5}')


def test_where_no_server_writes_whole_responses_json_leaves_in_messages():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(send_json(send, b"{}"))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


def test_whoever_has_gone_is_written_nothing(tmp_path):
    async def late(send, content):
        send.scope[WRITE].args[0]().disconnected = True
        await send_json(send, content)

    assert answered(tmp_path, ASKED % b"", late) == (b"", False)


@pytest.mark.parametrize("holding", [False, True])
def test_a_request_that_was_answered_waits_for_no_garbage_collector(tmp_path, holding):
    """Collections stop all requests, for tens of milliseconds; ``holding`` is the control: the first request is held."""
    requests, held, alive = [], [], []

    async def look_back(send, content):
        await asyncio.sleep(0.01)  # the request before this one has ended
        alive.extend(each() is not None for each in requests)
        requests.append(send.scope[WRITE].args[0])
        held.extend(each() for each in requests if holding)
        await send_json(send, content)

    gc.disable()
    try:
        answered(tmp_path, 2 * (ASKED % b""), look_back)
    finally:
        gc.enable()
    assert alive == [holding]


@pytest.fixture
def lines():
    stream = io.StringIO()
    logger = logging.getLogger("holdtrue.service")
    before = logger.handlers[:], logger.level, logger.propagate
    yield stream
    logger.handlers[:], logger.level, logger.propagate = before


def logged(number, **more):
    scope = {"request_id": f"id{number}", "method": 'PO"ST', "caller": Caller("ann", "owner", "abc"), "entry": number} | more
    telemetry.log_request(scope, route="/v1/datasets/{name}/ask", status=200)


def test_a_line_is_json_with_the_same_names_as_ever(lines):
    telemetry.configure_logs(lines)
    logged(7)
    logged(8, caller=None, entry=None)
    first, second = map(json.loads, lines.getvalue().splitlines())
    assert list(first) == ["time", "request_id", "method", "route", "status", "key", "entry"]
    assert (first["request_id"], first["method"], first["key"], first["entry"]) == ("id7", 'PO"ST', "abc", 7)
    assert (second["key"], second["entry"], second["status"]) == (None, None, 200)


def test_lines_of_one_turn_are_written_together_and_in_their_order(lines):
    telemetry.configure_logs(lines)

    async def turn():
        logged(1)
        logged(2)
        written = lines.getvalue()
        logging.getLogger("holdtrue.service").error("something else")
        logged(3)
        await asyncio.sleep(0)
        return written

    assert asyncio.run(turn()) == ""
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line.get("request_id", line.get("event")) for line in told] == ["id1", "id2", "something else", "id3"]


def test_a_log_that_cannot_be_written_keeps_nothing_back(lines):
    telemetry.configure_logs(lines)
    lines.close()
    logged(1)
    telemetry.configure_logs(io.StringIO())


def test_a_version_is_looked_up_after_the_call_and_once_for_all_of_a_turn(monkeypatch):
    version = Version.__new__(Version)
    version._connection, version._loop, version._waiting = object(), None, []
    looks = []
    monkeypatch.setattr(version, "read_now", lambda: looks.append(1) or len(looks), raising=False)

    async def ask(count):
        waiting = [asyncio.create_task(version.read_soon()) for _ in range(count)]
        assert not looks  # nobody is told what was looked up before they asked
        first = await asyncio.gather(*waiting)
        return first, await version.read_soon()

    assert asyncio.run(ask(10)) == ([1] * 10, 2)
    # Those who were left by a loop that is gone keep nobody waiting.
    version._waiting.append(None)
    looks.clear()
    assert asyncio.run(ask(3)) == ([1] * 3, 2)

"""Connections: how many, how long until a head is whole, and how large it may be."""

import contextlib
import os
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import httpx
import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdtrue.service.http.serving import _most_connections
from holdtrue.service.http.uvicorn_protocol import BoundedProtocol, Connections
from holdtrue.service.settings import Settings
from service.conftest import PEOPLE, write_people
from service.living import Command

HALF_OPEN = 3000
SENDERS = 50
SENT = 2_000_000
ASKS = 200


async def answering(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.contextmanager
def serving(protocol):
    """Yield the port of a server with a protocol of the test's own."""
    server = uvicorn.Server(uvicorn.Config(answering, port=0, http=protocol, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(60)


def bounded(*, most=1000, seconds=60.0):
    return partial(BoundedProtocol, places=Connections(most=most, seconds=seconds))


def connect(port):
    found = socket.create_connection(("127.0.0.1", port), timeout=30)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def status_of(connection):
    """Return the status that a server says, 0 where it says nothing before it closes."""
    content = b""
    with contextlib.suppress(ConnectionError):
        while b"\r\n\r\n" not in content and (piece := connection.recv(65_536)):
            content += piece
    return int(content.split(b" ")[1]) if content else 0


def ask(connection, *fields):
    connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n" + b"".join(fields) + b"\r\n")
    return status_of(connection)


def field(number, length=10):
    return b"x-%d: %s\r\n" % (number, b"v" * length)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([field(number) for number in range(99)], 200),
        ([field(number) for number in range(100)], 431),
        ([field(0, 16_000)], 200),
        ([field(0, 17_000)], 431),
        ([field(number, 900) for number in range(20)], 431),
    ],
)
def test_a_head_has_at_most_16_kib_and_100_fields(fields, status):
    with serving(bounded()) as port, connect(port) as connection:
        assert ask(connection, *fields) == status
        if status == 200:  # and the next request on the same connection has bounds of its own
            assert ask(connection, *fields) == status
    # The control: uvicorn's own protocol takes them all.
    with serving(HttpToolsProtocol) as port, connect(port) as connection:
        assert ask(connection, *fields) == 200


def test_a_field_that_never_ends_is_refused_before_it_is_kept():
    sent = 0
    with serving(bounded()) as port, connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nx-long: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(2000):
                connection.sendall(b"v" * 1000)
                sent += 1000
                time.sleep(0.0005)
        assert status_of(connection) in (0, 431)  # the refusal may be lost with the connection
    assert sent < 2_000_000


def test_an_address_and_a_body_count_as_what_they_are():
    with serving(bounded()) as port, connect(port) as connection:
        body = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"
        connection.sendall(body + b"v" * 50_000)
        connection.sendall(b"v" * 50_000)
        assert status_of(connection) == 200
    with serving(bounded()) as port, connect(port) as connection:
        connection.sendall(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        assert status_of(connection) == 431


def test_a_head_that_is_not_whole_in_time_is_refused():
    for begun in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"):
        with serving(bounded(seconds=0.2)) as port, connect(port) as connection:
            connection.sendall(begun)
            assert status_of(connection) == (408 if begun else 0)
    with serving(bounded(seconds=0.2)) as port, connect(port) as connection:
        assert ask(connection) == 200
        connection.sendall(b"GET / HT")  # the second head is waited for no longer than the first
        assert status_of(connection) == 408
    # The control: uvicorn's own protocol waits for as long as it takes.
    with serving(HttpToolsProtocol) as port, connect(port) as connection:
        connection.sendall(b"GET / HT")
        connection.settimeout(1.0)
        with pytest.raises(TimeoutError):
            connection.recv(100)


def test_whoever_waits_longest_makes_room_and_who_never_asked_goes_first():
    with serving(bounded(most=4)) as port, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in range(4)]
        assert ask(connections[0]) == 200
        assert ask(connections[1]) == 200
        for _ in range(8):
            newcomer = stack.enter_context(connect(port))
            assert ask(newcomer) == 200
        # Two that asked nothing went first, then those that asked first; the newest four are there.
        assert [status_of(connection) for connection in connections] == [0] * 4
        assert ask(newcomer) == 200


def test_where_every_connection_has_a_request_under_way_a_newcomer_is_refused():
    with serving(bounded(most=2)) as port, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connect(port)).sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        time.sleep(0.2)
        assert status_of(stack.enter_context(connect(port))) == 503


def test_requests_that_come_before_their_turn_are_few():
    with serving(bounded()) as port, connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 2000)
        content = b""
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65_536):
                content += piece
        assert content.count(b"HTTP/1.1 200") <= 65


def test_connections_stay_below_the_limit_of_open_files(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, soft), hard))
        assert _most_connections(Settings(home=tmp_path, connections=500)) == 500
        script = (
            "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600));"
            "from holdtrue.service.http.serving import _most_connections; from holdtrue.service.settings import Settings;"
            "print(_most_connections(Settings(home=sys.argv[1])))"
        )
        done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)  # noqa: S603
        assert int(done.stdout) == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def times_of(client, key, start, count):
    """Ask new questions, each of which must be answered, and return how long each took."""
    taken = []
    for number in range(start, start + count):
        began = time.perf_counter()
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": f"flood {number}"}
        response = client.post("/v1/datasets/people/ask", json={"query": f"income > {number}"}, headers=headers)
        taken.append(time.perf_counter() - began)
        assert response.status_code == 200, response.text
    return taken


def flood(port, stop, refused):
    """Send large heads from many connections, again and again."""
    head = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"".join(field(number, 10_000) for number in range(SENT // 10_000))
    for _ in range(SENDERS):
        if stop.is_set():
            return
        with contextlib.suppress(OSError), connect(port) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(head)
            refused.append(status_of(connection))


def half_open(port, many, stop):
    """Hold many connections that send the beginning of a head, each opened again once it is closed."""
    watched, opened = selectors.DefaultSelector(), 0

    def begin():
        with contextlib.suppress(OSError):
            connection = connect(port)
            connection.sendall(b"GET / HT")
            watched.register(connection, selectors.EVENT_READ)

    try:
        while not stop.is_set():
            if opened < many:
                begin()
                opened += 1
            for found, _ in watched.select(0.0 if opened < many else 0.05):
                watched.unregister(found.fileobj)
                found.fileobj.close()
    finally:
        for found in list(watched.get_map().values()):
            found.fileobj.close()
    return opened


def test_half_open_connections_and_large_heads_keep_nobody_out(tmp_path):
    """3,000 half-open connections and 100 MB of headers: every other request is answered, in memory below 600 MB."""
    write_people(tmp_path)
    settings = tmp_path / "holdtrue.toml"
    settings.write_text('home = "home"\nrate = "1000000/second"\nconnections = 1000\n', encoding="utf-8")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with Command(tmp_path, "--config", settings) as command:
            url = command.wait_ready()
            key = (tmp_path / "home" / "owner.key").read_text().strip()
            port = int(url.rpartition(":")[2])
            with httpx.Client(base_url=url, timeout=60.0) as client:
                body = PEOPLE | {"name": "people", "queries": 4000}
                made = client.post("/v1/datasets", json=body, headers={"Authorization": f"Bearer {key}"})
                assert made.status_code == 201, made.text
                times_of(client, key, 10_000, 20)
                quiet = times_of(client, key, 20_000, ASKS)
                stop, refused = threading.Event(), []
                threads = [
                    threading.Thread(target=half_open, args=(port, HALF_OPEN, stop)),
                    threading.Thread(target=flood, args=(port, stop, refused)),
                ]
                for thread in threads:
                    thread.start()
                loud = []
                while any(thread.is_alive() for thread in threads[1:]) or len(loud) < ASKS:
                    loud += times_of(client, key, 30_000 + len(loud), 20)
                with httpx.Client(base_url=url, timeout=60.0) as newcomer:  # a connection of its own each time
                    loud += times_of(newcomer, key, 60_000, 20)
                stop.set()
                for thread in threads:
                    thread.join(120)
            status = Path(f"/proc/{command.process.pid}/status").read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
    before, after = (statistics.quantiles(taken, n=100)[98] for taken in (quiet, loud))
    print(  # noqa: T201 - the figures of the promise
        f"\n{HALF_OPEN} half-open connections, {SENDERS} heads of {SENT:,} bytes: p99 {1e3 * before:.1f} ms quiet, "
        f"{1e3 * after:.1f} ms under attack ({after / before:.2f} times), {len(loud)} requests answered, "
        f"peak {peak:.0f} MB, load {os.getloadavg()[0]:.1f}"
    )
    assert len(refused) == SENDERS
    assert set(refused) <= {0, 431}
    assert peak < 600

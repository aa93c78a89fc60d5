"""Servers that stand between a client and a service: one that loses answers, and one that says what it was told to say."""

import http.client
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.relay.met(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

    do_GET = do_POST  # noqa: N815 - the name that the standard library calls

    def log_message(self, *_: object) -> None:
        pass

    def say(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def cut(self, part: bytes = b"") -> None:
        if part:
            self.wfile.write(part)
        self.close_connection = True


@dataclass
class Relay:
    """Notes every request and answers it by a script, then for ever with its last line."""

    script: list[Any]
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.relay = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def keys(self) -> list[str | None]:
        return [headers.get("idempotency-key") for _, _, headers, _ in self.requests]

    def met(self, handler: _Handler, body: bytes) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append((handler.command, handler.path, headers, body))
        line = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        line(handler, body)


def says(status: int, body: bytes = b"{}", **headers: str):
    """Return a line of a script: this answer."""
    return lambda handler, _: handler.say(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def cuts(part: bytes = b""):
    """Return a line of a script: the connection is closed after so much of an answer."""
    return lambda handler, _: handler.cut(part)


def passes(url: str, *, lose: str | None = None):
    """Return a line of a script: the service answers, and its answer goes on, or is lost whole or in its middle."""

    def line(handler: _Handler, body: bytes) -> None:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
        headers = {name: value for name, value in handler.headers.items() if name.lower() != "host"}
        connection.request(handler.command, handler.path, body, headers | {"Host": f"127.0.0.1:{place.port}"})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        match lose:
            case "whole":
                handler.cut()
            case "middle":
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
                handler.cut(head.encode() + content[: len(content) // 2])
            case _:
                handler.say(response.status, {"Content-Type": response.headers["Content-Type"]}, content)

    return line

"""The demonstration on a page: the service on synthetic data with known true values, on this machine and for a while."""

import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from holdtrue.demo.population import describe_dataset, survey, write_rows
from holdtrue.errors import RefusedError
from holdtrue.service import create
from holdtrue.service.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Demo", "prepare_demo", "serve_demo"]

_NAME = "demo"
_HOST = "127.0.0.1"
_RATE = "6000/minute"
_GRACE_SECONDS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Demo:
    """An application on generated data, and a key for those who come with curl."""

    app: "FastAPI"
    key: str


def prepare_demo(home: Path, *, port: int = 0) -> Demo:
    """Return the application with its one dataset. Whoever comes to its page from this machine is let in as the owner."""
    population = survey()
    data = home / "data"
    write_rows(data, population)
    settings = Settings(home=home / "service", host=_HOST, port=port, data=(data,), rate=_RATE, demo=True)
    app = create(settings)
    service = app.state.service
    service.registry.register(_NAME, describe_dataset(population), truth=lru_cache(4096)(population.truth))
    _, owner = service.keyring.create("you", "owner")
    key, _ = service.keyring.create("guest", "analyst")
    app.state.demo_visitor = owner.prefix
    return Demo(app, key)


def serve_demo(*, port: int, ready: Callable[[str, str], None]) -> None:
    """Serve the demonstration on this machine until it is told to stop; then everything it made is gone.

    ``ready`` is told the address and the key once requests are answered, in a thread of its own.
    """
    import uvicorn

    signal.signal(signal.SIGTERM, _exit_quietly)
    with (
        suppress(KeyboardInterrupt),
        _bind_socket(port) as sock,
        tempfile.TemporaryDirectory(prefix="holdtrue-demo-") as home,
    ):
        demo = prepare_demo(Path(home), port=port)
        server = uvicorn.Server(
            uvicorn.Config(
                demo.app,
                lifespan="on",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        address = f"http://{_HOST}:{sock.getsockname()[1]}"
        threading.Thread(target=_tell_ready, args=(server, lambda: ready(address, demo.key)), daemon=True).start()
        server.run([sock])


def _tell_ready(server: Any, ready: Callable[[], None]) -> None:  # noqa: ANN401 - uvicorn is imported where it is used
    pause = threading.Event()
    while not server.started:
        if server.should_exit:
            return
        pause.wait(0.02)
    ready()


@contextmanager
def _bind_socket(port: int) -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((_HOST, port))
            reason = None
        except OSError as error:
            reason = error.strerror or type(error).__name__
        if reason is not None:
            message = f"cannot serve at {_HOST}, port {port}: {reason}; choose another with --port, or 0 for a free one"
            raise RefusedError(message)
        yield sock


def _exit_quietly(number: int, frame: object) -> NoReturn:
    del number, frame
    raise SystemExit(0)

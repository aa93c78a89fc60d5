"""Run the service: one process by default, several workers on request, stopped without losing an answer.

The demonstration is the same service on synthetic data with known true values, on this machine and for a while.
"""

import gc
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from holdtrue.demo.attack import Exam, make_exam
from holdtrue.demo.population import describe_dataset, survey, write_rows
from holdtrue.errors import HoldtrueError, RefusedError
from holdtrue.service import create
from holdtrue.service.settings import Settings, from_text, to_text

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Config

    from holdtrue.service.holdouts import HoldoutDispatcher

__all__ = ["HANDED", "Demo", "create_worker", "prepare_demo", "run_service", "serve_demo"]

resource: Any
try:
    resource = import_module("resource")
except ImportError:  # a system without limits on open files
    resource = None

HANDED = "HOLDTRUE_SETTINGS"
"""The environment variable by which workers get their settings. It may hold a password; the kernel shows it to us alone."""

_LOGGER = logging.getLogger("holdtrue.service")
_NOT_STARTED = 3  # the exit code after which uvicorn starts a worker no more
_GRACE_SECONDS = 60
_START_SECONDS = 30
_KEEP_SECONDS = 15
_BACKLOG = 2048
_OTHER_FILES = 200  # ledgers, data, keys, and connections that are let go of but not closed yet
_SELDOM = 50_000
_SWITCH_SECONDS = 0.001  # after which a thread that reads a history lets the one that answers go on
_PLAIN: dict[str, Any] = {
    "lifespan": "on",
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
}
_DEMO, _EXAM = "demo", "exam"
_ONLY_HERE = (
    "It listens to all machines and answers requests from this one only: say by which name others reach it, "
    "--allow-host data.example.org"
)
_DEMO_RATE = "6000/minute"
_DEMO_GRACE_SECONDS = 10
_ANOTHER_PORT = "; choose another with --port, or 0 for a free one"


def run_service(settings: Settings, *, out: TextIO | None = None) -> None:
    """Serve until SIGTERM or SIGINT; then take no more requests, finish those that are in, close the ledgers, and return.

    The first start of all makes the owner's key and shows it once: on the terminal, or in a file that only we can read
    where there is no terminal, since what is printed there ends up in a log. Raises ``RefusedError`` where it cannot start.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    out = out or sys.stdout
    with _bind_socket(settings) as listening:
        _show_first_key(settings, out)
        print(f"Holdtrue serves {_format_address(settings, listening)} from {settings.home}", file=out, flush=True)
        if settings.answers_itself_alone:
            print(_ONLY_HERE, file=out, flush=True)
        _log_by_line()
        if settings.workers > 1:
            _serve_together(settings, listening)
        else:
            _serve_alone(settings, listening)


def _serve_alone(settings: Settings, listening: socket.socket) -> None:
    import uvicorn

    # When it has stopped, uvicorn raises the signal again; by then it has no more to say than: done.
    signal.signal(signal.SIGTERM, _exit_quietly)
    server = uvicorn.Server(_configure_uvicorn(settings, lambda: _create_application(settings)))
    with suppress(KeyboardInterrupt):
        server.run([listening])
    _check_started(started=server.started)


def _serve_together(settings: Settings, listening: socket.socket) -> None:
    from uvicorn.supervisors import Multiprocess

    os.environ[HANDED] = to_text(settings)
    supervisor = Multiprocess(_configure_uvicorn(settings, "holdtrue.service.http.serving:create_worker"), [listening])
    supervisor.run()
    _check_started(started=all(process.exitcode != _NOT_STARTED for process in supervisor.processes))


def _configure_uvicorn(settings: Settings, factory: "str | Callable[[], FastAPI]") -> "Config":
    from uvicorn import Config

    from holdtrue.service.http.uvicorn_protocol import BoundedProtocol, Connections

    places = Connections(most=_most_connections(settings), seconds=settings.read_seconds)
    return Config(
        factory,
        factory=True,
        http=partial(BoundedProtocol, places=places),  # type: ignore[arg-type]  # called as a class is
        workers=settings.workers,
        **_PLAIN,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_worker_healthcheck=_START_SECONDS,
    )


def _most_connections(settings: Settings) -> int:
    """Return how many connections a worker takes: below the limit of open files, which is first raised where it may be."""
    if resource is None:
        return settings.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return settings.connections if soft == resource.RLIM_INFINITY else max(1, min(settings.connections, soft - _OTHER_FILES))


def _check_started(*, started: bool) -> None:
    if not started:
        message = "the service could not start; the lines above say why"
        raise RefusedError(message)


def create_worker() -> "FastAPI":
    """Return the application of one worker, by the settings that were handed to it; one that cannot start ends all."""
    _log_by_line()
    try:
        return _create_application(from_text(os.environ[HANDED]))
    except HoldtrueError as error:
        _LOGGER.error("worker not started: %s", error)  # noqa: TRY400 - no traceback leaves the service
    raise SystemExit(_NOT_STARTED)


def _create_application(settings: Settings) -> "FastAPI":
    app = create(settings)
    # What was imported stays for good: a collector that walks all of it again and again would make answers wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_SELDOM)
    return app


def _exit_quietly(number: int, frame: object) -> NoReturn:
    del number, frame
    raise SystemExit(0)


def _bind_socket(settings: Settings, *, hint: str = "") -> socket.socket:
    """Return a socket at the address, which all workers share; ``hint`` says what to do where it cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family=family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host.strip("[]"), settings.port))
        reason = None
    except OSError as error:
        reason = error.strerror or type(error).__name__
    if reason is not None:
        listening.close()
        message = f"cannot serve at {settings.host}, port {settings.port}: {reason}{hint}"
        raise RefusedError(message)
    listening.set_inheritable(True)
    return listening


def _format_address(settings: Settings, listening: socket.socket) -> str:
    name = f"[{settings.host.strip('[]')}]" if ":" in settings.host else settings.host
    return f"http://{name}:{listening.getsockname()[1]}"


def _show_first_key(settings: Settings, out: TextIO) -> None:
    from holdtrue.service.database import open_database
    from holdtrue.service.identity.api_keys import Keyring

    database = open_database(settings)
    try:
        # With the issuer, so that keys which cannot be read stop the service here and not in every worker.
        keyring = Keyring(database, issuer=settings.issuer)
        text = keyring.create_first()
        keyring.close()
    finally:
        database.close()
    if text is None:
        return
    if out.isatty():
        print(f"The owner's key, shown this once: {text}", file=out, flush=True)
        return
    path = settings.home / "owner.key"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{text}\n")
    print(f"The owner's key is in {path}: take it from there and delete the file", file=out, flush=True)


def _log_by_line() -> None:
    """Send what the server says the same way as the service's own lines: JSON, and never a traceback."""
    from holdtrue.service.http import telemetry

    telemetry.configure_logs()
    server = logging.getLogger("uvicorn")
    server.handlers[:] = logging.getLogger("holdtrue.service").handlers
    server.setLevel(logging.INFO)
    server.propagate = False


@dataclass(frozen=True, slots=True, eq=False)
class Demo:
    """An application on generated data, and a key for those who come with curl."""

    app: "FastAPI"
    key: str


def prepare_demo(home: Path, *, port: int = 0) -> Demo:
    """Return the application with its one dataset and its one holdout.

    Whoever comes to its page from this machine is let in as the owner.
    """
    population, settings = survey(), _make_demo_settings(home, port)
    write_rows(settings.data[0], population)
    app = create(settings)
    service = app.state.service
    service.registry.register(_DEMO, describe_dataset(population), truth=lru_cache(4096)(population.truth))
    exam = make_exam()
    app.state.demo_files, app.state.demo_holdout = exam.files, _EXAM
    _open_exam(service.registry.register_holdout(_EXAM, exam.document), exam)
    _, owner = service.keyring.create("you", "owner")
    key, _ = service.keyring.create("guest", "analyst")
    app.state.demo_visitor = owner.prefix
    return Demo(app, key)


def _open_exam(dispatcher: "HoldoutDispatcher", exam: Exam) -> None:
    """Let an agent try a few models that are no better than the incumbent."""
    for name, results in exam.tried:
        given = {"cases": results.tolist(), "name": name, "ids": exam.document["ids"]}
        dispatcher.call_verb("gate", given, {"analyst": "agent"})


def _make_demo_settings(home: Path, port: int) -> Settings:
    return Settings(home=home / "service", port=port, data=(home / "data",), rate=_DEMO_RATE, demo=True)


def serve_demo(*, port: int, ready: Callable[[str, str], None]) -> None:
    """Serve the demonstration on this machine until it is told to stop; then everything it made is gone.

    ``ready`` is told the address and the key once requests are answered, in a thread of its own.
    """
    import uvicorn

    signal.signal(signal.SIGTERM, _exit_quietly)
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="holdtrue-demo-") as home,
        _bind_socket(_make_demo_settings(Path(home), port), hint=_ANOTHER_PORT) as sock,
    ):
        demo = prepare_demo(Path(home), port=port)
        server = uvicorn.Server(
            uvicorn.Config(
                demo.app,
                **_PLAIN,
                timeout_graceful_shutdown=_DEMO_GRACE_SECONDS,
            )
        )
        address = _format_address(demo.app.state.service.settings, sock)
        threading.Thread(target=_tell_ready, args=(server, lambda: ready(address, demo.key)), daemon=True).start()
        server.run([sock])


def _tell_ready(server: Any, ready: Callable[[], None]) -> None:  # noqa: ANN401 - uvicorn is imported where it is used
    pause = threading.Event()
    while not server.started:
        if server.should_exit:
            return
        pause.wait(0.02)
    ready()

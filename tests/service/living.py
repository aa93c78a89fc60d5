"""A service of the tests' own: its application in a thread of this process, or the real command in processes of its own."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import uvicorn


@contextlib.contextmanager
def living(app):
    """Serve an application on a free port from a thread, and yield a client of it."""
    configuration = uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(configuration)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the application did not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(60)


class Command:
    """`holdtrue serve` in processes of its own, with its output kept."""

    def __init__(self, folder, *words, **environment):
        self.folder = Path(folder)
        self.log = self.folder / "log"
        script = "import sys; from holdtrue.command import main; sys.argv[0] = 'holdtrue'; main()"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-c", script, "serve", "--port", "0", *map(str, words)],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | environment,
                start_new_session=True,
            )
        self.out = b""
        self.address = None

    def wait_ready(self, seconds=60):
        """Wait until everything is open, and return the address."""
        deadline = time.monotonic() + seconds
        while self.address is None:
            assert time.monotonic() < deadline, self.said()
            assert self.process.poll() is None, self.said()
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                self.out += os.read(self.process.stdout.fileno(), 65_536)
            found = re.search(rb"serves (http://\S+)", self.out)
            self.address = found and found[1].decode()
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.said()
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.address}/readyz", timeout=10.0).status_code == 200:
                    return self.address
            time.sleep(0.05)
        raise AssertionError(self.said())

    def said(self):
        return f"{self.out!r} {self.log.read_text(encoding='utf-8', errors='replace')}"

    def stop(self, number=signal.SIGTERM, seconds=60):
        """Send a signal to the first process, and return how it left."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(seconds)
        self.out += self.process.stdout.read()
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
                self.stop()
        if self.process.poll() is None:
            # The whole of a session that this object began, and nothing else.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()

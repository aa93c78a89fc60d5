# ruff: noqa: INP001, PLR2004, T201, TID251 - a program that says what it measured, with rows to play with; not a package
"""Clone this repository, install it in a fresh environment, and follow the first steps of a user; say how long each took.

``python deploy/try_first_minutes.py`` prints the minutes from nothing to the first answer about one's own rows, to the first
gated model, and to a served dataset, and then follows each tutorial and each notebook word by word in the clone. It fails if
anything does. Processors and the network decide about the figures, so nothing asserts them.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
_ROWS = 5_000
_FOLLOW = """
import re, shlex, sys
from pathlib import Path
from typer.testing import CliRunner
from holdtrue.command import application
names, done = {}, 0
for kind, block in re.findall(r"^```(python|console)\\n(.*?)^```", Path(sys.argv[1]).read_text(), re.M | re.S):
    if kind == "python":
        exec(compile(block, "page", "exec"), names)
        done += 1
    else:
        for line in block.splitlines():
            if line.startswith("$ holdtrue "):
                assert CliRunner().invoke(application, shlex.split(line[11:])).exit_code == 0, line
                done += 1
print(done, "steps")
"""
_NOTEBOOK = """
import json, sys
from pathlib import Path
names, done = {}, 0
for cell in json.loads(Path(sys.argv[1]).read_text())["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), "cell", "exec"), names)
        done += 1
print(done, "cells")
"""


class Followed:
    """A user's folder beside a clone with its own environment, and a watch that runs from the first step."""

    def __init__(self, room: Path) -> None:
        self.clone, self.folder, self.began = room / "clone", room / "mine", time.monotonic()
        self.folder.mkdir()
        self.environment = {
            key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
        }
        self.environment["PATH"] = f"{self.clone / '.venv' / 'bin'}{os.pathsep}{self.environment['PATH']}"

    def run(self, words: Sequence[str | Path], *, folder: Path | None = None) -> str:
        """Run a command, and return what it printed; end the program where it fails."""
        done = subprocess.run(  # noqa: S603 - the commands of a user
            words, cwd=folder or self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(" ".join(map(str, words)), done.stdout, done.stderr, sep="\n")
            sys.exit(done.returncode)
        return done.stdout

    def say(self, what: str) -> None:
        """Print how long it is since the first step."""
        print(f"{(time.monotonic() - self.began) / 60:6.2f} min  {what}", flush=True)


def write_files(folder: Path) -> None:
    """Write what a user brings: rows in two CSV files, and what two models passed."""
    random = Random(1)  # noqa: S311 - nobody's rows
    for name in ("people", "patients"):  # a file of its own for the service: one file has one budget
        lines = [f"{random.randrange(18, 95)},{str(random.random() < 0.2).lower()}" for _ in range(_ROWS)]
        (folder / f"{name}.csv").write_text("\n".join(["age,smoker", *lines]) + "\n", encoding="utf-8")
    passed = [random.random() < 0.7 for _ in range(500)]
    better = [was or random.random() < 0.5 for was in passed]
    for name, each in (("main", passed), ("change", better)):
        text = "\n".join(["id,passed", *(f"case-{place},{ok:d}" for place, ok in enumerate(each))])
        (folder / f"{name}.csv").write_text(text + "\n", encoding="utf-8")


def install(user: Followed) -> None:
    """Clone, and install as the README says."""
    user.run(["git", "clone", "--quiet", str(ROOT), user.clone], folder=ROOT)
    user.say("cloned")
    user.run([sys.executable, "-m", "venv", user.clone / ".venv"])
    user.run([user.clone / ".venv" / "bin" / "pip", "install", "--quiet", ".[server]"], folder=user.clone)
    user.say("installed: pip install '.[server]'")


def ask_own_rows(user: Followed) -> None:
    """Open a file and ask it one question."""
    user.run(["holdtrue", "open", "people.csv", "--queries", "50", "--epsilon", "1", "--delta", "1e-6", "--iid"])
    print(user.run(["holdtrue", "ask", "people.csv", "age > 65 AND smoker"]).strip())
    user.say("first answer about rows of one's own")


def gate_a_model(user: Followed) -> None:
    """Open a gate on results, and ask it about better ones."""
    gate = ["--holdout", "eval.holdout"]
    user.run(["holdtrue", "score", "main.csv", *gate, "--create", "--looks", "100", "--yes", "5"])
    print(user.run(["holdtrue", "score", "change.csv", *gate]).strip())
    user.say("first gated model")


def serve_rows(user: Followed) -> None:
    """Start the service, register the file, and ask over HTTP."""
    port = _find_port()
    words, address = ["holdtrue", "serve", "--port", str(port)], f"http://127.0.0.1:{port}"
    with subprocess.Popen(words, cwd=user.folder, env=user.environment, stderr=subprocess.DEVNULL) as served:  # noqa: S603
        try:
            _wait_for(f"{address}/healthz")
            key = (user.folder / ".holdtrue" / "owner.key").read_text(encoding="utf-8").strip()
            plan = {"queries": 50, "epsilon": 1, "delta": 1e-6, "iid": True}
            _post(f"{address}/v1/datasets", key, {"name": "patients", "path": "patients.csv", **plan})
            answer = _post(f"{address}/v1/datasets/patients/ask", key, {"query": "age > 65 AND smoker"})
        finally:
            served.send_signal(signal.SIGINT)
    print(f"over HTTP: {answer['value']:.3f}, {answer['interval']['low']:.3f} to {answer['interval']['high']:.3f}")
    user.say("a served dataset answered")


def _find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):  # noqa: S310 - this machine
            return
        time.sleep(0.1)
    sys.exit(f"{url} did not answer within a minute")


def _post(url: str, key: str, body: Mapping[str, object]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "first", "Content-Type": "application/json"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - this machine
    with urllib.request.urlopen(asked, timeout=60) as reply:  # noqa: S310 - likewise
        return json.loads(reply.read())


def follow_pages(user: Followed) -> None:
    """Follow each tutorial and each notebook in a folder of its own."""
    pages = [path for path in sorted((user.clone / "docs" / "tutorial").glob("*.md")) if path.stem != "notebooks"]
    for script, paths in ((_FOLLOW, pages), (_NOTEBOOK, sorted((user.clone / "examples").glob("*.ipynb")))):
        for path in paths:
            began, place = time.monotonic(), user.folder / path.name
            place.mkdir()
            told = user.run(["python", "-W", "ignore", "-c", script, path], folder=place).splitlines()[-1]
            print(f"{time.monotonic() - began:6.1f} s    {path.relative_to(user.clone)}: {told}", flush=True)


def main() -> None:
    """Do all of it, from an empty folder."""
    with tempfile.TemporaryDirectory() as room:
        user = Followed(Path(room))
        write_files(user.folder)
        install(user)
        ask_own_rows(user)
        gate_a_model(user)
        serve_rows(user)
        follow_pages(user)
        user.say("every tutorial and every notebook, word by word")


if __name__ == "__main__":
    main()

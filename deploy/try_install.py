# ruff: noqa: INP001, T201 - a program that says what it measured, not a package
"""Go from nothing to a gated decision on inspect logs, by the commands of docs/how-to/ci-gate.md, and say how long it took.

``python deploy/try_install.py`` builds the wheel, fetches it and what it needs (the download, which is timed apart), makes a
fresh environment, installs there and runs the commands as they are written. It fails if a command does.
"""

import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "tests" / "holdouts" / "tool_files"
_TIMES = 100  # a committed log has six cases; each is taken so often, under ids of its own


def read_commands() -> list[str]:
    """Return the commands of "In a minute"."""
    page = (ROOT / "docs" / "how-to" / "ci-gate.md").read_text(encoding="utf-8")
    return re.findall(r"^\$ (.*)$", page.partition("## In a minute")[2].partition("\n## ")[0], re.MULTILINE)


def write_log(path: Path, source: str) -> None:
    """Write a log as inspect_ai writes them, with more cases than the committed one."""
    log = json.loads((LOGS / source).read_text(encoding="utf-8"))
    log["samples"] = [sample | {"id": f"{copy}-{sample['id']}"} for copy in range(_TIMES) for sample in log["samples"]]
    log["eval"]["dataset"]["sample_ids"] = sorted({sample["id"] for sample in log["samples"]})
    path.write_text(json.dumps(log), encoding="utf-8")


def run(name: str, words: Sequence[str | Path], *, folder: Path) -> float:
    """Run a command without what surrounds this one's Python, and return its seconds."""
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    start, busy = time.monotonic(), _measure_children()
    done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, check=False)  # noqa: S603
    seconds = time.monotonic() - start
    print(f"{seconds:6.1f} s, {_measure_children() - busy:5.1f} s of the processor  {name}", flush=True)
    if done.returncode:
        print(done.stdout, done.stderr)
        sys.exit(done.returncode)
    if name.startswith("holdtrue"):
        print(done.stdout, end="")
    return seconds


def _measure_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Time the download, the installation and the commands."""
    install, *commands = read_commands()
    package = install.removeprefix("pip install ").strip("'")
    with tempfile.TemporaryDirectory() as place:
        folder, wheels = Path(place), Path(place) / "wheels"
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run("build the wheel", [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT], folder=folder)
        (wheel,) = wheels.glob("holdtrue-*.whl")
        wanted = f"{wheel}{package.removeprefix('holdtrue')}"
        fetched = run("download", [*pip, "download", "--only-binary", ":all:", "-d", wheels, wanted], folder=folder)
        made = run("make an environment", [sys.executable, "-m", "venv", folder / "fresh"], folder=folder)
        fresh = folder / "fresh" / "bin"
        taken = run(
            install,
            [fresh / "python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links", wheels, package],
            folder=folder,
        )
        (folder / "logs").mkdir()
        write_log(folder / "logs" / "main.eval", "inspect_second.json")
        write_log(folder / "logs" / "change.eval", "inspect_first.json")
        for command in commands:
            program, *words = shlex.split(command)
            taken += run(command, [fresh / program, *words], folder=folder)
    print(f"{taken:.1f} s from pip install to a gated decision; download {fetched:.1f} s, environment {made:.1f} s apart")


if __name__ == "__main__":
    main()

"""Environments of peers whose pins clash with ours: made once under build/reproduce, and run as programs of their own."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["find_peer", "run_command"]

_FOLDER = Path(__file__).parents[1] / "build" / "reproduce"
_WANTED = {
    "opendp": ("opendp[mbi]==0.16.0",),
    "diffprivlib": ("diffprivlib==0.6.6", "scikit-learn<1.8", "numpy"),
    "tmlt.analytics": ("tmlt.analytics==0.21.0",),
}
_HOUR = 3600


def find_peer(name: str) -> tuple[Path | None, str]:
    """Return the Python of a peer's environment, made if it is not there, and its version; or None and why."""
    environment = _FOLDER / name
    python = environment / "bin" / "python"
    ask = f"import importlib.metadata as m, {name}; print({name!r}, m.version({name!r}))"
    if not run_command([python, "-c", ask])[0]:
        print(f"making {environment}", flush=True)
        environment.parent.mkdir(parents=True, exist_ok=True)
        made = run_command([sys.executable, "-m", "venv", "--clear", environment])[0]
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *_WANTED[name],
        ]
        if not (made and run_command(install)[0]):
            return None, f"{name} could not be installed here (no index of packages, or none with it): nothing is said of it"
    done, text = run_command([python, "-c", ask])
    return (python, text) if done else (None, f"{name} is installed but cannot be imported here: nothing is said of it")


def run_command(command: Sequence[str | Path]) -> tuple[bool, str]:
    """Return whether a command ended well, and what it printed."""
    try:
        done = subprocess.run(  # noqa: S603 - our own command lines
            [str(word) for word in command], capture_output=True, text=True, check=False, timeout=_HOUR
        )
    except (OSError, subprocess.TimeoutExpired):
        return False, ""
    return done.returncode == 0, done.stdout.strip()

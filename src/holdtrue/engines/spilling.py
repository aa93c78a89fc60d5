"""Where rows go that outgrow DuckDB's memory: a folder of the owner's alone, beside the ledger, or nowhere.

Guarantee: rows are spilled only to a folder that its owner alone may open (0700), and nowhere if there can be none. An
engine takes its folder with it when it is closed; what a killed process left is removed by the next that opens. The folder
of a living process is left alone: it holds a lock on it, which ends with the process, however that ends.
"""

import glob
import os
import shutil
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

__all__ = ["SpillFolder"]

# Without such locks nothing is spilled.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None
_ATTEMPTS = 100


class SpillFolder:
    """One engine's own folder, whose name begins with ``place``; ``path`` is None where none can be made."""

    def __init__(self, place: Path) -> None:
        self.path: Path | None = None
        self._lock: int | None = None
        self._process = os.getpid()
        if fcntl is None:
            return
        with suppress(OSError, ValueError):
            _remove_abandoned(place)
            for _ in range(_ATTEMPTS):
                if self.path is None:
                    self._make(place)

    def _make(self, place: Path) -> None:
        path = Path(mkdtemp(prefix=f"{place.name}-", dir=place.parent))
        with suppress(FileNotFoundError):  # another process took it for one that was left, before it was locked
            self._lock = os.open(path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.fstat(self._lock).st_nlink:
                self.path = path
            else:
                os.close(self._lock)

    def remove(self) -> None:
        """Remove the folder and what is in it; a forked child leaves its parent's alone."""
        if self.path is None or self._lock is None:
            return
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None


def _remove_abandoned(place: Path) -> None:
    """Remove the folders of processes that are gone: those that nobody has locked."""
    for folder in place.parent.glob(f"{glob.escape(place.name)}-*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)

"""Where rows go that outgrow DuckDB's memory: a folder of the owner's alone, beside the ledger, or nowhere.

Guarantee: rows are spilled only below a folder that its owner alone may open (0700). A process that ends takes its own
folder with it; what a killed one left is removed by the next that opens. A folder whose process lives is left alone: each
holds a lock on its own, which ends with the process, however that ends.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from holdtrue.errors import RefusedError

try:
    import fcntl
except ImportError:  # pragma: no cover - no such locks on this system, so nothing is spilled
    fcntl = None  # type: ignore[assignment]

__all__ = ["SpillFolder"]

_LOCK = "lock"
_OTHERS = 0o077


class SpillFolder:
    """One engine's own folder below the folder beside a ledger."""

    def __init__(self, parent: Path) -> None:
        self.path: Path | None = None
        self._lock: int | None = None
        self._process = os.getpid()
        if fcntl is None:
            return
        try:
            _make_private(parent)
            with _locked(parent):
                _remove_abandoned(parent)
                self.path = Path(mkdtemp(prefix="rows-", dir=parent))
                self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            message = f"{parent}: no folder for rows that outgrow memory can be made here ({error.strerror})"
            raise RefusedError(message) from None

    def remove(self) -> None:
        """Remove the folder and what is in it; a forked child leaves its parent's alone."""
        if self.path is not None and os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _make_private(folder: Path) -> None:
    """Make a folder that its owner alone may open, and take away what others may do with one that is there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "it is not a folder")
    if found.st_mode & _OTHERS:
        folder.chmod(0o700)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep others from making and removing folders meanwhile."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes that are gone."""
    for folder in parent.iterdir():
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True

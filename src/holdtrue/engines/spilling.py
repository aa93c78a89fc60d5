"""Where rows go that outgrow DuckDB's memory: a folder of the owner's alone, beside the ledger, or nowhere.

Guarantee: rows are spilled only below a folder that its owner alone may open (0700). A process that ends takes its own
folder with it; what a killed one left is removed by the next that opens. A folder whose process lives is left alone: each
holds a lock on its own, which ends with the process, however that ends.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
            while self.path is None:
                self._make(parent)
        except OSError as error:
            message = f"{parent}: no folder for rows that outgrow memory can be made here ({error.strerror})"
            raise RefusedError(message) from None

    def _make(self, parent: Path) -> None:
        try:
            _make_private(parent)
            with _locked(parent) as still_there:
                if still_there:
                    self.path, self._lock = _make_locked(parent)
        except FileNotFoundError:  # another process removed the folder just then
            if not parent.parent.is_dir():
                raise

    def remove(self) -> None:
        """Remove the folder and what is in it; a forked child leaves its parent's alone."""
        if self.path is None or self._lock is None:
            return
        os.close(self._lock)
        self._lock = None
        if os.getpid() == self._process:
            with suppress(OSError), _locked(self.path.parent):
                shutil.rmtree(self.path, ignore_errors=True)
                self.path.parent.rmdir()  # which fails while others have folders there


def _make_locked(parent: Path) -> tuple[Path, int]:
    """Remove what killed processes left and make a new folder with a lock of its own."""
    _remove_abandoned(parent)
    path = Path(mkdtemp(prefix="rows-", dir=parent))
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return path, lock


def _make_private(folder: Path) -> None:
    """Make a folder that its owner alone may open, and take away what others may do with one that is there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "it is not a folder")
    if found.st_mode & _OTHERS:
        folder.chmod(0o700)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Keep others from making and removing folders in a folder; yield whether it is still there once they are kept."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield bool(os.fstat(held).st_nlink)
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

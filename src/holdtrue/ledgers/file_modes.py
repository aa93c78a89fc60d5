"""A ledger's files are its owner's alone: they hold the key, the answers, and beside them the models."""

import os
import stat
from pathlib import Path

from holdtrue.errors import RefusedError

__all__ = ["keep_private"]

_OTHERS = 0o077
_FILES = ("", "-journal", "-wal", "-shm")
_FOLDERS = (".models", ".names")


def keep_private(path: Path) -> None:
    """Take from others what they may do with a ledger's file, its journal and the folders beside it.

    Failure: RefusedError where they may do something and the owner is somebody else.
    """
    if os.name != "posix":  # pragma: no cover - elsewhere a mode says nothing about others
        return
    for suffix in _FILES + _FOLDERS:
        place = Path(f"{path}{suffix}")
        try:
            mode = stat.S_IMODE(place.stat().st_mode)
            if mode & _OTHERS:
                place.chmod(mode & ~_OTHERS)
        except FileNotFoundError:
            continue
        except OSError:
            message = f"other users may open {place}; have its owner run: chmod go= {place}"
            raise RefusedError(message) from None

"""Bitmaps of atoms that outlast a process: sealed files in a folder beside a ledger, as private as the rows.

A process that made bitmaps of a large table leaves them there when it closes, for the next one to begin with. Whether a
bitmap is kept depends on the questions and on the number of rows, never on a cell. ``HOLDTRUE_BITMAPS=off`` in the
environment keeps and reads none; the folder may be removed at any time.
"""

import hashlib
import hmac
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdtrue.errors import HoldtrueError
from holdtrue.ledgers.sealed_store import FolderStore, check_seal, seal_document
from holdtrue.queries.syntax_tree import Boolean, notation

__all__ = ["LEAST_ROWS", "MOST_BYTES", "KeptBitmaps", "open_bitmaps"]

LEAST_ROWS: Final = 1 << 20
"""Smaller tables are scanned faster than files are checked."""

MOST_BYTES: Final = 1 << 28
"""What the files of one ledger take together."""

LEAST_FREE: Final = 1 << 30
"""Bytes that are left on the disk for the ledger, which cannot answer on a full one."""

_SEAL_AND_LINES: Final = 66


def open_bitmaps(ledger: "str | os.PathLike[str]", key: str, *, rows: int, source: str, fresh: bool) -> "KeptBitmaps | None":
    """Return the bitmaps beside a ledger in a file; None where they are not worth it, or switched off.

    ``source`` says which rows in which order they are of; ``fresh`` removes what other processes left.
    """
    if rows < LEAST_ROWS or os.environ.get("HOLDTRUE_BITMAPS", "") == "off":
        return None
    store = FolderStore(Path(f"{os.fspath(ledger)}.bitmaps"))
    try:
        if fresh:
            store.keep_only("", most=0)
    except OSError:
        return None
    return KeptBitmaps(store, key, source=source)


class KeptBitmaps:
    """The files of one ledger, for one state of its data.

    Guarantee: a bitmap is read only if it was written whole under this ledger's key, for this atom, of rows with this
    fingerprint from files in this state, read by the same versions in the same way. A file that was changed, cut short or
    written elsewhere is as good as none. Needs: HMAC-SHA-256 as a pseudorandom function, and a key that only the ledger has.
    A disk that is full or cannot be read costs nothing but time.
    """

    def __init__(self, store: FolderStore, key: str, *, source: str) -> None:
        self._store = store
        self._key = hmac.new(
            bytes.fromhex(key), b"bitmaps\0" + source.encode("utf-8", "surrogatepass"), hashlib.sha256
        ).hexdigest()
        # Names tell the state that files are of, so that those of another one can be removed without reading them.
        self._state = self._digest("state")

    def read(self, atom: Boolean, *, size: int) -> bytes | None:
        """Return the bitmap of an atom, of this many bytes; None where there is none that this ledger sealed."""
        name = self._name_file(atom)
        with suppress(HoldtrueError, OSError):
            found = self._store.read(name) if self._store.find_size(name) == _SEAL_AND_LINES + size else None
            if found is not None:
                check_seal(self._key, name, found)
                self._store.note_use(name)
                return found.content
        return None

    def write(self, atom: Boolean, content: bytes) -> bool:
        """Keep the bitmap of an atom in the place of those that were used longest ago; return whether there was room."""
        name = self._name_file(atom)
        with suppress(HoldtrueError, OSError):
            size = _SEAL_AND_LINES + len(content)
            if size <= MOST_BYTES and self._store.count_free() >= LEAST_FREE + size:
                self._store.keep_only(self._state, most=MOST_BYTES - size)
                self._store.write(name, seal_document(self._key, name, facts="", content=content))
                return True
        return False

    def _name_file(self, atom: Boolean) -> str:
        return f"{self._state}-{self._digest(notation(atom))}"

    def _digest(self, text: str) -> str:
        return hashlib.blake2b(
            text.encode("utf-8", "surrogatepass"), key=bytes.fromhex(self._key), digest_size=20
        ).hexdigest()

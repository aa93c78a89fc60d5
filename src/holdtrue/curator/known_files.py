"""Files whose fingerprint is known: a file that nobody touched since it was read is not read again.

Beside a ledger in a file stands a sealed note of the files that its rows came from, as they were when the fingerprint was
taken: path, device, inode, size and both times of change, and how they were read. While all is the same, the fingerprint is
taken from the note.
For a ledger in a database, which may serve machines with other inodes, the note is this process's own memory: a connection
that was cut is made again without reading the rows. Whoever can write to the disk and set a file's inode and status time
back can deceive this, which no ordinary program does; ``rehash`` reads the rows again whatever the note says.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from holdtrue.codec import encode
from holdtrue.curator.kept_bitmaps import open_bitmaps
from holdtrue.engines import Engine, Progress
from holdtrue.engines.base import LocalEngine
from holdtrue.engines.files import FileState
from holdtrue.errors import HoldtrueError, ReleaseError, RequestError
from holdtrue.ledgers.sealed_store import SealedStore, check_seal, seal_document, store_beside
from holdtrue.version import __version__

__all__ = ["NOTE", "SETTLED", "RowsFingerprint"]

NOTE: Final = "rows"
"""The name of the note."""

SETTLED: Final = 2_000_000_000
"""A file that changed within these nanoseconds may change again without a new time: file systems count in up to 2 s."""

# By a ledger's key, for ledgers in a database.
_REMEMBERED: Final[dict[str, tuple[str, str]]] = {}


class RowsFingerprint:
    """The fingerprint of an engine's rows under a ledger's key: from the note beside the ledger, or by reading them.

    Law: the note counts only if this ledger sealed it and every file is as the note has it; otherwise all rows are read.
    Needs: files on a system with inodes, a ledger in a file. Fails: with RequestError where the rows cannot be read; a note
    that cannot be read or written is as good as none.
    """

    def __init__(
        self,
        engine: Engine,
        ledger: "str | os.PathLike[str] | None",
        *,
        rehash: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._engine, self._rehash, self._progress = engine, rehash, progress
        self._store = _find_store(ledger) if _can_tell(engine.files) else None
        self._remembers = _can_tell(engine.files) and ledger is not None and "://" in os.fspath(ledger)
        self._ledger = ledger
        self._found: tuple[bytes, str] | None = None
        self._settled = False
        self._trusted: tuple[str, str] | None = None

    def __call__(self, key: bytes) -> str:
        """Return the fingerprint under a key, in hexadecimal."""
        if self._found is not None and self._found[0] == key:
            return self._found[1]
        known = None if self._rehash else self._read_note(key.hex())
        if known is not None:
            self._trusted = key.hex(), known
            return known
        began = time.time_ns()
        try:
            self._found = key, self._engine.fingerprint(key, progress=self._progress).hex()
        except ReleaseError as error:
            failure = str(error)
        else:
            times = [max(file.changed, file.status_changed) for file in self._engine.files]
            self._settled = all(changed < began - SETTLED for changed in times)
            return self._found[1]
        # Nothing was charged yet, so this is the request's branch of the tree.
        raise RequestError(failure)

    def keep(self) -> None:
        """Note a fingerprint that was taken, once its ledger is open; only of files that stayed as they were.

        Bitmaps of an engine over such files, and over those that were known, are kept beside the ledger (KeptBitmaps).
        """
        files = list(self._engine.files)
        if (self._store or self._remembers) and self._found is not None and self._settled:
            with suppress(HoldtrueError, OSError):
                if files == [FileState.of(file.path) for file in files]:
                    self._trusted = self._found[0].hex(), self._found[1]
                    self._write_note(*self._trusted)
        if self._store is not None and self._trusted is not None:
            self._keep_bitmaps(*self._trusted)

    def _keep_bitmaps(self, key: str, found: str) -> None:
        engine = self._engine
        if self._ledger is not None and isinstance(engine, LocalEngine) and not engine.file_tables:
            source = encode([__version__, found, self._describe_files()])
            bitmaps = open_bitmaps(self._ledger, key, rows=engine.rows, source=source, fresh=self._rehash)
            if bitmaps is not None:
                engine.keep_bitmaps(bitmaps)

    def _write_note(self, key: str, found: str) -> None:
        if self._store is None:
            _REMEMBERED[key] = self._describe_files(), found
            return
        note = seal_document(key, NOTE, facts=self._describe_files(), content=found.encode("ascii"))
        self._store.write(NOTE, note)

    def _describe_files(self) -> str:
        """Return the files as they are, how they were read, and of units also which table each of them is of."""
        engine = self._engine
        return encode({"files": list(engine.files), "reading": engine.reading, "tables": list(engine.file_tables)})

    def _read_note(self, key: str) -> str | None:
        if self._store is None:
            described, found = _REMEMBERED.get(key, ("", "")) if self._remembers else ("", "")
            return found if found and described == self._describe_files() else None
        with suppress(HoldtrueError, UnicodeDecodeError):
            note = self._store.read(NOTE)
            if note is not None and note.facts == self._describe_files():
                check_seal(key, NOTE, note)
                return note.content.decode("ascii")
        return None


def _find_store(ledger: "str | os.PathLike[str] | None") -> SealedStore | None:
    """Return where notes are kept: beside a ledger in a file. A database may serve machines whose inodes are not ours."""
    return None if ledger is None or "://" in os.fspath(ledger) else store_beside(ledger, "files")


def _can_tell(files: Sequence[FileState]) -> bool:
    """Return whether files can be told apart without reading them: some network drives have no inodes."""
    return bool(files) and all(file.inode for file in files)

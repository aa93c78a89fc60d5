"""What is known of rows before their ledger is opened: their fingerprint, bitmaps of atoms, and a budget that they have.

Beside a ledger in a file stands a sealed note of the files that its rows came from, as they were when the fingerprint was
taken: path, device, inode, size and both times of change, and how they were read. While all is the same, the fingerprint is
taken from the note.
For a ledger in a database, which may serve machines with other inodes, the note is this process's own memory: a connection
that was cut is made again without reading the rows. Whoever can write to the disk and set a file's inode and status time
back can deceive this, which no ordinary program does; ``rehash`` reads the rows again whatever the note says.

Bitmaps outlast a process in sealed files in a folder, as private as the rows: a process that made them of a large table
leaves them there when it closes, for the next one to begin with. Whether a bitmap is kept depends on the questions and on
the number of rows, never on a cell. ``HOLDTRUE_BITMAPS=off`` in the environment keeps and reads none; the folder may be
removed at any time.

Two ledgers for the same rows pay out epsilon twice. A ledger's fingerprint is keyed by its own secret, so whether it belongs
to some rows is found by reading the rows again under that key; only ledgers of as many rows and columns are tried.
"""

import hashlib
import hmac
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdtrue.codec import decode, encode
from holdtrue.engines import Engine, Progress, open_engine
from holdtrue.engines.base import LocalEngine
from holdtrue.engines.files import FileState, match_files
from holdtrue.engines.fingerprints import tables_in
from holdtrue.errors import HoldtrueError, RefusedError, ReleaseError, RequestError
from holdtrue.exact import truth
from holdtrue.ledgers import Terms
from holdtrue.ledgers.opening import store_at
from holdtrue.ledgers.sealed_store import FolderStore, SealedStore, check_seal, seal_document, store_beside
from holdtrue.queries.cards import Card
from holdtrue.queries.syntax_tree import Boolean, notation
from holdtrue.version import __version__

__all__ = ["RowsFingerprint", "find_budget", "folders_of", "has_budget", "refuse_second_budget"]

NOTE: Final = "rows"
"""The name of the note."""

SETTLED: Final = 2_000_000_000
"""A file that changed within these nanoseconds may change again without a new time: file systems count in up to 2 s."""

LEAST_ROWS: Final = 1 << 20
"""Smaller tables are scanned faster than files are checked."""

MOST_BYTES: Final = 1 << 28
"""What the files of one ledger take together."""

LEAST_FREE: Final = 1 << 30
"""Bytes that are left on the disk for the ledger, which cannot answer on a full one."""

_SEAL_AND_LINES: Final = 66
_PATTERN = "*.ledger"
_SERVICE = ".holdtrue"  # the service's own folder, beside the data it guards

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


def refuse_second_budget(data: Sequence[object], engine: Engine, *, meant: bool = False, ledger: object = None) -> None:
    """Raise RefusedError where rows about to get a new ledger have one already, unless a second one is meant.

    ``data`` are all tables that the engine reads, ``ledger`` is where the new one will be.
    """
    if truth("second_budget", meant):
        return
    found = next(
        (place for one in data if (place := find_budget(one, engine, folders=folders_of(one, ledger=ledger)))), None
    )
    if found is not None:
        message = (
            f"these rows already have a budget in {found}; open that ledger, or pass second_budget=True to give them "
            "another, whose privacy cost adds to that of the first"
        )
        raise RefusedError(message)


def folders_of(data: object, *, ledger: object = None) -> list[Path]:
    """Return where ledgers of files are looked for: beside them, and in the service's folder there.

    A table in a database has no folder of its own: ledgers are looked for beside the new one, where that is a file.
    """
    if not isinstance(data, (str, os.PathLike)):
        return []
    if "://" in os.fspath(data):
        beside = isinstance(ledger, (str, os.PathLike)) and "://" not in os.fspath(ledger)
        return [Path(ledger).parent.resolve()] if beside else []  # type: ignore[arg-type]  # a path, as beside says
    folders = list(dict.fromkeys(Path(name).parent.resolve() for name in match_files(data)))
    return folders + [folder / _SERVICE for folder in folders]


def find_budget(data: object, engine: Engine, *, folders: Iterable[Path]) -> Path | None:
    """Return a ledger in one of the folders that belongs to the rows of an engine; None where there is none.

    Ledgers that cannot be read, copies for auditors and ledgers of holdouts are passed over.
    """
    for folder in folders:
        with suppress(OSError):
            for place in sorted(folder.glob(_PATTERN)):
                terms = _read_terms(place) if place.is_file() else None
                if terms is not None and has_budget(terms, data, engine):
                    return place
    return None


def _read_terms(place: Path) -> Terms | None:
    """Return the terms of a ledger; one whose last writer was killed is mended by opening it to write."""
    for read_only in (True, False):
        with suppress(HoldtrueError):
            store = store_at(place, read_only=read_only)
            store.close()
            return store.terms
    return None


def has_budget(terms: Terms, data: object, engine: Engine) -> bool:
    """Return whether the terms of a ledger are those of the same rows, read with the types that its card has."""
    try:
        card = decode(terms.card, Card)
    except HoldtrueError:
        return False
    alike = card.rows == engine.card.rows and len(card.columns) == len(engine.card.columns)
    units = card.unit is not None or engine.card.unit is not None
    if terms.is_sealed or not (alike or units):
        return False
    key = bytes.fromhex(terms.key)
    if units:
        with suppress(HoldtrueError):
            return not tables_in(engine.fingerprint(key)).isdisjoint(tables_in(bytes.fromhex(terms.fingerprint)))
        return False
    with suppress(HoldtrueError), _read_as(card, data, engine) as same:
        return hmac.compare_digest(same.fingerprint(key).hex(), terms.fingerprint)
    return False


@contextmanager
def _read_as(card: Card, data: object, engine: Engine) -> Iterator[Engine]:
    """Yield an engine over the rows with the columns of a card: the one at hand, or the same files read in another way."""
    kinds = [(column.name, column.type) for column in card.columns]
    if kinds == [(column.name, column.type) for column in engine.card.columns] or not isinstance(data, (str, os.PathLike)):
        yield engine
        return
    other = open_engine(data, types=dict(kinds), names=[name for name, _ in kinds])
    try:
        yield other
    finally:
        other.close()

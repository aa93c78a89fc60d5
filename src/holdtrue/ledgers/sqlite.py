"""A ledger in one SQLite file.

A rollback journal and synchronous=EXTRA: a commit has returned only when it is on the disk. The journal stays beside the
file between commits, with its head struck out (PERSIST): as safe as deleting it, at half the time. SQLite before 3.51.3 can
damage a file in WAL mode, so a file found in that mode is taken out of it there, and is left in it from 3.51.3 on.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from holdtrue.entropy import SYSTEM
from holdtrue.errors import IntegrityError, InvalidParameter, RefusedError, ReleaseError, UnknownName
from holdtrue.ledgers.books import Book, Wanted
from holdtrue.ledgers.entries import COLUMNS, Entry, Terms
from holdtrue.ledgers.file_modes import keep_private
from holdtrue.ledgers.migrations import VERSIONS
from holdtrue.ledgers.schema import check_sqlite_schema, refuse_triggers
from holdtrue.ledgers.stores import Busy
from holdtrue.ledgers.tables import ENTRIES, LINE, SqlStore

__all__ = ["SqliteStore", "may_use_wal"]

_SECONDS = 30.0
_WAL_MENDED = (3, 51, 3)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_PRIMARY = 0xFF  # the low byte of an extended error code
_NOTHING = Wanted()
_ROWS = 32  # of one statement to insert: few enough that all its values are parameters in every version


def may_use_wal(version: tuple[int, ...]) -> bool:
    """Return whether a version of SQLite keeps a file in WAL mode whole."""
    return version >= _WAL_MENDED


class SqliteStore(SqlStore):
    """A ledger's rows in one file, which several processes may have open; BEGIN IMMEDIATE is the one writer lock.

    What a charge and an answer wait for goes to the driver itself, within SQLAlchemy's transaction.
    """

    _driver_errors = sqlite3.Error

    def __init__(
        self, path: Path, *, create: Callable[[], Terms] | None = None, read_only: bool = False, seconds: float = _SECONDS
    ) -> None:
        self._path = path
        self._version: int | None = None
        self._write_version: int | None = None
        self._alone_after = 0
        self._head: Entry | None = None
        if create is not None and _is_free(path):
            _create_file(path, create)
        _check_file(path)
        connection = _connected(path, read_only=read_only, seconds=seconds)
        self._driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]  # the driver's own
        super().__init__(connection, where=str(path), create=create)
        if not read_only:  # only now is it known to be a ledger, and no other file's mode is ever changed
            try:
                keep_private(path)
            except BaseException:
                self.close()
                raise

    def _lock(self) -> None:
        self._driver.execute("BEGIN IMMEDIATE")

    _lock_creation = _lock

    def _begin(self) -> None:
        self._driver.execute("BEGIN")

    def _busy(self, error: BaseException | None) -> bool:
        return _code(error) in _LOCKED

    def _damaged(self, error: BaseException | None) -> bool:
        # Text that is not UTF-8 has no code of its own, and no table or column ever goes missing from a whole ledger.
        return _code(error) in _DAMAGED | {None, sqlite3.SQLITE_ERROR}

    def _has_tables(self) -> bool:
        found = VERSIONS in self._tables()
        if found:
            refuse_triggers(self._driver)
        return found

    def _foreign(self) -> bool:
        return bool(self._tables())

    def _tables(self) -> Sequence[object]:
        return self._connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars().all()

    def moved(self) -> bool:
        """Return whether another connection has changed the file since this was last asked: SQLite counts that itself."""
        try:
            version = self._driver.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:  # whoever reads next is told
            version = None
        seen, self._version = self._version, version
        return version is None or bool(version != seen)

    @contextmanager
    def writing(self, wanted: Wanted) -> Iterator[Book]:
        """Lock, load what another connection may have written, yield the book, write what was appended, commit.

        Nobody but this store responds to a charge that it has made while no other connection wrote: SQLite counts those
        writes, and under the lock the count is right. So such responses are not looked for, nor is the newest entry where
        nothing else is wanted.
        """
        with self._transaction(self._lock):
            version = self._driver.execute("PRAGMA data_version").fetchone()[0]
            moved = version != self._write_version
            if not moved and wanted.responses and min(wanted.responses) > self._alone_after:
                wanted = Wanted(wanted.ids, wanted.digests, wanted.analysts, wanted.numbers)
            if moved or self._head is None or wanted != _NOTHING:
                book = self._loaded(wanted)
            else:
                book = Book(self.terms)
                book.add(self._head)
            alone_after = book.receipt[0] if moved else self._alone_after
            yield book
            self._insert(book.appended)
        self._write_version, self._alone_after, self._head = version, alone_after, book.head

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries as they are, for a copy: what they say was decided elsewhere."""
        self._write_version = None
        super().append(entries)

    def _insert(self, entries: Sequence[Entry]) -> None:
        """Write rows by one statement for many, which lets other threads in once and not for every row."""
        for start in range(0, len(entries), _ROWS):
            several = entries[start : start + _ROWS]
            self._driver.execute(_inserting(len(several)), [value for entry in several for value in LINE(entry)])

    def _selected(self, statement: str, given: Any) -> Sequence[Sequence[Any]]:  # noqa: ANN401 - as the engine takes it
        return self._driver.execute(statement, given).fetchall()

    def examine(self) -> None:
        """Have SQLite check the whole file, its indexes against its tables; the tables are those of the migrations."""
        with self._transaction(self._begin):
            check_sqlite_schema(self._driver)
            found = self._connection.exec_driver_sql("PRAGMA integrity_check(1)").scalars().all()
        if list(found) != ["ok"]:
            message = f"{self.where}: the file is damaged outside its entries"
            raise IntegrityError(message)


@cache
def _inserting(rows: int) -> str:
    line = f"({', '.join('?' * len(COLUMNS))})"
    return f"INSERT INTO {ENTRIES.name} ({', '.join(COLUMNS)}) VALUES {', '.join([line] * rows)}"  # noqa: S608 - names of ours


def _code(error: BaseException | None) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def _is_free(path: Path) -> bool:
    """Return whether a ledger may be created at a path; say in our own words what is wrong with it otherwise."""
    try:
        folder, there, parent = path.is_dir(), path.exists(), path.parent.is_dir()
    except (OSError, ValueError):  # too long, or with a NUL
        raise InvalidParameter("where", str(path), "a path") from None
    if folder:
        raise InvalidParameter("where", str(path), "the path of a file, not of a directory")
    if not there and not parent:
        raise InvalidParameter("where", str(path), "a path in a directory that exists")
    return not there


def _check_file(path: Path) -> None:
    """Refuse a path without a ledger, and one whose ledger is gone: no ledger that was ever in its place is empty."""
    if _is_free(path):
        message = f"there is no ledger at {path}; opening data with ledger= creates one"
        raise UnknownName(message)
    if path.is_file() and not path.stat().st_size:
        message = (
            f"{path} is empty, which no ledger ever is: restore it from a backup, or delete the file if nothing was ever "
            "asked under it"
        )
        raise IntegrityError(message)


def _create_file(path: Path, create: Callable[[], Terms]) -> None:
    """Put a new ledger in its place whole, for its owner only: it is written under another name first.

    Whoever puts one there in the meantime is first, and theirs is opened.
    """
    made = create()
    written = path.with_name(f".{path.name[:100]}.{SYSTEM.words(1).tobytes().hex()}.new")
    try:
        os.close(os.open(written, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        _FirstWriting(written, create=lambda: made).close()
        _move(written, path)
    except (OSError, ValueError, RefusedError, ReleaseError):
        message = f"a ledger cannot be created at {path}: the directory is read-only or the disk is full"
        raise RefusedError(message) from None
    finally:
        for each in (written, written.with_name(f"{written.name}-journal")):
            with suppress(OSError, ValueError):
                each.unlink(missing_ok=True)


def _move(written: Path, path: Path) -> None:
    """Give a file its name, unless another has it already."""
    try:
        os.link(written, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links; a crash between these two leaves an empty file, which is refused
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return
        written.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class _FirstWriting(SqliteStore):
    """The store of a ledger that has no entries and is not in its place yet, in an empty file."""

    def __init__(self, path: Path, *, create: Callable[[], Terms]) -> None:
        connection = _connected(path, read_only=False, seconds=_SECONDS)
        self._driver = connection.connection.driver_connection  # type: ignore[assignment]  # the driver's own
        SqlStore.__init__(self, connection, where=str(path), create=create)


def _connected(path: Path, *, read_only: bool, seconds: float) -> sa.Connection:
    mode = "ro" if read_only else "rw"
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(address, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False)
        try:
            _configure(connection, read_only=read_only)
        except BaseException:
            connection.close()
            raise
        return connection

    # The URL is for the dialect only; hidden parameters keep answers and the key out of the text of errors.
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=StaticPool, hide_parameters=True)
    try:
        return engine.connect()
    except sa.exc.DBAPIError as error:
        raise _refusal(error.orig, path) from None
    except sqlite3.Error as error:
        raise _refusal(error, path) from None
    except UnicodeError:  # the driver could not even decode what the engine said about a damaged file
        message = f"{path} is damaged or is not a ledger"
        raise IntegrityError(message) from None


def _refusal(error: BaseException | None, path: Path) -> IntegrityError | RefusedError:
    if _code(error) in _DAMAGED:
        return IntegrityError(f"{path} is damaged or is not a ledger")
    if _code(error) in _LOCKED:
        return Busy(f"{path} is locked by another process; try again")
    return RefusedError(f"{path} cannot be opened: the file or its directory is read-only, or the disk fails")


def _configure(connection: sqlite3.Connection, *, read_only: bool) -> None:
    """Make commits durable before they return, and never trust what is stored in the schema."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA synchronous = EXTRA")
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if read_only or (mode == "wal" and may_use_wal(sqlite3.sqlite_version_info)):
        return
    (mode,) = connection.execute("PRAGMA journal_mode = PERSIST").fetchone()
    if mode != "persist":
        raise sqlite3.OperationalError

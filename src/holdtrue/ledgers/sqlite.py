"""A ledger in one SQLite file, and the copy of any ledger that an auditor takes home.

A rollback journal and synchronous=EXTRA: a commit has returned only when it is on the disk. The journal stays beside the
file between commits, with its head struck out (PERSIST): as safe as deleting it, at half the time. SQLite before 3.51.3 can
damage a file in WAL mode, so a file found in that mode is taken out of it there, and is left in it from 3.51.3 on.
"""

import functools
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Final

from holdtrue.entropy import SYSTEM
from holdtrue.errors import IntegrityError, InvalidParameter, RefusedError, ReleaseError, UnknownName
from holdtrue.ledgers.entries import Terms
from holdtrue.ledgers.ledger import Ledger
from holdtrue.ledgers.migrations import HEAD, READABLE, VERSIONS, upgrade
from holdtrue.ledgers.sql_store import SqlStore, foreign_object
from holdtrue.ledgers.transactions import Busy, Lookup

__all__ = ["SqliteStore", "check_schema", "expect_schema", "export", "keep_private", "may_use_wal", "refuse_triggers"]

_SECONDS = 30.0
_WAL_MENDED = (3, 51, 3)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_PRIMARY = 0xFF  # the low byte of an extended error code
_OTHERS = 0o077
_FILES = ("", "-journal", "-wal", "-shm")
_FOLDERS = (".bitmaps", ".files", ".models", ".names")
_TRIGGERS: Final = "SELECT type, name FROM main.sqlite_master WHERE type NOT IN ('table', 'index')"
_STORED: Final = "SELECT type, name, tbl_name, sql FROM main.sqlite_master"
_Object = tuple[str, str, str, str]


def may_use_wal(version: tuple[int, ...]) -> bool:
    """Return whether a version of SQLite keeps a file in WAL mode whole."""
    return version >= _WAL_MENDED


class SqliteStore(SqlStore):
    """A ledger's rows in one file, which several processes may have open; BEGIN IMMEDIATE is the one writer lock."""

    _begin_reading = "BEGIN"
    _begin_writing = "BEGIN IMMEDIATE"
    _count_commits = "PRAGMA data_version"
    _mark = "?"
    _driver_errors = sqlite3.Error
    _dialect = "sqlite://"

    def __init__(
        self, path: Path, *, create: Callable[[], Terms] | None = None, read_only: bool = False, seconds: float = _SECONDS
    ) -> None:
        if create is not None and _is_free(path):
            _create_file(path, create)
        _check_file(path)
        driver = _open_connection(path, read_only=read_only, seconds=seconds)
        super().__init__(driver, where=str(path), create=create, read_only=read_only)
        if not read_only:  # only now is it known to be a ledger, and no other file's mode is ever changed
            try:
                keep_private(path)
            except BaseException:
                self.close()
                raise

    def _is_busy(self, error: BaseException) -> bool:
        return _error_code(error) in _LOCKED

    def _is_damaged(self, error: BaseException) -> bool:
        # Text that is not UTF-8 has no error code, and no table or column ever goes missing from a whole ledger.
        return _error_code(error) in _DAMAGED | {None, sqlite3.SQLITE_ERROR}

    def _has_tables(self) -> bool:
        found = VERSIONS in self._list_tables()
        if found:
            refuse_triggers(self._driver)
        return found

    def _is_foreign(self) -> bool:
        return bool(self._list_tables())

    def _list_tables(self) -> list[object]:
        return [name for (name,) in self._driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]

    def examine(self) -> None:
        """Have SQLite check the whole file, its indexes against its tables; the tables are those of the migrations."""
        with self._within_transaction(self._begin_reading):
            check_schema(self._driver)
            found = self._driver.execute("PRAGMA integrity_check(1)").fetchall()
        if found != [("ok",)]:
            message = f"{self.where}: the file is damaged outside its entries"
            raise IntegrityError(message)


class _NewFile(SqliteStore):
    """The store of a ledger that has no entries and is not in its place yet, in an empty file."""

    def __init__(self, path: Path, *, create: Callable[[], Terms]) -> None:
        driver = _open_connection(path, read_only=False, seconds=_SECONDS)
        SqlStore.__init__(self, driver, where=str(path), create=create)


def _error_code(error: BaseException) -> int | None:
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
            f"{path} is empty, and no ledger ever is: restore it from a backup, or delete the file if nothing was ever "
            "asked under it"
        )
        raise IntegrityError(message)


def _create_file(path: Path, create: Callable[[], Terms]) -> None:
    """Put a new ledger in its place whole, for its owner only: it is written under another name first.

    If another process puts one there in the meantime, that one is opened.
    """
    made = create()
    written = path.with_name(f".{path.name[:100]}.{SYSTEM.words(1).tobytes().hex()}.new")
    try:
        os.close(os.open(written, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        _NewFile(written, create=lambda: made).close()
        _move_file(written, path)
    except (OSError, ValueError, RefusedError, ReleaseError):
        message = f"a ledger cannot be created at {path}: the directory is read-only or the disk is full"
        raise RefusedError(message) from None
    finally:
        for each in (written, written.with_name(f"{written.name}-journal")):
            with suppress(OSError, ValueError):
                each.unlink(missing_ok=True)


def _move_file(written: Path, path: Path) -> None:
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
    if hasattr(os, "O_DIRECTORY"):  # elsewhere folders cannot be opened, and keep a name as soon as it is given
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _open_connection(path: Path, *, read_only: bool, seconds: float) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    connection = None
    try:
        connection = sqlite3.connect(address, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False)
        _configure_connection(connection, read_only=read_only)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            raise _to_refusal(error, path) from None
        if isinstance(error, UnicodeError):  # the driver could not even decode what the engine said about a damaged file
            message = f"{path} is damaged or is not a ledger"
            raise IntegrityError(message) from None
        raise
    return connection


def _to_refusal(error: BaseException, path: Path) -> IntegrityError | RefusedError:
    if _error_code(error) in _DAMAGED:
        return IntegrityError(f"{path} is damaged or is not a ledger")
    if _error_code(error) in _LOCKED:
        return Busy(f"{path} is locked by another process; try again")
    return RefusedError(f"{path} cannot be opened: the file or its directory is read-only, or the disk fails")


def _configure_connection(connection: sqlite3.Connection, *, read_only: bool) -> None:
    """Make commits durable before they return, and never trust what is stored in the schema."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: write through the drive's own cache too; nothing elsewhere
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if read_only or (mode == "wal" and may_use_wal(sqlite3.sqlite_version_info)):
        return
    (mode,) = connection.execute("PRAGMA journal_mode = PERSIST").fetchone()
    if mode != "persist":
        raise sqlite3.OperationalError


def keep_private(path: Path) -> None:
    """Remove the rights of other users on a ledger's file, its journal and the folders beside it.

    They hold the key, the answers and the models, so only the owner may open them. Failure: RefusedError
    where other users have rights and this user is not the owner.
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


def refuse_triggers(connection: sqlite3.Connection) -> None:
    """Raise IntegrityError where a file has a trigger or a view: what opening a ledger can afford to look for.

    A trigger could delete a charge as it is written, a view could stand in for a table: the chain alone would not tell.
    """
    found = connection.execute(_TRIGGERS).fetchone()
    if found is not None:
        raise foreign_object(*found)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise IntegrityError unless a file has exactly the tables and indexes that the migrations create.

    Reads the schema only, which SQLite has in memory already.
    """
    revision = HEAD
    try:
        found = _read_schema(connection)
        (revision,) = connection.execute(f"SELECT version_num FROM {VERSIONS}").fetchone()  # noqa: S608 - a constant
    except (sqlite3.Error, UnicodeError, AttributeError, TypeError):
        found = frozenset()
    expected = expect_schema(revision if revision in READABLE else HEAD)
    if found - expected:
        kind, name, *_ = min(found - expected)
        raise foreign_object(kind, name)
    if expected - found:
        kind, name, *_ = min(expected - found)
        message = f"the ledger has lost its {kind} {name!r}; it was changed from outside"
        raise IntegrityError(message)


@functools.cache
def expect_schema(revision: str = HEAD) -> frozenset[_Object]:
    """Return the schema of a ledger at a revision, made by the same migrations."""
    import sqlalchemy as sa

    driver = sqlite3.connect(":memory:", isolation_level=None)
    engine = sa.create_engine("sqlite://", creator=lambda: driver, poolclass=sa.pool.StaticPool)
    try:
        with engine.connect() as connection, connection.begin():
            upgrade(connection, to=revision)
        return _read_schema(driver)
    finally:
        engine.dispose()


def _read_schema(connection: sqlite3.Connection) -> frozenset[_Object]:
    rows = connection.execute(_STORED).fetchall()
    return frozenset((kind, name, table, " ".join((text or "").split())) for kind, name, table, text in rows)


_PAGE = 1000


def export(ledger: Ledger, path: str | PathLike[str]) -> int:
    """Write a copy of a ledger, wherever it is kept, to a new SQLite file, and return how many entries it has.

    Guarantee: the copy verifies with the same digests, so receipts of the one fit the other; it has a hash in place of the
    key, so no guess of the rows can be checked with it, and no curator opens it. Needs a path that does not exist yet.
    """
    place = Path(path)
    if place.exists():
        raise InvalidParameter("path", str(path), "a path that does not exist yet")
    store = SqliteStore(place, create=ledger.terms.without_key)
    try:
        number, last = 0, ledger.head[0]
        while number < last:
            page = ledger.entries(number + 1, min(number + _PAGE, last) + 1)
            store.begin(Lookup())
            store.commit(page)
            number = page[-1].number
    finally:
        store.close()
    return last

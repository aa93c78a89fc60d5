"""The service's own tables: keys, page sessions, what is registered, and its secrets. Budgets are in the ledgers alone.

Concurrent reads are joined into one, and skipped where nothing was written since.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from holdtrue.entropy import SYSTEM
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.ledgers.migrations import is_known, read_revision, upgrade
from holdtrue.service.migrations import FOLDER, HEAD, VERSIONS

if TYPE_CHECKING:
    from holdtrue.service.settings import Settings

__all__ = [
    "KEYS",
    "RECEIPTS",
    "REGISTERED",
    "SECRETS",
    "SESSIONS",
    "CoalescedReads",
    "Database",
    "Version",
    "lock_creation",
    "open_database",
]

_SCHEMA = "holdtrue_service"
_CREATION = 0x686F6C6473657276  # the number of the advisory lock: "holdserv"
_SECONDS = 30.0
_READING = "holdtrue_reading"
_SECRET_WORDS = 4  # 256 bits

_TABLES = sa.MetaData()
KEYS = sa.Table(
    "keys",
    _TABLES,
    sa.Column("prefix", sa.String(16), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("name", sa.String(128), nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("revoked", sa.BigInteger),
    sa.Column("allowances", sa.JSON, nullable=False),
    sa.Column("expires", sa.BigInteger),
)
SESSIONS = sa.Table(
    "sessions",
    _TABLES,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("prefix", sa.String(16), nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("expires", sa.BigInteger, nullable=False),
)
REGISTERED = sa.Table(
    "registered",
    _TABLES,
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("name", sa.String(63), primary_key=True),
    sa.Column("document", sa.JSON, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
)
RECEIPTS = sa.Table(
    "receipts",
    _TABLES,
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("name", sa.String(63), primary_key=True),
    sa.Column("ledger_id", sa.String(64), nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("spent", sa.BigInteger, nullable=False),
    sa.Column("draws", sa.BigInteger, nullable=False),
    sa.Column("other_spent", sa.BigInteger, nullable=False),
    sa.Column("stored", sa.BigInteger, nullable=False),
)
SECRETS = sa.Table(
    "secrets",
    _TABLES,
    sa.Column("name", sa.String(63), primary_key=True),
    sa.Column("value", sa.String(256), nullable=False),
)


@dataclass(frozen=True, slots=True, eq=False)
class Database:
    """The tables, in one SQLite file or in one schema of PostgreSQL, shared by all workers."""

    engine: sa.Engine

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """Yield a connection in a transaction that may write: committed at the end, rolled back on any error."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Yield a connection for reading, which does not lock writers out."""
        with self.engine.connect().execution_options(**{_READING: True}) as connection:
            yield connection

    def read_secret(self, name: str) -> str:
        """Return a secret of 256 bits in hexadecimal, created when first read and the same for all workers."""
        chosen = sa.select(SECRETS.c.value).where(SECRETS.c.name == name)
        with self.read() as connection:
            found: str | None = connection.execute(chosen).scalar_one_or_none()
        if found is None:
            with self.begin() as connection:
                lock_creation(connection)
                found = connection.execute(chosen).scalar_one_or_none()
                if found is None:
                    found = SYSTEM.words(_SECRET_WORDS).tobytes().hex()
                    connection.execute(sa.insert(SECRETS).values(name=name, value=found))
        return found

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_database(settings: "Settings") -> Database:
    """Return the service's tables, created or brought up to date: in PostgreSQL where the ledgers are, else in home.

    Failure: RefusedError where the place cannot be used, with no address and no password in its text, or where a newer
    Holdtrue has written the tables.
    """
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = _open_sqlite(settings.home / "service.db") if settings.ledger is None else _open_postgres(settings.ledger)
    failed = None
    try:
        with engine.begin() as connection:
            lock_creation(connection)
            failed = _bring_up_to_date(connection)
    except sa.exc.SQLAlchemyError:
        failed = "the service's database cannot be opened: check the server and its rights, or the home folder and its disk"
    if failed is not None:
        engine.dispose()
        raise RefusedError(failed)
    return Database(engine)


def _bring_up_to_date(connection: sa.Connection) -> str | None:
    """Run the migrations that are missing; return why that cannot be done, if it cannot.

    A database without a version is new, or from before there were versions: the first migration takes both.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
        connection.exec_driver_sql(f"SET LOCAL search_path TO {_SCHEMA}")
    found = read_revision(connection, versions=VERSIONS) if sa.inspect(connection).has_table(VERSIONS) else None
    if found == HEAD:
        return None
    if found is not None and not is_known(found, folder=FOLDER):
        return "the service's database was written by a newer Holdtrue; upgrade Holdtrue on this machine to use it"
    upgrade(connection, folder=FOLDER, versions=VERSIONS)
    return None


def lock_creation(connection: sa.Connection) -> None:
    """Let one worker at a time create things; SQLite's transactions that may write do so by themselves."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION)))


def _open_sqlite(path: Path) -> sa.Engine:
    address = f"{path.absolute().as_uri()}?mode=rwc"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(address, uri=True, timeout=_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA journal_mode = DELETE")
        return connection

    path.touch(mode=0o600, exist_ok=True)
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.QueuePool, hide_parameters=True)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # Whoever may write takes the writer's lock first, so that nobody writes upon what another has changed meanwhile.
        reading = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _open_postgres(url: str) -> sa.Engine:
    try:
        address = sa.make_url(url).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidParameter.without_value("ledger", "a URL such as postgresql://user@host/database") from None
    return sa.create_engine(
        address,
        hide_parameters=True,
        pool_pre_ping=True,
        execution_options={"schema_translate_map": {None: _SCHEMA}},
        connect_args={"connect_timeout": 10, "application_name": "holdtrue"},
    )


_MOST_AT_ONCE = 256

Row = Mapping[str, Any]


class CoalescedReads:
    """Reads rows by name in a thread of its own; concurrent reads become one.

    Law: a row that :meth:`row` returns was read after the call began, so what was committed before it is seen. Needs: one
    event loop at a time. Fails: with the error of the read, for all who waited for that read.
    """

    def __init__(self, rows: Callable[[Iterable[str]], Mapping[str, Row]]) -> None:
        self._rows = rows
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdtrue-keys")
        self._waiting: list[tuple[str, asyncio.Future[Row | None]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def read_row(self, name: str) -> Row | None:
        """Return the row of a name, None if there is none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Row | None] = loop.create_future()
        if self._serving is not None and self._serving.get_loop() is not loop:
            # A loop that is gone left nobody behind who could still be told.
            self._serving, self._waiting = None, []
        self._waiting.append((name, future))
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve_waiting())
        return await future

    async def _serve_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
            names = {name for name, _ in batch}
            try:
                found = await loop.run_in_executor(self._thread, self._rows, names)
            except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for name, future in batch:
                if not future.done():
                    future.set_result(found.get(name))
        self._serving = None

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False)


class Version:
    """Tells whether anything was committed to a SQLite file, by reading a few bytes of its header.

    Law: two calls of :meth:`now` that return the same number have no commit of any process between them. Needs: a SQLite
    file. Fails: by None, which equals no version: for another store, and while a commit is being made.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._connection: sqlite3.Connection | None = None
        if engine.dialect.name == "sqlite":
            with engine.connect() as connection:
                path: str = connection.exec_driver_sql(
                    "SELECT file FROM pragma_database_list WHERE name = 'main'"
                ).scalar_one()
            # A commit under way is not waited for (no timeout): whoever asks reads the row instead.
            self._connection = sqlite3.connect(
                f"{Path(path).as_uri()}?mode=ro", uri=True, timeout=0.0, isolation_level=None, check_same_thread=False
            )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[asyncio.Future[int | None]] = []

    async def read_soon(self) -> int | None:
        """Return :meth:`now`, looked up after this call began, once for all who call in the same turn of the event loop."""
        if self._connection is None:
            return None
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # those of a loop that is gone are waited for by nobody
            self._loop, self._waiting = loop, []
        future: asyncio.Future[int | None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._tell_waiting)
        self._waiting.append(future)
        return await future

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        version = self.read_now()
        for future in waiting:
            if not future.done():
                future.set_result(version)

    def read_now(self) -> int | None:
        """Return the number of the newest commit by any other connection."""
        if self._connection is None:
            return None
        try:
            found: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return None
        return found

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

"""A ledger in PostgreSQL, shared by curators on several machines.

The row of the ledger's terms is the lock: whoever charges holds it until the commit, so that charges are one after the
other. Several ledgers share a database by living in schemas of their own: give ``?options=-csearch_path%3Dpeople`` in the
URL.
"""

import importlib.util
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from holdtrue.errors import IntegrityError, InvalidParameter, MissingExtra, RefusedError
from holdtrue.ledgers.entries import Terms
from holdtrue.ledgers.migrations import VERSIONS
from holdtrue.ledgers.schema import check_postgres_schema
from holdtrue.ledgers.tables import TERMS, SqlStore

__all__ = ["PostgresStore"]

_SECONDS = 30.0
_CREATION = 0x686F6C6474727565  # the number of the advisory lock: "holdtrue"
_LOCK_NOT_AVAILABLE = "55P03"
_DAMAGED = ("XX", "42", "22")  # internal errors; missing tables and columns; values of a wrong type


class PostgresStore(SqlStore):
    """A ledger's rows in one schema of a PostgreSQL database."""

    def __init__(
        self, url: str, *, create: Callable[[], Terms] | None = None, read_only: bool = False, seconds: float = _SECONDS
    ) -> None:
        connection, database = _connected(url, read_only=read_only, seconds=seconds)
        super().__init__(connection, where=f"PostgreSQL database {database!r}", create=create)

    def _lock(self) -> None:
        if self._connection.execute(sa.select(TERMS.c.number).with_for_update()).one_or_none() is None:
            message = f"entry 0: {self.where} has lost the terms it was created with"
            raise IntegrityError(message)

    def _lock_creation(self) -> None:
        self._connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION)))

    def _begin(self) -> None:
        """Nothing to do: the driver begins with the first statement."""

    def _busy(self, error: BaseException | None) -> bool:
        return _state(error) == _LOCK_NOT_AVAILABLE

    def _damaged(self, error: BaseException | None) -> bool:
        return _state(error).startswith(_DAMAGED)

    def _has_tables(self) -> bool:
        found = self._connection.exec_driver_sql(f"SELECT to_regclass('{VERSIONS}')").scalar_one() is not None
        if found:
            check_postgres_schema(self._connection)
        return found

    def _foreign(self) -> bool:
        return False

    def examine(self) -> None:
        """Look for what acts on the tables; the server checks its pages as it reads them, where its checksums are on."""
        with self._transaction(self._begin):
            check_postgres_schema(self._connection)


def _state(error: BaseException | None) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _connected(url: str, *, read_only: bool, seconds: float) -> tuple[sa.Connection, str]:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtra("postgres", purpose="a ledger in PostgreSQL")
    try:
        address = sa.make_url(url).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidParameter("where", "a URL that cannot be read", "postgresql://user@host/database") from None
    engine = sa.create_engine(
        address,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"connect_timeout": 10, "application_name": "holdtrue"},
    )
    try:
        connection = engine.connect()
        with connection.begin():
            _configure(connection, read_only=read_only, seconds=seconds)
    except sa.exc.SQLAlchemyError:
        engine.dispose()
        message = (
            f"the PostgreSQL database {address.database!r} does not let us in; check the server, the name and the rights"
        )
        raise RefusedError(message) from None
    return connection, str(address.database)


def _configure(connection: sa.Connection, *, read_only: bool, seconds: float) -> None:
    """Make commits durable before they return, and waits for a lock end; refuse a server that does not write to disk."""
    shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in ("fsync", "synchronous_commit")}
    if shown["fsync"] == "off":
        connection.close()
        message = "the PostgreSQL server runs with fsync off: a charge would not survive a crash"
        raise RefusedError(message)
    if shown["synchronous_commit"] == "off":
        connection.exec_driver_sql("SET synchronous_commit = on")
    connection.exec_driver_sql(f"SET lock_timeout = {int(seconds * 1000)}")
    connection.exec_driver_sql(f"SET idle_in_transaction_session_timeout = {int(2 * seconds * 1000)}")
    if read_only:
        connection.exec_driver_sql("SET default_transaction_read_only = on")

"""A ledger in PostgreSQL, shared by curators on several machines.

The row of the ledger's terms is the lock: a charge holds it until the commit, so that charges come one after the
other. Several ledgers share a database by living in schemas of their own: give ``?options=-csearch_path%3Dpeople`` in the
URL.
"""

from collections.abc import Callable
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.ledgers.entries import Terms
from holdtrue.ledgers.migrations import VERSIONS
from holdtrue.ledgers.sql_store import SqlStore, foreign_object

__all__ = ["PostgresStore", "check_schema"]

_SECONDS = 30.0
_LOCK_NOT_AVAILABLE = "55P03"
_DAMAGED = ("XX", "42", "22")  # internal errors; missing tables and columns; values of a wrong type
# Objects of any kind that act when a row is written or read: triggers of users, rules, row security.
_ACTING: Final = """
SELECT 'trigger', t.tgname FROM pg_trigger t WHERE NOT t.tgisinternal AND t.tgrelid = ANY(%(tables)s::regclass[])
UNION ALL
SELECT 'rule', r.rulename FROM pg_rewrite r WHERE r.ev_class = ANY(%(tables)s::regclass[])
UNION ALL
SELECT 'row security on', c.relname FROM pg_class c
WHERE c.oid = ANY(%(tables)s::regclass[]) AND (c.relrowsecurity OR c.relkind <> 'r')
"""
_TABLES: Final = ("holdtrue_ledger", "holdtrue_entries", VERSIONS)


class PostgresStore(SqlStore):
    """A ledger's rows in one schema of a PostgreSQL database."""

    _begin_reading = "BEGIN ISOLATION LEVEL REPEATABLE READ"
    _begin_writing = "BEGIN ISOLATION LEVEL READ COMMITTED"
    _lock_terms = "SELECT number FROM holdtrue_ledger FOR UPDATE"
    _lock_creation = f"SELECT pg_advisory_xact_lock({0x686F6C6474727565})"  # "holdtrue"
    _mark = "%s"
    _driver_errors = psycopg.Error
    _dialect = "postgresql+psycopg://"

    def __init__(
        self, url: str, *, create: Callable[[], Terms] | None = None, read_only: bool = False, seconds: float = _SECONDS
    ) -> None:
        driver, database = _open_connection(url, read_only=read_only, seconds=seconds)
        self.url = url
        super().__init__(driver, where=f"PostgreSQL database {database!r}", create=create, read_only=read_only)

    def _is_busy(self, error: BaseException) -> bool:
        return _sql_state(error) == _LOCK_NOT_AVAILABLE

    def _is_damaged(self, error: BaseException) -> bool:
        return _sql_state(error).startswith(_DAMAGED)

    def _has_tables(self) -> bool:
        (found,) = self._driver.execute(f"SELECT to_regclass('{VERSIONS}')").fetchone()
        if found is not None:
            check_schema(self._driver)
        return found is not None

    def _is_foreign(self) -> bool:
        return False

    def examine(self) -> None:
        """Look for what acts on the tables; the server checks its pages as it reads them, where its checksums are on."""
        with self._within_transaction(self._begin_reading):
            check_schema(self._driver)


def check_schema(connection: psycopg.Connection[Any]) -> None:
    """Raise IntegrityError where a trigger, a rule or row security acts on the tables of a ledger."""
    found = connection.execute(_ACTING, {"tables": list(_TABLES)}).fetchone()
    if found is not None:
        raise foreign_object(*found)


def _sql_state(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _open_connection(url: str, *, read_only: bool, seconds: float) -> tuple[psycopg.Connection[Any], str]:
    try:
        address = sa.make_url(url).set(drivername="postgresql+psycopg")
        _, options = address.get_dialect()().create_connect_args(address)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidParameter.without_value("where", "a URL such as postgresql://user@host/database") from None
    connection = None
    try:
        given = {"connect_timeout": 10, "application_name": "holdtrue", **options}
        connection = psycopg.connect(autocommit=True, **given)
        _configure_connection(connection, read_only=read_only, seconds=seconds)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if not isinstance(error, psycopg.Error):
            raise
        message = (
            f"cannot connect to the PostgreSQL database {address.database!r}; check the server, the name and the rights"
        )
        raise RefusedError(message) from None
    return connection, str(address.database)


def _configure_connection(connection: psycopg.Connection[Any], *, read_only: bool, seconds: float) -> None:
    """Make commits durable before they return, and waits for a lock end; refuse a server that does not write to disk."""
    waits = {"lock_timeout": seconds, "idle_in_transaction_session_timeout": 2 * seconds}
    limits = ", ".join(f"set_config('{name}', '{int(1000 * limit)}', false)" for name, limit in waits.items())
    settings = f"SELECT current_setting('fsync'), current_setting('synchronous_commit'), {limits}"
    # One statement: when connections are cut again and again, the fewer of them the sooner a ledger is open.
    fsync, commits, *_ = connection.execute(settings).fetchone() or ("off", "off")
    if fsync == "off":
        message = "the PostgreSQL server runs with fsync off: a charge would not survive a crash"
        raise RefusedError(message)
    if commits == "off":
        connection.execute("SET synchronous_commit = on")
    if read_only:
        connection.execute("SET default_transaction_read_only = on")

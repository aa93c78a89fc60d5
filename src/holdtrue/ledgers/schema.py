"""The tables of a ledger are those that the migrations create, and nothing else is there that could act on them.

A trigger or a rule could delete a charge as it is written, a view could stand in for a table, an index could be missing: the
chain alone would not tell. So the stored schema is compared, whole, with that of a new ledger.
"""

import functools
import sqlite3
from typing import Final

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from holdtrue.errors import IntegrityError
from holdtrue.ledgers.migrations import VERSIONS, upgrade

__all__ = ["check_postgres_schema", "check_sqlite_schema", "refuse_triggers"]

_TRIGGERS: Final = "SELECT type, name FROM main.sqlite_master WHERE type NOT IN ('table', 'index')"
_STORED: Final = "SELECT type, name, tbl_name, sql FROM main.sqlite_master"
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

_Object = tuple[str, str, str, str]


def refuse_triggers(connection: sqlite3.Connection) -> None:
    """Raise IntegrityError where a file has a trigger or a view: what opening a ledger can afford to look for."""
    found = connection.execute(_TRIGGERS).fetchone()
    if found is not None:
        raise _foreign(*found)


def _foreign(kind: str, name: str) -> IntegrityError:
    return IntegrityError(f"the ledger has a {kind} {str(name)!r} that is not Holdtrue's; it was changed from outside")


def check_sqlite_schema(connection: sqlite3.Connection) -> None:
    """Raise IntegrityError unless a file has exactly the tables and indexes that the migrations create.

    Reads the schema only, which SQLite has in memory already.
    """
    try:
        found = _read_schema(connection)
    except (sqlite3.Error, UnicodeError, AttributeError):
        found = frozenset()
    expected = expect_sqlite_schema()
    if found - expected:
        kind, name, *_ = min(found - expected)
        raise _foreign(kind, name)
    if expected - found:
        kind, name, *_ = min(expected - found)
        message = f"the ledger has lost its {kind} {name!r}; it was changed from outside"
        raise IntegrityError(message)


@functools.cache
def expect_sqlite_schema() -> frozenset[_Object]:
    """Return the schema of a new ledger, made by the same migrations."""
    engine = sa.create_engine("sqlite://", poolclass=StaticPool)
    try:
        with engine.connect() as connection:
            with connection.begin():
                upgrade(connection)
            driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]  # the driver's own
            return _read_schema(driver)
    finally:
        engine.dispose()


def _read_schema(connection: sqlite3.Connection) -> frozenset[_Object]:
    rows = connection.execute(_STORED).fetchall()
    return frozenset((kind, name, table, " ".join((text or "").split())) for kind, name, table, text in rows)


def check_postgres_schema(connection: sa.Connection) -> None:
    """Raise IntegrityError where a trigger, a rule or row security acts on the tables of a ledger."""
    found = connection.exec_driver_sql(_ACTING, {"tables": list(_TABLES)}).all()
    if found:
        raise _foreign(*found[0])

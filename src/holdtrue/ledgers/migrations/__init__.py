"""The tables of a ledger, by revision: Alembic runs what is missing, inside the transaction that opens the ledger.

There is one module for each revision beside this; the tables of one are never changed in place.
"""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa
    from alembic.script import ScriptDirectory

__all__ = ["HEAD", "READABLE", "RETIRED", "VERSIONS", "is_known", "read_revision", "read_scripts", "upgrade"]

HEAD = "0004"
READABLE = frozenset({"0003", HEAD})
"""Revisions whose tables can be read as they are: others differ in more than their indexes."""
RETIRED = frozenset({"0001", "0002"})
"""Revisions whose entries are hashed in another form, or have no totals of draws: their digests cannot be carried on."""
VERSIONS = "holdtrue_version"
_HERE = Path(__file__).parent
_ONE_AT_A_TIME = threading.Lock()  # what runs a migration is the process's own: Alembic's op is one for all threads


def read_revision(connection: "sa.Connection", *, versions: str = VERSIONS) -> str:
    """Return the revision of the tables.

    Alembic is slow to import; a ledger whose tables are those of today needs none of it.
    """
    found = connection.exec_driver_sql(f"SELECT version_num FROM {versions}").scalars().all()  # noqa: S608 - a constant
    return ", ".join(map(str, found))


def read_scripts(folder: Path = _HERE) -> "ScriptDirectory":
    """Return the revisions in a folder."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(folder), version_locations=[str(folder)])


def is_known(found: str, *, folder: Path = _HERE) -> bool:
    """Return whether this Holdtrue can bring tables of that revision up to date."""
    return found in {script.revision for script in read_scripts(folder).walk_revisions()}


def upgrade(connection: "sa.Connection", *, folder: Path = _HERE, versions: str = VERSIONS, to: str = "head") -> None:
    """Bring the tables to a revision in a folder, the newest unless given, in the transaction that the connection is in."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    script = read_scripts(folder)
    # The public way to this list is a file env.py, which runs when it is imported.
    steps = {"fn": lambda current, _: script._upgrade_revs(to, current), "version_table": versions}  # noqa: SLF001
    with _ONE_AT_A_TIME:
        context = MigrationContext.configure(connection, opts=steps)
        with Operations.context(context):
            context.run_migrations()

"""The tables of a ledger, by revision: Alembic runs what is missing, inside the transaction that opens the ledger."""

from pathlib import Path

import sqlalchemy as sa

__all__ = ["HEAD", "RETIRED", "VERSIONS", "known", "revision", "upgrade"]

HEAD = "0002"
RETIRED = frozenset({"0001"})
"""Revisions whose entries have no totals of draws: their digests cannot be carried on."""
VERSIONS = "holdtrue_version"


def revision(connection: sa.Connection) -> str:
    """Return the revision of the tables.

    Alembic is slow to import; a ledger whose tables are those of today needs none of it.
    """
    found = connection.execute(sa.text(f"SELECT version_num FROM {VERSIONS}")).scalars().all()  # noqa: S608 - a constant
    return ", ".join(map(str, found))


def known(found: str) -> bool:
    """Return whether this Holdtrue can bring tables of that revision up to date."""
    from alembic.script import ScriptDirectory

    return found in {script.revision for script in ScriptDirectory(_here()).walk_revisions()}


def upgrade(connection: sa.Connection) -> None:
    """Bring the tables to the newest revision, in the transaction that the connection is in."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(_here())
    # The public way to this list is a file env.py, which runs when it is imported.
    steps = {"fn": lambda current, _: script._upgrade_revs("head", current), "version_table": VERSIONS}  # noqa: SLF001
    context = MigrationContext.configure(connection, opts=steps)
    with Operations.context(context):
        context.run_migrations()


def _here() -> str:
    return str(Path(__file__).parent)

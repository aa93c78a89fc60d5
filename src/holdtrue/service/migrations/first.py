"""The first tables: keys, page sessions, what is registered, secrets.

Databases from before there were revisions have them already, all or some: an older service created what it missed.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create what is not there yet."""
    there = set(sa.inspect(op.get_bind()).get_table_names())
    for name, columns in _list_tables().items():
        if name not in there:
            op.create_table(name, *columns)


def _list_tables() -> dict[str, list[sa.Column[Any]]]:
    return {
        "keys": [
            sa.Column("prefix", sa.String(16), primary_key=True),
            sa.Column("digest", sa.String(64), nullable=False),
            sa.Column("name", sa.String(128), nullable=False),
            sa.Column("role", sa.String(16), nullable=False),
            sa.Column("created", sa.BigInteger, nullable=False),
            sa.Column("revoked", sa.BigInteger),
            sa.Column("allowances", sa.JSON, nullable=False),
            sa.Column("expires", sa.BigInteger),
        ],
        "sessions": [
            sa.Column("digest", sa.String(64), primary_key=True),
            sa.Column("prefix", sa.String(16), nullable=False),
            sa.Column("created", sa.BigInteger, nullable=False),
            sa.Column("expires", sa.BigInteger, nullable=False),
        ],
        "datasets": _list_columns(),
        "holdouts": _list_columns(),
        "secrets": [
            sa.Column("name", sa.String(63), primary_key=True),
            sa.Column("value", sa.String(256), nullable=False),
        ],
    }


def _list_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    ]

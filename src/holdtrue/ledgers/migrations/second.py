"""Indexes of the entries that are looked for alone: a commit writes fewer pages than with one of every entry."""

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Leave out of each index what no charge looks for in it: what has no key, and of questions all but answers."""
    for name, columns, unique, kept in (
        ("holdtrue_request", ["request_id"], True, "request_id IS NOT NULL"),
        ("holdtrue_response", ["answers"], True, "answers IS NOT NULL"),
        ("holdtrue_question", ["request_digest", "number"], False, "kind = 'response'"),
        ("holdtrue_analyst", ["analyst", "number"], False, "analyst IS NOT NULL"),
    ):
        where = sa.text(kept)
        op.drop_index(name, "holdtrue_entries")
        op.create_index(name, "holdtrue_entries", columns, unique=unique, sqlite_where=where, postgresql_where=where)

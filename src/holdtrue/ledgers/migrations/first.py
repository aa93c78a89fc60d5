"""The first tables that this version goes on with: the terms of the ledger, in one row, and its entries."""

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0003"
down_revision = None


def upgrade() -> None:
    """Create the tables and the indexes by which a charge finds its rows."""
    big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "holdtrue_ledger",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("ledger_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("cap", big, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("card", sa.Text, nullable=False),
        sa.Column("iid", sa.Integer, nullable=False),
        sa.Column("created", big, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_table(
        "holdtrue_entries",
        sa.Column("number", big, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("time", big, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("request_digest", sa.Text),
        sa.Column("analyst", sa.Text),
        sa.Column("verb", sa.Text, nullable=False),
        sa.Column("cost", big, nullable=False),
        sa.Column("spent", big, nullable=False),
        sa.Column("analyst_spent", big),
        sa.Column("allowance", big),
        sa.Column("draws", big, nullable=False),
        sa.Column("other_spent", big, nullable=False),
        sa.Column("charges", big, nullable=False),
        sa.Column("event", sa.Text),
        sa.Column("answers", big),
        sa.Column("body", sa.Text),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_index("holdtrue_request", "holdtrue_entries", ["request_id"], unique=True)
    op.create_index("holdtrue_response", "holdtrue_entries", ["answers"], unique=True)
    op.create_index("holdtrue_question", "holdtrue_entries", ["request_digest", "kind", "number"])
    op.create_index("holdtrue_analyst", "holdtrue_entries", ["analyst", "number"])

"""What the service keeps of each ledger: its number, its newest receipt, and what was spent by then."""

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table; a ledger from before is entered when it is opened for the first time."""
    op.create_table(
        "receipts",
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

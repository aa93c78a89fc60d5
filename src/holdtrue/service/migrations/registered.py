"""One table for everything that is registered, datasets and holdouts, as there is one for their receipts."""

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Move the rows of both tables into one, which says of what kind each is."""
    columns = [
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    ]
    moved = op.create_table("registered", sa.Column("kind", sa.String(16), primary_key=True), *columns)
    for kind in ("dataset", "holdout"):
        old = sa.table(f"{kind}s", *[sa.column(each.name, each.type) for each in columns])
        rows = sa.select(sa.literal(kind), *old.c)
        op.execute(sa.insert(moved).from_select(["kind", *old.c.keys()], rows))
        op.drop_table(old.name)

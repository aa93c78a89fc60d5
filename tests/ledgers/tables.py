"""The tables of a ledger as SQLAlchemy knows them, and what a writer needs who knows how digests are made."""

import sqlalchemy as sa

from holdtrue.ledgers.entries import COLUMNS, digest_entry

_Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
METADATA = sa.MetaData()


def _index(name, *columns, where, unique=False):
    return sa.Index(name, *columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


TERMS = sa.Table(
    "holdtrue_ledger",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("ledger_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("cap", _Big, nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("card", sa.Text, nullable=False),
    sa.Column("iid", sa.Integer, nullable=False),
    sa.Column("created", _Big, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
)
ENTRIES = sa.Table(
    "holdtrue_entries",
    METADATA,
    sa.Column("number", _Big, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("time", _Big, nullable=False),
    sa.Column("request_id", sa.Text),
    sa.Column("request_digest", sa.Text),
    sa.Column("analyst", sa.Text),
    sa.Column("verb", sa.Text, nullable=False),
    sa.Column("cost", _Big, nullable=False),
    sa.Column("spent", _Big, nullable=False),
    sa.Column("analyst_spent", _Big),
    sa.Column("allowance", _Big),
    sa.Column("draws", _Big, nullable=False),
    sa.Column("other_spent", _Big, nullable=False),
    sa.Column("charges", _Big, nullable=False),
    sa.Column("event", sa.Text),
    sa.Column("answers", _Big),
    sa.Column("body", sa.Text),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    _index("holdtrue_request", "request_id", unique=True, where="request_id IS NOT NULL"),
    _index("holdtrue_response", "answers", unique=True, where="answers IS NOT NULL"),
    _index("holdtrue_question", "request_digest", "number", where="kind = 'response'"),
    _index("holdtrue_analyst", "analyst", "number", where="analyst IS NOT NULL"),
)


def line_digest(line, *, ledger_id):
    """Return the digest that an entry with these fields would have."""
    return digest_entry(tuple(line[name] for name in COLUMNS if name != "digest"), ledger_id=ledger_id)

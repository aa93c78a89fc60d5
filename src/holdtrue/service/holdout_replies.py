"""What was told under each key of a holdout, and the submissions that a gate's incumbent may be."""

import hashlib
import json
from typing import Any

import sqlalchemy as sa

from holdtrue.codec import encode
from holdtrue.service.database import Database
from holdtrue.service.problems import Refused

__all__ = ["Replies"]

_TABLES = sa.MetaData()
REPLIES = sa.Table(
    "holdout_replies",
    _TABLES,
    sa.Column("holdout", sa.String(63), primary_key=True),
    sa.Column("request", sa.String(64), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("reply", sa.Text),
)
SUBMISSIONS = sa.Table(
    "holdout_submissions",
    _TABLES,
    sa.Column("holdout", sa.String(63), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("request", sa.String(64), primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
)
_CONFLICT = 409
_CREATION = 0x686F6C64686F6C64  # the number of the advisory lock: "holdhold"


class Replies:
    """The replies of one holdout, shared by all workers.

    Guarantee: the first reply that is kept for a key is the one that every call returns (P5). Contents are kept as digests
    under a secret of the service, and so tell nothing about results to whoever reads the table alone.
    """

    def __init__(self, database: Database, holdout: str) -> None:
        self._database = database
        self._holdout = holdout
        self._secret = bytes.fromhex(database.secret("holdouts"))
        with database.begin() as connection:
            if connection.dialect.name == "postgresql":  # one worker at a time creates; SQLite's writers do so by themselves
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION)))
            _TABLES.create_all(connection)

    def begun(self, key: str, content: bytes) -> str | None:
        """Note that a request began; return its reply where it has one, refuse it where its key was another request's."""
        digest = hashlib.blake2b(content, key=self._secret, digest_size=32).hexdigest()
        chosen = sa.select(REPLIES.c.digest, REPLIES.c.reply).where(*self._chosen(key))
        try:
            with self._database.begin() as connection:
                row = connection.execute(chosen).first()
                if row is None:
                    values = {"holdout": self._holdout, "request": key, "digest": digest}
                    connection.execute(sa.insert(REPLIES).values(values))
                    return None
        except sa.exc.IntegrityError:  # another worker began it at the same moment
            with self._database.read() as connection:
                row = connection.execute(chosen).one()
        if row.digest != digest:
            detail = "this Idempotency-Key was used for another request; take a new one for a new request"
            raise Refused(_CONFLICT, "key used before", detail)
        said: str | None = row.reply
        return said

    def keep(self, key: str, reply: str) -> str:
        """Keep what is told for a request, unless something was told before; return what is kept."""
        chosen = self._chosen(key)
        with self._database.begin() as connection:
            connection.execute(sa.update(REPLIES).where(*chosen, REPLIES.c.reply.is_(None)).values(reply=reply))
            kept: str = connection.execute(sa.select(REPLIES.c.reply).where(*chosen)).scalar_one()
        return kept

    def forget(self, key: str) -> None:
        """Let go of a request that was refused before anything was spent."""
        with self._database.begin() as connection:
            connection.execute(sa.delete(REPLIES).where(*self._chosen(key), REPLIES.c.reply.is_(None)))

    def hold(self, name: str, key: str, submission: dict[str, Any]) -> None:
        """Keep a submission that the look of this request may make the incumbent."""
        values = {"holdout": self._holdout, "name": name, "request": key, "document": encode(submission)}
        with self._database.begin() as connection:
            connection.execute(sa.delete(SUBMISSIONS).where(*self._submission(name), SUBMISSIONS.c.request == key))
            connection.execute(sa.insert(SUBMISSIONS).values(values))

    def held(self, name: str) -> dict[str, Any] | None:
        """Return a submission by the name that the ledger has for it."""
        chosen = sa.select(SUBMISSIONS.c.document).where(*self._submission(name)).limit(1)
        with self._database.read() as connection:
            found = connection.execute(chosen).scalar_one_or_none()
        return None if found is None else json.loads(found)

    def drop(self, name: str, key: str) -> None:
        """Let go of a request's submission that did not become the incumbent."""
        with self._database.begin() as connection:
            connection.execute(sa.delete(SUBMISSIONS).where(*self._submission(name), SUBMISSIONS.c.request == key))

    def _chosen(self, key: str) -> tuple[sa.ColumnElement[bool], ...]:
        return REPLIES.c.holdout == self._holdout, REPLIES.c.request == key

    def _submission(self, name: str) -> tuple[sa.ColumnElement[bool], ...]:
        return SUBMISSIONS.c.holdout == self._holdout, SUBMISSIONS.c.name == name

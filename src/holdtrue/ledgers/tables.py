"""A ledger in a relational database, over SQLAlchemy Core: two tables, a handful of statements, one connection.

Every statement finds its rows by an index, so a charge does the same work at any length. Errors of the engine are turned
into errors of the tree here; their own words, which may quote values, are never shown.
"""

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from holdtrue.errors import HoldtrueError, IntegrityError, InvalidParameter, RefusedError, ReleaseError, UnknownName
from holdtrue.ledgers.books import Book, Wanted
from holdtrue.ledgers.entries import COLUMNS, Entry, Terms
from holdtrue.ledgers.migrations import HEAD, RETIRED, known, revision, upgrade
from holdtrue.ledgers.stores import Busy

__all__ = ["ENTRIES", "LINE", "METADATA", "TERMS", "SqlStore"]

_Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
METADATA = sa.MetaData()
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
    sa.Index("holdtrue_request", "request_id", unique=True),
    sa.Index("holdtrue_response", "answers", unique=True),
    sa.Index("holdtrue_question", "request_digest", "kind", "number"),
    sa.Index("holdtrue_analyst", "analyst", "number"),
)

_SELECT = sa.select(ENTRIES)
_RANGE = (
    _SELECT.where(ENTRIES.c.number >= sa.bindparam("start"), ENTRIES.c.number < sa.bindparam("stop"))
    .order_by(ENTRIES.c.number)
)  # fmt: skip
_INSERT = ENTRIES.insert()
LINE = operator.attrgetter(*COLUMNS)
_EARLIER = ENTRIES.alias("earlier")
_RESPONSE: sa.ColumnElement[str] = sa.literal_column("'response'")
_KINDS = tuple(Wanted.__slots__)
_SETS = operator.attrgetter(*_KINDS)


def _among(column: sa.Column[Any], name: str, keys: int) -> sa.Select[Any]:
    """Return what finds rows by so many keys, each a parameter of its own, so that the statement is compiled once."""
    return _SELECT.where(column.in_([sa.bindparam(f"{name}_{index}", type_=column.type) for index in range(keys)]))


def _padded(keys: Collection[object]) -> list[object]:
    """Return some keys, the last one repeated up to a power of two: few lengths mean few statements."""
    listed = list(keys)
    return listed + listed[-1:] * ((1 << (len(listed) - 1).bit_length()) - len(listed)) if listed else []


@functools.cache
def _statement(*, ids: int, digests: int, numbers: int, responses: int, analysts: int) -> sa.CompoundSelect[Any]:
    """Return one statement for the head and every kind of key that is wanted; each part finds its rows by an index."""
    newest = sa.select(sa.func.max(_EARLIER.c.number))
    parts = [_SELECT.where(ENTRIES.c.number == newest.scalar_subquery())]
    if ids:
        parts.append(_among(ENTRIES.c.request_id, "ids", ids))
    if digests:
        parts.append(_among(ENTRIES.c.request_digest, "digests", digests).where(ENTRIES.c.kind == _RESPONSE))
    if numbers:
        parts += [_among(ENTRIES.c.number, "numbers", numbers), _among(ENTRIES.c.answers, "numbers", numbers)]
    if responses:
        parts.append(_among(ENTRIES.c.answers, "responses", responses))
    for index in range(analysts):
        last = newest.where(_EARLIER.c.analyst == sa.bindparam(f"analysts_{index}"))
        parts.append(_SELECT.where(ENTRIES.c.number == last.scalar_subquery()))
    return sa.union_all(*parts)


def _follow_up(rows: Iterable[Entry], asked: Wanted) -> Wanted:
    """Return what the rows just read point at: the answer to a repeat, the charge of a response and back."""
    digests = {row.request_digest for row in rows if row.kind == "repeat" and row.request_id in asked.ids}
    charges = {row.answers for row in rows if row.answers is not None and row.request_digest in asked.digests}
    charges |= {row.number for row in rows if row.kind == "charge" and row.request_id in asked.ids}
    return Wanted(digests=frozenset(filter(None, digests)) - asked.digests, numbers=frozenset(charges) - asked.numbers)


class SqlStore(ABC):
    """A ledger's rows behind one connection; what the engines do differently is left to them."""

    durable = True
    _driver_errors: type[Exception] | tuple[type[Exception], ...] = ()

    def __init__(self, connection: sa.Connection, *, where: str, create: Callable[[], Terms] | None) -> None:
        self._connection = connection
        self._inserting = _INSERT.compile(dialect=connection.dialect)
        self._finding: dict[tuple[int, ...], tuple[str, list[tuple[int, int]] | None]] = {}
        self.where = where
        try:
            self.terms = self._opened(create)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _lock(self) -> None:
        """Begin to write: wait until no other writer is there, for a limited time."""

    @abstractmethod
    def _lock_creation(self) -> None:
        """Begin to create tables: likewise, where there may be no table to lock yet."""

    @abstractmethod
    def _begin(self) -> None:
        """Begin to read."""

    @abstractmethod
    def _busy(self, error: BaseException | None) -> bool:
        """Return whether an error says that somebody else holds the lock."""

    @abstractmethod
    def _damaged(self, error: BaseException | None) -> bool:
        """Return whether an error says that what is stored cannot be right."""

    @abstractmethod
    def _has_tables(self) -> bool:
        """Return whether there is a table of revisions."""

    @abstractmethod
    def _foreign(self) -> bool:
        """Return whether the place holds something else than a ledger."""

    @abstractmethod
    def examine(self) -> None:
        """Have the engine check its own structures; raise IntegrityError if it finds them damaged."""

    def _opened(self, create: Callable[[], Terms] | None) -> Terms:
        with self._transaction(self._begin):
            found = self._revision()
            terms = self._terms() if found == HEAD else None
            if found is None and self._foreign():
                raise InvalidParameter("where", self.where, "a ledger, or a place where there is nothing yet")
        if terms is not None:
            return terms
        if found in RETIRED:
            message = (
                f"{self.where} was written by an earlier Holdtrue, and this version cannot go on with it: keep it as a "
                "record, and open the data with a new ledger whose epsilon and delta leave out what the old one spent"
            )
            raise RefusedError(message)
        if found is not None and not known(found):
            message = f"{self.where} was written by a newer Holdtrue; upgrade to read it"
            raise RefusedError(message)
        made = None if create is None else create()
        if made is None and found is None:
            message = f"there is no ledger yet at {self.where}; opening data with ledger= creates one"
            raise UnknownName(message)
        with self._transaction(self._lock_creation):
            return self._created(made)

    def _revision(self) -> str | None:
        return revision(self._connection) if self._has_tables() else None

    def _created(self, made: Terms | None) -> Terms:
        """Bring the tables up to date and return the terms: those that somebody stored first, or the ones just made."""
        if self._revision() != HEAD:
            upgrade(self._connection)
        terms = self._terms()
        if terms is None and made is not None:
            row = asdict(made) | {"number": 1, "iid": int(made.iid), "digest": made.digest}
            self._connection.execute(TERMS.insert(), row)
        if terms is None and made is None:
            message = f"entry 0: {self.where} has lost the terms it was created with"
            raise IntegrityError(message)
        return terms or made  # type: ignore[return-value]  # one of them is there

    def _terms(self) -> Terms | None:
        """Return the stored terms, checked against their digest; None where nothing was stored yet."""
        row = self._connection.execute(sa.select(TERMS)).mappings().one_or_none()
        if row is None:
            return None
        values = {name: row[name] for name in row if name not in ("number", "digest")}
        try:
            terms = Terms(**values | {"iid": bool(values["iid"])})
            right = terms.digest == row["digest"] and values["iid"] in (0, 1)
        except (HoldtrueError, TypeError, ValueError, AttributeError):
            right = False
        if not right:
            message = "entry 0: the terms of the ledger are not those it was created with"
            raise IntegrityError(message)
        return terms

    @contextmanager
    def _transaction(self, begin: Callable[[], None]) -> Iterator[None]:
        """Begin, commit at the end, roll back on anything; and tell failure before the commit from failure in it."""
        transaction = None
        stage = "begin"
        try:
            transaction = self._connection.begin()
            begin()
            stage = "work"
            yield
            stage = "commit"
            transaction.commit()
        except BaseException as error:
            self._roll_back(transaction)
            if isinstance(error, (sa.exc.DBAPIError, self._driver_errors)):
                raise self._translated(getattr(error, "orig", error), stage=stage) from None
            if isinstance(error, (sa.exc.SQLAlchemyError, UnicodeError)):
                message = f"{self.where} holds what no ledger writes"
                raise IntegrityError(message) from None
            raise

    @staticmethod
    def _roll_back(transaction: sa.RootTransaction | None) -> None:
        # If the connection is gone, so is the transaction; the first error is the one to tell.
        with suppress(sa.exc.SQLAlchemyError):
            if transaction is not None:
                transaction.rollback()

    def _translated(self, error: BaseException | None, *, stage: str) -> HoldtrueError:
        if self._busy(error) and stage != "commit":
            return Busy(f"{self.where} is locked by another process; nothing was written, try again")
        if stage == "commit":
            message = (
                "the ledger could not be made durable; what was charged may count. Open it again and ask under the same id"
            )
            return ReleaseError(message)
        if self._damaged(error):
            return IntegrityError(f"{self.where} is damaged or is not a ledger")
        return RefusedError(f"{self.where} cannot be read or written; nothing was charged")

    @contextmanager
    def writing(self, wanted: Wanted) -> Iterator[Book]:
        """Lock, load, yield the book, write what was appended, commit."""
        with self._transaction(self._lock):
            book = self._loaded(wanted)
            yield book
            self._insert(book.appended)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries as they are, for a copy: what they say was decided elsewhere."""
        with self._transaction(self._lock):
            self._insert(entries)

    def _insert(self, entries: Sequence[Entry]) -> None:
        if entries:
            # As the compiled statement, without going through every value again: they are text and whole numbers.
            values = [LINE(entry) for entry in entries]
            rows: Any = values if self._inserting.positional else [dict(zip(COLUMNS, row, strict=True)) for row in values]
            self._connection.exec_driver_sql(str(self._inserting), rows)

    def load(self, wanted: Wanted) -> Book:
        """Return a book of the head and the rows wanted, each checked against its digest."""
        with self._transaction(self._begin):
            return self._loaded(wanted)

    def moved(self) -> bool:
        """Return that others may have written."""
        return True

    def entries(self, start: int, stop: int) -> Sequence[Entry]:
        """Return the entries with start <= number < stop as they are stored, unchecked."""
        with self._transaction(self._begin):
            return [Entry(*row) for row in self._connection.execute(_RANGE, {"start": start, "stop": stop})]

    def _loaded(self, wanted: Wanted) -> Book:
        rows = self._found(wanted)
        asked, more = wanted, _follow_up(rows.values(), wanted)
        while more != Wanted():
            rows |= self._found(more)
            asked |= more
            more = _follow_up(rows.values(), asked)
        book = Book(self.terms)
        for number in sorted(rows):
            book.add(rows[number].checked(self.terms.ledger_id))
        return book

    def _found(self, wanted: Wanted) -> dict[int, Entry]:
        keys = [_padded(found) for found in _SETS(wanted)]
        lengths = tuple([len(padded) for padded in keys])
        known = self._finding.get(lengths)
        if known is None:
            known = self._finding[lengths] = self._written(lengths)
        statement, places = known
        # As the compiled statement, without going through every parameter again: keys are text and whole numbers.
        given: Any = (
            {f"{name}_{index}": key for name, padded in zip(_KINDS, keys, strict=True) for index, key in enumerate(padded)}
            if places is None
            else tuple([keys[kind][index] for kind, index in places])
        )
        return {row[0]: Entry(*row) for row in self._selected(statement, given)}

    def _selected(self, statement: str, given: Any) -> Sequence[Sequence[Any]]:  # noqa: ANN401 - as the engine takes it
        return self._connection.exec_driver_sql(statement, given).fetchall()

    def _written(self, lengths: tuple[int, ...]) -> tuple[str, list[tuple[int, int]] | None]:
        """Return the statement that finds rows by so many keys of each kind, in the engine's own words.

        With it comes where its parameters are found: kind and index of each, or None where the engine takes them by name.
        """
        statement = _statement(**dict(zip(_KINDS, lengths, strict=True)))
        compiled = statement.compile(dialect=self._connection.dialect)
        if compiled.positiontup is None:
            return str(compiled), None
        named = [name.rsplit("_", 1) for name in compiled.positiontup]
        return str(compiled), [(_KINDS.index(kind), int(index)) for kind, index in named]

    def close(self) -> None:
        """Let go of the connection."""
        with suppress(sa.exc.SQLAlchemyError):  # nothing that was committed depends on it
            self._connection.close()
        self._connection.engine.dispose()

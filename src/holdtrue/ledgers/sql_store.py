"""A ledger in a relational database: two tables, a handful of statements, one connection of the driver's own.

Every statement finds its rows by an index, so a charge does the same work at any length. Errors of the engine are turned
into errors of the tree here; their own words, which may quote values, are never shown.
"""

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from holdtrue.errors import HoldtrueError, IntegrityError, InvalidParameter, RefusedError, ReleaseError, UnknownName
from holdtrue.ledgers.entries import COLUMNS, Entry, Terms
from holdtrue.ledgers.migrations import HEAD, READABLE, RETIRED, VERSIONS, is_known, upgrade
from holdtrue.ledgers.transactions import Busy, Lookup, Transaction

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["SqlStore", "find_statement", "foreign_object"]

_TERMS = tuple(item.name for item in fields(Terms))
_SELECT_TERMS = f"SELECT {', '.join(_TERMS)}, digest FROM holdtrue_ledger"  # noqa: S608 - names of ours
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM holdtrue_entries"  # noqa: S608 - names of ours
_NEWEST = "SELECT max(number) FROM holdtrue_entries"
_ROW = operator.attrgetter(*COLUMNS)
_KEYS = 256  # of a kind in one statement: SQLite joins at most 500 parts, and each analyst is one
_MOST_LAST = 4096
_ROWS = 32  # of one statement to insert: few enough that all its values are parameters in every version of SQLite


@functools.cache
def find_statement(  # noqa: PLR0913 - one keyword for each kind of key
    *, ids: int, digests: int, numbers: int, responses: int, analysts: int, mark: str, newest: bool = True
) -> str:
    """Return one statement for the newest entry and these numbers of keys; each part finds its rows by an index."""
    parts = [f"number = ({_NEWEST})"] if newest else []
    for condition, keys in (
        ("request_id IN ({})", ids),
        ("kind = 'response' AND request_digest IN ({})", digests),
        ("number IN ({})", numbers),
        ("answers IN ({})", numbers),
        ("answers IN ({})", responses),
    ):
        parts += [condition.format(", ".join([mark] * keys))] if keys else []
    parts += [f"number = ({_NEWEST} WHERE analyst = {mark})"] * analysts
    return " UNION ALL ".join([f"{_SELECT} WHERE {part}" for part in parts])


def foreign_object(kind: str, name: str) -> IntegrityError:
    """Return the error that names what acts on the tables of a ledger and is not Holdtrue's."""
    return IntegrityError(f"the ledger has a {kind} {str(name)!r} that is not Holdtrue's; it was changed from outside")


def _pad_keys(keys: list[Any]) -> list[Any]:
    """Return some keys, the last one repeated up to a power of two: few lengths mean few statements."""
    return keys + keys[-1:] * ((1 << (len(keys) - 1).bit_length()) - len(keys)) if len(keys) > 1 else keys


def _follow_up(rows: Iterable[Entry], asked: Lookup) -> Lookup:
    """Return what the rows just read point at: the answer to a repeat, the charge of a response and back."""
    more = Lookup()
    for row in rows:
        if row.kind == "repeat" and row.request_id in asked.ids and row.request_digest is not None:
            more.digests.add(row.request_digest)
        elif row.kind == "charge" and row.request_id in asked.ids:
            more.numbers.add(row.number)
        elif row.answers is not None and row.request_digest in asked.digests:
            more.numbers.add(row.answers)
    more.digests -= asked.digests
    more.numbers -= asked.numbers
    return more


class SqlStore(ABC):
    """A ledger's rows behind one connection. Calls come one at a time; it raises errors of the tree only.

    Guarantee: from :meth:`begin` to :meth:`commit` or :meth:`roll_back` every other writer is locked out, in this process
    and in others; once :meth:`commit` has returned, all that was appended is durable. Any error but
    :class:`~holdtrue.ledgers.transactions.Busy` means that the store must not be used again.
    """

    durable = True
    # What the engines say differently: statements that begin, the one that counts other connections' commits, the mark of a
    # parameter, the class of the driver's errors, and the URL by which SQLAlchemy knows the dialect.
    _begin_reading: ClassVar[str]
    _begin_writing: ClassVar[str]
    _lock_terms: ClassVar[str | None] = None
    _lock_creation: ClassVar[str | None] = None
    _count_commits: ClassVar[str | None] = None
    _mark: ClassVar[str]
    _driver_errors: ClassVar[type[Exception]]
    _dialect: ClassVar[str]

    def __init__(self, driver: Any, *, where: str, create: Callable[[], Terms] | None, read_only: bool = False) -> None:  # noqa: ANN401
        self._driver = driver
        self.where = where
        self._head: Entry | None = None
        self._commits: int | None = None  # of other connections, when the head was read
        self._alone_after = 0  # no other connection has written since this entry
        self._last: dict[str, Entry] = {}  # of analysts; from then on
        try:
            self.terms = self._open_terms(create, READABLE if read_only else {HEAD})
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _is_busy(self, error: BaseException) -> bool:
        """Return whether an error says that another process holds the lock."""

    @abstractmethod
    def _is_damaged(self, error: BaseException) -> bool:
        """Return whether an error says that what is stored cannot be right."""

    @abstractmethod
    def _has_tables(self) -> bool:
        """Return whether there is a table of revisions."""

    @abstractmethod
    def _is_foreign(self) -> bool:
        """Return whether the place holds something else than a ledger."""

    @abstractmethod
    def examine(self) -> None:
        """Have the engine check its own structures; raise IntegrityError if it finds them damaged."""

    def begin(self, lookup: Lookup) -> Transaction:
        """Lock every other writer out, and return the rows looked up with the newest entry, each checked by its digest."""
        try:
            self._driver.execute(self._begin_writing)
            if self._lock_terms is not None and self._driver.execute(self._lock_terms).fetchone() is None:
                self._miss_terms()
            return self._read_rows(lookup)
        except Exception as error:  # noqa: BLE001 - what is not the engine's is raised as it is
            raise self._to_ledger_error(error) from None

    def commit(self, entries: Sequence[Entry]) -> None:
        """Write entries, each after the one before it, and make them durable."""
        committing = False
        try:
            for start in range(0, len(entries), _ROWS):
                several = entries[start : start + _ROWS]
                self._driver.execute(
                    _insert_statement(len(several), self._mark), [value for entry in several for value in _ROW(entry)]
                )
            committing = True
            self._driver.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - what is not the engine's is raised as it is
            raise self._to_ledger_error(error, committing=committing) from None
        if entries:
            self._head = entries[-1]
            self._keep_last(entries)

    def roll_back(self) -> None:
        """Write nothing. If the connection is gone, so is the transaction."""
        with suppress(self._driver_errors):
            self._driver.execute("ROLLBACK")

    def load(self, lookup: Lookup) -> Transaction:
        """Return the rows looked up with the newest entry, each checked by its digest."""
        if lookup == _NOTHING:  # one statement needs no transaction; a count that is too old by then only has it read again
            try:
                return self._read_rows(lookup)
            except Exception as error:  # noqa: BLE001 - what is not the engine's is raised as it is
                raise self._to_ledger_error(error) from None
        with self._within_transaction(self._begin_reading):
            return self._read_rows(lookup)

    def entries(self, start: int, stop: int) -> Sequence[Entry]:
        """Return the entries with start <= number < stop as they are stored, unchecked."""
        statement = f"{_SELECT} WHERE number >= {self._mark} AND number < {self._mark} ORDER BY number"
        with self._within_transaction(self._begin_reading):
            return [Entry(*row) for row in self._driver.execute(statement, (start, stop)).fetchall()]

    def close(self) -> None:
        """Close the connection; nothing that was committed depends on it."""
        with suppress(self._driver_errors):
            self._driver.close()

    @contextmanager
    def _within_transaction(self, begin: str) -> Iterator[None]:
        """Have the statements of a block in one transaction, which ends with it."""
        try:
            self._driver.execute(begin)
            yield
            self._driver.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - what is not the engine's is raised as it is
            self.roll_back()
            raise self._to_ledger_error(error) from None

    def _read_rows(self, lookup: Lookup) -> Transaction:
        """Return the rows looked up, in the transaction under way, without those that cannot have come since the last time.

        Nobody but this store responds to a charge that it has made while no other connection wrote: SQLite counts those
        writes, and under a lock the count is right. So such responses are not looked for, nor is the newest entry, nor the
        last one of an analyst that this store has seen since.
        """
        commits = None if self._count_commits is None else self._driver.execute(self._count_commits).fetchone()[0]
        alone = commits is not None and commits == self._commits
        missing = self._leave_out_known(lookup) if alone and lookup != _NOTHING else lookup
        transaction = Transaction(self.terms)
        if not alone or missing != _NOTHING:
            transaction.add_stored(self._find_rows(missing, newest=not alone).values())
        if alone:
            transaction.head = self._head
            transaction.analysts |= {name: self._last[name] for name in lookup.analysts if name in self._last}
        else:
            self._head, self._commits, self._last = transaction.head, commits, {}
            self._alone_after = 0 if transaction.head is None else transaction.head.number
        self._keep_last([transaction.analysts[name] for name in lookup.analysts if name in transaction.analysts])
        return transaction

    def _leave_out_known(self, lookup: Lookup) -> Lookup:
        """Return what a lookup still asks of the table, as long as no other connection writes."""
        responses = lookup.responses if min(lookup.responses, default=1) <= self._alone_after else set[int]()
        return Lookup(lookup.ids, lookup.digests, lookup.analysts - self._last.keys(), lookup.numbers, responses)

    def _keep_last(self, entries: Iterable[Entry]) -> None:
        """Keep the last entries of their analysts, of a limited number of them."""
        if len(self._last) >= _MOST_LAST:
            self._last.clear()
        for entry in entries:
            if entry.analyst is not None:
                self._last[entry.analyst] = entry

    def _find_rows(self, lookup: Lookup, *, newest: bool) -> dict[int, Entry]:
        """Return the rows looked up, and those that they point at."""
        rows = self._select_rows(lookup, newest=newest)
        asked, more = lookup, _follow_up(rows.values(), lookup)
        while more != _NOTHING:
            rows |= self._select_rows(more, newest=False)
            asked = Lookup(asked.ids, asked.digests | more.digests, asked.analysts, asked.numbers | more.numbers)
            more = _follow_up(rows.values(), asked)
        return rows

    def _select_rows(self, lookup: Lookup, *, newest: bool) -> dict[int, Entry]:
        sought = lookup.ids, lookup.digests, lookup.numbers, lookup.responses, lookup.analysts
        kinds: list[list[Any]] = [list(keys) for keys in sought]
        rows: dict[int, Entry] = {}
        for start in range(0, max(newest, *map(len, kinds)), _KEYS):
            ids, digests, numbers, responses, analysts = (_pad_keys(keys[start : start + _KEYS]) for keys in kinds)
            statement = find_statement(
                ids=len(ids),
                digests=len(digests),
                numbers=len(numbers),
                responses=len(responses),
                analysts=len(analysts),
                mark=self._mark,
                newest=newest,
            )
            keys = [*ids, *digests, *numbers, *numbers, *responses, *analysts]
            rows |= {row[0]: Entry(*row) for row in self._driver.execute(statement, keys).fetchall()}
        return rows

    def _to_ledger_error(self, error: BaseException, *, committing: bool = False) -> BaseException:
        """Return an error of the tree for one of the engine's, whose own words are dropped; any other error as it is."""
        cause = getattr(error, "orig", None) or error  # what SQLAlchemy, which runs the migrations, wraps
        if isinstance(cause, UnicodeError):
            return IntegrityError(f"{self.where} is damaged: it holds text that is not UTF-8")
        if not isinstance(cause, self._driver_errors):
            return error
        if committing:
            message = "the ledger could not be made durable; the charge may count. Open it again and ask under the same id"
            return ReleaseError(message)
        if self._is_busy(cause):
            return Busy(f"{self.where} is locked by another process; nothing was written, try again")
        if self._is_damaged(cause):
            return IntegrityError(f"{self.where} is damaged or is not a ledger")
        return RefusedError(f"{self.where} cannot be read or written; nothing was charged")

    def _open_terms(self, create: Callable[[], Terms] | None, known: Container[str | None]) -> Terms:
        """Return the terms of the ledger at hand, after creating it where there is none and ``create`` is given."""
        with self._within_transaction(self._begin_reading):
            found = self._read_revision()
            terms = self._stored_terms() if found in known else None
            if found is None and self._is_foreign():
                raise InvalidParameter("where", self.where, "a ledger, or a place where there is nothing yet")
        if terms is not None:
            return terms
        if found in RETIRED:
            message = (
                f"{self.where} was written by an earlier Holdtrue, and this version cannot continue it: keep it as a "
                "record, and open the data with a new ledger whose epsilon and delta leave out what the old one spent"
            )
            raise RefusedError(message)
        if found is not None and not is_known(found):
            message = f"{self.where} was written by a newer Holdtrue; upgrade to read it"
            raise RefusedError(message)
        made = None if create is None else create()
        if made is None and found is None:
            message = f"there is no ledger yet at {self.where}; opening data with ledger= creates one"
            raise UnknownName(message)
        return self._create_tables(made)

    def _create_tables(self, made: Terms | None) -> Terms:
        """Bring the tables up to date and return the terms: those that were stored first, or the ones just made."""
        # SQLAlchemy rolls back what a connection is in when it first sees it, so it does that before the transaction.
        with self._lend_connection() as connection, self._within_transaction(self._begin_writing):
            if self._lock_creation is not None:
                self._driver.execute(self._lock_creation)
            if self._read_revision() != HEAD:
                upgrade(connection)
            terms = self._stored_terms()
            if terms is None and made is not None:
                row = {"number": 1} | asdict(made) | {"iid": int(made.iid), "digest": made.digest}
                marks = ", ".join([self._mark] * len(row))
                insert = f"INSERT INTO holdtrue_ledger ({', '.join(row)}) VALUES ({marks})"  # noqa: S608 - names of ours
                self._driver.execute(insert, list(row.values()))
        if terms is None and made is None:
            self._miss_terms()
        return terms or made  # type: ignore[return-value]  # one of them is there

    @contextmanager
    def _lend_connection(self) -> "Iterator[sa.Connection]":
        """Lend the connection to SQLAlchemy, which runs the migrations, within the transaction that is begun here."""
        import sqlalchemy as sa
        from sqlalchemy.pool import StaticPool

        engine = sa.create_engine(self._dialect, creator=lambda: self._driver, poolclass=StaticPool, hide_parameters=True)
        try:  # a clock that makes no sense has its pool close the connection, and then miss it
            with engine.connect() as connection, connection.begin():
                yield connection
        except Exception as error:  # noqa: BLE001 - what is not the engine's is raised as it is
            raise self._to_ledger_error(error) from None

    def _read_revision(self) -> str | None:
        if not self._has_tables():
            return None
        found = self._driver.execute(f"SELECT version_num FROM {VERSIONS}").fetchall()  # noqa: S608 - a constant
        return ", ".join([str(version) for (version,) in found])

    def _stored_terms(self) -> Terms | None:
        """Return the stored terms, checked against their digest; None where nothing was stored yet."""
        rows = self._driver.execute(_SELECT_TERMS).fetchall()
        if not rows:
            return None
        try:
            values = dict(zip(_TERMS, rows[0], strict=False))
            terms = Terms(**values | {"iid": bool(values["iid"])})
            right = len(rows) == 1 and terms.digest == rows[0][-1] and values["iid"] in (0, 1)
        except (HoldtrueError, TypeError, ValueError, AttributeError):
            right = False
        if not right:
            message = "entry 0: the terms of the ledger are not those it was created with"
            raise IntegrityError(message)
        return terms

    def _miss_terms(self) -> NoReturn:
        message = f"entry 0: {self.where} has lost the terms it was created with"
        raise IntegrityError(message)


_NOTHING = Lookup()


@functools.cache
def _insert_statement(rows: int, mark: str) -> str:
    line = f"({', '.join([mark] * len(COLUMNS))})"
    return f"INSERT INTO holdtrue_entries ({', '.join(COLUMNS)}) VALUES {', '.join([line] * rows)}"  # noqa: S608 - names of ours

"""Where a ledger's rows are kept: the protocol of a store, and the one that keeps them in memory."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from holdtrue.errors import RefusedError
from holdtrue.ledgers.books import Book, Wanted
from holdtrue.ledgers.entries import Entry, Terms

__all__ = ["Busy", "MemoryStore", "Store"]


class Busy(RefusedError):
    """Another process kept the ledger locked for too long. Nothing was written; trying again is safe."""

    http_status = 409


class Store(Protocol):
    """One ledger's rows. Calls come one at a time; a store raises errors of the tree and shows no engine's own words.

    Guarantee: what :meth:`writing` yields is locked against every other writer, in this process and in others, until it
    ends; when it ends without an error, all that was appended is durable, otherwise nothing of it was released. Any error
    but :class:`Busy` means that the store must not be used again.
    """

    terms: Terms
    where: str
    durable: bool

    def writing(self, wanted: Wanted) -> AbstractContextManager[Book]:
        """Return a context: lock, load the rows wanted, yield a book, write what was appended to it, commit."""
        ...

    def load(self, wanted: Wanted) -> Book:
        """Return a book of the head and the rows wanted, each checked against its digest."""
        ...

    def moved(self) -> bool:
        """Return False only if nobody but this store has written since it was last asked."""
        ...

    def entries(self, start: int, stop: int) -> Sequence[Entry]:
        """Return the entries with start <= number < stop as they are stored, unchecked."""
        ...

    def examine(self) -> None:
        """Have the engine check its own structures; raise IntegrityError if it finds them damaged."""
        ...

    def close(self) -> None:
        """Let go of every file and connection."""
        ...


class MemoryStore:
    """Rows in this process only: gone with it, and not durable."""

    durable = False

    def __init__(self, terms: Terms, *, where: str = "in memory") -> None:
        self.terms = terms
        self.where = where
        self._book = Book(terms)

    @contextmanager
    def writing(self, wanted: Wanted) -> Iterator[Book]:
        """Yield the one book there is."""
        del wanted
        yield self._book
        self._book.appended.clear()

    def load(self, wanted: Wanted) -> Book:
        """Return the one book there is."""
        del wanted
        return self._book

    def moved(self) -> bool:
        """Return that nobody else can write here."""
        return False

    def entries(self, start: int, stop: int) -> Sequence[Entry]:
        """Return the entries of a range of numbers."""
        newest = len(self._book.rows)
        return [self._book.rows[number].told() for number in range(max(start, 1), min(stop, newest + 1))]

    def examine(self) -> None:
        """Memory has no structures of its own to check."""

    def close(self) -> None:
        """Keep nothing."""
        self._book = Book(self.terms)

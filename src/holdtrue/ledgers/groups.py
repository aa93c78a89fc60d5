"""Group commit: requests of several threads share one transaction, and so one wait for the disk.

Whoever finds no commit under way leads: it takes every request that waits, runs them one after the other in one transaction,
and hands each its own outcome. Those that come meanwhile form the next group. Nobody hears of success before the commit is
durable, and a commit that fails is a failure for all of its group.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from holdtrue.errors import HoldtrueError, IntegrityError
from holdtrue.ledgers.books import Book, Wanted

__all__ = ["Committer", "Ticket"]

T = TypeVar("T")
_LONGEST_GATHERING = 0.002
_GATHERING_SHARE = 0.2


class Ticket(Generic[T]):
    """One request on its way through a commit: what it wants to see, what it does, and what came of it."""

    __slots__ = ("_act", "_error", "_result", "called", "leads", "party", "wanted")

    def __init__(self, wanted: Wanted, act: Callable[[Book], T]) -> None:
        self.wanted = wanted
        self.leads = False
        self.party: object = self
        self.called = threading.Lock()
        self.called.acquire()
        self._act = act
        self._result: list[T] = []
        self._error: Callable[[], BaseException] | None = None

    def run(self, book: Book) -> None:
        """Decide on the book. A refusal is this request's own outcome and adds nothing; any other error is everybody's."""
        try:
            self._result.append(self._act(book))
        except IntegrityError:
            raise
        except HoldtrueError as refusal:
            kept = refusal
            self._error = lambda: kept

    def fail(self, error: Callable[[], BaseException]) -> None:
        """Replace whatever was decided: it did not become durable."""
        self._error = error

    def outcome(self) -> T:
        """Return the result or raise the error."""
        if self._error is not None:
            raise self._error()
        return self._result[0]

    def settled(self) -> T | HoldtrueError:
        """Return the result, or an error of the tree as a value; any other error is raised."""
        try:
            return self.outcome()
        except HoldtrueError as error:
            return error


class Committer:
    """The queue of one ledger. ``commit`` runs a group in one transaction and settles every ticket in it, error or not.

    ``writer`` is held during a commit; whoever looks at the store without writing holds it likewise.
    """

    def __init__(self, commit: Callable[[Sequence[Ticket[Any]]], None], *, largest: int) -> None:
        self.writer = threading.Lock()
        self._commit = commit
        self._largest = largest
        self._mutex = threading.Lock()
        self._queue: list[Ticket[Any]] = []
        self._led = False
        self._last_size = 1
        self._last_seconds = 0.0

    def submit(self, tickets: Sequence[Ticket[Any]]) -> None:
        """Return once all of a caller's requests are settled and durable: in one transaction, unless they are very many."""
        with self._mutex:
            for ticket in tickets:
                ticket.party = tickets[0]
            self._queue.extend(tickets)
            tickets[0].leads, self._led = not self._led, True
        try:
            for ticket in tickets:
                if not ticket.leads:
                    ticket.called.acquire()
                if ticket.leads:
                    self._lead()
        except BaseException:
            for ticket in tickets:
                self._withdraw(ticket)
            raise

    def _lead(self) -> None:
        """Commit one group, this ticket's among it, and call the next leader; a ticket that leads is first in the queue."""
        self._gather()
        with self._mutex:
            group, self._queue = self._queue[: self._largest], self._queue[self._largest :]
        start = time.perf_counter()
        try:
            with self.writer:
                self._commit(group)
        finally:
            self._last_size, self._last_seconds = len({id(ticket.party) for ticket in group}), time.perf_counter() - start
            group[0].leads = False
            for ticket in group[1:]:
                ticket.called.release()
            self._pass_on()

    def _pass_on(self) -> None:
        with self._mutex:
            self._led = bool(self._queue)
            if self._led:
                self._queue[0].leads = True
                self._queue[0].called.release()

    def _withdraw(self, ticket: Ticket[T]) -> None:
        """Leave the queue after an interruption, and leave nobody waiting for a leader that is gone."""
        with self._mutex:
            if ticket in self._queue:
                self._queue.remove(ticket)
        if ticket.leads:
            ticket.leads = False
            self._pass_on()

    def _gather(self) -> None:
        """Wait a moment for those who were in the last group and are about to ask again; a lone writer never waits."""
        end = time.perf_counter() + min(_LONGEST_GATHERING, _GATHERING_SHARE * self._last_seconds)
        while len(self._queue) < min(self._last_size, self._largest) and time.perf_counter() < end:
            time.sleep(_LONGEST_GATHERING / 20)

"""The ledger itself: charge, respond, grant and look, over any store."""

import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from holdtrue.accounting.filters import Filter
from holdtrue.errors import (
    HoldtrueError,
    IntegrityError,
    InvalidParameter,
    NotPrivate,
    RefusedError,
    ReleaseError,
    UnknownName,
)
from holdtrue.events import Event
from holdtrue.exact import count
from holdtrue.ledgers import books
from holdtrue.ledgers.books import Book, Wanted
from holdtrue.ledgers.entries import Charge, Entry, Limits, Receipt, Terms, is_private, text
from holdtrue.ledgers.stores import Busy, Store

__all__ = ["Account"]

T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
_MOST_CHARGED = 4096
_FAILED = "the ledger failed; whether the request was charged is known once it is opened again"


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One decision inside a transaction: the rows it wants to see, and what it does with them."""

    wanted: Wanted
    decide: Callable[[Book], Entry]

    def run(self, book: Book) -> Entry | HoldtrueError:
        """Return the entry, or the refusal, which is this request's own and adds nothing; other errors are everybody's."""
        try:
            return self.decide(book)
        except IntegrityError:
            raise
        except HoldtrueError as refusal:
            return refusal


class Account:
    """A ledger over a store. Safe for threads; other processes may have the same ledger open.

    Guarantee (P3, P4, P5, P6): when :meth:`charge` returns, the charge is durable; the sum of all costs never passes the
    cap, nor an analyst's the allowance; a request id is charged at most once and has at most one response; after the first
    transaction that failed nothing is answered any more, not even from what is stored, until the ledger is opened anew.
    Needs: a store that keeps its own promise. Failure: an error of the tree, and no entry.
    """

    takes_unprotected = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self.writer = threading.Lock()  # held whenever a transaction is under way
        self._answered = threading.Condition()
        self._stopped: str | None = None
        self._newest: Receipt = (0, store.terms.digest)
        self._spent = 0
        self._priced: tuple[Event, int] | None = None
        self._charged: dict[int, Entry] = {}
        self._process = os.getpid()
        _OPEN.add(self)

    def charge(  # noqa: PLR0913 - one keyword for each fact of the entry
        self,
        *,
        request_id: str,
        request_digest: str,
        analyst: str,
        verb: str,
        event: Event,
        cost: int | None = None,
        draws: int = 0,
        parts: tuple[str, ...] = (),
        request: str = "{}",
        limits: Limits | None = None,
    ) -> Entry:
        """Charge a request before its rows are read, or return the entry that paid for it before.

        The entry's ``fresh`` says whether this call charged it. If not, ``response`` is what to send, or None while whoever
        charged it has not responded (see :meth:`wait`). ``cost`` is in units, never less than what the event costs.
        """
        wanted = Charge(request_id, request_digest, analyst, verb, event, cost, draws, parts, request, limits)
        return self._kept(self._commit_one(self._charging(wanted)))

    def charge_all(self, requests: Sequence[Charge]) -> list[Entry | HoldtrueError]:
        """Charge several requests in one transaction, in their order; each has its own entry or its own refusal."""
        return self.settle((), requests)[1]

    def respond(self, number: int, body: str) -> Entry:
        """Store the response to the charge with this number, before it leaves; send what the returned entry has as ``body``.

        The first response stays: whoever comes second is given the first one back, so that one charge lets one answer out.
        """
        entry = self._commit_one(self._responding(number, body))
        with self._answered:
            self._answered.notify_all()
        return entry

    def respond_all(self, bodies: Sequence[tuple[int, str]]) -> list[Entry | HoldtrueError]:
        """Store the responses to several charges in one transaction, each as :meth:`respond` does."""
        return self.settle(bodies, ())[0]

    def settle(
        self, bodies: Sequence[tuple[int, str]], requests: Sequence[Charge]
    ) -> tuple[list[Entry | HoldtrueError], list[Entry | HoldtrueError]]:
        """Store responses and charge other requests in one transaction, responses first; each has its own outcome.

        So the answers of those who asked before and the charges of those who come next wait for the disk once.
        """
        steps: list[_Step | HoldtrueError] = [self._responding(number, body) for number, body in bodies]
        for request in requests:
            try:
                steps.append(self._charging(request))
            except HoldtrueError as refusal:
                steps.append(refusal)
        found = self._commit(steps)
        if bodies:
            with self._answered:
                self._answered.notify_all()
        charged = found[len(bodies) :]
        return found[: len(bodies)], [self._kept(entry) if isinstance(entry, Entry) else entry for entry in charged]

    def grant(self, analyst: str, *, allowance: int | None) -> Entry:
        """Give an analyst an allowance in units, under the one cap; None lifts it. The change is an entry."""
        if not text("analyst", analyst):
            raise InvalidParameter("analyst", analyst, "a name")
        wanted = Wanted(analysts=frozenset({analyst}))
        return self._commit_one(_Step(wanted, lambda book: books.grant(book, analyst, allowance=allowance)))

    def find(self, *, request_id: str | None = None, request_digest: str | None = None) -> Entry | None:
        """Return the charge that paid for a request, by its id, or by its digest where it was answered; else None."""
        if request_id is not None:
            book = self._load(Wanted(ids=frozenset({request_id})))
            known = book.requests.get(request_id)
            return None if known is None else books.paid(book, known)
        if request_digest is None:
            raise InvalidParameter("request_id", None, "given, or request_digest")
        book = self._load(Wanted(digests=frozenset({request_digest})))
        answer = book.answered.get(request_digest)
        return None if answer is None else books.paid(book, answer)

    def wait(self, number: int, *, seconds: float = 30.0) -> Entry:
        """Return a charge once its response is stored, by this process or another; ReleaseError if that takes too long."""
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while True:
            book = self._load(Wanted(numbers=frozenset({count("number", number)})))
            if number not in book.rows:
                message = f"entry {number} is no entry of this ledger"
                raise UnknownName(message)
            entry = books.paid(book, book.rows[number])
            if entry.response is not None:
                return entry
            if time.monotonic() > end:
                message = f"entry {number} was charged, but its response was never stored; ask again under a new request id"
                raise ReleaseError(message, entry=number)
            with self._answered:
                self._answered.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def entries(self, start: int = 1, stop: int | None = None) -> Sequence[Entry]:
        """Return the entries with start <= number < stop, all kinds, each checked against its digest."""
        last = self.head[0] + 1 if stop is None else count("stop", stop, least=0)
        first = count("start", start, least=0)
        return self._look(lambda store: [row.checked(self.terms.ledger_id) for row in store.entries(first, last)])

    @property
    def terms(self) -> Terms:
        """Return what the ledger was created with."""
        return self._store.terms

    @property
    def durable(self) -> bool:
        """Return whether the ledger outlives this process."""
        return self._store.durable

    @property
    def head(self) -> Receipt:
        """Return the newest receipt: number and digest of the last entry, or 0 and the digest of the terms."""
        return self._load(Wanted()).receipt

    def newest(self) -> int:
        """Return the number of the last entry: as it is remembered, where nobody else has written since."""
        return self._look(lambda store: None if store.moved() else self._newest[0]) or self.head[0]

    @property
    def stopped(self) -> bool:
        """Return whether it answers nothing any more, since it was closed or has failed. Asks nothing of the store."""
        return self._stopped is not None

    @property
    def failed(self) -> bool:
        """Return whether a transaction failed, so that the ledger has to be opened again. Asks nothing of the store."""
        return self._stopped == "failed"

    @property
    def last_seen(self) -> Receipt:
        """Return the newest receipt that this process has seen, without a look at the store."""
        return self._newest

    @property
    def spent(self) -> int:
        """Return what all analysts together have spent, in units."""
        return self._load(Wanted()).spent

    @property
    def left(self) -> int:
        """Return what is left under the cap, in units."""
        return self._load(Wanted()).left()

    def spent_by(self, analyst: str) -> int:
        """Return what an analyst has spent, in units."""
        return self._load(Wanted(analysts=frozenset({analyst}))).spent_by(analyst)

    def left_for(self, analyst: str) -> int:
        """Return what an analyst may still spend, in units: within the allowance and within the cap."""
        return self._load(Wanted(analysts=frozenset({analyst}))).left(analyst)

    def allowance(self, analyst: str) -> int | None:
        """Return an analyst's allowance in units; None where there is no limit but the cap."""
        return self._load(Wanted(analysts=frozenset({analyst}))).allowance(analyst)

    def examine(self) -> None:
        """Have the store check its own structures; IntegrityError if they are damaged."""
        self._look(lambda store: store.examine())

    def close(self) -> None:
        """Let go of the store; every later call is refused. Closing twice is fine."""
        if self._process == os.getpid():
            with self.writer:
                if self._stopped != "closed":
                    self._store.close()
                    self._stopped = "closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        durability = "" if self.durable else ", not durable"
        return f"<{type(self).__name__} {self._store.where}{durability}: {self.terms.kind}, cap {self.terms.cap} units>"

    def _floor(self, request: Charge) -> int | NotPrivate:
        """Return what the event costs at least, or the refusal of an event without a guarantee."""
        priced = self._priced
        if priced is not None and priced[0] is request.event:
            return priced[1]
        if not is_private(request.event):
            if not self.takes_unprotected:
                return NotPrivate("the event carries no guarantee (NonPrivate); only a rehearsal ledger takes it")
            if request.cost is None:
                raise InvalidParameter("cost", None, "given in units, since a NonPrivate event has no cost of its own")
            return 0
        try:
            cost = _cost(self.terms.filter, request.event)
        except NotPrivate as refusal:
            return refusal
        self._priced = request.event, cost
        return cost

    def _refuse_early(self, request: Charge, *, cost: int, wanted: Wanted) -> None:
        """Refuse what the cap can never admit again, without a lock: totals only grow, so an old total is enough to know."""
        if self._spent + cost <= self.terms.cap:
            return
        book = self._load(wanted)
        if request.request_id not in book.requests and request.request_digest not in book.answered:
            books.demand(book, request, cost=cost)

    def _kept(self, entry: Entry) -> Entry:
        """Keep a charge that was just made until its response comes, so that it is not read back."""
        if entry.fresh:
            while len(self._charged) >= _MOST_CHARGED:
                self._charged.pop(next(iter(self._charged)))
            self._charged[entry.number] = entry
        return entry

    def _charging(self, request: Charge) -> _Step:
        floor = self._floor(request)
        wanted = Wanted(frozenset({request.request_id}), frozenset({request.request_digest}), frozenset({request.analyst}))
        if not isinstance(floor, NotPrivate):
            self._refuse_early(request, cost=max(floor, request.cost or 0), wanted=wanted)
        return _Step(wanted, lambda book: books.charge(book, request, floor=floor))

    def _responding(self, number: int, body: str) -> _Step:
        text("body", body)
        only = frozenset({count("number", number)})
        charged = self._charged.pop(number, None)
        wanted = Wanted(numbers=only) if charged is None else Wanted(responses=only)
        return _Step(wanted, lambda book: books.respond(book, number, body=body, charged=charged))

    def _commit_one(self, step: _Step) -> Entry:
        (found,) = self._commit([step])
        if isinstance(found, HoldtrueError):
            raise found
        return found

    def _commit(self, steps: Sequence[_Step | HoldtrueError]) -> list[Entry | HoldtrueError]:
        """Run steps in one transaction, in order; nobody hears of an entry before it is durable.

        A refusal is the outcome of its own step. Whatever goes wrong with the transaction is the outcome of every step, and
        ends this ledger, unless another process only held the lock.
        """
        self._check()
        planned = [step for step in steps if isinstance(step, _Step)]
        if not planned:
            return [step for step in steps if not isinstance(step, _Step)]
        try:
            with self.writer:
                self._check()
                with self._store.writing(Wanted.of_all(step.wanted for step in planned)) as book:
                    self._follow(book)
                    found = [step.run(book) if isinstance(step, _Step) else step for step in steps]
                self._follow(book)
                return found
        except BaseException as error:
            if not isinstance(error, Busy):
                self._stop()
            if not isinstance(error, Exception):
                raise
            failure = error if isinstance(error, HoldtrueError) else ReleaseError(_FAILED)
        # An error of its own for each: two threads that raise one object would share a traceback.
        return [_copy_error(failure) if isinstance(step, _Step) else step for step in steps]

    def _load(self, wanted: Wanted) -> Book:
        def read(store: Store) -> Book:
            book = store.load(wanted)
            self._follow(book)
            return book

        return self._look(read)

    def _look(self, read: Callable[[Store], T]) -> T:
        """Read from the store while nobody writes; an error there ends this ledger as a failed commit does."""
        self._check()
        with self.writer:
            self._check()
            try:
                return read(self._store)
            except Busy:
                raise
            except BaseException:
                self._stop()
                raise

    def _follow(self, book: Book) -> None:
        """Remember the newest receipt; raise IntegrityError if the ledger was put back to an older state meanwhile."""
        seen, number = self._newest, book.receipt[0]
        if number < seen[0] or (number == seen[0] and book.receipt != seen):
            message = f"entry {seen[0]}: the ledger was put back to an older state, or changed, while it was open"
            raise IntegrityError(message)
        self._newest, self._spent = book.receipt, book.spent

    def _stop(self) -> None:
        self._stopped = self._stopped or "failed"

    def _check(self) -> None:
        if self._process != os.getpid():
            message = "this ledger was opened in another process; open it again in this one"
            raise RefusedError(message)
        if self._stopped == "closed":
            message = "the ledger is closed; open it again"
            raise RefusedError(message)
        if self._stopped is not None:
            message = (
                "the ledger failed earlier and answers nothing since; look at the disk or the server, then open it again"
            )
            raise RefusedError(message)


_OPEN: "weakref.WeakSet[Account]" = weakref.WeakSet()
_FORKING: list[Account] = []


def _before_fork() -> None:
    """Let no process be forked in the middle of a transaction, which the child's copy of the connection would undo."""
    _FORKING[:] = _OPEN
    for account in _FORKING:
        account.writer.acquire()


def _after_fork() -> None:
    for account in _FORKING:
        account.writer.release()
    _FORKING.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


@functools.lru_cache(maxsize=4096)
def _cost(limit: Filter, event: Event) -> int:
    return limit.cost(event)


def _copy_error(error: HoldtrueError) -> HoldtrueError:
    """Return an error of the same kind and words."""
    if isinstance(error, ReleaseError):
        return ReleaseError(str(error), entry=error.entry)
    return type(error)(*error.args)

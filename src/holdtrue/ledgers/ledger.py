"""The ledger itself: charge, respond, grant and look, over any store."""

import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

from holdtrue.accounting.filters import Filter
from holdtrue.entropy import call_at_fork
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
from holdtrue.ledgers.entries import Charge, Entry, Limits, Receipt, check_entries, check_text, is_private
from holdtrue.ledgers.transactions import Busy, Lookup, MemoryStore, Transaction

if TYPE_CHECKING:
    from holdtrue.ledgers.sql_store import SqlStore

__all__ = ["Ledger"]

T = TypeVar("T")
_Store: TypeAlias = "MemoryStore | SqlStore"
_Decision: TypeAlias = Callable[[Transaction], Entry]
_Outcomes: TypeAlias = list[Entry | HoldtrueError]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
_MOST_UNANSWERED = 4096
_FAILED = "the ledger failed; whether the request was charged is known once it is opened again"


class Ledger:
    """A ledger over a store. Safe for threads; other processes may have the same ledger open.

    Guarantee (P3, P4, P5, P6): when :meth:`charge` returns, the charge is durable; the sum of all costs never passes the
    cap, nor an analyst's the allowance; a request id is charged at most once and has at most one response; after the first
    transaction that failed nothing is answered any more, not even from what is stored, until the ledger is opened again.
    Needs: a store that keeps its own promise. Failure: an error of the tree, and no entry.
    """

    takes_unprotected = False

    def __init__(self, store: _Store) -> None:
        self.terms = store.terms
        self.writer = threading.Lock()  # held whenever a transaction is under way
        self.store = store
        self._answered = threading.Condition()
        self._stopped: str | None = None
        self._head: Entry | None = None  # the newest entry that this process has seen
        self._priced: tuple[Event, int, Filter] | None = None
        self._unanswered: dict[int, Entry] = {}
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

        The entry's ``fresh`` says whether this call charged it. If not, ``response`` is what to send, or None while it
        has no response yet (see :meth:`wait`). ``cost`` is in units, never less than what the event costs.
        """
        wanted = Charge(request_id, request_digest, analyst, verb, event, cost, draws, parts, request, limits)
        return _take_only(self.settle((), [wanted])[1])

    def respond(self, number: int, body: str) -> Entry:
        """Store the response to the charge with this number, before it leaves; send what the returned entry has as ``body``.

        The first response stays: a second call returns the first response, so that one charge releases one answer.
        """
        return _take_only(self.settle([(number, body)], ())[0])

    def settle(self, bodies: Sequence[tuple[int, str]], requests: Sequence[Charge]) -> tuple[_Outcomes, _Outcomes]:
        """Store responses and charge other requests in one transaction, responses first; each has its own outcome.

        So the responses of one batch and the charges of the next wait for the disk once.
        """
        lookup = Lookup()
        decisions: list[_Decision | HoldtrueError] = [self._decide_response(number, body, lookup) for number, body in bodies]
        for request in requests:
            try:
                decisions.append(self._decide_charge(request, lookup))
            except HoldtrueError as refusal:
                decisions.append(refusal)
        outcomes = self._commit_decisions(decisions, lookup)
        if bodies:
            with self._answered:
                self._answered.notify_all()
        charged = outcomes[len(bodies) :]
        for entry in charged:
            if isinstance(entry, Entry) and entry.fresh:
                self._keep_charge(entry)
        return outcomes[: len(bodies)], charged

    def grant(self, analyst: str, *, allowance: int | None) -> Entry:
        """Give an analyst an allowance in units, under the one cap; None lifts it. The change is an entry."""
        if not check_text("analyst", analyst):
            raise InvalidParameter("analyst", analyst, "a name")
        decision = functools.partial(Transaction.grant, analyst=analyst, allowance=allowance)
        return _take_only(self._commit_decisions([decision], Lookup(analysts={analyst})))

    def find(self, *, request_id: str | None = None, request_digest: str | None = None) -> Entry | None:
        """Return the charge that paid for a request, by its id, or by its digest where it was answered; else None."""
        if request_id is not None:
            seen = self._load_rows(Lookup(ids={request_id}))
            found = seen.requests.get(request_id)
        elif request_digest is not None:
            seen = self._load_rows(Lookup(digests={request_digest}))
            found = seen.answered.get(request_digest)
        else:
            raise InvalidParameter.without_value("request_id", "given, or request_digest instead")
        return None if found is None else seen.find_charge(found)

    def find_entry(self, request_id: str) -> Entry | None:
        """Return the entry that was made under a request id: its charge, or the repeat of another's; else None."""
        return self._load_rows(Lookup(ids={request_id})).requests.get(request_id)

    def wait(self, number: int, *, seconds: float = 30.0) -> Entry:
        """Return a charge once its response is stored, by this process or another; ReleaseError if that takes too long."""
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while True:
            seen = self._load_rows(Lookup(numbers={count("number", number)}))
            if number not in seen.rows:
                message = f"this ledger has no entry {number}"
                raise UnknownName(message)
            entry = seen.find_charge(seen.rows[number])
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
        found = self._read_store(lambda: self.store.entries(first, last))
        try:  # after the lock is free again: hashing many entries takes longer than reading them
            check_entries(found, ledger_id=self.terms.ledger_id)
        except IntegrityError:
            self._mark_failed()
            raise
        return found

    @property
    def durable(self) -> bool:
        """Return whether the ledger outlives this process."""
        return self.store.durable

    @property
    def head(self) -> Receipt:
        """Return the newest receipt: number and digest of the last entry, or 0 and the digest of the terms."""
        return self._load_rows(Lookup()).receipt

    def newest(self) -> int:
        """Return the number of the last entry, from memory if no other process has written since."""
        head = self._load_rows(Lookup()).head
        return 0 if head is None else head.number

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
        return (0, self.terms.digest) if self._head is None else self._head.receipt

    @property
    def spent(self) -> int:
        """Return what all analysts together have spent, in units."""
        return self._load_rows(Lookup()).spent

    @property
    def tv(self) -> float:
        """Return the total variation that everything released keeps within: that of the caps, whatever was spent (V6.4)."""
        return self.terms.tv

    @property
    def left(self) -> int:
        """Return what is left under the cap, in units."""
        return self._load_rows(Lookup()).find_left()

    def spent_by(self, analyst: str) -> int:
        """Return what an analyst has spent, in units."""
        return self._load_rows(Lookup(analysts={analyst})).spent_by(analyst)

    def left_for(self, analyst: str, *, draws: int = 1) -> int:
        """Return what an analyst may still spend, in units: within the allowance and within the cap.

        Without ``draws``: on charges without them, which a second purse pays for where there is one.
        """
        return self._load_rows(Lookup(analysts={analyst})).find_left(analyst, draws=draws)

    def allowance(self, analyst: str) -> int | None:
        """Return an analyst's allowance in units; None where there is no limit but the cap."""
        return self._load_rows(Lookup(analysts={analyst})).allowance(analyst)

    def examine(self) -> None:
        """Have the store check its own structures; IntegrityError if they are damaged."""
        self._read_store(self.store.examine)

    def close(self) -> None:
        """Close the store; every later call is refused. Closing twice is fine."""
        if self._process == os.getpid():
            with self.writer:
                if self._stopped != "closed":
                    self.store.close()
                    self._stopped = "closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        durability = "" if self.durable else ", not durable"
        return f"<{type(self).__name__} {self.store.where}{durability}: {self.terms.kind}, cap {self.terms.cap} units>"

    def _decide_charge(self, request: Charge, lookup: Lookup) -> _Decision:
        """Return the decision on a charge, to be taken in a transaction with the rows that it adds to the lookup."""
        floor = self._find_floor(request)
        if not isinstance(floor, NotPrivate) and max(floor, request.cost or 0) > self._left_seen(request.draws):
            self._refuse_early(request, cost=max(floor, request.cost or 0))
        lookup.ids.add(request.request_id)
        lookup.digests.add(request.request_digest)
        lookup.analysts.add(request.analyst)
        return functools.partial(Transaction.charge, request=request, floor=floor)

    def _left_seen(self, draws: int) -> int:
        """Return what was left of a charge's purse when this process last saw the ledger."""
        head, purse = self._head, None if draws else self.terms.purse
        if purse is None:
            return self.terms.cap - (0 if head is None else head.spent)
        return purse.cap_units - (0 if head is None else head.other_spent)

    def _find_floor(self, request: Charge) -> int | NotPrivate:
        """Return what the event costs at least, or the refusal of an event without a guarantee."""
        priced, terms = self._priced, self.terms
        limit = terms.filter if request.draws or terms.purse is None else terms.reserve_filter
        if priced is not None and priced[0] is request.event and priced[2] is limit:
            return priced[1]
        if not is_private(request.event):
            if not self.takes_unprotected:
                return NotPrivate("the event carries no guarantee (NonPrivate); only a rehearsal ledger takes it")
            if request.cost is None:
                raise InvalidParameter.without_value("cost", "given in units, since a NonPrivate event has no cost")
            return 0
        try:
            cost = _event_cost(limit, request.event)
        except NotPrivate as refusal:
            return refusal
        self._priced = request.event, cost, limit
        return cost

    def _refuse_early(self, request: Charge, *, cost: int) -> None:
        """Refuse what the cap can never admit again, without a lock: totals only grow, so an old total is enough to know."""
        seen = self._load_rows(Lookup({request.request_id}, {request.request_digest}, {request.analyst}))
        if request.request_id not in seen.requests and request.request_digest not in seen.answered:
            seen.check_limits(request, cost=cost)

    def _decide_response(self, number: int, body: str, lookup: Lookup) -> _Decision:
        """Return the decision on a response, to be taken in a transaction with the rows that it adds to the lookup."""
        if type(number) is not int or number < 1:
            number = count("number", number)
        charged = self._unanswered.pop(number, None)
        (lookup.numbers if charged is None else lookup.responses).add(number)
        return functools.partial(Transaction.respond, number=number, body=body, charged=charged)

    def _keep_charge(self, entry: Entry) -> None:
        """Keep a charge that was just made until its response comes, so that it is not read back."""
        while len(self._unanswered) >= _MOST_UNANSWERED:
            self._unanswered.pop(next(iter(self._unanswered)))
        self._unanswered[entry.number] = entry

    def _commit_decisions(self, decisions: Sequence[_Decision | HoldtrueError], lookup: Lookup) -> _Outcomes:
        """Take decisions in one transaction, in order; no entry is returned before it is durable.

        A refusal is the outcome of its own request. Whatever goes wrong with the transaction is the outcome of every one of
        them, and ends this ledger, unless another process only held the lock.
        """
        self._check_open()
        refusals = [decision for decision in decisions if isinstance(decision, HoldtrueError)]
        if len(refusals) == len(decisions):
            return list[Entry | HoldtrueError](refusals)
        with self.writer:
            self._check_open()
            try:
                transaction = self.store.begin(lookup)
                self._follow_head(transaction.head)
                outcomes = [_take_decision(decision, transaction) for decision in decisions]
                self.store.commit(transaction.appended)
                self._follow_head(transaction.head)
            except BaseException as error:
                self.store.roll_back()
                if not isinstance(error, Busy):
                    self._mark_failed()
                if not isinstance(error, Exception):
                    raise
                failure = error if isinstance(error, HoldtrueError) else ReleaseError(_FAILED)
            else:
                return outcomes
        # An error of its own for each: two threads that raise one object would share a traceback.
        return [each if isinstance(each, HoldtrueError) else _copy_error(failure) for each in decisions]

    def _load_rows(self, lookup: Lookup) -> Transaction:
        def read() -> Transaction:
            seen = self.store.load(lookup)
            self._follow_head(seen.head)
            return seen

        return self._read_store(read)

    def _read_store(self, read: Callable[[], T]) -> T:
        """Read from the store while nothing is written; an error there ends this ledger as a failed commit does."""
        self._check_open()
        with self.writer:
            self._check_open()
            try:
                return read()
            except Busy:
                raise
            except BaseException:
                self._mark_failed()
                raise

    def _follow_head(self, head: Entry | None) -> None:
        """Remember the newest entry; raise IntegrityError if the ledger was put back to an older state meanwhile."""
        seen = self._head
        if seen is not None and (
            head is None or head.number < seen.number or (head.number == seen.number and head.digest != seen.digest)
        ):
            message = f"entry {seen.number}: the ledger was put back to an older state, or changed, while it was open"
            raise IntegrityError(message)
        self._head = head

    def _mark_failed(self) -> None:
        self._stopped = self._stopped or "failed"

    def _check_open(self) -> None:
        if self._process != os.getpid():
            message = "this ledger was opened in another process; open it again in this one"
            raise RefusedError(message)
        if self._stopped == "closed":
            message = "the ledger is closed; open it again"
            raise RefusedError(message)
        if self._stopped is not None:
            message = "the ledger failed earlier and is stopped; check the disk or the server, then open it again"
            raise RefusedError(message)


_OPEN: "weakref.WeakSet[Ledger]" = weakref.WeakSet()
_FORKING: list[Ledger] = []


def _before_fork() -> None:
    """Let no process be forked in the middle of a transaction, which the child's copy of the connection would undo."""
    _FORKING[:] = _OPEN
    for ledger in _FORKING:
        ledger.writer.acquire()


def _after_fork() -> None:
    for ledger in _FORKING:
        ledger.writer.release()
    _FORKING.clear()


call_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


@functools.lru_cache(maxsize=4096)
def _event_cost(limit: Filter, event: Event) -> int:
    return limit.cost(event)


def _take_decision(decision: _Decision | HoldtrueError, transaction: Transaction) -> Entry | HoldtrueError:
    """Return the entry, or the refusal, which is this request's own and appends nothing; other errors are everybody's."""
    if isinstance(decision, HoldtrueError):
        return decision
    try:
        return decision(transaction)
    except IntegrityError:
        raise
    except HoldtrueError as refusal:
        return refusal


def _take_only(outcomes: _Outcomes) -> Entry:
    (outcome,) = outcomes
    if isinstance(outcome, HoldtrueError):
        raise outcome
    return outcome


def _copy_error(error: HoldtrueError) -> HoldtrueError:
    """Return an error of the same kind and words."""
    if isinstance(error, ReleaseError):
        return ReleaseError(str(error), entry=error.entry)
    return type(error)(*error.args)

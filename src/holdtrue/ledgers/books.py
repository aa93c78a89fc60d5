"""What one transaction sees of a ledger, and the decisions taken on it: pure functions, the same over every store.

A store fills a :class:`Book` with the rows that the requests at hand may touch, the decisions below add entries to it, and
the store writes what was added, all in one transaction. A refusal adds nothing.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as quoted

from holdtrue.accounting.filters import amount
from holdtrue.errors import BudgetExceeded, IntegrityError, InvalidParameter, NotPrivate, UnknownName, UsedKey
from holdtrue.exact import count
from holdtrue.ledgers.clock import read_clock
from holdtrue.ledgers.entries import LARGEST, Charge, Entry, EntryKind, Receipt, Terms, event_text, text, values_digest

__all__ = ["Book", "Wanted", "charge", "demand", "grant", "paid", "respond"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows a request may touch: by request id, by digest of an answered request, by analyst, by number.

    ``numbers`` are entries with their responses, ``responses`` charges of which only the response is wanted.
    """

    ids: frozenset[str] = frozenset()
    digests: frozenset[str] = frozenset()
    analysts: frozenset[str] = frozenset()
    numbers: frozenset[int] = frozenset()
    responses: frozenset[int] = frozenset()

    def __or__(self, other: "Wanted") -> "Wanted":
        return Wanted.of_all((self, other))

    @classmethod
    def of_all(cls, several: Iterable["Wanted"]) -> "Wanted":
        """Return what any of several want."""
        listed = list(several)
        return cls(
            frozenset[str]().union(*[wanted.ids for wanted in listed]),
            frozenset[str]().union(*[wanted.digests for wanted in listed]),
            frozenset[str]().union(*[wanted.analysts for wanted in listed]),
            frozenset[int]().union(*[wanted.numbers for wanted in listed]),
            frozenset[int]().union(*[wanted.responses for wanted in listed]),
        )


@dataclass(slots=True)
class Book:
    """Rows of a ledger under the keys that decisions need. Rows are added in the order of their numbers."""

    terms: Terms
    head: Entry | None = None
    requests: dict[str, Entry] = field(default_factory=dict)
    rows: dict[int, Entry] = field(default_factory=dict)
    responses: dict[int, Entry] = field(default_factory=dict)
    answered: dict[str, Entry] = field(default_factory=dict)
    analysts: dict[str, Entry] = field(default_factory=dict)
    appended: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Take in a row under all its keys: the newest row is the head, the first answer to a digest the one that counts."""
        self.rows[entry.number] = entry
        if self.head is None or entry.number > self.head.number:
            self.head = entry
        if entry.request_id is not None:
            self.requests[entry.request_id] = entry
        if entry.answers is not None:
            self.responses[entry.answers] = entry
            if entry.request_digest is not None:
                self.answered.setdefault(entry.request_digest, entry)
        if entry.analyst is not None:
            known = self.analysts.get(entry.analyst)
            if known is None or entry.number > known.number:
                self.analysts[entry.analyst] = entry

    @property
    def receipt(self) -> Receipt:
        """Return number and digest of the newest entry, or 0 and the digest of the terms."""
        return (0, self.terms.digest) if self.head is None else self.head.receipt

    @property
    def spent(self) -> int:
        """Return what all analysts together have spent, in units."""
        return 0 if self.head is None else self.head.spent

    @property
    def draws(self) -> int:
        """Return how many noise draws of planned questions were charged."""
        return 0 if self.head is None else self.head.draws

    @property
    def other_spent(self) -> int:
        """Return what charges without such draws have cost, in units."""
        return 0 if self.head is None else self.head.other_spent

    def spent_by(self, analyst: str) -> int:
        """Return what an analyst has spent, in units."""
        last = self.analysts.get(analyst)
        return 0 if last is None else last.analyst_spent or 0

    def allowance(self, analyst: str) -> int | None:
        """Return an analyst's allowance in units; None where there is no limit but the cap."""
        last = self.analysts.get(analyst)
        return None if last is None else last.allowance

    def left(self, analyst: str | None = None) -> int:
        """Return what is left under the cap; for an analyst, the smaller of that and of what the allowance leaves."""
        under_cap = self.terms.cap - self.spent
        allowance = None if analyst is None else self.allowance(analyst)
        if analyst is None or allowance is None:
            return under_cap
        return max(0, min(under_cap, allowance - self.spent_by(analyst)))

    def append(  # noqa: PLR0913 - one keyword for each fact of the entry
        self,
        kind: EntryKind,
        *,
        verb: str,
        analyst: str | None = None,
        request_id: str | None = None,
        request_digest: str | None = None,
        cost: int = 0,
        draws: int = 0,
        allowance: int | None = None,
        event: str | None = None,
        answers: int | None = None,
        body: str | None = None,
        fresh: bool = False,
    ) -> Entry:
        """Add the next entry of the chain, with the totals and, but for a grant, the allowance carried on."""
        number, previous = self.receipt
        last = None if analyst is None else self.analysts.get(analyst)
        line = (
            number + 1,
            kind,
            read_clock(),
            request_id,
            request_digest,
            analyst,
            verb,
            cost,
            self.spent + cost,
            None if analyst is None else cost if last is None else (last.analyst_spent or 0) + cost,
            allowance if analyst is None or kind == "grant" else None if last is None else last.allowance,
            self.draws + draws,
            self.other_spent + (0 if draws else cost),
            (0 if self.head is None else self.head.charges) + (kind == "charge"),
            event,
            answers,
            body,
            previous,
        )
        digest = values_digest(line, ledger=quoted(self.terms.ledger_id))
        entry = Entry(*line, digest, fresh, body if fresh and kind == "response" else None)
        self.add(entry)
        self.appended.append(entry)
        return entry


def charge(book: Book, request: Charge, *, floor: int | NotPrivate) -> Entry:
    """Charge a request, once, or return the entry that paid for it before.

    Guarantee: an entry is added only if neither the cap nor the analyst's allowance nor what the plan holds is passed, its
    cost is no less than what the event costs (``floor``), and the request id was never used; in whole numbers, so exactly.
    A request that was charged before is found before any limit is looked at. Failure adds nothing:
    UsedKey for an id that came with another request, NotPrivate, InvalidParameter, BudgetExceeded.
    """
    known = book.requests.get(request.request_id)
    if known is not None:
        if known.request_digest != request.request_digest:
            message = f"request id {request.request_id!r} was used for another request; take a new id for a new request"
            raise UsedKey(message)
        return paid(book, known)
    append = functools.partial(
        book.append,
        verb=request.verb,
        analyst=request.analyst,
        request_id=request.request_id,
        request_digest=request.request_digest,
    )
    if request.request_digest in book.answered:
        return paid(book, append("repeat"))
    if isinstance(floor, NotPrivate):
        raise floor
    cost = floor if request.cost is None else request.cost
    if cost < floor:
        raise InvalidParameter("cost", cost, f"at least what the event costs, {floor} units")
    demand(book, request, cost=cost)
    event = event_text(request.event)
    return append("charge", cost=cost, draws=request.draws, event=event, body=request.body, fresh=True)


def demand(book: Book, request: Charge, *, cost: int) -> None:
    """Raise BudgetExceeded unless a cost fits into the plan, into the analyst's allowance and under the cap.

    The plan's intervals count on its number of draws, and on the share that it leaves to charges without draws.
    """
    limits, currency = request.limits, book.terms.filter.currency
    if limits is not None and request.draws and book.draws + request.draws > limits.draws:
        raise BudgetExceeded(requested=request.draws, left=max(0, limits.draws - book.draws), unit="questions")
    if limits is not None and not request.draws and cost > max(0, limits.other - book.other_spent):
        left = amount(max(0, limits.other - book.other_spent))
        raise BudgetExceeded(requested=amount(cost), left=left, unit=f"{currency} in reserve")
    left_over = book.left(request.analyst)
    if cost > left_over:
        raise BudgetExceeded(requested=amount(cost), left=amount(left_over), unit=currency)


def paid(book: Book, entry: Entry) -> Entry:
    """Return the charge that paid for a request, with the stored response if there is one."""
    if entry.kind == "charge":
        answered = book.responses.get(entry.number)
        return entry.told(response=None if answered is None else answered.body)
    answer = book.answered.get(entry.request_digest or "") if entry.kind == "repeat" else entry
    charged = None if answer is None else book.rows.get(answer.answers or 0)
    if answer is None or charged is None:
        message = f"entry {entry.number}: the charge or the answer that it speaks of is missing"
        raise IntegrityError(message)
    return charged.told(response=answer.body)


def respond(book: Book, number: int, *, body: str, charged: Entry | None = None) -> Entry:
    """Store the response to a charge, before it leaves; the first one stays, and every later call returns that one.

    ``charged`` is the charge, where whoever responds made it and still has it.
    """
    charged = charged or book.rows.get(number)
    if charged is None or charged.kind != "charge":
        message = f"entry {number} is no charge of this ledger"
        raise UnknownName(message)
    stored = book.responses.get(number)
    if stored is not None:
        return stored.told(response=stored.body)
    text("body", body)
    digest = charged.request_digest
    return book.append("response", verb=charged.verb, request_digest=digest, answers=number, body=body, fresh=True)


def grant(book: Book, analyst: str, *, allowance: int | None) -> Entry:
    """Set an analyst's allowance in units, counted from the analyst's first charge; None lifts it. What was spent stays."""
    if allowance is not None and count("allowance", allowance, least=0) > LARGEST:
        raise InvalidParameter("allowance", allowance, f"at most {LARGEST} units of 1e-15")
    return book.append("grant", verb="grant", analyst=analyst, allowance=allowance).told(fresh=True)

"""What one commit sees of a ledger, and the decisions taken on it: the same over every store.

A store fills a :class:`Transaction` with the rows that the requests at hand may touch, the decisions add entries to it, and
the store writes what was appended, all under one lock. A refusal appends nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdtrue.errors import BudgetExceeded, IntegrityError, InvalidParameter, NotPrivate, RefusedError, UnknownName, UsedKey
from holdtrue.exact import amount
from holdtrue.ledgers.entries import (
    Charge,
    Entry,
    Receipt,
    Terms,
    check_entries,
    write_charge,
    write_grant,
    write_repeat,
    write_response,
)

__all__ = ["Busy", "Lookup", "MemoryStore", "Transaction"]


class Busy(RefusedError):
    """Another process kept the ledger locked for too long, or what is kept beside it cannot be reached now.

    Nothing was charged; trying again is safe.
    """

    http_status = 409


@dataclass(slots=True)
class Lookup:
    """Which rows a commit may touch: by request id, by digest of an answered request, by analyst, by number.

    ``numbers`` are entries with their responses, ``responses`` charges of which only the response is wanted.
    """

    ids: set[str] = field(default_factory=set)
    digests: set[str] = field(default_factory=set)
    analysts: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    responses: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Transaction:
    """Rows of a ledger under the keys that decisions need, the newest as ``head``, and the entries appended to them."""

    terms: Terms
    head: Entry | None = None
    requests: dict[str, Entry] = field(default_factory=dict)
    rows: dict[int, Entry] = field(default_factory=dict)
    responses: dict[int, Entry] = field(default_factory=dict)
    answered: dict[str, Entry] = field(default_factory=dict)
    analysts: dict[str, Entry] = field(default_factory=dict)
    appended: list[Entry] = field(default_factory=list)

    def add_stored(self, rows: Iterable[Entry]) -> None:
        """Take in rows of a store in the order of their numbers; IntegrityError for one that is not what its digest says."""
        stored = sorted(rows, key=lambda row: row.number)
        check_entries(stored, ledger_id=self.terms.ledger_id)
        for row in stored:
            self._add_entry(row)

    def _add_entry(self, entry: Entry) -> Entry:
        """Take in the next row under all its keys: the first answer to a digest is the one that counts."""
        self.head = self.rows[entry.number] = entry
        if entry.request_id is not None:
            self.requests[entry.request_id] = entry
        if entry.answers is not None:
            self.responses[entry.answers] = entry
            if entry.request_digest is not None:
                self.answered.setdefault(entry.request_digest, entry)
        if entry.analyst is not None:
            self.analysts[entry.analyst] = entry
        return entry

    def _append_entry(self, entry: Entry) -> Entry:
        self.appended.append(entry)
        return self._add_entry(entry)

    @property
    def receipt(self) -> Receipt:
        """Return number and digest of the newest entry, or 0 and the digest of the terms."""
        return (0, self.terms.digest) if self.head is None else self.head.receipt

    @property
    def spent(self) -> int:
        """Return what all analysts together have spent, in units."""
        return 0 if self.head is None else self.head.spent

    def spent_by(self, analyst: str) -> int:
        """Return what an analyst has spent, in units."""
        last = self.analysts.get(analyst)
        return 0 if last is None else last.analyst_spent or 0

    def allowance(self, analyst: str) -> int | None:
        """Return an analyst's allowance in units; None where there is no limit but the cap."""
        last = self.analysts.get(analyst)
        return None if last is None else last.allowance

    def find_left(self, analyst: str | None = None, *, draws: int = 1) -> int:
        """Return what is left under the cap; for an analyst, the smaller of that and of what the allowance leaves.

        For a charge without ``draws`` it is what the second purse has, where there is one; an allowance is a share of both.
        """
        purse = None if draws else self.terms.purse
        spent, cap = (self.spent, self.terms.cap) if purse is None else (self.other_spent, purse.cap_units)
        allowance = None if analyst is None else self.allowance(analyst)
        if analyst is None or allowance is None:
            return cap - spent
        allowed = allowance - self.spent_by(analyst)
        return max(0, min(cap - spent, allowed if purse is None else allowed * cap // self.terms.cap))

    @property
    def other_spent(self) -> int:
        """Return what all charges without draws have cost, in units."""
        return 0 if self.head is None else self.head.other_spent

    def charge(self, request: Charge, *, floor: int | NotPrivate) -> Entry:
        """Charge a request, once, or return the entry that paid for it before.

        Guarantee: an entry is appended only if neither the cap nor the analyst's allowance nor what the plan holds is
        passed, its cost is no less than what the event costs (``floor``), and the request id was never used; in whole
        numbers, so exactly. A request that was charged before is found before any limit is looked at. Failure appends
        nothing: UsedKey for an id that came with another request, NotPrivate, InvalidParameter, BudgetExceeded.
        """
        known = self.requests.get(request.request_id)
        if known is not None:
            if known.request_digest != request.request_digest:
                raise UsedKey.naming(request.request_id)
            return self.find_charge(known)
        last = self.analysts.get(request.analyst)
        if request.request_digest in self.answered:
            return self.find_charge(self._append_entry(write_repeat(self.terms, self.head, last, request)))
        if isinstance(floor, NotPrivate):
            raise floor
        cost = floor if request.cost is None else request.cost
        if cost < floor:
            raise InvalidParameter("cost", cost, f"at least what the event costs, {floor} units")
        self.check_limits(request, cost=cost)
        return self._append_entry(write_charge(self.terms, self.head, last, request, cost=cost))

    def check_limits(self, request: Charge, *, cost: int) -> None:
        """Raise BudgetExceeded unless a cost fits into the plan, into the analyst's allowance and under the cap.

        The plan's intervals count on its number of draws, and on the share that it leaves to charges without draws.
        """
        limits, head = request.limits, self.head
        if limits is not None and request.draws:
            left = limits.draws - (0 if head is None else head.draws)
            if request.draws > left:
                raise BudgetExceeded(requested=request.draws, left=max(0, left), unit="questions")
        elif limits is not None:
            left = max(0, limits.other - self.other_spent)
            if cost > left:
                each = limits.question if self.terms.purse is None else 0
                raise _refuse_reserve(cost, left, each, self.terms.find_filter(0).currency, none=not limits.other)
        left = self.find_left(request.analyst, draws=request.draws)
        if cost > left:
            raise self._refuse_cost(request, cost, left)

    def _refuse_cost(self, request: Charge, cost: int, left: int) -> BudgetExceeded:
        """Return the refusal of a cost: by the analyst's own allowance, or by the budget that all share."""
        unit, limits, allowance = (
            self.terms.find_filter(request.draws).currency,
            request.limits,
            self.allowance(request.analyst),
        )
        under_cap, each = self.find_left(draws=request.draws), 0 if limits is None else limits.question
        if limits is None or not each or allowance is None or left == under_cap:
            return BudgetExceeded(requested=amount(cost), left=amount(left), unit=unit)
        if not request.draws and self.terms.purse is not None:
            words = f"your allowance leaves {amount(left):.3g} {unit}, and this costs {amount(cost):.3g}; ask the owner"
            return BudgetExceeded.saying(words, requested=amount(cost), left=amount(left), unit=unit)
        drawn = 0 if self.head is None else self.head.draws
        others = max(0, min(limits.draws - drawn, under_cap // each))
        own = f"your allowance of {count_questions(allowance // each)}"
        used = (
            "is used up" if left < each else f"has {left // each:,} left, and this costs {count_questions(-(-cost // each))}"
        )
        words = f"{own} {used}; the dataset has {others:,} left; ask the owner"
        return BudgetExceeded.saying(words, requested=amount(cost), left=amount(left), unit=unit)

    def find_charge(self, entry: Entry) -> Entry:
        """Return the charge that paid for a request, given any entry of it, with the stored response if there is one."""
        if entry.kind == "charge":
            answered = self.responses.get(entry.number)
            return entry.with_response(None if answered is None else answered.body)
        answer = self.answered.get(entry.request_digest or "") if entry.kind == "repeat" else entry
        charged = None if answer is None else self.rows.get(answer.answers or 0)
        if answer is None or charged is None:
            message = f"entry {entry.number}: its charge or its answer is missing"
            raise IntegrityError(message)
        return charged.with_response(answer.body)

    def respond(self, number: int, *, body: str, charged: Entry | None = None) -> Entry:
        """Store the response to a charge, before it leaves; the first one stays, and every later call returns that one.

        ``charged`` is the charge, if the caller still has it.
        """
        charged = charged or self.rows.get(number)
        if charged is None or charged.kind != "charge":
            message = f"entry {number} is not a charge of this ledger"
            raise UnknownName(message)
        self.rows[charged.number] = charged  # the same question may come again in this transaction
        stored = self.responses.get(number)
        if stored is not None:
            return stored.with_response(stored.body)
        return self._append_entry(write_response(self.terms, self.head, charged, body))

    def grant(self, analyst: str, *, allowance: int | None) -> Entry:
        """Set an analyst's allowance, counted from the analyst's first charge; None lifts it. What was spent stays."""
        last = self.analysts.get(analyst)
        return self._append_entry(write_grant(self.terms, self.head, last, analyst, allowance=allowance))


class MemoryStore:
    """Rows in this process only: one transaction that never ends, gone with the process and not durable."""

    durable = False

    def __init__(self, terms: Terms, *, where: str = "in memory") -> None:
        self.terms = terms
        self.where = where
        self._all = Transaction(terms)

    def load(self, lookup: Lookup) -> Transaction:
        """Return the one transaction there is."""
        del lookup
        return self._all

    begin = load

    def commit(self, entries: Sequence[Entry]) -> None:
        """Keep what was appended."""
        del entries
        self._all.appended.clear()

    def roll_back(self) -> None:
        """Keep everything: a store whose transaction was interrupted is never used again."""

    def entries(self, start: int, stop: int) -> Sequence[Entry]:
        """Return the entries of a range of numbers."""
        rows = self._all.rows
        return [rows[number].with_response(None) for number in range(max(start, 1), min(stop, len(rows) + 1))]

    def examine(self) -> None:
        """Do nothing: memory has no structures to check."""

    def close(self) -> None:
        """Keep nothing."""
        self._all = Transaction(self.terms)


def count_questions(number: int) -> str:
    """Return a number of questions in words."""
    return f"{number:,} question{'' if number == 1 else 's'}"


def _refuse_reserve(cost: int, left: int, each: int, unit: str, *, none: bool) -> BudgetExceeded:
    """Return the refusal of a verb that the reserve does not pay for, in questions where these have a cost."""
    facts: dict[str, Any] = {"requested": amount(cost), "left": amount(left), "unit": f"{unit} in reserve"}
    if none:
        return BudgetExceeded.saying(
            "this plan has no reserve for verbs other than ask; plan with, for example, reserve=0.25", **facts
        )
    if not each:
        return BudgetExceeded(**facts)
    needs = f"this costs as much as {count_questions(-(-cost // each))}, and {left // each:,} are left in reserve"
    return BudgetExceeded.saying(f"not enough budget: {needs}; a smaller epsilon costs less", **facts)

"""Recompute a ledger from its first entry to its last."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, get_args

from holdtrue.codec import decode
from holdtrue.errors import HoldtrueError, IntegrityError, InvalidParameter, RefusedError
from holdtrue.events import Event
from holdtrue.exact import read_list
from holdtrue.ledgers.entries import Entry, EntryKind, Receipt, Terms, is_private, read_charge
from holdtrue.ledgers.ledger import Ledger
from holdtrue.ledgers.opening import store_at
from holdtrue.ledgers.transactions import Busy

if TYPE_CHECKING:
    from holdtrue.ledgers.sql_store import SqlStore

__all__ = ["Verification", "verify"]

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Verification:
    """A ledger that was found whole: how many entries, what was spent and left in units, and its newest receipt.

    With two purses ``spent`` and ``left`` are those of questions; ``purse`` has the currency of the other one, and what it
    has spent and left.
    """

    ledger_id: str
    entries: int
    charges: int
    spent: int
    left: int
    head: str
    purse: tuple[str, int, int] | None = None

    @property
    def receipt(self) -> Receipt:
        """Return the newest receipt, to be kept outside."""
        return self.entries, self.head

    def __bool__(self) -> bool:
        return True


def verify(where: str | PathLike[str] | Ledger, *, receipts: Iterable[Receipt] = ()) -> Verification:
    """Return a truthy report if a ledger is whole; raise IntegrityError, saying which entry, if it is not.

    Guarantee (P7): every entry follows from the ones before it, by digest and by sums; no charge passed the cap or an
    allowance or cost less than its event; every response answers one charge. With a receipt, everything up to its entry is
    what it was when the receipt was given. Needs the newest receipt to find that entries were cut off or the file was put
    back to an older state: without one, a shorter whole ledger is a whole ledger. Reads only.
    """
    if isinstance(where, Ledger):
        where.examine()
        return _Recount(where.terms, receipts, unprotected=where.takes_unprotected).recount_entries(
            _read_pages(where.entries)
        )
    store = _open_to_read(where)
    try:
        store.examine()
        return _Recount(store.terms, receipts).recount_entries(_read_pages(store.entries))
    except (IntegrityError, Busy):
        raise
    except HoldtrueError:
        message = f"{store.where} cannot be read to its end"
        raise IntegrityError(message) from None
    finally:
        store.close()


def _open_to_read(where: str | PathLike[str]) -> "SqlStore":
    """Open to read; a SQLite file whose last writer was killed is first rolled back to its last commit."""
    try:
        return store_at(where, read_only=True)
    except Busy:
        raise
    except RefusedError:
        return store_at(where)


def _read_pages(read: Callable[[int, int], Sequence[Entry]]) -> Iterator[Entry]:
    """Yield entries page by page, each read in its own transaction, so that no charge has to wait."""
    start = 1
    while True:
        page = read(start, start + _PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        start += _PAGE


def _list_receipts(receipts: object) -> list[Receipt]:
    given = read_list("receipts", receipts, expected="a list of receipts")
    for receipt in given:
        if not (isinstance(receipt, (list, tuple)) and [type(part) for part in receipt] == [int, str]):
            raise InvalidParameter("receipts", receipt, "pairs of an entry's number and its digest")
    return given


@dataclass(slots=True)
class _Recount:
    """The running state of a recount: everything the next entry must agree with."""

    terms: Terms
    receipts: Iterable[Receipt]
    unprotected: bool = False
    number: int = 0
    digest: str = ""
    spent: int = 0
    draws: int = 0
    other_spent: int = 0
    charges: dict[int, str | None] = field(default_factory=dict)
    responses: set[int] = field(default_factory=set)
    answered: set[str | None] = field(default_factory=set)
    requests: set[str] = field(default_factory=set)
    analysts: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    def recount_entries(self, entries: Iterable[Entry]) -> Verification:
        """Go through all entries and compare the receipts on the way."""
        self.digest = self.terms.digest
        kept = _list_receipts(self.receipts)
        self._compare_receipts(kept)
        for entry in entries:
            try:
                self._check_next(entry)
            except (TypeError, ValueError, AttributeError):
                message = f"entry {self.number} is malformed"
                raise IntegrityError(message) from None
            self._compare_receipts(kept)
        for number, _ in kept:
            if number > self.number:
                message = f"entry {number}: there is a receipt for it, but the ledger ends with entry {self.number}"
                raise IntegrityError(message)
        left = self.terms.cap - self.spent
        totals = len(self.charges), self.spent, left, self.digest
        second = self.terms.purse
        purse = None if second is None else (second.currency, self.other_spent, second.cap_units - self.other_spent)
        return Verification(self.terms.ledger_id, self.number, *totals, purse)

    def _compare_receipts(self, receipts: list[Receipt]) -> None:
        for number, digest in receipts:
            self._check_fact(number != self.number or digest == self.digest, "it is not the entry of the receipt")

    def _check_fact(self, right: object, otherwise: str) -> None:
        if not right:
            message = f"entry {self.number}: {otherwise}"
            raise IntegrityError(message)

    def _check_next(self, entry: Entry) -> None:
        self.number += 1
        self._check_fact(entry.number == self.number, "it is missing")
        self._check_fact(entry.previous == self.digest, "it does not follow the entry before it")
        entry.check_digest(self.terms.ledger_id)
        self.digest = entry.digest
        draws = read_charge(entry).draws if self.terms.purse is not None and entry.kind == "charge" else 1
        self.spent += entry.cost if draws else 0
        self._check_fact(
            entry.cost >= 0 and entry.spent == self.spent <= self.terms.cap, "the total is not the sum of the costs"
        )
        if entry.analyst is not None:
            self._follow_analyst(entry)
        if entry.request_id is not None:
            self._check_fact(entry.request_id not in self.requests, "its request id was used before")
            self.requests.add(entry.request_id)
        self._check_fact(entry.kind in get_args(EntryKind), "it is of no known kind")
        match entry.kind:
            case "charge":
                self._check_fact(self._covers_event(entry), "its cost is less than that of its event")
                self.charges[entry.number] = entry.request_digest
            case "response":
                asked = self.charges.get(entry.answers or 0)
                known = asked is not None and asked == entry.request_digest and entry.answers not in self.responses
                self._check_fact(known and entry.cost == 0, "it answers no charge")
                self.responses.add(entry.answers or 0)
                self.answered.add(entry.request_digest)
            case "repeat":
                self._check_fact(
                    entry.cost == 0 and entry.request_digest in self.answered, "it repeats what was not answered"
                )
            case "grant":
                self._check_fact(entry.cost == 0 and entry.analyst is not None, "it grants nothing")
        self._follow_plan(entry)

    def _follow_plan(self, entry: Entry) -> None:
        """Recount what the plan's limits are checked against, from what each charge says of itself."""
        purse = self.terms.purse
        if entry.kind == "charge":
            charged = read_charge(entry)
            self.draws += charged.draws
            self.other_spent += 0 if charged.draws else entry.cost
            self._check_fact(charged.purse == self.terms.name_purse(charged.draws), "it names another purse than its own")
        within = purse is None or self.other_spent <= purse.cap_units
        self._check_fact(within, "the total of the second purse is above its cap")
        totals = self.draws, self.other_spent, len(self.charges)
        self._check_fact((entry.draws, entry.other_spent, entry.charges) == totals, "the totals of its plan are wrong")

    def _follow_analyst(self, entry: Entry) -> None:
        spent, allowance = self.analysts.get(entry.analyst or "", (0, None))
        draws = read_charge(entry).draws if entry.kind == "charge" else 1
        spent += self.terms.share_of_cap(entry.cost, draws)
        if entry.kind == "grant":
            allowance = entry.allowance
        right = entry.analyst_spent == spent and entry.allowance == allowance
        within = entry.cost == 0 or allowance is None or spent <= allowance
        self._check_fact(right and within, "the analyst's total or allowance is wrong")
        self.analysts[entry.analyst or ""] = (spent, allowance)

    def _covers_event(self, entry: Entry) -> bool:
        try:
            event = decode(entry.event or "", Event)
            unprotected = not is_private(event) and self.unprotected
            return unprotected or entry.cost >= self.terms.find_filter(read_charge(entry).draws).cost(event)
        except (HoldtrueError, ValueError, TypeError, AttributeError):
            return False

"""Audits of a ledger from outside: every entry is recomputed, and every broken rule is reported (P3, P4, P7)."""

import hmac
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import get_args

from msgspec.structs import replace

from holdtrue.auditing.findings import Breach, Inspection
from holdtrue.auditing.ledger.ledger_rules import Found, LedgerRules
from holdtrue.codec import convert, decode
from holdtrue.errors import HoldtrueError, IntegrityError, InvalidParameter, RequestError
from holdtrue.events import Event
from holdtrue.exact import read_list
from holdtrue.ledgers import Entry, EntryKind, Ledger, Receipt, Terms, verify
from holdtrue.ledgers.entries import LARGEST, is_private, read_charge
from holdtrue.ledgers.opening import store_at
from holdtrue.records import Answer, Certificate

__all__ = ["audit_ledger"]

_NAMED_ENTRY = re.compile(r"entry (\d+)")


def audit_ledger(
    where: "str | PathLike[str] | Ledger", *, receipts: Iterable[Receipt | Certificate | Answer] = (), data: object = None
) -> Inspection:
    """Recompute a ledger and return every rule that it breaks, not only the first; reads only.

    Law: it finds an entry that does not follow from the ones before it, a charge with a verb or a body that no charge has,
    a total that is no sum, a cost below that of its event, a prefix above the
    cap or an allowance, an event without a guarantee, a response without a charge before it or a second one, a certificate
    that says something else than its entry, more draws than planned, an interval that is not the one the plan gives, and a
    look of a holdout that cost nothing in a run of above threshold that was not paid for or had ended.
    With ``receipts`` (entry and digest, or answers and certificates that were kept) also a history that was rewritten.
    With ``data`` also whether the ledger belongs to that data: what a curator opens (of units with tables, a pair of the
    registry and the tables by name), or a holdout's labels; with ids or weights, a mapping of y_true, ids, weights. Needs: a
    ledger that can be read. Fails: with UnknownName where there is none.
    """
    held = read_list("receipts", receipts, expected="a list of receipts, answers or certificates")
    kept = [_read_receipt(each) for each in held]
    verdict = _find_recount_error(where, kept)
    try:
        place, terms, entries = _read_ledger(where)
    except IntegrityError as error:
        return _report_unreadable(where, str(error))
    audit = _LedgerAudit(terms, LedgerRules.of(terms))
    audit.check_all(entries, receipts=kept, data=data)
    audit.compare_answers([answer for answer in held if type(answer) is Answer])
    # The ledger's own recount is a second opinion: what it finds must not be missing here.
    named = _NAMED_ENTRY.search(verdict or "")
    number = int(named[1]) if named else 0
    known = any(breach.entry == number or not named for breach in audit.breaches)
    if verdict is not None and not known:
        audit.breaches.append(Breach(number, "recount", verdict))
    return audit.make_inspection(place, entries)


def _find_recount_error(where: "str | PathLike[str] | Ledger", receipts: Sequence[Receipt]) -> str | None:
    """Return what the ledger's own recount finds first, None where it finds nothing."""
    try:
        verify(where, receipts=receipts)
    except IntegrityError as error:
        return str(error)
    except TypeError:
        return "an entry is malformed"
    return None


def _read_receipt(kept: object) -> Receipt:
    match kept:
        case Answer(certificate=certificate):
            return certificate.entry, certificate.digest
        case Certificate(entry=number, digest=digest) | (int(number), str(digest)):
            return number, digest
    raise InvalidParameter("receipts", kept, "entry number and digest, or an answer or a certificate that was kept")


def _read_ledger(where: "str | PathLike[str] | Ledger") -> tuple[str, Terms, Sequence[Entry]]:
    """Return the place, the terms and all entries as they are stored."""
    if isinstance(where, Ledger):
        return repr(where), where.terms, where.entries()
    store = store_at(where, read_only=True)
    try:
        return store.where, store.terms, store.entries(-LARGEST, LARGEST)
    finally:
        store.close()


def _report_unreadable(where: "str | PathLike[str] | Ledger", words: str) -> Inspection:
    # A URL may have a password in it.
    place = "a PostgreSQL database" if "://" in str(where) else str(where)
    named = _NAMED_ENTRY.search(words)
    breach = Breach(int(named[1]) if named else 0, "recount", words)
    note = "nothing else could be checked: the ledger cannot be read to its end"
    return Inspection(place, "", 0, 0, 0, 0, 0, "units", "", (breach,), (), (note,))


@dataclass(slots=True)
class _LedgerAudit:
    """The running state of an audit: what the next entry must agree with, computed here and never read from the ledger."""

    terms: Terms
    rules: LedgerRules
    spent: int = 0
    analysts: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    requests: set[str] = field(default_factory=set)
    charges: dict[int, Entry] = field(default_factory=dict)
    responses: dict[int, int] = field(default_factory=dict)
    answered: set[str | None] = field(default_factory=set)
    breaches: list[Breach] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def check_all(self, entries: Sequence[Entry], *, receipts: Sequence[Receipt], data: object) -> None:
        """Check the terms, then entry by entry, then what was kept outside."""
        self._add_breaches(0, self.rules.check_terms(), ["plan"])
        if self.rules.plan is None:
            self.notes.append("the ledger has no plan: its intervals were not recomputed")
        before = (0, self.terms.digest)
        for entry in entries:
            self._check_entry(entry, before)
            before = entry.receipt
        self._check_receipts(entries, receipts)
        if data is not None:
            self._add_breaches(0, _check_data(self.terms, data), ["data"])

    def _add_breaches(self, number: int, found: Found, rules: Iterable[str]) -> None:
        self.checked.update(rules)
        self.breaches += [Breach(number, rule, words) for rule, words in found]

    def _check_rule(self, number: int, rule: str, *, right: bool, otherwise: str) -> None:
        self._add_breaches(number, iter(() if right else ((rule, otherwise),)), [rule])

    def _check_entry(self, entry: Entry, before: Receipt) -> None:
        number = entry.number
        due = before[0] + 1
        if number > due:
            beyond = f", and so are those up to entry {number - 1}" if number > due + 1 else ""
            self._check_rule(due, "chain", right=False, otherwise=f"it is missing{beyond}")
        self._add_breaches(number, self._check_chain(entry, before), ["chain"])
        if any(type(value) is not int for value in (entry.cost, entry.spent)):
            self._check_rule(number, "total", right=False, otherwise="its cost or its total is not a whole number")
            return
        self._add_breaches(number, self._check_sums(entry), ["total", "cap"])
        if entry.analyst is not None:
            self._add_breaches(number, self._check_allowance(entry), ["allowance"])
        if entry.request_id is not None:
            new = entry.request_id not in self.requests
            self._check_rule(number, "request", right=new, otherwise="its request id was used before")
            self.requests.add(entry.request_id)
        match entry.kind:
            case "charge":
                self._add_breaches(number, self._check_cost(entry), ["cost"])
                self.charges[number] = entry
                self._add_breaches(
                    number, self.rules.check_charge(entry), ["form", "run"] if self.rules.has_runs else ["form"]
                )
            case "response":
                self._add_breaches(number, self._check_response(entry), ["response"])
            case "repeat":
                known = entry.request_digest in self.answered
                self._check_rule(number, "response", right=known, otherwise="it repeats what was never answered")
            case "grant":
                self._check_rule(number, "allowance", right=not entry.cost, otherwise="a grant costs something")
        self._add_breaches(number, self._check_totals(entry), ["total"])

    def _check_totals(self, entry: Entry) -> Found:
        """Compare what the plan's limits are checked against with what each charge says of itself."""
        totals = {"draws": self.rules.drawn, "other_spent": self.rules.other, "charges": len(self.charges)}
        for name, total in totals.items():
            if getattr(entry, name) != total:
                yield "total", f"it says {name} {getattr(entry, name)}, and the charges up to it make {total}"

    def _check_chain(self, entry: Entry, before: Receipt) -> Found:
        if entry.kind not in get_args(EntryKind):
            yield "chain", f"its kind is not one of {', '.join(get_args(EntryKind))}"
        if entry.number <= before[0]:
            yield "chain", f"its number is not above {before[0]}, the number before it"
        if entry.previous != before[1]:
            yield "chain", "it does not follow the entry before it"
        try:
            entry.check_digest(self.terms.ledger_id)
        except IntegrityError:
            yield "chain", "its digest is not that of its contents"

    def _check_sums(self, entry: Entry) -> Found:
        if entry.cost < 0:
            yield "cost", "its cost is below 0"
        if entry.kind in ("response", "repeat") and entry.cost:
            yield "cost", f"a {entry.kind} costs something"
        draws = self._read_draws(entry)
        self.spent += entry.cost if draws or self.terms.purse is None else 0
        if entry.spent != self.spent:
            yield "total", f"it says {entry.spent} units were spent, and the costs up to it sum to {self.spent}"
        if entry.cost and self.spent > self.terms.cap:
            yield "cap", f"{self.spent} units are spent with it, and the cap is {self.terms.cap}"

    def _read_draws(self, entry: Entry) -> int:
        """Return how many planned draws an entry says it makes: a charge without any is the second purse's."""
        try:
            return read_charge(entry).draws if entry.kind == "charge" else 1
        except IntegrityError:
            return 1

    def _check_allowance(self, entry: Entry) -> Found:
        spent, allowance = self.analysts.get(entry.analyst or "", (0, None))
        spent += self.terms.share_of_cap(entry.cost, self._read_draws(entry))
        allowance = entry.allowance if entry.kind == "grant" else allowance
        self.analysts[entry.analyst or ""] = (spent, allowance)
        if entry.analyst_spent != spent:
            yield "total", f"it says the analyst spent {entry.analyst_spent} units, and the costs sum to {spent}"
        if entry.allowance != allowance:
            yield "allowance", f"it says the allowance is {entry.allowance}, and {allowance} was granted"
        if entry.cost and allowance is not None and spent > allowance:
            yield "allowance", f"the analyst has spent {spent} units with it, and the allowance is {allowance}"

    def _check_cost(self, entry: Entry) -> Found:
        limit = self.terms.find_filter(self._read_draws(entry))
        try:
            event = decode(entry.event or "", Event)
            if not is_private(event):
                yield "privacy", "its event carries no guarantee (NonPrivate)"
                return
            floor = limit.cost(event)
        except (HoldtrueError, ValueError, TypeError, AttributeError):
            yield "cost", f"its event has no cost in {limit.currency}"
            return
        if entry.cost < floor:
            yield "cost", f"it costs {entry.cost} units, and its event costs {floor}"

    def _check_response(self, entry: Entry) -> Found:
        charge = self.charges.get(entry.answers or 0)
        if charge is None:
            yield "response", f"it answers entry {entry.answers}, which is not an earlier charge"
            return
        if charge.number in self.responses:
            yield "response", f"entry {charge.number} was answered before, by entry {self.responses[charge.number]}"
        if entry.request_digest != charge.request_digest:
            yield "response", f"it answers another request than entry {charge.number} was charged for"
        if entry.verb != charge.verb:
            yield "form", f"it answers another verb than entry {charge.number} was charged for"
        self.responses.setdefault(charge.number, entry.number)
        self.answered.add(entry.request_digest)
        self._add_breaches(entry.number, self.rules.check_response(charge, entry), ["certificate", "interval"])

    def _check_receipts(self, entries: Sequence[Entry], receipts: Sequence[Receipt]) -> None:
        known = {0: self.terms.digest} | {entry.number: entry.digest for entry in entries}
        for number, digest in receipts:
            found = known.get(number)
            words = "there is a receipt for it, and it is missing" if found is None else "it is not the entry of the receipt"
            self._check_rule(number, "receipt", right=found == digest, otherwise=words)

    def compare_answers(self, answers: Sequence[Answer]) -> None:
        """Look for answers that were kept outside among the stored ones, whether or not they were repeats."""
        for answer in answers:
            stored = self.rules.told.get(answer.certificate.entry, ())
            there = replace(answer, repeated=False) in stored
            words = "an answer that was kept is not the one that is stored"
            self._check_rule(answer.certificate.entry, "receipt", right=there, otherwise=words)

    def make_inspection(self, place: str, entries: Sequence[Entry]) -> Inspection:
        """Return what was found."""
        terms = self.terms
        return Inspection(
            where=place,
            ledger_id=terms.ledger_id,
            entries=len(entries),
            charges=len(self.charges),
            responses=len(self.responses),
            spent=self.spent,
            left=terms.cap - self.spent,
            currency=terms.filter.currency,
            head=entries[-1].digest if entries else terms.digest,
            breaches=tuple(sorted(self.breaches)),
            checked=tuple(sorted(self.checked.items())),
            notes=tuple(self.notes),
            purse=self._count_purse(),
        )

    def _count_purse(self) -> tuple[str, int, int] | None:
        second, spent = self.terms.purse, self.rules.other
        return None if second is None else (second.currency, spent, second.cap_units - spent)


def _check_data(terms: Terms, data: object) -> Found:
    """Say whether data are others than the ledger was created with: by the fingerprint under its key."""
    from holdtrue.engines import open_as, open_engine
    from holdtrue.holdouts.cases import cases_of
    from holdtrue.queries.cards import Card

    try:
        document = json.loads(terms.card)
        if "holdout" in document:
            cases = cases_of(**data) if isinstance(data, Mapping) else cases_of(data)
            engine = open_engine(cases.columns())
        else:
            rows, tables = data if isinstance(data, tuple) else (data, None)
            engine = open_as(convert(document, Card), rows, tables=tables)
        try:
            fingerprint = engine.fingerprint(bytes.fromhex(terms.key)).hex()
        finally:
            engine.close()
    except (RequestError, ValueError, TypeError):
        yield "data", "the data do not have the columns that the ledger was created with"
        return
    if not hmac.compare_digest(fingerprint, terms.fingerprint):
        yield "data", "these are not the data that the ledger was created with"

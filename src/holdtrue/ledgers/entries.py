"""What a ledger holds: its terms, fixed at creation, and entries, each chained to the one before.

The chain: an entry's digest is SHA-256 over its fields, the ledger's random number and the digest before it; the first one
follows the digest of the terms. So a digest covers everything written up to it, and anyone with a receipt (an entry's number
and digest) can tell whether any of that was changed since.

The hashed bytes never change: a JSON array without spaces, in UTF-8, text escaped as in RFC 8785, of a tag that names the
form and its version, then the fields in the order they are declared here (:func:`digest_entry`, :attr:`Terms.digest`).
"""

import hashlib
import operator
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from holdtrue.accounting.filters import CountedFilter, Filter, GaussianFilter, PureFilter, RhoPurse, ZeroConcentratedFilter
from holdtrue.accounting.purses import Currency, Purse
from holdtrue.codec import convert, encode
from holdtrue.errors import IntegrityError, InvalidParameter
from holdtrue.events import Composed, Event, NonPrivate, Repeated
from holdtrue.exact import count

__all__ = [
    "COLUMNS",
    "LARGEST",
    "VERBS",
    "Charge",
    "Charged",
    "Entry",
    "EntryKind",
    "FilterKind",
    "Limits",
    "Receipt",
    "Terms",
    "check_entries",
    "check_text",
    "digest_entry",
    "is_private",
    "read_charge",
    "read_clock",
    "write_charge",
    "write_grant",
    "write_repeat",
    "write_response",
]

FilterKind: TypeAlias = Literal["gdp", "zcdp", "pure"]
EntryKind: TypeAlias = Literal["charge", "response", "repeat", "grant"]
Receipt: TypeAlias = tuple[int, str]
"""The number and the digest of an entry, kept outside the ledger."""

LARGEST = 2**63 - 1
"""The largest number of units: a cap of 9,223 in mu squared, in rho or in epsilon. Totals never pass the cap."""

VERBS = frozenset(
    {"ask", "certify", "evaluate", "fit", "gate", "incumbent", "learn", "marginals", "mean", "predict"}
    | {"quantile", "restore", "score", "screen", "select", "submit", "table", "watch"}
    | {"auc", "best_error", "correlation", "covariance", "gini", "pairs", "r_squared", "ratio", "variance"}
)
"""What a charge may be for: every verb, holdout mode and estimator, and what a restored ledger had forgotten."""

_TERMS_TAG, _ENTRY_TAG = "holdtrue terms 1", "holdtrue entry 1"
_FILTERS: dict[str, type[Filter]] = {"gdp": GaussianFilter, "zcdp": ZeroConcentratedFilter, "pure": PureFilter}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME = 200
_SEALED = "sha256:"
_EVENTS = get_args(Event)
_PLAIN = {int, str, type(None)}
_LAST_SECOND = 1 << 40  # some 34,000 years from now


@cache
def _make_filter(kind: FilterKind, cap: int, group: int) -> Filter:
    return _FILTERS[kind](cap, group)


@cache
def _read_group(plan: str) -> int:
    """Return how many rows a plan protects together; plans of holdouts and estimators know of single ones only."""
    try:
        found = msgspec.json.decode(plan)
    except msgspec.DecodeError:
        return 1
    group = found.get("group", 1) if isinstance(found, dict) else 1
    return group if type(group) is int and group >= 1 else 1


@cache
def _read_purse(plan: str) -> Purse | None:
    """Return the purse beside the ledger's own currency that a plan opens; None for all plans with one currency."""
    if '"purse"' not in plan:
        return None
    try:
        found = msgspec.json.decode(plan)
    except msgspec.DecodeError:
        return None
    held = found.get("purse") if isinstance(found, dict) else None
    purse = None if held is None else convert(held, Purse)
    return purse if purse is not None and purse.is_second else None


@dataclass(frozen=True)
class Terms:
    """What a ledger was created with; nothing of it ever changes. Key and fingerprint are secret: no repr has them.

    A ledger has one currency and one cap, those of questions. Its plan may open a second purse, with its own currency and
    cap, for all charges without planned draws; neither lends to the other (V3.1).
    """

    ledger_id: str
    kind: FilterKind
    cap: int
    plan: str
    card: str
    iid: bool
    created: int
    fingerprint: str = field(repr=False)
    key: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(FilterKind):
            raise InvalidParameter("kind", self.kind, f"one of {', '.join(get_args(FilterKind))}")
        if count("cap", self.cap) > LARGEST or type(self.cap) is not int:
            raise InvalidParameter("cap", self.cap, f"a whole number, at most {LARGEST} units of 1e-15")
        if type(self.iid) is not bool:
            raise InvalidParameter("iid", self.iid, "True or False")
        for name in ("kind", "plan", "card", "fingerprint"):
            object.__setattr__(self, name, check_text(name, getattr(self, name)))
        if self.purse is not None and (self.kind != "gdp" or not 0 < self.purse.cap_units <= LARGEST):
            raise InvalidParameter.without_value("plan", "one whose second purse is beside a ledger in mu squared")

    @cached_property
    def purse(self) -> Purse | None:
        """Return the second purse, None where the ledger has one currency."""
        return _read_purse(self.plan)

    @cached_property
    def reserve_filter(self) -> Filter:
        """Return what prices charges without planned draws."""
        purse, group = self.purse, _read_group(self.plan)
        if purse is None:
            return self.filter
        return (
            CountedFilter(purse.cap_units, group, purse.epsilon)
            if purse.currency == "draws"
            else RhoPurse(purse.cap_units, group)
        )

    def find_filter(self, draws: int) -> Filter:
        """Return what prices a charge with this many planned draws: the second purse's for none, where there is one."""
        return self.filter if draws or self.purse is None else self.reserve_filter

    def name_purse(self, draws: int) -> Currency | None:
        """Return what the body of a charge says of its purse; nothing where there is only one."""
        return None if self.purse is None else "mu" if draws else self.purse.currency

    def share_of_cap(self, cost: int, draws: int) -> int:
        """Return what counts for an analyst's allowance: of a second purse the same share of the cap, rounded up."""
        if draws or self.purse is None:
            return cost
        return -(-cost * self.cap // self.purse.cap_units)

    @cached_property
    def filter(self) -> Filter:
        """Return the filter: the currency and the cap over all analysts, and how many rows of one person it counts for."""
        return _make_filter(self.kind, self.cap, _read_group(self.plan))

    @property
    def tv(self) -> float:
        """Return the total variation that everything released keeps within: that of the cap, or of both (V6.4)."""
        limit, second = self.filter, self.purse
        return second.delta(limit.mu, 0.0) if second is not None and isinstance(limit, GaussianFilter) else limit.tv

    @property
    def digest(self) -> str:
        """Return the digest that the first entry follows. Of the secrets it holds a hash, under a key of 256 random bits."""
        public = self.ledger_id, self.kind, self.cap, self.plan, self.card, int(self.iid), self.created
        return _digest_values(_TERMS_TAG, *public, self.fingerprint, self.without_key().key)

    @property
    def is_sealed(self) -> bool:
        """Return whether these are the terms of a copy, which has a hash in place of the key."""
        return self.key.startswith(_SEALED)

    def without_key(self) -> "Terms":
        """Return the same terms, with the same digest, without the key: no guess of the rows can be checked with them."""
        return self if self.is_sealed else replace(self, key=_SEALED + hashlib.sha256(self.key.encode()).hexdigest())


class Entry(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One entry of a ledger. Costs are whole units of 1e-15.

    On a ledger with two purses ``cost`` is in the currency of the purse that the charge names, ``spent`` is the total of the
    questions' purse and ``other_spent`` that of the second one.

    Running totals include this entry: ``spent`` and ``analyst_spent`` in units, ``draws`` (noise draws of planned
    questions), ``other_spent`` (what charges without such draws cost) and ``charges`` (how many). So whatever a price or a
    limit depends on is in the newest entry.

    ``kind`` is "charge"; "response", whose ``body`` is what left and ``answers`` the number of its charge; "repeat", a
    request that an older answer served for nothing; or "grant", a new allowance. ``fresh`` and ``response`` are not part of
    the entry: they tell the caller whether this very call wrote it, and what was stored as its response.
    """

    number: int
    kind: EntryKind
    time: int
    request_id: str | None
    request_digest: str | None
    analyst: str | None
    verb: str
    cost: int
    spent: int
    analyst_spent: int | None
    allowance: int | None
    draws: int
    other_spent: int
    charges: int
    event: str | None
    answers: int | None
    body: str | None
    previous: str
    digest: str
    fresh: bool = False
    response: str | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and _ROW(self) == _ROW(other)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def receipt(self) -> Receipt:
        """Return what to keep outside the ledger: number and digest."""
        return self.number, self.digest

    def with_response(self, response: str | None, *, fresh: bool = False) -> "Entry":
        """Return the same entry with what the caller is told besides."""
        return msgspec.structs.replace(self, fresh=fresh, response=response)

    def check_digest(self, ledger_id: str) -> None:
        """Raise IntegrityError if the digest is not that of the fields."""
        check_entries((self,), ledger_id=ledger_id)


COLUMNS = tuple(name for name in Entry.__struct_fields__ if name not in ("fresh", "response"))
_ROW = operator.attrgetter(*COLUMNS)
_HASHED = operator.attrgetter(*[name for name in COLUMNS if name != "digest"])


def check_entries(entries: Iterable[Entry], *, ledger_id: str) -> None:
    """Raise IntegrityError at the first entry whose digest is not that of its fields."""
    for entry in entries:
        try:
            right = digest_entry(_HASHED(entry), ledger_id=ledger_id) == entry.digest
        except (TypeError, ValueError):  # a value that no entry has, in a damaged row
            right = False
        if not right:
            message = f"entry {entry.number!r}: its digest is not that of its contents"
            raise IntegrityError(message)


def digest_entry(line: tuple[Any, ...], *, ledger_id: str) -> str:
    """Return the digest of an entry, given all its fields but the digest in their order, and the ledger's number.

    Needs: whole numbers, texts and None. Fails: TypeError for any other value, which no entry has.
    """
    return _digest_values(_ENTRY_TAG, ledger_id, *line)


def _digest_values(*values: object) -> str:
    # Bytes have the JSON of the text that encodes them, and True another one than the 1 that a store makes of it.
    if not _PLAIN.issuperset(map(type, values)):
        message = "a ledger holds whole numbers, texts and None"
        raise TypeError(message)
    return hashlib.sha256(msgspec.json.encode(values)).hexdigest()


class Limits(msgspec.Struct, frozen=True):
    """What a plan holds: this many noise draws of questions, and this much, in units, for all charges without such draws.

    ``question`` is the cost of one question, for words: refusals count in questions.
    """

    draws: int
    other: int
    question: int = 0


class Charged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the entry of a charge says of its request."""

    draws: Annotated[int, msgspec.Meta(ge=0)]
    parts: tuple[str, ...]
    request: dict[str, Any]
    purse: Currency | None = None


class Charge(msgspec.Struct, frozen=True):
    """A request to charge: what is asked, by whom, what it does to privacy and what it costs.

    ``request_id`` is the caller's key for this one request, ``request_digest`` the SHA-256 of what is asked in canonical
    form. ``cost`` may be left out: then it is what the event costs in the ledger's currency. A batch is one charge.
    ``draws``, ``parts`` and ``request`` (canonical JSON, public words only) are what the entry keeps as its body, the same
    form for every verb, holdout mode and estimator. ``limits`` are those of the plan, checked with the cap.
    """

    request_id: str
    request_digest: str
    analyst: str
    verb: str
    event: Event
    cost: int | None = None
    draws: int = 0
    parts: tuple[str, ...] = ()
    request: str = "{}"
    limits: Limits | None = None

    def __post_init__(self) -> None:
        for name in ("request_id", "analyst", "verb", "request_digest", "request"):
            value = getattr(self, name)
            if (text := check_text(name, value)) is not value:  # a subclass of text
                msgspec.structs.force_setattr(self, name, text)
        msgspec.structs.force_setattr(self, "parts", tuple([_check_unicode("parts", part) for part in self.parts]))
        for name, value in (("request_id", self.request_id), ("analyst", self.analyst), ("verb", self.verb)):
            if not 0 < len(value) <= _LONGEST_NAME:
                raise InvalidParameter(name, value, f"text of 1 to {_LONGEST_NAME} characters")
        if self.verb not in VERBS:
            raise InvalidParameter("verb", self.verb, f"one of {', '.join(sorted(VERBS))}")
        for name, number in (("draws", self.draws), ("cost", 0 if self.cost is None else self.cost)):
            if type(number) is not int or not 0 <= number <= LARGEST:
                raise _refuse_number(name, number)
        if not _DIGEST.fullmatch(self.request_digest):
            raise InvalidParameter("request_digest", self.request_digest, "64 hexadecimal digits in lower case")
        if not isinstance(self.event, _EVENTS):
            raise InvalidParameter("event", self.event, "an event of holdtrue.events")

    def write_body(self, purse: Currency | None) -> str:
        """Return what the entry keeps of the request: draws, parts and request as JSON, and of two purses which one pays."""
        document = {"draws": self.draws, "parts": self.parts, "request": msgspec.Raw(self.request)}
        return msgspec.json.encode(document if purse is None else document | {"purse": purse}).decode()


def read_charge(entry: Entry) -> Charged:
    """Return what a charge's body says; IntegrityError for a verb or a body that this version does not write."""
    if entry.verb not in VERBS:
        message = f"entry {entry.number} is a charge for an unknown verb"
        raise IntegrityError(message)
    try:
        return _CHARGED.decode(entry.body or "")
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        message = f"entry {entry.number} is malformed: its body is not that of a charge"
        raise IntegrityError(message) from None


_CHARGED = msgspec.json.Decoder(Charged)


def write_charge(terms: Terms, head: Entry | None, last: Entry | None, request: Charge, *, cost: int) -> Entry:
    """Return the charge of a request as the entry after ``head``; ``last`` is the analyst's last entry."""
    facts = _EntryFacts(
        kind="charge",
        verb=request.verb,
        analyst=request.analyst,
        request_id=request.request_id,
        request_digest=request.request_digest,
        cost=cost,
        draws=request.draws,
        event=encode(request.event),
        body=request.write_body(terms.name_purse(request.draws)),
    )
    return _next_entry(terms, head, last, facts, fresh=True)


def write_repeat(terms: Terms, head: Entry | None, last: Entry | None, request: Charge) -> Entry:
    """Return the entry of a request that an older answer serves, for nothing."""
    facts = _EntryFacts(
        kind="repeat",
        verb=request.verb,
        analyst=request.analyst,
        request_id=request.request_id,
        request_digest=request.request_digest,
    )
    return _next_entry(terms, head, last, facts, fresh=False)


def write_response(terms: Terms, head: Entry | None, charged: Entry, body: str) -> Entry:
    """Return the entry of a response to a charge; InvalidParameter for a body that not every store keeps as it is."""
    facts = _EntryFacts(
        kind="response",
        verb=charged.verb,
        request_digest=charged.request_digest,
        answers=charged.number,
        body=check_text("body", body),
    )
    return _next_entry(terms, head, None, facts, fresh=True)


def write_grant(terms: Terms, head: Entry | None, last: Entry | None, analyst: str, *, allowance: int | None) -> Entry:
    """Return the entry that sets an analyst's allowance in units; None lifts it."""
    if allowance is not None and count("allowance", allowance, least=0) > LARGEST:
        raise InvalidParameter("allowance", allowance, f"at most {LARGEST} units of 1e-15")
    return _next_entry(terms, head, last, _EntryFacts("grant", "grant", analyst=analyst, allowance=allowance), fresh=True)


class _EntryFacts(NamedTuple):
    """What a new entry says of itself; number, time, totals and digests follow from the entries before it."""

    kind: EntryKind
    verb: str
    analyst: str | None = None
    request_id: str | None = None
    request_digest: str | None = None
    cost: int = 0
    draws: int = 0
    allowance: int | None = None
    event: str | None = None
    answers: int | None = None
    body: str | None = None


def _next_entry(terms: Terms, head: Entry | None, last: Entry | None, facts: _EntryFacts, *, fresh: bool) -> Entry:
    """Return the next entry of the chain, with its totals; an allowance stays as it is unless this entry grants one."""
    kind, verb, analyst, request_id, request_digest, cost, draws, allowance, event, answers, body = facts
    paid = cost if draws or terms.purse is None else 0
    counted = terms.share_of_cap(cost, draws)
    line = (
        1 if head is None else head.number + 1,
        kind,
        read_clock(),
        request_id,
        request_digest,
        analyst,
        verb,
        cost,
        paid if head is None else head.spent + paid,
        None if analyst is None else counted if last is None else (last.analyst_spent or 0) + counted,
        allowance if kind == "grant" or last is None else last.allowance,
        draws if head is None else head.draws + draws,
        (0 if head is None else head.other_spent) + (0 if draws else cost),
        (0 if head is None else head.charges) + (kind == "charge"),
        event,
        answers,
        body,
        terms.digest if head is None else head.digest,
    )
    digest = digest_entry(line, ledger_id=terms.ledger_id)
    return Entry(*line, digest, fresh, body if kind == "response" else None)


def read_clock() -> int:
    """Return whole seconds since 1970; 0 where the clock says nothing that a ledger can hold. It decides nothing."""
    now = time.time()
    return int(now) if 0 <= now < _LAST_SECOND else 0


def is_private(event: Event) -> bool:
    """Return whether no part of an event is NonPrivate."""
    match event:
        case NonPrivate():
            return False
        case Repeated(event=inner):
            return is_private(inner)
        case Composed(events=inner):
            return all(map(is_private, inner))
        case _:
            return True


def _refuse_number(name: str, number: object) -> InvalidParameter:
    if name == "cost" and type(number) is int and number > LARGEST:
        return InvalidParameter.saying(name, "this costs more than a ledger counts; give a smaller epsilon or mu")
    return InvalidParameter(name, number, f"a whole number from 0 to {LARGEST}")


def check_text(name: str, value: object) -> str:
    """Return text that every store keeps as it is: Unicode without NUL and without lone surrogates. Never shows the text."""
    if type(value) is str and value.isascii() and "\0" not in value:
        return value
    plain = _check_unicode(name, value)
    if "\0" in plain:
        raise InvalidParameter.without_value(name, "text without NUL characters")
    return plain


def _check_unicode(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidParameter.without_value(name, f"text, not {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidParameter.without_value(name, "valid Unicode, without lone surrogates") from None
    return str.__str__(value)  # not a subclass of it

"""What a ledger holds: its terms, fixed at creation, and entries, each chained to the one before.

The chain: an entry's digest is SHA-256 over the canonical JSON of all its fields, the ledger's random number and the digest
before it; the first one follows the digest of the terms. So a digest speaks for everything that was written up to it, and
whoever keeps a receipt (an entry's number and digest) can tell whether any of that was changed since.
"""

import hashlib
import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from json.encoder import encode_basestring as quoted
from typing import Any, Literal, TypeAlias, get_args

from holdtrue.accounting.filters import Filter, GaussianFilter, PureFilter, ZeroConcentratedFilter
from holdtrue.codec import encode
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
    "event_text",
    "is_private",
    "line_digest",
    "read_charge",
    "text",
    "values_digest",
]

FilterKind: TypeAlias = Literal["gdp", "zcdp", "pure"]
EntryKind: TypeAlias = Literal["charge", "response", "repeat", "grant"]
Receipt: TypeAlias = tuple[int, str]
"""The number and the digest of an entry, kept outside the ledger."""

LARGEST = 2**63 - 1
"""The largest number of units: a cap of 9,223 in mu squared, in rho or in epsilon. Totals never pass the cap."""

VERBS = frozenset(
    ("ask", "certify", "fit", "gate", "incumbent", "learn", "predict", "restore", "score", "screen", "select", "submit")
)
"""What a charge may be for: every verb, holdout mode and estimator, and what a restored ledger had forgotten."""

_FILTERS: dict[str, type[Filter]] = {"gdp": GaussianFilter, "zcdp": ZeroConcentratedFilter, "pure": PureFilter}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME = 200
_SEALED = "sha256:"
_EVENTS = get_args(Event)


@cache
def _filter(kind: FilterKind, cap: int) -> Filter:
    return _FILTERS[kind](cap)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a ledger was created with; nothing of it ever changes. Key and fingerprint are secret: no repr has them."""

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
        if count("cap", self.cap) > LARGEST:
            raise InvalidParameter("cap", self.cap, f"at most {LARGEST} units of 1e-15")
        if type(self.iid) is not bool:
            raise InvalidParameter("iid", self.iid, "True or False")
        for name in ("plan", "card", "fingerprint"):
            text(name, getattr(self, name))

    @property
    def filter(self) -> Filter:
        """Return the filter: the currency and the cap over all analysts."""
        return _filter(self.kind, self.cap)

    @property
    def digest(self) -> str:
        """Return the digest that the first entry follows. Of the secrets it holds a hash, under a key of 256 random bits."""
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        document["key"] = self.sealed().key.removeprefix(_SEALED)
        return _sha256(encode(document))

    @property
    def is_sealed(self) -> bool:
        """Return whether these are the terms of a copy, which has a hash in place of the key."""
        return self.key.startswith(_SEALED)

    def sealed(self) -> "Terms":
        """Return the same terms, with the same digest, without the key: nobody can check a guess of the rows with them."""
        return self if self.is_sealed else replace(self, key=_SEALED + _sha256(self.key))


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a ledger. Costs are whole units of 1e-15.

    Running totals include this entry: ``spent`` and ``analyst_spent`` in units, ``draws`` (noise draws of planned
    questions), ``other_spent`` (what charges without such draws cost) and ``charges`` (how many). So whatever a price or a
    limit depends on stands in the newest line.

    ``kind`` is "charge"; "response", whose ``body`` is what left and ``answers`` the number of its charge; "repeat", a
    request that an older answer served for nothing; or "grant", a new allowance. ``fresh`` and ``response`` are not part of
    the line: they tell the caller whether this very call wrote it, and what was stored as its response.
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
    fresh: bool = field(default=False, compare=False)
    response: str | None = field(default=None, compare=False)

    @property
    def receipt(self) -> Receipt:
        """Return what to keep outside the ledger: number and digest."""
        return self.number, self.digest

    def told(self, *, fresh: bool = False, response: str | None = None) -> "Entry":
        """Return the same line with what the caller is told beside it."""
        # As dataclasses.replace would, without looking every field up by name again: a charge waits for this.
        line = object.__new__(Entry)
        for name in COLUMNS:
            object.__setattr__(line, name, getattr(self, name))
        object.__setattr__(line, "fresh", fresh)
        object.__setattr__(line, "response", response)
        return line

    def checked(self, ledger_id: str) -> "Entry":
        """Return the entry; raise IntegrityError if its digest is not that of its fields."""
        line = _LINE(self)
        try:
            digest: str | None = values_digest(line, ledger=quoted(ledger_id))
        except (TypeError, UnicodeError):  # what no entry has, in a damaged row
            digest = _digest_of_anything(line, ledger_id)
        if digest != self.digest:
            message = f"entry {self.number!r}: its digest is not that of its contents"
            raise IntegrityError(message)
        return self


COLUMNS = tuple(item.name for item in fields(Entry) if item.name not in ("fresh", "response"))
_HASHED = tuple(name for name in COLUMNS if name != "digest")
_LINE: Callable[["Entry"], tuple[Any, ...]] = operator.attrgetter(*_HASHED)


def _digest_of_anything(line: tuple[Any, ...], ledger_id: str) -> str | None:
    try:
        return line_digest(dict(zip(_HASHED, line, strict=True)), ledger_id=ledger_id)
    except (TypeError, ValueError):
        return None


def line_digest(line: Mapping[str, object], *, ledger_id: str) -> str:
    """Return the digest of an entry's fields, the digest before it among them, and of the ledger's number."""
    return _sha256(encode({**line, "ledger": ledger_id}))


def values_digest(line: tuple[Any, ...], *, ledger: str) -> str:
    """Return what :func:`line_digest` does, given all fields but the digest in their order, and the ledger's number quoted.

    Law: the same bytes are hashed, written out field by field, since every charge and every answer waits for this. Needs:
    whole numbers and texts where an entry has them. Fails: TypeError for any other value.
    """
    (number, kind, time, request_id, request_digest, analyst, verb, cost) = line[:8]
    (spent, analyst_spent, allowance, draws, other_spent, charges, event, answers, body, previous) = line[8:]
    return _sha256(
        f'{{"allowance":{_whole(allowance)},"analyst":{_quoted(analyst)},"analyst_spent":{_whole(analyst_spent)},'
        f'"answers":{_whole(answers)},"body":{_quoted(body)},"charges":{_digits(charges)},"cost":{_digits(cost)},'
        f'"draws":{_digits(draws)},"event":{_quoted(event)},"kind":{quoted(kind)},"ledger":{ledger},'
        f'"number":{_digits(number)},"other_spent":{_digits(other_spent)},"previous":{quoted(previous)},'
        f'"request_digest":{_quoted(request_digest)},"request_id":{_quoted(request_id)},"spent":{_digits(spent)},'
        f'"time":{_digits(time)},"verb":{quoted(verb)}}}'
    )


_digits = int.__repr__


def _whole(value: int | None) -> str:
    return "null" if value is None else _digits(value)


def _quoted(value: str | None) -> str:
    return "null" if value is None else quoted(value)


def _sha256(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan holds: this many noise draws of questions, and this much, in units, for all charges without such draws."""

    draws: int
    other: int


@dataclass(frozen=True, slots=True)
class Charge:
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
        for name in ("request_id", "analyst", "verb"):
            _name(name, getattr(self, name))
        if self.verb not in VERBS:
            raise InvalidParameter("verb", self.verb, f"one of {', '.join(sorted(VERBS))}")
        count("draws", self.draws, least=0)
        text("request", self.request)
        if not _DIGEST.fullmatch(text("request_digest", self.request_digest)):
            raise InvalidParameter("request_digest", self.request_digest, "64 hexadecimal digits in lower case")
        if not isinstance(self.event, _EVENTS):
            raise InvalidParameter("event", self.event, "an event of holdtrue.events")
        if self.cost is not None:
            count("cost", self.cost, least=0)

    @property
    def body(self) -> str:
        """Return what the entry keeps of the request: the canonical JSON of draws, parts and request."""
        parts = ",".join([quoted(part) for part in self.parts])
        return f'{{"draws":{self.draws},"parts":[{parts}],"request":{self.request}}}'


@dataclass(frozen=True, slots=True)
class Charged:
    """What the entry of a charge says of its request."""

    draws: int
    parts: tuple[str, ...]
    request: dict[str, Any]


def read_charge(entry: Entry) -> Charged:
    """Return what a charge's body says; IntegrityError for a verb or a body that this version does not write."""
    if entry.verb not in VERBS:
        message = f"entry {entry.number} is a charge for an unknown verb"
        raise IntegrityError(message)
    try:
        document = json.loads(entry.body or "")
        draws, parts, request = document["draws"], document["parts"], document["request"]
        right = len(document) == len(fields(Charged)) and type(draws) is int and draws >= 0  # a boolean is no count
        right = right and isinstance(request, dict) and isinstance(parts, list)
        right = right and all(isinstance(part, str) for part in parts)
    except (ValueError, KeyError, TypeError):
        right = False
    if not right:
        message = f"entry {entry.number} is malformed: its body is not that of a charge"
        raise IntegrityError(message)
    return Charged(draws, tuple(parts), request)


def event_text(event: Event) -> str:
    """Return an event as canonical JSON; most are the very object that came last, so no fraction is hashed again."""
    known = _LAST_EVENT.get(id(event))
    if known is None or known[0] is not event:
        known = event, encode(event)
        if len(_LAST_EVENT) >= _MOST_EVENTS:
            _LAST_EVENT.clear()
        _LAST_EVENT[id(event)] = known
    return known[1]


_MOST_EVENTS = 1024
# By the number of an object that is kept beside: while it is, no other object has that number.
_LAST_EVENT: dict[int, tuple[Event, str]] = {}


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


def text(name: str, value: object) -> str:
    """Return text that every store keeps as it is: Unicode without NUL and without lone surrogates. Never shows the text."""
    if not isinstance(value, str):
        raise InvalidParameter(name, type(value).__name__, "text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidParameter(name, "lone surrogates", "valid Unicode text") from None
    if "\0" in value:
        raise InvalidParameter(name, "a NUL", "text without NUL")
    return value


def _name(name: str, value: object) -> None:
    if not text(name, value) or len(str(value)) > _LONGEST_NAME:
        raise InvalidParameter(name, value, f"text of 1 to {_LONGEST_NAME} characters")

"""An index over a ledger: which parts of requests were answered, and where the totals stand."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from holdtrue.curator.history import responses_of
from holdtrue.errors import IntegrityError
from holdtrue.ledgers.entries import Entry, read_charge
from holdtrue.ledgers.ledger import Ledger
from holdtrue.records import Response
from holdtrue.verbs import DEDUCED, Standing

__all__ = ["AnswerIndex"]

K = TypeVar("K")
V = TypeVar("V")
Parts: TypeAlias = tuple[str, ...] | None
_RECENT = 4096
_PLACES = 1 << 20  # more than one request has parts
_MOST_FREE_KEYS = 10_000


class AnswerIndex:
    """A ledger's entries by what they answer, read once and then followed: everything in it stands in the ledger.

    Entries are in one order for everyone who shares the ledger, so the totals up to an entry are the same for all. Of an
    answered part only its place in the ledger is kept, and its answer for a while; so a long ledger takes little memory.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._places: dict[str, int] = {}
        self._recent: OrderedDict[str, Response] = OrderedDict()
        self._decoded: tuple[int, list[Response]] = (0, [])
        self._open: dict[int, tuple[str, ...]] = {}
        self.charges = 0
        self.draws = 0
        self.spent = 0
        self.other_cost = 0
        self._free_keys = 0

    def follow(self) -> None:
        """Read the entries made since the last call."""
        last = self._ledger.newest()
        if last > self._seen:
            for entry in self._ledger.entries(self._seen + 1, last + 1):
                self._note_entry(entry)
            self._seen = last

    def take_entry(self, entry: Entry, *, parts: Parts = None, records: Sequence[Response] | None = None) -> None:
        """Read an entry that was just made, after any that others made before it.

        ``parts`` or ``records`` are what its body says, where whoever wrote the body still has them.
        """
        if entry.number == self._seen + 1:
            self._note_entry(entry, parts, records)
            self._seen = entry.number
        else:
            self.follow()

    def _note_entry(self, entry: Entry, parts: Parts = None, records: Sequence[Response] | None = None) -> None:
        self.charges, self.draws, self.spent, self.other_cost = entry.charges, entry.draws, entry.spent, entry.other_spent
        if entry.kind == "charge":
            self._open[entry.number] = read_charge(entry).parts if parts is None else parts
            free = all(part.startswith(DEDUCED) for part in self._open[entry.number])
            self._free_keys += free and not entry.cost
        elif entry.kind == "repeat":
            self._free_keys += 1
        elif entry.kind == "response" and entry.body is not None and entry.answers in self._open:
            answered = self._open.pop(entry.answers)
            found = records or responses_of(entry.body)
            if len(found) != len(answered):
                message = f"entry {entry.number} is malformed: it has {len(found)} responses to {len(answered)} parts"
                raise IntegrityError(message)
            for place, (part, record) in enumerate(zip(answered, found, strict=True)):
                if part not in self._places:
                    self._places[part] = entry.number * _PLACES + place
                    _keep_recent(self._recent, part, record)

    def binds_key(self, key: str | None) -> bool:
        """Return whether to record a key whose request older answers serve, so that it cannot name another request.

        Such keys cost nothing, so the ledger takes a limited number of them; later ones are not bound to their request. A
        key that is there already is looked up in any case.
        """
        if key is None or self.has_room():
            return key is not None
        return self._ledger.find(request_id=key) is not None

    def has_room(self) -> bool:
        """Return whether the ledger still takes entries that cost nothing, of which it has a limited number."""
        return self._free_keys < _MOST_FREE_KEYS

    def find_payer(self, part: str) -> str | None:
        """Return which analyst paid for the answer to a part, None where it was never answered."""
        place = self._places.get(part)
        if place is None:
            return None
        (response,) = self._ledger.entries(place // _PLACES, place // _PLACES + 1)
        (charge,) = self._ledger.entries(response.answers or 0, (response.answers or 0) + 1)
        return charge.analyst

    def has(self, part: str) -> bool:
        """Return whether a part was answered."""
        return part in self._places

    def standing(self) -> Standing:
        """Return where a charge that costs nothing would stand if it were made now."""
        return Standing(self.draws, self.spent, self.charges)

    def answer(self, part: str) -> Response | None:
        """Return the answer to a part as it was stored, or None where it was never answered."""
        known = self._recent.get(part)
        place = self._places.get(part)
        if known is None and place is not None:
            number, at = divmod(place, _PLACES)
            if self._decoded[0] != number:  # a request of many parts reads one entry once, not once for each
                (entry,) = self._ledger.entries(number, number + 1)
                self._decoded = number, responses_of(entry.body or "[]")
            known = self._decoded[1][at]
            _keep_recent(self._recent, part, known)
        return known


def _keep_recent(kept: OrderedDict[K, V], key: K, value: V) -> None:
    """Keep the newest items and drop the oldest."""
    kept[key] = value
    if len(kept) > _RECENT:
        kept.popitem(last=False)

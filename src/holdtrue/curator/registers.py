"""What a curator remembers of its ledger: which questions were answered, and how many were asked."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from holdtrue.curator.histories import responses_of
from holdtrue.ledgers import Entry, Ledger
from holdtrue.records import Response
from holdtrue.verbs import Release, Standing

__all__ = ["Register"]

K = TypeVar("K")
V = TypeVar("V")
_RECENT = 4096
_PLACES = 1 << 20  # more than one request has parts


@dataclass(frozen=True, slots=True)
class _Charged:
    """A charge on its way: the parts it pays for, where it stands, and what other verbs cost up to it."""

    parts: tuple[str, ...]
    standing: Standing
    other: int


class Register:
    """An index over a ledger's entries, read once and then followed: everything in it stands in the ledger.

    Entries are in one order for everyone who shares the ledger, so what is counted up to an entry is the same for all. Of an
    answered part only its place in the ledger is kept, and its answer for a while; so a long ledger takes little memory.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._places: dict[str, int] = {}
        self._recent: OrderedDict[str, Response] = OrderedDict()
        self._open: dict[int, _Charged] = {}
        self._settled: OrderedDict[int, _Charged] = OrderedDict()
        self.charges = 0
        self.draws = 0
        self.other_cost = 0

    def follow(self) -> None:
        """Read what was entered since the last time."""
        last = self._ledger.newest()
        if last > self._seen:
            for entry in self._ledger.entries(self._seen + 1, last + 1):
                self._note(entry)
            self._seen = last

    def take(self, entry: Entry, *, release: Release | None = None, records: Sequence[Response] | None = None) -> None:
        """Read an entry that was just made, and first whatever others made before it.

        ``release`` or ``records`` are what its body says, where whoever wrote the body still has them.
        """
        if entry.number == self._seen + 1:
            self._note(entry, release, records)
            self._seen = entry.number
        else:
            self.follow()

    def _note(self, entry: Entry, release: Release | None = None, records: Sequence[Response] | None = None) -> None:
        if entry.kind == "charge" and entry.body is not None:
            if release is None:
                told = json.loads(entry.body)
                parts, draws = tuple(told["parts"]), told["draws"]
            else:
                parts, draws = release.parts, release.draws
            self.draws += draws
            self.other_cost += 0 if draws else entry.cost
            standing = Standing(self.draws, entry.spent, self.charges)
            self._open[entry.number] = _Charged(parts, standing, self.other_cost)
            self.charges += 1
        elif entry.kind == "response" and entry.body is not None and entry.answers in self._open:
            charged = self._open.pop(entry.answers)
            found = records or responses_of(entry.body)
            for place, (part, record) in enumerate(zip(charged.parts, found, strict=True)):
                if part not in self._places:
                    self._places[part] = entry.number * _PLACES + place
                    _keep(self._recent, part, record)
            _keep(self._settled, entry.answers, charged)

    def standing(self, number: int) -> Standing:
        """Return where a charge stands among all charges of the ledger."""
        return self._charged(number).standing

    def other_cost_up_to(self, number: int) -> int:
        """Return what verbs other than ask cost up to an entry, its own included."""
        return self._charged(number).other

    def _charged(self, number: int) -> _Charged:
        """Return a charge that is known; one that was answered long ago is counted again from the first entry."""
        known = self._open.get(number) or self._settled.get(number)
        if known is None:
            again = Register(self._ledger)
            for entry in self._ledger.entries(1, number + 1):
                again._note(entry)
            known = again._open[number]
        return known

    def answer(self, part: str, *, repeated: bool) -> Response | None:
        """Return the answer to a part, or None where it was never answered."""
        place = self._places.get(part)
        if place is None:
            return None
        known = self._recent.get(part)
        if known is None:
            (entry,) = self._ledger.entries(place // _PLACES, place // _PLACES + 1)
            known = responses_of(entry.body or "[]")[place % _PLACES]
            _keep(self._recent, part, known)
        return replace(known, repeated=True) if repeated else known


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    """Keep what came last, and let the oldest go."""
    kept[key] = value
    if len(kept) > _RECENT:
        kept.popitem(last=False)

"""Parts for tests: nothing here keeps a secret.

Bits from a seed can be repeated, so whatever is drawn from them has no guarantee: a mechanism that draws from
:class:`SeededBits` reports the event :class:`~holdtrue.events.NonPrivate`, and a ledger refuses that event.
"""

import copy
import hashlib
from typing import TypeVar

from holdtrue.entropy import Bits, KeyStream, Words
from holdtrue.ledgers.entries import FilterKind
from holdtrue.ledgers.ledger import Ledger
from holdtrue.ledgers.opening import Fingerprint, make_terms
from holdtrue.ledgers.transactions import MemoryStore
from holdtrue.mechanisms.base import Mechanism

__all__ = ["Rehearsal", "SeededBits", "drawing_from"]

M = TypeVar("M", bound=Mechanism)


def drawing_from(mechanism: M, bits: Bits) -> M:
    """Return a copy of a mechanism that draws from other bits, and so has no guarantee."""
    clone = copy.copy(mechanism)
    object.__setattr__(clone, "_bits", bits)
    return clone


class SeededBits:
    """Bits that are the same for the same seed."""

    def __init__(self, seed: str) -> None:
        self._stream = _make_stream(f"words {seed}")
        self._second = _make_stream(f"more {seed}")
        self.generation = object()

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of 64 bits."""
        return self._stream.words(count)

    def more(self) -> int:
        """Return the next 64 bits of the second stream."""
        return int(self._second.words(1)[0])


def _make_stream(seed: str) -> KeyStream:
    digest = hashlib.sha512(seed.encode()).digest()
    return KeyStream(digest[:32], digest[32:48])


def _no_data(key: bytes) -> str:
    del key
    return "rehearsal"


class Rehearsal(Ledger):
    """A ledger in memory that takes NonPrivate events, for tests with seeded bits. Nothing charged here is private."""

    takes_unprotected = True

    def __init__(  # noqa: PLR0913 - one keyword for each of the terms
        self,
        *,
        kind: FilterKind = "gdp",
        cap: int = 10**15,
        plan: str | None = None,
        card: str | None = None,
        iid: bool = False,
        fingerprint: Fingerprint = _no_data,
    ) -> None:
        terms = make_terms(kind=kind, cap=cap, plan=plan, card=card, iid=iid, fingerprint=fingerprint)
        super().__init__(MemoryStore(terms, where="in memory, for rehearsal: nothing here is private"))

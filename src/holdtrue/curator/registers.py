"""What a curator remembers of its ledger: which questions were answered, and how many were asked."""

import json
from collections.abc import Sequence
from dataclasses import replace

from holdtrue.curator.histories import responses_of
from holdtrue.ledgers import Entry, Ledger
from holdtrue.records import Response
from holdtrue.verbs import Standing

__all__ = ["Register"]


class Register:
    """An index over a ledger's entries, read once and then followed: everything in it stands in the ledger.

    Entries are in one order for everyone who shares the ledger, so what is counted up to an entry is the same for all.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._parts: dict[int, list[str]] = {}
        self._answers: dict[str, Response] = {}
        self._standings: dict[int, Standing] = {}
        self._other: dict[int, int] = {}
        self.draws = 0
        self.other_cost = 0

    @property
    def charges(self) -> int:
        """Return how many charges of any verb there are."""
        return len(self._standings)

    def follow(self) -> None:
        """Read what was entered since the last time."""
        last = self._ledger.newest()
        if last > self._seen:
            for entry in self._ledger.entries(self._seen + 1, last + 1):
                self._note(entry)
            self._seen = last

    def take(self, entry: Entry, *, records: Sequence[Response] | None = None) -> None:
        """Read an entry that was just made, and first whatever others made before it.

        ``records`` are what its body says, where whoever wrote the body still has them.
        """
        if entry.number == self._seen + 1:
            self._note(entry, records)
            self._seen = entry.number
        else:
            self.follow()

    def _note(self, entry: Entry, records: Sequence[Response] | None = None) -> None:
        if entry.kind == "charge" and entry.body is not None:
            told = json.loads(entry.body)
            self._parts[entry.number] = told["parts"]
            self.draws += told["draws"]
            self.other_cost += 0 if told["draws"] else entry.cost
            self._standings[entry.number] = Standing(self.draws, entry.spent, len(self._standings))
            self._other[entry.number] = self.other_cost
        elif entry.kind == "response" and entry.body is not None and entry.answers is not None:
            found = records or responses_of(entry.body)
            for part, record in zip(self._parts.get(entry.answers, []), found, strict=True):
                self._answers.setdefault(part, record)

    def standing(self, number: int) -> Standing:
        """Return where a charge stands among all charges of the ledger."""
        return self._standings[number]

    def other_cost_up_to(self, number: int) -> int:
        """Return what verbs other than ask cost up to an entry, its own included."""
        return self._other[number]

    def answer(self, part: str, *, repeated: bool) -> Response | None:
        """Return the answer to a part, or None where it was never answered."""
        known = self._answers.get(part)
        return replace(known, repeated=True) if repeated and known is not None else known

"""What a curator remembers of its ledger: which questions were answered, and how many were asked."""

import json
from dataclasses import replace

from holdtrue.ledgers import Entry, Ledger
from holdtrue.records import Answer, Choice, Record, from_json

__all__ = ["Register"]


class Register:
    """An index over a ledger's entries, read once and then followed: everything in it stands in the ledger.

    Entries are in one order for everyone who shares the ledger, so what is counted up to an entry is the same for all.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._parts: dict[int, list[str]] = {}
        self._answers: dict[str, Record] = {}
        self._draws: dict[int, int] = {}
        self._other: dict[int, int] = {}
        self.draws = 0
        self.other_cost = 0

    def follow(self) -> None:
        """Read what was entered since the last time."""
        last = self._ledger.head[0]
        if last > self._seen:
            for entry in self._ledger.entries(self._seen + 1, last + 1):
                self._note(entry)
            self._seen = last

    def take(self, entry: Entry) -> None:
        """Read an entry that was just made, and first whatever others made before it."""
        if entry.number == self._seen + 1:
            self._note(entry)
            self._seen = entry.number
        else:
            self.follow()

    def _note(self, entry: Entry) -> None:
        if entry.kind == "charge" and entry.body is not None:
            told = json.loads(entry.body)
            self._parts[entry.number] = told["parts"]
            self.draws += told["draws"]
            self.other_cost += 0 if told["draws"] else entry.cost
            self._draws[entry.number], self._other[entry.number] = self.draws, self.other_cost
        elif entry.kind == "response" and entry.body is not None and entry.answers is not None:
            for part, document in zip(self._parts.get(entry.answers, []), json.loads(entry.body), strict=True):
                self._answers.setdefault(part, from_json(document))

    def draws_up_to(self, number: int) -> int:
        """Return how many noise draws the charges up to an entry paid for, its own included."""
        return self._draws[number]

    def other_cost_up_to(self, number: int) -> int:
        """Return what verbs other than ask cost up to an entry, its own included."""
        return self._other[number]

    def answer(self, part: str, *, repeated: bool) -> Record | None:
        """Return the answer to a part, or None where it was never answered."""
        known = self._answers.get(part)
        return replace(known, repeated=True) if repeated and isinstance(known, (Answer, Choice)) else known

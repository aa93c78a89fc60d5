"""What a holdout has told so far, in the ledger's one order: the state of every mode whose answers depend on the past."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from holdtrue.curator.histories import responses_of
from holdtrue.ledgers import Ledger
from holdtrue.records import Response

__all__ = ["Look", "Transcript"]


@dataclass(frozen=True, slots=True)
class Look:
    """One charge: its number, its verb, what was asked in public words, and what was told (None while it was not)."""

    number: int
    verb: str
    request: dict[str, Any]
    told: Response | None = None


class Transcript:
    """Follows a ledger. Everything in it stands in the ledger, so it is the same for everyone who has it open."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._places: dict[int, int] = {}
        self.looks: list[Look] = []

    def follow(self) -> None:
        """Read what was entered since the last time."""
        last = self._ledger.head[0]
        if last > self._seen:
            for entry in self._ledger.entries(self._seen + 1, last + 1):
                if entry.kind == "charge" and entry.body is not None:
                    self._places[entry.number] = len(self.looks)
                    self.looks.append(Look(entry.number, entry.verb, json.loads(entry.body)["request"]))
                elif entry.kind == "response" and entry.body is not None and entry.answers in self._places:
                    (told,) = responses_of(entry.body)
                    place = self._places[entry.answers]
                    self.looks[place] = replace(self.looks[place], told=told)
            self._seen = last

    def __iter__(self) -> Iterator[Look]:
        return iter(self.looks)

    def __len__(self) -> int:
        return len(self.looks)

"""What a holdout has told so far: the state of every mode whose answers depend on the past."""

import json
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdtrue.curator.history import responses_of
from holdtrue.errors import IntegrityError
from holdtrue.ledgers import Ledger
from holdtrue.records import Answer, Response

__all__ = ["BestSoFar", "Look", "Transcript"]


class Look(Struct, frozen=True):
    """One charge: its entry, its place among all charges from 1 on, its request's id and public words, and what was told.

    ``told`` is None while there is no response, ``told_at`` the entry of the response.
    """

    number: int
    place: int
    id: str
    verb: str
    request: dict[str, Any]
    told: Response | None = None
    told_at: int = 0


class Transcript:
    """Follows a ledger. Everything in it stands in the ledger, so it is the same for everyone who has it open.

    Law: iterating gives the looks that were answered, in the order in which their *responses* were stored: only what was
    told can have led to anything, and a charge whose process died told nobody anything. ``unanswered`` are the charges
    without a response, in the order of their charges; each may still be answered, or never.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._charged = 0
        self._places: dict[int, int] = {}
        self.looks: list[Look] = []
        self.unanswered: dict[int, Look] = {}

    def follow(self) -> None:
        """Read what was entered since the last time."""
        last = self._ledger.head[0]
        if last > self._seen:
            for entry in self._ledger.entries(self._seen + 1, last + 1):
                if entry.kind == "charge" and entry.body is not None:
                    self._charged += 1
                    request = json.loads(entry.body)["request"]
                    self.unanswered[entry.number] = Look(
                        entry.number, self._charged, entry.request_id or "", entry.verb, request
                    )
                elif entry.kind == "response" and entry.body is not None and entry.answers in self.unanswered:
                    (told,) = responses_of(entry.body)
                    self._places[entry.answers] = len(self.looks)
                    self.looks.append(replace(self.unanswered.pop(entry.answers), told=told, told_at=entry.number))
            self._seen = last

    def find(self, number: int) -> Look | None:
        """Return the look that was answered under a charge, by its entry; None where there is none."""
        place = self._places.get(number)
        return None if place is None else self.looks[place]

    def end_of(self, entry: int | None) -> int:
        """Return the last entry that counts for what is said under an entry: its response, or itself; all, for None."""
        if entry is None:
            return self._seen
        place = self._places.get(entry)
        return entry if place is None else self.looks[place].told_at

    def until(self, end: int) -> list[Look]:
        """Return the looks that were answered up to an entry, in the order of the responses."""
        return self.looks[: bisect_right(self.looks, end, key=lambda look: look.told_at)]

    def find_unanswered(self, request_id: str) -> Look | None:
        """Return the charge of a request that is being answered now; None where another process has answered it."""
        return next((look for look in self.unanswered.values() if look.id == request_id), None)

    def __iter__(self) -> Iterator[Look]:
        return iter(self.looks)

    def __bool__(self) -> bool:
        return bool(self.looks or self.unanswered)


class BestSoFar:
    """What a ladder has shown, look by look: the highest score stored so far, in the order of the responses.

    Law: what is shown never falls. A look that was compared with an older best than the one now standing, because another
    process stored a response between its draw and its own, leads only if its score is above the best that stands; otherwise
    the best that stands is shown for it. So what is shown is one rising sequence, whatever processes and crashes lie behind.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._read = 0
        self._shown: dict[int, tuple[Answer, bool]] = {}
        self._teams: list[tuple[str, int]] = []
        self.best: Answer | None = None
        self.leading: str | None = None

    def follow(self) -> None:
        """Read what was stored since the last time."""
        self._transcript.follow()
        for look in self._transcript.looks[self._read :]:
            self._read += 1
            if isinstance(look.told, Answer):
                led = self.best is None or look.told.value > self.best.value
                if led:
                    self.best, self.leading = look.told, str(look.request["values"])
                self._shown[look.number] = self._as_shown(look.told), led
                self._teams.append((str(look.request["team"]), look.number))

    def _as_shown(self, told: Answer) -> Answer:
        best = self.best or told
        return replace(told, value=best.value, interval=best.interval, sample_interval=best.sample_interval)

    def show(self, told: Response) -> Answer:
        """Return what is shown for a stored response, now and whenever it is asked for again."""
        if not isinstance(told, Answer):
            message = "the ledger has another kind of response to this submission"
            raise IntegrityError(message)
        self.follow()
        shown, _ = self._shown[told.certificate.entry]
        return replace(shown, repeated=told.repeated)

    def all(self) -> list[tuple[str, Answer, bool]]:
        """Return every submission in the order of the responses: whose it was, what was shown, and whether it led."""
        self.follow()
        return [(team, *self._shown[number]) for team, number in self._teams]

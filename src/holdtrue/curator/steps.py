"""The five steps of a release, once each and in order; releases that come together take each step together."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdtrue.accounting.filters import amount
from holdtrue.curator.registers import Register
from holdtrue.curator.wording import text_of
from holdtrue.entropy import SYSTEM
from holdtrue.errors import HoldtrueError, ReleaseError
from holdtrue.ledgers import Charge, Entry, Ledger, Limits, event_text, read_charge
from holdtrue.planning import AnyPlan
from holdtrue.records import Certificate, Response, canonical
from holdtrue.verbs import Measured, Release, Standing

__all__ = ["Errand", "Measure", "Pending", "Round", "carry_out", "may_answer"]

Measure: TypeAlias = Callable[[Sequence[Release]], Sequence[Measured]]
"""Exact integers for each of several releases, in one pass over the rows."""


class Pending(ReleaseError):
    """The request was charged before, its response is not stored yet, and no release at hand may answer it."""


@dataclass(frozen=True, slots=True, eq=False)
class Errand:
    """A planned release on its way through the steps: what was asked, under which key, by whom.

    The request is a document, or canonical JSON already.
    """

    release: Release
    request: Mapping[str, object] | str
    key: str | None
    analyst: str

    def charge(self, limits: Limits) -> Charge:
        """Return what the ledger is asked for, under the limits of the plan."""
        release, request = self.release, self.request
        written = request if isinstance(request, str) else canonical(request)
        return Charge(
            SYSTEM.words(2).tobytes().hex() if self.key is None else self.key,
            hashlib.sha256(written.encode("ascii")).hexdigest(),
            self.analyst,
            release.verb,
            release.event,
            release.cost,
            release.draws,
            release.parts,
            canonical(release.request),
            limits,
        )


class Round:
    """Releases that take each of the five steps together; a commit stands between charge and measure, and after respond.

    Law: :meth:`charged` measures only what it is given durable entries for; what was measured goes to each release's
    ``draw`` and nowhere else; and ``outcomes`` may be told once :meth:`stored` has what was stored of ``bodies``. Needs: the
    calls in this order, each after its commit. Of what is drawn for a charge only what is stored first ever leaves. A charge
    that was never answered, since a process died, is answered now by a release for the same parts with the same event and no
    higher cost, and by nothing else; a request that was answered is not measured again.
    """

    def __init__(
        self, errands: Sequence[Errand], *, plan: AnyPlan, ledger: Ledger, register: Register, measure: Measure
    ) -> None:
        self._errands, self._plan, self._ledger, self._register, self._measure = errands, plan, ledger, register, measure
        self._places: list[int] = []
        self._paid: list[tuple[int, Entry]] = []
        self._said: list[list[Response]] = []
        self.charges: list[Charge] = []
        self.bodies: list[tuple[int, str]] = []
        self.outcomes: list[Entry | HoldtrueError] = []
        self._propose()

    def _propose(self) -> None:
        """Ask the ledger for each release; whether the plan still holds it is decided there, in the charge's transaction."""
        limits = Limits(self._plan.queries, max(0, self._plan.reserve_units))
        for place, errand in enumerate(self._errands):
            refusal: HoldtrueError = ReleaseError("not charged")
            try:
                self.charges.append(errand.charge(limits))
                self._places.append(place)
            except HoldtrueError as error:
                refusal = error
            self.outcomes.append(refusal)

    def charged(self, entries: Sequence[Entry | HoldtrueError]) -> None:
        """Take the entries of ``charges``, which are durable; measure and draw for those that paid, and word ``bodies``."""
        for place, entry in zip(self._places, entries, strict=True):
            self.outcomes[place] = entry
        for place, entry in enumerate(self.outcomes):
            release = self._errands[place].release
            if not isinstance(entry, Entry) or not (entry.fresh or may_answer(entry, release)):
                continue
            self._register.take(entry, parts=release.parts if entry.fresh else None)
            self._paid.append((place, entry))
        if self._paid:
            self._draw()

    def _draw(self) -> None:
        """Measure and draw for what was paid, and say what was drawn."""
        releases = [self._errands[place].release for place, _ in self._paid]
        drawn = _measured_and_drawn(releases, self._measure)
        if drawn is None:
            message = "the rows could not be measured; the charge stays"
            for place, entry in self._paid:
                self.outcomes[place] = ReleaseError(message, entry=entry.number)
            return
        for (_, entry), release, numbers in zip(self._paid, releases, drawn, strict=True):
            certificate = certificate_of(entry, release, plan=self._plan, ledger=self._ledger)
            records = release.respond(numbers, certificate, Standing(entry.draws, entry.spent, entry.charges - 1))
            self._said.append(records)
            self.bodies.append((entry.number, f"[{','.join([text_of(record) for record in records])}]"))

    def stored(self, entries: Sequence[Entry | HoldtrueError]) -> None:
        """Take what the ledger stored of ``bodies``, which is durable; ``outcomes`` are final then."""
        answered = self._paid if self.bodies else ()
        for (place, _), (_, body), records, entry in zip(answered, self.bodies, self._said, entries, strict=True):
            if isinstance(entry, Entry):
                self._register.take(entry, records=records if entry.body == body else None)
            else:
                self.outcomes[place] = entry
        numbers = {entry.number for _, entry in self._paid}
        for place, entry in enumerate(self.outcomes):
            if isinstance(entry, Entry) and not entry.fresh and entry.response is None and entry.number not in numbers:
                message = "the request was charged before, and its response is not in the ledger"
                self.outcomes[place] = Pending(message, entry=entry.number)
        if any(isinstance(entry, Entry) and not entry.fresh for entry in self.outcomes):
            self._register.follow()


def carry_out(round_: Round, *, ledger: Ledger) -> list[Entry | HoldtrueError]:
    """Take a round through its steps by itself: charge, measure, draw and store, in that order.

    Returns for each release the entry that paid, or its own error: before the charge nothing is spent; after it
    ReleaseError carries the entry, with a text that depends on no row; Pending where only whoever charged it can answer.
    """
    _, entries = ledger.settle((), round_.charges)
    round_.charged(entries)
    stored, _ = ledger.settle(round_.bodies, ())
    round_.stored(stored)
    return round_.outcomes


def may_answer(entry: Entry, release: Release) -> bool:
    """Return whether a charge that a crash left unanswered pays for this very release.

    Law: it was never answered, and names the same parts, the same draws and the same event, at a cost no lower than the
    release's. So what leaves under a charge is what that charge paid for: a look inside a run of above threshold, charged 0,
    pays for no threshold of another run.
    """
    if entry.response is not None or entry.event != event_text(release.event) or release.cost > entry.cost:
        return False
    charged = read_charge(entry)
    return charged.parts == release.parts and charged.draws == release.draws


def _measured_and_drawn(releases: Sequence[Release], measure: Measure) -> list[Sequence[int]] | None:
    """Return what was drawn for each release, None if anything failed: whatever it says may quote a row."""
    try:
        return [release.draw(found) for release, found in zip(releases, measure(releases), strict=True)]
    except Exception:  # noqa: BLE001 - nothing of the error goes on from here
        return None


def certificate_of(entry: Entry, release: Release, *, plan: AnyPlan, ledger: Ledger) -> Certificate:
    """Return what an entry proves."""
    return Certificate(
        release.event,
        amount(entry.cost),
        amount(entry.spent),
        amount(ledger.terms.cap - entry.spent),
        entry.number,
        entry.digest,
        plan.theorem,
        plan.epsilon or 0.0,
        plan.delta or 0.0,
    )

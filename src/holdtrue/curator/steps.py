"""The five steps of a release, once each and in order; releases that come together take each step together."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdtrue.accounting.filters import amount
from holdtrue.curator.registers import Register
from holdtrue.entropy import SYSTEM
from holdtrue.errors import BudgetExceeded, HoldtrueError, ReleaseError
from holdtrue.ledgers import Charge, Entry, Ledger
from holdtrue.planning import AnyPlan
from holdtrue.records import Certificate, Response, canonical, to_json
from holdtrue.verbs import Measured, Release

__all__ = ["Errand", "Measure", "Pending", "carry_out"]

Measure: TypeAlias = Callable[[Sequence[Release]], Sequence[Measured]]
"""Exact integers for each of several releases, in one pass over the rows."""


class Pending(ReleaseError):
    """The request was charged before, for other parts than are left to answer, and its response is not stored yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Errand:
    """A planned release on its way through the steps: what was asked, under which key, by whom."""

    release: Release
    request: Mapping[str, object]
    key: str | None
    analyst: str

    def charge(self) -> Charge:
        """Return what the ledger is asked for."""
        release = self.release
        return Charge(
            request_id=self.key or SYSTEM.words(2).tobytes().hex(),
            request_digest=hashlib.sha256(canonical(self.request).encode("ascii")).hexdigest(),
            analyst=self.analyst,
            verb=release.verb,
            event=release.event,
            cost=release.cost,
            body=canonical({"request": release.request, "parts": list(release.parts), "draws": release.draws}),
        )


def carry_out(
    errands: Sequence[Errand], *, plan: AnyPlan, ledger: Ledger, register: Register, measure: Measure
) -> list[Entry | HoldtrueError]:
    """Charge planned releases, measure, draw and store their responses, in that order; the register then has them.

    Guarantee: ``measure`` is called only after the charges are durable and within the plan; what it returns goes to each
    release's ``draw`` and nowhere else, and of what is drawn for a charge only what is stored first ever leaves. A request
    that was charged and never answered, since a process died, is answered now under the same charge; one that was answered
    is not measured again. Returns for each the entry that paid, or its own error: before the charge nothing is spent; after
    it ReleaseError carries the entry, with a text that depends on no row; Pending where only who charged it can answer.
    """
    outcomes = _charged(errands, plan=plan, ledger=ledger, register=register)
    paid: list[tuple[int, Entry]] = []
    for place, entry in enumerate(outcomes):
        if not isinstance(entry, Entry) or not (entry.fresh or _unanswered(entry, errands[place].release)):
            continue
        register.take(entry)
        if _late(errands[place].release, entry, plan, register):
            message = "another request took the last of the plan in the meantime; this one was charged and is not answered"
            outcomes[place] = ReleaseError(message, entry=entry.number)
        else:
            paid.append((place, entry))
    if paid:
        _answer(paid, errands, outcomes, plan=plan, ledger=ledger, register=register, measure=measure)
    numbers = {entry.number for _, entry in paid}
    for place, entry in enumerate(outcomes):
        if isinstance(entry, Entry) and not entry.fresh and entry.response is None and entry.number not in numbers:
            message = "the request was charged before, and its response is not in the ledger"
            outcomes[place] = Pending(message, entry=entry.number)
    if any(isinstance(entry, Entry) and not entry.fresh for entry in outcomes):
        register.follow()
    return outcomes


def _unanswered(entry: Entry, release: Release) -> bool:
    """Return whether an earlier charge for this very release waits for its answer."""
    return entry.response is None and json.loads(entry.body or "{}").get("parts") == list(release.parts)


def _charged(errands: Sequence[Errand], *, plan: AnyPlan, ledger: Ledger, register: Register) -> list[Entry | HoldtrueError]:
    """Charge what the plan holds, all in one transaction."""
    outcomes: list[Entry | HoldtrueError] = []
    places, charges = [], []
    draws, other = register.draws, register.other_cost
    for place, errand in enumerate(errands):
        release = errand.release
        refusal: HoldtrueError | None = _unplanned(release, plan, ledger, draws=draws, other=other)
        if refusal is None:
            try:
                charges.append(errand.charge())
                places.append(place)
                draws += release.draws
                other += 0 if release.draws else release.cost
            except HoldtrueError as error:
                refusal = error
        outcomes.append(refusal or ReleaseError("not charged"))
    for place, entry in zip(places, ledger.charge_all(charges), strict=True):
        outcomes[place] = entry
    return outcomes


def _unplanned(release: Release, plan: AnyPlan, ledger: Ledger, *, draws: int, other: int) -> BudgetExceeded | None:
    """Refuse what the plan does not hold: its intervals count on so many noise draws, and on other verbs' share."""
    if draws + release.draws > plan.queries:
        return BudgetExceeded(requested=release.draws, left=max(0, plan.queries - draws), unit="questions")
    if not release.draws and release.cost > plan.reserve_units - other:
        left, unit = amount(max(0, plan.reserve_units - other)), f"{ledger.terms.filter.currency} in reserve"
        return BudgetExceeded(requested=amount(release.cost), left=left, unit=unit)
    return None


def _late(release: Release, entry: Entry, plan: AnyPlan, register: Register) -> bool:
    """Look again once the charge has its place: others may have been charged in between, and order decides."""
    if release.draws:
        return register.standing(entry.number).draws > plan.queries
    return register.other_cost_up_to(entry.number) > max(plan.reserve_units, 0) and release.cost > 0


def _answer(  # noqa: PLR0913 - what was paid for, and the rooms it passes through
    paid: Sequence[tuple[int, Entry]],
    errands: Sequence[Errand],
    outcomes: list[Entry | HoldtrueError],
    *,
    plan: AnyPlan,
    ledger: Ledger,
    register: Register,
    measure: Measure,
) -> None:
    """Measure and draw for what was paid, store the responses in one transaction, and tell the register."""
    releases = [errands[place].release for place, _ in paid]
    drawn = _measured_and_drawn(releases, measure)
    if drawn is None:
        message = "the rows could not be measured; the charge stays"
        for place, entry in paid:
            outcomes[place] = ReleaseError(message, entry=entry.number)
        return
    said: list[list[Response]] = []
    for (_, entry), release, numbers in zip(paid, releases, drawn, strict=True):
        certificate = certificate_of(entry, release, plan=plan, ledger=ledger)
        said.append(release.respond(numbers, certificate, register.standing(entry.number)))
    bodies = [
        (entry.number, canonical_list([to_json(record) for record in records]))
        for (_, entry), records in zip(paid, said, strict=True)
    ]
    for (place, _), (_, body), records, stored in zip(paid, bodies, said, ledger.respond_all(bodies), strict=True):
        if isinstance(stored, Entry):
            register.take(stored, records=records if stored.body == body else None)
        else:
            outcomes[place] = stored


def _measured_and_drawn(releases: Sequence[Release], measure: Measure) -> list[Sequence[int]] | None:
    """Return what was drawn for each release, None if anything failed: whatever it says may quote a row."""
    try:
        return [release.draw(found) for release, found in zip(releases, measure(releases), strict=True)]
    except Exception:  # noqa: BLE001 - nothing of the error goes on from here
        return None


def certificate_of(entry: Entry, release: Release, *, plan: AnyPlan, ledger: Ledger) -> Certificate:
    """Return what an entry proves."""
    cap = ledger.terms.cap
    return Certificate(
        event=release.event,
        cost=amount(entry.cost),
        spent=amount(entry.spent),
        left=amount(cap - entry.spent),
        entry=entry.number,
        digest=entry.digest,
        theorem=plan.theorem,
        epsilon=plan.epsilon or 0.0,
        delta=plan.delta or 0.0,
    )


def canonical_list(documents: Sequence[Mapping[str, object]]) -> str:
    """Return a list of documents as canonical JSON."""
    return "[" + ",".join(canonical(document) for document in documents) + "]"

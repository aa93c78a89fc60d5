"""The five steps of a release, once each and in order."""

import hashlib
from collections.abc import Callable, Mapping, Sequence

from holdtrue.accounting.filters import amount
from holdtrue.curator.registers import Register
from holdtrue.entropy import SYSTEM
from holdtrue.errors import BudgetExceeded, ReleaseError
from holdtrue.ledgers import Entry, Ledger
from holdtrue.planning import AnyPlan
from holdtrue.records import Certificate, canonical, to_json
from holdtrue.verbs import Measured, Release

__all__ = ["carry_out"]


def carry_out(  # noqa: PLR0913 - who asks what of which ledger, and how to measure it
    release: Release,
    *,
    request: Mapping[str, object],
    key: str | None,
    analyst: str,
    plan: AnyPlan,
    ledger: Ledger,
    register: Register,
    measure: Callable[[], Measured],
) -> None:
    """Charge a planned release, measure, draw and store its responses, in that order; the register then has them.

    Guarantee: ``measure`` is called only after the charge is durable and within the plan, at most once a charge; what it
    returns goes to the release's ``draw`` and nowhere else. A request that was charged before is not measured again.
    Failure: before the charge nothing is spent; after it ReleaseError carries the entry, with a text that depends on no row.
    """
    _check_plan(release, plan, register, ledger)
    entry = ledger.charge(
        request_id=key or _random_id(),
        request_digest=hashlib.sha256(canonical(request).encode("ascii")).hexdigest(),
        analyst=analyst,
        verb=release.verb,
        event=release.event,
        cost=release.cost,
        body=canonical({"request": release.request, "parts": list(release.parts), "draws": release.draws}),
    )
    register.take(entry)
    if entry.fresh:
        _check_order(release, entry, plan, register)
        drawn = _measured_and_drawn(release, entry, measure)
        certificate = certificate_of(entry, release, plan=plan, ledger=ledger)
        records = release.respond(drawn, certificate, register.standing(entry.number))
        body = canonical_list([to_json(record) for record in records])
        stored = ledger.respond(entry.number, body)
        register.take(stored, records=records if stored.body == body else None)
        return
    if entry.response is None:
        ledger.wait(entry.number)
    register.follow()


def _check_plan(release: Release, plan: AnyPlan, register: Register, ledger: Ledger) -> None:
    """Refuse what the plan does not hold: its intervals count on so many noise draws, and on other verbs' share."""
    if register.draws + release.draws > plan.queries:
        raise BudgetExceeded(requested=release.draws, left=plan.queries - register.draws, unit="questions")
    if not release.draws and release.cost > plan.reserve_units - register.other_cost:
        left = amount(max(0, plan.reserve_units - register.other_cost))
        raise BudgetExceeded(requested=amount(release.cost), left=left, unit=f"{ledger.terms.filter.currency} in reserve")


def _check_order(release: Release, entry: Entry, plan: AnyPlan, register: Register) -> None:
    """Look again once the charge has its place: others may have been charged in between, and order decides."""
    late = (
        register.standing(entry.number).draws > plan.queries
        if release.draws
        else (register.other_cost_up_to(entry.number) > max(plan.reserve_units, 0) and release.cost > 0)
    )
    if late:
        message = "another request took the last of the plan in the meantime; this one was charged and is not answered"
        raise ReleaseError(message, entry=entry.number)


def _measured_and_drawn(release: Release, entry: Entry, measure: Callable[[], Measured]) -> Sequence[int]:
    failed = False
    drawn: Sequence[int] = ()
    try:
        drawn = release.draw(measure())
    except Exception:  # noqa: BLE001 - whatever it says may quote a row
        failed = True
    if failed:
        # Raised outside of the handler: nothing of the first error is chained to this one.
        message = "the rows could not be measured; the charge stays"
        raise ReleaseError(message, entry=entry.number)
    return drawn


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


def _random_id() -> str:
    return SYSTEM.words(2).tobytes().hex()

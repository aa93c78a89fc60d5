"""A ledger that was restored from a backup: the custodian accepts it, and what it has forgotten is entered as spent."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from holdtrue.codec import digest_of, encode
from holdtrue.errors import HoldtrueError, RefusedError, UnknownName
from holdtrue.events import NoCost
from holdtrue.ledgers import Charge, Ledger, Receipt, open_ledger, verify
from holdtrue.planning.plans import read_plan
from holdtrue.service.database import DATASETS, HOLDOUTS
from holdtrue.service.receipts import Kind, LedgerState, has_entry, read_state

if TYPE_CHECKING:
    from holdtrue.service.registry import Registry

__all__ = ["Accepted", "accept_ledger"]

VERB = "restore"
_ANALYST = "holdtrue: restore"
_TABLES = {"dataset": DATASETS, "holdout": HOLDOUTS}


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a restored ledger: its state now, and what was entered as spent, in units and in draws."""

    state: LedgerState
    spent: int
    draws: int


def accept_ledger(registry: "Registry", name: str, *, kind: Kind, receipt: Receipt) -> Accepted:
    """Accept the ledger that is now in its place as the one of a dataset or of a holdout.

    ``receipt`` is that of its last entry, as ``holdtrue verify`` prints it, so that nobody accepts a ledger unseen. What the
    service knows to be spent and the ledger has forgotten is charged to it first: the difference, if the ledger is an older
    state of the same one; all of it otherwise; never more than is left. Accepting twice charges once.

    Failure: UnknownName where there is nothing of that name or no ledger, IntegrityError for one that is damaged,
    RefusedError for another receipt.
    """
    _check_registered(registry, name, kind)
    kept = registry.receipts.find(kind, name)
    with open_ledger(registry.ledger_url(name, kind=kind)) as ledger:
        found = verify(ledger)
        if found.receipt != receipt:
            message = f"the ledger in its place ends with {found.entries}:{found.head}; accept that one, or restore another"
            raise RefusedError(message)
        state = read_state(ledger)
        charges = [] if kept is None else _forgotten(ledger, state, kept)
        for entry in ledger.settle((), charges)[1]:
            if isinstance(entry, HoldtrueError):
                raise entry
            ledger.respond(entry.number, "[]")
        after = read_state(ledger)
    registry.receipts.replace(kind, name, after)
    return Accepted(after, after.spent - state.spent, after.draws - state.draws)


def _check_registered(registry: "Registry", name: str, kind: Kind) -> None:
    table = _TABLES[kind]
    with registry.database.read() as connection:
        if connection.execute(sa.select(table.c.name).where(table.c.name == name)).one_or_none() is None:
            message = f"there is no {kind} named {name[:63]}"
            raise UnknownName(message)


def _forgotten(ledger: Ledger, state: LedgerState, kept: LedgerState) -> list[Charge]:
    """Return the charges for what a ledger has forgotten: planned draws with what they cost, and what other verbs cost."""
    if has_entry(ledger, kept):
        return []
    older = ledger.terms.ledger_id == kept.ledger_id and state.number < kept.number
    spent = kept.spent - state.spent if older else kept.spent
    draws = kept.draws - state.draws if older else kept.draws
    other = kept.other_spent - state.other_spent if older else kept.other_spent
    spent = max(0, min(spent, ledger.left))
    draws = max(0, min(draws, read_plan(ledger.terms.plan).queries - state.draws))
    other = max(0, min(other, spent))
    charges = []
    if draws or spent > other:
        charges.append(_charge(kept, "asks", cost=spent - other, draws=draws))
    if other:
        charges.append(_charge(kept, "other verbs", cost=other, draws=0))
    return charges


def _charge(kept: LedgerState, what: str, *, cost: int, draws: int) -> Charge:
    """Return a charge under an id that is always the same for what was forgotten, so that it is made once."""
    request = {"forgotten": what, "queries": [], "known": f"{kept.number}:{kept.digest}", "ledger": kept.ledger_id}
    digest = digest_of(request)
    return Charge(f"{VERB} {digest}", digest, _ANALYST, VERB, NoCost(), cost, draws, (), encode(request))

"""What the service's own database keeps of each ledger, so that one that was lost or set back is noticed.

A ledger alone cannot tell that it is younger than it was: a shorter whole ledger is a whole ledger (P7). So its number and
its newest receipt are kept here as well, with what was spent by then, and a registered ledger is opened only if it has both.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import sqlalchemy as sa

from holdtrue.errors import IntegrityError, UnknownName
from holdtrue.ledgers import Ledger, open_ledger
from holdtrue.service.database import RECEIPTS, Database

__all__ = ["Kind", "LedgerState", "Receipts", "has_entry", "read_state"]

Kind: TypeAlias = Literal["dataset", "holdout"]


@dataclass(frozen=True, slots=True)
class LedgerState:
    """A ledger at one of its entries: which ledger, the receipt, and the totals up to there, in units and in draws."""

    ledger_id: str
    number: int
    digest: str
    spent: int = 0
    draws: int = 0
    other_spent: int = 0


def read_state(ledger: Ledger) -> LedgerState:
    """Return a ledger's newest state: its last entry has all totals."""
    terms, last = ledger.terms, ledger.newest()
    if not last:
        return LedgerState(terms.ledger_id, 0, terms.digest)
    entries = ledger.entries(last, last + 1)
    if not entries:
        message = f"entry {last} is missing"
        raise IntegrityError(message)
    (entry,) = entries
    return LedgerState(terms.ledger_id, entry.number, entry.digest, entry.spent, entry.draws, entry.other_spent)


def has_entry(ledger: Ledger, state: LedgerState) -> bool:
    """Return whether this is the ledger that was in this state once: the same number, and the same entry in its place."""
    if ledger.terms.ledger_id != state.ledger_id:
        return False
    if state.number == 0:
        return ledger.terms.digest == state.digest
    found = ledger.entries(state.number, state.number + 1)
    return bool(found) and found[0].digest == state.digest


@dataclass(frozen=True, slots=True)
class Receipts:
    """The newest state of each ledger that any worker stored."""

    database: Database

    def find(self, kind: Kind, name: str) -> LedgerState | None:
        """Return what is kept of a ledger; None where it was registered before receipts were kept."""
        columns = [RECEIPTS.c[each] for each in LedgerState.__slots__]
        with self.database.read() as connection:
            row = connection.execute(sa.select(*columns).where(*_chosen(kind, name))).one_or_none()
        return None if row is None else LedgerState(*row)

    def check(self, kind: Kind, name: str, where: str | Path) -> LedgerState:
        """Return what is kept of a ledger that is there and agrees with it; never creates one.

        Guarantee: a ledger that is missing, that is another one, that was cut off or set back to before the newest receipt
        is IntegrityError. A ledger from before receipts were kept is entered as it is found, if it is there.
        """
        kept = self.find(kind, name)
        missing = False
        try:
            ledger = open_ledger(where)
        except UnknownName:
            missing = True
        if missing:
            message = "the ledger of something registered is missing"
            raise IntegrityError(message)
        with ledger:
            if kept is not None and not has_entry(ledger, kept):
                message = "the ledger is not the one that the service knows, or has forgotten entries"
                raise IntegrityError(message)
            state = kept or read_state(ledger)
        self.store(kind, name, state)
        return state

    def store(self, kind: Kind, name: str, state: LedgerState) -> None:
        """Keep the state of a ledger, unless a newer one is kept. Writes in any case, so that it notices a full disk.

        Fails: IntegrityError where another ledger is kept under the name.
        """
        try:
            with self.database.begin() as connection:
                chosen = (*_chosen(kind, name), RECEIPTS.c.ledger_id == state.ledger_id)
                older = sa.update(RECEIPTS).where(*chosen, RECEIPTS.c.number <= state.number)
                if connection.execute(older.values(_row(kind, name, state))).rowcount:
                    return
                noted = sa.update(RECEIPTS).where(*chosen).values(stored=int(time.time()))
                if not connection.execute(noted).rowcount:
                    self.enter(connection, kind, name, state)
        except sa.exc.IntegrityError:  # entered meanwhile by another worker, or there is another ledger of that name
            pass
        else:
            return
        kept = self.find(kind, name)
        if kept is None or kept.ledger_id != state.ledger_id:
            message = "the ledger is not the one that the service knows"
            raise IntegrityError(message)

    @staticmethod
    def enter(connection: sa.Connection, kind: Kind, name: str, state: LedgerState) -> None:
        """Keep the first state of a ledger, in the transaction that registers it."""
        connection.execute(sa.insert(RECEIPTS).values(_row(kind, name, state)))

    def replace(self, kind: Kind, name: str, state: LedgerState) -> None:
        """Keep another state in place of whatever is kept: the custodian has accepted a ledger."""
        with self.database.begin() as connection:
            connection.execute(sa.delete(RECEIPTS).where(*_chosen(kind, name)))
            self.enter(connection, kind, name, state)


def _chosen(kind: Kind, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return RECEIPTS.c.kind == kind, RECEIPTS.c.name == name


def _row(kind: Kind, name: str, state: LedgerState) -> dict[str, object]:
    return {"kind": kind, "name": name, "stored": int(time.time())} | asdict(state)

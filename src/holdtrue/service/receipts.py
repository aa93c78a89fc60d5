"""What is registered, and what the service's own database keeps of each ledger, so that a lost or rolled-back one is seen.

A ledger alone cannot tell that it is younger than it was: a shorter whole ledger is a whole ledger (P7). So its number and
its newest receipt are kept here as well, with what was spent by then, and a registered ledger is opened only if it has both.
One that was restored from a backup is accepted by the custodian, and what it has forgotten is entered as spent.
"""

import hashlib
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import sqlalchemy as sa

from holdtrue.codec import digest_of, encode
from holdtrue.errors import HoldtrueError, IntegrityError, InvalidParameter, RefusedError, UnknownName
from holdtrue.events import NoCost
from holdtrue.ledgers import Charge, Ledger, Receipt, open_ledger, verify
from holdtrue.planning.plans import read_plan
from holdtrue.service.database import RECEIPTS, REGISTERED, Database, lock_creation
from holdtrue.service.http.problems import Refused

if TYPE_CHECKING:
    from holdtrue.service.settings import Settings

__all__ = [
    "RETIRED",
    "Accepted",
    "Kind",
    "LedgerState",
    "Receipts",
    "Registered",
    "accept_ledger",
    "check_name",
    "has_entry",
    "read_state",
]

Kind: TypeAlias = Literal["dataset", "holdout"]

# What the schemas of ledgers in PostgreSQL begin with, and how their files end.
_PLACES: Final[Mapping[Kind, tuple[str, str]]] = {"dataset": ("ht_", ".ledger"), "holdout": ("hh_", ".holdout.ledger")}
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LONGEST_SCHEMA = 60  # of PostgreSQL's 63, less the mark before it
RETIRED = "retired"
_CONFLICT = 409
_VERB = "restore"
_ANALYST = "holdtrue: restore"


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
            row = connection.execute(sa.select(*columns).where(*_match_row(kind, name))).one_or_none()
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
                chosen = (*_match_row(kind, name), RECEIPTS.c.ledger_id == state.ledger_id)
                older = sa.update(RECEIPTS).where(*chosen, RECEIPTS.c.number <= state.number)
                if connection.execute(older.values(_make_row(kind, name, state))).rowcount:
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
        connection.execute(sa.insert(RECEIPTS).values(_make_row(kind, name, state)))

    def replace(self, kind: Kind, name: str, state: LedgerState) -> None:
        """Keep another state in place of whatever is kept: the custodian has accepted a ledger."""
        with self.database.begin() as connection:
            connection.execute(sa.delete(RECEIPTS).where(*_match_row(kind, name)))
            self.enter(connection, kind, name, state)


def _match_row(kind: Kind, name: str, *, table: sa.Table = RECEIPTS) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.kind == kind, table.c.name == name


def _make_row(kind: Kind, name: str, state: LedgerState) -> dict[str, object]:
    return {"kind": kind, "name": name, "stored": int(time.time())} | asdict(state)


class Registered:
    """The names of one kind that are registered, for all workers and permanently, and where their ledgers are."""

    def __init__(self, kind: Kind, settings: "Settings", receipts: Receipts) -> None:
        self.kind: Kind = kind
        self.settings, self.receipts = settings, receipts
        self._mark, self._ending = _PLACES[kind]

    def ledger_url(self, name: str, *, create: bool = False) -> str | Path:
        """Return where the ledger of a name is: a file in the home folder, or a schema of PostgreSQL.

        ``create`` makes the schema, which only registering does.
        """
        check_name(name)
        if self.settings.ledger is None:
            return self.settings.home / f"{name}{self._ending}"
        digest = hashlib.sha256(name.encode("ascii")).hexdigest()[:16]
        schema = self._mark + (name if len(name) <= _LONGEST_SCHEMA else f"{name[:40]}_{digest}")
        if create:
            with self.receipts.database.begin() as connection:
                connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        url = sa.make_url(self.settings.ledger).update_query_dict({"options": f'-csearch_path="{schema}"'})
        return url.set(drivername="postgresql").render_as_string(hide_password=False)

    def list_names(self) -> list[str]:
        """Return every name that is registered, sorted."""
        with self.receipts.database.read() as connection:
            return self._select_names(connection)

    def _select_names(self, connection: sa.Connection) -> list[str]:
        table = REGISTERED.c
        return list(connection.execute(sa.select(table.name).where(table.kind == self.kind).order_by(table.name)).scalars())

    def read_document(self, name: str) -> dict[str, Any] | None:
        """Return what was registered under a name; None where there is nothing."""
        if not _NAME.fullmatch(name):
            return None
        chosen = sa.select(REGISTERED.c.document).where(*_match_row(self.kind, name, table=REGISTERED))
        with self.receipts.database.read() as connection:
            found: dict[str, Any] | None = connection.execute(chosen).scalar_one_or_none()
        return found

    def list_served(self) -> list[str]:
        """Return every name that is registered and not retired, sorted."""
        table = REGISTERED.c
        chosen = sa.select(table.name, table.document).where(table.kind == self.kind).order_by(table.name)
        with self.receipts.database.read() as connection:
            rows = connection.execute(chosen).all()
        return [name for name, document in rows if RETIRED not in document]

    def retire(self, name: str) -> None:
        """Serve a name no more, for all workers, permanently. Its ledger stays, and so do its name and its rows' budget."""
        document = self.read_document(name)
        if document is None:
            message = f"there is no {self.kind} named {name[:63]}"
            raise UnknownName(message)
        kept = {RETIRED: int(time.time())} | document
        with self.receipts.database.begin() as connection:
            chosen = _match_row(self.kind, name, table=REGISTERED)
            connection.execute(sa.update(REGISTERED).where(*chosen).values(document=kept))

    def refuse_taken(self, name: str) -> None:
        """Refuse what cannot be a name, and a name that is registered."""
        if self.read_document(check_name(name)) is not None:
            raise self._name_taken()

    def enter(
        self, name: str, document: Mapping[str, Any], state: LedgerState, *, seen: Collection[str] | None = None
    ) -> bool:
        """Register a name with its ledger's first receipt.

        Return False, with nothing written, where ``seen`` are not all the names that are registered by now.
        """
        row = {"kind": self.kind, "name": name, "document": dict(document), "created": int(time.time())}
        with self.receipts.database.begin() as connection:
            lock_creation(connection)
            names = set(self._select_names(connection))
            if name in names:
                raise self._name_taken()
            if seen is not None and not names <= set(seen):
                return False
            connection.execute(sa.insert(REGISTERED).values(row))
            self.receipts.enter(connection, self.kind, name, state)
        return True

    def _name_taken(self) -> Refused:
        return Refused(
            _CONFLICT, "name taken", f"there is already a {self.kind} of that name; choose another", parameter="name"
        )


def check_name(name: object) -> str:
    """Return a name that datasets and holdouts may have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidParameter("name", name, "a lower-case letter, then up to 62 of a-z, 0-9, - and _")
    return name


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a restored ledger: its state now, and what was entered as spent, in units and in draws."""

    state: LedgerState
    spent: int
    draws: int


def accept_ledger(registered: Registered, name: str, *, receipt: Receipt) -> Accepted:
    """Accept the ledger that is now in its place as the one of a dataset or of a holdout.

    ``receipt`` is that of its last entry, as ``holdtrue verify`` prints it, so that nobody accepts a ledger unseen. What the
    service knows to be spent and the ledger has forgotten is charged to it first: the difference, if the ledger is an older
    state of the same one; all of it otherwise; never more than is left. Accepting twice charges once.

    Failure: UnknownName where there is nothing of that name or no ledger, IntegrityError for one that is damaged,
    RefusedError for another receipt.
    """
    if registered.read_document(name) is None:
        message = f"there is no {registered.kind} named {name[:63]}"
        raise UnknownName(message)
    kept = registered.receipts.find(registered.kind, name)
    with open_ledger(registered.ledger_url(name)) as ledger:
        found = verify(ledger)
        if found.receipt != receipt:
            message = f"the ledger in its place ends with {found.entries}:{found.head}; accept that one, or restore another"
            raise RefusedError(message)
        state = read_state(ledger)
        charges = [] if kept is None else _list_forgotten(ledger, state, kept)
        for entry in ledger.settle((), charges)[1]:
            if isinstance(entry, HoldtrueError):
                raise entry
            ledger.respond(entry.number, "[]")
        after = read_state(ledger)
    registered.receipts.replace(registered.kind, name, after)
    return Accepted(after, after.spent - state.spent, after.draws - state.draws)


def _list_forgotten(ledger: Ledger, state: LedgerState, kept: LedgerState) -> list[Charge]:
    """Return the charges for what a ledger has forgotten: planned draws with what they cost, and what other verbs cost."""
    if has_entry(ledger, kept):
        return []
    older = ledger.terms.ledger_id == kept.ledger_id and state.number < kept.number
    spent = kept.spent - state.spent if older else kept.spent
    draws = kept.draws - state.draws if older else kept.draws
    other = kept.other_spent - state.other_spent if older else kept.other_spent
    purse = ledger.terms.purse
    spent = max(0, min(spent, ledger.left))
    draws = max(0, min(draws, read_plan(ledger.terms.plan).queries - state.draws))
    other = max(0, min(other, spent if purse is None else purse.cap_units - state.other_spent))
    asked = spent - other if purse is None else spent
    charges = []
    # With two purses a charge without draws is the second one's; where no draw is left, nobody can ask any more.
    if draws or (asked > 0 and purse is None):
        charges.append(_make_charge(kept, "asks", cost=asked, draws=draws))
    if other:
        charges.append(_make_charge(kept, "other verbs", cost=other, draws=0))
    return charges


def _make_charge(kept: LedgerState, what: str, *, cost: int, draws: int) -> Charge:
    """Return a charge under an id that is always the same for what was forgotten, so that it is made once."""
    request = {"forgotten": what, "queries": [], "known": f"{kept.number}:{kept.digest}", "ledger": kept.ledger_id}
    digest = digest_of(request)
    return Charge(f"{_VERB} {digest}", digest, _ANALYST, _VERB, NoCost(), cost, draws, (), encode(request))

"""All holdouts behind the service: registered once, for all workers and for good."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from holdtrue.errors import HoldtrueError, IntegrityError, UnknownName
from holdtrue.service.database import HOLDOUTS
from holdtrue.service.holdout_labels import labels_of
from holdtrue.service.holdout_looks import HoldoutDesk
from holdtrue.service.open_ledgers import OpenLedgers, hide_place, unavailable
from holdtrue.service.problems import Refused
from holdtrue.service.receipts import LedgerState, read_state

if TYPE_CHECKING:
    from holdtrue.service.registry import Registry

__all__ = ["HoldoutDesk", "HoldoutDesks"]

_CONFLICT = 409
_T = TypeVar("_T")


class WatchedHoldoutDesk(HoldoutDesk):
    """A holdout whose errors are told as the registry explains them: 503 while the ledger is being opened again."""

    explain: Callable[[HoldtrueError], HoldtrueError] | None = None
    _closed = False

    def close(self) -> None:
        """Finish what is under way and let go of the cases."""
        self._closed = True
        super().close()

    async def _run(self, function: Callable[[], _T]) -> _T:
        try:
            return await super()._run(function)
        except HoldtrueError as error:
            raise (error if self.explain is None else self.explain(error)) from None
        except RuntimeError:
            if not self._closed:
                raise
            raise unavailable() from None  # the thread of a holdout that was closed takes nothing more


class HoldoutDesks:
    """All holdouts of a service: what is registered stands in the database, what is open is this worker's own."""

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry
        self.ledgers = OpenLedgers[WatchedHoldoutDesk](
            "holdout",
            receipts=registry.receipts,
            open_one=self._open,
            ledger_of=lambda desk: desk.ledger,
            place_of=lambda name: registry.ledger_url(name, kind="holdout"),
            close_one=lambda desk: desk.close(),
            every=registry.settings.receipt_entries,
        )

    def all(self) -> list[HoldoutDesk]:
        """Return every holdout that can be opened, by name."""
        with self._registry.database.read() as connection:
            names = list(connection.execute(sa.select(HOLDOUTS.c.name).order_by(HOLDOUTS.c.name)).scalars())
        found: list[HoldoutDesk] = []
        for name in names:
            try:
                found.append(self.ledgers.open(name))
            except HoldtrueError:
                continue  # whoever asks for it by name is told why
        return found

    def named(self, name: str) -> HoldoutDesk:
        """Return a holdout, opened if this worker has not yet; UnknownName where there is none."""
        known = self.ledgers.get(name)
        if known is None and self._document(name) is None:
            message = "there is no holdout of that name"
            raise UnknownName(message)
        return known or self.ledgers.open(name)

    def register(self, name: str, document: Mapping[str, Any]) -> HoldoutDesk:
        """Open cases under a new ledger and a new name, for all workers and for good."""
        taken = Refused(_CONFLICT, "name taken", "there is a holdout of that name already; take another")
        if self._document(name) is not None:
            raise taken
        try:
            opened = self._desk(name, dict(document), new=True)
        except HoldtrueError as error:
            raise hide_place(error, self._registry.ledger_url(name, kind="holdout")) from None
        state = read_state(opened.ledger)
        row = {"name": name, "document": dict(document), "created": int(time.time())}
        try:
            with self._registry.database.begin() as connection:
                connection.execute(sa.insert(HOLDOUTS).values(row))
                self._registry.receipts.enter(connection, "holdout", name, state)
        except sa.exc.IntegrityError:
            opened.close()
            raise taken from None
        except BaseException:
            opened.close()
            raise
        return self.ledgers.add(name, opened, state)

    def _document(self, name: str) -> dict[str, Any] | None:
        chosen = sa.select(HOLDOUTS.c.document).where(HOLDOUTS.c.name == name)
        with self._registry.database.read() as connection:
            found: dict[str, Any] | None = connection.execute(chosen).scalar_one_or_none()
        return found

    def _open(self, name: str) -> tuple[WatchedHoldoutDesk, LedgerState]:
        """Open a holdout that is registered, under the ledger that the database knows."""
        document = self._document(name)
        if document is None:
            message = "there is no holdout of that name"
            raise UnknownName(message)
        state = self._registry.receipts.check("holdout", name, self._registry.ledger_url(name, kind="holdout"))
        opened = self._desk(name, document, new=False)
        if opened.ledger.terms.ledger_id != state.ledger_id:
            opened.close()
            message = "the ledger is not the one that the service knows"
            raise IntegrityError(message)
        return opened, state

    def _desk(self, name: str, document: dict[str, Any], *, new: bool) -> WatchedHoldoutDesk:
        truth = labels_of(document, folders=self._registry.settings.data)
        ledger = self._registry.ledger_url(name, kind="holdout", create=new)
        desk = WatchedHoldoutDesk(name, document, truth=truth, ledger=ledger, new=new)
        desk.explain = lambda error: self.ledgers.explain(error, desk.ledger)
        return desk

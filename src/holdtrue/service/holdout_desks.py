"""All holdouts behind the service: registered once, for all workers and for good."""

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from holdtrue.errors import HoldtrueError, UnknownName
from holdtrue.service.database import HOLDOUTS
from holdtrue.service.holdout_labels import labels_of
from holdtrue.service.holdout_looks import HoldoutDesk
from holdtrue.service.holdout_replies import Replies
from holdtrue.service.problems import Refused

if TYPE_CHECKING:
    from holdtrue.service.registry import Registry

__all__ = ["HoldoutDesk", "HoldoutDesks"]

_CONFLICT = 409


class HoldoutDesks:
    """All holdouts of a service: what is registered stands in the database, what is open is this worker's own."""

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry
        self._open: dict[str, HoldoutDesk] = {}
        self._lock = threading.RLock()

    def all(self) -> list[HoldoutDesk]:
        """Return every holdout that can be opened, by name."""
        with self._registry.database.read() as connection:
            names = list(connection.execute(sa.select(HOLDOUTS.c.name).order_by(HOLDOUTS.c.name)).scalars())
        found = []
        for name in names:
            try:
                found.append(self.named(name))
            except HoldtrueError:
                continue  # whoever asks for it by name is told why
        return found

    def named(self, name: str) -> HoldoutDesk:
        """Return a holdout, opened if this worker has not yet; UnknownName where there is none."""
        known = self._open.get(name)
        if known is not None:
            return known
        with self._lock:
            if name not in self._open:
                document = self._document(name)
                if document is None:
                    message = "there is no holdout of that name"
                    raise UnknownName(message)
                self._open[name] = self._opened(name, document, new=False)
            return self._open[name]

    def register(self, name: str, document: Mapping[str, Any]) -> HoldoutDesk:
        """Open cases under a new ledger and a new name, for all workers and for good."""
        taken = Refused(_CONFLICT, "name taken", "there is a holdout of that name already; take another")
        with self._lock:
            if self._document(name) is not None:
                raise taken
            opened = self._opened(name, dict(document), new=True)
            row = {"name": name, "document": dict(document), "created": int(time.time())}
            try:
                with self._registry.database.begin() as connection:
                    connection.execute(sa.insert(HOLDOUTS).values(row))
            except sa.exc.IntegrityError:
                opened.close()
                raise taken from None
            self._open[name] = opened
        return opened

    def close(self) -> None:
        """Finish what is under way and let go of everything."""
        with self._lock:
            for each in self._open.values():
                each.close()
            self._open.clear()

    def _document(self, name: str) -> dict[str, Any] | None:
        chosen = sa.select(HOLDOUTS.c.document).where(HOLDOUTS.c.name == name)
        with self._registry.database.read() as connection:
            found: dict[str, Any] | None = connection.execute(chosen).scalar_one_or_none()
        return found

    def _opened(self, name: str, document: dict[str, Any], *, new: bool) -> HoldoutDesk:
        truth = labels_of(document, folders=self._registry.settings.data)
        ledger = self._registry.ledger_url(name, kind="holdout")
        replies = Replies(self._registry.database, name)
        return HoldoutDesk(name, document, truth=truth, ledger=ledger, replies=replies, new=new)

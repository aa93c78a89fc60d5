"""The registry: which datasets and holdouts the service guards, opened once in each worker."""

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from holdtrue.service.database import Database
from holdtrue.service.datasets import Dataset, Datasets
from holdtrue.service.holdouts import HoldoutDispatcher, Holdouts
from holdtrue.service.open_ledgers import OpenLedgers
from holdtrue.service.receipts import Kind, Receipts

if TYPE_CHECKING:
    from holdtrue.service.http.telemetry import Metrics
    from holdtrue.service.settings import Settings

__all__ = ["Registry"]

_LOGGER = logging.getLogger("holdtrue.service")
_WATCH_SECONDS = 0.25
_CHECK_SECONDS = 1.0
_RETIRED_TURNS = 4
_PAUSE = 0.5


class Registry:
    """All that a service guards, with one way of registering, opening, watching and closing for both kinds.

    ``datasets`` and ``holdouts`` differ in what is opened under a ledger, and in that rows may have one budget only.
    """

    def __init__(self, settings: "Settings", database: Database, metrics: "Metrics") -> None:
        self.database = database
        self.receipts = Receipts(database)
        self.datasets = Datasets(settings, self.receipts, metrics)
        self.holdouts = Holdouts(settings, self.receipts)
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()
        self._opened_once = False
        self._checker: ThreadPoolExecutor | None = None
        self._checking: Future[bool] | None = None

    @property
    def _kinds(self) -> tuple[OpenLedgers[Any], ...]:
        return self.datasets, self.holdouts

    def open_all(self) -> None:
        """Open everything that is registered, in the background, and watch over it; ``ready`` is true once all is open."""
        self._closing.clear()
        for ledgers in self._kinds:
            ledgers.start()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for work, name in ((self._open_each, "opening"), (self._watch_ledgers, "receipts"))
        ]
        for thread in self._threads:
            thread.start()

    def _open_each(self) -> None:
        pause = 0.0
        while not self._closing.wait(pause):
            try:
                for ledgers in self._kinds:
                    for name in ledgers.list_served():
                        if self._closing.is_set():
                            return
                        ledgers.try_opening(name)
            except SQLAlchemyError as error:
                # The database does not answer; a traceback may quote a row.
                _LOGGER.error("registry not opened", extra={"kind": type(error).__name__})  # noqa: TRY400
                pause = _PAUSE
                continue
            self._opened_once = True
            return

    def _watch_ledgers(self) -> None:
        """Reopen what has stopped and store receipts while the service runs."""
        for turn in itertools.count():
            if self._closing.wait(_WATCH_SECONDS):
                return
            for ledgers in self._kinds:
                ledgers.reopen_stopped()
                ledgers.store_receipts()
                if turn % _RETIRED_TURNS == 0:
                    with suppress(SQLAlchemyError):  # the database does not answer; asked again at the next turn
                        ledgers.close_retired()

    @property
    def ready(self) -> bool:
        """Return whether everything that is registered was opened and is open, as far as this worker knows."""
        return self._opened_once and all(ledgers.all_open for ledgers in self._kinds)

    async def is_ready(self) -> bool:
        """Return whether everything is open and answers: the database and each ledger are asked, for a limited time."""
        if not self.ready or self._closing.is_set():
            return False
        self._checker = self._checker or ThreadPoolExecutor(1, thread_name_prefix="readiness")
        if self._checking is None or self._checking.done():
            self._checking = self._checker.submit(self._check_ledgers)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._checking)), _CHECK_SECONDS)
        except TimeoutError:
            return False

    def _check_ledgers(self) -> bool:
        try:
            with self.database.read() as connection:
                connection.execute(sa.select(1))
        except SQLAlchemyError:
            return False
        return all(ledgers.check() for ledgers in self._kinds)

    def ledger_url(self, name: str, *, kind: Kind = "dataset") -> str | Path:
        """Return where the ledger of a dataset or of a holdout is: a file in the home folder, or a schema of PostgreSQL."""
        return self.of_kind(kind).ledger_url(name)

    def of_kind(self, kind: Kind) -> OpenLedgers[Any]:
        """Return the datasets, or the holdouts."""
        return self.datasets if kind == "dataset" else self.holdouts

    def list_datasets(self) -> list[Dataset]:
        """Return every registered dataset that can be opened, sorted by name."""
        return self.datasets.list_open()

    def open_dataset(self, name: str) -> Dataset:
        """Return a dataset, opened if necessary; UnknownName if there is none. May take a while."""
        return self.datasets.find(name)

    async def find_dataset(self, name: str) -> Dataset:
        """Return a dataset like :meth:`open_dataset`, without keeping the event loop waiting."""
        return await self.datasets.find_soon(name)

    def register(self, name: str, document: Mapping[str, Any], *, truth: Callable[[str], float] | None = None) -> Dataset:
        """Register data under a new ledger and a new name: see :meth:`Datasets.register`."""
        return self.datasets.register(name, document, truth=truth)

    def register_holdout(self, name: str, document: Mapping[str, Any]) -> HoldoutDispatcher:
        """Register cases under a new ledger and a new name, for all workers, permanently."""
        return self.holdouts.register(name, document)

    def close(self) -> None:
        """Finish the requests under way, store the newest receipts and close everything."""
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._opened_once = False
        if self._checker is not None:
            self._checker.shutdown(wait=False)
        self._checker = self._checking = None
        for ledgers in self._kinds:
            ledgers.close()

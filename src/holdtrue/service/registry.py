"""The registry: which datasets and holdouts the service guards, opened once in each worker."""

import asyncio
import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from holdtrue.curator import Curator
from holdtrue.curator.second_budget import find_budget, folders_of, has_budget
from holdtrue.engines import Engine, open_engine
from holdtrue.engines.files import match_files
from holdtrue.errors import HoldtrueError, IntegrityError, InvalidParameter, UnknownName
from holdtrue.ledgers import open_ledger
from holdtrue.service.database import DATASETS, Database, lock_creation
from holdtrue.service.dispatch import Dispatcher
from holdtrue.service.holdouts import HoldoutDispatcher, HoldoutRegistry
from holdtrue.service.http.problems import Refused
from holdtrue.service.open_ledgers import OpenLedgers, hide_place
from holdtrue.service.receipts import Kind, LedgerState, Receipts, read_state

if TYPE_CHECKING:
    from holdtrue.service.http.telemetry import Metrics
    from holdtrue.service.settings import Settings

__all__ = ["Dataset", "Registry", "check_name"]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LOGGER = logging.getLogger("holdtrue.service")
_LONGEST_SCHEMA = 60  # of PostgreSQL's 63, less the mark before it
_CONFLICT = 409
_WATCH_SECONDS = 0.25
_CHECK_SECONDS = 1.0
_PAUSE = 0.5
# What a dataset is opened with besides its path; the same names as Curator has.
PLANNED = ("queries", "alpha", "beta", "epsilon", "delta", "reserve", "uses", "cap", "iid", "pure")
CARD = ("types", "bounds", "labels", "header")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """One dataset under guard. ``truth`` gives the true mean of a query where the population is known, as in the demo."""

    name: str
    curator: Curator
    dispatcher: Dispatcher
    description: str
    document: dict[str, Any] = field(repr=False)
    truth: Callable[[str], float] | None = None


def check_name(name: object) -> str:
    """Return a name that datasets and holdouts may have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidParameter("name", name, "a lower-case letter, then up to 62 of a-z, 0-9, - and _")
    return name


class Registry:
    """What is registered stands in the database, for all workers; what is open is this worker's own.

    Guarantee: only registering creates a ledger. What is registered is opened under the very ledger whose number and newest
    receipt the database has, or not at all (P4, P5, P6, P12 across a restart).
    """

    def __init__(self, settings: "Settings", database: Database, metrics: "Metrics") -> None:
        self.settings = settings
        self.database = database
        self.receipts = Receipts(database)
        self._metrics = metrics
        self._truths: dict[str, Callable[[str], float]] = {}
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()
        self._opened_once = False
        self._checker: ThreadPoolExecutor | None = None
        self._checking: Future[bool] | None = None
        self._datasets = OpenLedgers[Dataset](
            "dataset",
            receipts=self.receipts,
            open_one=self._open_registered,
            ledger_of=lambda dataset: dataset.curator.ledger,
            place_of=self.ledger_url,
            close_one=lambda dataset: dataset.dispatcher.close(),
            every=settings.receipt_entries,
        )
        self._holdouts = HoldoutRegistry(self)

    def open_all(self) -> None:
        """Open everything that is registered, in the background, and watch over it; ``ready`` is true once all is open."""
        self._closing.clear()
        self._datasets.start()
        self._holdouts.ledgers.start()
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
                for name in self._list_names():
                    if self._closing.is_set():
                        return
                    self._try_opening(name)
                self._holdouts.list_open()
            except SQLAlchemyError as error:
                # The database does not answer; a traceback may quote a row.
                _LOGGER.error("registry not opened", extra={"kind": type(error).__name__})  # noqa: TRY400
                pause = _PAUSE
                continue
            self._opened_once = True
            return

    def _watch_ledgers(self) -> None:
        """Open again what has stopped, and store receipts, for as long as the service runs."""
        while not self._closing.wait(_WATCH_SECONDS):
            for ledgers in (self._datasets, self._holdouts.ledgers):
                ledgers.reopen_stopped()
                ledgers.store_receipts()

    @property
    def ready(self) -> bool:
        """Return whether everything that is registered was opened and is open, as far as this worker knows."""
        return self._opened_once and self._datasets.all_open and self._holdouts.ledgers.all_open

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
        return self._datasets.check() and self._holdouts.ledgers.check()

    def _try_opening(self, name: str) -> Dataset | None:
        try:
            return self._datasets.open(name)
        except HoldtrueError:  # logged where it was found; whoever asks for it by name is told
            return None

    def list_holdouts(self) -> list[HoldoutDispatcher]:
        """Return every holdout and leaderboard that can be opened, sorted by name."""
        return self._holdouts.list_open()

    def find_holdout(self, name: str) -> HoldoutDispatcher:
        """Return a holdout or a leaderboard; UnknownName if there is none. May take a while the first time."""
        return self._holdouts.find_holdout(name)

    def register_holdout(self, name: str, document: Mapping[str, Any]) -> HoldoutDispatcher:
        """Register cases under a new ledger and a new name, for all workers, permanently."""
        return self._holdouts.register(check_name(name), document)

    def _list_names(self) -> list[str]:
        with self.database.read() as connection:
            return list(connection.execute(sa.select(DATASETS.c.name).order_by(DATASETS.c.name)).scalars())

    def list_datasets(self) -> list[Dataset]:
        """Return every registered dataset that can be opened, sorted by name."""
        return [found for name in self._list_names() if (found := self._try_opening(name)) is not None]

    def open_dataset(self, name: str) -> Dataset:
        """Return a dataset, opened if necessary; UnknownName if there is none. May take a while."""
        known = self._datasets.get(name)
        if known is None and self._read_document(name) is None:
            message = "there is no dataset of that name"
            raise UnknownName(message)
        return known or self._datasets.open(name)

    async def find_dataset(self, name: str) -> Dataset:
        """Return a dataset like :meth:`open_dataset`, without keeping the event loop waiting."""
        known = self._datasets.get(name)
        return known if known is not None else await anyio.to_thread.run_sync(self.open_dataset, name)

    def register(self, name: str, document: Mapping[str, Any], *, truth: Callable[[str], float] | None = None) -> Dataset:
        """Register data under a new ledger and a new name, for all workers, permanently.

        ``document`` has ``path`` and perhaps ``description``, the numbers of a plan and the card, as Curator names them. A
        truth is told again after a restart: :meth:`tell_truth`. Rows that have a budget already are refused unless the
        document says ``second_budget``.
        """
        check_name(name)
        stored = dict(document)
        if self._read_document(name) is not None:
            raise _name_taken()
        place = self._find_place(stored.get("path"))
        where = self.ledger_url(name, create=True)
        meant = bool(stored.get("second_budget"))
        seen: Sequence[str] = () if meant else self._refuse_second_budget(place, stored, own=where)
        try:
            # Whether the rows have a budget is decided above, where the service's other ledgers are known.
            curator = Curator(place, ledger=where, second_budget=True, **_read_given(stored))
        except HoldtrueError as error:
            raise hide_place(error, where) from None
        if truth is not None:
            self._truths[name] = truth
        opened = self._make_dataset(name, stored, curator, truth)
        state = read_state(curator.ledger)
        try:
            self._enter_dataset(name, stored, state, place=place, seen=seen)
        except BaseException:
            opened.dispatcher.close()
            raise
        return self._datasets.add(name, opened, state)

    def _enter_dataset(
        self, name: str, stored: dict[str, Any], state: LedgerState, *, place: str, seen: Sequence[str]
    ) -> None:
        """Write down a dataset with its ledger's first receipt; look again at what was registered in the meantime."""
        row = {"name": name, "document": stored, "created": int(time.time())}
        while True:
            with self.database.begin() as connection:
                lock_creation(connection)
                names = list(connection.execute(sa.select(DATASETS.c.name)).scalars())
                if name in names:
                    raise _name_taken()
                if stored.get("second_budget") or set(names) <= set(seen):
                    connection.execute(sa.insert(DATASETS).values(row))
                    self.receipts.enter(connection, "dataset", name, state)
                    return
            seen = self._refuse_second_budget(place, stored, seen=seen)

    def _refuse_second_budget(
        self, place: str, stored: Mapping[str, Any], *, own: str | Path | None = None, seen: Sequence[str] = ()
    ) -> list[str]:
        """Refuse rows that have a budget under another name or near their file; return the names that were looked at."""
        names = self._list_names()
        ledgers = {name: self.ledger_url(name) for name in names if name not in seen}
        refuse_second_budget(place, ledgers, own=own, header=stored.get("header"))
        return names

    def tell_truth(self, name: str, truth: Callable[[str], float]) -> None:
        """Say what the true mean of a query is for a dataset whose population is known."""
        self._truths[name] = truth
        known = self._datasets.get(name)
        if known is not None:
            self._datasets.exchange(name, replace(known, truth=truth))

    def ledger_url(self, name: str, *, kind: Kind = "dataset", create: bool = False) -> str | Path:
        """Return where the ledger of a dataset or of a holdout is: a file in the home folder, or a schema of PostgreSQL.

        ``create`` makes the schema, which only registering does.
        """
        check_name(name)
        mark, ending = ("ht_", ".ledger") if kind == "dataset" else ("hh_", ".holdout.ledger")
        if self.settings.ledger is None:
            return self.settings.home / f"{name}{ending}"
        digest = hashlib.sha256(name.encode("ascii")).hexdigest()[:16]
        schema = mark + (name if len(name) <= _LONGEST_SCHEMA else f"{name[:40]}_{digest}")
        if create:
            with self.database.begin() as connection:
                connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        url = sa.make_url(self.settings.ledger).update_query_dict({"options": f'-csearch_path="{schema}"'})
        return url.set(drivername="postgresql").render_as_string(hide_password=False)

    def _read_document(self, name: str) -> dict[str, Any] | None:
        if not _NAME.fullmatch(name):
            return None
        with self.database.read() as connection:
            found: dict[str, Any] | None = connection.execute(
                sa.select(DATASETS.c.document).where(DATASETS.c.name == name)
            ).scalar_one_or_none()
        return found

    def _open_registered(self, name: str) -> tuple[Dataset, LedgerState]:
        """Open a dataset that is registered, under the ledger that the database knows; creates nothing."""
        document = self._read_document(name)
        if document is None:
            message = "there is no dataset of that name"
            raise UnknownName(message)
        where = self.ledger_url(name)
        state = self.receipts.check("dataset", name, where)
        # Without the numbers of a plan there is nothing that a ledger could be created with.
        curator = Curator(self._find_place(document.get("path")), ledger=where)
        if curator.ledger.terms.ledger_id != state.ledger_id:
            curator.close()
            message = "the ledger is not the one that the service knows"
            raise IntegrityError(message)
        return self._make_dataset(name, document, curator, self._truths.get(name)), state

    def _make_dataset(
        self, name: str, document: dict[str, Any], curator: Curator, truth: Callable[[str], float] | None
    ) -> Dataset:
        self._metrics.note_left(name, curator.budget.left)
        ledger = curator.ledger
        dispatcher = Dispatcher(curator, lambda error: self._datasets.explain(error, ledger))
        return Dataset(name, curator, dispatcher, str(document.get("description", "")), document, truth)

    def _find_place(self, path: object) -> str:
        """Return a path, or a pattern of files, that lies in a folder which the settings open for data."""
        expected = "a file, or a pattern of files, in one of the folders that the settings name as data"
        if not isinstance(path, str) or not path or "\0" in path:
            raise InvalidParameter("path", path, expected)
        for folder in self.settings.data:
            place = folder / path
            parent = place.parent.resolve()
            if not parent.is_relative_to(folder.resolve()) or not parent.is_dir():
                continue
            files = [Path(name).resolve() for name in match_files(parent / place.name)]
            if files and all(file.is_file() and file.is_relative_to(folder.resolve()) for file in files):
                return str(parent / place.name)
        raise InvalidParameter("path", path, expected)

    def close(self) -> None:
        """Finish the requests under way, store the newest receipts and close everything."""
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._opened_once = False
        if self._checker is not None:
            self._checker.shutdown(wait=False)
        self._checker = self._checking = None
        self._datasets.close()
        self._holdouts.ledgers.close()


def _read_given(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Curator is given of a registration."""
    given = {key: document[key] for key in (*PLANNED, *CARD) if document.get(key) is not None}
    if "bounds" in given:
        given["bounds"] = {column: tuple(ends) for column, ends in given["bounds"].items()}
    return given


def _name_taken() -> Refused:
    return Refused(_CONFLICT, "name taken", "there is already a dataset of that name; choose another")


def refuse_second_budget(
    place: str,
    ledgers: Mapping[str, str | Path],
    *,
    own: str | Path | None = None,
    header: Any = None,  # noqa: ANN401 - as the registration says
) -> None:
    """Refuse data whose rows a ledger guards already: one of those given by name, or with ``own`` one near the file.

    ``own`` is where the ledger of this registration will be, which may be there from a registration that did not end. Data
    that cannot be read are refused when they are opened, in words of their own.
    """
    try:
        engine = open_engine(place, header=header)
    except HoldtrueError:
        return
    try:
        name = _find_named(place, engine, ledgers)
        near = None if own is None else find_budget(place, engine, folders=folders_of(place))
    finally:
        engine.close()
    if name is not None or (near is not None and near != Path(str(own)).resolve()):
        where = "in a ledger near the file" if name is None else f"as the dataset {name}"
        detail = f"these rows already have a budget, {where}; use it, or give second_budget to create another"
        raise Refused(_CONFLICT, "second budget", detail)


def _find_named(place: str, engine: Engine, ledgers: Mapping[str, str | Path]) -> str | None:
    """Return the name of a ledger that belongs to the rows; one that cannot be opened answers nothing by itself."""
    for name, where in ledgers.items():
        with suppress(HoldtrueError), open_ledger(where) as ledger:
            if has_budget(ledger.terms, place, engine):
                return name
    return None

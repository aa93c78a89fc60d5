"""The registry: which datasets and holdouts the service guards, opened once in each worker."""

import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import sqlalchemy as sa

from holdtrue.engines.files import match_files
from holdtrue.errors import InvalidParameter, UnknownName
from holdtrue.service.database import DATASETS, Database
from holdtrue.service.holdout_desks import HoldoutDesk, HoldoutDesks
from holdtrue.service.problems import Refused

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.service.desks import Desk
    from holdtrue.service.metrics import Metrics
    from holdtrue.service.settings import Settings

__all__ = ["Dataset", "Registry", "check_name"]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LOGGER = logging.getLogger("holdtrue.service")
_LONGEST_SCHEMA = 60  # of PostgreSQL's 63, less the mark before it
_CONFLICT = 409
# What a dataset is opened with besides its path; the same names as Curator has.
PLANNED = ("queries", "alpha", "beta", "epsilon", "delta", "reserve", "uses", "cap", "iid", "pure")
CARD = ("types", "bounds", "labels", "header", "second_budget")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """One dataset under guard. ``truth`` gives the true mean of a query where the population is known, as in the demo."""

    name: str
    curator: "Curator"
    desk: "Desk"
    description: str
    document: dict[str, Any] = field(repr=False)
    truth: Callable[[str], float] | None = None


def check_name(name: object) -> str:
    """Return a name that datasets and holdouts may have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidParameter("name", name, "a lower-case letter, then up to 62 of a-z, 0-9, - and _")
    return name


class Registry:
    """What is registered stands in the database, for all workers; what is open is this worker's own."""

    def __init__(self, settings: "Settings", database: Database, metrics: "Metrics") -> None:
        self.settings = settings
        self.database = database
        self._metrics = metrics
        self._open: dict[str, Dataset] = {}
        self._truths: dict[str, Callable[[str], float]] = {}
        self._lock = threading.RLock()
        self._opening: threading.Thread | None = None
        self._closing = False
        self.ready = False
        self._holdouts = HoldoutDesks(self)

    def open_all(self) -> None:
        """Open everything that is registered, in the background; ``ready`` is true once all of it is open."""
        self._closing = False
        self._opening = threading.Thread(target=self._open_each, name="opening", daemon=True)
        self._opening.start()

    def _open_each(self) -> None:
        failed = False
        try:
            for name in self._registered():
                if self._closing:
                    return
                failed |= self._try(name) is None
            self.holdouts()
        except Exception as error:  # noqa: BLE001 - whatever it is, the service is not ready, and a traceback may quote a row
            failed = True
            _LOGGER.error("registry not opened", extra={"kind": type(error).__name__})  # noqa: TRY400 - likewise
        self.ready = not failed

    def _try(self, name: str) -> Dataset | None:
        try:
            return self.dataset(name)
        except Exception as error:  # noqa: BLE001 - one dataset that cannot be opened keeps no other closed
            _LOGGER.error("dataset not opened", extra={"kind": type(error).__name__, "dataset": name})  # noqa: TRY400 - a traceback may quote a row
        return None

    def holdouts(self) -> list[HoldoutDesk]:
        """Return every holdout and leaderboard that can be opened, by name."""
        return self._holdouts.all()

    def holdout(self, name: str) -> HoldoutDesk:
        """Return a holdout or a leaderboard; UnknownName where there is none. May take a while the first time."""
        return self._holdouts.named(name)

    def register_holdout(self, name: str, document: Mapping[str, Any]) -> HoldoutDesk:
        """Open cases under a new ledger and a new name, for all workers and for good."""
        return self._holdouts.register(check_name(name), document)

    def _registered(self) -> list[str]:
        with self.database.read() as connection:
            return list(connection.execute(sa.select(DATASETS.c.name).order_by(DATASETS.c.name)).scalars())

    def datasets(self) -> list[Dataset]:
        """Return every registered dataset that can be opened, by name."""
        return [found for name in self._registered() if (found := self._try(name)) is not None]

    def dataset(self, name: str) -> Dataset:
        """Return a dataset, opened if this worker has not yet; UnknownName where there is none. May take a while."""
        known = self._open.get(name)
        if known is not None:
            return known
        with self._lock:
            known = self._open.get(name)
            if known is not None:
                return known
            document = self._document(name)
            if document is None:
                message = "there is no dataset of that name"
                raise UnknownName(message)
            return self._opened(name, document, self._truths.get(name))

    async def find(self, name: str) -> Dataset:
        """Return a dataset like :meth:`dataset`, without keeping the event loop waiting."""
        known = self._open.get(name)
        return known if known is not None else await anyio.to_thread.run_sync(self.dataset, name)

    def register(self, name: str, document: Mapping[str, Any], *, truth: Callable[[str], float] | None = None) -> Dataset:
        """Open data under a new ledger and a new name, for all workers and for good.

        ``document`` has ``path`` and perhaps ``description``, the numbers of a plan and the card, as Curator names them. A
        truth is told again after a restart: :meth:`tell_truth`.
        """
        check_name(name)
        stored = dict(document)
        with self._lock:
            if self._document(name) is not None:
                raise Refused(_CONFLICT, "name taken", "there is a dataset of that name already; take another")
            opened = self._opened(name, stored, truth)
            try:
                with self.database.begin() as connection:
                    values = {"name": name, "document": stored, "created": int(time.time())}
                    connection.execute(sa.insert(DATASETS).values(values))
            except sa.exc.IntegrityError:
                self._open.pop(name).desk.close()
                raise Refused(_CONFLICT, "name taken", "there is a dataset of that name already; take another") from None
        return opened

    def tell_truth(self, name: str, truth: Callable[[str], float]) -> None:
        """Say what the true mean of a query is for a dataset whose population is known."""
        with self._lock:
            self._truths[name] = truth
            known = self._open.get(name)
            if known is not None:
                self._open[name] = Dataset(name, known.curator, known.desk, known.description, known.document, truth)

    def ledger_url(self, name: str, *, kind: str = "dataset") -> str | Path:
        """Return where the ledger of a dataset or of a holdout is: a file in the home folder, or a schema of PostgreSQL."""
        check_name(name)
        mark, ending = ("ht_", ".ledger") if kind == "dataset" else ("hh_", ".holdout.ledger")
        if self.settings.ledger is None:
            return self.settings.home / f"{name}{ending}"
        digest = hashlib.sha256(name.encode("ascii")).hexdigest()[:16]
        schema = mark + (name if len(name) <= _LONGEST_SCHEMA else f"{name[:40]}_{digest}")
        with self.database.begin() as connection:
            connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        url = sa.make_url(self.settings.ledger).update_query_dict({"options": f'-csearch_path="{schema}"'})
        return url.set(drivername="postgresql").render_as_string(hide_password=False)

    def _document(self, name: str) -> dict[str, Any] | None:
        if not _NAME.fullmatch(name):
            return None
        with self.database.read() as connection:
            found: dict[str, Any] | None = connection.execute(
                sa.select(DATASETS.c.document).where(DATASETS.c.name == name)
            ).scalar_one_or_none()
        return found

    def _opened(self, name: str, document: dict[str, Any], truth: Callable[[str], float] | None) -> Dataset:
        from holdtrue.curator import Curator
        from holdtrue.service.desks import Desk

        given = {key: document[key] for key in (*PLANNED, *CARD) if document.get(key) is not None}
        if "bounds" in given:
            given["bounds"] = {column: tuple(ends) for column, ends in given["bounds"].items()}
        curator = Curator(self._place(document.get("path")), ledger=self.ledger_url(name), **given)
        opened = Dataset(name, curator, Desk(curator), str(document.get("description", "")), document, truth)
        self._metrics.left(name, curator.budget.left)
        self._open[name] = opened
        return opened

    def _place(self, path: object) -> str:
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
        """Finish what is under way and let go of everything."""
        self._closing = True
        if self._opening is not None:
            self._opening.join()
        with self._lock:
            self.ready = False
            for each in self._open.values():
                each.desk.close()
            self._open.clear()
            self._holdouts.close()

"""Holdouts of the service: registered once for all workers, permanently; scored by everyone with a key."""

import asyncio
import csv
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import sqlalchemy as sa

from holdtrue.codec import plain
from holdtrue.errors import HoldtrueError, IntegrityError, InvalidParameter, RefusedError, RequestError, UnknownName
from holdtrue.holdouts import Holdout, Leaderboard, Place, Score, Verdict
from holdtrue.ledgers import Ledger
from holdtrue.service.database import HOLDOUTS
from holdtrue.service.http.problems import Refused
from holdtrue.service.open_ledgers import OpenLedgers, hide_place, unavailable_error
from holdtrue.service.receipts import LedgerState, read_state

if TYPE_CHECKING:
    from holdtrue.service.registry import Registry

__all__ = ["HoldoutDispatcher", "HoldoutRegistry", "read_labels"]

_BOTH = ("beta", "epsilon", "delta", "ids", "labels", "unseen")
_GATE = ("yes", "incumbent", "metric")
_REUSABLE = ("train", "overfits", "threshold", "tolerance")
_HOLDOUT = (*_BOTH, *_GATE, *_REUSABLE, "looks", "private", "weights", "reserve")
_LEADERBOARD = (*_BOTH, "submissions", "rule", "step", "moves")
_REGISTERED = "registered"  # the public name of the results that a gate was registered with
_CONFLICT = 409
_T = TypeVar("_T")


class HoldoutDispatcher:
    """One holdout or leaderboard, and the thread that handles all its requests.

    Guarantee: a key that comes again with the same body gets the same bytes and is no second look; with another body it is
    refused (P5). Results are known by their name, or by the key, and by nothing that they hold. Errors are told as
    ``explain`` has them: 503 while the ledger is being opened again.
    """

    explain: Callable[[HoldtrueError], HoldtrueError] | None = None
    _closed = False

    def __init__(self, name: str, document: dict[str, Any], *, truth: object, ledger: str | Path, new: bool) -> None:
        self.name = name
        self.description = str(document.get("description", ""))
        self._document = document
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="looks")
        if new:  # in memory first: what cannot be opened must not leave a ledger under the name
            self._open_cases(truth, None).close()
        self._kept = self._open_cases(truth, ledger)

    @property
    def board(self) -> bool:
        """Return whether this is a leaderboard."""
        return self._document.get("kind") == "leaderboard"

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of the looks, to be read."""
        return self._kept.ledger

    async def read_card(self) -> dict[str, Any]:
        """Return what is public: the number of cases, the mode, and how many looks are left."""
        return await self._run_in_thread(self._make_card)

    async def read_standings(self) -> list[Place]:
        """Return the standings of a leaderboard. Free."""
        return await self._run_in_thread(self._require_leaderboard().standings)

    async def take_look(self, verb: str, given: Mapping[str, Any], *, key: str, analyst: str) -> Score | Verdict:
        """Return the response to a look; the same key with the same body gets the same response."""
        return await self._run_in_thread(lambda: self._call_verb(verb, dict(given), {"key": key, "analyst": analyst}))

    def close(self) -> None:
        """Finish the requests under way and close the holdout."""
        self._closed = True
        self._thread.shutdown()
        self._kept.close()

    async def _run_in_thread(self, function: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except HoldtrueError as error:
            raise (error if self.explain is None else self.explain(error)) from None
        except RuntimeError:
            if not self._closed:
                raise
            raise unavailable_error() from None  # the thread of a holdout that was closed takes nothing more

    def _call_verb(self, verb: str, given: dict[str, Any], who: dict[str, Any]) -> Score | Verdict:
        given = {name: value for name, value in given.items() if value is not None}
        match verb:
            case "submit":
                return self._require_leaderboard().submit(**given, **who)
            case "gate":
                return self._require_holdout().gate(**given, **who)
            case "certify":
                return self._require_holdout().certify(**who)
            case "compare" if given.pop("results", False):
                return self._require_holdout().compare_cases(**given, **who)
            case "compare":
                for each in {"differ", "name"} & set(given):
                    raise InvalidParameter.without_value(each, "left out unless results are compared")
                return self._require_holdout().compare(**given, **who)
            case _:
                return self._require_holdout().score(**given, **who)

    def _open_cases(self, truth: object, ledger: str | Path | None) -> Holdout | Leaderboard:
        document, names = self._document, _LEADERBOARD if self.board else _HOLDOUT
        given: dict[str, Any] = {name: document[name] for name in names if document.get(name) is not None}
        if document.get("classes") is not None:
            given["classes"] = {label: number for label, number in document["classes"]}  # noqa: C416 - a list of pairs
        if self.board:
            return Leaderboard(truth, ledger=ledger, **given)
        if "incumbent" in given and document.get("metric") == "cases":
            given["incumbent_name"] = _REGISTERED
        return Holdout(truth, ledger=ledger, **given)

    def _require_holdout(self) -> Holdout:
        if not isinstance(self._kept, Holdout):
            message = "this is a leaderboard: it takes submissions, and has standings"
            raise RefusedError(message)
        return self._kept

    def _require_leaderboard(self) -> Leaderboard:
        if not isinstance(self._kept, Leaderboard):
            message = "this is a holdout: it has scores or a gate, no standings"
            raise RefusedError(message)
        return self._kept

    def _make_card(self) -> dict[str, Any]:
        kept = self._kept
        left = kept.left if isinstance(kept, Leaderboard) else kept.looks_left
        facts: dict[str, Any] = plain(kept.facts)
        facts.pop("incumbent", None)
        return {
            "name": self.name,
            "kind": "leaderboard" if self.board else "holdout",
            "description": self.description,
            "cases": kept.plan.rows,
            "looks_left": left,
            "alpha": kept.plan.alpha,
            "theorem": kept.plan.theorem,
        } | facts


class HoldoutRegistry:
    """All holdouts of a service: what is registered stands in the database, what is open is this worker's own."""

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry
        self.ledgers = OpenLedgers[HoldoutDispatcher](
            "holdout",
            receipts=registry.receipts,
            open_one=self._open_registered,
            ledger_of=lambda dispatcher: dispatcher.ledger,
            place_of=lambda name: registry.ledger_url(name, kind="holdout"),
            close_one=lambda dispatcher: dispatcher.close(),
            every=registry.settings.receipt_entries,
        )

    def list_open(self) -> list[HoldoutDispatcher]:
        """Return every holdout that can be opened, sorted by name."""
        with self._registry.database.read() as connection:
            names = list(connection.execute(sa.select(HOLDOUTS.c.name).order_by(HOLDOUTS.c.name)).scalars())
        found: list[HoldoutDispatcher] = []
        for name in names:
            try:
                found.append(self.ledgers.open(name))
            except HoldtrueError:
                continue  # whoever asks for it by name is told why
        return found

    def find_holdout(self, name: str) -> HoldoutDispatcher:
        """Return a holdout, opened if this worker has not yet; UnknownName where there is none."""
        known = self.ledgers.get(name)
        if known is None and self._read_document(name) is None:
            message = "there is no holdout of that name"
            raise UnknownName(message)
        return known or self.ledgers.open(name)

    def register(self, name: str, document: Mapping[str, Any]) -> HoldoutDispatcher:
        """Register cases under a new ledger and a new name, for all workers, permanently."""
        taken = Refused(_CONFLICT, "name taken", "there is already a holdout of that name; choose another")
        if self._read_document(name) is not None:
            raise taken
        try:
            opened = self._make_dispatcher(name, dict(document), new=True)
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

    def _read_document(self, name: str) -> dict[str, Any] | None:
        chosen = sa.select(HOLDOUTS.c.document).where(HOLDOUTS.c.name == name)
        with self._registry.database.read() as connection:
            found: dict[str, Any] | None = connection.execute(chosen).scalar_one_or_none()
        return found

    def _open_registered(self, name: str) -> tuple[HoldoutDispatcher, LedgerState]:
        """Open a holdout that is registered, under the ledger that the database knows."""
        document = self._read_document(name)
        if document is None:
            message = "there is no holdout of that name"
            raise UnknownName(message)
        state = self._registry.receipts.check("holdout", name, self._registry.ledger_url(name, kind="holdout"))
        opened = self._make_dispatcher(name, document, new=False)
        if opened.ledger.terms.ledger_id != state.ledger_id:
            opened.close()
            message = "the ledger is not the one that the service knows"
            raise IntegrityError(message)
        return opened, state

    def _make_dispatcher(self, name: str, document: dict[str, Any], *, new: bool) -> HoldoutDispatcher:
        truth = read_labels(document, folders=self._registry.settings.data)
        ledger = self._registry.ledger_url(name, kind="holdout", create=new)
        dispatcher = HoldoutDispatcher(name, document, truth=truth, ledger=ledger, new=new)
        dispatcher.explain = lambda error: self.ledgers.explain(error, dispatcher.ledger)
        return dispatcher


_EXPECTED = "a .npy, .json or .csv file in one of the folders that the settings name as data"
_TABLE = "left out unless path is a table"
_LARGEST = 1 << 30


def read_labels(document: Mapping[str, Any], *, folders: Sequence[Path]) -> object:
    """Return the labels: ``y_true``, those in the file at ``path``, or ones for as many ``cases`` as have results elsewhere.

    Fails: RequestError, in words that hold nothing of the file but its kind.
    """
    given = [name for name in ("y_true", "path", "cases") if document.get(name) is not None]
    if len(given) != 1:
        raise InvalidParameter.without_value("y_true", "given, or path, or cases: exactly one of them")
    if document.get("column") is not None and given != ["path"]:
        raise InvalidParameter.without_value("column", _TABLE)
    match given[0]:
        case "y_true":
            return document["y_true"]
        case "cases":
            return np.ones(int(document["cases"]))
        case _:
            return _read_file(_find_file(document["path"], folders), document.get("column"))


def _find_file(path: object, folders: Sequence[Path]) -> Path:
    """Return a file that is in one of the folders after links are followed."""
    if isinstance(path, str) and path and "\0" not in path:
        for folder in folders:
            try:
                place = (folder / path).resolve()
                if place.is_relative_to(folder.resolve()) and place.is_file() and place.stat().st_size <= _LARGEST:
                    return place
            except (OSError, RuntimeError):  # a name too long, a ring of links, a folder that is closed to us
                continue
    raise InvalidParameter.without_value("path", _EXPECTED)


def _read_file(place: Path, column: str | None) -> object:
    if column is not None and place.suffix.lower() != ".csv":
        raise InvalidParameter.without_value("column", _TABLE)
    try:
        match place.suffix.lower():
            case ".npy":
                return np.load(place, allow_pickle=False)
            case ".json":
                return json.loads(place.read_text(encoding="utf-8"))
            case ".csv":
                with place.open(encoding="utf-8-sig", newline="") as text:
                    return _read_column(csv.DictReader(text, strict=True), column)
    except (OSError, ValueError, csv.Error, RecursionError, EOFError):
        pass
    else:
        raise InvalidParameter.without_value("path", _EXPECTED)
    message = "the file of labels cannot be read as its ending says"
    raise RequestError(message)


def _read_column(table: "csv.DictReader[str]", column: str | None) -> list[Any]:
    names = list(table.fieldnames or ())
    chosen = names[0] if column is None and len(names) == 1 else column
    if chosen is None or chosen not in names:
        raise InvalidParameter.without_value("column", "the name of the column of labels")
    values = [row[chosen] for row in table]
    return _to_numbers(values)


def _to_numbers(values: list[Any]) -> list[Any]:
    """Return numbers if every cell is one, otherwise the texts unchanged."""
    for kind in (int, float):
        try:
            return [kind(value) for value in values]
        except (ValueError, TypeError):
            continue
    return values

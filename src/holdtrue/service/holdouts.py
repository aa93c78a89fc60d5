"""Holdouts of the service: registered once for all workers, permanently; scored by everyone with a key."""

import csv
import json
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdtrue.codec import plain
from holdtrue.curator.history import Page
from holdtrue.errors import InvalidParameter, RefusedError, RequestError
from holdtrue.holdouts import Holdout, Leaderboard, Place, Score, Verdict
from holdtrue.holdouts.ledger_views import read_budget, read_looks
from holdtrue.holdouts.records import HoldoutBudget
from holdtrue.holdouts.terms import say_width
from holdtrue.requests import HoldoutTerms
from holdtrue.service.dispatch import LedgerThreads
from holdtrue.service.open_ledgers import OpenLedgers
from holdtrue.service.receipts import Receipts

if TYPE_CHECKING:
    from holdtrue.service.settings import Settings

__all__ = ["HoldoutDispatcher", "Holdouts", "read_labels"]

_TERMS = {
    kind: [name for name in HoldoutTerms.__struct_fields__ if name in signature(kind).parameters]
    for kind in (Holdout, Leaderboard)
}
_LINES = 1000
_REGISTERED = "registered"  # the public name of the results that a gate was registered with


class HoldoutDispatcher(LedgerThreads):
    """One holdout or leaderboard, and the threads that handle its requests; looks are taken one at a time.

    Guarantee: a key that comes again with the same body gets the same bytes and is no second look; with another body it is
    refused (P5). Results are known by their name, or by the key, and by nothing that they hold.
    """

    def __init__(
        self,
        name: str,
        document: Mapping[str, Any],
        kept: Holdout | Leaderboard,
        ledgers: OpenLedgers[Any] | None = None,
    ) -> None:
        super().__init__(kept.ledger, ledgers, slow=1)
        self.name = name
        self.description = str(document.get("description", ""))
        self._kept = kept

    async def read_card(self) -> dict[str, Any]:
        """Return what is public: the number of cases, the mode, and how many looks are left."""
        return await self.run_short(self._make_card)

    async def read_standings(self) -> list[Place]:
        """Return the standings of a leaderboard. Free."""
        return await self.run_short(self._require_leaderboard().standings)

    async def take_look(self, verb: str, given: Mapping[str, Any], *, key: str, analyst: str) -> Score | Verdict:
        """Return the response to a look; the same key with the same body gets the same response."""
        return await self.run_long(analyst, self.call_verb, verb, dict(given), {"key": key, "analyst": analyst})

    def close(self) -> None:
        """Finish the requests under way and close the holdout."""
        super().close()
        self._kept.close()

    def read_budget(self) -> HoldoutBudget:
        """Return how many looks and yes are left, and how wide what is told is. Free."""
        return read_budget(self.ledger)

    def read_lines(self, *, analyst: str | None = None, before: int | None = None, limit: int = _LINES) -> Page:
        """Return the newest looks, of one analyst if one is named. Free."""
        return read_looks(self.ledger, before=before, limit=limit, analyst=analyst)

    def call_verb(self, verb: str, asked: Mapping[str, Any], who: Mapping[str, Any]) -> Score | Verdict:
        """Take a look in this thread: for the demonstration, before anybody is served."""
        given = {name: value for name, value in asked.items() if value is not None}
        match verb:
            case "submit":
                return self._require_leaderboard().submit(**given, **who)
            case "gate":
                return self._require_holdout().gate(**given, **who)
            case "certify":
                return self._require_holdout().certify(**given, **who)
            case "compare" if given.pop("results", False):
                return self._require_holdout().compare_cases(**given, **who)
            case "compare":
                for each in {"differ", "name"} & set(given):
                    raise InvalidParameter.without_value(each, "left out unless results are compared")
                return self._require_holdout().compare(**given, **who)
            case _:
                return self._require_holdout().score(**given, **who)

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
            "kind": "leaderboard" if isinstance(kept, Leaderboard) else "holdout",
            "description": self.description,
            "cases": kept.plan.rows,
            "looks_left": left,
            "alpha": kept.plan.alpha,
            "width": say_width(kept.facts, kept.plan),
            "theorem": kept.plan.theorem,
        } | facts


class Holdouts(OpenLedgers[HoldoutDispatcher]):
    """The holdouts and leaderboards of a service."""

    def __init__(self, settings: "Settings", receipts: Receipts) -> None:
        super().__init__("holdout", settings, receipts)

    def register(self, name: str, document: Mapping[str, Any]) -> HoldoutDispatcher:
        """Register cases under a new ledger and a new name, for all workers, permanently."""
        self.refuse_taken(name)
        if document.get("cases") is not None and document.get("yes") is not None and document.get("metric") is None:
            document = dict(document) | {"metric": "cases"}  # of cases without labels there are results only
        truth = read_labels(document, folders=self.settings.data)
        # In memory first: what cannot be opened must not leave a ledger under the name.
        _open_cases(document, truth, None).close()
        return self.create(
            name,
            lambda where: HoldoutDispatcher(name, document, _open_cases(document, truth, where), self),
            lambda state: self.enter(name, document, state),
        )

    def open_under(self, name: str, document: dict[str, Any], where: str | Path) -> HoldoutDispatcher:
        """Open the cases that were registered under their ledger."""
        truth = read_labels(document, folders=self.settings.data)
        return HoldoutDispatcher(name, document, _open_cases(document, truth, where), self)


def _open_cases(document: Mapping[str, Any], truth: object, ledger: str | Path | None) -> Holdout | Leaderboard:
    board = document.get("kind") == "leaderboard"
    names = _TERMS[Leaderboard if board else Holdout]
    given: dict[str, Any] = {name: document[name] for name in names if document.get(name) is not None}
    if document.get("classes") is not None:
        given["classes"] = {label: number for label, number in document["classes"]}  # noqa: C416 - a list of pairs
    if board:
        return Leaderboard(truth, ledger=ledger, **given)
    if "incumbent" in given and document.get("metric") in ("cases", "hits"):
        given["incumbent_name"] = _REGISTERED
    return Holdout(truth, ledger=ledger, **given)


_EXPECTED = "a .npy, .json or .csv file in one of the folders that the settings name as data"
_TABLE = "left out unless path is a table"
_LARGEST = 1 << 30


def read_labels(document: Mapping[str, Any], *, folders: Sequence[Path]) -> object:
    """Return the labels: ``y_true``, those in the file at ``path``, or ones for as many ``cases`` as have results elsewhere.

    Fails: RequestError, whose text tells only what kind of file it is.
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

"""Datasets of the service: registered once for all workers, permanently; asked by everyone with a key, as each may see."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdtrue.codec import plain
from holdtrue.curator import Curator
from holdtrue.curator.budget import Preview
from holdtrue.curator.history import Page, history_page
from holdtrue.curator.known_rows import find_budget, folders_of, has_budget
from holdtrue.curator.opening import plan_terms
from holdtrue.engines import Engine, open_engine
from holdtrue.engines.files import match_files
from holdtrue.engines.postgres import holds_table, read_address
from holdtrue.errors import HoldtrueError, InvalidParameter
from holdtrue.ledgers import Ledger, open_ledger
from holdtrue.planning.plans import AnyPlan
from holdtrue.reports import html_report
from holdtrue.requests import Register, Terms
from holdtrue.service.dispatch import Dispatcher
from holdtrue.service.http.problems import Refused
from holdtrue.service.open_ledgers import OpenLedgers
from holdtrue.service.receipts import LedgerState, Receipts

if TYPE_CHECKING:
    from holdtrue.service.http.telemetry import Metrics
    from holdtrue.service.identity import Caller
    from holdtrue.service.settings import Settings

__all__ = ["Dataset", "Datasets", "budget_document", "preview_for", "report_text", "visible_page"]

_CONFLICT = 409
# What a dataset is opened with, besides what is settled beforehand: whether its rows may have another budget, and its units.
_GIVEN = [name for name in Terms.__struct_fields__ if name not in ("second_budget", "unit", "tables")]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """One registered dataset. ``truth`` gives the true mean of a query where the population is known, as in the demo."""

    name: str
    curator: Curator
    dispatcher: Dispatcher
    description: str
    document: dict[str, Any] = field(repr=False)
    truth: Callable[[str], float] | None = None

    @property
    def ledger(self) -> Ledger:
        """Return the curator's ledger, to be read."""
        return self.curator.ledger

    def close(self) -> None:
        """Finish the requests under way and close the curator."""
        self.dispatcher.close()


class Datasets(OpenLedgers[Dataset]):
    """The datasets of a service. Rows that have a budget get no second one unless the owner asks for it."""

    def __init__(self, settings: "Settings", receipts: Receipts, metrics: "Metrics") -> None:
        super().__init__("dataset", settings, receipts)
        self._metrics = metrics
        self._truths: dict[str, Callable[[str], float]] = {}

    def register(self, name: str, document: Mapping[str, Any], *, truth: Callable[[str], float] | None = None) -> Dataset:
        """Register data under a new ledger and a new name, for all workers, permanently.

        ``document`` has ``path`` and perhaps ``description``, the numbers of a plan and the card, as Curator names them.
        ``truth`` gives the true mean of a query where the population is known. Rows that have a budget already are refused
        unless the document says ``second_budget``.
        """
        self.refuse_taken(name)
        stored = dict(document)
        place = self._find_place(stored.get("path"))
        seen: Sequence[str] | None = None
        if not stored.get("second_budget"):
            seen = self._refuse_second_budget(place, stored, own=self.ledger_url(name))

        def make(where: str | Path) -> Dataset:
            # Whether the rows have a budget is decided above, where the service's other ledgers are known.
            curator = Curator(place, ledger=where, second_budget=True, **_read_given(stored), **self._find_unit(stored))
            if truth is not None:
                self._truths[name] = truth
            return self._make_dataset(name, stored, curator)

        return self.create(name, make, lambda state: self._enter_dataset(name, stored, state, place=place, seen=seen))

    def plan_registration(self, document: Register) -> AnyPlan:
        """Return the plan that a registration would fix. Nothing is stored, and of its rows only the number is told."""
        place, unit = self._find_place(document.path), self._find_unit(plain(document))
        with closing(open_engine(place, types=document.types, header=document.header, **unit)) as engine:
            return plan_terms(document, rows=engine.card.rows, group=document.group or 1)

    def _enter_dataset(
        self, name: str, stored: dict[str, Any], state: LedgerState, *, place: str, seen: Sequence[str] | None
    ) -> None:
        """Register a dataset; look again at what was registered in the meantime."""
        while not self.enter(name, stored, state, seen=seen):
            seen = self._refuse_second_budget(place, stored, seen=seen or ())

    def _refuse_second_budget(
        self, place: str, stored: Mapping[str, Any], *, own: str | Path | None = None, seen: Sequence[str] = ()
    ) -> list[str]:
        """Refuse rows that have a budget under another name or near their file; return the names that were looked at."""
        names = self.list_names()
        ledgers = {name: self.ledger_url(name) for name in names if name not in seen}
        unit = self._find_unit(stored)
        refuse_second_budget(place, ledgers, own=own, **({"header": stored.get("header")} | unit))
        return names

    def open_under(self, name: str, document: dict[str, Any], where: str | Path) -> Dataset:
        """Open the data that were registered under their ledger."""
        # Without the numbers of a plan there is nothing that a ledger could be created with.
        place, unit = self._find_place(document.get("path")), self._find_unit(document)
        return self._make_dataset(name, document, Curator(place, ledger=where, **unit))

    def _make_dataset(self, name: str, document: dict[str, Any], curator: Curator) -> Dataset:
        self._metrics.note_left(name, curator.budget.left)
        description = str(document.get("description", ""))
        return Dataset(name, curator, Dispatcher(curator, self), description, document, self._truths.get(name))

    def _find_unit(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a document says of units: their key, and where the tables with their rows are."""
        if document.get("unit", "row") == "row" and not document.get("tables"):
            return {}
        tables = {name: self._find_place(path) for name, path in (document.get("tables") or {}).items()}
        return {"unit": document.get("unit"), "tables": tables}

    def _find_place(self, path: object) -> str:
        """Return a path, or a pattern of files, that lies in a folder which the settings open for data.

        Or the address of a table in a database that they open.
        """
        expected = "a file, or a pattern of files, in one of the folders that the settings name as data"
        if (address := read_address(path)) is not None:
            if not any(holds_table(each, address) for each in self.settings.databases):
                raise InvalidParameter("path", path, "a table in one of the databases that the settings name")
            return str(path)
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


def _read_given(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Curator is given of a registration."""
    given = {key: document[key] for key in _GIVEN if document.get(key) is not None}
    if "bounds" in given:
        given["bounds"] = {column: tuple(ends) for column, ends in given["bounds"].items()}
    return given


def refuse_second_budget(
    place: str,
    ledgers: Mapping[str, str | Path],
    *,
    own: str | Path | None = None,
    **given: Any,  # noqa: ANN401 - header, unit and tables, as the registration says
) -> None:
    """Refuse data whose rows a ledger guards already: one of those given by name, or with ``own`` one near the file.

    ``own`` is where the ledger of this registration will be, which may be there from a registration that did not end. Data
    that cannot be read are refused when they are opened.
    """
    try:
        engine = open_engine(place, **given)
    except HoldtrueError:
        return
    try:
        name = _find_named(place, engine, ledgers)
        folders = [folder for data in (place, *(given.get("tables") or {}).values()) for folder in folders_of(data)]
        near = None if own is None else find_budget(place, engine, folders=folders)
    finally:
        engine.close()
    if name is not None or (near is not None and near != Path(str(own)).resolve()):
        where = "in a ledger near the file" if name is None else f"as the dataset {name}"
        detail = f"these rows already have a budget, {where}; use it, or give second_budget= to create another"
        raise Refused(_CONFLICT, "second budget", detail, parameter="path")


def _find_named(place: str, engine: Engine, ledgers: Mapping[str, str | Path]) -> str | None:
    """Return the name of a ledger that belongs to the rows; one that cannot be opened answers nothing by itself."""
    for name, where in ledgers.items():
        with suppress(HoldtrueError), open_ledger(where) as ledger:
            if has_budget(ledger.terms, place, engine):
                return name
    return None


def budget_document(curator: Curator, caller: "Caller") -> dict[str, Any]:
    """Return what is spent and left, over all analysts and of the caller's allowance, and what was planned for."""
    plan = curator.plan
    found: dict[str, Any] = plain(curator.budget_for(caller.name))
    return found | {"queries": plan.queries, "epsilon": plan.epsilon, "delta": plan.delta}


def preview_for(curator: Curator, query: str, caller: "Caller") -> Preview:
    """Return what a question would cost and how wide its answer would be, as a caller may see it.

    An analyst is told that it was asked before where the same name paid for it: whether anybody else did is not told. The
    owner, who sees the whole history, is told of everybody's.
    """
    return curator.preview(query, analyst=caller.seen_by)


def visible_page(curator: Curator, caller: "Caller", *, before: int | None = None, limit: int = 100) -> Page:
    """Return the newest lines of a history that a caller may see: an analyst's own, or all for the owner and an auditor.

    The curator's lock is not taken: the ledger is read a few hundred entries at a time.
    """
    return history_page(curator.ledger, before=before, limit=limit, analyst=caller.seen_by)


def report_text(dataset: Dataset, caller: "Caller", *, before: int | None = None, limit: int = 1000) -> str:
    """Return plan, budget and the newest lines that a caller may see as one HTML page."""
    curator = dataset.curator
    shown = visible_page(curator, caller, before=before, limit=limit)
    return html_report(
        title=dataset.name,
        plan=curator.plan,
        budget=curator.budget,
        history=shown.lines,
        receipt=curator.ledger.head,
        columns=curator.card.list_columns(),
        population=curator.card.population,
        whole=before is None and shown.before is None,
    )

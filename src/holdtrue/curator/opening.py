"""Open data and ledger together, by a plan that is made before the first question and never changes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from msgspec.structs import replace

from holdtrue.codec import convert, encode, plain
from holdtrue.curator.known_rows import RowsFingerprint, refuse_second_budget
from holdtrue.engines import Engine, Progress, open_as, open_engine
from holdtrue.errors import FingerprintMismatch, InvalidParameter
from holdtrue.exact import count, text_among, truth
from holdtrue.ledgers import Ledger, open_ledger, read_terms
from holdtrue.planning.asking import open_plan
from holdtrue.planning.asking import plan as make_plan
from holdtrue.planning.methods import SIDES
from holdtrue.planning.plans import AnyPlan, OpenPlan, Plan, read_plan
from holdtrue.planning.purses import read_reserve
from holdtrue.queries.cards import Card
from holdtrue.requests import Reserved, Terms

if TYPE_CHECKING:
    from holdtrue.curator.pipeline import Pipeline

__all__ = ["Opened", "call_for_curators", "enter_curator", "list_curators", "open_all", "plan_terms"]

_LARGEST_GROUP = 10**6
_OPEN: "WeakSet[Pipeline]" = WeakSet()
_CALLED: list[Callable[["Pipeline"], None]] = []
_LOCK = Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """What a curator needs."""

    engine: Engine
    ledger: Ledger
    plan: AnyPlan


def open_all(  # noqa: PLR0913 - what is opened, by which terms, and how
    data: object,
    ledger: "str | PathLike[str] | None",
    terms: Terms,
    *,
    plan: AnyPlan | None,
    progress: Progress | None,
    rehash: bool = False,
) -> Opened:
    """Open an existing ledger with its own plan and card, or create one.

    A ledger that exists decides: its card gives the columns' types, its plan the numbers, and what is given beside must
    agree. A new one needs a plan, or the numbers to make one: queries or alpha, and epsilon and delta to cap privacy; with
    epsilon and delta alone, questions have no set number and their intervals grow with what is spent (T7). It is refused
    where the same rows have a ledger nearby, unless ``second_budget`` is said. Files that are known to be unchanged are not
    hashed again unless ``rehash`` is said.
    """
    truth("rehash", rehash)
    _check_given(plan, iid=terms.iid, pure=terms.pure)
    group = None if terms.group is None else count("group", terms.group, most=_LARGEST_GROUP)
    text_among("side", terms.side, tuple(SIDES))
    stored = _read_stored(ledger)
    unit, tables = _read_unit(terms.unit, terms.tables)
    if unit is not None and group not in (None, 1):
        raise InvalidParameter.saying("group", "leave out group: unit protects everything that a unit owns")
    if stored is not None:
        _check_agreement(stored, terms, plan)
        _check_group(group, stored.plan)
        _check_unit(stored.card, unit, tables)
        engine = open_as(stored.card, data, tables=tables, header=terms.header, spill=_find_spill(ledger))
        fingerprint = RowsFingerprint(engine, ledger, rehash=rehash, progress=progress)
        found = open_ledger(ledger, fingerprint=fingerprint)
        fingerprint.keep()
        return Opened(engine, found, stored.plan)
    engine = open_engine(
        data,
        types=terms.types,
        bounds=terms.bounds,
        labels=terms.labels,
        header=terms.header,
        spill=_find_spill(ledger),
        unit=unit,
        tables=tables,
    )
    refuse_second_budget([data, *tables.values()], engine, meant=terms.second_budget, ledger=ledger)
    made = plan_terms(terms, rows=engine.card.rows, group=group or 1) if plan is None else plan
    _check_group(group, made)
    if plan is not None and _contradicts(terms.iid, plan.iid):
        raise InvalidParameter.saying("iid", f"the plan was made with iid={plan.iid}; leave out iid, or make another plan")
    _check_pure(terms, made)
    _check_side(terms, made)
    if made.ledger is None:
        raise InvalidParameter.saying("plan", f"the method {made.method} is not private; plan by another method")
    fingerprint = RowsFingerprint(engine, ledger, rehash=True, progress=progress)
    new = open_ledger(
        ledger,
        kind=made.ledger,
        cap=made.cap_units,
        plan=encode(made),
        card=encode(engine.card),
        iid=made.iid,
        fingerprint=fingerprint,
    )
    fingerprint.keep()
    return Opened(engine, new, made)


def plan_terms(terms: Terms, *, rows: int, group: int) -> AnyPlan:
    """Return the plan of the numbers that were given: for a number of questions, or for as many as epsilon pays for.

    A group of r rows is planned for as one of rows / r rows, rounded down (V6.6). It has no population: rows of one person
    are no independent draws.
    """
    if group > 1 and terms.iid:
        raise InvalidParameter.saying("iid", "leave out iid with group: rows of one person are not independent draws")
    if rows < group:
        raise InvalidParameter("group", group, f"at most the number of rows, {rows:,}")
    made = _plan_rows(terms, rows=rows // group)
    return made if group == 1 else replace(made, group=group)


def _plan_rows(terms: Terms, *, rows: int) -> AnyPlan:
    shared: dict[str, Any] = {
        "rows": rows,
        "beta": terms.beta,
        "epsilon": terms.epsilon,
        "reserve": plain(terms.reserve) if isinstance(terms.reserve, Reserved) else terms.reserve,
        "uses": terms.uses,
        "iid": bool(terms.iid),
        "pure": terms.pure,
    }
    if terms.queries is not None or terms.alpha is not None:
        asked: dict[str, Any] = {"queries": terms.queries, "alpha": terms.alpha, "cap": terms.cap, "side": terms.side}
        return make_plan(delta=terms.delta, **asked, **shared)
    if isinstance(terms.reserve, Mapping):
        told = "give queries or alpha with a reserve for predictions: an open-ended budget has one currency"
        raise InvalidParameter.saying("reserve", told)
    if terms.epsilon is None or terms.cap not in (None, "privacy"):
        raise InvalidParameter.saying("queries", "give queries or alpha, or only epsilon and delta for an open-ended budget")
    return open_plan(delta=terms.delta or 0, **shared)


def _check_agreement(stored: "_Stored", terms: Terms, plan: AnyPlan | None) -> None:
    """Refuse anything that contradicts what the ledger was created with."""
    if plan is not None and plan != stored.plan:
        raise InvalidParameter.saying("plan", "leave out plan: the ledger was created with another one")
    if _contradicts(terms.iid, stored.iid):
        raise InvalidParameter.saying("iid", f"the ledger was created with iid={stored.iid}; leave out iid")
    _check_pure(terms, stored.plan)
    _check_side(terms, stored.plan)
    _check_reserve(terms, stored.plan)


def _check_group(group: int | None, plan: AnyPlan) -> None:
    """Refuse to protect other groups of rows than the plan does: its prices are theirs."""
    if group is not None and group != plan.group:
        told = f"leave out group: the plan of this ledger has group={plan.group}, and another one would need other prices"
        raise InvalidParameter.saying("group", told)


def _contradicts(said: bool | None, known: bool) -> bool:  # noqa: FBT001 - a declaration, None where it was left out
    return said is not None and said != known


def _read_unit(unit: object, tables: object) -> tuple[str | None, Mapping[str, object]]:
    """Return the column of keys, None where rows are protected, and the tables by name."""
    if unit is not None and not (isinstance(unit, str) and unit):
        raise InvalidParameter.saying("unit", "give unit, the column whose keys say which unit owns a row")
    if tables is not None and not (isinstance(tables, Mapping) and all(isinstance(name, str) for name in tables)):
        raise InvalidParameter.saying("tables", "give tables by name, such as tables={'visits': visits}")
    return None if unit is None or unit == "row" else unit, {} if tables is None else tables


def _check_unit(card: Card, unit: str | None, tables: Mapping[str, object]) -> None:
    """Refuse rows in a ledger of units, and units in a ledger of rows: what one charge protects, the other does not (U4)."""
    known = [table.name for table in card.tables if table.name]
    if unit != card.unit or sorted(tables) != sorted(known):
        listed = f", tables={{{', '.join(f'{name!r}: ...' for name in known)}}}" if known else ""
        way = "leave out unit and tables" if card.unit is None else f"open it with unit={card.unit!r}{listed}"
        protected = "rows" if card.unit is None else f"units, {card.unit!r}"
        raise InvalidParameter.saying("unit", f"this ledger protects {protected}, which cannot be changed: {way}")


def _check_pure(terms: Terms, plan: AnyPlan) -> None:
    """Refuse to call a ledger pure that counts in something else."""
    if terms.pure and plan.ledger != "pure":
        raise InvalidParameter.saying("pure", f"leave out pure: the ledger of this plan counts in {plan.ledger}")


def _check_reserve(terms: Terms, plan: AnyPlan) -> None:
    """Refuse a reserve for other predictions than the ledger was opened with: caps never change (V3.1)."""
    if not isinstance(terms.reserve, Mapping):
        return
    kept = plan.purse if isinstance(plan, Plan) else None
    known = {(each.currency, each.predictions, each.epsilon) for each in read_reserve(terms.reserve)}
    if kept is None or (kept.currency, kept.predictions, kept.epsilon) not in known:
        opened = "a share" if kept is None else f"{kept}, in {kept.currency}"
        told = f"leave out reserve: the ledger was opened with a reserve of {opened}, and its caps cannot change"
        raise InvalidParameter.saying("reserve", told)


def _check_side(terms: Terms, plan: AnyPlan) -> None:
    """Refuse to promise one end by a plan that promises both, or the other one: it is frozen with the plan."""
    if terms.side not in ("both", plan.side):
        message = f"leave out side: the plan of this ledger has side={plan.side!r}"
        if isinstance(plan, OpenPlan):
            message = "leave out side, or give queries or alpha: an open-ended budget promises both ends"
        raise InvalidParameter.saying("side", message)


def _check_given(plan: object, *, iid: object, pure: object) -> None:
    truth("pure", pure)
    if iid is not None:
        truth("iid", iid)
    if plan is not None and not isinstance(plan, AnyPlan):
        raise InvalidParameter("plan", type(plan).__name__, "a plan for asking")


def _find_spill(ledger: "str | PathLike[str] | None") -> Path | None:
    """Return the folder beside a ledger on disk for rows that outgrow memory; None for ledgers elsewhere."""
    return None if ledger is None or "://" in fspath(ledger) else Path(f"{fspath(ledger)}.spill")


def enter_curator(pipeline: "Pipeline") -> None:
    """Enter a curator before its first answer, and then have holdouts look at it, where the process has them."""
    with _LOCK:
        _OPEN.add(pipeline)
        called = list(_CALLED)
    for look_at in called:
        look_at(pipeline)


def call_for_curators(look_at: "Callable[[Pipeline], None]") -> None:
    """Call something for every curator that is open, and for each that will be."""
    with _LOCK:
        _CALLED.append(look_at)
    for pipeline in list_curators():
        look_at(pipeline)


def list_curators() -> "list[Pipeline]":
    """Return the curators that this process has open: a gate on cases among their rows holds their answers back (V1.1)."""
    with _LOCK:
        return [pipeline for pipeline in _OPEN if not pipeline.closed]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a ledger that exists was created with."""

    card: Card
    plan: AnyPlan
    iid: bool


def _read_stored(ledger: "str | PathLike[str] | None") -> _Stored | None:
    """Return the card, the plan and the declaration of a ledger that exists, None where there is none."""
    kept = read_terms(ledger)
    if kept is None:
        return None
    card = json.loads(kept.card)
    if not card or "holdout" in card:
        counted = "a holdout's looks" if card else "estimators' fits"
        message = f"this ledger counts {counted}, so a curator cannot open it; give the curator its own ledger"
        raise FingerprintMismatch(message)
    return _Stored(convert(card, Card), read_plan(kept.plan), kept.iid)

"""Open data and ledger together, by a plan that is made before the first question and never changes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from holdtrue.codec import convert, encode
from holdtrue.curator.second_budget import refuse_second_budget
from holdtrue.engines import Engine, Header, Progress, open_engine
from holdtrue.errors import FingerprintMismatch, InvalidParameter, ReleaseError, RequestError, UnknownName
from holdtrue.exact import Number, truth
from holdtrue.ledgers import Ledger, open_ledger
from holdtrue.planning.asking import open_plan
from holdtrue.planning.asking import plan as make_plan
from holdtrue.planning.plans import AnyPlan, read_plan
from holdtrue.queries.cards import Card

__all__ = ["Opened", "open_all"]


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """What a curator needs."""

    engine: Engine
    ledger: Ledger
    plan: AnyPlan


def open_all(  # noqa: PLR0913 - everything that is fixed when a ledger is created
    data: object,
    ledger: "str | PathLike[str] | None",
    *,
    plan: AnyPlan | None = None,
    queries: int | None = None,
    alpha: Number | None = None,
    beta: Number = 0.05,
    epsilon: Number | None = None,
    delta: Number | None = None,
    reserve: Number = 0.25,
    uses: int = 10,
    cap: str | None = None,
    iid: bool | None = None,
    pure: bool = False,
    types: Mapping[str, str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    labels: Mapping[str, Sequence[object]] | None = None,
    header: Header | None = None,
    second_budget: bool = False,
    progress: Progress | None = None,
) -> Opened:
    """Open an existing ledger with its own plan and card, or create one.

    A ledger that exists decides: its card gives the columns' types, its plan the numbers, and what is given beside must
    agree. A new one needs a plan, or the numbers to make one: queries or alpha, and epsilon and delta to cap privacy; with
    epsilon and delta alone, questions have no set number and their intervals grow with what is spent (T7). It is refused
    where the same rows have a ledger nearby, unless ``second_budget`` is said.
    """
    _check_given(plan, iid=iid, pure=pure)
    stored = _stored(ledger)
    if stored is not None:
        card, frozen, independent = stored
        if plan is not None and plan != frozen:
            raise InvalidParameter("plan", "another plan", "left out: the ledger was created with its own")
        if iid is not None and iid != independent:
            raise InvalidParameter("iid", iid, f"left out, or {independent}, as the ledger was created with")
        _check_pure(pure, frozen)
        engine = open_engine(
            data,
            types={column.name: column.type for column in card.columns},
            bounds={column.name: column.bounds for column in card.columns if column.bounds is not None},
            labels={column.name: column.labels for column in card.columns if column.labels is not None},
            header=header,
            names=[column.name for column in card.columns],
            spill=_spill(ledger),
        )
        return Opened(engine, open_ledger(ledger, fingerprint=_fingerprint(engine, progress)), frozen)
    engine = open_engine(data, types=types, bounds=bounds, labels=labels, header=header, spill=_spill(ledger))
    refuse_second_budget(data, engine, meant=second_budget)
    if plan is None and queries is None and alpha is None:
        if epsilon is None or cap not in (None, "privacy"):
            raise InvalidParameter(
                "queries", None, "given, or alpha, or epsilon and delta alone for questions without a number"
            )
        plan = open_plan(
            rows=engine.card.rows,
            epsilon=epsilon,
            delta=delta or 0,
            beta=beta,
            reserve=reserve,
            uses=uses,
            iid=bool(iid),
            pure=pure,
        )
    elif plan is None:
        plan = make_plan(
            rows=engine.card.rows,
            queries=queries,
            alpha=alpha,
            beta=beta,
            epsilon=epsilon,
            delta=delta,
            reserve=reserve,
            uses=uses,
            cap=cap,  # type: ignore[arg-type]  # checked by the planner
            iid=bool(iid),
            pure=pure,
        )
    elif iid is not None and iid != plan.iid:
        raise InvalidParameter("iid", iid, f"left out, or {plan.iid}, as the plan says")
    _check_pure(pure, plan)
    if plan.ledger is None:
        raise InvalidParameter("plan", plan.method, "by a method that keeps privacy")
    made = open_ledger(
        ledger,
        kind=plan.ledger,
        cap=plan.cap_units,
        plan=encode(plan),
        card=encode(engine.card),
        iid=plan.iid,
        fingerprint=_fingerprint(engine, progress),
    )
    return Opened(engine, made, plan)


def _check_pure(pure: bool, plan: AnyPlan) -> None:  # noqa: FBT001 - as it was said
    """Refuse to call a ledger pure that counts in something else."""
    if pure and plan.ledger != "pure":
        raise InvalidParameter("pure", pure, f"left out: this plan's ledger counts in {plan.ledger}, not in pure epsilon")


def _check_given(plan: object, *, iid: object, pure: object) -> None:
    truth("pure", pure)
    if iid is not None:
        truth("iid", iid)
    if plan is not None and not isinstance(plan, AnyPlan):
        raise InvalidParameter("plan", type(plan).__name__, "a plan for asking")


def _spill(ledger: "str | PathLike[str] | None") -> Path | None:
    """Return the folder beside a ledger on disk for rows that outgrow memory; None for ledgers elsewhere."""
    return None if ledger is None or "://" in fspath(ledger) else Path(f"{fspath(ledger)}.spill")


def _stored(ledger: "str | PathLike[str] | None") -> tuple[Card, AnyPlan, bool] | None:
    """Return the card, the plan and the declaration of a ledger that exists, None where there is none."""
    if ledger is None:
        return None
    try:
        account = open_ledger(ledger)
    except UnknownName:
        return None
    terms = account.terms
    account.close()
    card = json.loads(terms.card)
    if not card or "holdout" in card:
        counted = "a holdout's looks" if card else "estimators' fits"
        message = f"this ledger counts {counted}, and no curator can open it; give the curator a ledger of its own"
        raise FingerprintMismatch(message)
    return convert(card, Card), read_plan(terms.plan), terms.iid


def _fingerprint(engine: Engine, progress: Progress | None) -> Callable[[bytes], str]:
    def fingerprint(key: bytes) -> str:
        try:
            return engine.fingerprint(key, progress=progress).hex()
        except ReleaseError as error:
            failure = str(error)
        # Nothing was charged yet, so this is the request's branch of the tree.
        raise RequestError(failure)

    return fingerprint

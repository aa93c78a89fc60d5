"""Open a holdout's ledger: what is fixed at the first opening decides ever after.

Modes that keep no privacy count their looks on a ledger too: every look is charged one unit under a cap of as many units
as there are looks, with the event NoCost, since a ledger takes no other without a guarantee. The ledger's card, every
request on it and every certificate say that nothing was private.
"""

import json
from collections.abc import Callable, Mapping
from os import PathLike, fspath

from msgspec import UNSET, Struct, UnsetType

from holdtrue.codec import convert, decode, encode
from holdtrue.curator.pipeline import Pipeline
from holdtrue.engines import Engine, open_engine
from holdtrue.errors import InvalidParameter, RefusedError, UnknownName
from holdtrue.holdouts.cases import Cases
from holdtrue.ledgers import open_ledger
from holdtrue.planning.plans import Plan

__all__ = ["Facts", "open_pipeline", "stored_facts"]


class Facts(Struct, frozen=True, forbid_unknown_fields=True):
    """What is public about a holdout and fixed for good, beside the plan.

    ``label_kind`` is what the custodian declares by creating it: labels are "text" or "numbers". ``alpha_released`` is the
    half-width of released scores (S4); without one, as in ledgers created before, they have the plan's. ``by_place``: the
    widths of a gate or of rounded scores follow a look's place in the tree of transcripts (S5); otherwise all are alike.
    """

    mode: str
    looks: int
    beta: float
    unseen: bool
    private: bool
    yes: int | None = None
    overfits: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    threshold: float | None = None
    scale: float | None = None
    metric: str = "accuracy"
    incumbent: str | None = None
    moves: int | None = None
    cells: int | None = None
    label_kind: str | None = None
    # What was added later is written only where it is said: older ledgers keep their bytes.
    alpha_released: float | UnsetType = UNSET
    by_place: bool | UnsetType = UNSET

    def agree(self, given: Mapping[str, object]) -> None:
        """Refuse whatever is said differently when the ledger is opened again."""
        for name, value in given.items():
            if value is not None and value != getattr(self, name):
                known = getattr(self, name)
                raise InvalidParameter(name, value, f"left out, or {known!r}, as the ledger was created with")


def stored_facts(ledger: str | PathLike[str] | None) -> tuple[Facts, Plan] | None:
    """Return what a ledger was created with; None where there is none yet."""
    if ledger is None:
        return None
    try:
        account = open_ledger(ledger)
    except UnknownName:
        return None
    terms = account.terms
    account.close()
    document = json.loads(terms.card)
    if "holdout" not in document:
        message = "this ledger belongs to a curator or to estimators, not to a holdout; take a new ledger"
        raise RefusedError(message)
    return convert(document["holdout"], Facts), decode(terms.plan, Plan)


def open_pipeline(cases: Cases, facts: Facts, plan: Plan, *, ledger: str | PathLike[str] | None, analyst: str) -> Pipeline:
    """Return the pipeline of a holdout: its ledger, created or opened again, with what was answered.

    Failure: FingerprintMismatch if these are other cases than the ledger's; nothing is lost then.
    """
    engine = open_engine(cases.columns())
    where = None if ledger is None else fspath(ledger)
    made = open_ledger(
        where,
        kind=plan.ledger or "pure",
        cap=plan.cap_units,
        plan=encode(plan),
        card=encode({"holdout": facts, "cases": cases.number}),
        iid=True,
        fingerprint=_fingerprint(engine),
    )
    return Pipeline(plan=plan, ledger=made, engine=engine, analyst=analyst)


def _fingerprint(engine: Engine) -> Callable[[bytes], str]:
    return lambda key: engine.fingerprint(key).hex()

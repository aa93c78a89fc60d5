"""Allowances: how much of a dataset's one budget an analyst of a name may spend. They live in the dataset's ledger."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct

from holdtrue.errors import UnknownName
from holdtrue.exact import amount
from holdtrue.service.database import DATASETS, Database

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.service.registry import Registry

__all__ = ["Share", "grant", "grant_offline", "share_of"]


class Share(Struct, frozen=True):
    """What a caller may spend of a dataset, has spent and has left, in the ledger's unit; no allowance is None."""

    dataset: str
    unit: str
    allowance: float | None
    allowed_asks: int | None
    spent: float
    left: float
    asks_left: int


def share_of(curator: "Curator", *, dataset: str, name: str) -> Share:
    """Return what a dataset's ledger has about an analyst. Public numbers only; no row is read."""
    ledger = curator.ledger
    cost, allowance, left = curator.plan.cost, ledger.allowance(name), ledger.left_for(name)
    asks = min(curator.budget.asks, left // cost if cost else 0)
    return Share(
        dataset=dataset,
        unit=ledger.terms.filter.currency,
        allowance=None if allowance is None else amount(allowance),
        allowed_asks=None if allowance is None or not cost else allowance // cost,
        spent=amount(ledger.spent_by(name)),
        left=amount(left),
        asks_left=max(0, asks),
    )


async def grant(registry: "Registry", name: str, allowances: Mapping[str, int]) -> None:
    """Give an analyst so many asks of each dataset named; nothing is given where one of the datasets is unknown."""
    found = [(await registry.find(dataset), asks) for dataset, asks in allowances.items()]
    for dataset, asks in found:
        await dataset.desk.call(dataset.curator.grant, name, asks=asks)


def grant_offline(registry: "Registry", database: Database, name: str, allowances: Mapping[str, int]) -> None:
    """Give allowances from the ledgers alone, without opening data; a service that runs sees them at once."""
    from holdtrue.ledgers import open_ledger
    from holdtrue.planning.plans import read_plan

    with database.read() as connection:
        known = set(connection.execute(sa.select(DATASETS.c.name)).scalars())
    for dataset in allowances:
        if dataset not in known:
            message = f"there is no dataset named {dataset[:63]}"
            raise UnknownName(message)
    for dataset, asks in allowances.items():
        ledger = open_ledger(registry.ledger_url(dataset))
        try:
            ledger.grant(name, allowance=asks * read_plan(ledger.terms.plan).cost)
        finally:
            ledger.close()

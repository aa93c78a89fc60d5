"""A ledger for rehearsals: it counts as the others do, and takes events without a guarantee."""

from holdtrue.ledgers.accounts import Account
from holdtrue.ledgers.entries import FilterKind
from holdtrue.ledgers.opening import Fingerprint, terms_of
from holdtrue.ledgers.stores import MemoryStore

__all__ = ["Rehearsal"]


def _no_data(key: bytes) -> str:
    del key
    return "rehearsal"


class Rehearsal(Account):
    """A ledger in memory that takes NonPrivate events, for tests with seeded bits. Nothing charged here is private."""

    takes_unprotected = True

    def __init__(  # noqa: PLR0913 - one keyword for each of the terms
        self,
        *,
        kind: FilterKind = "gdp",
        cap: int = 10**15,
        plan: str | None = None,
        card: str | None = None,
        iid: bool = False,
        fingerprint: Fingerprint = _no_data,
    ) -> None:
        terms = terms_of(kind=kind, cap=cap, plan=plan, card=card, iid=iid, fingerprint=fingerprint)
        super().__init__(MemoryStore(terms, where="in memory, for rehearsal: nothing here is private"))

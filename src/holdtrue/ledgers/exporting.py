"""A copy of a ledger for an auditor: everything that verifies it, without the key that ties it to the rows."""

from os import PathLike
from pathlib import Path

from holdtrue.errors import InvalidParameter
from holdtrue.ledgers.ledger import Ledger
from holdtrue.ledgers.sqlite import SqliteStore
from holdtrue.ledgers.transactions import Lookup

__all__ = ["export"]

_PAGE = 1000


def export(ledger: Ledger, path: str | PathLike[str]) -> int:
    """Write a copy of a ledger, wherever it is kept, to a new SQLite file, and return how many entries it has.

    Guarantee: the copy verifies with the same digests, so receipts of the one fit the other; it has a hash in place of the
    key, so no guess of the rows can be checked with it, and no curator opens it. Needs a path that does not exist yet.
    """
    place = Path(path)
    if place.exists():
        raise InvalidParameter("path", str(path), "a path that does not exist yet")
    store = SqliteStore(place, create=ledger.terms.without_key)
    try:
        number, last = 0, ledger.head[0]
        while number < last:
            page = ledger.entries(number + 1, min(number + _PAGE, last) + 1)
            store.begin(Lookup())
            store.commit(page)
            number = page[-1].number
    finally:
        store.close()
    return last

"""Open a ledger, wherever it is kept, and create it the first time."""

import hmac
import importlib.util
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from holdtrue.entropy import SYSTEM
from holdtrue.errors import FingerprintMismatch, InvalidParameter, MissingExtra, RefusedError, UnknownName
from holdtrue.ledgers.entries import FilterKind, Terms, read_clock
from holdtrue.ledgers.ledger import Ledger
from holdtrue.ledgers.transactions import MemoryStore

if TYPE_CHECKING:
    from holdtrue.ledgers.sql_store import SqlStore

__all__ = ["Fingerprint", "Where", "make_terms", "open_ledger", "read_terms", "store_at"]

Where: TypeAlias = str | PathLike[str] | None
Fingerprint: TypeAlias = Callable[[bytes], str]
"""The data's fingerprint under a secret key of 32 bytes, which the ledger alone keeps."""

_ID_WORDS, _KEY_WORDS = 2, 5  # 128 and 320 bits: by its length an engine knows which fingerprint a key is for
_POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")


def open_ledger(  # noqa: PLR0913 - one keyword for each of the terms
    where: Where = None,
    *,
    kind: FilterKind | None = None,
    cap: int | None = None,
    plan: str | None = None,
    card: str | None = None,
    iid: bool | None = None,
    fingerprint: Fingerprint | None = None,
) -> Ledger:
    """Return the ledger at a path (SQLite), at a PostgreSQL URL, or a new one in memory for None.

    ``kind``, ``cap`` (units of 1e-15) and ``fingerprint`` create it where there is none; a ledger that exists gives its own
    terms back, and whatever is given beside must agree with them. ``fingerprint`` is called with the ledger's secret key
    and may scan the data; without it an existing ledger is opened to be looked at.

    Failure: FingerprintMismatch for other data, RefusedError for other terms, UnknownName where there is nothing to open,
    IntegrityError for what is damaged, Refused or InvalidParameter for a place that cannot be used. Nothing is lost.
    """
    if fingerprint is not None and not callable(fingerprint):
        raise InvalidParameter.without_value(
            "fingerprint", f"a function of the ledger's key, not {type(fingerprint).__name__}"
        )

    def make() -> Terms:
        if kind is None or cap is None or fingerprint is None:
            name = "kind, cap and fingerprint"
            raise InvalidParameter.without_value(name, "given together to create a ledger")
        return make_terms(kind=kind, cap=cap, plan=plan, card=card, iid=iid, fingerprint=fingerprint)

    create = None if kind is None and cap is None else make
    store = MemoryStore(make()) if where is None else store_at(where, create=create)
    try:
        given = {"kind": kind, "cap": cap, "plan": plan, "card": card, "iid": iid}
        _compare_terms(store.terms, given=given, fingerprint=fingerprint)
        return Ledger(store)
    except BaseException:
        store.close()
        raise


def read_terms(where: Where) -> Terms | None:
    """Return what a ledger that exists was created with; None where there is none."""
    if where is None:
        return None
    try:
        with open_ledger(where) as account:
            return account.terms
    except UnknownName:
        return None


def make_terms(  # noqa: PLR0913 - one keyword for each of the terms
    *, kind: FilterKind, cap: int, plan: str | None, card: str | None, iid: bool | None, fingerprint: Fingerprint
) -> Terms:
    """Return terms for a new ledger, with its own random number and key."""
    key = SYSTEM.words(_KEY_WORDS).tobytes()
    return Terms(
        ledger_id=SYSTEM.words(_ID_WORDS).tobytes().hex(),
        kind=kind,
        cap=cap,
        plan=plan or "{}",
        card=card or "{}",
        iid=False if iid is None else iid,
        created=read_clock(),
        fingerprint=fingerprint(key),
        key=key.hex(),
    )


def store_at(
    where: str | PathLike[str], *, create: Callable[[], Terms] | None = None, read_only: bool = False
) -> "SqlStore":
    """Return the store at a path or a URL."""
    if isinstance(where, str) and where.startswith(_POSTGRES):
        if importlib.util.find_spec("psycopg") is None:
            raise MissingExtra("postgres", purpose="a ledger in PostgreSQL")
        from holdtrue.ledgers.postgres import PostgresStore

        return PostgresStore(where, create=create, read_only=read_only)
    path: object
    try:
        path = fspath(where)
    except Exception:  # noqa: BLE001 - whatever is no path
        path = None
    if not isinstance(path, str):
        raise InvalidParameter.without_value("where", f"a path, a PostgreSQL URL or None, not {type(where).__name__}")
    if not str(where):
        raise InvalidParameter("where", where, "a path, a PostgreSQL URL or None")
    if "://" in str(where):
        raise InvalidParameter.without_value("where", "a path or a PostgreSQL URL, not another kind of URL")
    from holdtrue.ledgers.sqlite import SqliteStore

    return SqliteStore(Path(where), create=create, read_only=read_only)


def _compare_terms(terms: Terms, *, given: Mapping[str, object], fingerprint: Fingerprint | None) -> None:
    for name, value in given.items():
        if value is not None and not (isinstance(value, type(getattr(terms, name))) and value == getattr(terms, name)):
            message = f"the ledger was created with another {name}, which cannot change; leave it out, or use a new ledger"
            raise RefusedError(message)
    if fingerprint is not None and terms.is_sealed:
        message = "this is an exported copy of a ledger, for reading and verifying only; open the ledger itself"
        raise RefusedError(message)
    if fingerprint is not None and not hmac.compare_digest(fingerprint(bytes.fromhex(terms.key)), terms.fingerprint):
        message = "the ledger belongs to other data; open it with the rows it was created with, or use a new ledger"
        raise FingerprintMismatch(message)

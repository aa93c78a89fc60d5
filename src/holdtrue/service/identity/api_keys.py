"""Keys: 256 random bits, shown once, kept as a digest, revoked at once; and the page's sessions, which stand for keys.

A key reads ``ht_<prefix>_<secret>``. The prefix finds its row, is public and stands in logs; only its holder
has the secret. An allowance, how much of a dataset's budget the analyst of a name may spend, is kept in the dataset's
ledger. A session is a cookie that stands for a key, for twelve hours, in a browser and nowhere else.
"""

import base64
import hmac
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct

from holdtrue.entropy import SYSTEM
from holdtrue.errors import InvalidParameter, RefusedError, Unauthorized, UnknownName
from holdtrue.exact import amount
from holdtrue.service.database import KEYS, SESSIONS, CoalescedReads, Database, Version
from holdtrue.service.http.problems import Refused
from holdtrue.service.identity import Caller
from holdtrue.service.identity.oidc import TOKENS_PREFIX, Tokens
from holdtrue.service.settings import ROLES, Issuer, Role

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdtrue.curator import Curator
    from holdtrue.service.receipts import Registered
    from holdtrue.service.registry import Registry
    from holdtrue.service.settings import Settings

__all__ = [
    "COOKIE",
    "SECONDS",
    "Key",
    "Keyring",
    "Sessions",
    "Share",
    "check_record",
    "forget_cookie",
    "grant_allowances",
    "grant_offline",
    "set_cookie",
    "share_of",
]

COOKIE = "holdtrue_session"
SECONDS = 12 * 3600
_COOKIE_WORDS, _COOKIE_LENGTH = 4, 43
_KEY = re.compile(r"ht_([a-z2-7]{8})_[A-Za-z0-9_-]{43}")
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_NOBODY = "........"
_LONGEST_NAME = 100
_LONGEST_CHECKED = 256
_MOST_ALLOWANCES = 1_000
_MOST_ASKS = 10**12
_PREFIX_WORDS, _SECRET_WORDS, _PREFIX_BYTES = 1, 4, 5
_LEAST_PEPPER = 32
_FIRST = 0x686F6C646B657973  # the number of the advisory lock for the first key: "holdkeys"
_MOST_REMEMBERED = 4096
_CONFLICT = 409
_UNKNOWN = "there is no such key, or it is no longer valid"
_CHOSEN = sa.select(KEYS).where(KEYS.c.prefix.in_(sa.bindparam("prefixes", expanding=True)))


@dataclass(frozen=True, slots=True)
class Key:
    """What is public about a key. Times are whole seconds since 1970, None where there is none."""

    prefix: str
    name: str
    role: Role
    created: int
    expires: int | None = None
    revoked: int | None = None
    allowances: Mapping[str, int] = field(default_factory=dict)


class Keyring:
    """All keys of a service.

    Law: :meth:`check` and :meth:`find_caller` return a caller only for the whole text of a key that was created here and is
    neither revoked nor expired at the moment of the call, in every worker: each call reads the row after it began, or sees
    after it began that nothing was written since the row was read, so a revocation that was committed counts from the next
    request on. Digests are compared in constant time. Needs: the database. Fails: with ``Unauthorized``, the same for every
    reason and for about the same work: only keys that were valid are remembered.
    """

    def __init__(self, database: Database, *, issuer: Issuer | None = None, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now
        self._hmac = hmac.new(_read_pepper(database), digestmod="sha256")
        self._absent = SYSTEM.words(_SECRET_WORDS).tobytes().hex()
        self._reading = CoalescedReads(self._read_rows)
        self._version = Version(database.engine)
        self._remembered: tuple[int | None, dict[str, Mapping[str, Any]]] = (None, {})
        self._tokens = None if issuer is None else Tokens(issuer)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdtrue-tokens")

    def create(
        self,
        name: str,
        role: Role,
        allowances: Mapping[str, int] | None = None,
        expires: int | None = None,
    ) -> tuple[str, Key]:
        """Return a new key's text, which nobody can see again, and its record."""
        with self._database.begin() as connection:
            return self._create_key(connection, name, role, dict(allowances or {}), expires)

    def create_first(self, name: str = "owner") -> str | None:
        """Return the text of the first owner's key; None if there was one; of concurrent callers only one gets it."""
        with self._database.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_FIRST)))
            if connection.execute(sa.select(KEYS.c.prefix).where(KEYS.c.role == "owner").limit(1)).first() is not None:
                return None
            return self._create_key(connection, name, "owner", {}, None)[0]

    def check(self, text: str) -> Caller:
        """Return the caller that a key belongs to."""
        if self._tokens is not None and _TOKEN.fullmatch(text):
            return self._tokens.check(text)
        prefix = _prefix_of(text)
        return self._judge_key(text, self._read_rows([prefix]).get(prefix))

    async def find_caller(self, text: str) -> Caller:
        """Return the caller that a key belongs to, with one read for all concurrent calls; never blocks the event loop."""
        if self._tokens is not None and _TOKEN.fullmatch(text):
            import asyncio

            return await asyncio.get_running_loop().run_in_executor(self._thread, self._tokens.check, text)
        # Before the row is read: what is written meanwhile makes a newer version, and the row is read again.
        version = await self._version.read_soon()
        remembered = self._recall_caller(version, text)
        if remembered is not None:
            return remembered
        row = await self._reading.read_row(_prefix_of(text))
        caller = self._judge_key(text, row)
        if row is not None and version is not None:
            self._remember_row(version, row)
        return caller

    def revoke(self, prefix: str, *, keep_owner: bool = False) -> Key:
        """Make a key invalid from now on, with the page sessions that began with it.

        ``keep_owner`` refuses to take the last owner's key that is valid, after which nobody could give another.
        """
        chosen = KEYS.c.prefix == prefix
        with self._database.begin() as connection:
            now = int(self._now())
            if keep_owner:
                self._check_other_owner(connection, prefix, now)
            connection.execute(sa.update(KEYS).where(chosen, KEYS.c.revoked.is_(None)).values(revoked=now))
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.prefix == prefix))
            row = connection.execute(sa.select(KEYS).where(chosen)).mappings().first()
        if row is None:
            message = "there is no key with that prefix"
            raise UnknownName(message)
        return _to_key(row)

    def _check_other_owner(self, connection: sa.Connection, prefix: str, now: int) -> None:
        if connection.dialect.name == "postgresql":  # two owners who revoke each other's key come one after the other
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_FIRST)))
        live = sa.and_(KEYS.c.revoked.is_(None), sa.or_(KEYS.c.expires.is_(None), KEYS.c.expires > now))
        owners = connection.execute(sa.select(KEYS.c.prefix).where(KEYS.c.role == "owner", live)).scalars().all()
        if list(owners) == [prefix]:
            detail = (
                "this is the last owner's key; create another owner's key first, or revoke it with `holdtrue key revoke`"
            )
            raise Refused(_CONFLICT, "last owner", detail)

    def list(self) -> "list[Key]":
        """Return all keys, oldest first, those revoked included."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(KEYS).order_by(KEYS.c.created, KEYS.c.prefix)).mappings().all()
        return [_to_key(row) for row in rows]

    def find_holder(self, prefix: str) -> Caller:
        """Return who holds a key now, by its prefix alone: for callers who showed the whole key before."""
        row = self._read_rows([prefix]).get(prefix)
        if row is None or not self._is_live(row):
            raise Unauthorized(_UNKNOWN)
        return Caller(row["name"], row["role"], row["prefix"])

    def make_digest(self, text: str) -> str:
        """Return the digest by which a secret is stored."""
        # hmac.digest would give the interpreter's lock to another thread, which the event loop then waits for.
        made = self._hmac.copy()
        made.update(text[:_LONGEST_CHECKED].encode("utf-8", "replace"))
        return made.hexdigest()

    @property
    def database(self) -> Database:
        """Return where keys are kept."""
        return self._database

    @property
    def sessions(self) -> "Sessions":
        """Return the page sessions that begin with these keys."""
        return Sessions(self, now=self._now)

    def close(self) -> None:
        """Stop the threads."""
        self._reading.close()
        self._version.close()
        self._thread.shutdown(wait=False)

    def _create_key(
        self, connection: sa.Connection, name: str, role: Role, allowances: dict[str, int], expires: int | None
    ) -> tuple[str, Key]:
        now = int(self._now())
        check_record(name, role, allowances)
        if expires is not None and expires <= now:
            raise InvalidParameter("expires", expires, "a time in the future")
        prefix = _draw_prefix()
        while connection.execute(sa.select(KEYS.c.prefix).where(KEYS.c.prefix == prefix)).first() is not None:
            prefix = _draw_prefix()
        text = f"ht_{prefix}_{_draw_secret()}"
        key = Key(prefix, name, role, now, expires, None, allowances)
        row = {column: getattr(key, column) for column in Key.__slots__}
        connection.execute(sa.insert(KEYS).values(**row, digest=self.make_digest(text)))
        return text, key

    def _read_rows(self, prefixes: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        with self._database.read() as connection:
            rows = connection.execute(_CHOSEN, {"prefixes": list(prefixes)}).mappings().all()
        return {row["prefix"]: dict(row) for row in rows}

    def _recall_caller(self, version: int | None, text: str) -> Caller | None:
        known, rows = self._remembered
        row = rows.get(self.make_digest(text)) if version is not None and version == known else None
        return Caller(row["name"], row["role"], row["prefix"]) if row is not None and self._is_live(row) else None

    def _remember_row(self, version: int, row: Mapping[str, Any]) -> None:
        known, rows = self._remembered
        if version != known or len(rows) >= _MOST_REMEMBERED:
            rows = {}
            self._remembered = (version, rows)
        rows[row["digest"]] = row

    def _is_live(self, row: Mapping[str, Any]) -> bool:
        return row["revoked"] is None and (row["expires"] is None or row["expires"] > self._now())

    def _judge_key(self, text: str, row: Mapping[str, Any] | None) -> Caller:
        # The digest is made and compared whether there is a row or not.
        same = hmac.compare_digest(self.make_digest(text), self._absent if row is None else row["digest"])
        if row is None or not same or len(text) > _LONGEST_CHECKED or not self._is_live(row):
            raise Unauthorized(_UNKNOWN)
        return Caller(row["name"], row["role"], row["prefix"])


def _read_pepper(database: Database) -> bytes:
    given = os.environ.get("HOLDTRUE_PEPPER")
    if given is None:
        return database.read_secret("pepper").encode()
    if len(given) < _LEAST_PEPPER:
        raise InvalidParameter.without_value("HOLDTRUE_PEPPER", f"at least {_LEAST_PEPPER} characters long")
    return given.encode()


def _prefix_of(text: str) -> str:
    found = _KEY.fullmatch(text)
    return _NOBODY if found is None else found[1]


def _draw_prefix() -> str:
    return base64.b32encode(SYSTEM.words(_PREFIX_WORDS).tobytes()[:_PREFIX_BYTES]).decode().lower()


def _draw_secret() -> str:
    return base64.urlsafe_b64encode(SYSTEM.words(_SECRET_WORDS).tobytes()).decode().rstrip("=")


def _to_key(row: Mapping[Any, Any]) -> Key:
    return Key(**{name: row[name] for name in Key.__slots__})


def check_record(name: str, role: Role, allowances: Mapping[str, int]) -> None:
    """Refuse a name, role or allowances that no key may have."""
    if not _is_name(name):
        raise InvalidParameter(
            "name", name, f"1 to {_LONGEST_NAME} printable characters that do not begin with {TOKENS_PREFIX}:"
        )
    if role not in ROLES:
        raise InvalidParameter("role", role, f"one of {', '.join(ROLES)}")
    if len(allowances) > _MOST_ALLOWANCES or not all(map(_is_count, allowances.values())):
        raise InvalidParameter.without_value("allowances", "whole numbers of questions by dataset")


def _is_name(value: object) -> bool:
    """Return whether a name may stand in a ledger: names of token holders are kept apart by how they begin."""
    told = isinstance(value, str) and value.isprintable() and value == value.strip() and 0 < len(value) <= _LONGEST_NAME
    return told and not str(value).startswith(f"{TOKENS_PREFIX}:")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_ASKS


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


async def grant_allowances(registry: "Registry", name: str, allowances: Mapping[str, int]) -> None:
    """Grant an analyst this many asks of each dataset; nothing is granted if one of the datasets is unknown."""
    found = [(await registry.find_dataset(dataset), asks) for dataset, asks in allowances.items()]
    for dataset, asks in found:
        await dataset.dispatcher.run_short(dataset.curator.grant, name, asks=asks)


def grant_offline(datasets: "Registered", name: str, allowances: Mapping[str, int]) -> None:
    """Grant allowances in the ledgers alone, without opening data; a running service sees them at once."""
    from holdtrue.ledgers import open_ledger
    from holdtrue.planning.plans import read_plan

    known = set(datasets.list_names())
    for dataset in allowances:
        if dataset not in known:
            message = f"there is no dataset named {dataset[:63]}"
            raise UnknownName(message)
    for dataset, asks in allowances.items():
        ledger = open_ledger(datasets.ledger_url(dataset))
        try:
            ledger.grant(name, allowance=asks * read_plan(ledger.terms.plan).cost)
        finally:
            ledger.close()


class Sessions:
    """Page sessions: ``service.keyring.sessions``.

    Law: a cookie's value is 256 random bits, stored as a digest; it stands for a caller only while the key it began with
    is valid, and for twelve hours at most. Needs: the keyring. Fails: with ``Unauthorized``.
    """

    def __init__(self, keyring: "Keyring", *, now: Callable[[], float] = time.time) -> None:
        self._keyring = keyring
        self._now = now

    def begin(self, caller: Caller) -> str:
        """Return a new cookie's value for a caller with a key; delete expired sessions."""
        if caller.prefix == TOKENS_PREFIX:
            message = "the page is opened with a key of this service, not with a token"
            raise RefusedError(message)
        value = base64.urlsafe_b64encode(SYSTEM.words(_COOKIE_WORDS).tobytes()).decode().rstrip("=")
        now = int(self._now())
        row = {"digest": self._make_digest(value), "prefix": caller.prefix, "created": now, "expires": now + SECONDS}
        with self._keyring.database.begin() as connection:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.expires <= now))
            connection.execute(sa.insert(SESSIONS).values(**row))
        return value

    def caller_of(self, cookie: str) -> Caller:
        """Return whom a cookie stands for."""
        chosen = sa.select(SESSIONS.c.prefix, SESSIONS.c.expires).where(SESSIONS.c.digest == self._make_digest(cookie))
        with self._keyring.database.read() as connection:
            row = connection.execute(chosen).first()
        if len(cookie) != _COOKIE_LENGTH or row is None or row.expires <= self._now():
            message = "there is no such session, or it has ended"
            raise Unauthorized(message)
        return self._keyring.find_holder(row.prefix)

    def end(self, cookie: str) -> None:
        """End a session; one that is not there is ended already."""
        with self._keyring.database.begin() as connection:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.digest == self._make_digest(cookie)))

    def _make_digest(self, cookie: str) -> str:
        # The word keeps a session's digest from ever being a key's.
        return self._keyring.make_digest(f"session {cookie}")


def set_cookie(response: "Response", value: str, settings: "Settings") -> None:
    """Set a session's cookie: scripts cannot read it, and it is never sent from another site."""
    secure = settings.secure_cookies
    response.set_cookie(COOKIE, value, max_age=SECONDS, path="/", secure=secure, httponly=True, samesite="strict")


def forget_cookie(response: "Response", settings: "Settings") -> None:
    """Delete a session's cookie."""
    response.delete_cookie(COOKIE, path="/", secure=settings.secure_cookies, httponly=True, samesite="strict")

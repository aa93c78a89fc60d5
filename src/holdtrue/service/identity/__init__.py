"""Who is asking, and how fast: the dependencies by which a route says whom it answers, and each caller's rate.

Under /v1 and /v2 only ``Authorization: Bearer`` counts; a cookie is never looked at, so that no page of another origin
can ask in somebody's name.
"""

import hashlib
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Header, Request
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from limits import parse_many

from holdtrue.errors import RefusedError, Unauthorized
from holdtrue.service import service_of
from holdtrue.service.http.problems import Refused

if TYPE_CHECKING:
    from starlette.types import Scope

    from holdtrue.service import Service
    from holdtrue.service.settings import Role

__all__ = [
    "Analyst",
    "Anyone",
    "Auditor",
    "Caller",
    "IdempotencyKey",
    "Owner",
    "Rates",
    "caller_in",
    "caller_of",
    "demand_role",
    "headers_of",
    "request_id_in",
    "request_id_of",
    "require_analyst",
    "require_auditor",
    "require_key",
    "require_owner",
]

_IDEMPOTENCY = re.compile(r"[ -~]{1,128}")
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]+) *")


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a key or a token. ``name`` is the analyst in the ledgers; keys of one name share their allowance."""

    name: str
    role: "Role"
    prefix: str

    @property
    def seen_by(self) -> str | None:
        """Return whose answers this caller may see: an analyst's own, or those of all."""
        return self.name if self.role == "analyst" else None


async def caller_of(request: Request) -> Caller:
    """Return who sends a request, as :func:`caller_in` does."""
    return await caller_in(request.scope, service_of(request))


async def caller_in(scope: "Scope", service: "Service") -> Caller:
    """Return who sends a request, looked up and counted once.

    Law: without a key that is valid now, the answer is one and the same 401 (bytes, headers, and the same work: a
    digest and a read), whether there is no key, or it is malformed, unknown, wrong, revoked or expired. Needs: the
    database of keys. Fails: with 429 when the caller's rate is used up.
    """
    known = scope.get("caller")
    if isinstance(known, Caller):
        return known
    try:
        caller = await service.keyring.find_caller(_read_bearer(scope))
    except Unauthorized:
        caller = None
    if caller is None:
        detail = "a valid key is needed: Authorization: Bearer"
        raise Refused(401, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})
    scope["caller"] = caller
    service.rates.check(caller)
    return caller


def _read_bearer(scope: "Scope") -> str:
    """Return the one bearer key of a request, or nothing: two of them are as good as none."""
    given = headers_of(scope, b"authorization")
    found = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    return "" if found is None else found[1]


def headers_of(scope: "Scope", name: bytes) -> list[str]:
    """Return every value of a header, by its name in lower case."""
    return [value.decode("latin-1") for given, value in scope["headers"] if given == name]


_SCHEME = HTTPBearer(scheme_name="key", description="A key of this service, or a token of its issuer.", auto_error=False)


async def require_key(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_SCHEME)],
) -> Caller:
    """Return the caller, who must have a valid key."""
    return await caller_of(request)


Anyone = Annotated[Caller, Depends(require_key)]
"""Whoever has a valid key."""


def demand_role(caller: Caller, *roles: "Role") -> Caller:
    """Return the caller if they have one of the roles; refuse them otherwise."""
    if caller.role not in roles:
        message = f"this needs a key of {' or '.join(roles)}"
        raise RefusedError(message)
    return caller


async def require_analyst(caller: Anyone) -> Caller:
    """Return the caller, who must be an analyst or the owner."""
    return demand_role(caller, "analyst", "owner")


async def require_auditor(caller: Anyone) -> Caller:
    """Return the caller, who must be an auditor or the owner."""
    return demand_role(caller, "auditor", "owner")


async def require_owner(caller: Anyone) -> Caller:
    """Return the caller, who must be the owner."""
    return demand_role(caller, "owner")


Analyst = Annotated[Caller, Depends(require_analyst)]
"""Who may spend budget: an analyst or the owner."""
Auditor = Annotated[Caller, Depends(require_auditor)]
"""Who may see everything that was released: an auditor or the owner."""
Owner = Annotated[Caller, Depends(require_owner)]
"""Who may register data and give keys."""


def request_id_of(caller: Caller, key: str) -> str:
    """Return the ledger's request id of a caller's own idempotency key: no two callers share an id."""
    return hashlib.sha256(f"{caller.name}\n{key}".encode()).hexdigest()


def request_id_in(scope: "Scope", caller: Caller) -> str:
    """Return the ledger's request id of a request, by its one header Idempotency-Key; 400 where there is none."""
    given = headers_of(scope, b"idempotency-key")
    if len(given) != 1 or not _IDEMPOTENCY.fullmatch(given[0]):
        detail = "send an Idempotency-Key header of 1 to 128 printable ASCII characters, different for each new request"
        raise Refused(400, "idempotency key needed", detail)
    return request_id_of(caller, given[0])


async def _idempotency_key(
    request: Request,
    caller: Anyone,
    _: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="Names this request: sent again with the same key, it is charged once and gets the same answer.",
            json_schema_extra={"minLength": 1, "maxLength": 128, "pattern": "^[ -~]{1,128}$"},
        ),
    ] = None,
) -> str:
    return request_id_in(request.scope, caller)


IdempotencyKey = Annotated[str, Depends(_idempotency_key)]
"""The ledger's request id, from the header that every request which spends budget must have."""


_MOST_CALLERS = 100_000


class Rates:
    """Lets a caller's requests through at a steady rate, and as many at once as the limit's whole amount.

    Each worker counts for itself, in memory, so that no request waits for a shared counter: with several workers a caller
    who spreads requests over many connections gets up to that many times the rate. Budgets are what protects rows; a rate
    protects time. The library ``limits`` reads what the settings say; its own counting would need a thread.

    Law: for each limit, ``amount`` over ``seconds``, a caller has a time until which its share is used up; a request moves
    it on by seconds / amount, and is refused if that would take it more than ``seconds`` ahead of now. So no more than twice
    the amount passes in any such span, and no more than the rate in the long run. What is refused counts against no limit.
    """

    def __init__(self, rate: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = [(limit.amount, float(limit.get_expiry())) for limit in parse_many(rate)]
        self._used: dict[tuple[str, str], list[float]] = {}
        self._now = now

    def check(self, caller: "Caller") -> None:
        """Count a request of a caller, or refuse it with 429 and Retry-After."""
        now, name = self._now(), (caller.prefix, caller.name)
        used = self._used.get(name) or self._begin_count(name, now)
        moved = [max(until, now) + span / amount for until, (amount, span) in zip(used, self._limits, strict=True)]
        for until, (amount, span) in zip(moved, self._limits, strict=True):
            # A part in a million for rounding, so that the whole amount passes at once.
            early = until - now - span * (1 + 1e-6)
            if early > 0:
                detail = f"more than {amount} requests in {span:.0f} seconds; wait for Retry-After"
                raise Refused(429, "too many requests", detail, headers={"Retry-After": str(max(1, math.ceil(early)))})
        self._used[name] = moved

    def _begin_count(self, name: tuple[str, str], now: float) -> list[float]:
        """Begin to count for a caller; when there are very many, those who have their full share again are forgotten."""
        if len(self._used) >= _MOST_CALLERS:
            self._used = {known: used for known, used in self._used.items() if max(used) > now}
        return self._used.setdefault(name, [now] * len(self._limits))

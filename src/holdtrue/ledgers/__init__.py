"""The ledger: append-only, hash-chained, shared by all analysts of one dataset.

Every request is charged here before a row is read, in one transaction that checks the allowance and the cap, appends an
entry and chains its digest; its response is stored here before it leaves. Three stores keep the same promises: memory,
SQLite and PostgreSQL, the first without outliving its process.
"""

from collections.abc import Sequence
from typing import Protocol

from holdtrue.errors import HoldtrueError
from holdtrue.events import Event
from holdtrue.ledgers.accounts import Account
from holdtrue.ledgers.entries import (
    Charge,
    Charged,
    Entry,
    EntryKind,
    FilterKind,
    Limits,
    Receipt,
    Terms,
    event_text,
    read_charge,
)
from holdtrue.ledgers.opening import Fingerprint, Where, open_ledger
from holdtrue.ledgers.stores import Busy
from holdtrue.ledgers.verifying import Verification, verify

__all__ = [
    "Account",
    "Busy",
    "Charge",
    "Charged",
    "Entry",
    "EntryKind",
    "FilterKind",
    "Fingerprint",
    "Ledger",
    "Limits",
    "Receipt",
    "Terms",
    "Verification",
    "Where",
    "event_text",
    "open_ledger",
    "read_charge",
    "verify",
]


class Ledger(Protocol):
    """What a curator needs of a ledger. :class:`~holdtrue.ledgers.accounts.Account` is one, over any store."""

    @property
    def terms(self) -> Terms:
        """Return what the ledger was created with."""
        ...

    @property
    def durable(self) -> bool:
        """Return whether the ledger outlives this process."""
        ...

    def charge(  # noqa: PLR0913 - one keyword for each fact of the entry
        self,
        *,
        request_id: str,
        request_digest: str,
        analyst: str,
        verb: str,
        event: Event,
        cost: int | None = None,
        draws: int = 0,
        parts: tuple[str, ...] = (),
        request: str = "{}",
        limits: Limits | None = None,
    ) -> Entry:
        """Charge a request before its rows are read, or return the entry that paid for it before."""
        ...

    def charge_all(self, requests: Sequence[Charge]) -> list[Entry | HoldtrueError]:
        """Charge several requests in one transaction; each has its own entry or its own refusal."""
        ...

    def respond(self, number: int, body: str) -> Entry:
        """Store the response to a charge, before it leaves; the first one stays and is what every call returns."""
        ...

    def respond_all(self, bodies: Sequence[tuple[int, str]]) -> list[Entry | HoldtrueError]:
        """Store the responses to several charges in one transaction."""
        ...

    def settle(
        self, bodies: Sequence[tuple[int, str]], requests: Sequence[Charge]
    ) -> tuple[list[Entry | HoldtrueError], list[Entry | HoldtrueError]]:
        """Store responses and charge other requests in one transaction, responses first."""
        ...

    def grant(self, analyst: str, *, allowance: int | None) -> Entry:
        """Give an analyst an allowance in units, under the one cap."""
        ...

    def find(self, *, request_id: str | None = None, request_digest: str | None = None) -> Entry | None:
        """Return the charge that paid for a request."""
        ...

    def wait(self, number: int, *, seconds: float = 30.0) -> Entry:
        """Return a charge once its response is stored."""
        ...

    def entries(self, start: int = 1, stop: int | None = None) -> Sequence[Entry]:
        """Return the entries of a range of numbers."""
        ...

    @property
    def head(self) -> Receipt:
        """Return the newest receipt."""
        ...

    def newest(self) -> int:
        """Return the number of the last entry."""
        ...

    @property
    def spent(self) -> int:
        """Return what all analysts together have spent, in units."""
        ...

    @property
    def left(self) -> int:
        """Return what is left under the cap, in units."""
        ...

    def spent_by(self, analyst: str) -> int:
        """Return what an analyst has spent, in units."""
        ...

    def left_for(self, analyst: str) -> int:
        """Return what an analyst may still spend, in units."""
        ...

    def allowance(self, analyst: str) -> int | None:
        """Return an analyst's allowance in units; None where there is no limit but the cap."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...

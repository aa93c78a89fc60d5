"""What one worker has open: each name once, under a lock of its own; opened again by itself when its ledger has stopped.

A ledger answers nothing after the first transaction that failed, until it is opened again (P6). Whoever asks meanwhile is
told 503 and when to come back; the same request under the same key is charged once, whatever became of its first try.
"""

import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import anyio
from sqlalchemy.exc import SQLAlchemyError

from holdtrue.errors import (
    CuratorClosed,
    FingerprintMismatch,
    HoldtrueError,
    IntegrityError,
    RefusedError,
    ReleaseError,
    UnknownName,
)
from holdtrue.ledgers import Busy, Ledger, open_ledger
from holdtrue.service.http.problems import Refused
from holdtrue.service.receipts import RETIRED, Kind, LedgerState, Receipts, Registered, read_state

if TYPE_CHECKING:
    from holdtrue.service.settings import Settings

__all__ = ["OpenLedgers", "hide_place", "unavailable_error"]


class _HasLedger(Protocol):
    @property
    def ledger(self) -> Ledger: ...

    def close(self) -> None: ...


T = TypeVar("T", bound=_HasLedger)
_LOGGER = logging.getLogger("holdtrue.service")
_UNAVAILABLE = 503
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
_LONG_PAUSE, _LONGEST_LONG_PAUSE = 5.0, 60.0
_CLOSING_SECONDS = 0.5
_MINUTE = 60.0
_CLOSED = "cannot be opened"
_DAMAGED = (
    "the ledger here is damaged, or is not the one that the service knows; the operator of the service must look at it"
)


def unavailable_error() -> Refused:
    """Return the refusal that is sent while a ledger is being reopened."""
    detail = (
        "the ledger is being reopened; send the same request again with the same Idempotency-Key: "
        "it is charged once, whether or not this try was charged"
    )
    return Refused(_UNAVAILABLE, "service unavailable", detail, headers={"Retry-After": "1"})


@dataclass(slots=True, eq=False)
class _Slot(Generic[T]):
    """One name. ``failure`` is what is told while it is not open and a thread tries to open it."""

    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: T | None = None
    state: LedgerState | None = None
    stored: float = 0.0
    file: tuple[int, int] | None = None
    failure: HoldtrueError | None = None

    @property
    def tried(self) -> bool:
        """Return whether it was opened, or could not be and is tried again by itself."""
        return self.opened is not None or self.failure is not None


class OpenLedgers(Registered, ABC, Generic[T]):
    """The registered datasets, or holdouts, and which of them one worker has open.

    Guarantee: only registering creates a ledger. What is registered is opened under the very ledger whose number and newest
    receipt the database has, or not at all (P4, P5, P6, P12 across a restart). Opening waits for no other name. What cannot
    be opened is tried again in the background until it can, and is told in words without a path; a ledger that has stopped
    is opened again after the same checks as the first time.
    """

    def __init__(self, kind: Kind, settings: "Settings", receipts: Receipts) -> None:
        super().__init__(kind, settings, receipts)
        self._slots: dict[str, _Slot[T]] = {}
        self._lock = threading.Lock()  # of the slots, and never held while anything is opened
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def open_under(self, name: str, document: dict[str, Any], where: str | Path) -> T:
        """Open what a document says under a ledger that exists; create none."""

    def start(self) -> None:
        """Start again after :meth:`close`."""
        self._closing.clear()

    def list_open(self) -> list[T]:
        """Return everything registered that can be opened, sorted by name."""
        return [found for name in self.list_served() if (found := self.try_opening(name)) is not None]

    def try_opening(self, name: str) -> T | None:
        """Return what is registered under a name, None where it cannot be opened."""
        try:
            return self.open(name)
        except HoldtrueError:  # logged where it was found; whoever asks for it by name is told
            return None

    def find(self, name: str) -> T:
        """Return what is registered under a name, opened if necessary; UnknownName if there is none. May take a while."""
        known = self.get(name)
        if known is None:
            document = self.read_document(name)
            if document is None:
                raise self._unknown_name()
            if RETIRED in document:
                message = f"this {self.kind} was retired by its owner; it answers no more, and its ledger is kept"
                raise UnknownName(message)
        return known or self.open(name)

    async def find_soon(self, name: str) -> T:
        """Return what :meth:`find` does, without keeping the event loop waiting."""
        known = self.get(name)
        return known if known is not None else await anyio.to_thread.run_sync(self.find, name)

    def create(self, name: str, make: Callable[[str | Path], T], enter: Callable[[LedgerState], object]) -> T:
        """Make something under a new ledger, have it entered with the ledger's first state, and return it opened."""
        where = self.ledger_url(name, create=True)
        try:
            opened = make(where)
        except HoldtrueError as error:
            raise hide_place(error, where) from None
        try:
            state = read_state(opened.ledger)
            enter(state)
        except BaseException:
            opened.close()
            raise
        return self.add(name, opened, state)

    def _open_one(self, name: str) -> tuple[T, LedgerState]:
        """Open what is registered under a name, under the ledger that the database knows; create nothing."""
        document = self.read_document(name)
        if document is None:
            raise self._unknown_name()
        where = self.ledger_url(name)
        state = self.receipts.check(self.kind, name, where)
        opened = self.open_under(name, document, where)
        if opened.ledger.terms.ledger_id != state.ledger_id:
            opened.close()
            message = "the ledger is not the one that the service knows"
            raise IntegrityError(message)
        return opened, state

    def _unknown_name(self) -> UnknownName:
        return UnknownName(f"there is no {self.kind} of that name")

    def get(self, name: str) -> T | None:
        """Return what is open under a name, None if nothing is."""
        slot = self._slots.get(name)
        return None if slot is None else slot.opened

    def open(self, name: str) -> T:
        """Return what is registered under a name, opened if necessary; raise the error that keeps it closed."""
        with self._lock:
            slot = self._slots.setdefault(name, _Slot(name))
        if not slot.tried:
            with slot.lock:
                if not slot.tried:
                    self._try_opening(slot)
        opened, failure = slot.opened, slot.failure
        if opened is None:
            raise (failure or unavailable_error()).with_traceback(None)
        return opened

    def add(self, name: str, opened: T, state: LedgerState) -> T:
        """Add what was just registered, unless another request has opened it meanwhile; return what is open."""
        with self._lock:
            slot = self._slots.setdefault(name, _Slot(name))
        with slot.lock:
            if slot.opened is None:
                self._fill_slot(slot, opened, state)
                return opened
            found = slot.opened
        opened.close()
        return found

    @property
    def all_open(self) -> bool:
        """Return whether nothing that was opened or tried is closed now."""
        return all(slot.opened is not None for slot in list(self._slots.values()))

    def check(self) -> bool:
        """Return whether everything is open and each ledger answers; one that does not is reopened."""
        for slot in list(self._slots.values()):
            opened = slot.opened
            if opened is None:
                return False
            with suppress(HoldtrueError):  # the ledger has stopped, as is seen below
                opened.ledger.newest()
        return not self.reopen_stopped()

    def explain(self, error: HoldtrueError, ledger: Ledger) -> HoldtrueError:
        """Return the error that a caller sees, without a path: 503 if the ledger has stopped or is locked."""
        if isinstance(error, (Busy, CuratorClosed)) or (ledger.stopped and _may_be_the_ledgers(error)):
            self.reopen_stopped()
            return unavailable_error()
        return error

    def reopen_stopped(self) -> bool:
        """Start to reopen each ledger that has stopped or whose file was replaced; return whether there was one."""
        found = False
        for slot in list(self._slots.values()):
            opened = slot.opened
            if opened is None or not self._has_stopped(slot, opened):
                continue
            found = True
            with self._lock:
                if slot.opened is not opened or self._closing.is_set():
                    continue
                slot.failure, slot.opened = unavailable_error(), None
            _LOGGER.error("ledger of a %s stopped", self.kind, extra={"dataset": slot.name})
            self._begin_reopening(slot, opened)
        return found

    def close_retired(self) -> None:
        """Close what is open here and was retired, in this worker or elsewhere; requests under way are finished."""
        open_names = set(self._slots)
        for name in open_names - set(self.list_served()) if open_names else ():
            with self._lock:
                slot = self._slots.pop(name, None)
            if slot is not None and slot.opened is not None:
                slot.opened.close()
                with suppress(HoldtrueError, SQLAlchemyError), open_ledger(self.ledger_url(name)) as ledger:
                    self._store_state(slot, read_state(ledger))

    def store_receipts(self) -> None:
        """Store the newest receipts of ledgers that have grown: by enough entries, or after a minute."""
        for slot in list(self._slots.values()):
            opened, state = slot.opened, slot.state
            if opened is None or state is None:
                continue
            with suppress(HoldtrueError):  # the ledger has stopped, which is seen elsewhere
                late = time.monotonic() - slot.stored >= _MINUTE
                ledger = opened.ledger
                newest = ledger.newest() if late else ledger.last_seen[0]
                if newest - state.number >= self.settings.receipt_entries or (late and newest > state.number):
                    self._store_state(slot, read_state(ledger))
                elif late:
                    slot.stored = time.monotonic()

    def close(self) -> None:
        """Finish the requests under way, store the newest receipts and close everything."""
        self._closing.set()
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()
        with self._lock:
            slots, self._slots = list(self._slots.values()), {}
        for slot in slots:
            if slot.opened is None:
                continue
            slot.opened.close()
            with suppress(HoldtrueError, SQLAlchemyError), open_ledger(self.ledger_url(slot.name)) as ledger:
                self._store_state(slot, read_state(ledger))

    def _store_state(self, slot: _Slot[T], state: LedgerState) -> None:
        try:
            self.receipts.store(self.kind, slot.name, state)
        except SQLAlchemyError as error:
            _LOGGER.error("receipt not stored", extra={"kind": type(error).__name__, "dataset": slot.name})  # noqa: TRY400 - no traceback
            return
        slot.state, slot.stored = state, time.monotonic()

    def _fill_slot(self, slot: _Slot[T], opened: T, state: LedgerState) -> None:
        slot.state, slot.stored, slot.file = state, time.monotonic(), _identify_file(self.ledger_url(slot.name))
        slot.opened, slot.failure = opened, None

    def _has_stopped(self, slot: _Slot[T], opened: T) -> bool:
        try:
            return opened.ledger.failed or _identify_file(self.ledger_url(slot.name)) != slot.file
        except HoldtrueError:
            return True

    def _try_opening(self, slot: _Slot[T]) -> None:
        """Open a name for the first time; if that fails, log it once and retry in the background."""
        try:
            self._fill_slot(slot, *self._open_one(slot.name))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told by its kind alone: a message may quote a row
            slot.failure = self._note_failure(slot, error)
            self._begin_reopening(slot, None)

    def _note_failure(self, slot: _Slot[T], error: Exception) -> HoldtrueError:
        """Log why a name is not open, once for each reason, and return what is told meanwhile."""
        told = _to_public_error(error)
        if slot.failure is None or type(slot.failure) is not type(told):
            extra = {"kind": type(error).__name__, "dataset": slot.name}
            _LOGGER.error("%s not opened", self.kind, extra=extra)
        return told

    def _begin_reopening(self, slot: _Slot[T], old: T | None) -> None:
        thread = threading.Thread(target=self._reopen_slot, args=(slot, old), name="reopening", daemon=True)
        with self._lock:
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            thread.start()

    def _reopen_slot(self, slot: _Slot[T], old: T | None) -> None:
        """Close what has stopped, and retry until it is open again, with growing pauses."""
        if old is not None:
            # What is under way with the old one can release nothing; it is not waited for any longer than this.
            closing = threading.Thread(target=old.close, name="closing", daemon=True)
            closing.start()
            closing.join(_CLOSING_SECONDS)
        tries = 0
        while not self._closing.wait(_choose_pause(tries, slot.failure)):
            tries += 1
            with slot.lock:
                try:
                    opened, state = self._open_one(slot.name)
                except Exception as error:  # noqa: BLE001 - as above
                    slot.failure = self._note_failure(slot, error)
                    continue
                if self._closing.is_set():
                    opened.close()
                    return
                self._fill_slot(slot, opened, state)
            _LOGGER.warning("%s open again", self.kind, extra={"dataset": slot.name})
            return


def _choose_pause(tries: int, failure: HoldtrueError | None) -> float:
    """Return how long to wait: briefly if the ledger alone decides, longer if the data would be read in vain."""
    if isinstance(failure, IntegrityError) or (isinstance(failure, Refused) and failure.title != _CLOSED):
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * (1 << min(tries, 10))) if tries else 0.0
    return min(_LONGEST_LONG_PAUSE, _LONG_PAUSE * (1 << min(tries, 10)))


def _may_be_the_ledgers(error: HoldtrueError) -> bool:
    return type(error) is RefusedError or isinstance(error, (ReleaseError, IntegrityError))


def hide_place(error: HoldtrueError, where: str | Path) -> HoldtrueError:
    """Return an error of a ledger in words without its path; any other as it is."""
    if isinstance(error, IntegrityError):
        return IntegrityError(_DAMAGED)
    return unavailable_error() if isinstance(error, Busy) or str(where) in str(error) else error


def _to_public_error(error: Exception) -> HoldtrueError:
    """Return the error that a caller sees if opening failed: no path, no row."""
    if isinstance(error, IntegrityError):
        return IntegrityError(_DAMAGED)
    if isinstance(error, FingerprintMismatch):
        return error
    if isinstance(error, (Busy, SQLAlchemyError, OSError)) or type(error) is RefusedError:
        return unavailable_error()
    return Refused(_UNAVAILABLE, _CLOSED, "this cannot be opened; the operator of the service must look at it")


def _identify_file(place: str | Path) -> tuple[int, int] | None:
    """Return the identity of a ledger's file; None if it is not in a file, or the file is gone."""
    if not isinstance(place, Path):
        return None
    try:
        found = os.stat(place)  # noqa: PTH116 - by the path's own name
    except OSError:
        return None
    return found.st_dev, found.st_ino

"""A ledger that estimators charge, and that survives what scikit-learn does to parameters: copies, threads, processes."""

from os import PathLike, fspath
from typing import Any

from holdtrue.accounting.filters import largest_cap
from holdtrue.codec import encode
from holdtrue.entropy import SYSTEM
from holdtrue.errors import FingerprintMismatch, InvalidParameter, RefusedError, UnknownName
from holdtrue.events import Event
from holdtrue.exact import LedgerKind as Kind
from holdtrue.exact import Number, amount, positive, probability, round_down
from holdtrue.ledgers import Entry, Ledger, open_ledger

__all__ = ["Handle", "handle_of"]

_ROWS = "rows of estimators"
_DONE = "[]"  # the responses to a request without parts


class Handle:
    """A ledger of fits and predictions on one set of rows, under one cap.

    Guarantee: every estimator that holds this handle, or a copy of it made by ``clone``, a search or a worker process,
    charges the same ledger; all that they ever let out is (epsilon, delta)-DP in the rows they share. With a path it is on
    disk and other processes charge it too; without one it lives in this process, and is refused elsewhere, never copied.
    Needs: all fits on rows of one dataset. A search fits on a different part of it each time, so no fingerprint of a fit's
    rows could be fixed; fits on other rows are charged all the same, which costs budget and harms nobody. Failure:
    FingerprintMismatch for the ledger of a curator or a holdout, whose rows are fixed; BudgetExceeded, before anything is
    fitted.
    """

    def __init__(self, path: str | PathLike[str] | None = None, *, epsilon: Number | None = None, delta: Number = 0) -> None:
        self.path = None if path is None else fspath(path)
        self._ledger: Ledger | None = None
        if epsilon is not None:
            slack = round_down(probability("delta", delta, zero=True))
            kind: Kind = "gdp" if slack else "pure"
            cap = largest_cap(kind, round_down(positive("epsilon", epsilon)), slack)
            _refuse_foreign(self.path)
            self._ledger = open_ledger(self.path, kind=kind, cap=cap, fingerprint=lambda _: _ROWS)
        elif self.path is None:
            raise InvalidParameter("epsilon", None, "given, or the path of a ledger that exists")

    @property
    def ledger(self) -> Ledger:
        """Return the ledger, opened when it is first needed in this process."""
        if self._ledger is None:
            _refuse_foreign(self.path)
            self._ledger = open_ledger(self.path, fingerprint=lambda _: _ROWS)
        return self._ledger

    @property
    def kind(self) -> str:
        """Return the currency of the ledger: "gdp" or "pure"."""
        return self.ledger.terms.kind

    @property
    def spent(self) -> float:
        """Return what was spent so far."""
        return amount(self.ledger.spent)

    @property
    def left(self) -> float:
        """Return what is left."""
        return amount(self.ledger.left)

    @property
    def charges(self) -> int:
        """Return how many fits and predictions were charged."""
        return sum(entry.kind == "charge" for entry in self.ledger.entries())

    def charge(self, event: Event, *, verb: str, estimator: object) -> Entry:
        """Charge an event, durably where there is a path, before its rows are read.

        Each call is a request of its own: equal fits draw afresh. The entry has the form that every ledger's has, so that
        whoever reads ledgers can read it; its request names the estimator's class and the epsilon that it was given.
        """
        number = SYSTEM.words(4).tobytes().hex()
        request = {"verb": verb, "estimator": type(estimator).__name__, "epsilon": str(getattr(estimator, "epsilon", ""))}
        return self.ledger.charge(
            request_id=number,
            request_digest=number,
            analyst="estimator",
            verb=verb,
            event=event,
            request=encode(request),
        )

    def complete(self, entry: Entry) -> None:
        """Enter that what was charged is done, before anything of it leaves; what was drawn is the estimator's to keep."""
        self.ledger.respond(entry.number, _DONE)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Handle":
        return self

    def __copy__(self) -> "Handle":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            message = "this ledger lives in one process; give it a path, so that other processes charge the same one"
            raise RefusedError(message)
        return Handle, (self.path,)

    def __repr__(self) -> str:
        return f"Handle({self.path!r})"


def handle_of(ledger: "Handle | str | PathLike[str] | None") -> Handle | None:
    """Return the handle that an estimator was given, its ledger open: itself, or the ledger at a path.

    Failure: whatever opening the ledger raises, so that it is said before a row is read.
    """
    if ledger is None:
        return None
    handle = ledger if isinstance(ledger, Handle) else Handle(ledger)
    handle.ledger.terms  # noqa: B018 - opened, and its rows compared
    return handle


def _refuse_foreign(path: str | None) -> None:
    """Refuse a ledger whose fingerprint is that of rows: it counts what a curator or a holdout lets out of those."""
    if path is None:
        return
    try:
        account = open_ledger(path)
    except UnknownName:
        return
    fingerprint = account.terms.fingerprint
    account.close()
    if fingerprint != _ROWS:
        message = (
            "this ledger belongs to the rows of a curator or a holdout; use Curator.learn, train or predict for a curator's "
            "rows, or give the estimator a Handle with a path of its own"
        )
        raise FingerprintMismatch(message)

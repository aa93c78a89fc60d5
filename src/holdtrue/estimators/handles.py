"""A ledger that estimators charge, and that survives what scikit-learn does to parameters: copies, threads, processes."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.filters import largest_cap
from holdtrue.codec import encode
from holdtrue.curator.pipeline import ReleasePipeline
from holdtrue.entropy import SYSTEM
from holdtrue.errors import FingerprintMismatch, InvalidParameter, NotCertified, RefusedError, ReleaseError
from holdtrue.events import Event
from holdtrue.exact import LedgerKind as Kind
from holdtrue.exact import Number, amount, positive, probability, round_down
from holdtrue.kernels import Floats
from holdtrue.ledgers import Ledger, open_ledger, read_terms
from holdtrue.queries.features import Labelled, Numbers, default_features
from holdtrue.records import Certificate, Response
from holdtrue.verbs import Job, Planned, Release, Standing

if TYPE_CHECKING:
    from holdtrue.curator import Curator

__all__ = ["Handle", "LedgerGiven", "Released", "handle_of"]

_ROWS = "rows of estimators"
_NOT_DRAWN = "the ledger has this request already, and nothing was drawn for it; fit or predict again"
_NOT_ROWS = "estimators need a curator that protects rows and has all of them in this process"
_OTHER_ROWS = "X and y must be columns of the curator's table, all rows in their order; a search needs a Handle of its own"
_ONE_PROCESS = "a curator is open in one process only; give estimators in other processes a Handle with a path"
_MAKING = threading.Lock()

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Released(Generic[T]):
    """What was drawn, and where its charge stands in the ledger."""

    value: T
    standing: Standing


class Handle:
    """A ledger of fits and predictions on one set of rows, under one cap.

    Guarantee: every estimator that holds this handle, or a copy of it made by ``clone``, a search or a worker process,
    charges the same ledger; everything that they release is (epsilon, delta)-DP in the rows they share. With a path it is on
    disk and other processes charge it too; without one it lives in this process, and is refused elsewhere, never copied.
    Needs: all fits on rows of one dataset. A search fits on a different part of it each time, so no fingerprint of a fit's
    rows could be fixed; fits on other rows are charged all the same, which costs budget and harms nobody. Failure:
    FingerprintMismatch for the ledger of a curator or a holdout, whose rows are fixed; BudgetExceeded, before anything is
    fitted.
    """

    def __init__(self, path: str | PathLike[str] | None = None, *, epsilon: Number | None = None, delta: Number = 0) -> None:
        self.path = None if path is None else fspath(path)
        self._ledger: Ledger | None = None
        self._pipeline: ReleasePipeline | None = None
        if epsilon is not None:
            slack = round_down(probability("delta", delta, zero=True))
            kind: Kind = "gdp" if slack else "pure"
            cap = largest_cap(kind, round_down(positive("epsilon", epsilon)), slack)
            _refuse_foreign(self.path)
            self._ledger = open_ledger(self.path, kind=kind, cap=cap, fingerprint=lambda _: _ROWS)
        elif self.path is None:
            raise InvalidParameter.saying("epsilon", "give epsilon, or the path of an existing ledger")

    @property
    def ledger(self) -> Ledger:
        """Return the ledger, opened when it is first needed in this process."""
        if self._ledger is None:
            _refuse_foreign(self.path)
            self._ledger = open_ledger(self.path, fingerprint=lambda _: _ROWS)
        return self._ledger

    @property
    def pipeline(self) -> ReleasePipeline:
        """Return where releases are submitted, made when it is first needed in this process."""
        with _MAKING:
            if self._pipeline is None:
                self._pipeline = ReleasePipeline(ledger=self.ledger, analyst="estimator")
            return self._pipeline

    def check_rows(self, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> None:
        """Refuse rows of another dataset, where the ledger belongs to the rows of one."""

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

    def release(
        self, event: Event, *, verb: str, estimator: object, measure: Callable[[], S], draw: Callable[[S], T]
    ) -> "Released[T]":
        """Charge, measure private rows, draw, and return what was drawn, through the pipeline of every release.

        Law: the event is charged, durably where there is a path, before ``measure`` is called; only ``draw`` sees what it
        returns; and what is drawn is returned once the ledger has that it was. Each call is a request of its own: equal fits
        draw afresh. The entry has the form that every ledger's has, so that whoever reads ledgers can read it; its request
        names the estimator's class and the epsilon that it was given, and what was drawn is the estimator's to keep.
        Failure: BudgetExceeded or NotPrivate, with nothing charged; ReleaseError, whatever ``measure`` raises, and the
        charge stays. Fits and predictions of several threads take turns.
        """
        number = SYSTEM.words(4).tobytes().hex()
        request: dict[str, object] = {"verb": verb, "estimator": type(estimator).__name__}
        request["epsilon"] = str(getattr(estimator, "epsilon", ""))
        found: list[Released[T]] = []

        def respond(drawn: Sequence[Any], _: Certificate, standing: Standing) -> list[Response]:
            found.append(Released(drawn[0], standing))
            return []

        pipeline = self.pipeline
        planned = Planned(
            (),
            Release(
                verb=verb,
                request=request,
                parts=(),
                event=event,
                cost=pipeline.limit.cost(event),
                draws=0,
                queries=(),
                draw=lambda measured: [draw(measured)],  # type: ignore[arg-type, list-item]  # the estimator's own
                respond=respond,
            ),
            encode(request | {"id": number}),
            measure,  # type: ignore[arg-type]  # likewise
        )
        pipeline.run(Job(lambda _: planned, key=number))
        if not found:  # nothing was charged by this request, so nothing was drawn for it
            raise ReleaseError(_NOT_DRAWN)
        return found[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Handle":
        return self

    def __copy__(self) -> "Handle":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            message = "this ledger exists only in one process; give it a path so that other processes can charge it"
            raise RefusedError(message)
        return Handle, (self.path,)

    def __repr__(self) -> str:
        return f"Handle({self.path!r})"


class _CuratorHandle(Handle):
    """A curator's own ledger, for fits on all of the curator's rows and no others.

    Law: whatever is released goes through the curator's pipeline, as an entry of its ledger and within its reserve and its
    allowances. Failure: FingerprintMismatch, before anything is charged, unless each column of a fit is a column of the
    curator's table, row by row: parts of the rows, as in a search, may be chosen by their values.
    """

    def __init__(self, curator: "Curator") -> None:
        self.path, self._curator = None, curator
        self._ledger, self._pipeline = curator.pipeline.ledger, curator.pipeline

    def check_rows(self, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> None:
        """Compare the columns of a fit with those of the curator's table."""
        self._curator.pipeline.check_open()
        engine, card = self._curator.pipeline.engine, self._curator.card
        if card.unit is not None or not engine.pairs:
            raise NotCertified(_NOT_ROWS)
        known: list[Numbers | Labelled] = [Numbers(name) for name in default_features(card, ())]
        width, goal, first = len(known), labels, 0
        if labels.dtype.kind not in "biuf":
            names, goal = np.unique(labels.astype(str), return_inverse=True)
            known += [Labelled(column.name, tuple(names.tolist())) for column in card.columns if column.type == "text"]
            first = width  # labels in words are those of a column of text

        def compare(columns: Floats, _: Floats) -> bool:
            sides = [(one, columns[:, :width]) for one in rows.T] + [(goal, columns[:, first:])]
            return all(any(np.array_equal(one, other) for other in side.T) for one, side in sides)

        if not engine.fit(compare, known, known[0]):
            raise FingerprintMismatch(_OTHER_ROWS)

    def __reduce__(self) -> tuple[Any, ...]:
        raise RefusedError(_ONE_PROCESS)


LedgerGiven: TypeAlias = "Handle | Curator | str | PathLike[str] | None"


def handle_of(ledger: LedgerGiven) -> Handle | None:
    """Return the handle that an estimator was given, its ledger open: itself, a curator's, or the ledger at a path.

    Failure: whatever opening the ledger raises, so that it is said before a row is read.
    """
    from holdtrue.curator import Curator

    if ledger is None:
        return None
    if isinstance(ledger, Curator):
        return _CuratorHandle(ledger)
    handle = ledger if isinstance(ledger, Handle) else Handle(ledger)
    handle.ledger.terms  # noqa: B018 - opened, and its rows compared
    return handle


def _refuse_foreign(path: str | None) -> None:
    """Refuse a ledger that belongs to the rows of a curator or a holdout."""
    terms = read_terms(path)
    if terms is not None and terms.fingerprint != _ROWS:
        message = (
            "this ledger belongs to the rows of a curator or a holdout; use Curator.learn, train or predict for a curator's "
            "rows, or give the estimator a Handle with a path of its own"
        )
        raise FingerprintMismatch(message)

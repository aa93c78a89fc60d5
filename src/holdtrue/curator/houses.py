"""What one curator holds between requests: plan, ledger, engine and what was answered, under one lock."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from holdtrue.accounting.filters import Filter
from holdtrue.curator.opening import Opened
from holdtrue.curator.registers import Register
from holdtrue.curator.steps import Errand, Measure, Pending, Round, carry_out
from holdtrue.engines import Engine, Progress
from holdtrue.entropy import SYSTEM
from holdtrue.errors import CuratorClosed, HoldtrueError, InvalidParameter, ReleaseError
from holdtrue.events import NoCost
from holdtrue.ledgers import Account, Entry
from holdtrue.ledgers.entries import text
from holdtrue.planning import AnyPlan
from holdtrue.queries.cards import Card
from holdtrue.queries.parsing import parse
from holdtrue.queries.trees import Query
from holdtrue.records import Response
from holdtrue.verbs import Measured, Release, Standing

__all__ = ["House", "name_private"]

_TEXTS = 4096
_LONGEST_NAME = 200
_LOST = "the request was charged, but its response is not in the ledger"


def name_private(name: str | None, *, key: str | None) -> str:
    """Name a request whose contents are private: by its public name, else by the request's key, else at random.

    Law: nothing of the contents goes into it, so nobody learns from a repeat whether two private vectors are equal; under
    one name they are one request, whatever they hold now.
    """
    if name is not None:
        if not 1 <= len(text("name", name)) <= _LONGEST_NAME:
            raise InvalidParameter("name", name, f"a public name of 1 to {_LONGEST_NAME} characters")
        return f"named {name}"
    return SYSTEM.words(4).tobytes().hex() if key is None else f"key {text('key', key)}"


def _parser(card: Card) -> Callable[[str], Query]:
    known = lru_cache(_TEXTS)(lambda words: parse(words, card))
    return lambda words: known(words) if type(words) is str else parse(words, card)


class House:
    """The rooms that a request passes through, and the lock that keeps one request in them at a time."""

    def __init__(self, opened: Opened, *, analyst: str, progress: Progress | None) -> None:
        self.engine: Engine = opened.engine
        self.ledger: Account = opened.ledger
        self.plan: AnyPlan = opened.plan
        self.card: Card = opened.engine.card
        self.limit: Filter = opened.ledger.terms.filter
        self.register = Register(opened.ledger)
        self.lock = threading.RLock()
        self.progress = progress
        self.analyst = analyst
        self.closed = False
        # Parsing depends on text and card alone, and agents ask the same things in the same words.
        self.parse: Callable[[str], Query] = _parser(self.card)

    def check_open(self) -> None:
        """Refuse everything once the curator is closed."""
        if self.closed:
            message = "this curator was closed; open the data again with the same ledger"
            raise CuratorClosed(message)

    def standing(self) -> Standing:
        """Return where a charge that costs nothing would stand if it were made now."""
        return Standing(self.register.draws, self.ledger.spent, self.register.charges)

    def known(self, part: str, *, repeated: bool) -> Response | None:
        """Return the stored response to a part of a request, told to be a repeat if it is one."""
        return self.register.answer(part, repeated=repeated)

    def release(
        self,
        release: Release,
        *,
        request: Mapping[str, object],
        key: str | None,
        analyst: str | None,
        measure: Callable[[], Measured] | None = None,
    ) -> None:
        """Take a release through the five steps; it is measured by its queries' sums unless told otherwise."""
        errand = Errand(release, request, key, self.analyst if analyst is None else analyst)
        (outcome,) = self.carry_out([errand], measure=None if measure is None else lambda _: [measure()])
        if isinstance(outcome, Pending) and outcome.entry is not None:
            self.ledger.wait(outcome.entry)
            self.register.follow()
        elif isinstance(outcome, HoldtrueError):
            raise outcome

    def carry_out(self, errands: Sequence[Errand], *, measure: Measure | None = None) -> list[Entry | HoldtrueError]:
        """Take several releases through the five steps together; each comes back with its entry or its own error."""
        return carry_out(self.round(errands, measure=measure), ledger=self.ledger)

    def round(self, errands: Sequence[Errand], *, measure: Measure | None = None) -> Round:
        """Return releases that are to take the five steps together."""
        return Round(errands, plan=self.plan, ledger=self.ledger, register=self.register, measure=measure or self._sums)

    def once(
        self,
        release: Release,
        *,
        request: Mapping[str, object],
        key: str | None,
        analyst: str | None,
        measure: Callable[[], Measured] | None = None,
    ) -> Response:
        """Return the response to a release with a single part: the stored one, or a fresh one that is paid for."""
        (part,) = release.parts
        with self.lock:
            self.register.follow()
            found = self.known(part, repeated=True)
            if found is None:
                self.release(release, request=request, key=key, analyst=analyst, measure=measure)
                found = self.known(part, repeated=False)
            elif key is not None and self.register.binds(key):
                self._remember(release, request=request, key=key, analyst=analyst)
        if found is None:
            raise ReleaseError(_LOST)
        return found

    def _remember(self, release: Release, *, request: Mapping[str, object], key: str, analyst: str | None) -> None:
        """Enter a key whose request an older answer serves, so that nobody uses it for another request afterwards."""
        nothing = replace(
            release, parts=(), event=NoCost(), cost=0, draws=0, queries=(), draw=lambda _: [], respond=lambda *_: []
        )
        self.release(nothing, request=request, key=key, analyst=analyst, measure=list)

    def close(self) -> None:
        """Let go of data and ledger."""
        with self.lock:
            if not self.closed:
                self.closed = True
                self.engine.close()
                self.ledger.close()

    def _sums(self, releases: Sequence[Release]) -> Sequence[Measured]:
        """Return the sums of each release's queries, all in one pass."""
        queries = [query for release in releases for query in release.queries]
        sums = iter(self.engine.sums(queries, bits=self.plan.bits, progress=self.progress) if queries else [])
        return [[next(sums) for _ in release.queries] for release in releases]

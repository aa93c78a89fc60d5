"""The one road of every request: plan → charge → measure → draw → respond, once each and in this order.

Requests wait in one inbox. Whoever serves it takes all that wait as a batch: one transaction stores the answers of the batch
before and charges this one, then its rows are measured in one pass and its answers drawn. Nobody hears of an answer before
it is stored.
"""

import hashlib
import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from holdtrue.accounting.filters import Filter
from holdtrue.codec import encode
from holdtrue.curator.answer_index import AnswerIndex
from holdtrue.entropy import SYSTEM
from holdtrue.errors import CuratorClosed, HoldtrueError, InvalidParameter, RefusedError, ReleaseError, UsedKey
from holdtrue.exact import UNIT
from holdtrue.ledgers.entries import Charge, Entry, Limits, check_text, read_charge
from holdtrue.ledgers.ledger import Ledger
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.cards import Card
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Response, mark_repeat
from holdtrue.verbs import Job, Measured, Planned, Release, Standing
from holdtrue.verbs.asking import cached_parser

if TYPE_CHECKING:
    from holdtrue.engines import Engine, Progress

__all__ = ["GateWatch", "Inbox", "Job", "Pending", "Pipeline", "ReleasePipeline", "may_answer", "name_private"]

T = TypeVar("T")
_LONGEST_NAME = 200
_MOST_IN_BATCH = 256
_MOST_BATCHES = 16
_CLOCK_TICK = 1.0
_LONGEST_WAIT = 0.005  # a commit may have waited for another process
_SHORTEST_WAIT = 0.0001  # a store that commits faster gains nothing by larger batches
_CLOSED = "this curator was closed; open the data again with the same ledger"
_HELD = (
    "a gate is open on cases that are these rows: until it has closed, nothing new is told of them; certify its incumbent, "
    "which closes it"
)
_NOT_STORED = "the request was charged, but its response is not in the ledger"
_NOT_MEASURED = "the rows could not be measured; the charge stays"
_INTERRUPTED = "the request may have been charged; ask again"


class Pending(ReleaseError):
    """The request was charged before, its response is not stored yet, and no release at hand may answer it."""


@dataclass(slots=True, eq=False)
class _Item:
    """A planned job, and what became of it: its entry, what was drawn for it as records and as text, or its error."""

    job: Job
    planned: Planned
    charge: Charge | None = None
    entry: Entry | None = None
    paid: bool = False
    records: list[Response] | None = None
    body: str = ""
    told: list[Response] = field(default_factory=list)
    error: HoldtrueError | None = None

    @property
    def is_known(self) -> bool:
        """Return whether older answers serve the request whole; whatever costs anything is charged."""
        return not self.planned.release.parts and not self.planned.release.cost

    @property
    def number(self) -> int | None:
        """Return the number of the entry, None before the charge."""
        return None if self.entry is None else self.entry.number


class Inbox(Generic[T]):
    """What waits, by whose it is; taken in turns.

    Law: :meth:`take` gives each owner's items in their order, and one of every owner who waits before a second of anybody.
    Any thread may call.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0
        self._wanted = 0  # items, by whoever waits for that many

    def add(self, owner: str, item: T) -> None:
        """Add an item to the queue."""
        with self._changed:
            self._waiting.setdefault(owner, deque()).append(item)
            self._count += 1
            if self._count == self._wanted:
                self._changed.notify()

    def take(self, most: int) -> list[T]:
        """Remove and return at most this many items."""
        taken: list[T] = []
        with self._changed:
            while self._waiting and len(taken) < most:
                owner, items = self._waiting.popitem(last=False)
                taken.append(items.popleft())
                if items:  # to the end of the line
                    self._waiting[owner] = items
            self._count -= len(taken)
        return taken

    def wait_for(self, count: int, *, seconds: float) -> None:
        """Let other threads run until this many items wait, for a limited time."""
        with self._changed:
            self._wanted = count
            self._changed.wait_for(lambda: self._count >= count, seconds)
            self._wanted = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return self._count


class ReleasePipeline:
    """Ledger and answer index of one dataset in this process; one inbox, served by one thread at a time.

    Law: an entry is durable before its rows are measured (P3); what was measured goes to its release's ``draw`` and nowhere
    else; a response leaves only once it is stored, and of what is drawn for a charge only what is stored first. A charge
    that a crash left unanswered is answered by a release for the same parts with the same event and no higher cost, and by
    nothing else. Each request has its own outcome: the same as if requests had come one after the other. A response says
    that it is a repeat exactly if another charge than this request's own paid for it (P5).

    ``limits`` are what a plan holds beside the ledger's cap. Every release brings its own ``measure``.
    """

    def __init__(self, *, ledger: Ledger, analyst: str, limits: Limits | None = None) -> None:
        self.ledger, self.analyst = ledger, analyst
        self.limit: Filter = ledger.terms.reserve_filter
        self.index = AnswerIndex(ledger)
        self.lock = threading.RLock()
        self.closed = False
        self._limits = limits
        self._inbox: Inbox[Job] = Inbox()
        self._measured: deque[_Item] = deque()  # slow ones, drawn and to be stored
        self._measuring: set[str] = set()  # the parts of slow ones that are being measured
        self._parked: list[Job] = []  # those that ask for such a part
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="pipeline")
        self._slow = ThreadPoolExecutor(2, thread_name_prefix="measure")
        self._waking = threading.Lock()
        self._awake = False
        self._told = 0  # callers, since the last batch was taken
        self._commit_seconds = 0.0  # of the last batch

    def submit(self, job: Job) -> "Future[list[Response]]":
        """Queue a request for the worker thread, which answers it together with all others. Any thread may call this."""
        self.check_open()
        self._accept_job(job)
        self._wake_worker()
        return job.future

    def _wake_worker(self) -> None:
        """Have the worker thread serve the inbox, after whoever serves it now."""
        with self._waking:
            if not self._awake:
                try:
                    self._worker.submit(self._serve_until_idle)
                except RuntimeError:  # closed in the meantime
                    raise CuratorClosed(_CLOSED) from None
                self._awake = True

    def run(self, job: Job) -> list[Response]:
        """Return the responses to a request. The calling thread serves the inbox itself, unless another thread does.

        Where another process has charged the same key and is still answering, its answer is waited for.
        """
        self.check_open()
        self._accept_job(job)
        return self._await_job(job)

    def run_all(self, jobs: Sequence[Job]) -> list[list[Response] | HoldtrueError]:
        """Return what became of each of several requests, its responses or its error; they go together where they can."""
        self.check_open()
        for job in jobs:
            self._accept_job(job)
        found: list[list[Response] | HoldtrueError] = []
        for job in jobs:
            try:
                found.append(self._await_job(job))
            except HoldtrueError as error:
                found.append(error)
        return found

    def _await_job(self, job: Job) -> list[Response]:
        """Return the outcome of a request in the inbox.

        Nobody waits for the lock here: whoever was told an answer is free to ask again while others are served.
        """
        if not job.future.done() and self.lock.acquire(blocking=False):
            try:
                self._serve_inbox(until=job)
            finally:
                self.lock.release()
        if not job.future.done():
            self._wake_worker()
        try:
            return job.future.result()
        except Pending as pending:
            if pending.entry is None:
                raise
            self.ledger.wait(pending.entry)
        return self.run(replace(job, future=Future()))

    def _accept_job(self, job: Job) -> None:
        """Put a request into the inbox; InvalidParameter for a key or an analyst that is not text."""
        if job.key is not None:
            check_text("key", job.key)
        self._inbox.add(self.analyst if job.analyst is None else check_text("analyst", job.analyst), job)

    def check_open(self) -> None:
        """Refuse everything once the pipeline is closed."""
        if self.closed:
            raise CuratorClosed(_CLOSED)

    @contextmanager
    def lock_index(self) -> Iterator[AnswerIndex]:
        """Yield the up-to-date index while no request of this process is served."""
        self.check_open()
        with self.lock:
            self.index.follow()
            yield self.index

    def has_used(self, key: str) -> bool:
        """Return whether a key names a request already."""
        return self.ledger.find(request_id=check_text("key", key)) is not None

    def refuse_used_key(self, key: str | None, request: str) -> None:
        """Raise UsedKey for a key that names another request, before a verb that charges more than once charges anything."""
        if key is None:
            return
        entry = self.ledger.find(request_id=check_text("key", key))
        if entry is not None and entry.request_digest != _digest_request(request):
            raise UsedKey.naming(key)

    def close(self) -> None:
        """Finish the requests in progress, and close data and ledger."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
        self._worker.shutdown()
        self._slow.shutdown()
        with self.lock:
            self._release_all()

    def _release_all(self) -> None:
        self.ledger.close()

    def _serve_until_idle(self) -> None:
        while True:
            with self.lock:
                self._serve_inbox()
            with self._waking:
                if not self._inbox:
                    self._awake = False
                    return

    def _serve_inbox(self, until: Job | None = None) -> None:
        """Answer requests that wait or arrive meanwhile, for a limited number of batches; then others get the lock.

        Nothing new is taken once ``until`` has its outcome.
        """
        waiting: list[Job] = []
        flying: list[_Item] = []
        self._told = 0
        try:
            for turn in itertools.count():
                if turn < _MOST_BATCHES and not (until is not None and until.future.done()):
                    if flying:
                        self._await_callers()
                    waiting += self._inbox.take(_MOST_IN_BATCH)
                while self._measured:
                    flying.append(self._measured.popleft())
                if not waiting and not flying:
                    return
                flying, waiting = self._serve_batch(flying, waiting)
        except BaseException as error:
            failure = error if isinstance(error, HoldtrueError) else ReleaseError(_INTERRUPTED)
            for job in [*waiting, *[item.job for item in flying]]:
                if not job.future.done():
                    job.future.set_exception(failure)
            if not isinstance(error, HoldtrueError):
                raise

    def _await_callers(self) -> None:
        """Give callers who were just told their answers a moment to ask again, so that they share the next commit.

        It is as long as the last commit took: longer waits gain nothing more, shorter ones let many come a little too late.
        It depends on how many were told and how long the disk took, both public, and never on what was measured.
        """
        seconds, told = min(self._commit_seconds, _LONGEST_WAIT), self._told
        self._told = 0
        if told and seconds >= _SHORTEST_WAIT:
            self._inbox.wait_for(told, seconds=seconds)

    def _serve_batch(self, flying: list[_Item], waiting: list[Job]) -> tuple[list[_Item], list[Job]]:
        """Store what was drawn and charge what waits in one transaction; tell the one, measure and draw for the other."""
        known, charging, later = self._plan_batch(waiting, flying)
        if flying or charging:
            bodies = [(item.entry.number, item.body) for item in flying if item.entry is not None]
            began = time.perf_counter()
            stored, entries = self.ledger.settle(bodies, [item.charge for item in charging if item.charge is not None])
            self._commit_seconds = time.perf_counter() - began
            for item, outcome in zip(flying, stored, strict=True):
                self._take_stored(item, outcome)
            for item, outcome in zip(charging, entries, strict=True):
                self._take_entry(item, outcome)
        self._tell_callers([*flying, *known, *[item for item in charging if not item.paid]])
        if not flying and not charging and not known:  # what waits, waits for a slow one: it is looked at again then
            self._parked += later
            later = []
        return self._measure_and_draw([item for item in charging if item.paid]), later

    def _plan_batch(self, waiting: Sequence[Job], flying: Sequence[_Item]) -> tuple[list[_Item], list[_Item], list[Job]]:
        """Return what is known already, what is to be charged, and what has to wait for another request's answer.

        Those wait that ask what another one of this batch pays for, since that one may be refused, or what is drawn already
        and not stored.
        """
        if waiting:
            self.index.follow()
        claimed = self._measuring.union(*[item.planned.release.parts for item in flying])
        known: list[_Item] = []
        charging: list[_Item] = []
        later: list[Job] = []
        for job in waiting:
            try:
                item = _Item(job, job.plan(self.index))
                if not claimed.isdisjoint(item.planned.parts):
                    later.append(job)
                elif item.is_known and not self.index.binds_key(job.key):
                    known.append(item)
                else:
                    item.charge = self._make_charge(job, item.planned)
                    charging.append(item)
                    claimed.update(item.planned.release.parts)
            except Exception as refusal:  # noqa: BLE001 - whatever it is, it is this request's own, and nothing was spent
                job.future.set_exception(refusal)
        return known, charging, later

    def _make_charge(self, job: Job, planned: Planned) -> Charge:
        """Return what the ledger is asked for; whether the plan still holds it is decided there, in the transaction."""
        release = planned.release
        return Charge(
            job.key if job.key is not None else planned.key or SYSTEM.words(2).tobytes().hex(),
            _digest_request(planned.request),
            self.analyst if job.analyst is None else job.analyst,
            release.verb,
            release.event,
            release.cost,
            release.draws,
            release.parts,
            encode(release.request),
            self._limits,
        )

    def _take_entry(self, item: _Item, outcome: Entry | HoldtrueError) -> None:
        """Take what became of a charge; it is durable. A charge that pays for this release has its rows measured next."""
        release = item.planned.release
        if not isinstance(outcome, Entry):
            item.error = outcome
            return
        item.entry = outcome
        item.paid = outcome.fresh or may_answer(outcome, release)
        if item.paid:
            self.index.take_entry(outcome, parts=release.parts if outcome.fresh else None)
            return
        self.index.follow()
        if outcome.response is None:
            message = "the request was charged before, and its response is not in the ledger"
            item.error = Pending(message, entry=outcome.number)

    def _measure_and_draw(self, items: Sequence[_Item]) -> list[_Item]:
        """Have rows measured for what was paid, all sums in one pass; return what is drawn and to be stored."""
        for item in items:
            if item.job.slow:
                self._measuring.update(item.planned.release.parts)
                self._slow.submit(self._measure_slowly, item)
        quick = [item for item in items if not item.job.slow]
        summed = [item for item in quick if item.planned.measure is None]
        if summed:
            self._draw_and_respond(summed, lambda: self._sum_queries([item.planned.release for item in summed]))
        for item in quick:
            if (measure := item.planned.measure) is not None:
                self._draw_and_respond([item], lambda measure=measure: [measure()])  # type: ignore[misc]  # bound now
        failed = [item for item in quick if item.error is not None]
        if failed:
            self._tell_callers(failed)
        return [item for item in quick if item.error is None]

    def _measure_slowly(self, item: _Item) -> None:
        """Measure and draw in a thread of its own; whoever serves next stores it, this thread if nobody else does."""
        measure = item.planned.measure
        try:
            self._draw_and_respond([item], lambda: [[] if measure is None else measure()])
        except Exception:  # noqa: BLE001 - nobody else would tell whoever waits
            item.error = ReleaseError(_NOT_MEASURED, entry=item.number)
        with self.lock:
            self._measuring.difference_update(item.planned.release.parts)
            if item.error is None:
                self._measured.append(item)
            else:
                self._tell_callers([item])
            for job in self._parked:
                self._accept_job(job)
            self._parked.clear()
            self._serve_inbox()

    def _draw_and_respond(self, items: Sequence[_Item], measure: Callable[[], Sequence[Measured]]) -> None:
        """Measure, draw and say what was drawn; of a failure nothing but that it happened goes on, as it may quote a row."""
        try:
            drawn = [item.planned.release.draw(found) for item, found in zip(items, measure(), strict=True)]
        except Exception:  # noqa: BLE001 - see above
            for item in items:
                item.error = ReleaseError(_NOT_MEASURED, entry=item.number)
            return
        for item, numbers in zip(items, drawn, strict=True):
            entry, release = item.entry, item.planned.release
            if entry is not None:
                standing = Standing(entry.draws, entry.spent, entry.charges - 1)
                item.records = release.respond(numbers, self._make_certificate(entry, release), standing)
                item.body = encode(item.records)

    def _sum_queries(self, releases: Sequence[Release]) -> Sequence[Measured]:
        """Return the sums of each release's queries, all in one pass."""
        raise NotImplementedError

    def _make_certificate(self, entry: Entry, release: Release) -> Certificate:
        """Return what an entry proves: what was spent on which event."""
        units, left = UNIT.denominator, self.ledger.terms.cap - entry.spent
        figures = (entry.cost / units, entry.spent / units, left / units)
        return Certificate(release.event, *figures, entry.number, entry.digest, None, 0.0, 0.0)

    def _take_stored(self, item: _Item, outcome: Entry | HoldtrueError) -> None:
        """Take what the ledger stored as a response: this one, or the one that another process stored first."""
        if isinstance(outcome, Entry):
            self.index.take_entry(outcome, records=item.records if outcome.body == item.body else None)
        else:
            item.error = outcome

    def _tell_callers(self, items: Iterable[_Item]) -> None:
        """Tell the callers the outcome of their requests, which is durable."""
        for item in items:
            future = item.job.future
            if future.done():
                continue
            self._told += 1
            if item.error is None:
                self._find_responses(item)
            if item.error is not None:
                future.set_exception(item.error)
            else:
                future.set_result(item.told)

    def _find_responses(self, item: _Item) -> None:
        """Read what the index has for each part. It is a repeat where another charge than this request's own paid for it."""
        own = 0
        if item.entry is not None and (item.paid or item.entry.request_id == item.job.key):
            own = item.entry.number
        item.told = []
        for part in item.planned.parts:
            response = self.index.answer(part)
            if response is None:
                item.error = ReleaseError(_NOT_STORED)
                return
            item.told.append(mark_repeat(response, repeated=response.certificate.entry != own))


def _read_stamp(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


class GateWatch(ABC):
    """Looks before each batch of charges whether a gate on the rows is open: where one may be, or notes have changed.

    ``is_near`` is true once a gate is known of that is over as many cases as there are rows.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders, self._stamps = folders, list[float]()
        self.is_near = False

    @abstractmethod
    def find(self, *, again: bool) -> bool:
        """Return whether a gate is open on these rows; ``again`` if notes have changed."""

    def hold(self) -> bool:
        """Return whether nothing may be charged now."""
        stamps = list(map(_read_stamp, self._folders))
        again = stamps != self._stamps
        # A folder that changed a moment ago may change once more at the same time by its clock.
        self._stamps = stamps if max(stamps, default=0.0) < time.time() - _CLOCK_TICK else []
        return (again or self.is_near) and self.find(again=again)


class Pipeline(ReleasePipeline):
    """The pipeline of rows that an engine holds and a plan limits: sums of queries are measured for all requests at once.

    ``gates`` says whether a gate is open on these rows; while one is, nothing is charged (V1.1).
    """

    def __init__(
        self, *, plan: AnyPlan, ledger: Ledger, engine: "Engine", analyst: str, progress: "Progress | None" = None
    ) -> None:
        # Where nothing was reserved, dividing the cap among the questions leaves fewer units than questions.
        reserve = plan.reserve_units if plan.reserve_units >= plan.queries else 0
        super().__init__(ledger=ledger, analyst=analyst, limits=Limits(plan.queries, reserve, plan.cost))
        self.plan, self.engine, self.progress = plan, engine, progress
        self.card: Card = engine.card
        self.gates: GateWatch | None = None
        self._held: bool | None = None  # whether a gate was open when the batch under way began to be charged
        # Parsing depends on text and card alone, and agents ask the same things in the same words.
        self.parse: Callable[[str], Query] = cached_parser(self.card)

    def left_beside_asks(self, analyst: str | None) -> int:
        """Return what other verbs than ask may spend, in units: of the reserve, the cap and the analyst's allowance."""
        reserve = self.plan.reserve_units - self.index.other_cost
        return max(0, min(reserve, self.ledger.left_for(analyst or self.analyst, draws=0)))

    def _plan_batch(self, waiting: Sequence[Job], flying: Sequence[_Item]) -> tuple[list[_Item], list[_Item], list[Job]]:
        """Plan a batch; whether a gate is open is looked at once for all of its charges, which are made together."""
        self._held = None
        return super()._plan_batch(waiting, flying)

    def _make_charge(self, job: Job, planned: Planned) -> Charge:
        """Return what the ledger is asked for, unless nothing may be told."""
        if self._held is None:
            self._held = self.gates is not None and self.gates.hold()
        if self._held:
            raise RefusedError(_HELD)
        return super()._make_charge(job, planned)

    def _release_all(self) -> None:
        self.engine.close()
        super()._release_all()

    def _sum_queries(self, releases: Sequence[Release]) -> Sequence[Measured]:
        """Return the sums of each release's queries, all in one pass, or of its cells."""
        queries, how = [query for release in releases for query in release.queries], (self.plan.bits, self.progress)
        sums = iter(self.engine.sums(queries, bits=how[0], progress=how[1]) if queries else [])
        return [
            [next(sums) for _ in release.queries]
            if release.cells is None
            else self.engine.sum_cells(release.cells, bits=how[0], progress=how[1])
            for release in releases
        ]

    def _make_certificate(self, entry: Entry, release: Release) -> Certificate:
        """Return what an entry proves."""
        plan, unit, units = self.plan, self.card.unit, UNIT.denominator
        purse = self.ledger.terms.purse
        is_second = purse is not None and not release.draws
        spent, cap = (entry.other_spent, purse.cap_units) if is_second else (entry.spent, self.ledger.terms.cap)  # type: ignore[union-attr]
        return Certificate(
            release.event,
            entry.cost / units,
            spent / units,
            (cap - spent) / units,
            entry.number,
            entry.digest,
            plan.theorem,
            plan.epsilon or 0.0,
            plan.delta or 0.0,
            unit or UNSET,
            UNSET if unit is None else self.card.population or UNSET,
            plan.group if plan.group > 1 else UNSET,
            UNSET if purse is None else purse.currency if is_second else "mu",
        )


def _digest_request(request: str) -> str:
    """Return what a key is bound to: the SHA-256 of a whole request, given as canonical JSON."""
    return hashlib.sha256(request.encode()).hexdigest()


def may_answer(entry: Entry, release: Release) -> bool:
    """Return whether a charge that a crash left unanswered pays for this very release.

    Law: it was never answered, and names the same parts, the same draws and the same event, at a cost no lower than the
    release's. So what leaves under a charge is what that charge paid for: a look inside a run of above threshold, charged 0,
    pays for no threshold of another run.
    """
    if entry.response is not None or entry.event != encode(release.event) or release.cost > entry.cost:
        return False
    charged = read_charge(entry)
    return charged.parts == release.parts and charged.draws == release.draws


def name_private(name: str | None, *, key: str | None) -> str:
    """Name a request whose contents are private: by its public name, else by the request's key, else at random.

    Law: nothing of the contents goes into it, so nobody learns from a repeat whether two private vectors are equal; under
    one name they are one request, whatever they hold now.
    """
    if name is not None:
        if not 1 <= len(check_text("name", name)) <= _LONGEST_NAME:
            raise InvalidParameter("name", name, f"a public name of 1 to {_LONGEST_NAME} characters")
        return f"named {name}"
    return SYSTEM.words(4).tobytes().hex() if key is None else f"key {check_text('key', key)}"

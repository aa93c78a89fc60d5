"""Requests to one ledger: concurrent asks are charged together, slow verbs have their own threads, analysts take turns."""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from holdtrue.curator.pipeline import Pending
from holdtrue.errors import CuratorClosed, HoldtrueError
from holdtrue.ledgers import Ledger
from holdtrue.records import Answer, Response
from holdtrue.service.open_ledgers import OpenLedgers, unavailable_error

if TYPE_CHECKING:
    from holdtrue.curator import Curator

__all__ = ["Dispatcher", "FairThreads", "LedgerThreads"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_SLOW_VERBS = 2
_READERS = 2


class LedgerThreads:
    """The threads in which the requests to one ledger run: short tasks beside each other, long ones in turns.

    ``ledger`` stays the same object, also when it has stopped. Errors are told as ``ledgers`` explain them: 503 while the
    ledger is being opened again. Analysts come in turns: whoever sends a thousand requests at once waits for them, and
    nobody else does.
    """

    def __init__(self, ledger: Ledger, ledgers: OpenLedgers[Any] | None = None, *, slow: int = _SLOW_VERBS) -> None:
        self.ledger = ledger
        self._ledgers = ledgers
        self._closed = False
        self._others = ThreadPoolExecutor(_READERS, thread_name_prefix="reads")
        self._slow = FairThreads(slow, name="verbs")

    async def run_short(self, function: Callable[_P, _T], /, *args: _P.args, **given: _P.kwargs) -> _T:
        """Run a short task, such as reading the budget, in the threads for short tasks."""
        with self.explain_errors():
            return await asyncio.get_running_loop().run_in_executor(self._others, partial(function, *args, **given))

    async def run_long(self, owner: str, function: Callable[_P, _T], /, *args: _P.args, **given: _P.kwargs) -> _T:
        """Run a long task, such as learning, when it is the turn of its owner, the analyst who asked for it."""
        with self.explain_errors():
            return await self._slow.run(owner, function, *args, **given)

    def close(self) -> None:
        """Finish the requests under way, and take no more."""
        self._closed = True
        self._others.shutdown()
        self._slow.close()

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raise the errors of a request as its caller is told them."""
        try:
            yield
        except HoldtrueError as error:
            raise (error if self._ledgers is None else self._ledgers.explain(error, self.ledger)) from None
        except RuntimeError:
            if not self._closed:
                raise
            raise unavailable_error() from None  # the threads of what is closed take nothing more


class Dispatcher(LedgerThreads):
    """Passes requests from one event loop to one curator, in threads of its own.

    Guarantee: while some asks are charged and answered, those that arrive meanwhile wait and then go together, so that they
    share one durable commit, and share theirs with the answers of those before. Every ask has its own outcome: a refusal
    of one refuses no other. Nobody is told of an answer before it is stored.
    """

    def __init__(self, curator: "Curator", ledgers: OpenLedgers[Any] | None = None) -> None:
        super().__init__(curator.ledger, ledgers)
        self.curator = curator
        self._outcomes: _Outcomes | None = None

    async def ask(self, queries: Sequence[str], key: str, analyst: str) -> list[Answer]:
        """Return the answers to one request; a key that comes again gets the same ones, paid once."""
        loop = asyncio.get_running_loop()
        if self._outcomes is None or self._outcomes.loop is not loop:
            self._outcomes = _Outcomes(loop)
        told: asyncio.Future[list[Answer]] = loop.create_future()
        with self.explain_errors():
            job = self.curator.ask_job(tuple(queries), key=key, analyst=analyst)
            self.curator.pipeline.submit(job).add_done_callback(partial(self._outcomes.add_outcome, told))
            try:
                return await told
            except Pending:
                # Another worker charged this very key and has not answered yet: its answer is waited for out of the way.
                return await self._slow.run(analyst, self.curator.ask, list(queries), key=key, analyst=analyst)

    def close(self) -> None:
        """Finish the requests under way and close the curator."""
        super().close()
        self.curator.close()


class _Outcomes:
    """Passes results from threads to one event loop, which is woken once for all that arrive together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._found: deque[tuple[asyncio.Future[list[Answer]], Future[list[Response]]]] = deque()
        self._waking = False

    def add_outcome(self, told: "asyncio.Future[list[Answer]]", done: "Future[list[Response]]") -> None:
        """Take an outcome, in any thread."""
        self._found.append((told, done))
        if not self._waking:  # else the loop has not begun to look yet, and finds this one too
            self._waking = True
            # A loop that is closed has nobody who waits; what is under way is stored all the same.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._tell_waiting)

    def _tell_waiting(self) -> None:
        self._waking = False
        while self._found:
            told, done = self._found.popleft()
            if told.done():  # whoever asked has gone; the answer is in the ledger
                continue
            error = done.exception()
            if error is not None:
                told.set_exception(error)
            else:
                told.set_result(done.result())  # type: ignore[arg-type]  # the responses to questions are answers


class FairThreads:
    """Runs long work in a few threads.

    Law: an owner's pieces run one after the other and in their order, and owners come in turns; so with two threads or more
    one owner's long work never takes them all.
    """

    def __init__(self, threads: int, *, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()
        self._running: set[str] = set()

    async def run(self, owner: str, function: Callable[_P, _T], /, *args: _P.args, **given: _P.kwargs) -> _T:
        """Run a function when it is its owner's turn, and return its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        task = partial(_run_task, loop, future, partial(function, *args, **given))
        with self._lock:
            self._waiting.setdefault(owner, deque()).append(task)
        try:
            self._pool.submit(self._run_waiting)
        except RuntimeError:
            message = "the service is stopping; ask again when it has restarted"
            raise CuratorClosed(message) from None
        return await future

    def close(self) -> None:
        """Finish the waiting tasks and stop."""
        self._pool.shutdown()

    def _run_waiting(self) -> None:
        """Run one waiting task, if there is one: this is called once per task, and another call may have run it already."""
        found = self._take_next()
        while found is not None:
            owner, task = found
            try:
                task()
            finally:
                with self._lock:
                    self._running.discard(owner)
            # What waited for this owner's own work to end has lost its call of this by now.
            found = self._take_next()

    def _take_next(self) -> tuple[str, Callable[[], None]] | None:
        with self._lock:
            owner = next((each for each in self._waiting if each not in self._running), None)
            if owner is None:
                return None
            tasks = self._waiting.pop(owner)
            task = tasks.popleft()
            if tasks:
                self._waiting[owner] = tasks
            self._running.add(owner)
            return owner, task


def _run_task(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", function: Callable[[], Any]) -> None:
    try:
        outcome: Any = function()
        tell = partial(_settle_future, future, outcome, None)
    except BaseException as error:  # noqa: BLE001 - whoever waits is told, whatever it is
        tell = partial(_settle_future, future, None, error)
    if not loop.is_closed():
        loop.call_soon_threadsafe(tell)


def _settle_future(future: "asyncio.Future[Any]", outcome: object, error: BaseException | None) -> None:
    if future.done():  # whoever asked has gone
        return
    if error is None:
        future.set_result(outcome)
    else:
        future.set_exception(error)

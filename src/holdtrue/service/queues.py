"""Fair turns: whoever has waiting work gets as many turns as anybody else, however much of it waits."""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from holdtrue.errors import CuratorClosed

__all__ = ["FairThreads"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


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
        """Return what a function returns, run when its owner's turn comes."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        task = partial(_run, loop, future, partial(function, *args, **given))
        with self._lock:
            self._waiting.setdefault(owner, deque()).append(task)
        try:
            self._pool.submit(self._work)
        except RuntimeError:
            message = "the service is stopping; ask again when it is back"
            raise CuratorClosed(message) from None
        return await future

    def close(self) -> None:
        """Finish what waits."""
        self._pool.shutdown()

    def _work(self) -> None:
        """Do one piece of work; there is a call of this for each that waits, or another one does it on its way."""
        found = self._next()
        while found is not None:
            owner, task = found
            try:
                task()
            finally:
                with self._lock:
                    self._running.discard(owner)
            # What waited for this owner's own work to end has lost its call of this by now.
            found = self._next()

    def _next(self) -> tuple[str, Callable[[], None]] | None:
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


def _run(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", function: Callable[[], Any]) -> None:
    try:
        outcome: Any = function()
        tell = partial(_settle, future, outcome, None)
    except BaseException as error:  # noqa: BLE001 - whoever waits is told, whatever it is
        tell = partial(_settle, future, None, error)
    if not loop.is_closed():
        loop.call_soon_threadsafe(tell)


def _settle(future: "asyncio.Future[Any]", outcome: object, error: BaseException | None) -> None:
    if future.done():  # whoever asked has gone
        return
    if error is None:
        future.set_result(outcome)
    else:
        future.set_exception(error)

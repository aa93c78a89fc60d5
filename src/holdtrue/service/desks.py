"""The desk of one dataset: asks that come together are charged together, slow verbs wait elsewhere, all analysts in turn."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from holdtrue.curator import Curator
from holdtrue.curator.pipeline import Pending
from holdtrue.records import Answer, Response
from holdtrue.service.queues import FairThreads

__all__ = ["Desk"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_SLOW_VERBS = 2
_READERS = 2


class Desk:
    """Takes requests of one event loop to one curator, in threads of its own.

    Guarantee: while some asks are charged and answered, those that come meanwhile wait and then go together, so that they
    pay for durable commits once, and share theirs with the answers of those before. Every ask has its own outcome: a refusal
    of one refuses no other. Nobody is told of an answer before it is stored. Analysts come in turns: whoever sends a
    thousand requests at once waits for them, and nobody else does.
    """

    def __init__(self, curator: Curator) -> None:
        self.curator = curator
        self._outcomes: _Outcomes | None = None
        self._others = ThreadPoolExecutor(_READERS, thread_name_prefix="reads")
        self._slow = FairThreads(_SLOW_VERBS, name="verbs")

    async def ask(self, queries: Sequence[str], key: str, analyst: str) -> list[Answer]:
        """Return the answers to one request; a key that comes again gets the same ones, paid once."""
        loop = asyncio.get_running_loop()
        if self._outcomes is None or self._outcomes.loop is not loop:
            self._outcomes = _Outcomes(loop)
        told: asyncio.Future[list[Answer]] = loop.create_future()
        job = self.curator.ask_job(tuple(queries), key=key, analyst=analyst)
        self.curator.pipeline.submit(job).add_done_callback(partial(self._outcomes.add, told))
        try:
            return await told
        except Pending:
            # Another worker charged this very key and has not answered yet: its answer is waited for out of the way.
            return await self.work(analyst, self.curator.ask, list(queries), key=key, analyst=analyst)

    async def call(self, function: Callable[_P, _T], /, *args: _P.args, **given: _P.kwargs) -> _T:
        """Run what takes little time, such as a look at the budget, in this dataset's threads for that."""
        return await asyncio.get_running_loop().run_in_executor(self._others, partial(function, *args, **given))

    async def work(self, owner: str, function: Callable[_P, _T], /, *args: _P.args, **given: _P.kwargs) -> _T:
        """Run what may take long, such as learning, when the turn of its owner comes: of the analyst who asked for it."""
        return await self._slow.run(owner, function, *args, **given)

    def close(self) -> None:
        """Finish what is under way and let go of the curator."""
        self._others.shutdown()
        self._slow.close()
        self.curator.close()


class _Outcomes:
    """Passes what threads find out to those who wait in one event loop, which is woken once for all that come together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._found: deque[tuple[asyncio.Future[list[Answer]], Future[list[Response]]]] = deque()
        self._waking = False

    def add(self, told: "asyncio.Future[list[Answer]]", done: "Future[list[Response]]") -> None:
        """Take an outcome, in any thread."""
        self._found.append((told, done))
        if not self._waking:  # else the loop has not begun to look yet, and finds this one too
            self._waking = True
            # A loop that is closed has nobody who waits; what is under way is stored all the same.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
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

"""The desk of one dataset: asks that come together are charged together, slow verbs wait elsewhere, all analysts in turn."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ParamSpec, TypeVar

from holdtrue.curator import Curator
from holdtrue.curator.crowds import Ask, Replies
from holdtrue.curator.steps import Pending
from holdtrue.errors import CuratorClosed, ReleaseError, UsedKey
from holdtrue.records import Answer, Choice, Hypothesis, Prediction
from holdtrue.service.queues import FairQueue, FairThreads

__all__ = ["Desk", "told_alike"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Told = TypeVar("_Told", Choice, Hypothesis, Prediction)
_MOST = 256
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
        self._waiting: FairQueue[tuple[Ask, asyncio.Future[list[Answer]]]] = FairQueue()
        self._busy = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asker = ThreadPoolExecutor(1, thread_name_prefix="asks")
        self._others = ThreadPoolExecutor(_READERS, thread_name_prefix="reads")
        self._slow = FairThreads(_SLOW_VERBS, name="verbs")

    async def ask(self, queries: Sequence[str], key: str, analyst: str) -> list[Answer]:
        """Return the answers to one request; a key that comes again gets the same ones, paid once."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Answer]] = loop.create_future()
        self._waiting.add(analyst, (Ask(tuple(queries), key=key, analyst=analyst), future))
        if not self._busy or self._loop is not loop:  # a loop that is gone never heard that its last group was done
            self._busy, self._loop = True, loop
            # Once the loop has read what has already arrived, so that it goes along.
            loop.call_soon(self._send, loop)
        try:
            return await future
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
        self._asker.shutdown()
        self._others.shutdown()
        self._slow.close()
        self.curator.close()

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            done = loop.run_in_executor(self._asker, self._work)
        except RuntimeError:  # the desk was closed meanwhile
            self._busy = False
            while waiting := self._waiting.take(_MOST):
                error = CuratorClosed("the service is stopping; ask again when it is back")
                _tell([(future, error) for _, future in waiting])
            return
        done.add_done_callback(partial(self._rest, loop))

    def _rest(self, loop: asyncio.AbstractEventLoop, _: "asyncio.Future[None]") -> None:
        """Send those who came since."""
        self._busy = bool(self._waiting)
        if self._busy:
            self._send(loop)

    def _work(self) -> None:
        """Answer those who wait, and those who come meanwhile; whoever is taken is told, whatever happens."""
        untold: set[asyncio.Future[list[Answer]]] = set()

        def more() -> list[tuple[Ask, asyncio.Future[list[Answer]]]]:
            group = self._waiting.take(_MOST)
            untold.update([future for _, future in group])
            return group

        def tell(told: Sequence[tuple[asyncio.Future[list[Answer]], Replies | BaseException]]) -> None:
            untold.difference_update([future for future, _ in told])
            for loop in {future.get_loop() for future, _ in told}:
                # A loop that is closed has nobody who waits; what is under way is stored all the same.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(_tell, [each for each in told if each[0].get_loop() is loop])

        failed: BaseException = ReleaseError("the request may have been charged, but its response is not in the ledger")
        try:
            self.curator.ask_along((), more=more, tell=tell)
        except BaseException as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            failed = error
        if untold:
            tell([(future, failed) for future in untold])


def _tell(told: "Sequence[tuple[asyncio.Future[list[Answer]], Replies | BaseException]]") -> None:
    for future, outcome in told:
        if future.done():  # whoever asked has gone; the answer is in the ledger
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def told_alike(curator: Curator, key: str, responses: Sequence[_Told], *, whole: bool = True) -> list[_Told]:
    """Return responses that say of themselves what they said the first time the key came (P5).

    A response is a repeat exactly if another charge than this key's own paid for it. ``whole`` says that one charge pays for
    all of a request; a key whose charge paid for something else is refused then.
    """
    paid = curator.ledger.find(request_id=key)
    own = paid.number if paid is not None and paid.request_id == key else 0
    if whole and own and any(response.certificate.entry != own for response in responses):
        message = "this idempotency key was used for another request; take a new key for a new request"
        raise UsedKey(message)
    return [replace(response, repeated=response.certificate.entry != own) for response in responses]

"""Reading without keeping anybody waiting: one read for all who ask at the same time, and none where nothing was written."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

__all__ = ["Reading", "Version"]

_MOST_AT_ONCE = 256

Row = Mapping[str, Any]


class Reading:
    """Reads rows by name in a thread of its own, those that are wanted at the same time together.

    Law: a row that :meth:`row` returns was read after the call began, so what was committed before it is seen. Needs: one
    event loop at a time. Fails: with the error of the read, for all who waited for that read.
    """

    def __init__(self, rows: Callable[[Iterable[str]], Mapping[str, Row]]) -> None:
        self._rows = rows
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdtrue-keys")
        self._waiting: list[tuple[str, asyncio.Future[Row | None]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def row(self, name: str) -> Row | None:
        """Return the row of a name, None where there is none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Row | None] = loop.create_future()
        if self._serving is not None and self._serving.get_loop() is not loop:
            # A loop that is gone left nobody behind who could still be told.
            self._serving, self._waiting = None, []
        self._waiting.append((name, future))
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve())
        return await future

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
            names = {name for name, _ in batch}
            try:
                found = await loop.run_in_executor(self._thread, self._rows, names)
            except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for name, future in batch:
                if not future.done():
                    future.set_result(found.get(name))
        self._serving = None

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.shutdown(wait=False)


class Version:
    """Tells whether anybody has committed anything to a SQLite file, for the price of a few bytes from its header.

    Law: two calls of :meth:`now` that return the same number have no commit of any process between them. Needs: a SQLite
    file. Fails: by None, which equals no version: for another store, and while a commit is being made.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._connection: sqlite3.Connection | None = None
        if engine.dialect.name == "sqlite":
            with engine.connect() as connection:
                path: str = connection.exec_driver_sql(
                    "SELECT file FROM pragma_database_list WHERE name = 'main'"
                ).scalar_one()
            # A commit under way is not waited for (no timeout): whoever asks reads the row instead.
            self._connection = sqlite3.connect(
                f"file:{quote(path)}?mode=ro", uri=True, timeout=0.0, isolation_level=None, check_same_thread=False
            )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[asyncio.Future[int | None]] = []

    async def soon(self) -> int | None:
        """Return :meth:`now`, looked up after this call began, once for all who call in the same turn of the event loop."""
        if self._connection is None:
            return None
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # those of a loop that is gone are waited for by nobody
            self._loop, self._waiting = loop, []
        future: asyncio.Future[int | None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._tell)
        self._waiting.append(future)
        return await future

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        version = self.now()
        for future in waiting:
            if not future.done():
                future.set_result(version)

    def now(self) -> int | None:
        """Return the number of the newest commit by any other connection."""
        if self._connection is None:
            return None
        try:
            found: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return None
        return found

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

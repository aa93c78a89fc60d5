"""The engine for files, globs and DuckDB relations, on a connection that :mod:`~holdtrue.engines.loading` made and locked.

No statement has a WHERE, and optimisers that look at statistics of the data are off: every scan reads every row.
"""

import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdtrue.engines.bitmaps import MEMORY, Progress
from holdtrue.engines.chunks import Cells, cells_of_arrow, flags_of
from holdtrue.engines.files import quoted
from holdtrue.engines.measuring import CHUNK, Measuring
from holdtrue.engines.sealing import FAILED
from holdtrue.engines.spilling import SpillFolder
from holdtrue.errors import ReleaseError
from holdtrue.kernels import Words
from holdtrue.kernels.bitmaps import pack
from holdtrue.queries.cards import Card
from holdtrue.queries.emitting import duckdb as emitted
from holdtrue.queries.emitting import duckdb_condition
from holdtrue.queries.trees import Boolean, Query

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["ROWS", "DuckEngine", "Seal"]

ROWS = "holdtrue_rows"
_EXPRESSIONS = 128
_ATOMS = 64
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Seal:
    """What a file looked like when it was opened."""

    path: str
    size: int
    changed: int
    number: int

    @classmethod
    def of(cls, path: str) -> "Seal":
        """Look at a file."""
        found = os.stat(path)  # noqa: PTH116 - the path is a string throughout
        return cls(path, found.st_size, found.st_mtime_ns, found.st_ino)


class DuckEngine(Measuring):
    """Rows that DuckDB reads: from Parquet files as a stream, or from a table it holds."""

    def __init__(
        self,
        card: Card,
        connection: "duckdb.DuckDBPyConnection",
        *,
        seals: Sequence[Seal] = (),
        folder: SpillFolder | None = None,
        memory: int = MEMORY,
    ) -> None:
        self._connection = connection
        self._seals = tuple(seals)
        self._folder = folder
        self._swept = None if folder is None else weakref.finalize(self, folder.remove)
        super().__init__(card, memory=memory)

    def mark(self, atoms: Sequence[Boolean], words: Sequence[Words], *, progress: Progress | None) -> None:
        """Set the bits of the rows that satisfy each atom, many atoms a scan."""
        for first in range(0, len(atoms), _ATOMS):
            some = atoms[first : first + _ATOMS]
            selected = ", ".join(f"({duckdb_condition(atom)}) AS a{number}" for number, atom in enumerate(some))
            for start, batch in self._batches(f"SELECT {selected} FROM {ROWS}"):  # noqa: S608 - our own emitter's text
                for number in range(len(some)):
                    pack(flags_of(batch.column(number)), words[first + number], start=start)
                if progress is not None:
                    progress((first + len(some) * (start + batch.num_rows) / max(1, self.rows)) / len(atoms))

    def numbers(self, column: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the values of a column of numbers and which of them are there."""
        kind = self.card.column(column).type
        data = np.zeros(self.rows, dtype=np.int64 if kind == "integer" else np.float64)
        valid = np.zeros(self.rows, dtype=np.bool_)
        for start, batch in self._batches(f"SELECT {quoted(column)} FROM {ROWS}"):  # noqa: S608 - a quoted name of the card
            _, cells = cells_of_arrow(column, batch.column(0), wanted=kind)
            data[start : start + batch.num_rows], valid[start : start + batch.num_rows] = cells  # type: ignore[misc]
        return data, valid

    def _scan(self, queries: Sequence[Query], bits: int, progress: Progress | None) -> list[int]:
        sums: list[int] = []
        for first in range(0, len(queries), _EXPRESSIONS):
            some = queries[first : first + _EXPRESSIONS]
            selected = ", ".join(f"COALESCE(SUM({emitted(query, bits)}), 0)" for query in some)
            share = (first / len(queries), len(some) / len(queries))
            (found,) = self._fetched(f"SELECT {selected} FROM {ROWS}", progress, share)  # noqa: S608 - our own emitter's text
            sums += [int(value) for value in found]
        return sums

    def _pieces(self, names: Sequence[str]) -> Iterator[tuple[list[Cells], int]]:
        kinds = [self.card.column(name).type for name in names]
        listed = ", ".join(quoted(name) for name in names)
        for _, batch in self._batches(f"SELECT {listed} FROM {ROWS}"):  # noqa: S608 - quoted names of the card
            cells = [
                cells_of_arrow(name, batch.column(number), wanted=kind)[1]
                for number, (name, kind) in enumerate(zip(names, kinds, strict=True))
            ]
            yield cells, batch.num_rows

    def _release(self) -> None:
        self._connection.close()
        if self._swept is not None:
            self._swept()

    def _batches(self, statement: str) -> Iterator[tuple[int, "pa.RecordBatch"]]:
        """Yield all rows of a statement in order, in batches, with the row that each begins at."""
        self._check_files()
        start = 0
        for batch in _streamed(self._connection, statement):
            if start + batch.num_rows > self.rows:
                raise ReleaseError(FAILED)
            yield start, batch
            start += batch.num_rows
        if start != self.rows:
            raise ReleaseError(FAILED)
        self._check_files()

    def _fetched(self, statement: str, progress: Progress | None, share: tuple[float, float]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; told of progress from this thread, while another waits for the engine."""
        self._check_files()
        if progress is None:
            found = self._connection.execute(statement).fetchall()
        else:
            found = self._watched(statement, progress, share)
        self._check_files()
        return found

    def _watched(self, statement: str, progress: Progress, share: tuple[float, float]) -> list[tuple[Any, ...]]:
        found: list[list[tuple[Any, ...]]] = []
        done = threading.Event()

        def work() -> None:
            try:
                found.append(self._connection.execute(statement).fetchall())
            except Exception:  # noqa: BLE001, S110 - nothing in `found` says it; the text may quote a cell
                pass
            finally:
                done.set()

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        try:
            while not done.wait(_LOOK_SECONDS):
                progress(share[0] + share[1] * min(100.0, max(0.0, self._connection.query_progress())) / 100)
        except BaseException:
            self._connection.interrupt()
            raise
        finally:
            worker.join()
        progress(share[0] + share[1])
        if not found:
            raise ReleaseError(FAILED)
        return found[0]

    def _check_files(self) -> None:
        for seal in self._seals:
            if Seal.of(seal.path) != seal:
                raise ReleaseError(FAILED)


def _streamed(connection: "duckdb.DuckDBPyConnection", statement: str) -> "Iterator[pa.RecordBatch]":
    """Yield a statement's rows as Arrow batches, in order and without holding them all.

    DuckDB 2 copies every row before it hands Arrow out of ``execute``, so the stream comes from ``sql``, where versions
    from 1.5 on have it.
    """
    cursor: Any = connection
    if hasattr(cursor, "to_arrow_reader"):
        yield from cursor.sql(statement).to_arrow_reader(CHUNK)
    else:
        yield from cursor.execute(statement).fetch_record_batch(CHUNK)

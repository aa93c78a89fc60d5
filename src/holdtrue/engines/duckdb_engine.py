"""The engine for files, globs and DuckDB relations: rows on a connection of our own, which is locked before it answers.

Parquet is read where it lies, a stream at a time; CSV, JSON and relations are loaded once into a table of the
connection's own. Then the connection is locked: it reads no other file, attaches nothing, loads nothing and changes no
setting. Rows that outgrow its memory go to a :class:`SpillFolder` beside the ledger; without one they stay in memory, all of
them. No statement has a WHERE, and optimisers that look at statistics of the data are off: every scan reads every row.
"""

import glob
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdtrue.codec import encode
from holdtrue.engines.base import CHUNK, FAILED, LocalEngine
from holdtrue.engines.bitmaps import MEMORY, Progress
from holdtrue.engines.files import (
    Files,
    FileState,
    Header,
    cast_columns,
    change_to_dates,
    count_dates,
    explain_failure,
    find_files,
    infer_types,
    quote_text,
    table_function,
)
from holdtrue.errors import ReleaseError, RequestError
from holdtrue.exact import count
from holdtrue.kernels import Flags, Words
from holdtrue.kernels.bitmaps import pack
from holdtrue.queries.cards import Card, Declared
from holdtrue.queries.columns import check_names, flags_of, open_masked, read_as_held, read_stored, type_of_arrow
from holdtrue.queries.dates import LIMITS
from holdtrue.queries.emitters import duckdb_condition as emit_condition
from holdtrue.queries.emitters import emit_duckdb as emit_value
from holdtrue.queries.evaluator import Values
from holdtrue.queries.sql_words import quote_name
from holdtrue.queries.syntax_tree import Boolean, Query

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

__all__ = ["DuckDBEngine", "DuckDBSettings", "SpillFolder", "open_files", "open_relation"]

fcntl: Any
try:
    fcntl = import_module("fcntl")
except ImportError:  # without such locks nothing is spilled
    fcntl = None

_ROWS = "holdtrue_rows"
_HELD = "holdtrue_held"
_SOURCE = "holdtrue_source"
_EXPRESSIONS = 128
_ATOMS = 64
_LOOK_SECONDS = 0.1
_ATTEMPTS = 100
_OFF = {"statistics_propagation", "row_group_pruner", "partial_aggregate_pushdown"}
_PAGE = 1 << 16
_GROUP = 1 << 25  # bytes of a group of rows that a thread holds at once
_WORD = 8
_SMALL_DICTIONARY = 1 << 14  # bytes of its page
_WRITTEN_OUT = {"PLAIN", "RLE", "BIT_PACKED"}  # the second and third are of which cells are there
_PLAIN = {(kind, "NONE") for kind in ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE")}
_PLAIN |= {("INT32", "INT"), ("INT64", "INT"), ("BYTE_ARRAY", "STRING")}
_FIRST = {
    "preserve_insertion_order": "true",
    "GLOBAL python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_progress_bar": "true",
    "enable_progress_bar_print": "false",
}


@dataclass(frozen=True, slots=True)
class DuckDBSettings:
    """Settings of the machine: threads (DuckDB's own unless given), bytes kept for speed, and where rows may be spilled."""

    threads: int | None = None
    memory: int = MEMORY
    spill: Path | None = None


class DuckDBEngine(LocalEngine):
    """Rows that DuckDB reads: from Parquet files as a stream, or from a table it holds.

    Every pass over the rows has a cursor of its own; statements whose progress is told share the connection, one at a time.
    """

    scans_first = True

    def __init__(
        self,
        card: Card,
        connection: "duckdb.DuckDBPyConnection",
        *,
        seen: Sequence[FileState] = (),
        folder: "SpillFolder | None" = None,
        memory: int = MEMORY,
    ) -> None:
        self._connection = connection
        self._statements = threading.RLock()
        self._seen = tuple(seen)
        self._remove_folder = None if folder is None else weakref.finalize(self, folder.remove)
        super().__init__(card, memory=memory)

    def mark_rows(self, atoms: Sequence[Boolean], words: Sequence[Words], *, progress: Progress | None) -> None:
        """Set the bits of the rows that satisfy each atom, many atoms per scan."""
        for first in range(0, len(atoms), _ATOMS):
            some = atoms[first : first + _ATOMS]
            selected = ", ".join(f"({emit_condition(atom)}) AS a{number}" for number, atom in enumerate(some))
            for start, batch in self._read_batches(selected):
                for number in range(len(some)):
                    pack(flags_of(batch.column(number)), words[first + number], start=start)
                if progress is not None:
                    progress((first + len(some) * (start + batch.num_rows) / max(1, self.rows)) / len(atoms))

    def read_numbers(self, column: str) -> tuple[npt.NDArray[Any], Flags]:
        """Return the values of a column of numbers or dates and which of them are there."""
        data = np.zeros(self.rows, dtype=np.float64 if self.card.column(column).type == "real" else np.int64)
        valid = np.zeros(self.rows, dtype=np.bool_)
        start = 0
        for (cells,), rows in self._yield_pieces([column]):
            data[start : start + rows], valid[start : start + rows] = cells.data, cells.valid
            start += rows
        return data, valid

    def _scan_rows(self, queries: Sequence[Query], bits: int, progress: Progress | None) -> list[int]:
        sums: list[int] = []
        for first in range(0, len(queries), _EXPRESSIONS):
            some = queries[first : first + _EXPRESSIONS]
            selected = ", ".join(f"COALESCE(SUM({emit_value(query, bits)}), 0)" for query in some)
            share = (first / len(queries), len(some) / len(queries))
            self._check_files()
            sums += map(int, self._fetch_row(f"SELECT {selected} FROM {_ROWS}", progress, share))  # noqa: S608 - our own emitter's text
            self._check_files()
        return sums

    def _yield_pieces(self, names: Sequence[str]) -> Iterator[tuple[list[Values], int]]:
        for read, rows in self._yield_readers(names):
            yield read(), rows

    def _yield_readers(self, names: Sequence[str]) -> Iterator[tuple[Callable[[], list[Values]], int]]:
        for _, batch in self._read_batches(", ".join(quote_name(name) for name in names)):
            yield partial(self._read_batch, batch, names), batch.num_rows

    def _read_batch(self, batch: "pa.RecordBatch", names: Sequence[str]) -> list[Values]:
        return [read_stored(name, batch.column(place), self.card.column(name).type) for place, name in enumerate(names)]

    def _yield_all(self) -> Iterator[tuple[Callable[[], list[Values]], int]]:
        """Yield all columns; of Parquet files whose types are the card's by Arrow, which leaves text coded."""
        paths, names, done = [file.path for file in self._seen], [column.name for column in self.card.columns], 0
        if not (paths and all(_is_plain(path, self.card) for path in paths)):
            yield from super()._yield_all()
            return
        self._check_files()
        for file in self._seen:
            for read, rows in _read_parquet(file.path, names):
                yield partial(_view_batch, read, rows, file), rows
                done += rows
        self._check_files()
        if done != self.rows:
            raise ReleaseError(FAILED)

    def _release_rows(self) -> None:
        self._connection.close()
        if self._remove_folder is not None:
            self._remove_folder()

    def _read_batches(self, selected: str) -> Iterator[tuple[int, "pa.RecordBatch"]]:
        """Yield expressions over all rows in order, in batches, with the row that each begins at; not holding them all.

        DuckDB 2 copies every row before it hands Arrow out of ``execute``, so the stream comes from ``sql``, where versions
        from 1.5 on have it.
        """
        self._check_files()
        statement = f"SELECT {selected} FROM {_ROWS}"  # noqa: S608 - our own emitter's text, or quoted names of the card
        with self._lock:
            cursor: Any = self._connection.cursor()
        try:
            reader = (
                cursor.sql(statement).to_arrow_reader(CHUNK)
                if hasattr(cursor, "to_arrow_reader")
                else cursor.execute(statement).fetch_record_batch(CHUNK)
            )
            start = 0
            for batch in reader:
                if start + batch.num_rows > self.rows:
                    raise ReleaseError(FAILED)
                yield start, batch
                start += batch.num_rows
        finally:
            cursor.close()
        if start != self.rows:
            raise ReleaseError(FAILED)
        self._check_files()

    def _fetch_row(self, statement: str, progress: Progress | None, share: tuple[float, float]) -> tuple[Any, ...]:
        """Return the one row of a statement; ``progress`` is told from this thread, while another waits for DuckDB."""
        with self._statements:
            if progress is None:
                return self._connection.execute(statement).fetchall()[0]
            found: list[tuple[Any, ...]] = []

            def work() -> None:
                # Nothing in `found` says that it failed; the error's text may quote a cell.
                with suppress(Exception):
                    found.append(self._connection.execute(statement).fetchall()[0])

            worker = threading.Thread(target=work, daemon=True)
            worker.start()
            try:
                while worker.is_alive():
                    worker.join(_LOOK_SECONDS)
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
        """Refuse to go on where a file that is read again with every scan is not the one that was opened."""
        if any(map(has_changed, self._seen)):
            raise ReleaseError(FAILED)


def has_changed(file: FileState) -> bool:
    """Return whether a file was written to or replaced since; its rights and links may have changed."""
    now = os.stat(file.path)  # noqa: PTH116 - the paths are strings throughout
    return (now.st_size, now.st_mtime_ns, now.st_ino) != (file.size, file.changed, file.inode)


def open_files(
    path: "str | os.PathLike[str]",
    *,
    declared: Declared,
    settings: DuckDBSettings | None = None,
    header: Header | None = None,
    names: Sequence[str] | None = None,
) -> DuckDBEngine:
    """Return an engine over the files of a path or glob: Parquet as a stream, CSV and JSON loaded once."""
    files = find_files(path, types=declared.types, header=header, names=names)
    streamed = files if files.format == "parquet" else None

    def load(connection: "duckdb.DuckDBPyConnection") -> str:
        if streamed:
            _check_schemas(connection, files)
            return table_function(files, types={})
        csv = files.format == "csv"
        # Dates are read as text, and then looked at.
        known = {name: "text" if kind in LIMITS else kind for name, kind in declared.types.items()}
        types = infer_types(_describe_columns(connection, table_function(files, types=known if csv else {})), types=known)
        connection.execute(f"CREATE TABLE {_HELD} AS SELECT * FROM {table_function(files, types=types)}")  # noqa: S608 - quoted
        texts = {name: declared.types.get(name) for name, kind in types.items() if kind == "text"}
        _find_dates(connection, {name: kind for name, kind in texts.items() if kind in LIMITS or (csv and kind is None)})
        return _HELD

    failure = lambda error: explain_failure(files, error)  # noqa: E731 - of this shape
    return _open_connection(load, declared, settings or DuckDBSettings(), failure=failure, files=files)


def describe_reading(files: Files) -> str:
    """Return what decides which rows files hold, and in which order, besides the files: how they are read, and by what."""
    import duckdb

    return encode([duckdb.__version__, files.format, files.delimiter, list(files.columns), files.titled])


def _find_dates(connection: "duckdb.DuckDBPyConnection", asked: Mapping[str, str | None]) -> None:
    """Make dates of the texts that are declared so, and of those of no declared type whose every cell is one."""
    if not asked:
        return
    listed = ", ".join(count_dates(name) for name in asked)
    counts = iter(connection.execute(f"SELECT {listed} FROM {_HELD}").fetchall()[0])  # noqa: S608 - quoted names
    for name, wanted in asked.items():
        there, dates, moments = (next(counts) for _ in range(3))
        kind = wanted or ("date" if 0 < there == dates else "timestamp" if 0 < there == moments else None)
        if kind is None:
            continue
        if there != (dates if kind == "date" else moments):
            message = f"column {name!r} holds a cell that does not fit the type {kind}, written as 2026-01-31 10:00:00"
            raise RequestError(message)
        connection.execute(change_to_dates(_HELD, name, kind))


def open_relation(relation: object, *, declared: Declared, settings: DuckDBSettings | None = None) -> DuckDBEngine:
    """Return an engine over the rows that a DuckDB relation has now, loaded once; its plan decides their order."""

    def load(connection: "duckdb.DuckDBPyConnection") -> str:
        import pyarrow as pa

        stream = pa.RecordBatchReader.from_stream(relation)
        check_names(stream.schema.names, declared.types)
        connection.register(_SOURCE, stream)
        connection.execute(f"CREATE TABLE {_HELD} AS SELECT * FROM {_SOURCE}")  # noqa: S608 - constants
        connection.unregister(_SOURCE)
        return _HELD

    failure = "the relation could not be read, or its rows do not fit into memory"
    engine = _open_connection(load, declared, settings or DuckDBSettings(), failure=failure)
    engine.ordered = False
    return engine


def _open_connection(
    load: Callable[["duckdb.DuckDBPyConnection"], str],
    declared: Declared,
    settings: DuckDBSettings,
    *,
    failure: str | Callable[[Exception], str],
    files: Files | None = None,
) -> DuckDBEngine:
    """Return an engine over what ``load`` puts on a connection; Parquet files are read again with every scan."""
    seen = [] if files is None else [FileState.of(path) for path in files.paths]
    streamed = files if files is not None and files.format == "parquet" else None
    folder = None if settings.spill is None else SpillFolder(settings.spill)
    place = None if folder is None else folder.path
    # Rows that are loaded and may not be spilled have to fit into memory, whatever the cap on what is kept for speed.
    cap = settings.memory if streamed or place is not None else None
    connection: Any = None

    def read() -> Card:
        named = _make_view(connection, load(connection), declared=declared)
        (rows,) = connection.execute(f"SELECT COUNT(*) FROM {_ROWS}").fetchall()  # noqa: S608 - a constant
        _lock_down(connection, streamed)
        if files is not None and any(map(has_changed, seen)):
            message = f"{files.paths[0]}: changed while it was read; open it again"
            raise RequestError(message)
        return declared.make_card(named, rows=int(rows[0]))

    try:
        connection = open_masked(lambda: _open_duckdb(settings.threads, cap, place), failure="DuckDB could not be started")
        card = open_masked(read, failure=failure)
    except BaseException:
        if connection is not None:
            connection.close()
        if folder is not None:
            folder.remove()
        raise
    again = seen if streamed else ()
    engine = DuckDBEngine(card, connection, seen=again, folder=folder, memory=settings.memory // 2)
    engine.files = tuple(seen)
    engine.reading = "" if files is None else describe_reading(files)
    return engine


def _open_duckdb(threads: int | None, memory: int | None, folder: Path | None) -> "duckdb.DuckDBPyConnection":
    """Return a connection that spills to a folder, or not at all; without a cap on its memory it has DuckDB's own."""
    import duckdb

    connection = duckdb.connect(":memory:")
    for name, value in _FIRST.items():
        connection.execute(f"SET {name} = {value}")
    known = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    connection.execute(f"SET disabled_optimizers = '{','.join(sorted(_OFF & known))}'")
    if threads is not None:
        connection.execute(f"SET threads = {count('threads', threads)}")
    if memory is not None:
        connection.execute(f"SET memory_limit = '{max(64, memory // (1 << 20))}MiB'")
    connection.execute(f"SET temp_directory = {quote_text('' if folder is None else str(folder))}")
    if folder is None:
        connection.execute("SET max_temp_directory_size = '0KiB'")
    return connection


def _lock_down(connection: "duckdb.DuckDBPyConnection", streamed: Files | None) -> None:
    if streamed is not None:
        paths = ", ".join(quote_text(path) for path in (*streamed.paths, *streamed.patterns))
        connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _describe_columns(connection: "duckdb.DuckDBPyConnection", source: str) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]  # noqa: S608


def _make_view(connection: "duckdb.DuckDBPyConnection", source: str, *, declared: Declared) -> list[tuple[str, str]]:
    """Make a view of a source with the types of the card, and return its columns."""
    columns = cast_columns(_describe_columns(connection, source), types=declared.types)
    listed = ", ".join(f"{column.expression} AS {quote_name(column.name)}" for column in columns)
    connection.execute(f"CREATE VIEW {_ROWS} AS SELECT {listed} FROM {source}")  # noqa: S608 - quoted names
    return [(column.name, column.type) for column in columns]


def _check_schemas(connection: "duckdb.DuckDBPyConnection", files: Files) -> None:
    """Refuse Parquet files whose columns differ, which DuckDB would cast, or whose names it would change."""
    listed = f"SELECT name, num_children FROM parquet_schema({quote_text(files.patterns[0])})"  # noqa: S608 - a quoted path
    check_names(_list_names(connection.execute(listed).fetchall()), {})
    others = dict.fromkeys(files.paths[1:])
    if not others:
        return
    import pyarrow.parquet as pq

    first = pq.read_schema(files.paths[0])
    for path in others:
        if not pq.read_schema(path).equals(first):
            message = f"{path}: the columns differ from those of {files.paths[0]}"
            raise RequestError(message)


def _is_plain(path: str, card: Card) -> bool:
    """Return whether each column of the card is one of a Parquet file, in a type that is the same everywhere."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        kinds = {field.name: field.type for field in file.schema_arrow if field.type != pa.uint64()}
        columns = [file.schema.column(place) for place in range(len(file.schema))]
    stored = {column.path: (column.physical_type, column.logical_type.type) for column in columns}
    return all(
        stored.get(column.name) in _PLAIN and column.name in kinds and type_of_arrow(kinds[column.name]) == column.type
        for column in card.columns
    )


def _read_parquet(path: str, names: Sequence[str]) -> Iterator[tuple[Callable[[], "pa.RecordBatch"], int]]:
    """Yield the rows of a Parquet file in batches, texts that have a small dictionary everywhere as places in it.

    Groups of rows are read by whoever calls what stands for them, in a thread of its own choice; those that may be larger
    than memory, as texts are that a dictionary makes short, are read here, a page at a time.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        metadata = file.metadata
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    large = {chunk.path_in_schema for chunk in chunks if not _has_small_dictionary(chunk)}
    texts = [chunk for chunk in chunks if chunk.physical_type == "BYTE_ARRAY" and chunk.path_in_schema in large]
    most = _GROUP if all({*chunk.encodings} <= _WRITTEN_OUT for chunk in texts) else 0
    opened = partial(
        pq.ParquetFile, path, metadata=metadata, read_dictionary=[*{*names} - large], buffer_size=_PAGE, pre_buffer=False
    )

    def read(run: list[int]) -> "pa.RecordBatch":
        with opened() as file:
            rows = file.read_row_groups(run, columns=list(names), use_threads=False)
        (batch,) = rows.combine_chunks().to_batches()
        return batch

    for run in _gather_groups([group.num_rows for group in groups]):
        rows = sum(groups[place].num_rows for place in run)
        if max(sum(groups[place].total_byte_size for place in run), rows * len(names) * _WORD) <= most:
            if rows:
                yield partial(read, run), rows
            continue
        with opened() as file:
            for batch in file.iter_batches(CHUNK, row_groups=run, columns=list(names), use_threads=False):
                yield batch.slice, batch.num_rows  # all of it


def _gather_groups(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of neighbouring groups of rows that are looked at together: as many as fit, or a larger one."""
    run, rows = list[int](), 0
    for place, size in enumerate(sizes):
        if run and rows + size > CHUNK:
            yield run
            run, rows = [], 0
        run.append(place)
        rows += size
    if run:
        yield run


def _view_batch(read: Callable[[], "pa.RecordBatch"], rows: int, file: FileState) -> list[Values]:
    """Return the columns of rows that are read now; refuse those of a file that changed."""
    batch = read()
    if batch.num_rows != rows or has_changed(file):
        raise ReleaseError(FAILED)
    return [read_as_held(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]


def _has_small_dictionary(chunk: "pq.ColumnChunkMetaData") -> bool:
    """Return whether the texts of a group of rows are listed in a page of their own, which each batch will read again."""
    if chunk.physical_type != "BYTE_ARRAY" or not chunk.has_dictionary_page or chunk.dictionary_page_offset is None:
        return False
    size: int = chunk.data_page_offset - chunk.dictionary_page_offset
    return 0 < size <= _SMALL_DICTIONARY


def _list_names(elements: Sequence[tuple[str, int | None]]) -> list[str]:
    """Return the names of the columns of a Parquet schema, whose elements are a tree, each before its children."""
    names, inside = [], 0
    for name, children in elements[1:]:
        if not inside:
            names.append(name)
        inside += (children or 0) - bool(inside)
    return names


class SpillFolder:
    """One engine's own folder for rows that outgrow memory: its ``path`` begins with ``place``, and is None without one.

    Guarantee: rows are spilled only to a folder that its owner alone may open (0700), and nowhere if there can be none. An
    engine takes its folder with it when it is closed; what a killed process left is removed by the next that opens. The
    folder of a living process is left alone: it holds a lock on it, which ends with the process, however that ends.
    """

    def __init__(self, place: Path) -> None:
        self.path: Path | None = None
        self._lock: int | None = None
        self._process = os.getpid()
        if fcntl is None:
            return
        with suppress(OSError, ValueError):
            _remove_abandoned(place)
            for _ in range(_ATTEMPTS):
                if self.path is None:
                    self._make_folder(place)

    def _make_folder(self, place: Path) -> None:
        path = Path(mkdtemp(prefix=f"{place.name}-", dir=place.parent))
        with suppress(FileNotFoundError):  # another process took it for one that was left, before it was locked
            self._lock = os.open(path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.fstat(self._lock).st_nlink:
                self.path = path
            else:
                os.close(self._lock)

    def remove(self) -> None:
        """Remove the folder and what is in it; a forked child leaves its parent's alone."""
        if self.path is None or self._lock is None:
            return
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None


def _remove_abandoned(place: Path) -> None:
    """Remove the folders of processes that are gone: those that nobody has locked."""
    for folder in place.parent.glob(f"{glob.escape(place.name)}-*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)

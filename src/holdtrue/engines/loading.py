"""Rows into DuckDB: from files, globs and relations, onto a connection of our own that is then locked.

Parquet is read where it lies, a stream at a time; CSV, JSON and relations are loaded once into a table of the
connection's own. Then the connection is locked: it reads no other file, attaches nothing, loads nothing and changes no
setting. Rows that outgrow its memory go to the folder beside the ledger that :mod:`~holdtrue.engines.spilling` keeps;
without one they stay in memory, all of them.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdtrue.engines.bitmaps import MEMORY
from holdtrue.engines.chunks import check_names
from holdtrue.engines.declaring import Declared
from holdtrue.engines.duck import ROWS, DuckEngine, Seal
from holdtrue.engines.files import Cast, Files, casts, diagnosis, expand, infer, quoted, reader, text
from holdtrue.engines.headers import Header
from holdtrue.engines.sealing import opening
from holdtrue.engines.spilling import SpillFolder
from holdtrue.errors import RequestError
from holdtrue.exact import count
from holdtrue.queries.cards import Card

if TYPE_CHECKING:
    import duckdb

__all__ = ["open_files", "open_relation"]

_HELD = "holdtrue_held"
_SOURCE = "holdtrue_source"
_OFF = {"statistics_propagation", "row_group_pruner", "partial_aggregate_pushdown"}
_FIRST = {
    "preserve_insertion_order": "true",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_progress_bar": "true",
    "enable_progress_bar_print": "false",
}


def _connected(threads: int | None, memory: int | None, folder: Path | None) -> "duckdb.DuckDBPyConnection":
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
    connection.execute(f"SET temp_directory = {text('' if folder is None else str(folder))}")
    if folder is None:
        connection.execute("SET max_temp_directory_size = '0KiB'")
    return connection


def _locked(connection: "duckdb.DuckDBPyConnection", paths: Sequence[str]) -> None:
    if paths:
        connection.execute(f"SET allowed_paths = [{', '.join(text(path) for path in paths)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _described(connection: "duckdb.DuckDBPyConnection", source: str) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]  # noqa: S608


def open_files(  # noqa: PLR0913 - what is public about the data, and the machine's settings
    path: "str | os.PathLike[str]",
    *,
    declared: Declared,
    threads: int | None = None,
    memory: int = MEMORY,
    spill: Path | None = None,
    header: Header | None = None,
    names: Sequence[str] | None = None,
) -> DuckEngine:
    """Return an engine over the files of a path or glob: Parquet as a stream, CSV and JSON loaded once."""
    files = expand(path, types=declared.types, header=header, names=names)
    streamed = files.format == "parquet"
    seals = [Seal.of(name) for name in files.paths] if streamed else []

    def load(connection: "duckdb.DuckDBPyConnection") -> str:
        if streamed:
            _same_schemas(files)
            return reader(files, types={})
        known = declared.types if files.format == "csv" else {}
        inferred = infer(_described(connection, reader(files, types=known)), types=declared.types)
        connection.execute(f"CREATE TABLE {_HELD} AS SELECT * FROM {reader(files, types=inferred)}")  # noqa: S608 - quoted
        return _HELD

    return _opened(
        load,
        failure=lambda error: diagnosis(files, error),
        paths=(*files.paths, *files.patterns) if streamed else (),
        seals=seals,
        declared=declared,
        streamed=streamed,
        threads=threads,
        memory=memory,
        spill=spill,
    )


def open_relation(
    relation: object,
    *,
    declared: Declared,
    threads: int | None = None,
    memory: int = MEMORY,
    spill: Path | None = None,
) -> DuckEngine:
    """Return an engine over the rows that a DuckDB relation has now, loaded once; its plan decides their order."""

    def load(connection: "duckdb.DuckDBPyConnection") -> str:
        import pyarrow as pa  # type: ignore[import-untyped]

        stream = pa.RecordBatchReader.from_stream(relation)
        check_names(stream.schema.names, declared.types)
        connection.register(_SOURCE, stream)
        connection.execute(f"CREATE TABLE {_HELD} AS SELECT * FROM {_SOURCE}")  # noqa: S608 - constants
        connection.unregister(_SOURCE)
        return _HELD

    engine = _opened(
        load,
        failure="the relation could not be read, or its rows do not fit into memory",
        paths=(),
        seals=(),
        declared=declared,
        streamed=False,
        threads=threads,
        memory=memory,
        spill=spill,
    )
    engine.ordered = False
    return engine


def _shaped(connection: "duckdb.DuckDBPyConnection", source: str, *, declared: Declared) -> list[tuple[str, str]]:
    """Make a view of a source with the types of the card, and return its columns."""
    columns = casts(_described(connection, source), types=declared.types)
    for column in columns:
        if column.checked is not None:
            _refuse_wide(connection, source, column)
    listed = ", ".join(f"{column.expression} AS {quoted(column.name)}" for column in columns)
    connection.execute(f"CREATE VIEW {ROWS} AS SELECT {listed} FROM {source}")  # noqa: S608 - quoted names
    return [(column.name, column.type) for column in columns]


def _refuse_wide(connection: "duckdb.DuckDBPyConnection", source: str, column: Cast) -> None:
    (found,) = connection.execute(f"SELECT COUNT(*) FILTER ({column.checked}) FROM {source}").fetchall()  # noqa: S608
    if found[0]:
        message = f"column {column.name!r} holds a cell that does not fit the type {column.type}"
        raise RequestError(message)


def _same_schemas(files: Files) -> None:
    """Refuse Parquet files whose columns differ, which DuckDB would cast, or whose names it would change."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    first = pq.read_schema(files.paths[0])
    check_names(first.names, {})
    for path in dict.fromkeys(files.paths[1:]):
        if not pq.read_schema(path).equals(first):
            message = f"{path}: the columns are not those of {files.paths[0]}"
            raise RequestError(message)


def _opened(  # noqa: PLR0913 - the two ways to open differ in these
    load: Callable[["duckdb.DuckDBPyConnection"], str],
    *,
    failure: str | Callable[[Exception], str],
    paths: Sequence[str],
    seals: Sequence[Seal],
    declared: Declared,
    streamed: bool,
    threads: int | None,
    memory: int,
    spill: Path | None,
) -> DuckEngine:
    folder = None if spill is None else SpillFolder(spill)
    place = None if folder is None else folder.path
    # Rows that are loaded and may not be spilled have to fit into memory, whatever the cap on what is kept for speed.
    cap = memory if streamed or place is not None else None
    try:
        connection = opening(lambda: _connected(threads, cap, place), failure="DuckDB could not be started")
    except BaseException:
        _remove(folder)
        raise
    try:

        def read() -> Card:
            named = _shaped(connection, load(connection), declared=declared)
            (rows,) = connection.execute(f"SELECT COUNT(*) FROM {ROWS}").fetchall()  # noqa: S608 - a constant
            _locked(connection, paths)
            return declared.card(named, rows=int(rows[0]))

        card = opening(read, failure=failure)
    except BaseException:
        connection.close()
        _remove(folder)
        raise
    return DuckEngine(card, connection, seals=seals, folder=folder, memory=memory // 2)


def _remove(folder: SpillFolder | None) -> None:
    if folder is not None:
        folder.remove()

"""Engines: exact integers out, rows never.

An engine holds the rows and gives sums of integers over all of them. Nothing else that depends on a row leaves it: not
the rows, not a float, not an error's text.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdtrue.engines.base import Engine
from holdtrue.engines.bitmaps import MEMORY, Progress
from holdtrue.engines.card_declaration import Declared
from holdtrue.engines.files import Header, check_header
from holdtrue.engines.spark import SparkRows
from holdtrue.errors import InsufficientSamples, InvalidParameter, RequestError

__all__ = ["Engine", "Header", "Progress", "SparkRows", "open_engine"]


def open_engine(  # noqa: PLR0913 - what is public about the data, and two settings of the machine
    data: object,
    *,
    types: Mapping[str, str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    labels: Mapping[str, Sequence[Any]] | None = None,
    header: Header | None = None,
    names: Sequence[str] | None = None,
    threads: int | None = None,
    memory: int = MEMORY,
    spill: Path | None = None,
) -> Engine:
    """Return an engine over data: a path or glob (Parquet, CSV, JSON), a table, a DuckDB relation, a Spark DataFrame.

    :class:`SparkRows` says how Spark is to read a frame, a table of its catalogue, or a path.

    ``types`` ("boolean", "integer", "real", "text", "date", "timestamp" by column) are read from the data unless given;
    for CSV and JSON they are inferred once, from all rows, and then belong to the card. ``bounds`` and ``labels`` are
    public and go onto the card as they are. ``header`` says of the first line of a CSV file that it has the names of the
    columns (True), that it is a row (False), or that it is a row of columns with these names; a first line that looks like
    a row is refused unless it is said. ``names`` are the columns of a card that is fixed already. ``threads`` is for
    DuckDB. ``memory`` caps what is kept for speed, in bytes. ``spill`` is a folder for rows that DuckDB cannot keep in
    memory; without one it has to.

    Whatever is wrong raises RequestError. Opening is the custodian's: messages name files, columns and lines, no cell.
    """
    declared = Declared({} if types is None else types, {} if bounds is None else bounds, {} if labels is None else labels)
    said = check_header(header)
    if said is not None and not isinstance(data, (str, os.PathLike)):
        raise InvalidParameter.saying("header", "leave out header: only CSV files have a header line")
    settings = {"threads": threads, "memory": memory, "spill": spill}
    engine = _open_data(data, declared, header=said, names=names, settings=settings)
    if not engine.card.rows:
        engine.close()
        message = "the data have no rows"
        raise InsufficientSamples(message, required=1)
    return engine


def _open_data(
    data: object, declared: Declared, *, header: Header | None, names: Sequence[str] | None, settings: Mapping[str, Any]
) -> Engine:
    """Return the engine for data of this type; what an engine needs is imported with it."""
    files = isinstance(data, (str, os.PathLike))
    if files or type(data).__module__.split(".")[0].lstrip("_") == "duckdb":
        from holdtrue.engines.duckdb_engine import DuckDBSettings, open_files, open_relation

        machine = DuckDBSettings(**settings)
        if isinstance(data, (str, os.PathLike)):
            return open_files(data, declared=declared, settings=machine, header=header, names=names)
        return open_relation(data, declared=declared, settings=machine)
    if isinstance(data, SparkRows) or type(data).__module__.startswith("pyspark.sql."):
        from holdtrue.engines.spark.engine import open_rows

        return open_rows(data if isinstance(data, SparkRows) else SparkRows(data), declared=declared)
    if data is None or isinstance(data, (bytes, int, float, list, tuple, set)):
        message = f"a {type(data).__name__} is not a table; give a path, a data frame, an Arrow table or a dict of arrays"
        raise RequestError(message)
    from holdtrue.engines.arrays import open_table

    return open_table(data, declared=declared, memory=settings["memory"])

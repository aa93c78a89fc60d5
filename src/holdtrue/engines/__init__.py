"""Engines: exact integers out, rows never.

An engine holds the rows and gives sums of integers over all of them. Nothing else that depends on a row leaves it: not
the rows, not a float, not an error's text.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdtrue.engines.base import Engine
from holdtrue.engines.bitmaps import MEMORY, Progress
from holdtrue.engines.files import Header, check_header
from holdtrue.engines.spark import SparkRows
from holdtrue.errors import InsufficientSamples, InvalidParameter, RequestError
from holdtrue.queries.cards import Card, Declared, own_names

__all__ = ["Engine", "Header", "Progress", "SparkRows", "open_as", "open_engine"]


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
    unit: str | None = None,
    tables: Mapping[str, object] | None = None,
) -> Engine:
    """Return an engine over data: a path or glob (Parquet, CSV, JSON), a table, a DuckDB relation, a Spark DataFrame.

    :class:`SparkRows` says how Spark is to read a frame, a table of its catalogue, or a path. A table in PostgreSQL is given
    by its address, such as postgresql://reader@host/clinic?table=people.

    ``types`` ("boolean", "integer", "real", "text", "date", "timestamp" by column) are read from the data unless given;
    for CSV and JSON they are inferred once, from all rows, and then belong to the card. ``bounds`` and ``labels`` are
    public and go onto the card as they are. ``header`` says of the first line of a CSV file that it has the names of the
    columns (True), that it is a row (False), or that it is a row of columns with these names; a first line that looks like
    a row is refused unless it is said. ``names`` are the columns of a card that is fixed already. ``threads`` is for
    DuckDB. ``memory`` caps what is kept for speed, in bytes. ``spill`` is a folder for rows that DuckDB cannot keep in
    memory; without one it has to.

    ``unit`` names the column whose keys say which unit owns a row: the engine's rows are the units then (U4). They are the
    keys of the data, or, with ``tables`` by name, the rows of the data, and the tables hold the rows that they own. Types,
    bounds and labels of a table's columns are under names such as "visits.cost", and so are ``names``.

    Whatever is wrong raises RequestError. Opening is the custodian's: messages name files, columns and lines, no cell.
    """
    declared = Declared({} if types is None else types, {} if bounds is None else bounds, {} if labels is None else labels)
    said = check_header(header)
    if said is not None and not isinstance(data, (str, os.PathLike)):
        raise InvalidParameter.saying("header", "leave out header: only CSV files have a header line")
    settings = {"threads": threads, "memory": memory, "spill": spill}
    if unit is not None or tables:
        return _open_units(data, declared, unit=unit, tables=tables or {}, header=said, names=names, settings=settings)
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
    if isinstance(data, str) and data.startswith(("postgresql://", "postgres://")):
        from holdtrue.engines.postgres import open_table_at

        return open_table_at(data, declared=declared)
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


def _open_units(  # noqa: PLR0913 - as open_engine has it
    data: object,
    declared: Declared,
    *,
    unit: object,
    tables: object,
    header: Header | None,
    names: Sequence[str] | None,
    settings: Mapping[str, Any],
) -> Engine:
    """Return the engine of units that own the rows of the data, or of tables beside them."""
    from holdtrue.engines.units import open_units

    if not isinstance(unit, str) or not unit:
        raise InvalidParameter.saying("unit", "give unit, the column whose keys say which unit owns a row")
    if not isinstance(tables, Mapping) or not all(isinstance(name, str) and name.isidentifier() for name in tables):
        raise InvalidParameter.saying("tables", "give tables by name, such as tables={'visits': visits}")
    with ExitStack() as opened:

        def open_one(rows: object, table: str, header: Header | None) -> Engine:
            own = declared.select(table, tables)
            listed = None if names is None else list(own_names(names, table, tables).values())
            engine = _open_data(rows, own, header=header, names=listed, settings=settings)
            opened.callback(engine.close)
            return engine

        main = open_one(data, "", header)
        rows = {name: open_one(given, name, None) for name, given in tables.items()} or {"": main}
        if not main.card.rows:
            message = "the data have no rows"
            raise InsufficientSamples(message, required=1)
        made = open_units(unit, main if tables else None, rows, memory=settings["memory"])
        opened.pop_all()
        return made


def open_as(card: Card, data: object, *, tables: Mapping[str, object] | None = None, **settings: Any) -> Engine:  # noqa: ANN401 - of open_engine
    """Return an engine over data whose columns, and unit, are those of a card that is fixed already, in its order.

    Whether a column has missing values is the card's to say too, whatever type the data have now.
    """
    listed = [(f"{table.name}." if table.name else "", column) for table in card.tables for column in table.columns]
    named = {f"{prefix}{column.name}": column for prefix, column in [*[("", own) for own in card.columns], *listed]}
    engine = open_engine(
        data,
        types={name: column.type for name, column in named.items()},
        bounds={name: column.bounds for name, column in named.items() if column.bounds is not None},
        labels={name: column.labels for name, column in named.items() if column.labels is not None},
        names=list(named),
        unit=card.unit,
        tables={table.name: tables[table.name] for table in card.tables if table.name in tables} if tables else tables,
        **settings,
    )
    engine.card = replace(engine.card, columns=card.columns, tables=card.tables)
    return engine

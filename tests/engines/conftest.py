"""Every engine there is, behind one fixture: ``opened(table)`` opens an Arrow table with it."""

import uuid

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow.parquet as pq
import pytest

from holdtrue.engines.arrays import open_table
from holdtrue.engines.duckdb_engine import DuckDBSettings, open_files, open_relation
from holdtrue.queries.cards import Declared
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start

PEER = duckdb.connect()
ENGINES = ["arrow", "pandas", "polars", "numpy", "parquet-1", "parquet-2", "parquet-8", "relation"]


def _numpy(table):
    import numpy as np

    columns = {}
    for name in table.column_names:
        held = table.column(name)
        if held.null_count or held.type == "string":
            columns[name] = np.array(held.to_pylist(), dtype=object)
        else:
            columns[name] = held.to_numpy()
    return columns


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory):
    """A standalone cluster with authentication: a master and two workers, of this test process alone."""
    from engines.spark_cluster import Standalone

    with Standalone(tmp_path_factory.mktemp("spark") / "cluster") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spark_session(spark_cluster):
    """A session on that cluster."""
    from engines.spark_cluster import SETTINGS
    from holdtrue.engines.spark import Cluster, start

    settings = SETTINGS | {"spark.local.dir": str(spark_cluster.folder / "driver")}
    settings |= {"spark.sql.warehouse.dir": str(spark_cluster.folder / "warehouse")}
    session = start(Cluster(spark_cluster.master, settings, str(spark_cluster.secret_file), wait=300))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def opener(tmp_path_factory, request):
    """Open an Arrow table with the engine of that name; empty tables too, which open_engine refuses."""
    opened = []

    def open_with(name, table, **options):
        kind, _, threads = name.partition("-")
        declared = Declared(types={field.name: _TYPES[str(field.type)] for field in table.schema})
        match kind:
            case "arrow":
                engine = open_table(table, declared=declared, **options)
            case "pandas":
                engine = open_table(table.to_pandas(types_mapper=pd.ArrowDtype), declared=declared, **options)
            case "polars":
                engine = open_table(pl.from_arrow(table), declared=declared, **options)
            case "numpy":
                engine = open_table(_numpy(table), declared=declared, **options)
            case "parquet":
                path = tmp_path_factory.mktemp("rows") / "rows.parquet"
                pq.write_table(table, path, row_group_size=101)
                engine = open_files(path, declared=declared, settings=DuckDBSettings(threads=int(threads or 2), **options))
            case "spark":
                frame = request.getfixturevalue("spark_session").createDataFrame(table).repartition(int(threads))
                engine = open_engine_of_spark(frame, declared)
            case "postgres":
                engine = open_engine_of_postgres(request.getfixturevalue("postgres"), table, declared)
            case _:
                relation = PEER.from_arrow(table)
                engine = open_relation(relation, declared=declared, settings=DuckDBSettings(threads=2, **options))
        opened.append(engine)
        return engine

    yield open_with
    for engine in opened:
        engine.close()


def open_engine_of_spark(frame, declared):
    """Open a Spark frame; imported here, since pyspark takes long to load."""
    from holdtrue.engines.spark import SparkRows
    from holdtrue.engines.spark.engine import open_rows

    return open_rows(SparkRows(frame, wait=300), declared=declared)


def open_engine_of_postgres(server, table, declared):
    """Open a table that is copied into PostgreSQL."""
    from holdtrue.engines.postgres import open_table_at

    return open_table_at(write_postgres(server, table), declared=declared)


def write_postgres(server, table):
    """Return the address of a new table in PostgreSQL with the rows of an Arrow table."""
    name = f"t{uuid.uuid4().hex}"
    columns = ", ".join(f"{_quote(field.name)} {_STORED[str(field.type)]}" for field in table.schema)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} ({columns})")
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
    return f"postgresql://holdtrue@/postgres?host={server.folder}&table={name}"


def _quote(name):
    return '"' + name.replace('"', '""') + '"'


_STORED = {"int64": "bigint", "double": "double precision", "bool": "boolean", "string": "text", "large_string": "text"}
_STORED |= {"date32[day]": "date", "timestamp[us]": "timestamp"}
_TYPES = {"int64": "integer", "double": "real", "bool": "boolean", "string": "text", "large_string": "text"}
_TYPES |= {"date32[day]": "date", "timestamp[us]": "timestamp"}


@pytest.fixture(params=ENGINES)
def engine_name(request):
    """The name of an engine."""
    return request.param


@pytest.fixture
def people(tmp_path):
    """A small CSV file."""
    path = tmp_path / "people.csv"
    path.write_text("age,smoker,region,bmi\n71,true,N,31.5\n20,false,S,\n,true,,22\n40,,N,19.25\n", encoding="utf-8")
    return path

"""Data that Spark reads, from the command line: what `holdtrue open` was told is kept beside the ledger for later."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdtrue.errors import InvalidParameter, RequestError

if TYPE_CHECKING:
    from holdtrue.engines.spark import SparkRows

__all__ = [
    "ClusterOption",
    "EngineOption",
    "InsecureOption",
    "MasterOption",
    "RowKeyOption",
    "Settings",
    "check_settings",
    "ledger_beside",
    "remember",
    "remembered",
    "spark_rows",
]

EngineOption = Annotated[
    Literal["local", "spark"], typer.Option("--engine", help="Who reads the data: this machine, or Spark.")
]
MasterOption = Annotated[
    str | None, typer.Option("--master", metavar="ADDRESS", help="Spark's master: spark://host:7077, yarn, local[*].")
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="FILE", help="A TOML file about the cluster: master, secret_file, wait and a table settings."
    ),
]
RowKeyOption = Annotated[
    str | None, typer.Option("--row-key", metavar="COLUMN", help="A column that numbers the rows, for `train` on Spark.")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure-cluster", help="Use a cluster that lets anybody in. Only where nobody else is near.")
]

Settings = dict[str, Any]
_SUFFIX = ".spark.toml"


def check_settings(
    engine: str, *, master: str | None, cluster: str | None, row_key: str | None, insecure: bool
) -> Settings | None:
    """Return what was said about Spark, None for data that this machine reads."""
    given = {"master": master, "cluster": cluster, "row_key": row_key, "insecure_cluster": insecure or None}
    said: Settings = {name: value for name, value in given.items() if value is not None}
    if engine != "spark":
        if said:
            raise InvalidParameter(next(iter(said)), next(iter(said.values())), "left out without --engine spark")
        return None
    if "cluster" in said:
        said["cluster"] = str(Path(said["cluster"]).absolute())
    return said


def ledger_beside(data: str, ledger: str | None) -> str:
    """Return where the ledger of data on Spark is: as said, or the file that has their name and ends in .ledger."""
    if ledger is not None:
        return ledger
    if "://" in data or set("*?[") & set(data):
        raise InvalidParameter("ledger", data, "named, where the data are several files or not on this machine")
    return str(Path(data.rstrip("/")).with_suffix(".ledger")) if data.endswith((".parquet", ".pq")) else f"{data}.ledger"


def remember(where: str, settings: Settings) -> None:
    """Keep how Spark is to read the data of a ledger, in a file beside it."""
    if "://" in where:
        return
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
    Path(f"{where}{_SUFFIX}").write_text("# How Spark reads the data of this ledger.\n" + "".join(lines), encoding="utf-8")


def remembered(where: str) -> Settings | None:
    """Return what is kept beside a ledger about Spark; None where its data are read by this machine."""
    place = Path(f"{where}{_SUFFIX}")
    if "://" in where or not place.exists():
        return None
    try:
        return tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        message = f"{place}: cannot be read as TOML"
    raise RequestError(message)


@contextmanager
def spark_rows(data: str, settings: Settings) -> "Iterator[SparkRows]":
    """Yield data as Spark reads them, on a session that ends with the subcommand unless it was there before."""
    from holdtrue.engines.spark import Cluster, SparkRows, running, start

    insecure = bool(settings.get("insecure_cluster", False))
    given: Settings = {"insecure_cluster": True} if insecure else {}
    given |= {"master": settings["master"]} if "master" in settings else {}
    cluster = Cluster.read(settings["cluster"], **given) if "cluster" in settings else Cluster(**given)
    own = running() is None
    session = start(cluster)
    try:
        yield SparkRows(
            data,
            session=session,
            key=settings.get("row_key"),
            insecure_cluster=cluster.insecure_cluster,
            wait=cluster.wait,
        )
    finally:
        if own:
            session.stop()

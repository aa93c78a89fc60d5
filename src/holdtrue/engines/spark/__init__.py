"""Spark clusters: how a session is started, and what is looked at before a row is.

A driver holds secrets (the key of the fingerprint, what is measured before noise), and executors hold rows. So a master
without authentication is refused, and executors must run the same Python and the same Holdtrue as the driver.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdtrue.errors import InvalidParameter, MissingExtra, RefusedError, RequestError
from holdtrue.queries.cards import read_toml
from holdtrue.silence import silence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Cluster", "SparkRows", "check_access", "find_session", "start"]

LONGEST_WAIT = 60.0
_OLDEST_JAVA = 17
_REST_PORT = 6066
_PROBE_SECONDS = 2.0
_SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_FIELDS = ("master", "secret_file", "wait", "insecure_cluster", "settings")


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Rows that Spark reads: a DataFrame, the name of a table, or a path (Parquet; Delta where the session has it).

    A name or a path needs a ``session``. ``key`` names a column of public row numbers, whole and without gaps, that stay
    when a row is replaced: parts of an ensemble go by it. Without one they go by the order of files and of rows in them.
    ``insecure_cluster`` opens rows on a cluster without authentication. ``wait`` bounds in seconds how long executors may
    take to answer.
    """

    source: Any
    session: Any = None
    key: str | None = None
    insecure_cluster: bool = False
    wait: float = LONGEST_WAIT


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which master, with which settings of Spark. ``secret_file`` holds the secret of drivers and workers, never shown."""

    master: str = "local[*]"
    settings: Mapping[str, str] = field(default_factory=dict)
    secret_file: str | None = None
    wait: float = LONGEST_WAIT
    insecure_cluster: bool = False

    @classmethod
    def read(cls, path: "str | os.PathLike[str]", **given: Any) -> "Cluster":  # noqa: ANN401 - checked below
        """Return a cluster from a TOML file: master, secret_file, wait, insecure_cluster, and a table of settings."""
        document = read_toml(path)
        unknown = sorted(set(document) - set(_FIELDS))
        if unknown:
            raise InvalidParameter.saying("cluster", f"unknown field {unknown[0]!r}; known are {', '.join(_FIELDS)}")
        settings = document.get("settings", {})
        if not isinstance(settings, Mapping):
            raise InvalidParameter("settings", settings, "a table of Spark's settings")
        return cls(**document | {"settings": dict(settings)} | given)

    def __post_init__(self) -> None:
        if type(self.master) is not str or not self.master:
            raise InvalidParameter("master", self.master, "an address such as spark://host:7077, or local[*]")
        if type(self.wait) not in (int, float) or not self.wait > 0:
            raise InvalidParameter("wait", self.wait, "a number of seconds")
        held = {str(name): _format_setting(value) for name, value in self.settings.items()}
        if "spark.authenticate.secret" in held:
            raise InvalidParameter.saying("settings", "put spark.authenticate.secret into secret_file: settings are public")
        object.__setattr__(self, "settings", held)


def _format_setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def start(cluster: Cluster) -> "SparkSession":
    """Return a session on a cluster: the one of this process, if there is one on the same master.

    Whatever is in the way is told before anything waits: MissingExtra without pyspark, RequestError without Java or where
    nobody answers at the master's address, RefusedError where the cluster would let anybody in. No wait is longer than
    ``cluster.wait`` seconds. The secret is on no command line.
    """
    spark = _import_pyspark()
    _check_java()
    session = find_session()
    if session is not None:
        if session.sparkContext.master != cluster.master:
            message = f"this process already has a session on {session.sparkContext.master}; stop it, or use that master"
            raise RequestError(message)
        return session
    check_access(cluster.master, cluster.settings, insecure_cluster=cluster.insecure_cluster)
    _check_reachable(cluster.master, cluster.wait)
    with silence():  # PySpark warns of versions of pandas, which is not used here
        return _start_session(spark, cluster)


def find_session() -> "SparkSession | None":
    """Return the session of this process; None where there is none, or where it was stopped."""
    session: Any = _import_pyspark().SparkSession._instantiatedSession  # noqa: SLF001 - of any thread, unlike getActiveSession
    stopped = session is None or session.sparkContext._jsc is None  # noqa: SLF001 - there is no other way to ask
    return None if stopped else session


def _import_pyspark() -> Any:  # noqa: ANN401 - a module
    try:
        import pyspark.sql
    except ImportError:
        raise MissingExtra("spark", purpose="reading rows with Spark") from None
    return pyspark.sql


def _check_java() -> None:
    """Refuse a missing or outdated Java with a short message, before Spark fails with a long one."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    wanted = f"Spark needs Java {_OLDEST_JAVA} or newer: install it, and set JAVA_HOME or PATH"
    if java is None:
        raise RequestError(wanted)
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - Java itself
    version = re.search(r'version "(\d+)', told.stderr + told.stdout)
    if version is None or int(version.group(1)) < _OLDEST_JAVA:
        raise RequestError(wanted)


def check_access(master: str, settings: Mapping[str, str], *, insecure_cluster: bool) -> None:
    """Refuse a cluster without authentication, or whose master accepts programs over REST without it."""
    if insecure_cluster or re.fullmatch(r"local(\[[^\]]*\])?", master):
        return
    way = "or say insecure_cluster=True where nobody else can reach it"
    if settings.get("spark.authenticate", "false").lower() != "true":
        message = f"{master} has no authentication: set spark.authenticate to true on master, workers and driver, {way}"
        raise RefusedError(message)
    port = int(settings.get("spark.master.rest.port", _REST_PORT))
    for host, _ in _list_masters(master):
        if settings.get("spark.master.rest.enabled", "false").lower() == "true" or _takes_programs(host, port):
            message = f"{master} takes programs over REST without a secret: set spark.master.rest.enabled to false, {way}"
            raise RefusedError(message)


def _list_masters(master: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each of a standalone cluster's masters."""
    if master.startswith("spark://"):
        for address in master.removeprefix("spark://").split(","):
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit():
                raise InvalidParameter("master", master, "an address such as spark://host:7077")
            yield host.strip("[]"), int(port)


def _takes_programs(host: str, port: int) -> bool:
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", "/v1/submissions/status/holdtrue")
        return b"serverSparkVersion" in connection.getresponse().read(1 << 16)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _check_reachable(master: str, wait: float) -> None:
    found = list(_list_masters(master))
    for address in found:
        try:
            socket.create_connection(address, timeout=min(wait, LONGEST_WAIT) / len(found)).close()
        except OSError:
            continue
        return
    if found:
        message = f"cannot reach the Spark master at {master}"
        raise RequestError(message)


def _start_session(spark: Any, cluster: Cluster) -> "SparkSession":  # noqa: ANN401 - a module
    """Start a session in its own thread, since Spark retries for minutes when it cannot reach a master."""
    found: list[Any] = []
    secret = _read_secret(cluster)
    settings = {**_SETTINGS, **cluster.settings, "spark.master": cluster.master}
    python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable

    def work() -> None:
        with suppress(Exception):  # nothing in `found` says it
            _launch_java(settings)
            builder = spark.SparkSession.builder.appName("holdtrue")
            for name, value in (settings | secret).items():
                builder = builder.config(name, value)
            session = builder.getOrCreate()
            session.sparkContext.pythonExec = python  # PySpark looks at the environment only, and not at the setting
            found.append(session)

    worker = threading.Thread(target=work, daemon=True, name="holdtrue-spark")
    worker.start()
    worker.join(cluster.wait)
    if not found:
        message = (
            f"no session on {cluster.master} within {cluster.wait:g} seconds; check that the master runs the same "
            "version of Spark and has the same secret"
        )
        raise RequestError(message)
    return found[0]  # type: ignore[no-any-return]


def _launch_java(settings: Mapping[str, str]) -> None:
    """Start Java with the settings on its command line, which others may read: so without the secret."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:  # noqa: SLF001 - whether Java runs already
        shown = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch_gateway(shown)  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - as PySpark does it


def _read_secret(cluster: Cluster) -> dict[str, str]:
    if cluster.secret_file is None:
        return {}
    try:
        content = Path(cluster.secret_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        content = ""
    if not content:
        raise InvalidParameter("secret_file", cluster.secret_file, "a file that holds the secret of the cluster")
    return {"spark.authenticate.secret": content}

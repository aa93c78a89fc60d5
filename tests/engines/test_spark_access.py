"""Everything that is in the way of Spark is told at once and in our own words: no row is read, nothing waits for long."""

import socket
import stat
import subprocess
import sys
import threading

import pytest

from holdtrue.engines import open_engine
from holdtrue.engines.spark import Cluster, SparkRows, check_access, start
from holdtrue.errors import InvalidParameter, MissingExtra, RefusedError, RequestError

MASTER = "spark://127.0.0.1:7077"
SAFE = {"spark.authenticate": "true"}


def test_no_pyspark_is_a_missing_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtra, match=r"pip install 'holdtrue\[spark\]'"):
        start(Cluster())


@pytest.mark.parametrize("version", [None, "1.8.0_392", "11.0.2"])
def test_no_java_or_an_old_one_is_told(monkeypatch, tmp_path, version):
    """Java is looked for where JAVA_HOME says, and else on the path."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    if version is not None:
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RequestError, match="Spark needs Java 17 or newer"):
        start(Cluster())
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{java.parent}:/bin" if version else str(tmp_path))
    with pytest.raises(RequestError, match="Spark needs Java 17 or newer"):
        start(Cluster())


def test_a_master_that_nobody_answers_at_is_told_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens, and nobody else can
        port = taken.getsockname()[1]
        with pytest.raises(RequestError, match="cannot reach the Spark master at spark://127"):
            start(Cluster(f"spark://127.0.0.1:{port}", SAFE, wait=20))


@pytest.mark.parametrize("settings", [{}, {"spark.authenticate": "false"}])
@pytest.mark.parametrize("master", [MASTER, "spark://one:1,two:2", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"])
def test_an_unauthenticated_master_is_refused(master, settings):
    with pytest.raises(RefusedError, match=r"no authentication.*insecure_cluster=True"):
        check_access(master, settings, insecure_cluster=False)
    with pytest.raises(RefusedError, match="no authentication"):
        start(Cluster(master, settings))
    check_access(master, settings, insecure_cluster=True)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[4,2]"])
def test_a_master_within_the_driver_needs_no_authentication(master):
    check_access(master, {}, insecure_cluster=False)


def test_a_master_that_takes_programs_over_rest_is_refused():
    """By its setting, or because something answers there as Spark's server of submissions does."""
    check_access("spark://127.0.0.1:1", SAFE | {"spark.master.rest.port": "1"}, insecure_cluster=False)
    with pytest.raises(RefusedError, match="over REST"):
        check_access(MASTER, SAFE | {"spark.master.rest.enabled": "true"}, insecure_cluster=False)
    body = b'{"action": "ErrorResponse", "serverSparkVersion": "4.3.0"}'
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        worker = threading.Thread(target=serve, daemon=True)
        worker.start()
        settings = SAFE | {"spark.master.rest.port": str(server.getsockname()[1])}
        with pytest.raises(RefusedError, match="over REST"):
            check_access(MASTER, settings, insecure_cluster=False)
        worker.join(10)


_DEAF = """
import socket, sys
from holdtrue.engines.spark import Cluster, start
from holdtrue.errors import RequestError
with socket.create_server(("127.0.0.1", 0)) as server:
    master = f"spark://127.0.0.1:{server.getsockname()[1]}"
    try:
        start(Cluster(master, {"spark.authenticate": "true", "spark.ui.enabled": "false"}, sys.argv[1], wait=12))
    except RequestError as error:
        print(error, flush=True)
import os
from pyspark import SparkContext
if SparkContext._gateway is not None:
    SparkContext._gateway.proc.kill()
os._exit(0)
"""


def test_a_master_that_never_registers_is_given_up(tmp_path):
    """Something takes the connection and says nothing: the wait is bounded, and what ends it is ours."""
    secret = tmp_path / "secret"
    secret.write_text("any")
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", _DEAF, str(secret)], capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path
    )  # fmt: skip
    assert "no session on spark://127.0.0.1" in done.stdout, done.stderr[-2000:]
    assert "within 12 seconds" in done.stdout


def test_a_cluster_is_read_from_a_file(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(
        'master = "spark://host:7077"\nsecret_file = "/etc/secret"\nwait = 30\n'
        '[settings]\n"spark.authenticate" = true\n"spark.executor.memory" = "4g"\n"spark.cores.max" = 8\n'
    )
    cluster = Cluster.read(path)
    assert cluster == Cluster(
        "spark://host:7077",
        {"spark.authenticate": "true", "spark.executor.memory": "4g", "spark.cores.max": "8"},
        "/etc/secret",
        wait=30,
    )
    assert Cluster.read(path, master="local[1]").master == "local[1]"
    for text, words in {
        "master = 1": "an address",
        'master = "a"\nsecret = "x"': "unknown field",
        "wait = 0": "seconds",
        "settings = 1": "a table",
        '[settings]\n"spark.authenticate.secret" = "x"': "into secret_file",
        "master = ": "not TOML",
    }.items():
        path.write_text(text)
        with pytest.raises(RequestError, match=words):
            Cluster.read(path)
    with pytest.raises(RequestError, match="No such file"):
        Cluster.read(tmp_path / "nothing.toml")
    with pytest.raises(InvalidParameter, match="spark://host:7077"):
        check_access("spark://host", SAFE, insecure_cluster=False)
    with pytest.raises(RequestError, match="session"):
        open_engine(SparkRows("people"))

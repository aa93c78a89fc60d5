"""A place for a ledger on every store: memory, SQLite, and a PostgreSQL server that the tests start themselves."""

import os
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from ledgers.places import Place


def _binaries():
    """Return the folder of initdb and pg_ctl; install the Debian package where there is none; fail loudly otherwise."""
    for attempt in ("look", "install"):
        found = shutil.which("initdb")
        folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if folders:
            return folders[-1]
        if attempt == "look" and shutil.which("apt-get"):
            subprocess.run(["apt-get", "update", "-qq"], check=False)  # noqa: S607
            subprocess.run(["apt-get", "install", "-y", "-qq", "postgresql"], check=False)  # noqa: S607
    pytest.fail("PostgreSQL is not installed and could not be: its half of the ledger cannot be tested")


@dataclass
class Server:
    """A PostgreSQL server of the tests' own, on a socket in its own folder."""

    folder: Path
    user: str | None
    binaries: Path

    def run(self, program, *arguments):
        command = [str(self.binaries / program), *arguments]
        if self.user is not None:
            command = ["runuser", "-u", self.user, "--", *command]
        with (self.folder / "out").open("ab") as out:
            subprocess.run(command, check=True, stdout=out, stderr=out, cwd=self.folder, timeout=120)  # noqa: S603

    def start(self):
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c max_connections=120 -c fsync=on"
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def stop(self, mode="fast"):
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", mode, "-w", "stop")

    @property
    def dsn(self):
        return f"host={self.folder} user=holdtrue dbname=postgres"

    def schema(self):
        """Return the URL of a new, empty schema."""
        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"postgresql://holdtrue@/postgres?host={self.folder}&options=-csearch_path%3D{name}"

    def database(self):
        """Return the URL of a new, empty database, for what makes schemas of its own."""
        name = f"d{uuid.uuid4().hex}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://holdtrue@/{name}?host={self.folder}"


@pytest.fixture(scope="session")
def server():
    """Start a PostgreSQL server, as an unprivileged user where the tests run as root, and stop it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="holdtrue-pg-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    folder.chmod(0o755)
    (folder / "out").touch()
    made = Server(folder, user, _binaries())
    made.run("initdb", "-D", str(folder / "data"), "-U", "holdtrue", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
    made.start()
    yield made
    made.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def quick(tmp_path):
    """Return a folder in memory where there is one, for tests that need many commits and no disk."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=memory, prefix="holdtrue-"))
    yield folder
    shutil.rmtree(folder)


def _place(kind, request, quick):
    if kind == "memory":
        return Place(kind, None)
    if kind == "sqlite":
        return Place(kind, str(quick / "people.ledger"))
    return Place(kind, request.getfixturevalue("server").schema())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request, quick):
    """A place on every store."""
    made = _place(request.param, request, quick)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def lasting(request, quick):
    """A place on every store that outlives a process."""
    made = _place(request.param, request, quick)
    yield made
    made.close()

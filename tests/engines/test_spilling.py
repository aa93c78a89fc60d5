"""Rows that outgrow memory go to a folder of the owner's alone, beside the ledger, or nowhere."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

from holdtrue.engines import duckdb_engine, open_engine
from holdtrue.engines.duckdb_engine import DuckDBSettings, SpillFolder, open_relation
from holdtrue.errors import RequestError
from holdtrue.queries.cards import Declared

SMALL = 64 << 20
MANY = "SELECT hash(range) AS a, hash(range + 1) AS b, hash(range + 2) AS c FROM range(3000000)"
CHILD = f"""
import sys, time
from pathlib import Path
import duckdb
from holdtrue.queries.cards import Declared
from holdtrue.engines.duckdb_engine import DuckDBSettings, open_relation
engine = open_relation(
    duckdb.connect().sql({MANY!r}), declared=Declared(types=dict.fromkeys("abc", "real")),
    settings=DuckDBSettings(memory={SMALL}, spill=Path(sys.argv[1]))
)
print("open", flush=True)
time.sleep(600)
"""


def _spilled(folder):
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]


def _many():
    return duckdb.connect().sql(MANY)


def _open(**options):
    return open_relation(_many(), declared=Declared(types=dict.fromkeys("abc", "real")), settings=DuckDBSettings(**options))


def test_rows_are_spilled_to_a_folder_of_the_owners_alone_that_goes_with_the_engine(tmp_path):
    engine = _open(memory=SMALL, spill=tmp_path / "x.spill")
    held = _spilled(tmp_path)
    assert held, "the rows must outgrow the memory for this test to mean anything"
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("x.spill-")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.is_relative_to(folder) for path in held)
    engine.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path, monkeypatch):
    place = tmp_path / "x.spill"
    with subprocess.Popen([sys.executable, "-c", CHILD, str(place)], stdout=subprocess.PIPE) as child:  # noqa: S603
        assert child.stdout.readline() == b"open\n"
        open_engine_beside(place).close()
        assert _spilled(place.parent), "what a living process spilled is left alone"
        child.send_signal(signal.SIGKILL)
    assert _spilled(place.parent), "a killed process leaves its rows"
    # The control: without the sweep they stay.
    with monkeypatch.context() as patch:
        patch.setattr(duckdb_engine, "_remove_abandoned", lambda _: None)
        open_engine_beside(place).close()
        assert _spilled(place.parent)
    open_engine_beside(place).close()
    assert list(tmp_path.iterdir()) == []


def open_engine_beside(place):
    """Open something small that spills to a place."""
    return open_relation(duckdb.connect().sql("SELECT 1 AS a"), declared=Declared(), settings=DuckDBSettings(spill=place))


def test_without_a_folder_nothing_is_spilled(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    engine = _open(memory=SMALL)
    assert engine.card.rows == 3_000_000
    assert engine._connection.execute("SELECT current_setting('temp_directory')").fetchall() == [("",)]
    engine.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_rows_that_fit_nowhere_are_refused(tmp_path, monkeypatch):
    connected = duckdb_engine._open_duckdb
    monkeypatch.setattr(duckdb_engine, "_open_duckdb", lambda threads, _, folder: connected(threads, SMALL, folder))
    with pytest.raises(RequestError, match="its rows do not fit into memory"):
        _open()
    path = tmp_path / "rows.csv"
    duckdb.connect().execute(f"COPY ({MANY}) TO '{path}' (HEADER)")
    with pytest.raises(RequestError, match=r"rows.csv: the rows do not fit into memory; keep the ledger on disk"):
        open_engine(path, types=dict.fromkeys("abc", "real"))


def test_where_no_folder_can_be_made_nothing_is_spilled(tmp_path):
    for wrong in (tmp_path / "none" / "x.spill", Path("/proc/x.spill"), Path("/dev/null/x.spill")):
        assert SpillFolder(wrong).path is None
    engine = _open(memory=SMALL, spill=tmp_path / "none" / "x.spill")
    assert engine._connection.execute("SELECT current_setting('temp_directory')").fetchall() == [("",)]
    engine.close()


def test_only_folders_that_were_left_are_removed(tmp_path):
    held = SpillFolder(tmp_path / "x.spill")
    (tmp_path / "x.spill-left").mkdir()
    (tmp_path / "y.spill-other").mkdir()
    (tmp_path / "x.spill-file").touch()
    (tmp_path / "target").mkdir()
    (tmp_path / "x.spill-link").symlink_to(tmp_path / "target")
    SpillFolder(tmp_path / "x.spill").remove()
    assert not (tmp_path / "x.spill-left").exists()
    for name in ("y.spill-other", "x.spill-file", "target", "x.spill-link"):
        assert (tmp_path / name).exists()
    assert held.path.exists()
    held.remove()


def test_a_forked_child_leaves_its_parents_folder_alone(tmp_path):
    folder = SpillFolder(tmp_path / "x.spill")
    child = os.fork()
    if child == 0:
        folder.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert isinstance(folder.path, Path)
    assert folder.path.exists()
    folder.remove()
    assert not folder.path.exists()


def test_many_that_make_and_remove_folders_at_once_never_fail(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    def make_and_remove(_):
        for _ in range(30):
            folder = SpillFolder(tmp_path / "x.spill")
            assert folder.path.exists()
            folder.remove()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make_and_remove, range(8)))
    assert list(tmp_path.iterdir()) == []

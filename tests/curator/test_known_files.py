"""Files that nobody touched are not hashed again; whatever else happened to them is noticed."""

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import holdtrue as ht
from holdtrue.curator import known_rows
from holdtrue.engines import duckdb_engine
from holdtrue.engines.duckdb_engine import DuckDBEngine
from holdtrue.engines.files import FileState
from holdtrue.ledgers.sealed_store import FolderStore
from ledgers.conftest import server as postgres  # noqa: F401 - a fixture: the PostgreSQL server that the ledgers' tests start

PLANNED = {"queries": 20, "epsilon": 1.0, "delta": 1e-6}
HEAVY = {"alembic", "joblib", "matplotlib", "narwhals", "numba", "pandas", "rich", "scipy", "sklearn", "sqlalchemy"}
OTHER_VERBS = {f"holdtrue.{name}" for name in ("ensembles", "hypotheses", "reports", "verbs.deducing", "verbs.pairs")}
ROWS = pd.DataFrame({"age": np.arange(400) % 90, "region": np.where(np.arange(400) % 3, "north", "south")})


@pytest.fixture
def hashed(monkeypatch):
    """How often rows were hashed; files count as settled at once, so that no test has to wait."""
    times = []
    whole = DuckDBEngine.fingerprint

    def count(engine, key, **given):
        times.append(engine)
        return whole(engine, key, **given)

    monkeypatch.setattr(DuckDBEngine, "fingerprint", count)
    monkeypatch.setattr(known_rows, "SETTLED", 0)
    return times


@pytest.fixture(params=["parquet", "csv"])
def people(request, tmp_path):
    return write(ROWS, tmp_path / f"people.{request.param}")


def write(rows, path):
    rows.to_parquet(path) if path.suffix == ".parquet" else rows.to_csv(path, index=False)
    return path


def open_again(path, **options):
    ht.Curator(path, ledger=path.with_suffix(".ledger"), **options).close()


def note_of(path):
    return Path(f"{path.with_suffix('.ledger')}.files", f"{known_rows.NOTE}.sealed")


def test_a_file_that_nobody_touched_is_hashed_once(people, hashed):
    open_again(people, **PLANNED)
    for _ in range(3):
        open_again(people)
    assert len(hashed) == 1
    open_again(people, rehash=True)
    assert len(hashed) == 2


def test_a_question_of_a_known_file_loads_nothing_that_it_does_not_need(tmp_path):
    """The first answer of a process, to an open ledger of privacy or with a promise for the population."""
    for number, iid in enumerate((False, True)):
        path = tmp_path / f"people{number}.parquet"
        write(ROWS, path)
        ht.Curator(path, ledger=tmp_path / f"{number}.ledger", iid=iid, second_budget=True, **PLANNED).close()
        program = f"""
import sys
import holdtrue as ht
with ht.Curator({str(path)!r}, ledger={str(tmp_path / f"{number}.ledger")!r}) as curator:
    curator.ask("age > 65 AND region = 'north'")
print(*{{name.partition(".")[0] for name in sys.modules}} & {HEAVY!r}, *{OTHER_VERBS!r} & set(sys.modules))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - ours
        assert done.stdout.split() == []


def test_other_rows_in_the_same_place_are_refused(people, hashed):
    open_again(people, **PLANNED)
    write(ROWS.assign(age=ROWS.age + 1), people)
    with pytest.raises(ht.FingerprintMismatch):
        open_again(people)
    assert len(hashed) == 2


def test_the_same_rows_written_again_are_hashed_again_and_known_from_then_on(people, hashed):
    open_again(people, **PLANNED)
    write(ROWS[::-1], people)
    open_again(people)
    open_again(people)
    assert len(hashed) == 2


@pytest.mark.usefixtures("hashed")
@pytest.mark.parametrize("replaced", [False, True])
def test_other_rows_of_the_same_size_and_time_are_noticed(tmp_path, replaced):
    """Written in place the status time gives it away, put in its place the inode as well."""
    people = write(ROWS, tmp_path / "people.csv")
    open_again(people, **PLANNED)
    before = people.stat()
    others = people.read_text().replace("north", "south", 1)
    if replaced:
        (tmp_path / "others").write_text(others)
        (tmp_path / "others").replace(people)
    else:
        people.write_text(others)
    os.utime(people, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (people.stat().st_size, people.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(ht.FingerprintMismatch):
        open_again(people)


def test_what_no_state_of_a_file_shows_is_found_by_rehash(people, hashed, monkeypatch):
    """The control: where a file's state lies, the default believes it, which docs/limits.md says; rehash does not."""
    open_again(people, **PLANNED)
    known = FileState.of(str(people))
    write(ROWS.assign(age=ROWS.age + 1), people)
    monkeypatch.setattr(FileState, "of", lambda _path: known)
    monkeypatch.setattr(duckdb_engine, "has_changed", lambda _file: False)
    open_again(people)
    assert len(hashed) == 1
    with pytest.raises(ht.FingerprintMismatch):
        open_again(people, rehash=True)


def test_a_file_that_was_written_a_moment_ago_is_not_noted(people, hashed, monkeypatch):
    monkeypatch.setattr(known_rows, "SETTLED", 60 * 10**9)
    open_again(people, **PLANNED)
    open_again(people)
    assert len(hashed) == 2
    assert not note_of(people).exists()


@pytest.mark.parametrize("place", [0, 70, -1])
def test_a_note_that_was_changed_counts_for_nothing(people, hashed, place):
    open_again(people, **PLANNED)
    note = note_of(people)
    content = bytearray(note.read_bytes())
    content[place] ^= 1
    note.write_bytes(bytes(content))
    open_again(people)
    assert len(hashed) == 2


def test_a_note_of_another_ledger_counts_for_nothing(people, hashed, tmp_path):
    open_again(people, **PLANNED)
    other = tmp_path / "other.ledger"
    ht.Curator(people, ledger=other, second_budget=True, **PLANNED).close()
    Path(f"{other}.files", note_of(people).name).write_bytes(note_of(people).read_bytes())
    count = len(hashed)
    ht.Curator(people, ledger=other).close()
    assert len(hashed) == count + 1


@pytest.mark.parametrize("header", [["age", "region"], ["region", "age"]])
def test_a_file_that_is_read_in_another_way_is_hashed_again(tmp_path, hashed, header):
    """With names given, the first line is one more row; and columns may change places."""
    people = tmp_path / "people.csv"
    people.write_text("age,region\n" + "".join(f"n{number},t{number % 7}\n" for number in range(300)))
    open_again(people, **PLANNED)
    with pytest.raises(ht.FingerprintMismatch):
        open_again(people, header=header)
    assert len(hashed) == 2


def test_one_changed_file_of_several_is_enough(tmp_path, hashed):
    for part in range(3):
        write(ROWS[part::3], tmp_path / f"part{part}.parquet")
    pattern, ledger = str(tmp_path / "part*.parquet"), tmp_path / "parts.ledger"
    ht.Curator(pattern, ledger=ledger, **PLANNED).close()
    ht.Curator(pattern, ledger=ledger).close()
    assert len(hashed) == 1
    write(ROWS[2::3].assign(age=1), tmp_path / "part2.parquet")
    with pytest.raises(ht.FingerprintMismatch):
        ht.Curator(pattern, ledger=ledger)


def test_files_without_inodes_are_hashed_every_time(people, hashed, monkeypatch):
    state = FileState.of
    monkeypatch.setattr(FileState, "of", lambda path: replace(state(path), inode=0))
    monkeypatch.setattr(duckdb_engine, "has_changed", lambda _file: False)
    open_again(people, **PLANNED)
    open_again(people)
    assert len(hashed) == 2
    assert not note_of(people).exists()


def test_a_note_that_cannot_be_written_keeps_nobody_from_the_data(people, hashed, monkeypatch):
    def fail(*_):
        message = "the disk is full"
        raise ht.RefusedError(message)

    monkeypatch.setattr(FolderStore, "write", fail)
    open_again(people, **PLANNED)
    open_again(people)
    assert len(hashed) == 2


def test_beside_a_ledger_in_a_database_this_process_remembers(people, hashed, request):
    ledger = request.getfixturevalue("postgres").schema()
    for given in (PLANNED, {}, {}):
        ht.Curator(people, ledger=ledger, **given).close()
    assert len(hashed) == 1
    ht.Curator(people, ledger=ledger, rehash=True).close()
    assert len(hashed) == 2
    write(ROWS.assign(age=ROWS.age + 1), people)
    with pytest.raises(ht.FingerprintMismatch):
        ht.Curator(people, ledger=ledger)


def test_only_the_owner_can_read_the_note_and_no_row_is_in_it(people, hashed):
    open_again(people, **PLANNED)
    note = note_of(people)
    assert stat.S_IMODE(note.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert b"north" not in note.read_bytes()
    assert len(hashed) == 1


def test_a_file_that_changes_while_it_is_loaded_is_refused(tmp_path, monkeypatch):
    people = write(ROWS, tmp_path / "people.csv")
    state = FileState.of
    monkeypatch.setattr(FileState, "of", lambda path: replace(state(path), changed=1))
    with pytest.raises(ht.RequestError, match="changed while it was read; open it again"):
        ht.Curator(people, **PLANNED)


def test_rehash_is_true_or_false(people):
    with pytest.raises(ht.InvalidParameter, match="rehash"):
        ht.Curator(people, rehash="yes", **PLANNED)


def test_files_of_units_are_hashed_once_and_known_by_their_tables(tmp_path, hashed):
    """Whose rows a file has is part of what is noted: tables that change places are read again, and refused."""
    people = write(pd.DataFrame({"id": range(400), "age": range(400)}), tmp_path / "people.parquet")
    rows = pd.DataFrame({"id": np.arange(800) // 2, "cost": np.arange(800.0)})
    visits, labs = write(rows, tmp_path / "visits.parquet"), write(rows.assign(cost=1.0), tmp_path / "labs.parquet")
    given = {"unit": "id", "tables": {"visits": visits, "labs": labs}}
    open_again(people, **given, **PLANNED)
    assert len(hashed) == 2
    open_again(people, **given)
    open_again(people, **given | {"tables": {"labs": labs, "visits": visits}})
    assert len(hashed) == 2
    with pytest.raises(ht.FingerprintMismatch):
        open_again(people, **given | {"tables": {"labs": visits, "visits": labs}})
    with pytest.raises(ht.FingerprintMismatch):
        open_again(people, **given | {"tables": {"visits": labs, "labs": visits}})
    before = len(hashed)
    write(rows.assign(cost=2.0), labs)
    with pytest.raises(ht.FingerprintMismatch):
        open_again(people, **given)
    assert len(hashed) > before
    open_again(people, **given | {"tables": {"visits": visits, "labs": rows.assign(cost=1.0)}})

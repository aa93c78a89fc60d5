"""Bitmaps beside a ledger: the next process begins with them, and one that this ledger did not seal is as good as none."""

import errno
import os
import shutil
import stat
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import holdtrue as ht
from holdtrue.curator import known_rows
from holdtrue.curator.known_rows import RowsFingerprint
from holdtrue.engines.duckdb_engine import DuckDBEngine

PLANNED = {"queries": 100, "epsilon": 1.0, "delta": 1e-6}
COUNT = 5_000
ROWS = pd.DataFrame(
    {
        "age": np.random.default_rng(1).integers(0, 90, COUNT),
        "region": np.where(np.arange(COUNT) % 3, "north", "south"),
        "smoker": np.arange(COUNT) % 7 == 0,
    }
)
MADE = ["age > 65", "smoker", "region = 'north'", "age > 65 AND smoker", "smoker AND region = 'north'"]
ASKED = {
    "age > 65 AND region = 'north'": (ROWS.age > 65) & (ROWS.region == "north"),
    "smoker AND age > 65": ROWS.smoker & (ROWS.age > 65),
}
TRUE = [int(rows.sum()) for rows in ASKED.values()]


@pytest.fixture(autouse=True)
def kept_and_settled(monkeypatch):
    """A small table is large enough, and files count as settled at once."""
    monkeypatch.setattr(known_rows, "LEAST_ROWS", 0)
    monkeypatch.setattr(known_rows, "LEAST_FREE", 0)
    monkeypatch.setattr(known_rows, "SETTLED", 0)


@pytest.fixture
def scans(monkeypatch):
    """How often rows were read."""
    times = []
    for name in ("mark_rows", "_scan_rows"):
        whole = getattr(DuckDBEngine, name)
        monkeypatch.setattr(
            DuckDBEngine, name, lambda *given, whole=whole, **named: times.append(1) or whole(*given, **named)
        )
    return times


@pytest.fixture(params=["parquet", "csv"])
def people(request, tmp_path):
    return write(ROWS, tmp_path / f"people.{request.param}")


def write(rows, path):
    rows.to_parquet(path) if path.suffix == ".parquet" else rows.to_csv(path, index=False)
    return path


def ledger_of(path):
    return path.with_suffix(".ledger")


def folder_of(path):
    return Path(f"{ledger_of(path)}.bitmaps")


def files_of(path):
    return sorted(folder_of(path).glob("*"))


def make(path, questions=MADE, **given):
    """Ask enough at once that bitmaps are made, and close."""
    with ht.Curator(path, ledger=ledger_of(path), **given) as curator:
        count(curator, questions)


def count(curator, questions):
    engine = curator.pipeline.engine
    return engine.sums([curator.pipeline.parse(question) for question in questions], bits=0)


def count_again(path, questions=tuple(ASKED), **given):
    with ht.Curator(path, ledger=ledger_of(path), **given) as curator:
        return count(curator, questions)


def test_the_next_process_begins_with_the_bitmaps_of_the_last(people, scans):
    make(people, **PLANNED)
    assert len(files_of(people)) == 3
    scans.clear()
    assert count_again(people) == TRUE
    assert not scans
    # An atom that is new is scanned, and joins the others.
    assert count_again(people, ["age > 65", "age > 30"]) == [int((ROWS.age > 65).sum()), int((ROWS.age > 30).sum())]
    assert scans


def test_a_released_answer_comes_from_kept_bitmaps_too(people, scans):
    make(people, **PLANNED)
    scans.clear()
    with ht.Curator(people, ledger=ledger_of(people)) as curator:
        assert abs(curator.ask("smoker").value - ROWS.smoker.mean()) < 0.1
    assert not scans


def flip(place):
    def change(path):
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(bytes(content))

    return change


def cut(path):
    path.write_bytes(path.read_bytes()[:-8])


def lengthen(path):
    path.write_bytes(path.read_bytes() + bytes(8))


def empty(path):
    path.write_bytes(b"")


def fill(path):
    path.write_bytes(path.read_bytes()[:66] + bytes(path.stat().st_size - 66))


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


CHANGES = [flip(0), flip(70), flip(-1), cut, lengthen, empty, fill, replace_by_folder]


@pytest.mark.parametrize("change", CHANGES)
def test_a_bitmap_that_was_changed_or_cut_short_is_never_used(people, scans, change):
    make(people, **PLANNED)
    for path in files_of(people):
        change(path)
    scans.clear()
    assert count_again(people) == TRUE
    assert scans


def exchange(people):
    """Give every file the name of another one."""
    files = files_of(people)
    contents = [path.read_bytes() for path in files]
    for path, content in zip(files, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)


def test_a_bitmap_of_another_atom_is_never_used(people, scans):
    make(people, **PLANNED)
    exchange(people)
    scans.clear()
    assert count_again(people) == TRUE
    assert scans


@pytest.mark.parametrize("spoil", [lambda people: [fill(path) for path in files_of(people)], exchange])
def test_control_without_the_seal_a_changed_bitmap_is_counted(people, monkeypatch, spoil):
    make(people, **PLANNED)
    spoil(people)
    monkeypatch.setattr(known_rows, "check_seal", lambda *_: None)
    assert count_again(people) != TRUE


def test_a_bitmap_of_another_ledger_is_never_used(people, scans, tmp_path):
    """Of the same rows in the same file, under another key: whatever its name, since names are keyed too."""
    make(people, **PLANNED)
    other = tmp_path / "other.ledger"
    with ht.Curator(people, ledger=other, second_budget=True, **PLANNED) as curator:
        count(curator, MADE)
    foreign = sorted(Path(f"{other}.bitmaps").glob("*"))
    assert not {path.name for path in foreign} & {path.name for path in files_of(people)}
    for path, strange in zip(files_of(people), foreign, strict=True):
        path.write_bytes(strange.read_bytes())
    scans.clear()
    assert count_again(people) == TRUE
    assert scans


def write_in_another_order(people):
    """The fingerprint stays the same, since it does not depend on the order of rows; bits do."""
    write(ROWS[::-1], people)
    with ht.Curator(people, ledger=ledger_of(people)):
        pass  # the note of the new state is written


def test_a_bitmap_of_rows_in_another_order_is_never_used(people, scans):
    make(people, ["age > 65", "age > 65", "age > 65", "age > 65", "age > 65"], **PLANNED)
    (kept,) = files_of(people)
    write_in_another_order(people)
    scans.clear()
    assert count_again(people, list(ASKED) * 3) == TRUE * 3
    assert scans
    assert kept not in files_of(people)


def test_control_bound_to_the_fingerprint_alone_it_is_counted(people, monkeypatch):
    monkeypatch.setattr(RowsFingerprint, "_describe_files", lambda _: "")
    make(people, ["age > 65", "age > 65", "age > 65", "age > 65", "age > 65"], **PLANNED)
    write_in_another_order(people)
    assert count_again(people, list(ASKED) * 3) != TRUE * 3


def test_rehash_uses_none_and_removes_them(people, scans):
    make(people, **PLANNED)
    assert files_of(people)
    scans.clear()
    assert count_again(people, rehash=True) == TRUE
    assert scans
    assert not files_of(people)


def test_only_the_owner_can_read_them_and_names_tell_no_question(people):
    make(people, **PLANNED)
    assert stat.S_IMODE(folder_of(people).stat().st_mode) == 0o700
    for path in files_of(people):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not any(word in path.read_bytes() for word in (b"age", b"north", b"smoker"))


def test_modes_that_let_others_in_are_mended(people):
    make(people, **PLANNED)
    folder_of(people).chmod(0o755)
    assert count_again(people) == TRUE
    assert stat.S_IMODE(folder_of(people).stat().st_mode) == 0o700


def test_a_disk_that_fills_up_while_bitmaps_are_written_costs_nothing(people, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with ht.Curator(people, ledger=ledger_of(people), **PLANNED) as curator:
        answer = curator.ask("age > 65")
        count(curator, MADE)
        monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.undo()
    assert not files_of(people)  # nothing half-written is left either
    assert ht.verify(ledger_of(people))
    with ht.Curator(people, ledger=ledger_of(people)) as curator:
        assert curator.ask("age > 65").value == answer.value
        assert count(curator, list(ASKED)) == TRUE


def test_the_last_of_a_disk_is_left_to_the_ledger(people, monkeypatch):
    whole = shutil.disk_usage(people)
    monkeypatch.setattr(known_rows, "LEAST_FREE", whole.free + 1)
    make(people, **PLANNED)
    assert not files_of(people)


def test_a_folder_that_cannot_be_made_costs_nothing(people):
    folder_of(people).write_text("in the way")
    make(people, **PLANNED)
    assert count_again(people) == TRUE


def test_files_are_bounded_and_those_used_last_stay(people, monkeypatch):
    questions = [f"age > {age} AND smoker" for age in range(20, 26)]
    make(people, MADE, **PLANNED)
    files = files_of(people)
    monkeypatch.setattr(known_rows, "MOST_BYTES", 4 * files[0].stat().st_size)
    for number, path in enumerate(files):
        os.utime(path, (number, number))
    assert count_again(people, ["smoker"]) == [int(ROWS.smoker.sum())]
    used = max(files, key=lambda path: path.stat().st_mtime)
    for question in questions[:3]:
        make(people, [question] * 5)
    held = files_of(people)
    assert len(held) == 4
    assert set(held) & set(files) == {used}
    make(people, questions)
    assert len(files_of(people)) == 4


def test_what_a_killed_process_left_half_written_is_removed(people):
    make(people, **PLANNED)
    left, new = (folder_of(people) / f".{name}.half" for name in ("old", "new"))
    left.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(left, (time.time() - 7200,) * 2)
    make(people, [f"age > {age}" for age in range(6)])
    assert not left.exists()
    assert new.exists()


def test_they_can_be_switched_off(people, scans, monkeypatch):
    monkeypatch.setenv("HOLDTRUE_BITMAPS", "off")
    make(people, **PLANNED)
    assert not folder_of(people).exists()
    monkeypatch.delenv("HOLDTRUE_BITMAPS")
    make(people)
    assert files_of(people)
    monkeypatch.setenv("HOLDTRUE_BITMAPS", "off")
    scans.clear()
    assert count_again(people) == TRUE
    assert scans


def test_small_tables_keep_none(people, monkeypatch):
    monkeypatch.setattr(known_rows, "LEAST_ROWS", COUNT + 1)
    make(people, **PLANNED)
    assert not folder_of(people).exists()


def test_files_that_cannot_be_told_apart_keep_none(people, monkeypatch):
    monkeypatch.setattr(known_rows, "SETTLED", 60 * 10**9)
    make(people, **PLANNED)
    assert not folder_of(people).exists()


def test_units_and_tables_in_memory_keep_none(tmp_path):
    visits = write(ROWS.assign(id=np.arange(COUNT) // 2), tmp_path / "visits.parquet")
    ledger = tmp_path / "units.ledger"
    with ht.Curator(visits, ledger=ledger, unit="id", **PLANNED) as curator:
        count(curator, [f"COUNT(smoker) >= {least}" for least in range(6)])
    with ht.Curator(ROWS, ledger=tmp_path / "memory.ledger", **PLANNED) as curator:
        count(curator, MADE)
    assert not list(tmp_path.glob("*.bitmaps"))

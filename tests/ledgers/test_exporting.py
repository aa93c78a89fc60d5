"""A copy for an auditor verifies as the ledger does, and holds no key."""

import sqlite3

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.ledgers import open_ledger, verify
from holdtrue.ledgers.entries import COLUMNS
from holdtrue.ledgers.sqlite import export
from ledgers.tables import line_digest

ROWS = {"age": np.arange(3_000) % 90}


@pytest.fixture
def place(tmp_path):
    with ht.Curator(ROWS, queries=30, epsilon=1, delta=1e-6, ledger=tmp_path / "rows.ledger") as curator:
        for age in range(5):
            curator.ask(f"age > {age}")
    return tmp_path / "rows.ledger"


def copied(place, to):
    with open_ledger(place) as ledger:
        return export(ledger, to), ledger.terms


def test_a_copy_verifies_with_the_receipts_of_the_ledger(place, tmp_path):
    entries, _ = copied(place, tmp_path / "copy.ledger")
    found = verify(place)
    assert entries == found.entries == 10
    assert verify(tmp_path / "copy.ledger", receipts=[found.receipt]) == found


def test_a_copy_has_no_key(place, tmp_path):
    _, terms = copied(place, tmp_path / "copy.ledger")
    assert terms.key.encode() in place.read_bytes()
    assert terms.key.encode() not in (tmp_path / "copy.ledger").read_bytes()


def test_no_curator_opens_under_a_copy(place, tmp_path):
    copied(place, tmp_path / "copy.ledger")
    with pytest.raises(ht.RefusedError, match="an exported copy of a ledger"):
        ht.Curator(ROWS, ledger=tmp_path / "copy.ledger")


def test_a_changed_copy_is_found(place, tmp_path):
    copied(place, tmp_path / "copy.ledger")
    with sqlite3.connect(tmp_path / "copy.ledger") as file:
        file.execute("UPDATE holdtrue_ledger SET key = 'sha256:' || substr(digest, 1, 64)")
    with pytest.raises(ht.IntegrityError):
        verify(tmp_path / "copy.ledger")


def test_a_copy_never_writes_over_a_file(place, tmp_path):
    (tmp_path / "copy.ledger").write_text("mine")
    with pytest.raises(ht.InvalidParameter, match="does not exist yet"):
        copied(place, tmp_path / "copy.ledger")
    assert (tmp_path / "copy.ledger").read_text() == "mine"


def test_text_in_the_place_of_a_number_is_found_though_its_digest_is_right(place):
    entries = open_ledger(place)
    line = {name: getattr(entries.entries()[-1], name) for name in COLUMNS} | {"cost": "much"}
    digest = line_digest(line, ledger_id=entries.terms.ledger_id)
    entries.close()
    with sqlite3.connect(place) as file:
        file.execute(
            "UPDATE holdtrue_entries SET cost = 'much', digest = ? WHERE number = ?",
            (digest, line["number"]),
        )
    with pytest.raises(ht.IntegrityError, match="malformed"):
        verify(place)

"""P7: whatever is changed in a stored ledger is found with the newest receipt."""

import shutil

import numpy as np
import pytest
import sqlalchemy as sa

import holdtrue as ht
from holdtrue.ledgers import open_ledger, verify
from ledgers.places import connect, request
from ledgers.tables import ENTRIES, TERMS, line_digest


@pytest.fixture
def written(lasting):
    """A closed ledger with every kind of entry, and its newest receipt."""
    with lasting.open(cap=20_000, card='{"rows":10}') as ledger:
        ledger.grant("ann", allowance=9000)
        for name in "abc":
            ledger.respond(ledger.charge(**request(name, request=f'{{"ask":"{name}"}}')).number, f"answer to {name}")
        ledger.charge(**request("a", analyst="ben") | {"request_id": "repeat"})
        ledger.charge(**request("d", analyst="ben"))
        lasting.receipt = ledger.head
        lasting.terms = ledger.terms
    return lasting


def changed(value):
    """Return a value with the least of it changed, in several ways."""
    match value:
        case None:
            return ["x"]
        case int():
            return [value + 1, value ^ (1 << 40), -value - 1]
        case str():
            middle = len(value) // 2
            flipped = chr(ord(value[middle]) ^ 1)
            return [value[:middle] + flipped + value[middle + 1 :], value + " ", value[:-1], ""]
    raise TypeError


def found(place, *, receipts=True):
    """Return the message by which verify finds a ledger wanting; fail if it does not."""
    with pytest.raises(ht.IntegrityError) as error:
        verify(place.where, receipts=[place.receipt] if receipts else [])
    return str(error.value)


def test_p7_a_whole_ledger_is_reported_as_such(written):
    report = verify(written.where, receipts=[written.receipt, (0, written.terms.digest)])
    assert report
    assert (report.entries, report.charges, report.spent, report.left) == (9, 4, 4000, 16_000)
    assert report.receipt == written.receipt
    with open_ledger(written.where) as ledger:
        assert verify(ledger, receipts=[written.receipt]) == report


def test_p7_every_change_of_every_field_is_found(written):
    with connect(written) as connection:
        stored = {table: connection.execute(sa.select(table)).mappings().all() for table in (ENTRIES, TERMS)}
        connection.rollback()
        tried = 0
        for table, lines in stored.items():
            for line in lines:
                for column in table.columns:
                    if table is TERMS and column.name == "number":
                        continue
                    for value in changed(line[column.name])[: 4 if written.kind == "sqlite" else 1]:
                        if value == "x" and not isinstance(column.type, sa.Text):
                            value = 1  # noqa: PLW2901 - NULL in a column of numbers
                        if isinstance(column.type, sa.Integer) and column.name == "iid" and value > 2**31:
                            continue
                        here = table.c.number == line["number"]
                        try:
                            connection.execute(table.update().where(here).values({column.name: value}))
                            connection.commit()
                        except sa.exc.IntegrityError:  # a unique index noticed it first
                            connection.rollback()
                            continue
                        assert "entry" in found(written)
                        moved = table.c.number == (value if column.name == "number" else line["number"])
                        connection.execute(table.update().where(moved).values({column.name: line[column.name]}))
                        connection.commit()
                        tried += 1
    assert tried > (400 if written.kind == "sqlite" else 140)
    assert verify(written.where, receipts=[written.receipt])


def test_p7_a_deleted_entry_is_named(written):
    with connect(written) as connection:
        stored = connection.execute(sa.select(ENTRIES)).mappings().all()
        for line in stored:
            connection.execute(ENTRIES.delete().where(ENTRIES.c.number == line["number"]))
            connection.commit()
            assert found(written).startswith(f"entry {line['number']}: ")
            connection.execute(ENTRIES.insert(), dict(line))
            connection.commit()
    assert verify(written.where, receipts=[written.receipt])


def test_p7_two_entries_in_the_wrong_order_are_found(written):
    with connect(written) as connection:
        for one, two in ((2, 4), (3, 5), (8, 9)):
            for source, target in ((one, 100), (two, one), (100, two)):
                connection.execute(ENTRIES.update().where(ENTRIES.c.number == source).values(number=target))
            connection.commit()
            assert found(written, receipts=False).startswith(f"entry {one}: ")
            for source, target in ((one, 100), (two, one), (100, two)):
                connection.execute(ENTRIES.update().where(ENTRIES.c.number == source).values(number=target))
            connection.commit()


def test_p7_truncation_is_found_with_a_receipt_and_only_then(written):
    with connect(written) as connection:
        connection.execute(ENTRIES.delete().where(ENTRIES.c.number > 6))
        connection.commit()
    assert found(written) == "entry 9: there is a receipt for it, but the ledger ends with entry 6"
    assert verify(written.where).entries == 6


def test_p7_a_ledger_written_anew_with_right_digests_is_found(written):
    """An attacker who knows how digests are made lowers one cost and mends everything after it."""
    with connect(written) as connection:
        lines = connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.number)).mappings().all()
        previous, saved = written.terms.digest, 0
        for line in map(dict, lines):
            if line["number"] == 2:
                saved, line["cost"], line["event"] = line["cost"], 0, '{"kind":"NoCost"}'
            line["spent"] -= saved
            line["other_spent"] -= saved
            if line["analyst"] == "ann" and line["number"] > 1:
                line["analyst_spent"] -= saved
            line["previous"] = previous
            line["digest"] = previous = line_digest(line, ledger_id=written.terms.ledger_id)
            connection.execute(ENTRIES.update().where(ENTRIES.c.number == line["number"]).values(**line))
        connection.commit()
    assert verify(written.where).spent == 3000
    assert found(written) == "entry 9: it is not the entry of the receipt"


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        (9, {"cost": 999, "spent": 3999, "analyst_spent": 999}, "less than that of its event"),
        (9, {"event": '{"kind":"NonPrivate"}'}, "less than that of its event"),
        (9, {"event": "no event"}, "less than that of its event"),
        (9, {"cost": 17_001, "spent": 20_001, "analyst_spent": 17_001}, "not the sum"),
        (9, {"spent": 4001}, "not the sum"),
        (9, {"analyst_spent": 0}, "total or allowance"),
        (9, {"allowance": 5000}, "total or allowance"),
        (9, {"kind": "gift"}, "no known kind"),
        (9, {"kind": "grant", "cost": 0, "spent": 3000, "analyst_spent": 0, "analyst": None}, "grants nothing"),
        (9, {"kind": "repeat", "cost": 0, "spent": 3000, "analyst_spent": 0}, "repeats what was not answered"),
        (9, {"kind": "response", "cost": 0, "spent": 3000, "analyst_spent": 0, "answers": 9}, "answers no charge"),
        (9, {"previous": "0" * 64}, "does not follow"),
    ],
)
def test_an_entry_that_breaks_a_rule_is_found_though_its_digest_is_right(written, number, change, words):
    with connect(written) as connection:
        here = ENTRIES.c.number == number
        line = dict(connection.execute(sa.select(ENTRIES).where(here)).mappings().one()) | change
        line["digest"] = line_digest(line, ledger_id=written.terms.ledger_id)
        connection.execute(ENTRIES.update().where(here).values(**line))
        connection.commit()
    message = found(written, receipts=False)
    assert message.startswith(f"entry {number}: ")
    assert words in message


def test_p7_a_file_put_back_to_an_older_state_is_found(quick, lasting):
    if lasting.kind != "sqlite":
        lasting = type(lasting)("sqlite", str(quick / "file.ledger"))
    with lasting.open() as ledger:
        ledger.charge(**request("a"))
    shutil.copy(lasting.where, quick / "older")
    with lasting.reopen() as ledger:
        lasting.receipt = ledger.charge(**request("b")).receipt
    shutil.copy(quick / "older", lasting.where)
    assert found(lasting).startswith("entry 2: ")
    with lasting.reopen() as ledger:
        ledger.charge(**request("another history"))
    assert found(lasting) == "entry 2: it is not the entry of the receipt"


def test_p7_a_ledger_put_back_while_it_is_open_is_found_by_the_next_charge(lasting):
    ledger = lasting.open()
    ledger.charge(**request("a"))
    ledger.charge(**request("b"))
    with connect(lasting) as connection:
        connection.execute(ENTRIES.delete().where(ENTRIES.c.number == 2))
        connection.commit()
    with pytest.raises(ht.IntegrityError, match="older state"):
        ledger.charge(**request("c"))
    with pytest.raises(ht.RefusedError, match="failed earlier"):
        ledger.charge(**request("c"))


def test_p7_a_total_that_was_lowered_is_found_by_the_next_charge(lasting):
    lasting.open(cap=1000).charge(**request("a"))
    with connect(lasting) as connection:
        connection.execute(ENTRIES.update().values(spent=0, analyst_spent=0))
        connection.commit()
    with pytest.raises(ht.IntegrityError, match="entry 1"):
        lasting.reopen().charge(**request("b"))


def test_p7_a_flipped_byte_anywhere_in_the_file_is_found_or_changes_nothing(quick):
    """Over the whole file: verify finds it, or every term, entry and answer reads as before (unused space)."""
    path = quick / "people.ledger"
    with open_ledger(path, kind="gdp", cap=20_000, fingerprint=lambda key: key.hex()) as ledger:
        for name in "abcd":
            ledger.respond(ledger.charge(**request(name)).number, f"answer to {name}")
        receipt, terms, entries = ledger.head, ledger.terms, ledger.entries()
    whole = path.read_bytes()
    numbers = np.random.default_rng(7)
    positions = numbers.choice(len(whole), 600, replace=False)
    starts = [whole.find(entry.digest.encode()) for entry in entries] + [whole.find(b"answer to b")]
    noticed = 0
    for position in [*map(int, positions), *starts]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(numbers.integers(8))
        path.write_bytes(damaged)
        try:
            verify(path, receipts=[receipt])
        except (ht.IntegrityError, ht.RefusedError, ht.RequestError):
            noticed += 1
            continue
        with open_ledger(path) as ledger:
            assert ledger.terms == terms
            assert ledger.entries() == entries
            assert all(ledger.find(request_id=f"id {name}").response == f"answer to {name}" for name in "abcd")
    assert noticed > len(starts)
    path.write_bytes(whole)
    assert verify(path, receipts=[receipt])


def test_no_entry_can_be_changed_in_hand(lasting):
    entry = lasting.open().charge(**request("a"))
    with pytest.raises(AttributeError):
        entry.cost = 0

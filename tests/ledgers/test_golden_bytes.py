"""The bytes that a ledger hashes, fixed for good: a receipt that was given once must fit the same entry for ever (P7).

If a test here fails, the change is wrong, not the test: it would make every ledger and every receipt there is worthless.
"""

import hashlib
import json
import random
from fractions import Fraction

import pytest

from holdtrue.errors import IntegrityError
from holdtrue.events import GaussianNoise
from holdtrue.ledgers import Charge, Limits, Terms, entries
from holdtrue.ledgers.entries import COLUMNS, Entry, digest_entry
from holdtrue.ledgers.transactions import Transaction

TERMS = Terms(
    ledger_id="000102030405060708090a0b0c0d0e0f",
    kind="gdp",
    cap=10**15,
    plan='{"rows":10}',
    card='{"columns":{"größe \U0001f4cf":"int"}}',
    iid=True,
    created=1_700_000_000,
    fingerprint="f" * 64,
    key="0f" * 32,
)
WRITTEN = [
    "07ac30d43545ad05d76b054af3e36b8772580632abb52c9f8918efc8a1422bdb",
    "a53b771cd92192beb180f998b47ce2daaf491cee2bbac59a354488240d4cd2f9",
    "0adf2d89355e93650a2acc552199bd3c0b02dc26619181192bb6a07b0b6af2ba",
    "5a086e4afa73d41946b090d21f7d009a6ab098a951478f606ef8303d6ed2863e",
    "a27824982904254d0a8d69bf551b37cb5764fc982d7688c1dc2f439b5102339d",
    "23e900f8143643e22b311ac221f2416fbf2ebd86a212cb92ca07d5132eeb3e22",
]
BODIES = [
    '{"draws":2,"parts":["age > 65","name = \\"Zoë\\"\\n"],"request":{"ask":"x"}}',
    '{"draws":0,"parts":[],"request":{}}',
]


def write_all(monkeypatch):
    """Return a transaction with an entry of every kind, at a fixed time."""
    monkeypatch.setattr(entries, "read_clock", lambda: 1_700_000_001)
    written = Transaction(TERMS)
    written.grant("ann", allowance=5 * 10**14)
    event, limits = GaussianNoise(Fraction(1, 1000)), Limits(draws=10, other=10**14)
    ask = Charge("id 1", "a" * 64, "ann", "ask", event, None, 2, ("age > 65", 'name = "Zoë"\n'), '{"ask":"x"}', limits)
    charged = written.charge(ask, floor=10**9)
    written.respond(charged.number, body='[{"value":0.25,"note":"\u2028 \x7f \x1f </script> \U0001f600"}]')
    written.charge(Charge("id 2", "a" * 64, "ben", "ask", event), floor=10**9)
    written.charge(Charge("id 3", "b" * 64, "ben", "select", event, 2 * 10**9, limits=limits), floor=10**9)
    written.grant("ann", allowance=None)
    return written.appended


def test_terms_have_the_digest_they_always_had():
    assert TERMS.digest == TERMS.without_key().digest == "134d28985d2610928933837cd2ba3662272cfbe6bce79834cf479cefa936e131"


def test_entries_have_the_digests_they_always_had(monkeypatch):
    found = write_all(monkeypatch)
    assert [entry.kind for entry in found] == ["grant", "charge", "response", "repeat", "charge", "grant"]
    assert [entry.digest for entry in found] == WRITTEN
    assert [entry.body for entry in found if entry.kind == "charge"] == BODIES


def test_what_is_hashed_is_an_array_that_any_language_can_write(monkeypatch):
    """The form written by the standard library: a tag, the ledger's number, every field but the digest."""
    for entry in write_all(monkeypatch):
        fields = [getattr(entry, name) for name in COLUMNS if name != "digest"]
        array = ["holdtrue entry 1", TERMS.ledger_id, *fields]
        assert hashlib.sha256(write_json(array)).hexdigest() == entry.digest
    secret = "sha256:" + hashlib.sha256(TERMS.key.encode()).hexdigest()
    fields = [TERMS.ledger_id, TERMS.kind, TERMS.cap, TERMS.plan, TERMS.card, 1, TERMS.created, TERMS.fingerprint, secret]
    assert hashlib.sha256(write_json(["holdtrue terms 1", *fields])).hexdigest() == TERMS.digest


def write_json(array):
    return json.dumps(array, ensure_ascii=False, separators=(",", ":")).encode()


def line_of(source):
    def text(*, maybe=True):
        signs = source.choice(["plain", 'q"uo\\te', "\n\t\x1f", "é中\U0001f600", "</script>", ""])
        return None if maybe and source.random() < 0.3 else signs * source.randrange(3)

    def whole(*, maybe=True):
        return None if maybe and source.random() < 0.3 else source.choice([0, 1, -5, 2**63 - 1, 10**30])

    totals = {"cost", "spent", "draws", "other_spent", "charges"}
    numbers = totals | {"number", "time", "analyst_spent", "allowance", "answers"}
    always = totals | {"number", "kind", "time", "verb", "previous"}
    return {name: (whole if name in numbers else text)(maybe=name not in always) for name in COLUMNS if name != "digest"}


def test_every_text_and_number_is_written_as_the_standard_library_does():
    source = random.Random("digests")
    for _ in range(2000):
        line = line_of(source)
        array = ["holdtrue entry 1", "ledger é", *line.values()]
        assert digest_entry(tuple(line.values()), ledger_id="ledger é") == hashlib.sha256(write_json(array)).hexdigest()
    # The planted fault: two fields exchanged make another digest.
    line = line_of(source) | {"cost": 1, "spent": 2}
    swapped = line | {"cost": 2, "spent": 1}
    assert digest_entry(tuple(swapped.values()), ledger_id="l") != digest_entry(tuple(line.values()), ledger_id="l")


@pytest.mark.parametrize("wrong", [{"cost": 5.0}, {"cost": True}, {"body": b"x"}, {"verb": ["ask"]}])
def test_a_value_that_no_entry_holds_has_no_digest(wrong):
    line = line_of(random.Random("wrong")) | wrong
    with pytest.raises(TypeError):
        digest_entry(tuple(line.values()), ledger_id="l")
    with pytest.raises(IntegrityError, match="digest"):
        Entry(**line, digest="0" * 64).check_digest("l")


def test_bytes_in_the_place_of_the_text_that_stands_for_them_are_found():
    line = line_of(random.Random("bytes")) | {"body": "eA=="}
    digest = digest_entry(tuple(line.values()), ledger_id="l")
    Entry(**line, digest=digest).check_digest("l")
    with pytest.raises(IntegrityError, match="digest"):
        Entry(**line | {"body": b"x"}, digest=digest).check_digest("l")

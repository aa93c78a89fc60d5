"""An auditor finds every kind of tampering by a writer who knows how digests are made, and tells all of it at once."""

import contextlib
import json
import shutil

import numpy as np
import pytest
import sqlalchemy as sa

import holdtrue as ht
from holdtrue.auditing.ledger import audit_ledger
from holdtrue.codec import encode
from holdtrue.ledgers import open_ledger, verify
from holdtrue.ledgers.entries import Terms
from ledgers.tables import ENTRIES, TERMS, line_digest

ROWS = 20_000
UNITS = 10**15
TABLE = {"x": np.arange(ROWS) % 2, "age": np.arange(ROWS) % 100, "y": np.arange(ROWS) // 3 % 2}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A ledger with every kind of entry, and the answers that an analyst kept."""
    path = tmp_path_factory.mktemp("audited") / "people.ledger"
    with ht.Curator(TABLE, queries=10, iid=True, epsilon=2, delta=1e-6, ledger=path) as curator:
        curator.grant("ben", asks=2)
        kept = [
            curator.ask("x = y"),
            *curator.ask(["age > 30", "age / 100"]),
            curator.ask(values=TABLE["age"] / 100),
            curator.ask("x = y", key="again"),
            curator.ask("age < 5", analyst="ben"),
        ]
        curator.select({"young": "age < 30", "old": "age > 60"})
        curator.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=10), target="y = 1")
    return path, kept


@pytest.fixture
def copied(written, tmp_path):
    """A copy to tamper with."""
    return shutil.copy(written[0], tmp_path / "copy.ledger")


def rewrite(path, change, *, terms=None, chain=True):
    """Let a writer change lines, and chain them anew: with their digests, and with those that certificates repeat."""
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        # As they were written, since verify compares them.
        indexes = connection.execute(sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql <> ''")).all()
        for name, _ in indexes:
            connection.execute(sa.text(f'DROP INDEX "{name}"'))
        lines = [dict(row) for row in connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.number)).mappings()]
        row = dict(connection.execute(sa.select(TERMS)).mappings().one())
        if terms is not None:
            row |= terms
            named = {name: row[name] for name in row if name not in ("number", "digest")}
            row["digest"] = Terms(**named | {"iid": bool(row["iid"])}).digest
            connection.execute(TERMS.update().values(**row))
        lines = change(lines) or lines
        previous = row["digest"]
        digests = {}
        for line in lines:
            if chain:
                line["previous"] = previous
                if line["kind"] == "response" and line["answers"] in digests:
                    line["body"] = line["body"].replace(digests[line["answers"]][0], digests[line["answers"]][1])
                old = line["digest"]
                line["digest"] = previous = line_digest(line, ledger_id=row["ledger_id"])
                digests[line["number"]] = (old, line["digest"])
        connection.execute(ENTRIES.delete())
        connection.execute(ENTRIES.insert(), lines)
        for _, written in indexes:
            # A writer who uses a number twice cannot have the index that forbids it.
            with contextlib.suppress(sa.exc.IntegrityError), connection.begin_nested():
                connection.execute(sa.text(written))


def moved(lines, number, units):
    """Change a charge's cost and every total and certificate that follows from it."""
    analyst = lines[number - 1]["analyst"]
    lines[number - 1]["cost"] += units
    for line in lines[number - 1 :]:
        line["spent"] += units
        if line["analyst"] == analyst:
            line["analyst_spent"] += units
    charges = {line["number"]: line for line in lines}
    for line in lines:
        if line["kind"] == "response":
            charge, records = charges[line["answers"]], json.loads(line["body"])
            for certificate in (record["certificate"] for record in records):
                cap = round((certificate["spent"] + certificate["left"]) * UNITS)
                certificate["cost"], certificate["spent"] = charge["cost"] / UNITS, charge["spent"] / UNITS
                certificate["left"] = (cap - charge["spent"]) / UNITS
            line["body"] = "[" + ",".join(map(encode, records)) + "]"


def told(lines, number):
    """Return the records of a response, and a way to store them again."""
    line = lines[number - 1]
    records = json.loads(line["body"])

    def store():
        line["body"] = "[" + ",".join(map(encode, records)) + "]"

    return records, store


def in_response(number, change):
    def act(lines):
        records, store = told(lines, number)
        change(records[0])
        store()

    return act


def in_line(number, **values):
    def act(lines):
        lines[number - 1].update(values)

    return act


def in_body(number, change):
    def act(lines):
        body = json.loads(lines[number - 1]["body"])
        change(body)
        lines[number - 1]["body"] = encode(body)

    return act


def second_response(lines):
    lines.append(lines[2] | {"number": len(lines) + 1, "spent": lines[-1]["spent"]})


def early_response(lines):
    """Swap a charge and its response: the answer stands before it was paid for."""
    charge, response = lines[1], lines[2]
    charge["number"], response["number"], response["answers"] = 3, 2, 3
    response["spent"] = 0
    lines[1], lines[2] = response, charge


def over_allowance(lines):
    lines[0]["allowance"] = 1
    for line in lines[1:]:
        if line["analyst"] == "ben":
            line["allowance"] = 1


def narrower(name):
    def change(record):
        record[name]["low"] += record[name]["high"] / 1000

    return change


def test_every_kind_of_entry_is_where_the_tampering_expects_it(written):
    with open_ledger(written[0]) as ledger:
        kinds = [(entry.kind, entry.verb) for entry in ledger.entries()]
    asked = [("charge", "ask"), ("response", "ask")]
    assert kinds[:8] == [("grant", "grant"), *asked, *asked, *asked, ("repeat", "ask")]
    assert kinds[8:] == [*asked, ("charge", "select"), ("response", "select"), ("charge", "learn"), ("response", "learn")]


def test_p7_a_whole_ledger_breaks_no_rule(written):
    path, kept = written
    found = ht.audit_ledger(path, receipts=[*kept, kept[0].certificate, verify(path).receipt], data=TABLE)
    assert found
    assert not found.violated
    assert found.breaches == ()
    assert (found.entries, found.charges, found.responses) == (14, 6, 6)
    with open_ledger(path) as ledger:
        assert found.spent + found.left == ledger.terms.cap
    checked = dict(found.checked)
    assert checked["interval"] == checked["certificate"] == 6
    assert checked["chain"] == checked["cap"] == 14
    assert "All rules are kept" in str(found)
    assert "whole" in found._repr_html_()
    assert json.loads(json.dumps(found.document))["breaches"] == []


def test_an_open_ledger_can_be_audited(written):
    with open_ledger(written[0]) as ledger:
        assert audit_ledger(ledger)


FAULTS = {
    "cost below that of its event": (lambda lines: moved(lines, 2, -1), 2, "cost"),
    "cost beyond the cap": (lambda lines: moved(lines, 13, 10**14), 13, "cap"),
    "event without a guarantee": (in_line(2, event='{"kind":"NonPrivate"}'), 2, "privacy"),
    "event for nothing": (in_line(2, event='{"kind":"NoCost"}'), 3, "certificate"),
    "event that cannot be read": (in_line(2, event="noise"), 2, "cost"),
    "total that is no sum": (in_line(14, spent=1), 14, "total"),
    "analyst's total that is no sum": (in_line(13, analyst_spent=1), 13, "total"),
    "allowance passed": (over_allowance, 9, "allowance"),
    "allowance raised on the way": (in_line(9, allowance=10**15), 9, "allowance"),
    "response twice": (second_response, 15, "response"),
    "response before its charge": (early_response, 2, "response"),
    "response to no charge": (in_line(3, answers=1), 3, "response"),
    "response to another request": (in_line(3, request_digest="0" * 64), 3, "response"),
    "response that is none": (in_line(3, body="[]"), 3, "response"),
    "response that costs": (in_line(3, cost=1), 3, "cost"),
    "repeat of nothing": (in_line(8, request_digest="0" * 64), 8, "response"),
    "request id again": (in_line(4, request_id="again"), 8, "request"),
    "another question told": (in_body(2, lambda body: body["request"].update(queries=["age > 1"])), 3, "request"),
    "more draws than planned": (in_body(2, lambda body: body.update(draws=11)), 3, "plan"),
    "certificate with more left": (in_response(3, lambda told: told["certificate"].update(left=1.0)), 3, "certificate"),
    "certificate for less": (in_response(3, lambda told: told["certificate"].update(cost=0.0)), 3, "certificate"),
    "certificate of another entry": (in_response(3, lambda told: told["certificate"].update(entry=4)), 3, "certificate"),
    "certificate with a better epsilon": (
        in_response(3, lambda told: told["certificate"].update(epsilon=0.1)),
        3,
        "certificate",
    ),
    "interval narrowed": (in_response(3, narrower("interval")), 3, "interval"),
    "interval by position narrowed": (in_response(7, narrower("interval")), 7, "interval"),
    "interval of these rows narrowed": (in_response(3, narrower("sample_interval")), 3, "interval"),
    "confidence raised": (in_response(3, lambda told: told["interval"].update(confidence=0.99)), 3, "interval"),
    "interval left out": (in_response(3, lambda told: told.update(interval=None)), 3, "interval"),
    "value off the grid": (in_response(3, lambda told: told.update(value=told["value"] + 1e-9)), 3, "interval"),
    "cost in words": (in_line(13, cost="nothing"), 13, "total"),
    "value in words": (in_response(3, lambda told: told.update(value="high")), 3, "response"),
    "draws taken back": (in_body(6, lambda body: body.update(draws=-2)), 6, "form"),
    "request in words": (in_body(2, lambda body: body.update(request="x = y")), 2, "form"),
    "verb that none has": (in_line(2, verb="borrow"), 2, "form"),
    "response of another verb": (in_line(3, verb="select"), 3, "form"),
    "body that is none": (in_line(2, body=None), 2, "form"),
    "body of an older estimator": (in_line(2, body='{"verb":"fit"}'), 2, "form"),
    "body with one field more": (in_body(2, lambda body: body.update(note="x")), 2, "form"),
    "draws that no column counts": (in_body(2, lambda body: body.update(draws=2)), 2, "total"),
    "unknown kind": (in_line(14, kind="gift"), 14, "chain"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_p7_tampering_with_right_digests_is_found(copied, fault):
    """The writer has chained everything anew: no digest tells, the rules do."""
    change, number, rule = FAULTS[fault]
    rewrite(copied, change)
    found = audit_ledger(copied)
    assert found.violated
    assert (number, rule) in {(breach.entry, breach.rule) for breach in found.breaches}
    assert not any("digest is not that" in breach.words for breach in found.breaches)


def test_chaining_anew_changes_nothing_by_itself(copied):
    """The control of the test above: an honest ledger, chained anew, keeps all rules."""
    rewrite(copied, lambda _: None)
    assert audit_ledger(copied)


def test_p7_all_breaches_are_told_and_not_the_first_alone(copied):
    def change(lines):
        in_response(3, narrower("interval"))(lines)
        in_line(9, allowance=10**15)(lines)
        in_line(14, spent=1)(lines)

    rewrite(copied, change)
    found = audit_ledger(copied)
    assert {(breach.entry, breach.rule) for breach in found.breaches} >= {(3, "interval"), (9, "allowance"), (14, "total")}
    assert f"{len(found.breaches)} rules are broken" in found.sentence
    assert all(str(breach) in str(found) for breach in found.breaches)
    assert [breach["entry"] for breach in found.document["breaches"]] == [breach.entry for breach in found.breaches]


def test_p7_a_broken_chain_is_found(copied):
    rewrite(copied, in_line(5, time=1), chain=False)
    assert (5, "chain") in {(breach.entry, breach.rule) for breach in audit_ledger(copied).breaches}


def test_p7_a_missing_entry_is_found(copied):
    rewrite(copied, lambda lines: lines[:4] + lines[5:], chain=False)
    found = audit_ledger(copied)
    assert str(found.breaches[0]) == "entry 5: it is missing (chain)"
    assert "recount" not in {breach.rule for breach in found.breaches}
    assert found.entries == 13


def test_p7_entries_of_other_numbers_are_found(copied):
    """Neither a gap of any size nor a number below the first one hides an entry."""

    def change(lines):
        lines[-1]["number"] = 10**12
        lines.insert(0, lines[0] | {"number": 0})

    rewrite(copied, change)
    found = {(breach.entry, breach.rule): breach.words for breach in audit_ledger(copied).breaches}
    assert found[14, "chain"] == "it is missing, and so are those up to entry 999999999999"
    assert found[0, "chain"] == "its number is not above 0, the number before it"


def test_p7_a_history_written_anew_is_found_with_what_was_kept(written, copied):
    def another(record):
        record["value"] = round(record["value"] * (ROWS << 20) + 1) / (ROWS << 20)

    rewrite(copied, in_response(3, another))
    kept = written[1]
    found = audit_ledger(copied, receipts=kept)
    assert (2, "receipt") in {(breach.entry, breach.rule) for breach in found.breaches}
    assert any("an answer that was kept" in breach.words for breach in found.breaches)
    later = audit_ledger(copied, receipts=[kept[3].certificate])
    assert [breach.rule for breach in later.breaches if breach.entry == 6] == ["receipt"]


def test_p7_a_ledger_that_was_cut_off_is_found_with_a_receipt(written, copied):
    receipt = verify(written[0]).receipt
    rewrite(copied, lambda lines: lines[:9])
    assert audit_ledger(copied).breaches == ()
    assert [(breach.entry, breach.rule) for breach in audit_ledger(copied, receipts=[receipt]).breaches] == [(14, "receipt")]


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"cap": 10**15}, "the plan counts on"),
        ({"iid": 0}, "whether rows are independent"),
        ({"kind": "zcdp"}, "the ledger counts in zcdp"),
        ({"plan": '{"plan":"ask"}'}, "cannot be read"),
        ({"card": '{"columns":[],"rows":10}'}, "the card has 10"),
        ({"card": "{}"}, "is malformed"),
    ],
)
def test_terms_that_are_not_those_of_the_plan_are_found(copied, terms, words):
    rewrite(copied, lambda _: None, terms=terms)
    found = audit_ledger(copied)
    assert any(breach.entry == 0 and words in breach.words for breach in found.breaches)
    assert "the terms: " in str(found)


def test_other_data_are_found(written):
    found = audit_ledger(written[0], data=TABLE | {"y": 1 - TABLE["y"]})
    assert [(breach.entry, breach.rule) for breach in found.breaches] == [(0, "data")]
    found = audit_ledger(written[0], data={"z": [1, 2]})
    assert [(breach.entry, breach.rule) for breach in found.breaches] == [(0, "data")]


HOLDOUTS = {
    "scores": {},
    "weights": {"weights": 1 + np.arange(ROWS) % 7},
    "gate": {"yes": 3, "incumbent": TABLE["x"]},
    "private gate": {"yes": 3, "private": True, "epsilon": 30},
    "reusable": {"train": TABLE["x"], "overfits": 3},
}


@pytest.mark.parametrize("mode", HOLDOUTS)
def test_holdouts_of_every_mode_keep_the_rules(tmp_path, mode):
    path, given = tmp_path / "cases.ledger", HOLDOUTS[mode]
    with ht.Holdout(TABLE["y"], looks=20, ledger=path, **given) as holdout:
        for submitted in (TABLE["age"] > 50, 1 - TABLE["x"], TABLE["y"]):
            if "yes" in given:
                holdout.gate(submitted)
            else:
                holdout.score(submitted, **({"train": TABLE["x"]} if "train" in given else {}))
    data = {"y_true": TABLE["y"]} | {name: given[name] for name in given if name == "weights"}
    found = audit_ledger(path, data=data)
    assert found.breaches == ()
    assert found.responses >= 3


@pytest.mark.parametrize("name", ["interval", "sample_interval"])
def test_a_score_with_a_narrower_interval_is_found(tmp_path, name):
    path = tmp_path / "cases.ledger"
    with ht.Holdout(TABLE["y"], looks=20, ledger=path) as holdout:
        holdout.score(TABLE["x"])

    def narrow(record):
        middle = (record[name]["low"] + record[name]["high"]) / 2
        record[name] |= {"low": middle - 0.001, "high": middle + 0.001}

    rewrite(path, in_response(2, narrow))
    assert (2, "interval") in {(breach.entry, breach.rule) for breach in audit_ledger(path).breaches}


def test_open_ended_intervals_are_recomputed_by_what_was_spent(tmp_path):
    path = tmp_path / "open.ledger"
    with ht.Curator(TABLE, epsilon=1, delta=1e-6, iid=True, ledger=path) as curator:
        for text in ("x = y", "age > 10", "age > 20"):
            curator.ask(text)
        curator.select({"young": "age < 30", "old": "age > 60"})
        curator.ask("age > 40")
    assert audit_ledger(path)

    def earlier(lines):
        first, last = told(lines, 2)[0], told(lines, 10)
        ends = first[0]["interval"]["high"] - first[0]["interval"]["low"]
        value = last[0][0]["value"]
        last[0][0]["interval"] |= {"low": value - ends / 2, "high": value + ends / 2}
        last[1]()

    rewrite(path, earlier)
    assert [(breach.entry, breach.rule) for breach in audit_ledger(path).breaches] == [(10, "interval")]


def test_a_ledger_without_a_plan_is_audited_for_the_rest(tmp_path):
    path = tmp_path / "bare.ledger"
    with open_ledger(path, kind="gdp", cap=10**6, fingerprint=lambda key: key.hex()):
        pass
    found = audit_ledger(path)
    assert found
    assert found.notes == ("the ledger has no plan: its intervals were not recomputed",)


def test_what_is_no_ledger_is_refused(tmp_path, written):
    with pytest.raises(ht.UnknownName):
        audit_ledger(tmp_path / "nothing.ledger")
    with pytest.raises(ht.InvalidParameter, match="receipts must be"):
        audit_ledger(written[0], receipts=["entry 3"])


def test_terms_that_were_changed_are_told(copied):
    engine = sa.create_engine(f"sqlite:///{copied}", poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.execute(TERMS.update().values(cap=10**15))
    found = audit_ledger(copied)
    assert [breach.entry for breach in found.breaches] == [0]
    assert "nothing else could be checked" in found.notes[0]

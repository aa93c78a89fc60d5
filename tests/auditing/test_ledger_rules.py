"""Rules of a ledger, one by one: each entry as it was written keeps them, and each change breaks the rule that it should."""

import dataclasses
import json

import numpy as np
import pytest
from msgspec.structs import replace

import holdtrue as ht
from holdtrue.auditing.findings import Breach
from holdtrue.auditing.ledger import _LedgerAudit, audit_ledger
from holdtrue.auditing.ledger.ledger_rules import LedgerRules
from holdtrue.codec import encode
from holdtrue.events import NonPrivate, Pure
from holdtrue.ledgers import open_ledger

ROWS = 4000
TABLE = {"age": np.arange(ROWS) % 100, "x": np.arange(ROWS) % 2}


@pytest.fixture(scope="module")
def asked():
    """The terms and entries of a ledger: a charge with its response, a batch with its response, a choice with its own."""
    with ht.Curator(TABLE, queries=10, iid=True, epsilon=4, delta=1e-6) as curator:
        curator.ask("x = 1")
        curator.ask(["age > 30", "age / 100"])
        curator.select({"young": "age < 30", "old": "age > 60"})
        return curator.ledger.terms, list(curator.ledger.entries())


@pytest.fixture(scope="module")
def scored():
    """The terms and entries of a holdout's ledger with three scores."""
    truth = TABLE["x"]
    with ht.Holdout(truth, looks=20, beta=0.05) as holdout:
        for errors in (100, 400, 900):
            holdout.score(np.where(np.arange(ROWS) < errors, 1 - truth, truth))
        return holdout.ledger.terms, list(holdout.ledger.entries())


def follow(terms, entries):
    """Return what the rules find, in the order of the entries, with the entry's number."""
    rules = LedgerRules.of(terms)
    charges, found = {}, [(0, rule, words) for rule, words in rules.check_terms()]
    for entry in entries:
        if entry.kind == "charge":
            charges[entry.number] = entry
            found += [(entry.number, *each) for each in rules.check_charge(entry)]
        elif entry.kind == "response":
            found += [(entry.number, *each) for each in rules.check_response(charges[entry.answers], entry)]
    return found


def change(entries, number, **fields):
    return [replace(entry, **fields) if entry.number == number else entry for entry in entries]


def change_record(entries, number, act, place=0):
    """Return the entries with one record of a response changed by a function."""
    records = json.loads(entries[number - 1].body)
    act(records[place])
    return change(entries, number, body="[" + ",".join(map(encode, records)) + "]")


def test_what_was_written_keeps_the_rules(asked, scored):
    assert follow(*asked) == []
    assert follow(*scored) == []


def test_rules_know_the_rows_and_the_plan(asked, scored):
    rules = LedgerRules.of(asked[0])
    assert (rules.rows, rules.plan.queries, rules.has_runs) == (ROWS, 10, False)
    assert LedgerRules.of(scored[0]).rows == ROWS


# Terms


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cap": 1}, "the cap is 1 units, and the plan counts on"),
        ({"kind": "zcdp"}, "the ledger counts in zcdp, and the plan in gdp"),
        ({"iid": False}, "disagree on whether rows are independent"),
    ],
)
def test_terms_that_differ_from_the_plan_are_told(asked, fields, words):
    terms, _ = asked
    found = list(LedgerRules.of(dataclasses.replace(terms, **fields)).check_terms())
    assert [rule for rule, _ in found] == ["plan"]
    assert words in found[0][1]


def test_fewer_rows_than_the_plan_needs_are_told(asked):
    terms, _ = asked
    card = json.loads(terms.card) | {"rows": 17}
    found = list(LedgerRules.of(dataclasses.replace(terms, card=json.dumps(card))).check_terms())
    assert len(found) == 1
    assert "the card has 17" in found[0][1]


@pytest.mark.parametrize("fields", [{"plan": "{"}, {"card": "[1]"}, {"plan": '{"plan": {}}'}, {"card": "7"}])
def test_a_plan_or_a_card_that_cannot_be_read_is_told_and_is_no_error(asked, fields):
    terms, _ = asked
    found = list(LedgerRules.of(dataclasses.replace(terms, **fields)).check_terms())
    assert [rule for rule, _ in found] == ["plan"]


# Charges


def test_draws_are_followed_from_charge_to_charge(asked):
    terms, entries = asked
    rules = LedgerRules.of(terms)
    drawn = []
    for entry in entries:
        if entry.kind == "charge":
            assert list(rules.check_charge(entry)) == []
            drawn.append((rules.drawn, rules.other))
    assert [each for each, _ in drawn] == [1, 3, 3]
    assert drawn[1][1] == 0 < drawn[2][1] == entries[4].cost


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"verb": "steal"}, "'steal' is not a verb of a charge"),
        ({"body": "{}"}, "its body is not that of a charge"),
        ({"body": None}, "its body is not that of a charge"),
        ({"body": '{"draws":-1,"parts":[],"request":{}}'}, "its body is not that of a charge"),
    ],
)
def test_a_charge_that_no_ledger_writes_is_told(asked, fields, words):
    terms, entries = asked
    found = follow(terms, change(entries[:1], 1, **fields))
    assert found == [(1, "form", words)]


# Responses


def test_a_response_of_another_number_of_answers_is_told(asked):
    terms, entries = asked
    one = json.loads(entries[1].body)
    found = follow(terms, change(entries[:2], 2, body="[" + ",".join(map(encode, one * 2)) + "]"))
    assert found == [(2, "response", "it does not answer what entry 1 asked")]


@pytest.mark.parametrize("body", ["", "[", "[]", '[{"record":"nothing"}]', "7"])
def test_a_response_that_cannot_be_read_is_told(asked, body):
    terms, entries = asked
    assert follow(terms, change(entries[:2], 2, body=body)) == [(2, "response", "it does not answer what entry 1 asked")]


@pytest.mark.parametrize(
    ("name", "value"), [("entry", 7), ("cost", 0.5), ("spent", 0.0), ("left", 1.0), ("epsilon", 0.1), ("delta", 0.0)]
)
def test_a_certificate_that_says_something_else_is_told(asked, name, value):
    terms, entries = asked
    found = follow(terms, change_record(entries, 2, lambda record: record["certificate"].update({name: value})))
    assert [(number, rule) for number, rule, _ in found] == [(2, "certificate")]
    assert f"its certificate says {name} {value}" in found[0][2]


def test_a_certificate_may_claim_less_than_its_event_and_never_another_one(asked):
    terms, entries = asked

    def certify(event):
        written = json.loads(encode(event))
        return change_record(entries, 2, lambda record: record["certificate"].update({"event": written}))

    assert follow(terms, certify(NonPrivate())) == []
    assert [words for *_, words in follow(terms, certify(Pure(1)))] == ["its certificate names another event than entry 1"]


def test_a_value_off_the_public_grid_is_told(asked):
    terms, entries = asked
    found = follow(terms, change_record(entries, 2, lambda record: record.update({"value": 1 / 3})))
    assert "interval" in {rule for _, rule, _ in found}
    assert any("not on the public grid" in words for *_, words in found)


@pytest.mark.parametrize("name", ["interval", "sample_interval"])
@pytest.mark.parametrize("place", [0, 1])
def test_an_interval_that_is_not_that_of_the_plan_is_told(asked, name, place):
    terms, entries = asked

    def narrow(record):
        record[name]["low"] += 0.001

    found = follow(terms, change_record(entries, 4, narrow, place))
    assert [(number, rule) for number, rule, _ in found] == [(4, "interval")]
    assert "and the plan gives" in found[0][2]


def test_an_interval_that_is_left_out_is_told(asked):
    terms, entries = asked
    found = follow(terms, change_record(entries, 2, lambda record: record.update({"interval": None})))
    assert found == [(2, "interval", "it has no interval for the population, which the plan promises")]


def test_an_interval_for_another_target_or_confidence_is_told(asked):
    terms, entries = asked
    for field, value in (("target", "sample"), ("confidence", 0.99)):
        found = follow(
            terms,
            change_record(entries, 2, lambda record, field=field, value=value: record["interval"].update({field: value})),
        )
        assert [rule for _, rule, _ in found] == ["interval"]


def test_a_question_other_than_the_one_that_was_answered_is_told(asked):
    terms, entries = asked
    body = entries[0].body.replace("x = 1", "x = 0")
    assert body != entries[0].body
    found = follow(terms, change(entries, 1, body=body))
    assert (2, "request", "entry 1 lists other questions than those that were answered") in found


def test_more_draws_than_planned_are_told(asked):
    terms, entries = asked
    rules = LedgerRules.of(terms)
    rules.drawn = 10
    list(rules.check_charge(entries[0]))
    found = list(rules.check_response(entries[0], entries[1]))
    assert ("plan", "it answers draw 11, and 10 were planned") in found


def test_other_verbs_beyond_their_reserve_are_told(asked):
    terms, entries = asked
    rules = LedgerRules.of(terms)
    rules.other = rules.plan.reserve_units
    list(rules.check_charge(entries[4]))
    found = list(rules.check_response(entries[4], entries[5]))
    assert [rule for rule, _ in found] == ["plan"]
    assert "were reserved" in found[0][1]


def test_a_draw_that_cost_less_than_the_plan_says_is_told(asked):
    terms, entries = asked
    found = follow(terms, change(entries, 1, cost=entries[0].cost - 1))
    assert ("cost", f"entry 1 costs {entries[0].cost - 1} units for 1 draws of {entries[0].cost}") in [
        (rule, words) for _, rule, words in found
    ]


# Scores


def test_a_score_with_a_narrower_interval_for_these_cases_is_told(scored):
    terms, entries = scored

    def narrow(record):
        record["sample_interval"] |= {"low": record["value"] - 0.001, "high": record["value"] + 0.001}

    found = follow(terms, change_record(entries, 4, narrow))
    assert any(rule == "interval" and "does not follow from the noise" in words for _, rule, words in found)


def test_a_score_with_a_narrower_interval_for_the_population_is_told(scored):
    terms, entries = scored

    def narrow(record):
        record["interval"] |= {"low": record["value"] - 0.001, "high": record["value"] + 0.001}

    found = follow(terms, change_record(entries, 4, narrow))
    assert [(number, rule) for number, rule, _ in found] == [(4, "interval")]


# The running state


def audit(terms, entries, receipts=()):
    state = _LedgerAudit(terms, LedgerRules.of(terms))
    state.check_all(entries, receipts=receipts, data=None)
    return state


def test_totals_are_computed_and_never_taken_from_the_ledger(asked):
    terms, entries = asked
    found = audit(terms, change(entries, 3, spent=entries[2].spent - 1))
    assert {(each.entry, each.rule) for each in found.breaches} >= {(3, "total")}
    assert found.spent == sum(entry.cost for entry in entries)


@pytest.mark.parametrize("name", ["draws", "other_spent", "charges"])
def test_totals_of_the_plan_are_recounted(asked, name):
    terms, entries = asked
    changed = change(entries, 6, **{name: getattr(entries[5], name) + 1})
    found = [each for each in audit(terms, changed).breaches if each.rule == "total"]
    assert [each.entry for each in found] == [6]
    assert name in found[0].words


def test_a_missing_run_of_entries_is_told_once(asked):
    terms, entries = asked
    found = audit(terms, [entries[0], *entries[3:]])
    missing = [each for each in found.breaches if "missing" in each.words]
    assert missing == [Breach(2, "chain", "it is missing, and so are those up to entry 3")]


def test_receipts_are_compared_with_what_is_there(asked):
    terms, entries = asked
    good = [(0, terms.digest), entries[1].receipt, entries[-1].receipt]
    assert audit(terms, entries, good).breaches == []
    bad = [(2, "0" * 64), (99, entries[1].digest)]
    assert {(each.entry, each.words) for each in audit(terms, entries, bad).breaches} == {
        (2, "it is not the entry of the receipt"),
        (99, "there is a receipt for it, and it is missing"),
    }


def test_a_cost_that_is_no_whole_number_ends_the_look_at_that_entry(asked):
    terms, entries = asked
    found = audit(terms, change(entries, 1, cost=0.5))
    words = [each.words for each in found.breaches if each.entry == 1 and each.rule == "total"]
    assert words == ["its cost or its total is not a whole number"]


def test_what_was_checked_is_counted_by_rule(asked):
    terms, entries = asked
    found = audit(terms, entries).make_inspection("here", entries)
    assert dict(found.checked)["chain"] == len(entries) == found.entries
    assert dict(found.checked)["cost"] == found.charges == 3
    assert (found.responses, found.where, found.head) == (3, "here", entries[-1].digest)
    assert found.left == terms.cap - found.spent
    assert found


def test_a_ledger_of_a_rehearsal_is_told_to_have_no_guarantee(tmp_path):
    path = tmp_path / "plain.ledger"
    with open_ledger(path, kind="pure", cap=10**15, fingerprint=lambda _: "none") as ledger:
        ledger.charge(request_id="a", request_digest="0" * 64, analyst="ann", verb="ask", event=Pure(0.25))
        entry = ledger.entries()[0]
        state = _LedgerAudit(ledger.terms, LedgerRules.of(ledger.terms))
        assert list(state._check_cost(entry)) == []
        unsafe = replace(entry, event=encode(NonPrivate()))
        assert list(state._check_cost(unsafe)) == [("privacy", "its event carries no guarantee (NonPrivate)")]
        cheap = replace(entry, cost=entry.cost - 1)
        assert [rule for rule, _ in state._check_cost(cheap)] == ["cost"]
        assert [rule for rule, _ in state._check_cost(replace(entry, event="nothing"))] == ["cost"]
    assert audit_ledger(path)

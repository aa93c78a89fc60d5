"""Findings read back as they were written, and say what they are."""

import json
import math

import pytest

import holdtrue as ht
from holdtrue.auditing import Finding
from holdtrue.auditing.findings import Breach, Inspection, check_enough

FOUND = Finding(
    "epsilon", 1.0, 1.5, 0.95, 1000, "the <output> is large", "It is wrong.", delta=1e-6, notes=(("pair", "0, 1"),)
)


@pytest.mark.parametrize("finding", [FOUND, Finding("total variation", 0.1, math.inf, 1.0, 0, "x", "y")])
def test_a_finding_reads_back(finding):
    text = json.dumps(finding.document, allow_nan=False)
    assert Finding.read(text) == Finding.read(json.loads(text)) == finding
    assert json.loads(text)["violated"] is True


def test_text_and_html_say_all_and_escape_it():
    assert FOUND.violated
    assert not Finding("epsilon", 1.0, 1.0, 0.95, 1, "x", "y").violated
    for words in ("It is wrong.", "VIOLATED", "1.5", "0.95", "1,000", "delta 1e-06", "0, 1"):
        assert words in str(FOUND)
        assert words in FOUND._repr_html_()
    assert "&lt;output&gt;" in FOUND._repr_html_()


def test_a_finding_that_contradicts_itself_is_refused():
    with pytest.raises(ht.InvalidParameter, match="violated"):
        Finding.read(FOUND.document | {"violated": False})
    with pytest.raises(ht.InvalidParameter, match="fields"):
        Finding.read({"record": "finding"})
    with pytest.raises(ht.InvalidParameter, match="lower_bound"):
        Finding("epsilon", 1.0, math.nan, 0.95, 1, "x", "y")
    with pytest.raises(ht.InvalidParameter, match="confidence"):
        Finding("epsilon", 1.0, 1.0, 0.0, 1, "x", "y")


def test_a_finding_says_in_its_sentence_whether_the_claim_is_contradicted():
    wrong = Finding.of("epsilon", 1.0, 1.5, 0.95, 100, "an event", delta=1e-6)
    assert wrong.sentence == (
        "With confidence 0.95, epsilon at delta 1e-06 is at least 1.5: more than the 1 claimed. The claim is wrong."
    )
    right = Finding.of("AUC", 0.54, 0.5, 0.99, 100, "an event", what="the AUC of time")
    assert right.sentence == (
        "With confidence 0.99, the AUC of time is at least 0.5; 0.54 is claimed. Nothing here contradicts the claim."
    )


def test_a_bound_equal_to_the_claim_contradicts_nothing():
    equal = Finding.of("epsilon", 1.0, 1.0, 0.95, 100, "an event")
    assert not equal.violated
    assert "Nothing here contradicts" in equal.sentence


def test_lines_of_a_finding_have_its_notes_last():
    assert [name for name, _ in FOUND.lines()] == ["verdict", "claimed", "lower bound", "samples", "event", "pair"]
    assert dict(Finding("epsilon", 1.0, 0.5, 0.95, 1, "x", "y").lines())["verdict"] == "not violated"


def test_infinite_numbers_are_written_as_text_in_json():
    finding = Finding("epsilon", math.inf, -math.inf, 1.0, 0, "x", "y")
    document = finding.document
    assert (document["claimed"], document["lower_bound"]) == ("inf", "-inf")
    assert Finding.read(document) == finding


@pytest.mark.parametrize("change", [{"record": "inspection"}, {"extra": 1}, {"notes": None}, {"claimed": "much"}], ids=str)
def test_what_is_no_finding_is_refused(change):
    with pytest.raises((ht.InvalidParameter, TypeError, ValueError)):
        Finding.read(FOUND.document | change)


# How many samples could show something


def test_enough_samples_are_let_through():
    check_enough(100, lambda number: number >= 100, of="samples", show="anything")


@pytest.mark.parametrize("least", [101, 137, 200, 201, 100_000])
def test_too_few_samples_say_the_least_that_would_do(least):
    with pytest.raises(ht.InsufficientSamples, match=f"100 runs cannot show a leak; use at least {least:,}") as short:
        check_enough(100, lambda number: number >= least, of="runs", show="a leak")
    assert short.value.required == least


def test_where_no_number_would_do_that_is_said():
    with pytest.raises(ht.InsufficientSamples, match="no number of runs can show a leak") as never:
        check_enough(100, lambda _: False, of="runs", show="a leak")
    assert never.value.required is None
    with pytest.raises(ht.InsufficientSamples, match="no number") as beyond:
        check_enough(100, lambda number: number >= 10_000, of="runs", show="a leak", most=1000)
    assert beyond.value.required is None


# Inspections


def inspection(*breaches, **given):
    facts = {"where": "people.ledger", "ledger_id": "ab", "entries": 12, "charges": 5, "responses": 4, "spent": 10**15}
    rest = {"left": 3 * 10**15, "currency": "mu squared", "head": "cd" * 32, "checked": (("chain", 12), ("cost", 5))}
    return Inspection(**facts | rest | {"breaches": tuple(breaches)} | given)


def test_a_breach_names_its_entry_or_the_terms():
    assert str(Breach(7, "chain", "it is missing")) == "entry 7: it is missing (chain)"
    assert str(Breach(0, "plan", "the plan cannot be read")) == "the terms: the plan cannot be read (plan)"


def test_breaches_are_sorted_by_entry():
    breaches = [Breach(9, "cost", "b"), Breach(2, "total", "c"), Breach(2, "chain", "a")]
    assert [(each.entry, each.rule) for each in sorted(breaches)] == [(2, "chain"), (2, "total"), (9, "cost")]


def test_an_inspection_is_true_where_no_rule_is_broken():
    whole, broken = inspection(), inspection(Breach(1, "chain", "it is missing"))
    assert whole
    assert not whole.violated
    assert not broken
    assert broken.violated
    assert whole.receipt == (12, "cd" * 32)


@pytest.mark.parametrize(
    ("number", "words"), [(0, "All rules are kept:"), (1, "1 rule is broken:"), (2, "2 rules are broken:")]
)
def test_an_inspection_says_how_many_rules_are_broken(number, words):
    found = inspection(*[Breach(place, "chain", "it is missing") for place in range(number)])
    assert found.sentence.startswith(words)
    assert "12 entries, 5 charges and 4 responses" in found.sentence


def test_an_inspection_reads_as_text_html_and_json():
    found = inspection(Breach(3, "cost", "it <costs> less"), notes=("the ledger has no plan",))
    for words in (
        "VIOLATED",
        "people.ledger",
        "1 spent, 3 left of mu squared",
        "chain 12, cost 5",
        "the ledger has no plan",
    ):
        assert words in str(found)
        assert words in found._repr_html_()
    assert "&lt;costs&gt;" in found._repr_html_()
    document = json.loads(json.dumps(found.document))
    assert (document["record"], document["violated"], document["checked"]) == ("inspection", True, {"chain": 12, "cost": 5})
    assert document["breaches"] == [{"entry": 3, "rule": "cost", "words": "it <costs> less"}]

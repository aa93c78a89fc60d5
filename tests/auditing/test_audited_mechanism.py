"""What is audited, with what is claimed of it: samples, bits, power, verdicts and progress."""

import math
from dataclasses import replace

import numpy as np
import pytest

from holdtrue.auditing.catalogue import (
    CONTROLS,
    AuditResult,
    audit_all,
    confidence_of_each,
    count_deviations,
    list_mechanisms,
)
from holdtrue.auditing.catalogue.faults import FAULTS
from holdtrue.auditing.catalogue.mechanism import AuditedMechanism, TellingEvent, power_of_counts
from holdtrue.auditing.findings import Finding
from holdtrue.entropy import SYSTEM
from holdtrue.errors import UnknownName
from holdtrue.testing import SeededBits


def answer_bit(data, count, bits):
    """Return randomised response of epsilon 1 on one bit."""
    heads = (bits.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53 < 1 / (1 + math.exp(-1))
    return np.where(heads, data, 1 - data)


def tell_bit():
    likely = 1 / (1 + math.exp(-1))
    return TellingEvent("the output is 0", "left", likely, 1 - likely, lambda outputs: np.asarray(outputs) == 0)


RIGHT = AuditedMechanism("a group", "randomised response", answer_bit, (0, 1), 1.0, truth=1.0)
WRONG = replace(RIGHT, name="oversold", epsilon=0.5, why="epsilon is 1", least=20_000, telling=tell_bit)


def result(mechanism, bound, power=None):
    finding = Finding.of("epsilon", mechanism.epsilon, bound, 0.95, 1000, "an event")
    return AuditResult(mechanism, finding, power)


# One mechanism


def test_sides_are_those_of_the_pair():
    assert (RIGHT.left, RIGHT.right) == (0, 1)
    assert RIGHT.sound
    assert not WRONG.sound


def test_a_mechanism_draws_from_the_bits_it_is_given():
    assert RIGHT.bits is SYSTEM
    seeded = [RIGHT.drawing_from(SeededBits("same")).run(0, 500).tolist() for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert RIGHT.drawing_from(SeededBits("other")).run(0, 500).tolist() != seeded[0]


def test_what_is_slow_takes_its_most_and_no_more():
    assert RIGHT.limit_samples(10**9) == 10**9
    slow = replace(RIGHT, most=300)
    assert (slow.limit_samples(10**9), slow.limit_samples(20)) == (300, 20)
    assert slow.drawing_from(SeededBits("slow")).audit(samples=10**6).samples == 300


def test_an_audit_compares_with_the_claim_of_the_mechanism():
    found = RIGHT.drawing_from(SeededBits("right")).audit(samples=20_000, confidence=0.9999)
    assert (found.claimed, found.delta, found.confidence) == (1.0, 0.0, 0.9999)
    assert 0.8 < found.lower_bound <= 1.0
    assert WRONG.drawing_from(SeededBits("wrong")).audit(samples=20_000, confidence=0.9999).violated


def test_power_is_that_of_the_telling_event_and_of_the_runs_that_are_counted():
    assert RIGHT.find_power(samples=20_000, confidence=0.95) is None
    searching = replace(WRONG, search=0.9)
    few, many = (each.find_power(samples=2000, confidence=1 - 1e-9) for each in (searching, WRONG))
    assert few < many <= 1
    assert WRONG.find_power(samples=20_000, confidence=0.95) > 0.999
    capped = replace(WRONG, most=400)
    assert capped.find_power(samples=10**6, confidence=0.99) == WRONG.find_power(samples=400, confidence=0.99)


def test_power_rises_with_what_the_event_tells():
    def power(likely):
        telling = TellingEvent("it", "left", likely, 0.2, np.isfinite)
        return power_of_counts(telling, claimed=0.3, delta=0.0, runs=2000, alpha=0.01)

    found = [power(likely) for likely in (0.21, 0.25, 0.3, 0.35, 0.5)]
    assert found == sorted(found)
    assert found[0] < 0.01
    assert found[-1] > 0.999


def test_an_event_that_the_claim_allows_is_found_with_less_than_its_level():
    telling = TellingEvent("it", "left", 0.3, 0.3 * math.exp(-0.5), np.isfinite)
    assert power_of_counts(telling, claimed=0.5, delta=0.0, runs=5000, alpha=0.05) <= 0.05


def test_slack_that_explains_the_event_leaves_no_power():
    telling = TellingEvent("it", "left", 0.01, 0.0, np.isfinite)
    without, within = (power_of_counts(telling, claimed=0.1, delta=delta, runs=5000, alpha=0.01) for delta in (0.0, 0.02))
    assert without > 0.99
    assert within < 0.01


# Verdicts


@pytest.mark.parametrize(
    ("mechanism", "bound", "verdict", "expected"),
    [
        (RIGHT, 0.9, "holds", True),
        (RIGHT, 1.1, "violated", False),
        (WRONG, 0.9, "found", True),
        (WRONG, 0.4, "not found", False),
    ],
)
def test_a_verdict_says_whether_it_is_the_expected_one(mechanism, bound, verdict, expected):
    found = result(mechanism, bound)
    assert (found.verdict, found.as_expected) == (verdict, expected)
    assert found.control is (mechanism is WRONG)


def test_a_result_as_json_says_what_was_expected_and_why():
    right, wrong = result(RIGHT, 0.9).document, result(WRONG, 0.9, 0.5).document
    assert (right["expected"], right["why"], right["power"]) == ("holds", "the claim is right", None)
    assert (wrong["expected"], wrong["why"], wrong["power"]) == ("found", "epsilon is 1", 0.5)
    assert (right["group"], right["mechanism"], right["truth"]) == ("a group", "randomised response", 1.0)
    assert wrong["finding"]["lower_bound"] == 0.9
    assert result(replace(WRONG, truth=math.inf), 0.9).document["truth"] == "inf"


@pytest.mark.parametrize(
    ("power", "shown"), [(None, ""), (1.0, "0.999999"), (0.9999999, "0.999999"), (0.1234567, "0.123456"), (0.0, "0.000000")]
)
def test_a_power_that_is_not_certain_never_reads_as_1(power, shown):
    assert result(WRONG, 0.9, power).shown_power == shown


# Many mechanisms


def test_everything_is_listed_but_what_takes_minutes():
    listed = list_mechanisms()
    assert {"ASK, normal noise", "Laplace mechanism", "half the noise", "SVT1"} <= {each.name for each in listed}
    assert all(each.sound or each.telling is not None for each in listed)
    assert [each.name for each in list_mechanisms(only="SVT6")] == ["SVT6"]


def test_some_are_listed_by_words_of_their_names_or_groups():
    assert {each.name for each in list_mechanisms(only="rappor")} == {"Rappor"}
    assert {each.group for each in list_mechanisms(only="published")} == {"published zoo"}
    assert len(list_mechanisms(only="noisy max")) == 2
    assert [each.name for each in list_mechanisms(only=CONTROLS.upper())] == [fault.name for fault in FAULTS]


def test_a_name_that_nothing_has_is_refused_with_all_that_there_are():
    with pytest.raises(UnknownName, match="Permute-and-flip") as wrong:
        list_mechanisms(only="permute and flap")
    assert "'permute and flap'" in str(wrong.value)


def test_what_may_fail_is_shared_equally():
    assert confidence_of_each(1, confidence=0.95) == pytest.approx(0.95)
    assert confidence_of_each(5, confidence=0.95) == pytest.approx(0.99)
    assert count_deviations(1, confidence=0.95) == pytest.approx(1.96, abs=0.01)


def test_controls_get_the_samples_that_they_need_and_claims_those_that_are_asked_for():
    seeded = [each.drawing_from(SeededBits(each.name)) for each in (RIGHT, WRONG)]
    right, wrong = audit_all(seeded, samples=5000, confidence=0.9)
    assert (right.finding.samples, wrong.finding.samples) == (5000, 20_000)
    assert right.power is None
    assert wrong.power == WRONG.find_power(samples=20_000, confidence=0.95)
    assert (right.verdict, wrong.verdict) == ("holds", "found")


def test_results_come_one_by_one_and_progress_only_rises():
    heard = []
    seeded = [replace(RIGHT, name=f"number {number}").drawing_from(SeededBits(f"{number}")) for number in range(3)]
    results = audit_all(seeded, samples=2000, confidence=0.9, tick=heard.append)
    first = next(results)
    assert first.mechanism.name == "number 0"
    assert first.mechanism.law is answer_bit
    assert heard[-1] == pytest.approx(1 / 3, abs=0.01)
    assert len(list(results)) == 2
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0, abs=0.01)

"""Holdtrue's own mechanisms and verbs, audited end to end: as private as claimed, and no more; a planted fault is caught."""

from dataclasses import replace

import numpy as np
import pytest

from holdtrue.auditing.catalogue import audit_all, list_mechanisms
from holdtrue.auditing.catalogue.own_mechanisms import MECHANISMS, VERBS
from holdtrue.entropy import SYSTEM
from holdtrue.errors import UnknownName
from holdtrue.mechanisms import Exponential, Gaussian

OWN = (*MECHANISMS, *VERBS)
NAMED = {mechanism.name: mechanism for mechanism in OWN}
# Curators draw from the system's bits only, so a run can fail by chance: by this much and no more.
SURE = 1 - 1e-7
FEW = {"ASK, normal noise": 4000, "ASK, Laplace noise": 3000, "PREDICT": 2000, "Above threshold": 3000}


@pytest.mark.parametrize("name", sorted(mechanism.name for mechanism in MECHANISMS if mechanism.most is None))
def test_a_mechanism_is_as_private_as_it_claims_and_no_more(name):
    mechanism = NAMED[name]
    found = mechanism.audit(samples=200_000, confidence=SURE)
    assert not found.violated
    assert found.lower_bound >= 0.8 * mechanism.epsilon


@pytest.mark.parametrize("name", sorted(mechanism.name for mechanism in OWN if mechanism.most is not None))
def test_a_verb_is_as_private_as_it_claims(name):
    """Few samples, and so sure that the bound is far below the claim; the whole audit is ``holdtrue audit self``."""
    mechanism = NAMED[name]
    found = mechanism.audit(samples=FEW.get(name, 1000), confidence=SURE)
    assert not found.violated
    assert found.lower_bound > 0


@pytest.mark.parametrize("mechanism", VERBS, ids=lambda mechanism: mechanism.name)
def test_outputs_through_a_curator_differ_between_neighbours(mechanism):
    assert np.flatnonzero((mechanism.left != mechanism.right).any(axis=1)).size == 1
    sides = [np.asarray(mechanism.law(data, 300, SYSTEM), dtype=np.float64) for data in (mechanism.left, mechanism.right)]
    assert all(side.shape == (300,) for side in sides)
    assert np.concatenate(sides).std() > 0


def test_noise_halved_inside_the_curator_is_caught(monkeypatch):
    whole = Gaussian._draw_noise
    monkeypatch.setattr(Gaussian, "_draw_noise", lambda self, size: whole(self, size) // 2)
    found = NAMED["ASK, normal noise"].audit(samples=4000, confidence=SURE)
    assert found.violated
    assert found.lower_bound > 1.2 * found.claimed


def test_scores_weighted_twice_inside_the_curator_are_caught(monkeypatch):
    whole = Exponential._choose_in_rows
    monkeypatch.setattr(Exponential, "_choose_in_rows", lambda self, scores, rate: whole(self, scores, 2 * rate))
    # With e^(epsilon score) in place of e^(epsilon score / 2) one of two equal candidates goes from 1/2 to 1 / (1 + e^6).
    level, moved = (np.repeat([1.0, 0.0], [number, 8 - number])[:, None] for number in (4, 3))
    assert replace(NAMED["SELECT"], pair=(level, moved)).audit(samples=2500, confidence=SURE).violated


def test_every_group_has_its_mechanisms():
    listed = list_mechanisms()
    groups = ["Holdtrue's mechanisms", "Holdtrue's verbs", "planted faults", "published zoo"]
    assert list(dict.fromkeys(each.group for each in listed)) == groups
    names = [each.name for each in listed]
    assert len(set(names)) == len(names)
    assert [each.name for each in list_mechanisms(only="select")] == ["SELECT"]
    assert list_mechanisms(only="controls") == list_mechanisms(only="planted faults")
    assert len(list_mechanisms(only="controls")) == 13
    # The unsound of the zoo take minutes: they are audited where they are asked for.
    assert [each.name for each in list_mechanisms(only="SVT3")] == ["SVT3"]
    assert "SVT3" not in names
    with pytest.raises(UnknownName, match="Laplace mechanism"):
        list_mechanisms(only="nobody")


def test_auditing_all_shares_what_may_fail_and_tells_how_far_it_is():
    heard = []
    listed = list_mechanisms(only="half the noise") + list_mechanisms(only="Laplace mechanism")
    results = list(audit_all(listed, samples=20_000, confidence=0.999998, tick=heard.append))
    assert [each.as_expected for each in results] == [True, True]
    assert [each.verdict for each in results] == ["found", "holds"]
    assert [each.control for each in results] == [True, False]
    assert all(each.finding.confidence == pytest.approx(0.999999, abs=1e-9) for each in results)
    # A fault gets the samples that it needs, what is right as many as are asked for.
    assert [each.finding.samples for each in results] == [100_000, 20_000]
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0, abs=0.01)

"""Holdtrue's own mechanisms and verbs, audited end to end: as private as claimed, and no more; a planted fault is caught."""

from dataclasses import replace

import numpy as np
import pytest

from holdtrue.auditing.galleries import ROOMS, judge, rooms
from holdtrue.auditing.house import HOUSE, MECHANISMS, VERBS
from holdtrue.entropy import SYSTEM
from holdtrue.errors import UnknownName
from holdtrue.mechanisms import Exponential, Gaussian

NAMED = {exhibit.name: exhibit for exhibit in HOUSE}
# Curators draw from the system's bits only, so a run can fail by chance: by this much and no more.
SURE = 1 - 1e-7
FEW = {"ASK, normal noise": 4000, "ASK, Laplace noise": 3000, "PREDICT": 2000, "Above threshold": 3000}


@pytest.mark.parametrize("name", sorted(exhibit.name for exhibit in MECHANISMS if exhibit.most is None))
def test_a_mechanism_is_as_private_as_it_claims_and_no_more(name):
    exhibit = NAMED[name]
    found = exhibit.audit(samples=200_000, confidence=SURE)
    assert not found.violated
    assert found.lower_bound >= 0.8 * exhibit.epsilon


@pytest.mark.parametrize("name", sorted(exhibit.name for exhibit in HOUSE if exhibit.most is not None))
def test_a_verb_is_as_private_as_it_claims(name):
    """Few samples, and so sure that the bound is far below the claim; the whole audit is ``holdtrue audit self``."""
    exhibit = NAMED[name]
    found = exhibit.audit(samples=FEW.get(name, 1000), confidence=SURE)
    assert not found.violated
    assert found.lower_bound > 0


@pytest.mark.parametrize("exhibit", VERBS, ids=lambda exhibit: exhibit.name)
def test_outputs_through_a_curator_differ_between_neighbours(exhibit):
    assert np.flatnonzero((exhibit.left != exhibit.right).any(axis=1)).size == 1
    sides = [np.asarray(exhibit.law(data, 300, SYSTEM), dtype=np.float64) for data in (exhibit.left, exhibit.right)]
    assert all(side.shape == (300,) for side in sides)
    assert np.concatenate(sides).std() > 0


def test_noise_halved_inside_the_curator_is_caught(monkeypatch):
    whole = Gaussian._noise
    monkeypatch.setattr(Gaussian, "_noise", lambda self, size: whole(self, size) // 2)
    found = NAMED["ASK, normal noise"].audit(samples=4000, confidence=SURE)
    assert found.violated
    assert found.lower_bound > 1.2 * found.claimed


def test_scores_weighted_twice_inside_the_curator_are_caught(monkeypatch):
    whole = Exponential._choose
    monkeypatch.setattr(Exponential, "_choose", lambda self, scores, rate: whole(self, scores, 2 * rate))
    # With e^(epsilon score) in place of e^(epsilon score / 2) one of two equal candidates goes from 1/2 to 1 / (1 + e^6).
    level, moved = (np.repeat([1.0, 0.0], [number, 8 - number])[:, None] for number in (4, 3))
    assert replace(NAMED["SELECT"], left=level, right=moved).audit(samples=2500, confidence=SURE).violated


def test_every_room_has_its_exhibits():
    hung = rooms()
    assert {room for room, _ in hung} == set(ROOMS)
    names = [exhibit.name for _, exhibit in hung]
    assert len(set(names)) == len(names)
    assert [exhibit.name for _, exhibit in rooms(only="select")] == ["SELECT"]
    assert rooms(only="controls") == rooms(only="planted faults")
    assert len(rooms(only="controls")) == 13
    # The unsound of the zoo take minutes: they are audited where they are asked for.
    assert [exhibit.name for _, exhibit in rooms(only="SVT3")] == ["SVT3"]
    assert "SVT3" not in names
    with pytest.raises(UnknownName, match="Laplace mechanism"):
        rooms(only="nobody")


def test_judging_shares_what_may_fail_and_tells_how_far_it_is():
    heard = []
    hung = rooms(only="half the noise") + rooms(only="Laplace mechanism")
    judged = list(judge(hung, samples=20_000, confidence=0.9, tick=heard.append))
    assert [each.rightly for each in judged] == [True, True]
    assert [each.verdict for each in judged] == ["found", "holds"]
    assert [each.control for each in judged] == [True, False]
    assert all(each.finding.confidence == pytest.approx(0.95) for each in judged)
    # A fault gets the samples that it needs, what is right as many as are asked for.
    assert [each.finding.samples for each in judged] == [100_000, 20_000]
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0, abs=0.01)

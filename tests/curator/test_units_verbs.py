"""Every verb of a curator on one ledger of units: what it says is about units, and both verifiers accept it (U4)."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import holdtrue as ht

PERSONS = 2_000


@pytest.fixture
def tables():
    random = np.random.default_rng(22)
    owners = random.integers(0, PERSONS, 3 * PERSONS)
    visits = {"person": owners, "urgent": random.random(owners.size) < 0.3, "cost": random.random(owners.size) * 100}
    return {"person": np.arange(PERSONS), "age": random.integers(0, 90, PERSONS)}, {"visits": visits}


def test_u4_every_verb_speaks_of_units(tables, tmp_path):
    people, rows = tables
    place, ends = tmp_path / "units.ledger", {"low": 0, "high": 500}
    bounds = {"visits.cost": (0, 100), "age": (0, 90)}
    terms = {"queries": 150, "epsilon": 8.0, "delta": 1e-6, "reserve": 0.6, "uses": 10}
    often, total, both = "visits.COUNT(*) >= 3", "visits.SUM(cost)", {"visits.SUM(cost)": (0, 500), "age": (0, 90)}
    stumps = ht.Conjunctions(["visits.ANY(urgent)", "age >= 50"], width=1)
    with ht.Curator(people, unit="person", tables=rows, bounds=bounds, ledger=place, **terms) as c:
        said = [
            c.ask("visits.EVERY(urgent)"),
            *c.ask(["visits.AVG(cost) / 100", "age >= 50 AND visits.MAX(cost) > 90"]),
            c.ask("visits.ANY(urgent)", by=ht.cut("age", [45])),
            c.ask(values=np.arange(PERSONS) % 2),
            c.table("visits.ANY(urgent)", ht.cut("visits.COUNT(*)", [1, 3])),
            c.histogram(total, bins=4, **ends),
            c.mean(total, by="visits.ANY(urgent)", **ends),
            c.sum(total, **ends),
            c.median(total, step=10, **ends),
            c.quantile("age", [0.25, 0.75], low=0, high=90, method="curve"),
            c.ratio("visits.COUNT(urgent)", "visits.COUNT(*)", cap=5),
            c.variance(total, **ends),
            c.covariance(total, "age", bounds=both),
            c.correlation(total, "age", bounds=both),
            c.r_squared("visits.MIN(cost)", "visits.MAX(cost)", low=0, high=100),
            c.gini(total, **ends),
            c.auc("visits.MAX(cost)", often, low=0, high=100),
            c.pairs("abs(a.age - b.age)", high=90),
            c.best_error(stumps, target=often),
            c.select({"few": "visits.COUNT(*) < 3", "many": often}),
            c.learn(stumps, target=often),
        ]
        c.train("often", LogisticRegression(), target=often, features=["age", "visits.ANY(urgent)"], parts=40, key="person")
        said.append(c.predict("often", {"age": 30, "visits.ANY(urgent)": True}))
        assert c.predictions_left("often") > 0
        assert {each.certificate.unit for each in said} == {"person"}
        before = len(c.history)
        assert c.ask("visits.EVERY(urgent)").repeated
        assert c.ratio("visits.COUNT(urgent)", "visits.COUNT(*)", cap=5).repeated
        assert c.preview("visits.ANY(urgent)").population == "a random person"
        assert len(c.history) == before
        c.report(tmp_path / "report.html")
    assert ht.verify(place)
    assert not ht.audit_ledger(place, data=(people, rows)).violated
    moved = np.random.default_rng(1).permutation(rows["visits"]["person"].size)
    again = {"visits": {name: column[moved] for name, column in rows["visits"].items()}}
    with ht.Curator(people, unit="person", tables=again, ledger=place) as c:
        assert c.ask("visits.EVERY(urgent)").value == said[0].value

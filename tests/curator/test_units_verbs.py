"""Every verb of a curator on one ledger of units: what it says is about units, and both verifiers accept it (U4)."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import holdtrue as ht
from holdtrue.engines import open_engine
from holdtrue.engines.units import open_units
from holdtrue.exact import UNIT
from holdtrue.planning.tables import loosen, price_table
from holdtrue.verbs.asking import cached_parser
from holdtrue.verbs.tables import read_groups

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


def test_u4_a_table_of_shares_counts_a_unit_in_several_cells(tables, tmp_path):
    """A patient counts by the share of visits in each ward; the further cell is what is left, or all of one without."""
    people, rows = tables
    ward = np.array(["N", "S", "O"])[np.random.default_rng(1).integers(0, 3, rows["visits"]["person"].size)]
    visits = pd.DataFrame(rows["visits"] | {"ward": ward})
    visits.loc[::7, "ward"] = None
    share = {
        label: visits.assign(at=visits["ward"] == label).groupby("person")["at"].mean().reindex(range(PERSONS), fill_value=0)
        for label in ("N", "S")
    }
    terms = {"queries": 60, "epsilon": 8.0, "delta": 1e-6, "iid": True, "labels": {"visits.ward": ["N", "S"]}}
    terms |= {"bounds": {"visits.cost": (0, 100)}, "ledger": tmp_path / "l"}
    with ht.Curator(people, unit="person", tables={"visits": visits}, **terms) as c:
        price = loosen(price_table(c.plan, 4, whole=True), 3, bits=c.plan.bits)
        found = c.table("visits.SHARE(ward)")
        assert found.certificate.cost == pytest.approx(price.cost * UNIT)
        assert found.labels == (("N",), ("S",), (None,))
        truth = [share["N"].mean(), share["S"].mean(), 1 - share["N"].mean() - share["S"].mean()]
        for cell, mean in zip(found, truth, strict=True):
            assert mean in cell.sample_interval
            assert cell.interval is not None
        assert c.table("visits.share( ward )", keys=["N", "S"]).repeated
        old = c.table("age > 45", "visits.SHARE(ward WHERE urgent)", where="age < 80", margins=True)
        urgent = visits[visits["urgent"]]
        at = urgent.assign(at=urgent["ward"] == "S").groupby("person")["at"].mean().reindex(range(PERSONS), fill_value=0)
        assert at[(people["age"] > 45) & (people["age"] < 80)].sum() / PERSONS in old.cell(True, "S").sample_interval
        cost = c.table(ht.cut("visits.SHARE(cost)", [30, 60]))
        assert [label for (label,) in cost.labels[:-1]] == ["below 30", "30 to 60", "60 and above"]
        assert len(c.table("visits.SHARE(urgent)")) == 3
        for wrong in (
            lambda: c.table("visits.SHARE(ward)", "visits.SHARE(urgent)"),
            lambda: c.table("visits.SHARE(ward)", "age > 45"),
            lambda: c.table("visits.SHARE(ward)", keys=["N", "N"]),
            lambda: c.table("visits.SHARE(cost)"),
            lambda: c.table("visits.SHARE(wards)"),
            lambda: c.mean("age", low=0, high=90, by="visits.SHARE(ward)"),
            lambda: c.ask("age > 3", by="visits.SHARE(ward)"),
        ):
            before = len(c.history)
            with pytest.raises(ht.HoldtrueError):
                wrong()
            assert len(c.history) == before
    assert not ht.audit_ledger(tmp_path / "l", data=(people, {"visits": visits})).violated


def test_u4_shares_of_a_unit_are_a_soft_partition_on_the_grid():
    """Rounded down, whatever the bag: no unit adds more than 1 to all cells, nor less than 0 to any."""
    sizes = [1, 3, 7, 11, 13, 49, 97, 1000]
    for size in sizes:
        kinds = np.arange(size) % 7
        people, bag = {"person": np.arange(8)}, {"person": np.zeros(size, dtype=np.int64), "kind": kinds}
        rows = open_units("person", open_engine(people), {"visits": open_engine(bag, types={"kind": "integer"})})
        parser = cached_parser(rows.card)
        curation = SimpleNamespace(card=rows.card, plan=SimpleNamespace(bits=20), parse=parser)
        groups = read_groups(curation, ["visits.SHARE(kind)"], where=None, keys=list(range(7)), shares=True)
        sums = rows.sum_cells(groups.cells, bits=20)
        assert all(value == (int((kinds == kind).sum()) << 20) // max(size, 1) for kind, value in enumerate(sums))
        assert 0 <= sum(sums) <= 1 << 20
        rows.close()

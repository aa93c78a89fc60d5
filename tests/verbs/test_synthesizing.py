"""Rows made from released tables: free, near to the tables, the same for one seed, and with the tables' intervals."""

import csv
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

import holdtrue as ht
from holdtrue.verbs import synthesizing

ROWS = 20_000
LABELS = {"region": ["n", "s", "w"], "job": ["a", "b", "c", "d"]}


@pytest.fixture(scope="module")
def curator():
    rng = np.random.default_rng(3)
    region = rng.choice(LABELS["region"], ROWS, p=(0.5, 0.3, 0.2))
    job = np.where(region == "n", rng.choice(["a", "b"], ROWS), rng.choice(["b", "c", "d"], ROWS))
    people = {"region": region, "job": job, "smoker": rng.random(ROWS) < np.where(job == "b", 0.6, 0.2)}
    people["age"] = rng.integers(0, 90, ROWS)
    with ht.Curator(people, queries=100, iid=True, labels=LABELS) as held:
        held.marginals("pairs", columns=["region", "job", "smoker", ht.cut("age", [30, 60])], analyst="ann")
        held.people = people
        yield held


def test_rows_have_the_tables_that_were_released(curator):
    before, spent = curator.ledger.newest(), curator.budget.spent
    made = curator.synthesize(rows=50_000)
    assert (curator.ledger.newest(), curator.budget.spent) == (before, spent)
    assert len(made) == 50_000
    people = curator.people
    for region in LABELS["region"]:
        for job in LABELS["job"]:
            exact = np.mean((people["region"] == region) & (people["job"] == job))
            assert made.estimate({"region": region, "job": job}) == pytest.approx(exact, abs=6 * curator.plan.sigma)
            assert exact in made.share({"region": region, "job": job}).sample_interval
    assert np.mean(people["region"] == "n") * np.mean(people["job"] == "c") > 6 * curator.plan.sigma  # there is nobody
    assert made.share({"region": "n", "smoker": True}) in list(made.tables[1])


def test_rows_depend_on_the_tables_and_the_seed_alone(curator):
    first, again, other = (curator.synthesize(rows=997, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    pairs = zip(first.labels, first.counts, strict=True)
    held = dict(zip(other.labels, other.counts, strict=True))
    assert all(abs(number - held.get(labels, 0)) <= 1 for labels, number in pairs)


def test_fewer_columns_and_one_analyst(curator):
    assert curator.synthesize(["age", "region"], rows=10).columns == ("age", "region")
    assert len(curator.synthesize(analyst="ann")) == ROWS
    with pytest.raises(ht.InvalidParameter, match="released"):
        curator.synthesize(analyst="bob")


def test_files(curator, tmp_path):
    made = curator.synthesize(rows=300)
    made.to_csv(tmp_path / "made.csv")
    made.to_parquet(tmp_path / "made.parquet")
    with (tmp_path / "made.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert (tuple(header), len(rows)) == (made.columns, 300)
    assert pq.read_table(tmp_path / "made.parquet").to_pydict() == made.to_columns()
    assert made.to_pandas().shape == made.to_polars().shape == (300, 4)
    assert str(made) == "300 made rows of region, job, smoker, age, from 6 released tables; costs nothing"


def test_what_cannot_be_made_says_why(curator, monkeypatch):
    with (
        ht.Curator({"x": np.arange(900)}, queries=5, iid=True) as bare,
        pytest.raises(ht.InvalidParameter, match="none was"),
    ):
        bare.synthesize()
    for wrong in ({"columns": ["nope"]}, {"columns": []}, {"columns": [1]}, {"rows": 0}, {"seed": -1}, {"columns": ["job"]}):
        with pytest.raises(ht.InvalidParameter):
            curator.synthesize(**wrong)
    with pytest.raises(ht.InvalidParameter, match="labels"):
        curator.synthesize(rows=10).estimate({"nope": 1})
    monkeypatch.setattr(synthesizing, "MOST_COMBINATIONS", 100)
    with pytest.raises(ht.InvalidParameter, match=r"240 combinations, and 100 fit: bin job \(4 cells\)"):
        curator.synthesize()


def test_the_newest_table_decides_how_a_column_is_cut():
    ages = {"age": np.arange(1000) % 90, "smoker": np.arange(1000) % 3 == 0}
    with ht.Curator(ages, queries=50, iid=True) as curator:
        curator.table(ht.cut("age", [30]))
        curator.table(ht.cut("age", [30]), where="smoker")
        assert len(curator.synthesize(rows=5).tables) == 1
        newest = curator.table(ht.cut("age", [40]))
        assert curator.synthesize().tables == (newest,)


def test_least_squares_meets_tables_that_agree():
    """Tables of one distribution are met exactly, whatever their order, and one against all rows is proportional."""
    rng = np.random.default_rng(2)
    joint = rng.dirichlet(np.ones(24)).reshape(2, 3, 4)
    joint[-1], joint[:, -1], joint[:, :, -1] = 0, 0, 0
    joint /= joint.sum()
    make = lambda axes: synthesizing._Target(  # noqa: E731 - a table without noise
        joint.sum(axis=tuple({0, 1, 2} - set(axes)))[(slice(None, -1),) * len(axes)], 0.0, 1.0, axes, 3
    )
    found = synthesizing._fit([make((0, 1)), make((1, 2)), make((0, 2))], joint.shape)
    assert math.isclose(found.sum(), 1)
    for axis in range(3):
        assert found.sum(axis=axis) == pytest.approx(joint.sum(axis=axis), abs=1e-3)

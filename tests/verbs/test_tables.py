"""TABLE: disjoint cells in one release, each as sharp as one answer, for the price of a few questions (U1, S1)."""

import datetime as dt
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product

import msgspec
import numpy as np
import pytest

import holdtrue as ht
from holdtrue.bounds.accuracy import gaussian_overshoot, grid
from holdtrue.codec import decode, encode
from holdtrue.errors import BudgetExceeded, InvalidParameter, NotCertified, UnknownColumn
from holdtrue.events import NonPrivate, Repeated
from holdtrue.exact import UNIT
from holdtrue.ledgers import read_charge
from holdtrue.mechanisms import Gaussian, Laplace
from holdtrue.planning.tables import count_unions, find_ends, price_table
from holdtrue.records import Response, Unions
from holdtrue.testing import SeededBits
from holdtrue.verbs import tables as verb
from holdtrue.verbs.tables import plan_table, read_groups

ROWS = 4000


def make_rows(rows=ROWS, seed=0):
    random = np.random.default_rng([seed, 1913])
    region = random.choice(["N", "S", "W"], rows, p=[0.5, 0.3, 0.2]).astype(object)
    region[::97] = None
    return {"region": region, "age": random.integers(0, 100, rows), "smoker": random.random(rows) < 0.3}


def open_curator(rows=None, **given):
    terms = {"queries": 100, "iid": True, "labels": {"region": ["N", "S"]}} | given
    return ht.Curator(make_rows() if rows is None else rows, **terms)


def without_noise(monkeypatch):
    monkeypatch.setattr(Gaussian, "release", lambda _, values: values)


def test_u1_the_price_hardly_depends_on_the_number_of_cells():
    """Fractions of questions by the sheet: 2.33, 2.82, 3.32, 3.84, 4.37 at k = 500; whole questions are charged."""
    plan = ht.plan(queries=500, rows=10_000)
    cells = (10, 100, 1_000, 10_000, 100_000)
    assert [price_table(plan, number).questions for number in cells] == [3, 3, 4, 4, 5]


@pytest.mark.parametrize("cells", [2, 10, 100, 10_000])
def test_s1_the_noise_of_all_cells_stays_within_its_share_of_the_overshoot(cells):
    plan = ht.plan(queries=300, rows=20_000)
    price = price_table(plan, cells)
    box = plan.transfer.noise - grid(plan.rows, bits=plan.bits)
    booked = cells * price.sigma * gaussian_overshoot(box / price.sigma)
    assert booked <= plan.transfer.overshoot * price.questions / plan.queries * (1 + 1e-9)
    # One question fewer would not do, unless two is the least there is.
    fewer = price.sigma * math.sqrt(price.questions / (price.questions - 1))
    booked = cells * fewer * gaussian_overshoot(box / fewer)
    assert price.questions == 2 or booked > plan.transfer.overshoot * (price.questions - 1) / plan.queries


def test_u1_the_charge_pays_for_two_moves_of_one_row():
    """The event is two Gaussians of the noise that was drawn; the ledger refuses the charge of a single one (planted)."""
    with open_curator() as curator:
        release = plan_table(curator.pipeline, ["region"])
        assert isinstance(release.event, Repeated)
        assert release.event.times == 2
        mu = Fraction(release.event.event.mu)
        assert 2 * mu**2 <= release.cost * UNIT
        floor = curator.pipeline.limit.cost(release.event)
        assert floor <= release.cost
        assert curator.pipeline.limit.cost(release.event.event) < floor  # what one move would cost


@pytest.mark.parametrize("row", [0, 5, 97, 100])
def test_u1_replacing_one_row_moves_two_cells_by_one(monkeypatch, row):
    """Whatever the row becomes, a NULL included: the squared change of all cells is 2 at most."""
    without_noise(monkeypatch)
    rows = make_rows()
    for region, age, smoker in (("N", 3, True), ("W", 99, False), (None, 50, True)):
        changed = {name: column.copy() for name, column in rows.items()}
        changed["region"][row], changed["age"][row], changed["smoker"][row] = region, age, smoker
        found = []
        for table in (rows, changed):
            with open_curator(table) as curator:
                found.append(np.array(curator.table("region", ht.cut("age", [18, 65]), where="smoker").values) * ROWS)
        assert ((found[0] - found[1]) ** 2).sum() <= 2 + 1e-9


def test_a_table_is_exact_counts_with_noise_and_every_row_is_in_one_cell(monkeypatch):
    without_noise(monkeypatch)
    rows = make_rows()
    with open_curator(rows) as curator:
        table = curator.table("region", ht.cut("age", [18, 65]))
    assert math.isclose(sum(table.values), 1)
    for labels, share in zip(table.labels[:-1], table.values[:-1], strict=True):
        low, high = {"below 18": (0, 18), "18 to 65": (18, 65), "65 and above": (65, 101)}[labels[1]]
        right = (rows["region"] == labels[0]) & (rows["age"] >= low) & (rows["age"] < high)
        assert share == pytest.approx(right.mean(), abs=1e-9)
    assert table.labels[-1] == (None, None)
    assert table.values[-1] == pytest.approx(1 - np.isin(rows["region"], ["N", "S"]).mean(), abs=1e-9)


def test_missing_values_are_in_the_further_cell_on_every_engine(monkeypatch, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    without_noise(monkeypatch)
    rows = make_rows()
    pq.write_table(pa.table({name: list(column) for name, column in rows.items()}), tmp_path / "rows.parquet")
    found = []
    for data in (rows, tmp_path / "rows.parquet"):
        with open_curator(data) as curator:
            found.append(curator.table("region", where="age >= 18").values)
    assert found[0] == found[1]
    others = ~np.isin(rows["region"], ["N", "S"]) & (rows["age"] >= 18)
    assert found[0][-1] == pytest.approx(others.mean(), abs=1e-9)


def test_every_cell_is_within_alpha_and_all_at_once():
    population = make_rows(200_000, seed=3)
    truth = [np.mean(population["region"] == name) for name in ("N", "S")]
    misses = 0
    for seed in range(40):
        drawn = np.random.default_rng([seed, 7]).integers(0, 200_000, ROWS)
        with open_curator({name: column[drawn] for name, column in population.items()}) as curator:
            table = curator.table("region")
            widths = np.subtract(table.high, table.low) / 2
            assert (widths <= curator.plan.alpha + 1e-9).all()
            misses += any(share not in cell.interval for share, cell in zip(truth, table, strict=False))
    assert misses == 0  # at most 1 in 20 runs may miss; 40 runs without one are what a valid table shows


def test_the_intervals_are_those_of_questions_and_rows_have_their_own():
    with open_curator() as curator:
        table = curator.table("region", where="age < 50")
        for cell in table:
            assert (cell.interval.low, cell.interval.high) == curator.plan.interval(cell.value)
            assert cell.sample_interval.low <= cell.value <= cell.sample_interval.high
            assert cell.certificate == table.certificate
        assert table.cell("S") == table[1]
    with open_curator(iid=False, epsilon=1, delta=1e-6) as curator:
        table = curator.table("region")
        assert (table.low, table.high) == (None, None)
        assert "independent" in table.reason
        assert table[0].interval is None


def test_p5_the_same_table_again_costs_nothing_and_a_key_is_kept(tmp_path):
    path = tmp_path / "rows.ledger"
    with open_curator(ledger=path) as curator:
        first = curator.table("region", key="k")
        spent = curator.ledger.spent
        assert curator.table("region", key="k") == first
        again = curator.table("region")
        assert (again.repeated, again.values, curator.ledger.spent) == (True, first.values, spent)
        assert curator.budget.asks == 100 - price_table(curator.plan, 3).questions
        with pytest.raises(ht.RefusedError):
            curator.table("smoker", key="k")
    with open_curator(ledger=path) as curator:
        assert curator.table("region").values == first.values
    assert ht.verify(path)
    assert not ht.audit_ledger(path).violated


def test_u1_tables_of_many_threads_are_each_paid_once_and_take_their_own_entry():
    """Concurrency of releases: the cap is never passed, and who asks the same is told the same."""
    with open_curator(queries=20) as curator, ThreadPoolExecutor(8) as pool:
        asked = [f"age > {10 * (number % 8)}" for number in range(40)]
        jobs = [pool.submit(curator.table, "region", where=where) for where in asked]
        found = [(where, job.result()) for where, job in zip(asked, jobs, strict=True) if job.exception() is None]
        refused = [job.exception() for job in jobs if job.exception() is not None]
        assert all(isinstance(each, BudgetExceeded) for each in refused)
        numbers = {where: {table.certificate.entry for told, table in found if told == where} for where, _ in found}
        assert all(len(each) == 1 for each in numbers.values())
        assert len(curator.history) == len(numbers) == len({table.values for _, table in found})
        assert curator.ledger.spent <= curator.plan.cap_units
        assert float(curator.ledger.spent * UNIT) == pytest.approx(sum(line.cost for line in curator.history), rel=1e-12)


def test_a_table_beyond_the_plan_is_refused_and_nothing_is_spent():
    with open_curator(queries=4) as curator:
        curator.ask(["age > 1", "age > 2", "age > 3"])
        spent = curator.ledger.spent
        with pytest.raises(BudgetExceeded):
            curator.table("region")
        assert curator.ledger.spent == spent


def test_a_plan_that_splits_beta_counts_every_cell_as_a_draw():
    plan = ht.plan(queries=100, rows=ROWS, method="transfer-gaussian")
    with ht.Curator(make_rows(), plan=plan, labels={"region": ["N", "S"]}) as curator:
        table = curator.table("region", where="smoker")
        assert curator.budget.asks == 97
        (charge,) = [entry for entry in curator.ledger.entries() if entry.kind == "charge"]
        assert (charge.cost, read_charge(charge).draws) == (2 * plan.cost, 3)
        assert (table[0].interval.low, table[0].interval.high) == plan.interval(table[0].value)


def test_u1_a_declared_union_has_the_noise_of_its_sum(monkeypatch):
    without_noise(monkeypatch)
    rows = make_rows()
    with open_curator(rows) as curator:
        table = curator.table("region", ht.cut("age", [18, 65]), margins=True)
        plan = curator.plan
        price = price_table(plan, 7, unions=count_unions((2, 3), margins=True, ranges=False), whole=True)
        north = table.union(*[("N", age) for age in ("below 18", "18 to 65", "65 and above")])
        young = table.union(("N", "below 18"), ("S", "below 18"))
        mixed = table.union(("N", "below 18"), ("S", "18 to 65"))
        assert "the boxes of its cells added up" in str(mixed)
        assert "added up" not in str(north)
        assert (young.value, mixed.certificate.entry) == (
            pytest.approx(_share(rows, ["N", "S"], 0, 18)),
            table.certificate.entry,
        )
    assert north.value == pytest.approx(_share(rows, ["N"], 0, 101))
    answers = table.unions.answers
    for union, places, declared in ((north, (0, 1, 2), True), (young, (0, 3), True), (mixed, (0, 4), False)):
        ends = find_ends(plan, price, [answers[place] for place in places], declared=declared)
        assert (union.interval.low, union.interval.high) == pytest.approx(ends.population, abs=1e-12)
        assert (union.sample_interval.low, union.sample_interval.high) == pytest.approx(ends.sample, abs=1e-12)
    assert young.interval.width < mixed.interval.width
    for place, labels in enumerate(table.labels):
        single = table.union(labels)
        assert (single.interval.low, single.interval.high) == pytest.approx((table.low[place], table.high[place]), abs=1e-12)


def _share(rows, regions, low, high):
    return (np.isin(rows["region"], regions) & (rows["age"] >= low) & (rows["age"] < high)).mean()


def test_u1_ranges_are_declared_with_the_release_and_the_gap_is_added_once():
    with open_curator() as curator:
        plain = curator.table(ht.cut("age", range(10, 100, 10)))
        ranged = curator.table(ht.cut("age", range(10, 100, 10)), ranges=True)
        assert ranged.repeated is False  # another release, with noise of its own
        gap = 2 * (curator.plan.alpha - curator.plan.transfer.noise)
    names = [labels[0] for labels in plain.labels[2:7]]
    declared, chosen = ranged.union(*names), plain.union(*names)
    noise = 2 * ranged.unions.noise
    assert declared.interval.width <= math.sqrt(5) * noise + gap + 1e-6
    assert chosen.interval.width <= 5 * noise + gap + 1e-6
    assert declared.interval.width < chosen.interval.width
    assert ranged.union(names[0], names[2]).interval.width > ranged.union(*names[:2]).interval.width  # no neighbours
    assert ranged.union(names[0], None).interval is not None


@pytest.mark.parametrize(
    ("sizes", "margins", "ranges"), [((3, 4), True, False), ((2, 3, 4), True, False), ((6,), False, True)]
)
def test_u1_what_is_declared_is_what_is_priced(sizes, margins, ranges):
    """Every union of a small table, counted one by one: as many are declared as the price counts."""
    kinds = tuple(kind for kind, wanted in (("margins", margins), ("ranges", ranges)) if wanted)
    cells = math.prod(sizes)
    rule = Unions(kinds, sizes, (0.0,) * (cells + 1), 0.1, 0.0)
    found = Counter()
    if ranges:
        every = (each for size in range(2, cells + 2) for each in combinations(range(cells + 1), size))
    else:
        labels = [[{at} for at in range(size)] + [set(range(size))] for size in sizes]
        places = list(product(*map(range, sizes)))
        every = (
            [place for place, each in enumerate(places) if all(at in some for at, some in zip(each, chosen, strict=True))]
            for chosen in product(*labels)
        )
    for union in every:
        if len(union) > 1 and rule.is_declared(union):
            found[len(union)] += 1
    declared = count_unions(sizes, margins=margins, ranges=ranges)
    assert found == declared
    if margins:
        assert sum(declared.values()) + cells == math.prod(size + 1 for size in sizes) - 1


def test_u1_6_rollups_are_declared_by_their_labels_and_have_the_noise_of_their_sum(tmp_path):
    path, terms = tmp_path / "rows.ledger", {"labels": {}, "queries": 500}
    keys, groups = list(range(40)), [[3, 1, 2], list(range(20)), [5, 39]]
    with open_curator(ledger=path, **terms) as curator:
        table = curator.table("age", keys=keys, where="smoker", rollups=groups)
        rule = table.unions
        assert rule.rollups == ((1, 2, 3), tuple(range(20)), (5, 39))
        assert rule.is_declared([1, 2, 3])
        assert not rule.is_declared([1, 2])
        price = price_table(curator.plan, 41, unions={3: 1, 20: 1, 2: 1})
        assert (rule.noise, table.certificate.cost) == (price.terms[0], price.cost / 10**15)
        for labels in groups:
            declared = table.union(*labels)
            near = (math.sqrt(len(labels)) * rule.sample_noise + len(labels) * rule.rounding) * (1 + 2**-40)
            exact = max(0.0, math.fsum(rule.answers[label] for label in labels))
            assert declared.sample_interval.high == pytest.approx(exact + near, abs=1e-9)
            assert declared.certificate.theorem == curator.plan.theorem
        later = table.union(0, 1, 2)  # chosen after the table was seen: the sum of boxes
        assert later.sample_interval.high == pytest.approx(later.value + 3 * rule.sample_noise, rel=1e-6)
        assert not curator.table("age", keys=keys, where="smoker", rollups=groups[:1]).repeated
        assert curator.table("age", keys=keys, where="smoker", rollups=groups).repeated
        assert decode(encode(table), Response) == table
        left = curator.budget.asks
        for wrong in ([[1]], [[1, 1]], [[1, 77]], ["ab"], 3, [[None, 1]]):
            with pytest.raises(InvalidParameter, match=r"rollups|keys"):
                curator.table("age", keys=keys, rollups=wrong)
        with pytest.raises(InvalidParameter, match="one column"):
            curator.table("smoker", ht.cut("age", [18]), rollups=[[True, False]])
        assert curator.budget.asks == left
        found = curator.deduce("smoker AND age IN (5, 39)")
        assert found.interval.width <= table.union(5, 39).interval.width + 1e-6
    assert not ht.audit_ledger(path).violated


def test_u1_6_rollups_that_were_not_priced_are_found_by_an_audit(monkeypatch, tmp_path):
    """Planted: a thousand unions whose noise is in no purse."""
    path, random = tmp_path / "rows.ledger", np.random.default_rng(6)
    groups = [sorted(random.choice(100, 50, replace=False).tolist()) for _ in range(1000)]
    with open_curator(ledger=path, labels={}, queries=500) as curator, monkeypatch.context() as patch:
        patch.setattr(verb.TableLayout, "count_unions", lambda _: {})
        curator.table("age", keys=list(range(100)), where="smoker", rollups=groups)
    assert ht.audit_ledger(path).violated


def test_u1_unions_chosen_after_the_release_keep_the_summed_box_and_break_the_rule_of_one_deviation():
    """Half of the cells, those whose noise is positive: the sum of boxes holds, sqrt(n) boxes fail (negative control)."""
    cells, chosen = 400, 200
    plan = ht.plan(queries=300, rows=10**8)
    price = price_table(plan, cells + 1)
    random = np.random.default_rng(1913)
    broken = 0
    for _ in range(400):
        noise = random.normal(0, price.sigma, cells)
        answers = 1 / cells + noise
        worst = np.argsort(noise)[-chosen:]
        truth = chosen / cells
        summed = find_ends(plan, price, answers[worst].tolist(), declared=False)
        assert summed.sample[0] <= truth <= summed.sample[1]
        assert summed.population[0] <= truth <= summed.population[1]
        single = find_ends(plan, price, answers[worst].tolist(), declared=True)
        broken += not single.sample[0] <= truth <= single.sample[1]
    assert broken == 400


@pytest.mark.parametrize("noisy", [True, False])
def test_u1_an_analyst_who_asks_four_cell_tables_and_then_their_majority_is_not_fooled(noisy):
    """Features that know nothing: every interval holds in all runs; without noise the majority is far off (control)."""
    rows, features, runs = 2000, 101, 200 if noisy else 20
    cost = price_table(ht.plan(queries=400, rows=rows), 5).questions
    plan = ht.plan(queries=cost * features + 1, rows=rows)
    price = price_table(plan, 5)
    assert price.questions == cost
    random = np.random.default_rng([4, noisy])
    misses, over = 0, 0.0
    for _ in range(runs):
        bits, label = random.random((rows, features)) < 0.5, random.random(rows) < 0.5
        both, only = (bits & label[:, None]).mean(0), (bits & ~label[:, None]).mean(0)
        cells = np.array([both, only, label.mean() - both, 1 - label.mean() - only]).T
        answers = cells + noisy * random.normal(0, price.sigma, cells.shape)
        ends = [find_ends(plan, price, [answer]).population for answer in answers.ravel().tolist()]
        signs = np.where(answers[:, 0] + answers[:, 3] > 0.5, 1, -1)
        majority = (np.where(bits == label[:, None], 1, -1) @ signs > 0).mean() + noisy * random.normal(0, plan.sigma)
        low, high = plan.interval(float(majority))
        misses += not low <= 0.5 <= high or any(not low <= 0.25 <= high for low, high in ends)
        over += (majority - 0.5) / runs
    if noisy:
        assert misses == 0
    else:
        assert over > math.sqrt(math.log(2 * 405 / 0.05) / (2 * rows))  # the half-width if nothing adapted


def test_a_table_that_was_stored_without_unions_adds_the_ends_of_its_cells():
    with open_curator() as curator:
        table = curator.table("region")
    older = msgspec.structs.replace(table, unions=msgspec.UNSET)
    assert '"unions"' not in encode(older)
    assert decode(encode(older), Response) == older
    union = older.union("N", "S")
    assert union.interval.low == pytest.approx(table.low[0] + table.low[1])
    assert union.interval.width >= table.union("N", "S").interval.width


def test_a_histogram_has_bins_of_one_width_between_public_ends(monkeypatch):
    without_noise(monkeypatch)
    rows = make_rows()
    with open_curator(rows) as curator:
        table = curator.histogram("age", low=10, high=90, bins=8)
    assert [each[0] for each in table.labels[:2]] == ["10 to 20", "20 to 30"]
    ends = [10 + 10 * at for at in range(9)]
    for share, (low, high) in zip(table.values, pairwise(ends), strict=False):
        inside = (rows["age"] >= low) & (rows["age"] < high + (high == 90))
        assert share == pytest.approx(inside.mean(), abs=1e-9)
    assert table.values[-1] == pytest.approx(((rows["age"] < 10) | (rows["age"] > 90)).mean(), abs=1e-9)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda curator: curator.table("age"), NotCertified),
        (lambda curator: curator.table("region", "region"), InvalidParameter),
        (lambda curator: curator.table("region", keys=["N", "N"]), InvalidParameter),
        (lambda curator: curator.table("region", keys={"age": [1]}), InvalidParameter),
        (lambda curator: curator.table("region", where="age / 100"), InvalidParameter),
        (lambda curator: curator.table("nowhere"), UnknownColumn),
        (lambda curator: curator.table("age > 30", "age > 60"), InvalidParameter),
        (lambda curator: curator.table(), InvalidParameter),
        (lambda curator: curator.table(ht.cut("region", [1, 2])), InvalidParameter),
        (lambda curator: curator.table(ht.cut("age", [1, 2]), keys=[1]), InvalidParameter),
        (lambda curator: curator.table("age", keys=[1, math.nan]), InvalidParameter),
        (lambda curator: curator.table("age", keys=[[1], [2]]), InvalidParameter),
        (lambda curator: curator.table("age", keys=[10**5000]), InvalidParameter),
        (lambda curator: curator.table(["age"]), InvalidParameter),
        (lambda curator: curator.table("region", margins=True), InvalidParameter),
        (lambda curator: curator.table("region", "smoker", ranges=True), InvalidParameter),
        (lambda curator: curator.table("region", margins=1), InvalidParameter),
        (lambda curator: curator.histogram("age", low=5, high=5), InvalidParameter),
        (lambda curator: curator.histogram("age", low=0, high=1, bins=10**6), InvalidParameter),
        (lambda _: ht.cut("age", []), InvalidParameter),
        (lambda _: ht.cut("age", [2, 1]), InvalidParameter),
        (lambda _: ht.cut("age", [1, math.nan]), InvalidParameter),
    ],
)
def test_bad_tables_are_named_before_anything_is_charged(wrong, error):
    with open_curator() as curator:
        with pytest.raises(error):
            wrong(curator)
        assert curator.history == []


DAYS = ["2025-12-31", "2026-01-01", "2026-02-14", "2026-04-01", "2026-12-31", "2027-01-01", "NaT", "2026-01-01"]


def open_dated(folder=None, **given):
    days = np.array(DAYS * 25, dtype="M8[D]")
    rows = {"admitted": days, "seen": days.astype("M8[us]") + np.timedelta64(90, "m")}
    if folder is not None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(rows), folder / "rows.parquet")
    terms = {"queries": 60, "epsilon": 5, "delta": 1e-6} | given
    return ht.Curator(rows if folder is None else folder / "rows.parquet", **terms)


@pytest.mark.parametrize("on_disk", [False, True])
def test_dates_are_cut_at_public_points(monkeypatch, tmp_path, on_disk):
    without_noise(monkeypatch)
    with open_dated(tmp_path if on_disk else None) as curator:
        table = curator.table(
            ht.cut("admitted", [dt.date(2026, 1, 1), dt.datetime(2026, 4, 1, tzinfo=dt.UTC), np.datetime64("2027-01-01")])
        )
        assert [labels[0] for labels in table.labels] == [
            "before 2026-01-01",
            "2026-01-01 to 2026-04-01",
            "2026-04-01 to 2027-01-01",
            "2027-01-01 and after",
            None,
        ]
        assert table.values == (0.125, 0.375, 0.25, 0.125, 0.125)
        moments = curator.table(ht.cut("seen", ["2026-01-01 01:30", "2026-01-01 01:30:00.000001"]))
        assert moments.values == (0.125, 0.25, 0.5, 0.125)
        assert moments.labels[1] == ("2026-01-01 01:30:00 to 2026-01-01 01:30:00.000001",)
        spoken = curator.table(ht.cut("admitted", ["2026-01-01", "2026-04-01", "2027-01-01"]))
        assert spoken.repeated


def test_histograms_of_dates_are_by_month_quarter_year_or_of_one_width(monkeypatch):
    without_noise(monkeypatch)
    with open_dated() as curator:
        ends = {"low": dt.date(2026, 1, 1), "high": "2026-12-31"}
        found = {bins: curator.histogram("admitted", **ends, bins=bins) for bins in ("month", "quarter", "year", 4)}
    assert [len(table) for table in found.values()] == [13, 5, 2, 5]
    assert found["quarter"].values == (0.375, 0.25 - 0.125, 0, 0.125, 0.375)  # the last bin holds its upper end
    assert found["quarter"].labels[3] == ("2026-10-01 to 2026-12-31",)
    assert found["month"].values[:4] == (0.25, 0.125, 0, 0.125)
    assert found[4].labels[1] == ("2026-04-02 to 2026-07-02",)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda _: ht.cut("admitted", ["2026-02-30"]), "points must be numbers, or dates of the calendar"),
        (lambda _: ht.cut("admitted", ["2026-01-01", 3]), "and not both"),
        (lambda _: ht.cut("admitted", [dt.date(2026, 2, 1), dt.date(2026, 1, 1)]), "each above the one before"),
        (lambda curator: curator.table(ht.cut("admitted", [1, 2])), "a column of numbers to be cut at these points"),
        (lambda curator: curator.table(ht.cut("admitted", ["2026-01-01 10:00"])), "without a time"),
        (lambda curator: curator.histogram("admitted", low="2026-01-01", high="2026-01-03", bins=5), "one for each day"),
        (lambda curator: curator.histogram("admitted", low="2026-01-01", high="2026-02-01", bins="week"), "month, quarter"),
        (lambda curator: curator.histogram("admitted", low="2026-02-01", high="2026-01-01", bins="month"), "before high"),
        (lambda curator: curator.histogram("admitted", low="2026-02-01", high=7, bins="month"), "high must be"),
        (lambda curator: curator.median("admitted", low=0, high=9), "low must be a date such as"),
        (
            lambda _: ht.cut("admitted", [dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-1)))]),
            "points must be",
        ),
    ],
)
def test_bad_dates_are_named_before_anything_is_charged(wrong, match):
    with open_dated() as curator:
        with pytest.raises(InvalidParameter, match=match):
            wrong(curator)
        assert curator.history == []


def test_cells_between_long_numbers_have_labels_of_their_own():
    with open_curator() as curator:
        table = curator.table(ht.cut("age", [1_000_000, 1_000_001, 1_000_002]))
    assert len(set(table.labels)) == len(table)


def test_too_many_cells_say_what_they_would_cost():
    with open_curator() as curator, pytest.raises(InvalidParameter, match="would cost"):
        curator.table("region", ht.cut("age", range(60_000)))


@pytest.mark.parametrize("keys", [[2**53, 2**53 + 1], [1, 2, 2**53 + 1, float(2**53)]])
def test_labels_that_a_column_cannot_tell_apart_are_refused(keys):
    """Two whole numbers that are one double would put a row into two cells, for the price of one (planted)."""
    with ht.Curator({"x": np.full(50, 2.0**53)}, queries=10, epsilon=5, delta=1e-6) as curator:
        with pytest.raises(InvalidParameter, match="each once"):
            curator.table("x", keys=keys)
        assert curator.history == []


def test_too_many_bins_say_what_they_would_cost():
    with open_curator() as curator:
        for given in ({"low": 0, "high": 99}, {"low": "2026-01-01", "high": "2027-01-01"}):
            with pytest.raises(
                InvalidParameter, match=r"^bins must be at most 100,000 cells .*; 1,000,000 would cost \d questions"
            ):
                curator.histogram("age", bins=10**6, **given)
        assert curator.history == []


def test_labels_with_quotes_are_data(monkeypatch):
    without_noise(monkeypatch)
    rows = {'a b"c': np.array(["x' OR 1 = 1 --", "y"] * 50, dtype=object)}
    with ht.Curator(rows, queries=10, epsilon=5, delta=1e-6) as curator:
        table = curator.table('a b"c', keys=["x' OR 1 = 1 --", "z"])
    assert table.values == (0.5, 0.0, 0.5)


def test_noise_is_made_once_and_claims_nothing_from_other_bits(monkeypatch):
    """A planted fault: were the bits left out of what noise is kept by, a table from seeded bits would claim privacy."""
    with open_curator() as curator:
        first, second = (make_release(curator).event for _ in range(2))
        assert first == second == Repeated(first.event, 2)
        assert first.event is second.event
        monkeypatch.setattr(Gaussian, "_bits", SeededBits("any"))
        assert make_release(curator).event == Repeated(NonPrivate(), 2)


def make_release(curator):
    return plan_table(curator.pipeline, ["region"], where="age > 3")


def test_labels_are_kept_by_the_card_and_by_how_many_cells_there_may_be():
    with open_curator() as one, open_curator(labels={"region": ["S", "W"]}) as other:
        assert one.table("region").labels == (("N",), ("S",), (None,))
        assert other.table("region").labels == (("S",), ("W",), (None,))
        assert one.table("region", keys=["W"]).labels == (("W",), (None,))
        assert one.table("smoker").labels == ((True,), (False,), (None,))
        assert read_groups(one.pipeline, ["region"], where=None, keys=None).sizes == (2,)
        with pytest.raises(InvalidParameter, match="and 1 fit: bin region"):
            read_groups(one.pipeline, ["region"], where=None, keys=None, most=1)


def test_a_table_reads_back_and_is_shown():
    with open_curator() as curator:
        table = curator.table("region", "smoker")
    assert decode(encode(table), Response) == table
    assert "N, True" in str(table)
    assert "<table>" in table._repr_html_()
    assert "5 cells by region, smoker" in table.brief
    frame = table.to_pandas()
    assert list(frame.columns) == ["region", "smoker", "share", "low", "high"]
    assert table.to_polars().shape == table.to_arrow().shape == (5, 5)
    axes = table.plot()
    assert len(axes.patches) == 5


def test_u1_3_a_table_on_a_pure_ledger_is_charged_for_two_cells_and_keeps_the_rules(tmp_path):
    path = tmp_path / "rows.ledger"
    with open_curator(queries=20, pure=True, epsilon=5, ledger=path) as curator:
        table = curator.table("region")
        one = curator.table("smoker", keys=[True])
        assert curator.table("region").repeated
        event = table.certificate.event
        assert isinstance(event, Repeated)
        assert event.times == 2
        assert Fraction(table.certificate.cost).limit_denominator(10**15) >= 2 * event.event.epsilon
        assert math.isclose(table.certificate.cost, 2 * float(event.event.epsilon), rel_tol=1e-9)
        assert one.values[0] + one.values[1] == pytest.approx(1)
        assert curator.budget.asks == 20 - 3 - 1
        both, single = table.union("N", "S").sample_interval, table[0].sample_interval
        assert both.high - both.low == pytest.approx(2 * (single.high - single.low))  # the sum of the boxes
        for ask in (
            lambda: curator.table("region", "smoker", margins=True),
            lambda: curator.marginals([("region", "smoker")]),
        ):
            with pytest.raises(NotCertified, match="need normal noise"):
                ask()
        assert curator.budget.asks == 16
    assert not ht.audit_ledger(path).violated


def test_u1_3_one_replaced_row_moves_the_log_of_a_pure_table_by_what_it_is_charged(monkeypatch):
    """Two cells move by one, each by epsilon at the most, and both are reached; one cell's charge would not do (planted)."""
    drawn = []
    monkeypatch.setattr(Laplace, "release", lambda self, values: drawn.append((self, values)) or values)
    for last in ("N", "S"):
        rows = {"region": np.array(["N", "S"] * 20 + [last], dtype=object)}
        with ht.Curator(rows, pure=True, epsilon=1, delta=0, labels={"region": ["N", "S"]}) as curator:
            table = curator.table("region")
    (mechanism, left), (_, right) = drawn
    scale = mechanism.scale
    worst = max(
        sum(abs(z - b) - abs(z - a) for z, a, b in zip(at, left, right, strict=True)) / scale for at in (left, right)
    )
    assert worst == 2 * table.certificate.event.event.epsilon
    assert worst > table.certificate.event.event.epsilon


def test_u1_3_noise_of_a_pure_table_has_the_deviation_of_its_price():
    """Within six of its own standard errors; a scale a third off, the least that whole questions differ by, is not."""
    rows = make_rows()
    exact = np.array([np.mean(rows["age"] == at) for at in range(40)])
    with open_curator(rows, queries=200, pure=True, epsilon=20, labels={}) as curator:
        tables = [curator.table("age", keys=list(range(40)), where=f"age < {99 + at}") for at in range(20)]
        sigma = price_table(curator.plan, 41).sigma
    errors = np.concatenate([np.array(table.unions.answers[:40]) - exact for table in tables])
    assert 0.75 <= np.std(errors) / sigma <= 1.25


@pytest.mark.parametrize("terms", [{}, {"pure": True, "epsilon": 5}, {"iid": False, "epsilon": 1, "delta": 1e-6}])
def test_s1_a_table_and_means_at_a_price_of_their_own_are_charged_for_it_and_keep_the_rules(tmp_path, terms):
    path = tmp_path / "rows.ledger"
    with open_curator(ledger=path, **terms) as curator:
        found = [curator.table("region", where="smoker", questions=paid) for paid in (2, 12)]
        mean = curator.mean("age", low=0, high=100, by="region", questions=2)
        usual = curator.table("region", where="smoker")
        total = curator.sum("age", low=0, high=100, by="region", questions=2)
        within = curator.ask("smoker", by="region", questions=12)
        units = [round(each.certificate.cost / (curator.plan.cost / 10**15), 6) for each in (*found, mean, within)]
        assert units == [2, 12, 2, 12]
        assert total.repeated
        assert not usual.repeated  # another price is another release
        assert curator.table("region", where="smoker", questions=12).repeated
        widths = [each[0].sample_interval.width for each in (found[0], usual, found[1])]
        assert widths == sorted(widths, reverse=True)
        left = curator.budget.asks
        for wrong in (1, 0, 2.5, 10_001):
            with pytest.raises(InvalidParameter, match="questions"):
                curator.table("region", questions=wrong)
            with pytest.raises(InvalidParameter, match="questions"):
                curator.mean("age", low=0, high=100, questions=wrong)
            with pytest.raises(InvalidParameter, match="questions"):
                curator.ask("smoker", by="region", questions=wrong)
        with pytest.raises(InvalidParameter, match="go only with by="):
            curator.ask("smoker", questions=2)
        assert curator.budget.asks == left
    assert not ht.audit_ledger(path).violated


def test_s1_boxes_of_the_usual_price_at_two_questions_fail_an_audit_and_less_noise_is_refused(monkeypatch, tmp_path):
    """Planted: a table that pays for two questions has the boxes of more, or the noise of eight."""
    path, ages = tmp_path / "rows.ledger", ht.cut("age", list(range(1, 100)))
    with open_curator(ledger=path, queries=500) as curator:

        def sharpen(plan, cells, *, questions=None, **given):
            paid, usual = price_table(plan, cells, questions=questions, **given), price_table(plan, cells, **given)
            return replace(paid, terms=usual.terms, sample_box=usual.sample_box)

        def halve(plan, cells, **given):
            paid = price_table(plan, cells, **given)
            return replace(paid, sigma=paid.sigma / 2)

        with monkeypatch.context() as patch:
            patch.setattr(verb, "price_table", halve)
            with pytest.raises(InvalidParameter, match="at least what the event costs"):
                curator.table(ages, where="smoker", questions=2)
            assert curator.budget.asks == 500
            patch.setattr(verb, "price_table", sharpen)
            curator.table(ages, where="smoker", questions=2)
    assert {breach.rule for breach in ht.audit_ledger(path).breaches} == {"interval"}


def test_u1_5_a_table_of_all_rows_adds_up_to_one_and_is_narrower(tmp_path):
    with open_curator(ledger=tmp_path / "rows.ledger") as curator:
        whole, part = curator.table("region"), curator.table("region", where="age >= 0")
        assert math.fsum(whole.unions.answers) == pytest.approx(1, abs=1e-12)
        assert (whole.unions.whole, part.unions.whole) == (True, msgspec.UNSET)
        assert whole.certificate.cost == part.certificate.cost
        assert max(np.subtract(whole.high, whole.low)) < 2 * curator.plan.alpha
        noise = curator.plan.transfer.noise
        for value, low, high in zip(whole.values, whole.low, whole.high, strict=True):
            most = curator.plan.interval(value)
            assert most[0] <= low <= value <= high <= most[1]
            assert high - low <= most[1] - most[0] - 0.3 * noise  # 1 - sqrt(2/3) on each side, where neither end is 0
        everybody = whole.union("N", "S", None)
        assert everybody.value == pytest.approx(1)
        assert everybody.sample_interval.low == pytest.approx(1, abs=1e-5)
        left = whole.union("N", "S")  # what the third cell leaves
        assert left.interval.width == pytest.approx(whole.cell(None).interval.width, abs=0.02)
    assert not ht.audit_ledger(tmp_path / "rows.ledger").violated


def test_u1_5_one_cell_and_the_rest_are_one_question(tmp_path, monkeypatch):
    path = tmp_path / "rows.ledger"
    with open_curator(ledger=path) as curator:
        release = plan_table(curator.pipeline, ["region"], keys=["N"])
        assert (release.cost, release.draws) == (curator.plan.cost, 1)
        assert release.event == curator.plan.event
        table, part = curator.table("region", keys=["N"]), curator.table("region", keys=["N"], where="smoker")
        assert sum(table.unions.answers) == 1
        assert table[0].interval.width == pytest.approx(2 * curator.plan.alpha_at(table.values[0]), rel=0.05)
        assert curator.budget.asks == 100 - 1 - price_table(curator.plan, 2).questions
        assert part.certificate.cost > table.certificate.cost
    assert not ht.audit_ledger(path).violated
    monkeypatch.setattr(Gaussian, "release", lambda _, values: values)
    with open_curator() as curator:
        assert curator.table("region", keys=["N"])[0].value == curator.ask("region = 'N'").value


def test_u1_5_tables_that_were_stored_before_are_read_and_audited_as_they_are(tmp_path, monkeypatch):
    """Answers that were not moved say so; one that says it was and does not add up is found (planted)."""
    from holdtrue.verbs import tables

    path = tmp_path / "rows.ledger"
    with open_curator(ledger=path) as curator:
        with monkeypatch.context() as patch:
            patch.setattr(tables, "price_table", lambda *at, **given: price_table(*at, **given | {"whole": False}))
            first = curator.table("region")
            assert curator.table("region", keys=["N"]).certificate.cost == first.certificate.cost
        assert curator.table("region").repeated
        assert first.unions.whole is msgspec.UNSET
    assert not ht.audit_ledger(path).violated
    other = tmp_path / "other.ledger"
    with open_curator(ledger=other) as curator:
        monkeypatch.setattr(tables, "move_to_total", lambda drawn, _: [each + 5000 for each in drawn])
        curator.table("region")
    assert ht.audit_ledger(other).violated


def test_t7_tables_of_open_ended_plans_cover_at_once_and_widen_as_they_go(tmp_path):
    population = make_rows(200_000, seed=3)
    truth = [np.mean(population["region"] == name) for name in ("N", "S")]
    for seed in range(15):
        drawn = np.random.default_rng([seed, 5]).integers(0, 200_000, ROWS)
        rows, path = {name: column[drawn] for name, column in population.items()}, tmp_path / f"{seed}.ledger"
        with open_curator(rows, queries=None, epsilon=1, delta=1e-6, ledger=path) as curator:
            tables = [curator.table("region", where=f"age >= {-at}") for at in range(1, 4)]
            tables.append(curator.table("region"))
            assert curator.budget.spent == pytest.approx(8 * curator.plan.cost * float(UNIT))
            assert all(share in cell.interval for table in tables for share, cell in zip(truth, table, strict=False))
            near = [table.unions.sample_noise for table in tables]
            assert near[0] < near[1] < near[2]
            assert sum(truth) in tables[-1].union("N", "S").interval
        assert not ht.audit_ledger(path).violated

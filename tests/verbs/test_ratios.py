"""Ratios of sums over the rows of units, each counting at most so many times, and statistics of aggregates (U4, U5)."""

import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.engines import open_engine
from holdtrue.engines.units import open_units
from holdtrue.errors import HoldtrueError, InvalidParameter, UnknownColumn, UnsupportedQuery
from holdtrue.requests import Auc, Correlation, Covariance, Gini, Pairs, Ratio, RSquared, Variance
from holdtrue.verbs.asking import cached_parser
from holdtrue.verbs.pairs import _find_ratio, read_statistic
from holdtrue.verbs.statistic_tasks import measure_tasks

BITS = 20
URGENT = Ratio(numerator="visits.COUNT(urgent)", denominator="visits.COUNT(*)", cap=3)
COST = Ratio(numerator="visits.SUM(cost)", denominator="visits.COUNT(*)", cap=2, high=10.0)
BOUNDS = {"cost": (0, 10)}
OPEN = {"queries": 5, "epsilon": 1.0, "delta": 1e-6}


def open_bags(bags):
    """Return an engine of units that own the given visits, each urgent or not and with a cost."""
    rows = [(unit, *row) for unit, bag in enumerate(bags) for row in bag] or [(-1, True, 0.0)]
    owners, urgent, cost = (np.array(column) for column in zip(*rows, strict=True))
    visits = {"person": owners, "urgent": urgent.astype(bool), "cost": cost.astype(float)}
    people = {"person": np.arange(len(bags)), "age": np.arange(len(bags)) * 10}
    return open_units("person", open_engine(people), {"visits": open_engine(visits, bounds=BOUNDS)})


def measure(engine, request):
    """Return the whole numbers that noise would be added to."""
    plan = SimpleNamespace(side="both", bits=BITS)
    curation = SimpleNamespace(card=engine.card, engine=engine, plan=plan, parse=cached_parser(engine.card), progress=None)
    return measure_tasks(curation, read_statistic(curation, request).tasks)


def list_bags():
    """Return bags of every kind: none, one visit, more than the cap, costs beyond their bounds and missing ones."""
    visits = [(True, 0.0), (True, 10.0), (False, 99.0), (False, -5.0), (False, np.nan), (True, np.inf)]
    return [
        (),
        *(tuple(each) for size in (1, 2) for each in itertools.combinations(visits, size)),
        visits * 3,
        [(True, 10.0)] * 9,
    ]


@pytest.mark.parametrize("request_", [URGENT, COST], ids=["urgent", "cost"])
def test_u4_the_parts_of_a_ratio_are_a_soft_partition(request_):
    """Whatever a unit owns, its parts are not negative and at most 1 together; so a unit moves each by 2^bits at most."""
    found = np.array([measure(open_bags([bag, ()]), request_) for bag in list_bags()])
    assert (found >= 0).all()
    assert found.sum(1).max() == found.max() == 1 << BITS


def test_u4_rows_beyond_the_cap_are_not_dropped():
    """A unit's own ratio is over all its rows; the cap is how often it counts."""
    visits = [(True, 1.0)] * 3 + [(False, 9.0)] * 9
    assert measure(open_bags([visits, ()]), URGENT) == [1 << BITS - 2, 3 << BITS - 2]
    assert measure(open_bags([visits[::-1], ()]), URGENT) == [1 << BITS - 2, 3 << BITS - 2]
    assert measure(open_bags([visits[2:4], ()]), COST) == [1 << BITS - 1] * 2


def test_a_ratio_is_one_charge_and_says_what_it_counts():
    visits = {"person": np.arange(4000) // 4, "urgent": np.arange(4000) % 4 == 0, "cost": np.arange(4000) % 7 * 10.0}
    with ht.Curator(visits, unit="person", bounds={"cost": (0, 100)}, queries=20, iid=True) as curator:
        price = curator.preview_statistic(Ratio(numerator="COUNT(urgent)", denominator="COUNT(*)", cap=4))
        assert (price.questions, price.unit) == (2, "person")
        assert "one person moves its parts by at most" in str(price)
        found = curator.ratio("COUNT(urgent)", "COUNT(*)", cap=4)
        (line,) = curator.history
        assert line.verb == "ratio"
        assert 0.25 in found.interval
        assert 0.25 in found.sample_interval
        assert found.subject == "COUNT(urgent) / COUNT(*), counting at most 4 for each person"
        assert found.certificate.population == "a random person with at least one row"
        assert [part.measure for part in found.parts] == ["part", "rest"]
        assert curator.ratio("COUNT(urgent)", "count( * )", cap=4).repeated
        assert curator.budget.asks == 18
        cost = curator.ratio("SUM(cost)", "COUNT(*)", cap=2, high=100)
        assert visits["cost"].mean() in cost.sample_interval
        assert "one person moves it by at most" in str(cost.parts[0])


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.2), (0.1, 0.7), (-1e9, 1e-9), (-20.0, 60.0)])
def test_u2_2_a_ratio_in_own_units_is_rounded_outward_and_ends_where_values_do(low, high):
    random = np.random.default_rng(9)
    assert _find_ratio((0.0, 1.0), (0.0, 1.0), bounds=(low, high)) == (low, high)
    assert _find_ratio((1.0, 1.0), (0.0, 0.0), bounds=(low, high))[1] == high
    for part, rest in random.random((300, 2)):
        least, most = _find_ratio((part, part), (rest, rest), bounds=(low, high))
        right = Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(part) / (Fraction(part) + Fraction(rest))
        assert low <= least < right < most <= high


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"cap": 0}, InvalidParameter),
        ({"cap": 2.5}, InvalidParameter),
        ({"cap": True}, InvalidParameter),
        ({"cap": 2**40}, InvalidParameter),
        ({"low": 1, "high": 1}, InvalidParameter),
        ({"numerator": "ANY(urgent)"}, InvalidParameter),
        ({"numerator": "urgent"}, UnknownColumn),
        ({"denominator": "labs.COUNT(*)"}, UnknownColumn),
        ({"denominator": "COUNT("}, UnsupportedQuery),
        ({"numerator": 3}, UnknownColumn),
    ],
)
def test_ratios_that_cannot_be_are_refused_before_a_charge(given, kind):
    visits = {"person": np.arange(600) // 2, "urgent": np.arange(600) % 3 == 0}
    with ht.Curator(visits, unit="person", **OPEN) as curator:
        with pytest.raises(kind):
            curator.ratio(**{"numerator": "COUNT(urgent)", "denominator": "COUNT(*)", "cap": 3} | given)
        assert not curator.history


def test_an_aggregate_needs_a_unit():
    with ht.Curator({"urgent": np.arange(300) % 3 == 0}, **OPEN) as curator:
        for ask in (
            lambda: curator.ratio("COUNT(urgent)", "COUNT(*)", cap=3),
            lambda: curator.variance("COUNT(urgent)", low=0, high=3),
        ):
            with pytest.raises(HoldtrueError):
                ask()
        assert not curator.history


def test_statistics_of_aggregates_are_those_of_a_column_that_has_them():
    """The same integers, whether a registry holds a number or a unit's rows come to it."""
    random = np.random.default_rng(8)
    bags = [
        [(bool(random.integers(2)), float(random.integers(12))) for _ in range(random.integers(0, 6))] for _ in range(60)
    ]
    engine = open_bags(bags)
    total = np.array([sum(min(cost, 10) for _, cost in bag) for bag in bags])
    held = open_engine(
        {
            "total": total,
            "visits": np.array([len(bag) for bag in bags]),
            "some": np.array([any(urgent for urgent, _ in bag) for bag in bags]),
        }
    )
    ends = {"low": 0, "high": 64}
    mine, count, both = "visits.SUM(cost)", "visits.COUNT(*)", {"total": (0, 64), "visits": (0, 8)}
    given = {mine: (0, 64), count: (0, 8)}
    for unit, row in (
        (Variance(column=mine, **ends), Variance(column="total", **ends)),
        (Gini(column=mine, **ends), Gini(column="total", **ends)),
        (Covariance(first=mine, second=count, bounds=given), Covariance(first="total", second="visits", bounds=both)),
        (Correlation(first=mine, second=count, bounds=given), Correlation(first="total", second="visits", bounds=both)),
        (RSquared(prediction=mine, target=count, **ends), RSquared(prediction="total", target="visits", **ends)),
        (Auc(score=mine, label="visits.ANY(urgent)", **ends), Auc(score="total", label="some", **ends)),
    ):
        assert measure(engine, unit) == measure(held, row)


PAIRS = [
    ("abs(a.visits.SUM(cost) - b.visits.SUM(cost))", "abs(a.total - b.total)", 64),
    ('A."visits".COUNT(*) > b.visits.COUNT( cost > 5 ) + 1', "a.visits > b.dear + 1", 1),
    (
        "CASE WHEN a.visits.ANY(urgent) AND b.age > 100 THEN b.visits.COUNT(*) ELSE a.age END",
        "CASE WHEN a.some AND b.age > 100 THEN b.visits ELSE a.age END",
        600,
    ),
]


@pytest.mark.parametrize(("mine", "held", "high"), PAIRS, ids=["sums", "counts", "both"])
def test_pairs_of_aggregates_are_those_of_a_column_that_has_them(mine, held, high):
    """Whatever the order; a unit is in two pairs, however many rows it owns."""
    random = np.random.default_rng(9)
    bags = [[(random.random() < 0.5, float(random.integers(12))) for _ in range(random.integers(0, 6))] for _ in range(60)]
    columns = {
        "total": np.array([sum(min(cost, 10) for _, cost in bag) for bag in bags], dtype=float),
        "visits": np.array([len(bag) for bag in bags]),
        "dear": np.array([sum(cost > 5 for _, cost in bag) for bag in bags]),
        "some": np.array([any(urgent for urgent, _ in bag) for bag in bags]),
        "age": np.arange(60) * 10,
    }
    found = []
    for engine, kernel in ((open_bags(bags), mine), (open_engine(columns), held)):
        curation = SimpleNamespace(card=engine.card, engine=engine, plan=SimpleNamespace(side="both"), progress=None)
        (task,) = read_statistic(curation, Pairs(kernel=kernel, high=high)).tasks
        orders = [np.random.default_rng(seed).permutation(60) for seed in range(3)]
        found.append([task.sensitivity, *(engine.sum_pairs(task.queries[0], order, bits=40) for order in orders)])
        engine.close()
    assert found[0] == found[1]
    assert found[0][1] > 0


def test_pairs_of_the_keys_of_one_table_and_what_they_refuse():
    visits = {"person": np.arange(4000) // 4, "urgent": np.arange(4000) % 8 == 0, "cost": np.arange(4000) % 7 * 10.0}
    with ht.Curator(visits, unit="person", bounds={"cost": (0, 100)}, queries=20, iid=True) as curator:
        for wrong, words in (
            ("COUNT(*) + b.COUNT(*)", "say which, as in a.COUNT"),
            ("a.COUNT(*) / 4", "reads both rows"),
            ("a.cost - b.cost", "no column"),
            ("a.ANY(b.urgent) AND b.ANY(urgent)", "no column"),
        ):
            with pytest.raises(HoldtrueError, match=words):
                curator.pairs(wrong)
        assert not curator.history
        found = curator.pairs("a.ANY(urgent) = b.ANY(urgent)")
        assert 0.5 in found.interval
        assert found.certificate.unit == "person"
        assert curator.pairs("a.any( urgent ) = b.ANY(urgent)").repeated


def test_statistics_of_aggregates_need_bounds_and_two_different_ones():
    with ht.Curator({"person": np.arange(600) // 2, "cost": np.ones(600)}, unit="person", **OPEN) as curator:
        with pytest.raises(InvalidParameter, match="give public bounds of COUNT"):
            curator.covariance("COUNT(*)", "MAX(cost)", bounds={"MAX(cost)": (0, 3)})
        with pytest.raises(InvalidParameter, match="another column"):
            curator.covariance("COUNT(*)", "count( * )", bounds={"COUNT(*)": (0, 3)})
        assert curator.variance("COUNT(*)", low=0, high=9).certificate.unit == "person"

"""Statistics that are not means of rows: how far one row moves them, what they cost, what they say (U5)."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.bounds.low_sensitivity import low_sensitivity_gap
from holdtrue.codec import decode, encode
from holdtrue.engines import open_engine
from holdtrue.errors import BudgetExceeded, InsufficientSamples, InvalidParameter, NotCertified, UnknownColumn
from holdtrue.mechanisms import Gaussian
from holdtrue.records import Response
from holdtrue.requests import Covariance, Variance
from holdtrue.verbs.asking import cached_parser
from holdtrue.verbs.pairs import _measure_tasks, read_statistic

ROWS = 4000
BITS = 20


def make_rows(rows=ROWS, seed=0):
    random = np.random.default_rng([seed, 1913])
    bmi = random.normal(25, 6, rows)
    return {"bmi": bmi, "age": (random.integers(0, 100, rows) + bmi).astype(np.int64), "smoker": random.random(rows) < 0.3}


def open_curator(rows=None, **given):
    return ht.Curator(make_rows() if rows is None else rows, **({"queries": 50, "iid": True} | given))


def without_noise(monkeypatch):
    monkeypatch.setattr(Gaussian, "release", lambda _, value: int(value))


def measure(rows, request):
    """Return the whole numbers that noise would be added to."""
    engine = open_engine(rows)
    plan = SimpleNamespace(side="both", bits=BITS)
    curation = SimpleNamespace(card=engine.card, engine=engine, plan=plan, parse=cached_parser(engine.card), progress=None)
    return _measure_tasks(curation, read_statistic(curation, request))


def largest_move(points, request, *, rows):
    """Return by how much the numbers move at most when the first row of any small table becomes any other."""
    names = list(points[0])
    known = {
        table: measure({name: np.array([row[name] for row in map(points.__getitem__, table)]) for name in names}, request)
        for table in itertools.combinations_with_replacement(range(len(points)), rows)
    }
    largest = 0
    for rest in itertools.combinations_with_replacement(range(len(points)), rows - 1):
        found = np.array([known[tuple(sorted((point, *rest)))] for point in range(len(points))], dtype=object)
        largest = max(largest, int((found.max(0) - found.min(0)).max()))
    return largest


LINE = [{"x": value} for value in (0.0, 0.37, 0.5, 1.0)]
SQUARE = [{"x": first, "y": second} for first, second in itertools.product((0.0, 0.4, 1.0), repeat=2)]


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_u5_a_row_moves_a_variance_by_exactly_what_is_charged(rows):
    """c = 1: the released number moves by 2^bits and no more, as a plain sum does."""
    assert largest_move(LINE, Variance(column="x", low=0, high=1), rows=rows) == 1 << BITS


@pytest.mark.parametrize("rows", [2, 4])
def test_u5_a_row_moves_a_covariance_by_exactly_what_is_charged(rows):
    request = Covariance(first="x", second="y", bounds={"x": (0, 1), "y": (0, 1)})
    assert largest_move(SQUARE, request, rows=rows) == 1 << BITS


def test_the_numbers_are_the_sample_s_own(monkeypatch):
    without_noise(monkeypatch)
    rows = make_rows()
    bmi, age = np.clip(rows["bmi"], 14, 60), np.clip(rows["age"], 0, 120)
    with open_curator(rows) as curator:
        found = curator.variance("bmi", low=14, high=60)
        assert found.value == pytest.approx(np.var(bmi, ddof=1), abs=46**2 * 1e-6)
        assert np.var(bmi, ddof=1) in found.sample_interval
        found = curator.covariance("bmi", "age", bounds={"bmi": (14, 60), "age": (0, 120)})
        assert found.value == pytest.approx(np.cov(bmi, age)[0, 1], abs=46 * 120 * 1e-6)


def test_values_outside_count_as_the_nearer_end_and_missing_ones_as_the_lower(monkeypatch):
    without_noise(monkeypatch)
    odd = [math.nan, math.inf, -math.inf, None, -5.0, 7.0, 0.25, 1.0]
    with open_curator({"x": np.array(odd * 100, dtype=object)}, types={"x": "real"}) as curator:
        found = curator.variance("x", low=0, high=1)
    counted = np.array([0, 1, 0, 0, 0, 1, 0.25, 1] * 100)
    assert found.value == pytest.approx(np.var(counted, ddof=1), abs=1e-6)


def test_u5_the_half_width_is_c_times_noise_and_gap():
    with open_curator(make_rows(40_000), queries=5) as curator:
        frozen, wide = curator.plan.transfer, 46.0**2
        price = curator.preview_statistic(Variance(column="bmi", low=14, high=60))
        assert (price.questions, price.cost) == (1, pytest.approx(curator.plan.cost * 1e-15))
        found = curator.variance("bmi", low=14, high=60)
        half = frozen.noise + low_sensitivity_gap(frozen.epsilon, frozen.slack)
        assert found.sensitivity == wide
        assert found.interval.high - found.value == pytest.approx(wide * half, rel=1e-3)
        assert price.alphas == (pytest.approx(wide * half, rel=1e-3),)
        assert found.certificate.event == curator.plan.event
        assert found.certificate.cost == pytest.approx(price.cost)
        assert "U5" in found.certificate.theorem
        assert "one question" in str(price)
        assert "population" in found.target


def test_a_statistic_is_stored_and_repeated_for_nothing(tmp_path):
    with open_curator(ledger=tmp_path / "l") as curator:
        first = curator.variance("bmi", low=14, high=60)
        asks = curator.budget.asks
        again = curator.variance("bmi", low=14.0, high=60)
        assert again.repeated
        assert again.value == first.value
        assert curator.budget.asks == asks == 49
        assert not curator.variance("bmi", low=14, high=61).repeated
        assert decode(encode([first]), list[Response]) == [first]
        assert "bmi from 14 to 60" in str(first)
        assert curator.history[0].request == "bmi from 14 to 60"
        curator.covariance("bmi", "age", bounds={"bmi": (0, 9), "age": (0, 9)}, key="k")
        with pytest.raises(ht.HoldtrueError):
            curator.variance("bmi", low=1, high=2, key="k")
    assert ht.verify(tmp_path / "l")
    with ht.Curator(make_rows(), ledger=tmp_path / "l") as curator:
        assert curator.variance("bmi", low=14, high=60).value == first.value


def test_other_ledgers_and_plans_answer_too():
    with open_curator(epsilon=1.0, delta=0.0, pure=True, queries=20) as curator:
        found = curator.variance("bmi", low=14, high=60)
        assert found.interval.low <= found.value <= found.interval.high
    with open_curator(queries=None, epsilon=1.0, delta=1e-6) as curator:
        first = curator.variance("bmi", low=14, high=60)
        assert curator.variance("bmi", low=14, high=61).interval is not None
        assert first.interval.width > first.sample_interval.width
    with open_curator(iid=False, epsilon=1.0, delta=1e-6) as curator:
        found = curator.variance("bmi", low=14, high=60)
        assert found.interval is None
        assert "iid=True" in found.reason
        assert found.certificate.theorem is None


def test_the_card_has_bounds_for_two_columns(monkeypatch):
    without_noise(monkeypatch)
    with open_curator(bounds={"bmi": (14, 60), "age": (0, 120)}) as curator:
        given = curator.covariance("bmi", "age", bounds={"bmi": (14, 60), "age": (0, 120)})
        assert curator.covariance("bmi", "age").repeated
        assert given.value == curator.covariance("bmi", "age").value


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda c: c.variance("bmx", low=0, high=1), UnknownColumn),
        (lambda c: c.variance("smoker", low=0, high=1), InvalidParameter),
        (lambda c: c.variance("bmi", low=1, high=1), InvalidParameter),
        (lambda c: c.variance("bmi", low=math.nan, high=1), InvalidParameter),
        (lambda c: c.covariance("bmi", "bmi"), InvalidParameter),
        (lambda c: c.covariance("bmi", "age"), InvalidParameter),
        (lambda c: c.covariance("bmi", "age", bounds={"bmi": (0, 1), "x": (0, 1)}), InvalidParameter),
        (lambda c: c.covariance("bmi", "age", bounds=[(0, 1)]), InvalidParameter),
        (lambda c: c.covariance("bmi", "age", bounds={"bmi": 3, "age": (0, 1)}), InvalidParameter),
    ],
)
def test_what_is_refused_costs_nothing(ask, error):
    with open_curator() as curator:
        with pytest.raises(error):
            ask(curator)
        assert curator.budget.spent == 0


def test_one_row_one_side_and_an_empty_budget_are_refused():
    with pytest.raises(InsufficientSamples):
        measure({"x": np.array([1.0])}, Variance(column="x", low=0, high=1))
    with open_curator(side="low") as curator, pytest.raises(NotCertified):
        curator.variance("bmi", low=14, high=60)
    with open_curator(queries=1) as curator:
        curator.variance("bmi", low=14, high=60)
        with pytest.raises(BudgetExceeded):
            curator.variance("bmi", low=14, high=61)

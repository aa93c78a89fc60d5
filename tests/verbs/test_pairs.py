"""Statistics that are not means of rows: how far one row moves them, what they cost, what they say (U5)."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

import holdtrue as ht
from holdtrue.bounds.low_sensitivity import low_sensitivity_gap, low_sensitivity_interval
from holdtrue.bounds.transfer import ratio_in_box
from holdtrue.codec import decode, encode
from holdtrue.engines import open_engine
from holdtrue.errors import BudgetExceeded, InsufficientSamples, InvalidParameter, NotCertified, UnknownColumn
from holdtrue.mechanisms import Gaussian
from holdtrue.records import Response
from holdtrue.requests import Auc, Correlation, Covariance, Gini, Pairs, RSquared, Variance
from holdtrue.verbs import pairs
from holdtrue.verbs.asking import cached_parser
from holdtrue.verbs.pairs import _shuffle_rows, read_statistic
from holdtrue.verbs.statistic_tasks import measure_tasks

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
    (found,) = measure_all([rows], request)
    return found


def measure_all(tables, request):
    """Return the same of several tables with the same columns and equally many rows: the request is read once."""
    engines = [open_engine(rows) for rows in tables]
    curation = SimpleNamespace(
        card=engines[0].card,
        engine=engines[0],
        plan=SimpleNamespace(side="both", bits=BITS),
        parse=cached_parser(engines[0].card),
        progress=None,
    )
    tasks = read_statistic(curation, request).tasks
    return [measure_tasks(SimpleNamespace(**vars(curation) | {"engine": engine}), tasks) for engine in engines]


def largest_move(points, request, *, rows):
    """Return by how much the numbers move at most when the first row of any small table becomes any other."""
    listed = list(itertools.combinations_with_replacement(range(len(points)), rows))
    tables = [{name: np.array([points[place][name] for place in table]) for name in points[0]} for table in listed]
    known = dict(zip(listed, measure_all(tables, request), strict=True))
    largest = 0
    for rest in itertools.combinations_with_replacement(range(len(points)), rows - 1):
        found = np.array([known[tuple(sorted((point, *rest)))] for point in range(len(points))], dtype=object)
        largest = max(largest, int((found.max(0) - found.min(0)).max()))
    return largest


LINE = [{"x": value} for value in (0.0, 0.37, 0.5, 1.0)]
LABELLED = [{"x": score, "y": label} for score, label in itertools.product((0.0, 0.37, 1.0), (True, False))]
SQUARE = [{"x": first, "y": second} for first, second in itertools.product((0.0, 0.4, 1.0), repeat=2)]


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_u5_a_row_moves_a_variance_by_exactly_what_is_charged(rows):
    """c = 1: the released number moves by 2^bits and no more, as a plain sum does."""
    assert largest_move(LINE, Variance(column="x", low=0, high=1), rows=rows) == 1 << BITS


@pytest.mark.parametrize("rows", [2, 3])
def test_u5_a_row_moves_a_covariance_by_exactly_what_is_charged(rows):
    request = Covariance(first="x", second="y", bounds={"x": (0, 1), "y": (0, 1)})
    assert largest_move(SQUARE, request, rows=rows) == 1 << BITS


@pytest.mark.parametrize(
    ("points", "request_"),
    [
        (LINE, Gini(column="x", low=0, high=1)),
        (LABELLED, Auc(score="x", label="y")),
        (SQUARE, Correlation(first="x", second="y", bounds={"x": (0, 1), "y": (0, 1)})),
        (SQUARE, RSquared(prediction="x", target="y", low=0, high=1)),
    ],
    ids=["gini", "auc", "correlation", "r_squared"],
)
def test_u5_a_row_moves_each_part_by_exactly_what_is_charged(points, request_, monkeypatch):
    """c = 2 of mean differences and of the right and wrong pairs of an AUC: each part is a plain sum's worth.

    Counted on 16 steps in place of 1,024: neither what is charged nor how far a row moves a part depends on their number.
    """
    monkeypatch.setattr(pairs, "_STEPS", 16)
    assert largest_move(points, request_, rows=3) == 1 << BITS


@pytest.mark.parametrize(
    ("kernel", "c"),
    [("abs(a.x - b.x)", 2.0), ("a.x <> b.x", 2.0), ("a.x * b.x / 2", 2.0), ("LEAST(abs(a.x - b.x), 0.5)", 1.0)],
)
def test_u5_a_row_moves_pairs_by_at_most_what_is_charged_whatever_the_order(kernel, c):
    """Brute force over ordered tables and orders; interval arithmetic finds that the last one spans half as much."""
    values, rows = [0.0, 0.5, 1.0], 4
    tables = list(itertools.product(values, repeat=rows))
    orders = [np.array(order) for order in ([0, 1, 2, 3], [0, 2, 1, 3], [3, 1, 0, 2])]
    engines = {table: open_engine({"x": np.array(table)}) for table in tables}
    card = engines[tables[0]].card
    curation = SimpleNamespace(
        card=card, engine=engines[tables[0]], plan=SimpleNamespace(side="both", bits=BITS), progress=None
    )
    (task,) = read_statistic(curation, Pairs(kernel=kernel)).tasks
    assert task.sensitivity == c
    largest = 0
    for order in orders:
        found = {
            table: task.measure_rows([engine.sum_pairs(task.queries[0], order, bits=40)], bits=BITS)
            for table, engine in engines.items()
        }
        for table in tables:
            for place, value in itertools.product(range(rows), values):
                other = (*table[:place], value, *table[place + 1 :])
                largest = max(largest, abs(found[table] - found[other]))
    assert largest <= 1 << BITS
    assert largest == 1 << BITS or kernel == "a.x * b.x / 2"


def test_an_order_of_rows_is_drawn_anew_and_uniform():
    drawn = [tuple(_shuffle_rows(3)) for _ in range(6000)]
    counts = np.array([drawn.count(order) for order in itertools.permutations(range(3))])
    assert counts.sum() == 6000
    assert np.abs(counts - 1000).max() < 200  # seven deviations


def test_ratios_are_the_sample_s_own(monkeypatch):
    without_noise(monkeypatch)
    rows = make_rows()
    bmi, age = np.clip(rows["bmi"], 14, 60), np.clip(rows["age"], 0, 120)
    span = {"bmi": (14, 60), "age": (0, 120)}
    with open_curator(rows) as curator:
        assert curator.correlation("bmi", "age", bounds=span).value == pytest.approx(np.corrcoef(bmi, age)[0, 1], abs=1e-4)
        gini = np.abs(age[:, None] - age[None]).mean() * ROWS / (ROWS - 1) / (2 * age.mean())
        found = curator.gini("age", low=0, high=120)
        assert found.value == pytest.approx(gini, abs=1e-3)
        assert gini in found.sample_interval
        explained = 1 - ((bmi - np.clip(rows["age"], 14, 60)) ** 2).mean() / np.var(np.clip(rows["age"], 14, 60), ddof=1)
        assert curator.r_squared("bmi", "age", low=14, high=60).value == pytest.approx(max(-1, explained), abs=1e-4)
        found = curator.auc("bmi", "smoker", low=0, high=64)
        yes, no = rows["bmi"][rows["smoker"]] // 0.0625, rows["bmi"][~rows["smoker"]] // 0.0625
        right = (yes[:, None] > no[None]).mean() + (yes[:, None] == no[None]).mean() / 2
        assert found.value == pytest.approx(right, abs=1e-9)
        assert sum(part.value for part in found.parts) == pytest.approx(2 * len(yes) * len(no) / (ROWS * (ROWS - 1)))
        pairs = curator.pairs("abs(a.age - b.age)", high=120)
        assert pairs.value == pytest.approx(2 * gini * age.mean(), rel=0.05)
        same = curator.pairs("a.smoker = b.smoker AND a.bmi > 20")
        assert 0.3 < same.value < 0.6


def test_the_parts_of_a_ratio_are_answers_of_their_own():
    with open_curator() as curator:
        variance = curator.variance("bmi", low=14, high=60)
        asks = curator.budget.asks
        found = curator.correlation("bmi", "age", bounds={"bmi": (14, 60), "age": (0, 120)})
        assert curator.budget.asks == asks - 2
        assert (found.parts[1].value, found.parts[1].repeated, found.repeated) == (variance.value, True, False)
        again = curator.correlation("bmi", "age", bounds={"bmi": (14, 60), "age": (0, 120)})
        assert again.repeated
        assert again.value == found.value
        assert curator.budget.asks == asks - 2
        assert found.sensitivity is None
        assert "open" in found.reason
        assert found.interval.low == -1.0


def test_the_best_error_is_the_least_count_of_the_class(monkeypatch, tmp_path):
    without_noise(monkeypatch)
    rows = make_rows()
    stumps = ht.Stumps(bounds={"bmi": (14, 60), "age": (0, 120)}, steps=20)
    with open_curator(rows, ledger=tmp_path / "l") as curator:
        found = curator.best_error(stumps, target="age > 60 AND bmi > 20")
        wrong = stumps.error_counts(np.column_stack([rows["bmi"], rows["age"]]), (rows["age"] > 60) & (rows["bmi"] > 20))
        assert found.value == pytest.approx(wrong.min() / ROWS)
        assert found.sensitivity == 1.0
        assert "samples of 4,000 rows" in found.target
        assert curator.best_error(stumps, target="age > 60 AND bmi > 20").repeated
        assert not curator.best_error(stumps, target="age > 61").repeated
        with pytest.raises(InvalidParameter):
            curator.best_error(stumps, target="age")
        with pytest.raises(InvalidParameter):
            curator.best_error([], target="age > 60")
    assert ht.verify(tmp_path / "l")


def test_an_audit_of_the_ledger_finds_every_statistic_in_order(tmp_path):
    with open_curator(ledger=tmp_path / "l") as curator:
        curator.correlation("bmi", "age", bounds={"bmi": (14, 60), "age": (0, 120)})
        curator.r_squared("bmi", "age", low=14, high=60)
        curator.gini("age", low=0, high=120)
        curator.auc("bmi", "smoker", low=0, high=64)
        curator.pairs("a.age > b.bmi")
        curator.best_error(ht.Stumps(bounds={"bmi": (14, 60)}, steps=5), target="smoker")
    assert ht.verify(tmp_path / "l")
    assert ht.audit_ledger(tmp_path / "l").breaches == ()


def test_rows_that_are_not_in_this_process_have_no_pairs(monkeypatch):
    with open_curator() as curator:
        monkeypatch.setattr(type(curator.pipeline.engine), "pairs", False)
        with pytest.raises(NotCertified, match="variance, covariance, correlation, gini or auc"):
            curator.pairs("abs(a.bmi - b.bmi)", high=60)
        assert curator.budget.spent == 0
        assert curator.gini("bmi", low=0, high=60).interval is not None


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
        (lambda c: c.variance("bmi", low=0, high=1e120), InvalidParameter),
        (lambda c: c.variance("bmi", low=0, high=1e-120), InvalidParameter),
        (lambda c: c.r_squared("bmi", "age", low=-1e120, high=0), InvalidParameter),
        (lambda c: c.correlation("bmi", "age", bounds={"bmi": (0, 1), "age": (0, 1e180)}), InvalidParameter),
        (lambda c: c.covariance("bmi", "bmi"), InvalidParameter),
        (lambda c: c.covariance("bmi", "age"), InvalidParameter),
        (lambda c: c.covariance("bmi", "age", bounds={"bmi": (0, 1), "x": (0, 1)}), InvalidParameter),
        (lambda c: c.covariance("bmi", "age", bounds=[(0, 1)]), InvalidParameter),
        (lambda c: c.covariance("bmi", "age", bounds={"bmi": 3, "age": (0, 1)}), InvalidParameter),
        (lambda c: c.gini("bmi", low=-1, high=1), InvalidParameter),
        (lambda c: c.auc("bmi", "age"), InvalidParameter),
        (lambda c: c.auc("smoker", "smoker"), InvalidParameter),
        (lambda c: c.auc("bmi", "smoker", low=2), InvalidParameter),
        (lambda c: c.r_squared("bmi", "bmi", low=0, high=1), InvalidParameter),
        (lambda c: c.pairs("a.bmi"), InvalidParameter),
        (lambda c: c.pairs("bmi + b.bmi"), UnknownColumn),
        (lambda c: c.pairs("a.smoker AND b.smoker", high=2), InvalidParameter),
        (lambda c: c.pairs("0 - abs(a.bmi - b.bmi)"), InvalidParameter),
        (lambda c: c.pairs("a.bmi // b.bmi"), ht.RequestError),
        (lambda c: c.pairs(3), InvalidParameter),
        (lambda c: c.find_statistic("variance"), InvalidParameter),
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


def find_ends(plan, answer, *, c, span):
    noise, epsilon, slack = plan.transfer_terms(draw=1, spent=0)
    return low_sensitivity_interval(answer, sensitivity=c, noise=noise, epsilon=epsilon, slack=slack, span=span)


@pytest.mark.parametrize("noisy", [True, False])
def test_u5_an_analyst_who_asks_for_aucs_and_then_for_the_majority_s_is_not_fooled(noisy, request):
    """Scores that know nothing: every box holds in 200 runs; without noise the usual interval of the last misses."""
    rows, features, runs = 4000, 101, 200
    plan = ht.plan(queries=2 * features + 2, rows=rows)
    random = np.random.default_rng(list(request.node.name.encode()))
    usual = 3.7 * math.sqrt(1 / (3 * rows))  # normal, for all of them at once
    missed = fooled = 0
    for _ in range(runs):
        bits, label = random.random((rows, features), dtype=np.float32) < 0.5, random.random(rows) < 0.5
        ones, yes = bits[label].sum(0), int(label.sum())
        wrong = bits[~label].sum(0)
        right = (
            (ones * (rows - yes - wrong) + (ones * wrong + (yes - ones) * (rows - yes - wrong)) / 2) * 2 / rows / (rows - 1)
        )
        noise = noisy * random.normal(0, 2 * plan.sigma, (2, features + 1))
        asked = right + noise[0, :-1]
        signs = np.where(asked > 0.25, 1, -1)
        score = bits @ signs
        order = np.argsort(score + random.random(rows) / 2)
        ranks = np.empty(rows)
        ranks[order] = np.arange(rows)
        over = (ranks[label].sum() - yes * (yes - 1) / 2) * 2 / rows / (rows - 1)
        under = 2 * yes * (rows - yes) / rows / (rows - 1) - over
        answers = over + noise[0, -1], under + noise[1, -1]
        first, second = (find_ends(plan, float(answer), c=2, span=(0.0, 0.51)) for answer in answers)
        low, high = ratio_in_box(first, second)
        ends = np.array([find_ends(plan, float(answer), c=2, span=(0.0, 0.51)) for answer in asked])
        missed += not (low <= 0.5 <= high and np.all(ends[:, 0] <= 0.25) and np.all(ends[:, 1] >= 0.25))
        fooled += answers[0] / (answers[0] + answers[1]) - 0.5 > usual
    if noisy:
        assert missed == 0
    else:
        assert fooled > 0.9 * runs


@pytest.mark.parametrize("noisy", [True, False])
def test_u5_an_analyst_who_asks_for_variances_and_then_for_the_widest_is_not_fooled(noisy, request):
    """Columns that are 1 for a fifth of the population; the last is 1 where those that looked wide are."""
    rows, columns, runs = 4000, 101, 200
    plan = ht.plan(queries=columns + 1, rows=rows)
    random = np.random.default_rng(list(request.node.name.encode()))
    missed = fooled = 0
    for _ in range(runs):
        bits = random.random((rows, columns), dtype=np.float32) < 0.2
        noise = noisy * random.normal(0, plan.sigma, columns + 1)
        asked = bits.var(0, ddof=1) + noise[:-1]
        signs = np.where(asked > 0.16, 1, -1)
        plus = int((signs > 0).sum())
        law = np.convolve(
            binom.pmf(np.arange(plus + 1), plus, 0.2), binom.pmf(np.arange(columns - plus + 1), columns - plus, 0.2)[::-1]
        )
        reached = np.cumsum(law[::-1])[::-1]  # how likely the sum of signed columns is to be so large
        edge = int(np.argmin(np.abs(reached - 0.2)))
        truth = reached[edge] * (1 - reached[edge])
        last = (bits @ signs >= edge - (columns - plus)).var(ddof=1) + noise[-1]
        low, high = find_ends(plan, float(last), c=1, span=(0.0, 0.26))
        ends = np.array([find_ends(plan, float(answer), c=1, span=(0.0, 0.26)) for answer in asked])
        missed += not (low <= truth <= high and np.all(ends[:, 0] <= 0.16) and np.all(ends[:, 1] >= 0.16))
        usual = 3.6 * abs(1 - 2 * reached[edge]) * math.sqrt(truth / rows)
        fooled += last - truth > usual
    if noisy:
        assert missed == 0
    else:
        assert fooled > 0.9 * runs

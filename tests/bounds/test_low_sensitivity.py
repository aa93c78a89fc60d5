"""Statistics of low sensitivity: THEORY2 U5 by formulas, by exact posteriors, by enumeration and by climbing.

HOLDTRUE_TABLES=42000 climbs over as many tables, in place of 4,200.
"""

import itertools
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from holdtrue.accounting.closed_forms import gaussian_delta
from holdtrue.bounds.low_sensitivity import (
    correlation_in_box,
    gini_in_box,
    low_sensitivity_gap,
    low_sensitivity_interval,
    r_squared_in_box,
)
from holdtrue.bounds.transfer import gaussian_shift
from holdtrue.errors import InvalidParameter

TABLES = int(os.environ.get("HOLDTRUE_TABLES", "4200"))


def list_queries(rows, values=2):
    """All functions on values^rows with neighbours at most 1 apart, from the first point on: vertices of U5's class."""
    points = list(itertools.product(range(values), repeat=rows))
    pairs = [
        (i, j)
        for i in range(len(points))
        for j in range(i)
        if sum(a != b for a, b in zip(points[i], points[j], strict=True)) == 1
    ]
    found = np.array([[0]])
    for i in range(1, len(points)):
        near = [j for a, j in pairs if a == i]
        found = np.array(
            [np.append(query, value) for query in found for value in range(max(query[near]) - 1, min(query[near]) + 2)]
        )
    return points, pairs, np.unique(found, axis=0) / rows


def product_law(points, laws):
    return np.array([np.prod([laws[place][value] for place, value in enumerate(point)]) for point in points])


def find_excess(table, law, queries, pairs, epsilon):
    """Return E[(largest gap - tanh)_+] (1 + e^(epsilon/2))/2 and the delta(epsilon) of a table of output laws."""
    outputs = law @ table
    posterior = (law[:, None] * table / np.maximum(outputs, 1e-300)).T
    gap = ((posterior - law[None]) @ queries.T).max(1)
    grown = math.exp(epsilon)
    delta = max(
        max(np.maximum(table[i] - grown * table[j], 0).sum(), np.maximum(table[j] - grown * table[i], 0).sum())
        for i, j in pairs
    )
    over = np.maximum(gap - low_sensitivity_gap(epsilon, 0.0), 0)
    return (outputs * over).sum() * (1 + math.exp(epsilon / 2)) / 2, delta


def test_u5_constants():
    assert low_sensitivity_gap(1, 0.01) == pytest.approx(0.25246948, abs=1e-8)
    assert low_sensitivity_gap(1, 0.0) == pytest.approx(0.24491866, abs=1e-8)
    assert low_sensitivity_gap(0.0, 0.3) == pytest.approx(0.3)
    assert low_sensitivity_gap(0.5, 1.0) == 1.0
    assert low_sensitivity_gap(1e6, 0.0) == 1.0


@pytest.mark.parametrize(
    ("mu", "beta", "gap", "plain"),
    [
        (0.01, 0.035, 0.006780, 0.006775),
        (0.05, 0.035, 0.033989, 0.033868),
        (0.1, 0.05, 0.065123, 0.064654),
        (0.3, 0.05, 0.196296, 0.192453),
        (1.0, 0.05, 0.610737, 0.587725),
    ],
)
def test_u5_gaussian_gap_is_little_wider_than_t5s(mu, beta, gap, plain):
    best = minimize_scalar(
        lambda log: low_sensitivity_gap(math.exp(log), gaussian_delta(mu, math.exp(log)) / beta),
        bounds=(math.log(mu / 20), math.log(20 * mu)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert best.fun == pytest.approx(gap, abs=1e-5)
    assert gaussian_shift(mu, beta=beta).gamma == pytest.approx(plain, abs=1e-5)
    assert best.fun >= gaussian_shift(mu, beta=beta).gamma * (1 - 1e-9)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_u5_without_delta_the_bound_is_attained_for_every_number_of_rows(rows):
    points, _, queries = list_queries(rows)
    assert len(queries) == {1: 3, 2: 19, 3: 495}[rows]
    share = 1 / (1 + math.exp(0.5))
    law = product_law(points, [[1 - share, share]] * rows)
    tilted = law * np.exp([sum(point) for point in points])
    gap = ((tilted / tilted.sum() - law) @ queries.T).max()
    assert gap == pytest.approx(0.24491866, abs=1e-8)
    assert gap <= low_sensitivity_gap(1, 0.0) + 1e-12


@pytest.mark.parametrize(("rows", "values"), [(1, 2), (2, 2), (3, 2), (2, 3)])
def test_u5_no_enumerated_table_and_no_climb_passes_the_bound(rows, values, request):
    random = np.random.default_rng(list(request.node.name.encode()))
    points, pairs, queries = list_queries(rows, values)
    hottest = 0.0
    for epsilon, start in itertools.product((0.1, 0.5, 1.0, 2.0), range(6 if rows < 3 else 3)):
        outputs = int(random.integers(2, 5))
        alike = np.tile(random.dirichlet(np.full(values, 2.0)), (rows, 1))
        law = product_law(points, random.dirichlet(np.full(values, 2.0), rows) if start % 2 else alike)
        signs = [1, -1, 0, 0][:outputs]
        tilt = np.array([[epsilon * sum(point) * sign for sign in signs] for point in points], dtype=float)
        held = tilt if start < 2 else random.normal(0, epsilon, (len(points), outputs))
        climbed = -1.0
        for _ in range(TABLES // 84):
            step = random.normal(0, random.choice([0.02, 0.2, 1.0]), held.shape) * (random.random(held.shape) < 0.4)
            table = np.exp(held + step - (held + step).max(1, keepdims=True))
            table /= table.sum(1, keepdims=True)
            excess, delta = find_excess(table, law, queries, pairs, epsilon)
            assert excess <= delta + 1e-12
            if delta > 1e-3 and excess / delta > climbed:
                climbed, held = excess / delta, held + step
        hottest = max(hottest, climbed)
    assert 0.05 < hottest <= 1


def test_a_statistic_of_sensitivity_c_is_c_times_as_wide_and_stays_within_its_span():
    frozen = {"noise": 0.01, "epsilon": 0.1, "slack": 0.004}
    gap = low_sensitivity_gap(0.1, 0.004)
    low, high = low_sensitivity_interval(0.3, sensitivity=2, span=(0.0, 1.0), **frozen)
    assert (low, high) == pytest.approx((0.3 - 2 * (0.01 + gap), 0.3 + 2 * (0.01 + gap)))
    assert low_sensitivity_interval(-0.2, sensitivity=1, span=(0.0, 0.25), **frozen)[0] == 0.0
    assert low_sensitivity_interval(0.24, sensitivity=1, span=(0.0, 0.25), **frozen)[1] == 0.25
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter):
            low_sensitivity_interval(0.3, sensitivity=wrong, span=(0.0, 1.0), **frozen)


def test_ratios_stay_within_the_ends_of_their_boxes(request):
    random = np.random.default_rng(list(request.node.name.encode()))
    for _ in range(300):
        boxes = np.sort(random.uniform(0, 1, (3, 2)), axis=1)
        signed = np.sort(random.uniform(-1, 1, 2))
        inside = random.uniform(boxes[:, 0], boxes[:, 1], (200, 3))
        top = random.uniform(*signed, 200)
        low, high = correlation_in_box(tuple(signed), tuple(boxes[0]), tuple(boxes[1]))
        found = np.clip(top / np.sqrt(inside[:, 0] * inside[:, 1]), -1, 1)
        assert low <= found.min() <= found.max() <= high
        low, high = gini_in_box(tuple(boxes[0]), tuple(boxes[1]))
        found = np.clip(inside[:, 0] / (2 * inside[:, 1]), 0, 1)
        assert low <= found.min() <= found.max() <= high
        low, high = r_squared_in_box(tuple(boxes[0]), tuple(boxes[1]))
        found = np.clip(1 - inside[:, 0] / inside[:, 1], -1, 1)
        assert low <= found.min() <= found.max() <= high


def test_u5_quotients_are_rounded_outward_however_large_or_small():
    pool = [1e-200, 2.0**-600, 1e-80, 2.0**-40, 0.1, 1 / 3, 1.0, 3.0, 1e80, 1e200]
    for top, one, other in itertools.product(pool, pool, pool):
        a, b, c = Fraction(top), Fraction(one), Fraction(other)
        low, high = correlation_in_box((top, top), (one, one), (other, other))
        square = a * a / (b * c)
        assert low <= 0 or Fraction(low) ** 2 < square
        assert high == 1 or Fraction(high) ** 2 > square
        low, high = gini_in_box((top, top), (one, one))
        assert low == 0 or Fraction(low) < a / (2 * b)
        assert high == 1 or Fraction(high) > a / (2 * b)
        low, high = r_squared_in_box((top, top), (one, one))
        assert low == -1 or Fraction(low) < 1 - a / b
        assert high == 1 or Fraction(high) > 1 - a / b


def test_a_denominator_that_may_be_0_leaves_the_widest_end():
    assert correlation_in_box((0.1, 0.2), (0.0, 0.5), (0.1, 0.2))[1] == 1.0
    assert correlation_in_box((-0.1, 0.2), (0.0, 0.0), (0.0, 0.0)) == (-1.0, 1.0)
    assert gini_in_box((0.1, 0.2), (0.0, 0.5))[1] == 1.0
    assert gini_in_box((0.0, 0.2), (0.0, 0.0)) == (0.0, 1.0)
    assert r_squared_in_box((0.1, 0.2), (0.0, 0.5))[0] == -1.0
    assert r_squared_in_box((0.0, 0.2), (0.0, 0.0)) == (-1.0, 1.0)

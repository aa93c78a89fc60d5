"""Prices of tables before any data: what disjoint cells cost, and the ends that follow from their answers (S1, U1, U2)."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from holdtrue.bounds.accuracy import gaussian_overshoot, grid
from holdtrue.errors import NotCertified
from holdtrue.exact import UNIT
from holdtrue.planning.asking import open_plan, plan
from holdtrue.planning.tables import TablePrice, count_unions, find_ends, find_ratio, price_means, price_table

LIMITS = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def made():
    return plan(rows=45_000, queries=500)


@pytest.fixture(scope="module")
def split():
    return plan(rows=45_000, queries=500, method="transfer-gaussian")


@pytest.fixture(scope="module")
def sample():
    return plan(rows=45_000, queries=500, iid=False, **LIMITS)


def fractional_price(plan, cells):
    """Solve the equation of S1 for the fraction of questions at which all cells book exactly their share."""
    box = plan.transfer.noise - grid(plan.rows, bits=plan.bits)
    low, high = 2.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        sigma = plan.sigma * math.sqrt(2 / middle)
        booked = cells * sigma * gaussian_overshoot(box / sigma)
        low, high = (middle, high) if booked > plan.transfer.overshoot * middle / plan.queries else (low, middle)
    return high


@pytest.mark.parametrize(("cells", "price"), [(10, 2.33), (100, 2.82), (1_000, 3.32), (10_000, 3.84), (100_000, 4.37)])
def test_s1_prices_of_the_sheet_in_fractions_of_questions(made, cells, price):
    assert fractional_price(made, cells) == pytest.approx(price, rel=0.006)
    assert price_table(made, cells).questions == math.ceil(fractional_price(made, cells))


@pytest.mark.parametrize("queries", [20, 100, 500, 2000])
def test_u1_the_price_rises_with_the_cells_and_hardly(queries):
    made = plan(rows=45_000, queries=queries)
    prices = [price_table(made, cells).questions for cells in (1, 2, 5, 10, 100, 1000, 10_000)]
    assert prices[0] == 2
    assert all(fewer <= more for fewer, more in pairwise(prices))
    assert prices[-1] <= 5


def test_u1_a_longer_plan_has_cheaper_tables():
    """By the fraction: at more questions the box of each is wider in deviations, and more cells fit in it."""
    fractions = [fractional_price(plan(rows=45_000, queries=queries), 1000) for queries in (100, 500, 2000)]
    assert all(longer < shorter for shorter, longer in pairwise(fractions))


@pytest.mark.parametrize("cells", [3, 100, 5000])
def test_u1_the_price_does_not_depend_on_the_rows(cells):
    assert len({price_table(plan(rows=rows, queries=500), cells).questions for rows in (10_000, 45_000, 10**6)}) == 1


@pytest.mark.parametrize("name", ["made", "split", "sample"])
def test_u1_what_is_charged_pays_for_two_moves_of_a_row(name, request):
    """One row leaves a cell and enters another: mu squared is 2/(rows sigma)^2. One move alone would be half (planted)."""
    chosen = request.getfixturevalue(name)
    price = price_table(chosen, 40)
    moved = 2 / (chosen.rows * Fraction(price.sigma)) ** 2
    assert moved <= price.cost * UNIT
    assert moved > Fraction(price.cost - chosen.cost, 1) * UNIT / 2
    assert 2 * moved > price.cost * UNIT  # noise for one move at this price would be too little


def test_u1_zcdp_ledgers_pay_the_same_in_questions(made):
    other = plan(rows=45_000, queries=500, method="joint-gaussian-zcdp")
    first, second = price_table(made, 100), price_table(other, 100)
    assert first.questions == second.questions
    assert (other.rows * second.sigma) ** -2 * 2 <= second.cost * 2 * float(UNIT) * (1 + 1e-12)


def test_u1_plans_that_split_beta_count_cells_as_draws(split):
    price = price_table(split, 40, unions={5: 8})
    assert price.questions == 48
    assert price.cost == 2 * split.cost
    assert price_table(split, 1).questions == 2


def test_u1_unions_are_dearer_the_more_cells_they_have(made):
    alone = price_table(made, 100)
    some = price_table(made, 100, unions={10: 10})
    ranges = price_table(made, 100, unions=count_unions([100], margins=False, ranges=True))
    assert alone.questions <= some.questions <= ranges.questions
    assert alone.sample_box / alone.sigma < some.sample_box / some.sigma < ranges.sample_box / ranges.sigma


@pytest.mark.parametrize(
    ("sizes", "margins", "ranges", "expected"),
    [
        ([4], False, False, {}),
        ([4], True, False, {}),
        ([4], False, True, {2: 3, 3: 2, 4: 1}),
        ([2, 3], True, False, {3: 2, 2: 3}),
        ([2, 2], True, False, {2: 4}),
        ([2, 3, 5], True, False, {15: 2, 10: 3, 6: 5, 5: 6, 3: 10, 2: 15}),
    ],
)
def test_u1_unions_counted_by_hand(sizes, margins, ranges, expected):
    assert count_unions(sizes, margins=margins, ranges=ranges) == expected


@pytest.mark.parametrize("sizes", [[3, 4], [2, 3, 4], [5, 5]])
def test_u1_margins_of_a_cube_are_as_many_as_the_sheet_says(sizes):
    """All margins of a cube with sizes n_i, the cells and not the total included: prod(n_i + 1) - 1."""
    members = math.prod(sizes) + sum(count_unions(sizes, margins=True, ranges=False).values())
    assert members == math.prod(size + 1 for size in sizes) - 1


@pytest.mark.parametrize(("outside", "cells", "unions"), [(False, 7, {1: 6, 2: 3}), (True, 13, {2: 12, 4: 3})])
def test_u2_means_are_priced_as_the_cells_and_what_is_said_of_them(made, outside, cells, unions):
    assert price_means(made, 3, outside=outside) == price_table(made, cells, unions=unions)


def test_u2_means_with_visible_bounds_are_no_cheaper(made):
    plain, clamped = (price_means(made, 50, outside=outside) for outside in (False, True))
    assert plain.cost <= clamped.cost
    assert plain.sample_box / plain.sigma < clamped.sample_box / clamped.sigma


def test_boxes_for_these_rows_hold_together_and_a_tenth_less_does_not(request):
    """Noise of all cells at once, against the release's share of beta, (1 - beta)^(questions/k); a small box is planted."""
    short = plan(rows=45_000, queries=10)
    price = price_table(short, 30)
    random, runs = np.random.default_rng(list(request.node.name.encode())), 40_000
    largest = np.abs(random.normal(0, price.sigma, (runs, 30))).max(axis=1)
    failure = 1 - (1 - short.beta) ** (price.questions / short.queries)
    spare = 6 * math.sqrt(failure * (1 - failure) / runs)
    assert (largest > price.sample_box).mean() <= failure + spare
    assert (largest > 0.9 * price.sample_box).mean() > failure + spare


@pytest.mark.parametrize("wrong", [open_plan(rows=45_000, **LIMITS), plan(rows=45_000, queries=50, pure=True, epsilon=1)])
def test_plans_without_a_set_number_or_with_other_noise_have_no_price(wrong):
    for price in (lambda: price_table(wrong, 10), lambda: price_means(wrong, 10, outside=False)):
        with pytest.raises(NotCertified, match="set number of questions"):
            price()


# Ends.


def test_one_cell_has_the_ends_of_a_question(made):
    price = price_table(made, 10)
    ends = find_ends(made, price, [0.3])
    assert ends.population == made.interval(0.3)
    assert ends.sample == pytest.approx((0.3 - price.sample_box, 0.3 + price.sample_box))


def test_u1_a_declared_union_is_narrower_than_one_chosen_afterwards(made):
    price = price_table(made, 9, unions={9: 1})
    answers = [0.05] * 9
    declared, later = (find_ends(made, price, answers, declared=each) for each in (True, False))
    assert declared.sample[1] - declared.sample[0] == pytest.approx(2 * (3 * price.sample_box + 9 * price.rounding))
    assert later.sample[1] - later.sample[0] == pytest.approx(18 * price.sample_box)
    assert later.population[0] <= declared.population[0] < declared.population[1] <= later.population[1]


def test_u1_the_gap_to_the_population_is_added_once(made):
    price = price_table(made, 10)
    union = find_ends(made, price, [0.1, 0.1, 0.1], declared=False)
    alone = find_ends(made, price, [0.1])
    assert union.population[1] - 0.3 < 3 * (alone.population[1] - 0.1)
    assert union.population[1] - 0.3 > 3 * made.transfer.noise


def test_u1_cells_below_zero_are_cut_only_where_boxes_are_added(made):
    price = price_table(made, 10)
    answers = [-0.05, 0.25]
    declared, later = (find_ends(made, price, answers, declared=each) for each in (True, False))
    assert sum(declared.sample) / 2 == pytest.approx(0.20)
    assert sum(later.sample) / 2 == pytest.approx(0.25)


@pytest.mark.parametrize("answers", [[-2.0], [3.0], [0.6, 0.7], [-1.0, -1.0, 0.2]])
def test_ends_stay_in_the_unit_interval(made, answers):
    price = price_table(made, 10)
    for declared in (True, False):
        ends = find_ends(made, price, answers, declared=declared)
        for low, high in (ends.sample, ends.population):
            assert 0 <= low <= high <= 1


def test_rows_that_are_not_independent_have_no_ends_for_a_population(sample):
    price = price_table(sample, 10)
    assert price.sample_box <= sample.sample_alpha
    assert find_ends(sample, price, [0.4]).population is None
    assert find_ratio(sample, price, [0.2], [0.2]).population is None


def test_other_theorems_add_the_ends_of_their_cells():
    older = plan(rows=200_000, queries=100, method="jung20")
    price = price_table(older, 10)
    union = find_ends(older, price, [0.2, 0.3])
    each = [older.interval(value) for value in (0.2, 0.3)]
    assert union.population == pytest.approx(tuple(map(sum, zip(*each, strict=True))))
    ratio = find_ratio(older, price, [0.2], [0.2])
    assert ratio.population[0] < 0.5 < ratio.population[1]


def test_u2_a_ratio_lies_between_its_ends_and_is_mirrored(made):
    price = price_table(made, 4)
    first, second = find_ratio(made, price, [0.3], [0.2]), find_ratio(made, price, [0.2], [0.3])
    for low, high in (first.sample, first.population):
        assert low < 0.6 < high
    assert first.population == pytest.approx(tuple(1 - end for end in reversed(second.population)), abs=1e-9)
    assert first.population[0] <= first.sample[0] <= first.sample[1] <= first.population[1]


def test_u2_a_ratio_of_next_to_nothing_says_nothing(made):
    price = price_table(made, 4)
    assert find_ratio(made, price, [0.0], [0.0]).population == (0.0, 1.0)


def test_u2_more_questions_narrow_a_ratio(made):
    few = price_table(made, 4)
    many = TablePrice(few.questions * 10, few.cost * 10, few.sigma / 3, few.sample_box / 3, few.rounding)
    wide, narrow = (find_ratio(made, price, [0.3], [0.2]).sample for price in (few, many))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]

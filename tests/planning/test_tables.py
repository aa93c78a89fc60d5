"""Prices of tables before any data: what disjoint cells cost, and the ends that follow from their answers (S1, U1, U2)."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_overshoot, grid
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import UNIT
from holdtrue.planning.asking import open_plan, plan
from holdtrue.planning.tables import (
    TablePrice,
    count_unions,
    cut_to_whole,
    find_cell_ends,
    find_ends,
    find_ratio,
    find_sample_ends,
    knows_total,
    move_to_total,
    place_price,
    price_marginal,
    price_means,
    price_table,
)

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


# Laplace noise (U1.3).


@pytest.mark.parametrize(
    "wrong", [open_plan(rows=9_000, epsilon=1, delta=0, pure=True), plan(rows=9_000, queries=50, pure=True, epsilon=1)]
)
def test_declared_unions_and_marginals_have_no_price_under_laplace_noise(wrong):
    prices = (
        lambda: price_table(wrong, 10, unions={2: 3}),
        lambda: price_marginal(wrong, 10),
    )
    for price in prices:
        with pytest.raises(NotCertified, match="need normal noise"):
            price()


def test_cells_need_normal_noise_where_laplace_noise_is_counted_in_rho():
    made = plan(rows=9_000, queries=50, method="transfer-laplace")
    if made.ledger == "zcdp":
        with pytest.raises(NotCertified, match="need normal noise"):
            price_table(made, 10)
    assert price_table(plan(rows=9_000, queries=50, pure=True), 10).questions == 3


def test_u1_3_means_under_laplace_noise_are_priced_by_their_cells_alone(laplace):
    for groups, outside, cells in ((1, True, 5), (12, True, 49), (12, False, 25)):
        assert price_means(laplace, groups, outside=outside, whole=True) == price_table(laplace, cells)


@pytest.fixture(scope="module")
def laplace():
    return plan(rows=45_000, queries=500, pure=True, epsilon=5)


@pytest.mark.parametrize(("cells", "questions"), [(3, 3), (10, 3), (100, 3), (1_000, 4), (10_000, 4), (100_000, 4)])
def test_u1_3_cells_on_a_pure_ledger_cost_few_questions(laplace, cells, questions):
    """The fewest c >= 2 with (2/c)(ln(g k/(c beta)) + 1) at most ln(k/beta) + 1, the box of one answer."""
    price = price_table(laplace, cells)
    one = math.log(laplace.queries / laplace.beta) + 1

    def width(asked):
        return 2 / asked * (math.log(cells * laplace.queries / (asked * laplace.beta)) + 1)

    assert price.questions == questions
    assert price.cost == questions * laplace.cost
    assert width(questions) <= one < width(questions - 1)
    assert price.sigma == pytest.approx(laplace.sigma * 2 / questions)


def test_u1_3_the_largest_noise_of_cells_keeps_to_its_share_of_beta_and_two_questions_do_not(request):
    """The mean of the largest noise over the worst c beta/k of its outcomes is within the plan's box (planted: 2 for 4)."""
    made = plan(rows=45_000, queries=20, pure=True, epsilon=5)
    price, cells = price_table(made, 300), 300
    random, runs = np.random.default_rng(list(request.node.name.encode())), 40_000
    scale = price.sigma / math.sqrt(2)
    largest = np.sort([random.laplace(0, scale, cells).__abs__().max() for _ in range(runs)])

    def worst(asked):
        share = made.beta * asked / made.queries
        return largest[-round(runs * share) :].mean() * price.questions / asked

    assert price.questions > 2
    assert worst(price.questions) <= made.transfer.noise < worst(2)


def test_u1_3_two_cells_of_all_rows_are_one_question(laplace):
    price = price_table(laplace, 2, whole=True)
    assert (price.questions, price.cost, price.sigma, price.whole) == (1, laplace.cost, laplace.sigma, 0)
    assert price.sample_box <= laplace.sample_alpha


def test_u1_3_a_vector_on_an_open_pure_plan_takes_its_place_in_the_order(request):
    made = open_plan(rows=9_000, epsilon=1, delta=0, pure=True, iid=True)
    first, tenth = (place_price(made, price_table(made, 50), draw=draw, spent=2 * made.cost) for draw in (2, 20))
    scale = made.sigma / math.sqrt(2)
    for price, draw in ((first, 2), (tenth, 20)):
        share = 6 / math.pi**2 / draw**2
        assert price.terms[0] == pytest.approx(scale * (math.log(50 / (made.noise_beta * share)) + 1), rel=1e-3)
        assert price.sample_box == pytest.approx(scale * math.log(50 / (made.beta * share)), rel=1e-3)
    random, runs = np.random.default_rng(list(request.node.name.encode())), 20_000
    largest = np.abs(random.laplace(0, scale, (runs, 50))).max(axis=1)
    failure = made.beta * 6 / math.pi**2 / 4
    assert (largest > first.sample_box).mean() <= failure + 6 * math.sqrt(failure / runs)


# A price of one's own.


@pytest.mark.parametrize("questions", [2, 3, 12])
def test_s1_a_price_of_ones_own_has_the_noise_that_it_pays_for_within_its_share_of_the_overshoot(made, questions):
    price, cells = price_table(made, 100, questions=questions), 100
    assert (price.questions, price.cost, price.members) == (questions, questions * made.cost, cells)
    assert price.sigma == pytest.approx(made.sigma * math.sqrt(2 / questions))
    share = made.transfer.overshoot * questions / made.queries
    box = price.terms[0] - price.rounding
    assert 0.999 * share <= cells * price.sigma * gaussian_overshoot(box / price.sigma) <= share
    assert (price.terms[0] <= made.transfer.noise) == (questions >= price_table(made, 100).questions)
    assert price.terms[1:] == price_table(made, 100).terms[1:]
    means = price_means(made, 10, outside=True, questions=questions)
    assert (means.cost, means.sigma) == (price.cost, price.sigma)


def test_u1_3_a_price_of_ones_own_on_a_pure_ledger_has_its_share_of_beta(laplace):
    for questions in (2, 5, 40):
        price = price_table(laplace, 10, questions=questions)
        assert price.sigma == pytest.approx(laplace.sigma * 2 / questions, rel=1e-6)
        least = price.sigma / math.sqrt(2) * (math.log(10 * laplace.queries / (questions * laplace.beta)) + 1)
        assert price.terms[0] - price.rounding == pytest.approx(least, rel=0.1)
        assert price.terms[0] >= least
        assert (price.cost, price_means(laplace, 3, outside=True, questions=questions).cost) == (
            questions * laplace.cost,
        ) * 2


@pytest.mark.parametrize("questions", [1, 0, -3, 10_001, 2.5, "3"])
def test_a_price_that_cannot_be_is_named(made, laplace, questions):
    for each in (made, laplace):
        with pytest.raises(InvalidParameter, match="questions"):
            price_table(each, 10, questions=questions)


def test_u1_other_theorems_take_no_price_of_ones_own():
    with pytest.raises(NotCertified, match="leave out questions"):
        price_table(plan(rows=10**6, queries=100, method="rrstww20"), 10, questions=2)


# A known total (U1.5).


@pytest.mark.parametrize("cells", [2, 3, 10, 200])
def test_u1_5_moved_noise_has_the_deviation_of_the_sheet_and_no_bias(cells, request):
    """Covariance I - 1/g: sqrt(1 - 1/g) for a cell, sqrt(n (1 - n/g)) for a union; a tenth more or less is told apart."""
    random, runs, scale = np.random.default_rng(list(request.node.name.encode())), 20_000, 1000
    noise = np.rint(random.normal(0, scale, (runs, cells))).astype(int)
    moved = np.array([move_to_total(row.tolist(), 0) for row in noise])
    assert (moved.sum(axis=1) == 0).all()
    assert np.abs(moved - (noise - noise.mean(axis=1, keepdims=True))).max() <= 1
    for number in {1, cells // 2 or 1}:
        union = moved[:, :number].sum(axis=1) / scale
        right = math.sqrt(number * (1 - number / cells))
        assert union.std() == pytest.approx(right, rel=0.04)  # eight deviations
        assert abs(union.mean()) < 6 * right / math.sqrt(runs) + 1e-3


def test_u1_5_two_cells_are_one_question_and_its_complement(made, split):
    for chosen in (made, split, open_plan(rows=45_000, **LIMITS, iid=True)):
        price = price_table(chosen, 2, whole=True)
        assert (price.questions, price.cost, price.sigma, price.whole) == (1, chosen.cost, chosen.sigma, 2)
        assert price_table(chosen, 2).questions == 2
        placed = place_price(chosen, price, draw=7, spent=7 * chosen.cost)
        low, high = find_cell_ends(chosen, placed, [0.3, 0.7])
        assert (low[0], high[0]) == pytest.approx(chosen.interval(0.3, draw=7, spent=7 * chosen.cost), abs=2e-6)
        assert (1 - high[1], 1 - low[1]) == pytest.approx((low[0], high[0]), abs=1e-9)
    assert price_table(made, 2, whole=True).sample_box * math.sqrt(0.5) == pytest.approx(made.sample_alpha, rel=1e-9)


@pytest.mark.parametrize("cells", [3, 4, 10, 100, 1000])
def test_u1_5_a_known_total_costs_the_same_and_is_never_wider(made, cells):
    plain, whole = (price_table(made, cells, whole=known) for known in (False, True))
    assert (plain.questions, plain.cost, plain.sigma) == (whole.questions, whole.cost, whole.sigma)
    boxes = [price.widen(price.sample_box, 1, declared=True) for price in (plain, whole)]
    assert boxes[1] / boxes[0] == pytest.approx(math.sqrt(1 - 1 / cells), rel=1e-4)
    values = [1 / cells] * cells
    (low, high), (first, last) = (find_cell_ends(made, price, values) for price in (plain, whole))
    assert all(before <= after for before, after in zip(low, first, strict=True))
    assert all(after <= before for before, after in zip(high, last, strict=True))


def test_u1_5_unions_of_a_known_total_have_the_noise_of_the_smaller_side(made):
    price = price_table(made, 10, unions={3: 8, 9: 1}, whole=True)
    box = made.transfer.noise
    for number, declared, boxes in ((3, True, math.sqrt(2.1)), (9, True, math.sqrt(0.9)), (9, False, math.sqrt(0.9))):
        assert price.widen(box, number, declared=declared) == pytest.approx(boxes * box, abs=1e-5)
    assert price.widen(box, 6, declared=False) == pytest.approx(4 * math.sqrt(0.9) * box, abs=1e-5)
    everybody = find_ends(made, price, [0.1] * 10, declared=False)
    assert everybody.sample[0] == pytest.approx(1, abs=1e-5)


def test_u1_5_many_cells_or_hardly_any_rows_are_left_as_they_are(made):
    assert price_table(made, 5000, whole=True) == price_table(made, 5000)
    assert not knows_total(7, 3)


def test_u1_5_the_cut_by_the_simplex_holds_wherever_all_ends_do(request):
    """Probability vectors inside their boxes stay inside what is cut; nothing widens, and every value stays inside."""
    random, narrowed = np.random.default_rng(list(request.node.name.encode())), 0
    for _ in range(400):
        cells = int(random.integers(2, 12))
        truth = random.dirichlet([0.3] * cells)
        box = float(random.uniform(0.01, 0.2))
        raw = truth + random.uniform(-box, box, cells)
        raw -= (raw.sum() - 1) / cells
        wide = 2 * box
        values = np.clip(raw, 0, 1).tolist()
        low, high = ([float(min(max(value + side * wide, 0), 1)) for value in values] for side in (-1, 1))
        first, last = cut_to_whole(values, low, high)
        for value, right, *ends in zip(values, truth, low, first, last, high, strict=True):
            assert ends == sorted(ends)
            assert ends[1] <= right + 1e-9
            assert right <= ends[2] + 1e-9
            assert ends[1] <= value <= ends[2]
        narrowed += low != first or high != last
    assert narrowed > 20


@pytest.mark.parametrize("cells", [3, 5, 20])
def test_u1_5_projecting_on_the_simplex_moves_one_cell_by_at_most_2_1_minus_1_over_g(cells, request):
    """An estimate, not an interval: the bound of a single cell is attained, so projected shares have no box of their own."""
    random = np.random.default_rng(list(request.node.name.encode()))
    noise = 0.05
    worst = 0.0
    for _ in range(300):
        truth = random.dirichlet([0.5] * cells)
        signs = random.choice([-1.0, 1.0], cells)
        worst = max(worst, float(np.abs(project(truth + noise * signs) - truth).max()))
    middle = np.full(cells, 1 / cells)
    signs = np.where(np.arange(cells) == 0, 1.0, -1.0)
    attained = float(np.abs(project(middle + 0.1 / cells * signs) - middle)[0]) / (0.1 / cells)
    assert worst <= 2 * (1 - 1 / cells) * noise + 1e-12
    assert attained == pytest.approx(2 * (1 - 1 / cells))


def project(answers):
    """Return the nearest probability vector."""
    order = np.sort(answers)[::-1]
    shifts = (np.cumsum(order) - 1) / np.arange(1, len(order) + 1)
    return np.maximum(0, answers - shifts[order > shifts][-1])


# Open-ended plans (U1.3 i, T7).


@pytest.mark.parametrize("members", [1, 10, 1000])
def test_u1_3_a_vector_takes_one_place_on_an_open_ended_plan(members):
    opened = open_plan(rows=45_000, **LIMITS, iid=True)
    price = price_table(opened, members)
    assert (price.questions, price.cost) == (2, 2 * opened.cost)
    assert 2 / (opened.rows * Fraction(price.sigma)) ** 2 <= price.cost * UNIT
    first, later = (place_price(opened, price, draw=draw, spent=draw * opened.cost) for draw in (2, 40))
    assert first.terms[0] < later.terms[0]
    assert first.sample_box < later.sample_box
    alone = opened.transfer_terms(draw=40, spent=40 * opened.cost)
    assert later.terms[1:] == alone[1:]  # the level of what was spent
    if members == 1:
        assert later.terms[0] == pytest.approx(alone[0], rel=1e-9)
    else:
        constant = gaussian_maximum(members, beta=opened.noise_beta * 6 / (math.pi * 40) ** 2)
        assert later.terms[0] == pytest.approx(price.sigma * constant + price.rounding, rel=1e-9)


def test_u1_3_places_of_all_draws_share_beta_once():
    """Every place is used once, by a question or a vector: the shares of all of them add up to the noise's part of beta."""
    assert sum(6 / (math.pi * draw) ** 2 for draw in range(1, 10**5)) < 1


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


def test_ends_of_all_cells_at_once_are_those_of_each(made, request):
    """To the last bit, so that what is stored is found again whichever way it is computed."""
    random = np.random.default_rng([len(request.node.name), 7])
    values = [0.0, 1.0, 1 / 3, *random.random(97).tolist()]
    for price in (price_table(made, 100), price_table(made, 100, whole=True)):
        near = price.widen(price.sample_box, 1, declared=True)
        low, high = [max(0.0, value - near) for value in values], [min(1.0, value + near) for value in values]
        if price.whole:
            least, most = math.fsum(low), math.fsum(high)
            triples = list(zip(values, low, high, strict=True))
            low = [max(one, min(value, 1 - (most - other) - 2.0**-40)) for value, one, other in triples]
            high = [min(other, max(value, 1 - (least - one) + 2.0**-40)) for value, one, other in triples]
        assert find_sample_ends(price, values) == (low, high)


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

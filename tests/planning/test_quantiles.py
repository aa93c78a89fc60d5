"""Quantiles before any data: grids, searches by hand, the factorisation by hand, and prices of curves and picks (U3)."""

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from holdtrue.bounds.selection import selection_shortfall
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import UNIT
from holdtrue.planning.asking import open_plan, plan
from holdtrue.planning.quantiles import (
    MOST_CELLS,
    MOST_PICKED,
    Bisection,
    QuantileGrid,
    ShareReading,
    bisect_levels,
    choose_method,
    count_most_asks,
    factorise,
    find_quantile_ends,
    place_curve,
    price_curve,
    price_picks,
    price_search,
    read_grid,
    read_levels,
    rebuild_grid,
    score_ranks,
)

ROWS = 45_000
EVERYBODY = ShareReading(1.0, 1.0, 1.0, 1.0, 1.0)


@pytest.fixture(scope="module")
def made():
    return plan(rows=ROWS, queries=500)


@pytest.fixture(scope="module")
def pure():
    return plan(rows=ROWS, queries=100, pure=True, epsilon=1.0)


def read_share(value, width=0.0, sample=None):
    near = width if sample is None else sample
    return ShareReading(value, value - width, value + width, value - near, value + near)


# The public grid.


def test_points_are_those_between_two_ends():
    grid = read_grid(10, 12, 0.5)
    assert [grid.find_point(place) for place in range(grid.points)] == [10.0, 10.5, 11.0, 11.5, 12.0]
    assert [grid.write_point(place) for place in range(grid.points)] == ["10", "10.5", "11", "11.5", "12"]
    assert grid.last == 4


@pytest.mark.parametrize(
    ("ends", "points"),
    [
        ((0, 1, 0.1), 11),
        ((0, 0.3, 0.1), 4),
        ((-1, 1, Decimal("0.25")), 9),
        ((0, 1, Fraction(1, 3)), 4),
        ((0, 1e15, 1e9), 10**6 + 1),
    ],
)
def test_steps_are_read_as_their_digits_say(ends, points):
    grid = read_grid(*ends)
    assert grid.points == points
    assert rebuild_grid(float(ends[0]), float(ends[1]), points) == grid


@pytest.mark.parametrize(
    ("ends", "named"),
    [
        ((1, 1, 1), "low"),
        ((2, 1, 1), "low"),
        (("a", 1, 1), "low"),
        ((0, math.inf, 1), "high"),
        ((0, math.nan, 1), "high"),
        ((0, 1, 0), "step"),
        ((0, 1, -1), "step"),
        ((0, 1, 0.3), "step"),
        ((0, 2**32, 1), "step"),
        ((1e16, 1e16 + 2, Fraction(1, 8)), "step"),
        ((0, 1, None), "step"),
    ],
)
def test_grids_that_cannot_be_are_named(ends, named):
    with pytest.raises(InvalidParameter, match=named):
        read_grid(*ends)


@pytest.mark.parametrize(("given", "levels"), [(0.5, (0.5,)), (Decimal("0.25"), (0.25,)), ([0.9, 0.1], (0.9, 0.1))])
def test_levels_keep_their_order(given, levels):
    assert read_levels(given) == levels


@pytest.mark.parametrize("wrong", [0, 1, -0.1, 1.5, [], [0.5, 0.5], "half", None, [0.1, "a"], math.nan, list(range(101))])
def test_levels_that_cannot_be_are_named(wrong):
    with pytest.raises(InvalidParameter, match="levels"):
        read_levels(wrong)


# The search, by hand.


@pytest.mark.parametrize(
    ("points", "levels", "most"), [(2**16, 1, 32), (2**16, 5, 160), (2**10, 1, 20), (11, 1, 8), (11, 5, 10), (2, 1, 1)]
)
def test_u3_the_most_questions_of_a_search(points, levels, most):
    """Two bisections a level, and never more than the grid has thresholds."""
    grid = QuantileGrid(Fraction(0), Fraction(1), points)
    assert count_most_asks(grid, levels, filtered=False) == most
    assert count_most_asks(grid, levels, filtered=True) == most + 1


def test_a_price_says_what_a_search_may_cost(made):
    price = price_search(made, read_grid(0, 1023, 1), 2, filtered=True, left=77)
    assert (price.method, price.points, price.asks, price.left) == ("search", 1024, 41, 77)
    assert price.cost == pytest.approx(41 * made.cost * float(UNIT))
    assert str(price).startswith("search over 1,024 points: at most 41 questions, ")
    assert str(price).endswith("; 77 left")


def test_u3_a_bisection_takes_the_half_where_the_quantile_is():
    lower, upper = (Bisection.begin(0.5, upper=upper, last=7) for upper in (False, True))
    sure, unsure, above = read_share(0.2, 0.1), read_share(0.45, 0.1), read_share(0.8, 0.1)
    assert lower.find_place({}, whole=EVERYBODY, last=7, near=0.0) == 3
    # Both ends ask about 3, and pay for half of it each; an answer that tells nothing of one of them parts them.
    assert lower.narrow(3, sure, EVERYBODY) == lower._replace(low=3, path=(3,), left=5)
    assert lower.narrow(3, unsure, EVERYBODY) == lower._replace(high=3, path=(3,), left=5, together=False)
    assert upper.narrow(3, unsure, EVERYBODY) == upper._replace(low=3, path=(3,), left=5, together=False)
    assert upper.narrow(3, above, EVERYBODY) == upper._replace(high=3, path=(3,), left=5)
    alone = lower._replace(together=False)
    assert alone.narrow(3, sure, EVERYBODY) == alone._replace(low=3, path=(3,), left=4)


def test_u3_ends_that_are_parted_go_where_the_line_between_answers_says():
    """Between .40 at 300 and .60 at 700 shares rise by .0005 a place: .45 would be at 400, and .005 further is 10 places."""
    known = {300: read_share(0.40, 0.02), 700: read_share(0.60, 0.02)}
    search = Bisection(0.45, False, 300, 700, (700, 300), left=30, together=False)
    where = {"whole": EVERYBODY, "last": 999, "near": 0.01}
    assert search.find_place(known, **where) == 400 - 40 - 10  # .02 below the level an answer is sure to be short of it
    assert search._replace(upper=True).find_place(known, **where) == 400 + 40 + 10
    # An answer that is sure by less than near is as good as any.
    assert search._replace(level=0.429).find_place(known, **where) is None
    assert search._replace(upper=True, level=0.571).find_place(known, **where) is None
    assert search._replace(upper=True, level=0.429).find_place(known, **where) is not None
    # What is left pays for stretches of 2^8 places after this question: no place below 444 will do.
    assert search._replace(left=18).find_place(known, **where) == 700 - 256
    assert search._replace(upper=True, level=0.55, left=18).find_place(known, **where) == 300 + 256
    # Later of 2^7, from both ends: the middle alone.
    narrowed = search._replace(high=556, path=(700, 300, 556), left=16)
    assert narrowed.find_place(known | {556: known[700]}, **where) == 428
    # Where not even all who are looked at are sure to reach the level there is nothing to seek.
    few = read_share(0.02, 0.02)
    alone = Bisection(0.5, True, -1, 999, left=20, together=False)
    assert alone.find_place({}, whole=few, last=999, near=0.01) is None
    assert alone._replace(upper=False).find_place({}, whole=few, last=999, near=0.01) is None


def test_u3_a_search_is_over_at_neighbours_or_where_answers_are_near():
    known = {3: read_share(0.40), 7: read_share(0.43)}
    assert Bisection(0.4, upper=True, low=3, high=4).find_place({}, whole=EVERYBODY, last=15, near=0.0) is None
    search = Bisection(0.42, upper=True, low=3, high=7, path=(7, 3))
    assert search.find_place(known, whole=EVERYBODY, last=15, near=0.02) == 5
    assert search.find_place(known, whole=EVERYBODY, last=15, near=0.05) is None


def test_u3_a_search_is_over_where_noise_parts_answers_about_places_that_hardly_differ():
    """Around 500 shares rise by .001 a place, so by .004 from 500 to 504: answers that differ by .03 differ by noise."""
    slope = {300: read_share(0.3), 700: read_share(0.7), 500: read_share(0.49), 504: read_share(0.52)}
    search = Bisection(0.5, upper=True, low=500, high=504, path=(300, 700, 500, 504))
    assert search.find_place(slope, whole=EVERYBODY, last=999, near=0.01) is None
    # An atom among these places parts the answers by more than noise may, and a steep rise all around is no noise.
    atom = slope | {504: read_share(0.62)}
    steep = slope | {498: read_share(0.42), 506: read_share(0.58)}
    for known in (atom, steep):
        assert search._replace(path=tuple(known)).find_place(known, whole=EVERYBODY, last=999, near=0.01) == 502
    # Only its own path counts: what others asked about neighbours makes it neither stop nor go on.
    assert search.find_place(steep, whole=EVERYBODY, last=999, near=0.01) is None
    # Nothing on the path around: the ends of the grid, and all who are looked at, are the places that differ clearly.
    assert search._replace(path=(500, 504)).find_place(slope, whole=EVERYBODY, last=999, near=0.01) is None
    assert search.find_place(slope, whole=EVERYBODY, last=999, near=0.0) == 502


def test_u3_ends_by_hand():
    """Thresholds 2, 5 and 8 of ten: 2 is surely below a half, 8 surely reaches it, 5 may or may not."""
    known = {2: read_share(0.2, 0.1, 0.01), 5: read_share(0.45, 0.1, 0.01), 8: read_share(0.9, 0.1, 0.01)}
    ends = find_quantile_ends(known, 0.5, whole=EVERYBODY, last=9)
    assert (ends.low, ends.high) == (3, 8)
    assert (ends.sample_low, ends.sample_high) == (6, 8)
    assert ends.value == 6  # on the line from .45 at 5 to .9 at 8
    assert find_quantile_ends({}, 0.5, whole=EVERYBODY, last=9)[1:] == (0, 9, 0, 9)


def test_u3_ends_that_cross_are_told_in_order():
    known = {2: read_share(0.9), 6: read_share(0.1)}  # what noise may do
    ends = find_quantile_ends(known, 0.5, whole=EVERYBODY, last=9)
    assert ends.low <= ends.value <= ends.high
    assert (ends.low, ends.high) == (2, 7)


def test_u3_levels_are_shares_of_those_who_are_looked_at():
    half = ShareReading(0.5, 0.5, 0.5, 0.5, 0.5)
    known = {place: read_share(0.05 * (place + 1)) for place in range(9)}
    assert find_quantile_ends(known, 0.5, whole=half, last=9).value == 4  # .25 of all is half of the half


@pytest.mark.parametrize("level", [0.01, 0.3, 0.5, 0.99])
def test_u3_exact_answers_find_the_quantile(level):
    shares = np.cumsum(np.arange(1, 65)) / 2080
    known = {}

    def ask(places):
        known.update({place: read_share(float(shares[place])) for place in places})

    bisect_levels(known, [level], ask, whole=EVERYBODY, last=63, near=0.0)
    right = int(np.argmax(shares >= level))
    assert find_quantile_ends(known, level, whole=EVERYBODY, last=63)[:3] == (right, right, right)
    assert len(known) <= 12


def test_u3_a_search_without_answers_ends():
    asked = []
    bisect_levels({}, [0.5], asked.append, whole=EVERYBODY, last=63, near=0.0)
    assert asked == [[31]]


# The factorisation, by hand.


def test_u3_coefficients_are_central_binomials():
    found = factorise(6)
    exact = [math.comb(2 * k, k) / 4**k for k in range(6)]
    assert [value / 2**24 for value in found.coefficients] == pytest.approx(exact, abs=2**-25)
    assert found.unit == 2**48
    assert found.bias < 1e-6


@pytest.mark.parametrize(
    ("cells", "square", "deviation"),
    [
        (1, 1.0, 1.0),  # one cell: a row comes or goes
        (2, 1.25, 1.25),  # (1, 1/2) - (0, 1)
        (3, 1.640625, 1.510461),  # (1, 1/2, 3/8) - (0, 0, 1)
    ],
)
def test_u3_sensitivities_by_hand(cells, square, deviation):
    found = factorise(cells)
    assert (found.sensitivity / 2**24) ** 2 == pytest.approx(square, rel=1e-6)
    assert float(found.deviations[-1]) == pytest.approx(deviation, rel=1e-6)


def test_u3_two_cells_through_the_vector_by_hand():
    found = factorise(2)
    one, half = 1 << 24, 1 << 23
    assert found.transform([3, 4]) == [3 * one, 3 * half + 4 * one]
    assert found.recover([3 * one, 3 * half + 4 * one]) == [3 << 48, 7 << 48]
    assert found.recover([-5, 0]) == [-5 * one, -5 * half]


def test_u3_noise_grows_like_a_logarithm():
    deviations = [float(factorise(2**bits).deviations[-1]) for bits in (4, 6, 8, 10)]
    steps = [larger - smaller for smaller, larger in pairwise(deviations)]
    assert steps == pytest.approx([steps[0]] * 3, rel=0.15)
    assert deviations[-1] < 5 < math.sqrt(2**10)  # sums of plain cells would have the root of their number


# Prices of curves.


def test_s1_curve_prices_rise_with_the_cells_and_hardly(made):
    prices = [price_curve(made, cells, rows=ROWS).questions for cells in (1, 4, 16, 64, 256, 1024)]
    assert all(fewer <= more for fewer, more in pairwise(prices))
    assert prices == pytest.approx([1, 3, 6, 10, 16, 24], abs=1)


@pytest.mark.parametrize("cells", [16, 256])
def test_s1_curve_prices_fall_with_the_questions_of_the_plan(cells):
    prices = [price_curve(plan(rows=ROWS, queries=queries), cells, rows=ROWS).questions for queries in (50, 500, 5000)]
    assert all(longer <= shorter for shorter, longer in pairwise(prices))


@pytest.mark.parametrize("method", ["joint-gaussian", "joint-gaussian-zcdp"])
def test_u3_what_is_charged_pays_for_the_noise_of_one_count(method):
    chosen = plan(rows=ROWS, queries=500, method=method)
    price = price_curve(chosen, 100, rows=ROWS)
    weight = 1 if chosen.ledger == "gdp" else 2
    mu_squared = 1 / (ROWS * Fraction(price.sigma)) ** 2
    assert mu_squared <= price.cost * weight * UNIT
    assert price.cost == price.questions * chosen.cost
    assert mu_squared > (price.cost - chosen.cost) * weight * UNIT  # a question less would not pay for it


def test_curves_for_the_rows_alone_are_within_the_noise_of_a_question():
    chosen = plan(rows=ROWS, queries=500, iid=False, epsilon=1.0, delta=1e-6)
    price = price_curve(chosen, 64, rows=ROWS)
    assert price.sample_box <= chosen.sample_alpha


def test_boxes_of_a_curve_hold_together_and_half_of_them_do_not(request):
    """The noise of all sums through the factorisation itself; a box half as wide is the planted fault."""
    short, cells, runs = plan(rows=ROWS, queries=20), 32, 20_000
    price, found = price_curve(short, 32, rows=ROWS), factorise(32)
    random = np.random.default_rng(list(request.node.name.encode()))
    coefficients = found.coefficients / 2**24
    matrix = np.array([[coefficients[i - j] if i >= j else 0.0 for j in range(cells)] for i in range(cells)])
    noise = random.normal(0, price.sigma * found.sensitivity / 2**24, (runs, cells)) @ matrix.T
    largest = np.abs(noise).max(axis=1)
    failure = 1 - (1 - short.beta) ** (price.questions / short.queries)
    spare = 6 * math.sqrt(failure * (1 - failure) / runs)
    assert noise[:, -1].std() == pytest.approx(price.sigma * found.deviations[-1], rel=0.03)
    assert (largest > price.sample_box).mean() <= failure + spare
    assert (largest > 0.5 * price.sample_box).mean() > failure + spare


@pytest.mark.parametrize(
    ("numbers", "rows"),
    [
        ({"method": "transfer-gaussian"}, ROWS),
        ({"pure": True, "epsilon": 1.0}, ROWS),
        ({}, 1 << 30),
    ],
)
def test_plans_without_an_overshoot_have_no_curve(numbers, rows):
    with pytest.raises(NotCertified, match="method='search'"):
        price_curve(plan(rows=ROWS, queries=100, **numbers), 10, rows=rows)


def test_long_grids_have_no_curve(made):
    with pytest.raises(InvalidParameter, match="4,096"):
        price_curve(made, MOST_CELLS + 1, rows=ROWS)


@pytest.mark.parametrize("cells", [1, 32, 1024])
@pytest.mark.parametrize("iid", [True, False])
def test_u1_3_a_curve_takes_one_place_on_an_open_ended_plan(cells, iid):
    """Its sums are no wider than one question in the same place, and it costs no question more than that takes."""
    opened = open_plan(rows=ROWS, epsilon=1.0, delta=1e-6, iid=iid)
    price = price_curve(opened, cells, rows=ROWS)
    assert price.draws == 1
    assert price.cost == price.questions * opened.cost
    assert 1 / (ROWS * Fraction(price.sigma)) ** 2 <= price.cost * UNIT
    for draw in (1, 2, 40):
        placed = place_curve(opened, cells, price, draw=draw, spent=price.cost + draw * opened.cost)
        alone = opened.transfer_terms(draw=draw, spent=price.cost + draw * opened.cost)
        assert placed.sample_box <= opened.sample_alpha_at(draw)
        assert (placed.terms is None) == (not iid)
        if iid:
            assert placed.terms[0] <= alone[0]
            assert placed.terms[1:] == alone[1:]  # the level of what was spent
    if price.questions > 1:
        sigma = price.sigma * math.sqrt(price.questions / (price.questions - 1))
        cheaper = place_curve(opened, cells, dataclasses.replace(price, sigma=sigma), draw=1, spent=opened.cost)
        assert cheaper.sample_box > opened.sample_alpha_at(1) or cheaper.terms[0] > opened.transfer_terms(draw=1, spent=1)[0]


# Picks.


def test_u3_ranks_by_hand(pure):
    """Each pick has a quarter of epsilon here, and aims B + gamma m rows beside its level."""
    grid, epsilon = read_grid(0, 100, 1), Fraction(1, 10)
    price = price_picks(pure, grid, [0.5, 0.1], rows=ROWS, epsilon=epsilon)
    assert price.epsilon == Fraction(1, 40)
    assert 4 * price.epsilon <= epsilon
    width = selection_shortfall(101, epsilon=price.epsilon, beta=pure.beta / 4) + math.tanh(pure.cap / 4) * ROWS
    for level, (lower, upper) in zip((0.5, 0.1), price.ranks, strict=True):
        assert lower == pytest.approx(level * ROWS - width, abs=2)
        assert upper == pytest.approx(level * ROWS + width, abs=2)
        assert lower < level * ROWS - width < level * ROWS + width <= upper
    assert price.picks == 4


def test_u3_ends_beyond_all_rows_take_no_pick(pure):
    price = price_picks(pure, read_grid(0, 100, 1), [0.001, 0.999], rows=ROWS, epsilon=Fraction(1, 10))
    assert [tuple(rank is None for rank in pair) for pair in price.ranks] == [(True, False), (False, True)]
    assert price.picks == 2


def test_u3_rows_alone_have_no_gap(pure):
    alone = msgspec.structs.replace(pure, iid=False)
    near, far = (
        price_picks(each, read_grid(0, 100, 1), [0.5], rows=ROWS, epsilon=Fraction(1, 10)) for each in (alone, pure)
    )
    assert near.ranks[0][0] > far.ranks[0][0]
    assert near.ranks[0][1] < far.ranks[0][1]


def test_picks_that_cannot_be_are_refused(made, pure):
    grid = read_grid(0, 100, 1)
    with pytest.raises(NotCertified, match="needs a plan with privacy"):
        price_picks(replace(made, ledger=None), grid, [0.5], rows=ROWS, epsilon=Fraction(1, 10))
    with pytest.raises(InvalidParameter, match="16,384"):
        price_picks(pure, read_grid(0, MOST_PICKED, 1), [0.5], rows=ROWS, epsilon=Fraction(1, 10))
    with pytest.raises(InvalidParameter, match="epsilon"):
        price_picks(pure, grid, [0.5], rows=ROWS, epsilon=UNIT)


@pytest.mark.parametrize(
    ("reached", "rank", "scores"),
    [([1, 3, 6], 2, [-1, 0, -1]), ([1, 3, 6], 0, [0, -1, -3]), ([0, 0, 6], 3, [-3, -3, 0]), ([6, 6, 6], 6, [0, 0, 0])],
)
def test_u3_scores_by_hand(reached, rank, scores):
    assert score_ranks(reached, rank).tolist() == scores


# Which method.


@pytest.mark.parametrize(
    ("levels", "last", "method"),
    [(1, 100, "search"), (2, 1000, "curve"), (2, 2000, "search"), (4, 4000, "curve"), (9, MOST_CELLS + 1, "search")],
)
def test_u3_regimes(made, levels, last, method):
    assert choose_method(made, read_grid(0, last, 1), levels, filtered=False, rows=ROWS) == method


def test_a_condition_takes_a_cell_of_the_curve(made):
    grid = read_grid(0, MOST_CELLS, 1)
    assert choose_method(made, grid, 9, filtered=False, rows=ROWS) == "curve"
    assert choose_method(made, grid, 9, filtered=True, rows=ROWS) == "search"


def test_plans_without_a_curve_search(pure):
    assert choose_method(pure, read_grid(0, 100, 1), 9, filtered=False, rows=ROWS) == "search"

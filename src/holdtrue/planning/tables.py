"""Prices of tables: how many questions disjoint cells cost so that each is as sharp as one answer (U1), and their ends."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NoReturn

import numpy as np

from holdtrue import events
from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_overshoot, gaussian_quantile, grid, laplace_maximum
from holdtrue.bounds.transfer import interval, intervals, ratio_in_box, ratio_interval
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import ROUNDING, STITCH, UNIT, count
from holdtrue.planning.methods import least_sigma
from holdtrue.planning.plans import AnyPlan, OpenPlan, Plan, refuse_one_side
from holdtrue.records import count_boxes

__all__ = [
    "SHARE_BITS",
    "CellEnds",
    "TablePrice",
    "WorkloadPrice",
    "check_price",
    "count_unions",
    "cut_to_whole",
    "find_boxes",
    "find_cell_ends",
    "find_ends",
    "find_ratio",
    "find_sample_ends",
    "has_normal_noise",
    "knows_total",
    "loosen",
    "move_to_total",
    "place_price",
    "price_marginal",
    "price_means",
    "price_table",
    "price_workload",
    "pure_epsilon",
    "refuse_laplace_noise",
]

SHARE_BITS = 20
"""Shares of a unit's rows are rounded down on a grid no finer than this: fewer than 2^31 rows are then divided exactly."""

_ONE_ROW = 2  # replacing a row takes 1 from one cell and gives 1 to another: the square of that is 2 (U1.1)
_MOST_PRICE = 10_000
_MOST_MOVED = 1000  # a known total narrows more cells than this by less than a thousandth
_LEAST_ROWS = 8  # fewer have a grid so coarse that moved answers may be off by more than it
_NEAR = 2.0**-40  # more than sums of ends are rounded by


@dataclass(frozen=True, slots=True)
class TablePrice:
    """What a table costs: whole questions of the plan, units, and the deviation of the noise on each cell's mean.

    ``sample_box`` is the half-width of one cell for these rows, right for all cells, all declared unions and all other
    answers at once; ``rounding`` is the part of it that rounding to the grid takes, and ``members`` how many cells and
    declared unions share it. ``terms`` are the box, the epsilon and the slack of one cell for the population, None where the
    transfer theorem does not speak. ``whole`` is the number of cells where they are all rows and their answers are moved to
    the total; both boxes are those before that (U1.5).
    """

    questions: int
    cost: int
    sigma: float
    sample_box: float
    rounding: float
    members: int = 1
    terms: tuple[float, float, float] | None = None
    whole: int = 0

    def widen(self, box: float, number: int, *, declared: bool) -> float:
        """Return the box of a union of this many cells, given that of one."""
        boxes = count_boxes(number, declared=declared, whole=self.whole)
        if not self.whole and (number == 1 or not declared):
            return boxes * box
        # Moved answers are rounded once more, by less than the grid.
        return boxes * ROUNDING * box + self.rounding * number


@dataclass(frozen=True, slots=True)
class WorkloadPrice:
    """The boxes of questions that are declared with marginals, in deviations of each: for these rows, and the population.

    ``epsilon`` and ``slack`` are the transfer theorem's, and ``draws`` the places that the questions take in the order of
    draws; they cost nothing beyond the tables.
    """

    sample: float
    population: float | None
    epsilon: float
    slack: float
    draws: int = 0


@dataclass(frozen=True, slots=True)
class CellEnds:
    """Ends for these rows, and for the population, None where no theorem speaks of it."""

    sample: tuple[float, float]
    population: tuple[float, float] | None


def price_table(
    plan: AnyPlan,
    cells: int,
    *,
    unions: Mapping[int, int] | None = None,
    whole: bool = False,
    questions: int | None = None,
) -> TablePrice:
    """Return the fewest whole questions that pay for this many disjoint cells, each within the plan's alpha.

    Needs: cells that are the values of one function of a row, so that one row moves two of them by 1 (U1.1); the price then
    hardly depends on their number. ``unions`` are declared with the release: of how many cells, and how many of them; one of
    n cells has sqrt(n) times the noise and the box of a cell, and counts as sqrt(n) cells (U1.6 a, S1 c). On a plan with one
    beta a release of cost c books its share c/k of the plan's overshoot, so the noise of all cells together may exceed their
    boxes by no more than that in the mean (S1, by units). On a plan that splits beta each cell and each declared union
    counts as one of the planned draws, at the cost of two (U1.4). On an open-ended plan a table costs two questions, and
    takes one place in the order of draws; :func:`place_price` has its boxes (U1.3, T7). ``whole`` says that the cells are
    all rows: two of them are one question and its complement, for the price of one (U1.5).
    On a pure ledger one row moves the cells by 2 in all, so that Laplace noise of one question's scale costs two questions;
    a release of c of the k questions has c/k of beta for the largest noise of its cells (U1.3). No unions are declared.
    With ``questions`` it costs so many, and its boxes are what they pay for, as those of :func:`price_marginal` are.
    Failure: NotCertified where the plan promises one end only, unions are declared and noise is not normal, or a price is
    given and another theorem than the transfer theorem promises the intervals; InvalidParameter for a price below two.
    """
    refuse_one_side(plan, "cells of a table have")
    if questions is not None:
        check_price(questions)
        if isinstance(plan, Plan) and plan.iid and plan.transfer is None:
            message = "a price of your own needs a plan by the transfer theorem: leave out questions"
            raise NotCertified(message)
    if not has_normal_noise(plan):
        if unions or plan.ledger != "pure":
            refuse_laplace_noise("declared unions")
        return _find_pure_price(plan, cells, whole=whole, paid=questions)
    if questions is not None:
        return price_marginal(plan, cells, unions=unions, whole=whole, questions=questions)
    return _find_price(plan, cells, tuple((unions or {}).items()), whole=knows_total(plan.rows, cells) if whole else False)


def check_price(questions: object) -> int:
    """Return what a table is to cost, in questions, where somebody says it."""
    price = count("questions", questions, most=_MOST_PRICE)
    if price < _ONE_ROW:
        raise InvalidParameter("questions", price, "2 or more for each table: a row is in one cell of it, or in another")
    return price


def price_marginal(  # noqa: PLR0913 - a table, and what it is released with
    plan: AnyPlan,
    cells: int,
    *,
    unions: Mapping[int, int] | None = None,
    whole: bool = True,
    questions: int = 2,
    workload: bool = False,
) -> TablePrice:
    """Return the price of one table among marginals: two questions or more, and the boxes that these pay for (V2.3).

    Needs: as :func:`price_table`. On a plan with one beta the release of q questions books its share q/k of the plan's
    overshoot, and the box of a cell is the narrowest for which the noise of all cells and declared unions together exceeds
    theirs by no more than that in the mean (S1, by units): it may be wider than the plan's, and grows as the root of a
    logarithm. With a ``workload`` the cells have one half of that, and :func:`price_workload` the other. Without a
    theorem for the population, and on an open-ended plan, the boxes are those of a table of two questions; on a plan that
    splits beta each cell counts as one of the planned draws.
    Failure: NotCertified as for a table, and where another theorem than the transfer theorem promises the intervals.
    """
    refuse_one_side(plan, "cells of a table have")
    if not has_normal_noise(plan):
        refuse_laplace_noise("marginals")
    if isinstance(plan, Plan) and plan.iid and plan.transfer is None:
        message = "marginals need a plan by the transfer theorem: ask for tables, or plan with another method"
        raise NotCertified(message)
    total = cells if whole and knows_total(plan.rows, cells) else 0
    given = tuple((unions or {}).items())
    return _find_marginal_price(plan, cells, given, whole=total, paid=questions, portion=0.5 if workload else 1.0)


def price_workload(  # noqa: PLR0913 - questions, what they are released with, and their place
    plan: AnyPlan, spreads: Mapping[float, int], *, sigma: float, questions: int, draw: int = 1, spent: int = 0
) -> WorkloadPrice:
    """Return the boxes of declared questions about marginals that cost ``questions`` together (V2.3).

    ``spreads`` are the deviations of both ends of all questions, in those of a cell, and how many there are of each. Law:
    noise is normal whatever cells a question adds up, so that all boxes hold at once by Šidák's inequality for these rows;
    for the population the ends are members of the release, each with one direction (S1 c, S6 b), and have half of the
    overshoot that it books, or on an open-ended plan a place of their own in the order of draws (U1.3 i). Needs: questions
    and weights fixed before the draw.
    Failure: NotCertified on a plan that splits beta, where each question would count as one of the planned draws.
    """
    number = sum(spreads.values())
    if isinstance(plan, OpenPlan):
        near, terms = find_boxes(plan, 1.0, number, 0.0, draw=draw, spent=spent)
        noise, epsilon, slack = terms or (None, 0.0, 0.0)
        return WorkloadPrice(near, noise, epsilon, slack, draws=1)
    share = min(1.0, questions / plan.queries) / 2
    sample = gaussian_quantile(number, beta=-math.expm1(math.log1p(-plan.beta) * share)) * ROUNDING
    if not plan.iid or plan.transfer is None:
        return WorkloadPrice(sample, None, 0.0, 0.0)
    if not plan.transfer.overshoot:
        message = "a workload needs a plan with one beta, which ht.plan makes unless another method is named"
        raise NotCertified(message)
    weight = math.fsum(spread * each for spread, each in spreads.items()) / 2 * sigma * ROUNDING  # one side of each
    _, epsilon, slack = plan.transfer_terms(draw=1, spent=plan.cost) or (0.0, 0.0, 1.0)
    return WorkloadPrice(sample, _find_least_box(plan.transfer.overshoot * share / weight) * ROUNDING, epsilon, slack)


def has_normal_noise(plan: AnyPlan) -> bool:
    """Return whether questions have normal noise, and not that of Laplace."""
    return isinstance(plan.event, events.GaussianNoise)


def refuse_laplace_noise(what: str) -> NoReturn:
    """Refuse what has no bound under Laplace noise; cells of a table have (U1.3)."""
    message = f"{what} need normal noise, which pure ledgers do not have: leave out pure=True, or ask for a table or means"
    raise NotCertified(message)


def loosen(price: TablePrice, cells: int, *, bits: int) -> TablePrice:
    """Return the price of cells whose parts of a row are rounded down to the grid, and what they leave up (U1.2).

    Each is off by less than 2^-bits, and the further cell, which takes the rest, by as much for each of them.
    """
    off = (
        2 * cells * 2.0 ** -min(bits, SHARE_BITS)
    )  # twice, since answers that are moved to the total share what others are off by
    terms = None if price.terms is None else (price.terms[0] + off, *price.terms[1:])
    return replace(price, sample_box=price.sample_box + off, rounding=price.rounding + off, terms=terms)


def knows_total(rows: int, cells: int) -> bool:
    """Return whether cells that are all rows have their answers moved to the total: where that is worth anything."""
    return 1 < cells <= _MOST_MOVED and rows >= _LEAST_ROWS


@lru_cache(256)
def _find_price(plan: AnyPlan, cells: int, declared: tuple[tuple[int, int], ...], *, whole: bool) -> TablePrice:
    members, weight = _weigh_members(cells, declared)
    total = cells if whole else 0
    if whole and cells == _ONE_ROW and not declared:
        return _price_complement(plan)
    if isinstance(plan, OpenPlan):
        return _take(plan, members, questions=_ONE_ROW, paid=_ONE_ROW, whole=total)
    if plan.transfer is not None and not plan.transfer.overshoot:
        return _take(plan, members, questions=max(_ONE_ROW, members), paid=_ONE_ROW, whole=total)
    questions = _ONE_ROW
    while not _is_sharp(plan, members, weight, questions):
        questions += 1
    return _take(plan, members, questions=questions, paid=questions, whole=total)


@lru_cache(256)
def _find_pure_price(plan: AnyPlan, cells: int, *, whole: bool, paid: int | None) -> TablePrice:
    """Return the price of cells on a pure ledger; two that are all rows are one question and what it leaves."""
    if paid is not None:
        price = _take(plan, cells, questions=paid, paid=paid, whole=0)
        if price.terms is None or not isinstance(plan, Plan):
            return price
        return replace(price, terms=(_find_pure_box(plan, cells, paid), *price.terms[1:]))
    if whole and cells == _ONE_ROW:
        return _take(plan, 1, questions=1, paid=1, whole=0)
    questions = _ONE_ROW
    while isinstance(plan, Plan) and not _is_sharp_purely(plan, cells, questions):
        questions += 1
    return _take(plan, cells, questions=questions, paid=questions, whole=0)


def _is_sharp_purely(plan: Plan, cells: int, questions: int) -> bool:
    """Return whether every cell is within the plan's alpha at this price."""
    if plan.transfer is None:
        return _take(plan, cells, questions=questions, paid=questions, whole=0).sample_box <= plan.sample_alpha
    return _find_pure_box(plan, cells, questions) <= plan.transfer.noise


def _find_pure_box(plan: Plan, cells: int, questions: int) -> float:
    """Return the box of a cell by the share of beta for noise that this many questions have (U1.3 i)."""
    share = 0.0 if plan.transfer is None else plan.transfer.noise_beta * min(1.0, questions / plan.queries)
    largest = laplace_maximum(cells, beta=share)
    return (_sigma_for(plan, questions) / math.sqrt(2) * largest + grid(plan.rows, bits=plan.bits)) * ROUNDING


def pure_epsilon(plan: AnyPlan, price: TablePrice) -> Fraction:
    """Return the epsilon of the noise on one cell of a table on a pure ledger: half of what the table costs."""
    return Fraction(price.cost if price.questions == 1 else price.cost // _ONE_ROW) * UNIT / plan.group


@lru_cache(256)
def _find_marginal_price(  # noqa: PLR0913 - a table, and what it is released with
    plan: AnyPlan, cells: int, declared: tuple[tuple[int, int], ...], *, whole: int, paid: int, portion: float
) -> TablePrice:
    members, weight = _weigh_members(cells, declared)
    split = isinstance(plan, Plan) and plan.transfer is not None and not plan.transfer.overshoot
    questions = max(paid, members) if split else paid
    price = _take(plan, members, questions=questions, paid=paid, whole=whole, portion=portion)
    if split or price.terms is None or not isinstance(plan, Plan) or plan.transfer is None:
        return price
    share = plan.transfer.overshoot * min(1.0, paid / plan.queries) * portion / (weight * price.sigma * ROUNDING)
    noise = (price.sigma * _find_least_box(share) + price.rounding) * ROUNDING
    return replace(price, terms=(noise, *price.terms[1:]))


def _find_least_box(most: float) -> float:
    """Return the narrowest box, in deviations, that normal noise exceeds by no more than this in the mean."""
    low, high = 0.0, 64.0
    while high - low > _NEAR:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_overshoot(middle) <= most else (middle, high)
    return high


def _weigh_members(cells: int, declared: tuple[tuple[int, int], ...]) -> tuple[int, float]:
    """Return how many cells and declared unions there are, and how many cells these count as (U1.6 a, S1 c)."""
    members = cells + sum(number for _, number in declared)
    return members, cells + sum(math.sqrt(size) * number for size, number in declared) * ROUNDING


def _price_complement(plan: AnyPlan) -> TablePrice:
    """Return the price of one question, as that of two cells which have its noise once they are moved to their total."""
    one = _take(plan, 1, questions=1, paid=1, whole=_ONE_ROW)
    wide = math.sqrt(2) * ROUNDING
    terms = None if one.terms is None else (one.terms[0] * wide, *one.terms[1:])
    return replace(one, sample_box=one.sample_box * wide, terms=terms)


def place_price(plan: AnyPlan, price: TablePrice, *, draw: int, spent: int) -> TablePrice:
    """Return a price with the boxes that the release has in its place: all draws and units up to it, its own included.

    On a plan for a set number of questions these are the same for all. On an open-ended one the vector takes the place
    ``draw``, with C of all its members at that place's share of beta, and the level of what was spent (U1.3 i, T7).
    """
    if not isinstance(plan, OpenPlan):
        return price
    wide = math.sqrt(2) * ROUNDING if price.questions == 1 and price.whole else 1.0
    near, terms = find_boxes(plan, price.sigma, price.members, price.rounding, draw=draw, spent=spent)
    return replace(price, sample_box=near * wide, terms=terms and (terms[0] * wide, *terms[1:]))


def find_boxes(  # noqa: PLR0913 - a vector, and its place
    plan: OpenPlan, sigma: float, members: int, rounding: float, *, draw: int, spent: int
) -> tuple[float, tuple[float, float, float] | None]:
    """Return the box for these rows of a vector's members, of deviation sigma at most, and the terms of T6 (U1.3 i, T7)."""
    share = STITCH / draw**2
    near = (_find_quantile(plan, sigma, members, beta=plan.beta * share) + rounding) * ROUNDING
    alone = plan.transfer_terms(draw=draw, spent=spent)
    if alone is None:
        return near, None
    if has_normal_noise(plan):
        largest = sigma * gaussian_maximum(members, beta=plan.noise_beta * share)
    else:
        largest = sigma / math.sqrt(2) * laplace_maximum(members, beta=plan.noise_beta * share)
    far = (largest + rounding) * ROUNDING
    return near, (far, *alone[1:])


def move_to_total(drawn: Sequence[int], total: int) -> list[int]:
    """Return noisy counts of all rows, each less its part of what they exceed the number of rows by: they add up to it.

    Law: noise of deviation s on each becomes s sqrt(1 - 1/g), and on a union of n cells s sqrt(n (1 - n/g)), none of it
    biased (U1.5). What a whole number leaves over is taken from the first ones, by one unit each.
    """
    part, over = divmod(sum(drawn) - total, len(drawn))
    return [value - part - (place < over) for place, value in enumerate(drawn)]


def count_unions(
    sizes: Sequence[int], *, margins: bool, ranges: bool, rollups: Sequence[Sequence[int]] = ()
) -> dict[int, int]:
    """Return how many unions of how many cells each are declared, given how many labels each column has (U1.6 a).

    Margins fix the labels of some columns and add up the others; ranges are neighbours in the order of one column's labels;
    ``rollups`` are named by the places of their cells.
    """
    found = Counter(map(len, rollups))
    if margins:
        for fixed in product((True, False), repeat=len(sizes)):
            if any(fixed) and not all(fixed):
                kept = math.prod(size for size, is_fixed in zip(sizes, fixed, strict=True) if is_fixed)
                found[math.prod(sizes) // kept] += kept
    if ranges:
        found.update({size: sizes[0] - size + 1 for size in range(2, sizes[0] + 1)})
    return dict(found)


def price_means(
    plan: AnyPlan, groups: int, *, outside: bool, whole: bool = False, questions: int | None = None
) -> TablePrice:
    """Return the price of the means of this many groups: the cells, and everything that is said of them (U1.2, U2.3, U2.6).

    A group has the cells Y, the sum of y, and Z, that of 1 - y; with ``outside`` two more for the rows below and above the
    bounds, and Y and Z are then unions of two cells each. Declared are these, the group's share, and the two mixed
    combinations of U2.3, whose noise counts as that of Y or Z. On a pure ledger, whose noise has no rule for combinations,
    nothing is declared: Y, Z and shares have the boxes of their cells together, and means those of U2.2 (U1.6 b).
    """
    each, size = (4, 2) if outside else (2, 1)
    if plan.ledger == "pure":
        return price_table(plan, each * groups + 1, questions=questions)
    unions = {size: (4 if outside else 2) * groups, each: groups}
    return price_table(plan, each * groups + 1, unions=unions, whole=whole, questions=questions)


def find_ends(plan: AnyPlan, price: TablePrice, answers: Sequence[float], *, declared: bool = True) -> CellEnds:
    """Return ends for the share of a union of disjoint cells, from their answers before they are clipped.

    A union that was declared with the release has the noise of sqrt(n) cells (U1.6 a). Any other one, chosen after it, has
    the sum of their boxes, and the gap to the population once (U1.6 b, S1 c); where the total is known, or that of all other
    cells (U1.5). So has every union under noise that is not normal (U1.3). Under other theorems than the transfer theorem it
    has the sum of their ends.
    Failure: NotCertified where the plan promises one end only.
    """
    refuse_one_side(plan, "cells of a table have")
    number, declared = len(answers), declared and has_normal_noise(plan)
    # Boxes of cells begin at 0, since shares do; a declared union, and what others leave, has the sum of raw answers.
    exact = declared or 0 < price.whole < 2 * number
    total = math.fsum(answers if exact else (min(max(each, 0.0), 1.0) for each in answers))
    value, near = min(max(total, 0.0), 1.0), price.widen(price.sample_box, number, declared=declared)
    sample = (max(0.0, value - near), min(1.0, value + near))
    if not plan.iid:
        return CellEnds(sample, None)
    if price.terms is None:
        ends = [plan.interval(each, draw=1, spent=0) or (0.0, 1.0) for each in answers]
        low, high = math.fsum(each[0] for each in ends), math.fsum(each[1] for each in ends)
        return CellEnds(sample, (min(low, 1.0), min(high, 1.0)))
    noise, epsilon, slack = price.terms
    noise = price.widen(noise, number, declared=declared)
    return CellEnds(sample, interval(total, noise=noise, epsilon=epsilon, slack=slack))


def find_cell_ends(plan: AnyPlan, price: TablePrice, values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Return the lower and the upper ends for the population of cells, given their shares; None where rows are not iid."""
    if not plan.iid:
        return None
    if price.terms is None:
        known = [plan.interval(value, draw=1, spent=0) or (0.0, 1.0) for value in values]
        ends = [each[0] for each in known], [each[1] for each in known]
    else:
        noise, epsilon, slack = price.terms
        ends = intervals(values, noise=price.widen(noise, 1, declared=True), epsilon=epsilon, slack=slack)
    return cut_to_whole(values, *ends) if price.whole else ends


def find_sample_ends(price: TablePrice, values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the lower and the upper ends for these rows of cells, given their shares."""
    given, near = np.array(values, dtype=np.float64), price.widen(price.sample_box, 1, declared=True)
    ends = np.maximum(0.0, given - near).tolist(), np.minimum(1.0, given + near).tolist()
    return cut_to_whole(values, *ends) if price.whole else ends


def cut_to_whole(values: Sequence[float], low: list[float], high: list[float]) -> tuple[list[float], list[float]]:
    """Return ends of shares that add up to 1, cut to what the ends of all others leave, up to the value (U1.5).

    Law: where all ends hold, all cut ones do; none is wider, and each holds its value as before.
    """
    given, lows, highs = (np.array(each, dtype=np.float64) for each in (values, low, high))
    below = np.maximum(lows, np.minimum(given, 1 - (math.fsum(high) - highs) - _NEAR))
    above = np.minimum(highs, np.maximum(given, 1 - (math.fsum(low) - lows) + _NEAR))
    return below.tolist(), above.tolist()


def find_ratio(plan: AnyPlan, price: TablePrice, part: Sequence[float], rest: Sequence[float]) -> CellEnds:
    """Return ends for part / (part + rest), each a declared union of as many cells, given their answers before clipping.

    The box of U2.2, cut with the mixed rule of U2.3, which needs the numbers of the transfer theorem: on plans with one beta
    the box and the slack of S1 b, on those that split it the noise of all planned answers and T6's slack. Plans by another
    theorem have the box alone. For these rows the same rule holds without a gap, their own ratio being fixed before it.
    Answers that are moved to a known total have no more noise in the mixed rule than before, whatever its weights (U1.5).
    Without normal noise there is the box alone, since the mixed rule's noise is a combination (U1.3).
    """
    tops, bottoms, whole = (find_ends(plan, price, each) for each in (part, rest, [*part, *rest]))
    if not has_normal_noise(plan):
        far = tops.population and bottoms.population and ratio_in_box(tops.population, bottoms.population)
        return CellEnds(ratio_in_box(tops.sample, bottoms.sample), far)
    wide, over, under = math.sqrt(len(part)) * ROUNDING, math.fsum(part), math.fsum(rest)
    # A and B are at most sqrt(2) of their hypotenuse together: that part of the rounding of both sides meets.
    rounding = 2 * len(part) * price.rounding
    boxed = ratio_in_box(tops.sample, bottoms.sample)
    mixed = ratio_interval(over, under, whole=whole.sample, noise=wide * price.sample_box + rounding, epsilon=0.0, slack=0.0)
    sample = _intersect(boxed, mixed)
    if tops.population is None or bottoms.population is None or whole.population is None:
        return CellEnds(sample, None)
    boxed = ratio_in_box(tops.population, bottoms.population)
    if price.terms is None:
        return CellEnds(sample, boxed)
    least = max(whole.population[0], tops.population[0] + bottoms.population[0])
    most = min(whole.population[1], tops.population[1] + bottoms.population[1], 1.0)
    span = (min(least, most), max(least, most))
    noise, epsilon, slack = price.terms
    mixed = ratio_interval(over, under, whole=span, noise=wide * noise + rounding, epsilon=epsilon, slack=slack)
    return CellEnds(sample, _intersect(boxed, mixed))


def _intersect(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return what two intervals share; the first where they share nothing, as happens with probability beta at most."""
    low, high = max(first[0], second[0]), min(first[1], second[1])
    return (low, high) if low <= high else first


def _take(  # noqa: PLR0913 - a vector, and its price
    plan: AnyPlan, members: int, *, questions: int, paid: int, whole: int, portion: float = 1.0
) -> TablePrice:
    sigma, rounding = _sigma_for(plan, paid), grid(plan.rows, bits=plan.bits)
    # Noise is fresh for each release, so that what all of them keep multiplies: (1 - beta)^(questions/k) for this one.
    failure = -math.expm1(math.log1p(-plan.beta) * min(1.0, questions / plan.queries) * portion)
    box = (_find_quantile(plan, sigma, members, beta=failure) + rounding) * ROUNDING
    terms = plan.transfer_terms(draw=1, spent=plan.cost) if isinstance(plan, Plan) else None
    return TablePrice(questions, paid * plan.cost, sigma, box, rounding, members, terms, whole)


def _sigma_for(plan: AnyPlan, questions: int) -> float:
    """Return the standard deviation that this many questions pay for on a vector of disjoint cells; one: on one of them."""
    if questions == 1:
        return plan.sigma
    if not has_normal_noise(plan):
        return math.sqrt(2) / (plan.rows * float(questions * plan.cost // _ONE_ROW * UNIT)) * ROUNDING
    weight = 1 if plan.ledger == "gdp" else 2  # mu squared is twice rho
    # A ledger charges two equal events, each in whole units.
    return least_sigma(plan.rows, Fraction(questions * plan.cost // _ONE_ROW * weight) * UNIT)


def _find_quantile(plan: AnyPlan, sigma: float, members: int, *, beta: float) -> float:
    """Return what the noise of this deviation on so many members exceeds with probability beta at most."""
    if has_normal_noise(plan):
        return sigma * gaussian_quantile(members, beta=beta)
    return sigma / math.sqrt(2) * (math.log(members) - math.log(beta)) * ROUNDING


def _is_sharp(plan: Plan, members: int, weight: float, questions: int) -> bool:
    """Return whether every cell is within the plan's alpha at this price."""
    sigma, rounding = _sigma_for(plan, questions), grid(plan.rows, bits=plan.bits)
    if plan.transfer is None:
        return _take(plan, members, questions=questions, paid=questions, whole=0).sample_box <= plan.sample_alpha
    box = plan.transfer.noise / ROUNDING - rounding
    overshoot = weight * sigma * gaussian_overshoot(box / sigma) * ROUNDING
    return overshoot <= plan.transfer.overshoot * min(1.0, questions / plan.queries)

"""Prices of tables: how many questions disjoint cells cost so that each is as sharp as one answer (U1), and their ends."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

from holdtrue import events
from holdtrue.bounds.accuracy import gaussian_overshoot, gaussian_quantile, grid
from holdtrue.bounds.transfer import interval, intervals, ratio_in_box, ratio_interval
from holdtrue.errors import NotCertified
from holdtrue.exact import ROUNDING, UNIT
from holdtrue.planning.methods import least_sigma
from holdtrue.planning.plans import AnyPlan, Plan, refuse_one_side

__all__ = [
    "CellEnds",
    "TablePrice",
    "count_unions",
    "find_cell_ends",
    "find_ends",
    "find_ratio",
    "price_means",
    "price_table",
]

_ONE_ROW = 2  # replacing a row takes 1 from one cell and gives 1 to another: the square of that is 2 (U1.1)


@dataclass(frozen=True, slots=True)
class TablePrice:
    """What a table costs: whole questions of the plan, units, and the deviation of the noise on each cell's mean.

    ``sample_box`` is the half-width of one cell for these rows, right for all cells, all declared unions and all other
    answers at once; ``rounding`` is the part of it that rounding to the grid takes.
    """

    questions: int
    cost: int
    sigma: float
    sample_box: float
    rounding: float


@dataclass(frozen=True, slots=True)
class CellEnds:
    """Ends for these rows, and for the population, None where no theorem speaks of it."""

    sample: tuple[float, float]
    population: tuple[float, float] | None


def price_table(plan: AnyPlan, cells: int, *, unions: Mapping[int, int] | None = None) -> TablePrice:
    """Return the fewest whole questions that pay for this many disjoint cells, each within the plan's alpha.

    Needs: cells that are the values of one function of a row, so that one row moves two of them by 1 (U1.1); the price then
    hardly depends on their number. ``unions`` are declared with the release: of how many cells, and how many of them; one of
    n cells has sqrt(n) times the noise and the box of a cell, and counts as sqrt(n) cells (U1.6 a, S1 c). On a plan with one
    beta a release of cost c books its share c/k of the plan's overshoot, so the noise of all cells together may exceed their
    boxes by no more than that in the mean (S1, by units). On a plan that splits beta each cell and each declared union
    counts as one of the planned draws, at the cost of two (U1.4).
    Failure: NotCertified where the plan has no set number of questions with normal noise, or promises one end only.
    """
    refuse_one_side(plan, "cells of a table have")
    if not isinstance(plan, Plan) or not isinstance(plan.event, events.GaussianNoise):
        message = "tables need a plan for a set number of questions with normal noise: Curator(..., queries=1000)"
        raise NotCertified(message)
    return _find_price(plan, cells, tuple((unions or {}).items()))


@lru_cache(256)
def _find_price(plan: Plan, cells: int, declared: tuple[tuple[int, int], ...]) -> TablePrice:
    members = cells + sum(number for _, number in declared)
    weight = cells + sum(math.sqrt(size) * number for size, number in declared) * ROUNDING
    if plan.transfer is not None and not plan.transfer.overshoot:
        return _take(plan, members, questions=max(_ONE_ROW, members), paid=_ONE_ROW)
    questions = _ONE_ROW
    while not _is_sharp(plan, members, weight, questions):
        questions += 1
    return _take(plan, members, questions=questions, paid=questions)


def count_unions(sizes: Sequence[int], *, margins: bool, ranges: bool) -> dict[int, int]:
    """Return how many unions of how many cells each are declared, given how many labels each column has (U1.6 a).

    Margins fix the labels of some columns and add up the others; ranges are neighbours in the order of one column's labels.
    """
    found: Counter[int] = Counter()
    if margins:
        for fixed in product((True, False), repeat=len(sizes)):
            if any(fixed) and not all(fixed):
                kept = math.prod(size for size, is_fixed in zip(sizes, fixed, strict=True) if is_fixed)
                found[math.prod(sizes) // kept] += kept
    if ranges:
        found.update({size: sizes[0] - size + 1 for size in range(2, sizes[0] + 1)})
    return dict(found)


def price_means(plan: AnyPlan, groups: int, *, outside: bool) -> TablePrice:
    """Return the price of the means of this many groups: the cells, and everything that is said of them (U1.2, U2.3, U2.6).

    A group has the cells Y, the sum of y, and Z, that of 1 - y; with ``outside`` two more for the rows below and above the
    bounds, and Y and Z are then unions of two cells each. Declared are these, the group's share, and the two mixed
    combinations of U2.3, whose noise counts as that of Y or Z.
    """
    each, size = (4, 2) if outside else (2, 1)
    unions = {size: (4 if outside else 2) * groups, each: groups}
    return price_table(plan, each * groups + 1, unions=unions)


def find_ends(plan: AnyPlan, price: TablePrice, answers: Sequence[float], *, declared: bool = True) -> CellEnds:
    """Return ends for the share of a union of disjoint cells, from their answers before they are clipped.

    A union that was declared with the release has the noise of sqrt(n) cells (U1.6 a). Any other one, chosen after it, has
    the sum of their boxes, and the gap to the population once (U1.6 b, S1 c). Under other theorems than the transfer theorem
    it has the sum of their ends. Failure: NotCertified where the plan promises one end only.
    """
    refuse_one_side(plan, "cells of a table have")
    number = len(answers)
    wide = math.sqrt(number) * ROUNDING if declared and number > 1 else float(number)
    rounding = price.rounding * number if declared and number > 1 else 0.0
    # Boxes of cells begin at 0, since shares do; only a declared union has the sum of raw answers as its own answer.
    total = math.fsum(answers) if declared else math.fsum(min(max(each, 0.0), 1.0) for each in answers)
    value, near = min(max(total, 0.0), 1.0), wide * price.sample_box + rounding
    sample = (max(0.0, value - near), min(1.0, value + near))
    frozen = plan.transfer if isinstance(plan, Plan) else None
    if not plan.iid:
        return CellEnds(sample, None)
    if frozen is None:
        ends = [plan.interval(each, draw=1, spent=0) or (0.0, 1.0) for each in answers]
        low, high = math.fsum(each[0] for each in ends), math.fsum(each[1] for each in ends)
        return CellEnds(sample, (min(low, 1.0), min(high, 1.0)))
    noise = wide * frozen.noise + rounding
    return CellEnds(sample, interval(total, noise=noise, epsilon=frozen.epsilon, slack=frozen.slack))


def find_cell_ends(plan: AnyPlan, values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Return the lower and the upper ends for the population of cells, given their shares; None where rows are not iid."""
    frozen = plan.transfer if isinstance(plan, Plan) and plan.side == "both" else None
    if not plan.iid or frozen is None:
        ends = [plan.interval(value, draw=1, spent=0) for value in values]
        known = [each for each in ends if each is not None]
        return ([each[0] for each in known], [each[1] for each in known]) if known else None
    return intervals(values, noise=frozen.noise, epsilon=frozen.epsilon, slack=frozen.slack)


def find_ratio(plan: AnyPlan, price: TablePrice, part: Sequence[float], rest: Sequence[float]) -> CellEnds:
    """Return ends for part / (part + rest), each a declared union of as many cells, given their answers before clipping.

    The box of U2.2, cut with the mixed rule of U2.3, which needs the numbers of the transfer theorem: on plans with one beta
    the box and the slack of S1 b, on those that split it the noise of all planned answers and T6's slack. Plans by another
    theorem have the box alone. For these rows the same rule holds without a gap, their own ratio being fixed before it.
    """
    tops, bottoms, whole = (find_ends(plan, price, each) for each in (part, rest, [*part, *rest]))
    wide, over, under = math.sqrt(len(part)) * ROUNDING, math.fsum(part), math.fsum(rest)
    # A and B are at most sqrt(2) of their hypotenuse together: that part of the rounding of both sides meets.
    rounding = 2 * len(part) * price.rounding
    boxed = ratio_in_box(tops.sample, bottoms.sample)
    mixed = ratio_interval(over, under, whole=whole.sample, noise=wide * price.sample_box + rounding, epsilon=0.0, slack=0.0)
    sample = _intersect(boxed, mixed)
    if tops.population is None or bottoms.population is None or whole.population is None:
        return CellEnds(sample, None)
    boxed = ratio_in_box(tops.population, bottoms.population)
    frozen = plan.transfer if isinstance(plan, Plan) else None
    if frozen is None:
        return CellEnds(sample, boxed)
    least = max(whole.population[0], tops.population[0] + bottoms.population[0])
    most = min(whole.population[1], tops.population[1] + bottoms.population[1], 1.0)
    span = (min(least, most), max(least, most))
    noise = wide * frozen.noise + rounding
    mixed = ratio_interval(over, under, whole=span, noise=noise, epsilon=frozen.epsilon, slack=frozen.slack)
    return CellEnds(sample, _intersect(boxed, mixed))


def _intersect(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return what two intervals share; the first where they share nothing, as happens with probability beta at most."""
    low, high = max(first[0], second[0]), min(first[1], second[1])
    return (low, high) if low <= high else first


def _take(plan: Plan, members: int, *, questions: int, paid: int) -> TablePrice:
    sigma, rounding = _sigma_for(plan, paid), grid(plan.rows, bits=plan.bits)
    # Noise is fresh for each release, so that what all of them keep multiplies: (1 - beta)^(questions/k) for this one.
    failure = -math.expm1(math.log1p(-plan.beta) * min(1.0, questions / plan.queries))
    box = (sigma * gaussian_quantile(members, beta=failure) + rounding) * ROUNDING
    return TablePrice(questions, paid * plan.cost, sigma, box, rounding)


def _sigma_for(plan: Plan, questions: int) -> float:
    """Return the standard deviation that this many questions pay for on a vector of disjoint cells."""
    weight = 1 if plan.ledger == "gdp" else 2  # mu squared is twice rho
    # A ledger charges two equal events, each in whole units.
    return least_sigma(plan.rows, Fraction(questions * plan.cost // _ONE_ROW * weight) * UNIT)


def _is_sharp(plan: Plan, members: int, weight: float, questions: int) -> bool:
    """Return whether every cell is within the plan's alpha at this price."""
    sigma, rounding = _sigma_for(plan, questions), grid(plan.rows, bits=plan.bits)
    if plan.transfer is None:
        return _take(plan, members, questions=questions, paid=questions).sample_box <= plan.sample_alpha
    box = plan.transfer.noise / ROUNDING - rounding
    overshoot = weight * sigma * gaussian_overshoot(box / sigma) * ROUNDING
    return overshoot <= plan.transfer.overshoot * min(1.0, questions / plan.queries)

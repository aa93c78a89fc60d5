"""Prices of tables: how many questions disjoint cells cost so that each is as sharp as one answer (U1)."""

import math
from dataclasses import dataclass
from fractions import Fraction

from holdtrue import events
from holdtrue.bounds.accuracy import gaussian_overshoot, gaussian_quantile, grid
from holdtrue.errors import NotCertified
from holdtrue.exact import ROUNDING, UNIT
from holdtrue.planning.methods import least_sigma
from holdtrue.planning.plans import AnyPlan, Plan

__all__ = ["TablePrice", "price_table"]

_ONE_ROW = 2  # replacing a row takes 1 from one cell and gives 1 to another: the square of that is 2 (U1.1)


@dataclass(frozen=True, slots=True)
class TablePrice:
    """What a table costs: whole questions of the plan, units, and the deviation of the noise on each cell's mean.

    ``sample_box`` is the half-width for these rows, right for all cells and all other answers at once.
    """

    questions: int
    cost: int
    sigma: float
    sample_box: float


def price_table(plan: AnyPlan, cells: int) -> TablePrice:
    """Return the fewest whole questions that pay for so many disjoint cells, each within the plan's alpha.

    Needs: cells that are the values of one function of a row, so that one row moves two of them by 1 (U1.1); the price then
    hardly depends on their number. On a plan with one beta a release of cost c books its share c/k of the plan's overshoot,
    so the noise of all cells together may exceed their boxes by no more than that in the mean (S1, by units). On a plan that
    splits beta each cell counts as one of the planned draws, at the cost of two (U1.4).
    Failure: NotCertified where the plan has no set number of questions with normal noise.
    """
    if not isinstance(plan, Plan) or not isinstance(plan.event, events.GaussianNoise):
        message = "tables need a plan for a set number of questions with normal noise: Curator(..., queries=1000)"
        raise NotCertified(message)
    if plan.transfer is not None and not plan.transfer.overshoot:
        return _take(plan, cells, questions=max(_ONE_ROW, cells), paid=_ONE_ROW)
    questions = _ONE_ROW
    while not _is_sharp(plan, cells, questions):
        questions += 1
    return _take(plan, cells, questions=questions, paid=questions)


def _take(plan: Plan, cells: int, *, questions: int, paid: int) -> TablePrice:
    sigma = _sigma_for(plan, paid)
    # Noise is fresh for each release, so that what all of them keep multiplies: (1 - beta)^(questions/k) for this one.
    failure = -math.expm1(math.log1p(-plan.beta) * min(1.0, questions / plan.queries))
    box = (sigma * gaussian_quantile(cells, beta=failure) + grid(plan.rows, bits=plan.bits)) * ROUNDING
    return TablePrice(questions, paid * plan.cost, sigma, box)


def _sigma_for(plan: Plan, questions: int) -> float:
    """Return the deviation that so many questions pay for on a vector of disjoint cells."""
    weight = 1 if plan.ledger == "gdp" else 2  # mu squared is twice rho
    # A ledger charges two equal events, each in whole units.
    return least_sigma(plan.rows, Fraction(questions * plan.cost // _ONE_ROW * weight) * UNIT)


def _is_sharp(plan: Plan, cells: int, questions: int) -> bool:
    """Return whether every cell is within the plan's alpha at this price."""
    sigma, rounding = _sigma_for(plan, questions), grid(plan.rows, bits=plan.bits)
    if plan.transfer is None:
        return _take(plan, cells, questions=questions, paid=questions).sample_box <= plan.sample_alpha
    box = plan.transfer.noise / ROUNDING - rounding
    overshoot = cells * sigma * gaussian_overshoot(box / sigma) * ROUNDING
    return overshoot <= plan.transfer.overshoot * min(1.0, questions / plan.queries)

"""The plan that a holdout's ledger is opened with, for each mode: public numbers, made before labels are looked at."""

import math
from fractions import Fraction
from functools import lru_cache

from holdtrue.bounds.accuracy import grid
from holdtrue.bounds.sparse_vector import (
    SparseVectorBound,
    above_threshold,
    above_threshold_alpha,
    private_ladder,
    private_ladder_alpha,
)
from holdtrue.errors import InsufficientSamples
from holdtrue.exact import ROUNDING, UNIT, Number, positive, units_up
from holdtrue.holdouts.cases import BITS
from holdtrue.planning.asking import plan
from holdtrue.planning.plans import Plan

__all__ = ["counting_plan", "ladder_numbers", "scoring_plan", "sparse_numbers", "sparse_plan", "widen_for_rounding"]


def scoring_plan(  # noqa: PLR0913 - the public numbers of a plan
    cases: int, *, looks: int, beta: Number, epsilon: Number | None, delta: Number | None, reserve: Number
) -> Plan:
    """Return the plan for full scores by Gaussian noise on a GDP ledger (T5)."""
    return plan(
        rows=cases, queries=looks, beta=beta, epsilon=epsilon, delta=delta, reserve=reserve, bits=BITS, cap="validity"
    )


def counting_plan(  # noqa: PLR0913 - the numbers of a mode, and its names
    cases: int, *, looks: int, beta: float, alpha: float, method: str, theorem: str
) -> Plan:
    """Return the plan of a mode that keeps no privacy: the ledger counts looks, and its delta of 1 promises nothing."""
    if alpha >= 1:
        message = f"{cases:,} cases are too few for {looks:,} looks by {method}: see plan_holdout"
        raise InsufficientSamples(message, required=None)
    return _frozen(cases, looks, beta, alpha, method=method, theorem=theorem, cap=looks, cost=1, epsilon=0.0, delta=1.0)


@lru_cache(maxsize=32)
def sparse_numbers(cases: int, *, looks: int, runs: int, beta: float, epsilon: Number | None) -> SparseVectorBound:
    """Return the narrowest noise for so many runs of above threshold, each with one release; within epsilon if given."""
    best = above_threshold_alpha(cases, looks=looks, runs=runs, beta=beta)
    least = _least_scale(cases, runs, epsilon)
    return best if least <= best.scale else above_threshold(cases, looks=looks, runs=runs, scale=least, beta=beta)


@lru_cache(maxsize=32)
def ladder_numbers(cases: int, *, looks: int, moves: int, beta: float, epsilon: Number | None) -> SparseVectorBound:
    """Return the noise of a private ladder, whose half-width is that of released scores alone; within epsilon if given."""
    best = private_ladder_alpha(cases, submissions=looks, moves=moves, beta=beta)
    least = _least_scale(cases, moves, epsilon)
    return best if least <= best.scale else private_ladder(cases, moves=moves, scale=least, beta=beta)


def _least_scale(cases: int, runs: int, epsilon: Number | None) -> float:
    return 0.0 if epsilon is None else float(2 * runs / (cases * positive("epsilon", epsilon))) * ROUNDING


def sparse_plan(  # noqa: PLR0913 - the numbers of T10
    cases: int, found: SparseVectorBound, *, looks: int, runs: int, beta: float, method: str, theorem: str, level: float = 0
) -> Plan:
    """Return the plan of a mode made of runs of above threshold: pure epsilon, 2/(s cases) a run, release included (T10).

    Every run and every release has the same epsilon, fixed beforehand, and there are at most so many; so the transcript
    is private in mu and in rho as well, and the width may use the best of the three. ``level``: a threshold to add to it.
    """
    alpha = level + found.alpha
    if alpha >= 1:
        message = f"{cases:,} cases are too few for {looks:,} looks by {method}: see plan_holdout"
        raise InsufficientSamples(message, required=None)
    cost = 2 * units_up(1 / (Fraction(found.scale) * cases))
    total = cost * runs
    return _frozen(
        cases, looks, beta, alpha, method=method, theorem=theorem, cap=total, cost=0, epsilon=total * float(UNIT), delta=0.0
    )


def widen_for_rounding(alpha: float, cases: int) -> float:
    """Return a half-width with what rounding may add: of values and of noise, of up to three draws and the bar of a look."""
    return alpha + grid(cases, bits=BITS) + 3 * 2.0**-BITS / cases


def _frozen(  # noqa: PLR0913 - what differs between the modes
    cases: int,
    looks: int,
    beta: float,
    alpha: float,
    *,
    method: str,
    theorem: str,
    cap: int,
    cost: int,
    epsilon: float,
    delta: float,
) -> Plan:
    return Plan(
        rows=cases,
        queries=looks,
        alpha=widen_for_rounding(alpha, cases),
        beta=beta,
        epsilon=math.nextafter(epsilon, math.inf) if epsilon else 0.0,
        delta=delta,
        limited=False,
        sigma=0.0,
        event=None,
        ledger=None if delta else "pure",
        cost=cost,
        cap_units=cap,
        reserve=0.0,
        uses=1,
        rule="validity",
        iid=True,
        bits=BITS,
        method=method,
        theorem=theorem,
        transfer=None,
        alpha_otherwise=None,
    )

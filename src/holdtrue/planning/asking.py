"""Plans for asking: how many rows, how many questions, how wide, at what privacy; made from public numbers, before data."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from msgspec import structs

from holdtrue.accounting.closed_forms import gaussian_delta, smallest_epsilon, zero_concentrated_delta
from holdtrue.accounting.filters import largest_cap
from holdtrue.accounting.purses import Purse
from holdtrue.errors import InsufficientSamples, InvalidParameter, PreconditionError
from holdtrue.events import DiscreteLaplace, Event, GaussianNoise
from holdtrue.exact import (
    ROUNDING,
    UNIT,
    LedgerKind,
    Number,
    count,
    positive,
    probability,
    round_down,
    round_up,
    text_among,
    truth,
    units_up,
)
from holdtrue.noise.samplers import LARGEST_SCALE
from holdtrue.planning.comparing import METHODS, MOST, fewest_rows, find_method, most_queries
from holdtrue.planning.methods import SIDES, AskingMethod, AskingTask, CapRule, Design, Side
from holdtrue.planning.plans import OpenPlan, Plan
from holdtrue.planning.purses import PurseGaussian, PurseNoise, read_reserve
from holdtrue.planning.transfer import NoiseOnly

_NO_DELTA = "give epsilon together with a delta above 0, such as delta=1e-6, which normal noise needs; pure=True needs none"
_MOST_BITS = 40
_LARGEST_SUM = 2**62
_NOISE_SHARE = 0.25
_MOST_SHARES = 0.5


class Intractable(InsufficientSamples, UserWarning):
    """More adaptive questions than the square of the rows: no efficient mechanism can answer them all (T14).

    A warning; where warnings are errors, it is the error that the rows are too few.
    """


def plan(  # noqa: PLR0913 - every public number of a plan, by name
    *,
    rows: int | None = None,
    queries: int | None = None,
    alpha: Number | None = None,
    beta: Number = 0.05,
    epsilon: Number | None = None,
    delta: Number | None = None,
    reserve: "Number | Mapping[str, object]" = 0,
    uses: int = 10,
    cap: CapRule | None = None,
    method: str | None = None,
    bits: int = 20,
    iid: bool = True,
    pure: bool = False,
    shares: Number | None = None,
    strict: bool = True,
    side: Side = "both",
) -> Plan:
    """Return a plan for asking: give two of rows, queries and alpha, and the third is computed.

    ``beta``: how often, over whole transcripts, any interval may miss. ``epsilon`` and ``delta``: caps on privacy.
    ``reserve``: the share of the ledger that other verbs may spend, in ``uses`` equal parts unless they say otherwise; or a
    number of predictions, {"predictions": 120, "epsilon": 0.1}, kept in mu squared, in a purse in rho, or counted in draws,
    whichever leaves the questions most (V3.1), or as a "currency" says. ``purse`` of the plan has them all side by side.
    ``cap``: "validity" caps the ledger at what questions and reserve need, "privacy" at all that epsilon and delta allow,
    which makes population intervals wider. ``bits``: values are rounded to multiples of 2^-bits. ``iid``: whether rows are
    independent draws from one population; if not, alpha is about the sample, and privacy sets the cap. ``method``:
    "joint-gaussian" unless given. ``pure``: the ledger counts in pure epsilon, by the method "transfer-laplace"; all that
    it pays for is (epsilon, 0)-DP, and a delta is not used. ``shares``: answers up to this share, at most 1/2, are to be as
    narrow as possible, as those near 1; ``alpha`` is still the largest width, and no answer is more than a tenth wider than
    without, unless ``strict`` is False. It takes less noise and more privacy. :meth:`Plan.alpha_at` has every share's width.
    ``side``: "low" promises the lower end of every interval only, "high" the upper one, with fewer rows: the other end is 1
    or 0, and ``alpha`` is how far the promised one may be from its answer. For claims of the form "at least", "at most".

    Fails: :class:`~holdtrue.errors.InsufficientSamples` where nothing is possible, with the rows that would do;
    :class:`~holdtrue.errors.PreconditionError` where a named theorem does not speak. Warns: :class:`Intractable`.

    >>> p = plan(queries=1000, alpha=0.1, beta=0.05)
    >>> round(p.rows, -2), p.method
    (35200, 'joint-gaussian')
    """
    given = {"rows": rows, "queries": queries, "alpha": alpha}
    if sum(value is None for value in given.values()) != 1:
        raise InvalidParameter.saying(
            " and ".join(given), "give exactly two of rows, queries and alpha; the third is computed"
        )
    how = _choose_method(method, iid=truth("iid", iid), pure=truth("pure", pure))
    privacy, slack = _check_privacy(how, epsilon, None if pure else delta)
    task = AskingTask(
        queries=1 if queries is None else count("queries", queries, most=MOST),
        beta=round_down(probability("beta", beta)),
        reserve=0.0 if isinstance(reserve, Mapping) else _check_reserve(how, reserve),
        bits=count("bits", bits, least=0, most=_MOST_BITS),
        rule=_check_rule(cap, privacy, iid=iid),
        epsilon=privacy,
        delta=slack,
        pure=pure,
        shares=_check_shares(how, shares),
        strict=truth("strict", strict),
        side=_check_side(how, side, iid=iid),
    )
    size = None if rows is None else count("rows", rows, most=MOST)
    width = None if alpha is None else round_down(probability("alpha", alpha))
    goal = _Goal(task, size, width, solve_queries=queries is None, uses=count("uses", uses), iid=iid)
    return _plan_purses(how, goal, reserve) if isinstance(reserve, Mapping) else _solve(how, goal)


@dataclass(frozen=True, slots=True)
class _Goal:
    """What is planned for: a task, and rows and alpha where they are given."""

    task: AskingTask
    rows: int | None
    alpha: float | None
    solve_queries: bool
    uses: int
    iid: bool

    @property
    def solved(self) -> str:
        """Return the name of the number that is left out, by which plans for it are compared."""
        return "rows" if self.rows is None else "queries" if self.solve_queries else "alpha"


def _solve(how: AskingMethod, goal: _Goal) -> Plan:
    """Return the plan by one method."""
    task, size, width = goal.task, goal.rows, goal.alpha
    if size is not None:
        how.check(task, size)
    if size is None:
        size = _solve_rows(how, task, cast("float", width))
        how.check(task, size)
    elif goal.solve_queries:
        task = task.asking(_solve_queries(how, task, size, cast("float", width)))
    design = how.design(task, size)
    if width is None:
        _refuse_vacuous(how, task, size, design)
    alpha = design.alpha if width is None else width
    return _freeze(how, task, size, design, alpha=alpha, uses=goal.uses, iid=goal.iid)


def _plan_purses(how: AskingMethod, goal: _Goal, reserve: Mapping[str, object]) -> Plan:
    """Return the best of the plans that keep a reserve in each currency: the same promises, and the number sought (V3.1)."""
    if how is not METHODS["joint-gaussian"] and goal.iid:
        raise InvalidParameter.saying("reserve", f"give reserve as a share with the method {how.name}: it has one currency")
    plans: list[Plan] = []
    refusals: list[InsufficientSamples] = []
    for purse in read_reserve(reserve):
        pursed = PurseGaussian(purse) if goal.iid else PurseNoise(purse)
        try:
            plans.append(_solve(pursed, goal))
        except InsufficientSamples as refusal:
            refusals.append(refusal)
    if not plans:
        raise refusals[0]
    solved, sign = goal.solved, -1 if goal.solved == "queries" else 1
    found = tuple((plan.purse.currency, float(getattr(plan, solved))) for plan in plans if plan.purse is not None)
    best = min(plans, key=lambda plan: sign * getattr(plan, solved))
    if best.purse is None:
        return best
    return structs.replace(best, purse=structs.replace(best.purse, solved=solved, widths=found))


def _choose_method(name: str | None, *, iid: bool, pure: bool) -> AskingMethod:
    if pure and name is not None and text_among("method", name, tuple(METHODS)) != "transfer-laplace":
        raise InvalidParameter("method", name, "left out, or 'transfer-laplace', with pure=True")
    if pure and not iid:
        message = "a pure ledger for a set number of queries needs iid=True; without it, leave queries and alpha out"
        raise PreconditionError(message)
    how = find_method(("transfer-laplace" if pure else "joint-gaussian") if name is None else name)
    if iid:
        return how
    if how is not METHODS["joint-gaussian"]:
        raise InvalidParameter("method", name, "left out when iid is False: its theorem is about a population")
    return NoiseOnly()


def _check_privacy(how: AskingMethod, epsilon: Number | None, delta: Number | None) -> tuple[float | None, float | None]:
    privacy = None if epsilon is None else round_down(positive("epsilon", epsilon))
    slack = None if delta is None else round_down(probability("delta", delta, zero=True))
    if privacy is None and slack is not None:
        raise InvalidParameter("delta", delta, "left out, or given together with epsilon")
    if privacy is not None and not how.private:
        raise InvalidParameter("epsilon", epsilon, f"left out: the method {how.name} keeps no privacy")
    if privacy is not None and not slack and how.needs_delta:
        raise InvalidParameter.saying("delta", _NO_DELTA)
    return privacy, slack


def _check_rule(cap: CapRule | None, privacy: float | None, *, iid: bool) -> CapRule:
    if cap is not None:
        text_among("cap", cap, ("validity", "privacy"))
    if cap == "validity" and not iid:
        raise InvalidParameter("cap", cap, "'privacy' or left out when iid is False: there is no validity to plan for")
    rule: CapRule = cap or ("validity" if iid else "privacy")
    if rule == "privacy" and privacy is None:
        raise InvalidParameter.saying("epsilon", "give epsilon and delta, or declare the rows independent draws (iid=True)")
    return rule


def _check_reserve(how: AskingMethod, reserve: Number) -> float:
    share = round_up(probability("reserve", reserve, zero=True))
    if share and not how.shares:
        raise InvalidParameter("reserve", reserve, f"0 with the method {how.name}")
    return share


def _check_shares(how: AskingMethod, shares: Number | None) -> float | None:
    if shares is None:
        return None
    found = round_up(positive("shares", shares))
    if found > _MOST_SHARES:
        raise InvalidParameter("shares", shares, "above 0 and at most 0.5; shares near 1 are served alike")
    if not how.tunes:
        raise InvalidParameter("shares", shares, f"left out: the method {how.name} has one width for all shares")
    return found


def _check_side(how: AskingMethod, side: Side, *, iid: bool) -> Side:
    if text_among("side", side, tuple(SIDES)) == "both" or how.one_sided:
        return side
    if not iid:
        raise InvalidParameter("side", side, "'both' or left out when iid is False: intervals for the sample have both ends")
    raise InvalidParameter("side", side, f"'both' or left out: the method {how.name} promises both ends")


def _solve_rows(how: AskingMethod, task: AskingTask, alpha: float) -> int:
    rows = fewest_rows(how, task, alpha)
    if rows is None:
        message = f"no number of rows is enough for alpha = {alpha:g}: a ledger capped by this privacy is too wide"
        raise InsufficientSamples(message, required=None)
    return rows


def _solve_queries(how: AskingMethod, task: AskingTask, rows: int, alpha: float) -> int:
    queries = most_queries(how, task, rows=rows, alpha=alpha)
    if queries is None:
        required = fewest_rows(how, task, alpha)
        needed = f": {required:,} are needed" if required else ""
        message = f"{rows:,} rows are too few for a single answer within {alpha:g}{needed}"
        raise InsufficientSamples(message, required=required)
    return queries


def _refuse_vacuous(how: AskingMethod, task: AskingTask, rows: int, design: Design) -> None:
    """Refuse a half-width of 1, which says nothing, and warn where no efficient mechanism could do better."""
    hopeless = task.queries > rows * rows and how.adaptive
    if design.alpha < 1 and not hopeless:
        return
    required = fewest_rows(how, task, 1 - 2.0**-20)
    needed = f": {required:,} are needed for a half-width below 1" if required else ""
    message = f"{rows:,} rows are too few for {task.queries:,} queries by {how.name}{needed}"
    if hopeless:
        text = f"no efficient mechanism answers more adaptive queries than the square of the rows; {message}"
        warnings.warn(Intractable(text, required=required), stacklevel=3)
    if design.alpha >= 1:
        raise InsufficientSamples(message, required=required)


def _freeze(  # noqa: PLR0913 - what was solved, and what was said
    how: AskingMethod, task: AskingTask, rows: int, design: Design, *, alpha: float, uses: int, iid: bool
) -> Plan:
    if design.event is not None:
        scale = Fraction(design.sigma) * rows * 2**task.bits
        if scale > LARGEST_SCALE or rows << task.bits > _LARGEST_SUM:
            raise InvalidParameter("bits", task.bits, f"smaller: sums and noise of {rows:,} rows must fit into 64 bits")
    purse = how.purse if isinstance(how, (PurseGaussian, PurseNoise)) else None
    kept = purse.cap_units if purse is not None and not purse.is_second else 0
    epsilon, delta = _privacy(task, rows, design, purse)
    return Plan(
        rows=rows,
        queries=task.queries,
        alpha=alpha,
        beta=task.beta,
        epsilon=epsilon,
        delta=delta,
        limited=task.epsilon is not None,
        sigma=design.sigma,
        event=design.event,
        ledger=design.ledger,
        cost=design.cost,
        cap_units=design.cap + kept,
        reserve=kept / (design.cap + kept) if kept else task.reserve,
        uses=uses if purse is None else purse.predictions,
        rule=task.rule,
        iid=iid,
        bits=task.bits,
        method=how.name,
        theorem=f"{how.theorem}, {SIDES[task.side]}s only (S6)" if task.one_sided else how.theorem or None,
        transfer=design.transfer,
        alpha_otherwise=_alpha_otherwise(how, task, rows) if iid else None,
        shares=task.shares,
        strict=task.strict,
        side=task.side,
        purse=purse,
    )


def _privacy(task: AskingTask, rows: int, design: Design, purse: Purse | None) -> tuple[float | None, float | None]:
    """Return the privacy that was asked for; otherwise that of the cap, at a delta well below one over the rows."""
    if design.ledger is None:
        return None, None
    if task.epsilon is not None:
        return task.epsilon, task.delta or (design.privacy[1] if design.privacy else 0.0)
    if design.privacy is not None:
        return design.privacy
    total = round_up(design.cap * UNIT)
    if design.ledger == "pure":
        return total, 0.0
    delta = min(1e-6, 1 / (10 * rows))
    if design.ledger == "gdp":
        mu = math.sqrt(total) * ROUNDING
        if purse is not None:
            return purse.find_epsilon(mu, delta), delta
        return smallest_epsilon(lambda at: gaussian_delta(mu, at), delta), delta
    return smallest_epsilon(lambda at: zero_concentrated_delta(total, at), delta), delta


def _alpha_otherwise(how: AskingMethod, task: AskingTask, rows: int) -> float | None:
    """Return the half-width under the other rule for the cap, where privacy was asked for."""
    if task.epsilon is None or not how.shares:
        return None
    return min(1.0, how.design(task.under("validity" if task.rule == "privacy" else "privacy"), rows).alpha)


def open_plan(  # noqa: PLR0913 - every public number of a plan, by name
    *,
    rows: int,
    epsilon: Number,
    delta: Number = 0,
    beta: Number = 0.05,
    sigma: Number | None = None,
    reserve: Number = 0.25,
    uses: int = 10,
    bits: int = 20,
    iid: bool = True,
    pure: bool = False,
) -> OpenPlan:
    """Return a plan for questions without a set number, under a cap by privacy.

    ``sigma`` is the noise of one answer: unless given, as large as the sampling error of a mean can be, 1 / (2 sqrt(rows)),
    so that the noise never dominates early on. InsufficientSamples where the cap does not pay for a single answer.

    >>> open_plan(rows=100_000, epsilon=1, delta=1e-6).queries
    1400
    """
    size, failure = count("rows", rows), round_down(probability("beta", beta))
    privacy = round_down(positive("epsilon", epsilon))
    slack = 0.0 if pure else round_down(probability("delta", delta, zero=True))
    if not pure and not slack:
        raise InvalidParameter.saying("delta", _NO_DELTA)
    noise = 1 / (2 * math.sqrt(size)) if sigma is None else round_up(positive("sigma", sigma))
    kind: LedgerKind = "pure" if pure else "gdp"
    mu, each = 1 / (size * Fraction(noise)), Fraction(math.sqrt(2)) / (size * Fraction(noise))
    event: Event = DiscreteLaplace(each, 1 << bits) if pure else GaussianNoise(mu)
    cost = units_up(each if pure else mu**2)
    limit = largest_cap(kind, privacy, slack)
    if cost > limit:
        needed = math.ceil(cost / limit * size) if sigma is None else None
        message = "the privacy allowed does not pay for one answer: fewer digits (sigma) or more rows would do"
        raise InsufficientSamples(message, required=needed)
    return OpenPlan(
        rows=size,
        beta=failure,
        epsilon=privacy,
        delta=slack,
        sigma=noise,
        event=event,
        ledger=kind,
        cost=cost,
        cap_units=limit,
        reserve=round_up(probability("reserve", reserve, zero=True)),
        uses=count("uses", uses),
        iid=iid,
        bits=count("bits", bits, least=0),
        noise_beta=failure if pure else failure * _NOISE_SHARE,
        transfer_beta=0.0 if pure else failure * (1 - _NOISE_SHARE),
        edges=not pure,
    )

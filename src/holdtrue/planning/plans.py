"""The plans for asking as records: what they hold, and how they read."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from msgspec import Struct

from holdtrue import events
from holdtrue.accounting.purses import Currency, Purse, purse_of
from holdtrue.bounds.accuracy import gaussian_overshoot, gaussian_quantile, grid, laplace_maximum
from holdtrue.bounds.transfer import (
    Shift,
    interval,
    joint_gap,
    level_pairs,
    level_shift,
    position_alpha,
    position_interval,
    purse_pairs,
    purse_shift,
    stitched_noise,
)
from holdtrue.codec import decode
from holdtrue.errors import NotCertified, RequestError
from holdtrue.events import Event
from holdtrue.exact import ROUNDING, STITCH, UNIT, LedgerKind, Number, probability
from holdtrue.planning.methods import REACHES, SIDES, AskingTask, CapRule, Pair, Side, Transfer
from holdtrue.records import fold_line, html_table

if TYPE_CHECKING:
    from holdtrue.planning.comparing import Comparison

_OPEN_THEOREM = "transfer theorem, stitched over levels of the budget (T5, T6, T7)"
_NEAR = 1e-6  # relative; the box is read back from a sum that was rounded up
_UNITS = {"gdp": "mu", "zcdp": "rho", "pure": "epsilon"}
_RESERVES: dict[str, Currency | Literal["epsilon"]] = {"gdp": "mu", "zcdp": "rho", "pure": "epsilon"}


@lru_cache(1024)
def _noise_width(queries: int, beta: float, sigma: float, rows: int, bits: int, *, normal: bool) -> float:  # noqa: PLR0913
    """Return what the noise on this many answers, with rounding to the grid, exceeds with probability at most beta."""
    deviations = gaussian_quantile(queries, beta=beta) if normal else math.log(queries / beta) / math.sqrt(2)
    return (sigma * deviations + grid(rows, bits=bits)) * ROUNDING


def _farther_end(share: Number, ends: tuple[float, float] | None, otherwise: float, side: Side = "both") -> float:
    """Return how far the farther promised end is from a share; ``otherwise`` where no theorem speaks of the population."""
    at = float(probability("share", share, zero=True, one=True))
    if ends is None:
        return otherwise
    return max(at - ends[0] if side != "high" else 0.0, ends[1] - at if side != "low" else 0.0)


def _say_group(group: int) -> list[tuple[str, str]]:
    """Return the line of a plan that protects several rows of one person; none for one that protects single rows."""
    told = f"protects whoever owns up to {group:,} rows; there are {group:,} times as many rows as planned for"
    return [("group", told)] if group > 1 else []


class Plan(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="plan", tag="ask"):
    """Frozen numbers that answers live by. Every one is public; none may change once rows were seen.

    Guarantee: if the rows are independent draws and no more than ``queries`` answers with noise ``sigma`` are given, on a
    ledger that never passes ``cap``, then with probability at least 1 - beta every answer is within ``alpha`` of the
    population at once, whatever else the ledger paid for, by ``theorem``; and the whole ledger is (epsilon, delta)-DP.
    ``cost`` and ``cap_units`` are whole numbers of 1e-15 of mu squared, of rho or of epsilon, as ``ledger`` says:
    queries times cost fits, and the rest is the reserve. ``limited`` says whether epsilon and delta were asked for;
    otherwise they are what the cap amounts to. ``alpha_otherwise`` is the half-width under the other rule for the cap.
    ``shares``, where given, is up to which share answers were planned to be narrowest, ``strict`` whether others may lose a
    tenth at most (U6). ``side`` "low" or "high": only that end of every interval is promised, the other one is 1 or 0, and
    ``alpha`` is how far the promised end is from its answer at most (S6). ``group`` r: costs and privacy are those of
    whoever owns up to r rows, and ``rows`` is how many rows there are over r (V6.6). ``purse`` is the reserve where it is
    kept for a number of predictions: beside ``cap_units`` where it is a second purse, and within them otherwise (V3.1).
    """

    rows: int
    queries: int
    alpha: float
    beta: float
    epsilon: float | None
    delta: float | None
    limited: bool
    sigma: float
    event: Event | None
    ledger: LedgerKind | None
    cost: int
    cap_units: int
    reserve: float
    uses: int
    rule: CapRule
    iid: bool
    bits: int
    method: str
    theorem: str | None
    transfer: Transfer | None
    alpha_otherwise: float | None
    shares: float | None = None
    strict: bool = True
    side: Side = "both"
    group: int = 1
    purse: Purse | None = None

    @property
    def second(self) -> Purse | None:
        """Return the purse beside that of the questions; None where the ledger has one currency."""
        return self.purse if self.purse is not None and self.purse.is_second else None

    @property
    def extent(self) -> str:
        """Return in words which answers hold at once."""
        return f"all {self.queries:,} planned answers"

    @property
    def cap(self) -> float | None:
        """Return what the ledger may spend in all: its mu, rho or epsilon; None where no privacy is kept."""
        if self.ledger is None:
            return None
        total = self.cap_units * UNIT
        return math.sqrt(total) if self.ledger == "gdp" else float(total)

    @property
    def mu(self) -> float | None:
        """Return the cap on a GDP ledger, None on others."""
        return self.cap if self.ledger == "gdp" else None

    @property
    def private(self) -> bool:
        """Return whether the answers keep the rows' secrets."""
        return self.ledger is not None

    @property
    def reserve_units(self) -> int:
        """Return the whole units that verbs other than ask may spend: of the second purse, where there is one."""
        return self.cap_units - self.cost * self.queries if self.second is None else self.second.cap_units

    @property
    def reserve_currency(self) -> Currency | Literal["epsilon"]:
        """Return in what the reserve is counted."""
        return _RESERVES[self.ledger or "pure"] if self.second is None else self.second.currency

    @property
    def use_units(self) -> int:
        """Return the whole units of one use of the reserve, where its verb is called without an epsilon.

        None where there is no reserve: what dividing the cap among the questions leaves pays for nothing of use.
        """
        kept = self.reserve_units
        return 0 if self.second is None and kept < self.queries else kept // self.uses

    @property
    def noise_scale(self) -> Fraction:
        """Return the standard deviation of the noise on the integer sum of values in units of 2^-bits."""
        return Fraction(self.sigma) * (self.rows << self.bits)

    @property
    def sample_alpha(self) -> float:
        """Return the half-width that covers all sample means with probability 1 - beta: the noise alone."""
        if self.event is None:
            return 0.0
        normal = isinstance(self.event, events.GaussianNoise)
        return _noise_width(self.queries, self.beta, self.sigma, self.rows, self.bits, normal=normal)

    @property
    def has_small_purse(self) -> bool:
        """Return whether all answers together exceed their boxes by more than the overshoot that was frozen (S1, S6).

        Never so in a plan that :func:`plan` made; a plan for one side that is rewritten for both has half of what it needs.
        """
        frozen = self.transfer
        if frozen is None or not frozen.overshoot or not self.sigma:
            return False
        box = max(0.0, (frozen.noise / ROUNDING - grid(self.rows, bits=self.bits)) / self.sigma)
        needed = self.sigma * self.queries * gaussian_overshoot(box, one_sided=self.side != "both")
        return needed > frozen.overshoot * (1 + _NEAR)

    @property
    def position_alpha(self) -> float | None:
        """Return the half-width where every row has a query of its own (T6b); None without the transfer theorem."""
        frozen = self.transfer
        return None if frozen is None else position_alpha(noise=frozen.noise, epsilon=frozen.epsilon, slack=frozen.slack)

    def alpha_at(self, share: Number) -> float:
        """Return the half-width of an answer that is this share: how far its farther end is. The largest is ``alpha`` (U6).

        >>> from holdtrue.planning.asking import plan
        >>> made = plan(rows=45_000, queries=300, shares=0.05)
        >>> round(made.alpha_at(0.01), 4), round(made.alpha_at(0.5), 4)
        (0.0304, 0.0692)
        """
        return _farther_end(share, self.interval(float(share)), self.alpha, self.side)

    def alpha_after(self, draw: int, spent: int) -> float:
        """Return the largest half-width of the answer with this number: the same for all."""
        del draw, spent
        return self.alpha

    def sample_alpha_at(self, draw: int) -> float:
        """Return the half-width for these rows of the answer with this number: the same for all."""
        del draw
        return self.sample_alpha

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Return every form of T6 that the interval of one answer rests on, none by other theorems (V4.2 iii)."""
        frozen = self.transfer
        return () if frozen is None else (Pair(frozen.noise, frozen.epsilon, frozen.slack), *frozen.edges)

    def interval(
        self, answer: float, *, by_position: bool = False, draw: int = 1, spent: int = 0
    ) -> tuple[float, float] | None:
        """Return the ends for the population value behind an answer, or None where rows are not independent draws.

        By T6, or T6b where every row has a query of its own, at every pair of the plan; other theorems give answer +- alpha,
        and say nothing of such per-row queries (None). Whichever answer it is, and whatever was spent before it: the plan
        counts on all of them.
        Law (S6): a plan for one side says nothing in the other direction, where the end is 0 or 1.
        """
        del draw, spent
        if not self.iid or (by_position and self.transfer is None):
            return None
        if self.transfer is not None:
            low, high = meet_pairs(self.pairs, answer, by_position=by_position)
        else:
            clipped = min(1.0, max(0.0, answer))
            low, high = max(0.0, clipped - self.alpha), min(1.0, clipped + self.alpha)
        return 0.0 if self.side == "high" else low, 1.0 if self.side == "low" else high

    def interval_below(self, answer: float, *, most: float) -> tuple[float, float]:
        """Return the ends by position of an answer that cannot be above ``most``, by a plan with a transfer theorem.

        What is missing to it is a query as well, and bounds the answer from above where that is nearer.
        """
        pairs = self.pairs
        low, high = meet_pairs(pairs, answer, by_position=True)
        missing, _ = meet_pairs(pairs, most - answer, by_position=True)
        return low, min(high, most - missing + 2.0**-48)

    def transfer_terms(self, *, draw: int, spent: int) -> tuple[float, float, float] | None:
        """Return the box, the epsilon and the slack of an answer; None where the transfer theorem does not speak of it."""
        del draw, spent
        frozen = self.transfer if self.iid else None
        return None if frozen is None else (frozen.noise, frozen.epsilon, frozen.slack)

    def find_shift(self, beta: float, *, spent: int) -> Shift:
        """Return T5's shift once this much is spent, with failure beta over all totals; at both caps with two purses."""
        if self.second is not None and self.cap is not None:
            return purse_shift(self.second, self.cap * ROUNDING, beta=beta)
        if self.ledger is None:
            return Shift(1.0, 0.0, 1.0)
        return level_shift(self.ledger, spent, first=self.cost, cap=self.cap_units, beta=beta)

    def find_pairs(self, beta: float, *, spent: int, scaled: bool = True) -> tuple[Shift, ...]:
        """Return several shifts that hold at once where :meth:`find_shift` has one (V4.2 iii)."""
        if self.second is not None and self.cap is not None:
            return purse_pairs(self.second, self.cap * ROUNDING, beta=beta, scaled=scaled)
        if self.ledger is None:
            return (Shift(1.0, 0.0, 1.0),)
        return level_pairs(self.ledger, spent, first=self.cost, cap=self.cap_units, beta=beta, scaled=scaled)

    def joint_gap(self, beta: float, *, spent: int) -> tuple[float, float]:
        """Return how far sample and population may be apart once this much is spent, and its share of beta (S2)."""
        if self.second is not None:
            gap = self.find_shift(beta, spent=spent)
            return position_alpha(noise=0.0, epsilon=gap.epsilon, slack=gap.slack), beta
        if self.ledger is None:
            return 1.0, beta
        return joint_gap(self.ledger, spent, first=self.cost, cap=self.cap_units, beta=beta)

    def compare(self) -> "Comparison":
        """Return every method side by side for this plan's questions: rows needed, and half-width with these rows."""
        from holdtrue.planning.comparing import compare_methods  # a plan that is kept or read does without all methods

        limits = (self.epsilon, self.delta) if self.limited else (None, None)
        task = AskingTask(
            self.queries, self.beta, self._share_in_mu(), self.bits, self.rule, *limits, pure=self.ledger == "pure"
        )
        task = replace(task, shares=self.shares, strict=self.strict, side=self.side)
        return compare_methods(task, rows=self.rows, alpha=self.alpha, chosen=self.method)

    def _share_in_mu(self) -> float:
        """Return the share of a ledger in mu squared that the reserve would be."""
        if self.second is None:
            return self.reserve
        kept = purse_of("mu", predictions=self.second.predictions, epsilon=self.second.epsilon).cap_units
        return kept / (self.cap_units + kept)

    def __str__(self) -> str:
        return "\n".join(fold_line(f"{name:>10}", value) for name, value in self.lines())

    def _repr_html_(self) -> str:
        return html_table(self.lines())

    def _say_widths(self) -> list[str]:
        """Return the other width in words: with and without rows that are declared independent draws."""
        if self.ledger is None or self.side != "both":
            return []
        if self.iid:
            return [f"{self.sample_alpha:.4g} of these rows, whether or not they are independent draws (iid)"]
        other = _plan_with_draws(self)
        wide = "no interval" if other is None else f"{other.alpha:.4g}"
        return [f"{wide} of the population if rows were declared independent draws (iid), which they are not"]

    def lines(self) -> list[tuple[str, str]]:
        """Return the plan as names and words, a line each."""
        target = "population" if self.iid else "sample"
        often = f"{100 * (1 - self.beta):.6g}% of the time"
        promised = f"every answer within {self.alpha:.4g} of the {target}, all at once, {often}"
        if self.side != "both":
            other = "upper" if self.side == "low" else "lower"
            place = REACHES[self.side][1]
            near = f"every answer's {SIDES[self.side]}, at most {self.alpha:.4g} {place} it, is {place} the {target}"
            promised = f"{near}, all at once, {often}; {other} ends are not promised"
        lines = [
            ("rows", f"{self.rows:,}"),
            ("queries", f"{self.queries:,}"),
            ("alpha", promised),
            (
                "method",
                f"{self.method}: {self.theorem or 'no theorem about the population: rows are not declared independent'}",
            ),
        ]
        if self.shares is not None:
            width = max(self.alpha_at(self.shares), self.alpha_at(1 - self.shares))
            narrow = f"{width:.4g} where an answer is {self.shares:g}, as in all up to it or near 1"
            lines.insert(3, ("", narrow))
        lines[3:3] = [("", each) for each in self._say_widths()]
        if self.alpha_otherwise is not None:
            other = "validity" if self.rule == "privacy" else "privacy"
            lines.insert(3, ("", f'{self.alpha_otherwise:.4g} with cap="{other}"; this plan has cap="{self.rule}"'))
        lines += _say_group(self.group)
        if self.ledger is not None:
            lines += [
                ("noise", f"standard deviation {self.sigma:.4g} of one answer"),
                ("ledger", f"{_UNITS[self.ledger]} up to {self.cap:.4g}{_say_reserve(self)}"),
                ("privacy", f"everything released is ({self.epsilon:.4g}, {self.delta:.3g})-DP or better"),
            ]
        return lines if self.purse is None else [*lines, *_say_purse(self.purse)]


def _say_reserve(plan: "Plan") -> str:
    second = plan.second
    if second is None:
        return f"; {plan.reserve:.0%} of it reserved"
    beside = f"{second.predictions:,} draws" if second.currency == "draws" else f"rho up to {second.cap:.4g}"
    return f" for questions; a purse beside it has {beside}"


def _say_purse(purse: Purse) -> list[tuple[str, str]]:
    """Return the lines of a reserve for predictions: what it pays for, and what the plan would be in every currency."""
    words = {"mu": "in mu squared", "rho": "in rho", "draws": "counted in draws"}
    said = ", ".join(f"{value:,.4g} {words[name]}" for name, value in purse.widths)
    compared = [("", f"{purse.solved}: {said}")] if len(purse.widths) > 1 else []
    return [("reserve", f"{purse}, {words[purse.currency]}"), *compared]


def _plan_with_draws(plan: Plan) -> Plan | None:
    """Return the plan for the same questions if rows were declared independent draws; None where there is none."""
    from holdtrue.planning.asking import plan as make_plan  # a plan that is kept or read does without the solvers

    limits = {"epsilon": plan.epsilon, "delta": plan.delta} if plan.ledger != "pure" else {"epsilon": plan.epsilon}
    given = {"rows": plan.rows, "queries": plan.queries, "beta": plan.beta, "reserve": plan.reserve, "bits": plan.bits}
    try:
        return make_plan(**given, **limits, uses=plan.uses, pure=plan.ledger == "pure")  # type: ignore[arg-type]  # by name
    except RequestError:
        return None


def refuse_one_side(plan: "AnyPlan", what: str) -> None:
    """Refuse a response with both ends under a plan that promises one only: the other is missed more often than beta (S6).

    Failure: NotCertified, which says what to do instead.
    """
    if plan.side != "both":
        message = (
            f"{what} both ends of an interval, and this plan promises {SIDES[plan.side]}s only (side={plan.side!r}); "
            "ask single questions, or plan with side='both'"
        )
        raise NotCertified(message)


class OpenPlan(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="plan", tag="open"):
    """Frozen numbers for questions without a set number: noise, a cap by privacy, and how beta is spread over all answers.

    Guarantee: if the rows are independent draws and the ledger never passes its cap, then with probability at least
    1 - beta every interval of :meth:`interval` covers at once, whatever the ledger pays for beside; and the whole ledger is
    (epsilon, delta)-DP. An answer's width depends on its number and on what was spent up to it, all analysts and verbs
    included. ``queries`` is how many the cap can pay for, ``alpha`` the half-width of the last of them. ``edges``: intervals
    are where those by several pairs meet (V4.2 iii).
    """

    rows: int
    beta: float
    epsilon: float
    delta: float
    sigma: float
    event: Event
    ledger: LedgerKind
    cost: int
    cap_units: int
    reserve: float
    uses: int
    iid: bool
    bits: int
    noise_beta: float
    transfer_beta: float
    group: int = 1
    edges: bool = False

    method = "open-ended"
    limited = True
    side: ClassVar[Side] = "both"
    second: ClassVar[None] = None

    @property
    def reserve_currency(self) -> Currency | Literal["epsilon"]:
        """Return in what the reserve is counted."""
        return _RESERVES[self.ledger]

    @property
    def theorem(self) -> str | None:
        """Return by which theorem intervals for the population hold; None where rows are not independent draws."""
        return _OPEN_THEOREM if self.iid else None

    @property
    def queries(self) -> int:
        """Return how many questions the cap can pay for, if nothing else is asked of it."""
        return self.cap_units // self.cost

    @property
    def extent(self) -> str:
        """Return in words which answers hold at once."""
        return "all answers"

    @property
    def cap(self) -> float:
        """Return what the ledger may spend in all: its mu or epsilon."""
        total = self.cap_units * UNIT
        return math.sqrt(total) if self.ledger == "gdp" else float(total)

    @property
    def alpha(self) -> float:
        """Return the half-width of the last answer that the cap can pay for; :meth:`alpha_after` has the others'."""
        return self.alpha_after(self.queries, self.cap_units)

    @property
    def sample_alpha(self) -> float:
        """Return the half-width around the last answer for these rows: the noise alone."""
        return self.sample_alpha_at(self.queries)

    @property
    def position_alpha(self) -> float:
        """Return the half-width of the last answer where every row has a query of its own (T6b)."""
        low, high = self.interval(0.5, draw=self.queries, spent=self.cap_units, by_position=True) or (0.0, 1.0)
        return (high - low) / 2

    @property
    def reserve_units(self) -> int:
        """Return the whole units that verbs other than ask may spend: intervals follow what is spent, so all of them."""
        return self.cap_units

    @property
    def use_units(self) -> int:
        """Return the whole units of one use by another verb, where it is called without an epsilon."""
        return math.floor(self.cap_units * Fraction(self.reserve) / self.uses)

    def alpha_at(self, share: Number) -> float:
        """Return the half-width of the last answer that the cap can pay for, where it is this share."""
        return _farther_end(share, self.interval(float(share), draw=self.queries, spent=self.cap_units), self.alpha)

    def alpha_after(self, draw: int, spent: int) -> float:
        """Return the half-width of an answer in the middle, by its number and by the units spent with it."""
        low, high = self.interval(0.5, draw=draw, spent=spent) or (0.0, 1.0)
        return (high - low) / 2

    def sample_alpha_at(self, draw: int) -> float:
        """Return the half-width of the answer with this number; all answers hold at once with probability 1 - beta."""
        failure = self.beta * STITCH / draw**2
        if isinstance(self.event, events.GaussianNoise):
            width = self.sigma * gaussian_quantile(1, beta=failure)
        else:
            width = self.sigma / math.sqrt(2) * -math.log(failure)
        return (width + grid(self.rows, bits=self.bits)) * ROUNDING

    def interval(self, answer: float, *, draw: int, spent: int, by_position: bool = False) -> tuple[float, float] | None:
        """Return the ends for the population value behind answer number ``draw``; ``spent`` counts its own cost (T7)."""
        if not self.iid:
            return None
        noise, shifts = self._noise(draw), self._find_shifts(spent)
        return meet_pairs([Pair(noise, each.epsilon, each.slack) for each in shifts], answer, by_position=by_position)

    def transfer_terms(self, *, draw: int, spent: int) -> tuple[float, float, float] | None:
        """Return the box, the epsilon and the slack of an answer by its number and by what was spent with it (T7)."""
        if not self.iid:
            return None
        gap = self._find_shifts(spent)[0]
        return self._noise(draw), gap.epsilon, gap.slack

    def _find_shifts(self, spent: int) -> tuple[Shift, ...]:
        """Return the shifts that intervals rest on, all at once; a ledger of before has one."""
        if self.edges:
            return self.find_pairs(self.transfer_beta, spent=spent)
        return (self.find_shift(self.transfer_beta, spent=spent),)

    def find_shift(self, beta: float, *, spent: int) -> Shift:
        """Return T5's shift once this much is spent, with failure beta over all totals (T7)."""
        return level_shift(self.ledger, spent, first=self.cost, cap=self.cap_units, beta=beta)

    def find_pairs(self, beta: float, *, spent: int, scaled: bool = True) -> tuple[Shift, ...]:
        """Return several shifts that hold at once where :meth:`find_shift` has one (V4.2 iii)."""
        return level_pairs(self.ledger, spent, first=self.cost, cap=self.cap_units, beta=beta, scaled=scaled)

    def joint_gap(self, beta: float, *, spent: int) -> tuple[float, float]:
        """Return how far sample and population may be apart once this much is spent, and its share of beta (S2)."""
        return joint_gap(self.ledger, spent, first=self.cost, cap=self.cap_units, beta=beta)

    def _noise(self, draw: int) -> float:
        if isinstance(self.event, events.GaussianNoise):
            width = self.sigma * stitched_noise(draw, beta=self.noise_beta)
        else:
            width = self.sigma / math.sqrt(2) * laplace_maximum(1, beta=self.noise_beta * STITCH / draw**2)
        return (width + grid(self.rows, bits=self.bits)) * ROUNDING

    def lines(self) -> list[tuple[str, str]]:
        """Return the plan as names and words, a line each."""
        first = self.alpha_after(1, self.cost) if self.iid else self.sample_alpha_at(1)
        last = self.alpha if self.iid else self.sample_alpha
        target = "population" if self.iid else "sample"
        width = f"{first:.4g} for the first answer, {last:.4g} for the last, {target}, all at once"
        theorem = self.theorem or "no theorem about the population: rows are not declared independent"
        return [
            ("rows", f"{self.rows:,}"),
            ("queries", f"no set number; the ledger pays for {self.queries:,} if nothing else is asked of it"),
            ("alpha", f"{width}, {100 * (1 - self.beta):.6g}% of the time"),
            ("method", f"{self.method}: {theorem}"),
            ("noise", f"standard deviation {self.sigma:.4g} of one answer"),
            ("ledger", f"{'mu' if self.ledger == 'gdp' else 'epsilon'} up to {self.cap:.4g}, shared by all verbs"),
            ("privacy", f"everything released is ({self.epsilon:.4g}, {self.delta:.3g})-DP"),
            *_say_group(self.group),
        ]

    def __str__(self) -> str:
        return "\n".join(fold_line(f"{name:>10}", value) for name, value in self.lines())

    _repr_html_ = Plan._repr_html_


AnyPlan: TypeAlias = Plan | OpenPlan


def meet_pairs(pairs: Sequence[Pair], answer: float, *, by_position: bool = False) -> tuple[float, float]:
    """Return where the intervals of an answer by several pairs meet, which is around the answer (V4.2 iii)."""
    form = position_interval if by_position else interval
    found = [form(answer, noise=each.noise, epsilon=each.epsilon, slack=each.slack) for each in pairs]
    return max(low for low, _ in found), min(high for _, high in found)


def find_intervals(
    plan: AnyPlan, answer: float, *, draw: int, spent: int, by_position: bool = False
) -> tuple[tuple[float, float], tuple[float, float] | None]:
    """Return the ends for the mean over these rows, and those for the population, of answer number ``draw``.

    ``spent`` counts the answer's own cost; the second are None where no theorem speaks of the population.
    """
    near = plan.sample_alpha_at(draw)
    rows = max(0.0, answer - near), min(1.0, answer + near)
    return rows, plan.interval(answer, draw=draw, spent=spent, by_position=by_position)


def read_plan(text: str) -> AnyPlan:
    """Return the plan that a ledger was created with."""
    given: object = text  # whatever a caller brings
    if isinstance(given, str) and given == "{}":
        message = "this ledger has no plan: it counts estimators' fits, which verify and audit can read"
        raise RequestError(message)
    plan: AnyPlan = decode(text, AnyPlan)
    return plan

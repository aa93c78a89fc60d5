"""Plans without a number of questions: early answers get narrow intervals, later ones wider, none is widened later (T7)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Self, TypeAlias

from holdtrue import events
from holdtrue.bounds.accuracy import gaussian_quantile, grid, laplace_maximum
from holdtrue.bounds.transfer import Shift, interval, joint_gap, level_shift, position_interval, stitched_noise
from holdtrue.errors import InsufficientSamples, InvalidParameter, RequestError
from holdtrue.events import Event
from holdtrue.exact import ROUNDING, STITCH, UNIT, Number, count, positive, probability, round_down, round_up, units_up
from holdtrue.planning.documents import read_object
from holdtrue.planning.plans import Plan
from holdtrue.planning.tasks import Ledger, largest_cap

__all__ = ["AnyPlan", "OpenPlan", "open_plan", "read_plan"]

_NOISE_SHARE = 0.25
_THEOREM = "transfer theorem, stitched over levels of the budget (T5, T6, T7)"


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """Frozen numbers for questions without a set number: noise, a cap by privacy, and how beta is spread over all answers.

    Guarantee: if the rows are independent draws and the ledger never passes its cap, then with probability at least
    1 - beta every interval of :meth:`interval` covers at once, whatever the ledger pays for beside; and the whole ledger is
    (epsilon, delta)-DP. An answer's width depends on its number and on what was spent up to it, all analysts and verbs
    included. ``queries`` is how many the cap can pay for, ``alpha`` the half-width of the last of them.
    """

    rows: int
    beta: float
    epsilon: float
    delta: float
    sigma: float
    event: Event
    ledger: Ledger
    cost: int
    cap_units: int
    reserve: float
    uses: int
    iid: bool
    bits: int
    noise_beta: float
    transfer_beta: float

    method = "open-ended"
    limited = True

    @property
    def theorem(self) -> str | None:
        """Return by which theorem intervals for the population hold; None where rows are not independent draws."""
        return _THEOREM if self.iid else None

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
        """Return the half-width of the last answer that the cap can pay for; :meth:`alpha_at` has the others'."""
        return self.alpha_at(self.queries, self.cap_units)

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

    def alpha_at(self, draw: int, spent: int) -> float:
        """Return the half-width of an answer in the middle, by its number and by the units spent with it."""
        low, high = self.interval(0.5, draw=draw, spent=spent) or (0.0, 1.0)
        return (high - low) / 2

    def sample_alpha_at(self, draw: int) -> float:
        """Return the half-width for these rows of the answer with this number, all answers at once but for beta."""
        failure = self.beta * STITCH / draw**2
        if isinstance(self.event, events.Gaussian):
            width = self.sigma * gaussian_quantile(1, beta=failure)
        else:
            width = self.sigma / math.sqrt(2) * -math.log(failure)
        return (width + grid(self.rows, bits=self.bits)) * ROUNDING

    def interval(self, answer: float, *, draw: int, spent: int, by_position: bool = False) -> tuple[float, float] | None:
        """Return the ends for the population value behind answer number ``draw``; ``spent`` counts its own cost (T7)."""
        if not self.iid:
            return None
        ends = position_interval if by_position else interval
        gap = self._shift(spent, self.transfer_beta)
        return ends(answer, noise=self._noise(draw), epsilon=gap.epsilon, slack=gap.slack)

    def joint_gap(self, beta: float, *, spent: int) -> tuple[float, float]:
        """Return how far sample and population may be apart when so much was spent, and the share of beta it is for (S2)."""
        return joint_gap(self.ledger, spent, first=self.cost, cap=self.cap_units, beta=beta)

    def _noise(self, draw: int) -> float:
        if isinstance(self.event, events.Gaussian):
            width = self.sigma * stitched_noise(draw, beta=self.noise_beta)
        else:
            width = self.sigma / math.sqrt(2) * laplace_maximum(1, beta=self.noise_beta * STITCH / draw**2)
        return (width + grid(self.rows, bits=self.bits)) * ROUNDING

    def _shift(self, spent: int, beta: float) -> Shift:
        return level_shift(self.ledger, spent, first=self.cost, cap=self.cap_units, beta=beta)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON; floats are written in full, rationals as strings, so nothing is rounded."""
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"plan": "open"} | document | {"event": events.to_json(self.event)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the plan that :meth:`to_json` wrote."""
        content = dict(document)
        names = [field.name for field in fields(cls)]
        if content.pop("plan", None) != "open" or set(content) != set(names):
            raise InvalidParameter("plan", sorted(content), f"an open-ended plan, with the fields {names}")
        return cls(**content | {"event": events.from_json(content["event"])})

    def lines(self) -> list[tuple[str, str]]:
        """Return the plan as names and words, a line each."""
        first, last = (self.alpha_at(1, self.cost), self.alpha) if self.iid else (self.sample_alpha_at(1), self.sample_alpha)
        target = "population" if self.iid else "sample"
        width = f"{first:.4g} for the first answer, {last:.4g} for the last, {target}, all at once"
        theorem = self.theorem or "no theorem about the population: rows are not declared independent"
        return [
            ("rows", f"{self.rows:,}"),
            ("queries", f"no set number; the ledger pays for {self.queries:,} if nothing else is asked of it"),
            ("alpha", f"{width}, but for a chance of {self.beta:g}"),
            ("method", f"{self.method}: {theorem}"),
            ("noise", f"standard deviation {self.sigma:.4g} of one answer"),
            ("ledger", f"{'mu' if self.ledger == 'gdp' else 'epsilon'} up to {self.cap:.4g}, shared by all verbs"),
            ("privacy", f"({self.epsilon:.4g}, {self.delta:.3g})-DP for all that the ledger pays"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:>10}  {value}" for name, value in self.lines())


AnyPlan: TypeAlias = Plan | OpenPlan


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
        raise InvalidParameter("delta", delta, "given together with epsilon, and above 0: Gaussian noise needs delta > 0")
    noise = 1 / (2 * math.sqrt(size)) if sigma is None else round_up(positive("sigma", sigma))
    kind: Ledger = "pure" if pure else "gdp"
    mu, each = 1 / (size * Fraction(noise)), Fraction(math.sqrt(2)) / (size * Fraction(noise))
    event: Event = events.DiscreteLaplace(each, 1 << bits) if pure else events.Gaussian(mu)
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
    )


def read_plan(text: str) -> AnyPlan:
    """Return the plan that a ledger was created with."""
    document = read_object("plan", text)
    if not document:
        message = "this ledger has no plan: it counts estimators' fits, which verify and audit can read"
        raise RequestError(message)
    return OpenPlan.from_json(document) if document.get("plan") == "open" else Plan.from_json(document)

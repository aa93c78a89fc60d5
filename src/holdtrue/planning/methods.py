"""What a method of answering is given, and what it gives back: a task of public numbers, and a design that certifies it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from holdtrue.accounting.closed_forms import descend
from holdtrue.accounting.filters import largest_cap
from holdtrue.bounds.accuracy import gaussian_maximum, grid
from holdtrue.errors import InsufficientSamples
from holdtrue.events import Event, GaussianNoise
from holdtrue.exact import ROUNDING, UNIT, LedgerKind

CapRule: TypeAlias = Literal["validity", "privacy"]
Side: TypeAlias = Literal["both", "low", "high"]
SIDES: dict[Side, str] = {"both": "end", "low": "lower end", "high": "upper end"}
"""Which ends of intervals a plan promises, and what one of them is called."""
REACHES: dict[Side, tuple[str, str]] = {"both": ("±", "around"), "low": ("-", "below"), "high": ("+", "above")}
"""Where the promised ends are from an answer, as a sign and as a word."""


@dataclass(frozen=True, slots=True)
class AskingTask:
    """A number of answers, all within alpha w.p. 1 - beta; other verbs may spend the reserve (a share of the cap).

    ``rule`` "validity": the ledger is capped at what the answers and the reserve need; "privacy": at all that epsilon and
    delta allow. Both None: no cap by privacy. ``pure`` asks for a ledger in pure epsilon, whatever another would give.
    ``shares``: answers up to this share are to be narrowest; ``strict``: others may lose a tenth at most (U6).
    ``side``: which ends of intervals are promised; "low" and "high" fix one direction before every draw (S6).
    """

    queries: int
    beta: float
    reserve: float
    bits: int
    rule: CapRule
    epsilon: float | None = None
    delta: float | None = None
    pure: bool = False
    shares: float | None = None
    strict: bool = True
    side: Side = "both"

    @property
    def one_sided(self) -> bool:
        """Return whether every answer has one promised end only."""
        return self.side != "both"

    def limit(self, ledger: LedgerKind) -> int | None:
        """Return the most units that privacy allows on a ledger, or None where it sets no limit.

        Failure: InsufficientSamples where it allows less than one.
        """
        if self.epsilon is None:
            return None
        most = largest_cap(ledger, self.epsilon, self.delta or 0.0)
        if most < 1:
            raise too_little_privacy(self)
        return most

    def asking(self, queries: int) -> "AskingTask":
        """Return the same task for another number of queries."""
        return replace(self, queries=queries)

    def under(self, rule: CapRule) -> "AskingTask":
        """Return the same task with the ledger capped by another rule."""
        return replace(self, rule=rule)


class Pair(Struct, frozen=True, forbid_unknown_fields=True):
    """One form of T6: the box of an answer's noise, epsilon, and the slack, which counts on that box."""

    noise: float
    epsilon: float
    slack: float


class Transfer(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What T6 freezes before data: epsilon, slack = delta(epsilon)/transfer_beta, and how beta is split.

    ``noise`` is the half-width of the noise, rounding to the grid included, and ``gamma`` the largest gap to the population.
    With an ``overshoot`` beta is not split: noise is the box of one answer, the overshoot bounds what the noise of all
    answers together exceeds its boxes by in the mean, and slack = (delta(epsilon) + e^epsilon overshoot)/beta (S1 b). In a
    plan for one side, both count the noise in the direction that can break the promise only (S6).
    ``edges`` are further pairs for answers near 0 and 1, each with a share of beta of its own, so that all hold at once:
    the interval of one answer is where those by all pairs meet (V4.2 iii).
    """

    epsilon: float
    slack: float
    noise: float
    gamma: float
    noise_beta: float
    transfer_beta: float
    overshoot: float = 0.0
    edges: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True)
class Design:
    """A half-width with what it rests on: noise, the event of one answer, and whole units of its cost and of the ledger."""

    alpha: float
    sigma: float = 0.0
    event: Event | None = None
    ledger: LedgerKind | None = None
    cost: int = 0
    cap: int = 0
    transfer: Transfer | None = None
    privacy: tuple[float, float] | None = None


class AskingMethod(ABC):
    """One way to answer: how many rows it needs, and the design it gives for a number of rows."""

    name: str
    theorem: str
    private: ClassVar[bool] = True
    adaptive: bool = True
    shares: ClassVar[bool] = True
    """Whether other verbs can spend from the same ledger."""
    needs_delta: ClassVar[bool] = True
    """Whether an epsilon can only be kept with a delta above 0."""
    tunes: ClassVar[bool] = False
    """Whether it can be narrowest at small shares."""
    one_sided: ClassVar[bool] = False
    """Whether it can promise one end of every interval only."""
    fewest: ClassVar[int] = 1
    """The theorem needs at least this many rows."""

    def check(self, task: AskingTask, rows: int) -> None:
        """Raise PreconditionError where the theorem does not cover this number of rows or the privacy asked for."""
        del task, rows  # most theorems speak of every number of rows

    @abstractmethod
    def rows(self, task: AskingTask, alpha: float) -> float:
        """Return about how many rows are needed; infinite where no number is enough. Only a place to start from."""

    @abstractmethod
    def design(self, task: AskingTask, rows: int) -> Design:
        """Return the narrowest design found for this many rows; its numbers are proved, its optimality is not."""


def split_beta(task: AskingTask, point: float) -> tuple[float, float]:
    """Split beta between noise and transfer by a log-odds; the two never sum to more than beta."""
    noise = task.beta / (1 + math.exp(-min(max(point, -30.0), 10.0)))
    return noise, (task.beta - noise) * (1 - 2.0**-50)


def least_sigma(rows: int, cost: Fraction) -> float:
    """Return the smallest float sigma, to a few units in its last place, with 1 / (rows sigma)^2 <= cost."""
    sigma = 1 / (rows * math.sqrt(cost))
    while (rows * Fraction(sigma)) ** 2 * cost < 1:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def too_little_privacy(task: AskingTask) -> InsufficientSamples:
    """Return the error that privacy is too little to be shared, whatever the rows."""
    return InsufficientSamples(f"the privacy allowed is too little for {task.queries:,} queries to share", required=None)


class GaussianMethod(AskingMethod):
    """A method whose half-width is C sigma + gap, where C and the gap depend on free parameters and on the ledger's cap."""

    ledger: ClassVar[LedgerKind] = "gdp"

    @abstractmethod
    def start(self, task: AskingTask, alpha: float) -> list[float]:
        """Return parameters to start from, for a half-width of about alpha."""

    @abstractmethod
    def terms(self, task: AskingTask, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Return C, the gap, the cap's mu and the fewest rows, for some parameters (and rows, infinite if unknown)."""

    @abstractmethod
    def certify_design(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return what the theorem certifies for noise of deviation sigma on a ledger whose mu is capped."""

    def rows(self, task: AskingTask, alpha: float) -> float:
        """Minimise C sqrt(queries) / (mu (alpha - gap)) over the parameters."""
        target = alpha - grid(1 << 40, bits=task.bits)

        def needed(point: Sequence[float]) -> float:
            factor, gap, mu, least = self.terms(task, point, math.inf)
            return max(least, factor * spread_of(task) / (mu * (target - gap))) if gap < target else math.inf

        return needed(descend(needed, self.start(task, max(target, alpha / 2))))

    def design(self, task: AskingTask, rows: int) -> Design:
        """Minimise C sqrt(queries) / (rows mu) + gap, fix whole units of cost, and certify what these give."""

        def width(point: Sequence[float]) -> float:
            factor, gap, mu, least = self.terms(task, point, rows)
            return factor * spread_of(task) / (rows * mu) + gap if rows >= least else math.inf

        factor = gaussian_maximum(task.queries, beta=task.beta / 4)
        closed_form = math.sqrt(math.sqrt(task.queries) * factor * gaussian_maximum(1, beta=task.beta / 2) / rows)
        point = descend(width, self.start(task, min(0.9, closed_form)))
        priced, cap = self.price(task, rows, self.terms(task, point, rows)[2])
        proof = self.certify_design(task, point, rows=rows, sigma=priced.sigma, cap=cap)
        return replace(priced, alpha=proof.alpha, transfer=proof.transfer)

    def price(self, task: AskingTask, rows: int, mu: float) -> tuple[Design, float]:
        """Return a design without a width, in whole units of cost for about this mu, and the mu that it is capped at."""
        cost, total = self._units(task, mu)
        sigma = least_sigma(rows, cost * self._weight * UNIT)
        event = GaussianNoise(1 / (rows * Fraction(sigma)))
        return Design(1.0, sigma, event, self.ledger, cost, total), math.sqrt(total * self._weight * UNIT) * ROUNDING

    def most(self, task: AskingTask) -> float:
        """Return the largest mu that privacy allows, infinite where it sets no limit."""
        limit = self.limit(task)
        return math.inf if limit is None else math.sqrt(limit * self._weight * UNIT)

    def limit(self, task: AskingTask) -> int | None:
        """Return the most units that privacy leaves to the questions' purse, None where it sets no limit."""
        return task.limit(self.ledger)

    def limit_mu(self, task: AskingTask, mu: float) -> float:
        """Return mu within what privacy allows, or all of that where the ledger may spend it."""
        most = self.most(task)
        return most if task.rule == "privacy" else min(mu, most)

    @property
    def _weight(self) -> int:
        """Return mu squared over the ledger's unit: rho is half of mu squared."""
        return 1 if self.ledger == "gdp" else 2

    def _units(self, task: AskingTask, mu: float) -> tuple[int, int]:
        """Return the whole units of one ask and of the ledger's cap: the asks' share is fixed first, so that all fit."""
        asks, limit = 1 - Fraction(task.reserve), self.limit(task)
        cost = max(1, math.ceil(Fraction(mu) ** 2 / self._weight * asks / task.queries / UNIT))
        if limit is None:
            return cost, math.floor(cost * task.queries / asks)
        cost = min(cost, math.floor(limit * asks / task.queries))
        if cost < 1:
            raise too_little_privacy(task)
        return cost, limit if task.rule == "privacy" else min(limit, math.floor(cost * task.queries / asks))


def spread_of(task: AskingTask) -> float:
    """Return sigma rows mu: the asks have all of mu squared but the reserve."""
    return math.sqrt(task.queries / (1 - task.reserve))

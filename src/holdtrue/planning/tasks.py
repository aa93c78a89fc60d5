"""What a method of answering is given, and what it gives back: a task of public numbers, and a design that certifies it."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias

from holdtrue.accounting.closed_forms import gaussian_delta, zero_concentrated_delta
from holdtrue.errors import InsufficientSamples
from holdtrue.events import Event
from holdtrue.exact import UNIT, units_down

__all__ = [
    "UNIT",
    "Design",
    "Ledger",
    "Method",
    "Rule",
    "Task",
    "Transfer",
    "largest_cap",
    "least_sigma",
    "shares",
    "too_little",
]

Ledger: TypeAlias = Literal["gdp", "zcdp", "pure"]
Rule: TypeAlias = Literal["validity", "privacy"]


@dataclass(frozen=True, slots=True)
class Task:
    """So many answers, all right but for beta, on a ledger of which others may spend the reserve (a share of its cap).

    ``rule`` "validity": the ledger is capped at what the answers and the reserve need; "privacy": at all that epsilon and
    delta allow. Both None: no cap by privacy. ``pure`` asks for a ledger in pure epsilon, whatever another would give.
    """

    queries: int
    beta: float
    reserve: float
    bits: int
    rule: Rule
    epsilon: float | None = None
    delta: float | None = None
    pure: bool = False

    def limit(self, ledger: Ledger) -> int | None:
        """Return the most units that privacy allows on a ledger, or None where it sets no limit."""
        return None if self.epsilon is None else largest_cap(ledger, self.epsilon, self.delta or 0.0)

    def asking(self, queries: int) -> "Task":
        """Return the same task for another number of queries."""
        return replace(self, queries=queries)

    def under(self, rule: Rule) -> "Task":
        """Return the same task with the ledger capped by another rule."""
        return replace(self, rule=rule)


@dataclass(frozen=True, slots=True)
class Transfer:
    """What T6 freezes before data: epsilon, slack = delta(epsilon)/transfer_beta, and how beta is split.

    ``noise`` is the half-width of the noise, rounding to the grid included, and ``gamma`` the largest gap to the population.
    """

    epsilon: float
    slack: float
    noise: float
    gamma: float
    noise_beta: float
    transfer_beta: float


@dataclass(frozen=True, slots=True)
class Design:
    """A half-width with what it rests on: noise, the event of one answer, and whole units of its cost and of the ledger."""

    alpha: float
    sigma: float = 0.0
    event: Event | None = None
    ledger: Ledger | None = None
    cost: int = 0
    cap: int = 0
    transfer: Transfer | None = None
    privacy: tuple[float, float] | None = None


class Method(ABC):
    """One way to answer: how many rows it needs, and the design it gives to so many rows."""

    name: ClassVar[str]
    theorem: ClassVar[str]
    private: ClassVar[bool] = True
    adaptive: ClassVar[bool] = True
    shares: ClassVar[bool] = True
    """Whether other verbs can spend from the same ledger."""
    needs_delta: ClassVar[bool] = True
    """Whether an epsilon can only be kept with a delta above 0."""
    fewest: ClassVar[int] = 1
    """Below so many rows the theorem does not speak."""

    def check(self, task: Task, rows: int) -> None:
        """Raise PreconditionError where the theorem does not speak of so many rows or of the privacy asked for."""
        del task, rows  # most theorems speak of every number of rows

    @abstractmethod
    def rows(self, task: Task, alpha: float) -> float:
        """Return about how many rows are needed; infinite where no number is enough. Only a place to start from."""

    @abstractmethod
    def design(self, task: Task, rows: int) -> Design:
        """Return the narrowest design for so many rows; its numbers are certain, its optimality is not."""


@lru_cache(maxsize=64)
def largest_cap(ledger: Ledger, epsilon: float, delta: float) -> int:
    """Return the most units for which everything on a ledger is (epsilon, delta)-DP, rounded down (A7, T2)."""
    if ledger == "pure":
        return units_down(Fraction(epsilon))
    low, high = -60.0, 60.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _curve(ledger, math.exp(middle), epsilon) <= delta else (low, middle)
    value = Fraction(math.exp(low))
    return units_down(value * value if ledger == "gdp" else value)


def _curve(ledger: Ledger, cap: float, epsilon: float) -> float:
    return gaussian_delta(cap, epsilon) if ledger == "gdp" else zero_concentrated_delta(cap, epsilon)


def shares(task: Task, point: float) -> tuple[float, float]:
    """Split beta between noise and transfer by a log-odds; the two never sum to more than beta."""
    noise = task.beta / (1 + math.exp(-min(max(point, -30.0), 10.0)))
    return noise, (task.beta - noise) * (1 - 2.0**-50)


def least_sigma(rows: int, cost: Fraction) -> float:
    """Return the smallest float sigma, to a few units in its last place, with 1 / (rows sigma)^2 <= cost."""
    sigma = 1 / (rows * math.sqrt(cost))
    while (rows * Fraction(sigma)) ** 2 * cost < 1:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def too_little(task: Task) -> InsufficientSamples:
    """Return the error that privacy is too little to be shared, whatever the rows."""
    return InsufficientSamples(f"the privacy allowed is too little for {task.queries:,} queries to share", required=None)

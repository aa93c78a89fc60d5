"""How many rows to learn a finite class privately, how good the pick will be, or at what privacy (C4, B7, N3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from msgspec import Struct

from holdtrue.accounting.closed_forms import bounded_range_mu, bounded_range_rho, smallest_enough
from holdtrue.bounds import learning as bounds
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import Number, count, floor_positive, floor_probability, text_among, truth
from holdtrue.records import text_table

__all__ = ["LearningPlan", "plan_learning"]

LearningMethod: TypeAlias = Literal["best", "lecture4", "lecture4-hoeffding", "lecture16"]
RowsFor: TypeAlias = Callable[..., int]

_METHODS: dict[str, RowsFor] = {
    "best": bounds.learning_rows,
    "lecture4": bounds.lecture4_rows,
    "lecture4-hoeffding": bounds.lecture4_hoeffding_rows,
    "lecture16": bounds.lecture16_rows,
}
_LARGEST_ALPHA = {"lecture4": 0.5, "lecture4-hoeffding": 0.5}
_JUST_BELOW_ONE = 1 - 2.0**-53
# e^(-epsilon / 2) is 0 in floats from here on: no more privacy can be given up.
_LARGEST_EPSILON = 2.0**11


class LearningPlan(Struct, frozen=True, forbid_unknown_fields=True, tag_field="plan", tag="learning"):
    """Rows with which a private pick from ``size`` hypotheses has err <= min err + alpha with probability 1 - beta.

    ``theorem`` says by which bound; ``mu`` and ``rho`` are what the pick costs on a GDP and on a zCDP ledger.
    """

    size: int
    rows: int
    alpha: float
    beta: float
    epsilon: float
    method: str
    realizable: bool
    theorem: str
    mu: float
    rho: float

    @property
    def free(self) -> bool:
        """Return whether the same bound asks for as many rows without privacy: then privacy costs no rows (C5)."""
        task = _Task(self.size, self.beta, self.method, self.realizable)
        return task.rows(self.alpha, None) >= task.rows(self.alpha, self.epsilon)

    @property
    def free_epsilon(self) -> float | None:
        """Return 2 atanh(alpha): from this epsilon on privacy costs nothing in rate, whatever the class (C5, V6.2).

        The pair bound then asks for no more rows than without privacy; a bound with better constants still may. None where
        some hypothesis is assumed to be never wrong: that rate has no such epsilon.
        """
        return None if self.realizable else bounds.free_epsilon(self.alpha)

    def compare(self) -> dict[str, int]:
        """Return the rows that each method asks for at this alpha, beta and epsilon.

        The last line assumes that some hypothesis is never wrong; the lectures' are left out where they do not apply.
        """
        parameters = {"alpha": self.alpha, "beta": self.beta, "epsilon": self.epsilon}
        found = {}
        for name, rows in (_METHODS | {"realizable": bounds.realizable_rows}).items():
            if max(self.alpha, self.beta) <= _LARGEST_ALPHA.get(name, 1):
                found[name] = rows(self.size, **parameters)
        return found

    def __str__(self) -> str:
        return text_table(
            f"{self.rows:,} rows to learn one of {self.size:,} hypotheses",
            {
                "excess error": f"{self.alpha:.4g} at most, except with probability {self.beta:.4g}"
                + (" (if some hypothesis is never wrong)" if self.realizable else ""),
                "privacy": f"epsilon {self.epsilon:.4g} (mu {self.mu:.4g}, rho {self.rho:.4g})"
                + ("; free: no extra rows" if self.free else ""),
                "method": f"{self.method}: {self.theorem}",
            },
        )


def plan_learning(  # noqa: PLR0913 - three of these are solved for each other
    *,
    size: int,
    beta: Number,
    alpha: Number | None = None,
    epsilon: Number | None = None,
    rows: int | None = None,
    method: LearningMethod = "best",
    realizable: bool = False,
) -> LearningPlan:
    """Return the plan for a private pick from a finite class; exactly one of rows, alpha and epsilon is left out.

    The pick is the exponential mechanism on error counts (B6), epsilon-DP; with probability 1 - beta over rows and coins
    err(pick) <= min err + alpha. ``method``: "best" is the smaller of two bounds of ours (N3), "lecture4",
    "lecture4-hoeffding" and "lecture16" are the lectures' sizes, mended. ``realizable=True`` assumes that some hypothesis
    is never wrong, and takes far fewer rows.

    >>> import holdtrue.planning.learning as planning
    >>> planning.plan_learning(size=10_000, alpha=0.05, beta=0.01, epsilon=0.5).rows
    7441
    """
    task = _Task(count("size", size), floor_probability("beta", beta), method, _check_numbers(method, realizable=realizable))
    _one_left_out(rows=rows, alpha=alpha, epsilon=epsilon)
    if rows is None:
        excess, privacy = floor_probability("alpha", alpha), floor_positive("epsilon", epsilon)
        return task.plan(task.rows(excess, privacy), excess, privacy)
    m = count("rows", rows)
    if task.size == 1:
        raise InvalidParameter("size", task.size, "2 or above where rows are given: one hypothesis needs a single row")
    if alpha is None:
        privacy = floor_positive("epsilon", epsilon)
        start = _LARGEST_ALPHA.get(method, _JUST_BELOW_ONE)
        _enough_rows(m, task.rows(start, privacy), f"any alpha up to {start:g}")
        return task.plan(m, smallest_enough(lambda a: task.enough(m, a, privacy), start=start), privacy)
    excess = floor_probability("alpha", alpha)
    _enough_rows(m, task.rows(excess, None), f"alpha = {excess:g}, even without privacy,")
    return task.plan(m, excess, smallest_enough(lambda e: task.enough(m, excess, e), start=_LARGEST_EPSILON))


@dataclass(frozen=True, slots=True)
class _Task:
    """What is not solved for."""

    size: int
    beta: float
    method: str
    realizable: bool

    def rows(self, alpha: float, epsilon: float | None) -> int:
        sized = bounds.realizable_rows if self.realizable else _METHODS[self.method]
        return sized(self.size, alpha=alpha, beta=self.beta, epsilon=epsilon)

    def enough(self, rows: int, alpha: float, epsilon: float) -> bool:
        """Return whether this many rows are enough, without solving for the least number where that takes a search."""
        try:
            if self.method != "best" or self.realizable:
                return self.rows(alpha, epsilon) <= rows
            if bounds.split_excess(self.size, rows=rows, beta=self.beta, epsilon=epsilon) <= alpha:
                return True
            return bounds.pair_rows(self.size, alpha=alpha, beta=self.beta, epsilon=epsilon) <= rows
        except InsufficientSamples:  # more rows than can be counted
            return False

    def plan(self, rows: int, alpha: float, epsilon: float) -> LearningPlan:
        return LearningPlan(
            size=self.size,
            rows=rows,
            alpha=alpha,
            beta=self.beta,
            epsilon=epsilon,
            method=self.method,
            realizable=self.realizable,
            theorem=self.theorem(alpha, epsilon),
            mu=bounded_range_mu(epsilon),
            rho=bounded_range_rho(epsilon),
        )

    def theorem(self, alpha: float, epsilon: float) -> str:
        if self.method != "best":
            return "Lecture 16, Theorem 0.3 (B7)" if self.method == "lecture16" else "Lecture 4, private PAC (C4)"
        if self.realizable:
            return "realizable bound (N3)"
        parameters = {"alpha": alpha, "beta": self.beta, "epsilon": epsilon}
        pair = bounds.pair_rows(self.size, **parameters) <= bounds.split_rows(self.size, **parameters)
        return "pair bound (N3)" if pair else "split bound (N3)"


def _check_numbers(method: str, *, realizable: bool) -> bool:
    text_among("method", method, tuple(_METHODS))
    if truth("realizable", realizable) and method != "best":
        raise InvalidParameter("realizable", realizable, f"left out with method={method!r}, which makes no use of it")
    return realizable


def _one_left_out(**values: Number | None) -> None:
    if sum(value is None for value in values.values()) != 1:
        raise InvalidParameter.saying(next(iter(values)), f"leave out exactly one of {', '.join(values)}; it is computed")


def _enough_rows(rows: int, required: int, what: str) -> None:
    if rows < required:
        message = f"{what} takes {required:,} rows; there are {rows:,}"
        raise InsufficientSamples(message, required=required)

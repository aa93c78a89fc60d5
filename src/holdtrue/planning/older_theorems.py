"""Answers without the transfer theorem, to compare with and to fall back on (N1, N2), and without privacy (T9)."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import ClassVar

from holdtrue.accounting.closed_forms import descend, gaussian_delta, golden, upper_quantile
from holdtrue.bounds.accuracy import gaussian_quantile, grid
from holdtrue.bounds.generalization import (
    FEWEST_ROWS,
    bassily16,
    bassily16_gaussian,
    jung20,
    lecture19_query_epsilon,
    lecture19_terms,
    rrstww20,
)
from holdtrue.errors import InsufficientSamples
from holdtrue.events import DiscreteLaplace
from holdtrue.exact import ROUNDING, UNIT
from holdtrue.planning.methods import AskingMethod, AskingTask, Design, GaussianMethod

_LEAST_DELTA = 1e-300
_LARGEST_EPSILON = 0.125
_GRID = 119
_GAP_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of beta for theorem 1.1 that are tried: the lecture leaves the split open."""


class Jung(GaussianMethod):
    """Jung et al. 2020, on the exact Gaussian curve, with its split and its free parameters at their best (T4)."""

    name = "jung20"
    theorem = "Jung et al. 2020 (T4)"

    def start(self, task: AskingTask, alpha: float) -> list[float]:
        """Start with a third of alpha for e^epsilon - 1, and little for the failures."""
        epsilon = min(0.5, alpha / 3)
        ratio = upper_quantile(task.beta * 1e-3)
        return [math.log(epsilon / ratio), math.log(ratio), math.log(task.beta * alpha * 1e-2)]

    def terms(self, task: AskingTask, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Take ln mu, ln(epsilon/mu) and the logarithm of the noise's failure as parameters."""
        del rows
        mu, noise_beta = self.limit_mu(task, math.exp(point[0])), min(0.5, math.exp(point[2]))
        epsilon = min(mu * math.exp(point[1]), 50.0)
        failures = (math.sqrt(noise_beta) + math.sqrt(2 * gaussian_delta(mu, epsilon))) ** 2
        return gaussian_quantile(task.queries, beta=noise_beta), math.expm1(epsilon) + failures / task.beta, mu, 1.0

    def certify_design(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return the theorem at the ledger's cap."""
        noise_beta, epsilon = min(0.5, math.exp(point[2])), min(cap * math.exp(point[1]), 50.0)
        noise = sigma * gaussian_quantile(task.queries, beta=noise_beta) + grid(rows, bits=task.bits)
        delta = min(gaussian_delta(cap, epsilon), 1 - 2.0**-53)
        return Design(jung20(noise, beta=noise_beta, epsilon=epsilon, delta=delta, total=task.beta))


class Bassily(GaussianMethod):
    """The monitor of Bassily et al. 2016 with Gaussian noise; rows and privacy asked for are held to theorem 1.1 (D1)."""

    name = "bassily16"
    theorem = "Bassily et al. 2016 (D1)"
    fewest = FEWEST_ROWS

    def check(self, task: AskingTask, rows: int) -> None:
        """Hold rows and privacy to theorem 1.1."""
        preconditions(task, rows)

    def start(self, task: AskingTask, alpha: float) -> list[float]:
        """Start with a third of alpha for the gap."""
        ratio = upper_quantile(task.beta * 1e-3)
        return [math.log(min(0.1, alpha / 3) / ratio), math.log(ratio)]

    def terms(self, task: AskingTask, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Take ln mu and ln(epsilon/mu) as parameters."""
        del rows
        mu = self.limit_mu(task, math.exp(point[0]))
        epsilon = min(mu * math.exp(point[1]), 50.0)
        delta = max(gaussian_delta(mu, epsilon), _LEAST_DELTA)
        gap = bassily16_gaussian(task.queries, epsilon=epsilon, delta=delta, sigma=0.0, beta=task.beta)
        noisy = bassily16_gaussian(task.queries, epsilon=epsilon, delta=delta, sigma=1.0, beta=task.beta)
        return noisy - gap, gap, mu, FEWEST_ROWS

    def certify_design(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return the theorem at the ledger's cap."""
        epsilon = min(cap * math.exp(point[1]), 50.0)
        delta = max(gaussian_delta(cap, epsilon), _LEAST_DELTA)
        width = bassily16_gaussian(task.queries, epsilon=epsilon, delta=delta, sigma=sigma, beta=task.beta)
        # Rounding to the grid is an error of the answer on its sample, and is magnified like the noise.
        return Design(width + 2 * grid(rows, bits=task.bits))


class Information(GaussianMethod):
    """Mutual information, bounded by the zCDP cost as published (T8)."""

    name = "rrstww20"
    theorem = "Rogers et al. 2020 (T8)"
    divisor: ClassVar[int] = 2

    def start(self, task: AskingTask, alpha: float) -> list[float]:
        """Start where the information is about a nat."""
        del task, alpha
        return [1.0]

    def rows(self, task: AskingTask, alpha: float) -> float:
        """Both terms fall as 1/sqrt(rows), so the best parameter does not depend on rows."""
        least = self._scale_noise(task, descend(lambda point: self._scale_noise(task, point), self.start(task, alpha)))
        return (least / (alpha - grid(1 << 40, bits=task.bits))) ** 2 if alpha > grid(1 << 40, bits=task.bits) else math.inf

    def _scale_noise(self, task: AskingTask, point: Sequence[float]) -> float:
        factor, gap, mu, _ = self.terms(AskingTask(task.queries, task.beta, task.reserve, task.bits, "validity"), point, 1.0)
        return factor * math.sqrt(task.queries / (1 - task.reserve)) / mu + gap

    def terms(self, task: AskingTask, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Take ln(u - 1) as parameter: 2 I = u - 1 - ln u, so that nothing has to be solved."""
        u = 1 + math.exp(min(point[0], 500.0))
        per_row = self._per_row(task)
        most = self.most(task)
        mu = math.sqrt((u - 1 - math.log(u)) / 2 / (rows * per_row)) if u - 1 > math.ulp(1.0) * 8 else 0.0
        if task.rule == "privacy" or mu > most:
            mu = most
            return self._noise(task), rrstww20_gap(rows * per_row * mu * mu, rows, task), mu, 1.0
        gap = math.sqrt(u / (2 * rows * task.beta))
        return (self._noise(task), gap, mu, 1.0) if mu > 0 else (math.inf, math.inf, 1.0, math.inf)

    def _noise(self, task: AskingTask) -> float:
        return math.sqrt(2 * math.log(4 * task.queries / task.beta))

    def _per_row(self, task: AskingTask) -> float:
        """Return information per row and mu squared of the cap: the asks at 1/divisor, the reserve at one half (T8)."""
        return (1 - task.reserve) / self.divisor + task.reserve / 2

    def certify_design(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return the theorem for the information of the asks and of whatever else the ledger allows."""
        del point
        asks = task.queries / (rows * sigma) ** 2
        information = rows * (asks / self.divisor + max(0.0, cap * cap - asks) / 2) * ROUNDING
        width = rrstww20(rows, information=information, sigma=sigma, queries=task.queries, beta=task.beta)
        return Design((width + grid(rows, bits=task.bits)) * ROUNDING)


def rrstww20_gap(information: float, rows: float, task: AskingTask) -> float:
    """Return the first of the two terms of rrstww20."""
    return rrstww20(max(1, int(rows)), information=information, sigma=0, queries=task.queries, beta=task.beta)


class SharpInformation(Information):
    """Mutual information, with the variance of one row's value: a quarter of the published bound (T8)."""

    name = "rrstww20-sharp"
    theorem = "Rogers et al. 2020, sharper information (T8)"
    divisor = 8


class Lecture(AskingMethod):
    """Lecture 19 as it stands: Laplace noise, strong composition, theorem 1.2 (D2, D5, N2)."""

    name = "lecture19"
    theorem = "lecture 19, theorem 1.2 (D2)"
    fewest = FEWEST_ROWS
    shares = False
    needs_delta = False

    def check(self, task: AskingTask, rows: int) -> None:
        """Hold rows and privacy to theorem 1.1."""
        preconditions(task, rows)

    def rows(self, task: AskingTask, alpha: float) -> float:
        """Minimise over the whole transcript's epsilon, for a few shares of beta."""
        target = alpha - grid(1 << 40, bits=task.bits)

        def needed(epsilon: float, share: float) -> float:
            noise, gap, least = self._terms(task, epsilon, share)
            return max(least, noise / (target - gap)) if gap < target else math.inf

        most = min(_LARGEST_EPSILON if task.epsilon is None else task.epsilon, target / 6)
        if most <= 0:
            return math.inf
        return min(needed(golden(partial(needed, share=share), most * 1e-3, most), share) for share in _GAP_SHARES)

    def design(self, task: AskingTask, rows: int) -> Design:
        """Try a grid over the theorem's region, as a reader of the lecture would: 6 epsilon + noise/rows is to be small."""
        most = _LARGEST_EPSILON if task.epsilon is None else task.epsilon
        low = min(most, math.sqrt(12 / rows) * ROUNDING)

        def width(epsilon: float, share: float) -> float:
            noise, gap, least = self._terms(task, epsilon, share)
            return noise / rows + gap if rows >= least else math.inf

        steps = [low * (most / low) ** (step / _GRID) for step in range(_GRID + 1)]
        alpha, epsilon, share = min((width(at, share), at, share) for share in _GAP_SHARES for at in steps)
        delta = self._delta(task, epsilon, share * task.beta)
        each = lecture19_query_epsilon(epsilon, queries=task.queries, delta=delta)
        event = DiscreteLaplace(each, 1 << task.bits)
        cost = math.ceil(event.epsilon / UNIT)
        sigma = math.sqrt(2) * float(1 / (rows * Fraction(each)))
        return Design(
            (alpha + grid(rows, bits=task.bits)) * ROUNDING,
            sigma,
            event,
            "pure",
            cost,
            cost * task.queries,
            None,
            (epsilon, delta),
        )

    def _delta(self, task: AskingTask, epsilon: float, gap_beta: float) -> float:
        delta = epsilon * min(1 / 16, gap_beta / 4)
        return min(delta, task.delta) if task.delta else delta

    def _terms(self, task: AskingTask, epsilon: float, share: float) -> tuple[float, float, float]:
        part = share * task.beta
        return lecture19_terms(task.queries, epsilon=epsilon, gap_beta=part, noise_beta=task.beta - part, delta=task.delta)


def preconditions(task: AskingTask, rows: int) -> None:
    """Check theorem 1.1's preconditions on the rows and on the privacy that was asked for, and name what fails (D1)."""
    if task.epsilon is not None:
        bassily16(max(rows, FEWEST_ROWS), epsilon=task.epsilon, delta=task.delta or 0.0)
    if rows < FEWEST_ROWS:
        bassily16(rows, epsilon=_LARGEST_EPSILON)


class NonPrivateMethod(AskingMethod):
    """Answers that hold for the population and keep no privacy, by the rows and the half-width of a bound (T9)."""

    private = False
    shares = False

    def __init__(
        self, name: str, theorem: str, *, rows: Callable[..., int], alpha: Callable[..., float], adaptive: bool = True
    ) -> None:
        self.name = name
        self.theorem = theorem
        self.adaptive = adaptive
        self._rows = rows
        self._alpha = alpha

    def rows(self, task: AskingTask, alpha: float) -> float:
        """Return the bound's number of rows."""
        return self._rows(alpha, queries=task.queries, beta=task.beta)

    def design(self, task: AskingTask, rows: int) -> Design:
        """Return the bound's half-width."""
        try:
            return Design(self._alpha(rows, queries=task.queries, beta=task.beta))
        except InsufficientSamples:
            return Design(math.inf)

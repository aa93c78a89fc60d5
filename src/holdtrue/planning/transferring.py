"""Answers certified by the transfer theorem, with Gaussian noise (P1, T5, T6)."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_quantile, grid
from holdtrue.bounds.optimisation import descend
from holdtrue.bounds.transfer import Shift, concentrated_rho, concentrated_shift, gaussian_mu, gaussian_shift
from holdtrue.events import Gaussian
from holdtrue.exact import ROUNDING, UNIT
from holdtrue.planning.tasks import Design, Ledger, Method, Task, Transfer, least_sigma, shares, too_little

__all__ = ["GaussianMethod", "NoiseOnly", "TransferConcentrated", "TransferGaussian"]

_LARGEST_GAMMA = 0.999
_A_QUARTER = -math.log(3)


class GaussianMethod(Method):
    """A method whose half-width is C sigma + gap, where C and the gap depend on free parameters and on the ledger's cap."""

    ledger: ClassVar[Ledger] = "gdp"

    @abstractmethod
    def start(self, task: Task, alpha: float) -> list[float]:
        """Return parameters to start from, for a half-width of about alpha."""

    @abstractmethod
    def terms(self, task: Task, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Return C, the gap, the cap's mu and the fewest rows, for some parameters (and rows, infinite if unknown)."""

    @abstractmethod
    def certified(self, task: Task, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return what the theorem certifies for noise of deviation sigma on a ledger whose mu is capped."""

    def rows(self, task: Task, alpha: float) -> float:
        """Minimise C sqrt(queries) / (mu (alpha - gap)) over the parameters."""
        target = alpha - grid(1 << 40, bits=task.bits)

        def needed(point: Sequence[float]) -> float:
            factor, gap, mu, least = self.terms(task, point, math.inf)
            return max(least, factor * _spread(task) / (mu * (target - gap))) if gap < target else math.inf

        return needed(descend(needed, self.start(task, max(target, alpha / 2))))

    def design(self, task: Task, rows: int) -> Design:
        """Minimise C sqrt(queries) / (rows mu) + gap, fix whole units of cost, and certify what these give."""

        def width(point: Sequence[float]) -> float:
            factor, gap, mu, least = self.terms(task, point, rows)
            return factor * _spread(task) / (rows * mu) + gap if rows >= least else math.inf

        factor = gaussian_maximum(task.queries, beta=task.beta / 4)
        closed_form = math.sqrt(math.sqrt(task.queries) * factor * gaussian_maximum(1, beta=task.beta / 2) / rows)
        point = descend(width, self.start(task, min(0.9, closed_form)))
        cost, total = self._units(task, self.terms(task, point, rows)[2])
        sigma = least_sigma(rows, cost * self._weight * UNIT)
        cap = math.sqrt(total * self._weight * UNIT) * ROUNDING
        proof = self.certified(task, point, rows=rows, sigma=sigma, cap=cap)
        event = Gaussian(1 / (rows * Fraction(sigma)))
        return Design(proof.alpha, sigma, event, self.ledger, cost, total, proof.transfer)

    def most(self, task: Task) -> float:
        """Return the largest mu that privacy allows, infinite where it sets no limit."""
        limit = task.limit(self.ledger)
        return math.inf if limit is None else math.sqrt(limit * self._weight * UNIT)

    def capped(self, task: Task, mu: float) -> float:
        """Return mu within what privacy allows, or all of that where the ledger may spend it."""
        most = self.most(task)
        return most if task.rule == "privacy" else min(mu, most)

    @property
    def _weight(self) -> int:
        """Return mu squared over the ledger's unit: rho is half of mu squared."""
        return 1 if self.ledger == "gdp" else 2

    def _units(self, task: Task, mu: float) -> tuple[int, int]:
        """Return the whole units of one ask and of the ledger's cap: the asks' share is fixed first, so that all fit."""
        asks, limit = 1 - Fraction(task.reserve), task.limit(self.ledger)
        cost = max(1, math.ceil(Fraction(mu) ** 2 / self._weight * asks / task.queries / UNIT))
        if limit is None:
            return cost, math.floor(cost * task.queries / asks)
        cost = min(cost, math.floor(limit * asks / task.queries))
        if cost < 1:
            raise too_little(task)
        return cost, limit if task.rule == "privacy" else min(limit, math.floor(cost * task.queries / asks))


def _spread(task: Task) -> float:
    """Return sigma rows mu: the asks have all of mu squared but the reserve."""
    return math.sqrt(task.queries / (1 - task.reserve))


class TransferGaussian(GaussianMethod):
    """The default: C is the CVaR of the largest noise at one share of beta, the gap gamma of T5 at the other."""

    name = "transfer-gaussian"
    theorem = "transfer theorem (T5, T6), Gaussian differential privacy"

    def shift(self, cap: float, beta: float) -> Shift:
        """Return T5's gap on a ledger whose mu is capped."""
        return gaussian_shift(cap, beta=beta)

    def cap(self, gamma: float, beta: float) -> float:
        """Return the mu at which T5's gap is gamma."""
        return gaussian_mu(gamma, beta=beta)

    def start(self, task: Task, alpha: float) -> list[float]:
        """Start at a quarter of beta for the noise and half of alpha for the gap, within a few per cent of the best."""
        del task
        return [_A_QUARTER, math.log(alpha) - math.log(2)]

    def terms(self, task: Task, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Choose gamma rather than mu: the cap follows from it in closed form."""
        del rows
        noise_beta, transfer_beta = shares(task, point[0])
        factor, most = gaussian_maximum(task.queries, beta=noise_beta), self.most(task)
        gamma = min(math.exp(point[1]), _LARGEST_GAMMA)
        mu = self.cap(gamma, transfer_beta)
        if task.rule == "privacy" or mu > most:
            return factor, self.shift(most, transfer_beta).gamma, most, 1.0
        return factor, gamma, mu, 1.0

    def certified(self, task: Task, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return sigma C + gamma by T5 at the ledger's whole cap."""
        noise_beta, transfer_beta = shares(task, point[0])
        gap = self.shift(cap, transfer_beta)
        noise = (sigma * gaussian_maximum(task.queries, beta=noise_beta) + grid(rows, bits=task.bits)) * ROUNDING
        frozen = Transfer(gap.epsilon, gap.slack, noise, gap.gamma, noise_beta, transfer_beta)
        return Design((noise + gap.gamma) * ROUNDING, transfer=frozen)


class TransferConcentrated(TransferGaussian):
    """The same on a zCDP ledger, whose curve is 10 to 14 % wider, and whose selections and predictions are cheaper."""

    name = "transfer-gaussian-zcdp"
    theorem = "transfer theorem (T5, T6), zero-concentrated differential privacy"
    ledger = "zcdp"

    def shift(self, cap: float, beta: float) -> Shift:
        """Return T5's gap at rho = cap^2 / 2."""
        return concentrated_shift(cap * cap / 2 * ROUNDING, beta=beta)

    def cap(self, gamma: float, beta: float) -> float:
        """Return the mu whose rho has the gap gamma."""
        return math.sqrt(2 * concentrated_rho(gamma, beta=beta))


class NoiseOnly(GaussianMethod):
    """Without independent rows there is no population to speak of: the half-width is for the sample, the cap privacy's."""

    name = "noise-only"
    theorem = ""

    def start(self, task: Task, alpha: float) -> list[float]:
        """Nothing is free."""
        del task, alpha
        return []

    def terms(self, task: Task, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Return the quantile of the largest noise; the gap to the sample is none."""
        del point, rows
        return gaussian_quantile(task.queries, beta=task.beta), 0.0, self.most(task), 1.0

    def certified(self, task: Task, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return sigma times the quantile, and the rounding."""
        del point, cap
        return Design((sigma * gaussian_quantile(task.queries, beta=task.beta) + grid(rows, bits=task.bits)) * ROUNDING)

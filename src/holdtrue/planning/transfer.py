"""Answers certified by the transfer theorem, with Gaussian and with Laplace noise (N1, T5, T6)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from msgspec import structs

from holdtrue.accounting.closed_forms import descend, gaussian_delta, upper_quantile, zero_concentrated_delta
from holdtrue.accounting.event_privacy import rho
from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_overshoot, gaussian_quantile, grid, laplace_maximum
from holdtrue.bounds.transfer import (
    EDGE_SHARE,
    Shift,
    concentrated_rho,
    concentrated_shift,
    eased_gap,
    edge_rates,
    gaussian_mu,
    gaussian_shift,
    interval,
    shift,
)
from holdtrue.events import DiscreteLaplace
from holdtrue.exact import ROUNDING, UNIT, LedgerKind
from holdtrue.planning.methods import (
    AskingMethod,
    AskingTask,
    Design,
    GaussianMethod,
    Pair,
    Transfer,
    split_beta,
    spread_of,
    too_little_privacy,
)

_LARGEST_GAMMA = 0.999
_MOST_EXPONENT = 6.0
_MOST_LOST = 1.1
_HALVINGS = 12
_A_QUARTER = -math.log(3)
_LEAST_GAIN = 0.9


class TransferGaussian(GaussianMethod):
    """C is the CVaR of the largest noise at one share of beta, the gap gamma of T5 at the other."""

    name = "transfer-gaussian"
    theorem = "transfer theorem (T5, T6), Gaussian differential privacy"
    tunes = True
    one_sided = True

    def delta(self, cap: float, epsilon: float) -> float:
        """Return the delta that a ledger whose mu is capped has at epsilon."""
        return gaussian_delta(cap, epsilon)

    def shift(self, cap: float, beta: float) -> Shift:
        """Return T5's gap on a ledger whose mu is capped."""
        return gaussian_shift(cap, beta=beta)

    def cap(self, gamma: float, beta: float) -> float:
        """Return the mu at which T5's gap is gamma."""
        return gaussian_mu(gamma, beta=beta)

    def largest_noise(self, task: AskingTask, beta: float) -> float:
        """Return the CVaR of the largest noise, or of the largest in the one direction that counts (S6)."""
        return gaussian_maximum(task.queries, beta=beta, one_sided=task.one_sided)

    def start(self, task: AskingTask, alpha: float) -> list[float]:
        """Start at a quarter of beta for the noise and half of alpha for the gap, within a few per cent of the best."""
        del task
        return [_A_QUARTER, math.log(alpha) - math.log(2)]

    def terms(self, task: AskingTask, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Choose gamma rather than mu: the cap follows from it in closed form."""
        del rows
        noise_beta, transfer_beta = split_beta(task, point[0])
        return self.terms_at(task, point[1], self.largest_noise(task, noise_beta), transfer_beta)

    def terms_at(self, task: AskingTask, log_gamma: float, factor: float, beta: float) -> tuple[float, float, float, float]:
        """Return the terms for a gap at a failure of beta, or for the gap of all that privacy allows where that is less."""
        gamma, most = min(math.exp(log_gamma), _LARGEST_GAMMA), self.most(task)
        mu = self.cap(gamma, beta)
        if task.rule == "privacy" or mu > most:
            return factor, self.shift(most, beta).gamma, most, 1.0
        return factor, gamma, mu, 1.0

    def certify_design(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return sigma C + gamma by T5 at the ledger's whole cap."""
        noise_beta, transfer_beta = split_beta(task, point[0])
        gap = self.shift(cap, transfer_beta)
        noise = (sigma * self.largest_noise(task, noise_beta) + grid(rows, bits=task.bits)) * ROUNDING
        frozen = Transfer(gap.epsilon, gap.slack, noise, gap.gamma, noise_beta, transfer_beta)
        return Design((noise + gap.gamma) * ROUNDING, transfer=frozen)

    def design(self, task: AskingTask, rows: int) -> Design:
        """Return the design that is narrowest in the middle, or, with ``shares``, at these shares (U6).

        Where further pairs make the interval of an answer that is 0, or of these shares, narrower by a tenth or more, they
        have a twentieth of beta each, and the design is that of the rest (V4.2 iii): where the gap is far above the noise.
        """
        alone = self._design_pair(task, rows)
        edges, share = self._freeze_edges(task, rows, alone), task.shares or 0.0
        if alone.transfer is None or not edges or edges[0].noise >= alone.transfer.gamma:
            return alone
        single = [Pair(alone.transfer.noise, alone.transfer.epsilon, alone.transfer.slack)]
        if _meet_high(share, edges) - share > _LEAST_GAIN * (_meet_high(share, single) - share):
            return alone
        first = self._design_pair(replace(task, beta=task.beta * (1 - len(edges) * EDGE_SHARE)), rows)
        if first.transfer is None:
            return alone
        return replace(first, transfer=structs.replace(first.transfer, edges=self._freeze_edges(task, rows, first)))

    def _design_pair(self, task: AskingTask, rows: int) -> Design:
        """Return the design with one pair of epsilon and slack, which has all of beta."""
        balanced = super().design(task, rows)
        return balanced if task.shares is None else self._tune(task, rows, balanced)

    def _freeze_edges(self, task: AskingTask, rows: int, design: Design) -> tuple[Pair, ...]:
        """Return the pairs for answers near 0 and 1, at the cap and the noise of a design; none where it has no width."""
        if design.transfer is None or design.alpha >= 1:
            return ()
        cap, own = math.sqrt(design.cap * self._weight * UNIT) * ROUNDING, replace(task, beta=task.beta * EDGE_SHARE)
        rest = self.place_edge(own, design.transfer)
        points = [[math.log(rate * self.find_whole_mu(cap)), *rest] for rate in edge_rates(own.beta)]
        frozen = [self.freeze(own, point, rows=rows, sigma=design.sigma, cap=cap) for point in points]
        return tuple(Pair(each.noise, each.epsilon, each.slack) for each in frozen)

    def find_whole_mu(self, cap: float) -> float:
        """Return about the mu of everything that a ledger may pay for."""
        return cap

    def place_edge(self, task: AskingTask, frozen: Transfer) -> list[float]:
        """Return the coordinates of :meth:`freeze` but epsilon's for a further pair: beta is split as in the first."""
        del task
        return self.thaw(frozen, 1.0)[1:]

    def freeze(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Transfer:
        """Return what T6 freezes at any epsilon, point[0] its logarithm, and any split of beta, point[1] its log-odds."""
        epsilon, (noise_beta, transfer_beta) = _bounded_exp(point[0]), split_beta(task, point[1])
        slack = self.delta(cap, epsilon) / transfer_beta * ROUNDING
        noise = (sigma * self.largest_noise(task, noise_beta) + grid(rows, bits=task.bits)) * ROUNDING
        return Transfer(epsilon, slack, noise, eased_gap(epsilon, slack), noise_beta, transfer_beta)

    def thaw(self, frozen: Transfer, sigma: float) -> list[float]:
        """Return the point that :meth:`freeze` was at, up to rounding."""
        del sigma
        return [math.log(frozen.epsilon), math.log(frozen.noise_beta / frozen.transfer_beta)]

    def _tune(self, task: AskingTask, rows: int, balanced: Design) -> Design:
        """Return the design that is narrowest at task.shares, and no more than a tenth wider anywhere where it is strict.

        Of all weights between the width there and the largest one, the smallest that keeps within the limit: the noise, the
        epsilon and the box or the split of beta are free, and all are frozen before data.
        """
        frozen, share = balanced.transfer, task.shares
        if frozen is None or share is None or balanced.alpha >= 1 or frozen.epsilon <= 0:
            return balanced
        start = [math.log(math.sqrt(balanced.cap * self._weight * UNIT)), *self.thaw(frozen, balanced.sigma)]

        def freeze(at: Sequence[float]) -> Transfer:
            mu = self.limit_mu(task, _bounded_exp(at[0]))
            return self.freeze(task, at[1:], rows=rows, sigma=spread_of(task) / (rows * mu), cap=mu)

        def best(weight: float, near: Sequence[float]) -> list[float]:
            def width(at: Sequence[float]) -> float:
                found = freeze(at)
                return (1 - weight) * half_width(share, found) + weight * (found.noise + found.gamma)

            return descend(width, near, step=0.1, least=1e-4)

        def fits(at: Sequence[float]) -> bool:
            found = freeze(at)
            return found.noise + found.gamma <= _MOST_LOST * balanced.alpha

        point = best(0.0, start)
        if task.strict and not fits(point):
            low, high, point = 0.0, 1.0, start
            for _ in range(_HALVINGS):
                weight = (low + high) / 2
                trial = best(weight, point)
                if fits(trial):
                    high, point = weight, trial
                else:
                    low = weight
        priced, cap = self.price(task, rows, self.limit_mu(task, _bounded_exp(point[0])))
        found = self.freeze(task, point[1:], rows=rows, sigma=priced.sigma, cap=cap)
        return replace(priced, alpha=(found.noise + found.gamma) * ROUNDING, transfer=found)


class TransferConcentrated(TransferGaussian):
    """The same on a zCDP ledger, whose curve is 10 to 14 % wider, and whose selections and predictions are cheaper."""

    name = "transfer-gaussian-zcdp"
    theorem = "transfer theorem (T5, T6), zero-concentrated differential privacy"
    ledger = "zcdp"

    def delta(self, cap: float, epsilon: float) -> float:
        """Return the delta at epsilon where rho is cap^2 / 2."""
        return zero_concentrated_delta(cap * cap / 2 * ROUNDING, epsilon)

    def shift(self, cap: float, beta: float) -> Shift:
        """Return T5's gap at rho = cap^2 / 2."""
        return concentrated_shift(cap * cap / 2 * ROUNDING, beta=beta)

    def cap(self, gamma: float, beta: float) -> float:
        """Return the mu whose rho has the gap gamma."""
        return math.sqrt(2 * concentrated_rho(gamma, beta=beta))


class JointGaussian(TransferGaussian):
    """The default: one beta for noise and gap, so that no share of it is kept for either (S1, form b).

    Every answer has the box s t, and what the noise exceeds its boxes by adds up to k s E(|Z| - t)_+ in the mean over all k
    answers: the overshoot. With probability 1 - beta all intervals with noise s t and slack
    (delta(epsilon) + e^epsilon overshoot)/beta cover at once, those by T6 and those by T6b for queries by position: in the
    first statement to fail, if its probability is P, P slack is at most delta(epsilon) plus the overshoot times what the
    test multiplies the noise by, which is at most e^epsilon in T6 and 1 in T6b. In a plan for one side every statement has
    its direction before its draw, so E(Z - t)_+, half of E(|Z| - t)_+, is what a draw exceeds its box by (S6).
    """

    name = "joint-gaussian"
    theorem = "transfer theorem, one beta for noise and gap (S1, T6), Gaussian differential privacy"

    def start(self, task: AskingTask, alpha: float) -> list[float]:
        """Start at half of alpha for the gap."""
        del task
        return [math.log(alpha) - math.log(2)]

    def terms(self, task: AskingTask, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Choose gamma rather than mu, as if the box did not depend on epsilon; :meth:`certify_design` has the rest."""
        del rows
        return self.terms_at(task, point[0], _joint_factor(task.queries, task.beta, one_sided=task.one_sided), task.beta)

    def certify_design(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return s t + gamma by T6's form with the slack of S1, at the best box t and the best epsilon."""
        del point

        def freeze(at: Sequence[float]) -> Transfer:
            return self.freeze(task, at, rows=rows, sigma=sigma, cap=cap)

        def width(at: Sequence[float]) -> float:
            found = freeze(at)
            return found.noise + found.gamma

        near = self.shift(cap, task.beta).epsilon or cap
        start = [math.log(near), math.log(gaussian_quantile(task.queries, beta=task.beta))]
        frozen = freeze(descend(width, start, step=0.05))
        return Design((frozen.noise + frozen.gamma) * ROUNDING, transfer=frozen)

    def freeze(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Transfer:
        """Return what S1 freezes at any epsilon and any box, of which point has the logarithms."""
        epsilon, box = _bounded_exp(point[0]), _bounded_exp(point[1])
        overshoot = sigma * task.queries * gaussian_overshoot(box, one_sided=task.one_sided) * ROUNDING
        slack = (self.delta(cap, epsilon) + math.exp(epsilon) * overshoot) / task.beta * ROUNDING
        noise = (sigma * box + grid(rows, bits=task.bits)) * ROUNDING
        return Transfer(epsilon, slack, noise, eased_gap(epsilon, slack), task.beta, task.beta, overshoot)

    def thaw(self, frozen: Transfer, sigma: float) -> list[float]:
        """Return the point that :meth:`freeze` was at, up to rounding."""
        return [math.log(frozen.epsilon), math.log(frozen.noise / sigma)]

    def place_edge(self, task: AskingTask, frozen: Transfer) -> list[float]:
        """Return the logarithm of the box at which a pair with this share of beta is about narrowest at 0."""
        del frozen
        return [math.log(_joint_box(task.queries, task.beta, one_sided=task.one_sided))]


class JointConcentrated(JointGaussian, TransferConcentrated):
    """The same on a zCDP ledger."""

    name = "joint-gaussian-zcdp"
    theorem = "transfer theorem, one beta for noise and gap (S1, T6), zero-concentrated differential privacy"


@lru_cache(1024)
def _joint_factor(queries: int, beta: float, *, one_sided: bool) -> float:
    """Return the least over t of t + queries E(|Z| - t)_+ / beta: what a deviation of noise costs in half-width (S1)."""
    box = _joint_box(queries, beta, one_sided=one_sided)
    return box + queries * gaussian_overshoot(box, one_sided=one_sided) / beta


def _joint_box(queries: int, beta: float, *, one_sided: bool) -> float:
    # Where the derivative of that is 0, 1 - queries Pr[|Z| > t]/beta, or the same with Z; a box is at least 0.
    return upper_quantile(min(0.5, beta / queries)) if one_sided else gaussian_quantile(1, beta=beta / queries)


def _meet_high(share: float, pairs: Sequence[Pair]) -> float:
    """Return the upper end for an answer that is this share, by T6 at several pairs."""
    return min(interval(share, noise=each.noise, epsilon=each.epsilon, slack=each.slack)[1] for each in pairs)


def half_width(share: float, frozen: Transfer) -> float:
    """Return how far the farther end of T6's interval is from an answer that is this share."""
    low, high = interval(share, noise=frozen.noise, epsilon=frozen.epsilon, slack=frozen.slack)
    return max(share - low, high - share) * ROUNDING


def _bounded_exp(log: float) -> float:
    return math.exp(min(log, _MOST_EXPONENT))


class NoiseOnly(GaussianMethod):
    """Without independent rows there is no population to speak of: the half-width is for the sample, the cap privacy's."""

    name = "noise-only"
    theorem = ""

    def start(self, task: AskingTask, alpha: float) -> list[float]:
        """Nothing is free."""
        del task, alpha
        return []

    def terms(self, task: AskingTask, point: Sequence[float], rows: float) -> tuple[float, float, float, float]:
        """Return the quantile of the largest noise; the gap to the sample is none."""
        del point, rows
        return gaussian_quantile(task.queries, beta=task.beta), 0.0, self.most(task), 1.0

    def certify_design(self, task: AskingTask, point: Sequence[float], *, rows: int, sigma: float, cap: float) -> Design:
        """Return sigma times the quantile, and the rounding."""
        del point, cap
        return Design((sigma * gaussian_quantile(task.queries, beta=task.beta) + grid(rows, bits=task.bits)) * ROUNDING)


class TransferLaplace(AskingMethod):
    """Discrete Laplace noise, on a pure ledger (gap tanh(epsilon/4), certain) or on a zCDP one.

    The narrower of the two, unless a pure one is asked for.
    """

    name = "transfer-laplace"
    theorem = "transfer theorem (T5, T6), Laplace noise"
    needs_delta = False

    def rows(self, task: AskingTask, alpha: float) -> float:
        """Minimise C / (e (alpha - gap)) over the privacy e of one answer."""
        target = alpha - grid(1 << 40, bits=task.bits)

        def needed(point: Sequence[float], ledger: LedgerKind) -> float:
            factor, gap, each = self._terms(task, point, ledger)
            return factor / (each * (target - gap)) if gap < target else math.inf

        start = [_A_QUARTER, math.log(max(target, alpha / 2) / 2)]
        return min(
            needed(descend(lambda at, kind=ledger: needed(at, kind), start), ledger)  # type: ignore[misc]
            for ledger in _ledgers(task)
        )

    def design(self, task: AskingTask, rows: int) -> Design:
        """Return the narrower of the designs for the two ledgers."""
        return min((self._design(task, rows, ledger) for ledger in _ledgers(task)), key=lambda design: design.alpha)

    def _design(self, task: AskingTask, rows: int, ledger: LedgerKind) -> Design:
        def width(point: Sequence[float]) -> float:
            factor, gap, each = self._terms(task, point, ledger)
            return factor / (each * rows) + gap

        point = descend(width, [_A_QUARTER, math.log(min(0.9, math.sqrt(task.queries**0.6 * 10 / rows)) / 2)])
        event, cost = self._event(task, self._terms(task, point, ledger)[2], ledger)
        total = math.floor(cost * task.queries / (1 - Fraction(task.reserve)))
        limit = task.limit(ledger)
        if limit is not None:
            total = limit if task.rule == "privacy" else min(total, limit)
        scale = float(1 / (rows * event.epsilon)) * ROUNDING
        noise_beta, gap = self._gap(task, point, total, ledger)
        noise = (scale * laplace_maximum(task.queries, beta=noise_beta) + grid(rows, bits=task.bits)) * ROUNDING
        frozen = Transfer(gap.epsilon, gap.slack, noise, gap.gamma, noise_beta, task.beta - noise_beta)
        return Design((noise + gap.gamma) * ROUNDING, math.sqrt(2) * scale, event, ledger, cost, total, frozen)

    def _terms(self, task: AskingTask, point: Sequence[float], ledger: LedgerKind) -> tuple[float, float, float]:
        """Return C, the gap and the privacy of one answer (of the continuous law, to start from)."""
        gamma, limit = min(math.exp(point[1]), _LARGEST_GAMMA), task.limit(ledger)
        noise_beta, transfer_beta = (task.beta, 1.0) if ledger == "pure" else split_beta(task, point[0])
        cap = 4 * math.atanh(gamma) if ledger == "pure" else concentrated_rho(gamma, beta=transfer_beta)
        if limit is not None and (task.rule == "privacy" or cap > limit * UNIT):
            cap = float(limit * UNIT)
            gamma = shift(cap) if ledger == "pure" else concentrated_shift(cap, beta=transfer_beta).gamma
        share = cap * (1 - task.reserve) / task.queries
        return laplace_maximum(task.queries, beta=noise_beta), gamma, share if ledger == "pure" else _epsilon_of(share)

    def _gap(self, task: AskingTask, point: Sequence[float], total: int, ledger: LedgerKind) -> tuple[float, Shift]:
        """Return the share of beta for the noise, and T5's gap at the whole cap."""
        cap = float(total * UNIT) * ROUNDING
        if ledger == "pure":
            return task.beta, Shift(shift(cap), cap, 0.0)
        noise_beta, transfer_beta = split_beta(task, point[0])
        return noise_beta, concentrated_shift(cap, beta=transfer_beta)

    def _event(self, task: AskingTask, epsilon: float, ledger: LedgerKind) -> tuple[DiscreteLaplace, int]:
        """Return one answer's event with its whole units, which all answers together can be charged."""
        limit = task.limit(ledger)
        most = None if limit is None else math.floor(limit * (1 - Fraction(task.reserve)) / task.queries)
        while True:
            event = DiscreteLaplace(epsilon, 1 << task.bits)
            value = event.epsilon if ledger == "pure" else Fraction(rho(event) or 0.0)
            cost = math.ceil(value / UNIT)
            if most is None or cost <= most:
                return event, cost
            if most < 1:
                raise too_little_privacy(task)
            epsilon *= (most / cost) * (1 - 2.0**-30)


PRIVATE_METHODS: tuple[AskingMethod, ...] = (
    *(JointGaussian(), JointConcentrated(), TransferGaussian(), TransferConcentrated()),
    TransferLaplace(),
)


def _ledgers(task: AskingTask) -> tuple[LedgerKind, ...]:
    return ("pure",) if task.pure or (task.epsilon is not None and not task.delta) else ("pure", "zcdp")


def _epsilon_of(cost: float) -> float:
    """Return e with e + exp(-e) - 1 = cost, by Newton from above."""
    e = math.sqrt(2 * cost) + cost
    for _ in range(50):
        step = (e + math.expm1(-e) - cost) / -math.expm1(-e)
        e -= step
        if abs(step) <= 2.0**-40 * e:
            break
    return e

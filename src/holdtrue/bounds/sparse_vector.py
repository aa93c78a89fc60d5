"""What runs of above threshold promise: the reusable holdout, and the private gate and ladder (T10).

A run compares one sum after another with a noisy threshold; the first above it is released with noise, and the next run
begins. Where every case has a query of its own, as in scores, the shift from these cases to the truth is that of T6b, not
T5.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdtrue.accounting.closed_forms import pure_mu, pure_rho
from holdtrue.bounds.optimisation import descend
from holdtrue.bounds.transfer import concentrated_shift, gaussian_shift, position_alpha, shift
from holdtrue.exact import ROUNDING, Number, count, positive, probability, round_down, round_up


@dataclass(frozen=True, slots=True)
class SparseVectorBound:
    """The half-width past the threshold, the noise, and the cost if all runs are used."""

    alpha: float
    scale: float
    epsilon: float
    rho: float
    mu: float


def thresholdout(  # noqa: PLR0913 - every one is a number of the theorem
    rows: int, *, queries: int, overfits: int, scale: Number, noise_beta: Number, beta: Number, by_position: bool = False
) -> SparseVectorBound:
    """Return what answers of a reusable holdout are worth beyond its threshold, silent ones and released ones (T10).

    Queries are answered from training rows unless these differ from the holdout by more than a noisy threshold (noise of
    scales 2 s and 4 s); then, at most ``overfits`` times, by the holdout's mean with noise of scale s. With probability
    1 - noise_beta - beta all of at most ``queries`` answers are within threshold + alpha of the population,
    alpha = s [4 (ln((k + B)/p) + 1) + 2 (ln((B + 1)/p) + 1)] + gamma, B the overfits and p = noise_beta. Each run and each
    release is e-DP with e = 1/(s rows), so the whole costs epsilon = 2 B e, rho = 2 B e tanh(e/2) and
    mu^2 = 2 B (2 Phi^-1(sigmoid(e)))^2; gamma is by the best of the three, to be fixed with the ledger, and by T6b where
    queries are ``by_position``. Needs: training rows independent of the holdout; only the holdout is protected. Source:
    Dwork et al. 2015, constants derived anew. Worth it only for many more queries than overfits.
    """
    asked, most = count("queries", queries), count("overfits", overfits)
    share = round_down(probability("noise_beta", noise_beta))
    noise = 4 * (math.log((asked + most) / share) + 1) + 2 * (math.log((most + 1) / share) + 1)
    return _bound(rows, runs=most, scale=scale, noise=noise, beta=beta, by_position=by_position)


def private_ladder(cases: int, *, moves: int, scale: Number, noise_beta: Number, beta: Number) -> SparseVectorBound:
    """Return how far a private ladder's score may be from the leader's true one (T10, T6b).

    Only released scores are told, at most B of them with noise of scale s, so alpha = s (ln(B/p) + 1) + gamma. With
    probability 1 - noise_beta - beta it holds for every leader at once. The cost is that of B runs with their releases.
    """
    noise = math.log(count("moves", moves) / round_down(probability("noise_beta", noise_beta))) + 1
    return _bound(cases, runs=moves, scale=scale, noise=noise, beta=beta, by_position=True)


def ladder_step(submissions: int, *, scale: float) -> float:
    """Return by how much a submission must beat a private ladder's score: 4 s ln k.

    Noise of scale 4 s takes one in 2 k past it that is no better. It is a matter of use: any step is valid.
    """
    return 4 * scale * math.log(max(2, submissions))


def thresholdout_alpha(
    rows: int, *, queries: int, overfits: int, beta: Number, by_position: bool = False
) -> SparseVectorBound:
    """Return the noise that makes the half-width of :func:`thresholdout` smallest, with how beta is split."""

    def bound(scale: float, share: float, rest: float) -> SparseVectorBound:
        return thresholdout(
            rows, queries=queries, overfits=overfits, scale=scale, noise_beta=share, beta=rest, by_position=by_position
        )

    return _narrowest(bound, lambda found: found.alpha, rows, overfits, beta)


def private_ladder_alpha(cases: int, *, submissions: int, moves: int, beta: Number) -> SparseVectorBound:
    """Return the noise that makes a private ladder's half-width and step together smallest."""

    def bound(scale: float, share: float, rest: float) -> SparseVectorBound:
        return private_ladder(cases, moves=moves, scale=scale, noise_beta=share, beta=rest)

    return _narrowest(bound, lambda found: found.alpha + ladder_step(submissions, scale=found.scale), cases, moves, beta)


def _bound(  # noqa: PLR0913 - what is released, and its noise
    rows: int, *, runs: int, scale: Number, noise: float, beta: Number, by_position: bool
) -> SparseVectorBound:
    """Return the noise's half-width plus gamma: certain for pure epsilon, else at the better of mu and rho of all runs."""
    spread = round_up(positive("scale", scale))
    each = 1 / (spread * count("rows", rows)) * ROUNDING
    epsilon, rho, mu = 2 * runs * each, 2 * runs * pure_rho(each), math.sqrt(2 * runs) * pure_mu(each) * ROUNDING
    forms = (gaussian_shift(mu, beta=beta), concentrated_shift(rho, beta=beta))
    gaps = (position_alpha(noise=0.0, epsilon=at.epsilon, slack=at.slack) if by_position else at.gamma for at in forms)
    return SparseVectorBound((spread * noise + min(shift(epsilon), *gaps)) * ROUNDING, spread, epsilon, rho, mu)


def _narrowest(
    bound: Callable[[float, float, float], SparseVectorBound],
    width: Callable[[SparseVectorBound], float],
    rows: int,
    runs: int,
    beta: Number,
) -> SparseVectorBound:
    """Search for the scale and the share of beta for the noise at which a bound is narrowest."""
    failure = round_down(probability("beta", beta))
    start = math.log(math.sqrt(count("runs", runs)) / count("rows", rows)) / 2

    def at(point: Sequence[float]) -> SparseVectorBound:
        share = failure / (1 + math.exp(-point[1]))
        return bound(math.exp(point[0]), share, failure - share)

    return at(descend(lambda point: width(at(point)), (start - 2, -1.0), least=1e-4))

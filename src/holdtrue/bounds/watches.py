"""What runs of above threshold over the cases of a holdout promise: the private gate, ladder and reusable holdout (T10).

A run compares one sum after another with a noisy threshold; the first above it is released with noise, and the next run
begins. Every case has a query of its own, so the shift from these cases to the truth is that of T6b, not T5.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from holdtrue.bounds.accuracy import SAFE
from holdtrue.bounds.baselines import Thresholdout, thresholdout
from holdtrue.bounds.searching import descend
from holdtrue.bounds.transfer import Shift, concentrated_shift, gaussian_shift, position_alpha, shift
from holdtrue.exact import Number, count, probability, round_down

__all__ = ["ladder_step", "private_ladder", "private_ladder_alpha", "watched", "watched_alpha"]


def watched(  # noqa: PLR0913 - every one is a number of the theorem
    cases: int, *, looks: int, runs: int, scale: Number, noise_beta: Number, beta: Number
) -> Thresholdout:
    """Return what all answers are worth beyond the threshold, silent ones and released ones (T10, T6b).

    As :func:`holdtrue.bounds.baselines.thresholdout`, with the shift of queries by position:
    alpha = s [4 (ln((k + B)/p) + 1) + 2 (ln((B + 1)/p) + 1)] + gamma. With probability 1 - noise_beta - beta all hold.
    """
    found = thresholdout(cases, queries=looks, overfits=runs, scale=scale, noise_beta=noise_beta, beta=beta)
    share = round_down(probability("noise_beta", noise_beta))
    noise = 4 * (math.log((looks + runs) / share) + 1) + 2 * (math.log((runs + 1) / share) + 1)
    return replace(found, alpha=(found.scale * noise + _shifted(found, beta)) * SAFE)


def private_ladder(  # noqa: PLR0913 - likewise
    cases: int, *, submissions: int, moves: int, scale: Number, noise_beta: Number, beta: Number
) -> Thresholdout:
    """Return how far a private ladder's score may be from the leader's true one (T10, T6b).

    Only released scores are told, at most B of them with noise of scale s, so alpha = s (ln(B/p) + 1) + gamma. With
    probability 1 - noise_beta - beta it holds for every leader at once. The cost is that of B runs with their releases.
    """
    found = thresholdout(cases, queries=submissions, overfits=moves, scale=scale, noise_beta=noise_beta, beta=beta)
    noise = math.log(moves / round_down(probability("noise_beta", noise_beta))) + 1
    return replace(found, alpha=(found.scale * noise + _shifted(found, beta)) * SAFE)


def ladder_step(submissions: int, *, scale: float) -> float:
    """Return by how much a submission must beat a private ladder's score: 4 s ln k.

    Noise of scale 4 s takes one in 2 k past it that is no better. It is a matter of use: any step is valid.
    """
    return 4 * scale * math.log(max(2, submissions))


def watched_alpha(cases: int, *, looks: int, runs: int, beta: Number) -> Thresholdout:
    """Return the noise that makes the half-width of :func:`watched` smallest, with how beta is split."""

    def at(scale: float, share: float, rest: float) -> Thresholdout:
        return watched(cases, looks=looks, runs=runs, scale=scale, noise_beta=share, beta=rest)

    return _narrowest(at, lambda found: found.alpha, cases, runs, beta)


def private_ladder_alpha(cases: int, *, submissions: int, moves: int, beta: Number) -> Thresholdout:
    """Return the noise that makes a private ladder's half-width and step together smallest."""

    def at(scale: float, share: float, rest: float) -> Thresholdout:
        return private_ladder(cases, submissions=submissions, moves=moves, scale=scale, noise_beta=share, beta=rest)

    return _narrowest(at, lambda found: found.alpha + ladder_step(submissions, scale=found.scale), cases, moves, beta)


def _shifted(found: Thresholdout, beta: Number) -> float:
    """Return gamma for queries by position: certain for pure epsilon, else slack + tanh(epsilon/4), the best of three."""
    forms: tuple[Shift, ...] = (gaussian_shift(found.mu, beta=beta), concentrated_shift(found.rho, beta=beta))
    widths = (position_alpha(noise=0.0, epsilon=form.epsilon, slack=form.slack) for form in forms)
    return min(shift(found.epsilon), *widths)


def _narrowest(
    at: Callable[[float, float, float], Thresholdout],
    width: Callable[[Thresholdout], float],
    cases: int,
    runs: int,
    beta: Number,
) -> Thresholdout:
    failure = round_down(probability("beta", beta))
    start = math.log(math.sqrt(count("runs", runs)) / count("cases", cases)) / 2

    def found(point: "list[float] | tuple[float, ...]") -> Thresholdout:
        share = failure / (1 + math.exp(-point[1]))
        return at(math.exp(point[0]), share, failure - share)

    return found(descend(lambda point: width(found(list(point))), (start - 2, -1.0), least=1e-4))

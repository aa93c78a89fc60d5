"""What runs of above threshold promise: watches, the reusable holdout, the private gate and ladder (T10, S3, S4, V2.1).

A run compares one sum after another with a noisy threshold; the first above it is released with noise, and the next run
begins. Where every case has a query of its own, as in scores, the shift from these cases to the truth is that of T6b, not
T5.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

from holdtrue.accounting.closed_forms import golden, pure_mu, pure_rho
from holdtrue.bounds.transfer import Shift, concentrated_shift, gaussian_shift, position_alpha
from holdtrue.exact import ROUNDING, Number, count, positive, probability, round_down, round_up

_MOST_EXACT = 256
_RELEASED_SHARE, _OVERSHOOT, _ONE_SIDED_OVERSHOOT = 0.1, 4.1, 2.1


@dataclass(frozen=True, slots=True)
class SparseVectorBound:
    """The half-width past the threshold, the noise, and the cost if all runs are used.

    ``alpha`` is for silent answers, ``alpha_released`` for released scores, which have less noise; both hold at once.
    """

    alpha: float
    alpha_released: float
    scale: float
    epsilon: float
    rho: float
    mu: float


def highest_threshold(runs: int) -> float:
    """Return M_B: at least E max_b exp(X_b / 2) over B = runs Laplace draws X_b of scale 1 (S3).

    1 - 2^-B / (2 B + 1) + sum_j C(B, j) (-1)^(j + 1) 2^-j / (2 j - 1), in rationals since its terms cancel; beyond 256 runs
    sqrt(2 B), which the integral of min(1, B / (2 y^2)) gives, about an eighth more. It is the largest over all runs and
    not the mean of one: whoever ends runs with a low threshold early keeps a high one.

    >>> round(highest_threshold(10), 4)
    4.0132
    """
    number = count("runs", runs)
    return math.sqrt(2 * number) * ROUNDING if number > _MOST_EXACT else _highest_threshold(number)


@lru_cache(maxsize=_MOST_EXACT)
def _highest_threshold(runs: int) -> float:
    terms = (Fraction((-1) ** (j + 1) * math.comb(runs, j), 2**j * (2 * j - 1)) for j in range(1, runs + 1))
    return round_up(1 - Fraction(1, 2**runs * (2 * runs + 1)) + sum(terms))


def above_threshold(  # noqa: PLR0913 - the numbers of T10
    rows: int, *, looks: int, runs: int, scale: Number, beta: Number, one_sided: bool = False
) -> SparseVectorBound:
    """Return what silent answers of above threshold are worth beyond its threshold, and what released scores are (S3, S4).

    At most ``runs`` = B thresholds have noise of scale 2 s, at most ``looks`` = k comparisons noise of scale 4 s, at most B
    releases noise of scale s. Silent answers have the box 4 s ln(k M_B / (2 beta)), releases s ln(10 B / beta); in the mean
    all of them together exceed their boxes by at most 4.1 s beta. So with probability 1 - beta, all of it at once, a silent
    answer is within threshold + box + 4.1 s + gap and a released score within box + 4.1 s + gap of the truth,
    gap = tanh(epsilon/4) + delta(epsilon)/beta by T6b at the best of pure epsilon, mu and rho. Each run and each release is
    e-DP with e = 1/(s rows), so the whole costs epsilon = 2 B e, rho = 2 B e tanh(e/2) and
    mu^2 = 2 B (2 Phi^-1(sigmoid(e)))^2 (T10, after Dwork et al. 2015). Needs: every threshold ever drawn counted as a run.

    ``one_sided``: both noises are exponential, of the same scales and never below 0, at the same cost (V2.1). Then silence
    depends on the largest of B thresholds alone: its box is 2 s ln(B / beta) for any number of looks, and what all boxes are
    exceeded by in the mean is 2.1 s beta.
    """
    number, most, spread = count("looks", looks), count("runs", runs), round_up(positive("scale", scale))
    failure = round_down(probability("beta", beta))
    silent = max(0.0, 4 * (math.log(number * highest_threshold(most) / 2) - math.log(failure)))
    silent = 2 * (math.log(most) - math.log(failure)) if one_sided else silent
    released = math.log(most / _RELEASED_SHARE) - math.log(failure)
    over = _ONE_SIDED_OVERSHOOT if one_sided else _OVERSHOOT
    return _bound(rows, runs=most, scale=spread, boxes=(silent + over, released + over), beta=failure)


def one_sided_boxes(
    runs: int, *, look: int, epsilon: Number, beta: Number, booked: Number | None = None
) -> tuple[float, float]:
    """Return by how many rows a silent look may be above the threshold, and an alarm below it (V2.1, S3).

    Thresholds have exponential noise of scale b1 = 2/epsilon, comparisons of b2 = 4/epsilon, never below 0, so that silence
    depends on the largest of ``runs`` = B thresholds alone: b1 ln(2 B / beta), for any number of looks; an alarm at the
    ``look``-th depends on its own noise, b2 ln(2 c look^2 / beta), c = pi^2/6. Both hold at once, with probability 1 - beta,
    about these rows. With ``booked``, an epsilon fixed before data, they are boxes for the population: the noise exceeds
    them in the mean by beta times 3/booked in all, which is added (S1); runs and epsilon may then come from the past.
    """
    most, place, privacy = count("runs", runs), count("look", look), round_down(positive("epsilon", epsilon))
    failure = round_down(probability("beta", beta))
    ratio = 1.0 if booked is None else round_up(positive("booked", booked)) / privacy
    added = 0.0 if booked is None else 3 / round_down(positive("booked", booked))
    silent = 2 / privacy * max(0.0, math.log(2 * most * ratio) - math.log(failure))
    alarm = 4 / privacy * max(0.0, math.log(math.pi**2 / 3 * place**2 * ratio) - math.log(failure))
    return (silent + added) * ROUNDING, (alarm + added) * ROUNDING


def above_threshold_alpha(rows: int, *, looks: int, runs: int, beta: Number, one_sided: bool = False) -> SparseVectorBound:
    """Return the noise that makes the half-width of silent answers in :func:`above_threshold` smallest.

    With one-sided noise, where the half-width does not count looks: that and :func:`ladder_step` together, the threshold
    which noise by itself seldom passes.
    """
    bound = partial(above_threshold, rows, looks=looks, runs=runs, beta=beta, one_sided=one_sided)
    return _narrowest(bound, lambda found: found.alpha + one_sided * ladder_step(looks, scale=found.scale), rows, runs)


def private_ladder(cases: int, *, moves: int, scale: Number, beta: Number) -> SparseVectorBound:
    """Return how far a private ladder's score may be from the leader's true one (S4, T6b).

    Only released scores are told, at most B of them with noise of scale s, so alpha = s (ln(B/beta) + 1) + gap, and with
    probability 1 - beta it holds for every leader at once. The cost is that of B runs with their releases.
    """
    failure = round_down(probability("beta", beta))
    noise = math.log(count("moves", moves)) - math.log(failure) + 1
    return _bound(cases, runs=moves, scale=round_up(positive("scale", scale)), boxes=(noise, noise), beta=failure)


def ladder_step(submissions: int, *, scale: float) -> float:
    """Return by how much a submission must beat a private ladder's score: 4 s ln k.

    Noise of scale 4 s takes one in 2 k past it that is no better, or two in 3 k where it is one-sided. It is a matter of
    use: any step is valid.
    """
    return 4 * scale * math.log(max(2, submissions))


def private_ladder_alpha(cases: int, *, submissions: int, moves: int, beta: Number) -> SparseVectorBound:
    """Return the noise that makes a private ladder's half-width and step together smallest."""
    bound = partial(private_ladder, cases, moves=moves, beta=beta)
    return _narrowest(bound, lambda found: found.alpha + ladder_step(submissions, scale=found.scale), cases, moves)


def _bound(rows: int, *, runs: int, scale: float, boxes: tuple[float, float], beta: float) -> SparseVectorBound:
    """Return the boxes' half-widths plus the gap: certain for pure epsilon, else at the better of mu and rho of all runs."""
    each = 1 / (scale * count("rows", rows)) * ROUNDING
    epsilon, rho, mu = 2 * runs * each, 2 * runs * pure_rho(each), math.sqrt(2 * runs) * pure_mu(each) * ROUNDING
    forms = (Shift(0.0, epsilon, 0.0), gaussian_shift(mu, beta=beta), concentrated_shift(rho, beta=beta))
    gap = min(position_alpha(noise=0.0, epsilon=at.epsilon, slack=at.slack) for at in forms)
    silent, released = ((scale * box + gap) * ROUNDING for box in boxes)
    return SparseVectorBound(silent, released, scale, epsilon, rho, mu)


def _narrowest(
    bound: Callable[..., SparseVectorBound], width: Callable[[SparseVectorBound], float], rows: int, runs: int
) -> SparseVectorBound:
    """Search for the scale at which a bound is narrowest."""
    start = math.log(math.sqrt(count("runs", runs)) / count("rows", rows)) / 2
    return bound(scale=math.exp(golden(lambda log: width(bound(scale=math.exp(log))), start - 7, start + 3)))

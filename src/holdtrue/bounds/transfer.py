"""The transfer theorem: what a private transcript says about a sample holds for the population (T5, T6, T6b, T7).

Setting, for all of it. Rows S are independent draws from a population. The transcript is everything about S that
analysts ever see, of all verbs and sessions, together with their coins and what they knew before, which must be
independent of S. It is (epsilon, delta)-DP under replace-one. Queries q map a row to [0, 1] and are determined by the
transcript. Write u = E q over the population and v = E[q(S) | transcript]. Proofs: docs/theory/transfer.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.closed_forms import gaussian_delta, golden, smallest_float, upper_quantile, zero_concentrated_delta
from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_overshoot, gaussian_quantile, hoeffding_alpha
from holdtrue.errors import InvalidParameter
from holdtrue.exact import (
    ROUNDING,
    STITCH,
    UNIT,
    LedgerKind,
    Number,
    count,
    nonnegative,
    positive,
    probability,
    round_down,
    round_up,
)

if TYPE_CHECKING:
    from holdtrue.accounting.purses import Currency, Purse

_LARGEST_EPSILON = 700.0
_NEAR_ONE = 1 - 2.0**-40
_ITERATIONS = 100
_HALVINGS = 52
_CLOSE = 2.0**-44
_FARTHEST = 30.0
EDGE_RATES = (3.3, 4.2)
"""At which epsilon, over mu, T6 is taken besides its best one, for shares near 0 and 1, where p2 is .04 (V4.2)."""
EDGE_SHARE = 0.05
"""The share of beta that each of them has."""
_EDGE_BETA = 0.04 * EDGE_SHARE


@dataclass(frozen=True, slots=True)
class Shift:
    """How far sample and population can be apart: gamma, with the epsilon and the d = delta(epsilon)/beta it is for.

    The pair (epsilon, slack) is frozen before data; intervals by T6 and T6b need it.
    """

    gamma: float
    epsilon: float
    slack: float


def shift(epsilon: Number, *, delta: Number = 0, beta: Number = 1) -> float:
    """Return gamma with Pr[max over all queries |v - u| > gamma] <= beta, for an (epsilon, delta)-DP transcript.

    With d = delta/beta: gamma = 1 - 2 (1 - d) / (1 + sqrt(1 + (e^epsilon - 1)(1 - d))); 1 where d >= 1. For delta = 0 it
    is tanh(epsilon/4), certain, and attained by randomised response. No bound on the number of queries (T5 i). Source:
    derived for Holdtrue; Jung et al. 2020 have e^epsilon - 1 + 2 d, four times and more.

    >>> round(shift(1), 8)
    0.24491866
    """
    privacy, failure = round_up(nonnegative("epsilon", epsilon)), probability("beta", beta, one=True)
    return eased_gap(privacy, round_up(probability("delta", delta, zero=True) / failure))


def eased_gap(epsilon: float, slack: float) -> float:
    """Return T5's gamma for an epsilon and a slack d: the largest half-width that T6 adds to the noise; 1 where d >= 1."""
    if slack >= 1 or epsilon > _LARGEST_EPSILON:
        return 1.0
    growth = math.expm1(epsilon) * (1 - slack)
    root = math.sqrt(1 + growth)
    return min(1.0, (growth / (1 + root) + 2 * slack) / (1 + root) * ROUNDING)


def drop_in(alpha: Number, *, beta: Number, epsilon: Number, delta: Number, total: Number) -> float:
    """Return alpha' such that every answer is within alpha' of the population, except with probability ``total`` (T5).

    For any mechanism whose answers, clipped to [0, 1], are all within alpha of the sample w.p. 1 - beta, and whose
    transcript is (epsilon, delta)-DP: alpha' = alpha + c + tanh(epsilon/4) + d at the best c, d > 0 with
    beta/c + 2 delta / ((1 + e^(epsilon/2)) d) = total. Takes the place of jung20, and is never wider.
    """
    width, privacy = round_up(nonnegative("alpha", alpha)), round_up(nonnegative("epsilon", epsilon))
    failure, slack = round_up(probability("beta", beta, zero=True)), round_up(probability("delta", delta, zero=True))
    eased = 2 * slack / (1 + math.exp(min(privacy / 2, _LARGEST_EPSILON)))
    rest = (math.sqrt(failure) + math.sqrt(eased)) ** 2 / round_down(probability("total", total))
    return (width + math.tanh(privacy / 4) + rest) * ROUNDING


def gaussian_mu(gamma: float, *, beta: float) -> float:
    """Return the mu whose transcript, mu-GDP, has exactly the given gamma at beta: the inverse of gaussian_shift.

    mu = Q(beta (1 + gamma)^2 / 4) - Q(beta (1 - gamma)^2 / 4), Q the standard normal quantile (T5, GDP form).
    """
    return upper_quantile(beta * (1 - gamma) ** 2 / 4) - upper_quantile(beta * (1 + gamma) ** 2 / 4)


def gaussian_shift(mu: Number, *, beta: Number) -> Shift:
    """Return the smallest gamma over epsilon for a mu-GDP transcript, with the epsilon and slack that give it.

    The minimum solves Q(beta (1 + gamma)^2 / 4) - Q(beta (1 - gamma)^2 / 4) = mu, at epsilon = mu z - mu^2/2, z the upper
    quantile of beta (1 - gamma)^2 / 4; it is at most (mu/4) CVaR_{beta/4}(Z) (T5). The root only proposes epsilon: gamma
    is then that of :func:`shift` on the exact curve at this epsilon, rounded up.

    >>> round(gaussian_shift(0.1, beta=0.05).gamma, 5)
    0.06465
    """
    cap, failure = round_up(positive("mu", mu)), round_down(probability("beta", beta))
    gamma = _gaussian_root(cap, failure)
    at = max(0.0, cap * upper_quantile(failure * (1 - gamma) ** 2 / 4) - cap * cap / 2)
    return _shift_at(at, gaussian_delta(cap, at), failure)


def _gaussian_root(mu: float, beta: float) -> float:
    """Bisect safeguarded by Newton steps; the left side rises and is convex, and the slope at 0 gives an upper bracket."""
    quarter = upper_quantile(beta / 4)
    ratio = math.exp(-quarter * quarter / 2) / math.sqrt(2 * math.pi) * 4 / beta
    low, high = 0.0, min(mu / 4 * ratio * (1 + 2.0**-20), _NEAR_ONE)
    gamma = high
    for _ in range(_ITERATIONS):
        above, below = upper_quantile(beta * (1 - gamma) ** 2 / 4), upper_quantile(beta * (1 + gamma) ** 2 / 4)
        value = above - below - mu
        low, high = (gamma, high) if value < 0 else (low, gamma)
        slope = _steepness(above, 1 - gamma, beta) + _steepness(below, 1 + gamma, beta)
        step = gamma - value / slope
        previous, gamma = gamma, step if low < step < high else (low + high) / 2
        if abs(gamma - previous) <= 2.0**-45 * gamma:
            break
    return gamma


def _steepness(z: float, r: float, beta: float) -> float:
    """Return the derivative of Q(beta r^2 / 4) in r, where z is minus that quantile."""
    return beta * r / 2 * math.sqrt(2 * math.pi) * math.exp(min(z * z / 2, _LARGEST_EPSILON))


def concentrated_rho(gamma: float, *, beta: float) -> float:
    """Return the rho whose rho-zCDP transcript has exactly the given gamma at beta: the inverse of concentrated_shift.

    sqrt(rho) = sqrt(ln(4 / (beta (1 - gamma)^2))) - sqrt(ln(4 / (beta (1 + gamma)^2))) (T5, zCDP form).
    """
    base = math.log(4 / beta)
    far, near = base - 2 * math.log1p(-gamma), base - 2 * math.log1p(gamma)
    # The difference of the roots, without cancellation: far - near = 4 artanh(gamma).
    return (4 * math.atanh(gamma) / (math.sqrt(far) + math.sqrt(near))) ** 2


def concentrated_shift(rho: Number, *, beta: Number) -> Shift:
    """Return the smallest gamma over epsilon for a rho-zCDP transcript, by the curve of Canonne, Kamath and Steinke.

    Minimising over epsilon and the order of the divergence together leaves 4 artanh(gamma) = 2 sqrt(rho L) - rho with
    L = ln(4 / (beta (1 - gamma)^2)), at order a = sqrt(L/rho) and epsilon = (2 a - 1) rho + ln(1 - 1/a). It is 10 to 14 %
    above the GDP form at rho = mu^2/2 (T5, T2).
    """
    cap, failure = round_up(positive("rho", rho)), round_down(probability("beta", beta))
    gamma = _concentrated_root(cap, failure)
    order = max(1 + 2.0**-20, math.sqrt((math.log(4 / failure) - 2 * math.log1p(-gamma)) / cap))
    at = max(0.0, (2 * order - 1) * cap + math.log1p(-1 / order))
    return _shift_at(at, zero_concentrated_delta(cap, at), failure)


def _concentrated_root(rho: float, beta: float) -> float:
    return smallest_float(lambda gamma: concentrated_rho(gamma, beta=beta) >= rho, 0.0, _NEAR_ONE, steps=_ITERATIONS)


def _shift_at(epsilon: float, delta: float, beta: float) -> Shift:
    slack = delta / beta * ROUNDING
    return Shift(eased_gap(epsilon, slack), epsilon, slack)


def interval(answer: float, *, noise: float, epsilon: float, slack: float) -> tuple[float, float]:
    """Return an interval for the population value of a query, given its noisy answer (T6).

    With probability at least 1 - p1 - p2 it covers the population value of every query of the plan at once, where
    ``noise`` is the half-width for which all |answer - v| <= noise w.p. 1 - p1, slack = delta(epsilon)/p2 on the curve of
    the whole ledger's cap. Needs: epsilon and slack fixed before data, the rows alike and independent, and one q for all
    rows. Lies within answer +- (noise + gamma), and shrinks to slack + e^epsilon noise near 0 and 1. By S1 beta need not be
    split: noise is then the box of an answer, and the slack pays for what all noise exceeds its boxes by.
    """
    low, high = _clip_answer(answer, noise)
    return _outward(_lower(low, epsilon, slack), 1 - _lower(1 - high, epsilon, slack))


def intervals(answers: Sequence[float], *, noise: float, epsilon: float, slack: float) -> tuple[list[float], list[float]]:
    """Return the lower and the upper ends of :func:`interval` for many answers in [0, 1], to the last bit the same."""
    if slack >= 1 or epsilon > _LARGEST_EPSILON:
        return [0.0] * len(answers), [1.0] * len(answers)
    given, growth = np.array(answers, dtype=np.float64), math.expm1(epsilon)

    def bound(v: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.maximum(0.0, (v - slack) / (1 + growth * (1 - v)))

    low = bound(np.maximum(0.0, given - noise)) - 2.0**-48
    high = 1 - bound(1 - np.minimum(1.0, given + noise)) + 2.0**-48
    return np.maximum(0.0, low).tolist(), np.minimum(1.0, high).tolist()


def transfer_ends(ends: tuple[float, float], *, epsilon: float, slacks: tuple[float, float]) -> tuple[float, float]:
    """Return an interval for the population value of a query whose v is known to lie between two numbers (T6, U7.2).

    ``slacks`` are those of the lower and of the upper end: (slack, slack), or on plans with one beta each multiplied by the
    largest multiplier, at least 1, of answers that the end was deduced from (S1 c).
    """
    low, high = max(0.0, ends[0]), min(1.0, ends[1])
    return _outward(_lower(low, epsilon, slacks[0]), 1 - _lower(1 - high, epsilon, slacks[1]))


def position_interval(answer: float, *, noise: float, epsilon: float, slack: float) -> tuple[float, float]:
    """Return an interval where every row has a query of its own, as in scores of submitted predictions (T6b).

    Coverage as in :func:`interval`, for rows that are independent but not alike: the target is the mean over rows of
    E q_i. The half-width is at most noise + slack + tanh(epsilon/4), about 1 % more than by T6, whose step from u (1 - v)
    to a square is about one q and fails for means over rows. Holds in T6's setting too.
    """
    low, high = _clip_answer(answer, noise)
    return _outward(_position_lower(low, epsilon, slack), 1 - _position_lower(1 - high, epsilon, slack))


def position_alpha(*, noise: float, epsilon: float, slack: float) -> float:
    """Return the largest half-width that :func:`position_interval` can have: noise + slack + tanh(epsilon/4)."""
    return min(1.0, (noise + slack + math.tanh(epsilon / 4)) * ROUNDING)


def _clip_answer(answer: float, noise: float) -> tuple[float, float]:
    """Clip the answer to [0, 1] first: a raw answer below -noise would leave no room for v."""
    if not (math.isfinite(answer) and math.isfinite(noise) and noise >= 0):
        raise InvalidParameter("answer", (answer, noise), "a finite answer and a finite half-width, 0 or above")
    clipped = min(1.0, max(0.0, answer))
    return max(0.0, clipped - noise), min(1.0, clipped + noise)


def _lower(v: float, epsilon: float, slack: float) -> float:
    if slack >= 1 or epsilon > _LARGEST_EPSILON:
        return 0.0
    return max(0.0, (v - slack) / (1 + math.expm1(epsilon) * (1 - v)))


def _position_lower(v: float, epsilon: float, slack: float) -> float:
    if slack >= 1 or epsilon > _LARGEST_EPSILON:
        return 0.0
    x = max(0.0, v - slack)
    return x / (1 + math.expm1(epsilon) * (1 - x))


def _outward(low: float, high: float) -> tuple[float, float]:
    return max(0.0, low - 2.0**-48), min(1.0, high + 2.0**-48)


def ratio_in_box(part: tuple[float, float], rest: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest part / (part + rest) where both are known to be in an interval (U2.2).

    It rises in part and falls in rest; where both may be 0, an end is 0 or 1.
    """
    low = part[0] / (part[0] + rest[1]) if part[0] + rest[1] > 0 else 0.0
    high = part[1] / (part[1] + rest[0]) if part[1] + rest[0] > 0 else 1.0
    return _outward(low, high)


def ratio_interval(  # noqa: PLR0913 - two answers, and what is frozen
    part: float, rest: float, *, whole: tuple[float, float], noise: float, epsilon: float, slack: float
) -> tuple[float, float]:
    """Return an interval for a conditional mean by one test of both halves (U2.3): part of y c, rest of (1 - y) c.

    Both are noisy answers before they are clipped, with independent noise of one deviation, whose box is ``noise``;
    ``whole`` holds E c. Needs: two more declared members of that box, in the purse of S1 b or among the planned draws, since
    the noise of the test has coefficients that are fixed before the draw, at most e^epsilon together.
    """
    frozen = {"noise": noise, "epsilon": epsilon, "slack": slack}
    return _outward(_least_ratio(part, rest, whole, **frozen), 1 - _least_ratio(rest, part, whole, **frozen))


def _least_ratio(  # noqa: PLR0913 - what the test is made of
    part: float, rest: float, whole: tuple[float, float], *, noise: float, epsilon: float, slack: float
) -> float:
    """Return a ratio below which none explains an answer this large: those that are out are a segment from 0 (U2.3).

    The answers are clipped on the side that weakens the test; otherwise what is out need not be a segment. An inequality
    that fails at both ends of E c fails between them.
    """
    if slack >= 1 or epsilon > _LARGEST_EPSILON:
        return 0.0
    growth, above, below = math.expm1(epsilon), min(1.0, part), max(0.0, rest)

    def is_out(ratio: float) -> bool:
        for share in whole:
            first = (1 - ratio) * (1 + growth * ratio * share)
            second = ratio * (1 + growth - growth * (1 - ratio) * share)
            gap = ratio * (1 - ratio) * share * growth + slack
            if first * above - second * below <= (noise * math.hypot(first, second) + gap) * ROUNDING + _CLOSE * (
                1 + growth
            ):
                return False
        return True

    low, high = 0.0, 1.0
    if not is_out(low):
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_out(middle) else (low, middle)
    return low


def stitched_noise(draw: int, *, beta: Number) -> float:
    """Return the factor of noise draw number ``draw`` in an open-ended session: the k-th gets 6 beta / (pi^2 k^2) (T7).

    All draws j >= 1 together have some |E[Z_j | transcript]| above its factor with probability at most beta. The scale of
    a draw may depend on the past.
    """
    failure = round_down(probability("beta", beta)) * STITCH / count("draw", draw) ** 2
    return gaussian_maximum(1, beta=failure)


def stitched_level(spent: Number, *, first: Number) -> int:
    """Return the smallest l >= 0 with spent <= first 2^l: the level of a query that brings the spent mu squared there.

    ``first`` is the square of level 0's mu, fixed before data; ``spent`` counts the query's own cost, all verbs and all
    analysts (T7).
    """
    ratio = nonnegative("spent", spent) / positive("first", first)
    level = max(0, math.ceil(ratio).bit_length() - 1)
    return level if ratio <= Fraction(2) ** level else level + 1


def stitched_shift(level: int, *, first: Number, beta: Number) -> Shift:
    """Return the shift of a level in an open-ended session: mu squared is first 2^level, at 6 beta / (pi^2 (level + 1)^2).

    A query's interval never has to be widened later: it rests on the transcript up to the first crossing of its own level,
    which is private at that level whatever comes afterwards (T7, T2b).
    """
    square = positive("first", first) * 2 ** count("level", level, least=0)
    return _ledger_shift("gdp", round_up(square), _level_beta(level, round_down(probability("beta", beta))))


def level_shift(kind: LedgerKind, spent: int, *, first: int, cap: int, beta: float) -> Shift:
    """Return T5's shift for everything released once this many units are spent, for all totals at once, with failure beta.

    Level l holds totals up to first 2^l units, or up to the cap, and has a share 6 / (pi^2 (l + 1)^2) of beta. Needs:
    ``first``, ``cap`` and ``beta`` fixed before data. On a pure ledger there are no levels, and nothing can fail.
    """
    if kind == "pure":
        total = round_up(spent * UNIT)
        return Shift(math.tanh(total / 4) * ROUNDING, total, 0.0)
    level = stitched_level(min(spent, cap), first=first)
    return _ledger_shift(kind, round_up(min(first << level, cap) * UNIT), _level_beta(level, beta))


@lru_cache(1024)
def edge_rates(beta: float) -> tuple[float, ...]:
    """Return at which epsilon, over mu, a pair that fails with probability beta has the slack, over mu, of V4.2's pairs.

    3.3 and 4.2 at V4.2's share of .002, and farther out for a smaller one, about where E(Z - t)_+ / beta is the same.
    """
    heights = [gaussian_overshoot(rate, one_sided=True) * beta / _EDGE_BETA for rate in EDGE_RATES]
    return tuple(
        smallest_float(lambda at, height=height: gaussian_overshoot(at, one_sided=True) <= height, 0.0, _FARTHEST)  # type: ignore[misc]
        for height in heights
    )


def level_pairs(  # noqa: PLR0913 - a level, and how pairs are placed
    kind: LedgerKind, spent: int, *, first: int, cap: int, beta: float, scaled: bool = True
) -> tuple[Shift, ...]:
    """Return several shifts that hold at once with failure beta, the first as :func:`level_shift` has it (V4.2 iii).

    T6 at the best epsilon of the level with nine tenths of its share of beta, and at :func:`edge_rates` times mu with a
    twentieth each: these are far narrower for shares near 0 and 1, and all fail together at most as often as their shares
    add up to. Needs: as :func:`level_shift`. An interval may then be the intersection of those by T6 at each. Not
    ``scaled``: at 3.3 mu and 4.2 mu whatever the share, as in ledgers of before.
    """
    whole = level_shift(kind, spent, first=first, cap=cap, beta=beta * (1 - 2 * EDGE_SHARE))
    if kind == "pure":
        return (whole,)
    level = stitched_level(min(spent, cap), first=first)
    total, share = round_up(min(first << level, cap) * UNIT), _level_beta(level, beta) * EDGE_SHARE
    mu = math.sqrt(total if kind == "gdp" else 2 * total) * ROUNDING
    curve = partial(gaussian_delta, mu) if kind == "gdp" else partial(zero_concentrated_delta, total)
    rates = edge_rates(share) if scaled else EDGE_RATES
    return (whole, *(_shift_at(rate * mu, curve(rate * mu), share) for rate in rates))


def meet_ends(ends: tuple[float, float], *, pairs: Sequence[Shift]) -> tuple[float, float]:
    """Return the intersection of T6's intervals at several shifts that hold at once, for a v between two numbers."""
    found = [transfer_ends(ends, epsilon=pair.epsilon, slacks=(pair.slack, pair.slack)) for pair in pairs]
    return max(low for low, _ in found), min(high for _, high in found)


def joint_gap(kind: LedgerKind, spent: int, *, first: int, cap: int, beta: float) -> tuple[float, float]:
    """Return tanh(e / 4) + delta(e) / b at the level of a total, and the share b of beta that the level has (S2, T7).

    Levels, shares and needs are those of :func:`level_shift`, and so is e, which depends on level and beta alone. On a pure
    ledger delta is 0, and b all of beta.
    """
    gap = level_shift(kind, spent, first=first, cap=cap, beta=beta)
    share = beta if kind == "pure" else _level_beta(stitched_level(min(spent, cap), first=first), beta)
    return position_alpha(noise=0.0, epsilon=gap.epsilon, slack=gap.slack), share


def _level_beta(level: int, beta: float) -> float:
    return beta * STITCH / (level + 1) ** 2


@lru_cache(4096)
def _ledger_shift(kind: LedgerKind, total: float, beta: float) -> Shift:
    if kind == "gdp":
        return gaussian_shift(math.sqrt(total) * ROUNDING, beta=beta)
    return concentrated_shift(total, beta=beta)


def purse_shift(purse: "Purse", mu: float, *, beta: float) -> Shift:
    """Return T5's shift for everything released on a ledger with two purses, by the curve of both caps (V3.1).

    There are no levels: ``mu`` is the cap of the questions' purse. The epsilon is about the best one, and depends on caps
    and beta alone.
    """
    return _purse_shift(purse.currency, purse.cap_units, purse.epsilon, mu, beta)


def purse_pairs(purse: "Purse", mu: float, *, beta: float, scaled: bool = True) -> tuple[Shift, ...]:
    """Return several shifts at both caps that hold at once with failure beta, as :func:`level_pairs` (V4.2 iii, V3.1)."""
    whole, near = purse_shift(purse, mu, beta=beta * (1 - 2 * EDGE_SHARE)), math.sqrt(mu * mu + purse.square)
    share = beta * EDGE_SHARE
    rates = edge_rates(share) if scaled else EDGE_RATES
    return (whole, *(_shift_at(rate * near, purse.delta(mu, rate * near), share) for rate in rates))


@lru_cache(1024)
def _purse_shift(currency: "Currency", cap_units: int, each: Fraction, mu: float, beta: float) -> Shift:
    from holdtrue.accounting.purses import Purse  # ledgers with one currency do without

    purse = Purse(currency, cap_units, 1, each)

    def at_log(log: float) -> Shift:
        return _shift_at(math.exp(log), purse.delta(mu, math.exp(log)), beta)

    best = golden(lambda log: at_log(log).gamma, math.log(max(mu, 1e-4) / 8), math.log(max(mu, 1e-4)) + 5, steps=30)
    return at_log(best)


def first_query(sigma: Number, *, rows: int, noise_beta: Number, sample_beta: Number) -> float:
    """Return a half-width for a query chosen before any release: sigma z + Hoeffding's, the failures set aside beforehand.

    The smaller of this and the stitched half-width may be used, since both are public numbers (T7).
    """
    noise = round_up(positive("sigma", sigma)) * gaussian_quantile(1, beta=noise_beta)
    return (noise + hoeffding_alpha(rows, beta=sample_beta)) * ROUNDING

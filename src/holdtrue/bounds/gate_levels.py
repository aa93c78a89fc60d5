"""The gate by depth: a level for each number of yes before, and p-values for one look (V1).

A submitter who hears nothing of the cases but yes and no walks through a tree of looks. A look after j yes says yes if its
p-value is at most l_j. Where the claim is true, a yes is no error, and l_j is passed on to the looks behind it; so l_j
pays for the test and for the whole tree behind a yes, once. A gate that keeps secrets says yes only if its noisy count is
above what the level asks for by more than noise ever adds (V1.4).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.closed_forms import gaussian_delta, largest_float, smallest, smallest_float, upper_quantile
from holdtrue.bounds.accuracy import binary_divergence, binomial_tail
from holdtrue.bounds.transcripts import log_choose
from holdtrue.errors import PreconditionError
from holdtrue.exact import UNIT, Number, count, positive, probability, round_down, units_down

__all__ = [
    "AT_ONCE",
    "AT_THE_END",
    "BOUND_STEPS",
    "VALUE_UNIT",
    "GateNoise",
    "bet_on_wins",
    "bet_surplus",
    "betting_end",
    "betting_tail",
    "depth_alpha",
    "depth_error",
    "depth_level",
    "depth_levels",
    "depth_width",
    "gaussian_margin",
    "pairs_tail",
    "plan_gate_noise",
    "private_gate_limits",
    "sparse_margin",
    "split_noise_share",
    "threshold_tail",
    "wins_needed",
    "wins_table",
]

AT_THE_END, AT_ONCE = "bounds at the end", "bounds"
"""What a gate may tell besides yes and no: a lower bound of every yes after closing, or of each yes at once (V1.1)."""
BOUND_STEPS = tuple(Fraction(step, 100) for step in (0, 1, 2, 3, 5, 8, 12, 20))
"""Above the margin by how much a bound that is told at once may lie."""

Floats: TypeAlias = npt.NDArray[np.float64]

_BETS = 0.98 * 2.0 ** (-np.arange(14) / 2)
_FLATTEST = 2.0**-10  # a bet is at most 1/(t - least); where nothing can be lost it need not be larger than this allows
_TERM_ERROR = 2.0**-43  # of one ln(1 + bet (x - t)), which is at least ln .02: ulps of x, t and the product, 50 times over
_LONGEST = 690.0  # ln of the smallest level that the recursion holds in floats
_MOST_STEPS = 1 << 24
_MOST_TRIED = 1 << 16
_DEEPEST = 650.0
_NOISE_SHARE = Fraction(1, 5)
_LOG_UNIT = 1 << 32  # logs of single bets are whole multiples of its inverse, rounded down
_TAIL_ERROR = 2.0**-30  # relative, of SciPy's incomplete beta function, many times over
VALUE_UNIT = 1 << 24
"""The values that a private gate bets on are whole multiples of its inverse."""


def depth_level(looks: int, *, yes: int, beta: Number, after: int = 0, tells: str | None = None) -> float:
    """Return ln(1/l_j), rounded up: the level of a look after j yes, of ``yes`` in this many looks (V1.1).

    l_j = beta/(A C(k, j + 1)), never rising in j, with A such that :func:`depth_error` is beta: then with probability
    1 - beta every yes of a gate is true and so is one certificate after it has closed, at the level of the yes it had.
    Where the recursion is too long for floats A is 2 B + 1, which is enough: at most C(k, j + 1) looks come after j
    yes, at most C(k, j) games end there, and C(k, j) / C(k, j + 1) is at most 1 up to the middle, from where levels stay.

    ``tells``: with bounds of all yes at the end each look pays for itself, so A is B. With bounds at once a yes has L
    answers, and l_j = beta/(A C(k, j + 1) L^j); where the recursion is too long A is 2 B + L.
    """
    number, most = count("looks", looks), count("yes", yes)
    before, share = count("after", after, least=0, most=most - 1), math.log(round_down(probability("beta", beta)))
    if most > number:
        message = f"yes must be at most the number of looks, {number:,}; got {most:,}"
        raise PreconditionError(message)
    answers = len(BOUND_STEPS) if tells == AT_ONCE else 1
    raw = _log_choose(number, before + 1) + before * math.log(answers)
    if tells == AT_THE_END:
        level = raw + math.log(most) - share
    elif number * most <= _MOST_STEPS and _log_choose(number, most) + most * math.log(answers) < _LONGEST:
        level = _raw_levels(number, most, answers)[before] - share
    else:
        level = raw + math.log(2 * most + answers) - share
    return level * (1 + 2.0**-50)


def depth_levels(looks: int, *, yes: int, beta: Number, tells: str | None = None) -> tuple[float, ...]:
    """Return :func:`depth_level` after 0, 1, .. yes."""
    return tuple(depth_level(looks, yes=yes, beta=beta, after=after, tells=tells) for after in range(count("yes", yes)))


@lru_cache(maxsize=64)
def _raw_levels(looks: int, yes: int, answers: int) -> tuple[float, ...]:
    """Return ln(A C(k, j + 1) L^j)."""
    logs = np.array([_log_choose(looks, after + 1) + after * math.log(answers) for after in range(yes)])
    share = depth_error(np.exp(-logs), looks=looks, answers=answers) * (1 + looks * yes * 2.0**-52)
    return tuple(float(level) for level in logs + math.log(share))


def _log_choose(looks: int, yes: int) -> float:
    """Return ln of the largest C(looks, j) for j up to ``yes``, rounded up."""
    return log_choose(looks, min(yes, looks // 2))


def depth_error(levels: Sequence[float] | Floats, *, looks: int, answers: int = 1) -> float:
    """Return b(k, 0): the most with which a false yes, or a false certificate at the end, comes about (V1.1).

    b(r, j) = b(r - 1, j) + max(l_j, b(r - 1, j + 1)) with r looks left after j yes; b(0, j) = l_j and b(., B) = l_(B-1).
    Where a yes tells one of L ``answers``: + max(l_j + (L - 1) b(r - 1, j + 1), L b(r - 1, j + 1)) in place of max(..).
    Needs: levels that do not rise with j, so that a look whose answer was lost may be counted as a yes.
    """
    given = np.asarray(levels, dtype=np.float64)
    if (np.diff(given) > 0).any():
        message = "levels must not rise with the number of yes"
        raise PreconditionError(message)
    behind = np.full(count("looks", looks), given[-1])
    total = float(given[-1])
    for level in given[::-1]:
        sums = level + np.cumsum((answers - 1) * behind + np.maximum(level, behind))
        behind, total = np.concatenate([[level], sums[:-1]]), float(sums[-1])
    return total


def pairs_tail(wins: int, differing: int) -> float:
    """Return ln p, rounded up, of "no better than the incumbent" after this many wins in cases where just one is right.

    p = Pr[Bin(differing, 1/2) >= wins], 1 below differing/2 + 1 wins. Needs: scores of 0 and 1, and either cases that are
    alike, by submissions made without sight of them (given the number that differ, wins are binomial), or a set of
    differing cases that is public (wins are a sum of unlike coins with mean at most half: Hoeffding 1956) (V1.2).
    """
    return _log_tail(differing, wins, 0.5)


def threshold_tail(hits: int, *, cases: int, threshold: float) -> float:
    """Return ln p, rounded up, of "a mean of at most the threshold" after this many hits: the binomial tail there (V1.2).

    Needs: scores of 0 and 1, independent and not necessarily alike; p is 1 below cases threshold + 1 hits.
    """
    return _log_tail(cases, hits, threshold)


def _log_tail(rows: int, hits: int, chance: float) -> float:
    """Return ln of the binomial tail, rounded up; by Chernoff's bound where it is too small for floats."""
    tail = binomial_tail(rows, hits, chance) if hits else 0.0
    if tail > -math.inf or not chance:
        return tail
    return -rows * binary_divergence(hits / rows, chance) * (1 - 2.0**-40)


def betting_tail(
    values: npt.ArrayLike,
    *,
    margin: float,
    counts: npt.ArrayLike | None = None,
    least: float = -1.0,
    planned: float | None = None,
) -> float:
    """Return ln p, rounded up, of "a mean of at most the margin" by betting against it (V1.2).

    p = 1 / mean_i prod_c (1 + bet_i (x_c - t)) for 14 bets, .98 2^(-i/2) / (t - least). Needs: independent values in
    [least, 1], not necessarily alike; the mean of their expectations is the truth. Each product has mean at most 1 (AM-GM).
    ``counts``: how often each value occurs. ``planned``: a further bet, ``planned`` / (t - least), that takes half of the
    weight; below 1 and fixed before the look, such as the gain over the share of cases that are expected to differ.
    """
    numbers = np.asarray(values, dtype=np.float64)
    often = np.ones(numbers.size) if counts is None else np.asarray(counts, dtype=np.float64)
    if not least <= margin < 1:
        message = f"margin must be at least {least:g} and below 1; got {margin!r}"
        raise PreconditionError(message)
    bets = (_BETS if planned is None else np.append(_BETS, planned)) / max(margin - least, _FLATTEST)
    logs = np.log1p(bets[:, None] * (numbers - margin)) @ often
    top = float(logs.max())
    grown = np.exp(logs - top)
    mean = float(grown.mean()) if planned is None else float(grown[:-1].mean() + grown[-1]) / 2
    wealth = top + math.log(mean) - (float(often.sum()) + 16) * _TERM_ERROR
    return min(0.0, -wealth)


def bet_on_wins(wins: npt.NDArray[np.int64], differing: npt.NDArray[np.int64]) -> Floats:
    """Return what betting at margin 0 makes of 1, for plans: not rounded for decisions (V1.2)."""
    won, lost = np.log1p(_BETS), np.log1p(-_BETS)
    grown: Floats = np.exp(np.minimum(np.outer(wins, won) + np.outer(differing - wins, lost), _LONGEST)).mean(axis=1)
    return grown


def betting_end(values: npt.ArrayLike, *, level: float, least: float = -1.0, planned: float | None = None) -> float:
    """Return a lower end for the mean, failing w.p. at most exp(-level): the largest margin that betting refutes."""
    numbers = np.asarray(values, dtype=np.float64)

    def is_refuted(margin: float) -> bool:
        return betting_tail(numbers, margin=margin, least=least, planned=planned) <= -level

    return largest_float(is_refuted, least, 1 - 2.0**-40, steps=40) if is_refuted(least) else least


def wins_needed(
    differing: int, *, level: float, cases: int | None = None, margin: float = 0.0, planned: float | None = None
) -> int:
    """Return the fewest wins of this many differing cases that make a yes at a level; one more than differ where none do.

    By exact pairs, or, where ``cases`` is given, by betting over all of them with the margin, each case that differs won or
    lost.
    """
    number = count("differing", differing, least=0)

    def enough(wins: int) -> bool:
        if cases is None:
            return pairs_tail(wins, number) <= -level
        often = [wins, number - wins, cases - number]
        return betting_tail([1.0, -1.0, 0.0], counts=often, margin=margin, planned=planned) <= -level

    found = smallest(enough, number // 2, least=0, most=number)
    return number + 1 if found is None else found


def depth_width(cases: int, *, level: float, threshold: float = 0.5) -> float | None:
    """Return by how much a score must be above a threshold for a yes at a level; None where no score is enough (V1.3)."""
    number = count("cases", cases)
    if number > _MOST_TRIED or level > _DEEPEST:  # by Chernoff's bound, a hair above
        if -number * math.log(threshold) < level:
            return None
        return smallest_float(
            lambda width: number * binary_divergence(threshold + width, threshold) >= level, 0.0, 1 - threshold
        )
    found = smallest(
        lambda hits: threshold_tail(hits, cases=number, threshold=threshold) <= -level,
        math.ceil(number * threshold),
        least=0,
        most=number,
    )
    return None if found is None else found / number - threshold


def depth_alpha(cases: int, *, looks: int, yes: int, beta: Number, tells: str | None = None) -> float:
    """Return by how much a score must be above one half for the last yes of a gate; 1/2 where none is enough (V1.3).

    1 where not even the first look could say yes.
    """
    first, last = (depth_level(looks, yes=yes, beta=beta, after=after, tells=tells) for after in (0, yes - 1))
    if depth_width(cases, level=first) is None:
        return 1.0
    return depth_width(cases, level=last) or 0.5


@dataclass(frozen=True, slots=True)
class GateNoise:
    """The noise of a private gate: by which rule, what one run or one look costs, and what noise never adds.

    ``cost`` is in units of epsilon for a run of the "sparse vector", of mu squared for a look of "gaussian" comparisons;
    ``extra`` is in cases: with probability 1 - p no noise of the whole gate adds more.
    """

    rule: Literal["sparse vector", "gaussian"]
    cost: int
    extra: int


def split_noise_share(beta: Number) -> tuple[float, float]:
    """Return what of beta the levels of a private gate have, and what its noise has: a fifth of it."""
    share = probability("beta", beta)
    return round_down(share * (1 - _NOISE_SHARE)), round_down(share * _NOISE_SHARE)


def private_gate_limits(epsilon: Number | None, delta: Number | None) -> tuple[float, float | None]:
    """Return the privacy of a private gate: (1, 1e-6) where none is given, and pure where only an epsilon is."""
    if epsilon is None and delta is None:
        return 1.0, 1e-6
    privacy = 1.0 if epsilon is None else round_down(positive("epsilon", epsilon))
    return privacy, None if delta is None else round_down(probability("delta", delta))


def sparse_margin(looks: int, *, yes: int, epsilon: Number, beta: Number) -> float:
    """Return c in cases: (4 ln(2 k / p) + 2 ln(2 B / p)) / e, e = epsilon / B, for p = beta (V1.4).

    With probability 1 - p, none of k comparisons has noise above (4/e) ln(2 k / p) and none of B thresholds noise below
    -(2/e) ln(2 B / p). For discrete Laplace noise too: Pr[Z >= m] is at most exp(-m / scale).
    """
    number, most, share = count("looks", looks), count("yes", yes), math.log(round_down(probability("beta", beta)))
    each = round_down(positive("epsilon", epsilon) / most)
    return (4 * (math.log(2 * number) - share) + 2 * (math.log(2 * most) - share)) / each


def gaussian_margin(looks: int, *, mu: float, beta: Number) -> float:
    """Return c in cases: s z, s = sqrt(k) / mu, z the (p/k)-quantile from above, for p = beta (V1.4).

    With probability 1 - p none of k comparisons, which together are mu-GDP, has noise above it.
    """
    number = count("looks", looks)
    return math.sqrt(number) / mu * upper_quantile(round_down(probability("beta", beta)) / number)


@lru_cache(maxsize=64)
def plan_gate_noise(looks: int, *, yes: int, beta: float, epsilon: float, delta: float | None) -> GateNoise:
    """Return the noise with the smaller extra margin, by public numbers; without a delta the sparse vector (V1.4).

    ``beta`` is the share of the noise alone. Needs: a statistic that moves by at most one when one case is replaced.
    """
    run = units_down(positive("epsilon", epsilon) / count("yes", yes))
    if not run:
        message = "epsilon is too small for this many yes"
        raise PreconditionError(message)
    extra = sparse_margin(looks, yes=yes, epsilon=run * yes * UNIT, beta=beta)
    sparse = GateNoise("sparse vector", run, math.ceil(extra * (1 + 2.0**-40)))
    if delta is None:
        return sparse
    slack = round_down(probability("delta", delta))
    mu = largest_float(lambda mu: gaussian_delta(mu, epsilon) <= slack, 0.0, 1e3)
    look = units_down(Fraction(mu) ** 2 / count("looks", looks))
    if not look:
        return sparse
    # Rounded noise above c comes from noise above c + 1/2.
    spread = gaussian_margin(looks, mu=math.sqrt(look * looks * UNIT), beta=beta)
    normal = GateNoise("gaussian", look, math.ceil(spread * (1 + 2.0**-40)))
    return min(sparse, normal, key=lambda noise: noise.extra)


@lru_cache(maxsize=64)
def wins_table(cases: int, *, level: float) -> npt.NDArray[np.int64]:
    """Return for 0, 1, .. ``cases`` differing cases how many wins are enough for a yes at a level, by exact pairs.

    Law: from one number of differing cases to the next it rises by 0 or 1, so that wins minus wins needed move by at most
    one with a case; true of the exact numbers, and made true of those found in floats by asking for more. At most one more
    than differ where none are enough.
    """
    from scipy.special import betainc

    differing = np.arange(count("cases", cases) + 1)
    low, high = np.zeros_like(differing), differing + 1
    target = math.exp(-level) * (1 - _TAIL_ERROR) if level < _DEEPEST else -1.0  # deeper than floats go: never a yes
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 1)
        enough = betainc(middle, np.maximum(differing - middle + 1, 1), 0.5) <= target
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    high = np.maximum.accumulate(np.maximum(high, np.minimum((differing + 1) // 2 + 1, differing + 1)))
    found: npt.NDArray[np.int64] = np.maximum.accumulate((high - differing)[::-1])[::-1] + differing
    found.flags.writeable = False
    return found


def bet_surplus(
    values: npt.NDArray[np.int64], *, level: float, margin: float, least: float = -1.0, planned: float | None = None
) -> int:
    """Return by how many cases a yes of betting is safe: how many must be replaced for a no; at a no, 1 - those for a yes.

    Law: it moves by at most one when one value is replaced, and is above 0 only where :func:`betting_tail` is at most the
    level, since one bet alone with its weight has won enough. ``values`` are whole multiples of 2^-24, so that the logs of
    different ones differ by far more than floats err; each log is rounded down to a whole number, and sums are exact.
    Needs: values in [least, 1]. The largest values lose most with every bet, so these are the ones to replace.
    """
    if not least <= margin < 1:
        return -values.size
    bets = (_BETS if planned is None else np.append(_BETS, planned)) / max(margin - least, _FLATTEST)
    weights = np.full(bets.size, 1 / _BETS.size)
    if planned is not None:
        weights = np.append(weights[:-1] / 2, 0.5)
    needed = np.ceil((level - np.log(weights)) * (1 + 2.0**-40) * _LOG_UNIT).astype(np.int64)
    ends = np.array([least, 1.0])
    numbers = np.concatenate([np.sort(values)[::-1] / VALUE_UNIT, ends])
    logs = np.floor((np.log1p(bets[:, None] * (numbers - margin)) - _TERM_ERROR) * _LOG_UNIT).astype(np.int64)
    logs, worst, best = logs[:, :-2], logs[:, -2:-1], logs[:, -1:]
    number = values.size
    sums = np.concatenate([np.zeros((bets.size, 1), dtype=np.int64), np.cumsum(logs, axis=1)], axis=1)
    replaced = np.arange(number + 1)
    lost = ((sums[:, -1:] - sums + replaced * worst) >= needed[:, None]).any(axis=0)
    if lost[0]:
        return int(np.argmin(lost)) if not lost.all() else number
    won = ((sums[:, ::-1] + replaced * best) >= needed[:, None]).any(axis=0)
    return 1 - int(np.argmax(won)) if won.any() else -number

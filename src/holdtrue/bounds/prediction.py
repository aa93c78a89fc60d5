"""Predictions by vote: privacy and error of the soft majority, and how to cut the rows into parts (E4-E6, E10, N4).

r predictors are trained on disjoint parts of the rows, cut by position. One row touches one part and so moves one vote.
The label b is answered with probability proportional to e^((epsilon / 2) votes for b).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.accounting.closed_forms import bounded_range_mu, largest_float, log_cdf, logit, sigmoid, smallest
from holdtrue.bounds.accuracy import hoeffding_rows
from holdtrue.errors import InsufficientSamples, InvalidParameter, PreconditionError
from holdtrue.exact import ROUNDING, Number, count, floor_positive, floor_probability, positive, probability, rows_at_least

# How many rows one predictor needs for an error (or excess error) with a probability of failure.
BaseRows: TypeAlias = Callable[[float, float], int]

_EVERY_UP_TO = 64
_GROWTH = 1.08
_MOST_PARTS = 1 << 40
_LARGEST_ALPHA = 0.25
_LEAST_DIMENSION = 2


@dataclass(frozen=True, slots=True)
class Partition:
    """The number of parts, the rows of each, and the error of each predictor."""

    parts: int
    base_error: float
    part_rows: int

    @property
    def rows(self) -> int:
        """Return the rows of all parts together."""
        return self.parts * self.part_rows


def finite_base_rows(size: int, *, alpha: Number, beta: Number) -> int:
    """Return ceil(ln(|H| / beta) / alpha): any consistent pick from a finite class then has error at most alpha (E5).

    With probability 1 - beta, if some hypothesis of the class is never wrong.
    """
    return rows_at_least(
        (math.log(count("size", size)) - math.log(floor_probability("beta", beta))) / _share("alpha", alpha)
    )


def dimension_base_rows(dimension: int, *, alpha: Number, beta: Number) -> int:
    """Return max{(4 / alpha) log2(2 / beta), (8 d / alpha) log2(13 / alpha)} for VC dimension d (Blumer et al.; E5)."""
    error, failure = _share("alpha", alpha), floor_probability("beta", beta)
    width = 8 * count("dimension", dimension) / error * math.log2(13 / error)
    return rows_at_least(max(4 / error * math.log2(2 / failure), width))


def dimension_excess(rows: int, *, dimension: int, beta: Number) -> float:
    """Return sqrt(2 d ln(e m / d) / m) + sqrt(2 ln(1 / beta) / m): the excess of an exact minimiser, agnostic (V6.1, E12).

    Law: with probability 1 - beta over m independent rows err(pick) <= min err + this, for a class of VC dimension d, finite
    or not, and a pick with the fewest errors of all. By symmetrisation, Massart's and Sauer's lemmas, and McDiarmid's
    inequality for the difference to the best. Needs: m >= d.
    """
    m, d = count("rows", rows), count("dimension", dimension)
    if m < d:
        message = f"the bound needs at least as many rows as the dimension, {d:,}; there are {m:,}"
        raise InsufficientSamples(message, required=d)
    deviation = math.sqrt(-2 * math.log(floor_probability("beta", beta)) / m)
    return (math.sqrt(2 * d * (1 + math.log(m / d)) / m) + deviation) * ROUNDING


def agnostic_dimension_rows(dimension: int, *, alpha: Number, beta: Number) -> int:
    """Return the fewest rows with which :func:`dimension_excess` is at most alpha; it falls from m = d on (V6.1)."""
    d, target = count("dimension", dimension), floor_probability("alpha", alpha)
    found = smallest(lambda m: dimension_excess(m, dimension=d, beta=beta) <= target, 4 * d, least=d, most=2**62)
    if found is None:
        message = f"no number of rows below 2^62 is enough for an excess of {target:g}"
        raise InsufficientSamples(message, required=None)
    return found


def uniform_base_rows(size: int, *, alpha: Number, beta: Number) -> int:
    """Return 2 ln(2 |H| / beta) / alpha^2: rows for excess error alpha by uniform convergence at alpha / 2 (C2, C3)."""
    return hoeffding_rows(floor_probability("alpha", alpha) / 2, beta=beta, queries=count("size", size))


def rows_of_a_part(rows: int, *, parts: int) -> int:
    """Return floor(rows / parts); what is left over stays unused, whatever the rows hold (E10)."""
    n, r = count("rows", rows), count("parts", parts)
    if n < r:
        message = f"{r} parts need {r} rows or more; there are {n}"
        raise InsufficientSamples(message, required=r)
    return n // r


def find_cheapest(option: Callable[[int], Partition | None], *, least: Callable[[int], int]) -> Partition:
    """Return the option with the fewest rows among all numbers of parts up to 64 and a fine grid beyond.

    ``least(parts)`` is a number of rows that no option with this many parts or more goes below: the search ends there.
    """
    best: Partition | None = None

    def look(parts: int) -> None:
        nonlocal best
        found = option(parts)
        if found is not None and (best is None or found.rows < best.rows):
            best = found

    parts = 1
    while parts < _MOST_PARTS and (best is None or least(parts) < best.rows):
        look(parts)
        parts = parts + 1 if parts < _EVERY_UP_TO else math.ceil(parts * _GROWTH)
    if best is None:
        message = "no number of parts below 2^40 is enough; ask for less"
        raise InsufficientSamples(message, required=None)
    step = best.parts // 100 + 1
    while True:
        centre = best.parts
        for offset in range(1, 9):
            look(centre + offset * step)
            look(max(1, centre - offset * step))
        if step == 1:
            return best
        step = max(1, step // 8)


def _share(name: str, value: Number) -> float:
    return 1.0 if value == 1 else floor_probability(name, value)


def vote_probabilities(counts: Sequence[int], *, epsilon: Number) -> npt.NDArray[np.float64]:
    """Return the law of the answered label given the votes: softmax((epsilon / 2) votes), for two labels or more (E4).

    Guarantee: epsilon-DP and epsilon-bounded-range, since one row takes a vote from one label and gives it to another.
    The report's text says e^(epsilon votes), which is only 2 epsilon-DP; its proof uses half of that, as here.
    """
    votes = [count("counts", value, least=0) for value in counts]
    if len(votes) < 2 or sum(votes) == 0:  # noqa: PLR2004 - one label is no vote
        raise InvalidParameter("counts", votes, "the votes for two labels or more, at least one vote in all")
    exponents = floor_positive("epsilon", epsilon) / 2 * (np.array(votes, dtype=np.float64) - max(votes))
    weights = np.exp(exponents)
    return np.asarray(weights / weights.sum())


def soft_majority_loss(parts: int, *, rate: Number) -> float:
    """Return the exact privacy loss of one two-label answer with weights e^(rate votes) (E4).

    L = rate + ln(1 + e^(rate r)) - ln(e^rate + e^(rate (r - 1))), attained next to a unanimous vote. It is the rate
    itself for r = 1 and rises to twice the rate: with rate = epsilon / 2, at most epsilon.
    """
    r, x = count("parts", parts), floor_positive("rate", rate)
    # Both logarithms divided by their larger exponential, so that nothing overflows.
    top = x * r + math.log1p(math.exp(-x * r))
    larger, smaller = max(x, x * (r - 1)), min(x, x * (r - 1))
    return (x + top - larger - math.log1p(math.exp(smaller - larger))) * ROUNDING


def sharp_rate(parts: int, *, epsilon: Number) -> float:
    """Return the largest rate, between epsilon / 2 and epsilon, whose two-label loss is at most epsilon (E4).

    For one stand-alone prediction under pure epsilon only: the answer is then no longer epsilon-bounded-range, and a
    ledger would charge it as any epsilon-DP event, four times as much.
    """
    limit = floor_positive("epsilon", epsilon)
    return largest_float(lambda rate: soft_majority_loss(parts, rate=rate) <= limit, limit / 2, limit)


def soft_majority_error(parts: int, *, epsilon: Number, base_error: Number) -> float:
    """Return the largest error that soft majority can have when its r predictors have mean error ``base_error`` (E5).

    With j wrong votes the answer is wrong with probability g(j) = 1 / (1 + e^((epsilon / 2)(r - 2 j))), and all that is
    known of j over a random point is its mean, at most r base_error: the answer is the concave envelope of g there,
    attained by two values of j.
    """
    r, rate = count("parts", parts), floor_positive("epsilon", epsilon) / 2
    mean = float(probability("base_error", base_error, zero=True, one=True)) * r
    touching, slope = _steepest(r, rate)
    if mean <= touching:
        return min(1.0, (_wrong(0, r, rate) + mean * slope) * ROUNDING)
    below = min(math.floor(mean), r - 1)
    low, high = _wrong(below, r, rate), _wrong(below + 1, r, rate)
    return min(1.0, (low + (mean - below) * (high - low)) * ROUNDING)


def member_error(size: int, *, rows: int, parts: int, beta: Number) -> float:
    """Return a = 1 - (beta / (r (|H| - 1)))^(1 / m), which no member's error exceeds but with probability beta (V4.1).

    Each of r members is right on all of its own m rows. Needs: a hypothesis that is never wrong, the class fixed before any
    row is seen, and parts of independent rows.

    >>> round(member_error(100, rows=500, parts=20, beta=0.05), 4)
    0.021
    """
    return -math.expm1(-_member_exponent(size, rows, parts, beta)) * ROUNDING


def member_excess(size: int, *, rows: int, parts: int, beta: Number) -> float:
    """Return sqrt(1 - (beta / (r (|H| - 1)))^(2 / m)): no member errs more above the best of the class (V4.1).

    But with probability beta, where each of r members is the exact minimiser on its own m rows. It is N3's pair bound
    without privacy, at rate atanh alpha, over all parts. Needs: the class fixed before any row is seen, and parts of
    independent rows.

    >>> round(member_excess(100, rows=500, parts=20, beta=0.05), 4)
    0.2036
    """
    return min(1.0, math.sqrt(-math.expm1(-2 * _member_exponent(size, rows, parts, beta))) * ROUNDING)


def _member_exponent(size: int, rows: int, parts: int, beta: Number) -> float:
    members, m, r = count("size", size), count("rows", rows), count("parts", parts)
    if members == 1:
        return 0.0
    return (math.log(r) + math.log(members - 1) - math.log(floor_probability("beta", beta))) / m * ROUNDING


def largest_base_error(parts: int, *, epsilon: Number, alpha: Number) -> float:
    """Return the largest mean error of the predictors at which :func:`soft_majority_error` is at most alpha (E5).

    0 where even predictors that are never wrong are too few to outvote the noise.
    """
    r, rate = count("parts", parts), floor_positive("epsilon", epsilon) / 2
    target = floor_probability("alpha", alpha) / ROUNDING / ROUNDING
    touching, slope = _steepest(r, rate)
    if target <= _wrong(touching, r, rate):
        return max(0.0, min(1.0, (target - _wrong(0, r, rate) * ROUNDING) / (slope * r) / ROUNDING))
    if target >= _wrong(r, r, rate):
        return 1.0
    # Past the point of contact the envelope is g itself, joined by straight lines.
    below = min(max(math.floor((r + logit(target) / rate) / 2), touching), r - 1)
    low, high = _wrong(below, r, rate), _wrong(below + 1, r, rate)
    return min(1.0, (below + max(0.0, (target - low) / (high - low))) / r / ROUNDING)


def realizable_partition(*, alpha: Number, beta: Number, epsilon: Number, base_rows: BaseRows) -> Partition:
    """Return parts r and base error a with the fewest rows r m(a, beta / r) such that soft majority errs at most alpha.

    E5: with probability 1 - beta over the rows all r predictors have error at most a, and then
    Pr[answer != truth] <= :func:`soft_majority_error` <= alpha over a random point and the coins. ``base_rows(a, b)`` is
    what one predictor needs for error a with probability 1 - b. Seven to ten times fewer rows than the report's
    Theorem 1 (:func:`seed_partition`). Every partition looked at is valid; the search is exhaustive up to 64 parts.
    """
    limit, failure = floor_probability("alpha", alpha), floor_probability("beta", beta)
    privacy = floor_positive("epsilon", epsilon)

    def option(parts: int) -> Partition | None:
        error = largest_base_error(parts, epsilon=privacy, alpha=limit)
        return Partition(parts, error, base_rows(error, failure / parts)) if error > 0 else None

    # Below one half no base error can exceed alpha: a unanimous mistake is answered wrongly more often than not.
    most = limit if limit <= 0.5 else 1.0  # noqa: PLR2004
    return find_cheapest(option, least=lambda parts: parts * base_rows(most, failure / parts))


def seed_partition(*, alpha: Number, beta: Number, epsilon: Number, base_rows: BaseRows) -> Partition:
    """Return the report's Theorem 1: r = ceil(6 ln(4 / alpha) / epsilon) parts, n = r m(alpha / 4, beta / r) rows (E5).

    All r predictors are good with probability 1 - beta by a union bound (beta / r each, where the report says beta),
    a third of them err on a point with probability 3 alpha / 4 by Markov, and otherwise the noise errs with probability
    e^(-epsilon r / 6) <= alpha / 4. The statement prints m(delta / 4, beta / r).
    """
    limit = floor_probability("alpha", alpha)
    parts = rows_at_least(6 * math.log(4 / limit) / floor_positive("epsilon", epsilon))
    return Partition(parts, limit / 4, base_rows(limit / 4, floor_probability("beta", beta) / parts))


def prediction_lower_bound(dimension: int, *, alpha: Number, epsilon: Number) -> int:
    """Return the smallest number of rows that Theorem 2 of the report leaves possible (E6); for information only.

    Every (epsilon, epsilon / 3)-DP predictor of a class of VC dimension d, with error alpha <= 1/4 but with probability
    1/12, needs n > (d - 1) / (32 alpha epsilon); at alpha = 1/4, n > d / (8 epsilon). The report's proof bounds the
    error p_i by 1/2 where 1/3 is needed, and its tail step is false for every epsilon from 0.05 to 2.9;
    :func:`least_error` is the step that replaces it, for all epsilon.
    """
    d, error, privacy = count("dimension", dimension), probability("alpha", alpha), positive("epsilon", epsilon)
    if d < _LEAST_DIMENSION:
        message = f"Theorem 2 needs a VC dimension of 2 or above; got {d}, and 2 would do"
        raise PreconditionError(message)
    if error > _LARGEST_ALPHA:
        message = f"Theorem 2 needs alpha <= 1/4; got {float(error):g}, and 0.25 would do"
        raise PreconditionError(message)
    ruled_out = d / (8 * privacy) if error == _LARGEST_ALPHA else (d - 1) / (32 * error * privacy)
    return math.floor(ruled_out) + 1


def least_error(*, rows: int, points: int, epsilon: Number) -> float:
    """Return how often an (epsilon, epsilon / 3)-DP predictor errs at least, on one of this many random points (E6).

    With x copies of the point among the rows, group privacy gives 1 - e_x <= e^(epsilon x) e_x + delta_x with
    delta_x = x e^((x - 1) epsilon) epsilon / 3, so e_x >= (1 - delta_x) / (1 + e^(epsilon x)); averaged over
    x ~ Bin(n, 1 / points). Above 1/3 for n <= points / (8 epsilon), which is what Theorem 2 needs.
    """
    from scipy import special

    n, d, privacy = count("rows", rows, least=0), count("points", points), floor_positive("epsilon", epsilon)
    mean = n / d
    x = np.arange(min(n, math.ceil(mean + 40 * math.sqrt(mean) + 40)) + 1, dtype=np.float64)
    log_choose = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    masses = np.exp(log_choose - x * math.log(d) + special.xlog1py(n - x, -1 / d))
    slack = x * np.exp(np.minimum((x - 1) * privacy, 600)) * privacy / 3
    return float((masses * np.maximum(0, (1 - slack) * special.expit(-x * privacy))).sum()) / ROUNDING


def epsilon_each(predictions: int, *, mu: Number | None = None, rho: Number | None = None) -> float:
    """Return the epsilon of each of k predictions that together cost at most mu (GDP) or rho (zCDP) (E5, N4, T2b).

    2 logit Phi(mu / (2 sqrt k)), the epsilon whose bounded-range cost is mu / sqrt k; or sqrt(8 rho / k).
    """
    k = count("predictions", predictions)
    if (mu is None) == (rho is None):
        raise InvalidParameter("mu", mu, "given, or rho in its place, and not both")
    if mu is None:
        return math.sqrt(8 * floor_positive("rho", rho) / k) / ROUNDING
    share = floor_positive("mu", mu) / math.sqrt(k) / ROUNDING
    each = 2 * (log_cdf(share / 2) - log_cdf(-share / 2))
    while bounded_range_mu(each) > share:
        each /= 1 + 2.0**-40
    return each


def _wrong(j: int, parts: int, rate: float) -> float:
    """Return the probability of the wrong label when j of the votes are wrong."""
    return sigmoid(rate * (2 * j - parts))


@lru_cache(1 << 16)
def _steepest(parts: int, rate: float) -> tuple[int, float]:
    """Return j and the slope of the steepest line from (0, g(0)) to a later (j, g(j)): there the envelope leaves the line.

    g is concave from r / 2 on, so the slope rises and then falls there; before, it rises.
    """
    start = _wrong(0, parts, rate)

    def slope(j: int) -> float:
        return (_wrong(j, parts, rate) - start) / j

    low, high = max(1, parts // 2), parts
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if slope(middle + 1) > slope(middle) else (low, middle)
    return low, slope(low)

"""From privacy to the population by the older theorems (B1, D1, D2, D3, D5, T4, T8) and the report's (E18 to E21).

They are kept to compare with, and to fall back on: the default is :mod:`.transfer`, whose half-widths are 4 to 6 times
smaller at equal privacy. Rows are independent draws, privacy is under replace-one, and queries map a row to [0, 1].

Private evaluations, E18 to E21: M(S, z) in [0, B] is (epsilon, delta)-DP in S for each z; its value on a sample T is the
mean of E[M(S, z)] over z in T.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter, PreconditionError
from holdtrue.exact import (
    ROUNDING,
    Number,
    count,
    floor_probability,
    nonnegative,
    positive,
    probability,
    round_down,
    round_up,
)

FEWEST_ROWS = 768
"""Below this many rows no epsilon satisfies sqrt(12/rows) <= epsilon <= 1/8 (D1)."""
_LARGEST_EPSILON = 0.125
_NEWTON = 60
_MOST_MOMENTS = 1 << 20
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Within ``alpha``, except with probability ``beta``."""

    alpha: float
    beta: float


def expected_gap(queries: int, *, epsilon: Number) -> float:
    """Return a bound on |E[q(S) - q(D)]| for a query chosen from this many Laplace answers of privacy epsilon each (B1).

    The transcript's KL divergence between neighbours is at most queries (epsilon + e^-epsilon - 1), and its total variation,
    which bounds the gap, sqrt(KL/2) <= epsilon sqrt(queries)/2. Holds in expectation only. Source: lecture 16, opening.
    """
    each = round_up(positive("epsilon", epsilon))
    # e + exp(-e) - 1 cancels for a small e, where e^2/2 is as good and larger.
    divergence = count("queries", queries) * min(each * each / 2, each + math.expm1(-each) + 2.0**-52)
    return min(1.0, math.sqrt(divergence / 2) * ROUNDING)


def expected_gap_epsilon(tau: Number, *, queries: int) -> float:
    """Return the privacy per Laplace answer that keeps the expected gap at most tau: 2 tau / sqrt(queries).

    Lecture 16 prints tau / sqrt(queries rows): with that the noise, of scale sqrt(queries/rows) / tau, drowns the answer
    (B1, erratum 1).
    """
    return 2 * round_down(probability("tau", tau)) / math.sqrt(count("queries", queries)) / ROUNDING


def jung20(alpha: Number, *, beta: Number, epsilon: Number, delta: Number, total: Number) -> float:
    """Return alpha' such that every answer is within alpha' of the population, except with probability ``total`` (T4).

    Needs: answers clipped to [0, 1], all within alpha of the sample w.p. 1 - beta, and an (epsilon, delta)-DP transcript.
    For c, d > 0 with beta/c + delta/d = total, alpha' = alpha + e^epsilon - 1 + c + 2 d; the best split has
    c + 2 d = (sqrt(beta) + sqrt(2 delta))^2 / total. Source: Jung et al. 2020 (arXiv 1909.03577); the split is ours.
    """
    width, privacy = round_up(nonnegative("alpha", alpha)), round_up(nonnegative("epsilon", epsilon))
    failure, slack = round_up(probability("beta", beta, zero=True)), round_up(probability("delta", delta, zero=True))
    most = round_down(probability("total", total))
    return (width + math.expm1(privacy) + (math.sqrt(failure) + math.sqrt(2 * slack)) ** 2 / most) * ROUNDING


def bassily16(rows: int, *, epsilon: Number, delta: Number = 0) -> Guarantee:
    """Return a bound on |q(S) - q(D)| for a privately chosen q (D1).

    It is 6 epsilon, except with probability max(4 delta/epsilon, exp(-epsilon^2 rows/8)).

    Needs: rows >= 768, sqrt(12/rows) <= epsilon <= 1/8, delta <= epsilon/16, and q that moves by at most 1/rows between
    neighbours (means of [0, 1] values, and more); epsilon and delta are of everything q depends on. Source: lecture 19,
    theorem 1.1, after Bassily et al. 2016. The lecture prints sqrt(12/n) with an undefined n. The proof by repeated runs
    and a monitor leaves 0.55 epsilon to spare, and would do with 5 epsilon.
    """
    number = count("rows", rows)
    privacy, slack = positive("epsilon", epsilon), probability("delta", delta, zero=True)
    least = math.sqrt(12 / number)
    if number < FEWEST_ROWS:
        raise _unmet(needed=f"at least {FEWEST_ROWS} rows", given=f"rows = {number}", nearest=f"rows = {FEWEST_ROWS}")
    if privacy > _LARGEST_EPSILON:
        raise _unmet(needed="epsilon at most 1/8", given=f"epsilon = {float(privacy):g}", nearest="epsilon = 0.125")
    if float(privacy) < least * (1 - 2.0**-44):
        nearest = f"epsilon = {least * (1 + 1e-5):.6g}"
        raise _unmet(needed="epsilon at least sqrt(12/rows)", given=f"epsilon = {float(privacy):g}", nearest=nearest)
    if slack > privacy / 16:
        nearest = f"delta = {float(privacy / 16) * (1 - 1e-5):.6g}"
        raise _unmet(needed="delta at most epsilon/16", given=f"delta = {float(slack):g}", nearest=nearest)
    failure = max(round_up(4 * slack / privacy), math.exp(-round_down(privacy * privacy * number / 8)))
    return Guarantee(round_up(6 * privacy), min(1.0, failure * ROUNDING))


def _unmet(*, needed: str, given: str, nearest: str) -> PreconditionError:
    return PreconditionError(f"bassily16 needs {needed}; got {given}; the nearest that works is {nearest}")


def bassily16_gaussian(queries: int, *, epsilon: float, delta: float, sigma: float, beta: float) -> float:
    """Return a simultaneous half-width for Gaussian answers by the same monitor, its constants unrounded (D1, N1).

    Suppose some answer misses by more than alpha with probability above beta. Among T = 1/beta independent runs one
    does with probability 1 - (1 - beta)^T; a monitor who knows the population picks the worst answer of all. Its
    expected error is at most e^epsilon - 1 + T delta for the sample, plus sigma sqrt(2 ln(4 queries/delta)) + T delta
    for the noise of answers clipped to [0, 1]. Needs: an (epsilon, delta)-DP transcript, delta > 0. Any whole T would
    do.
    """
    runs = max(1, round(1 / beta))
    noise = sigma * math.sqrt(2 * (math.log(4 * queries) - math.log(delta)))
    return (math.expm1(epsilon) + 2 * runs * delta + noise) / -math.expm1(runs * math.log1p(-beta)) * ROUNDING


def lecture19(  # noqa: PLR0913 - every one is a number of the theorem
    rows: int, *, epsilon: Number, delta: Number, queries: int, noise_alpha: Number, noise_beta: Number
) -> Guarantee:
    """Return (6 epsilon + alpha, queries beta + max(4 delta/epsilon, exp(-epsilon^2 rows/8))) for all answers at once (D2).

    Needs: D1's preconditions on the (epsilon, delta) of the *whole* composition, and each answer within ``noise_alpha`` of
    its sample mean with probability 1 - ``noise_beta``. The worst answer is chosen by post-processing; the bound is on
    max_j (|a_j - q_j(S)| + |q_j(S) - q_j(D)|). Source: lecture 19, theorem 1.2, which omits the preconditions, drops the
    index of q_j(D) and puts the maximum over the first term alone.
    """
    gap = bassily16(rows, epsilon=epsilon, delta=delta)
    failure = count("queries", queries) * round_up(probability("noise_beta", noise_beta)) + gap.beta
    return Guarantee(
        (gap.alpha + round_up(nonnegative("noise_alpha", noise_alpha))) * ROUNDING, min(1.0, failure * ROUNDING)
    )


def lecture19_query_epsilon(epsilon: float, *, queries: int, delta: float) -> float:
    """Return the privacy that each query may have for (epsilon, delta) in total, by the better composition (D3).

    The larger of epsilon/queries and the solution e of e sqrt(2 queries ln(1/delta)) + queries e (exp(e) - 1) = epsilon.
    """
    spread = math.sqrt(2 * queries * -math.log(delta))
    each = epsilon / spread
    for _ in range(_NEWTON):
        grown = math.exp(each)
        excess = each * spread + queries * each * (grown - 1) - epsilon
        step = excess / (spread + queries * (grown - 1 + each * grown))
        each -= step
        if abs(step) <= 2.0**-48 * each:
            break
    return max(each / ROUNDING, epsilon / queries)


def lecture19_terms(
    queries: int, *, epsilon: float, gap_beta: float, noise_beta: float, delta: float | None = None
) -> tuple[float, float, float]:
    """Return (noise, gap, least): with Laplace answers alpha = noise/rows + gap for any number of rows >= least (D5, N2).

    epsilon is the whole transcript's, gap_beta the failure of theorem 1.1, noise_beta that of the noise; delta, unless a
    smaller one is given, is the largest that the theorem allows. gap = 6 epsilon, least = max(12, 8 ln(1/gap_beta)) /
    epsilon^2 and noise = ln(queries/noise_beta) / e, e the privacy of one query. Hence rows in O(sqrt(queries
    ln(1/(alpha beta))) ln(queries/beta) / alpha^2): lecture 19 drops the factor sqrt(ln(1/(alpha beta))), and prints
    4 delta/alpha and exp(-alpha^2 m/8) where 24 and 288 belong.
    """
    largest = epsilon * min(1 / 16, gap_beta / 4)
    delta = min(largest, delta) if delta else largest
    each = lecture19_query_epsilon(epsilon, queries=queries, delta=delta)
    least = max(12.0, -8 * math.log(gap_beta)) / (epsilon * epsilon)
    return (math.log(queries) - math.log(noise_beta)) / each * ROUNDING, 6 * epsilon * ROUNDING, least * ROUNDING


def information_factor(information: Number) -> float:
    """Return the least over 0 < t < 1 of (2 I - ln(1 - t)) / t: the u > 1 with u - ln u = 1 + 2 I (T8).

    E[(q(S) - q(D))^2] <= u / (4 rows) for the worst query an analyst with I nats about the sample can name.
    """
    wanted = 1 + 2 * round_up(nonnegative("information", information))
    u = wanted + math.log(wanted) + math.sqrt(2 * (wanted - 1))
    for _ in range(_NEWTON):
        step = (u - math.log(u) - wanted) / (1 - 1 / u) if u > 1 else 0.0
        u -= step
        if abs(step) <= 2.0**-46 * u:
            break
    return u * (1 + 2.0**-40)


def rrstww20(rows: int, *, information: Number, sigma: Number, queries: int, beta: Number) -> float:
    """Return a simultaneous half-width for Gaussian answers by mutual information: half of beta for each of two terms (T8).

    sqrt(u / (2 rows beta)) + sigma sqrt(2 ln(4 queries/beta)), u as in :func:`information_factor`. The information about the
    sample is at most rows times the zCDP cost, queries / (2 rows sigma^2); for means of [0, 1] values even
    queries / (8 rows sigma^2), since one row's value has a variance of at most 1/4. Source: Rogers et al. 2020 (arXiv
    1906.09231). Public code has half of the noise term: its tail is 0.139 where 0.025 is allowed.
    """
    failure, number = round_down(probability("beta", beta)), count("queries", queries)
    spread = math.sqrt(information_factor(information) / (2 * count("rows", rows) * failure))
    noise = round_up(nonnegative("sigma", sigma)) * math.sqrt(2 * (math.log(4 * number) - math.log(failure)))
    return (spread + noise) * ROUNDING


@dataclass(frozen=True, slots=True)
class EvaluationBound:
    """A bound on the value outside the sample, the moment it comes from, and the exponent of its factor."""

    bound: float
    order: int
    exponent: float


def expectation_bound(mean: Number, *, epsilon: Number, delta: Number = 0, bound: Number = 1) -> float:
    """Return e^epsilon E[V] + delta B, which E[U] never exceeds if U, V in [0, B] are (epsilon, delta)-close (E18).

    Lemma 5 of the report, by integrating Pr[U > t] over t in [0, B]. Attained where both are 0 or B.
    """
    value, limit = round_up(nonnegative("mean", mean)), round_up(positive("bound", bound))
    grown = math.exp(round_up(nonnegative("epsilon", epsilon))) * value
    return (grown + round_up(probability("delta", delta, zero=True)) * limit) * ROUNDING


def moment_bound(  # noqa: PLR0913 - the statement has these symbols
    values: Sequence[float] | npt.NDArray[np.generic],
    *,
    weights: Sequence[float] | npt.NDArray[np.generic],
    order: int,
    epsilon: Number,
    delta: Number = 0,
    bound: Number = 1,
) -> float:
    """Return e^(k^2 epsilon) E[(value on own sample + k delta B)^k], an upper bound on the k-th moment outside it (E20).

    ``values`` are the values of each sample on itself, ``weights`` the samples' law. k rows are exchanged
    between the two samples, which is group privacy of size k for each of k factors. Lemma 6 of the report prints ">=",
    and evaluates M on the sample without the exchange.
    """
    k, limit = count("order", order), round_up(positive("bound", bound))
    shift = k * round_up(probability("delta", delta, zero=True)) * limit
    own = np.asarray(values, dtype=np.float64)
    moment = float(np.asarray(weights, dtype=np.float64) @ (own + shift) ** k)
    return math.exp(k * k * round_up(nonnegative("epsilon", epsilon))) * moment * ROUNDING


def evaluation_exponent(epsilon: Number, *, beta: Number) -> tuple[float, int]:
    """Return the least k epsilon + ln(1 / beta) / k over whole k >= 1, and its k (E21).

    Near 2 sqrt(epsilon ln(1 / beta)), which Lemma 7 of the report prints and which needs a k that is whole.
    """
    privacy, log_odds = round_up(positive("epsilon", epsilon)), -math.log(floor_probability("beta", beta))
    middle = math.floor(math.sqrt(log_odds / privacy))
    best = min((k * privacy + log_odds / k, k) for k in {max(1, middle), middle + 1})
    return best[0] * ROUNDING, best[1]


def population_bound(
    alpha: Number, *, epsilon: Number, beta: Number, delta: Number = 0, bound: Number = 1
) -> EvaluationBound:
    """Return b with Pr[value on the population >= b] <= beta, if the value on the sample itself never exceeds alpha (E21).

    b = e^(k epsilon + ln(1 / beta) / k) (alpha + k delta B), the least over whole k: Markov's inequality on the k-th
    moment, :func:`moment_bound`. The same b holds for a fresh sample. Lemma 7 of the report has no k delta B and takes
    k = sqrt(ln(1 / beta) / epsilon) as if it were whole: it is false in both respects.
    """
    level, limit = round_up(nonnegative("alpha", alpha)), round_up(positive("bound", bound))
    privacy = round_up(nonnegative("epsilon", epsilon))
    slack, log_odds = round_up(probability("delta", delta, zero=True)), -math.log(floor_probability("beta", beta))
    if level + slack <= 0:
        raise InvalidParameter("alpha", alpha, "above 0 when delta is 0: a value of 0 or more is certain")

    def exponent(k: int) -> float:
        return k * privacy + log_odds / k

    def logarithm(k: int) -> float:
        return exponent(k) + math.log(level + k * slack * limit)

    # The derivative times k^2 rises with k, so the logarithm falls and then rises; every k is valid.
    low, high = 1, _MOST_MOMENTS
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if logarithm(middle + 1) < logarithm(middle) else (low, middle)
    return EvaluationBound(math.exp(min(logarithm(low), _LARGEST_EXPONENT)) * ROUNDING, low, exponent(low))

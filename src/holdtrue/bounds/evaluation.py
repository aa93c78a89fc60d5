"""Private evaluations: what a sample says about a private function's value on the population (E18-E21).

M(S, z) in [0, B] is (epsilon, delta)-DP in S for each z; its value on a sample T is the mean of E[M(S, z)] over z in T.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.sizes import ROUNDING, fraction
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, nonnegative, positive, probability, round_up

__all__ = ["Evaluation", "evaluation_exponent", "expectation_bound", "moment_bound", "population_bound"]

_MOST_MOMENTS = 1 << 20
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, slots=True)
class Evaluation:
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

    ``values`` are the values on the own sample for each sample, ``weights`` the samples' law. k rows are exchanged
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
    privacy, log_odds = round_up(positive("epsilon", epsilon)), -math.log(fraction("beta", beta))
    middle = math.floor(math.sqrt(log_odds / privacy))
    best = min((k * privacy + log_odds / k, k) for k in {max(1, middle), middle + 1})
    return best[0] * ROUNDING, best[1]


def population_bound(alpha: Number, *, epsilon: Number, beta: Number, delta: Number = 0, bound: Number = 1) -> Evaluation:
    """Return b with Pr[value on the population >= b] <= beta, if the value on the own sample never passes alpha (E21).

    b = e^(k epsilon + ln(1 / beta) / k) (alpha + k delta B), the least over whole k: Markov's inequality on the k-th
    moment, :func:`moment_bound`. The same b holds for a fresh sample. Lemma 7 of the report has no k delta B and takes
    k = sqrt(ln(1 / beta) / epsilon) as if it were whole: it is false in both respects.
    """
    level, limit = round_up(nonnegative("alpha", alpha)), round_up(positive("bound", bound))
    privacy = round_up(nonnegative("epsilon", epsilon))
    slack, log_odds = round_up(probability("delta", delta, zero=True)), -math.log(fraction("beta", beta))
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
    return Evaluation(math.exp(min(logarithm(low), _LARGEST_EXPONENT)) * ROUNDING, low, exponent(low))

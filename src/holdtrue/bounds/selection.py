"""How far a private choice may fall short of the best: the utility of the exponential mechanism (B5, N5)."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter
from holdtrue.exact import (
    ROUNDING,
    Number,
    count,
    floor_positive,
    floor_probability,
    nonnegative,
    positive,
    probability,
    round_up,
)

UTILITY = "utility of the exponential mechanism (B5)"
_NEAR = 1e-9


def selection_shortfall(  # noqa: PLR0913 - the statement has these symbols
    candidates: int,
    *,
    epsilon: Number,
    beta: Number,
    range: Number = 2,  # noqa: A002 - the word of the theory
    best: int = 1,
    sharp: bool = False,
) -> float:
    """Return s with Pr[score of the choice <= best score - s] <= beta (B5, N5).

    s = (R / epsilon) (ln(|Y| / |Y*|) + ln(1 / beta)) for |Y| candidates, of which ``best`` = |Y*| share the best score;
    R is the range of the scores, twice their sensitivity unless more is known. ``sharp`` puts |Y| - |Y*| in the place of
    |Y|. Needs: weights e^(epsilon score / R), candidates fixed before the rows are seen. Holds for these rows' scores,
    not for the population, and for permute-and-flip too. Where all candidates are best there is nothing to miss: 0.

    Source: Lecture 16, Theorem 0.2 (its f(E(...) lacks the bracket and the sample), and the score theorem of Lecture 4,
    which puts the bracket behind the wrong term and ends on e^t where e^-t is meant.
    """
    members, top = _best_of(candidates, best)
    if top == members:
        return 0.0
    spread = round_up(positive("range", range))
    log_odds = math.log(members - top if sharp else members) - math.log(top) - math.log(floor_probability("beta", beta))
    return max(0.0, spread / floor_positive("epsilon", epsilon) * log_odds * ROUNDING)


def selection_epsilon(
    candidates: int,
    *,
    shortfall: Number,
    beta: Number,
    range: Number = 2,  # noqa: A002 - the word of the theory
) -> float:
    """Return the smallest epsilon, up to rounding, at which :func:`selection_shortfall` is at most ``shortfall`` (N5).

    epsilon = (R / shortfall) (ln |Y| + ln(1 / beta)). One candidate needs no choice and so no epsilon.
    """
    members = count("candidates", candidates)
    if members == 1:
        raise InvalidParameter("candidates", members, "2 or above: a single candidate is chosen at no cost")
    spread = round_up(positive("range", range))
    log_odds = math.log(members) - math.log(floor_probability("beta", beta))
    return spread / floor_positive("shortfall", shortfall) * log_odds * ROUNDING * ROUNDING


def expected_shortfall(candidates: int, *, epsilon: Number, range: Number = 2) -> float:  # noqa: A002 - as above
    """Return (R / epsilon) ln |Y|, which best score - E[score of the choice] never exceeds (B5)."""
    members = count("candidates", candidates)
    return round_up(positive("range", range)) / floor_positive("epsilon", epsilon) * math.log(members) * ROUNDING


def selection_probabilities(scores: Sequence[float] | npt.NDArray[np.generic], *, rate: Number) -> npt.NDArray[np.float64]:
    """Return the law of the choice, softmax(rate * score): rate = epsilon / R; epsilon / 2 for error counts (B3, B6).

    It depends on the scores and so on the rows: for tests and rehearsals, never to be released.
    """
    exponents = float(positive("rate", rate)) * _finite("scores", scores)
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


def shared_agreement(
    first: Sequence[float] | npt.NDArray[np.generic], second: Sequence[float] | npt.NDArray[np.generic]
) -> float:
    """Return sum over y of 1 / sum over z of max(p_z / p_y, q_z / q_y): how often two picks with shared coins agree (V6.5).

    The picks are argmax ln p + G and argmax ln q + G with the same Gumbel noise G, every candidate its own. It is at least
    :func:`least_agreement` of the total variation between p and q.
    """
    p, q = _finite("first", first), _finite("second", second)
    if p.shape != q.shape or p.min() < 0 or q.min() < 0 or abs(p.sum() - 1) > _NEAR or abs(q.sum() - 1) > _NEAR:
        raise InvalidParameter.saying("second", "give two lists of probabilities of the same candidates, each with sum 1")
    shared = (p > 0) & (q > 0)
    return float(sum(1 / np.maximum(p / p[y], q / q[y]).sum() for y in np.flatnonzero(shared)))


def least_agreement(tv: Number) -> float:
    """Return (1 - t) / (1 + t): picks with shared coins agree at least so often where their laws are t apart (V6.5)."""
    apart = float(probability("tv", tv, zero=True, one=True))
    return (1 - apart) / (1 + apart)


def selection_tail(scores: Sequence[float] | npt.NDArray[np.generic], *, rate: Number, shortfall: Number) -> float:
    """Return the exact Pr[score of the choice <= best score - shortfall] for these scores (B5).

    By Theorem 0.2 it is at most (|Y| / |Y*|) e^(-rate shortfall). It depends on the rows: never to be released.
    """
    values = _finite("scores", scores)
    low = values <= values.max() - float(nonnegative("shortfall", shortfall))
    return float(selection_probabilities(values, rate=rate)[low].sum())


def _best_of(candidates: object, best: object) -> tuple[int, int]:
    members, top = count("candidates", candidates), count("best", best)
    if top > members:
        raise InvalidParameter("best", top, f"at most the number of candidates, {members}")
    return members, top


def _finite(name: str, values: Sequence[float] | npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidParameter(name, f"an array of shape {array.shape}", "one row of finite numbers, not empty")
    return array

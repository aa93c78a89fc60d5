"""Statistics that one row moves by at most c/rows, though they are not means of rows, and ratios of them (U5, U2.2)."""

import math

from holdtrue.errors import InvalidParameter
from holdtrue.exact import ROUNDING

__all__ = ["correlation_in_box", "gini_in_box", "low_sensitivity_gap", "low_sensitivity_interval", "r_squared_in_box"]

_LARGEST_EPSILON = 700.0
_CLOSE = 2.0**-44
Ends = tuple[float, float]


def low_sensitivity_gap(epsilon: float, slack: float) -> float:
    """Return gamma_c = tanh(epsilon/4) + 2 d/(1 + e^(epsilon/2)) for a slack d: how far a statistic may be off, over c.

    Law (U5): for statistics q of all rows, each moved by at most c/rows by one of them and determined by the transcript,
    |E[q(S) | transcript] - E q(S')| <= c gamma_c for all of them at once, S' a fresh sample of the same size; in one event
    with T6's intervals at the same frozen epsilon and d. Needs independent rows, alike or not. At d = 0 it is attained.

    >>> round(low_sensitivity_gap(1, 0.01), 8)
    0.25246948
    """
    if slack >= 1 or epsilon > _LARGEST_EPSILON:
        return 1.0
    return min(1.0, (math.tanh(epsilon / 4) + 2 * slack / (1 + math.exp(epsilon / 2))) * ROUNDING)


def low_sensitivity_interval(  # noqa: PLR0913 - one answer, and what is frozen
    answer: float, *, sensitivity: float, noise: float, epsilon: float, slack: float, span: Ends
) -> Ends:
    """Return ends for the expected statistic of a fresh sample of the same size: answer +- c (noise + gamma_c), cut to span.

    ``noise`` is the box of a plain answer: the statistic was released at a plain answer's price with c times its noise. On
    plans with one beta the slack is that of S1 b, since the test multiplies noise by (1 + e^(epsilon/2))/2 <= e^epsilon.
    """
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise InvalidParameter("sensitivity", sensitivity, "a finite number above 0")
    half = sensitivity * (noise + low_sensitivity_gap(epsilon, slack)) * ROUNDING
    clipped = min(max(answer, span[0]), span[1])
    return max(span[0], clipped - half), min(span[1], clipped + half)


def correlation_in_box(covariance: Ends, first: Ends, second: Ends) -> Ends:
    """Return ends for covariance/sqrt(first second), each known to be in an interval; -1 or 1 where a variance may be 0."""
    # Roots first: the product of two small variances may be too small for a float to hold.
    least, most = (math.sqrt(max(0.0, first[side])) * math.sqrt(max(0.0, second[side])) for side in (0, 1))

    def divide(top: float, *, upward: bool) -> float:
        under = least if (top > 0) == upward else most
        return top / under if under > 0 else math.copysign(1.0, 1.0 if upward else -1.0)

    low, high = divide(covariance[0], upward=False) - _CLOSE, divide(covariance[1], upward=True) + _CLOSE
    return min(1.0, max(-1.0, low)), min(1.0, max(-1.0, high))


def gini_in_box(difference: Ends, mean: Ends) -> Ends:
    """Return ends for difference/(2 mean): the mean difference of two values that are not negative, over twice their mean.

    It is at most 1, and that is its upper end where the mean may be 0.
    """
    low = difference[0] / (2 * mean[1]) if mean[1] > 0 else 0.0
    high = difference[1] / (2 * mean[0]) if mean[0] > 0 else 1.0
    return min(1.0, max(0.0, low - _CLOSE)), min(1.0, high + _CLOSE)


def r_squared_in_box(error: Ends, variance: Ends) -> Ends:
    """Return ends for 1 - error/variance, the explained share of a variance, told as -1 where it is below -1."""
    low = 1 - error[1] / variance[0] if variance[0] > 0 else -1.0
    high = 1 - error[0] / variance[1] if variance[1] > 0 else 1.0 if error[0] <= 0 else -1.0
    return max(-1.0, min(1.0, low - _CLOSE)), max(-1.0, min(1.0, high + _CLOSE))

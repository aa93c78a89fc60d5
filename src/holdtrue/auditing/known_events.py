"""Events that tell the planted faults, with their exact probabilities: closed forms, and integrals in one variable.

Noise on the grid of 2^-20 is treated as continuous: that moves a probability by less than 1e-6 of itself.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.outputs import Outputs
from holdtrue.auditing.powers import Telling

__all__ = [
    "tell_count",
    "tell_first_above",
    "tell_float",
    "tell_gaussian",
    "tell_histogram",
    "tell_maximum",
    "tell_released",
    "tell_reused",
    "tell_unstopped",
    "tell_variety",
    "tell_votes",
]

_Booleans = npt.NDArray[np.bool_]
_Values = Sequence[float]
_ABSOLUTE, _RELATIVE, _PIECES = 1e-13, 1e-11, 200
_FAR = 60.0
_HALF = 5  # the pairs move the first five of ten values one way and the last five the other
_LATTICE = 2.0**53


def _matrix(outputs: Outputs) -> npt.NDArray[np.float64]:
    return np.asarray(outputs, dtype=np.float64)


def _laplace_below(value: float, scale: float) -> float:
    """Return the probability that Laplace noise is below a value."""
    tail = math.exp(-abs(value) / scale) / 2
    return tail if value < 0 else 1 - tail


def _quad(integrand: Callable[[float], float], low: float, high: float) -> float:
    from scipy import integrate

    return float(integrate.quad(integrand, low, high, epsabs=_ABSOLUTE, epsrel=_RELATIVE, limit=_PIECES)[0])


def _integral(integrand: Callable[[float], float], scale: float, *, kinks: _Values, end: float | None = None) -> float:
    """Integrate over the real line, or up to an end: in pieces, between which integrands have kinks."""
    top = _FAR * scale if end is None else end
    marks = (-_FAR * scale, -8 * scale, -2 * scale, *kinks, 2 * scale, 8 * scale)
    edges = sorted({*(mark for mark in marks if mark < top), top})
    pieces = (_quad(integrand, low, high) for low, high in pairwise(edges))
    return float(sum(pieces))


def tell_count(*, epsilon: float, moved: int) -> Telling:
    """Tell discrete Laplace noise of rate epsilon on each of ``moved`` counts, which a neighbour moves by one."""
    ratio = math.exp(-epsilon)
    likely = (1 / (1 + ratio)) ** moved

    def happened(outputs: Outputs) -> _Booleans:
        if moved == 1:
            return _matrix(outputs) <= 0
        found: _Booleans = (_matrix(outputs)[:, 0] <= _HALF) & (_matrix(outputs)[:, 1] >= _HALF)
        return found

    words = "the output is at most 0" if moved == 1 else "output 1 is at most 5 and output 2 at least 5"
    return Telling(words, "left", likely, likely * ratio**moved, happened)


def tell_reused() -> Telling:
    """Tell two answers of 5 that share one draw of noise from answers of 6 and 5."""
    return Telling("both outputs are equal", "left", 1.0, 0.0, lambda out: _matrix(out)[:, 0] == _matrix(out)[:, 1])


def tell_float() -> Telling:
    """Tell 0 + x from 1 + x in double precision, x Laplace noise of scale 10.

    1 + x is a multiple of 2^-53 for every double x: where |x| >= 1/2 both are, and elsewhere the sum is rounded to one. A
    double x in [2^(-k-1), 2^-k) is a multiple of 2^(-53-k), and for k >= 1 mostly of nothing coarser. That it is no multiple
    of 2^-53 has no closed form: it happened in 290,688 of 10^7 draws, and is put 5 standard deviations lower.
    """

    def happened(outputs: Outputs) -> _Booleans:
        scaled = _matrix(outputs) * _LATTICE
        found: _Booleans = scaled != np.round(scaled)
        return found

    return Telling("the output is no multiple of 2^-53", "left", 0.0288, 0.0, happened)


def tell_votes(*, epsilon: float) -> Telling:
    """Tell votes of (4, 4) from (3, 5), weighted e^(epsilon count)."""
    unlikely = 1 / (1 + math.exp(2 * epsilon))
    return Telling("the output is 0", "left", 0.5, unlikely, lambda out: _matrix(out) == 0)


def tell_gaussian(*, sigma: float, cut: float) -> Telling:
    """Tell normal noise around 0 from normal noise around 1."""
    from scipy import special

    likely, unlikely = (float(special.ndtr(-(cut - middle) / sigma)) for middle in (1.0, 0.0))
    return Telling(f"the output is at least {cut:g}", "right", likely, unlikely, lambda out: _matrix(out) >= cut)


def tell_histogram(*, scale: float) -> Telling:
    """Tell Laplace noise around 1 from Laplace noise around 0 in the first of several numbers."""
    cut = 0.5
    likely = _laplace_below(cut, scale)
    return Telling(f"output 1 is at least {cut:g}", "left", likely, 1 - likely, lambda out: _matrix(out)[:, 0] >= cut)


def tell_maximum(*, scale: float, one_sided: bool, cut: float) -> Telling:
    """Tell the largest of five noisy ones from that of five noisy twos."""

    def below(value: float) -> float:
        single = max(0.0, -math.expm1(-value / scale)) if one_sided else _laplace_below(value, scale)
        return float(single**_HALF)

    return Telling(f"the output is below {cut:g}", "left", below(cut - 1), below(cut - 2), lambda out: _matrix(out) < cut)


def _sides() -> tuple[_Values, _Values]:
    """Return the pair of the above-threshold variants: ten ones; five twos and five zeros."""
    return [1.0] * 2 * _HALF, [2.0] * _HALF + [0.0] * _HALF


def _threshold_law(threshold: float, scale: float) -> Callable[[float], float]:
    return lambda t: math.exp(-abs(t - threshold) / scale) / (2 * scale)


def tell_first_above(*, threshold_scale: float, value_scale: float) -> Telling:
    """Tell which of ten values is first above a noisy threshold of 1: one of the sixth to the ninth."""
    density = _threshold_law(1.0, threshold_scale)

    def chance(values: _Values) -> float:
        def integrand(t: float) -> float:
            below = [_laplace_below(t - value, value_scale) for value in values]
            return density(t) * (math.prod(below[:_HALF]) - math.prod(below[: 2 * _HALF - 1]))

        return _integral(integrand, threshold_scale, kinks=(0.0, 1.0, 2.0))

    def happened(outputs: Outputs) -> _Booleans:
        found: _Booleans = (_matrix(outputs)[:, _HALF : 2 * _HALF - 1] == 1).any(axis=1)
        return found

    left, right = _sides()
    return Telling("the first above is one of outputs 6 to 9", "left", chance(left), chance(right), happened)


def tell_released(*, scale: float, cut: float) -> Telling:
    """Tell above-threshold that releases the value it compared: five below, then a value above that is still small."""
    density = _threshold_law(1.0, scale)

    def chance(values: _Values) -> float:
        def integrand(t: float) -> float:
            below = [_laplace_below(t - value, scale) for value in values]
            between = [max(0.0, _laplace_below(cut - value, scale) - low) for value, low in zip(values, below, strict=True)]
            return density(t) * sum(math.prod(below[:place]) * between[place] for place in range(_HALF, 2 * _HALF))

        return _integral(integrand, scale, kinks=(0.0, 1.0, 2.0), end=cut)

    def happened(outputs: Outputs) -> _Booleans:
        matrix = _matrix(outputs)
        below = np.isnan(matrix[:, :_HALF]).all(axis=1)
        small = (np.isfinite(matrix) & (matrix < cut)).any(axis=1)
        return np.logical_and(below, small)

    left, right = _sides()
    words = f"the first five are below and one of the others is released, below {cut:g}"
    return Telling(words, "left", chance(left), chance(right), happened)


def tell_variety(*, threshold_scale: float) -> Telling:
    """Tell values without noise: all ones are on one side of the threshold, twos and zeros need not be."""
    apart = -math.expm1(-1 / threshold_scale)
    return Telling("the outputs differ", "right", apart, 0.0, lambda out: np.ptp(_matrix(out), axis=1) > 0)


def tell_unstopped(*, scale: float, apart: int) -> Telling:
    """Tell above-threshold that never stops: by so many more above among the first five than among the last five."""
    density = _threshold_law(1.0, scale)

    def chance(values: _Values) -> float:
        def integrand(t: float) -> float:
            first, last = (_binomial(1 - _laplace_below(t - value, scale)) for value in (values[0], values[-1]))
            pairs = ((j, k) for j in range(_HALF + 1) for k in range(_HALF + 1) if j - k >= apart)
            return density(t) * sum(first[j] * last[k] for j, k in pairs)

        return _integral(integrand, scale, kinks=(0.0, 1.0, 2.0))

    def happened(outputs: Outputs) -> _Booleans:
        above = _matrix(outputs) == 1
        found: _Booleans = above[:, :_HALF].sum(axis=1) - above[:, _HALF:].sum(axis=1) >= apart
        return found

    left, right = _sides()
    words = f"{apart} more of outputs 1 to 5 than of outputs 6 to 10 are above"
    return Telling(words, "right", chance(right), chance(left), happened)


def _binomial(share: float) -> list[float]:
    return [math.comb(_HALF, k) * share**k * (1 - share) ** (_HALF - k) for k in range(_HALF + 1)]

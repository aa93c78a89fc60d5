"""Planted faults: mechanisms whose claims are wrong, each in a way that has been shipped.

They are the controls of ``holdtrue audit self``: an audit that does not find one has no power for it. Each has ``run``,
what it claims, a pair of neighbours that gives it away, why it is wrong, and an event that tells it, with exact
probabilities (closed forms, and integrals in one variable): from these follows how surely it is found. Those that concern
Holdtrue's own laws draw their noise from Holdtrue's exact samplers, so that nothing but the fault is wrong with them. Those
of the published zoo claim epsilon 1 here, in place of 0.1: the same fault shows in a hundredth of the samples. Noise on the
grid of 2^-20 is treated as continuous: that moves a probability by less than 1e-6 of itself.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.catalogue.mechanism import AuditedMechanism, TellingEvent, draw_laplace
from holdtrue.auditing.catalogue.zoo import float_laplace, make_pair, noisy_max, svt_law
from holdtrue.auditing.search.confidence_bounds import Floats
from holdtrue.auditing.search.outputs import Outputs
from holdtrue.entropy import Bits
from holdtrue.noise.samplers import discrete_laplace, rounded_gaussian
from holdtrue.noise.selection import gumbel_argmax

__all__ = ["FAULTS"]

_Integers = npt.NDArray[np.int64]
_Booleans = npt.NDArray[np.bool_]
_UNIT = 1024  # counts are in parts of this, a power of two, so that the noise of the Gaussian fault is nearly continuous
_EPSILON, _SLACK = 0.1, 1e-3
_SIGMA: Final = math.sqrt(math.log(1 / _SLACK) / _EPSILON)
_HALF = 5  # the pairs move the first five of ten values one way and the last five the other
_ONES, _MOVED = [1.0] * 2 * _HALF, [2.0] * _HALF + [0.0] * _HALF
_ABSOLUTE, _RELATIVE, _PIECES = 1e-13, 1e-11, 200
_FAR = 60.0
_LATTICE = 2.0**53


def _add_half_noise(data: int, count: int, bits: Bits) -> _Integers:
    return data + discrete_laplace(Fraction(1, 2), size=count, bits=bits)


def _add_noise_for_one(data: _Integers, count: int, bits: Bits) -> _Integers:
    return data + discrete_laplace(1, size=count * data.size, bits=bits).reshape(count, data.size)


def _share_one_draw(data: _Integers, count: int, bits: Bits) -> _Integers:
    return data + discrete_laplace(4, size=count, bits=bits)[:, None]


def _draw_votes(data: _Integers, count: int, bits: Bits) -> _Integers:
    return gumbel_argmax(np.tile(data, (count, 1)), rate=Fraction(1), bits=bits)


def _add_misprinted_noise(data: int, count: int, bits: Bits) -> Floats:
    return np.add(data, rounded_gaussian(_SIGMA * _UNIT, size=count, bits=bits) / _UNIT)


def _add_wrong_scale(data: Floats, count: int, bits: Bits) -> Floats:
    return np.add(data, draw_laplace(_EPSILON, (count, data.size), bits))


def _to_matrix(outputs: Outputs) -> Floats:
    return np.asarray(outputs, dtype=np.float64)


def _laplace_below(value: float, scale: float) -> float:
    """Return the probability that Laplace noise is below a value."""
    tail = math.exp(-abs(value) / scale) / 2
    return tail if value < 0 else 1 - tail


def _integrate_over_threshold(integrand: Callable[[float], float], scale: float, *, end: float | None = None) -> float:
    """Integrate over the law of a threshold of 1 with Laplace noise, or up to an end; values 0, 1 and 2 give kinks."""
    from scipy import integrate

    def weighted(t: float) -> float:
        return integrand(t) * math.exp(-abs(t - 1) / scale) / (2 * scale)

    top = _FAR * scale if end is None else end
    marks = (-_FAR * scale, -8 * scale, -2 * scale, 0.0, 1.0, 2.0, 2 * scale, 8 * scale)
    edges = sorted({*(mark for mark in marks if mark < top), top})
    quad = partial(integrate.quad, weighted, epsabs=_ABSOLUTE, epsrel=_RELATIVE, limit=_PIECES)
    return float(sum(quad(low, high)[0] for low, high in pairwise(edges)))


def _tell_count() -> TellingEvent:
    """Tell discrete Laplace noise of rate 2 around 0 from that around 1."""
    likely = 1 / (1 + math.exp(-2))
    return TellingEvent("the output is at most 0", "left", likely, 1 - likely, lambda out: _to_matrix(out) <= 0)


def _tell_counts() -> TellingEvent:
    """Tell discrete Laplace noise of rate 1 on two counts, which a neighbour moves by one each."""

    def happened(outputs: Outputs) -> _Booleans:
        return np.logical_and(_to_matrix(outputs)[:, 0] <= _HALF, _to_matrix(outputs)[:, 1] >= _HALF)

    likely = (1 / (1 + math.exp(-1))) ** 2
    return TellingEvent("output 1 is at most 5 and output 2 at least 5", "left", likely, likely * math.exp(-2), happened)


def _tell_reused() -> TellingEvent:
    """Tell two answers of 5 that share one draw of noise from answers of 6 and 5."""
    return TellingEvent(
        "both outputs are equal", "left", 1.0, 0.0, lambda out: _to_matrix(out)[:, 0] == _to_matrix(out)[:, 1]
    )


def _tell_float() -> TellingEvent:
    """Tell 0 + x from 1 + x in double precision, x Laplace noise of scale 10.

    1 + x is a multiple of 2^-53 for every double x: where |x| >= 1/2 both are, and elsewhere the sum is rounded to one. A
    double x in [2^(-k-1), 2^-k) is a multiple of 2^(-53-k), and for k >= 1 mostly of nothing coarser. That it is no multiple
    of 2^-53 has no closed form: it happened in 290,688 of 10^7 draws, and is put 5 standard deviations lower.
    """

    def happened(outputs: Outputs) -> _Booleans:
        scaled = _to_matrix(outputs) * _LATTICE
        return np.not_equal(scaled, np.round(scaled))

    return TellingEvent("the output is no multiple of 2^-53", "left", 0.0288, 0.0, happened)


def _tell_votes() -> TellingEvent:
    """Tell votes of (4, 4) from (3, 5), weighted e^count."""
    return TellingEvent("the output is 0", "left", 0.5, 1 / (1 + math.exp(2)), lambda out: _to_matrix(out) == 0)


def _tell_gaussian(*, cut: float) -> TellingEvent:
    """Tell normal noise around 0 from normal noise around 1."""
    from scipy import special

    likely, unlikely = (float(special.ndtr(-(cut - middle) / _SIGMA)) for middle in (1.0, 0.0))
    return TellingEvent(f"the output is at least {cut:g}", "right", likely, unlikely, lambda out: _to_matrix(out) >= cut)


def _tell_histogram() -> TellingEvent:
    """Tell Laplace noise around 1 from Laplace noise around 0 in the first of several numbers."""
    cut = 0.5
    likely = _laplace_below(cut, _EPSILON)
    words = f"output 1 is at least {cut:g}"
    return TellingEvent(words, "left", likely, 1 - likely, lambda out: _to_matrix(out)[:, 0] >= cut)


def _tell_maximum(*, scale: float, one_sided: bool, cut: float) -> TellingEvent:
    """Tell the largest of five noisy ones from that of five noisy twos."""

    def below(value: float) -> float:
        single = max(0.0, -math.expm1(-value / scale)) if one_sided else _laplace_below(value, scale)
        return float(single**_HALF)

    words = f"the output is below {cut:g}"
    return TellingEvent(words, "left", below(cut - 1), below(cut - 2), lambda out: _to_matrix(out) < cut)


def _tell_first_above(*, threshold_scale: float, value_scale: float) -> TellingEvent:
    """Tell which of ten values is first above a noisy threshold of 1: one of the sixth to the ninth."""

    def chance(values: Sequence[float]) -> float:
        def integrand(t: float) -> float:
            below = [_laplace_below(t - value, value_scale) for value in values]
            return math.prod(below[:_HALF]) - math.prod(below[: 2 * _HALF - 1])

        return _integrate_over_threshold(integrand, threshold_scale)

    def happened(outputs: Outputs) -> _Booleans:
        return np.asarray((_to_matrix(outputs)[:, _HALF : 2 * _HALF - 1] == 1).any(axis=1))

    return TellingEvent("the first above is one of outputs 6 to 9", "left", chance(_ONES), chance(_MOVED), happened)


def _tell_released(*, scale: float, cut: float) -> TellingEvent:
    """Tell above-threshold that releases the value it compared: five below, then a value above that is still small."""

    def chance(values: Sequence[float]) -> float:
        def integrand(t: float) -> float:
            below = [_laplace_below(t - value, scale) for value in values]
            between = [max(0.0, _laplace_below(cut - value, scale) - low) for value, low in zip(values, below, strict=True)]
            return sum(math.prod(below[:place]) * between[place] for place in range(_HALF, 2 * _HALF))

        return _integrate_over_threshold(integrand, scale, end=cut)

    def happened(outputs: Outputs) -> _Booleans:
        matrix = _to_matrix(outputs)
        small = (np.isfinite(matrix) & (matrix < cut)).any(axis=1)
        return np.logical_and(np.isnan(matrix[:, :_HALF]).all(axis=1), small)

    words = f"the first five are below and one of the others is released, below {cut:g}"
    return TellingEvent(words, "left", chance(_ONES), chance(_MOVED), happened)


def _tell_variety(*, threshold_scale: float) -> TellingEvent:
    """Tell values without noise: all ones are on one side of the threshold, twos and zeros need not be."""
    apart = -math.expm1(-1 / threshold_scale)
    return TellingEvent("the outputs differ", "right", apart, 0.0, lambda out: np.ptp(_to_matrix(out), axis=1) > 0)


def _tell_unstopped(*, scale: float, apart: int) -> TellingEvent:
    """Tell above-threshold that never stops: by ``apart`` more above among the first five than among the last five."""
    counts = range(_HALF + 1)

    def chance(values: Sequence[float]) -> float:
        def integrand(t: float) -> float:
            shares = (1 - _laplace_below(t - value, scale) for value in (values[0], values[-1]))
            first, last = ([math.comb(_HALF, k) * x**k * (1 - x) ** (_HALF - k) for k in counts] for x in shares)
            return sum(first[j] * last[k] for j in counts for k in counts if j - k >= apart)

        return _integrate_over_threshold(integrand, scale)

    def happened(outputs: Outputs) -> _Booleans:
        above = _to_matrix(outputs) == 1
        return np.asarray(above[:, :_HALF].sum(axis=1) - above[:, _HALF:].sum(axis=1) >= apart)

    words = f"{apart} more of outputs 1 to 5 than of outputs 6 to 10 are above"
    return TellingEvent(words, "right", chance(_MOVED), chance(_ONES), happened)


_fault = partial(AuditedMechanism, "planted faults")
_MANY, _ALL = make_pair(5, 10), make_pair(6, 5)

FAULTS: tuple[AuditedMechanism, ...] = (
    _fault(
        "half the noise",
        _add_half_noise,
        (0, 1),
        1.0,
        "discrete Laplace noise of scale 1 / (2 epsilon)",
        truth=2.0,
        telling=_tell_count,
    ),
    _fault(
        "sensitivity off by one",
        _add_noise_for_one,
        (np.array([5, 5, 5]), np.array([6, 4, 5])),
        1.0,
        "replacing a row moves two counts of a histogram; the scale allows for one (THEORY 0.2)",
        truth=2.0,
        telling=_tell_counts,
    ),
    _fault(
        "noise reused",
        _share_one_draw,
        (np.array([5, 5]), np.array([6, 5])),
        0.5,
        "two answers share one draw, so that their difference has no noise",
        truth=math.inf,
        telling=_tell_reused,
    ),
    _fault(
        "float noise",
        float_laplace,
        (0.0, 1.0),
        0.1,
        "floating-point noise lies on a lattice that depends on what it was added to (THEORY 0.7)",
        truth=math.inf,
        telling=_tell_float,
    ),
    _fault(
        "votes weighted e^(epsilon count)",
        _draw_votes,
        (np.array([4, 4]), np.array([3, 5])),
        1.0,
        "moving a vote changes two counts: the weight must be e^(epsilon count / 2) (THEORY E4)",
        truth=math.log((1 + math.exp(2)) / 2),  # Pr[first] = 1/2 and 1 / (1 + e^2)
        telling=_tell_votes,
    ),
    _fault(
        "misprinted Gaussian variance",
        _add_misprinted_noise,
        (0, 1),
        _EPSILON,
        "variance sensitivity ln(1 / delta) / epsilon in place of the analytic one (THEORY A7)",
        delta=_SLACK,
        least=10**6,
        telling=partial(_tell_gaussian, cut=8.0),
    ),
    _fault(
        "above threshold with too little noise on values",
        svt_law(4, 4 / 3, 1),
        _MANY,
        1.0,
        "the threshold's noise is fresh, but values get too little noise for both ways they can move",
        least=150_000,
        telling=partial(_tell_first_above, threshold_scale=4.0, value_scale=4 / 3),
    ),
    _fault(
        "above threshold that releases what it compared",
        svt_law(2, 2, 1, release="value"),
        _MANY,
        1.0,
        "the threshold's noise is fresh, but an above releases the very value that was compared",
        least=150_000,
        telling=partial(_tell_released, scale=2.0, cut=3.0),
    ),
    _fault(
        "above threshold without noise on values",
        svt_law(2, 0, None),
        _MANY,
        1.0,
        "values get no noise, and no above ends the run",
        truth=math.inf,
        telling=partial(_tell_variety, threshold_scale=2.0),
    ),
    _fault(
        "above threshold that never stops",
        svt_law(2, 2, None),
        _MANY,
        1.0,
        "no above ends the run",
        telling=partial(_tell_unstopped, scale=2.0, apart=3),
    ),
    _fault(
        "noisy max that returns the value",
        partial(noisy_max, one_sided=False, value=True, scale=2),
        _ALL,
        1.0,
        "the largest noisy value is released, not only whose it is",
        truth=2.5,
        telling=partial(_tell_maximum, scale=2.0, one_sided=False, cut=1.5),
    ),
    _fault(
        "noisy max that returns the value, one-sided noise",
        partial(noisy_max, one_sided=True, value=True, scale=2),
        _ALL,
        1.0,
        "the largest value is released under one-sided noise, below which no value can fall",
        truth=math.inf,
        telling=partial(_tell_maximum, scale=2.0, one_sided=True, cut=3.0),
    ),
    _fault(
        "histogram with the wrong scale",
        _add_wrong_scale,
        make_pair(1, 5),
        _EPSILON,
        "the scale is epsilon where it must be 1 / epsilon",
        truth=10.0,
        telling=_tell_histogram,
    ),
)
"""Every one is found by :meth:`~holdtrue.auditing.catalogue.mechanism.AuditedMechanism.audit` with ``least`` samples, at the
confidence of ``holdtrue audit self``, with a power above :data:`~holdtrue.auditing.catalogue.mechanism.POWER`."""

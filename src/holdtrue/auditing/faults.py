"""A public gallery of planted faults: mechanisms whose claims are wrong, each in a way that somebody has shipped.

They are the controls of ``holdtrue audit self``: an audit that does not find one has no power for it. Each has ``run``, what
it claims, a pair of neighbours that gives it away, why it is wrong, and an event that tells it, with exact probabilities:
from these follows how surely it is found (:mod:`holdtrue.auditing.powers`). Those that concern Holdtrue's own laws draw
their noise from Holdtrue's exact samplers, so that nothing but the fault is wrong with them. Those of the published zoo
claim epsilon 1 here, in place of 0.1: the same fault shows in a hundredth of the samples.
"""

import math
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from holdtrue.auditing import known_events as known
from holdtrue.auditing.exhibits import Exhibit, laplaces
from holdtrue.auditing.limits import Floats
from holdtrue.auditing.zoo import above_threshold, float_laplace, noisy_max, pair
from holdtrue.entropy import Bits
from holdtrue.noise import discrete_laplace, gumbel_argmax, rounded_gaussian

__all__ = ["FAULTS"]

_Integers = npt.NDArray[np.int64]
_UNIT = 1024  # counts are in parts of this, a power of two, so that the noise of the Gaussian fault is nearly continuous


def _half_noise(data: int, count: int, bits: Bits) -> _Integers:
    return data + discrete_laplace(Fraction(1, 2), size=count, bits=bits)


def _one_short(data: _Integers, count: int, bits: Bits) -> _Integers:
    return data + discrete_laplace(1, size=count * data.size, bits=bits).reshape(count, data.size)


def _reused(data: _Integers, count: int, bits: Bits) -> _Integers:
    return data + discrete_laplace(4, size=count, bits=bits)[:, None]


def _votes(data: _Integers, count: int, bits: Bits) -> _Integers:
    return gumbel_argmax(np.tile(data, (count, 1)), rate=Fraction(1), bits=bits)


def _misprinted(data: int, count: int, bits: Bits) -> Floats:
    found: Floats = data + rounded_gaussian(_SIGMA * _UNIT, size=count, bits=bits) / _UNIT
    return found


def _wrong_scale(data: Floats, count: int, bits: Bits) -> Floats:
    found: Floats = data + laplaces(_EPSILON, (count, data.size), bits)
    return found


_SMALL_EPSILON, _SLACK = 0.1, 1e-3
_SIGMA = math.sqrt(math.log(1 / _SLACK) / _SMALL_EPSILON)
_EPSILON: Final = 0.1
_MANY, _ALL = pair(5, 10), pair(6, 5)

FAULTS: tuple[Exhibit, ...] = (
    Exhibit(
        "half the noise",
        _half_noise,
        0,
        1,
        1.0,
        "discrete Laplace noise of scale 1 / (2 epsilon)",
        truth=2.0,
        telling=partial(known.tell_count, epsilon=2.0, moved=1),
    ),
    Exhibit(
        "sensitivity off by one",
        _one_short,
        np.array([5, 5, 5]),
        np.array([6, 4, 5]),
        1.0,
        "replacing a row moves two counts of a histogram; the scale allows for one (THEORY 0.2)",
        truth=2.0,
        telling=partial(known.tell_count, epsilon=1.0, moved=2),
    ),
    Exhibit(
        "noise reused",
        _reused,
        np.array([5, 5]),
        np.array([6, 5]),
        0.5,
        "two answers share one draw, so that their difference has no noise",
        truth=math.inf,
        telling=known.tell_reused,
    ),
    Exhibit(
        "float noise",
        float_laplace,
        0.0,
        1.0,
        0.1,
        "floating-point noise lies on a lattice that depends on what it was added to (THEORY 0.7)",
        truth=math.inf,
        telling=known.tell_float,
    ),
    Exhibit(
        "votes weighted e^(epsilon count)",
        _votes,
        np.array([4, 4]),
        np.array([3, 5]),
        1.0,
        "moving a vote changes two counts: the weight must be e^(epsilon count / 2) (THEORY E4)",
        # Pr[first] = 1/2 and 1 / (1 + e^2).
        truth=math.log((1 + math.exp(2)) / 2),
        telling=partial(known.tell_votes, epsilon=1.0),
    ),
    Exhibit(
        "misprinted Gaussian variance",
        _misprinted,
        0,
        1,
        _SMALL_EPSILON,
        "variance sensitivity ln(1 / delta) / epsilon in place of the analytic one (THEORY A7)",
        delta=_SLACK,
        least=10**6,
        telling=partial(known.tell_gaussian, sigma=_SIGMA, cut=8.0),
    ),
    Exhibit(
        "above threshold with too little noise on values",
        partial(above_threshold, threshold=1, threshold_scale=4, value_scale=4 / 3, most=1),
        *_MANY,
        1.0,
        "the threshold's noise is fresh, but values get too little noise for both ways they can move",
        least=150_000,
        telling=partial(known.tell_first_above, threshold_scale=4.0, value_scale=4 / 3),
    ),
    Exhibit(
        "above threshold that releases what it compared",
        partial(above_threshold, threshold=1, threshold_scale=2, value_scale=2, most=1, release="value"),
        *_MANY,
        1.0,
        "the threshold's noise is fresh, but an above releases the very value that was compared",
        least=150_000,
        telling=partial(known.tell_released, scale=2.0, cut=3.0),
    ),
    Exhibit(
        "above threshold without noise on values",
        partial(above_threshold, threshold=1, threshold_scale=2, value_scale=0, most=None),
        *_MANY,
        1.0,
        "values get no noise, and no above ends the run",
        truth=math.inf,
        telling=partial(known.tell_variety, threshold_scale=2.0),
    ),
    Exhibit(
        "above threshold that never stops",
        partial(above_threshold, threshold=1, threshold_scale=2, value_scale=2, most=None),
        *_MANY,
        1.0,
        "no above ends the run",
        telling=partial(known.tell_unstopped, scale=2.0, apart=3),
    ),
    Exhibit(
        "noisy max that returns the value",
        partial(noisy_max, one_sided=False, value=True, scale=2),
        *_ALL,
        1.0,
        "the largest noisy value is released, not only whose it is",
        truth=2.5,
        telling=partial(known.tell_maximum, scale=2.0, one_sided=False, cut=1.5),
    ),
    Exhibit(
        "noisy max that returns the value, one-sided noise",
        partial(noisy_max, one_sided=True, value=True, scale=2),
        *_ALL,
        1.0,
        "the largest value is released under one-sided noise, below which no value can fall",
        truth=math.inf,
        telling=partial(known.tell_maximum, scale=2.0, one_sided=True, cut=3.0),
    ),
    Exhibit(
        "histogram with the wrong scale",
        _wrong_scale,
        *pair(1, 5),
        _EPSILON,
        "the scale is epsilon where it must be 1 / epsilon",
        truth=10.0,
        telling=partial(known.tell_histogram, scale=_EPSILON),
    ),
)
"""Every one is found by :meth:`~holdtrue.auditing.exhibits.Exhibit.audit` with ``least`` samples, at the confidence of
``holdtrue audit self``, with a power above :data:`~holdtrue.auditing.powers.POWER`."""

"""A public gallery of planted faults: mechanisms whose claims are wrong, each in a way that somebody has shipped.

An audit that does not flag all of them is no audit. Each has ``run``, what it claims, a pair of neighbours that gives it
away, and why it is wrong. Those that concern Holdtrue's own laws draw their noise from Holdtrue's exact samplers, so that
nothing but the fault is wrong with them.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.exhibits import Exhibit
from holdtrue.auditing.limits import Floats
from holdtrue.auditing.zoo import ZOO, float_laplace
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
    epsilon, delta = 0.1, 1e-5
    sigma = math.sqrt(math.log(1 / delta) / epsilon)
    found: Floats = data + rounded_gaussian(sigma * _UNIT, size=count, bits=bits) / _UNIT
    return found


def _named(name: str) -> Exhibit:
    (found,) = (exhibit for exhibit in ZOO if exhibit.name == name)
    return found


def _borrowed(name: str, new: str) -> Exhibit:
    return replace(_named(name), name=new, reference=None, ceiling=None)


FAULTS: tuple[Exhibit, ...] = (
    Exhibit("half the noise", _half_noise, 0, 1, 1.0, "discrete Laplace noise of scale 1 / (2 epsilon)", truth=2.0),
    Exhibit(
        "sensitivity off by one",
        _one_short,
        np.array([5, 5, 5]),
        np.array([6, 4, 5]),
        1.0,
        "replacing a row moves two counts of a histogram; the scale allows for one (THEORY 0.2)",
        truth=2.0,
    ),
    Exhibit(
        "noise reused",
        _reused,
        np.array([5, 5]),
        np.array([6, 5]),
        0.5,
        "two answers share one draw, so that their difference has no noise",
        truth=math.inf,
    ),
    Exhibit(
        "float noise",
        float_laplace,
        0.0,
        1.0,
        0.1,
        "floating-point noise lies on a lattice that depends on what it was added to (THEORY 0.7)",
        truth=math.inf,
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
    ),
    Exhibit(
        "misprinted Gaussian variance",
        _misprinted,
        0,
        1,
        0.1,
        "variance sensitivity ln(1 / delta) / epsilon in place of the analytic one (THEORY A7)",
        delta=1e-5,
    ),
    _borrowed("SVT4", "above threshold with too little noise on values"),
    _borrowed("SVT5", "above threshold without noise on values"),
    _borrowed("SVT6", "above threshold that never stops"),
    _borrowed("RNM3", "noisy max that returns the value"),
    _borrowed("RNM4", "noisy max that returns the value, one-sided noise"),
    _borrowed("NoisyHist2", "histogram with the wrong scale"),
)
"""Every one is flagged by :meth:`~holdtrue.auditing.exhibits.Exhibit.audit`, most of them from 10^5 samples."""

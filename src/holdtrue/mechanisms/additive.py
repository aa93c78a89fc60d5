"""Counts with integer noise: discrete Laplace (A5) and rounded normal (0.7, A2, A7)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, positive, round_up
from holdtrue.mechanisms.base import AdditiveMechanism
from holdtrue.noise.samplers import LARGEST_SCALE, discrete_laplace, rounded_gaussian


@dataclass(frozen=True)
class Laplace(AdditiveMechanism):
    """Adds Z with Pr[Z = z] proportional to e^(-epsilon |z| / sensitivity).

    Guarantee: epsilon-DP, attained, for whole numbers that move by at most ``sensitivity`` between neighbours; for a
    vector, by at most that in all (L1). Needs: epsilon > 0 and finite, a whole sensitivity >= 1. Fails: only if
    the kernel's generator does. The lecture's "epsilon, scale parameter" is the privacy parameter; the scale is
    sensitivity / epsilon (A5).

    >>> import holdtrue as ht
    >>> ht.Laplace(epsilon=0.5).scale
    Fraction(2, 1)
    """

    scale: Fraction
    sensitivity: int

    def __init__(self, *, epsilon: Number, sensitivity: int = 1) -> None:
        width = count("sensitivity", sensitivity)
        object.__setattr__(self, "scale", width / positive("epsilon", epsilon))
        object.__setattr__(self, "sensitivity", width)
        if self.scale > LARGEST_SCALE:
            raise InvalidParameter(
                "epsilon", epsilon, f"at least sensitivity / 2^50 = {round_up(Fraction(width, LARGEST_SCALE)):.3g}"
            )

    @property
    def _claim(self) -> events.Event:
        return events.DiscreteLaplace(self.sensitivity / self.scale, self.sensitivity)

    def _draw_noise(self, size: int) -> npt.NDArray[np.int64]:
        return discrete_laplace(self.scale, size=size, bits=self._bits)

    def __repr__(self) -> str:
        return f"Laplace(epsilon={float(self.sensitivity / self.scale):g}, sensitivity={self.sensitivity})"


@dataclass(frozen=True)
class Gaussian(AdditiveMechanism):
    """Adds round(sigma Z) for a standard normal Z; sigma is the standard deviation, not the variance.

    Guarantee: mu-GDP with mu = sensitivity / sigma, for whole numbers that move by at most ``sensitivity`` between
    neighbours; for a vector, by at most that in Euclidean length. A whole number plus rounded noise is the rounding of
    the Gaussian mechanism, so nothing is lost to discretisation (0.7). Needs: one of sigma and mu, finite and > 0, and
    a whole sensitivity >= 1. Fails: only if the kernel's generator does.

    >>> import holdtrue as ht
    >>> ht.Gaussian(mu=0.5, sensitivity=2).sigma
    Fraction(4, 1)
    """

    sigma: Fraction
    sensitivity: int

    def __init__(self, *, sigma: Number | None = None, mu: Number | None = None, sensitivity: int = 1) -> None:
        width = count("sensitivity", sensitivity)
        match sigma, mu:
            case (None, None):
                raise InvalidParameter.without_value("sigma", "given, or mu instead")
            case (_, None):
                deviation = positive("sigma", sigma)
            case (None, _):
                deviation = width / positive("mu", mu)
            case _:
                raise InvalidParameter("mu", mu, "left out when sigma is given")
        if deviation > LARGEST_SCALE:
            raise InvalidParameter(
                "mu" if sigma is None else "sigma", mu if sigma is None else sigma, "such that sigma <= 2^50"
            )
        object.__setattr__(self, "sigma", deviation)
        object.__setattr__(self, "sensitivity", width)

    @property
    def _claim(self) -> events.Event:
        return events.GaussianNoise(self.sensitivity / self.sigma)

    def _draw_noise(self, size: int) -> npt.NDArray[np.int64]:
        return rounded_gaussian(self.sigma, size=size, bits=self._bits)

    def __repr__(self) -> str:
        return f"Gaussian(sigma={float(self.sigma):g}, sensitivity={self.sensitivity})"

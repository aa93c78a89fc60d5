"""Counts with rounded normal noise (0.7, A2, A7)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, positive
from holdtrue.mechanisms.base import AdditiveMechanism
from holdtrue.noise import LARGEST_SCALE, rounded_gaussian

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(AdditiveMechanism):
    """Adds round(sigma Z) for a standard normal Z; sigma is the standard deviation, not the variance.

    Guarantee: mu-GDP with mu = sensitivity / sigma, for whole numbers that move by at most ``sensitivity`` between
    neighbours; for a vector, by at most that in Euclidean length. A whole number plus rounded noise is the rounding of
    the Gaussian mechanism, so nothing is lost to discretisation (0.7). Needs: one of sigma and mu, finite and > 0, and
    a whole sensitivity >= 1. Fails: never, but with the kernel's generator.

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
                raise InvalidParameter("sigma", None, "given, or mu in its place")
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
        return events.Gaussian(self.sensitivity / self.sigma)

    def _noise(self, size: int) -> npt.NDArray[np.int64]:
        return rounded_gaussian(self.sigma, size=size, bits=self._bits)

    def __repr__(self) -> str:
        return f"Gaussian(sigma={float(self.sigma):g}, sensitivity={self.sensitivity})"

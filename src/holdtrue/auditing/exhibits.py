"""Mechanisms to be audited: what they do, what is claimed of them, a pair of neighbours, and what is known of the truth.

Noise of others' mechanisms, whose definitions have real numbers, is drawn on a grid of 2^-20: all that is claimed of the
real-valued law holds for it, and no lattice gives anything away that the definition does not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.findings import Finding
from holdtrue.auditing.limits import Floats
from holdtrue.auditing.outputs import Outputs
from holdtrue.auditing.powers import Telling, power_of
from holdtrue.auditing.privacy import audit_privacy
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.noise import discrete_laplace, geometric

__all__ = ["GRID", "Exhibit", "exponentials", "laplaces", "uniforms"]

GRID: Final = 1 << 20
_BITS = 53


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A mechanism with what is claimed of it.

    ``law(data, count, bits)`` returns so many independent outputs. ``sound`` says whether the claim is right and ``why``
    says why not; ``truth`` is the true epsilon of the pair where it is known, ``reference`` what the published audit found
    and ``ceiling`` what Clopper-Pearson could prove from 10^6 runs a side if the best event were known. What is slow takes
    ``most`` samples and no more, with a share ``search`` of them to find the event; a fault shows from ``least`` of them on.
    ``telling`` returns an event that tells a fault, with its exact probabilities, where they are known.
    """

    name: str
    law: Callable[[Any, int, Bits], Outputs]
    left: Any
    right: Any
    epsilon: float
    why: str
    sound: bool = False
    delta: float = 0.0
    truth: float | None = None
    reference: float | None = None
    ceiling: float | None = None
    bits: Bits = SYSTEM
    search: float = 0.4
    most: int | None = None
    least: int = 10**5
    telling: Callable[[], Telling] | None = None

    def run(self, data: object, count: int) -> Outputs:
        """Return so many independent outputs of the mechanism on some data."""
        return self.law(data, count, self.bits)

    def drawing_from(self, bits: Bits) -> Self:
        """Return the same mechanism, drawing from other bits."""
        return replace(self, bits=bits)

    def audit(self, *, samples: int = 10**6, confidence: float = 0.95) -> Finding:
        """Audit the claim on the worst pair that is known, with so many samples a side or with as many as it ever takes."""
        return audit_privacy(
            self.run,
            self.left,
            self.right,
            epsilon=self.epsilon,
            delta=self.delta,
            samples=samples if self.most is None else min(samples, self.most),
            confidence=confidence,
            search=self.search,
            bits=self.bits,
        )

    def power(self, *, samples: int, confidence: float) -> float | None:
        """Return how surely such an audit finds the fault if its search finds the telling event; None where it has none."""
        if self.telling is None:
            return None
        return power_of(
            self.telling(),
            claimed=self.epsilon,
            delta=self.delta,
            samples=samples if self.most is None else min(samples, self.most),
            search=self.search,
            alpha=1 - confidence,
        )


def laplaces(scale: float | Fraction, shape: int | Sequence[int], bits: Bits) -> Floats:
    """Draw Laplace noise on the grid."""
    return _spread(discrete_laplace(Fraction(scale) * GRID, size=int(np.prod(shape)), bits=bits), shape)


def exponentials(scale: float | Fraction, shape: int | Sequence[int], bits: Bits) -> Floats:
    """Draw exponential noise on the grid."""
    return _spread(geometric(Fraction(scale) * GRID, size=int(np.prod(shape)), bits=bits), shape)


def _spread(noise: npt.NDArray[np.int64], shape: int | Sequence[int]) -> Floats:
    found: Floats = (noise / GRID).reshape(shape)
    return found


def uniforms(shape: int | Sequence[int], bits: Bits) -> Floats:
    """Draw numbers in [0, 1) as floating-point programs do: 53 bits."""
    words = bits.words(int(np.prod(shape)))
    found: Floats = ((words >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS).reshape(shape)
    return found

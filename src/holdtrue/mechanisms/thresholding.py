"""Above threshold: many questions, one yes (T10, V2.1)."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.exact import Number, count, integer, integers, positive, round_up, truth
from holdtrue.mechanisms.base import Array, Mechanism, NoiseBuffer
from holdtrue.noise.samplers import LARGEST_SCALE, discrete_laplace, geometric


@dataclass(frozen=True)
class AboveThreshold(Mechanism):
    """Says of each count in turn whether it is above a threshold, and stops at the first yes.

    Guarantee: epsilon-DP for the whole run, however many times it said no and however adaptively the counts were
    chosen, if each count moves by at most ``sensitivity`` between neighbours. The threshold gets discrete Laplace noise
    of scale 2 sensitivity / epsilon, every count noise of scale 4 sensitivity / epsilon; 2 where all counts move the
    same way (``monotone=True``). With ``one_sided=True`` both noises are geometric, of the same scales and never below 0
    (V2.1): then silence proves that the count is below the noisy threshold, and the price is false alarms. Needs:
    epsilon > 0, a whole threshold, a whole sensitivity >= 1. Fails: only if the kernel's generator does.
    """

    threshold: int
    sensitivity: int
    threshold_scale: Fraction
    value_scale: Fraction
    one_sided: bool

    def __init__(
        self,
        *,
        epsilon: Number,
        threshold: int = 0,
        sensitivity: int = 1,
        monotone: bool = False,
        one_sided: bool = False,
    ) -> None:
        width = count("sensitivity", sensitivity)
        scale = 2 * width / positive("epsilon", epsilon)
        if 2 * scale > LARGEST_SCALE:
            raise InvalidParameter(
                "epsilon", epsilon, f"at least sensitivity / 2^48 = {round_up(Fraction(4 * width, LARGEST_SCALE)):.3g}"
            )
        object.__setattr__(self, "threshold", integer("threshold", threshold))
        object.__setattr__(self, "sensitivity", width)
        object.__setattr__(self, "threshold_scale", scale)
        object.__setattr__(self, "value_scale", scale if truth("monotone", monotone) else 2 * scale)
        object.__setattr__(self, "one_sided", truth("one_sided", one_sided))

    @property
    def _claim(self) -> events.Event:
        return events.Pure(2 * self.sensitivity / self.threshold_scale)

    @cached_property
    def _threshold_noise(self) -> NoiseBuffer:
        return NoiseBuffer(lambda size: self._draw(self.threshold_scale, size), self._bits)

    @cached_property
    def _value_noise(self) -> NoiseBuffer:
        return NoiseBuffer(lambda size: self._draw(self.value_scale, size), self._bits)

    def _draw(self, scale: Fraction, size: int) -> npt.NDArray[np.int64]:
        return (geometric if self.one_sided else discrete_laplace)(scale, size=size, bits=self._bits)

    def release(self, values: Array) -> int | None:
        """Return the index of the first count found above the threshold, or None if none was.

        The work is the same wherever that is.
        """
        counts = integers("values", values)
        if counts.ndim != 1 or counts.size == 0:
            raise InvalidParameter.without_value("values", f"one row of counts, not empty; the shape is {counts.shape}")
        noisy = self._threshold_noise.add_to(self.threshold)
        noise = self._draw(self.value_scale, counts.size)
        above = np.flatnonzero(counts.astype(object) + noise.astype(object) >= noisy)
        return int(above[0]) if above.size else None

    def watch(self) -> "Watch":
        """Start a run whose counts come one at a time, each chosen after the last answer."""
        return Watch(self._threshold_noise.add_to(self.threshold), self._value_noise)

    def __repr__(self) -> str:
        epsilon = float(2 * self.sensitivity / self.threshold_scale)
        return f"AboveThreshold(epsilon={epsilon:g}, threshold={self.threshold}, sensitivity={self.sensitivity})"


class Watch:
    """One run of :class:`AboveThreshold`: the whole run, to its one yes, costs one event."""

    def __init__(self, noisy_threshold: int, noise: NoiseBuffer) -> None:
        self._noisy = noisy_threshold
        self._noise = noise
        self.over = False

    def above(self, value: int) -> bool:
        """Return whether a count was found above the threshold; after a yes the run is over."""
        if self.over:
            message = "this run has given its one yes; start a new run, which costs another event"
            raise RefusedError(message)
        counted = integer("value", value)
        self.over = self._noise.add_to(counted) >= self._noisy
        return self.over

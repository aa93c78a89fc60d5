"""Answering only when the vote is clear (T2b, T10).

A screen asks with noise whether the largest count reaches a threshold. Its cost does not depend on the votes and is paid
for every point; the answer's is paid only where the screen said yes, which is public by then. A screen can bear several
times the noise of an answer and is cheap. Where nearly every point is clear, :class:`Patience` pays for the unclear ones
only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from holdtrue import events
from holdtrue.ensembles.responding import GRID, drawn_by, vote_matrix
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, integers, positive
from holdtrue.mechanisms import AboveThreshold, Gaussian
from holdtrue.mechanisms.base import Array, Mechanism
from holdtrue.mechanisms.thresholding import Watch
from holdtrue.noise.samplers import LARGEST_SCALE

__all__ = ["AnswerRule", "ChargeCallback", "Patience", "Screen", "Screened"]

ChargeCallback = Callable[[events.Event], object]
"""Takes an event before what it pays for is drawn, and raises where the budget does not hold it."""


class AnswerRule(Protocol):
    """A rule of :mod:`.responding`."""

    @property
    def event(self) -> events.Event:
        """Return what one answer is charged with."""
        ...

    def release(self, votes: Array, /) -> Any:  # noqa: ANN401 - a label, or one for each point
        """Return an answer."""
        ...


@dataclass(frozen=True)
class Screen(Mechanism):
    """Says whether the largest count, with normal noise, is at least a threshold.

    Law: GRID largest + round(GRID sigma Z) >= GRID threshold for a standard normal Z. Guarantee: mu-GDP with
    mu = points / sigma, whatever the votes: a row moves each count, and so the largest, by at most ``points``, the number of
    points that the votes were added up over. Needs: a threshold and a sigma that do not come from the rows.
    """

    threshold: Fraction
    sigma: Fraction
    points: int

    def __init__(self, threshold: Number, *, sigma: Number, points: int = 1) -> None:
        deviation = positive("sigma", sigma)
        if deviation * GRID > LARGEST_SCALE:
            raise InvalidParameter("sigma", sigma, "at most 2^34")
        object.__setattr__(self, "threshold", positive("threshold", threshold))
        object.__setattr__(self, "sigma", deviation)
        object.__setattr__(self, "points", count("points", points))

    @property
    def _noise(self) -> Gaussian:
        return Gaussian(sigma=self.sigma * GRID, sensitivity=self.points * GRID)

    @property
    def _claim(self) -> events.Event:
        return self._noise.event

    def release(self, votes: Array) -> Any:  # noqa: ANN401 - one answer for one point, an array for many
        """Return whether the vote is clear; for a matrix of counts, for each row."""
        largest = vote_matrix(votes).max(axis=1).astype(object) * GRID
        noisy = np.asarray(drawn_by(self, self._noise).release(largest))
        clear = (noisy.astype(object) >= self.threshold * GRID).astype(bool)
        return bool(clear[0]) if integers("votes", votes).ndim == 1 else clear


@dataclass(frozen=True)
class Screened:
    """A screen, and a response where the screen says that the vote is clear.

    Guarantee: every point costs the screen's event, and an answered point the response's too; which points were answered is
    what the screen released, so that nothing else is given away by charging them differently. ``event`` is the most that
    one point can cost. Both are charged before the draw that they pay for.
    """

    screen: Screen
    response: AnswerRule

    @property
    def event(self) -> events.Event:
        """Return the most that one point can cost: the screen and the answer."""
        return events.Composed((self.screen.event, self.response.event))

    def release(self, votes: Array, *, charge: ChargeCallback) -> Any | None:  # noqa: ANN401 - what the response returns
        """Return the answer for one point, or None where the vote is not clear."""
        charge(self.screen.event)
        if not self.screen.release(votes):
            return None
        charge(self.response.event)
        return self.response.release(votes)


class Patience:
    """A screen that is charged for unclear votes only: good where they are rare, such as votes pooled over many points.

    Guarantee: the event of ``noise``, epsilon-DP, pays for a whole run of points up to and with the first whose vote is
    found unclear, however many they are (T10); then the next run is charged. It looks at members - largest count, which
    moves by one vote with one row, and stops where that with noise exceeds members - threshold. The response is charged for
    every clear point. A run is charged when it starts, because its silence tells something as well.
    """

    def __init__(self, threshold: int, *, members: int, epsilon: Number, response: AnswerRule) -> None:
        self.members = count("members", members)
        dissent = self.members - count("threshold", threshold)
        self.noise = AboveThreshold(epsilon=epsilon, threshold=max(dissent, 0) + 1)
        self.response = response
        self._watch: Watch | None = None

    def release(self, votes: Array, *, charge: ChargeCallback) -> Any | None:  # noqa: ANN401 - what the response returns
        """Return the answer for one point, or None where the vote is not clear."""
        counts = vote_matrix(votes)
        if self._watch is None or self._watch.over:
            charge(self.noise.event)
            self._watch = self.noise.watch()
        if self._watch.above(self.members - int(counts.max())):
            return None
        charge(self.response.event)
        return self.response.release(votes)

"""Thresholds: whether a number reaches an edge."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from holdtrue.hypotheses.gridded import OneColumn
from holdtrue.hypotheses.grids import show_number
from holdtrue.hypotheses.matrices import Flags, Integers

__all__ = ["Thresholds"]


@dataclass(frozen=True)
class Thresholds(OneColumn):
    """The hypotheses x ≥ t_j → 1 over the edges t_j = low + j (high - low) / steps, in the order of j from 0 to steps - 1.

    Guarantee: as of every class (B6); numbers are clamped to [low, high] and a missing one counts as ``low``, so the first
    hypothesis is always 1. Needs: ``low``, ``high`` and ``steps`` chosen without the rows. One column: the only one, or the
    one named ``column``.

    >>> Thresholds(0, 120, steps=240, column="age").describe(105)
    'age ≥ 52.5 → 1'
    """

    kind: ClassVar[str] = "thresholds"

    @property
    def size(self) -> int:
        """Return the number of steps."""
        return self.steps

    def errors(self, totals: Integers) -> Integers:
        """Return for every edge the rows of label 0 from it on, and of label 1 before it."""
        found = np.empty(self.steps, dtype=np.int64)
        found[0], found[1:] = totals[-2], totals[:-3]
        return np.cumsum(found, out=found)

    def evaluate(self, X: object, index: int) -> Flags:
        """Return which rows reach the edge."""
        edge = self.grid.edge(self.checked(index))
        return self.grid.clamped(self._numbers(X)) >= edge

    def describe(self, index: int) -> str:
        """Return the comparison."""
        return f"{self.name} ≥ {show_number(self.grid.edge(self.checked(index)))} → 1"

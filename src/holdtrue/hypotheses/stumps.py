"""Stumps: one comparison of one of several numbers with an edge, either way."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from holdtrue.hypotheses.grid_tallies import add_columns, blank
from holdtrue.hypotheses.gridded import SeveralColumns
from holdtrue.hypotheses.grids import afford, show_number
from holdtrue.hypotheses.matrices import Flags, Integers, Matrix

__all__ = ["Stumps"]


@dataclass(frozen=True, kw_only=True)
class Stumps(SeveralColumns):
    """The hypotheses x ≥ t_j → 1 and x < t_j → 1, for every column and every edge t_j = low + j (high - low) / steps.

    Their order: by column, then by j from 0 to steps - 1, and ≥ before <. Guarantee: as of every class (B6); numbers are
    clamped to their column's bounds and a missing one counts as its low end. Needs: bounds and steps chosen without the
    rows. ``bounds`` are a mapping from columns to pairs, a list of pairs by position, or one pair for every column.

    >>> Stumps(bounds={"age": (0, 120), "bmi": (10, 60)}, steps=240).describe(211)
    'age < 52.5 → 1'
    """

    kind: ClassVar[str] = "stumps"

    @property
    def size(self) -> int:
        """Return twice the columns times the steps; NotCertified where the number of columns is not settled."""
        return 2 * self._settled() * self.steps

    def blank(self) -> Integers:
        """Return zeros: a total for every cell of every column, and two for the labels."""
        afford("steps", self.steps, 12 * self.size)
        return blank(self.size // 2)

    def tally(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals."""
        add_columns(self.grids, X, y, totals)

    def errors(self, totals: Integers) -> Integers:
        """Return for every edge the rows of label 0 from it on and of label 1 before it, and all the others."""
        counts = totals[:-2].reshape(-1, self.steps)
        found = np.empty((*counts.shape, 2), dtype=np.int64)
        reach = found[:, :, 0]
        reach[:, 0] = 0
        np.cumsum(counts[:, :-1], axis=1, out=reach[:, 1:])
        reach += totals[-2]
        np.subtract(totals[-2] + totals[-1], reach, out=found[:, :, 1])
        return found.reshape(-1)

    def describe(self, index: int) -> str:
        """Return the comparison."""
        column, number, below = self._place(self.checked(index))
        edge = show_number(self.grids[column].edge(number))
        return f"{self._bounds.name(column)} {'<' if below else '≥'} {edge} → 1"

    def _label(self, X: Matrix, index: int) -> Flags:
        column, number, below = self._place(index)
        grid = self.grids[column]
        reach = grid.clamped(X[:, column]) >= grid.edge(number)
        return ~reach if below else reach

    def _place(self, index: int) -> tuple[int, int, bool]:
        edge, below = divmod(index, 2)
        return *divmod(edge, self.steps), bool(below)

"""Cells of one number: how often each is met on either side, and the logarithm of the ratio."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.features import Feature, Seen
from holdtrue.auditing.limits import Floats

__all__ = ["Cells"]

_MOST_VALUES = 256
_LOOKED_AT = 40_000
_FINEST = 128
_TAILS = np.geomspace(2e-4, 1 / _FINEST, 10)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The finest cells of a feature; coarser ones are groups of them.

    ``edges`` are minus infinity, values in between, the largest float and infinity, so that infinities and NaN, which is
    sorted last, have cells of their own.
    """

    feature: Feature
    edges: Floats

    @classmethod
    def of(cls, feature: Feature, left: Floats, right: Floats) -> "Cells":
        """Cut a feature where the values of both sides together say."""
        return cls(feature, cls.edges_of(np.concatenate([left, right])))

    @staticmethod
    def edges_of(values: Floats) -> Floats:
        """Return every value where they are few; quantiles, closer together in the tails, where they are not."""
        finite = values[np.isfinite(values)]
        some = finite[:: max(1, finite.size // _LOOKED_AT)]
        inner = np.unique(some)
        if inner.size > _MOST_VALUES:
            shares = np.unique(np.concatenate([np.arange(1, _FINEST) / _FINEST, _TAILS, 1 - _TAILS]))
            inner = np.unique(np.quantile(some, shares))
        return np.concatenate([[-np.inf], inner, [np.finfo(np.float64).max, np.inf]])

    def codes(self, seen: Seen) -> npt.NDArray[np.intp]:
        """Return the cell of each output."""
        found: npt.NDArray[np.intp] = seen.once(self, lambda: np.searchsorted(self.edges, seen[self.feature]))
        return found

    def counts(self, seen: Seen) -> npt.NDArray[np.int64]:
        """Return how many outputs each cell holds."""
        return np.bincount(self.codes(seen), minlength=self.edges.size + 1)

    def groups(self, number: int) -> npt.NDArray[np.intp]:
        """Return for each cell the group it belongs to: about so many, but for what is not finite."""
        finite = self.edges.size - 2
        # Where values are few, the last of these cells is empty.
        group = np.arange(finite) * number // finite if finite > number + 1 else np.arange(finite)
        return np.concatenate([[0], 1 + group, [number + 2, number + 3]])

    def ratios(self, left: Seen, right: Seen, number: int) -> Floats:
        """Return for each cell the logarithm of how much likelier its group is on the left."""
        return self.ratios_of(self.counts(left), self.counts(right), number)

    def ratios_of(self, left: npt.NDArray[Any], right: npt.NDArray[Any], number: int) -> Floats:
        """Return the same from counts."""
        group = self.groups(number)
        sides = [np.bincount(group, weights=counts, minlength=number + 4) for counts in (left, right)]
        found: Floats = (np.log(sides[0] + 0.5) - np.log(sides[1] + 0.5))[group]
        return found

    def score(self, left: Seen, right: Seen, number: int) -> Callable[[Seen], Floats]:
        """Return the ratio of an output's group as a function."""
        ratios = self.ratios(left, right, number)
        return lambda seen: ratios[self.codes(seen)]

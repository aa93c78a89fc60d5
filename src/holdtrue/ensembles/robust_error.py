"""The robust error of private predictions on rows that no member was trained on (V4.4)."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.kernels import Integers

__all__ = ["RobustError"]

_FINE = 256  # steps of a log-odds of epsilon
_BITS = 32
_LEAST_EPSILON = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class RobustError:
    """How many rows would have to change before the error of predictions on held-out rows can exceed a level.

    Law: a soft majority at ``epsilon`` errs at row i with probability p_i, whose log-odds one training row moves by epsilon
    at most. With l_k the mean over held-out rows of sigmoid(logit p_i + k epsilon), plus k / rows,
    ``distance`` is the largest k with l_k <= x, clipped to +-``reach``. Guarantee: one replaced row, training or held out,
    moves it by at most 1, for every public x, and distance >= 0 implies that the mean of p_i is at most x. In whole numbers:
    log-odds are rounded up to steps of epsilon / 256, and one more is added for what floats may get wrong; k counts 257 such
    steps, so that l_k of a neighbour never exceeds l_(k+1); sigmoid is a table that never falls, rounded up.
    """

    places: Integers
    table: Integers
    reach: int

    @classmethod
    def of(cls, votes: Integers, codes: Integers, *, epsilon: Fraction, reach: int) -> "RobustError":
        """Return it for the votes at each row, a column for each label, and the places of the true labels."""
        rate = float(epsilon)
        if rate < _LEAST_EPSILON:
            raise InvalidParameter("epsilon", rate, f"at least {_LEAST_EPSILON:g}")
        counts = np.asarray(votes, dtype=np.float64)
        lines = np.arange(len(counts))
        ahead = (counts - counts[lines, codes][:, None]) * (rate / 2)
        ahead[lines, codes] = -np.inf
        most = ahead.max(axis=1)
        odds = most + np.log(np.exp(ahead - most[:, None]).sum(axis=1))
        # One unit of a vote at least, and the logarithm of the labels, beyond what the votes can be.
        widest = math.ceil((counts.sum(axis=1).max(initial=0) / 2 + math.log(counts.shape[1]) / rate + 2) * _FINE)
        bottom = widest + reach * (_FINE + 1)
        at = np.arange(-bottom, bottom + 1) * (rate / _FINE)
        risen = np.ceil((1 << _BITS) * (1 + 2.0**-40) / (1 + np.exp(-np.clip(at, -700, 700))))
        table = np.maximum.accumulate(np.minimum(risen, 1 << _BITS).astype(np.int64))
        return cls((np.ceil(odds * (_FINE / rate)).astype(np.int64) + 1) + bottom, table, reach)

    def distance(self, at_most: Fraction) -> int:
        """Return D_x for a level x."""
        limit = math.floor(at_most * len(self.places) * (1 << _BITS))

        def is_below(k: int) -> bool:
            total = int(self.table[self.places + k * (_FINE + 1)].sum()) + (k << _BITS)
            return total <= limit

        low, high = -self.reach, self.reach
        if not is_below(low):
            return low
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if is_below(middle) else (low, middle - 1)
        return low

"""Exact choices among very many candidates from how many there are at each level below the best (B3).

Candidates with one score are alike: a level is drawn, and then one of its members. The levels end where a member would be
chosen with probability e^-40 at most; all further ones are one last level, drawn as if they were at its beginning, and a
member of it is kept with the probability that is missing. Nothing is left out, and most candidates need no bits.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from holdtrue.entropy import SYSTEM, Bits
from holdtrue.exact import Rationals
from holdtrue.noise import quantiles
from holdtrue.noise.enclosures import exponential, logarithm_of_ratio
from holdtrue.noise.samplers import Integers64, Uniform, uniform_below
from holdtrue.noise.selection import CLOSE, SMALL, find_smallest, gumbel_argmax

__all__ = ["count_needed", "draw_by_flips", "draw_by_weights"]

_REACH: Final = 40
_MOST: Final = 1 << 12
_GUARD: Final = 128


def count_needed(rate: Fraction) -> int | None:
    """Return how many levels have to be told apart at a rate; None where they would be too many."""
    levels = math.ceil(_REACH / rate)
    return levels if levels <= _MOST else None


def draw_by_weights(counts: Integers64, *, rate: Fraction, bits: Bits = SYSTEM) -> Iterator[tuple[int, int]]:
    """Yield levels and ranks within them, each drawn afresh with probability proportional to e^(-rate * level).

    Law: exact. Whoever keeps the first for which a coin of probability e^(-rate * (gap - level)) shows heads has a candidate
    of the exponential mechanism, by rejection: levels but the last need no coin. Needs: counts of levels from 0 on.
    """
    held = np.flatnonzero(counts)
    weights = Rationals(counts[held].astype(np.float64), None)
    while True:
        level = int(held[gumbel_argmax(-held.reshape(1, -1), rate=rate, weights=weights, bits=bits)[0]])
        yield level, int(uniform_below(int(counts[level]), bits=bits)[0])


def draw_by_flips(counts: Integers64, *, rate: Fraction, bits: Bits = SYSTEM) -> Iterator[tuple[int, int]]:
    """Yield levels and ranks in the order in which permute-and-flip comes to candidates whose coins show heads.

    Law: exact. Coins of probability e^(-rate * level) show heads where E >= rate * level for an exponential E, and by how
    much E passes it is again exponential and independent of everything else: the order of the excesses is a uniform order
    of the heads. The largest of c exponentials is -ln(1 - U^(1/c)), the next ones follow from further uniforms; so a level
    takes one word. Whoever keeps the first for which a coin of probability e^(-rate * (gap - level)) shows heads has the
    choice of permute-and-flip. Needs: counts of levels from 0 on, the first of them above 0.
    """
    held = np.flatnonzero(counts)
    words = bits.words(held.size)
    values, tail = quantiles.exponentials(words)
    unsure = np.union1d(np.flatnonzero(values < SMALL), tail)
    values[unsure] = 1.0
    keys = np.log(-np.expm1(-values / counts[held])) + held * float(rate)
    keys[unsure] = np.inf
    close = keys <= keys.min() + CLOSE
    close[unsure] = True
    rest = ~close
    runners = [_Runner(int(held[i]), int(counts[held[i]]), rate, words[i], bits) for i in np.flatnonzero(close).tolist()]
    while True:
        first = find_smallest(runners)
        yield first.column, first.take_member(bits)
        # Only after the last level was refused its coin: from here on all levels run, and none by floats.
        runners += [_Runner(int(held[i]), int(counts[held[i]]), rate, words[i], bits) for i in np.flatnonzero(rest).tolist()]
        rest = np.zeros_like(rest)
        if not first.go_on(bits):
            runners.remove(first)


class _Runner:
    """A level in the order of excesses: the key of its next member, ln(1 - e^-x) + rate * level, as an interval.

    x is the sum of -ln U_i / (c - i), i from 0 to the members taken before: e^-x is the next largest of c uniforms.
    """

    __slots__ = ("_count", "_offset", "_taken", "_uniforms", "column")

    def __init__(self, column: int, count: int, rate: Fraction, word: np.uint64, bits: Bits) -> None:
        self.column = column
        self._count, self._offset = count, rate * column
        self._uniforms = [Uniform(int(word) >> 1, 63, bits)]
        self._taken: list[int] = []

    @property
    def precision(self) -> int:
        """Return the bits that are worth working with."""
        return max(uniform.precision for uniform in self._uniforms)

    def extend(self) -> None:
        """Learn more bits."""
        for uniform in self._uniforms:
            uniform.extend()

    def enclose_key(self, precision: int) -> tuple[float, float]:
        """Enclose the key, times 2^precision, between whole numbers or infinities."""
        low, high = Fraction(0), Fraction(0)
        fine, endless = precision + _GUARD, False
        for place, uniform in enumerate(self._uniforms):
            share, whole = (self._count - place) << fine, 1 << uniform.length
            low += Fraction(-logarithm_of_ratio(uniform.prefix + 1, whole, fine)[1], share)
            if uniform.prefix:
                high += Fraction(-logarithm_of_ratio(uniform.prefix, whole, fine)[0], share)
            endless |= not uniform.prefix
        offset = self._offset * (1 << precision)
        least = (1 << fine) - exponential(max(low, Fraction(0)), fine)[1]
        most = (1 << fine) - (0 if endless else exponential(high, fine)[0])
        lowest = -math.inf if least <= 0 else logarithm_of_ratio(least, 1 << fine, precision)[0] + math.floor(offset)
        return lowest, logarithm_of_ratio(most, 1 << fine, precision)[1] + math.ceil(offset)

    def take_member(self, bits: Bits) -> int:
        """Return the rank of a member, uniform among those not taken before."""
        rank = int(uniform_below(self._count - len(self._taken), bits=bits)[0])
        for earlier in sorted(self._taken):
            rank += rank >= earlier
        self._taken.append(rank)
        return rank

    def go_on(self, bits: Bits) -> bool:
        """Go on to the next member; False where there is none."""
        if len(self._taken) == self._count:
            return False
        self._uniforms.append(Uniform(bits.more() >> 1, 63, bits))
        return True

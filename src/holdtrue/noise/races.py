"""Exact choices among candidates: Gumbel-max and permute-and-flip (B3).

Scores are whole numbers, one row of them for each choice; the rate that multiplies them and the weights of the base
measure are exact rationals. Every candidate gets one word of noise, whatever its score.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from holdtrue.enclosures import logarithm
from holdtrue.entropy import SYSTEM, Bits, Words
from holdtrue.exact import Integers, Rationals
from holdtrue.noise import kernels
from holdtrue.noise.samplers import BLOCK, Floats, Integers64, blocks, flips, uniform_below
from holdtrue.noise.settling import Uniform

__all__ = ["gumbel_argmax", "permute_and_flip"]

SMALL: Final = 2.0**-24
"""Candidates whose exponential is below this are settled exactly: its logarithm is too sensitive for floats."""

CLOSE: Final = 2.0**-20
"""Candidates whose key is within this of the smallest are settled exactly.

A key is ln E + rate * gap - ln weight. For E >= SMALL, kernels.ERROR moves ln E by less than 2^-21.4. A candidate that
could have the smallest key has rate * gap below 5000 (|ln E| < 45, |ln weight| < 750 and differences of these), where
four roundings make less than 2^-37, as do the logarithms of E and of the weight. Twice the sum of all is below CLOSE.
"""


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """How far each score is below the best of its row, times the rate, less the logarithm of its weight."""

    gaps: npt.NDArray[np.uint64] | npt.NDArray[np.object_]
    rate: Fraction
    weights: Rationals | None
    log_weights: Floats | None

    def slice(self, block: slice) -> Floats:
        """Return rate * gap as floats, off by a relative 2^-51 at most."""
        floats = _floats(self.gaps[block])
        with np.errstate(over="ignore"):
            floats *= float(self.rate)
        return floats

    def at(self, index: int) -> Fraction:
        """Return rate * gap exactly."""
        return int(self.gaps[index]) * self.rate

    def lead(self, index: int, row: int) -> tuple[Fraction, Fraction]:
        """Return rate * gap and the weight of a candidate, exactly."""
        return self.at(index), Fraction(1) if self.weights is None else self.weights.at(index % row)


def _candidates(scores: Integers, rate: Fraction, weights: Rationals | None) -> _Candidates:
    if scores.dtype == object:
        best: npt.NDArray[np.object_] = scores.max(axis=1, keepdims=True)
        gaps: npt.NDArray[np.uint64] | npt.NDArray[np.object_] = best - scores
    else:
        # Differences of 64-bit integers fit into 64 bits without a sign, and wrapping around gives them.
        gaps = scores.max(axis=1, keepdims=True).view(np.uint64) - scores.view(np.uint64)
    log_weights = None if weights is None else _log_weights(weights.floats)
    return _Candidates(gaps.reshape(-1), rate, weights, log_weights)


def _floats(gaps: npt.NDArray[np.uint64] | npt.NDArray[np.object_]) -> Floats:
    if gaps.dtype != object:
        return gaps.astype(np.float64)
    largest = 1 << 1000  # so far behind that its exact value does not matter
    return np.array([float(min(int(gap), largest)) for gap in gaps], dtype=np.float64)


def _log_weights(weights: Floats) -> Floats:
    mantissas, exponents = np.frexp(weights)
    return kernels.logarithms(mantissas) + exponents * math.log(2)


def _keys(candidates: _Candidates, words: Words, block: slice, row: int) -> tuple[Floats, kernels.Positions]:
    """Return every candidate's key, the smallest of which wins, and the positions where it cannot be relied upon."""
    values, tail = kernels.exponentials(words)
    small = np.flatnonzero(values < SMALL)
    values[tail] = 1.0
    keys = kernels.logarithms(np.maximum(values, kernels.SMALLEST, out=values))
    keys += candidates.slice(block)
    if candidates.log_weights is not None:
        keys -= np.resize(np.roll(candidates.log_weights, -(block.start % row)), keys.size)
    # What lies in the tail may have any key: it stays in the race, and does not put anyone out of it.
    keys[tail] = np.inf
    return keys, np.union1d(small, tail) if small.size or tail.size else tail


def gumbel_argmax(scores: Integers, *, rate: Fraction, weights: Rationals | None = None, bits: Bits = SYSTEM) -> Integers64:
    """Choose one candidate of each row, i with probability proportional to weight_i * e^(rate * score_i).

    Law: exact. It is the argmax of rate * score_i + ln weight_i + G_i with independent Gumbel G_i = -ln E_i, decided by
    floats unless the two best are within :data:`CLOSE`, and then by more bits. Needs: a matrix of whole numbers with at
    least one column, rate > 0, weights > 0, one for each column. The work depends on the shape alone.
    """
    candidates = _candidates(scores, rate, weights)
    rows, row = scores.shape
    chosen = np.empty(rows, dtype=np.int64)
    if row > BLOCK:
        for number in range(rows):
            chosen[number] = _one_long_row(candidates, slice(number * row, (number + 1) * row), row, bits)
        return chosen
    at_once = BLOCK // row
    for start in range(0, rows, at_once):
        stop = min(start + at_once, rows)
        chosen[start:stop] = _many_short_rows(candidates, slice(start * row, stop * row), row, bits)
    return chosen


def _many_short_rows(candidates: _Candidates, block: slice, row: int, bits: Bits) -> Integers64:
    words = bits.words(block.stop - block.start)
    keys, unsure = _keys(candidates, words, block, row)
    table = keys.reshape(-1, row)
    racing = table <= table.min(axis=1, keepdims=True) + CLOSE
    racing.reshape(-1)[unsure] = True
    chosen: Integers64 = racing.argmax(axis=1)
    for number in np.flatnonzero(racing.sum(axis=1) > 1).tolist():
        offset = number * row
        runners = [
            _Runner(int(column), *candidates.lead(block.start + offset + column, row), words[offset + column], bits)
            for column in np.flatnonzero(racing[number]).tolist()
        ]
        chosen[number] = _winner(runners)
    return chosen


def _one_long_row(candidates: _Candidates, whole: slice, row: int, bits: Bits) -> int:
    best = np.inf
    kept: list[tuple[float, int, np.uint64]] = []
    for part in blocks(row):
        block = slice(whole.start + part.start, whole.start + part.stop)
        words = bits.words(block.stop - block.start)
        keys, unsure = _keys(candidates, words, block, row)
        best = min(best, float(keys.min()))
        near = (
            np.union1d(np.flatnonzero(keys <= best + CLOSE), unsure) if unsure.size else np.flatnonzero(keys <= best + CLOSE)
        )
        always = set(unsure.tolist())
        kept += [(-np.inf if i in always else float(keys[i]), part.start + i, words[i]) for i in near.tolist()]
    racing = [(column, word) for key, column, word in kept if key <= best + CLOSE]
    if len(racing) == 1:
        return racing[0][0]
    return _winner([_Runner(column, *candidates.lead(whole.start + column, row), word, bits) for column, word in racing])


class _Runner:
    """A candidate still in the race: its key as an interval that more bits make narrower."""

    def __init__(self, column: int, handicap: Fraction, weight: Fraction, word: np.uint64, bits: Bits) -> None:
        self.column = column
        self._handicap = handicap
        self._weight = weight
        self._uniform = Uniform(int(word) >> 1, 63, bits)

    def extend(self) -> None:
        self._uniform.extend()

    def key(self, precision: int) -> tuple[float | int, float | int]:
        """Enclose (ln E + rate * gap - ln weight) * 2^precision."""
        low, high = self._log_exponential(precision)
        handicap = self._handicap * (1 << precision)
        weight_low, weight_high = logarithm(self._weight, precision)
        return low + math.floor(handicap) - weight_high, high + math.ceil(handicap) - weight_low

    def _log_exponential(self, precision: int) -> tuple[float | int, float | int]:
        smallest = -logarithm(self._uniform.high, precision)[1]
        low = -math.inf if smallest <= 0 else logarithm(Fraction(smallest, 1 << precision), precision)[0]
        if self._uniform.prefix == 0:
            return low, math.inf
        largest = -logarithm(self._uniform.low, precision)[0]
        return low, logarithm(Fraction(largest, 1 << precision), precision)[1]

    @property
    def known(self) -> int:
        return self._uniform.length


def _winner(runners: list[_Runner]) -> int:
    """Return the column with the smallest key; ends because keys are different with probability one."""
    while True:
        precision = max(runner.known for runner in runners) + 33
        keys: list[tuple[float | int, float | int]] = [runner.key(precision) for runner in runners]
        limit = min(high for _, high in keys)
        runners = [runner for runner, (low, _) in zip(runners, keys, strict=True) if low <= limit]
        if len(runners) == 1:
            return runners[0].column
        for runner in runners:
            runner.extend()


def permute_and_flip(scores: Integers, *, rate: Fraction, bits: Bits = SYSTEM) -> Integers64:
    """Choose one candidate of each row by permute-and-flip.

    Law: exact. Candidates are taken in random order and kept with probability e^(-rate * (best - score)) until one is
    kept: the same law as flipping all coins at once and choosing uniformly among the heads, which is what is done, so
    that the work depends on the shape alone. Needs: a matrix of whole numbers with at least one column, rate > 0.
    """
    rows, row = scores.shape
    heads = flips(_candidates(scores, rate, None), rows * row, bits).reshape(rows, row)
    place = uniform_below(heads.sum(axis=1), bits=bits)
    if rows == 1:
        return np.flatnonzero(heads[0])[place]
    chosen: Integers64 = (heads.cumsum(axis=1) > place[:, None]).argmax(axis=1)
    return chosen

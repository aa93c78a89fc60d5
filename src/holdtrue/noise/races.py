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

from holdtrue.entropy import SYSTEM, Bits, Words
from holdtrue.exact import Integers, Rationals
from holdtrue.noise import kernels
from holdtrue.noise.ladders import Ladder
from holdtrue.noise.runners import Runner, winner
from holdtrue.noise.samplers import BLOCK, Floats, Integers64, blocks, flips, uniform_below

__all__ = ["gumbel_argmax", "permute_and_flip"]

Gaps = npt.NDArray[np.uint64] | npt.NDArray[np.object_]

SMALL: Final = 2.0**-24
"""Candidates whose exponential is below this are settled exactly: its logarithm is too sensitive for floats."""

CLOSE: Final = 2.0**-20
"""Candidates whose key is within this of the smallest are settled exactly.

A key is ln E + rate * gap - ln weight. For E >= SMALL, kernels.ERROR moves ln E by less than 2^-21.4. A candidate that
could have the smallest key has rate * gap below 5000 (|ln E| < 45, |ln weight| < 750 and differences of these), where
four roundings make less than 2^-37, as do the logarithms of E and of the weight. Twice the sum of all is below CLOSE.
"""

SURVIVORS: Final = 32.0
"""How many candidates of a long row are expected to be looked at closely."""


@dataclass(frozen=True, slots=True, eq=False)
class _Field:
    """The candidates: their scores, the best of each row, the rate, and the weights of the columns."""

    scores: Integers
    best: Integers
    rate: Fraction
    weights: Rationals | None
    log_weights: Floats | None

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return self.best.shape[0], self.scores.shape[1]

    def gaps(self, rows: slice, columns: slice) -> Gaps:
        """Return how far scores are below the best of their row."""
        best, scores = self.best[rows], self.scores[rows, columns]
        # A difference of two 64-bit integers fits into 64 bits without a sign, and wrapping around gives it.
        return np.subtract(best, scores) if scores.dtype == object else best.view(np.uint64) - scores.view(np.uint64)

    def handicaps(self, rows: slice, columns: slice) -> Floats:
        """Return rate * gap - ln weight, row after row; the product is off by a relative 2^-51 at most."""
        handicaps = self.products(rows, columns)
        if self.log_weights is not None:
            handicaps -= self.log_weights[columns]
        return handicaps.reshape(-1)

    def products(self, rows: slice, columns: slice) -> Floats:
        """Return rate * gap as floats."""
        return _times(self.gaps(rows, columns), self.rate)

    def exact(self, row: int, column: int) -> Fraction:
        """Return rate * gap exactly."""
        return (int(self.best[row, 0]) - int(self.scores[row, column])) * self.rate

    def runner(self, row: int, column: int, word: np.uint64, bits: Bits) -> Runner:
        """Return a candidate as one whose key is settled exactly."""
        weight = Fraction(1) if self.weights is None else self.weights.at(column)
        return Runner(column, self.exact(row, column), weight, word, bits)


def _field(scores: Integers, rate: Fraction, weights: Rationals | None) -> _Field:
    log_weights = None if weights is None else _log_weights(weights.floats)
    return _Field(scores, scores.max(axis=1, keepdims=True), rate, weights, log_weights)


def _times(gaps: Gaps, rate: Fraction) -> Floats:
    if gaps.dtype == object:
        largest = 1 << 1000  # so far behind that its exact value does not matter
        floats = np.array([float(min(int(gap), largest)) for gap in gaps.flat]).reshape(gaps.shape)
    else:
        floats = gaps.astype(np.float64)
    with np.errstate(over="ignore"):
        floats *= float(rate)
    return floats


def _log_weights(weights: Floats) -> Floats:
    mantissas, exponents = np.frexp(weights)
    return kernels.logarithms(mantissas) + exponents * math.log(2)


def _keys(words: Words, handicaps: Floats) -> tuple[Floats, kernels.Positions]:
    """Return every candidate's key, the smallest of which wins, and the positions where it cannot be relied upon."""
    values, tail = kernels.exponentials(words)
    unsure = np.union1d(np.flatnonzero(values < SMALL), tail) if tail.size or values.min() < SMALL else tail
    values[tail] = 1.0
    keys = kernels.logarithms(np.maximum(values, kernels.SMALLEST, out=values))
    keys += handicaps
    # What lies in the tail may have any key: it stays in the race, and does not put anyone out of it.
    keys[tail] = np.inf
    return keys, unsure


def gumbel_argmax(scores: Integers, *, rate: Fraction, weights: Rationals | None = None, bits: Bits = SYSTEM) -> Integers64:
    """Choose one candidate of each row, i with probability proportional to weight_i * e^(rate * score_i).

    Law: exact. It is the argmax of rate * score_i + ln weight_i + G_i with independent Gumbel G_i = -ln E_i, decided by
    floats unless the two best are within :data:`CLOSE`, and then by more bits. Needs: a matrix of whole numbers with at
    least one column, rate > 0, weights > 0, one for each column. The work depends on the shape alone.
    """
    field = _field(scores, rate, weights)
    rows, row = field.shape
    chosen = np.empty(rows, dtype=np.int64)
    if row <= BLOCK:
        at_once = BLOCK // row
        for start in range(0, rows, at_once):
            part = slice(start, min(start + at_once, rows))
            chosen[part] = _many_short_rows(field, part, bits)
        return chosen
    choose = _one_long_row if weights is None and scores.dtype != object else _one_long_row_in_full
    for number in range(rows):
        chosen[number] = choose(field, number, bits)
    return chosen


def _many_short_rows(field: _Field, rows: slice, bits: Bits) -> Integers64:
    row = field.shape[1]
    handicaps = field.handicaps(rows, slice(0, row))
    words = bits.words(handicaps.size)
    keys, unsure = _keys(words, handicaps)
    table = keys.reshape(-1, row)
    racing = table <= table.min(axis=1, keepdims=True) + CLOSE
    racing.reshape(-1)[unsure] = True
    chosen: Integers64 = racing.argmax(axis=1)
    for number in np.flatnonzero(racing.sum(axis=1) > 1).tolist():
        columns = np.flatnonzero(racing[number]).tolist()
        runners = [field.runner(rows.start + number, column, words[number * row + column], bits) for column in columns]
        chosen[number] = winner(runners).column
    return chosen


def _one_long_row_in_full(field: _Field, number: int, bits: Bits) -> int:
    """Choose from one row of any weights and sizes, keeping in mind only those close to the best so far."""
    best = np.inf
    kept: list[tuple[float, int, np.uint64]] = []
    for part in blocks(field.shape[1]):
        words = bits.words(part.stop - part.start)
        keys, unsure = _keys(words, field.handicaps(slice(number, number + 1), part))
        best = min(best, float(keys.min()))
        keys[unsure] = -np.inf
        kept += [(float(keys[i]), part.start + i, words[i]) for i in np.flatnonzero(keys <= best + CLOSE).tolist()]
    return winner([field.runner(number, column, word, bits) for key, column, word in kept if key <= best + CLOSE]).column


def _one_long_row(field: _Field, number: int, bits: Bits) -> int:
    """Choose from one row, having looked closely at a few candidates only.

    Since E >= 1 - U, a candidate with E e^(rate * gap) <= B has 1 - U <= B e^(-rate * gap): one comparison of its word
    with a bound that is looked up by its gap, rounded up so that nobody is lost. B = SURVIVORS / sum of e^(-rate * gap)
    lets about SURVIVORS pass. If the smallest of all E e^(rate * gap) is above B (probability e^-SURVIVORS) the race is
    run again: which candidate has the smallest is independent of how small it is, so this changes nothing in the law.
    """
    scores: npt.NDArray[np.uint64] = field.scores[number].view(np.uint64)
    best = field.best[number].view(np.uint64)
    ladder = Ladder.of(field.rate)
    bound = SURVIVORS / math.fsum(ladder.total(best - scores[part]) for part in blocks(scores.size))
    limits = ladder.limits(bound)
    while True:
        columns, words = _passed(best, scores, ladder, limits, bits)
        if not columns.size:
            continue
        keys, unsure = _keys(words, _times(best - scores[columns], field.rate))
        racing = keys <= keys.min() + CLOSE
        racing[unsure] = True
        runners = [field.runner(number, int(columns[i]), words[i], bits) for i in np.flatnonzero(racing).tolist()]
        if (first := winner(runners)).at_most(Fraction(bound)):
            return first.column


def _passed(best: Words, scores: Words, ladder: Ladder, limits: Words, bits: Bits) -> tuple[kernels.Positions, Words]:
    """Draw a word for every candidate, and return the columns and the words of those that reach their limits."""
    columns: list[kernels.Positions] = []
    passed: list[Words] = []
    for part in blocks(scores.size):
        words = bits.words(part.stop - part.start)
        inside = ladder.passes(best - scores[part], words, limits)
        columns.append(inside + part.start)
        passed.append(words[inside])
    return np.concatenate(columns), np.concatenate(passed)


def permute_and_flip(scores: Integers, *, rate: Fraction, bits: Bits = SYSTEM) -> Integers64:
    """Choose one candidate of each row by permute-and-flip.

    Law: exact. Candidates are taken in random order and kept with probability e^(-rate * (best - score)) until one is
    kept: the same law as flipping all coins at once and choosing uniformly among the heads, which is what is done, so
    that the work depends on the shape alone. Needs: a matrix of whole numbers with at least one column, rate > 0.
    """
    field = _field(scores, rate, None)
    rows, row = field.shape
    heads = np.empty((rows, row), dtype=np.bool_)
    at_once = max(1, BLOCK // row)
    for start in range(0, rows, at_once):
        stop = min(start + at_once, rows)
        for part in blocks(row):
            heads[start:stop, part] = _flipped(field, slice(start, stop), part, bits)
    place = uniform_below(heads.sum(axis=1), bits=bits)
    if rows == 1:
        return np.flatnonzero(heads[0])[place]
    chosen: Integers64 = (heads.cumsum(axis=1) > place[:, None]).argmax(axis=1)
    return chosen


def _flipped(field: _Field, rows: slice, columns: slice, bits: Bits) -> npt.NDArray[np.bool_]:
    x = field.products(rows, columns)
    width = columns.stop - columns.start

    def exact(offset: int) -> Fraction:
        return field.exact(rows.start + offset // width, columns.start + offset % width)

    return flips(x.reshape(-1), exact, bits).reshape(x.shape)

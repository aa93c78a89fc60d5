"""Exact choices among candidates: Gumbel-max and permute-and-flip (B3).

Scores are whole numbers, one row of them for each choice; the rate that multiplies them and the weights of the base
measure are exact rationals. Every candidate gets one word of noise, whatever its score.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from holdtrue.entropy import SYSTEM, Bits, Words
from holdtrue.exact import Integers, Rationals
from holdtrue.noise import quantiles
from holdtrue.noise.enclosures import exponential, logarithm, logarithm_of_ratio
from holdtrue.noise.samplers import BLOCK, Floats, Integers64, Uniform, flip_coins, split_blocks, uniform_below

Gaps = npt.NDArray[np.uint64] | npt.NDArray[np.object_]

SMALL: Final = 2.0**-24
"""Candidates whose exponential is below this are settled exactly: its logarithm is too sensitive for floats."""

CLOSE: Final = 2.0**-20
"""Candidates whose key is within this of the smallest are settled exactly.

A key is ln E + rate * gap - ln weight. For E >= SMALL, quantiles.ERROR moves ln E by less than 2^-21.4. A candidate that
could have the smallest key has rate * gap below 5000 (|ln E| < 45, |ln weight| < 750 and differences of these), where
four roundings make less than 2^-37, as do the logarithms of E and of the weight. Twice the sum of all is below CLOSE.
"""

SURVIVORS: Final = 32.0
"""How many candidates of a long row are expected to be looked at closely."""

_STEPS = 1 << 12
_REACH = 40
_SLACK = 1 + 2.0**-30
# Bounds stay above what products of floats might lose to underflow.
_SMALLEST = 2.0**-200


@dataclass(frozen=True, slots=True, eq=False)
class _ExpBounds:
    """Upper bounds of e^(-rate * gap), looked up by the gap.

    One for all gaps from n 2^shift to (n + 1) 2^shift, and that of the last step for all beyond. Guarantee: ``weights[n]``
    is not below e^(-rate * gap) for any gap on the step. Steps are as wide as lets the last one lie below e^-20, and a rate
    above one hundredth has a step for every gap.
    """

    shift: int
    weights: npt.NDArray[np.float64]

    @staticmethod
    def of(rate: Fraction) -> "_ExpBounds":
        """Return the bounds of a rate."""
        shift = 0
        while rate * (_STEPS << (shift + 1)) <= _REACH:
            shift += 1
        step = (exponential(rate * (1 << shift), 64)[1] + 1) / (1 << 64)
        # A product of n floats is off by a relative n 2^-52 at most, which the first factor covers many times over.
        factors = np.full(_STEPS, step)
        factors[0] = _SLACK
        return _ExpBounds(shift, np.maximum(np.multiply.accumulate(factors), _SMALLEST))

    def _find_steps(self, gaps: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        steps = gaps >> np.uint64(self.shift) if self.shift else gaps
        return np.minimum(steps, np.uint64(_STEPS - 1)).view(np.int64)

    def sum_bounds(self, gaps: npt.NDArray[np.uint64]) -> float:
        """Return the sum of the bounds of many gaps."""
        return float(np.take(self.weights, self._find_steps(gaps), mode="clip").sum())

    def find_limits(self, bound: float) -> Words:
        """Return, for each step, the smallest word that may have 1 - U <= bound * weight.

        The first 63 bits u of a word w leave 1 - U at (2^63 - 1 - u) / 2^63 or above, and ~w is at most one more than
        2^64 times that. Where the bound is no bound, every word passes.
        """
        scaled = self.weights * (bound * _SLACK * 2.0**64) + 4
        inside = scaled < 2.0**64
        limits: Words = np.where(inside, ~np.where(inside, scaled, 0.0).astype(np.uint64), np.uint64(0))
        return limits

    def find_passing(self, gaps: npt.NDArray[np.uint64], words: Words, limits: Words) -> npt.NDArray[np.intp]:
        """Return the positions of words that reach the limits of their gaps."""
        return np.flatnonzero(words >= np.take(limits, self._find_steps(gaps), mode="clip"))


class Contender:
    """A candidate whose key is ln E + offset - ln weight, for an exponential E = -ln U of which 63 bits are known.

    A choice asks whose key is smallest: keys are intervals that more bits make narrower, until one is.
    """

    __slots__ = ("_offset", "_uniform", "_weight", "column")

    def __init__(self, column: int, offset: Fraction, weight: Fraction, word: np.uint64, bits: Bits) -> None:
        self.column = column
        self._offset = offset
        self._weight = weight
        self._uniform = Uniform(int(word) >> 1, 63, bits)

    @property
    def precision(self) -> int:
        """Return the bits that are worth working with."""
        return self._uniform.precision

    def extend(self) -> None:
        """Learn more bits of U."""
        self._uniform.extend()

    def enclose_key(self, precision: int) -> tuple[float, float]:
        """Enclose the key, times 2^precision, between whole numbers or infinities."""
        low, high = self._log_exponential(precision)
        offset = self._offset * (1 << precision)
        weight_low, weight_high = logarithm(self._weight, precision)
        return low + math.floor(offset) - weight_high, high + math.ceil(offset) - weight_low

    def _log_exponential(self, precision: int) -> tuple[float, float]:
        prefix, whole, unit = self._uniform.prefix, 1 << self._uniform.length, 1 << precision
        smallest = -logarithm_of_ratio(prefix + 1, whole, precision)[1]
        low = -math.inf if smallest <= 0 else logarithm_of_ratio(smallest, unit, precision)[0]
        if prefix == 0:
            return low, math.inf
        largest = -logarithm_of_ratio(prefix, whole, precision)[0]
        return low, logarithm_of_ratio(largest, unit, precision)[1]

    def at_most(self, bound: Fraction) -> bool:
        """Decide whether the key is at most ln(bound)."""
        while True:
            low, high = self.enclose_key(self.precision)
            bound_low, bound_high = logarithm(bound, self.precision)
            if high <= bound_low:
                return True
            if low > bound_high:
                return False
            self.extend()


class Enclosed(Protocol):
    """Whatever has a key that is an interval, and becomes narrower with more bits."""

    @property
    def precision(self) -> int:
        """Return the bits that are worth working with."""
        ...

    def extend(self) -> None:
        """Learn more bits."""
        ...

    def enclose_key(self, precision: int) -> tuple[float, float]:
        """Enclose the key, times 2^precision, between whole numbers or infinities."""
        ...


Key = TypeVar("Key", bound=Enclosed)


def find_smallest(contenders: list[Key]) -> Key:
    """Return the contender with the smallest key; ends because keys are different with probability one."""
    while len(contenders) > 1:
        precision = max(contender.precision for contender in contenders)
        keys = [contender.enclose_key(precision) for contender in contenders]
        limit = min(high for _, high in keys)
        contenders = [contender for contender, (low, _) in zip(contenders, keys, strict=True) if low <= limit]
        if len(contenders) > 1:
            for contender in contenders:
                contender.extend()
    return contenders[0]


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
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

    def find_gaps(self, rows: slice, columns: slice) -> Gaps:
        """Return how far scores are below the best of their row."""
        best, scores = self.best[rows], self.scores[rows, columns]
        # A difference of two 64-bit integers fits into 64 bits without a sign, and wrapping around gives it.
        return np.subtract(best, scores) if scores.dtype == object else best.view(np.uint64) - scores.view(np.uint64)

    def find_offsets(self, rows: slice, columns: slice) -> Floats:
        """Return rate * gap - ln weight, row after row, infinite at weight 0; the product is off by 2^-51 of it at most."""
        offsets = self.find_products(rows, columns)
        if self.log_weights is not None:
            offsets -= self.log_weights[columns]
        return offsets.reshape(-1)

    def find_products(self, rows: slice, columns: slice) -> Floats:
        """Return rate * gap as floats."""
        return _multiply_gaps(self.find_gaps(rows, columns), self.rate)

    def exact_product(self, row: int, column: int) -> Fraction:
        """Return rate * gap exactly."""
        return (int(self.best[row, 0]) - int(self.scores[row, column])) * self.rate

    def decide(self, row: int, drawn: Iterable[tuple[int, np.uint64]], bits: Bits) -> Contender:
        """Return the one with the smallest key, exactly, of the columns of a row for which these words were drawn."""
        one = Fraction(1)
        weighed = ((column, one if self.weights is None else self.weights.at(column), word) for column, word in drawn)
        return find_smallest(
            [
                Contender(column, self.exact_product(row, column), weight, word, bits)
                for column, weight, word in weighed
                if weight
            ]
        )


def _prepare_candidates(scores: Integers, rate: Fraction, weights: Rationals | None) -> _Candidates:
    log_weights = None if weights is None else _log_weights(weights.floats)
    held = scores if weights is None or weights.floats.all() else scores[:, weights.floats > 0]
    return _Candidates(scores, held.max(axis=1, keepdims=True), rate, weights, log_weights)


def _multiply_gaps(gaps: Gaps, rate: Fraction) -> Floats:
    if gaps.dtype == object:
        largest = 1 << 1000  # so far behind that its exact value does not matter
        floats = np.array([float(min(int(gap), largest)) for gap in gaps.flat]).reshape(gaps.shape)
    else:
        floats = gaps.astype(np.float64)
    with np.errstate(over="ignore"):
        floats *= float(rate)
    return floats


def _log_weights(weights: Floats) -> Floats:
    mantissas, exponents = np.frexp(np.where(weights > 0, weights, 1.0))
    return np.where(weights > 0, quantiles.logarithms(mantissas) + exponents * math.log(2), -np.inf)


def _find_keys(words: Words, offsets: Floats) -> tuple[Floats, quantiles.Positions]:
    """Return every candidate's key, the smallest of which wins, and the positions where it cannot be relied upon."""
    values, tail = quantiles.exponentials(words)
    unsure = np.union1d(np.flatnonzero(values < SMALL), tail) if tail.size or values.min() < SMALL else tail
    values[tail] = 1.0
    keys = quantiles.logarithms(np.maximum(values, quantiles.SMALLEST, out=values))
    keys += offsets
    # What lies in the tail may have any key: it stays in, and rules nothing out.
    keys[tail] = np.inf
    return keys, unsure


def gumbel_argmax(scores: Integers, *, rate: Fraction, weights: Rationals | None = None, bits: Bits = SYSTEM) -> Integers64:
    """Choose one candidate of each row, i with probability proportional to weight_i * e^(rate * score_i).

    Law: exact. It is the argmax of rate * score_i + ln weight_i + G_i with independent Gumbel G_i = -ln E_i, decided by
    floats unless the two best are within :data:`CLOSE`, and then by more bits. Needs: a matrix of whole numbers with at
    least one column, rate > 0, weights >= 0, one for each column, not all 0. The work depends on the shape alone.
    """
    candidates = _prepare_candidates(scores, rate, weights)
    rows, row = candidates.shape
    chosen = np.empty(rows, dtype=np.int64)
    if row <= BLOCK:
        at_once = BLOCK // row
        for start in range(0, rows, at_once):
            part = slice(start, min(start + at_once, rows))
            chosen[part] = _choose_in_short_rows(candidates, part, bits)
        return chosen
    choose = _choose_in_long_row if weights is None and scores.dtype != object else _choose_in_any_long_row
    for number in range(rows):
        chosen[number] = choose(candidates, number, bits)
    return chosen


def _choose_in_short_rows(candidates: _Candidates, rows: slice, bits: Bits) -> Integers64:
    row = candidates.shape[1]
    offsets = candidates.find_offsets(rows, slice(0, row))
    words = bits.words(offsets.size)
    keys, unsure = _find_keys(words, offsets)
    table = keys.reshape(-1, row)
    close = table <= table.min(axis=1, keepdims=True) + CLOSE
    close.reshape(-1)[unsure] = True
    chosen: Integers64 = close.argmax(axis=1)
    for number in np.flatnonzero(close.sum(axis=1) > 1).tolist():
        drawn = ((column, words[number * row + column]) for column in np.flatnonzero(close[number]).tolist())
        chosen[number] = candidates.decide(rows.start + number, drawn, bits).column
    return chosen


def _choose_in_any_long_row(candidates: _Candidates, number: int, bits: Bits) -> int:
    """Choose from one row of any weights and sizes, keeping in mind only those close to the best so far."""
    best = np.inf
    kept: list[tuple[float, int, np.uint64]] = []
    for part in split_blocks(candidates.shape[1]):
        words = bits.words(part.stop - part.start)
        keys, unsure = _find_keys(words, candidates.find_offsets(slice(number, number + 1), part))
        best = min(best, float(keys.min()))
        keys[unsure] = -np.inf
        kept += [(float(keys[i]), part.start + i, words[i]) for i in np.flatnonzero(keys <= best + CLOSE).tolist()]
    return candidates.decide(number, ((column, word) for key, column, word in kept if key <= best + CLOSE), bits).column


def _choose_in_long_row(candidates: _Candidates, number: int, bits: Bits) -> int:
    """Choose from one row, having looked closely at a few candidates only.

    Since E >= 1 - U, a candidate with E e^(rate * gap) <= B has 1 - U <= B e^(-rate * gap): one comparison of its word
    with a bound that is looked up by its gap, rounded up so that none is lost. B = SURVIVORS / sum of e^(-rate * gap)
    lets about SURVIVORS pass. If the smallest of all E e^(rate * gap) is above B (probability e^-SURVIVORS) all is
    drawn again: which candidate has the smallest is independent of how small it is, so this changes nothing in the law.
    """
    scores: npt.NDArray[np.uint64] = candidates.scores[number].view(np.uint64)
    best = candidates.best[number].view(np.uint64)
    bounds = _ExpBounds.of(candidates.rate)
    bound = SURVIVORS / math.fsum(bounds.sum_bounds(best - scores[part]) for part in split_blocks(scores.size))
    limits = bounds.find_limits(bound)
    while True:
        columns, words = _draw_survivors(best, scores, bounds, limits, bits)
        if not columns.size:
            continue
        keys, unsure = _find_keys(words, _multiply_gaps(best - scores[columns], candidates.rate))
        close = keys <= keys.min() + CLOSE
        close[unsure] = True
        first = candidates.decide(number, ((int(columns[i]), words[i]) for i in np.flatnonzero(close).tolist()), bits)
        if first.at_most(Fraction(bound)):
            return first.column


def _draw_survivors(
    best: Words, scores: Words, bounds: _ExpBounds, limits: Words, bits: Bits
) -> tuple[quantiles.Positions, Words]:
    """Draw a word for every candidate, and return the columns and the words of those that reach their limits."""
    columns: list[quantiles.Positions] = []
    passed: list[Words] = []
    for part in split_blocks(scores.size):
        words = bits.words(part.stop - part.start)
        inside = bounds.find_passing(best - scores[part], words, limits)
        columns.append(inside + part.start)
        passed.append(words[inside])
    return np.concatenate(columns), np.concatenate(passed)


def permute_and_flip(scores: Integers, *, rate: Fraction, bits: Bits = SYSTEM) -> Integers64:
    """Choose one candidate of each row by permute-and-flip.

    Law: exact. Candidates are taken in random order and kept with probability e^(-rate * (best - score)) until one is
    kept: the same law as flipping all coins at once and choosing uniformly among the heads, which is what is done, so
    that the work depends on the shape alone. Needs: a matrix of whole numbers with at least one column, rate > 0.
    """
    candidates = _prepare_candidates(scores, rate, None)
    rows, row = candidates.shape
    heads = np.empty((rows, row), dtype=np.bool_)
    at_once = max(1, BLOCK // row)
    for start in range(0, rows, at_once):
        stop = min(start + at_once, rows)
        for part in split_blocks(row):
            heads[start:stop, part] = _flip_coins(candidates, slice(start, stop), part, bits)
    place = uniform_below(heads.sum(axis=1), bits=bits)
    if rows == 1:
        return np.flatnonzero(heads[0])[place]
    chosen: Integers64 = (heads.cumsum(axis=1) > place[:, None]).argmax(axis=1)
    return chosen


def _flip_coins(candidates: _Candidates, rows: slice, columns: slice, bits: Bits) -> npt.NDArray[np.bool_]:
    x = candidates.find_products(rows, columns)
    width = columns.stop - columns.start

    def exact(offset: int) -> Fraction:
        return candidates.exact_product(rows.start + offset // width, columns.start + offset % width)

    return flip_coins(x.reshape(-1), exact, bits).reshape(x.shape)

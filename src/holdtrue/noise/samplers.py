"""Exact samplers over the integers, at the speed of arrays.

Every sampler inverts a distribution function: floats propose a value, and a proposal closer to a boundary than the
float's proven error is settled with more random bits in integers (:class:`Uniform`). What comes out is the value that
exact arithmetic on an endless uniform would give, so each law is exact and not approximate. Scales are exact
rationals; a float stands for the rational that it is.

None of them can fail except as :class:`~holdtrue.entropy.SystemBits` can, or by a value beyond 64 bits, whose
probability is below 2^-8000 for the largest scale.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from holdtrue.entropy import SYSTEM, Bits, Words
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, Rationals, count, integers, rationals
from holdtrue.noise import quantiles
from holdtrue.noise.enclosures import Enclosure, exponential, logarithm, normal_tail

Scale = Number | npt.NDArray[np.generic] | list[Number] | tuple[Number, ...]
Floats = npt.NDArray[np.float64]
Integers64 = npt.NDArray[np.int64]
Threshold = Callable[[int], Enclosure]
"""A probability p as a function of bits: whole numbers low <= p * 2**bits <= high, closer together for more bits."""

LARGEST_SCALE: Final = 2**50

BLOCK: Final = 1 << 14
"""How many draws are made at a time: few enough for the arrays of one block to stay in the processor's cache."""

MARGIN: Final = 1.75 * 2.0**-46
"""Proposals within MARGIN * scale + FLOOR of a boundary are settled exactly.

A proposal is scale * value, value in [0, 13] off by quantiles.ERROR = 1.5 * 2^-46 at most. The scale as a float, the sum
inside and the product add relative roundings of 2^-53 each, together below 3 * 13 * 2^-53 < 0.08 * 2^-46, and the
constant of the Laplace law 2^-50 < 0.07 * 2^-46.
"""
FLOOR: Final = 2.0**-50
"""Covers the roundings of the test itself, which subtracts one half from a fraction, whatever the scale."""

_MORE = 64
_EXTRA = 33


def split_blocks(size: int) -> Iterator[slice]:
    """Cut ``size`` draws into blocks."""
    return (slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))


class Uniform:
    """A uniform number in (0, 1) as an endless string of bits, of which a prefix is known.

    A draw by inversion asks which is the largest k with U <= Pr[value >= k]. Probabilities are enclosed between whole
    numbers, so each comparison is either certain or asks for more bits. Nothing is assumed about the float that proposed a
    value, only that it is a place to start looking.
    """

    __slots__ = ("_bits", "length", "prefix")

    def __init__(self, prefix: int, length: int, bits: Bits) -> None:
        self.prefix = prefix
        self.length = length
        self._bits = bits

    def extend(self) -> None:
        """Learn 64 more bits."""
        self.prefix = (self.prefix << _MORE) | self._bits.more()
        self.length += _MORE

    @property
    def precision(self) -> int:
        """Return the bits that are worth working with."""
        return self.length + _EXTRA

    def is_below(self, threshold: Threshold) -> bool:
        """Decide whether U is below a probability. Ends after n more words but with probability about 2^-64n."""
        while True:
            low, high = threshold(self.precision)
            if (self.prefix + 1) << _EXTRA <= low:
                return True
            if self.prefix << _EXTRA >= high:
                return False
            self.extend()


def settle_value(uniform: Uniform, guess: int, probability_of_at_least: Callable[[int], Threshold]) -> int:
    """Return the largest k >= 0 with U <= Pr[value >= k], looking outwards from a guess in doubling steps."""

    def reaches(k: int) -> bool:
        return k <= 0 or uniform.is_below(probability_of_at_least(k))

    low = high = max(guess, 0)
    step = 1
    if reaches(low):
        high = low + step
        while reaches(high):
            low, step = high, 2 * step
            high = low + step
    else:
        low = high - step
        while not reaches(low):
            high, step = low, 2 * step
            low = high - step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return max(low, 0)


class _TailLaw(Protocol):
    """A distribution on the whole numbers from 0 up, by its upper tail."""

    @property
    def scales(self) -> Rationals:
        """Return what the kernel's value is multiplied by."""
        ...

    def propose(self, words: Words, block: slice, room: quantiles.Scratch) -> tuple[Floats, quantiles.Positions]:
        """Return numbers whose floors are the values, within the margin, and the tail, where they need not be."""
        ...

    def at_least(self, index: int, k: int) -> Threshold:
        """Return Pr[value >= k], k >= 1, for the draw at an index."""
        ...


def _draw_by_inversion(law: _TailLaw, size: int, bits: Bits, *, signed: bool) -> Integers64:
    """Draw from a law; ``signed`` gives every value a fair sign, from the last bit of its word."""
    drawn = np.empty(size, dtype=np.int64)
    whole_room = quantiles.Scratch(min(size, BLOCK))
    for block in split_blocks(size):
        room = whole_room.shorten_to(block.stop - block.start)
        words = bits.words(block.stop - block.start)
        proposed, tail = law.propose(words, block, room)
        whole = np.floor(proposed, out=room.x)
        open_ = _find_undecided(proposed, whole, law.scales.slice(block), tail, room.spare)
        if signed:
            whole.view(np.uint64)[...] |= np.left_shift(words, np.uint64(63), out=room.spare.view(np.uint64))
        drawn[block] = whole
        for offset in open_.tolist():
            word = int(words[offset])
            guess = int(min(max(proposed[offset], 0.0), 2.0**60))
            value = settle_value(Uniform(word >> 1, 63, bits), guess, partial(law.at_least, block.start + offset))
            drawn[block.start + offset] = -value if signed and word & 1 else value
    return drawn


def _find_undecided(
    proposed: Floats, whole: Floats, scale: Floats | float, tail: quantiles.Positions, distance: Floats
) -> quantiles.Positions:
    """Return where a proposal is too close to a boundary, or lies in the tail."""
    limit = 0.5 - FLOOR - MARGIN * scale
    np.subtract(proposed, whole, out=distance)
    distance -= 0.5
    np.abs(distance, out=distance)
    if isinstance(limit, float) and distance.max() <= limit and not tail.size:
        return tail
    near = np.flatnonzero(distance > limit)
    return np.union1d(near, tail) if tail.size else near


@dataclass(frozen=True, slots=True)
class _Geometric:
    """Pr[value >= k] = e^(-k / scale)."""

    scales: Rationals

    def propose(self, words: Words, block: slice, room: quantiles.Scratch) -> tuple[Floats, quantiles.Positions]:
        values, tail = quantiles.exponentials(words, room)
        values *= self.scales.slice(block)
        return values, tail

    def at_least(self, index: int, k: int) -> Threshold:
        exponent = k / self.scales.at(index)
        return lambda bits: exponential(exponent, bits)


@dataclass(frozen=True, slots=True)
class _FoldedLaplace:
    """The absolute value of the discrete Laplace law: Pr[value >= k] = 2 e^(-k / scale) / (1 + e^(-1 / scale)), k >= 1."""

    scales: Rationals
    shifts: Floats

    def propose(self, words: Words, block: slice, room: quantiles.Scratch) -> tuple[Floats, quantiles.Positions]:
        values, tail = quantiles.exponentials(words, room)
        values += self.shifts if self.scales.alone else self.shifts[block]
        values *= self.scales.slice(block)
        return values, tail

    def at_least(self, index: int, k: int) -> Threshold:
        rate = 1 / self.scales.at(index)

        def threshold(bits: int) -> Enclosure:
            unit = 1 << bits
            low, high = exponential(k * rate, bits)
            once_low, once_high = exponential(rate, bits)
            return 2 * low * unit // (unit + once_high), 2 * high * unit // (unit + once_low) + 1

        return threshold


@dataclass(frozen=True, slots=True)
class _FoldedGaussian:
    """The absolute value of round(scale * Z): Pr[value >= k] = 2 Pr[Z >= (k - 1/2) / scale], k >= 1."""

    scales: Rationals

    def propose(self, words: Words, block: slice, room: quantiles.Scratch) -> tuple[Floats, quantiles.Positions]:
        values, tail = quantiles.normals(words, room)
        values *= self.scales.slice(block)
        values += 0.5
        return values, tail

    def at_least(self, index: int, k: int) -> Threshold:
        point = (k - Fraction(1, 2)) / self.scales.at(index)
        return lambda bits: normal_tail(point, bits + 1)


def geometric(scale: Scale, *, size: int | None = None, bits: Bits = SYSTEM) -> Integers64:
    """Draw G with Pr[G = g] = (1 - e^(-1/scale)) e^(-g/scale), g = 0, 1, 2, ...

    Law: exact, the floor of scale * E for a standard exponential E. Needs: scales in (0, 2^50], one for all draws or
    one for each. Error bound: :data:`MARGIN`.
    """
    scales, size = _check_size("scale", scale, size)
    return _draw_by_inversion(_Geometric(scales), size, bits, signed=False)


def discrete_laplace(scale: Scale, *, size: int | None = None, bits: Bits = SYSTEM) -> Integers64:
    """Draw Z with Pr[Z = z] proportional to e^(-|z|/scale), z = ..., -1, 0, 1, ...

    Law: exact (A5's discrete law). |Z| is the floor of scale * (E + ln(2 / (1 + e^(-1/scale)))) for a standard
    exponential E, and the sign is fair. Needs: scales in (0, 2^50], one for all draws or one for each. Error bound:
    :data:`MARGIN`.
    """
    scales, size = _check_size("scale", scale, size)
    return _draw_by_inversion(_FoldedLaplace(scales, _laplace_shifts(scales)), size, bits, signed=True)


def rounded_gaussian(scale: Scale, *, size: int | None = None, bits: Bits = SYSTEM) -> Integers64:
    """Draw round(scale * Z) for a standard normal Z.

    Law: exact, Pr[|value| >= k] = 2 Pr[Z >= (k - 1/2) / scale] and a fair sign, so that a whole number plus this noise
    is a rounding of the Gaussian mechanism and exactly mu-GDP (0.7). Needs: scales in (0, 2^50], one for all draws or
    one for each. Error bound: :data:`MARGIN`.
    """
    scales, size = _check_size("scale", scale, size)
    return _draw_by_inversion(_FoldedGaussian(scales), size, bits, signed=True)


def _check_size(name: str, scale: Scale, size: int | None) -> tuple[Rationals, int]:
    scales = rationals(name, scale, most=LARGEST_SCALE)
    if scales.alone:
        return scales, count("size", 1 if size is None else size, least=0)
    if size not in (None, scales.floats.size):
        raise InvalidParameter("size", size, f"left out, or the number of scales, {scales.floats.size}")
    return scales, scales.floats.size


_SERIES_FROM = 16.0


def _laplace_shifts(scales: Rationals) -> Floats:
    """Return ln(2 / (1 + e^(-1/scale))) to within 2^-51.

    With y = 1 / (2 scale) it is y - ln cosh y. For scales from 16 up, ln cosh y = y^2/2 - y^4/12 + y^6/45 - 17 y^8/2520
    to within 31 y^10 / 14175 < 2^-58; smaller scales are few or repeat, and each is computed once, exactly.
    """
    floats = np.atleast_1d(scales.floats)
    y = 0.5 / np.maximum(floats, _SERIES_FROM)
    square = y * y
    shifts: Floats = y - square * (1 / 2 - square * (1 / 12 - square * (1 / 45 - square * (17 / 2520))))
    known: dict[Fraction, float] = {}
    for position in np.flatnonzero(floats < _SERIES_FROM).tolist():
        scale = scales.at(position)
        if scale not in known:
            known[scale] = _laplace_shift(scale)
        shifts[position] = known[scale]
    return shifts


def _laplace_shift(scale: Fraction) -> float:
    bits = 80
    low, _ = logarithm(Fraction((1 << bits) + exponential(1 / scale, bits)[0], 2 << bits), bits)
    return -low / (1 << bits)


def uniform_below(n: int | Integers64, *, size: int | None = None, bits: Bits = SYSTEM) -> Integers64:
    """Draw whole numbers from 0 to n - 1, all equally likely.

    Law: exact, the floor of n * U. A word decides it unless the product is within n of the next whole number
    (probability n / 2^64), when more bits do. Needs: n from 1 to 2^32, one for all draws or one for each.
    """
    largest = 1 << 32
    limits = np.atleast_1d(integers("n", n))
    if limits.dtype == object or limits.size == 0 or limits.min() < 1 or limits.max() > largest:
        raise InvalidParameter("n", n, "a whole number, 1 to 2^32")
    words = bits.words(limits.size if size is None else count("size", size, least=0))
    bounds, half, rest = limits.astype(np.uint64), np.uint64(32), np.uint64(largest - 1)
    low = (words & rest) * bounds
    middle = (words >> half) * bounds + (low >> half)
    drawn = (middle >> half).astype(np.int64)
    remainder = (middle << half) | (low & rest)
    for position in np.flatnonzero(remainder > np.uint64(0) - bounds).tolist():
        uniform = Uniform(int(words[position]), 64, bits)
        value = int(drawn[position])
        bound = int(limits[position % limits.size])
        drawn[position] = value if uniform.is_below(_enclose_fraction(Fraction(value + 1, bound))) else value + 1
    return drawn


def _enclose_fraction(value: Fraction) -> Threshold:
    def threshold(bits: int) -> Enclosure:
        scaled = (value.numerator << bits) / Fraction(value.denominator)
        return math.floor(scaled), math.ceil(scaled)

    return threshold


def bernoulli(probability: Scale, *, size: int | None = None, bits: Bits = SYSTEM) -> npt.NDArray[np.bool_]:
    """Draw True with the given rational probability.

    Law: exact; U < p is decided by one word unless the first 64 bits of U and p agree. Needs: p in [0, 1], one for all
    draws or one for each.
    """
    chances = rationals("probability", probability, zero=True, most=1)
    size = chances.floats.size if not chances.alone else count("size", 1 if size is None else size, least=0)
    words = bits.words(size)
    whole = [math.floor(chances.at(i) * (1 << 64)) for i in range(chances.floats.size)]
    certain = np.array([value >> 64 for value in whole], dtype=bool)
    limits = np.array([value & ((1 << 64) - 1) for value in whole], dtype=np.uint64)
    drawn: npt.NDArray[np.bool_] = (words < limits) | certain
    for position in np.flatnonzero((words == limits) & ~certain).tolist():
        drawn[position] = Uniform(int(words[position]), 64, bits).is_below(_enclose_fraction(chances.at(position)))
    return drawn


def bernoulli_exponential(exponent: Scale, *, size: int | None = None, bits: Bits = SYSTEM) -> npt.NDArray[np.bool_]:
    """Draw True with probability e^-x.

    Law: exact; -ln U >= x is decided by floats unless the two are within :data:`MARGIN` * (1 + x). Needs: x >= 0, one
    for all draws or one for each.
    """
    exponents = rationals("exponent", exponent, zero=True)
    size = exponents.floats.size if not exponents.alone else count("size", 1 if size is None else size, least=0)
    drawn = np.empty(size, dtype=np.bool_)
    for block in split_blocks(size):
        x = np.broadcast_to(exponents.slice(block), (block.stop - block.start,))
        drawn[block] = flip_coins(x, lambda offset, first=block.start: exponents.at(first + offset), bits)  # type: ignore[misc]
    return drawn


def flip_coins(x: Floats, exact: Callable[[int], Fraction], bits: Bits) -> npt.NDArray[np.bool_]:
    """Flip one block of coins that show heads with probabilities e^-x; the floats are off by a relative 2^-51 at most."""
    words = bits.words(x.size)
    values, tail = quantiles.exponentials(words)
    drawn: npt.NDArray[np.bool_] = values >= x
    # Outside the tail values are below 12, so that a larger x is decided whatever its error.
    distance = np.abs(values - np.minimum(x, 16.0))
    for offset in np.union1d(np.flatnonzero(distance <= 16 * MARGIN), tail).tolist():
        exponent = exact(offset)
        uniform = Uniform(int(words[offset]) >> 1, 63, bits)
        drawn[offset] = uniform.is_below(lambda precision, x=exponent: exponential(x, precision))  # type: ignore[misc]
    return drawn

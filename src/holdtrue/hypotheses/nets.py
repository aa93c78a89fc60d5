"""The members of linear nets: whole weights and whole offsets, the same on every machine.

A net is drawn from nothing but its own parameters. All arithmetic is over the integers, but for one square root, which IEEE
754 rounds correctly everywhere.
"""

import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count as numbers
from itertools import islice
from math import isqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdtrue.noise.enclosures import normal_tail

__all__ = ["GROUP", "HEAVIEST", "REACH", "Net", "grid_size", "net_of", "sequence"]

HEAVIEST: Final = 127
"""The largest weight."""

REACH: Final = 1 << 12
"""The whole number that stands for 1: columns, scaled to [-1, 1], are whole multiples of 1 / REACH, and so are offsets."""

GROUP: Final = 4
"""Nets are padded to a multiple of so many members, and to an even number of columns, with zeros."""

_SPREAD = 32
_MAGNITUDES = 31
_BLOCK = 1 << 16

Words = npt.NDArray[np.uint64]
Wholes = npt.NDArray[np.int64]

_lock = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Net:
    """Members w · x ≥ b, one a line: weights and offsets, padded (see :data:`GROUP`). Both are shared: never written to."""

    weights: npt.NDArray[np.int16]
    offsets: npt.NDArray[np.int32]


def net_of(width: int, *, count: int | None, resolution: int | None) -> Net:
    """Return the first members of the sequence, or the whole grid of a resolution; built once, also by many threads."""
    with _lock:
        return _built(width, count, resolution)


@lru_cache(maxsize=4)
def _built(width: int, count: int | None, resolution: int | None) -> Net:
    size = grid_size(width, resolution) if resolution is not None else count or 0
    weights = np.zeros((-(-size // GROUP) * GROUP, width + width % 2), dtype=np.int16)
    offsets = np.zeros(len(weights), dtype=np.int32)
    if resolution is not None:
        _fill(width, resolution, weights, offsets)
    else:
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            weights[start:stop, :width], offsets[start:stop] = sequence(width, start, stop)
    weights.setflags(write=False)
    offsets.setflags(write=False)
    return Net(weights, offsets)


def sequence(width: int, start: int, stop: int) -> tuple[Wholes, Wholes]:
    """Return weights and offsets of members ``start`` to ``stop`` of the sequence.

    Member n is the point n + 1 of Richtmyer's sequence, the multiples of (√2, √3, √5, ...) modulo 1: square roots of
    different primes are independent over the rationals, so that the points fill the unit cube evenly (Weyl). The first
    coordinate t places the offset evenly in ± the length of w, so that hyperplanes cut the unit ball inside the cube; the
    others become weights by the normal quantile, times 32, rounded, so that directions fill the sphere evenly. Weights
    that are all 0 give way to the first axis.
    """
    order = np.arange(start + 1, stop + 1, dtype=np.uint64)
    weights = np.stack([_weights(order * step) for step in _steps(width + 1)[1:]], axis=1)
    weights[~weights.any(axis=1), 0] = 1
    place = (order * _steps(1)[0] >> np.uint64(48)).astype(np.int64) - (1 << 15)
    squares = (weights * weights).sum(axis=1) * place * place
    length = np.floor(np.sqrt(squares.astype(np.float64)) * (REACH / (1 << 15))).astype(np.int64)
    return weights, np.sign(place) * length


@lru_cache(maxsize=16)
def _steps(number: int) -> Words:
    """Return the fractions of the square roots of the first primes, as 64-bit words."""
    primes = (n for n in numbers(2) if all(n % k for k in range(2, isqrt(n) + 1)))
    return np.array([isqrt(prime << 128) % (1 << 64) for prime in islice(primes, number)], dtype=np.uint64)


def _weights(words: Words) -> Wholes:
    """Turn uniform words into whole numbers near 32 Z, with Z standard normal, none beyond ± HEAVIEST."""
    signed = (words >> np.uint64(63 - _MAGNITUDES)).astype(np.int64) - (1 << _MAGNITUDES)
    magnitudes = np.searchsorted(_edges(), np.maximum(signed, -1 - signed), side="right")
    return np.where(signed < 0, -magnitudes, magnitudes)


@lru_cache(maxsize=1)
def _edges() -> Wholes:
    """Return 2^31 Pr[|Z| < (k - 1/2) / 32] for k from 1 to HEAVIEST, as whole numbers."""
    tails = [normal_tail(Fraction(2 * k - 1, 2 * _SPREAD), _MAGNITUDES + 1)[0] for k in range(1, HEAVIEST + 1)]
    return np.array([(1 << _MAGNITUDES) - tail for tail in tails], dtype=np.int64)


def grid_size(width: int, resolution: int) -> int:
    """Return how many members a grid has: its primitive vectors, by Möbius's sum over common divisors, times its offsets."""
    primitive: int = sum(_moebius(g) * ((2 * (resolution // g) + 1) ** width - 1) for g in range(1, resolution + 1))
    return primitive * (2 * resolution + 1)


def _moebius(number: int) -> int:
    """Return the sum of the primitive roots of unity of this order: the coefficients that undo a sum over divisors."""
    sign, rest = 1, number
    for prime in range(2, number + 1):
        if rest % prime == 0:
            rest //= prime
            sign = -sign
            if rest % prime == 0:
                return 0
    return sign


def _fill(width: int, resolution: int, weights: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> None:
    """Write a grid: directions in lexicographic order, with the offsets |w|₁ k / (r + 1), k from -r to r, for each."""
    places = np.arange(-resolution, resolution + 1, dtype=np.int64)
    filled = 0
    for start in range(0, places.size**width, _BLOCK):
        codes = np.arange(start, min(start + _BLOCK, places.size**width), dtype=np.int64)
        digits = np.stack(np.unravel_index(codes, (places.size,) * width), axis=1) - resolution
        primitive = digits[np.gcd.reduce(digits, axis=1) == 1]
        reach = REACH * np.abs(primitive).sum(axis=1)
        part = slice(filled, filled + len(primitive) * places.size)
        weights[part, :width] = np.repeat(primitive, places.size, axis=0)
        offsets[part] = (reach[:, np.newaxis] * places // (resolution + 1)).reshape(-1)
        filled = part.stop

"""Hashing rows of 64-bit words column by column: NumPy, or numba where it pays, with the same integers either way."""

from types import ModuleType
from typing import Final

import numpy as np

from holdtrue.kernels import LazyKernels, Words

__all__ = ["LANES", "mix_rows"]

LANES: Final = 4
_LARGE_WORK: Final = 1 << 24
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)


def _warm_up(module: ModuleType) -> None:
    none = np.zeros((LANES, 0), dtype=np.uint64)
    module.mix_rows(none, np.zeros((LANES, 2, LANES), dtype=np.uint64), none, 0)


_COMPILED = LazyKernels("row_words_compiled", after=_LARGE_WORK, warm_up=_warm_up)


def mix_rows(words: Words, keys: Words, lanes: Words, rows: int) -> None:
    """Add to each lane of each of the first rows the products of its words' halves, a key added to either modulo 2^32.

    Law: for independent uniform keys of 32 bits, one pair for each word of a row and each lane, two different rows of
    equally many words have the same four totals modulo 2^64 with probability at most 2^-128: the hash NH of Black,
    Halevi, Krawczyk, Krovetz and Rogaway with 32-bit words, four times. ``words`` has a line for each place in a row, and
    ``keys`` for each of them the keys of the lower halves, then those of the upper ones.
    """
    compiled = _COMPILED(len(words) * rows)
    if compiled is not None:
        compiled.mix_rows(words, keys, lanes, rows)
        return
    for line, pair in zip(words, keys, strict=True):
        low, high = line[:rows] & _LOW, line[:rows] >> _HALF
        for lane, (below, above) in enumerate(zip(pair[0], pair[1], strict=True)):
            lanes[lane, :rows] += ((low + below) & _LOW) * ((high + above) & _LOW)

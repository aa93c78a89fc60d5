"""Hashing rows of 64-bit words column by column: NumPy, or numba where it pays, with the same integers either way."""

from types import ModuleType
from typing import Final

import numpy as np

from holdtrue.kernels import LazyKernels, Words

__all__ = ["LANES", "mix_words"]

LANES: Final = 4
_LARGE_WORK: Final = 1 << 24
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)


def _warm_up(module: ModuleType) -> None:
    none = np.zeros((LANES, 0), dtype=np.uint64)
    module.mix_words(none[0], np.zeros((2, LANES), dtype=np.uint64), none)


_COMPILED = LazyKernels("row_words_compiled", after=_LARGE_WORK, warm_up=_warm_up)


def mix_words(words: Words, keys: Words, lanes: Words) -> None:
    """Add to each lane of each row the product of the halves of its word, a key added to either half modulo 2^32.

    Law: for independent uniform keys of 32 bits, one pair for each word of a row and each lane, two different rows of
    equally many words have the same four totals modulo 2^64 with probability at most 2^-128: the hash NH of Black,
    Halevi, Krawczyk, Krovetz and Rogaway with 32-bit words, four times. ``keys`` has the keys of the lower halves, then
    those of the upper ones.
    """
    compiled = _COMPILED(words.size)
    if compiled is not None:
        compiled.mix_words(words, keys, lanes)
        return
    low, high = words & _LOW, words >> _HALF
    for lane, (below, above) in enumerate(zip(keys[0], keys[1], strict=True)):
        lanes[lane] += ((low + below) & _LOW) * ((high + above) & _LOW)

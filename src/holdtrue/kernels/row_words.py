"""Hashing rows of 64-bit words column by column: NumPy, or numba where it pays, with the same integers either way."""

from typing import Final

import numpy as np

from holdtrue.kernels import LazyKernels, Words

__all__ = ["LANES", "expect_work", "mix_rows"]

LANES: Final = 4
_LARGE_WORK: Final = 1 << 27  # words: what NumPy takes longer for than machine code takes to load
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)

_COMPILED = LazyKernels("row_words_compiled", after=_LARGE_WORK)


def expect_work(words: int) -> None:
    """Load the machine code before the first of so many words, where it pays; loaded meanwhile, it would slow both."""
    if words >= _LARGE_WORK:
        _COMPILED(words)


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
    low, high, left, right = np.empty((4, rows), dtype=np.uint64)
    for line, pair in zip(words, keys, strict=True):
        np.bitwise_and(line[:rows], _LOW, out=low)
        np.right_shift(line[:rows], _HALF, out=high)
        for lane, (below, above) in enumerate(zip(pair[0], pair[1], strict=True)):
            np.bitwise_and(np.add(low, below, out=left), _LOW, out=left)
            np.bitwise_and(np.add(high, above, out=right), _LOW, out=right)
            lanes[lane, :rows] += np.multiply(left, right, out=left)

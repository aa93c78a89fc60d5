"""The kernel of :mod:`holdtrue.kernels.row_words` in numba: the integers of its namesake there."""

import numpy as np

from holdtrue.kernels import Words, compile_kernel

__all__ = ["mix_rows"]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_TOGETHER = 1024  # rows whose lanes stay in the nearest cache


@compile_kernel
def _mix_lines(words: tuple[Words, Words], keys: tuple[Words, Words], lanes: tuple[Words, Words, Words, Words]) -> None:
    """Take all four lanes in one pass over two words of each row; every word takes the same steps."""
    one, other = words
    first, second, third, fourth = lanes
    low_keys, high_keys = keys[0][0], keys[0][1]
    below0, below1, below2, below3 = low_keys[0], low_keys[1], low_keys[2], low_keys[3]
    above0, above1, above2, above3 = high_keys[0], high_keys[1], high_keys[2], high_keys[3]
    low_keys, high_keys = keys[1][0], keys[1][1]
    under0, under1, under2, under3 = low_keys[0], low_keys[1], low_keys[2], low_keys[3]
    over0, over1, over2, over3 = high_keys[0], high_keys[1], high_keys[2], high_keys[3]
    for row in range(one.size):
        low, bottom = one[row], other[row]
        high, top = low >> _HALF, bottom >> _HALF
        first[row] += ((low + below0) & _LOW) * ((high + above0) & _LOW) + ((bottom + under0) & _LOW) * (
            (top + over0) & _LOW
        )
        second[row] += ((low + below1) & _LOW) * ((high + above1) & _LOW) + ((bottom + under1) & _LOW) * (
            (top + over1) & _LOW
        )
        third[row] += ((low + below2) & _LOW) * ((high + above2) & _LOW) + ((bottom + under2) & _LOW) * (
            (top + over2) & _LOW
        )
        fourth[row] += ((low + below3) & _LOW) * ((high + above3) & _LOW) + ((bottom + under3) & _LOW) * (
            (top + over3) & _LOW
        )


@compile_kernel
def mix_rows(words: Words, keys: Words, lanes: Words, rows: int) -> None:
    """Take a few rows at a time through all their words, two words at a time; a last one is taken with zeros and no keys."""
    nothing, no_keys = np.zeros(_TOGETHER, dtype=np.uint64), np.zeros_like(keys[0])
    count = words.shape[0]
    for start in range(0, rows, _TOGETHER):
        stop = min(start + _TOGETHER, rows)
        some = lanes[0][start:stop], lanes[1][start:stop], lanes[2][start:stop], lanes[3][start:stop]
        for place in range(0, count - 1, 2):
            pair = words[place][start:stop], words[place + 1][start:stop]
            _mix_lines(pair, (keys[place], keys[place + 1]), some)
        if count % 2:
            _mix_lines((words[count - 1][start:stop], nothing[: stop - start]), (keys[count - 1], no_keys), some)

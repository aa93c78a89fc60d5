"""The kernel of :mod:`holdtrue.kernels.row_words` in numba: the integers of its namesake there."""

import numpy as np

from holdtrue.kernels import Words, compile_kernel

__all__ = ["mix_words"]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@compile_kernel
def mix_words(words: Words, keys: Words, lanes: Words) -> None:
    """Take all four lanes in one pass over the words; every word takes the same steps."""
    first, second, third, fourth = lanes[0], lanes[1], lanes[2], lanes[3]
    below0, below1, below2, below3 = keys[0, 0], keys[0, 1], keys[0, 2], keys[0, 3]
    above0, above1, above2, above3 = keys[1, 0], keys[1, 1], keys[1, 2], keys[1, 3]
    for row in range(words.size):
        low = words[row]
        high = low >> _HALF
        first[row] += ((low + below0) & _LOW) * ((high + above0) & _LOW)
        second[row] += ((low + below1) & _LOW) * ((high + above1) & _LOW)
        third[row] += ((low + below2) & _LOW) * ((high + above2) & _LOW)
        fourth[row] += ((low + below3) & _LOW) * ((high + above3) & _LOW)

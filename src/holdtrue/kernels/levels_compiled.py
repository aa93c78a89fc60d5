"""The kernels of :mod:`holdtrue.kernels.levels` in numba: the integers of their namesakes there."""

import numpy as np

from holdtrue.kernels import Integers, compile_kernel

__all__ = ["count_levels", "find_member"]

_BLOCK = 1 << 12


@compile_kernel
def count_levels(scores: Integers, best: int, levels: int) -> Integers:
    """Count by level in four tables in turn, so that no count waits for the one before; every score takes the same steps."""
    tables = np.zeros((4, levels + 1), dtype=np.int64)
    last = np.uint64(levels)
    whole = scores.size // 4 * 4
    for place in range(0, whole, 4):
        tables[0, min(np.uint64(best - scores[place]), last)] += 1
        tables[1, min(np.uint64(best - scores[place + 1]), last)] += 1
        tables[2, min(np.uint64(best - scores[place + 2]), last)] += 1
        tables[3, min(np.uint64(best - scores[place + 3]), last)] += 1
    for place in range(whole, scores.size):
        tables[0, min(np.uint64(best - scores[place]), last)] += 1
    counts: Integers = tables[0] + tables[1] + tables[2] + tables[3]
    return counts


@compile_kernel
def find_member(scores: Integers, best: int, level: int, rank: int, beyond: bool) -> int:  # noqa: FBT001 - numba's kernels take no keywords
    """Count members block by block, and look for the one within its block."""
    wanted = np.uint64(level)
    for start in range(0, scores.size, _BLOCK):
        stop = min(start + _BLOCK, scores.size)
        members = 0
        for place in range(start, stop):
            gap = np.uint64(best - scores[place])
            members += int(gap >= wanted) if beyond else int(gap == wanted)
        if rank < members:
            for place in range(start, stop):
                gap = np.uint64(best - scores[place])
                if (gap >= wanted) if beyond else (gap == wanted):
                    if rank == 0:
                        return place
                    rank -= 1
        rank -= members
    return -1

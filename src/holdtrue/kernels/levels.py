"""Counting candidates by how far they are below the best: NumPy, or numba where it pays, with the same integers."""

from typing import Final

import numpy as np

from holdtrue.kernels import Integers, LazyKernels

__all__ = ["count_levels", "find_member"]

_LARGE_WORK: Final = 1 << 21
_BLOCK: Final = 1 << 14
_COMPILED = LazyKernels("levels_compiled", after=_LARGE_WORK)


def count_levels(scores: Integers, best: int, levels: int) -> Integers:
    """Return how many scores are 0, 1, ..., levels - 1 below the best, and last how many are further below.

    Needs: ``best`` is the largest of the scores; a difference of two 64-bit numbers fits into 64 bits without a sign.
    """
    compiled = _COMPILED(scores.size)
    if compiled is not None:
        found: Integers = compiled.count_levels(scores, best, levels)
        return found
    counts = np.zeros(levels + 1, dtype=np.int64)
    for start in range(0, scores.size, _BLOCK):
        gaps = np.uint64(best & 0xFFFFFFFFFFFFFFFF) - scores[start : start + _BLOCK].view(np.uint64)
        counts += np.bincount(np.minimum(gaps, np.uint64(levels)).astype(np.int64), minlength=levels + 1)
    return counts


def find_member(scores: Integers, best: int, level: int, rank: int, *, beyond: bool) -> int:
    """Return the place of the score at a rank, counted from 0, among those a level below the best, or at least that far.

    Needs: there are more than ``rank`` of them. It stops where it finds it: the time tells the place, and nothing else.
    """
    compiled = _COMPILED(scores.size)
    if compiled is not None:
        return int(compiled.find_member(scores, best, level, rank, beyond))
    for start in range(0, scores.size, _BLOCK):
        gaps = np.uint64(best & 0xFFFFFFFFFFFFFFFF) - scores[start : start + _BLOCK].view(np.uint64)
        members = np.flatnonzero(gaps >= np.uint64(level) if beyond else gaps == np.uint64(level))
        if rank < members.size:
            return start + int(members[rank])
        rank -= members.size
    raise IndexError(rank)

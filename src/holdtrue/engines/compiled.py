"""The counting kernels in numba; imported only through :mod:`holdtrue.engines.kernels`.

Each function gives the integers of its namesake there, which is written in NumPy and is the definition. None of them
checks an index: the callers do. They hold no lock and start no thread, so any number of threads may run them at once.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from holdtrue.compiling import kernel, popcount
from holdtrue.engines.kernels import AND, AND_TOP, OR, PUSH

__all__ = ["conjunctions", "programs", "ranges"]

_WORD_BITS = 64


def _bytes_inside(_context: Any, address: Any, low: Any, length: Any) -> Any:  # noqa: ANN401, ARG001 - numba's own signature
    """Compare the 64 bytes at an address with a range, one bit each: one instruction where the processor has it."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        vector = ir.VectorType(ir.IntType(8), _WORD_BITS)

        def spread(byte: Any) -> Any:  # noqa: ANN401 - likewise
            alone = builder.insert_element(ir.Constant(vector, ir.Undefined), byte, ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), _WORD_BITS), None)
            return builder.shuffle_vector(alone, alone, zeros)

        held = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()), align=1)
        shifted = builder.sub(held, spread(arguments[1]))
        return builder.bitcast(builder.icmp_unsigned("<", shifted, spread(arguments[2])), ir.IntType(_WORD_BITS))

    return types.uint64(types.intp, types.uint8, types.uint8), emit


_ones: Any = popcount()
_inside: Any = intrinsic(_bytes_inside)


@kernel
def conjunctions(arena: Any, slots: Any, tile: int, counts: Any) -> None:  # noqa: ANN401, C901 - a loop a width; compiled for what comes
    """Add to each count the bits set in all rows of the arena that its line of slots names, tile after tile."""
    queries, width = slots.shape
    words = arena.shape[1]
    for start in range(0, words, tile):
        stop = min(start + tile, words)
        for query in range(queries):
            total = np.uint64(0)
            a = arena[slots[query, 0], start:stop]
            b = arena[slots[query, min(1, width - 1)], start:stop]
            c = arena[slots[query, min(2, width - 1)], start:stop]
            if width == 1:
                for i in range(stop - start):
                    total += _ones(a[i])
            elif width == 2:  # noqa: PLR2004 - two, three, and more have a loop each
                for i in range(stop - start):
                    total += _ones(a[i] & b[i])
            elif width == 3:  # noqa: PLR2004 - likewise
                for i in range(stop - start):
                    total += _ones(a[i] & b[i] & c[i])
            else:
                for i in range(stop - start):
                    word = a[i] & b[i] & c[i]
                    for j in range(3, width):
                        word &= arena[slots[query, j], start + i]
                    total += _ones(word)
            counts[query] += np.int64(total)


@kernel
def _copy(here: Any, other: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(here.size):
        here[i] = other[i]


@kernel
def _meet(here: Any, other: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(here.size):
        here[i] &= other[i]


@kernel
def _join(here: Any, other: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(here.size):
        here[i] |= other[i]


@kernel
def _total(here: Any) -> Any:  # noqa: ANN401 - likewise
    total = np.uint64(0)
    for i in range(here.size):
        total += _ones(here[i])
    return np.int64(total)


@kernel
def programs(arena: Any, steps: Any, starts: Any, room: Any, counts: Any) -> None:  # noqa: ANN401 - likewise
    """Run programs (see :mod:`holdtrue.engines.kernels`) over short runs of words, and count the bits that remain."""
    words = arena.shape[1]
    length = room.shape[1]
    for query in range(starts.size - 1):
        for start in range(0, words, length):
            size = min(length, words - start)
            depth = 0
            for position in range(starts[query], starts[query + 1]):
                step, slot = steps[position, 0], steps[position, 1]
                if step == PUSH:
                    _copy(room[depth, :size], arena[slot, start : start + size])
                    depth += 1
                elif step == AND:
                    _meet(room[depth - 1, :size], arena[slot, start : start + size])
                elif step == OR:
                    _join(room[depth - 1, :size], arena[slot, start : start + size])
                elif step == AND_TOP:
                    depth -= 1
                    _meet(room[depth - 1, :size], room[depth, :size])
                else:
                    depth -= 1
                    _join(room[depth - 1, :size], room[depth, :size])
            counts[query] += _total(room[0, :size])


@kernel
def ranges(codes: Any, order: Any, buckets: Any, edges: Any, words: Any) -> None:  # noqa: ANN401, C901 - likewise
    """Write the bits of the rows whose code lies in one of the bucket ranges, and of the rows that the edges list."""
    rows = codes.size
    whole = rows // 64
    words[whole:] = 0
    if buckets.shape[0] != 1:
        words[:whole] = 0
    for span in range(buckets.shape[0]):
        low, length = np.uint8(buckets[span, 0]), np.uint8(buckets[span, 1] - buckets[span, 0])
        address = codes.ctypes.data
        if buckets.shape[0] == 1:
            for number in range(whole):
                words[number] = _inside(address + number * 64, low, length)
        else:
            for number in range(whole):
                words[number] |= _inside(address + number * 64, low, length)
    for row in range(64 * whole, rows):
        for span in range(buckets.shape[0]):
            if buckets[span, 0] <= codes[row] < buckets[span, 1]:
                words[whole] |= np.uint64(1) << np.uint64(row & 63)
    for span in range(edges.shape[0]):
        for position in range(edges[span, 0], edges[span, 1]):
            row = order[position]
            words[row >> 6] |= np.uint64(1) << np.uint64(row & 63)

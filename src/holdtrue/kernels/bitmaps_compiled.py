"""The counting kernels in numba; imported only through :mod:`holdtrue.kernels.bitmaps`.

Each function gives the integers of its namesake there, which is written in NumPy and is the definition. None of them
checks an index: the callers do. They hold no lock and start no thread, so any number of threads may run them at once.
"""

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from holdtrue.kernels import compile_kernel
from holdtrue.kernels.bitmaps import AND, AND_TOP, OR, PUSH

__all__ = ["count_bytes", "count_conjunction", "count_conjunctions", "count_programs", "count_range", "mark_ranges"]

_LINE = 8
_TOGETHER = 4
_RUN = 512


def _make_counter(width: int) -> Any:  # noqa: ANN401 - numba's intrinsics have no type
    """Return an intrinsic that counts the bits that each of ``width`` runs of words has in common with one run.

    It takes the address of the one, a tuple with those of the others, and the length in lines of eight words; and gives a
    tuple of counts. A line is one vector: left to itself the compiler takes vectors of half that size.
    """

    def counted(_context: Any, _one: Any, _others: Any, _lines: Any) -> Any:  # noqa: ANN401 - numba's own signature
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
            line = ir.VectorType(ir.IntType(64), _LINE)
            ones = cgutils.get_or_insert_function(builder.module, ir.FunctionType(line, [line]), f"llvm.ctpop.v{_LINE}i64")  # type: ignore[no-untyped-call]
            sums = [cgutils.alloca_once_value(builder, ir.Constant(line, None)) for _ in range(width)]  # type: ignore[no-untyped-call]
            with cgutils.for_range(builder, arguments[2]) as loop:
                offset = builder.mul(loop.index, ir.Constant(loop.index.type, 8 * _LINE))

                def held(address: Any) -> Any:  # noqa: ANN401 - likewise
                    place = builder.inttoptr(builder.add(address, offset), line.as_pointer())
                    return builder.load(place, align=8)

                one = held(arguments[0])
                for number, total in enumerate(sums):
                    both = builder.and_(one, held(builder.extract_value(arguments[1], number)))
                    builder.store(builder.add(builder.load(total), builder.call(ones, [both])), total)
            return context.make_tuple(builder, signature.return_type, [_sum_lanes(builder, total) for total in sums])

        addresses, counts = types.UniTuple(types.intp, width), types.UniTuple(types.int64, width)  # type: ignore[no-untyped-call]
        return counts(types.intp, addresses, types.intp), emit

    return intrinsic(counted)


def _sum_lanes(builder: Any, total: Any) -> Any:  # noqa: ANN401 - likewise
    """Emit the sum of a vector's elements."""
    found = builder.load(total)
    elements = [builder.extract_element(found, ir.Constant(ir.IntType(32), place)) for place in range(_LINE)]
    return reduce(builder.add, elements)


def _ones_of_word(_context: Any, _word: Any) -> Any:  # noqa: ANN401 - numba's own signature
    """Count the bits of a word that are set, in one instruction."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), emit


_ones: Any = intrinsic(_ones_of_word)
_counted: Any = _make_counter(1)
_counted_together: Any = _make_counter(_TOGETHER)


@compile_kernel
def count_conjunction(arena: Any, first: int, second: int, third: int) -> Any:  # noqa: ANN401 - compiled for what comes
    """Return how many bits are set in three rows of the arena, which may be the same."""
    a, b, c = arena[first], arena[second], arena[third]
    total = np.uint64(0)
    for i in range(a.size):
        total += _ones(a[i] & b[i] & c[i])
    return np.int64(total)


@compile_kernel
def _write_and(here: Any, one: Any, other: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(here.size):
        here[i] = one[i] & other[i]


@compile_kernel
def _share_prefix(lines: Any, first: int, second: int) -> bool:  # noqa: ANN401 - likewise
    """Whether two lines differ in nothing but the last slot."""
    for place in range(lines.shape[1] - 1):  # noqa: SIM110 - a generator is not compiled
        if lines[first, place] != lines[second, place]:
            return False
    return True


@compile_kernel
def count_conjunctions(arena: Any, lines: Any, room: Any, counts: Any) -> None:  # noqa: ANN401 - likewise
    """Add to each count the bits set in all rows of the arena that its line of two slots or more names.

    ``room`` holds a run of words at a time of what neighbouring lines have in common: all slots but the last.
    """
    queries, width = lines.shape
    words = arena.shape[1]
    for start in range(0, words, room.size):
        size = min(room.size, words - start)
        here, stop = room[:size], start + size
        base, stride = arena.ctypes.data + 8 * start, 8 * words
        query = 0
        while query < queries:
            end = query + 1
            while end < queries and _share_prefix(lines, query, end):
                end += 1
            _write_and(here, arena[lines[query, 0], start:stop], arena[lines[query, min(1, width - 2)], start:stop])
            for place in range(2, width - 1):
                _and_words(here, arena[lines[query, place], start:stop])
            last = lines[:, width - 1]
            while query + _TOGETHER <= end:
                addresses = (
                    base + stride * last[query],
                    base + stride * last[query + 1],
                    base + stride * last[query + 2],
                    base + stride * last[query + 3],
                )
                found = _counted_together(here.ctypes.data, addresses, size // _LINE)
                for place in range(_TOGETHER):
                    counts[query + place] += found[place]
                query += _TOGETHER
            while query < end:
                counts[query] += _counted(here.ctypes.data, (base + stride * last[query],), size // _LINE)[0]
                query += 1


@compile_kernel
def _copy_words(here: Any, other: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(here.size):
        here[i] = other[i]


@compile_kernel
def _and_words(here: Any, other: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(here.size):
        here[i] &= other[i]


@compile_kernel
def _or_words(here: Any, other: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(here.size):
        here[i] |= other[i]


@compile_kernel
def _xor_words(here: Any, other: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(here.size):
        here[i] ^= other[i]


@compile_kernel
def _count_ones(here: Any) -> Any:  # noqa: ANN401 - likewise
    total = np.uint64(0)
    for i in range(here.size):
        total += _ones(here[i])
    return np.int64(total)


@compile_kernel
def count_programs(arena: Any, steps: Any, starts: Any, most: int, counts: Any) -> None:  # noqa: ANN401 - likewise
    """Run programs (see :mod:`holdtrue.kernels.bitmaps`) over short runs of words, and count the bits that remain."""
    words = arena.shape[1]
    room = np.empty((most, _RUN), dtype=np.uint64)
    for query in range(starts.size - 1):
        for start in range(0, words, _RUN):
            size = min(_RUN, words - start)
            depth = 0
            for position in range(starts[query], starts[query + 1]):
                step, slot = steps[position, 0], steps[position, 1]
                if step == PUSH:
                    _copy_words(room[depth, :size], arena[slot, start : start + size])
                    depth += 1
                elif step == AND:
                    _and_words(room[depth - 1, :size], arena[slot, start : start + size])
                elif step == OR:
                    _or_words(room[depth - 1, :size], arena[slot, start : start + size])
                elif step == AND_TOP:
                    depth -= 1
                    _and_words(room[depth - 1, :size], room[depth, :size])
                else:
                    depth -= 1
                    _or_words(room[depth - 1, :size], room[depth, :size])
            counts[query] += _count_ones(room[0, :size])


@compile_kernel
def mark_ranges(bitmaps: Any, chosen: Any, order: Any, edges: Any, words: Any) -> None:  # noqa: ANN401 - likewise
    """Write the exclusive or of the chosen bitmaps, and turn over the bits of the rows that the edges list."""
    if chosen.size == 0:
        words[:] = 0
    else:
        _copy_words(words, bitmaps[chosen[0]])
    for number in range(1, chosen.size):
        _xor_words(words, bitmaps[chosen[number]])
    for span in range(edges.shape[0]):
        for position in range(edges[span, 0], edges[span, 1]):
            row = order[position]
            words[row >> 6] ^= np.uint64(1) << np.uint64(row & 63)


@compile_kernel
def count_range(below: Any, order: Any, cut: int, end: int, words: Any) -> Any:  # noqa: ANN401 - likewise
    """Return how many rows that rank below an end have their bit set: those below the cut, and those between the two."""
    total = np.uint64(0)
    for i in range(below.size):
        total += _ones(below[i] & words[i])
    between = np.uint64(0)
    for position in range(min(cut, end), max(cut, end)):
        row = order[position]
        between += (words[row >> 6] >> np.uint64(row & 63)) & np.uint64(1)
    return np.int64(total) + np.int64(between) if end > cut else np.int64(total) - np.int64(between)


@compile_kernel
def count_bytes(codes: Any, kept: Any, counts: Any) -> None:  # noqa: ANN401 - likewise
    """Add the rows whose bit is set to the counts of their codes: neighbours in lines of their own, as equal ones wait."""
    for word in range(kept.size):
        bits = kept[word]
        for place in range(64):
            bit = np.int64((bits >> np.uint64(place)) & np.uint64(1))
            counts[place & (_LINE - 1), codes[64 * word + place]] += bit

"""Counting over packed bits: NumPy, or numba where it pays, with the same integers either way.

A bitmap is a row of 64-bit words, row number r of the table in bit r mod 64 of word r div 64, unused bits zero, and as
many words as fill whole cache lines. An arena is a matrix with one bitmap a slot. A program is a list of steps on a stack
of bitmaps: push a slot, combine the top with a slot, combine the two on top; what remains at the end is counted.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdtrue.kernels import Flags, Integers, LazyKernels, Words

__all__ = [
    "AND",
    "AND_TOP",
    "OR",
    "OR_TOP",
    "PUSH",
    "allocate_arena",
    "count_bytes",
    "count_conjunction",
    "count_conjunctions",
    "count_pairs",
    "count_programs",
    "count_range",
    "count_words",
    "mark_ranges",
    "pack",
    "run_program",
    "unpack",
]

PUSH: Final = 0
AND: Final = 1
OR: Final = 2
AND_TOP: Final = 3
OR_TOP: Final = 4

_LINE = 8
_LARGE_WORK = 1 << 26
_RUN = 512
_NARROW = 3
_BLOCK_WORDS = 1 << 16


def count_words(rows: int) -> int:
    """Return how many words hold a bit for every row: whole cache lines, at least one."""
    return max(1, -(-rows // (64 * _LINE))) * _LINE


def allocate_arena(slots: int, words: int) -> Words:
    """Return room for bitmaps, not yet written, each of which begins where a cache line does: half the time to read."""
    held = np.empty(slots * words + _LINE, dtype=np.uint64)
    first = -held.ctypes.data // held.itemsize % _LINE
    return held[first : first + slots * words].reshape(slots, words)


def pack(flags: Flags, words: Words, *, start: int = 0) -> None:
    """Set the bits of the rows from ``start`` on whose flags are true; those bits are zero before."""
    first, skipped = divmod(start, 8)
    packed = np.packbits(np.concatenate((np.zeros(skipped, dtype=np.bool_), flags)) if skipped else flags, bitorder="little")
    words.view(np.uint8)[first : first + packed.size] |= packed


def unpack(words: Words, *, start: int, stop: int) -> Flags:
    """Return the flags of some rows; ``start`` is a multiple of 8."""
    return np.unpackbits(words.view(np.uint8)[start // 8 :], count=stop - start, bitorder="little").view(np.bool_)


def _warm_up(module: ModuleType) -> None:
    """Have the kernels that one question needs as machine code before a question waits for them."""
    arena = np.zeros((1, _LINE), dtype=np.uint64)
    module.count_conjunction(arena, 0, 0, 0)
    module.count_conjunctions(
        arena, np.zeros((1, 2), dtype=np.int64), allocate_arena(1, _RUN)[0], np.zeros(1, dtype=np.int64)
    )
    module.count_range(arena[0], np.zeros(1, dtype=np.int32), 0, 1, arena[0])
    module.count_bytes(np.zeros(64 * _LINE, dtype=np.uint8), arena[0], np.zeros((_LINE, 1 << 8), dtype=np.int64))


compiled = LazyKernels("bitmaps_compiled", after=_LARGE_WORK, warm_up=_warm_up)


def count_conjunction(arena: Words, slots: Sequence[int]) -> int:
    """Return how many bits are set in all of the slots, one at least: the quick way for one conjunction."""
    module = compiled(len(slots) * arena.shape[1])
    if module is None:
        kept = arena[slots[0]]
        for slot in slots[1:]:
            kept = kept & arena[slot]
        return int(np.bitwise_count(kept).sum(dtype=np.int64))
    if len(slots) > _NARROW:
        return int(count_conjunctions(arena, np.array([slots], dtype=np.int64))[0])
    found: int = module.count_conjunction(arena, slots[0], slots[len(slots) // 2], slots[-1])
    return found


def count_conjunctions(arena: Words, slots: Integers) -> Integers:
    """Return, for each line of slots, how many bits are set in all of its slots. A line may name a slot twice."""
    counts = np.zeros(len(slots), dtype=np.int64)
    work = slots.size * arena.shape[1]
    module = compiled(work)
    if module is None:
        _count_conjunctions(arena, slots, counts)
        return counts
    # Lines that differ in the last slot alone come to stand together: the others are combined once for all of them.
    lines = np.sort(slots if slots.shape[1] > 1 else np.repeat(slots, 2, axis=1), axis=1)
    order = np.lexsort(lines.T[::-1])
    workers = max(1, min(os.cpu_count() or 1, work // (_LARGE_WORK // 4)))
    parts: list[tuple[Any, ...]] = [
        (arena, lines[some], allocate_arena(1, _RUN)[0], np.zeros(some.size, dtype=np.int64))
        for some in np.array_split(order, workers)
    ]
    if workers == 1:
        module.count_conjunctions(*parts[0])
    else:
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(module.count_conjunctions, *part) for part in parts]:
                done.result()
    counts[order] = np.concatenate([found for *_, found in parts])
    return counts


def _count_conjunctions(arena: Words, slots: Integers, counts: Integers) -> None:
    block = max(1, _BLOCK_WORDS // arena.shape[1])
    for start in range(0, len(slots), block):
        lines = slots[start : start + block]
        kept = arena[lines[:, 0]]
        for column in range(1, lines.shape[1]):
            kept &= arena[lines[:, column]]
        counts[start : start + block] = np.bitwise_count(kept).sum(axis=1, dtype=np.int64)


def count_programs(arena: Words, steps: Integers, starts: Integers, *, depth: int) -> Integers:
    """Return how many bits are set at the end of each program.

    ``steps`` are pairs of a step and a slot, ``starts`` where each program begins, with the end of the last one; no
    program holds more than ``depth`` bitmaps at once.
    """
    counts = np.zeros(starts.size - 1, dtype=np.int64)
    module = compiled(len(steps) * arena.shape[1])
    if module is None:
        for number in range(counts.size):
            kept = run_program(arena, steps[starts[number] : starts[number + 1]])
            counts[number] = np.bitwise_count(kept).sum(dtype=np.int64)
        return counts
    module.count_programs(arena, steps, starts, depth, counts)
    return counts


def run_program(arena: Words, steps: Integers) -> Words:
    """Return the bitmap that remains at the end of a program."""
    stack: list[Words] = []
    for step, slot in steps.tolist():
        if step == PUSH:
            stack.append(arena[slot].copy())
            continue
        other = stack.pop() if step in (AND_TOP, OR_TOP) else arena[slot]
        combine = np.bitwise_and if step in (AND, AND_TOP) else np.bitwise_or
        combine(stack[-1], other, out=stack[-1])
    return stack[0]


def mark_ranges(
    bitmaps: Words, chosen: Integers, order: npt.NDArray[np.signedinteger], edges: Integers, words: Words
) -> None:
    """Write the exclusive or of the chosen bitmaps, and turn over the bits of the rows at positions ``edges`` of ``order``.

    Edges are pairs of a first and a last that is not included; ``order`` names no row twice.
    """
    module = compiled(words.size)
    if module is not None:
        module.mark_ranges(bitmaps, chosen, order, edges, words)
        return
    np.bitwise_xor.reduce(bitmaps[chosen], axis=0, out=words)
    flags = np.zeros(64 * words.size, dtype=np.bool_)
    for low, high in edges.tolist():
        flags[order[low:high]] ^= True
    words ^= np.packbits(flags, bitorder="little").view(np.uint64)


def count_range(below: Words | None, order: npt.NDArray[np.signedinteger], cut: int, end: int, words: Words) -> int:
    """Return how many of the rows that rank below an end have their bit set.

    ``below`` are the rows that rank below a cut, None where there are none; ``order`` names the row of each rank.
    """
    known = words[:0] if below is None else below
    module = compiled(known.size + abs(end - cut))
    if module is not None:
        found: int = module.count_range(known, order, cut, end, words)
        return found
    rows = order[min(cut, end) : max(cut, end)]
    bits = int(((words[rows >> 6] >> (rows & 63).astype(np.uint64)) & np.uint64(1)).sum(dtype=np.int64))
    return int(np.bitwise_count(known & words[: known.size]).sum(dtype=np.int64)) + (bits if end > cut else -bits)


def count_bytes(runs: Sequence[npt.NDArray[np.uint8]], kept: Words, *, rows: int) -> Integers:
    """Return how many rows that are kept have each code of a byte but the last, 255, which counts others too.

    Codes come in runs of one size, a multiple of 64, in the order of the rows; behind the last row they may be anything.
    """
    size = runs[0].size
    module = compiled(8 * kept.size)
    if module is not None:
        counts = np.zeros((_LINE, 1 << 8), dtype=np.int64)
        for number, run in enumerate(runs):
            module.count_bytes(run, kept[number * size // 64 : (number + 1) * size // 64], counts)
        found: Integers = counts.sum(axis=0)
        return found
    together, total = max(1, (1 << 20) // size), np.zeros(1 << 8, dtype=np.int64)
    for first in range(0, len(runs), together):
        codes = np.concatenate(runs[first : first + together])[: max(0, rows - first * size)]
        flags = unpack(kept, start=first * size, stop=first * size + codes.size)
        total += count_pairs(codes | (flags.view(np.uint8) - np.uint8(1)))  # 255 where a row is not kept
    return total


def count_pairs(codes: npt.NDArray[np.uint8]) -> Integers:
    """Return how many rows have each code of a byte; two rows are counted at once."""
    even = codes.size // 2 * 2
    pairs = np.bincount(codes[:even].view(np.uint16), minlength=1 << 16).reshape(1 << 8, 1 << 8)
    counts: Integers = pairs.sum(axis=0) + pairs.sum(axis=1) + np.bincount(codes[even:], minlength=1 << 8)
    return counts

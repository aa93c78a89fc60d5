"""Counts of rows by their yes-or-no columns, from packed bits: NumPy, or numba where it pays, with the same integers.

The total of a set of columns is the number of rows that say yes to all of them, rows of label 1 counting -1. Totals of all
small sets add over rows, and tell for each set of columns how the rows spread over its cells, one cell for every way of
saying yes and no. Sets of one size stand in the order of the sums of 2^column: by their last column, then the one before.
"""

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from types import ModuleType

import numpy as np

from holdtrue.kernels import Flags, Integers, LazyKernels, Matrix, Words

__all__ = [
    "add_cells",
    "add_totals",
    "count_sets",
    "find_set",
    "iterate_cells",
    "list_sets",
    "says_yes",
    "transform_to_errors",
]

_BITS = 64
_LINE = 8
_SPARE = 8
_LARGE_WORK = 1 << 26
_NATIVE = {"b": "u", "i": "u", "u": "u", "f": "f"}
_SIZES = {"u": (1, 2, 4, 8), "f": (4, 8)}

_BLOCK = 1 << 12
_INT32 = 1 << 31
_WORKERS = 8

compiled = LazyKernels("column_sets_compiled", after=_LARGE_WORK)


def says_yes(cells: Matrix) -> Flags:
    """Return which cells say yes: those that are neither 0 nor missing."""
    flags: Flags = cells != 0
    return flags & (cells == cells) if cells.dtype.kind == "f" else flags  # noqa: PLR0124 - false for NaN only


def _pack_rows(X: Matrix) -> Words:
    """Return each row as words: bit j of word k is column 64 k + j, unused bits zero."""
    rows, columns = X.shape
    groups = max(1, -(-columns // _BITS))
    words = np.zeros((rows, groups), dtype=np.uint64)
    module = compiled(X.size // _LINE)
    if module is None or not _is_dense(X):
        packed = np.packbits(says_yes(X), axis=1, bitorder="little")
        words.view(np.uint8)[:, : packed.shape[1]] = packed
        return words
    held = X.view(f"{_NATIVE[X.dtype.kind]}{X.itemsize}")
    witness = held.dtype.type(0)
    if X.strides[0] == X.itemsize:
        whole = rows // (_BITS * _LINE) * _BITS * _LINE
        module.words_along(held.ctypes.data, X.strides, witness, columns, words[:whole])
    else:
        # The last rows are read by NumPy where 64 numbers from their start on would reach beyond the matrix.
        whole = max(0, rows + (columns - groups * _BITS) * X.itemsize // X.strides[0])
        module.words_across(held.ctypes.data, X.strides, witness, words[:whole])
        words[:whole, -1] &= np.uint64(2 ** (columns - _BITS * (groups - 1)) - 1)
    packed = np.packbits(says_yes(X[whole:]), axis=1, bitorder="little")
    words[whole:].view(np.uint8)[:, : packed.shape[1]] = packed
    return words


def _is_dense(X: Matrix) -> bool:
    """Whether the numbers are of a type that kernels read, next to each other by rows or by columns."""
    native = X.dtype.isnative and X.itemsize in _SIZES[_NATIVE[X.dtype.kind]]
    by_columns = X.strides[0] == X.itemsize and X.strides[1] >= X.strides[0]
    return native and X.size > 0 and (by_columns or X.strides[1] == X.itemsize <= X.strides[0])


def columns_by_label(X: Matrix, y: Flags) -> tuple[Words, int]:
    """Return the bits of each column, rows of label 0 first, and the word at which those of label 1 begin.

    Both parts are whole lines of cache; spare rows of zeros follow the columns, as the kernels want them.
    """
    split, rest = (
        -(-int(count) // (_BITS * _LINE)) * _LINE for count in (y.size - np.count_nonzero(y), np.count_nonzero(y))
    )
    module = compiled(X.size // _LINE)
    columns = _allocate_lines(X.shape[1] + _SPARE, split + rest)
    if module is not None:
        module.columns_by_label(_pack_rows(X), y, split, columns)
        return columns, split
    flags = says_yes(X)
    for part, start in ((flags[~y], 0), (flags[y], split)):
        packed = np.packbits(part.T, axis=1, bitorder="little")
        columns.view(np.uint8)[: X.shape[1], 8 * start : 8 * start + packed.shape[1]] = packed
    return columns, split


def _allocate_lines(rows: int, words: int) -> Words:
    """Return rows of zeros that begin where lines of the cache do."""
    room = np.zeros(rows * words + _LINE, dtype=np.uint64)
    start = -room.ctypes.data % (8 * _LINE) // 8
    return room[start : start + rows * words].reshape(rows, words)


def count_sets(columns: int, *, most: int) -> int:
    """Return how many sets of at most ``most`` columns there are."""
    return sum(math.comb(columns, size) for size in range(most + 1))


def add_totals(X: Matrix, y: Flags, *, most: int, totals: Integers) -> None:
    """Add rows to the totals of all sets of at most ``most`` columns, the empty set first."""
    width = X.shape[1]
    columns, split = columns_by_label(X, y)
    totals[0] += y.size - 2 * np.count_nonzero(y)
    if most:
        ones = np.bitwise_count(columns[:width])
        totals[1 : 1 + width] += ones[:, :split].sum(axis=1, dtype=np.int64) - ones[:, split:].sum(axis=1, dtype=np.int64)
    for size in range(2, most + 1):
        above, bases = _sets_above(width, size)
        module = compiled(math.comb(width, size) * columns.shape[1])
        if module is None:
            _count_meets(columns, split, above, bases, totals)
        else:
            module.count_meets(columns, split, above, bases, totals)


def _count_meets(columns: Words, split: int, above: Integers, bases: Integers, counts: Integers) -> None:
    for line, base in zip(above.tolist(), bases.tolist(), strict=True):
        lowest = line[0]
        ones = np.bitwise_count(columns[:lowest] & np.bitwise_and.reduce(columns[line], axis=0))
        found = ones[:, :split].sum(axis=1, dtype=np.int64) - ones[:, split:].sum(axis=1, dtype=np.int64)
        counts[base : base + lowest] += found


@lru_cache(maxsize=8)
def _sets_above(columns: int, size: int) -> tuple[Integers, Integers]:
    """Return sets of size - 1 with a column below their first, and where the totals begin of those columns and the set."""
    above = list_sets(columns, size - 1)
    above = above[above[:, 0] > 0]
    ranks = _binomial_table(columns, size)[above, np.arange(2, size + 1)].sum(axis=1)
    lines = np.repeat(above, 2, axis=1) if size == 2 else above  # noqa: PLR2004 - the kernel meets two at least
    return np.ascontiguousarray(lines), ranks + count_sets(columns, most=size - 1)


@lru_cache(maxsize=8)
def list_sets(columns: int, size: int) -> Integers:
    """Return all sets of ``size`` columns in their order, one per line, each in ascending order."""
    if size == 0:
        return np.zeros((1, 0), dtype=np.int64)
    lower = list_sets(columns, size - 1)
    lines = [np.insert(lower[: math.comb(top, size - 1)], size - 1, top, axis=1) for top in range(size - 1, columns)]
    return np.concatenate(lines) if lines else np.zeros((0, size), dtype=np.int64)


def find_set(rank: int, size: int) -> tuple[int, ...]:
    """Return the set of a rank among those of its size, in ascending order."""
    found: list[int] = []
    for members in range(size, 0, -1):
        top = members - 1
        while math.comb(top + 1, members) <= rank:
            top += 1
        rank -= math.comb(top, members)
        found.append(top)
    return tuple(reversed(found))


@lru_cache(maxsize=8)
def _binomial_table(columns: int, most: int) -> Integers:
    return np.array([[math.comb(column, size) for size in range(most + 1)] for column in range(columns)], dtype=np.int64)


def iterate_cells(totals: Integers, columns: int, *, most: int) -> Iterator[Integers]:
    """Yield for sets of size 0, 1 and so on the totals of their cells: a line for each cell, a column for each set.

    Bit i of a cell's number is set where the i-th column of the set says no. From a set and its last column: of the cells
    of the columns before it, those where it says yes are found by inclusion and exclusion, and the rest say no.
    """
    held = totals[:1].reshape(1, 1)
    yield held
    starts = [count_sets(columns, most=size) - math.comb(columns, size) for size in range(most + 1)]
    for size in range(1, most + 1):
        ranks = _subset_ranks(columns, size - 1)
        members = [chosen.bit_count() + 1 for chosen in range(1 << (size - 1))]
        found = np.empty((2, 1 << (size - 1), math.comb(columns, size)), dtype=np.int64)
        module = compiled(found.size)
        tell_apart = _tell_apart if module is None else module.tell_apart
        for top in range(size - 1, columns):
            first, count = math.comb(top, size), math.comb(top, size - 1)
            begins = np.array([starts[number] + math.comb(top, number) for number in members])
            tell_apart(totals, begins, ranks, held, found[:, :, first : first + count])
        held = found.reshape(1 << size, -1)
        yield held


def _tell_apart(totals: Integers, begins: Integers, ranks: Integers, held: Integers, found: Integers) -> None:
    """Fill the cells of the sets with one last column: those where it says yes, then those where it says no.

    ``ranks`` has a line for each choice of columns before the last, with the rank of the chosen of each set. Their totals
    with the last column, from ``begins`` on, are of rows that say yes to the chosen, whatever they say to the others.
    """
    said = found[0]
    count = said.shape[1]
    for chosen, (begin, rank) in enumerate(zip(begins.tolist(), ranks, strict=True)):
        said[~chosen] = totals[begin + rank[:count]]
    for place in range(len(said).bit_length() - 1):
        for cell in range(len(said)):
            if cell >> place & 1:
                said[cell] -= said[cell ^ (1 << place)]
    np.subtract(held[:, :count], said, out=found[1])


def _subset_ranks(columns: int, size: int) -> Integers:
    """Return for every choice among the members of a set, as bits, the ranks of the chosen, over all sets of a size."""
    lines, binomials = list_sets(columns, size), _binomial_table(columns, size)
    ranks = np.zeros((1 << size, len(lines)), dtype=np.int64)
    for chosen in range(1 << size):
        for number, place in enumerate(_list_places(chosen), start=1):
            ranks[chosen] += binomials[lines[:, place], number]
    return ranks


def _list_places(chosen: int) -> list[int]:
    return [place for place in range(chosen.bit_length()) if chosen >> place & 1]


def add_cells(X: Matrix, y: Flags, totals: Integers) -> None:
    """Add rows to the totals of all cells of all columns, at most 64: bit j of a cell's number is what column j says."""
    words = _pack_rows(X)
    module = compiled(y.size)
    if module is None:
        np.add.at(totals, words[:, 0].astype(np.int64), 1 - 2 * y.astype(np.int64))
    else:
        module.add_labels(words, y, totals)


def transform_to_errors(cells: Integers, rows: int) -> Integers:
    """Return the errors of all parities: half of what the rows exceed the Walsh-Hadamard transform of the cells by.

    The transform at a set of columns is the number of rows that its parity labels right, less those that it labels wrong.
    """
    module = compiled(cells.size // 8 * (cells.size.bit_length() - 1)) if cells.size >= _BLOCK else None
    # No partial sum exceeds the number of rows.
    sums: Matrix = np.empty(cells.size, dtype=np.int32 if rows < _INT32 else np.int64)
    if module is not None:
        return _transform_in_blocks(module, cells, sums, rows)
    sums[:] = cells
    step = 1
    while step < sums.size:
        pairs = sums.reshape(-1, 2, step)
        low, high = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        pairs[:, 0], pairs[:, 1] = low, high
        step *= 2
    errors: Integers = np.subtract(rows, sums, dtype=np.int64)
    errors >>= 1
    return errors


def _transform_in_blocks(module: ModuleType, cells: Integers, sums: Matrix, rows: int) -> Integers:
    """Transform blocks that stay in the first-level cache, then across blocks, on several threads."""
    errors = np.empty(cells.size, dtype=np.int64)
    workers = 1 << (min(os.cpu_count() or 1, _WORKERS, cells.size // _BLOCK).bit_length() - 1)
    share, slice_ = cells.size // workers, _BLOCK // workers

    def low(worker: int) -> None:
        part = slice(worker * share, (worker + 1) * share)
        module.transform_low(cells[part], sums[part], _BLOCK)

    def high(worker: int) -> None:
        module.transform_high(sums, _BLOCK, worker * slice_, (worker + 1) * slice_, rows, errors)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(low, range(workers)))
        list(pool.map(high, range(workers)))
    return errors

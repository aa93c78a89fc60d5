"""Parities: whether an odd number of some yes-or-no columns say yes (B6, C1)."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from holdtrue.exact import count
from holdtrue.hypotheses.binary import SubsetClass, columns_of
from holdtrue.hypotheses.bit_counts import compiled, row_words, totals_of
from holdtrue.hypotheses.matrices import Flags, Integers, Matrix

__all__ = ["Parities"]

_BLOCK = 1 << 12
_CELLS_A_SET = 32
_INT32 = 1 << 31
_WORKERS = 8


@dataclass(frozen=True, repr=False, init=False)
class Parities(SubsetClass):
    """All parities of at most ``width`` columns: 1 where an odd number of them say yes. Without a width: of any columns.

    Guarantee: exact error counts, each of which moves by at most one where a row is replaced (B6). The parity of no column
    is always 0, and is the first. Order: without a width, the number of a parity is the sum of 2^column over its columns;
    with one, by the number of columns, then by that sum. Needs: columns fixed before data; a cell that is 0 or missing says
    no, any other yes; without a width, memory for 2^columns counts.
    """

    kind = "parities"
    limit = "width"

    def __init__(self, columns: Sequence[str] | int, *, width: int | None = None) -> None:
        object.__setattr__(self, "_columns", columns_of(columns))
        object.__setattr__(self, "_limit", None if width is None else count("width", width))

    @property
    def _whole(self) -> bool:
        """Whether rows are counted by all their columns at once: where that takes little more than counting sets."""
        return self._limit is None or 1 << self.width <= _CELLS_A_SET * totals_of(self.width, most=self._most)

    @property
    def size(self) -> int:
        """Return how many hypotheses there are."""
        return 1 << self.width if self._limit is None else totals_of(self.width, most=self._most)

    @property
    def _held(self) -> int:
        return (1 << self.width if self._whole else totals_of(self.width, most=self._most)) + 1

    @property
    def _errors_bytes(self) -> int:
        # Sums of 4 bytes and errors of 8 for each cell.
        return 12 * self._held + (0 if self._limit is None else 8 * self.size) if self._whole else super()._errors_bytes

    def tally(self, X: Matrix, y: Flags, totals: Integers) -> None:
        """Add rows to the totals: of every cell of all columns, or of small sets of columns."""
        if not self._whole:
            super().tally(X, y, totals)
            return
        words = row_words(X)
        module = compiled(y.size)
        if module is None:
            np.add.at(totals[:-1], words[:, 0].astype(np.int64), 1 - 2 * y.astype(np.int64))
        else:
            module.scatter(words, y, totals[:-1])
        totals[-1] += np.count_nonzero(y)

    def errors(self, totals: Integers) -> Integers:
        """Return how many rows each hypothesis gets wrong."""
        if not self._whole:
            return super().errors(totals)
        errors = _errors(totals[:-1], int(totals[:-1].sum()) + 2 * int(totals[-1]))
        if self._limit is None:
            return errors
        sizes = np.bitwise_count(np.arange(1 << self.width))
        chosen = np.concatenate([np.flatnonzero(sizes == size) for size in range(self._most + 1)])
        limited: Integers = errors[chosen]
        return limited

    def _functions(self, size: int) -> int:  # noqa: ARG002 - one of each size
        return 1

    def _sums(self, cells: Integers, size: int) -> Integers:
        said = size - np.bitwise_count(np.arange(1 << size)).astype(np.int64)
        sums: Integers = cells[said % 2 == 1].sum(axis=0)
        return sums

    def _value(self, said: Flags, function: int) -> Flags:  # noqa: ARG002 - there is one
        labels: Flags = np.logical_xor.reduce(said, axis=0, dtype=np.bool_)
        return labels

    def _found(self, index: int) -> tuple[tuple[int, ...], int]:
        if self._limit is None:
            return tuple(column for column in range(self.width) if index >> column & 1), 0
        return super()._found(index)

    def describe(self, index: int) -> str:
        """Return a hypothesis as a sentence: ``smoker XOR retired → 1``; ``ALWAYS 0`` for no column."""
        chosen, _ = self._found(self.checked(index))
        return f"{' XOR '.join(self._name(column) for column in chosen)} → 1" if chosen else "ALWAYS 0"


def _errors(cells: Integers, rows: int) -> Integers:
    """Return the errors of all parities: half of what the rows exceed the Walsh-Hadamard transform of the cells by.

    The transform at a set of columns is the number of rows that its parity labels right, less those that it labels wrong.
    """
    module = compiled(cells.size // 8 * (cells.size.bit_length() - 1)) if cells.size >= _BLOCK else None
    # No partial sum exceeds the number of rows.
    sums: Matrix = np.empty(cells.size, dtype=np.int32 if rows < _INT32 else np.int64)
    if module is not None:
        return _compiled_errors(module, cells, sums, rows)
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


def _compiled_errors(module: ModuleType, cells: Integers, sums: Matrix, rows: int) -> Integers:
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

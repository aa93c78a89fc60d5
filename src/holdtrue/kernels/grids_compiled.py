"""Counting cells of grids in numba, a block of numbers at a time; imported only through :mod:`holdtrue.kernels.grids`.

Numbers become cells in one loop without branches, cells become counts in another: a row with the label 1 adds one to the
count of its cell, a row with the label 0 takes one away. ``terms`` are the low ends, the rates, two terms of the edges,
the last cell, and the way to find cells; arrays have one entry for each place in a line of numbers, and ``base`` says
where the counts of that place begin.
"""

from typing import Any, Final

import numpy as np

from holdtrue.kernels import compile_kernel
from holdtrue.kernels.grids import FLOOR, QUOTIENT, SUM

__all__ = ["count_column", "count_pair", "count_rows"]

# Adding it and taking it away again rounds a float64 between 0 and 2^51 to a whole number.
_WHOLE: Final = 6755399441055744.0
_BLOCK: Final = 2048


@compile_kernel
def _write_cells(lines: Any, terms: Any, base: Any, found: Any) -> None:  # noqa: ANN401 - numba's types
    """Write the base plus the cell of every number of some lines.

    FLOOR rounds the product with the rate down, where that is known to be exact. SUM and QUOTIENT round it to the nearest
    edge, work that edge out to the same bits as the grid, low + (k first + k second) or low + (k first) / second, and
    compare. BYTES are their own cells. max and min keep the first of the two where the second is missing.
    """
    low, rate, first, second, last, way = terms
    for number in range(len(lines)):
        line, cells = lines[number], found[number]
        if way == FLOOR:
            for place in range(line.size):
                product = (np.float64(line[place]) - low[place]) * rate[place]
                cells[place] = base[place] + np.int32(min(last, max(0.0, product)))
        elif way == SUM:
            for place in range(line.size):
                held = max(low[place], np.float64(line[place]))
                nearest = (min(last, (held - low[place]) * rate[place]) + _WHOLE) - _WHOLE
                edge = low[place] + (nearest * first[place] + nearest * second[place])
                cells[place] = base[place] + np.int32(nearest - 1.0 if held < edge else nearest)
        elif way == QUOTIENT:
            for place in range(line.size):
                held = max(low[place], np.float64(line[place]))
                nearest = (min(last, (held - low[place]) * rate[place]) + _WHOLE) - _WHOLE
                edge = low[place] + (nearest * first[place]) / second[place]
                cells[place] = base[place] + np.int32(nearest - 1.0 if held < edge else nearest)
        else:
            for place in range(line.size):
                cells[place] = base[place] + np.int32(line[place])


@compile_kernel
def count_rows(matrix: Any, labels: Any, terms: Any, base: Any, counts: Any) -> None:  # noqa: ANN401 - likewise
    """Count a matrix whose rows are contiguous. A row meets every count once: no add waits for the one before it."""
    height, width = matrix.shape
    block = max(1, _BLOCK // width)
    found = np.empty((block, width), np.uint32)
    for start in range(0, height, block):
        held = min(block, height - start)
        _write_cells(matrix[start : start + held], terms, base, found)
        for number in range(held):
            cells = found[number]
            sign = 1 if labels[start + number] else -1
            for place in range(width):
                counts[np.uint64(cells[place])] += sign


@compile_kernel
def count_column(numbers: Any, labels: Any, terms: Any, base: Any, counts: Any) -> None:  # noqa: ANN401 - likewise
    """Count a contiguous column. Where ``base`` gives neighbours different counts, equal numbers do not wait either."""
    found = np.empty((1, base.size), np.uint32)
    signs = np.empty(base.size, np.int64)
    for start in range(0, numbers.size, base.size):
        line = numbers[start : start + base.size]
        _write_cells(line.reshape(1, line.size), terms, base, found)
        _add_signs(found[0], labels[start : start + base.size], signs, counts)


@compile_kernel
def count_pair(columns: Any, labels: Any, terms: Any, base: Any, counts: Any) -> None:  # noqa: ANN401 - likewise
    """Count two contiguous columns together: the cell of the left one times the right one's steps, plus that one's cell."""
    left, right = columns
    of_left, of_right = terms
    none = np.zeros(base.size, np.uint32)
    begins = np.empty((1, base.size), np.uint32)
    found = np.empty((1, base.size), np.uint32)
    signs = np.empty(base.size, np.int64)
    steps = np.uint32(of_right[4]) + np.uint32(1)
    for start in range(0, left.size, base.size):
        one, other = left[start : start + base.size], right[start : start + base.size]
        _write_cells(one.reshape(1, one.size), of_left, none, begins)
        for place in range(one.size):
            begins[0, place] = base[place] + begins[0, place] * steps
        _write_cells(other.reshape(1, one.size), of_right, begins[0], found)
        _add_signs(found[0], labels[start : start + base.size], signs, counts)


@compile_kernel
def _add_signs(cells: Any, labels: Any, signs: Any, counts: Any) -> None:  # noqa: ANN401 - likewise
    for place in range(labels.size):
        signs[place] = 2 * np.int64(labels[place]) - 1
    for place in range(labels.size):
        counts[np.uint64(cells[place])] += signs[place]

"""Counting yes-or-no columns in numba; imported only through :mod:`holdtrue.kernels.column_sets`.

Its NumPy paths are the definitions, and these give their integers. None checks an index or an address: the callers do.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic

from holdtrue.kernels import compile_kernel

__all__ = [
    "GROUP",
    "add_labels",
    "columns_by_label",
    "count_meets",
    "tell_apart",
    "transform_high",
    "transform_low",
    "words_across",
    "words_along",
]

_cgutils: Any = untyped

GROUP = 6
"""How many columns are counted with the same two at once, so that those two are loaded seldom. At most the spare rows."""

_BITS = 64
_LANES = 8
_LONG = ir.IntType(64)
_VECTOR = ir.VectorType(_LONG, _LANES)
_VECTOR_BYTES = 64


def _cells_of_yes(_context: Any, address: Any, witness: Any) -> Any:  # noqa: ANN401 - numba's own signature
    """Read the 64 numbers at an address, of the type of the witness: a bit is set unless its number is 0 or NaN."""
    real = isinstance(witness, types.Float)
    of_bits: dict[int, Any] = {32: ir.FloatType(), 64: ir.DoubleType()}
    vector = ir.VectorType(of_bits[witness.bitwidth] if real else ir.IntType(witness.bitwidth), _BITS)

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        held = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()), align=1)
        # An ordered comparison is false for NaN.
        compare = builder.fcmp_ordered if real else builder.icmp_unsigned
        return builder.bitcast(compare("!=", held, ir.Constant(vector, None)), _LONG)

    return types.uint64(address, witness), emit


def _bits_of_meets(_context: Any, one: Any, other: Any, first: Any, stride: Any, vectors: Any, counts: Any) -> Any:  # noqa: ANN401, PLR0913, PLR0917, ARG001 - likewise
    """Count the bits that two rows of words share with each of a group of rows; all are addresses, or numbers of bytes.

    Written out in vectors of 512 bits: left to itself the compiler takes narrower ones, at half the speed.
    """

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        one, other, first, stride, vectors, counts = arguments
        ones = _cgutils.get_or_insert_function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR]), "llvm.ctpop.v8i64")
        total = _cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_LONG, [_VECTOR]), "llvm.vector.reduce.add.v8i64"
        )
        starts = [builder.add(first, builder.mul(stride, _LONG(number))) for number in range(GROUP)]
        sums = [_cgutils.alloca_once(builder, _VECTOR) for _ in range(GROUP)]
        for place in sums:
            builder.store(ir.Constant(_VECTOR, None), place)
        with _cgutils.for_range(builder, vectors, intp=_LONG) as loop:
            offset = builder.mul(loop.index, _LONG(_VECTOR_BYTES))

            def held(start: Any) -> Any:  # noqa: ANN401 - likewise
                return builder.load(builder.inttoptr(builder.add(start, offset), _VECTOR.as_pointer()), align=8)

            both = builder.and_(held(one), held(other))
            for place, start in zip(sums, starts, strict=True):
                found = builder.call(ones, [builder.and_(both, held(start))])
                builder.store(builder.add(builder.load(place), found), place)
        for number, place in enumerate(sums):
            target = builder.inttoptr(builder.add(counts, _LONG(8 * number)), _LONG.as_pointer())
            builder.store(builder.call(total, [builder.load(place)]), target)
        return counts

    return types.intp(*[types.intp] * 6), emit


def _bits_exchanged(_context: Any, upper: Any, lower: Any, shift: Any, mask: Any) -> Any:  # noqa: ANN401, ARG001 - likewise
    """Exchange the bits at ``mask`` of eight words with those ``shift`` higher of eight others; both are addresses."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        def spread(word: Any) -> Any:  # noqa: ANN401 - likewise
            alone = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), word, ir.IntType(32)(0))
            return builder.shuffle_vector(alone, alone, ir.Constant(ir.VectorType(ir.IntType(32), _LANES), None))

        places = [builder.inttoptr(place, _VECTOR.as_pointer()) for place in arguments[:2]]
        high, low = (builder.load(place, align=8) for place in places)
        moved = builder.and_(builder.xor(builder.lshr(high, spread(arguments[2])), low), spread(arguments[3]))
        builder.store(builder.xor(high, builder.shl(moved, spread(arguments[2]))), places[0], align=8)
        builder.store(builder.xor(low, moved), places[1], align=8)
        return arguments[0]

    return types.intp(types.intp, types.intp, types.uint64, types.uint64), emit


_exchange: Any = intrinsic(_bits_exchanged)
_yes: Any = intrinsic(_cells_of_yes)
_shared: Any = intrinsic(_bits_of_meets)


@compile_kernel
def words_across(address: int, strides: Any, witness: Any, words: Any) -> None:  # noqa: ANN401 - compiled for what comes
    """Read rows whose numbers lie next to each other, 64 a word, all of which the memory holds."""
    for row in range(words.shape[0]):
        for group in range(words.shape[1]):
            words[row, group] = _yes(address + row * strides[0] + group * _BITS * strides[1], witness)


@compile_kernel
def words_along(address: int, strides: Any, witness: Any, columns: int, words: Any) -> None:  # noqa: ANN401 - likewise
    """Read columns whose numbers lie next to each other; the rows are a multiple of 512."""
    squares = np.empty((_BITS, _LANES), np.uint64)
    for group in range(words.shape[1]):
        first = group * _BITS
        for row in range(0, words.shape[0], _BITS * _LANES):
            _clear_squares(squares)
            for column in range(first, min(first + _BITS, columns)):
                for lane in range(_LANES):
                    place = address + column * strides[1] + (row + lane * _BITS) * strides[0]
                    squares[column - first, lane] = _yes(place, witness)
            _transpose_squares(squares)
            for lane in range(_LANES):
                for number in range(_BITS):
                    words[row + lane * _BITS + number, group] = squares[number, lane]


@compile_kernel
def _clear_squares(squares: Any) -> None:  # noqa: ANN401 - likewise
    for number in range(_BITS):
        for lane in range(_LANES):
            squares[number, lane] = 0


@compile_kernel
def _transpose_squares(squares: Any) -> None:  # noqa: ANN401 - likewise
    """Turn eight squares of 64 by 64 bits, side by side, on their diagonals: halves change places, then quarters."""
    origin = squares.ctypes.data
    width = _BITS // 2
    mask = np.uint64(0xFFFFFFFF)
    while width:
        for start in range(0, _BITS, 2 * width):
            for number in range(start, start + width):
                upper = origin + number * _VECTOR_BYTES
                _exchange(upper, upper + width * _VECTOR_BYTES, np.uint64(width), mask)
        width //= 2
        mask ^= mask << np.uint64(width)


@compile_kernel
def columns_by_label(words: Any, labels: Any, split: int, columns: Any) -> None:  # noqa: ANN401 - likewise
    """Write the bits of each column: rows of label 0 from the first word on, rows of label 1 from word ``split`` on."""
    squares = np.empty((2, _BITS, _LANES), np.uint64)
    held = np.empty(2, np.int64)
    places = np.empty(2, np.int64)
    for group in range(words.shape[1]):
        _clear_squares(squares[0])
        _clear_squares(squares[1])
        held[0], held[1] = 0, 0
        places[0], places[1] = 0, split
        for row in range(words.shape[0]):
            label = int(labels[row])
            number = held[label]
            squares[label, number & (_BITS - 1), number >> 6] = words[row, group]
            held[label] = number + 1
            if number == _BITS * _LANES - 1:
                _write_columns(squares[label], columns, group * _BITS, places[label])
                held[label] = 0
                places[label] += _LANES
        for label in range(2):
            if held[label]:
                _write_columns(squares[label], columns, group * _BITS, places[label])


@compile_kernel
def _write_columns(squares: Any, columns: Any, first: int, place: int) -> None:  # noqa: ANN401 - likewise
    """Write the columns of squares whose lines are rows, and leave zeros in their place."""
    _transpose_squares(squares)
    for number in range(min(_BITS, columns.shape[0] - first)):
        for lane in range(_LANES):
            columns[first + number, place + lane] = squares[number, lane]
    _clear_squares(squares)


@compile_kernel
def count_meets(columns: Any, split: int, above: Any, bases: Any, counts: Any) -> None:  # noqa: ANN401 - likewise
    """Count the rows that say yes to all of a set, label 0 less label 1, for sets of a column and those ``above`` it.

    A line of ``above`` is in ascending order; the count of column a and a line goes to its base + a. At least ``GROUP``
    rows of ``columns`` are there for every a below a column of a line.
    """
    stride = columns.strides[0]
    lines, width = above.shape
    room = np.zeros(GROUP, np.int64)
    rest = np.zeros(columns.shape[1], np.uint64)
    for part in range(2):
        start, stop = (0, split) if part == 0 else (split, columns.shape[1])
        origin = columns.ctypes.data + start * 8
        for first in range(0, columns.shape[0] - GROUP + 1, GROUP):
            for line in range(lines):
                lowest = above[line, 0]
                if lowest <= first:
                    continue
                other = origin + above[line, 1] * stride
                if width > 2:  # noqa: PLR2004 - more than two are met beforehand
                    for i in range(start, stop):
                        rest[i] = columns[above[line, 1], i]
                    for column in range(2, width):
                        for i in range(start, stop):
                            rest[i] &= columns[above[line, column], i]
                    other = rest.ctypes.data + start * 8
                _shared(
                    origin + lowest * stride, other, origin + first * stride, stride, (stop - start) // 8, room.ctypes.data
                )
                for number in range(min(GROUP, lowest - first)):
                    counts[bases[line] + first + number] += room[number] if part == 0 else -room[number]


@compile_kernel
def tell_apart(totals: Any, begins: Any, ranks: Any, held: Any, found: Any) -> None:  # noqa: ANN401 - likewise
    """Fill the cells of the sets with one last column: those where it says yes, then those where it says no."""
    cells = found.shape[1]
    for chosen in range(cells):
        _look_up(totals[begins[chosen] :], ranks[chosen], found[0, cells - 1 - chosen])
    bit = 1
    while bit < cells:
        for cell in range(cells):
            if cell & bit:
                _subtract_rows(found[0, cell], found[0, cell ^ bit], found[0, cell])
        bit *= 2
    for cell in range(cells):
        _subtract_rows(held[cell], found[0, cell], found[1, cell])


@compile_kernel
def _look_up(totals: Any, rank: Any, found: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(found.size):
        found[i] = totals[rank[i]]


@compile_kernel
def _subtract_rows(a: Any, b: Any, found: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(found.size):
        found[i] = a[i] - b[i]


@compile_kernel
def add_labels(words: Any, labels: Any, cells: Any) -> None:  # noqa: ANN401 - likewise
    """Add 1 to the cell of each row of label 0, and take 1 from that of each row of label 1."""
    for row in range(labels.size):
        cells[words[row, 0]] += 1 - 2 * np.int64(labels[row])


@compile_kernel
def _transform_fours(a: Any, b: Any, c: Any, d: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(a.size):
        p, q, r, s = a[i] + b[i], a[i] - b[i], c[i] + d[i], c[i] - d[i]
        a[i], b[i], c[i], d[i] = p + r, q + s, p - r, q - s


@compile_kernel
def _copy_cells(cells: Any, sums: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(sums.size):
        sums[i] = cells[i]


@compile_kernel
def _transform_neighbours(sums: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(sums.size // 4):
        a, b, c, d = sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]
        p, q, r, s = a + b, a - b, c + d, c - d
        sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3] = p + r, q + s, p - r, q - s


@compile_kernel
def _transform_squares(sums: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(sums.shape[0]):
        for j in range(4):
            a, b, c, d = sums[i, 0, j], sums[i, 1, j], sums[i, 2, j], sums[i, 3, j]
            p, q, r, s = a + b, a - b, c + d, c - d
            sums[i, 0, j], sums[i, 1, j], sums[i, 2, j], sums[i, 3, j] = p + r, q + s, p - r, q - s


@compile_kernel
def transform_low(cells: Any, sums: Any, block: int) -> None:  # noqa: ANN401 - likewise
    """Copy cells to sums and transform each block of them, whose size is a power of 4 and at least 16."""
    for start in range(0, sums.size, block):
        part = sums[start : start + block]
        _copy_cells(cells[start : start + block], part)
        _transform_neighbours(part)
        _transform_squares(part.reshape(block // 16, 4, 4))
        step = 16
        while 4 * step <= block:
            for i in range(0, block, 4 * step):
                j = i + 2 * step
                _transform_fours(part[i : i + step], part[i + step : j], part[j : j + step], part[j + step : j + 2 * step])
            step *= 4


@compile_kernel
def transform_high(sums: Any, block: int, low: int, high: int, rows: int, errors: Any) -> None:  # noqa: ANN401, PLR0913, PLR0917 - likewise
    """Finish the transform for positions ``low`` to ``high`` of every block, and write the errors: (rows - sum) / 2."""
    step = block
    while 4 * step <= sums.size:
        for start in range(0, sums.size, 4 * step):
            for i in range(start + low, start + step, block):
                size = high - low
                j, k, m = i + step, i + 2 * step, i + 3 * step
                _transform_fours(sums[i : i + size], sums[j : j + size], sums[k : k + size], sums[m : m + size])
        step *= 4
    half = sums.size // 2
    if step == half:
        for start in range(0, half, block):
            i, j = start + low, start + high
            _transform_halves(sums[i:j], sums[half + i : half + j])
    for start in range(0, sums.size, block):
        _write_errors(sums[start + low : start + high], rows, errors[start + low : start + high])


@compile_kernel
def _transform_halves(a: Any, b: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(a.size):
        a[i], b[i] = a[i] + b[i], a[i] - b[i]


@compile_kernel
def _write_errors(sums: Any, rows: int, errors: Any) -> None:  # noqa: ANN401 - likewise
    for i in range(sums.size):
        errors[i] = (rows - np.int64(sums[i])) >> 1

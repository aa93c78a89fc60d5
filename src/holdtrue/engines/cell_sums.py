"""Disjoint cells from codes: each row has the number of its cell on every axis, and all cells are counted in one pass.

Law: the integers are those of one query a cell (:attr:`~holdtrue.queries.cells.DisjointCells.queries`), on any rows. The
code after the last cell of an axis stands for all other rows, those whose cell is NULL or NaN among them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.engines.bitmaps import find_column
from holdtrue.engines.sorted_columns import find_spans
from holdtrue.kernels import Flags, Integers, Words
from holdtrue.kernels.bitmaps import count_bytes, count_pairs, unpack
from holdtrue.queries.cells import CellAxis, DisjointCells
from holdtrue.queries.evaluator import Values, satisfies
from holdtrue.queries.syntax_tree import And, Boolean, Constant, Field, Member, Number, Or, Text, ValueComparison

__all__ = ["CellTotals", "Codes", "code_type", "make_encoder"]

Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
Encoder: TypeAlias = Callable[[Mapping[str, Values], int], Codes]

_TOGETHER = 1 << 20
_PAIRED = 1 << 17
_PART_BITS = 20


def code_type(cells: int) -> np.dtype[Any]:
    """Return the narrowest type that has a code for each of this many cells and one for all other rows."""
    return np.min_scalar_type(cells)


def make_encoder(axis: CellAxis) -> Encoder:
    """Return what finds the codes of rows, given the column of the axis and the number of rows."""
    trees = axis.trees
    labels = [_label_of(tree) for tree in trees]
    if None not in labels:
        return _encode_labels(axis.column, labels)  # type: ignore[arg-type]  # no None
    if all(tree == Constant(value=False) or find_column(tree) == axis.column for tree in trees):
        return _encode_numbers(axis.column, trees)

    def encode(columns: Mapping[str, Values], rows: int) -> Codes:
        codes = np.full(rows, len(trees), dtype=code_type(len(trees)))
        for number, tree in enumerate(trees):
            codes[satisfies(tree, columns, rows=rows)] = number
        return codes

    return encode


def _label_of(tree: Boolean) -> str | None:
    match tree:
        case ValueComparison(operator="=", left=Field(), right=Text(value=label)):
            return label
        case _:
            return None


def _encode_labels(column: str, labels: Sequence[str]) -> Encoder:
    """Return the encoder of a column of text that is compared with labels."""
    places = {label: place for place, label in enumerate(labels)}
    rest = len(labels)

    def encode(columns: Mapping[str, Values], rows: int) -> Codes:
        cells = columns[column]
        if cells.dictionary is None:
            there = np.ones(rows, dtype=np.bool_) if cells.valid is None else cells.valid
            found = [places.get(text, rest) if here else rest for text, here in zip(cells.data, there, strict=True)]
            return np.array(found, dtype=code_type(rest))
        # The place after the last string stands for NULL, and is where a place of -1 leads.
        by_word = np.array([*(places.get(text, rest) for text in cells.dictionary), rest], dtype=code_type(rest))
        data = cells.data if cells.valid is None else np.where(cells.valid, cells.data, -1)
        codes: Codes = by_word[data]
        return codes

    return encode


@dataclass(frozen=True, slots=True, eq=False)
class _NumberLine:
    """The line of numbers cut by m constants into what lies before, on and between them: 2 m + 1 pieces, in order."""

    places: dict[float, int]

    @property
    def total(self) -> int:
        """Return the number of pieces."""
        return 2 * len(self.places) + 1

    def count_around(self, value: float) -> tuple[int, int]:
        """Return how many pieces lie below a constant, and how many not above it."""
        below = 2 * self.places[value] + 1
        return below, below + 1


def _encode_numbers(column: str, trees: Sequence[Boolean]) -> Encoder:
    """Return the encoder of a column of numbers that is compared with constants: all values of a piece are in one cell."""
    constants = np.array(sorted(set(chain.from_iterable(map(_list_constants, trees)))))
    line, rest = _NumberLine({value: place for place, value in enumerate(constants.tolist())}), len(trees)
    by_piece = np.full(line.total + 1, rest, dtype=code_type(rest))
    for number, tree in enumerate(trees):
        for low, high in () if isinstance(tree, Constant) else find_spans(tree, line):
            by_piece[low:high] = number

    def encode(columns: Mapping[str, Values], rows: int) -> Codes:
        data, valid = columns[column].data, columns[column].valid
        if not constants.size:
            pieces = np.zeros(rows, dtype=np.int64)
        else:
            before = np.searchsorted(constants, data)
            pieces = 2 * before + (constants[np.minimum(before, constants.size - 1)] == data)
        if valid is not None:
            pieces[~valid] = line.total
        if data.dtype.kind == "f":
            pieces[np.isnan(data)] = line.total
        return by_piece[pieces]

    return encode


def _list_constants(tree: Boolean) -> Iterable[float]:
    match tree:
        case ValueComparison(right=Number(value=value)):
            return (value,)
        case Member(values=values):
            return values  # type: ignore[return-value]  # of numbers, as find_column says
        case And(children=children) | Or(children=children):
            return chain.from_iterable(map(_list_constants, children))
        case _:
            return ()


class CellTotals:
    """The sums of disjoint cells, added up over blocks of rows.

    Law: sums of values are exact. A value is cut into parts of 20 bits; doubles add up to 2^33 of them without rounding, and
    no block has that many rows.
    """

    def __init__(self, cells: DisjointCells, bits: int) -> None:
        self._cells, self._bits = cells, bits
        self._sizes = [len(axis.conditions) for axis in cells.all_axes]
        number = math.prod(self._sizes)
        self._counts = np.zeros(number, dtype=np.int64)
        parts = 0 if cells.value is None else bits // _PART_BITS + 1
        self._parts = [np.zeros(number, dtype=np.int64) for _ in range(parts)]
        self._waiting: list[Codes] = []
        self._base = 0

    def add_runs(self, arrays: Sequence[Sequence[npt.NDArray[Any]]], kept: Words | None, *, rows: int) -> None:
        """Add all rows: the codes of each axis, then the values if any, each as runs of one size; ``kept`` meet the base."""
        if kept is not None and len(arrays) == 1 and arrays[0][0].dtype == np.uint8:
            self.add_counts(count_bytes(arrays[0], kept, rows=rows), int(np.bitwise_count(kept).sum(dtype=np.int64)))
            return
        step = min(runs[0].size for runs in arrays)
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            found = [_cut_run(runs, start, stop) for runs in arrays]
            flags = None if kept is None else unpack(kept, start=start, stop=stop)
            values = None if self._cells.value is None else found.pop()
            self.add(found, flags, values)

    def add_counts(self, counts: Integers, kept: int) -> None:
        """Add rows that were counted by their code: how many have each, and how many meet the base."""
        self._counts += counts[: self._counts.size]
        self._base += kept

    def add(self, codes: Sequence[Codes], kept: Flags | None, values: Integers | None) -> None:
        """Add a block of rows: their codes on each axis, which of them meet the base, their values in units of 2^-bits."""
        joined = _join_codes(codes, self._sizes, kept)
        if values is not None:
            for place, sums in enumerate(self._parts):
                part = (values >> (place * _PART_BITS)) & ((1 << _PART_BITS) - 1)
                np.add(sums, np.bincount(joined, weights=part, minlength=sums.size)[: sums.size].astype(np.int64), out=sums)
        self._base += 0 if kept is None else int(np.count_nonzero(kept))
        self._waiting.append(joined)
        if sum(each.size for each in self._waiting) >= _TOGETHER:
            self._count_waiting()

    def _count_waiting(self) -> None:
        if self._waiting:
            self._counts += _count_codes(np.concatenate(self._waiting), self._counts.size)
            self._waiting.clear()

    def finish(self) -> list[int]:
        """Return all sums, in units of 2^-bits, in the order of the cells' queries."""
        self._count_waiting()
        step = 1 if self._cells.sides is None else len(self._cells.sides.conditions)
        counts = [number << self._bits for number in self._counts.tolist()]
        if step == 1 and not self._parts:
            return counts if self._cells.base is None else [*counts, self._base << self._bits]
        sums = [0] * len(counts)
        for place, part in enumerate(self._parts):
            sums = [total + (number << (place * _PART_BITS)) for total, number in zip(sums, part.tolist(), strict=True)]
        found: list[int] = []
        for start in range(0, len(counts), step):
            found.append(counts[start])
            found += sums[start : start + len(self._parts[:1])]
            found += counts[start + 1 : start + step]
        return found if self._cells.base is None else [*found, self._base << self._bits]


def _cut_run(runs: Sequence[npt.NDArray[Any]], start: int, stop: int) -> npt.NDArray[Any]:
    """Return some rows of an array that lies in runs of one size, which a power of two divides into blocks such as this."""
    run, place = divmod(start, runs[0].size)
    return runs[run][place : place + stop - start]


def _join_codes(codes: Sequence[Codes], sizes: Sequence[int], kept: Flags | None) -> Codes:
    """Return one code for each row: the number of its cell in the order of the axes' product, or any number above."""
    number = math.prod(sizes)
    if len(codes) == 1 and codes[0].dtype == np.uint8:
        # 0 where a row is kept, and 255 elsewhere, which no cell has.
        return codes[0] if kept is None else codes[0] | (kept.view(np.uint8) - np.uint8(1))
    joined, outside = (
        np.zeros(codes[0].size, dtype=np.int64),
        np.zeros(codes[0].size, dtype=np.bool_) if kept is None else ~kept,
    )
    for each, size in zip(codes, sizes, strict=True):
        joined *= size
        joined += each
        outside |= each == size
    joined[outside] = number
    return joined.astype(code_type(number))


def _count_codes(codes: Codes, number: int) -> Integers:
    """Return how many rows have each of the first codes."""
    if codes.dtype == np.uint8 and codes.size >= _PAIRED:
        return count_pairs(codes)[:number]
    return np.bincount(codes, minlength=number)[:number]

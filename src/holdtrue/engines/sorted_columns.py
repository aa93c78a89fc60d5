"""A column of numbers in order, so that a comparison with a constant never seen before needs no scan.

The rows that satisfy a comparison with a constant are a few ranges of ranks, found by bisection. Their number is a
difference of two ranks. Their bitmap comes from bitmaps made ahead: the ranks are cut at up to 32 places, and for each
cut there is the bitmap of all rows that rank below it. A range is the exclusive or of the rows below its two ends, and
the rows below an end are those below the nearest cut, save the rows that rank between the two: fewer than one in 32 of
all, turned over one by one.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdtrue.kernels import Words
from holdtrue.kernels.bitmaps import allocate_arena, count_range, count_words, mark_ranges, pack
from holdtrue.queries.syntax_tree import And, Boolean, Member, Number, Or, ValueComparison

__all__ = ["SortedColumn", "find_spans"]

Spans = tuple[tuple[int, int], ...]

_CUTS = 32
_INT32 = 2**31


class Ranks(Protocol):
    """Values in order, or whatever else lies in the same order around constants."""

    @property
    def total(self) -> int:
        """Return how many there are."""
        ...

    def count_around(self, value: float) -> tuple[int, int]:
        """Return how many lie below a constant, and how many not above it."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SortedColumn:
    """The values that are there, sorted; the row of each; the cuts, of which the first is 0; the rows below the others."""

    values: npt.NDArray[Any]
    order: npt.NDArray[Any]
    cuts: tuple[int, ...]
    below: Words

    @classmethod
    def sort(cls, data: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> "SortedColumn":
        """Sort a column; rows that are NULL or NaN have no rank, and satisfy no comparison."""
        there = valid & (data == data) if data.dtype.kind == "f" else valid  # noqa: PLR0124 - false for NaN only
        kind = np.int32 if data.size < _INT32 else np.int64
        if there.all():
            order, values = np.argsort(data).astype(kind), np.sort(data)
        else:
            rows = np.flatnonzero(there).astype(kind)
            held = data[rows]
            order, values = rows[np.argsort(held)], np.sort(held)
        # Values that are equal lie on one side of any constant, so a cut behind all of them is as good as one between them.
        spread = np.maximum(np.arange(1, _CUTS + 1) * values.size // _CUTS - 1, 0)
        cuts = np.unique(np.searchsorted(values, values[spread], side="right")).tolist() if values.size else []
        below = allocate_arena(len(cuts), count_words(data.size))
        flags = np.zeros(data.size, dtype=np.bool_)
        for number, (start, stop) in enumerate(zip([0, *cuts], cuts, strict=False)):
            flags[order[start:stop]] = True
            below[number] = 0
            pack(flags, below[number])
        return cls(values, order, (0, *cuts), below)

    @staticmethod
    def count_bytes(rows: int) -> int:
        """Return the most bytes that the ranks of this many rows take."""
        return rows * (8 + (4 if rows < _INT32 else 8)) + 8 * _CUTS * count_words(rows) + 4096

    @property
    def total(self) -> int:
        """Return how many values are there."""
        return int(self.values.size)

    def count_around(self, value: float) -> tuple[int, int]:
        """Return how many values lie below a constant, and how many not above it."""
        return int(self.values.searchsorted(value)), int(self.values.searchsorted(value, side="right"))

    def mark_rows(self, wanted: Spans, words: Words) -> None:
        """Write the bits of the rows whose rank lies in one of the spans, and zero everywhere else."""
        chosen, edges = [], []
        for end in (end for span in wanted for end in span):
            place = self.find_cut(end)
            if place:
                chosen.append(place - 1)
            edges.append((min(end, self.cuts[place]), max(end, self.cuts[place])))
        pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
        mark_ranges(self.below, np.array(chosen, dtype=np.int64), self.order, pairs, words)

    def count_within(self, wanted: Spans, words: Words) -> int:
        """Return how many rows whose rank lies in one of the spans have their bit set."""
        return sum(self._count_below(high, words) - (self._count_below(low, words) if low else 0) for low, high in wanted)

    def _count_below(self, end: int, words: Words) -> int:
        """Return how many rows that rank below an end have their bit set."""
        place = self.find_cut(end)
        return count_range(None if not place else self.below[place - 1], self.order, self.cuts[place], end, words)

    def find_cut(self, end: int) -> int:
        """Return the place of the cut that is nearest to a rank."""
        place = bisect_left(self.cuts, end)
        return place - 1 if place and 2 * end < self.cuts[place - 1] + self.cuts[place] else place


def find_spans(tree: Boolean, ranks: Ranks) -> Spans:
    """Return the ranks of the rows that satisfy an indexable tree: disjoint spans, in order, none of them empty."""
    whole = ((0, ranks.total),)
    match tree:
        case ValueComparison(operator=operator, right=Number(value=value)):
            below, upto = ranks.count_around(value)
            return _spans_of_comparison(operator, below, upto, whole[0][1])
        case Member(values=values, negated=negated):
            found = _join_spans([ranks.count_around(value) for value in values if not isinstance(value, str)])
            return _complement_spans(found, whole[0][1]) if negated else found
        case And(children=children):
            return reduce(_intersect_spans, (find_spans(child, ranks) for child in children))
        case Or(children=children):
            return _join_spans([span for child in children for span in find_spans(child, ranks)])
        case _:
            return _join_spans(whole)


def _spans_of_comparison(operator: str, below: int, upto: int, total: int) -> Spans:
    spans = {"<": (0, below), "<=": (0, upto), ">": (upto, total), ">=": (below, total), "=": (below, upto)}
    return _join_spans([spans[operator]] if operator in spans else [(0, below), (upto, total)])


def _join_spans(found: Sequence[tuple[int, int]]) -> Spans:
    kept: list[tuple[int, int]] = []
    for low, high in sorted(found):
        if low >= high:
            continue
        if kept and low <= kept[-1][1]:
            kept[-1] = kept[-1][0], max(kept[-1][1], high)
        else:
            kept.append((low, high))
    return tuple(kept)


def _intersect_spans(left: Spans, right: Spans) -> Spans:
    pairs = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return _join_spans(pairs)


def _complement_spans(found: Spans, total: int) -> Spans:
    ends = [0, *(end for span in found for end in span), total]
    return _join_spans(list(zip(ends[::2], ends[1::2], strict=True)))

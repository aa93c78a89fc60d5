"""A column of numbers in order, so that a comparison with a constant never seen before needs no scan.

The rows that satisfy a comparison with a constant are a few ranges of ranks, found by bisection. Their number is a
difference of two ranks. Their bitmap comes from codes of one byte a row: the values are cut at up to 127 of their own, a
code says which cut a value lies on or between which two, and so all rows but those of the two outermost pieces are told
by their code alone. The rows of those pieces, fewer than one in 127 of all, are set one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any as Whatever

import numpy as np
import numpy.typing as npt

from holdtrue.engines.kernels import Words, ranges
from holdtrue.queries.trees import All, Any, Boolean, Comparison, Field, Member, Null, Number

__all__ = ["Ranks", "indexable", "spans"]

Spans = tuple[tuple[int, int], ...]

_CUTS = 127
_MISSING = 255
_INT32 = 2**31


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """The values that are there, sorted; the row of each; the code of every row; the rank at which each code begins."""

    values: npt.NDArray[Whatever]
    order: npt.NDArray[Whatever]
    codes: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.int64]

    @classmethod
    def of(cls, data: npt.NDArray[Whatever], valid: npt.NDArray[np.bool_]) -> "Ranks":
        """Sort a column; rows that are NULL or NaN have no rank, and satisfy no comparison."""
        there = valid & (data == data) if data.dtype.kind == "f" else valid  # noqa: PLR0124 - false for NaN only
        rows = np.flatnonzero(there).astype(np.int32 if data.size < _INT32 else np.int64)
        held = data[rows]
        by_value = np.argsort(held)
        values, order = held[by_value], rows[by_value]
        picked = np.unique(values[np.linspace(0, values.size - 1, _CUTS).astype(np.int64)]) if values.size else values
        begins = np.zeros(2 * picked.size + 2, dtype=np.int64)
        begins[1:-1:2] = np.searchsorted(values, picked, side="left")
        begins[2:-1:2] = np.searchsorted(values, picked, side="right")
        begins[-1] = values.size
        codes = np.full(data.size, _MISSING, dtype=np.uint8)
        codes[order] = np.repeat(np.arange(begins.size - 1, dtype=np.uint8), np.diff(begins))
        return cls(values, order, codes, begins)

    @staticmethod
    def size(rows: int) -> int:
        """Return how many bytes the ranks of so many rows take at most."""
        return rows * (8 + 1 + (4 if rows < _INT32 else 8)) + 4096

    def around(self, value: float) -> tuple[int, int]:
        """Return how many values lie below a constant, and how many not above it."""
        return int(self.values.searchsorted(value)), int(self.values.searchsorted(value, side="right"))

    def mark(self, wanted: Spans, words: Words) -> None:
        """Write the bits of the rows whose rank lies in one of the spans, and zero everywhere else."""
        buckets, edges = [], []
        for low, high in wanted:
            first = int(self.begins.searchsorted(low, side="left"))
            last = int(self.begins.searchsorted(high, side="right")) - 1
            if first >= last:
                edges.append((low, high))
                continue
            buckets.append((first, last))
            edges += [(low, int(self.begins[first])), (int(self.begins[last]), high)]
        ranges(self.codes, self.order, _pairs(buckets), _pairs(edges), words)


def _pairs(pairs: list[tuple[int, int]]) -> npt.NDArray[np.int64]:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def indexable(tree: Boolean) -> str | None:
    """Return the column of a comparison of numbers with constants of its own type; None for anything else."""
    match tree:
        case Comparison(left=Field(column=name, type="integer"), right=Number(real=False)):
            return name
        case Comparison(left=Field(column=name, type="real"), right=Number(real=True)):
            return name
        case Member(operand=Field(column=name, type="integer" | "real")):
            return name
        case Null(operand=Field(column=name, type="integer" | "real"), negated=True):
            return name
        case All(children=children) | Any(children=children):
            first = indexable(children[0])
            return first if first is not None and all(indexable(child) == first for child in children[1:]) else None
        case _:
            return None


def spans(tree: Boolean, ranks: Ranks) -> Spans:
    """Return the ranks of the rows that satisfy an indexable tree: disjoint spans, in order, none of them empty."""
    whole = ((0, int(ranks.values.size)),)
    match tree:
        case Comparison(operator=operator, right=Number(value=value)):
            below, upto = ranks.around(value)
            return _compared(operator, below, upto, whole[0][1])
        case Member(values=values, negated=negated):
            found = _joined([ranks.around(value) for value in values if not isinstance(value, str)])
            return _rest(found, whole[0][1]) if negated else found
        case All(children=children):
            return reduce(_met, (spans(child, ranks) for child in children))
        case Any(children=children):
            return _joined([span for child in children for span in spans(child, ranks)])
        case _:
            return _joined(whole)


def _compared(operator: str, below: int, upto: int, total: int) -> Spans:
    match operator:
        case "<":
            return _joined([(0, below)])
        case "<=":
            return _joined([(0, upto)])
        case ">":
            return _joined([(upto, total)])
        case ">=":
            return _joined([(below, total)])
        case "=":
            return _joined([(below, upto)])
        case _:
            return _joined([(0, below), (upto, total)])


def _joined(found: Sequence[tuple[int, int]]) -> Spans:
    kept: list[tuple[int, int]] = []
    for low, high in sorted(found):
        if low >= high:
            continue
        if kept and low <= kept[-1][1]:
            kept[-1] = kept[-1][0], max(kept[-1][1], high)
        else:
            kept.append((low, high))
    return tuple(kept)


def _met(left: Spans, right: Spans) -> Spans:
    pairs = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return _joined(pairs)


def _rest(found: Spans, total: int) -> Spans:
    ends = [0, *(end for span in found for end in span), total]
    return _joined(list(zip(ends[::2], ends[1::2], strict=True)))

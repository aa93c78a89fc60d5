"""Aggregates of all units at once: totals that rows are added to in any order and in any pieces (U4).

Law: what is added up are integers, so that no order of rows, no number of pieces and no engine makes a difference.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdtrue.kernels import Flags, Integers
from holdtrue.queries.cards import HIGHEST, LOWEST
from holdtrue.queries.checking import conjoin, make_null
from holdtrue.queries.dates import LIMITS
from holdtrue.queries.evaluator import Values, compute, satisfies
from holdtrue.queries.syntax_tree import Aggregate, columns, make_aggregate

__all__ = ["columns_of", "find_least_place", "make_column", "scale_sums", "start_of", "start_total", "where_valid"]

_SUM_BITS = 32


def where_valid(cells: Values) -> Flags:
    """Return which cells are there."""
    return np.ones(len(cells.data), dtype=np.bool_) if cells.valid is None else cells.valid


def columns_of(aggregate: Aggregate) -> Iterator[str]:
    """Yield the columns of rows that an aggregate reads."""
    for tree in (aggregate.where, aggregate.operand, aggregate.order):
        if tree is not None:
            yield from columns(tree)


class UnitTotal(Protocol):
    """An aggregate of all units, made of rows that come in any order and in any pieces."""

    def add(self, owners: npt.NDArray[np.int32], cells: Mapping[str, Values]) -> None:
        """Add rows, each with the number of its unit, or -1."""
        ...

    def add_up(self) -> Values:
        """Return what rows came to so far, which merges with that of other rows: by + for counts and sums."""
        ...

    def finish(self) -> Values:
        """Return the value of each unit."""
        ...


def start_total(aggregate: Aggregate, units: int, first: Values | None = None) -> UnitTotal:
    """Return the total of no row; ``first`` is the least place of each unit's rows, for FIRST."""
    if aggregate.name == "COUNT":
        return _Counted(aggregate, units)
    if aggregate.name == "SUM":
        return _Summed(aggregate, units)
    if aggregate.name == "FIRST" and aggregate.type == "text":
        return _FirstText(aggregate, units, first)
    return _Extreme(aggregate, units, first)


class _Counted:
    def __init__(self, aggregate: Aggregate, units: int) -> None:
        self._aggregate = aggregate
        self._counts = np.zeros(units, dtype=np.int64)

    def add(self, owners: npt.NDArray[np.int32], cells: Mapping[str, Values]) -> None:
        kept = (owners >= 0) & satisfies(self._aggregate.where, cells, rows=len(owners))
        np.add.at(self._counts, owners[kept], 1)

    def add_up(self) -> Values:
        return make_column(self._counts)

    finish = add_up


def make_column(data: npt.NDArray[Any]) -> Values:
    """Return a column that has a value everywhere."""
    return Values(data, np.ones(len(data), dtype=np.bool_))


def _read_operand(
    aggregate: Aggregate, owners: npt.NDArray[np.int32], cells: Mapping[str, Values], first: Values | None = None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any], tuple[str, ...]]:
    """Return the units and the values of the rows that count; texts as places in a list of words."""
    assert aggregate.operand is not None  # noqa: S101 - all but COUNT have one
    rows = len(owners)
    held = compute(aggregate.operand, cells, rows=rows)
    kept = (owners >= 0) & where_valid(held) & satisfies(aggregate.where, cells, rows=rows)
    if aggregate.order is not None and first is not None:
        place = compute(aggregate.order, cells, rows=rows)
        kept &= where_valid(place) & (place.data == first.data[np.maximum(owners, 0)])
    return owners[kept], held.data[kept], held.dictionary or ()


class _Summed:
    """Sums of integers: whole numbers as they are, reals as multiples of a power of two."""

    def __init__(self, aggregate: Aggregate, units: int) -> None:
        self._aggregate = aggregate
        self._scale = _scale_of(aggregate)
        self._sums = np.zeros(units, dtype=np.int64)

    def add(self, owners: npt.NDArray[np.int32], cells: Mapping[str, Values]) -> None:
        owned, data, _ = _read_operand(self._aggregate, owners, cells)
        clamped = np.clip(data, *self._aggregate.bounds or ())
        if self._scale is not None:
            # Halves up: floor(y + 1/2) is floor((floor(2 y) + 1) / 2).
            clamped = (np.floor(np.ldexp(clamped, self._scale + 1)).astype(np.int64) + 1) >> 1
        np.add.at(self._sums, owned, clamped)

    def add_up(self) -> Values:
        return make_column(self._sums)

    def finish(self) -> Values:
        return make_column(scale_sums(self._aggregate, self._sums))


def _scale_of(aggregate: Aggregate) -> int | None:
    """Return by which power of two the reals of a sum are multiplied before they are rounded; None for integers."""
    if aggregate.type != "real":
        return None
    largest = max(abs(end) for end in aggregate.bounds or (0.0,))
    part, power = math.frexp(largest)
    return _SUM_BITS - (power - (part == 0.5))  # noqa: PLR2004 - a power of two itself


def scale_sums(aggregate: Aggregate, sums: Integers) -> npt.NDArray[Any]:
    """Return sums of integers in the units of what was added up."""
    scale = _scale_of(aggregate)
    return sums if scale is None else np.ldexp(sums.astype(np.float64), -scale)


def start_of(aggregate: Aggregate) -> float:
    """Return what MIN, MAX or FIRST of no row begins with: above everything, or below for MAX."""
    if aggregate.type == "real":
        low, high = -math.inf, math.inf
    else:
        low, high = LIMITS.get(aggregate.type, (LOWEST, HIGHEST))
    return low if aggregate.name == "MAX" else high


class _Extreme:
    """MIN, MAX and, over the rows that come first, FIRST."""

    def __init__(self, aggregate: Aggregate, units: int, first: Values | None) -> None:
        self._aggregate, self._first = aggregate, first
        kind = np.float64 if aggregate.type == "real" else np.int64
        self._ends = np.full(units, start_of(aggregate), dtype=kind)
        self._found = np.full(units, aggregate.name != "FIRST")

    def add(self, owners: npt.NDArray[np.int32], cells: Mapping[str, Values]) -> None:
        owned, data, _ = _read_operand(self._aggregate, owners, cells, self._first)
        (np.maximum if self._aggregate.name == "MAX" else np.minimum).at(self._ends, owned, data)
        self._found[owned] = True

    def add_up(self) -> Values:
        return Values(np.where(self._found, self._ends, 0) + self._ends.dtype.type(0), self._found)

    finish = add_up


class _FirstText:
    def __init__(self, aggregate: Aggregate, units: int, first: Values | None) -> None:
        self._aggregate, self._first, self._units = aggregate, first, units
        self._owned: list[npt.NDArray[np.int32]] = []
        self._places: list[Integers] = []
        self._words: dict[str, int] = {}

    def add(self, owners: npt.NDArray[np.int32], cells: Mapping[str, Values]) -> None:
        owned, data, words = _read_operand(self._aggregate, owners, cells, self._first)
        known = np.array([self._words.setdefault(word, len(self._words)) for word in words] or [0], dtype=np.int64)
        self._owned.append(owned)
        self._places.append(known[data])

    def add_up(self) -> Values:
        listed = sorted(self._words)
        ranks = np.zeros(len(listed) + 1, dtype=np.int64)
        ranks[[self._words[word] for word in listed]] = np.arange(len(listed))
        least = np.full(self._units, len(listed), dtype=np.int64)
        for owned, places in zip(self._owned, self._places, strict=True):
            np.minimum.at(least, owned, ranks[places])
        found = least < len(listed)
        return Values(np.where(found, least, -1).astype(np.int32), found, tuple(listed) or ("",))

    finish = add_up


def find_least_place(first: Aggregate) -> Aggregate:
    """Return the least place of each unit's rows: FIRST is of the rows there."""
    assert first.order is not None  # noqa: S101 - FIRST has one
    there = conjoin((first.where, make_null(first.order, negated=True)))
    return make_aggregate("MIN", first.table, there, first.order)

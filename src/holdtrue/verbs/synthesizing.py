"""SYNTHESIZE: rows that agree with tables which were released, made of what is public, free (V2.3).

What is made here is a function of released tables and a public seed alone, so that nothing is charged, floats may be rounded
as they are, and the seed may be told. It is an estimate: intervals stay with the tables.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from holdtrue.errors import InvalidParameter
from holdtrue.exact import count, read_list
from holdtrue.records import Synthetic, Table
from holdtrue.verbs.tables import list_widest

__all__ = ["MOST_COMBINATIONS", "synthesize"]

Floats: TypeAlias = npt.NDArray[np.float64]
_Labels: TypeAlias = tuple[str | int | float | bool | None, ...]
MOST_COMBINATIONS = 1 << 22
"""The most combinations of labels that rows are made among."""
_MOST_ROWS = 10**7
_STEPS = 200
_CLOSE = 1e-9
_GOLDEN = (math.sqrt(5) - 1) / 2


def synthesize(tables: Sequence[Table], *, columns: Sequence[str] | None, rows: int, seed: int) -> Synthetic:
    """Return rows whose tables are about those released: the distribution that fits them best, then a sample of it.

    The distribution is fitted by least squares, each table by the inverse of its variance, with steps that keep shares
    positive (mirror descent from the uniform one). Each combination of labels then has as many rows as are expected of it,
    rounded down or up; where they begin is what the seed decides.
    Where a column was cut differently, the newest table decides, and those with other cells are left out.
    Failure: InvalidParameter where no table has a column, or where the columns have more combinations than fit.
    """
    number = count("rows", rows, most=_MOST_ROWS)
    first = count("seed", seed, least=0)
    labels = _read_columns(tables, columns)
    chosen, names = _choose_tables(tables, labels), list(labels)
    sizes = [len(labels[name]) + 1 for name in names]  # and those with no label
    if math.prod(sizes) > MOST_COMBINATIONS:
        widest = list_widest({name: len(labels[name]) for name in names})
        message = f"columns have {math.prod(sizes):,} combinations, and {MOST_COMBINATIONS:,} fit"
        raise InvalidParameter.saying("columns", f"{message}: bin {widest}, or leave some out")
    targets = [_Target.of(table, names, sizes) for table in chosen]
    counts = _share_rows(_fit(targets, sizes), number, first)
    (places,) = np.nonzero(counts)
    known = [(*labels[name], None) for name in names]
    cells = zip(*np.unravel_index(places, sizes), strict=True)
    combined = tuple(tuple(each[at] for each, at in zip(known, cell, strict=True)) for cell in cells)
    return Synthetic(tuple(names), combined, tuple(counts[places].tolist()), first, tuple(chosen))


def _read_columns(tables: Sequence[Table], columns: Sequence[str] | None) -> dict[str, _Labels]:
    """Return the labels of each column, in the newest table that has it."""
    known = {name: _list_labels(table, name) for table in tables for name in table.columns}
    names = list(known) if columns is None else read_list("columns", columns, expected="a list of columns")
    if not known:
        message = "rows are made from released tables, and none was released: ask for tables first (marginals, or a table)"
        raise InvalidParameter.saying("columns", message)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidParameter.saying("columns", f"name different columns of released tables ({', '.join(known)})")
    for name in names:
        if name not in known:
            raise InvalidParameter("columns", name, f"columns of released tables ({', '.join(known)})")
    return {name: known[name] for name in names}


def _list_labels(table: Table, name: str) -> _Labels:
    place = table.columns.index(name)
    return tuple(dict.fromkeys(each[place] for each in table.labels[:-1]))


def _choose_tables(tables: Sequence[Table], labels: Mapping[str, _Labels]) -> list[Table]:
    """Return the tables of these columns and no others, with these labels; refuse a column that none of them has."""
    inside = [each for each in tables if set(each.columns) <= set(labels)]
    found = [each for each in inside if all(_list_labels(each, name) == labels[name] for name in each.columns)]
    for name in labels:
        if not any(name in each.columns for each in found):
            raise InvalidParameter("columns", name, "columns that are together in released tables, in the same cells")
    return found


@dataclass(frozen=True, eq=False)
class _Target:
    """A table to be met: its answers by label, that of the rest of the rows, and which axes of the distribution it has."""

    answers: Floats
    rest: float
    weight: float
    axes: tuple[int, ...]
    dimensions: int

    @classmethod
    def of(cls, table: Table, names: Sequence[str], sizes: Sequence[int]) -> "_Target":
        """Return a table with its columns in the order of the names."""
        places = [names.index(name) for name in table.columns]
        told = table.unions.answers if table.unions is not UNSET else table.values
        spread = table.unions.sample_noise if table.unions is not UNSET else 1.0
        shaped = np.array(told[:-1]).reshape([sizes[place] - 1 for place in places])
        order = np.argsort(places)
        return cls(shaped.transpose(order), told[-1], 1 / max(spread, _CLOSE) ** 2, tuple(sorted(places)), len(sizes))

    @cached_property
    def others(self) -> tuple[int, ...]:
        """Return the axes that it has not."""
        return tuple(set(range(self.dimensions)) - set(self.axes))

    def find_slope(self, shares: Floats) -> tuple[float, Floats]:
        """Return by how much a distribution misses the table, and the derivative, as an array to be added to all of it."""
        found = shares.sum(axis=self.others)
        inside = (slice(None, -1),) * found.ndim
        rest = 1 - float(found[inside].sum()) - self.rest
        slope = np.full(found.shape, rest)
        slope[inside] = found[inside] - self.answers
        missed = float((slope[inside] ** 2).sum()) + rest**2
        return self.weight * missed / 2, np.expand_dims(self.weight * slope, self.others)


def _fit(targets: Sequence[_Target], sizes: Sequence[int]) -> Floats:
    """Return the distribution on all combinations that fits the tables best, one dimension for each column."""
    scale, groups = 1 / sum(target.weight for target in targets), _group_targets(targets, len(sizes))
    logs: Floats = np.full(sizes, -math.log(math.prod(sizes)))
    missed, slope = _find_slope(groups, np.exp(logs), scale)
    step = 1.0
    for _ in range(_STEPS):
        tried = logs - step * slope
        tried -= tried.max()
        tried -= math.log(float(np.exp(tried).sum()))
        now, following = _find_slope(groups, np.exp(tried), scale)
        if now > missed:
            step /= 4
            continue
        near = missed - now <= _CLOSE * missed
        logs, missed, slope, step = tried, now, following, 2 * step
        if near:
            break
    return np.exp(logs)


def _group_targets(targets: Sequence[_Target], dimensions: int) -> dict[tuple[int, ...], list[_Target]]:
    """Return the targets by axes that none of a group has: the large array is summed once for each group.

    Those within the first half of the axes are one group, the others go by which axes of that half they have.
    """
    half = dimensions // 2
    groups: dict[tuple[int, ...], list[_Target]] = {}
    for target in targets:
        first = set(range(half))
        gone = range(half, dimensions) if first.issuperset(target.axes) else first.difference(target.axes)
        groups.setdefault(tuple(gone), []).append(target)
    return groups


def _find_slope(groups: Mapping[tuple[int, ...], Sequence[_Target]], shares: Floats, scale: float) -> tuple[float, Floats]:
    missed, slope = 0.0, np.zeros(shares.shape)
    for gone, targets in groups.items():
        part = shares.sum(axis=gone, keepdims=True)
        added = np.zeros(part.shape)
        for target in targets:
            found, each = target.find_slope(part)
            missed += scale * found
            added += scale * each
        slope += added
    return missed, slope


def _share_rows(shares: Floats, rows: int, seed: int) -> npt.NDArray[np.int64]:
    """Return how many rows each combination has: what is expected of it, rounded down or up (systematic sampling)."""
    ends = np.cumsum(shares.ravel()) * (rows / float(shares.sum()))
    ends[-1] = rows
    start = (seed * _GOLDEN + 0.5) % 1.0
    counts: npt.NDArray[np.int64] = np.diff(np.floor(np.minimum(ends, rows) + start), prepend=0.0).astype(np.int64)
    return counts

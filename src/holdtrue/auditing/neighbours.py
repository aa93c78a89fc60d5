"""Whether two data sets are neighbours, where that can be seen: tables of rows that differ in so many of them (0.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.errors import PreconditionError

__all__ = ["check_neighbours", "differing_rows"]

_TABLE = 2


def check_neighbours(left: object, right: object, *, rows: int) -> None:
    """Refuse two tables unless they have the same rows but for at least one and at most ``rows`` of them.

    What is no table (a number, a vector of query results, an object of the caller's own) is taken as it is.
    """
    first, second = _table(left), _table(right)
    if first is None or second is None:
        return
    if len(first) != len(second):
        message = (
            f"left has {len(first):,} rows and right has {len(second):,}: neighbours have equally many, and differ in one "
            f"(replace-one); to leave a row out, put a row of zeros in its place"
        )
        raise PreconditionError(message)
    number = differing_rows(first, second)
    if not 1 <= number <= rows:
        allowed = "exactly one row" if rows == 1 else f"1 to {rows} rows"
        way = f"; a group audit takes rows={number}" if number > rows else "; there is nothing to tell apart"
        message = f"left and right differ in {number:,} rows, and must differ in {allowed}{way}"
        raise PreconditionError(message)


def differing_rows(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return in how many places two tables with equally many rows differ; NaN is like NaN."""
    return sum(not _same(first, second) for first, second in zip(left, right, strict=True))


def _same(first: object, second: object) -> bool:
    if isinstance(first, (np.ndarray, list, tuple)) and isinstance(second, (np.ndarray, list, tuple)):
        return len(first) == len(second) and all(_same(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
    return bool(first == second) or (first != first and second != second)  # noqa: PLR0124 - true for NaN only


def _table(data: object) -> Sequence[Any] | None:
    """Return the rows of a matrix, a data frame, records, or a list of tuples or mappings; None for anything else."""
    if isinstance(data, np.ndarray):
        return _rows(data) if data.ndim == _TABLE or data.dtype.names else None
    if isinstance(data, (list, tuple)):
        whole = data and all(isinstance(row, (tuple, list, Mapping)) for row in data)
        return data if whole else None
    if len(getattr(data, "shape", ())) == _TABLE and hasattr(data, "columns"):
        return _rows(np.asarray(data, dtype=object))
    return None


def _rows(array: npt.NDArray[Any]) -> Sequence[Any]:
    rows: list[Any] = array.tolist()
    return rows

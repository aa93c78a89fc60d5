"""Rows as a class of hypotheses reads them: a matrix of numbers with its columns in the class's order, and labels 0 or 1."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter, UnknownColumn
from holdtrue.exact import array_of

__all__ = ["Flags", "Integers", "Matrix", "labels_of", "matrix_of", "names_of", "width_of"]

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Matrix = npt.NDArray[Any]
"""Rows by columns, of booleans, integers or floats, with any strides."""

_KINDS = "biuf"


def width_of(rows: object) -> int | list[str]:
    """Return the columns of what holds rows: their names where it has names, their number otherwise."""
    names = names_of(rows)
    return int(np.asarray(rows).shape[-1]) if names is None else names


def matrix_of(rows: object, columns: Sequence[str] | None, *, width: int | None = None) -> Matrix:
    """Return rows as a matrix: named columns in the order of ``columns``, or all of them as they stand.

    ``rows`` is a matrix, a data frame, one record or a mapping from names to columns; a plain list of numbers is one row,
    or one column where the class has a ``width`` of 1. Failure: InvalidParameter or
    UnknownColumn, whose texts depend on names, shapes and types, never on a cell.
    """
    names = names_of(rows)
    if names is None or columns is None:
        matrix = (
            array_of("X", rows, expected="a matrix of numbers, rows by columns") if names is None else _stacked(rows, names)
        )
        if matrix.ndim == 1:
            matrix = matrix[:, np.newaxis] if width == 1 else matrix[np.newaxis, :]
        if columns is not None and matrix.ndim == 2 and matrix.shape[1] != len(columns):  # noqa: PLR2004 - rows by columns
            raise InvalidParameter("X", _Shown(matrix), f"a matrix with the {len(columns)} columns {', '.join(columns)}")
        return _checked(matrix)
    missing = [name for name in columns if name not in names]
    if missing:
        message = f"there is no column {missing[0]!r}; there are {', '.join(names)}"
        raise UnknownColumn(message)
    return _checked(_stacked(rows, list(columns)))


def labels_of(y: object, *, rows: int) -> Flags:
    """Return labels as flags. They are booleans, or numbers that are all 0 or 1; one for each row."""
    array = array_of("y", y, expected="labels 0 and 1, one for each row")
    if array.ndim != 1 or array.size != rows:
        raise InvalidParameter("y", _Shown(array), f"one label for each of {rows} rows")
    if array.dtype == np.bool_:
        return array
    ones: Flags | None = array == 1 if array.dtype.kind in _KINDS else None
    if ones is None or np.count_nonzero(ones) != np.count_nonzero(array):
        raise InvalidParameter("y", _Shown(array), "labels 0 and 1; compare with the value that is to be 1 to make them")
    return ones


def names_of(rows: object) -> list[str] | None:
    """Return the names of the columns of what holds rows: a mapping, a data frame, an Arrow table; None without names."""
    if isinstance(rows, Mapping):
        return [str(name) for name in rows]
    named = getattr(rows, "column_names", None)
    named = getattr(rows, "columns", None) if named is None else named
    return [str(name) for name in named] if isinstance(named, Iterable) else None


def _stacked(rows: Any, names: Sequence[str]) -> Matrix:  # noqa: ANN401 - whatever has columns by name
    expected = "columns of numbers by name"
    try:
        columns = [np.atleast_1d(array_of("X", rows[name], expected=expected)) for name in names]
    except (KeyError, TypeError, IndexError):  # names that are no text, or an object that has names only
        raise InvalidParameter("X", type(rows).__name__, expected) from None
    if len({column.shape for column in columns}) > 1:
        raise InvalidParameter("X", _Shown(columns[0]), "columns of one length")
    # A column after the other: the copy is quick, and so is reading them.
    return np.stack(columns).T if columns else np.zeros((0, 0))


def _checked(matrix: Matrix) -> Matrix:
    if matrix.ndim != 2 or matrix.dtype.kind not in _KINDS:  # noqa: PLR2004 - rows by columns
        raise InvalidParameter("X", _Shown(matrix), "a matrix of numbers, rows by columns")
    return matrix


class _Shown:
    """Stands for an array whose contents are private."""

    def __init__(self, array: Matrix) -> None:
        self._text = f"an array of {array.dtype} with shape {array.shape}"

    def __repr__(self) -> str:
        return self._text

"""Arrow and NumPy columns as what queries read: 64-bit values with their validity, and text by its distinct strings.

A column becomes one of the four types of the card. What has no such type is refused by name, and where it can be read as
text the message says how.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdtrue.engines.card_declaration import choose_type, refuse_type
from holdtrue.errors import RequestError
from holdtrue.kernels import Flags
from holdtrue.queries.evaluator import Values

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["cells_of_array", "cells_of_arrow", "flags_of"]


def _arrow_type(kind: "pa.DataType") -> str | None:
    """Return the card's type for an Arrow type, or None where there is none."""
    import pyarrow.types as known  # type: ignore[import-untyped]

    if known.is_dictionary(kind):
        return _arrow_type(kind.value_type)
    if known.is_boolean(kind):
        return "boolean"
    if known.is_integer(kind):
        return "integer"
    if known.is_floating(kind) or known.is_decimal(kind):
        return "real"
    if known.is_string(kind) or known.is_large_string(kind) or known.is_string_view(kind):
        return "text"
    return None


def cells_of_arrow(name: str, array: "pa.Array", *, wanted: str | None) -> tuple[str, Values]:
    """Return the card's type of an Arrow array, and its cells as that type.

    ``wanted`` is a declared type: integers and booleans may be read as numbers, and dates, times and columns that hold
    nothing but NULL as text. A cell that does not fit its type is refused; the message names the column only.
    """
    import pyarrow as pa

    empty, temporal = pa.types.is_null(array.type), pa.types.is_temporal(array.type)
    found = _arrow_type(array.type)
    kind = choose_type(name, found=str(array.type), kind=found, wanted=wanted, as_text=temporal, empty=empty)
    try:
        if kind == "text":
            return kind, _text(array if pa.types.is_dictionary(array.type) else array.cast(pa.large_string()))
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_decimal(array.type) and kind == "real":
            # Through text both engines round to the nearest double; their direct casts do not.
            array = array.cast(pa.string())
        if pa.types.is_boolean(array.type) and kind == "real":
            array = array.cast(pa.int8())
        target = {"boolean": pa.bool_(), "integer": pa.int64(), "real": pa.float64()}[kind]
        array = array.cast(target, safe=kind == "integer")
        data, valid = _numbers(array)
        return kind, Values(data, valid & (data == data) if kind == "real" else valid)  # noqa: PLR0124 - NaN is not there
    except (pa.ArrowException, ValueError, OverflowError):
        pass
    message = f"column {name!r} holds a cell that does not fit the type {kind}"
    raise RequestError(message)


def flags_of(array: "pa.Array") -> Flags:
    """Return the cells of a boolean Arrow array, NULL as false."""
    data, valid = _numbers(array)
    return data & valid


def _numbers(array: "pa.Array") -> tuple[npt.NDArray[Any], Flags]:
    """Return the cells of a boolean array or of one of 64-bit numbers, 0 where there is none, and which of them are there.

    Read from Arrow's own memory: its ``to_numpy`` and ``fill_null`` import pandas, which takes longer than most columns do.
    """
    import pyarrow as pa

    kind = np.bool_ if pa.types.is_boolean(array.type) else np.float64 if pa.types.is_floating(array.type) else np.int64
    there, held = array.buffers()
    if not len(array):
        return np.zeros(0, dtype=kind), np.zeros(0, dtype=np.bool_)
    valid = _bits(there, array) if array.null_count else np.ones(len(array), dtype=np.bool_)
    if kind is np.bool_:
        return _bits(held, array) & valid, valid
    data = np.frombuffer(held, dtype=kind, count=len(array), offset=8 * array.offset)
    return np.where(valid, data, kind(0)) if array.null_count else data, valid


def _bits(packed: "pa.Buffer", array: "pa.Array") -> Flags:
    """Return the bits of the cells of an array, one a byte."""
    first, skipped = divmod(array.offset, 8)
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8)[first:], count=skipped + len(array), bitorder="little")
    return bits[skipped:].view(np.bool_)


def _text(array: "pa.Array") -> Values:
    """Return text as places in a list that holds each string once and no NULL; a place of -1 is NULL."""
    import pyarrow as pa

    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    places, valid = _numbers(encoded.indices.cast(pa.int64(), safe=True))
    strings: Sequence[str | None] = encoded.dictionary.cast(pa.large_string()).to_pylist()
    numbers: dict[str, int] = {}
    renamed = np.array([-1 if text is None else numbers.setdefault(text, len(numbers)) for text in strings] + [-1])
    places = renamed[np.where(valid, places, -1)].astype(np.int32)
    return Values(places, places >= 0, tuple(numbers) or ("",))


def cells_of_array(name: str, values: object, *, wanted: str | None) -> tuple[str, Values]:
    """Return the card's type of one column given as a NumPy array or a sequence, and its cells as that type."""
    import pyarrow as pa

    missing = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    array: npt.NDArray[Any] | None = np.asarray(values) if isinstance(values, np.ndarray) else None
    if array is not None and array.ndim != 1:
        message = f"column {name!r} has {array.ndim} dimensions; a column has one"
        raise RequestError(message)
    if array is not None and array.dtype.kind in "MmcVS":
        refuse_type(name, found=str(array.dtype), castable=False)
    source = values if array is None else (array.tolist() if array.dtype.kind in "OTU" else array)
    mixed = False
    try:
        if array is not None and array.dtype.kind in "biuf" and array.dtype.isnative:
            arrow = _arrow(array, missing)
        else:
            arrow = pa.array(source, mask=missing, from_pandas=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        mixed = True
    if mixed:
        message = f"column {name!r} holds values of several types, or of a type that Holdtrue does not read"
        raise RequestError(message)
    return cells_of_arrow(name, arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow, wanted=wanted)


def _arrow(array: npt.NDArray[Any], missing: Flags | None) -> "pa.Array":
    """Return an array of numbers as Arrow's, without its ``array``, which imports pandas."""
    import pyarrow as pa

    held = np.packbits(array, bitorder="little") if array.dtype.kind == "b" else np.ascontiguousarray(array)
    there = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), array.size, [there, pa.py_buffer(held)])

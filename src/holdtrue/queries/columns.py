"""Arrow and NumPy columns as what queries read: 64-bit values with their validity, and text by its distinct strings.

A column becomes one of the types of the card. What has no such type is refused by name, and where it can be read as
text the message says how.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from holdtrue.errors import HoldtrueError, RequestError, UnknownColumn
from holdtrue.queries.cards import Type
from holdtrue.queries.dates import LIMITS, fit_moments
from holdtrue.queries.evaluator import Values

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = [
    "cells_of_array",
    "cells_of_arrow",
    "check_names",
    "choose_type",
    "find_complete",
    "flags_of",
    "names_of",
    "open_masked",
    "read_as_held",
    "read_stored",
    "read_table",
    "refuse_type",
    "type_of_arrow",
    "type_of_decimal",
]

T = TypeVar("T")
Flags: TypeAlias = npt.NDArray[np.bool_]
Table: TypeAlias = dict[str, tuple[str, Values]]

CONVERSIONS = {
    *((kind, kind) for kind in get_args(Type)),
    ("boolean", "integer"),
    ("boolean", "real"),
    ("integer", "real"),
    ("date", "text"),
    ("timestamp", "text"),
}
"""Which type of data may be read as which type of the card."""

_WHOLE_DIGITS, _WIDE = 18, 8
_UNITS = {(unit, 1) for unit in ("D", "s", "ms", "us", "ns")}


def names_of(rows: object) -> list[str] | None:
    """Return the names of the columns of what holds rows: a mapping, a data frame, an Arrow table; None without names."""
    if isinstance(rows, Mapping):
        return [str(name) for name in rows]
    named = getattr(rows, "column_names", None)
    named = getattr(rows, "columns", None) if named is None else named
    return [str(name) for name in named] if isinstance(named, Iterable) else None


def type_of_decimal(precision: int, scale: int) -> str:
    """Return the card's type for decimals: integer where every whole number of the type fits into 64 bits, else real."""
    return "integer" if scale == 0 and precision <= _WHOLE_DIGITS else "real"


def type_of_arrow(kind: "pa.DataType") -> str | None:
    """Return the card's type for an Arrow type, or None where there is none."""
    import pyarrow.types as known  # type: ignore[import-untyped]

    if known.is_dictionary(kind):
        return type_of_arrow(kind.value_type)
    if known.is_boolean(kind):
        return "boolean"
    if known.is_integer(kind):
        return "integer"
    if known.is_decimal(kind):
        return type_of_decimal(kind.precision, kind.scale)
    if known.is_floating(kind):
        return "real"
    if known.is_date(kind) or known.is_timestamp(kind):
        return "date" if known.is_date(kind) else "timestamp"
    if known.is_string(kind) or known.is_large_string(kind) or known.is_string_view(kind):
        return "text"
    return None


def cells_of_arrow(name: str, array: "pa.Array", *, wanted: str | None) -> tuple[str, Values]:
    """Return the card's type of an Arrow array, and its cells as that type.

    ``wanted`` is a declared type: integers and booleans may be read as numbers, and dates, times and columns that hold
    nothing but NULL as text. Categories are read as their values and never become labels: they may come from the rows. No
    refusal depends on a cell, save for texts in an encoding that Arrow cannot read.
    """
    import pyarrow as pa

    empty, temporal = pa.types.is_null(array.type), pa.types.is_temporal(array.type)
    found = type_of_arrow(array.type)
    wide = pa.types.is_uint64(_value_type(array.type))
    kind = choose_type(name, found=str(array.type), kind=found, wanted=wanted, as_text=temporal, empty=empty, wide=wide)
    try:
        if kind == "text":
            coded = pa.types.is_dictionary(array.type) or pa.types.is_string(array.type)
            return kind, _read_text(array if coded else array.cast(pa.large_string()))
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if kind in LIMITS and not empty:
            return kind, _read_moments(array, kind)
        if pa.types.is_decimal(array.type) and kind == "real":
            # Through text both engines round to the nearest double; their direct casts do not.
            array = array.cast(pa.string())
        if pa.types.is_boolean(array.type) and kind == "real":
            array = array.cast(pa.int8())
        target = {"boolean": pa.bool_(), "real": pa.float64()}.get(kind, pa.int64())
        data, valid = _read_numbers(array.cast(target, safe=kind == "integer" and not wide))
        if wide and kind == "integer":
            # Beyond 2^63 - 1 the cast gives a negative number, and the card NULL.
            valid = valid & (data >= 0)
            data = np.where(valid, data, 0)
        return kind, Values(data, valid & (data == data) if kind == "real" else valid)  # noqa: PLR0124 - NaN is not there
    except (pa.ArrowException, ValueError, OverflowError):
        pass
    message = f"column {name!r} holds a cell that does not fit the type {kind}"
    raise RequestError(message)


def read_stored(name: str, array: "pa.Array", kind: str) -> Values:
    """Return the cells of a column as an engine gives it: in the type of the card, dates and timestamps as integers."""
    return cells_of_arrow(name, array, wanted="integer" if kind in LIMITS else kind)[1]


def _read_moments(array: "pa.Array", kind: str) -> Values:
    """Return dates as days and timestamps as microseconds; what the calendar does not have is NULL."""
    import pyarrow as pa

    unit = "D" if pa.types.is_date32(array.type) else getattr(array.type, "unit", "ms")
    whole = array.cast(pa.int32() if unit == "D" else pa.int64()).cast(pa.int64())
    return Values(*fit_moments(*_read_numbers(whole), kind=kind, unit=unit))


def _value_type(kind: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def flags_of(array: "pa.Array") -> Flags:
    """Return the cells of a boolean Arrow array, NULL as false."""
    data, valid = _read_numbers(array)
    return data & valid


def read_as_held(name: str, array: "pa.Array") -> Values:
    """Return the cells of a column of plain numbers, booleans or texts; numbers as wide as they are held, without a copy.

    Integers are those of Arrow's own width, and what a cell holds where there is none may be any number, NaN included.
    """
    return read_stored(name, array, "text") if type_of_arrow(array.type) == "text" else Values(*_view_cells(array))


def _read_numbers(array: "pa.Array") -> tuple[npt.NDArray[Any], Flags]:
    """Return the cells of an array of booleans or numbers, 0 where there is none, and which are there."""
    data, valid = _view_cells(array)
    if valid is None:
        return data, np.ones(len(array), dtype=np.bool_)
    return np.where(valid, data, data.dtype.type(0)), valid


def _view_cells(array: "pa.Array") -> tuple[npt.NDArray[Any], Flags | None]:
    """Return the cells of an array of booleans or numbers, and which are there; None where all are.

    Read from Arrow's own memory: its ``to_numpy`` and ``fill_null`` import pandas, which takes longer than most columns do.
    """
    there, held = array.buffers()
    kind = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.zeros(0, dtype=kind), None
    valid = _read_bits(there, array) if array.null_count else None
    if kind == np.bool_:
        return _read_bits(held, array), valid
    return np.frombuffer(held, dtype=kind, count=len(array), offset=kind.itemsize * array.offset), valid


def _read_bits(packed: "pa.Buffer", array: "pa.Array") -> Flags:
    """Return the bits of the cells of an array, one per byte."""
    first, skipped = divmod(array.offset, 8)
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8)[first:], count=skipped + len(array), bitorder="little")
    return bits[skipped:].view(np.bool_)


def _read_text(array: "pa.Array") -> Values:
    """Return text as places in a list that holds each string once and no NULL; a place of -1 is NULL."""
    import pyarrow as pa

    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    indices = encoded.indices if encoded.indices.type == pa.int32() else encoded.indices.cast(pa.int64(), safe=True)
    places, valid = _read_numbers(indices)
    strings: Sequence[str | None] = encoded.dictionary.cast(pa.large_string()).to_pylist()
    numbers: dict[str, int] = {}
    renamed = [-1 if text is None else numbers.setdefault(text, len(numbers)) for text in strings] + [-1]
    there = np.where(valid, places, -1) if indices.null_count else places
    if len(numbers) < len(strings):
        there = np.array(renamed, dtype=np.int32)[there]
    return Values(there.astype(np.int32, copy=False), there >= 0, tuple(numbers) or ("",))


def cells_of_array(name: str, values: object, *, wanted: str | None) -> tuple[str, Values]:
    """Return the card's type of one column given as a NumPy array or a sequence, and its cells as that type."""
    import pyarrow as pa

    missing = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    array: npt.NDArray[Any] | None = np.asarray(values) if isinstance(values, np.ndarray) else None
    if array is not None and array.ndim != 1:
        message = f"column {name!r} has {array.ndim} dimensions; a column has one"
        raise RequestError(message)
    dated = array is not None and array.dtype.kind == "M" and np.datetime_data(array.dtype) in _UNITS
    if array is not None and array.dtype.kind in "MmcVS" and not dated:
        refuse_type(name, found=str(array.dtype), castable=False)
    source = values if array is None else (array.tolist() if array.dtype.kind in "OTU" else array)
    mixed = False
    try:
        if array is not None and dated:
            arrow = _make_arrow_moments(array, missing)
        elif array is not None and array.dtype.kind in "biuf" and array.dtype.isnative:
            arrow = _make_arrow(array, missing)
        else:
            arrow = pa.array(source, mask=missing, from_pandas=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        mixed = True
    if mixed:
        message = f"column {name!r} holds values of several types, or of a type that Holdtrue does not read"
        raise RequestError(message)
    return cells_of_arrow(name, arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow, wanted=wanted)


def _make_arrow(array: npt.NDArray[Any], missing: Flags | None) -> "pa.Array":
    """Return an array of numbers as Arrow's, without its ``array``, which imports pandas."""
    import pyarrow as pa

    held = np.packbits(array, bitorder="little") if array.dtype.kind == "b" else np.ascontiguousarray(array)
    there = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), array.size, [there, pa.py_buffer(held)])


def _make_arrow_moments(array: npt.NDArray[Any], missing: Flags | None) -> "pa.Array":
    """Return dates or timestamps as Arrow's; days that 32 bits do not hold are in no calendar, and so are NULL."""
    import pyarrow as pa

    unit = np.datetime_data(array.dtype)[0]
    data = array.astype(np.int64)
    valid = ~np.isnat(array) & (True if missing is None else ~missing)
    if unit != "D":
        kind: pa.DataType = pa.timestamp(unit)
    else:
        (low, high), kind = LIMITS["date"], pa.date32()
        valid = valid & (data >= low) & (data <= high)
        data = np.where(valid, data, 0).astype(np.int32)
    there = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, array.size, [there, pa.py_buffer(np.ascontiguousarray(data))])


def read_table(data: object, *, types: Mapping[str, str]) -> tuple[Table, int]:
    """Return the columns of a table in memory and the number of rows; refuse anything else, naming the column."""
    if isinstance(data, np.ndarray):
        if data.dtype.names is None or data.ndim != 1:
            message = "a NumPy array needs names for its columns: give a structured array, or a dict with an array a column"
            raise RequestError(message)
        data = {name: data[name] for name in data.dtype.names}
    if isinstance(data, Mapping):
        named = {str(name): values for name, values in data.items()}
        check_names(list(named), types)
        table = {name: cells_of_array(name, values, wanted=types.get(name)) for name, values in named.items()}
    else:
        arrow = open_masked(lambda: _to_arrow(data), failure=f"a {type(data).__name__} could not be read as a table")
        names = [str(name) for name in arrow.column_names]
        check_names(names, types)
        table = {
            name: cells_of_arrow(name, _combine_chunks(arrow.column(number)), wanted=types.get(name))
            for number, name in enumerate(names)
        }
    if isinstance(data, Mapping) or type(data).__module__.startswith("pandas"):
        # Numbers that nobody else can change: Arrow's own are fixed, those of NumPy and pandas are not.
        table = {name: (kind, replace(cells, data=cells.data.copy())) for name, (kind, cells) in table.items()}
    lengths = {cells.data.size for _, cells in table.values()}
    if len(lengths) != 1:
        message = "the columns differ in length"
        raise RequestError(message)
    return table, lengths.pop()


def find_complete(data: object) -> frozenset[str]:
    """Return the columns of a table in memory whose types have no missing values; no cell is looked at.

    These are NumPy's booleans and integers that 64 bits with a sign hold, in arrays and in pandas, and Arrow's where the
    schema says so.
    """
    frame: Any = data
    if isinstance(data, np.ndarray):
        named = {} if isinstance(data, np.ma.MaskedArray) else {name: data.dtype[name] for name in data.dtype.names or ()}
    elif isinstance(data, Mapping):
        bare = {name: each for name, each in data.items() if isinstance(each, np.ndarray)}
        named = {name: each.dtype for name, each in bare.items() if not isinstance(each, np.ma.MaskedArray)}
    elif type(data).__module__.startswith("pandas"):
        named = dict(frame.dtypes.items())
    elif type(data).__module__.startswith("pyarrow"):
        schema = getattr(frame, "schema", ())
        named = {each.name: np.dtype(each.type.to_pandas_dtype()) for each in schema if not each.nullable}
    else:
        named = {}
    return frozenset(str(name) for name, kind in named.items() if isinstance(kind, np.dtype) and _is_whole(kind))


def _is_whole(kind: "np.dtype[Any]") -> bool:
    return kind.kind in "bi" or (kind.kind == "u" and kind.itemsize < _WIDE)


def _combine_chunks(column: "pa.ChunkedArray") -> "pa.Array":
    import pyarrow as pa

    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # older versions, and columns beyond 2^31 bytes of text
        whole = pa.concat_arrays(whole.chunks)
    return whole


def open_masked(action: Callable[[], T], *, failure: str | Callable[[Exception], str]) -> T:
    """Return what an action of the custodian returns; any other error it raises becomes a RequestError without cells."""
    try:
        return action()
    except HoldtrueError:
        raise
    except Exception as error:  # noqa: BLE001 - any error of any reader; its text is not passed on
        text = failure if isinstance(failure, str) else failure(error)
    raise RequestError(text)


def _to_arrow(data: Any) -> "pa.Table":  # noqa: ANN401 - whatever turns out to be a table
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    if nw.dependencies.is_pandas_dataframe(data):
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    frame = nw.from_native(data)
    return (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_arrow()


def refuse_type(name: str, *, found: str, castable: bool) -> NoReturn:
    """Say that a column has a type that no card knows."""
    text = f"column {name!r} has type {found}; Holdtrue reads booleans, integers, reals, text, dates and timestamps"
    way = f"give types={{{name!r}: 'text'}} to read it as text, or leave it out" if castable else "leave it out"
    message = f"{text}: {way}"
    raise RequestError(message)


def choose_type(  # noqa: PLR0913 - what is known of one column
    name: str, *, found: str, kind: str | None, wanted: str | None, as_text: bool, empty: bool, wide: bool = False
) -> str:
    """Return the card's type of a column: the declared one, or that of the data; refuse what cannot be read so.

    ``found`` is the reader's word for its type and ``kind`` the card's, where there is one. ``as_text`` says that it can be
    read as text if that is declared, ``empty`` that it holds nothing but NULL and can be read as anything, ``wide`` that its
    type has integers beyond 64 bits with a sign: whether there are any is for the custodian to say, and not for the rows.
    """
    if wide and wanted is None:
        message = (
            f"column {name!r} has type {found}, whose numbers may exceed 2^63 - 1; give types={{{name!r}: 'integer'}} to "
            "read those as NULL, or 'real' to read all as the nearest double"
        )
        raise RequestError(message)
    if kind is None and wanted is not None and (empty or (as_text and wanted == "text")):
        return wanted
    if kind is None:
        refuse_type(name, found=found, castable=as_text or empty)
    if (kind, wanted or kind) not in CONVERSIONS:
        message = f"column {name!r} has type {found}, which cannot be read as {wanted}"
        raise RequestError(message)
    return wanted or kind


def check_names(names: Sequence[str], types: Mapping[str, str]) -> None:
    """Refuse a table without columns, names that differ only in case, and a type for a column that does not exist."""
    if not names:
        message = "the data have no columns"
        raise RequestError(message)
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.get(name.casefold())
        if twin == name:
            message = f"two columns have the name {name!r}; rename one of them"
            raise RequestError(message)
        if twin is not None:
            message = f"the columns {twin!r} and {name!r} differ only in case; rename one of them"
            raise RequestError(message)
        seen[name.casefold()] = name
    unknown = next((name for name in types if seen.get(name.casefold()) != name), None)
    if unknown is not None:
        message = f"types names the column {unknown!r}, which the data do not have"
        raise UnknownColumn(message)

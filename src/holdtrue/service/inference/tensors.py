"""Tensors of the Open Inference Protocol, version 2: JSON, with or without the extension for binary tensor data.

Everything is bounded before it is read: a tensor has one element for each row, or one for each row and column, and its
bytes are exactly as many as its shape and type say. Rows get the types that the card has, so that one point is one point,
however it was written.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.service.http.bodies import parse_json
from holdtrue.service.http.problems import Refused

__all__ = ["MOST_ROWS", "Inference", "Tensor", "datatype_of", "encode_labels", "read_inference", "table_of"]

MOST_ROWS = 1000
_MOST_INPUTS = 4096
_MOST_BYTES = 4096
_NUMBERS = {
    "BOOL": "?",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
_LENGTH = struct.Struct("<I")
_MATRIX = 2
_REQUEST = {"id", "inputs", "outputs", "parameters"}
_INPUT = {"name", "shape", "datatype", "data", "parameters"}
_BINARY = "binary_data_size"
# What schedulers of other servers read; it changes no prediction here.
_IGNORED = {"priority", "timeout"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """Values of a type: ``width`` is None for one value per row, else the number of columns; ``values`` go row by row."""

    datatype: str
    rows: int
    width: int | None
    values: list[Any]


@dataclass(frozen=True, slots=True)
class Inference:
    """One request: its id if it has one, its inputs by name, how the output is written, and epsilon or mu if given."""

    id: str | None
    inputs: dict[str, Tensor]
    binary: bool
    epsilon: float | None
    mu: float | None


def _refuse_request(detail: str) -> NoReturn:
    raise Refused(400, "unreadable inference", detail)


def read_inference(body: bytes, header: str | None) -> Inference:
    """Return the request in a body; ``header`` is the length of its JSON where tensors follow it in binary.

    Fails: 400, in words that repeat nothing of the body.
    """
    split = len(body)
    if header is not None:
        if not header.isascii() or not header.isdigit() or len(header) > len(str(split)) or not 0 < int(header) <= split:
            _refuse_request("Inference-Header-Content-Length must be the length of the JSON at the beginning of the body")
        split = int(header)
    document = parse_json(body[:split])
    if not isinstance(document, dict) or set(document) - _REQUEST or not isinstance(document.get("inputs"), list):
        _refuse_request(f"the JSON must be an object with inputs, and perhaps {', '.join(sorted(_REQUEST - {'inputs'}))}")
    name = document.get("id")
    if name is not None and not isinstance(name, str):
        _refuse_request("id must be a text")
    parameters = _read_parameters(document.get("parameters"), {"binary_data_output", "epsilon", "mu"} | _IGNORED)
    binary = _read_flag(parameters, "binary_data_output")
    chosen = _read_output(document.get("outputs"))
    return Inference(
        id=name or None,
        inputs=_read_inputs(document["inputs"], body[split:], binary=header is not None),
        binary=binary if chosen is None else chosen,
        epsilon=_read_privacy(parameters, "epsilon"),
        mu=_read_privacy(parameters, "mu"),
    )


def _read_parameters(found: object, known: set[str]) -> dict[str, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict) or set(found) - known:
        _refuse_request(f"parameters here may be {', '.join(sorted(known))}")
    return found


def _read_flag(parameters: Mapping[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        _refuse_request(f"{name} must be true or false")
    return value


def _read_privacy(parameters: Mapping[str, Any], name: str) -> float | None:
    value = parameters.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST_ROWS:
        _refuse_request(f"{name} must be a number above 0")
    return float(value)


def _read_output(found: object) -> bool | None:
    """Return whether the output is requested in binary; None if the request does not say."""
    if found is None or found == []:
        return None
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        _refuse_request("the only output is label")
    if set(found[0]) - {"name", "parameters"} or found[0].get("name") != "label":
        _refuse_request("the only output is label")
    parameters = _read_parameters(found[0].get("parameters"), {"binary_data"})
    return _read_flag(parameters, "binary_data") if parameters else None


def _read_inputs(found: Sequence[object], rest: bytes, *, binary: bool) -> dict[str, Tensor]:
    if not 0 < len(found) <= _MOST_INPUTS:
        _refuse_request("there must be an input for each column of the model, or the one input rows")
    tensors: dict[str, Tensor] = {}
    for item in found:
        if not isinstance(item, dict) or set(item) - _INPUT or not isinstance(item.get("name"), str):
            _refuse_request(f"an input has {', '.join(sorted(_INPUT))}")
        if item["name"] in tensors:
            _refuse_request("an input comes twice")
        tensors[item["name"]], rest = _read_tensor(item, rest, binary=binary)
    if rest:
        _refuse_request("there are more bytes than the inputs' binary_data_size say")
    return tensors


def _read_tensor(item: Mapping[str, Any], rest: bytes, *, binary: bool) -> tuple[Tensor, bytes]:
    datatype = item.get("datatype")
    if datatype not in _NUMBERS and datatype != "BYTES":
        _refuse_request(f"a datatype is BYTES or one of {', '.join(_NUMBERS)}")
    rows, width = _read_shape(item.get("shape"))
    size = _read_parameters(item.get("parameters"), {_BINARY}).get(_BINARY)
    number = rows * (width or 1)
    if size is None:
        return Tensor(datatype, rows, width, _read_values(datatype, item.get("data"), rows, width)), rest
    if not binary or "data" in item or isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(rest):
        _refuse_request("binary_data_size must be the number of bytes that stand after the JSON in place of data")
    piece, rest = rest[:size], rest[size:]
    return Tensor(datatype, rows, width, _unpack_values(datatype, piece, number)), rest


def _read_shape(found: object) -> tuple[int, int | None]:
    if not isinstance(found, list) or not all(type(size) is int and size > 0 for size in found):
        _refuse_request("a shape is a list of whole numbers above 0")
    if len(found) not in (1, _MATRIX) or found[0] > MOST_ROWS or found[-1] > max(MOST_ROWS, _MOST_INPUTS):
        _refuse_request(f"a shape is [rows], [rows, 1] or, for the input rows, [rows, columns]; at most {MOST_ROWS} rows")
    return found[0], found[1] if len(found) == _MATRIX else None


def _read_values(datatype: str, data: object, rows: int, width: int | None) -> list[Any]:
    """Return the values of a tensor in JSON, given flat or row by row."""
    values = data
    if isinstance(data, list) and width is not None and data and all(isinstance(row, list) for row in data):
        values = [value for row in data for value in row] if all(len(row) == width for row in data) else None
    if (
        not isinstance(values, list)
        or len(values) != rows * (width or 1)
        or not all(_is_fitting(datatype, v) for v in values)
    ):
        _refuse_request("data must be a list of values of the datatype, as many as the shape says")
    return values


def _is_fitting(datatype: str, value: object) -> bool:
    match datatype:
        case "BYTES":
            return isinstance(value, str) and len(value) <= _MOST_BYTES
        case "BOOL":
            return isinstance(value, bool)
        case _ if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        case "FP16" | "FP32" | "FP64":
            return True
        case _:
            held = np.iinfo(_NUMBERS[datatype])
            return isinstance(value, int) and int(held.min) <= value <= int(held.max)


def _unpack_values(datatype: str, piece: bytes, number: int) -> list[Any]:
    if datatype == "BYTES":
        return _unpack_texts(piece, number)
    kind = np.dtype(_NUMBERS[datatype])
    if len(piece) != number * kind.itemsize:
        _refuse_request("binary_data_size must be what shape and datatype say")
    if datatype == "BOOL" and set(piece) - {0, 1}:
        _refuse_request("a BOOL is one byte, 0 or 1")
    found: list[Any] = np.frombuffer(piece, kind).tolist()
    return found


def _unpack_texts(piece: bytes, number: int) -> list[Any]:
    """Return texts, each behind its length in 4 bytes."""
    found: list[Any] = []
    place = 0
    while len(found) < number and place + _LENGTH.size <= len(piece):
        (length,) = _LENGTH.unpack_from(piece, place)
        place += _LENGTH.size
        if length > _MOST_BYTES or place + length > len(piece):
            break
        try:
            found.append(piece[place : place + length].decode("utf-8"))
        except UnicodeDecodeError:
            break
        place += length
    if len(found) != number or place != len(piece) or any("\0" in text for text in found):
        _refuse_request("BYTES are texts in UTF-8, each behind its length in 4 bytes, as many as the shape says")
    return found


def datatype_of(labels: Sequence[object] | None) -> str:
    """Return the type of an output: that of the labels, or of numbers where there are no labels."""
    if labels is None:
        return "FP64"
    if all(isinstance(label, bool) for label in labels):
        return "BOOL"
    if any(isinstance(label, (bool, str)) for label in labels):
        return "BYTES"
    return "INT64" if all(isinstance(label, int) for label in labels) else "FP64"


def encode_labels(datatype: str, labels: Sequence[Any], *, binary: bool) -> tuple[list[Any], bytes | None]:
    """Return labels as a tensor's data, and as bytes if binary output is requested."""
    if datatype == "BYTES":
        values: list[Any] = [str(label) for label in labels]
        packed = b"".join(_LENGTH.pack(len(text)) + text for text in (value.encode("utf-8") for value in values))
        return values, packed if binary else None
    kind = {"BOOL": bool, "INT64": int, "FP64": float}[datatype]
    values = [kind(label) for label in labels]
    if not all(math.isfinite(value) for value in values):
        _refuse_request("a label is no finite number")
    return values, np.array(values, _NUMBERS[datatype]).tobytes() if binary else None


_ROWS = "rows"


def table_of(inputs: Mapping[str, Tensor], types: Mapping[str, str]) -> dict[str, Any]:
    """Return inputs as columns of a table, of these types: one tensor for each, or one matrix with all of them in order.

    Fails: InvalidParameter, before anything is charged, in words that name public columns only.
    """
    columns = list(types)
    one = inputs.get(_ROWS)
    whole = one is not None and len(inputs) == 1 and (columns != [_ROWS] or one.width not in (None, 1))
    pieces = _split_matrix(one, columns) if whole and one is not None else _match_columns(inputs, columns)
    table = {}
    for name, (datatype, values) in pieces.items():
        column = np.empty(len(values), dtype=object)
        column[:] = _convert_values(name, types[name], datatype, values)
        table[name] = column
    return table


def _match_columns(inputs: Mapping[str, Tensor], columns: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
    expected = f"one tensor for each of {', '.join(columns)}, of shape [rows] or [rows, 1], or one matrix called rows"
    if set(inputs) != set(columns) or any(tensor.width not in (None, 1) for tensor in inputs.values()):
        raise InvalidParameter.without_value("inputs", expected)
    if len({tensor.rows for tensor in inputs.values()}) != 1:
        raise InvalidParameter.without_value("inputs", f"{expected}, all with equally many rows")
    return {name: (inputs[name].datatype, inputs[name].values) for name in columns}


def _split_matrix(tensor: Tensor, columns: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
    if tensor.width != len(columns) or tensor.datatype not in ("FP64", "FP32"):
        expected = f"FP64 of shape [rows, {len(columns)}], with the columns {', '.join(columns)}"
        raise InvalidParameter.without_value(_ROWS, expected)
    return {name: (tensor.datatype, tensor.values[place :: len(columns)]) for place, name in enumerate(columns)}


def _convert_values(name: str, kind: str, datatype: str, values: list[Any]) -> list[Any]:
    """Return values in a column's own type; what is not a number counts as missing, as everywhere."""
    real = datatype.startswith("FP")
    fits = {
        "text": datatype == "BYTES",
        "boolean": datatype == "BOOL" or (datatype != "BYTES" and all(value in (0, 1) for value in values)),
        "integer": datatype not in ("BYTES", "BOOL") and all(not real or _is_whole(value) for value in values),
        "real": datatype not in ("BYTES", "BOOL"),
    }.get(kind, False)
    if not fits:
        raise InvalidParameter.without_value("inputs", f"values of type {kind} for {name}")
    match kind:
        case "boolean":
            return [bool(value) for value in values]
        case "integer":
            return [None if real and not math.isfinite(value) else int(value) for value in values]
        case "real":
            return [float(value) if math.isfinite(value) else None for value in values]
        case _:
            return values


def _is_whole(value: float) -> bool:
    return not math.isfinite(value) or (value == math.floor(value) and abs(value) < 2.0**53)

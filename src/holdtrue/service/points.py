"""Rows of a request in the types that the card has, so that one point is one point, however it was written."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from holdtrue.errors import InvalidParameter
from holdtrue.queries.cards import Card
from holdtrue.service.tensors import Tensor

__all__ = ["table_of"]

_ROWS = "rows"


def table_of(inputs: Mapping[str, Tensor], columns: Sequence[str], card: Card) -> dict[str, Any]:
    """Return inputs as columns of a table: one tensor for each column, or one matrix with all of them in order.

    Fails: InvalidParameter, before anything is charged, in words that name columns of the card only.
    """
    one = inputs.get(_ROWS)
    whole = one is not None and len(inputs) == 1 and (columns != [_ROWS] or one.width not in (None, 1))
    pieces = _columns(one, columns) if whole and one is not None else _named(inputs, columns)
    table = {}
    for name, (datatype, values) in pieces.items():
        column = np.empty(len(values), dtype=object)
        column[:] = _typed(name, card.column(name).type, datatype, values)
        table[name] = column
    return table


def _named(inputs: Mapping[str, Tensor], columns: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
    expected = f"one tensor for each of {', '.join(columns)}, of shape [rows] or [rows, 1], or one matrix called rows"
    if set(inputs) != set(columns) or any(tensor.width not in (None, 1) for tensor in inputs.values()):
        raise InvalidParameter("inputs", "others", expected)
    if len({tensor.rows for tensor in inputs.values()}) != 1:
        raise InvalidParameter("inputs", "others", f"{expected}, all with as many rows")
    return {name: (inputs[name].datatype, inputs[name].values) for name in columns}


def _columns(tensor: Tensor, columns: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
    if tensor.width != len(columns) or tensor.datatype not in ("FP64", "FP32"):
        expected = f"FP64 of shape [rows, {len(columns)}], with the columns {', '.join(columns)}"
        raise InvalidParameter(_ROWS, "others", expected)
    return {name: (tensor.datatype, tensor.values[place :: len(columns)]) for place, name in enumerate(columns)}


def _typed(name: str, kind: str, datatype: str, values: list[Any]) -> list[Any]:
    """Return values of a column's own type; what is not a number is missing, as it is everywhere."""
    real = datatype.startswith("FP")
    fits = {
        "text": datatype == "BYTES",
        "boolean": datatype == "BOOL" or (datatype != "BYTES" and all(value in (0, 1) for value in values)),
        "integer": datatype not in ("BYTES", "BOOL") and all(not real or _whole(value) for value in values),
        "real": datatype not in ("BYTES", "BOOL"),
    }[kind]
    if not fits:
        raise InvalidParameter("inputs", "of another type", f"values of type {kind} for {name}")
    match kind:
        case "boolean":
            return [bool(value) for value in values]
        case "integer":
            return [None if real and not math.isfinite(value) else int(value) for value in values]
        case "real":
            return [float(value) if math.isfinite(value) else None for value in values]
        case _:
            return values


def _whole(value: float) -> bool:
    return not math.isfinite(value) or (value == math.floor(value) and abs(value) < 2.0**53)

"""What a mechanism put out, as a matrix of numbers: whatever is done to outputs afterwards cannot add to the truth (E17).

Numbers stay numbers. Labels and strings get codes from the outputs that the event is searched on; a label first seen later
has the code -1. Tuples become columns; shorter ones end in NaN.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.limits import Floats
from holdtrue.errors import HoldtrueError, InvalidParameter

__all__ = ["MOST_SAMPLES", "Outputs", "Reader", "Run", "call", "drawn", "width_of"]

Outputs: TypeAlias = "npt.NDArray[Any] | Sequence[Any]"
Run: TypeAlias = Callable[[Any, int], Outputs]

MOST_SAMPLES = 10**12
"""More than any audit can draw."""

_NUMERIC = "iufb"
_FEW = 8
_EXPECTED = "numbers, labels, strings, None, or vectors and tuples of them"


def drawn(run: Run, data: object, count: int) -> npt.NDArray[Any]:
    """Run a mechanism so many times; return its outputs as an array with a row for each."""
    array = _array(call(run, data, count))
    if array.shape[0] != count:
        raise InvalidParameter(
            "run", f"{array.shape[0]:,} outputs", f"a function that returns {count:,} outputs when asked so"
        )
    return array.reshape(count, -1)


def call(run: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - whatever it returns
    """Return what somebody's function returns; one that raises, or is none, is an argument that will not do."""
    try:
        return run(*given)
    except HoldtrueError:
        raise
    except Exception as error:
        raise InvalidParameter("run", type(error).__name__, "a function that returns when it is called") from error


def width_of(run: Run, data: object) -> int:
    """Return how many numbers an output has, from a few of them."""
    return max(1, int(drawn(run, data, _FEW).shape[1]))


def _array(outputs: object) -> npt.NDArray[Any]:
    """Return an array of numbers where they all are, of plain Python values otherwise; at least one axis."""
    if isinstance(outputs, np.ndarray):
        if outputs.ndim == 0 or outputs.dtype.kind not in _NUMERIC + "USO":
            raise InvalidParameter("outputs", f"an array of {outputs.dtype}, {outputs.ndim} axes", _EXPECTED)
        return outputs if outputs.dtype.kind in _NUMERIC else _checked(outputs.astype(object))
    if isinstance(outputs, (str, bytes)) or not isinstance(outputs, Iterable):
        raise InvalidParameter("outputs", f"a {type(outputs).__name__}", f"one output for each run: {_EXPECTED}")
    listed = list(outputs)
    try:
        plain = np.asarray(listed)
    except ValueError:  # rows of different lengths
        plain = np.empty(0, dtype=object)
    if plain.dtype.kind in _NUMERIC and plain.ndim > 0:
        return plain
    return _checked(_padded([_flat(each) for each in listed]))


def _flat(output: object) -> tuple[Any, ...]:
    if isinstance(output, np.ndarray):
        return tuple(output.ravel().tolist())
    if isinstance(output, (tuple, list)):
        return tuple(value for part in output for value in _flat(part))
    return (output,)


def _padded(rows: list[tuple[Any, ...]]) -> npt.NDArray[np.object_]:
    table = np.full((len(rows), max((len(row) for row in rows), default=0)), np.nan, dtype=object)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def _checked(array: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    kinds: set[type] = {type(value) for value in array.ravel().tolist()}
    strange = [kind for kind in kinds if not issubclass(kind, (int, float, str, bytes, np.number, np.bool_, type(None)))]
    if strange:
        names = ", ".join(sorted(kind.__name__ for kind in strange))
        raise InvalidParameter("outputs", f"values of type {names}, which cannot be compared", _EXPECTED)
    return array


@dataclass(frozen=True, slots=True)
class Reader:
    """How outputs become numbers: for each column the codes of its labels, or None where it holds numbers."""

    codes: tuple[dict[Any, float] | None, ...]

    @classmethod
    def of(cls, *samples: npt.NDArray[Any]) -> "Reader":
        """Learn the columns and their labels from some outputs."""
        width = max(sample.shape[1] for sample in samples)
        return cls(tuple(_codes([s[:, place] for s in samples if place < s.shape[1]]) for place in range(width)))

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return for each column whether it holds numbers."""
        return tuple(codes is None for codes in self.codes)

    def matrix(self, outputs: npt.NDArray[Any]) -> Floats:
        """Return outputs as numbers; columns beyond those that are known are left out."""
        table = np.full((outputs.shape[0], len(self.codes)), np.nan)
        for place, codes in enumerate(self.codes[: outputs.shape[1]]):
            column = outputs[:, place]
            if codes is None:
                table[:, place] = column if column.dtype.kind in _NUMERIC else [_number(value) for value in column]
            else:
                table[:, place] = [codes.get(_key(value), -1.0) for value in column.tolist()]
        return table


def _codes(columns: list[npt.NDArray[Any]]) -> dict[Any, float] | None:
    if all(column.dtype.kind in _NUMERIC for column in columns):
        return None
    values = {_key(value) for column in columns for value in column.tolist()}
    if not any(isinstance(value, (str, bytes)) for _, value in values):
        return None
    return {value: float(code) for code, value in enumerate(sorted(values, key=lambda pair: (pair[0], str(pair[1]))))}


def _key(value: object) -> tuple[str, object]:
    """Return something that tells 1 from "1", and that equals itself even for NaN."""
    if isinstance(value, (str, bytes)):
        return type(value).__name__, value
    number = _number(value)
    return "number", number if number == number else None  # noqa: PLR0124 - false for NaN only


def _number(value: object) -> float:
    if not isinstance(value, (int, float, np.number, np.bool_)):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")

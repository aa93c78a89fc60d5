"""The outputs of a mechanism: as a matrix of numbers, as named numbers seen in it, and as cells of those.

Whatever is done to outputs after they were drawn cannot add to the truth (E17). Numbers stay numbers. Labels and strings
get codes from the outputs that the event is searched on; a label first seen later has the code -1. Tuples become columns;
shorter ones end in NaN. Floating-point noise lies on a lattice that depends on what it was added to (0.7): the lowest set
bit of an output says on which. Every feature is named, so that an event can be told in words.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.search.confidence_bounds import Floats
from holdtrue.errors import HoldtrueError, InvalidParameter

__all__ = [
    "LAST",
    "MISSING",
    "MOST_SAMPLES",
    "Cells",
    "Feature",
    "OutputReader",
    "Outputs",
    "Run",
    "Seen",
    "call_function",
    "draw_outputs",
    "hash_rows",
    "list_features",
    "lowest_bit",
    "measure_width",
]

T = TypeVar("T")
Outputs: TypeAlias = "npt.NDArray[Any] | Sequence[Any]"
Run: TypeAlias = Callable[[Any, int], Outputs]

MOST_SAMPLES = 10**12
"""More than any audit can draw."""
LAST: Final = "the last finite output"
MISSING: Final = "the number of missing outputs"

_NUMERIC = "iufb"
_FEW = 8
_EXPECTED = "numbers, labels, strings, None, or vectors and tuples of them"
_MANTISSA = 53
_NOWHERE = 2000.0
_MOST_VALUES = 256
_LOOKED_AT = 40_000
_FINEST = 128
_TAILS = np.geomspace(2e-4, 1 / _FINEST, 10)


def draw_outputs(run: Run, data: object, count: int) -> npt.NDArray[Any]:
    """Run a mechanism ``count`` times; return its outputs as an array with one row per output."""
    array = _to_array(call_function(run, data, count))
    if array.shape[0] != count:
        raise InvalidParameter.without_value(
            "run",
            f"a function that returns as many outputs as it is asked for; asked for {count:,}, it returned {len(array):,}",
        )
    return array.reshape(count, -1)


def call_function(run: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - whatever it returns
    """Return what a caller's function returns; raise InvalidParameter if it raises or is not a function."""
    try:
        return run(*given)
    except HoldtrueError:
        raise
    except Exception as error:
        raise InvalidParameter.without_value("run", f"a function; calling it raised {type(error).__name__}") from error


def measure_width(run: Run, data: object) -> int:
    """Return how many numbers an output has, from a few of them."""
    return max(1, int(draw_outputs(run, data, _FEW).shape[1]))


def _to_array(outputs: object) -> npt.NDArray[Any]:
    """Return an array of numbers where they all are, of plain Python values otherwise; at least one axis."""
    if isinstance(outputs, np.ndarray):
        if outputs.ndim == 0 or outputs.dtype.kind not in _NUMERIC + "USO":
            raise InvalidParameter.without_value(
                "outputs", f"{_EXPECTED}, not an array of {outputs.dtype} with {outputs.ndim} axes"
            )
        return outputs if outputs.dtype.kind in _NUMERIC else _check_types(outputs.astype(object))
    if isinstance(outputs, (str, bytes)) or not isinstance(outputs, Iterable):
        raise InvalidParameter.without_value("outputs", f"a list with one output per run, not a {type(outputs).__name__}")
    listed = list(outputs)
    try:
        plain = np.asarray(listed)
    except ValueError:  # rows of different lengths
        plain = np.empty(0, dtype=object)
    if plain.dtype.kind in _NUMERIC and plain.ndim > 0:
        return plain
    rows = [_flatten_output(each) for each in listed]
    table = np.full((len(rows), max(map(len, rows), default=0)), np.nan, dtype=object)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return _check_types(table)


def _flatten_output(output: object) -> tuple[Any, ...]:
    if isinstance(output, np.ndarray):
        return tuple(output.ravel().tolist())
    if isinstance(output, (tuple, list)):
        return tuple(value for part in output for value in _flatten_output(part))
    return (output,)


def _check_types(array: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    kinds: set[type] = {type(value) for value in array.ravel().tolist()}
    strange = [kind for kind in kinds if not issubclass(kind, (int, float, str, bytes, np.number, np.bool_, type(None)))]
    if strange:
        names = ", ".join(sorted(kind.__name__ for kind in strange))
        raise InvalidParameter.without_value("outputs", f"{_EXPECTED}; values of type {names} cannot be compared")
    return array


@dataclass(frozen=True, slots=True)
class OutputReader:
    """How outputs become numbers: for each column the codes of its labels, or None where it holds numbers."""

    codes: tuple[dict[Any, float] | None, ...]

    @classmethod
    def of(cls, *samples: npt.NDArray[Any]) -> "OutputReader":
        """Learn the columns and their labels from some outputs."""
        width = max(sample.shape[1] for sample in samples)
        return cls(tuple(_find_codes([s[:, place] for s in samples if place < s.shape[1]]) for place in range(width)))

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return for each column whether it holds numbers."""
        return tuple(codes is None for codes in self.codes)

    def to_matrix(self, outputs: npt.NDArray[Any]) -> Floats:
        """Return outputs as numbers; columns beyond those that are known are left out."""
        table = np.full((outputs.shape[0], len(self.codes)), np.nan)
        for place, codes in enumerate(self.codes[: outputs.shape[1]]):
            column = outputs[:, place]
            if codes is None:
                table[:, place] = column if column.dtype.kind in _NUMERIC else [_to_number(value) for value in column]
            else:
                table[:, place] = [codes.get(_label_key(value), -1.0) for value in column.tolist()]
        return table


def _find_codes(columns: list[npt.NDArray[Any]]) -> dict[Any, float] | None:
    if all(column.dtype.kind in _NUMERIC for column in columns):
        return None
    values = {_label_key(value) for column in columns for value in column.tolist()}
    if not any(isinstance(value, (str, bytes)) for _, value in values):
        return None
    return {value: float(code) for code, value in enumerate(sorted(values, key=lambda pair: (pair[0], str(pair[1]))))}


def _label_key(value: object) -> tuple[str, object]:
    """Return a key that differs for 1 and "1", and that equals itself even for NaN."""
    if isinstance(value, (str, bytes)):
        return type(value).__name__, value
    number = _to_number(value)
    return "number", number if number == number else None  # noqa: PLR0124 - false for NaN only


def _to_number(value: object) -> float:
    if not isinstance(value, (int, float, np.number, np.bool_)):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One number of every output: its name, its family, and how it is found from the matrix of outputs."""

    words: str
    family: str
    column: Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A matrix of outputs, with what was computed from it, so that no score computes it again."""

    matrix: Floats
    known: dict[Any, Any] = field(default_factory=dict)

    def __getitem__(self, feature: Feature) -> Floats:
        def column() -> Floats:
            with np.errstate(invalid="ignore", over="ignore"):
                return np.ascontiguousarray(feature.column(self.matrix))

        return self.find_or_make(feature, column)

    def find_or_make(self, key: object, made: Callable[[], T]) -> T:
        """Return what is stored under a key; make and store it the first time."""
        if key not in self.known:
            self.known[key] = made()
        found: T = self.known[key]
        return found


def list_features(numeric: tuple[bool, ...]) -> list[Feature]:
    """Return the features to look at, for outputs whose columns hold numbers or codes of labels."""
    if len(numeric) == 1:
        value = Feature("the output", "value", functools.partial(_take_column, 0))
        bit = Feature("the lowest set bit of the output", "lattice", _finest_bit)
        size = Feature("lowest set bit and magnitude of the output", "lattice", _bit_and_size)
        return [value, bit, size] if numeric[0] else [value]
    places = range(len(numeric))
    found = [Feature(f"output {place + 1}", "value", functools.partial(_take_column, place)) for place in places]
    if not all(numeric):
        return found
    found += [
        Feature(f"output {place + 2} less output {place + 1}", "difference", functools.partial(_take_difference, place))
        for place in places[:-1]
    ]
    return [
        *found,
        Feature("the sum of the outputs", "whole", lambda matrix: _replace_infinite(matrix, 0.0).sum(axis=1)),
        Feature("the largest output", "whole", lambda matrix: _replace_infinite(matrix, -np.inf).max(axis=1)),
        Feature("the smallest output", "whole", lambda matrix: _replace_infinite(matrix, np.inf).min(axis=1)),
        Feature(LAST, "whole", _last_finite),
        Feature(MISSING, "whole", lambda matrix: np.isnan(matrix).sum(axis=1).astype(np.float64)),
        Feature("the finest lowest set bit of the outputs", "lattice", _finest_bit),
    ]


def lowest_bit(values: Floats) -> Floats:
    """Return the exponent of the lowest set bit of each float: the largest j for which it is a multiple of 2^j.

    2000 for zero and -2000 for what is not finite, which lie on every lattice and on none.
    """
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    whole = (mantissa * 2.0**_MANTISSA).astype(np.int64)
    last = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    found = (exponent - _MANTISSA + last).astype(np.float64)
    return np.where(finite, np.where(whole == 0, _NOWHERE, found), -_NOWHERE)


def hash_rows(matrix: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return a number for each row, the same for the same row."""
    words = np.ascontiguousarray(matrix + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    key = np.zeros(matrix.shape[0], dtype=np.uint64)
    for place in range(matrix.shape[1]):
        key = (key ^ (words[:, place] + np.uint64(place))) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


def _take_column(place: int, matrix: Floats) -> Floats:
    return matrix[:, place]


def _take_difference(place: int, matrix: Floats) -> Floats:
    return np.subtract(matrix[:, place + 1], matrix[:, place])


def _replace_infinite(matrix: Floats, otherwise: float) -> Floats:
    return np.where(np.isfinite(matrix), matrix, otherwise)


def _last_finite(matrix: Floats) -> Floats:
    there = np.isfinite(matrix)
    place = matrix.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
    return np.where(there.any(axis=1), matrix[np.arange(matrix.shape[0]), place], np.nan)


def _bit_and_size(matrix: Floats) -> Floats:
    size = np.frexp(_replace_infinite(matrix[:, 0], 0.0))[1]
    return np.asarray(lowest_bit(matrix[:, 0]) + 3 * _NOWHERE * np.clip(size, -60, 60))


def _finest_bit(matrix: Floats) -> Floats:
    return functools.reduce(np.minimum, map(lowest_bit, matrix.T))


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The finest cells of a feature; coarser ones are groups of them.

    ``edges`` are minus infinity, values in between, the largest float and infinity, so that infinities and NaN, which is
    sorted last, have cells of their own.
    """

    feature: Feature
    edges: Floats

    @classmethod
    def of(cls, feature: Feature, left: Floats, right: Floats) -> "Cells":
        """Cut a feature where the values of both sides together say."""
        return cls(feature, cls.edges_of(np.concatenate([left, right])))

    @staticmethod
    def edges_of(values: Floats) -> Floats:
        """Return every value where they are few; quantiles, closer together in the tails, where they are not."""
        finite = values[np.isfinite(values)]
        some = finite[:: max(1, finite.size // _LOOKED_AT)]
        inner = np.unique(some)
        if inner.size > _MOST_VALUES:
            shares = np.unique(np.concatenate([np.arange(1, _FINEST) / _FINEST, _TAILS, 1 - _TAILS]))
            inner = np.unique(np.quantile(some, shares))
        return np.concatenate([[-np.inf], inner, [np.finfo(np.float64).max, np.inf]])

    def find_cells(self, seen: Seen) -> npt.NDArray[np.intp]:
        """Return the cell of each output."""
        return seen.find_or_make(self, lambda: np.searchsorted(self.edges, seen[self.feature]))

    def count_cells(self, seen: Seen) -> npt.NDArray[np.int64]:
        """Return how many outputs each cell holds."""
        return np.bincount(self.find_cells(seen), minlength=self.edges.size + 1)

    def group_cells(self, number: int) -> npt.NDArray[np.intp]:
        """Return the group of each cell: about ``number`` groups, and one for each value that is not finite."""
        finite = self.edges.size - 2
        # Where values are few, the last of these cells is empty.
        group = np.arange(finite) * number // finite if finite > number + 1 else np.arange(finite)
        return np.concatenate([[0], 1 + group, [number + 2, number + 3]])

    def find_ratios(self, left: Seen, right: Seen, number: int) -> Floats:
        """Return for each cell the logarithm of how much likelier its group is on the left."""
        return self.ratios_of_counts(self.count_cells(left), self.count_cells(right), number)

    def ratios_of_counts(self, left: npt.NDArray[Any], right: npt.NDArray[Any], number: int) -> Floats:
        """Return the same from counts."""
        group = self.group_cells(number)
        sides = [np.bincount(group, weights=counts, minlength=number + 4) for counts in (left, right)]
        found: Floats = (np.log(sides[0] + 0.5) - np.log(sides[1] + 0.5))[group]
        return found

    def make_score(self, left: Seen, right: Seen, number: int) -> Callable[[Seen], Floats]:
        """Return the ratio of an output's group as a function."""
        ratios = self.find_ratios(left, right, number)
        return lambda seen: ratios[self.find_cells(seen)]

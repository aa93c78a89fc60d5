"""Numbers seen in an output that may tell two data sets apart: values, differences, sums, extremes, and lattices.

Floating-point noise lies on a lattice that depends on what it was added to (0.7): the lowest set bit of an output says on
which. Every feature is named, so that an event can be told in words.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.limits import Floats

__all__ = ["LAST", "MISSING", "Feature", "Seen", "features", "lowest_bit", "row_keys"]

LAST: Final = "the last finite output"
MISSING: Final = "the number of missing outputs"

_MANTISSA = 53
_NOWHERE = 2000.0


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
        found: Floats = self.once(feature, lambda: _quietly(feature.column, self.matrix))
        return found

    def once(self, key: object, made: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is made
        """Return what is known under a key, after making it if it is not."""
        if key not in self.known:
            self.known[key] = made()
        return self.known[key]


def _quietly(column: Callable[[Floats], Floats], matrix: Floats) -> Floats:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.ascontiguousarray(column(matrix))


def features(numeric: tuple[bool, ...]) -> list[Feature]:
    """Return what is looked at, for outputs whose columns hold numbers or codes of labels."""
    if len(numeric) == 1:
        value = Feature("the output", "value", functools.partial(_place, 0))
        bit = Feature("the lowest set bit of the output", "lattice", _finest)
        size = Feature("lowest set bit and magnitude of the output", "lattice", _bit_and_size)
        return [value, bit, size] if numeric[0] else [value]
    places = range(len(numeric))
    found = [Feature(f"output {place + 1}", "value", functools.partial(_place, place)) for place in places]
    if not all(numeric):
        return found
    found += [
        Feature(f"output {place + 2} less output {place + 1}", "difference", functools.partial(_step, place))
        for place in places[:-1]
    ]
    return [
        *found,
        Feature("the sum of the outputs", "whole", _total),
        Feature("the largest output", "whole", _largest),
        Feature("the smallest output", "whole", _smallest),
        Feature(LAST, "whole", _last),
        Feature(MISSING, "whole", _missing),
        Feature("the finest lowest set bit of the outputs", "lattice", _finest),
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


def row_keys(matrix: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return a number for each row, the same for the same row."""
    words = np.ascontiguousarray(matrix + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    key = np.zeros(matrix.shape[0], dtype=np.uint64)
    for place in range(matrix.shape[1]):
        key = (key ^ (words[:, place] + np.uint64(place))) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


def _place(place: int, matrix: Floats) -> Floats:
    return matrix[:, place]


def _step(place: int, matrix: Floats) -> Floats:
    found: Floats = matrix[:, place + 1] - matrix[:, place]
    return found


def _bit_and_size(matrix: Floats) -> Floats:
    size = np.frexp(np.where(np.isfinite(matrix[:, 0]), matrix[:, 0], 0.0))[1]
    found: Floats = lowest_bit(matrix[:, 0]) + 3 * _NOWHERE * np.clip(size, -60, 60)
    return found


def _total(matrix: Floats) -> Floats:
    found: Floats = np.where(np.isfinite(matrix), matrix, 0.0).sum(axis=1)
    return found


def _largest(matrix: Floats) -> Floats:
    found: Floats = np.where(np.isfinite(matrix), matrix, -np.inf).max(axis=1)
    return found


def _smallest(matrix: Floats) -> Floats:
    found: Floats = np.where(np.isfinite(matrix), matrix, np.inf).min(axis=1)
    return found


def _last(matrix: Floats) -> Floats:
    there = np.isfinite(matrix)
    place = matrix.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
    return np.where(there.any(axis=1), matrix[np.arange(matrix.shape[0]), place], np.nan)


def _missing(matrix: Floats) -> Floats:
    found: Floats = np.isnan(matrix).sum(axis=1).astype(np.float64)
    return found


def _finest(matrix: Floats) -> Floats:
    found = lowest_bit(matrix[:, 0])
    for place in range(1, matrix.shape[1]):
        found = np.minimum(found, lowest_bit(matrix[:, place]))
    return found

"""Disjoint parts, and rows and labels as members see them: each by a rule that looks at one row alone.

Guarantee (E4, E10): which part a row belongs to is decided in one of three ways (:class:`PartRule`).

- By a public key: the hash of the key, modulo the number of parts. Replacing a row that keeps its key changes one part, in
  whatever order rows come. A row that brings another key leaves one part and joins another: two parts change, and no more.
- By content: the hash of what the model reads of the row and of which copy of it this is. Replacing a row takes one copy out
  of one part and puts another into another: two parts change, in whatever order rows come, and two votes are paid for.
- By position: the position modulo the number of parts. Replacing a row in its place changes one part. This *needs* an order
  that no value decides: where rows are sorted by a column, a row that is replaced moves, every row between its old place
  and its new one moves up by one, and all parts change. Shuffling positions by a secret does not help: a position is still
  the rank of a value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.bounds.prediction import rows_of_a_part
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import Number, count, describe_array, rational
from holdtrue.kernels import Floats, Integers
from holdtrue.queries.features import hash_bytes

__all__ = ["FEATURE_LIMIT", "Label", "PartRule", "codes_of", "hash_contents", "hash_rows", "labels_of", "part_of"]

Label: TypeAlias = str | int | bool

FEATURE_LIMIT = float(np.finfo(np.float32).max)
"""The largest feature that members ever see: trees read floats of 32 bits."""

_PAIR = 2


@dataclass(frozen=True, slots=True)
class PartRule:
    """How rows are cut into parts: by the public ``key`` of a column, by content, or by position in a fixed order.

    ``votes`` is how many members one replaced row can change, which is what every answer is priced for. ``held_out`` is the
    share of rows that no member is trained on, for an evaluation. ``whole`` is for one fit of all rows.
    """

    by: Literal["key", "content", "position", "whole"]
    key: str | None = None
    held_out: float = 0.0

    def find_held_out(self, rows: int, names: Integers | None) -> npt.NDArray[np.bool_]:
        """Return which rows no member is trained on, about a share ``held_out``: by position, or by the hash of the key.

        Law: as parts do, it looks at a row's position or key alone; replacing a row that keeps it changes nothing.
        """
        if names is not None:
            found: npt.NDArray[np.bool_] = (names >> 20) % 1_000_000 < self.millionths
            return found
        counted = np.arange(rows + 1, dtype=np.int64) * self.millionths // 1_000_000
        return np.diff(counted) > 0

    @property
    def millionths(self) -> int:
        """Return the share that is held out, in millionths."""
        return round(self.held_out * 1e6)

    def __post_init__(self) -> None:
        if self.by not in ("key", "content", "position", "whole") or (self.by == "key") != (self.key is not None):
            raise InvalidParameter("by", self.by, "'key' with the name of a column, 'content' or 'position'")

    @property
    def votes(self) -> int:
        """Return how many members one replaced row can change."""
        return 2 if self.by == "content" else 1

    @property
    def sentence(self) -> str:
        """Return in words what the guarantee assumes."""
        match self.by:
            case "key":
                return f"parts by the public key {self.key!r}: one row moves one vote"
            case "content":
                return "parts by content, in any order of rows: one row moves two votes, and both are paid for"
            case "whole":
                return "fitted to all rows at once"
            case _:
                return "parts by position: one row moves one vote, assuming an order of rows that no value decides"


def part_of(position: int, *, parts: int) -> int:
    """Return the part that the row at a position belongs to: the position modulo the number of parts.

    Strides and not runs, since files are often sorted. Rows from ``parts * floor(rows / parts)`` on belong to none (E10).
    """
    return count("position", position, least=0) % count("parts", parts)


def shares_of(rows: int, *, parts: int, names: Integers | None = None) -> list[Integers]:
    """Return the rows of each part: by position, or by the names of rows (see :func:`hash_keys`, :func:`hash_contents`).

    By position all parts have as many rows, and the last ones belong to none. By name every row is in a part, about as many
    in each, in the order of names. Failure: InsufficientSamples for more parts than rows.
    """
    r = count("parts", parts)
    if rows == 0:
        message = f"{r} parts need {r} rows or more; there are none"
        raise InsufficientSamples(message, required=r)
    used = rows_of_a_part(rows, parts=r) * r
    if names is None:
        return [np.arange(part, used, r, dtype=np.int64) for part in range(r)]
    order = np.argsort(names, kind="stable").astype(np.int64)
    placed = names[order] % r
    order = order[np.argsort(placed, kind="stable")]
    return list(np.split(order, np.cumsum(np.bincount(placed, minlength=r))[:-1]))


def hash_contents(columns: Sequence[npt.NDArray[Any]]) -> Integers:
    """Return a whole number of 63 bits for each row: the hash of its numbers and of which copy of them it is.

    Law: as a set, the hashes are a function of the rows as a set; replacing one row takes one hash away and brings another.
    """
    table = _canonical_rows(columns)
    _, groups = np.unique(table.view(np.dtype((np.void, table.strides[0]))).ravel(), return_inverse=True)
    order = np.argsort(groups, kind="stable")
    first = np.concatenate([[True], np.diff(groups[order]) != 0])
    starts = np.maximum.accumulate(np.where(first, np.arange(order.size), 0))
    copies = np.empty(order.size, dtype=np.int64)
    copies[order] = np.arange(order.size) - starts
    return hash_rows(columns, copies=copies)


def hash_rows(columns: Sequence[npt.NDArray[Any]], *, copies: Integers) -> Integers:
    """Return the hash of each row's numbers and of the number of its copy, counted from 0."""
    table = _canonical_rows(columns)
    pairs = zip(table, copies.tolist(), strict=True)
    return np.array([hash_bytes(row.tobytes() + copy.to_bytes(8, "little")) for row, copy in pairs], dtype=np.int64)


def _canonical_rows(columns: Sequence[npt.NDArray[Any]]) -> Floats:
    """Return rows of doubles in which equal numbers have equal bytes: one zero, and one NaN."""
    table = np.column_stack([np.asarray(column).astype(np.float64) for column in columns]) + 0.0
    table[np.isnan(table)] = np.nan
    return np.ascontiguousarray(table)


def labels_of(labels: object) -> tuple[Label, ...]:
    """Check the public list of labels: two or more, all different, all strings or all whole numbers or all booleans."""
    expected = "two or more different labels: strings, whole numbers or booleans, public"
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise InvalidParameter("labels", labels, expected)
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    kinds = {type(label) for label in plain}
    alike = len(kinds) == 1 and kinds <= {str, int, bool} and len(set(plain)) == len(plain) >= _PAIR
    if not alike or (kinds == {int} and any(abs(label) >= 1 << 62 for label in plain)):
        raise InvalidParameter("labels", labels, expected)
    return tuple(plain)


def codes_of(y: object, *, labels: tuple[Label, ...], rows: int) -> Integers:
    """Return the place of each row's label in the public list.

    A label that is not in the list, or missing, counts as the first of them: a rule that looks at its own row only, so that
    no row can stop the others from being used. Failure: InvalidParameter on types and lengths only.
    """
    # The type of an array is public; of a list it would depend on what each row holds.
    array = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if array.shape != (rows,):
        raise InvalidParameter("y", describe_array(array), f"one label for each of {rows} rows")
    if array.dtype == object:
        return np.array([_find_label(value, labels) for value in array], dtype=np.int64)
    if array.dtype.kind not in ("U" if isinstance(labels[0], str) else "biuf"):
        raise InvalidParameter("y", describe_array(array), f"labels of the kind of {labels[0]!r}")
    codes = np.zeros(rows, dtype=np.int64)
    for place, label in enumerate(labels):
        codes[array == label] = place
    return codes


def targets_of(y: object, *, outputs: tuple[float, float], fallback: float, rows: int) -> Floats:
    """Return numbers to learn, moved into the public bounds of outputs; a missing one counts as the fallback."""
    array = np.asarray(y)
    if array.shape != (rows,) or array.dtype.kind not in "biuf":
        raise InvalidParameter("y", describe_array(array), f"one number for each of {rows} rows")
    values = array.astype(np.float64)
    return np.clip(np.where(np.isnan(values), fallback, values), *outputs)


def outputs_of(outputs: object, fallback: Number | None) -> tuple[tuple[float, float], float]:
    """Check the public bounds of outputs and the value that stands for a member without one; by default their middle."""
    if not isinstance(outputs, Sequence) or isinstance(outputs, str) or len(outputs) != _PAIR:
        raise InvalidParameter("outputs", outputs, "a pair (low, high), public")
    low, high = (float(rational("outputs", end)) for end in outputs)
    if not low < high or high - low > FEATURE_LIMIT:
        raise InvalidParameter("outputs", outputs, "a pair (low, high) with low < high")
    value = (low + high) / 2 if fallback is None else float(rational("fallback", fallback))
    if not low <= value <= high:
        raise InvalidParameter("fallback", fallback, f"a number from {low:g} to {high:g}")
    return (low, high), value


def _find_label(value: object, labels: tuple[Label, ...]) -> int:
    try:
        return labels.index(value)
    except Exception:  # noqa: BLE001 - a value whose comparison fails is not in the list
        return 0

"""The card: what is public about the data. Names, types, bounds and labels of the columns, and how many rows there are.

A query is checked against the card and against nothing else, so whatever the check says is public. Bounds are what the
custodian declares; no promise of the query language rests on their being true of the rows.
"""

import difflib
import math
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from holdtrue.errors import InvalidParameter, UnknownColumn
from holdtrue.exact import count, rational, read_list

__all__ = ["HIGHEST", "LOWEST", "Card", "Column", "Label", "Type", "UnitTable"]

Type: TypeAlias = Literal["boolean", "integer", "real", "text", "date", "timestamp"]
Label: TypeAlias = bool | int | float | str

LOWEST = -(2**63)
HIGHEST = 2**63 - 1
_LONGEST_NAME = 255
_KINDS: dict[str, tuple[type, ...]] = {"boolean": (bool,), "integer": (int,), "real": (int, float), "text": (str,)}


class Column(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One column: boolean, integer (64 bits), real (a double), text, date or timestamp, with bounds or labels if declared.

    Bounds are those of numbers; dates and timestamps have neither bounds nor labels. ``nullable`` is False where the type of
    the data has no missing values, as that of a NumPy array of integers: types decide, never cells.
    """

    name: str
    type: Type
    bounds: tuple[int | float, int | float] | None = None
    labels: tuple[Label, ...] | None = None
    nullable: bool = True

    def __post_init__(self) -> None:
        if not _is_printable(self.name):
            raise InvalidParameter("name", self.name, f"1 to {_LONGEST_NAME} printable characters")
        kind: object = self.type
        if not isinstance(kind, str) or kind not in get_args(Type):
            raise InvalidParameter("type", self.type, f"one of {', '.join(get_args(Type))}")
        if self.bounds is not None:
            force_setattr(self, "bounds", _check_bounds(self.type, self.bounds))
        if self.labels is not None:
            force_setattr(self, "labels", _check_labels(self.type, self.labels))


class UnitTable(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A table whose rows belong to units: its name and columns. How many rows it has is not public."""

    name: str
    columns: tuple[Column, ...]

    @cached_property
    def card(self) -> "Card":
        """Return the columns as a card, which has no rows."""
        return Card(self.columns, 0)


class Card(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """The columns, in order, and the number of rows.

    Names differ by more than the case of their letters, since DuckDB would take them for one otherwise.

    With a ``unit`` the rows are units, one for each key in the column of that name: ``columns`` are those with one value for
    each unit, and ``tables`` hold the rows that units own (U4). One table without a name: units are its different keys.
    """

    columns: tuple[Column, ...]
    rows: int
    unit: str | None = None
    tables: tuple[UnitTable, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "columns", tuple(read_list("columns", self.columns, expected="a list of columns")))
        force_setattr(self, "rows", count("rows", self.rows, least=0))
        seen: dict[str, str] = {}
        for column in self.columns:
            if not isinstance(column, Column):
                raise InvalidParameter("columns", column, "instances of Column")
            twin = seen.setdefault(column.name.casefold(), column.name)
            if twin is not column.name:
                raise InvalidParameter.saying("columns", f"{twin!r} and {column.name!r} differ only in case; rename one")

    @cached_property
    def named(self) -> dict[str, Column]:
        """Return the columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def complete(self) -> frozenset[str]:
        """Return the names of the columns without missing values, where rows are not units."""
        return frozenset(column.name for column in self.columns if not column.nullable and self.unit is None)

    @cached_property
    def kept_tests(self) -> dict[str, Any]:
        """Return what the parser keeps of plain tests that were asked of this card, by their text."""
        return {}

    @property
    def population(self) -> str | None:
        """Return whom intervals for the population are about, where rows belong to units."""
        if self.unit is None:
            return None
        some = "" if self.columns else " with at least one row"
        return f"a random {self.unit}{some}"

    def list_columns(self) -> list[tuple[str, str]]:
        """Return all columns with their types, those of a table after its name: visits.cost."""
        named = [("", self.columns), *((f"{table.name}." if table.name else "", table.columns) for table in self.tables)]
        return [(f"{prefix}{column.name}", column.type) for prefix, listed in named for column in listed]

    def find_table(self, name: str) -> UnitTable:
        """Return the table that an aggregate is over; without a name, the only one there is."""
        found = [table for table in self.tables if name in ("", table.name)]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(repr(table.name) for table in self.tables if table.name)
        if name:
            message = f"there is no table {name!r}; the card has {listed or 'one table, without a name'}"
        else:
            message = f"there are several tables, {listed}; say which, as in {self.tables[0].name}.COUNT(*)"
        raise UnknownColumn(message)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.named

    def column(self, name: str) -> Column:
        """Return the column of that name, or raise UnknownColumn with the nearest name."""
        given: object = name
        text = given if isinstance(given, str) else type(given).__name__
        found = self.named.get(text) if text is given else None
        if found is None:
            raise UnknownColumn(_suggest_names(text, list(self.named)))
        return found


def _is_printable(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()


def _check_bounds(kind: Type, bounds: object) -> tuple[float, float]:
    expected = "a pair of numbers, the lower one first, of a column of numbers"
    if kind not in ("integer", "real") or not isinstance(bounds, (tuple, list)) or len(bounds) != len(("low", "high")):
        raise InvalidParameter("bounds", bounds, expected)
    low, high = (rational("bounds", end, expected=expected) for end in bounds)
    if low > high:
        raise InvalidParameter("bounds", bounds, expected)
    ends = (max(math.ceil(low), LOWEST), min(math.floor(high), HIGHEST)) if kind == "integer" else (float(low), float(high))
    if ends[0] > ends[1]:
        raise InvalidParameter("bounds", bounds, "a pair with a 64-bit integer between them")
    return ends


def _check_labels(kind: Type, labels: object) -> tuple[Label, ...]:
    if kind not in _KINDS:
        raise InvalidParameter.saying("labels", f"leave out labels: a column of type {kind} has none")
    expected = f"a list of different values of type {kind}"
    if not isinstance(labels, (tuple, list)) or not labels:
        raise InvalidParameter("labels", labels, expected)
    for label in labels:
        if not isinstance(label, _KINDS[kind]) or (isinstance(label, bool) and kind != "boolean"):
            raise InvalidParameter("labels", labels, expected)
    if len(set(labels)) < len(labels):
        raise InvalidParameter("labels", labels, expected)
    return tuple(labels)


def _suggest_names(name: str, names: list[str]) -> str:
    lowered = {known.casefold(): known for known in names}
    near = difflib.get_close_matches(name.casefold(), list(lowered), n=1)
    if near:
        return f"there is no column {name!r}; did you mean {lowered[near[0]]!r}?"
    shown = ", ".join(repr(known) for known in names[:20]) + (", …" if len(names) > 20 else "")  # noqa: PLR2004 - a line of names
    return f"there is no column {name!r}; the card has {shown or 'no columns'}"

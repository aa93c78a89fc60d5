"""The card: what is public about the data. Names, types, bounds and labels of the columns, and how many rows there are.

A query is checked against the card and against nothing else, so whatever the check says is public. Bounds are what the
custodian declares; no promise of the query language rests on their being true of the rows. What is declared is checked
before a card is made of it.
"""

import difflib
import math
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from holdtrue.errors import InvalidParameter, RequestError, UnknownColumn
from holdtrue.exact import count, rational, read_list

__all__ = ["HIGHEST", "LOWEST", "Card", "Column", "Declared", "Label", "Type", "UnitTable", "own_names", "read_toml"]

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


def read_toml(path: "str | os.PathLike[str]") -> dict[str, Any]:
    """Return what a custodian wrote in a TOML file; RequestError says what is wrong with the file."""
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        reason = error.strerror or "cannot be read"
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = f"not TOML: {error}"
    message = f"{os.fspath(path)}: {reason}"
    raise RequestError(message)


def own_names(names: Iterable[str], table: str, tables: Collection[str]) -> dict[str, str]:
    """Return which of the names are of columns of one table, without its own name before them: visits.cost is cost."""
    found: dict[str, str] = {}
    for name in names:
        owner, dot, own = str(name).partition(".")
        named = bool(dot) and owner in tables
        if (owner if named else "") == table:
            found[name] = own if named else name
    return found


@dataclass(frozen=True, slots=True)
class Declared:
    """Types, bounds and labels by column; any of them may be left out."""

    types: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    labels: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for parameter in ("types", "bounds", "labels"):
            if not isinstance(getattr(self, parameter), Mapping):
                raise InvalidParameter(parameter, getattr(self, parameter), "a mapping by column")
        for kind in self.types.values():
            if kind not in get_args(Type):
                raise InvalidParameter("types", kind, f"one of {', '.join(get_args(Type))} for each column")

    def select(self, table: str, tables: Collection[str]) -> "Declared":
        """Return what is declared about the columns of one table; those of no table are of the table without a name."""
        picked: list[dict[str, Any]] = [
            {own: held[name] for name, own in own_names(held, table, tables).items()}
            for held in (self.types, self.bounds, self.labels)
        ]
        return Declared(*picked)

    def make_card(self, named: Sequence[tuple[str, str]], *, rows: int, complete: Collection[str] = ()) -> Card:
        """Return the card of columns with these names and types; refuse a declaration about a column that does not exist.

        ``complete`` are the columns whose type has no missing values.
        """
        known = {name for name, _ in named}
        for parameter in ("bounds", "labels"):
            unknown = next((name for name in getattr(self, parameter) if name not in known), None)
            if unknown is not None:
                message = f"{parameter} names the column {unknown!r}, which the data do not have"
                raise UnknownColumn(message)
        return Card(tuple(self._make_column(name, kind, nullable=name not in complete) for name, kind in named), rows)

    def _make_column(self, name: str, kind: str, *, nullable: bool) -> Column:
        labels = tuple(self.labels[name]) if name in self.labels else None
        bounds = self.bounds.get(name)
        return Column(name, kind, bounds=bounds, labels=labels, nullable=nullable)  # type: ignore[arg-type]  # Column checks it

"""What the custodian declares about the columns, checked, and the card that comes of it."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, get_args

from holdtrue.errors import InvalidParameter, RequestError, UnknownColumn
from holdtrue.queries.cards import Card, Column, Type

__all__ = ["Declared", "check_names", "choose_type", "read_toml", "refuse_type"]

CONVERSIONS = {
    *((kind, kind) for kind in get_args(Type)),
    ("boolean", "integer"),
    ("boolean", "real"),
    ("integer", "real"),
}
"""Which type of data may be read as which type of the card."""


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

    def card(self, named: Sequence[tuple[str, str]], *, rows: int) -> Card:
        """Return the card of columns with these names and types; refuse a declaration about a column that is not there."""
        known = {name for name, _ in named}
        for parameter in ("bounds", "labels"):
            unknown = next((name for name in getattr(self, parameter) if name not in known), None)
            if unknown is not None:
                message = f"{parameter} names the column {unknown!r}, which the data do not have"
                raise UnknownColumn(message)
        return Card(tuple(self._column(name, kind) for name, kind in named), rows)

    def _column(self, name: str, kind: str) -> Column:
        labels = tuple(self.labels[name]) if name in self.labels else None
        return Column(name, kind, bounds=self.bounds.get(name), labels=labels)  # type: ignore[arg-type]  # Column checks it


def refuse_type(name: str, *, found: str, castable: bool) -> NoReturn:
    """Say that a column's type is none of the card's."""
    text = f"column {name!r} has type {found}; Holdtrue reads boolean, integer, real and text columns"
    way = f"give types={{{name!r}: 'text'}} to read it as text, or leave it out" if castable else "leave it out"
    message = f"{text}: {way}"
    raise RequestError(message)


def choose_type(  # noqa: PLR0913 - what is known of one column
    name: str, *, found: str, kind: str | None, wanted: str | None, as_text: bool, empty: bool
) -> str:
    """Return the card's type of a column: the declared one, or that of the data; refuse what cannot be read so.

    ``found`` is the reader's word for its type and ``kind`` the card's, where there is one. ``as_text`` says that it can be
    read as text if that is declared, ``empty`` that it holds nothing but NULL and can be read as anything.
    """
    if kind is None and wanted is not None and (empty or (as_text and wanted == "text")):
        return wanted
    if kind is None:
        refuse_type(name, found=found, castable=as_text or empty)
    if (kind, wanted or kind) not in CONVERSIONS:
        message = f"column {name!r} has type {found}, which cannot be read as {wanted}"
        raise RequestError(message)
    return wanted or kind


def check_names(names: Sequence[str], types: Mapping[str, str]) -> None:
    """Refuse a table without columns, names that are one but for case, and a type for a column that is not there."""
    if not names:
        message = "the data have no columns"
        raise RequestError(message)
    seen: dict[str, str] = {}
    for name in names:
        if name in seen.values():
            message = f"two columns have the name {name!r}; rename one of them"
            raise RequestError(message)
        twin = seen.setdefault(name.casefold(), name)
        if twin != name:
            message = f"the columns {twin!r} and {name!r} differ in nothing but the case of letters; rename one of them"
            raise RequestError(message)
    unknown = next((name for name in types if name not in names), None)
    if unknown is not None:
        message = f"types names the column {unknown!r}, which the data do not have"
        raise UnknownColumn(message)

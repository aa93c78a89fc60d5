"""What the custodian declares about the columns, checked, and the card that comes of it."""

import os
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from holdtrue.errors import InvalidParameter, RequestError, UnknownColumn
from holdtrue.queries.cards import Card, Column, Type

__all__ = ["Declared", "own_names", "read_toml"]


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

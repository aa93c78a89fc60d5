"""How records are shown: as text, as HTML tables in notebooks, as data frames, and several of them as a list."""

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol, TypeVar

from holdtrue.errors import MissingExtra


class Listed(Protocol):
    """A record that is a row of a table."""

    def list_values(self) -> dict[str, Any]:
        """Return the row: plain values by the names of columns."""
        ...


_Item = TypeVar("_Item", bound=Listed)


def text_table(title: str, lines: Mapping[str, str]) -> str:
    """Return a title over a column of names and a column of values."""
    width = max(len(name) for name in lines)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines.items())])


def html_table(facts: Iterable[tuple[str, str]], *, title: str = "") -> str:
    """Return names and values as an HTML table, as notebooks show it."""
    rows = "".join(f"<tr><th style='text-align:right'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts)
    caption = f"<caption style='text-align:left'><code>{html.escape(title)}</code></caption>" if title else ""
    return f"<table>{caption}{rows}</table>"


def make_frame(rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - a library that need not be there
    """Return rows as a pandas data frame; MissingExtra where pandas is not installed."""
    return import_frames("pandas").DataFrame.from_records(list(rows))


def import_plots() -> Any:  # noqa: ANN401 - a library that need not be there
    """Return matplotlib's pyplot; MissingExtra where it is not installed."""
    try:
        return import_module("matplotlib.pyplot")
    except ImportError:
        raise MissingExtra("plots", purpose="a plot") from None


def import_frames(library: str) -> Any:  # noqa: ANN401 - a library that need not be there
    """Return pandas or polars; MissingExtra where it is not installed."""
    try:
        return import_module(library)
    except ImportError:
        raise MissingExtra("frames", purpose=f"a data frame of {library}") from None


class Listing(list[_Item]):
    """A list that notebooks show as a table, and that prints as one: of answers, or of the lines of a history.

    ``names`` are what each answer is to, if they are known. It is equal to the plain list of the same records.
    """

    def __init__(self, items: Iterable[_Item] = (), *, names: Sequence[str] = ()) -> None:
        super().__init__(items)
        self.names = tuple(names)

    def list_rows(self) -> list[dict[str, Any]]:
        """Return a row of plain values for each record."""
        rows = [item.list_values() for item in self]
        return [{"question": name} | row for name, row in zip(self.names, rows, strict=True)] if self.names else rows

    def to_frame(self) -> Any:  # noqa: ANN401 - a library that need not be there
        """Return the records as a pandas data frame, a row each."""
        return make_frame(self.list_rows())

    def __str__(self) -> str:
        rows = [{head: _format_value(value) for head, value in row.items()} for row in self.list_rows()]
        if not rows:
            return "nothing yet"
        wide = {head: max(len(head), *(len(row[head]) for row in rows)) for head in rows[0]}
        lines = [{head: head for head in wide}, *rows]
        return "\n".join("  ".join(f"{line[head]:<{width}}" for head, width in wide.items()).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        rows = self.list_rows()
        if not rows:
            return "<p>nothing yet</p>"
        head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
        cells = ("".join(f"<td>{html.escape(_format_value(value))}</td>" for value in row.values()) for row in rows)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>"


def _format_value(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

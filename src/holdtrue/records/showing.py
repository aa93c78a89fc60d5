"""How records are shown: as text, as HTML tables in notebooks, as data frames, and several of them as a list."""

import html
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from textwrap import wrap
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


def fold_line(name: str, value: str) -> str:
    """Return a name and a value in lines of at most 80 characters, the value in a column of its own; no word is broken."""
    lines = wrap(value, max(80 - len(name) - 2, 20), break_long_words=False, break_on_hyphens=False)
    return f"{name}  " + f"\n{'':{len(name) + 2}}".join(lines)


def fit_columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, measure: Callable[[str], int] = len
) -> tuple[int, list[int]]:
    """Return the gap between the columns of a table, and their widths, which fit a width with their gaps.

    Heads break between words first, then cells do, and words break last.
    """

    def longest(texts: Iterable[str]) -> int:
        return max(map(measure, texts), default=1) or 1

    columns = [[row[place] for row in rows] for place in range(len(heads))]
    whole = [longest([head, *cells]) for head, cells in zip(heads, columns, strict=True)]
    lower = [longest([*head.split(), *cells]) for head, cells in zip(heads, columns, strict=True)]
    for gap, widths in ((3, whole), (3, lower), (2, lower)):
        if sum(widths) + gap * (len(heads) - 1) <= width:
            return gap, widths
    room = max(width - 2 * (len(heads) - 1), len(heads))
    words = [longest(" ".join([head, *cells]).split()) for head, cells in zip(heads, columns, strict=True)]
    found = [min(each, 20) for each in words]  # a longer word is broken before it takes the room of other columns
    while sum(found) > room:  # not even the words fit: the longest are broken
        found[found.index(max(found))] -= 1
    wanting = sorted(range(len(heads)), key=lambda place: lower[place] - found[place])
    for done, place in enumerate(wanting):
        found[place] += max(0, min(lower[place] - found[place], (room - sum(found)) // (len(heads) - done)))
    return 2, found


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
        if not self:
            return "nothing yet"
        listed = self.list_rows()
        heads, rows = list(listed[0]), [[_format_value(value) for value in row.values()] for row in listed]
        gap, widths = fit_columns(heads, rows, width=80)
        folded = [[wrap(cell, width) for cell, width in zip(row, widths, strict=True)] for row in (heads, *rows)]
        lines = [line for row in folded for line in itertools.zip_longest(*row, fillvalue="")]
        padded = ((f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines)
        return "\n".join((" " * gap).join(cells).rstrip() for cells in padded)

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

"""Output of all subcommands: JSON, lines and tables on standard output, progress and notes on standard error, files."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from threading import Timer
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.codec import plain
from holdtrue.errors import InvalidParameter, printable
from holdtrue.records import fit_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "TICKER",
    "Json",
    "check_page",
    "count_units",
    "print_json",
    "print_lines",
    "print_table",
    "save_plot",
    "show_progress",
    "write_file",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]

_PLOTS = (".svg", ".png", ".pdf")
_PAGES = (".html", ".htm")
_PATIENCE = 1.0
_WIDTH = 80


def print_json(document: object) -> None:
    """Print a record, or a mapping with records in it, as JSON, one field per line."""
    typer.echo(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def print_lines(title: str, lines: Iterable[tuple[str, str]]) -> None:
    """Print a title and lines of names and values; a terminal breaks them between words, control characters are harmless."""
    told = list(lines)
    width = max(len(name) for name, _ in told) + 4
    columns = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    room = max(columns - width, 20)
    typer.echo("\n".join(wrap(printable(title), columns, break_on_hyphens=False, replace_whitespace=False)) or title)
    for name, value in told:
        parts = wrap(printable(value), room, break_on_hyphens=False, break_long_words=False)
        typer.echo(f"  {name:<{width - 4}}  " + f"\n{'':{width}}".join(parts))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print a table with the columns named in ``right`` aligned right; colours only on a terminal.

    It is as wide as the terminal at most: heads break between words first, then cells do, and words break last.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    cells = [[printable(cell) for cell in row] for row in rows]
    gap, widths = fit_columns(heads, cells, width=console.width, measure=cell_len)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, gap - 2))
    for head, width in zip(heads, widths, strict=True):
        table.add_column(head, justify="right" if head in right else "left", overflow="fold", width=width)
    for row in cells:
        table.add_row(*map(Text, row))  # Text, not markup: people wrote what is in it
    console.width = max(console.width, sum(widths) + gap * (len(widths) - 1))  # wider only where single letters do not fit
    console.print(table)


def save_plot(axes: "Axes", path: Path) -> None:
    """Save the figure of some axes, and print the path on standard error."""
    if path.suffix.lower() not in _PLOTS:
        raise InvalidParameter("plot", str(path), f"a file that ends in {', '.join(_PLOTS)}")
    figure = axes.get_figure(root=True)
    if figure is not None:
        with _check_writing("plot", path):
            figure.savefig(path, dpi=160)


def check_page(name: str, path: Path) -> None:
    """Refuse a file name that does not end like an HTML page, before any work is done."""
    if path.suffix.lower() not in _PAGES:
        raise InvalidParameter(name, str(path), f"a file that ends in {' or '.join(_PAGES)}")


def write_file(name: str, path: Path, text: str) -> None:
    """Write a file that an option or argument names, and print the path on standard error."""
    with _check_writing(name, path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def _check_writing(name: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidParameter(name, str(path), f"a file that can be written ({error.strerror})") from None
    typer.echo(f"wrote {path}", err=True)


class Ticker:
    """Takes the progress of a long task and moves the progress bar, if one is shown."""

    def __init__(self) -> None:
        self.show: Callable[[float], None] | None = None

    def __call__(self, share: float) -> None:
        if self.show is not None:
            self.show(share)


TICKER = Ticker()


@contextmanager
def show_progress(words: str) -> Iterator[None]:
    """Show the progress of a long scan on standard error, if it is a terminal; nothing for a short one."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task(printable(words), total=None)
    TICKER.show = lambda share: progress.update(task, total=1.0, completed=share)
    delay = Timer(_PATIENCE, progress.start)
    delay.daemon = True
    delay.start()
    try:
        yield
    finally:
        TICKER.show = None
        delay.cancel()
        delay.join()
        progress.stop()


def count_units(number: float, unit: str) -> str:
    """Return an amount with its unit: one draw, two draws, 0.02 rho."""
    return f"{number:.3g} {'draw' if unit == 'draws' and number == 1 else unit}"

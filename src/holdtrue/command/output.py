"""What all subcommands share: JSON, lines and tables on standard output; progress and talk on standard error; files."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.codec import plain
from holdtrue.errors import InvalidParameter, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "TICKER",
    "Json",
    "check_page",
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
_WIDTH = 160


def print_json(document: object) -> None:
    """Print a record, or a mapping with records in it, as JSON, one field a line."""
    typer.echo(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def print_lines(title: str, lines: Iterable[tuple[str, str]]) -> None:
    """Print a title over names and values, which people may have written."""
    told = list(lines)
    width = max(len(name) for name, _ in told)
    typer.echo(printable(title))
    for name, value in told:
        typer.echo(f"  {name:<{width}}  {printable(value)}")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print a table, the columns named in ``right`` set to the right; colours only on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # Text, not markup: people wrote what is in it
    Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH).print(table)


def save_plot(axes: "Axes", path: Path) -> None:
    """Save the figure of some axes, and say where on standard error."""
    if path.suffix.lower() not in _PLOTS:
        raise InvalidParameter("plot", str(path), f"a file that ends in {', '.join(_PLOTS)}")
    figure = axes.get_figure(root=True)
    if figure is not None:
        with _writing("plot", path):
            figure.savefig(path, dpi=160)


def check_page(name: str, path: Path) -> None:
    """Refuse a file that is no page by its name, before anything is done for it."""
    if path.suffix.lower() not in _PAGES:
        raise InvalidParameter(name, str(path), f"a file that ends in {' or '.join(_PAGES)}")


def write_file(name: str, path: Path, text: str) -> None:
    """Write a file that an option or an argument names, and say where on standard error."""
    with _writing(name, path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def _writing(name: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidParameter(name, str(path), f"a file that can be written ({error.strerror})") from None
    typer.echo(f"wrote {path}", err=True)


class Ticker:
    """Hears from whoever works how far it is, and moves the bar that is shown at the moment, if there is one."""

    def __init__(self) -> None:
        self.show: Callable[[float], None] | None = None

    def __call__(self, share: float) -> None:
        if self.show is not None:
            self.show(share)


TICKER = Ticker()


@contextmanager
def show_progress(words: str) -> Iterator[None]:
    """Show on standard error, if it is a terminal, how far a long scan is; nothing for a short one."""
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

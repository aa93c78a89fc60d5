"""How subcommands talk: tables and lines on standard output, progress on standard error, only for who looks at it."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

import typer

__all__ = ["TICKER", "print_lines", "print_table", "printable", "watched"]

_PATIENCE = 1.0
_WIDTH = 160


def printable(text: str) -> str:
    """Return text that a terminal only prints: what cannot be seen is written out."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


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


class Ticker:
    """Hears from whoever works how far it is, and moves the bar that is shown at the moment, if there is one."""

    def __init__(self) -> None:
        self.show: Callable[[float], None] | None = None

    def __call__(self, share: float) -> None:
        if self.show is not None:
            self.show(share)


TICKER = Ticker()


@contextmanager
def watched(words: str) -> Iterator[None]:
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

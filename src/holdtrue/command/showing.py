"""What all subcommands share: JSON on standard output, talk on standard error, plots into files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.codec import plain
from holdtrue.errors import InvalidParameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["JSON", "Json", "print_json", "save_plot"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
JSON = False

_PLOTS = (".svg", ".png", ".pdf")


def print_json(document: object) -> None:
    """Print a record, or a mapping with records in it, as JSON, one field a line."""
    typer.echo(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def save_plot(axes: "Axes", path: Path) -> None:
    """Save the figure of some axes, and say where on standard error."""
    if path.suffix.lower() not in _PLOTS:
        raise InvalidParameter("plot", str(path), f"a file that ends in {', '.join(_PLOTS)}")
    figure = axes.get_figure(root=True)
    if figure is not None:
        try:
            figure.savefig(path, dpi=160)
        except OSError as error:
            raise InvalidParameter("plot", str(path), f"a file that can be written ({error.strerror})") from None
        typer.echo(f"wrote {path}", err=True)

"""The ``holdtrue`` command."""

import sys
from typing import Annotated

import typer

import holdtrue
from holdtrue.command import planning
from holdtrue.errors import HoldtrueError

__all__ = ["application", "main"]

application = typer.Typer(
    name="holdtrue",
    help="A curator for a dataset: ask as often as you like; rows stay private and answers hold for the population.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
application.add_typer(planning.application, name="plan")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdtrue {holdtrue.__version__}")
        raise typer.Exit


@application.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Parse what comes before a subcommand."""


def main() -> None:
    """Run the command; an error of Holdtrue's own is one line on standard error and its branch's exit code."""
    try:
        application()
    except HoldtrueError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)

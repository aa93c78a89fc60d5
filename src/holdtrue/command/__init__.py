"""The ``holdtrue`` command."""

import copy
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

import holdtrue
from holdtrue.command import (
    agents,
    asking,
    auditing,
    history,
    leaderboards,
    opening,
    pairs,
    planning,
    predicting,
    scoring,
    serving,
    theorems,
)
from holdtrue.command.examples import add_examples
from holdtrue.errors import HoldtrueError, ReleaseError, printable

__all__ = ["application", "main"]

_ARGUMENT = re.compile(r"\b([a-z]+(?:_[a-z]+)*)=(True\b|\d[\d.]*\b|'[a-z-]+'|)")

application = typer.Typer(
    name="holdtrue",
    help="A curator for a dataset: ask, look, ask again. Rows stay private, and answers hold for the population.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
application.command(rich_help_panel="Begin")(serving.demo)
application.add_typer(planning.application, name="plan", rich_help_panel="Begin")
application.command(rich_help_panel="Begin", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    theorems.theorem
)
application.command(name="open", rich_help_panel="Ask")(opening.open_data)
_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Ask": (
        asking.preview,
        asking.deduce,
        asking.ask,
        asking.table,
        asking.marginals,
        asking.synthesize,
        asking.mean,
        asking.quantile,
    ),
    "Choose": (asking.select, asking.watch, asking.learn),
    "Spread": (pairs.variance, pairs.covariance, pairs.correlation, pairs.r_squared, pairs.gini, pairs.ratio),
    "Pairs": (pairs.auc, pairs.pairs, pairs.best_error),
    "Predict": (
        *(predicting.fit, predicting.train, predicting.predict, predicting.evaluate, predicting.distill),
        predicting.models,
    ),
    "Score": (scoring.score, leaderboards.certify, leaderboards.submit, leaderboards.standings),
    "Look back": (history.budget, history.history, history.verify, history.report),
    "Share": (serving.serve, serving.register, serving.retire, agents.mcp),
}
for _panel, _verbs in _PANELS.items():
    for _verb in _verbs:
        application.command(rich_help_panel=_panel)(_verb)
application.add_typer(auditing.application, name="audit", rich_help_panel="Look back")
application.add_typer(serving.keys, name="key", rich_help_panel="Share")
application.add_typer(serving.ledgers, name="ledger", rich_help_panel="Share")
add_examples(application)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdtrue {holdtrue.__version__}")
        raise typer.Exit


@application.callback()
def _read_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Parse what comes before a subcommand."""


def _tell_warning(message: Warning | str, category: type[Warning], *_place: object, **_more: object) -> None:
    """Print a warning as one line; of other libraries' warnings only the type, since their text may quote a row."""
    own = category.__module__.partition(".")[0] == "holdtrue"
    typer.echo(f"warning: {printable(str(message)) if own else category.__name__}", err=True)


def choose_command(named: Sequence[str]) -> typer.Typer:
    """Return the application, of one subcommand only where it is the one that is named: the others take time to build."""
    one = copy.copy(application)
    one.registered_groups = []
    one.registered_commands = [
        command
        for command in application.registered_commands
        if command.callback is not None and [command.name or command.callback.__name__.replace("_", "-")] == list(named)
    ]
    return one if one.registered_commands else application


def _list_options(command: Any) -> set[str]:  # noqa: ANN401 - a command of the library under Typer
    """Return the options of a command and of those under it."""
    own = {option for each in command.params for option in each.opts}
    return own.union(*map(_list_options, getattr(command, "commands", {}).values()))


def _name_options(message: str) -> str:
    """Return a message with arguments of Python as options, where this or another command has them: --second-budget."""
    if not _ARGUMENT.search(message):
        return message
    known = _list_options(typer.main.get_command(application))

    def spell(found: re.Match[str]) -> str:
        option = f"--{found[1].replace('_', '-')}"
        value = "" if found[2] in ("", "True") else " " + found[2].strip("'")
        return option + value if option in known else found[0]

    return _ARGUMENT.sub(spell, message)


def main() -> None:
    """Run the command; an error is one line on standard error, and Holdtrue's own errors have an exit code each.

    Of any other error only the type is shown, since its text may quote a row; HOLDTRUE_DEBUG=1 shows all of it.
    """
    warnings.showwarning = _tell_warning
    try:
        choose_command(sys.argv[1:2])()
    except HoldtrueError as error:
        entry = f" (charged as entry {error.entry})" if isinstance(error, ReleaseError) and error.entry is not None else ""
        typer.echo(f"error: {printable(_name_options(str(error)))}{entry}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if os.environ.get("HOLDTRUE_DEBUG"):
            raise
        typer.echo(f"error: unexpected {type(error).__name__}; set HOLDTRUE_DEBUG=1 to see where", err=True)
        sys.exit(HoldtrueError.exit_code)

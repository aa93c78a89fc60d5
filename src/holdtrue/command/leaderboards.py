"""``holdtrue submit``, ``standings`` and ``certify``: a leaderboard of predictions, and the end of a gate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdtrue.command.asking import print_receipt
from holdtrue.command.output import Json, print_json, print_lines, print_table
from holdtrue.command.paths import Analyst, Key, check_free
from holdtrue.command.predicting import read_table
from holdtrue.command.scoring import CaseId, ClusterOf, certify_gate
from holdtrue.errors import InvalidParameter, UnknownName

if TYPE_CHECKING:
    from holdtrue.holdouts import Leaderboard

__all__ = ["certify", "standings", "submit"]

LabelsFile = Annotated[
    Path, typer.Argument(metavar="LABELS", help="The true labels: CSV, Parquet or JSON lines with a column label, and id.")
]
BoardLedger = Annotated[str, typer.Option("--ledger", metavar="LEDGER", help="The leaderboard's ledger: a file.")]
Column = Annotated[str, typer.Option(help="The column of both files that has the labels.")]


def submit(
    labels: LabelsFile,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose submission this is.")],
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", help="A file of the same form.")],
    *,
    ledger: BoardLedger,
    column: Column = "label",
    submissions: Annotated[
        int | None, typer.Option(help="Create the leaderboard, for this many submissions in all. Refused if it exists.")
    ] = None,
    rule: Annotated[
        Literal["ladder", "parameter-free ladder", "private ladder", "private"] | None,
        typer.Option(help="With --submissions: what is told; a ladder unless given."),
    ] = None,
    key: Key = None,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Submit predictions to a leaderboard that cannot be climbed by guessing. The same ones again cost nothing.

    Example: holdtrue submit truth.csv ada ada.csv --ledger board.ledger --submissions 100
    """
    terms: dict[str, Any] = {name: value for name, value in (("submissions", submissions), ("rule", rule)) if value}
    given, ids = _read_labels(predictions, column)
    with _open_board(labels, column, ledger, terms) as board:
        found = board.submit(name, given, ids=ids, key=key, analyst=analyst)
        left = board.left
    if as_json:
        print_json({"name": name, "score": found, "left": left})
        return
    lines = [("in words", found.sentence), ("left", f"{left:,} submissions"), ("receipt", print_receipt(found.certificate))]
    print_lines(name, lines)


def standings(labels: LabelsFile, *, ledger: BoardLedger, column: Column = "label", as_json: Json = False) -> None:
    """Print who leads on a leaderboard. Free.

    Example: holdtrue standings truth.csv --ledger board.ledger
    """
    with _open_board(labels, column, ledger, {}) as board:
        places, left = board.standings(), board.left
    if as_json:
        print_json({"standings": places, "left": left})
        return
    told = ((str(place.rank), place.name, "-" if place.score is None else f"{place.score:.4f}") for place in places)
    print_table(("rank", "name", "score"), told, right=("rank", "score"))
    print_lines("", [("left", f"{left:,} submissions")])


def certify(
    results: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RESULTS]", help="Any results file of its cases, where their ids are not kept beside the ledger."
        ),
    ] = None,
    *,
    holdout: Annotated[str, typer.Option(metavar="LEDGER", help="The gate's ledger: a file.")],
    what: Annotated[
        Literal["score", "gain"], typer.Option(help="The incumbent's score, or its gain over the first incumbent.")
    ] = "score",
    case_id: CaseId = None,
    cluster: ClusterOf = None,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Close a gate for good and tell its incumbent's score, or gain.

    Example: holdtrue certify --holdout gate.ledger
    """
    found = certify_gate(results, holdout, what, case_id=case_id, cluster=cluster, analyst=analyst)
    if as_json:
        print_json({what: found, "sentence": found.sentence})
        return
    print_lines("the gate is closed", [("in words", found.sentence), ("receipt", print_receipt(found.certificate))])


def _read_labels(path: Path, column: str) -> tuple[list[Any], list[Any] | None]:
    """Return a column of labels, and ids where the file has them."""
    table = read_table(path)
    if column not in table.column_names:
        raise InvalidParameter.without_value("--column", f"a column of {path.name}: {', '.join(table.column_names[:20])}")
    ids = table["id"].to_pylist() if "id" in table.column_names else None
    return table[column].to_pylist(), ids


def _open_board(labels: Path, column: str, where: str, terms: dict[str, Any]) -> "Leaderboard":
    """Return the leaderboard at a ledger; terms create a new one."""
    from holdtrue.holdouts import Leaderboard
    from holdtrue.holdouts.terms import stored_facts

    true, ids = _read_labels(labels, column)
    if terms:
        check_free(where)
    elif stored_facts(where) is None:
        message = f"there is no leaderboard at {where}; --submissions N creates one"
        raise UnknownName(message)
    return Leaderboard(true, ids=ids, ledger=where, **terms)

"""``holdtrue mcp``: let an agent ask about one dataset, or have its submissions scored on one holdout."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.command.paths import (
    LedgerOption,
    RehashOption,
    find_ledger,
    hide_password,
    is_data,
    name_missing,
    open_curator,
)
from holdtrue.command.scoring import read_kept_cases
from holdtrue.command.serving import PACKAGES
from holdtrue.errors import InvalidParameter, MissingExtra, RequestError

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.holdouts import Holdout

__all__ = ["mcp"]

_LABELS = "left out unless the ledger is a holdout's"


def mcp(
    source: Annotated[
        str,
        typer.Argument(metavar="LEDGER", help="The ledger, with its data beside it under the same name, or the data."),
    ],
    *,
    ledger: LedgerOption = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For a holdout: its labels, in a .npy, .json or .csv file.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="The column of labels in a .csv file with several.")] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="For a holdout of `holdtrue score` whose case ids are not kept beside it: any results file."
        ),
    ] = None,
    analyst: Annotated[str, typer.Option(help="Who asks, as recorded in the ledger.")] = "agent",
    tick: Annotated[
        float, typer.Option(min=0, max=60, help="Responses leave at multiples of this many seconds; 0 turns that off.")
    ] = 0.01,
    rehash: RehashOption = False,
) -> None:
    """Serve one dataset or holdout to an agent, by the Model Context Protocol over standard input and output.

    Start it from the agent's configuration. It has an analyst's rights, and sees only its own history.
    """
    if any(find_spec(package) is None for package in ("mcp", *PACKAGES)):
        raise MissingExtra("mcp,server", purpose="holdtrue mcp")
    with _open_ledger(source, ledger, rehash=rehash, labels=labels, column=column, results=results) as kept:
        from holdtrue.service.mcp.door import serve_ledger

        serve_ledger(kept, analyst=analyst, tick=tick)


@contextmanager
def _open_ledger(
    source: str, ledger: str | None, *, rehash: bool, labels: Path | None, column: str | None, results: Path | None
) -> "Iterator[Curator | Holdout]":
    """Yield the curator or the holdout that a ledger belongs to."""
    where = find_ledger(source, ledger)
    if _is_holdout(where):
        with _open_holdout(where, labels, column, results) as holdout:
            yield holdout
        return
    for name, given in (("--labels", labels), ("--column", column), ("--results", results)):
        if given is not None:
            raise InvalidParameter.without_value(name, _LABELS)
    data = source if ledger is not None or is_data(source) else _find_data(source)
    with open_curator(data, where, rehash=rehash) as curator:
        yield curator


def _is_holdout(where: str) -> bool:
    from holdtrue.ledgers import open_ledger

    with name_missing(where, way_out="; `holdtrue open` creates one, --ledger names another"), open_ledger(where) as kept:
        return "holdout" in json.loads(kept.terms.card)


def _find_data(ledger: str) -> str:
    """Return the one file of data beside a ledger that has its name."""
    place = Path(ledger)
    found = [] if "://" in ledger else [str(each) for each in place.parent.glob("*") if _belongs(each, place)]
    if len(found) != 1:
        several = "several files of data" if found else "no data"
        message = f"there are {several} beside {hide_password(ledger)}; name them: holdtrue mcp DATA --ledger LEDGER"
        raise RequestError(message)
    return found[0]


def _belongs(each: Path, ledger: Path) -> bool:
    return each.is_file() and is_data(each.name) and find_ledger(str(each)) == str(ledger)


def _open_holdout(where: str, labels: Path | None, column: str | None, results: Path | None) -> "Holdout":
    import numpy as np

    from holdtrue.holdouts import Holdout
    from holdtrue.holdouts.result_files import read_results

    if labels is None:
        found = read_kept_cases(where) if results is None else read_results(results)
        if found is not None:
            return Holdout(np.ones(found.number), ids=found.ids, cluster=found.clusters, ledger=where)
    if labels is None or results is not None:
        raise InvalidParameter.saying("--labels", "a holdout needs --labels, or --results where `holdtrue score` created it")
    from holdtrue.service.holdouts import read_labels

    place = labels.absolute()
    truth = read_labels({"path": place.name, "column": column}, folders=(place.parent,))
    return Holdout(truth, ledger=where)

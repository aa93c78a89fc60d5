"""``holdtrue open``: make the plan for some data and create their ledger."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdtrue.command.clusters import (
    ClusterOption,
    EngineOption,
    InsecureOption,
    MasterOption,
    RowKeyOption,
    check_settings,
    ledger_beside,
    remember,
    spark_rows,
)
from holdtrue.command.places import LEDGER, Data, LedgerOption, check_data, check_free, ledger_of, shown
from holdtrue.command.showing import JSON, Json, print_json
from holdtrue.command.talking import TICKER, print_table, watched
from holdtrue.errors import InvalidParameter

if TYPE_CHECKING:
    from holdtrue.queries.cards import Card, Column

__all__ = ["open_data"]

_TABLES = ("types", "bounds", "labels")
_PAIR = 2


def open_data(
    data: Data,
    *,
    queries: Annotated[int | None, typer.Option(help="How many questions will be asked, by all analysts together.")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Or how far an answer may be off, and as many questions as that allows.")
    ] = None,
    beta: Annotated[float, typer.Option(help="How probable it may be that any interval misses.")] = 0.05,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy: a row changes the probability of all that is seen by a factor of at most exp(epsilon)."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Slack of that privacy: the probability that may be outside of it; 1e-6, say.")
    ] = None,
    iid: Annotated[
        bool,
        typer.Option(
            "--iid",
            help="Declare that the rows are independent draws from one population. Only then do intervals speak of it.",
        ),
    ] = False,
    reserve: Annotated[
        float, typer.Option(help="Share of the budget that is kept to select, learn and predict; from 0 to 1.")
    ] = 0.25,
    uses: Annotated[int, typer.Option(help="How many uses share that reserve.")] = 10,
    cap: Annotated[
        Literal["validity", "privacy"] | None,
        typer.Option(
            help="What limits the budget: 'validity' spends no more than the intervals need and keeps them narrow (as with "
            "--iid), 'privacy' all that epsilon and delta allow."
        ),
    ] = None,
    pure: Annotated[bool, typer.Option("--pure", help="Privacy without slack: no delta, and more noise.")] = False,
    card: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What is public about the columns: a TOML file with the tables types, bounds and labels, each by "
            "column. Types that are not given are read from the data.",
        ),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a CSV file has the names of the columns, which are public. A first line that "
            "looks like a row is refused unless it is said.",
        ),
    ] = None,
    second_budget: Annotated[
        bool,
        typer.Option("--second-budget", help="Give rows that have a ledger nearby another one. What both let out adds up."),
    ] = False,
    engine: EngineOption = "local",
    master: MasterOption = None,
    cluster: ClusterOption = None,
    row_key: RowKeyOption = None,
    insecure_cluster: InsecureOption = False,
    ledger: LedgerOption = LEDGER,
    as_json: Json = JSON,
) -> None:
    """Open data for questions: fix the plan, and create the ledger that keeps to it.

    Everything said here is fixed for good. The ledger is tied to these rows and takes no others.
    """
    spark = check_settings(engine, master=master, cluster=cluster, row_key=row_key, insecure=insecure_cluster)
    if spark is None:
        check_data(data)
    declared = _declared(card) if card is not None else {}
    where = ledger_of(data, ledger) if spark is None else ledger_beside(data, ledger)
    check_free(where)
    reader: Any = nullcontext(data) if spark is None else spark_rows(data, spark)
    with reader as rows, watched(f"reading {data}"):
        from holdtrue.curator import Curator

        curator = Curator(
            rows,
            ledger=where,
            queries=queries,
            alpha=alpha,
            beta=beta,
            epsilon=epsilon,
            delta=delta,
            reserve=reserve,
            uses=uses,
            cap=cap,
            iid=iid,
            pure=pure,
            header=header,
            second_budget=second_budget,
            progress=TICKER,
            **declared,
        )
        if spark is not None:
            remember(where, spark)
    with curator:
        if as_json:
            print_json({"ledger": shown(where), "plan": curator.plan, "card": curator.card})
            return
        typer.echo(str(curator.plan))
        typer.echo(f"{'data':>10}  {len(curator.card.columns)} columns, as the ledger now has them:\n")
        _print_card(curator.card)
        typer.echo(f"created {shown(where)}", err=True)


def _print_card(card: "Card") -> None:
    print_table(("column", "type", "declared"), ((column.name, column.type, _said(column)) for column in card.columns))


def _said(column: "Column") -> str:
    bounds = "" if column.bounds is None else f"{column.bounds[0]:g} to {column.bounds[1]:g}"
    labels = "" if column.labels is None else ", ".join(map(str, column.labels))
    return "; ".join(filter(None, (bounds, labels)))


def _declared(path: Path) -> dict[str, Any]:
    """Return what a card file declares: types by name, bounds as pairs, labels as lists."""
    from holdtrue.engines.declaring import read_toml

    document = read_toml(path)
    unknown = sorted(set(document) - set(_TABLES))
    if unknown:
        raise InvalidParameter("card", unknown[0], f"a file with the tables {', '.join(_TABLES)} and nothing else")
    for name, table in document.items():
        if not isinstance(table, Mapping):
            raise InvalidParameter("card", name, f"a table, [{name}], by column")
    for column, labels in document.get("labels", {}).items():
        if not isinstance(labels, list):
            raise InvalidParameter(_of("labels", column), labels, "a list")
    return document | {"bounds": {column: _pair(column, ends) for column, ends in document.get("bounds", {}).items()}}


def _pair(column: str, ends: object) -> tuple[float, float]:
    numbers = [end for end in ends if type(end) in (int, float)] if isinstance(ends, list) else []
    if not isinstance(ends, list) or len(ends) != _PAIR or len(numbers) != _PAIR:
        raise InvalidParameter(_of("bounds", column), ends, "two numbers, [low, high]")
    return numbers[0], numbers[1]


def _of(table: str, column: str) -> str:
    return f"{table} of {column}"

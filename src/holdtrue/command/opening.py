"""``holdtrue open``: make the plan for some data and create their ledger."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdtrue.command.output import TICKER, Json, print_json, print_table, show_progress
from holdtrue.command.paths import (
    Data,
    LedgerOption,
    check_free,
    check_spark,
    hide_password,
    keep_spark,
    place_ledger,
    read_rows,
)
from holdtrue.errors import InvalidParameter

if TYPE_CHECKING:
    from holdtrue.queries.cards import Column

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
    engine: Annotated[
        Literal["local", "spark"], typer.Option("--engine", help="Who reads the data: this machine, or Spark.")
    ] = "local",
    master: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Spark's master: spark://host:7077, yarn, local[*].")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A TOML file about the cluster: master, secret_file, wait and a table settings."),
    ] = None,
    row_key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A column that numbers the rows, for `train` on Spark.")
    ] = None,
    insecure_cluster: Annotated[
        bool, typer.Option("--insecure-cluster", help="Use a cluster that lets anybody in. Only where nobody else is near.")
    ] = False,
    ledger: LedgerOption = None,
    as_json: Json = False,
) -> None:
    """Open data for questions: fix the plan, and create the ledger that keeps to it.

    Everything said here is fixed for good. The ledger is tied to these rows and takes no others.
    """
    spark = check_spark(engine, master=master, cluster=cluster, row_key=row_key, insecure=insecure_cluster)
    where = place_ledger(data, ledger, on_spark=spark is not None)
    declared = _read_card(card) if card is not None else {}
    check_free(where)
    with read_rows(data, spark) as rows, show_progress(f"reading {data}"):
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
        keep_spark(where, spark)
    with curator:
        if as_json:
            print_json({"ledger": hide_password(where), "plan": curator.plan, "card": curator.card})
            return
        columns = curator.card.columns
        typer.echo(str(curator.plan))
        typer.echo(f"{'data':>10}  {len(columns)} columns, as the ledger now has them:\n")
        print_table(
            ("column", "type", "declared"), ((column.name, column.type, _say_declared(column)) for column in columns)
        )
        typer.echo(f"created {hide_password(where)}", err=True)


def _say_declared(column: "Column") -> str:
    bounds = "" if column.bounds is None else f"{column.bounds[0]:g} to {column.bounds[1]:g}"
    labels = "" if column.labels is None else ", ".join(map(str, column.labels))
    return "; ".join(filter(None, (bounds, labels)))


def _read_card(path: Path) -> dict[str, Any]:
    """Return what a card file declares: types by name, bounds as pairs, labels as lists."""
    from holdtrue.engines.card_declaration import read_toml

    document = read_toml(path)
    unknown = sorted(set(document) - set(_TABLES))
    if unknown:
        raise InvalidParameter("card", unknown[0], f"a file with the tables {', '.join(_TABLES)} and nothing else")
    for name, table in document.items():
        if not isinstance(table, Mapping):
            raise InvalidParameter("card", name, f"a table, [{name}], by column")
    for column, labels in document.get("labels", {}).items():
        name = f"labels of {column}"
        if not isinstance(labels, list):
            raise InvalidParameter(name, labels, "a list")
    bounds = document.get("bounds", {})
    for column, ends in bounds.items():
        name = f"bounds of {column}"
        if not isinstance(ends, list) or len(ends) != _PAIR or any(type(end) not in (int, float) for end in ends):
            raise InvalidParameter(name, ends, "two numbers, [low, high]")
    return document | {"bounds": {column: tuple(ends) for column, ends in bounds.items()}}

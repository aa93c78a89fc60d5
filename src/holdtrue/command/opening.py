"""``holdtrue open``: make the plan for a dataset and create its ledger."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
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
    keep_tables,
    place_ledger,
    read_rows,
    read_tables,
    share_options,
)
from holdtrue.errors import InvalidParameter

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.queries.cards import Column

__all__ = ["Reserve", "TermOptions", "open_data", "print_opened", "read_card", "read_reserve"]

_TABLES = ("types", "bounds", "labels")
_PAIR = 2
_NEW_OBJECTS = 50_000  # between two looks for garbage


Queries = Annotated[int | None, typer.Option(help="How many questions will be asked, by all analysts together.")]
Alpha = Annotated[
    float | None, typer.Option(help="Instead of queries: how far an answer may be off. Allows as many questions as fit.")
]
Beta = Annotated[float, typer.Option(help="The probability that any interval misses, at most.")]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Privacy: one row changes the probability of any outcome by a factor of at most exp(epsilon)."),
]
Delta = Annotated[
    float | None, typer.Option(help="Privacy slack: the probability that epsilon does not hold, such as 1e-6.")
]
Iid = Annotated[
    bool,
    typer.Option(
        "--iid", help="Declare that the rows are independent draws from one population. Needed for population intervals."
    ),
]
Reserve = Annotated[
    str,
    typer.Option(
        metavar="SHARE",
        help="Share of the budget kept to select, learn and predict, from 0 to 1; or the predictions it is kept for: "
        "predictions=120,epsilon=0.1. They are counted in the currency that leaves most to questions, or in the one that "
        "is named: currency=rho, draws or mu.",
    ),
]
Uses = Annotated[int, typer.Option(help="How many uses share the reserve.")]
Cap = Annotated[
    Literal["validity", "privacy"] | None,
    typer.Option(
        help="What limits the budget. 'validity' spends only what narrow intervals allow (the default with --iid); "
        "'privacy' spends all that epsilon and delta allow."
    ),
]
Pure = Annotated[bool, typer.Option("--pure", help="Privacy without slack: no delta, and more noise.")]
Side = Annotated[
    Literal["both", "low", "high"],
    typer.Option(
        help="Which ends of population intervals are promised. 'low' is for claims that say 'at least', 'high' for those "
        "that say 'at most'; either is sharper than both. Tables, means and quantiles need both."
    ),
]
Group = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="The most rows that one person owns, which you vouch for: privacy is then that of all of a person's rows. "
        "Prices and noise grow with it.",
    ),
]
CardFile = Annotated[
    Path | None,
    typer.Option(
        "--card",
        metavar="FILE",
        help="Public facts about the columns: a TOML file with the tables types, bounds and labels, keyed by column. "
        "Missing types are inferred from the data.",
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file has the column names, which are public. Required if the first line "
        "looks like a row.",
    ),
]
SecondBudget = Annotated[
    bool,
    typer.Option(
        "--second-budget", help="Create another ledger for rows that already have one nearby. The losses of both add up."
    ),
]
EngineName = Annotated[
    Literal["local", "spark"], typer.Option("--engine", help="What reads the data: this machine or Spark.")
]
Master = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Spark's master: spark://host:7077, yarn, local[*].")]
ClusterFile = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="A TOML file about the cluster: master, secret_file, wait and a table settings.",
    ),
]
Unit = Annotated[
    str,
    typer.Option(
        metavar="COLUMN",
        help="Protect all rows with one key in this column together, such as a person's. Questions are about units then.",
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="NAME=FILE",
        help="Rows that units own, such as visits=visits.csv; DATA has one row for each unit then. Repeat it for more.",
    ),
]
RowKey = Annotated[str | None, typer.Option(metavar="COLUMN", help="A column that numbers the rows, for `train` on Spark.")]
InsecureCluster = Annotated[
    bool,
    typer.Option("--insecure-cluster", help="Use a cluster without authentication. Only on a network you trust."),
]


@dataclass(frozen=True, slots=True)
class TermOptions:
    """What is fixed when a ledger is created, whether here or at a service."""

    queries: Queries = None
    alpha: Alpha = None
    beta: Beta = 0.05
    epsilon: Epsilon = None
    delta: Delta = None
    iid: Iid = False
    reserve: Reserve = "0.25"
    uses: Uses = 10
    cap: Cap = None
    pure: Pure = False
    side: Side = "both"
    group: Group = None
    card: CardFile = None
    header: Header = None
    unit: Unit = "row"
    second_budget: SecondBudget = False

    def read(self) -> dict[str, Any]:
        """Return them as a curator takes them, with what the file of the card declares."""
        given = asdict(self)
        card = given.pop("card")
        return ({} if card is None else read_card(card)) | given | {"reserve": read_reserve(self.reserve)}


@share_options
def open_data(
    data: Data,
    *,
    terms: TermOptions,
    table: Tables = None,
    engine: EngineName = "local",
    master: Master = None,
    cluster: ClusterFile = None,
    row_key: RowKey = None,
    insecure_cluster: InsecureCluster = False,
    ledger: LedgerOption = None,
    as_json: Json = False,
) -> None:
    """Open data for questions: fix the plan and create the ledger that enforces it.

    These settings cannot be changed later. The ledger is tied to these rows and accepts no others.
    """
    spark = check_spark(engine, master=master, cluster=cluster, row_key=row_key, insecure=insecure_cluster)
    where = place_ledger(data, ledger, on_spark=spark is not None)
    declared, tables = terms.read(), read_tables(table or [])
    check_free(where)
    words = f"reading {hide_password(data)}"
    with _collect_seldom(), read_rows(data, spark, tables) as (rows, owned), show_progress(words):
        from holdtrue.curator import Curator

        curator = Curator(rows, ledger=where, progress=TICKER, tables=owned, **declared)
        keep_spark(where, spark)
        keep_tables(where, tables, on_spark=spark is not None)
    with curator:
        if as_json:
            print_json({"ledger": hide_password(where), "plan": curator.plan, "card": curator.card})
        else:
            print_opened(curator)
            typer.echo(f"created {hide_password(where)}", err=True)


@contextmanager
def _collect_seldom() -> Iterator[None]:
    """Look for garbage seldom: what is loaded to open data stays, and to look through it often takes a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def read_reserve(text: str) -> float | dict[str, object]:
    """Return a share, or what predictions=120,epsilon=0.1 names."""
    words = "a share from 0 to 1, or predictions=120,epsilon=0.1"
    try:
        if "=" not in text:
            return float(text)
        given = dict(piece.strip().split("=", 1) for piece in text.split(","))
        numbers: dict[str, object] = {"predictions": int(given.pop("predictions")), "epsilon": float(given.pop("epsilon"))}
    except (ValueError, KeyError):
        raise InvalidParameter("reserve", text, words) from None
    return numbers | given


def print_opened(curator: "Curator") -> None:
    """Print the plan, with its width, and the card."""
    card = curator.card
    listed = [column for columns in (card.columns, *(table.columns for table in card.tables)) for column in columns]
    lines = [(*named, _say_declared(column)) for named, column in zip(card.list_columns(), listed, strict=True)]
    typer.echo(str(curator.plan))
    if card.unit is not None:
        typer.echo(f"{'unit':>10}  {card.unit}: {card.rows:,} units; intervals are about {card.population}")
    typer.echo(f"{'data':>10}  {len(lines)} columns, as the ledger now has them:\n")
    print_table(("column", "type", "declared"), lines)


def _say_declared(column: "Column") -> str:
    bounds = "" if column.bounds is None else f"{column.bounds[0]:g} to {column.bounds[1]:g}"
    labels = "" if column.labels is None else ", ".join(map(str, column.labels))
    return "; ".join(filter(None, (bounds, labels)))


def read_card(path: Path) -> dict[str, Any]:
    """Return what a card file declares: types by column, bounds as pairs, labels as lists."""
    from holdtrue.queries.cards import read_toml

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

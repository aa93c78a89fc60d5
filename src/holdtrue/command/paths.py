"""Where a subcommand finds the data and the ledger, and how it opens them.

For data that Spark reads, `holdtrue open` keeps the settings in a file beside the ledger, for later subcommands.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, is_dataclass
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdtrue.codec import convert
from holdtrue.command.output import TICKER, Json, show_progress
from holdtrue.errors import InvalidParameter, RefusedError, RequestError, UnknownName, printable

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.curator.answer_index import AnswerIndex
    from holdtrue.curator.answered_facts import AnsweredFacts
    from holdtrue.curator.budget import Budget, Preview
    from holdtrue.ledgers import Ledger
    from holdtrue.planning.plans import AnyPlan
    from holdtrue.queries.cards import Card
    from holdtrue.queries.syntax_tree import Query
    from holdtrue.records import Deduction, Synthetic

__all__ = [
    "Analyst",
    "Asking",
    "Data",
    "Key",
    "LedgerOption",
    "LedgerView",
    "RehashOption",
    "Source",
    "SparkSettings",
    "check_free",
    "check_spark",
    "find_ledger",
    "hide_password",
    "is_data",
    "keep_spark",
    "keep_tables",
    "name_missing",
    "open_curator",
    "open_view",
    "place_ledger",
    "read_rows",
    "read_tables",
    "share_options",
]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="The data: a Parquet, CSV or JSON file, or a quoted pattern: 'parts/*.csv'; "
        "a PostgreSQL table, 'postgresql://reader@host/clinic?table=people'; "
        "a Spark table or path if they were opened with Spark.",
    ),
]
Source = Annotated[str, typer.Argument(metavar="LEDGER", help="The ledger, or the data it lies beside. No rows are read.")]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="LEDGER",
        help="The ledger, which records every charge: a file or a PostgreSQL address. Default: the file beside the "
        "data with the same name, ending in .ledger.",
    ),
]
RehashOption = Annotated[
    bool,
    typer.Option(
        "--rehash",
        help="Read all rows again to see that they are those of the ledger, even if the files have not changed.",
    ),
]

Key = Annotated[
    str | None, typer.Option(help="A name for this request: sent again under the same name, it is charged once.")
]
Analyst = Annotated[str | None, typer.Option(help="Who asks, as recorded in the ledger.")]

SparkSettings = dict[str, Any]
_DATA = re.compile(r"\.(parquet|pq|csv|tsv|txt|json|jsonl|ndjson)(\.gz)?$", re.IGNORECASE)
_PATTERN = re.compile(r"[*?\[]")
_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")
_ADDRESSES = ("postgresql://", "postgres://")
_SPARK = ".spark.toml"
_TABLES = ".tables.toml"


def is_data(source: str) -> bool:
    """Return whether a name ends as files of data do."""
    return _DATA.search(source) is not None


def find_ledger(source: str, ledger: str | None = None) -> str:
    """Return where the ledger is: as given, or beside the data, or the source itself if it does not look like data."""
    if ledger is not None:
        return ledger
    if table := _find_table(source):
        return f"{table}.ledger"
    if "://" in source or not is_data(source):
        return source
    if _PATTERN.search(source) and not Path(source).exists():
        raise InvalidParameter("ledger", source, "named if the data are several files")
    return _DATA.sub(".ledger", source)


def _find_table(data: str) -> str | None:
    """Return the table that data in PostgreSQL are, None for data elsewhere and for the addresses of ledgers."""
    if not data.startswith(_ADDRESSES) or "table=" not in data:
        return None
    from holdtrue.engines.postgres import read_address

    found = read_address(data)
    return None if found is None else found.table


def place_ledger(data: str, ledger: str | None, *, on_spark: bool) -> str:
    """Return where the ledger of some data is: as given, or the file with the same name, ending in .ledger.

    That of a table in PostgreSQL is in the current folder.
    """
    if not on_spark:
        if not data.startswith(_ADDRESSES) and not _PATTERN.search(data) and not Path(data).exists():
            message = f"{printable(data)}: no such file on this machine"
            raise RequestError(message)
        return find_ledger(data, ledger)
    if ledger is not None:
        return ledger
    if "://" in data or _PATTERN.search(data):
        raise InvalidParameter("ledger", data, "named if the data are several files or not on this machine")
    return str(Path(data.rstrip("/")).with_suffix(".ledger")) if data.endswith((".parquet", ".pq")) else f"{data}.ledger"


def hide_password(where: str) -> str:
    """Return the address of a ledger without its password."""
    return printable(_PASSWORD.sub(r"\1:…@", where))


@contextmanager
def name_missing(where: str, *, way_out: str = "") -> Iterator[None]:
    """Name the place in the error if there is no ledger there."""
    try:
        yield
    except UnknownName:
        message = f"there is no ledger at {hide_password(where)}{way_out}"
        raise UnknownName(message) from None


def _open_existing(where: str) -> "Ledger":
    from holdtrue.ledgers import open_ledger

    with name_missing(where, way_out="; `holdtrue open` creates one, --ledger names another"):
        return open_ledger(where)


def check_free(where: str, *, option: str = "--ledger") -> None:
    """Refuse a place that already has a ledger."""
    try:
        _open_existing(where).close()
    except UnknownName:
        return
    message = f"there is already a ledger at {hide_password(where)}; use it, or name another place with {option}"
    raise RefusedError(message)


@contextmanager
def open_curator(data: str, ledger: str | None, *, rehash: bool = False) -> "Iterator[Curator]":
    """Yield a curator of data that have a ledger already."""
    named = ledger is not None or not ("://" in data or _PATTERN.search(data))
    spark = _read_kept(place_ledger(data, ledger, on_spark=True), _SPARK) if named else None
    where = place_ledger(data, ledger, on_spark=spark is not None)
    account = _open_existing(where)
    unit = json.loads(account.terms.card).get("unit", "row")
    account.close()
    with read_rows(data, spark, _read_kept(where, _TABLES) or {}) as (rows, tables):
        with show_progress(f"reading {hide_password(data)}"):
            from holdtrue import Curator  # which gates hold back

            curator = Curator(rows, ledger=where, progress=TICKER, unit=unit, tables=tables, rehash=rehash)
        with curator:
            yield curator


@dataclass(frozen=True, slots=True)
class Asking:
    """What every subcommand that asks takes besides what it asks: the data, who asks, and how the answer is printed."""

    data: Data
    key: Key = None
    analyst: Analyst = None
    ledger: LedgerOption = None
    rehash: RehashOption = False
    as_json: Json = False

    @property
    def given(self) -> dict[str, Any]:
        """Return who asks, as the verbs of a curator take it."""
        return {"key": self.key, "analyst": self.analyst}

    def open(self) -> "AbstractContextManager[Curator]":
        """Return the curator of the data, to be entered."""
        return open_curator(self.data, self.ledger, rehash=self.rehash)


def share_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return the subcommand of a function some of whose parameters are records of options, such as :class:`Asking`.

    The fields of a record that is given by name stand where it does, those of any other after all options of the
    subcommand's own; a field without a default is an argument.
    """
    signed = signature(function)
    records: dict[str, tuple[type[Any], list[str]]] = {}
    own: list[Parameter] = []
    last: list[Parameter] = []
    for each in signed.parameters.values():
        kind = each.annotation
        if not (isinstance(kind, type) and is_dataclass(kind)):
            own.append(each)
            continue
        shared = signature(kind).parameters
        records[each.name] = kind, list(shared)
        for option in shared.values():
            if option.default is option.empty:
                own.append(option)
            else:
                (own if each.kind is each.KEYWORD_ONLY else last).append(option.replace(kind=option.KEYWORD_ONLY))

    @wraps(function)
    def command(**given: Any) -> None:  # noqa: ANN401 - what Typer read
        made = {name: kind(**{field: given.pop(field) for field in names}) for name, (kind, names) in records.items()}
        function(**made, **given)

    command.__signature__ = signed.replace(parameters=[*own, *last])  # type: ignore[attr-defined]  # what Typer reads
    command.__annotations__ = {each.name: each.annotation for each in (*own, *last)}
    return command


@dataclass(frozen=True, slots=True, eq=False)
class LedgerView:
    """What a ledger has without its data: plan, card, budget and history need no rows."""

    where: str
    ledger: "Ledger"
    plan: "AnyPlan"
    card: "Card"
    index: "AnswerIndex"

    @property
    def budget(self) -> "Budget":
        """Return what is spent and what is left, over all analysts."""
        from holdtrue.curator.budget import budget_of

        limit, index = self.ledger.terms.filter, self.index
        return budget_of(self.plan, limit, spent=self.ledger.spent, draws=index.draws, other=index.other_cost)

    def preview(self, text: str) -> "Preview":
        """Return what a question would cost and how wide its interval would be."""
        from holdtrue.curator.budget import preview_of
        from holdtrue.queries.parser import parse
        from holdtrue.verbs.asking import part_of

        query = parse(text, self.card)
        repeated = self.index.has(part_of(query))
        counts: dict[str, Any] = {"draws": self.index.draws, "spent": self.ledger.spent, "repeated": repeated}
        counts["found"] = self._deduce(query) if self.plan.side == "both" else None
        return preview_of(query, self.plan, card=self.card, asks=self.budget.asks, **counts)

    def deduce(self, text: str) -> "Deduction":
        """Return what follows from the ledger's answers."""
        from holdtrue.queries.parser import parse

        return self._deduce(parse(text, self.card))

    def synthesize(self, columns: list[str] | None, *, rows: int | None, seed: int) -> "Synthetic":
        """Return rows made from the ledger's tables."""
        return self._read_facts().synthesize(columns, rows=rows, seed=seed)

    def _deduce(self, query: "Query") -> "Deduction":
        return self._read_facts().deduce(query)

    def _read_facts(self) -> "AnsweredFacts":
        from holdtrue.curator.answered_facts import AnsweredFacts
        from holdtrue.queries.parser import parse

        return AnsweredFacts(self.ledger, plan=self.plan, card=self.card, parse=partial(parse, card=self.card))


@contextmanager
def open_existing(source: str) -> "Iterator[tuple[str, Ledger, bool]]":
    """Yield the place of a ledger, the ledger, and whether it is that of a holdout."""
    where = find_ledger(source)
    account = _open_existing(where)
    try:
        yield where, account, "holdout" in json.loads(account.terms.card)
    finally:
        account.close()


@contextmanager
def open_view(source: str) -> "Iterator[LedgerView]":
    """Yield a view of a ledger without its data."""
    from holdtrue.curator.answer_index import AnswerIndex
    from holdtrue.planning.plans import read_plan
    from holdtrue.queries.cards import Card

    where = find_ledger(source)
    account = _open_existing(where)
    try:
        index = AnswerIndex(account)
        index.follow()
        document = json.loads(account.terms.card)
        if "holdout" in document:
            message = f"{hide_password(where)} is the ledger of a holdout; use `holdtrue score` or `holdtrue verify`"
            raise RequestError(message)
        yield LedgerView(where, account, read_plan(account.terms.plan), convert(document, Card), index)
    finally:
        account.close()


def check_spark(
    engine: str, *, master: str | None, cluster: str | None, row_key: str | None, insecure: bool
) -> SparkSettings | None:
    """Return the settings for Spark, None for data that this machine reads."""
    given = {"master": master, "cluster": cluster, "row_key": row_key, "insecure_cluster": insecure or None}
    said: SparkSettings = {name: value for name, value in given.items() if value is not None}
    if engine != "spark":
        if said:
            raise InvalidParameter(next(iter(said)), next(iter(said.values())), "left out without --engine spark")
        return None
    if "cluster" in said:
        said["cluster"] = str(Path(said["cluster"]).absolute())
    return said


def keep_spark(where: str, settings: SparkSettings | None) -> None:
    """Keep the settings for Spark in a file beside the ledger."""
    _keep_beside(where, _SPARK, settings, "How Spark reads the data of this ledger.")


def keep_tables(where: str, tables: dict[str, str], *, on_spark: bool = False) -> None:
    """Keep where the tables of units are in a file beside the ledger; names of Spark's catalogue as they are."""
    absolute = {
        name: path if "://" in path or (on_spark and not Path(path).exists()) else str(Path(path).absolute())
        for name, path in tables.items()
    }
    _keep_beside(where, _TABLES, absolute or None, "The tables with the rows of this ledger's units.")


def read_tables(given: list[str]) -> dict[str, str]:
    """Return tables by name, of NAME=FILE each."""
    found = dict(each.partition("=")[::2] for each in given)
    if len(found) < len(given) or not all(name.isidentifier() and path for name, path in found.items()):
        raise InvalidParameter("table", given, "NAME=FILE, such as visits=visits.csv, each name once")
    return found


def _keep_beside(where: str, suffix: str, settings: SparkSettings | None, title: str) -> None:
    if settings is not None and "://" not in where:
        lines = [f"# {title}\n", *(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())]
        Path(f"{where}{suffix}").write_text("".join(lines), encoding="utf-8")


def _read_kept(where: str, suffix: str) -> SparkSettings | None:
    """Return what is kept beside a ledger: settings for Spark, or the tables of units; None where there is nothing."""
    place = Path(f"{where}{suffix}")
    if "://" in where or not place.exists():
        return None
    try:
        return tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        message = f"{place} is not valid TOML"
        raise RequestError(message) from None


@contextmanager
def read_rows(
    data: str, settings: SparkSettings | None, tables: Mapping[str, str]
) -> Iterator[tuple[object, dict[str, object]]]:
    """Yield data and tables unchanged, or as Spark reads them, in a session that ends here unless it was running before."""
    if settings is None:
        yield data, dict(tables)
        return
    from holdtrue.engines.spark import Cluster, SparkRows, find_session, start

    given: SparkSettings = {"insecure_cluster": True} if settings.get("insecure_cluster") else {}
    given |= {"master": settings["master"]} if "master" in settings else {}
    cluster = Cluster.read(settings["cluster"], **given) if "cluster" in settings else Cluster(**given)
    own = find_session() is None
    session = start(cluster)
    try:
        read = partial(SparkRows, session=session, insecure_cluster=cluster.insecure_cluster, wait=cluster.wait)
        yield read(data, key=settings.get("row_key")), {name: read(table) for name, table in tables.items()}
    finally:
        if own:
            session.stop()

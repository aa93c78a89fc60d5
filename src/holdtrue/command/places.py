"""Where a subcommand finds the data and the ledger, and how it opens them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdtrue.codec import convert
from holdtrue.command.clusters import ledger_beside, remembered, spark_rows
from holdtrue.command.talking import TICKER, printable, watched
from holdtrue.errors import InvalidParameter, RefusedError, RequestError, UnknownName

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.curator.answer_index import AnswerIndex
    from holdtrue.curator.budget import Budget, Preview
    from holdtrue.ledgers import Account
    from holdtrue.planning import AnyPlan
    from holdtrue.queries.cards import Card

__all__ = [
    "LEDGER",
    "Data",
    "Desk",
    "LedgerOption",
    "Source",
    "check_data",
    "check_free",
    "desk_of",
    "ledger_of",
    "opened",
    "shown",
]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="The data: a Parquet, CSV or JSON file, or a quoted pattern: 'parts/*.csv'; "
        "a table or a path of Spark's where they were opened with it.",
    ),
]
Source = Annotated[
    str, typer.Argument(metavar="LEDGER", help="The ledger, or the data beside which it lies. No rows are read.")
]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="LEDGER",
        help="The ledger, which keeps account of all that is asked: a file, or a PostgreSQL address. Without it: the file "
        "beside the data that has their name and ends in .ledger.",
    ),
]
LEDGER = None

_DATA = re.compile(r"\.(parquet|pq|csv|tsv|txt|json|jsonl|ndjson)(\.gz)?$", re.IGNORECASE)
_PATTERN = re.compile(r"[*?\[]")
_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")


def ledger_of(source: str, ledger: str | None = None) -> str:
    """Return where the ledger is: as said, or beside the data, or the source itself where it does not look like data."""
    if ledger is not None:
        return ledger
    if "://" in source or not _DATA.search(source):
        return source
    if _PATTERN.search(source) and not Path(source).exists():
        raise InvalidParameter("ledger", source, "named, where the data are several files")
    return _DATA.sub(".ledger", source)


def check_data(data: str) -> None:
    """Say that a file is missing before anything is said of its ledger."""
    if not _PATTERN.search(data) and not Path(data).exists():
        message = f"{printable(data)}: no such file on this machine"
        raise RequestError(message)


def shown(where: str) -> str:
    """Return where a ledger is, without the password of an address."""
    return printable(_PASSWORD.sub(r"\1:…@", where))


def _existing(where: str) -> "Account":
    from holdtrue.ledgers import open_ledger

    try:
        return open_ledger(where)
    except UnknownName:
        message = f"there is no ledger at {shown(where)}; `holdtrue open` creates one, --ledger names another"
    raise UnknownName(message)


def check_free(where: str) -> None:
    """Refuse a place that has a ledger already."""
    try:
        _existing(where).close()
    except UnknownName:
        return
    message = f"there is a ledger at {shown(where)} already; ask under it, or name another place with --ledger"
    raise RefusedError(message)


@contextmanager
def opened(data: str, ledger: str | None) -> "Iterator[Curator]":
    """Yield a curator of data that have a ledger already."""
    named = ledger is not None or not ("://" in data or _PATTERN.search(data))
    spark = remembered(ledger_beside(data, ledger)) if named else None
    if spark is None:
        check_data(data)
    where = ledger_of(data, ledger) if spark is None else ledger_beside(data, ledger)
    _existing(where).close()
    reader: Any = nullcontext(data) if spark is None else spark_rows(data, spark)
    with reader as rows:
        with watched(f"reading {data}"):
            from holdtrue.curator import Curator

            curator = Curator(rows, ledger=where, progress=TICKER)
        with curator:
            yield curator


@dataclass(frozen=True, slots=True, eq=False)
class Desk:
    """What the ledger alone can tell: plan, card, budget and history need no rows."""

    where: str
    ledger: "Account"
    plan: "AnyPlan"
    card: "Card"
    register: "AnswerIndex"

    @property
    def budget(self) -> "Budget":
        """Return what is spent and what is left, over all analysts."""
        from holdtrue.curator.budget import budget_of

        limit, register = self.ledger.terms.filter, self.register
        return budget_of(self.plan, limit, spent=self.ledger.spent, draws=register.draws, other=register.other_cost)

    def preview(self, text: str) -> "Preview":
        """Return what a question would cost and how wide its answer would be."""
        from holdtrue.curator.budget import preview_of
        from holdtrue.queries.parsing import parse
        from holdtrue.verbs.asking import part_of

        query = parse(text, self.card)
        repeated = self.register.has(part_of(query))
        return preview_of(query, self.plan, draws=self.register.draws, spent=self.ledger.spent, repeated=repeated)


@contextmanager
def desk_of(source: str) -> "Iterator[Desk]":
    """Yield what a ledger tells without the data."""
    from holdtrue.curator.answer_index import AnswerIndex
    from holdtrue.planning import read_plan
    from holdtrue.queries.cards import Card

    where = ledger_of(source)
    account = _existing(where)
    try:
        register = AnswerIndex(account)
        register.follow()
        document = json.loads(account.terms.card)
        if "holdout" in document:
            message = f"{shown(where)} is the ledger of a holdout: look at it with holdtrue score, or verify it"
            raise RequestError(message)
        plan, card = read_plan(account.terms.plan), convert(document, Card)
        yield Desk(where, account, plan, card, register)
    finally:
        account.close()

"""``holdtrue budget``, ``history``, ``verify`` and ``report``: what is in a ledger. None of them reads a row."""

import json
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.command.output import (
    Json,
    check_page,
    count_units,
    print_json,
    print_lines,
    print_table,
    show_progress,
    write_file,
)
from holdtrue.command.paths import Source, find_ledger, hide_password, name_missing, open_existing, open_view
from holdtrue.errors import InvalidParameter

if TYPE_CHECKING:
    from holdtrue.curator.history import Line
    from holdtrue.ledgers import Ledger

__all__ = ["budget", "history", "read_receipt", "report", "verify"]

_RECEIPT = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


def budget(source: Source, *, as_json: Json = False) -> None:
    """Show what is spent and what is left, over all analysts; of a holdout, how many looks and how wide they are.

    Costs nothing.
    """
    with open_existing(source) as (where, ledger, is_holdout):
        if is_holdout:
            _show_looks(where, ledger, as_json=as_json)
            return
    with open_view(source) as view:
        found, plan = view.budget, view.plan
    if as_json:
        numbers = {name: getattr(found, name) for name in ("unit", "cap", "spent", "left", "asks", "reserve")}
        if found.purse is not None:
            numbers |= {"purse": found.purse, "reserve_unit": found.reserve_unit}
        print_json(numbers | {"queries": plan.queries, "epsilon": plan.epsilon, "delta": plan.delta})
        return
    share = f" ({found.spent / found.cap:.1%})" if found.cap else ""
    lines = [
        ("questions", f"{found.asks:,} of {plan.queries:,} left"),
        ("spent", f"{found.spent:.4g} of {found.cap:.4g} {found.unit}{share}"),
        ("reserve", f"{count_units(found.reserve, found.reserve_unit)} left to select, learn and predict"),
    ]
    if plan.epsilon is not None:
        slack = f", delta {plan.delta:.3g}" if plan.delta else ""
        lines.append(("privacy", f"epsilon {plan.epsilon:.4g}{slack}, for everything that can ever be asked"))
    print_lines(hide_password(view.where), lines)


def _show_looks(where: str, ledger: "Ledger", *, as_json: bool) -> None:
    """Print what a holdout may still tell."""
    from holdtrue.holdouts.ledger_views import read_budget

    found = read_budget(ledger)
    if as_json:
        print_json(found)
        return
    print_lines(hide_password(where), found.list_facts().items())


def history(source: Source, *, as_json: Json = False) -> None:
    """Show every charge and its response, oldest first."""
    from holdtrue.curator.history import history_of
    from holdtrue.exact import amount
    from holdtrue.holdouts.ledger_views import list_looks

    with open_existing(source) as (_, ledger, is_holdout):
        lines = list_looks(ledger) if is_holdout else history_of(ledger)
        shared = not is_holdout and ledger.terms.purse is None
        cap = amount(ledger.terms.cap) if shared else 0.0  # of two purses, either may have paid
    if as_json:
        print_json({"history": lines})
    elif lines:
        heads = ("entry", "time", "analyst", "verb", "request", "response", "cost")
        print_table(heads, (row for line in lines for row in _list_rows(line, cap)), right=("entry", "cost"))
    else:
        typer.echo("nothing has been asked yet", err=True)


def verify(
    source: Source,
    *,
    receipt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENTRY:DIGEST",
            help="A receipt that was kept; may be repeated. Without the newest one, entries "
            "cut off at the end go unnoticed.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute a ledger from its first entry to its last, and compare it with receipts."""
    from holdtrue.exact import amount
    from holdtrue.ledgers import verify as recompute

    receipts = [read_receipt(text) for text in receipt or ()]
    where = find_ledger(source)
    with name_missing(where), show_progress(f"recomputing {hide_password(where)}"):
        found = recompute(where, receipts=receipts)
    newest = f"{found.entries}:{found.head}"
    spent, left = amount(found.spent), amount(found.left)
    if as_json:
        counted: dict[str, object] = {"entries": found.entries, "charges": found.charges, "spent": spent, "left": left}
        if found.purse is not None:
            names = ("currency", "spent", "left")
            counted["purse"] = dict(zip(names, (found.purse[0], *map(amount, found.purse[1:])), strict=True))
        print_json({"whole": True, "ledger_id": found.ledger_id} | counted | {"receipt": newest, "compared": len(receipts)})
        return
    shown = f"{spent:.4g}, {left:.4g} left"
    with open_existing(source) as (_, ledger, is_holdout):
        if is_holdout and not json.loads(ledger.terms.card)["holdout"]["private"]:
            shown = f"{found.spent:,} of {found.spent + found.left:,} looks"  # a look is one unit there
    compared = f"with {len(receipts)} receipt{'s' * (len(receipts) != 1)}"
    lines = [
        ("whole", f"{found.entries:,} entries, {found.charges:,} of them charges"),
        ("compared", compared if receipts else "with no receipt; give --receipt to detect a rollback"),
        ("spent", shown),
    ]
    if found.purse is not None:
        currency, *totals = found.purse
        lines.append(("purse", f"{count_units(amount(totals[0]), currency)} spent, {amount(totals[1]):.4g} left"))
    print_lines(hide_password(where), [*lines, ("receipt", newest)])


def report(
    source: Source,
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="The file to write.")],
    *,
    title: Annotated[str | None, typer.Option(help="The title. Default: the name of the ledger.")] = None,
    as_json: Json = False,
) -> None:
    """Write a page with the promises, the questions and answers, and their costs.

    It contains only what was already released.
    """
    from holdtrue.curator.history import history_of
    from holdtrue.holdouts.ledger_views import make_report
    from holdtrue.reports import html_report

    check_page("OUT.html", out)
    with open_existing(source) as (where, ledger, is_holdout):
        name, lines = title or Path(hide_password(where)).stem, history_of(ledger)
        page = make_report(ledger, title=name) if is_holdout else None
    if page is None:
        with open_view(source) as view:
            page = html_report(
                title=name,
                plan=view.plan,
                budget=view.budget,
                history=lines,
                receipt=view.ledger.head,
                columns=view.card.list_columns(),
                population=view.card.population,
            )
    write_file("OUT.html", out, page)
    if as_json:
        print_json({"report": str(out), "charges": len(lines)})


def read_receipt(text: str) -> tuple[int, str]:
    """Return a receipt read from its printed form: an entry's number and digest."""
    found = _RECEIPT.fullmatch(text.strip())
    if found is None:
        raise InvalidParameter("--receipt", text, "an entry's number, a colon and 64 hexadecimal digits")
    return int(found[1]), found[2]


def _list_rows(line: "Line", cap: float) -> Iterator[tuple[str, ...]]:
    """Yield a row for each response to a charge; what they share is in the first row, the cost in percent of a cap."""
    from holdtrue.reports import questions_of

    responses = [response.brief for response in line.responses] or [f"charged, {line.told}" if line.cost else line.told]
    shared = (str(line.entry), f"{line.time:%Y-%m-%d %H:%M}", line.analyst, line.verb)
    cost = f"{100 * line.cost / cap:.2g}%" if cap else f"{line.cost:.3g}"
    for number, (question, response) in enumerate(zip_longest(questions_of(line), responses, fillvalue="")):
        first = not number
        yield *(shared if first else ("",) * len(shared)), question, response, cost if first else ""

"""``holdtrue budget``, ``history``, ``verify`` and ``report``: what a ledger tells. None of them reads a row."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.command.places import Source, desk_of, ledger_of, shown
from holdtrue.command.showing import JSON, Json, print_json
from holdtrue.command.talking import print_lines, print_table, watched
from holdtrue.errors import InvalidParameter, UnknownName

if TYPE_CHECKING:
    from holdtrue.curator.history import Line

__all__ = ["budget", "history", "receipt_of", "report", "verify"]

_RECEIPT = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
_PAGES = (".html", ".htm")


def budget(source: Source, *, as_json: Json = JSON) -> None:
    """Show what is spent and what is left, over all analysts."""
    with desk_of(source) as desk:
        found, plan = desk.budget, desk.plan
    if as_json:
        numbers = {name: getattr(found, name) for name in ("unit", "cap", "spent", "left", "asks", "reserve")}
        print_json(numbers | {"queries": plan.queries, "epsilon": plan.epsilon, "delta": plan.delta})
        return
    share = f" ({found.spent / found.cap:.1%})" if found.cap else ""
    lines = [
        ("questions", f"{found.asks:,} of {plan.queries:,} left"),
        ("spent", f"{found.spent:.4g} of {found.cap:.4g} {found.unit}{share}"),
        ("reserve", f"{found.reserve:.3g} {found.unit} left to select, learn and predict"),
    ]
    if plan.epsilon is not None:
        slack = f", delta {plan.delta:.3g}" if plan.delta else ""
        lines.append(("privacy", f"epsilon {plan.epsilon:.4g}{slack}, for all that can ever be asked"))
    print_lines(shown(desk.where), lines)


def history(source: Source, *, as_json: Json = JSON) -> None:
    """Show every charge and what came back, oldest first."""
    from holdtrue.curator.history import history_of

    with desk_of(source) as desk:
        lines = history_of(desk.ledger)
    if as_json:
        print_json({"history": lines})
    elif lines:
        heads = ("entry", "time", "analyst", "verb", "request", "response", "cost")
        print_table(heads, (row for line in lines for row in _rows(line)), right=("entry", "cost"))
    else:
        typer.echo("nothing was asked yet", err=True)


def verify(
    source: Source,
    *,
    receipt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENTRY:DIGEST",
            help="A receipt that was kept; may be repeated. Without the newest one, entries "
            "that were cut off at the end cannot be missed.",
        ),
    ] = None,
    as_json: Json = JSON,
) -> None:
    """Recompute a ledger from its first entry to its last, and compare it with receipts."""
    from holdtrue.accounting.filters import amount
    from holdtrue.ledgers import verify as recompute

    receipts = [receipt_of(text) for text in receipt or ()]
    where = ledger_of(source)
    try:
        with watched(f"recomputing {shown(where)}"):
            found = recompute(where, receipts=receipts)
        missing = None
    except UnknownName:
        missing = f"there is no ledger at {shown(where)}"
    if missing is not None:
        raise UnknownName(missing)
    newest = f"{found.entries}:{found.head}"
    spent, left = amount(found.spent), amount(found.left)
    if as_json:
        counted = {"entries": found.entries, "charges": found.charges, "spent": spent, "left": left}
        print_json({"whole": True, "ledger_id": found.ledger_id} | counted | {"receipt": newest, "compared": len(receipts)})
        return
    lines = [
        ("whole", f"{found.entries:,} entries, {found.charges:,} of them charges"),
        (
            "compared",
            f"with {len(receipts)} receipt{'s' * (len(receipts) != 1)}"
            if receipts
            else "with no receipt: give --receipt to notice a roll-back",
        ),
        ("spent", f"{spent:.4g}, {left:.4g} left"),
        ("receipt", newest),
    ]
    print_lines(shown(where), lines)


def report(
    source: Source,
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="The file to write.")],
    *,
    title: Annotated[str | None, typer.Option(help="A title; without it, the name of the ledger.")] = None,
    as_json: Json = JSON,
) -> None:
    """Write a page of what is promised, what was asked and answered, and what it cost.

    It holds no more than what was answered already.
    """
    from holdtrue.curator.history import history_of
    from holdtrue.reports import html_report

    if out.suffix.lower() not in _PAGES:
        raise InvalidParameter("OUT.html", str(out), f"a file that ends in {' or '.join(_PAGES)}")
    with desk_of(source) as desk:
        lines = history_of(desk.ledger)
        page = html_report(
            title=title or Path(shown(desk.where)).stem,
            plan=desk.plan,
            budget=desk.budget,
            history=lines,
            receipt=desk.ledger.head,
            columns=[(column.name, column.type) for column in desk.card.columns],
        )
    try:
        out.write_text(page, encoding="utf-8")
        reason = None
    except OSError as error:
        reason = error.strerror
    if reason is not None:
        raise InvalidParameter("OUT.html", str(out), f"a file that can be written ({reason})")
    if as_json:
        print_json({"report": str(out), "charges": len(lines)})
    typer.echo(f"wrote {out}", err=True)


def receipt_of(text: str) -> tuple[int, str]:
    """Return a receipt from how it is printed: an entry's number and digest."""
    found = _RECEIPT.fullmatch(text.strip())
    if found is None:
        raise InvalidParameter("--receipt", text, "the number of an entry, a colon and 64 hexadecimal digits")
    return int(found[1]), found[2]


def _rows(line: "Line") -> Iterator[tuple[str, ...]]:
    """Yield a row for each response to a charge; what they share stands in the first."""
    from holdtrue.reports import questions_of

    responses = [response.brief for response in line.responses] or ["charged, not answered"]
    shared = (str(line.entry), f"{line.time:%Y-%m-%d %H:%M}", line.analyst, line.verb)
    for number, (question, response) in enumerate(zip_longest(questions_of(line), responses, fillvalue="")):
        first = not number
        yield *(shared if first else ("",) * len(shared)), question, response, f"{line.cost:.3g}" if first else ""

"""``holdtrue audit``: this installation against its own claims, and a ledger against what it should hold."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.command.places import Source, ledger_of, shown
from holdtrue.command.reviewing import receipt_of
from holdtrue.command.showing import JSON, Json, print_json
from holdtrue.command.talking import TICKER, print_lines, print_table, watched
from holdtrue.errors import IntegrityError, InvalidParameter, UnknownName

if TYPE_CHECKING:
    from holdtrue.auditing.galleries import Judged

__all__ = ["CONFIDENCE", "NOT_FOUND", "application"]

application = typer.Typer(
    name="audit", help="Try to break what Holdtrue claims, and say how hard it was tried.", no_args_is_help=True
)

_PAGES = (".html", ".htm")
_HEADS = ("mechanism", "claimed", "at delta", "lower bound", "ceiling", "samples", "power", "verdict")
_NUMBERS = ("claimed", "at delta", "lower bound", "ceiling", "samples", "power")
CONFIDENCE = 0.999999
"""Of all bounds of a self-audit at once: one run in a million may call a right claim wrong."""
_USUAL = 0.95
NOT_FOUND = 7
"""The exit code where no promise is broken and a control was not found."""


@application.command(name="self")
def audit_self(
    *,
    samples: Annotated[
        int,
        typer.Option(
            min=2000, help="Runs on each of two neighbours; more where a fault needs more, fewer where it is slow."
        ),
    ] = 10**5,
    confidence: Annotated[float, typer.Option(help="That every lower bound in the table holds, all at once.")] = CONFIDENCE,
    page: Annotated[Path | None, typer.Option("--html", metavar="OUT.html", help="Write a page with plots as well.")] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NAME", help='Audit what has this name, or is in this room; or "controls".')
    ] = None,
    as_json: Json = JSON,
) -> None:
    """Audit Holdtrue's mechanisms and verbs, and the auditor itself on mechanisms that are known to be broken.

    Exits with 5 if a right claim is violated; otherwise with 7 if a control, which is known to be broken, is not found: the
    audit had no power for it. Exits with 0 if every claim holds and every control is found.
    """
    from holdtrue.auditing.galleries import judge, rooms
    from holdtrue.exact import probability

    sure = float(probability("--confidence", confidence))
    if page is not None and page.suffix.lower() not in _PAGES:
        raise InvalidParameter("--html", str(page), f"a file that ends in {' or '.join(_PAGES)}")
    hung = rooms(only=only)
    start = time.perf_counter()
    with watched(f"auditing {len(hung)} mechanisms"):
        judged = list(judge(hung, samples=samples, confidence=sure, tick=TICKER))
    seconds = time.perf_counter() - start
    if page is not None:
        _write(page, judged, confidence=sure, seconds=seconds)
    violated, missed = ([each.exhibit.name for each in judged if each.verdict == word] for word in ("violated", "not found"))
    if as_json:
        told = [each.document for each in judged]
        verdict = {"as_expected": not violated + missed, "violated": violated, "not_found": missed}
        print_json({"confidence": sure} | verdict | {"findings": told})
    else:
        _print(judged, seconds, confidence=sure)
    if missed:
        typer.echo(f"not found, so that this audit has no power for it: {', '.join(missed)}", err=True)
    if violated:
        message = f"{len(violated)} of {len(judged)} claims are violated that should hold: {', '.join(violated)}"
        raise IntegrityError(message)
    if missed:
        raise typer.Exit(NOT_FOUND)


@application.command(name="ledger")
def audit_a_ledger(
    source: Source,
    *,
    receipt: Annotated[
        list[str] | None, typer.Option(metavar="ENTRY:DIGEST", help="A receipt that was kept; may be repeated.")
    ] = None,
    as_json: Json = JSON,
) -> None:
    """Recompute a ledger and compare what it was charged with what it let out. Exits with 5 where something is wrong."""
    from holdtrue.auditing.ledgers import audit_ledger

    where, kept = ledger_of(source), [receipt_of(text) for text in receipt or ()]
    missing = None
    try:
        with watched(f"auditing {shown(where)}"):
            found = audit_ledger(where, receipts=kept)
    except UnknownName:
        missing = f"there is no ledger at {shown(where)}"
    if missing is not None:
        raise UnknownName(missing)
    if as_json:
        print_json(found.document)
    else:
        print_lines(shown(where), found.lines())
    if found.violated:
        raise IntegrityError(found.sentence)


def _print(judged: "Sequence[Judged]", seconds: float, *, confidence: float) -> None:
    from holdtrue.auditing.galleries import deviations

    for room in dict.fromkeys(each.room for each in judged):
        typer.echo(f"{room}\n")
        print_table(_HEADS, (_row(each) for each in judged if each.room == room), right=_NUMBERS)
        typer.echo("")
    claims, controls = ([each for each in judged if each.control is wanted] for wanted in (False, True))
    if claims:
        typer.echo(f"{sum(each.rightly for each in claims)} of {len(claims)} claims hold")
    if controls:
        typer.echo(f"{sum(each.rightly for each in controls)} of {len(controls)} controls are found")
    far, usual = (deviations(len(judged), confidence=sure) for sure in (confidence, _USUAL))
    typer.echo(
        f"all bounds hold at once with confidence {confidence:.10g}: each lies {far:.1f} standard deviations below what was "
        f"counted ({usual:.1f} at {_USUAL}); {seconds:.0f} s"
    )


def _row(judged: "Judged") -> tuple[str, ...]:
    exhibit, found = judged.exhibit, judged.finding
    return (
        exhibit.name,
        f"{found.claimed:.4g}",
        f"{found.delta:.3g}" if found.delta else "",
        f"{found.lower_bound:.4f}",
        "" if exhibit.ceiling is None else f"{exhibit.ceiling:.4g}",
        f"{found.samples:,}",
        judged.shown_power,
        judged.verdict if judged.rightly else judged.verdict.upper(),
    )


def _write(path: Path, judged: "Sequence[Judged]", *, confidence: float, seconds: float) -> None:
    from holdtrue.auditing.pages import audit_page, drawn_curves

    with watched("drawing curves"):
        page = audit_page(judged, curves=drawn_curves(tick=TICKER), confidence=confidence, seconds=seconds)
    try:
        path.write_text(page, encoding="utf-8")
        reason = None
    except OSError as error:
        reason = error.strerror
    if reason is not None:
        raise InvalidParameter("--html", str(path), f"a file that can be written ({reason})")
    typer.echo(f"wrote {path}", err=True)

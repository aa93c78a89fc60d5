"""``holdtrue audit``: test this installation against its own claims, and a ledger against its rules."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdtrue.command.history import read_receipt
from holdtrue.command.output import TICKER, Json, check_page, print_json, print_lines, print_table, show_progress, write_file
from holdtrue.command.paths import Source, find_ledger, hide_password, name_missing
from holdtrue.errors import IntegrityError

if TYPE_CHECKING:
    from holdtrue.auditing.catalogue import AuditResult

__all__ = ["CONFIDENCE", "NOT_FOUND", "application"]

application = typer.Typer(
    name="audit", help="Try to disprove Holdtrue's claims, and report how hard it tried.", no_args_is_help=True
)

_HEADS = ("mechanism", "claimed", "at delta", "lower bound", "ceiling", "samples", "power", "verdict")
_NUMBERS = ("claimed", "at delta", "lower bound", "ceiling", "samples", "power")
CONFIDENCE = 0.999999
"""Of all bounds of a self-audit together: one run in a million may report a true claim as violated."""
_USUAL = 0.95
NOT_FOUND = 7
"""The exit code if no claim is violated but a control was not found."""


@application.command(name="self")
def audit_self(
    *,
    samples: Annotated[
        int,
        typer.Option(
            min=2000, help="Runs on each of two neighbouring datasets; more if a fault needs more, fewer if it is slow."
        ),
    ] = 10**5,
    confidence: Annotated[
        float, typer.Option(help="Confidence that all lower bounds in the table hold together.")
    ] = CONFIDENCE,
    page: Annotated[Path | None, typer.Option("--html", metavar="OUT.html", help="Also write a page with plots.")] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NAME", help='Audit only the mechanism or group of this name, or "controls".')
    ] = None,
    as_json: Json = False,
) -> None:
    """Audit Holdtrue's mechanisms and verbs, and the auditor itself on controls: mechanisms known to be broken.

    Exits with 5 if a claim is violated, with 7 if no claim is violated but a control is not found, so that the audit lacks
    power, and with 0 if every claim holds and every control is found.
    """
    from holdtrue.auditing.catalogue import audit_all, list_mechanisms
    from holdtrue.exact import probability

    sure = float(probability("--confidence", confidence))
    if page is not None:
        check_page("--html", page)
    mechanisms = list_mechanisms(only=only)
    start = time.perf_counter()
    with show_progress(f"auditing {len(mechanisms)} mechanisms"):
        results = list(audit_all(mechanisms, samples=samples, confidence=sure, tick=TICKER))
    seconds = time.perf_counter() - start
    if page is not None:
        from holdtrue.auditing.catalogue import audit_page, prove_curves

        with show_progress("drawing curves"):
            text = audit_page(results, curves=prove_curves(tick=TICKER), confidence=sure, seconds=seconds)
        write_file("--html", page, text)
    violated, missed = (
        [each.mechanism.name for each in results if each.verdict == word] for word in ("violated", "not found")
    )
    if as_json:
        verdict = {"as_expected": not violated + missed, "violated": violated, "not_found": missed}
        print_json({"confidence": sure} | verdict | {"findings": [each.document for each in results]})
    else:
        _print_results(results, seconds, confidence=sure)
    if missed:
        typer.echo(f"not found, so this audit has no power for it: {', '.join(missed)}", err=True)
    if violated:
        message = f"{len(violated)} of {len(results)} claims are violated that should hold: {', '.join(violated)}"
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
    as_json: Json = False,
) -> None:
    """Recompute a ledger and compare its charges with what was released. Exits with 5 if something is wrong."""
    from holdtrue.auditing.ledger import audit_ledger

    where, kept = find_ledger(source), [read_receipt(text) for text in receipt or ()]
    with name_missing(where), show_progress(f"auditing {hide_password(where)}"):
        found = audit_ledger(where, receipts=kept)
    if as_json:
        print_json(found.document)
    else:
        print_lines(hide_password(where), found.lines())
    if found.violated:
        raise IntegrityError(found.sentence)


def _print_results(results: "Sequence[AuditResult]", seconds: float, *, confidence: float) -> None:
    from holdtrue.auditing.catalogue import count_deviations

    for group in dict.fromkeys(each.mechanism.group for each in results):
        typer.echo(f"{group}\n")
        print_table(_HEADS, (_list_cells(each) for each in results if each.mechanism.group == group), right=_NUMBERS)
        typer.echo("")
    for control, words in ((False, "claims hold"), (True, "controls are found")):
        chosen = [each.as_expected for each in results if each.control is control]
        if chosen:
            typer.echo(f"{sum(chosen)} of {len(chosen)} {words}")
    far, usual = (count_deviations(len(results), confidence=sure) for sure in (confidence, _USUAL))
    typer.echo(
        f"all bounds hold at once with confidence {confidence:.10g}: each lies {far:.1f} standard deviations below what was "
        f"counted ({usual:.1f} at {_USUAL}); {seconds:.0f} s"
    )


def _list_cells(result: "AuditResult") -> tuple[str, ...]:
    mechanism, found = result.mechanism, result.finding
    return (
        mechanism.name,
        f"{found.claimed:.4g}",
        f"{found.delta:.3g}" if found.delta else "",
        f"{found.lower_bound:.4f}",
        "" if mechanism.ceiling is None else f"{mechanism.ceiling:.4g}",
        f"{found.samples:,}",
        result.shown_power,
        result.verdict if result.as_expected else result.verdict.upper(),
    )

"""``holdtrue learn``: a hypothesis of a finite class, with its certificate."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdtrue.command.asking import Analyst, Key, paid_line, receipt_line
from holdtrue.command.places import LEDGER, Data, LedgerOption, opened
from holdtrue.command.showing import JSON, Json, print_json
from holdtrue.command.talking import print_lines, watched
from holdtrue.errors import InvalidParameter, RequestError

if TYPE_CHECKING:
    from holdtrue.hypotheses import HypothesisClass

__all__ = ["learn"]

_BOUNDED = re.compile(r"(.+)=([^=:]+):([^=:]+)", re.DOTALL)
_BOUNDS = "COLUMN=LOW:HIGH"

Bounded = Annotated[
    list[str] | None,
    typer.Option(
        "--stumps", metavar=_BOUNDS, help="One comparison of one column within public bounds; repeat for more columns."
    ),
]


def learn(
    data: Data,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The yes-or-no question to predict: 'income > 50000'.")],
    *,
    stumps: Bounded = None,
    intervals: Annotated[
        str | None, typer.Option(metavar=_BOUNDS, help="One column between two numbers, within public bounds.")
    ] = None,
    conjunctions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION", help="Yes-or-no columns or questions joined by AND, some negated; repeat for more."
        ),
    ] = None,
    trees: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help="Yes-or-no columns or questions for trees of depth 2; repeat for more."),
    ] = None,
    document: Annotated[
        Path | None, typer.Option("--class", metavar="FILE.json", help="Any class, as its document is written.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of a grid between the bounds.")] = 100,
    width: Annotated[int, typer.Option(help="The most literals of a conjunction.")] = 2,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy to spend on this pick. Without it: a share of the reserve.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="The excess error that the rows must certify; refused otherwise, at no cost.")
    ] = None,
    beta: Annotated[float | None, typer.Option(help="How often the certificate may fail; the plan's unless given.")] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Go on where the rows do not certify alpha.")] = False,
    key: Key = None,
    analyst: Analyst = None,
    ledger: LedgerOption = LEDGER,
    as_json: Json = JSON,
) -> None:
    """Learn the rule of a finite class that errs about as seldom as the best one, and say how far behind it may be.

    Bounds are public: choose them without looking at the rows. Several classes are joined.
    """
    classes = _classes(stumps, intervals, conjunctions, trees, document, steps=steps, width=width)
    with opened(data, ledger) as curator:
        with watched("scoring"):
            found = curator.learn(
                classes if len(classes) > 1 else classes[0],
                target=target,
                epsilon=epsilon,
                alpha=alpha,
                beta=beta,
                anyway=anyway,
                key=key,
                analyst=analyst,
            )
        if as_json:
            print_json(found)
            return
        lines = [
            ("learned", found.text),
            ("", found.behind if found.reason is None else f"{found.behind}; {found.reason}"),
            ("cost", paid_line(found.certificate, curator, repeated=found.repeated)),
            ("left", f"{curator.budget.reserve:.3g} {curator.budget.unit} for verbs other than ask"),
            ("receipt", receipt_line(found.certificate)),
        ]
        print_lines(target, lines)


def _classes(
    stumps: list[str] | None,
    intervals: str | None,
    conjunctions: list[str] | None,
    trees: list[str] | None,
    document: Path | None,
    *,
    steps: int,
    width: int,
) -> "list[HypothesisClass]":
    from holdtrue.hypotheses import Conjunctions, Intervals, Stumps, Trees, read_class

    found: list[Any] = []
    if stumps:
        found.append(Stumps(bounds={name: (low, high) for name, low, high in map(_bounded, stumps)}, steps=steps))
    if intervals is not None:
        name, low, high = _bounded(intervals)
        found.append(Intervals(low, high, steps=steps, column=name))
    if conjunctions:
        found.append(Conjunctions(conjunctions, width=min(width, len(conjunctions))))
    if trees:
        found.append(Trees(trees, depth=min(2, len(trees))))
    if document is not None:
        found.append(read_class(_read(document)))
    if not found:
        raise InvalidParameter("class", None, "given: --stumps age=0:120, --conjunctions smoker, or --class FILE.json")
    return found


def _bounded(text: str) -> tuple[str, float, float]:
    found = _BOUNDED.fullmatch(text)
    try:
        name, low, high = found.groups() if found is not None else ("", "", "")
        return name, float(low), float(high)
    except ValueError:
        raise InvalidParameter("bounds", text, f"{_BOUNDS}, such as age=0:120") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        reason = None if isinstance(found, dict) else "not a JSON object"
    except OSError as error:
        reason = error.strerror or "cannot be read"
    except ValueError:
        reason = "not JSON"
    if reason is not None:
        message = f"{path}: {reason}"
        raise RequestError(message)
    document: dict[str, Any] = found
    return document

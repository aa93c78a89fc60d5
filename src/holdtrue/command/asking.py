"""``holdtrue ask``, ``select`` and ``preview``: questions to data that were opened."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdtrue.command.places import LEDGER, Data, LedgerOption, Source, desk_of, opened
from holdtrue.command.showing import JSON, Json, print_json
from holdtrue.command.talking import print_lines, print_table, watched
from holdtrue.errors import InvalidParameter

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.queries.cards import Card
    from holdtrue.records import Answer, Certificate, Interval

__all__ = ["ask", "paid_line", "preview", "receipt_line", "select"]

Questions = Annotated[
    list[str],
    typer.Argument(
        metavar="QUESTION", help="In SQL, a condition: 'age > 65 AND smoker'; or a number from 0 to 1: 'age / 100'."
    ),
]
Key = Annotated[
    str | None, typer.Option(help="A name for this very request: sent again under the same name, it is paid for once.")
]
Analyst = Annotated[str | None, typer.Option(help="Who asks, for the ledger.")]

_CLAMPED = "the mean of a number: below 0 it counts as 0, above 1 as 1"
_CANDIDATE = re.compile(r"([^\s=<>!'\"()]+)=(?!=)(.+)", re.DOTALL)


def ask(
    data: Data,
    questions: Questions,
    *,
    key: Key = None,
    analyst: Analyst = None,
    ledger: LedgerOption = LEDGER,
    as_json: Json = JSON,
) -> None:
    """Ask which share of the rows meets a condition, or for the mean of a number from 0 to 1.

    Several questions at once are read in one pass. One that was asked before is answered from the ledger and costs nothing.
    """
    with opened(data, ledger) as curator:
        with watched("measuring"):
            answers = curator.ask(list(questions), key=key, analyst=analyst)
        if as_json:
            print_json(answers[0] if len(answers) == 1 else {"answers": answers})
        elif len(answers) == 1:
            _print_answer(questions[0], answers[0], curator)
        else:
            _print_answers(questions, answers, curator)


def select(
    data: Data,
    candidates: Annotated[
        list[str],
        typer.Argument(metavar="NAME=QUESTION", help="A candidate: \"north=region = 'N'\" \"south=region = 'S'\"."),
    ],
    *,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy to spend on this choice; the more, the surer. Without it: a share of the reserve."),
    ] = None,
    key: Key = None,
    analyst: Analyst = None,
    ledger: LedgerOption = LEDGER,
    as_json: Json = JSON,
) -> None:
    """Choose the candidate that most rows speak for, and say by how many rows the choice may miss the best."""
    named = _named(candidates)
    with opened(data, ledger) as curator:
        _check_columns(named, curator)
        with watched("measuring"):
            choice = curator.select(named, epsilon=epsilon, key=key, analyst=analyst)
        if as_json:
            print_json(choice)
            return
        certificate = choice.certificate
        lines = [
            ("chosen", choice.name),
            ("", f"at most {choice.shortfall:.4g} of {curator.card.rows:,} rows behind the best"),
            ("cost", paid_line(certificate, curator, repeated=choice.repeated)),
            ("left", f"{curator.budget.reserve:.3g} {curator.budget.unit} to select, learn and predict"),
            ("receipt", receipt_line(certificate)),
        ]
        print_lines(", ".join(named), lines)


def preview(source: Source, questions: Questions, *, as_json: Json = JSON) -> None:
    """Show what questions would cost and how wide their answers would be. Free; asks nothing."""
    with desk_of(source) as desk:
        previews = [desk.preview(question) for question in questions]
        unit, card = desk.budget.unit, desk.card
    if as_json:
        print_json(previews[0] if len(previews) == 1 else {"previews": previews})
        return
    for seen in previews:
        cost = "nothing: asked before" if seen.repeated else f"{seen.cost:.3g} {unit}; {seen.left:.3g} left"
        wide = "no interval: rows not declared independent draws" if seen.alpha is None else f"within {seen.alpha:.4g}"
        lines = [("population", wide), ("these rows", f"within {seen.sample_alpha:.4g}"), ("cost", cost)]
        print_lines(seen.text, lines + ([("note", _CLAMPED)] if _is_number(seen.text, card) else []))


def _is_number(question: str, card: "Card") -> bool:
    from holdtrue.queries.parsing import parse

    return not parse(question, card).boolean


def _named(candidates: list[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for candidate in candidates:
        found = _CANDIDATE.fullmatch(candidate)
        if found is None:
            raise InvalidParameter("candidate", candidate, "NAME=QUESTION, no space in the name or before the sign")
        name, query = found.groups()
        if name in named:
            raise InvalidParameter("candidate", name, "a name of its own, given once")
        named[name] = query
    return named


def _check_columns(named: dict[str, str], curator: "Curator") -> None:
    """Refuse what was meant as a condition and reads as a name and a constant: age=65."""
    from holdtrue.queries.parsing import parse

    for name, query in named.items():
        if not parse(query, curator.card).columns:
            expected = "NAME=QUESTION with a question about a column"
            raise InvalidParameter("candidate", f"{name}={query}", expected)


def _print_answer(question: str, answer: "Answer", curator: "Curator") -> None:
    lines = [
        ("answer", f"{answer.value:.4g}"),
        ("population", _ends(answer.interval) if answer.interval else f"no interval: {answer.reason}"),
        ("these rows", _ends(answer.sample_interval)),
        ("cost", paid_line(answer.certificate, curator, repeated=answer.repeated)),
        ("left", f"{curator.budget.asks:,} of {curator.plan.queries:,} questions"),
        ("receipt", receipt_line(answer.certificate)),
    ]
    print_lines(question, lines + ([("note", _CLAMPED)] if _is_number(question, curator.card) else []))


def _print_answers(questions: list[str], answers: "list[Answer]", curator: "Curator") -> None:
    rows: list[Any] = [
        (
            question,
            f"{answer.value:.4g}",
            _ends(answer.interval) if answer.interval else "no interval",
            _ends(answer.sample_interval),
            "nothing: asked before" if answer.repeated else "",
        )
        for question, answer in zip(questions, answers, strict=True)
    ]
    print_table(("question", "answer", "population", "these rows", "cost"), rows, right=("answer",))
    reasons = {answer.reason: None for answer in answers if answer.reason}
    fresh = {answer.certificate.entry: answer.certificate for answer in answers if not answer.repeated}
    lines = [("no interval", reason) for reason in reasons]
    lines += [("cost", paid_line(certificate, curator, repeated=False)) for certificate in fresh.values()]
    lines.append(("left", f"{curator.budget.asks:,} of {curator.plan.queries:,} questions"))
    kept = {answer.certificate.entry: receipt_line(answer.certificate) for answer in answers}
    print_lines("", lines + [("receipt", receipt) for receipt in kept.values()])


def _ends(interval: "Interval") -> str:
    return f"{interval.low:.4g} to {interval.high:.4g} ({100 * interval.confidence:.4g}%)"


def paid_line(certificate: "Certificate", curator: "Curator", *, repeated: bool) -> str:
    """Return what a response cost and what is left."""
    return (
        "nothing: asked before" if repeated else f"{certificate.cost:.3g} {curator.budget.unit}; {certificate.left:.3g} left"
    )


def receipt_line(certificate: "Certificate") -> str:
    """Return what to keep of a response: entry and digest."""
    return f"{certificate.entry}:{certificate.digest}"

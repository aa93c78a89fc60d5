"""``holdtrue score``: the results of an eval suite, scored on a holdout that counts its looks."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdtrue.command.asking import Analyst, receipt_line
from holdtrue.command.places import check_free, shown
from holdtrue.command.showing import JSON, Json, print_json
from holdtrue.command.talking import print_lines
from holdtrue.errors import (
    FingerprintMismatch,
    IntegrityError,
    InvalidParameter,
    PreconditionError,
    RefusedError,
    UnknownName,
)

if TYPE_CHECKING:
    from holdtrue.holdouts import Holdout, Score, Verdict
    from holdtrue.holdouts.names import Kept, Names
    from holdtrue.holdouts.results import Results
    from holdtrue.records import Answer

__all__ = ["score"]

_NOT_BETTER = 1
_ROUNDING = 1e-12


def score(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="Results by case id: .csv or .jsonl (id, score or passed), or JUnit .xml."),
    ],
    *,
    holdout: Annotated[str, typer.Option(metavar="LEDGER", help="The holdout's ledger, which counts the looks: a file.")],
    create: Annotated[
        bool, typer.Option("--create", help="Create the holdout with the ids of these results; refused if it exists.")
    ] = False,
    looks: Annotated[int | None, typer.Option(help="With --create: how many looks there will ever be.")] = None,
    beta: Annotated[
        float | None, typer.Option(help="With --create: how often any interval may fail; 0.05 unless given.")
    ] = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="With --create: declare that submissions are made without sight of the cases.")
    ] = False,
    yes: Annotated[
        int | None,
        typer.Option(
            help="With --create: a gate that says yes at most so often and shows no score; these are its incumbent."
        ),
    ] = None,
    margin: Annotated[float, typer.Option(help="On a gate: by how much more than the incumbent.")] = 0.0,
    name: Annotated[
        str | None, typer.Option(help="Remember this submission under a name; the last one of a name counts.")
    ] = None,
    submission: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="A public id of what was run, a commit say: the same id again is told the same, and is no look.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Exit with 0 if better than that submission, with 1 if not shown better."),
    ] = None,
    incumbent: Annotated[
        bool,
        typer.Option("--incumbent", help="On a gate: these are its incumbent's results, to be kept again; no look."),
    ] = False,
    confidence: Annotated[
        float | None, typer.Option(help="For --against: at most 1 - beta, which is what is used in any case.")
    ] = None,
    analyst: Analyst = None,
    as_json: Json = JSON,
) -> None:
    """Score the results of an eval suite; the interval holds for all looks of the holdout at once.

    The same outputs again, or the same --submission, are told the same and cost nothing; equal results are not known.

    A gate (--create --yes) exits with 0 for yes, with 1 for no.
    """
    from holdtrue.holdouts.results import read_results

    if not create and (unseen or (looks, beta, yes) != (None, None, None)):
        raise InvalidParameter("--looks", "given", "left out, with --beta, --yes and --unseen, but for --create")
    asked = _Asked(read_results(results), name, submission, against, confidence, margin, incumbent, analyst)
    made = {"looks": looks, "beta": beta, "yes": yes, "unseen": unseen} if create else None
    with _opened(asked, holdout, made) as held:
        gate = held.facts.mode in ("gate", "private gate")
        report = _gated(held, asked, holdout, created=create) if gate else _scored(held, asked, holdout)
    if as_json:
        print_json({"holdout": shown(holdout), "cases": asked.results.number} | report.document)
    else:
        print_lines(str(results), report.lines)
    if report.better is False:
        raise typer.Exit(_NOT_BETTER)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    results: "Results"
    name: str | None
    submission: str | None
    against: str | None
    confidence: float | None
    margin: float
    incumbent: bool
    analyst: str | None

    @property
    def known_as(self) -> str | None:
        """Return what is public and the same for the same submission: its id, or what it put out; results are neither."""
        if self.submission is not None or self.results.outputs is None:
            return self.submission
        return f"outputs {hashlib.sha256(' '.join(self.results.outputs).encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class _Report:
    """What is printed, and whether the submission is better: None where that was not asked."""

    lines: list[tuple[str, str]]
    document: dict[str, Any]
    better: bool | None = None


def _opened(asked: _Asked, where: str, made: dict[str, Any] | None, **given: object) -> "Holdout":
    """Return the holdout of these cases. A case is labelled 1, passed; only a new one is made, and only when told to."""
    import numpy as np

    from holdtrue.holdouts import Holdout

    results = asked.results
    if made is not None:
        check_free(where)
        if made["yes"] is not None:
            made = made | {"metric": "cases", "incumbent": results.values, "incumbent_name": asked.known_as}
    else:
        _check_known(where, results.number)
    passed = np.ones(results.number)
    try:
        return Holdout(passed, ids=results.ids, ledger=where, **(made or {}), **given)  # type: ignore[arg-type]  # by name
    except FingerprintMismatch:
        message = "these ids are not those that the holdout was created with; other cases need a holdout of their own"
    raise FingerprintMismatch(message)


def _check_known(where: str, cases: int) -> None:
    from holdtrue.holdouts.opening import stored_facts

    stored = stored_facts(where)
    if stored is None:
        message = f"there is no holdout at {shown(where)}; --create --looks N creates one"
        raise UnknownName(message)
    _, plan = stored
    if plan.rows != cases:
        message = f"these are {cases:,} cases; the holdout has {plan.rows:,}, and every look must be at all of them"
        raise FingerprintMismatch(message)


def _scored(held: "Holdout", asked: _Asked, where: str) -> _Report:
    results = asked.results
    names, before = _against(held, asked, where)
    found = held.score(cases=results.values, name=asked.known_as, analyst=asked.analyst)
    if asked.name is not None and names is not None:
        _remember(names, asked.name, results, found)
    lines = _lines(found)
    document: dict[str, Any] = {"score": found, "name": asked.name, "sentence": found.sentence}
    if before is None:
        return _Report(lines, document)
    said = _compared(held, asked, found, before)
    lines[-1:-1] = [("against", said.words(before.name))]
    document |= {"against": {"name": before.name} | said.document, "better": said.better}
    return _Report(lines, document, said.better)


def _lines(found: "Score") -> list[tuple[str, str]]:
    ends = found.interval
    width = (
        "none" if ends is None else f"{ends.low:.4f} to {ends.high:.4f} ({100 * ends.confidence:.4g}%), for {found.about}"
    )
    free = "; this one was free: scored before" if found.repeated else ""
    return [
        ("score", f"{found.value:.4f}"),
        ("interval", width),
        ("looks", f"{found.looks_left:,} of {found.looks:,} left{free}"),
        ("in words", found.sentence),
        ("receipt", receipt_line(found.certificate)),
    ]


def _against(held: "Holdout", asked: _Asked, where: str) -> "tuple[Names | None, Kept | None]":
    """Find the submission to compare with, and refuse what cannot be promised, before anything is charged."""
    from holdtrue.holdouts.names import Names

    sure = 1 - held.facts.beta
    if asked.confidence is not None and not 0 < asked.confidence <= sure + _ROUNDING:
        message = (
            f"--confidence must be above 0 and at most {sure:.4g}: this holdout was created with beta {held.facts.beta:.4g}"
        )
        raise PreconditionError(message)
    if asked.name is None and asked.against is None:
        return None, None
    names = Names(where)
    if asked.against is None:
        return names, None
    before = names.find(asked.against)
    if before is None:
        message = f"no submission is kept under the name {asked.against!r}; --name keeps one"
        raise UnknownName(message)
    return names, before


def _remember(names: "Names", name: str, results: "Results", found: "Score") -> None:
    from holdtrue.holdouts.names import Kept

    # Without outputs nothing but the scores can be compared, so single results are not kept.
    values = None if results.outputs is None else tuple(results.values.tolist())
    names.keep(Kept(name, found.certificate.entry, found.certificate.digest, values, results.outputs))


@dataclass(frozen=True, slots=True)
class _Compared:
    """What is known of the true difference: from two scores, which hold at once, or from a look of its own."""

    low: float
    high: float
    confidence: float
    about: str
    paired: bool
    looks_left: int

    @property
    def better(self) -> bool:
        return self.low > 0

    def words(self, name: str) -> str:
        verdict = "better" if self.better else "worse" if self.high < 0 else "not shown better"
        how = f"a paired look, {self.looks_left:,} left" if self.paired else "the two scores, no further look"
        ends = f"{self.low:+.4f} to {self.high:+.4f} ({100 * self.confidence:.4g}%), for {self.about}"
        return f"{verdict} than {name}: {ends}; by {how}"

    @property
    def document(self) -> dict[str, Any]:
        names = ("low", "high", "confidence", "about", "paired", "looks_left")
        return {name: getattr(self, name) for name in names}


def _compared(held: "Holdout", asked: _Asked, found: "Score", before: "Kept") -> _Compared:
    """Compare with a named submission: for nothing from the scores; by a look of its own if those leave it open.

    The look is taken only where equal outputs make it narrower than the scores are.
    """
    import numpy as np

    earlier = _earlier(held, before)
    if found.interval is None or earlier.interval is None:
        message = "a score without an interval cannot be compared"
        raise IntegrityError(message)
    low, high = found.interval.low - earlier.interval.high, found.interval.high - earlier.interval.low
    sure, outputs = found.interval.confidence, asked.results.outputs
    plain = _Compared(low, high, sure, found.about, paired=False, looks_left=found.looks_left)
    if low > 0 or high < 0 or not found.looks_left or outputs is None or before.outputs is None or before.values is None:
        return plain
    if len(before.outputs) != len(outputs) or len(before.values) != len(outputs):
        message = f"what is kept of {before.name!r} is about another number of cases"
        raise IntegrityError(message)
    differ = np.array(outputs) != np.array(before.outputs)
    if not differ.any() or held.paired_width(differ) >= high - low:
        return plain
    pair = None if asked.known_as is None else f"{asked.known_as} against {before.entry}"
    paired = held.compare_cases(asked.results.values, before.values, differ=differ, name=pair, analyst=asked.analyst)
    ends = paired.interval
    if ends is None:
        return plain
    return _Compared(ends.low, ends.high, sure, paired.about, paired=True, looks_left=paired.looks_left)


def _earlier(held: "Holdout", before: "Kept") -> "Answer":
    earlier = held.told(before.entry)
    if earlier is None or earlier.certificate.digest != before.digest:
        message = f"the ledger does not have the score that is kept as {before.name!r}"
        raise IntegrityError(message)
    return earlier


def _gated(held: "Holdout", asked: _Asked, where: str, *, created: bool) -> _Report:
    """Ask a gate. The results are kept before the look: a yes makes them what later submissions are compared with."""
    from holdtrue.entropy import SYSTEM
    from holdtrue.holdouts.names import Kept, Names

    if (asked.name, asked.against, asked.confidence) != (None, None, None):
        raise InvalidParameter("--name", "given", "left out, with --against and --confidence: a gate knows its incumbent")
    names, incumbent, results = Names(where), held.leading, asked.results.values
    public = asked.known_as or SYSTEM.words(4).tobytes().hex()
    name = held.named(cases=results, name=public)
    if incumbent is not None and (created or asked.incumbent or name == incumbent):
        if created or asked.incumbent or names.find(incumbent) is None:  # an id stands for what came with it first
            names.keep(Kept(incumbent, values=tuple(results.tolist())))
        return _seated(held, created=created)
    before = None if incumbent is None else names.find(incumbent)
    if before is None and incumbent is not None:
        message = f"the incumbent's results are not in {names.folder}; give them once more with --incumbent, then these"
        raise RefusedError(message)
    names.keep(Kept(name, values=tuple(results.tolist())))
    met = {} if before is None else {"incumbent": before.values, "incumbent_name": incumbent}
    with _opened(asked, where, None, **met) as gate:
        verdict = gate.gate(cases=results, margin=asked.margin, name=public, analyst=asked.analyst)
        leading = gate.leading
    for other in (name, incumbent):
        if other is not None and other != leading:
            names.forget(other)
    return _verdict(verdict)


def _seated(held: "Holdout", *, created: bool) -> _Report:
    ends, left = held.incumbent, held.looks_left
    words = "created: these results are the incumbent" if created else "no: these results are the incumbent's own"
    lines = [
        ("gate", words),
        ("incumbent", f"{ends.low:.4f} to {ends.high:.4f} ({100 * ends.confidence:.4g}%)"),
        ("looks", f"{left:,} of {held.facts.looks:,} left; this was none"),
    ]
    known = {"low": ends.low, "high": ends.high, "confidence": ends.confidence}
    document = {"yes": False, "sentence": words, "incumbent": known, "looks_left": left}
    return _Report(lines, document, better=None if created else False)


def _verdict(verdict: "Verdict") -> _Report:
    ends, gain = verdict.interval, verdict.gain
    lines = [
        ("gate", f"{'yes' if verdict.yes else 'no'}{': asked before' if verdict.repeated else ''}"),
        ("incumbent", f"{ends.low:.4f} to {ends.high:.4f} ({100 * ends.confidence:.4g}%), for {verdict.about}"),
        ("looks", f"{verdict.looks_left:,} left, {verdict.yes_left:,} yes left"),
        ("in words", verdict.sentence),
        ("receipt", receipt_line(verdict.certificate)),
    ]
    if gain is not None:
        lines.insert(1, ("gain", f"{gain.low:+.4f} to {gain.high:+.4f}, against the incumbent it met"))
    document = {"yes": verdict.yes, "verdict": verdict, "sentence": verdict.sentence}
    return _Report(lines, document, better=verdict.yes)

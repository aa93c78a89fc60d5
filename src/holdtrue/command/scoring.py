"""``holdtrue score``: score the results of an eval suite on a holdout that counts its looks."""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

import typer

from holdtrue.command.asking import print_receipt
from holdtrue.command.output import Json, print_json, print_lines
from holdtrue.command.paths import Analyst, check_free, hide_password, share_options
from holdtrue.errors import (
    InsufficientSamples,
    IntegrityError,
    InvalidParameter,
    PreconditionError,
    RefusedError,
    RequestError,
    UnknownName,
)

if TYPE_CHECKING:
    from holdtrue.holdouts import Holdout, Score, Verdict
    from holdtrue.holdouts.result_files import ResultChoice, Results
    from holdtrue.holdouts.submissions import Kept, Names
    from holdtrue.holdouts.terms import Facts
    from holdtrue.planning.plans import Plan
    from holdtrue.records import Interval

__all__ = ["CaseId", "ClusterOf", "ResultsFile", "certify_gate", "read_kept_cases", "score"]

_NOT_BETTER = 1
_NO_SCORE = "left out on a gate, which tells no score"
_ADDRESS = re.compile(r"(?P<service>https?://[^?#]+?)(?:/v1)?/holdouts/(?P<name>[a-z][a-z0-9_-]*)/?")
_ROUNDING = 1e-12


ResultsFile = Annotated[
    Path,
    typer.Argument(
        metavar="RESULTS",
        help="Results as an eval tool wrote them (inspect_ai, lm-evaluation-harness, Every Eval Ever, lighteval, HELM, "
        "promptfoo, OpenAI evals, DeepEval, JUnit), or CSV, JSON lines or Parquet with id and score or passed.",
    ),
]
CaseId = Annotated[str | None, typer.Option("--id", metavar="PATH", help="Where ids stand, if not where the tool has them.")]
ScoreOf = Annotated[
    str | None,
    typer.Option("--score", metavar="METRIC", help="The metric to take where there are several, or the path to a score."),
]
Where = Annotated[
    list[str] | None, typer.Option("--where", metavar="PATH=VALUE", help="Take only these: --where filter=strict-match.")
]
Scale = Annotated[str | None, typer.Option("--scale", metavar="LOW,HIGH", help="The range of the scores, if it is not 0,1.")]
OutputOf = Annotated[
    str | None,
    typer.Option("--output", metavar="PATH", help="Where outputs stand, for results known by them and for paired looks."),
]
ClusterOf = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="PATH", help="Where it stands what cases have in common, such as a document: it counts once."
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Only say how the file is read and how many cases it has. Costs no look.")
]
EveryEvalEver = Annotated[
    Path | None,
    typer.Option(
        "--write-every-eval-ever",
        metavar="FOLDER",
        help="Write the score and its interval as an aggregate of Every Eval Ever, under data/ in this folder.",
    ),
]
Model = Annotated[str | None, typer.Option(help="With --write-every-eval-ever: the model's id, developer/name.")]
HoldoutLedger = Annotated[
    str | None,
    typer.Option(
        metavar="LEDGER",
        help="The holdout's ledger, which counts the looks: a file, or the address of a service's holdout, "
        "https://HOST/holdouts/NAME, with the key in HOLDTRUE_KEY.",
    ),
]
Create = Annotated[
    bool, typer.Option("--create", help="Create the holdout with the ids of these results. Refused if it exists.")
]
Looks = Annotated[int | None, typer.Option(help="The total number of looks.")]
Beta = Annotated[float | None, typer.Option(help="The probability that any interval misses; 0.05 unless given.")]
Unseen = Annotated[bool, typer.Option("--unseen", help="Declare that submissions are made without seeing the cases.")]
Yes = Annotated[
    int | None,
    typer.Option(help="Make a gate that says yes at most this often and shows no scores. These results are its incumbent."),
]
Hits = Annotated[
    bool,
    typer.Option(
        "--hits",
        help="For a gate (--yes): results are right or wrong, and whatever is below 1 is wrong. With --unseen they are "
        "compared by exact pairs, which find smaller gains.",
    ),
]
Discordant = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE", help="For a gate (--yes): say which gain is found where two submissions differ in this share."
    ),
]
Private = Annotated[
    bool | None,
    typer.Option(
        "--private/--validity",
        help="Keep the cases private, or not; scores are private and a gate is not unless given.",
    ),
]
Epsilon = Annotated[float | None, typer.Option(help="The privacy of everything that is ever told.")]
Delta = Annotated[float | None, typer.Option(help="For full scores: the slack of that privacy.")]
Gain = Annotated[float | None, typer.Option(help="With --discordant: plan the gate's bets for this true gain.")]
Tells = Annotated[
    str | None,
    typer.Option(help="For a gate (--yes): tell a lower bound of every yes, 'bounds' with the yes or 'bounds at the end'."),
]
Margin = Annotated[
    float,
    typer.Option(
        help="On a gate: how much better than the incumbent a submission must be; below 0, how much worse it may be."
    ),
]
Markdown = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the outcome as Markdown as well, for a comment on a pull request."),
]
SubmissionName = Annotated[
    str | None, typer.Option("--name", help="Keep this submission under a name, replacing an earlier one of that name.")
]
SubmissionId = Annotated[
    str | None,
    typer.Option(
        "--submission",
        metavar="ID",
        help="A public id of what was run, such as a commit. The same id again gets the same answer and costs no look.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Compare with a kept submission: exit with 0 if better, with 1 if not shown better."),
]
Incumbent = Annotated[
    bool,
    typer.Option("--incumbent", help="On a gate: these are the incumbent's results, to be kept again; costs no look."),
]
Confidence = Annotated[
    float | None, typer.Option(help="For --against: at most 1 - beta, which is what is used in any case.")
]

_PANELS = {
    "How the file is read": (CaseId, ScoreOf, Where, Scale, OutputOf, ClusterOf, Check),
    "A new holdout (--create)": (Create, Looks, Yes, Beta, Unseen, Hits, Discordant, Gain, Tells, Private, Epsilon, Delta),
    "Files to write": (EveryEvalEver, Model, Markdown),
}
for _panel, _options in _PANELS.items():
    for _option in _options:
        get_args(_option)[1].rich_help_panel = _panel


@dataclass(frozen=True, slots=True)
class HoldoutOptions:
    """What is fixed when a holdout is created."""

    looks: Looks = None
    yes: Yes = None
    beta: Beta = None
    unseen: Unseen = False
    hits: Hits = False
    discordant: Discordant = None
    gain: Gain = None
    tells: Tells = None
    private: Private = None
    epsilon: Epsilon = None
    delta: Delta = None

    def read(self) -> dict[str, Any]:
        """Return them by name, None where nothing is said."""
        return asdict(self) | {"unseen": self.unseen or None, "hits": self.hits or None}


@share_options
def score(
    results: ResultsFile,
    *,
    holdout: HoldoutLedger = None,
    case_id: CaseId = None,
    metric: ScoreOf = None,
    where: Where = None,
    scale: Scale = None,
    output: OutputOf = None,
    cluster: ClusterOf = None,
    check: Check = False,
    create: Create = False,
    terms: HoldoutOptions,
    margin: Margin = 0.0,
    submission: SubmissionId = None,
    name: SubmissionName = None,
    against: Against = None,
    incumbent: Incumbent = False,
    confidence: Confidence = None,
    write: EveryEvalEver = None,
    model: Model = None,
    markdown: Markdown = None,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Score the results of an eval suite. All looks of a holdout have valid intervals at once.

    The same outputs, or the same --submission, get the same answer again and cost nothing. Without either, equal results
    are a new look.

    A gate (--create --yes) exits with 0 for yes, with 1 for no.
    """
    from holdtrue.holdouts.result_files import read_results

    found = read_results(results, _read_choice(case_id, metric, where, scale, (output, cluster)))
    if check:
        _print_reading(found, results, as_json=as_json)
        return
    if holdout is None:
        raise InvalidParameter.without_value("--holdout", "given: the ledger that counts the looks, or --check")
    _check_terms(terms.read(), create=create)
    place = _place_aggregate(write, model, holdout, terms.yes)
    made = _ScoredSubmission(found, name, submission, against, confidence, margin, incumbent, analyst, place, model)
    lines, document, better = _look(made, holdout, terms.read() if create else None)
    if markdown is not None:
        _write_markdown(markdown, lines)
    if as_json:
        print_json(
            {"holdout": hide_password(holdout), "cases": found.number} | document | {"read_as": _describe_reading(found)}
        )
    else:
        print_lines(str(results), lines + _note_reading(found))
    if better is False:
        raise typer.Exit(_NOT_BETTER)


def certify_gate(
    results: Path | None, holdout: str, what: str, *, case_id: str | None, cluster: str | None, analyst: str | None
) -> "Score":
    """Close the gate at a ledger and return its certificate; ``results`` is any file of its cases, or they were kept."""
    from holdtrue.holdouts.result_files import ResultChoice, read_results

    kept = read_kept_cases(holdout) if results is None else read_results(results, ResultChoice(case_id, cluster=cluster))
    if kept is None:
        _find_terms(holdout)
        raise InvalidParameter.without_value("RESULTS", "given: any file of this gate's cases, whose ids are not kept here")
    made = _ScoredSubmission(kept, None, None, None, None, 0.0, incumbent=False, analyst=analyst)
    with _open_holdout(made, holdout, None) as held:
        return held.certify(what, analyst=analyst)


def _look(made: "_ScoredSubmission", where: str, terms: dict[str, Any] | None) -> "_Report":
    """Take a look at a holdout; ``terms`` create it, and say what a gate of these terms finds."""
    if where.startswith(("https://", "http://")):
        return _look_at_service(made, where, create=terms is not None)
    finds = [] if terms is None else _say_gain(made.results.number, **terms)
    if terms is not None and terms["gain"] is None:
        terms = terms | {"discordant": None}
    with _open_holdout(made, where, terms) as held:
        if held.facts.mode in ("gate", "private gate"):
            lines, document, better = _ask_gate(held, made, where, created=terms is not None)
        else:
            lines, document, better = _report_score(held, made, where)
        widths = [] if terms is None else [("width", held.width)]
    return lines + widths + finds, document | dict(widths), better


def _look_at_service(made: "_ScoredSubmission", address: str, *, create: bool) -> "_Report":
    """Take a look at a holdout of a service, whose ids tell it which result is whose."""
    from holdtrue.clients import connect

    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidParameter.without_value("--holdout", "the address of a holdout, such as https://HOST/holdouts/NAME")
    if create:
        raise InvalidParameter.without_value("--create", "left out: its owner registers a holdout on the service's page")
    local: dict[str, object] = {"--name": made.name, "--against": made.against, "--write-every-eval-ever": made.place}
    local |= {"--confidence": made.confidence, "--incumbent": made.incumbent or None}
    for option in (option for option, said in local.items() if said is not None):
        raise InvalidParameter.without_value(option, "left out: a service keeps no submissions of the command")
    key = os.environ.get("HOLDTRUE_KEY")
    if not key:
        raise InvalidParameter.without_value("HOLDTRUE_KEY", "set in the environment: the key that its owner gave you")
    with connect(found["service"], key) as service:
        held = service.holdout(found["name"])
        given: dict[str, Any] = {"cases": made.results.values, "ids": made.results.ids, "name": made.known_as}
        if held.card["mode"] in ("gate", "private gate"):
            return _report_verdict(held.gate(**given, margin=made.margin))
        said = held.score(**given)
        lines, document = _say_score(said)
        return lines, document, None


def _check_terms(terms: dict[str, Any], *, create: bool) -> None:
    """Refuse terms of a holdout that exists, and those of a gate for any other."""
    given = [name for name, value in terms.items() if value is not None]
    if not create and given:
        raise InvalidParameter.without_value(f"--{given[0]}", "left out without --create")
    if create and "looks" not in given:
        raise InvalidParameter.without_value(
            "--looks", "given with --create: how many looks there will ever be, such as 100"
        )
    for name in ("hits", "discordant", "gain", "tells"):
        if name in given and "yes" not in given:
            raise InvalidParameter.without_value(f"--{name}", "given together with --yes")


def _say_gain(cases: int, *, discordant: float | None, **numbers: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - of a plan
    from holdtrue.planning.holdout_plan import plan_holdout

    if discordant is None:
        return []
    planned = ("looks", "yes", "beta", "tells")
    known = {name: numbers[name] for name in planned if numbers[name] is not None}
    plan = plan_holdout(cases=cases, discordant=discordant, **known)
    return [("finds", f"{plan.gate} By exact pairs; betting needs about a fifth more.")]


def _write_markdown(path: Path, lines: list[tuple[str, str]]) -> None:
    """Write what was printed as a table; the first line, such as yes or no, is its heading."""
    (name, answer), *rest = lines
    table = "".join(f"| {word} | {text} |\n" for word, text in rest)
    path.write_text(f"**{name}: {answer}**\n\n| | |\n|---|---|\n{table}", encoding="utf-8")


def _read_choice(
    case_id: str | None,
    metric: str | None,
    where: list[str] | None,
    scale: str | None,
    paths: tuple[str | None, str | None],
) -> "ResultChoice":
    from holdtrue.holdouts.result_files import ResultChoice

    pairs = [pair.partition("=") for pair in where or ()]
    if not all(path and sign for path, sign, _ in pairs):
        raise InvalidParameter.without_value("--where", "PATH=VALUE, such as --where filter=strict-match")
    try:
        low, high = map(float, (scale or "0,1").split(","))
    except ValueError:
        raise InvalidParameter("--scale", scale, "two numbers with a comma between, such as 0,100") from None
    return ResultChoice(case_id, metric, {path: value for path, _, value in pairs}, (low, high), *paths)


def _place_aggregate(folder: Path | None, model: str | None, holdout: str, yes: int | None) -> Path | None:
    """Return the file of the aggregate; refuse a place that cannot be written to before anything is charged."""
    from holdtrue.holdouts.adapters import place_aggregate

    if (folder is None) != (model is None):
        raise InvalidParameter.without_value("--model", "given together with --write-every-eval-ever")
    if folder is None or model is None:
        return None
    if yes is not None:
        raise InvalidParameter.without_value("--write-every-eval-ever", _NO_SCORE)
    return place_aggregate(folder, model=model, evaluation=Path(holdout).stem)


def _describe_reading(found: "Results") -> dict[str, Any]:
    """Return how a file was read: nothing that depends on what stands in its scores."""
    return {"tool": found.tool, "score": found.metric, "repeats": found.repeats, "labels": found.labels}


def _note_reading(found: "Results") -> list[tuple[str, str]]:
    if found.tool == "plain" and found.labels is None:
        return []
    repeats = f"; {found.repeats} attempts per case, averaged" if found.repeats > 1 else ""
    words = [("read as", f"{found.tool}, {found.metric}{repeats}; what crashed or has no score counts as 0")]
    if found.labels is not None:
        labels = f"the file has labels ({found.labels}): whoever reads it has looked at all cases, and is not counted"
        words.append(("note", labels))
    return words


def _print_reading(found: "Results", results: Path, *, as_json: bool) -> None:
    """Print also what is for the owner of the file alone: how many attempts have no score."""
    if as_json:
        print_json({"cases": found.number, "without_score": found.without_score, "read_as": _describe_reading(found)})
        return
    total = found.number * found.repeats
    attempts = f"{found.without_score:,} of {total:,} attempts, counted as 0"
    attempts += "; was the run cut short?" if found.without_score == total else ""
    print_lines(str(results), [("cases", f"{found.number:,}"), ("no score", attempts), *_note_reading(found)])


@dataclass(frozen=True, slots=True, eq=False)
class _ScoredSubmission:
    results: "Results"
    name: str | None
    id: str | None
    against: str | None
    confidence: float | None
    margin: float
    incumbent: bool
    analyst: str | None
    place: Path | None = None
    model: str | None = None

    @property
    def known_as(self) -> str | None:
        """Return the public name of the submission: its id, or a digest of its outputs; results are not public."""
        if self.id is not None or self.results.outputs is None:
            return self.id
        return f"outputs {hashlib.sha256(' '.join(self.results.outputs).encode()).hexdigest()}"


_Report: TypeAlias = tuple[list[tuple[str, str]], dict[str, Any], bool | None]
"""What is printed, in lines and as JSON, and whether the submission is better: None where that was not asked."""


def _open_holdout(made: _ScoredSubmission, where: str, terms: dict[str, Any] | None, **given: object) -> "Holdout":
    """Return the holdout of these cases, each labelled 1 for passed; ``terms`` create a new one."""
    import numpy as np

    from holdtrue.holdouts import Holdout

    results, known = made.results, dict(terms or {})
    metric = "hits" if known.pop("hits", None) else "cases"
    if terms is None:
        _check_known(where, results)
    else:
        check_free(where, option="--holdout")
        _check_new_cases(where, results)
        if terms["yes"] is not None:
            known |= {"metric": metric, "incumbent": results.values, "incumbent_name": made.known_as}
    known |= {"ids": results.ids, "cluster": results.clusters}
    held = Holdout(np.ones(results.number), ledger=where, **known, **given)  # type: ignore[arg-type]  # by name
    if terms is not None and "://" not in where:
        with os.fdopen(os.open(f"{where}.ids", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as text:
            ids = results.ids.tolist()
            json.dump(ids if results.clusters is None else list(zip(ids, results.clusters, strict=True)), text)
    return held


def _check_new_cases(where: str, results: "Results") -> None:
    """Refuse results without a score, and cases of which a gate is open, before a ledger is made."""
    import numpy as np

    from holdtrue.holdouts.cases import cases_of
    from holdtrue.holdouts.mode import OPEN_ELSEWHERE
    from holdtrue.holdouts.open_gates import FolderNotes, find_open_gate

    if results.without_score == results.number * results.repeats:
        message = "no case has a score, so nothing can be compared with these results; was the run cut short?"
        raise RequestError(message)
    cases = cases_of(np.ones(results.number), ids=results.ids, cluster=results.clusters)
    place = find_open_gate(FolderNotes(None if "://" in where else Path(where)), cases)
    if place is not None:
        message = f"{place}: {OPEN_ELSEWHERE}, such as --id input"
        raise RefusedError(message)


def read_kept_cases(where: str) -> "Results | None":
    """Return the cases that a holdout was created with, each worth 1, where they were kept beside its ledger."""
    import numpy as np

    from holdtrue.holdouts.result_files import Results

    try:
        known = json.loads(Path(f"{where}.ids").read_text(encoding="utf-8"))
        pairs = [each if isinstance(each, list) else [each, None] for each in known]
        ids, clusters = ([str(each) for each in held] for held in zip(*pairs, strict=True))
    except (OSError, ValueError, TypeError):
        return None
    return Results(np.array(ids), np.ones(len(ids)), clusters=tuple(clusters) if isinstance(known[0], list) else None)


def _find_terms(where: str) -> "tuple[Facts, Plan]":
    from holdtrue.holdouts.terms import stored_facts

    stored = stored_facts(where)
    if stored is None:
        message = f"there is no holdout at {hide_password(where)}; holdtrue score --create --looks N creates one"
        raise UnknownName(message)
    return stored


def _check_known(where: str, results: "Results") -> None:
    """Refuse other cases than those of the holdout, whose ids may be kept beside its ledger."""
    from holdtrue.holdouts.result_files import check_ids

    (facts, _), known = _find_terms(where), read_kept_cases(where)
    if bool(facts.clusters) != (results.clusters is not None):
        raise InvalidParameter.without_value("--cluster", "given as when the holdout was created")
    if known is not None:
        check_ids(results.ids.tolist(), known.ids.tolist())


def _report_score(held: "Holdout", made: _ScoredSubmission, where: str) -> _Report:
    from holdtrue.holdouts.adapters import write_aggregate
    from holdtrue.holdouts.submissions import Kept, Names

    names = None if (made.name, made.against) == (None, None) else Names(where)
    before = _find_other(held, made, names)
    results = made.results
    found = held.score(cases=results.values, name=made.known_as, analyst=made.analyst)
    if made.name is not None and names is not None:
        # Without outputs nothing but the scores can be compared, so single results are not kept.
        values = None if results.outputs is None else tuple(results.values.tolist())
        names.keep(Kept(made.name, found.certificate.entry, found.certificate.digest, values, results.outputs))
    lines, document = _say_score(found, name=made.name)
    if made.place is not None and made.model is not None:
        write_aggregate(made.place, found, results, model=made.model, evaluation=Path(where).stem)
        lines.append(("written", str(made.place)))
        document["written"] = str(made.place)
    if before is None:
        return lines, document, None
    known = _compare_submissions(held, made, found, before)
    better = known["low"] > 0
    verdict = "better" if better else "worse" if known["high"] < 0 else "not shown better"
    how = f"a paired look, {known['looks_left']:,} left" if known["paired"] else "the two scores, without another look"
    ends = f"{known['low']:+.4f} to {known['high']:+.4f} ({100 * known['confidence']:.4g}%), for {known['about']}"
    lines.insert(-1, ("against", f"{verdict} than {before.name}: {ends}; by {how}"))
    return lines, document | {"against": {"name": before.name} | known, "better": better}, better


def _say_score(found: "Score", *, name: str | None = None) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return a score in lines and as JSON."""
    free = "; this one was free, as it was scored before" if found.repeated else ""
    lines = [
        ("score", f"{found.value:.4f}"),
        ("interval", "none" if found.interval is None else f"{_say_ends(found.interval)}, for {found.about}"),
        ("looks", f"{found.looks_left:,} of {found.looks:,} left{free}"),
        ("in words", found.sentence),
        ("receipt", print_receipt(found.certificate)),
    ]
    return lines, {"score": found, "name": name, "sentence": found.sentence}


def _say_ends(ends: "Interval") -> str:
    return f"{ends.low:.4f} to {ends.high:.4f} ({100 * ends.confidence:.4g}%)"


def _find_other(held: "Holdout", made: _ScoredSubmission, names: "Names | None") -> "Kept | None":
    """Find the submission to compare with, and refuse what cannot be promised, before any charge."""
    sure = 1 - held.facts.beta
    if made.confidence is not None and not 0 < made.confidence <= sure + _ROUNDING:
        message = (
            f"--confidence must be above 0 and at most {sure:.4g}: this holdout was created with beta {held.facts.beta:.4g}"
        )
        raise PreconditionError(message)
    if made.against is None or names is None:
        return None
    before = names.find(made.against)
    if before is None:
        message = f"no submission is kept under the name {made.against!r}; keep one with --name"
        raise UnknownName(message)
    return before


def _compare_submissions(held: "Holdout", made: _ScoredSubmission, found: "Score", before: "Kept") -> dict[str, Any]:
    """Return an interval for the true difference: from the scores for free, or from one more look if they do not decide.

    The look is taken only if equal outputs make its interval narrower than the one from the scores.
    """
    import numpy as np

    earlier = held.told(before.entry)
    if earlier is None or earlier.certificate.digest != before.digest:
        message = f"the ledger does not have the score that was kept as {before.name!r}"
        raise IntegrityError(message)
    if found.interval is None or earlier.interval is None:
        message = "a score without an interval cannot be compared"
        raise IntegrityError(message)
    low, high = found.interval.low - earlier.interval.high, found.interval.high - earlier.interval.low
    known = {"low": low, "high": high, "confidence": found.interval.confidence, "about": found.about}
    known |= {"paired": False, "looks_left": found.looks_left}
    outputs = made.results.outputs
    if low > 0 or high < 0 or not found.looks_left or outputs is None or before.outputs is None or before.values is None:
        return known
    if len(before.outputs) != len(outputs) or len(before.values) != len(outputs):
        message = f"the kept submission {before.name!r} has another number of cases"
        raise IntegrityError(message)
    differ = np.array(outputs) != np.array(before.outputs)
    if not differ.any() or held.paired_width(differ) >= high - low:
        return known
    pair = None if made.known_as is None else f"{made.known_as} against {before.entry}"
    try:
        paired = held.compare_cases(made.results.values, before.values, differ=differ, name=pair, analyst=made.analyst)
    except InsufficientSamples:  # a look could not tell more than how often they can differ, which is known
        most = float(differ.mean())
        return known | {"low": max(low, -most), "high": min(high, most)}
    if paired.interval is None:
        return known
    ends = {"low": paired.interval.low, "high": paired.interval.high, "about": paired.about}
    return known | ends | {"paired": True, "looks_left": paired.looks_left}


def _ask_gate(held: "Holdout", made: _ScoredSubmission, where: str, *, created: bool) -> _Report:
    """Ask a gate, or report its incumbent if these results are the incumbent's own."""
    from holdtrue.entropy import SYSTEM

    if (made.name, made.against, made.confidence) != (None, None, None):
        raise InvalidParameter.without_value("--name", "left out on a gate, as must --against and --confidence")
    if made.place is not None:
        raise InvalidParameter.without_value("--write-every-eval-ever", _NO_SCORE)
    results = made.results.values
    if held.facts.mode == "private gate" and not held.facts.rule:  # of a ledger whose yes release scores
        if made.incumbent:
            raise InvalidParameter.without_value("--incumbent", "left out on a private gate, which keeps no submission")
        return _report_verdict(held.gate(cases=results, margin=made.margin, name=made.known_as, analyst=made.analyst))
    if made.incumbent and not created:  # kept once more
        with _open_holdout(made, where, None, incumbent=results, incumbent_name=held.leading) as again:
            return _report_incumbent(again, created=False)
    if created:
        return _report_incumbent(held, created=True)
    public = made.known_as or SYSTEM.words(4).tobytes().hex()
    try:
        return _report_verdict(held.gate(cases=results, margin=made.margin, name=public, analyst=made.analyst))
    except InvalidParameter:
        if held.named(cases=results, name=public) != held.leading:
            raise
        return _report_incumbent(held, created=False)


def _report_incumbent(held: "Holdout", *, created: bool) -> _Report:
    ends, left = held.incumbent, held.looks_left
    words = "created; these results are the incumbent" if created else "no; these are the incumbent's own results"
    looks = f"{left:,} of {held.facts.looks:,} left; this was not a look"
    known = {"low": ends.low, "high": ends.high, "confidence": ends.confidence}
    document = {"yes": False, "sentence": words, "incumbent": known, "looks_left": left}
    return [("gate", words), *_list_incumbent(ends), ("looks", looks)], document, None if created else False


def _list_incumbent(ends: "Interval", about: str = "") -> list[tuple[str, str]]:
    """Return the line of what is known of the incumbent's score, if anything is."""
    return [] if (ends.low, ends.high) == (0, 1) else [("incumbent", _say_ends(ends) + about)]


def _report_verdict(verdict: "Verdict") -> _Report:
    gain, ends = verdict.gain, verdict.interval
    lines = [
        ("gate", f"{'yes' if verdict.yes else 'no'}{': asked before' if verdict.repeated else ''}"),
        *_list_incumbent(ends, f", for {verdict.about}"),
        ("claim", verdict.claim) if verdict.claim else ("in words", verdict.sentence),
        ("looks", f"{verdict.looks_left:,} left, {verdict.yes_left:,} yes left"),
        ("receipt", print_receipt(verdict.certificate)),
    ]
    if gain is not None and gain.low > -1 and (gain.low, gain.high) != (0, 1):
        lines.insert(1, ("gain", f"{gain.low:+.4f} to {gain.high:+.4f}, against the incumbent it met"))
    return lines, {"yes": verdict.yes, "claim": verdict.claim, "verdict": verdict, "sentence": verdict.sentence}, verdict.yes

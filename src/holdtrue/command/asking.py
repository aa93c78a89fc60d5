"""``holdtrue ask``, ``select``, ``learn`` and ``preview``: questions about opened data."""

import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec import UnsetType

from holdtrue.command.output import Json, count_units, print_json, print_lines, print_table, show_progress
from holdtrue.command.paths import (
    Analyst,
    Asking,
    Data,
    LedgerOption,
    RehashOption,
    Source,
    open_curator,
    open_view,
    share_options,
)
from holdtrue.errors import InvalidParameter, RequestError

if TYPE_CHECKING:
    from fractions import Fraction

    from holdtrue.curator import Curator
    from holdtrue.hypotheses import HypothesisClass
    from holdtrue.queries.cards import Card, Label
    from holdtrue.records import Answer, Certificate, Interval, Means, Response, Table, Workload
    from holdtrue.requests import Cut

__all__ = [
    "ask",
    "deduce",
    "learn",
    "list_costs",
    "marginals",
    "mean",
    "preview",
    "print_receipt",
    "quantile",
    "read_bounds",
    "read_document",
    "select",
    "synthesize",
    "table",
    "watch",
]

Questions = Annotated[
    list[str],
    typer.Argument(
        metavar="QUESTION",
        help="A condition in SQL, such as 'age > 65 AND smoker', or a number from 0 to 1, such as 'age / 100'.",
    ),
]
_SHOWN = 20
_GROUP = "A column with public labels, or a number or date cut at points: age:18,30,65."
_MOMENTS = ("date", "timestamp")
_END = "NUMBER|DATE"
By = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help=_GROUP)]
Where = Annotated[str | None, typer.Option(help="Count only rows that meet this condition.")]
Keys = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN=LABEL,LABEL", help="The labels of a column, where the card has none.")
]
OwnPrice = Annotated[
    int | None,
    typer.Option(
        "--questions", help="What it costs, in questions: more make noise less. Default: what keeps the plan's alpha."
    ),
]
_BOUNDED = re.compile(r"(.+)=([^=:]+):([^=:]+)", re.DOTALL)
_BOUNDS = "COLUMN=LOW:HIGH"
_CURRENCIES = {"mu": "mu squared", "rho": "rho", "draws": "draws"}
_CANDIDATE = re.compile(r"([^\s=<>!'\"()]+)=(?!=)(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """What a subcommand that answers within groups takes: their columns, labels where the card has none, and the price."""

    by: By = None
    keys: Keys = None
    questions: OwnPrice = None

    def read(self, card: "Card") -> dict[str, Any]:
        """Return the groups and the price as the verbs of a curator take them."""
        groups = [_read_cut_column(each, card) for each in self.by or ()]
        labels = dict(_read_keys(each, card) for each in self.keys or ())
        return {"by": groups or None, "keys": labels or None, "questions": self.questions}


@share_options
def ask(
    asking: Asking,
    asked: Questions,
    *,
    groups: GroupOptions,
    deduce_first: Annotated[
        bool, typer.Option("--deduce-first", help="Pay nothing where the answer follows from earlier ones.")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say why the interval is as wide as it is.")] = False,
) -> None:
    """Ask which share of the rows meets a condition, or for the mean of a number from 0 to 1.

    Several questions take one pass over the data. A repeated question is answered from the ledger and is free. With --by
    one question is answered within each group, for the price of two to five questions.
    """
    with asking.open() as curator:
        if groups != GroupOptions():
            _ask_by(asked, groups, curator, asking)
            return
        with show_progress("measuring"):
            first: Literal["first"] | None = "first" if deduce_first else None
            answers = curator.ask(list(asked), deduce=first, **asking.given)
        if asking.as_json:
            print_json(answers[0] if len(answers) == 1 else {"answers": answers})
        elif len(answers) == 1:
            _print_answer(asked[0], answers[0], curator, explain=explain)
        else:
            _print_answers(asked, answers, curator)
            if explain:
                print_lines("", [("this wide", answers[0].explain(curator.plan))])


def _ask_by(asked: list[str], groups: GroupOptions, curator: "Curator", asking: Asking) -> None:
    if len(asked) != 1 or not groups.by:
        raise InvalidParameter.saying("--by", "give one question with --by; --keys and --questions go only with it")
    given = groups.read(curator.card) | asking.given
    with show_progress("measuring"):
        found = curator.ask(asked[0], **given)
    if asking.as_json:
        print_json(found)
    else:
        _print_cells(found.sentence, found, curator)


@share_options
def table(
    asking: Asking,
    columns: Annotated[list[str], typer.Argument(metavar="COLUMN", help=_GROUP)],
    *,
    where: Where = None,
    keys: Keys = None,
    margins: Annotated[
        bool, typer.Option("--margins", help="Declare the sums over all labels of some columns with it, and print them.")
    ] = False,
    ranges: Annotated[
        bool, typer.Option("--ranges", help="Declare the sums of neighbouring cells of one column with it, for --json.")
    ] = False,
    rollups: Annotated[
        list[str] | None,
        typer.Option("--rollup", metavar="LABEL,LABEL", help="Declare the sum of these cells, and print it."),
    ] = None,
    questions: OwnPrice = None,
) -> None:
    """Ask for the share of the rows in every cell of a table, for the price of two to five questions.

    Rows in none of the cells, missing values included, are in the last one.
    """
    declared: dict[str, Any] = {"margins": margins, "ranges": ranges, "questions": questions}
    with asking.open() as curator:
        cut_columns = [_read_cut_column(column, curator.card) for column in columns]
        labels = dict(_read_keys(each, curator.card) for each in keys or ())
        declared["rollups"] = [_read_rollup(each, cut_columns[0], curator.card) for each in rollups or ()]
        with show_progress("measuring"):
            found = curator.table(*cut_columns, where=where, keys=labels or None, **declared, **asking.given)
        if asking.as_json:
            print_json(found)
            return
        _print_cells(" by ".join(["share of the rows", ", ".join(found.columns)]), found, curator)
        sums = _list_margins(found) if margins else []
        sums += [(" + ".join(map(str, each)), found.union(*each)) for each in declared["rollups"]]
        if sums:
            rows = [[name, *_write_ends(answer)] for name, answer in sums]
            print_table(("sum", "share", "low", "high"), rows, right=("share", "low", "high"))


@share_options
def marginals(
    asking: Asking,
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN", help=f"{_GROUP} All with public labels unless given.")
    ] = None,
    *,
    tables: Annotated[
        list[str],
        typer.Option("--tables", help="pairs, triples, or the columns of one table: sex,age. The last may be given again."),
    ] = ["pairs"],  # noqa: B006 - read only
    keys: Keys = None,
    margins: Annotated[
        bool, typer.Option("--margins", help="Declare the sums over all labels of some columns with the tables.")
    ] = False,
    questions: Annotated[int, typer.Option(help="What each table costs, in questions: more make noise less.")] = 2,
    workload: Annotated[
        Path | None,
        typer.Option(help='A JSON file with questions to declare before the draw: [{"sex": "F", "region": "N"}, ...].'),
    ] = None,
) -> None:
    """Ask for the tables of every two columns, or every three, in one request at two questions each."""
    declared = None if workload is None else _read_workload(workload)
    with asking.open() as curator:
        given: dict[str, Any] = {"margins": margins, "questions": questions, "workload": declared}
        given |= asking.given
        given["columns"] = [_read_cut_column(column, curator.card) for column in columns or ()] or None
        given["keys"] = dict(_read_keys(each, curator.card) for each in keys or ()) or None
        chosen: Any = tables[0] if tables in (["pairs"], ["triples"]) else [each.split(",") for each in tables]
        with show_progress("measuring"):
            found = curator.marginals(chosen, **given)
        if asking.as_json:
            print_json(found)
            return
        print_table(("table", "cells"), [[", ".join(each.columns), f"{len(each):,}"] for each in found], right=("cells",))
        if found.workload:
            _print_workload(found.workload)
        lines = [("cost", _say_cost(found.certificate, curator, repeated=found.repeated))]
        lines += [("left", f"{curator.budget.asks:,} questions"), ("receipt", print_receipt(found.certificate))]
        print_lines(found.brief, lines)


def _read_workload(path: Path) -> Any:  # noqa: ANN401 - what the file holds, which the curator checks
    import json

    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        message = 'a JSON file with a list of questions, such as [{"sex": "F"}]'
        raise InvalidParameter("--workload", str(path), message) from None


def _print_workload(told: "Workload") -> None:
    """Print the first declared questions with their ends; --json has all of them."""
    ends = [each.interval or each.sample_interval for each in told]
    numbers = zip(told.names, told.values, ends, strict=True)
    rows = [[name, *(f"{each:.4f}" for each in (value, both.low, both.high))] for name, value, both in numbers]
    print_table(("question", "share", "low", "high"), rows[:_SHOWN], right=("share", "low", "high"))
    if len(rows) > _SHOWN:
        typer.echo(f"and {len(rows) - _SHOWN:,} questions more; --json prints all of them")


def synthesize(
    source: Source,
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN", help="Columns of released tables; all unless given.")
    ] = None,
    *,
    rows: Annotated[int | None, typer.Option(help="How many rows; as many as there are unless given.")] = None,
    seed: Annotated[int, typer.Option(help="A public number: with another one rows are rounded otherwise.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file for the rows.")] = None,
    as_json: Json = False,
) -> None:
    """Make rows from released tables. Free; no data is needed, and intervals stay with the tables."""
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise InvalidParameter("--out", str(out), "a .csv or .parquet file")
    with open_view(source) as view:
        found = view.synthesize(list(columns or ()) or None, rows=rows, seed=seed)
    if out is not None:
        found.to_csv(out) if out.suffix == ".csv" else found.to_parquet(out)
    if as_json:
        print_json(found)
    else:
        print_lines(found.brief, [("made from", f"{len(found.tables):,} released tables"), ("cost", "nothing")])


@share_options
def mean(
    asking: Asking,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A column of numbers.")],
    *,
    low: Annotated[float | None, typer.Option(help="The least that a value counts. Default: the card's bound.")] = None,
    high: Annotated[float | None, typer.Option(help="The most that a value counts. Default: the card's bound.")] = None,
    groups: GroupOptions,
    where: Where = None,
    as_sum: Annotated[bool, typer.Option("--sum", help="Print the sum over these rows in place of the mean.")] = False,
    population: Annotated[int | None, typer.Option(help="With --sum: the total of a population of this size.")] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="GROUP,GROUP", help="Print the difference and the ratio of two groups, too. Free.")
    ] = None,
) -> None:
    """Ask for the mean of a column of numbers, in all rows or in each group, for the price of two to five questions.

    Values below low count as low and above high as high; rows without a value are left out, and the answer says so.
    """
    if population is not None and not as_sum:
        raise InvalidParameter.saying("population", "--population goes only with --sum")
    with asking.open() as curator:
        given = {"where": where} | groups.read(curator.card) | asking.given
        pair = None if compare is None else _find_groups(compare, curator, **given)
        ask = partial(curator.sum, population=population) if as_sum else curator.mean
        with show_progress("measuring"):
            found = ask(column, low=low, high=high, **given)
        contrasts = {} if pair is None else {"difference": found.difference(*pair), "ratio": found.ratio(*pair)}
        if asking.as_json:
            print_json({found.measure: found} | contrasts if contrasts else found)
            return
        _print_cells(found.sentence, found, curator)
        for contrast in contrasts.values():
            typer.echo(str(contrast))


def _list_margins(found: "Table") -> "list[tuple[str, Answer]]":
    """Return the share of the rows with each label of each column, whatever they have in the others."""
    return [
        (f"{name}: {label}", found.share({name: label}))  # type: ignore[dict-item]  # only the last cell has none
        for place, name in enumerate(found.columns)
        for label in dict.fromkeys(labels[place] for labels in found.labels[:-1])
    ]


def _read_rollup(text: str, column: "str | Cut", card: "Card") -> "list[Label]":
    """Return the labels of cells that are summed, by the type of their column; those of a cut one are texts."""
    return _read_keys(f"{column}={text}", card)[1] if isinstance(column, str) else list(text.split(","))


def _write_ends(answer: "Answer") -> list[str]:
    ends = answer.interval or answer.sample_interval
    return [f"{number:.4f}" for number in (answer.value, ends.low, ends.high)]


def _find_groups(text: str, curator: "Curator", **given: Any) -> "list[tuple[Label, ...]]":  # noqa: ANN401 - a request
    """Return two groups that are named with a comma between them, before anything is charged."""
    from holdtrue.verbs.means import read_by
    from holdtrue.verbs.tables import read_groups

    groups = read_groups(curator.pipeline, read_by(given["by"]), where=given["where"], keys=given["keys"])
    named = {", ".join(map(str, each)): each for each in groups.labels if each}
    for first, group in named.items():
        if text.startswith(f"{first},") and (second := text[len(first) + 1 :].strip()) in named:
            return [group, named[second]]
    shown = ", ".join(list(named)[:_SHOWN]) or "none without --by"
    raise InvalidParameter.saying("--compare", f"--compare takes two groups with a comma between them: {shown}")


def _print_cells(title: str, found: "Table | Means", curator: "Curator") -> None:
    numbers = (found.measure_name, "low", "high")
    print_table([*found.columns, *numbers], _list_cells(found), right=numbers)
    target = "the population" if found.low is not None else "these rows"
    lines = [
        ("holds for", f"{target}, all cells at once ({found.confidence:.0%})"),
        ("cost", _say_cost(found.certificate, curator, repeated=found.repeated)),
        ("left", f"{curator.budget.asks:,} questions"),
        ("receipt", print_receipt(found.certificate)),
    ]
    print_lines(title, lines)


def _list_cells(found: "Table | Means") -> list[list[str]]:
    shown = found.to_columns()
    return [
        ["other" if label is None else str(label) for label in labels]
        + [found.write_number(each).strip() for each in (value, low, high)]
        for labels, value, low, high in zip(found.labels, found.values, shown["low"], shown["high"], strict=True)
    ]


def _read_cut_column(text: str, card: "Card") -> "str | Cut":
    """Return a column, or one that is cut: at dates and times, which have colons of their own, where it holds these."""
    from holdtrue.verbs.tables import cut

    name, colon, points = text.rpartition(":")
    if text in card or not colon:
        return text
    known = next((each.name for each in card.columns if each.type in _MOMENTS and text.startswith(f"{each.name}:")), None)
    if known is not None:
        return cut(known, text[len(known) + 1 :].split(","))
    try:
        places = [float(point) for point in points.split(",")]
    except ValueError:
        raise InvalidParameter("column", text, "a column, or COLUMN:POINT,POINT for a number or date that is cut") from None
    return cut(name, places)


def _read_keys(text: str, card: "Card") -> "tuple[str, list[Label]]":
    name, sign, labels = text.partition("=")
    if not sign or not labels:
        raise InvalidParameter("--keys", text, "COLUMN=LABEL,LABEL")
    from holdtrue.queries.parser import find_column, find_shared

    shared = find_shared(name, card)
    kind = find_column(name, card)[0] if shared is None else shared.kind
    read: dict[str, Any] = {"integer": int, "real": float}
    try:
        return name, [read.get(kind, str)(label) for label in labels.split(",")]
    except ValueError:
        raise InvalidParameter("--keys", text, f"labels of the type {kind}") from None


def _read_end(text: str) -> float | str:
    """Return an end as a number, or as the text of a date."""
    try:
        return float(text)
    except ValueError:
        return text


@share_options
def quantile(
    asking: Asking,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A column of numbers, dates or timestamps.")],
    levels: Annotated[
        list[float] | None, typer.Argument(metavar="LEVEL", help="Levels in (0, 1): 0.5, the median, unless given.")
    ] = None,
    *,
    low: Annotated[str, typer.Option(metavar=_END, help="The public lower end; values below count as it.")],
    high: Annotated[
        str, typer.Option(metavar=_END, help="The public upper end; values above and missing ones count as it.")
    ],
    step: Annotated[float, typer.Option(help="How far apart the points of the grid are; of dates in days.")] = 1,
    where: Annotated[str | None, typer.Option(help="Look only at rows that meet this condition.")] = None,
    method: Annotated[str | None, typer.Option(help="How it is found: search, curve, exponential or point.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The privacy of all picks of exponential and point.")] = None,
    preview_only: Annotated[bool, typer.Option("--preview", help="Only print the most that it can cost.")] = False,
) -> None:
    """Ask where the values of a column reach a level, such as the median, with an interval for the population.

    A search of plain questions, of which those asked before are free; a budget that runs out gives the intervals so far.
    Four levels or more, or two on a short grid, take one release for all of them.
    """
    given: dict[str, Any] = {"low": _read_end(low), "high": _read_end(high), "step": step, "where": where}
    given |= {"method": method, "epsilon": epsilon}
    wanted = list(levels or [0.5])
    with asking.open() as curator:
        if preview_only:
            price = curator.preview_quantile(column, wanted, **given)
            print_json(price) if asking.as_json else print_lines(column, [("costs", str(price))])
            return
        with show_progress("measuring"):
            found = curator.quantile(column, wanted, **asking.given, **given)
        if asking.as_json:
            print_json(found)
            return
        shown = [[found.write_number(each) for each in row] for row in zip(*found.to_columns().values(), strict=True)]
        print_table(("level", "value", "low", "high"), shown, right=("value", "low", "high"))
        target = "the population" if found.low is not None else f"these rows: {found.reason}"
        lines = [("holds for", f"{target}, all at once ({found.confidence:.0%})"), ("paid", found.paid)]
        lines += [("left", f"{curator.budget.asks:,} questions"), ("receipt", print_receipt(found.certificate))]
        print_lines(f"quantiles of {column}" + ("" if where is None else f" where {where}"), lines)


@share_options
def select(
    asking: Asking,
    candidates: Annotated[
        list[str],
        typer.Argument(metavar="NAME=QUESTION", help="A candidate: \"north=region = 'N'\" \"south=region = 'S'\"."),
    ],
    *,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy to spend on this choice; more makes it more accurate. Default: a share of the reserve."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many to choose, each among those left.")] = 1,
    weights: Annotated[
        str | None, typer.Option(help="The base measure: a number for each candidate, not all 0, with commas between them.")
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help='Candidates are scores of your own, "north=12" or "north=1/3", computed from the rows.'
        ),
    ] = False,
    line: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="Choose a point between two ends: 0,120. Scores then hold up to points: 20=1 50=9 120=3.",
        ),
    ] = None,
    sensitivity: Annotated[str | None, typer.Option(help="The most that one row moves a score. Default: 1.")] = None,
    name: Annotated[str | None, typer.Option(help="The public name by which these scores are known again.")] = None,
) -> None:
    """Choose the candidate that the most rows satisfy, and say by how many rows the choice may miss the best."""
    named = _read_candidates(candidates)
    given: dict[str, Any] = {"top": top, "epsilon": epsilon, "name": name, **asking.given}
    given["sensitivity"] = None if sensitivity is None else _read_rational("sensitivity", sensitivity)
    given["weights"] = None if weights is None else [_read_rational("weights", each) for each in weights.split(",")]
    with asking.open() as curator:
        scores = scores or line is not None
        if line is not None:
            given |= _read_line(line, named)
        elif scores:
            given["scores"] = {label: _read_rational("scores", each) for label, each in named.items()}
        else:
            _check_columns(named, curator)
            given["candidates"] = named
        with show_progress("measuring"):
            choice = curator.select(**given)
        if asking.as_json:
            print_json(choice)
            return
        behind = f"at most {choice.shortfall:.4g} of {curator.card.rows:,} rows behind the best"
        lines = [("chosen", choice.chosen), ("", f"at most {choice.shortfall:.4g} behind the best" if scores else behind)]
        if not isinstance(choice.population_shortfall, UnsetType):
            lines.append(("population", f"at most {choice.population_shortfall:.4g} behind the best share"))
        print_lines(", ".join(named), [*lines, *list_costs(choice, curator)])


def _read_line(line: str, named: dict[str, str]) -> dict[str, Any]:
    """Return the ends of a line, its cuts, and its scores, each of which holds up to the point that it is named after."""
    ends, points = (
        [_read_rational("line", each) for each in line.split(",")],
        [_read_rational("line", each) for each in named],
    )
    if len(ends) != 2 or points[-1] != ends[1]:  # noqa: PLR2004 - a low and a high end
        message = "give two ends, as 0,120, and the score up to each point, the last of which is the high end: 20=1 120=3"
        raise InvalidParameter.saying("line", message)
    scores = [_read_rational("scores", each) for each in named.values()]
    return {"line": ends, "cuts": points[:-1], "scores": scores}


def _read_rational(name: str, text: str) -> "Fraction":
    """Return a number of the command line exactly, whole where it is written so."""
    from fractions import Fraction

    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise InvalidParameter.without_value(name, 'numbers such as 3, 0.5 or "1/3"') from None


def watch(
    data: Data,
    questions: Questions,
    *,
    threshold: Annotated[float, typer.Option(help="The share of the rows above which there is an alarm, from 0 to 1.")],
    alarms: Annotated[int, typer.Option(help="The most alarms; each run, to its one alarm, is paid for.")] = 1,
    epsilon: Annotated[
        float | None, typer.Option(help="The privacy of each run. Default: a share of the reserve for all of them.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="A public name that makes it another watch.")] = None,
    analyst: Analyst = None,
    ledger: LedgerOption = None,
    rehash: RehashOption = False,
    as_json: Json = False,
) -> None:
    """Say of one question after the other whether its share is above a threshold. Each call begins, and pays, a new run."""
    with open_curator(data, ledger, rehash=rehash) as curator:
        run = curator.watch(threshold=threshold, alarms=alarms, epsilon=epsilon, name=name, analyst=analyst)
        found = []
        try:
            for question in questions:
                with show_progress("measuring"):
                    found.append(answer := run.ask(question))
                what, ends = ("population", answer.interval) if answer.interval else ("these rows", answer.sample_interval)
                first = ("found", answer.brief + (", told before" if answer.repeated else ""))
                if not as_json:
                    print_lines(question, [first, (what, _print_ends(ends)), ("run", answer.say_run())])
        finally:  # what was paid for is shown, whatever comes after it
            if as_json and found:
                print_json(found[0] if len(questions) == 1 else {"answers": found})


def preview(source: Source, questions: Questions, *, as_json: Json = False) -> None:
    """Show what questions would cost and how wide their intervals would be. Free; nothing is asked."""
    with open_view(source) as desk:
        previews = [desk.preview(question) for question in questions]
    if as_json:
        print_json(previews[0] if len(previews) == 1 else {"previews": previews})
        return
    for seen in previews:
        print_lines(seen.text, seen.list_facts().items())


def deduce(source: Source, questions: Questions, *, as_json: Json = False) -> None:
    """Show what follows from the answers so far. Free; no data is needed, and nothing is asked."""
    with open_view(source) as view:
        found = [view.deduce(question) for question in questions]
    if as_json:
        print_json(found[0] if len(found) == 1 else {"deductions": found})
        return
    for each in found:
        told = f"nothing: {each.reason}" if each.inconsistent else each.brief
        sources = ", ".join(map(str, each.sources)) or "none"
        target = "population" if each.interval is not None else "these rows"
        print_lines(each.text, [(target, told), ("from entries", sources), ("cost", "nothing")])


def _is_number(question: str, card: "Card") -> bool:
    from holdtrue.queries.parser import parse

    return not parse(question, card).boolean


def _read_candidates(candidates: list[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for candidate in candidates:
        found = _CANDIDATE.fullmatch(candidate)
        if found is None:
            raise InvalidParameter("candidate", candidate, "NAME=QUESTION, without spaces in the name or before =")
        name, query = found.groups()
        if name in named:
            raise InvalidParameter("candidate", name, "named once: each candidate needs a different name")
        named[name] = query
    return named


def _check_columns(named: dict[str, str], curator: "Curator") -> None:
    """Refuse a candidate that was meant as a condition but reads as a name and a constant: age=65."""
    from holdtrue.queries.parser import parse

    for name, query in named.items():
        if not parse(query, curator.card).columns:
            expected = "NAME=QUESTION, with a question that uses a column"
            raise InvalidParameter("candidate", f"{name}={query}", expected)


def _print_answer(question: str, answer: "Answer", curator: "Curator", *, explain: bool) -> None:
    from holdtrue.curator.budget import CLAMPED

    lines = [
        ("answer", f"{answer.value:.4g}"),
        ("population", _print_ends(answer.interval) if answer.interval else f"no interval: {answer.reason}"),
        ("these rows", _print_ends(answer.sample_interval)),
        ("cost", _say_cost(answer.certificate, curator, repeated=answer.repeated)),
        ("left", f"{curator.budget.asks:,} of {curator.plan.queries:,} questions"),
        ("receipt", print_receipt(answer.certificate)),
    ]
    if explain:
        lines.insert(3, ("this wide", answer.explain(curator.plan)))
    print_lines(question, lines + ([("note", CLAMPED)] if _is_number(question, curator.card) else []))


def _print_answers(questions: list[str], answers: "list[Answer]", curator: "Curator") -> None:
    rows: list[Any] = [
        (
            question,
            f"{answer.value:.4g}",
            _print_ends(answer.interval) if answer.interval else "no interval",
            _print_ends(answer.sample_interval),
            "free" if answer.repeated else "",
        )
        for question, answer in zip(questions, answers, strict=True)
    ]
    print_table(("question", "answer", "population", "these rows", "cost"), rows, right=("answer",))
    reasons = {answer.reason: None for answer in answers if answer.reason}
    fresh = {answer.certificate.entry: answer.certificate for answer in answers if not answer.repeated}
    lines = [("no interval", reason) for reason in reasons]
    lines += [("cost", _say_cost(certificate, curator, repeated=False)) for certificate in fresh.values()]
    lines += [("free", "nothing: asked before")] if any(answer.repeated for answer in answers) else []
    lines.append(("left", f"{curator.budget.asks:,} of {curator.plan.queries:,} questions"))
    kept = {answer.certificate.entry: print_receipt(answer.certificate) for answer in answers}
    print_lines("", lines + [("receipt", receipt) for receipt in kept.values()])


def _print_ends(interval: "Interval") -> str:
    return f"{interval.low:.4g} to {interval.high:.4g} ({100 * interval.confidence:.4g}%)"


def list_costs(response: "Response", curator: "Curator") -> list[tuple[str, str]]:
    """Return the lines about a response's cost: what it cost, what is left of the reserve, and its receipt."""
    return [
        ("cost", _say_cost(response.certificate, curator, repeated=response.repeated)),
        ("left", f"{_say_reserve(curator)} in reserve to select, learn and predict"),
        ("receipt", print_receipt(response.certificate)),
    ]


def _say_cost(certificate: "Certificate", curator: "Curator", *, repeated: bool) -> str:
    about = f"; population: {certificate.population}" if certificate.population else ""
    if repeated:
        return f"nothing: asked before{about}"
    unit = _CURRENCIES.get(certificate.purse or "", curator.budget.unit)
    if (certificate.purse or "mu") != "mu":
        return f"{count_units(certificate.cost, unit)}; {certificate.left:.3g} left{about}"
    told = f"{_say_worth(certificate.cost, curator)} ({certificate.cost:.3g} {unit})"
    return f"{told}{about}"


def _say_reserve(curator: "Curator") -> str:
    budget = curator.budget
    return _say_worth(budget.reserve, curator) if budget.purse is None else count_units(budget.reserve, budget.reserve_unit)


def _say_worth(cost: float, curator: "Curator") -> str:
    """Return a cost in words: in questions, and in percent of the whole budget."""
    from holdtrue.exact import amount

    each, cap = amount(curator.plan.cost), curator.budget.cap
    worth, share = cost / each if each else 0.0, 100 * cost / cap if cap else 0.0
    number = f"{worth:,.0f}" if abs(worth - round(worth)) < 0.005 or worth >= 100 else f"{worth:.2f}"  # noqa: PLR2004
    return f"{number} question{'' if number == '1' else 's'}, {share:.2g}% of the budget"


def print_receipt(certificate: "Certificate") -> str:
    """Return the receipt of a response: entry and digest."""
    return f"{certificate.entry}:{certificate.digest}"


@share_options
def learn(
    asking: Asking,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The yes-or-no question to predict: 'income > 50000'.")],
    *,
    stumps: Annotated[
        list[str] | None,
        typer.Option(
            metavar=_BOUNDS,
            help="A class of rules: one column compared with one number, within public bounds; repeat for more columns.",
        ),
    ] = None,
    intervals: Annotated[
        str | None,
        typer.Option(metavar=_BOUNDS, help="A class of rules: one column between two numbers, within public bounds."),
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
        Path | None, typer.Option("--class", metavar="FILE.json", help="Any class of rules, as a JSON document.")
    ] = None,
    steps: Annotated[int, typer.Option(help="How many steps the grid between the bounds has.")] = 100,
    width: Annotated[int, typer.Option(help="The largest number of conditions in a conjunction.")] = 2,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy to spend on this choice. Default: a share of the reserve.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="The excess error that the rows must certify; otherwise refused at no cost.")
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="The probability that the certificate fails, at most. Default: the plan's.")
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Continue even if the rows do not certify alpha.")] = False,
    realizable: Annotated[bool, typer.Option("--assume-realizable", help="Assume that some rule is never wrong.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Ask one more question: how often the learned rule errs.")] = False,
) -> None:
    """Learn the rule of a finite class that errs about as rarely as the best one, and say how far behind it may be.

    Bounds are public: choose them without looking at the rows. If several classes are given, their union is used.
    """
    classes = _read_classes(stumps, intervals, conjunctions, trees, document, steps=steps, width=width)
    with asking.open() as curator:
        with show_progress("scoring"):
            given: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "beta": beta, "anyway": anyway}
            given |= {"assuming": "realizable" if realizable else None, "check": check}
            found = curator.learn(classes, target=target, **given, **asking.given)
        if asking.as_json:
            print_json(found)
            return
        behind = found.behind if found.reason is None else f"{found.behind}; {found.reason}"
        own = [("its error", f"{found.checked}")] if found.checked else []
        print_lines(target, [("learned", found.text), ("", behind), *own, *list_costs(found, curator)])


def _read_classes(
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
        found.append(Stumps(bounds={name: (low, high) for name, low, high in map(read_bounds, stumps)}, steps=steps))
    if intervals is not None:
        name, low, high = read_bounds(intervals)
        found.append(Intervals(low, high, steps=steps, column=name))
    if conjunctions:
        found.append(Conjunctions(conjunctions, width=min(width, len(conjunctions))))
    if trees:
        found.append(Trees(trees, depth=min(2, len(trees))))
    if document is not None:
        found.append(read_class(read_document(document)))
    if not found:
        raise InvalidParameter.without_value(
            "class", "given: --stumps age=0:120, --conjunctions smoker, or --class FILE.json"
        )
    return found


def read_bounds(text: str) -> tuple[str, float, float]:
    """Return a column and its public ends from COLUMN=LOW:HIGH."""
    found = _BOUNDED.fullmatch(text)
    try:
        name, low, high = found.groups() if found is not None else ("", "", "")
        return name, float(low), float(high)
    except ValueError:
        raise InvalidParameter("bounds", text, f"{_BOUNDS}, such as age=0:120") from None


def read_document(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
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

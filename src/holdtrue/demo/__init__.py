"""The demonstration: a population with known truth, the attack that a plain holdout does not survive, and here its story.

``tell_story`` asks, chooses, learns, predicts, attacks, audits and keeps a report in a terminal, each chapter with the
truth beside it. It needs nothing of the service, which serves the same rows on a page
(:mod:`holdtrue.service.http.serving`).
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from holdtrue.curator import Curator
    from holdtrue.demo.attack import Bar
    from holdtrue.demo.population import FinitePopulation
    from holdtrue.records import Answer

__all__ = ["AuditLine", "draw_scale", "run_audits", "tell_story"]

TARGET = "bmi >= 26"
_POINT = {"age": 90, "exercise": 0}
_PARTS = 1_000
_SAMPLES = 40_000
_CELLS = 25
_SHOWN = 10
_LOW, _HIGH = 0.34, 0.66
_WIDTH = 80


def tell_story(*, audit: Callable[..., Any]) -> Path:
    """Tell the whole story on standard output, and return where the report is; ``audit`` is ``audit_privacy``."""
    from rich.console import Console

    from holdtrue.ledgers import verify

    console = Console(highlight=False, width=None if Console().is_terminal else _WIDTH)
    folder = Path(tempfile.mkdtemp(prefix="holdtrue-demo-"))
    console.rule("[bold]Holdtrue[/]: ask, look, ask again: the answers hold", align="left", style="dim")
    with console.status("Drawing rows …"):
        curator, population = _open_curator(folder)
    with curator:
        _show_answers(console, curator, population)
        show_table(console, curator, population)
        show_rule(console, curator, population)
        show_model(console, curator, population)
        show_holdout(console)
        _show_attack(console)
        show_audit(console, audit)
        checked = verify(curator.ledger)
        report = folder / "report.html"
        curator.report(report)
    console.rule(style="dim")
    console.print(
        "Next: [bold]holdtrue demo[/] asks the same people on a page; [bold]holdtrue open[/] starts with your own rows."
    )
    console.print(f"The ledger was recomputed from its first entry and is whole: {checked.entries:,} entries.")
    console.print(f"The report of what was promised, asked and paid: [bold]{report}[/]", soft_wrap=True)
    return report


def _open_curator(folder: Path) -> "tuple[Curator, FinitePopulation]":
    from holdtrue.curator import Curator
    from holdtrue.demo.population import describe_dataset, survey, write_rows

    population = survey()
    path = write_rows(folder, population)
    declared = describe_dataset(population)
    terms = {name: value for name, value in declared.items() if name not in ("path", "description")}
    return Curator(path, ledger=folder / "demo.ledger", **terms), population


def _show_answers(console: "Console", curator: "Curator", population: "FinitePopulation") -> None:
    from rich.table import Table

    from holdtrue.demo.population import EXAMPLES

    plan = curator.plan
    console.print(
        f"\n{plan.rows:,} synthetic people, drawn from a population with known true values. The plan: "
        f"{plan.queries:,} questions, each within ± {plan.alpha:.3f} of the population, all at once, "
        f"{100 * (1 - plan.beta):.4g} % of the time.\n"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("question")
    table.add_column("answer", justify="right")
    table.add_column("0" + "½".center(_CELLS - 2) + "1", no_wrap=True)
    table.add_column("truth", justify="right")
    table.add_column("")
    with console.status("Asking …"):
        for question in EXAMPLES:
            answer, truth = curator.ask(question), population.truth(question)
            holds = answer.interval is not None and truth in answer.interval
            said = "[green]holds[/]" if holds else "[red]misses[/]"
            table.add_row(question, f"{answer.value:.3f}", _draw_answer(answer, truth), f"{truth:.3f}", said)
    console.print(table)
    console.print("[dim]━ the interval, where the population is, ● the answer, ┃ the truth[/]")
    budget = curator.budget
    spent = round(_CELLS * budget.spent / budget.cap) or 1
    console.print(
        f"\nBudget  [green]{'█' * spent}[/][dim]{'░' * (_CELLS - spent)}[/]  "
        f"{budget.asks:,} of {plan.queries:,} questions left\n"
        "Every answer cost one question. The same question again is free, in whatever words.\n"
    )


def _show_attack(console: "Console") -> None:
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Table

    from holdtrue.demo.attack import FEATURES, ROUNDS, ROWS, attack

    looks = FEATURES + ROUNDS
    console.rule("The attack", align="left", style="dim")
    console.print(
        f"\n{ROWS:,} rows of coin flips. The analyst asks which of {FEATURES:,} features agree with the label, lets the "
        "lucky ones vote, and asks how good the vote is. The truth is 50 %, always.\n"
    )
    steps = []
    columns = (TextColumn("{task.completed:,.0f} of {task.total:,.0f} looks"), BarColumn(bar_width=_CELLS))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("looks", total=looks)
        for step in attack():
            steps.append(step)
            progress.update(task, completed=step.looks)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("looks", justify="right")
    for side in ("a plain holdout", "Holdtrue"):
        table.add_column("", justify="right")
        table.add_column(side.center(_CELLS), no_wrap=True)
    for step in steps[:: max(1, len(steps) // _SHOWN)] + steps[-1:]:
        table.add_row(f"{step.looks:,}", *_format_side(step.naive), *_format_side(step.held))
    console.print(table)
    console.print("[dim]━ the interval that was claimed, ● the score that was reported, ┃ the truth; from 34 % to 66 %[/]")
    last = steps[-1]
    console.print(
        f"\nThe plain holdout reports {last.naive.value:.1%}, and its interval {_format_verdict(last.naive)}. "
        f"Holdtrue reports {last.held.value:.1%}, and its interval {_format_verdict(last.held)}.\n"
    )


def _format_verdict(bar: "Bar") -> str:
    return "[green]holds the truth[/]" if bar.holds else "[red]misses the truth[/]"


def _format_side(bar: "Bar") -> "tuple[str, Text]":
    from holdtrue.demo.attack import TRUTH

    colour = "green" if bar.holds else "red"
    place = _make_placer(_LOW, _HIGH)
    return f"{bar.value:.1%}", draw_scale((place(bar.low), place(bar.high)), place(bar.value), place(TRUTH), colour=colour)


def _draw_answer(answer: "Answer", truth: float) -> "Text":
    place = _make_placer(0.0, 1.0)
    ends = answer.interval or answer.sample_interval
    return draw_scale((place(ends.low), place(ends.high)), place(answer.value), place(truth))


def _make_placer(low: float, high: float) -> Callable[[float], int]:
    return lambda value: min(_CELLS - 1, max(0, round((_CELLS - 1) * (value - low) / (high - low))))


def draw_scale(ends: Sequence[int], value: int, truth: int, *, colour: str = "green", cells: int = _CELLS) -> "Text":
    """Return an interval, a value and the truth on a line of characters, by the cells they are in."""
    from rich.text import Text

    signs = ["·"] * cells
    styles = ["dim"] * cells
    for cell in range(ends[0], ends[1] + 1):
        signs[cell], styles[cell] = "━", colour
    signs[value], styles[value] = "●", f"bold {colour}"
    if truth != value:
        signs[truth], styles[truth] = "┃", "bold"
    line = Text()
    for sign, style in zip(signs, styles, strict=True):
        line.append(sign, style=style)
    return line


@dataclass(frozen=True, slots=True)
class AuditLine:
    """What an audit found of a mechanism: the epsilon that it claims, the least that was found, and what it is in truth."""

    name: str
    claimed: float
    found: float
    truth: float
    violated: bool


def _begin(console: "Console", title: str, words: str) -> None:
    console.rule(title, align="left", style="dim")
    console.print(f"\n{words}\n")


def _print_rows(console: "Console", heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, justify="left" if head == heads[0] else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()


def _judge(*, holds: bool) -> str:
    return "[green]holds[/]" if holds else "[red]misses[/]"


def show_table(console: "Console", curator: "Curator", population: "FinitePopulation") -> None:
    """Ask for a table of all regions, and choose the largest."""
    from holdtrue.demo.population import REGIONS

    _begin(console, "A table and a choice", "All regions at once, for the price of a few questions.")
    found = curator.table("region")
    truths = {name: population.truth(f"region = '{name}'") for name in REGIONS}
    rows = []
    for (label,), answer in zip(found.labels, found, strict=True):
        if label is not None and answer.interval is not None:
            ends, truth = answer.interval, truths[str(label)]
            rows.append(
                (
                    str(label),
                    f"{answer.value:.3f}",
                    f"{ends.low:.3f} to {ends.high:.3f}",
                    f"{truth:.3f}",
                    _judge(holds=truth in ends),
                )
            )
    _print_rows(console, ("region", "answer", "interval", "truth", ""), rows)
    choice = curator.select({name: f"region = '{name}'" for name in REGIONS})
    best = max(truths, key=lambda name: truths[name])
    console.print(
        f"select chose [bold]{choice.name}[/] as the largest region, at most {choice.shortfall:,.0f} rows behind the best; "
        f"in truth {best} is the largest, with {truths[best]:.3f}.\n"
    )


def show_rule(console: "Console", curator: "Curator", population: "FinitePopulation") -> None:
    """Learn a rule of one threshold, and tell how often it errs in truth."""
    from holdtrue.hypotheses import Stumps

    _begin(console, "A rule", f"learn picks one threshold on one column that predicts {TARGET}, privately.")
    bounds = {"age": (18.0, 95.0), "exercise": (0.0, 20.0)}
    rule = curator.learn(Stumps(bounds=bounds, steps=20), target=TARGET)
    labels = np.asarray(rule.predict({name: population.columns[name] for name in bounds}))
    wrong = float((labels != (population.columns["bmi"] >= 26)).mean())  # noqa: PLR2004 - the target's own number
    kinds = Stumps(bounds=bounds, steps=20)
    matrix = np.column_stack([population.columns[name] for name in bounds]).astype(np.float64)
    best = int(np.min(kinds.error_counts(matrix, population.columns["bmi"] >= 26))) / population.card.rows  # noqa: PLR2004
    certified = "" if rule.excess_error is None else f"certified: at most {rule.excess_error:.3f} more often than the best. "
    console.print(
        f"[bold]{rule.text}[/]; {certified}In truth it errs on {wrong:.3f} of the population, and the best of {rule.size} "
        f"rules on {best:.3f}: {_judge(holds=rule.excess_error is not None and wrong - best <= rule.excess_error)}.\n"
    )


def show_model(console: "Console", curator: "Curator", population: "FinitePopulation") -> None:
    """Train a model on disjoint parts of the rows, and ask it about one person."""
    from sklearn.linear_model import LogisticRegression

    point = " and ".join(f"{name} {value}" for name, value in _POINT.items())
    words = f"{_PARTS:,} models on disjoint parts of the rows vote; predict tells one label, with noise, for {point}."
    _begin(console, "A private prediction", words)
    given = {"target": TARGET, "features": list(_POINT), "parts": _PARTS, "order": "fixed"}
    curator.train("heavy", LogisticRegression(), **given)  # type: ignore[arg-type]  # by name
    said = curator.predict("heavy", _POINT)
    alike = " AND ".join(f"{name} = {value}" for name, value in _POINT.items())
    truth = population.truth(f"{alike} AND {TARGET}") / population.truth(alike)
    console.print(
        f"Is {TARGET}? [bold]{said}[/]\nIn truth, {truth:.3f} of the people with these values are; "
        f"{curator.predictions_left('heavy'):,} more predictions are left.\n"
    )


def show_holdout(console: "Console") -> None:
    """Let an agent climb a plain holdout and stand before a gate."""
    from holdtrue.demo.attack import CASES, LOOKS, climb

    words = (
        f"An agent changes its answers to {CASES} coin flips at random, {LOOKS} times, and keeps what scored better. "
        "In truth every submission is right half of the time."
    )
    _begin(console, "A holdout", words)
    *_, last = climb()
    gate = "said no every time" if not last.said else f"said yes {last.said} times"
    console.print(
        f"A plain holdout reports [red]{last.naive:.1%}[/] after {last.looks} looks; the truth is {last.truth:.0%}. "
        f"The gate [green]{gate}[/].\n"
    )


def run_audits(audit: Callable[..., Any]) -> list[AuditLine]:
    """Try to break a mechanism that keeps its promise, and one with half of the noise that it needs."""
    from holdtrue.mechanisms import Laplace

    found = []
    for name, actual in (("Laplace noise", 1), ("half of the noise", 2)):
        noise = Laplace(epsilon=actual)
        finding = audit(
            lambda data, count, noise=noise: noise.release(np.full(count, sum(data))),
            [0, 1, 1],
            [0, 1, 0],
            epsilon=1.0,
            samples=_SAMPLES,
            confidence=1 - 1e-9,
        )
        found.append(AuditLine(name, claimed=1, found=finding.lower_bound, truth=actual, violated=finding.violated))
    return found


def show_audit(console: "Console", audit: Callable[..., Any]) -> None:
    """Show what the audits of two mechanisms found, and the truth."""
    words = "An audit runs a mechanism on two neighbouring tables and looks for more privacy loss than was claimed."
    _begin(console, "An audit", words)
    rows = [
        (each.name, f"{each.claimed}", f"at least {each.found:.2f}", f"{each.truth}", _tell(violated=each.violated))
        for each in run_audits(audit)
    ]
    _print_rows(console, ("mechanism", "claimed epsilon", "found", "truth", ""), rows)


def _tell(*, violated: bool) -> str:
    return "[red]violated[/]" if violated else "[green]not violated[/]"

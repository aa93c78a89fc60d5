"""The demonstration: a population with known truth, the attack that a plain holdout does not survive, and here its story.

``tell_story`` asks, chooses, learns, predicts, attacks, audits and keeps a report in a terminal. It needs nothing of the
service, which serves the same rows on a page (:mod:`holdtrue.service.http.serving`).
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from holdtrue.curator import Curator
    from holdtrue.demo.attack import Bar
    from holdtrue.demo.population import FinitePopulation
    from holdtrue.records import Answer

__all__ = ["draw_scale", "tell_story"]

_CELLS = 25
_SHOWN = 10
_LOW, _HIGH = 0.34, 0.66
_WIDTH = 80


def tell_story(*, audit: Callable[..., Any]) -> Path:
    """Tell the whole story on standard output, and return where the report is; ``audit`` is ``audit_privacy``."""
    from rich.console import Console

    from holdtrue.demo.chapters import show_audit, show_holdout, show_model, show_rule, show_table
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

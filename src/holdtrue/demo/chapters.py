"""The chapters of the story in the terminal between the first questions and the attack: each with the truth beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console

    from holdtrue.curator import Curator
    from holdtrue.demo.population import FinitePopulation

__all__ = ["AuditLine", "run_audits", "show_audit", "show_holdout", "show_model", "show_rule", "show_table"]

TARGET = "bmi >= 26"
_POINT = {"age": 90, "exercise": 0}
_PARTS = 1_000
_SAMPLES = 40_000


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

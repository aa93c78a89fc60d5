"""How many rows a number of adaptive questions needs, by every known method."""

from pathlib import Path

import holdtrue as ht
from reproductions.writing import write

__all__ = ["run"]

_QUESTIONS = (1, 10, 100, 1_000, 10_000)


def run(data: Path | None, out: Path, *, alpha: float = 0.1, beta: float = 0.05) -> None:
    """Write planner.md."""
    del data
    found = {queries: ht.plan(queries=queries, alpha=alpha, beta=beta) for queries in _QUESTIONS}
    compared = {queries: {line.method: line for line in plan.compare()} for queries, plan in found.items()}
    methods = list(compared[_QUESTIONS[0]])
    rows = [[method, *(_rows(compared[queries].get(method)) for queries in _QUESTIONS)] for method in methods]
    rows.append(["**planned**", *(f"**{found[queries].rows:,}**" for queries in _QUESTIONS)])
    words = f"Rows for adaptive questions, all within {alpha} of the population at once with probability {1 - beta:.0%}."
    header = ["method", *(f"{queries:,} question{'s' * (queries > 1)}" for queries in _QUESTIONS)]
    write(out / "planner.md", title="Rows for adaptive questions", words=words, header=header, rows=rows)


def _rows(line: object) -> str:
    number = getattr(line, "rows", None)
    return "" if number is None else f"{number:,}"

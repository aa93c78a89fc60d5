"""Tables of results as Markdown, on the screen and in a file."""

from collections.abc import Sequence
from pathlib import Path

__all__ = ["MACHINE", "write"]

MACHINE: list[str] = []
"""What the figures were measured with, once it is known."""


def write(path: Path, *, title: str, words: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write one table under a title and a paragraph, and print where it is."""
    lines = [f"# {title}", "", words, "", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", *(f"Made with {machine}." for machine in MACHINE), ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))
    print(f"written to {path}", flush=True)

"""What an audit of a ledger found: every breach, in words; in text, HTML and JSON."""

import html
from dataclasses import asdict, dataclass
from typing import Any

from holdtrue.accounting.filters import amount

__all__ = ["Breach", "Inspection"]


@dataclass(frozen=True, slots=True, order=True)
class Breach:
    """One rule that a ledger breaks, and the entry that breaks it; 0 stands for the terms it was created with."""

    entry: int
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{f'entry {self.entry}' if self.entry else 'the terms'}: {self.words} ({self.rule})"


@dataclass(frozen=True, slots=True)
class Inspection:
    """A ledger as an auditor found it. True where no rule is broken.

    Guarantee: the checks are exact, there is no chance in them. What they cannot see is what was never written down, and
    without a receipt from outside, a history that was replaced by another one that keeps all rules. ``checked`` counts, by
    rule, how often it was looked at; ``notes`` say what could not be.
    """

    where: str
    ledger_id: str
    entries: int
    charges: int
    responses: int
    spent: int
    left: int
    currency: str
    head: str
    breaches: tuple[Breach, ...]
    checked: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.breaches

    @property
    def violated(self) -> bool:
        """Return whether any rule is broken."""
        return bool(self.breaches)

    @property
    def receipt(self) -> tuple[int, str]:
        """Return the newest receipt, to be kept outside."""
        return self.entries, self.head

    @property
    def sentence(self) -> str:
        """Return in words what was found."""
        looked = f"{self.entries:,} entries, {self.charges:,} charges and {self.responses:,} responses"
        if not self.breaches:
            return f"All rules are kept: {looked} were recomputed."
        number = len(self.breaches)
        return f"{number:,} {'rule is' if number == 1 else 'rules are'} broken: {looked} were recomputed."

    def lines(self) -> list[tuple[str, str]]:
        """Return the inspection as names and words, a line each."""
        sums = f"{amount(self.spent):.6g} spent, {amount(self.left):.6g} left of {self.currency}"
        return [
            ("verdict", "VIOLATED" if self.breaches else "whole"),
            ("ledger", self.where),
            ("budget", sums),
            ("receipt", f"entry {self.entries}, {self.head}"),
            ("checked", ", ".join(f"{rule} {times:,}" for rule, times in self.checked)),
            *(("breach", str(breach)) for breach in self.breaches),
            *(("note", note) for note in self.notes),
        ]

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"{name:>12}  {value}" for name, value in self.lines())])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:right'>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in self.lines()
        )
        return f"<p>{html.escape(self.sentence)}</p><table>{cells}</table>"

    @property
    def document(self) -> dict[str, Any]:
        """Return the inspection as plain JSON."""
        content = {name: value for name, value in asdict(self).items() if name not in ("breaches", "checked", "notes")}
        return {
            "record": "inspection",
            "violated": self.violated,
            **content,
            "breaches": [asdict(breach) for breach in self.breaches],
            "checked": dict(self.checked),
            "notes": list(self.notes),
        }

"""What an audit found: one frozen record, in text, HTML and JSON."""

import html
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from holdtrue.errors import InvalidParameter

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A lower bound on what is true, beside what was claimed.

    Guarantee: ``lower_bound`` is above the true value of ``quantity`` with probability at most 1 - ``confidence``, whatever
    was audited and however the event was searched for. ``violated`` says that the lower bound is above the claim. A
    finding without a violation says how hard somebody tried, not that the claim is right. ``samples`` counts the runs on
    each side that were asked for. ``event`` says in words what was counted; ``notes`` hold further names and values.
    """

    quantity: str
    claimed: float
    lower_bound: float
    confidence: float
    samples: int
    event: str
    sentence: str
    delta: float = 0.0
    notes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name in ("claimed", "lower_bound"):
            if math.isnan(getattr(self, name)):
                raise InvalidParameter(name, math.nan, "a number")
        if not 0 < self.confidence <= 1:
            raise InvalidParameter("confidence", self.confidence, "a number in (0, 1]")

    @property
    def violated(self) -> bool:
        """Return whether what was found contradicts the claim."""
        return self.lower_bound > self.claimed

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"{name:>12}  {value}" for name, value in self.lines())])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:right'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self.lines()
        )
        return f"<p>{html.escape(self.sentence)}</p><table>{cells}</table>"

    def lines(self) -> list[tuple[str, str]]:
        """Return the finding as names and words, a line each."""
        slack = f" at delta {self.delta:.3g}" if self.delta else ""
        return [
            ("verdict", "VIOLATED" if self.violated else "not violated"),
            ("claimed", f"{self.quantity} {self.claimed:.6g}{slack}"),
            ("lower bound", f"{self.lower_bound:.6g} ({self.confidence:.8g} confidence)"),
            ("samples", f"{self.samples:,} on each side"),
            ("event", self.event),
            *self.notes,
        ]

    @property
    def document(self) -> dict[str, Any]:
        """Return the finding as plain JSON; an infinite number is written as a string."""
        content = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"record": "finding", "violated": self.violated} | content

    @classmethod
    def read(cls, document: "Mapping[str, Any] | str") -> Self:
        """Return the finding whose :attr:`document` this is, or the text of it."""
        content = dict(json.loads(document) if isinstance(document, str) else document)
        names = [field.name for field in fields(cls)]
        if content.pop("record", None) != "finding" or set(content) != {*names, "violated"}:
            raise InvalidParameter("finding", sorted(content), f"a finding with the fields {', '.join(names)} and violated")
        violated = content.pop("violated")
        content["notes"] = tuple((str(name), str(value)) for name, value in content["notes"])
        for name in ("claimed", "lower_bound", "confidence", "delta"):
            content[name] = float(content[name])
        found = cls(**content)
        if found.violated is not violated:
            raise InvalidParameter("violated", violated, "what the lower bound and the claim say")
        return found


def _plain(value: object) -> object:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return [list(pair) for pair in value] if isinstance(value, tuple) else value

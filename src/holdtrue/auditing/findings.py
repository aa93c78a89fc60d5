"""What audits found: frozen records, in text, HTML and JSON."""

import html
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import amount
from holdtrue.records import html_table

__all__ = ["Breach", "Finding", "Inspection", "check_enough"]

_MOST_SAMPLES = 1 << 50


class _Printed:
    """How findings are printed: a sentence, then names and words."""

    __slots__ = ()
    sentence: str

    def lines(self) -> list[tuple[str, str]]:
        """Return the finding as names and words, a line each."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"{name:>12}  {value}" for name, value in self.lines())])

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.sentence)}</p>{html_table(self.lines())}"


@dataclass(frozen=True, slots=True)
class Finding(_Printed):
    """A lower bound on what is true, beside what was claimed.

    Guarantee: ``lower_bound`` is above the true value of ``quantity`` with probability at most 1 - ``confidence``, whatever
    was audited and however the event was searched for. ``violated`` says that the lower bound is above the claim. A
    finding without a violation says how hard the audit tried, not that the claim is right. ``samples`` counts the runs on
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

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - the fields of a finding except its sentence
        cls,
        quantity: str,
        claimed: float,
        bound: float,
        confidence: float,
        samples: int,
        event: str,
        *,
        delta: float = 0.0,
        notes: tuple[tuple[str, str], ...] = (),
        what: str | None = None,
    ) -> Self:
        """Return a finding with a sentence about ``what`` (the quantity, unless told) that follows from its numbers."""
        at = f" at delta {delta:.3g}" if delta else ""
        said = f"With confidence {confidence:.6g}, {what or quantity}{at} is at least {bound:.4g}"
        wrong = f": more than the {claimed:.4g} claimed. The claim is wrong."
        right = f"; {claimed:.4g} is claimed. Nothing here contradicts the claim."
        sentence = said + (wrong if bound > claimed else right)
        return cls(quantity, claimed, bound, confidence, samples, event, sentence, delta, notes)

    @property
    def violated(self) -> bool:
        """Return whether what was found contradicts the claim."""
        return self.lower_bound > self.claimed

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
        content = {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}
        return {"record": "finding", "violated": self.violated} | content

    @classmethod
    def read(cls, document: "Mapping[str, Any] | str") -> Self:
        """Return the finding whose :attr:`document` this is, or the text of it."""
        content = dict(json.loads(document) if isinstance(document, str) else document)
        names = [field.name for field in fields(cls)]
        if content.pop("record", None) != "finding" or set(content) != {*names, "violated"}:
            raise InvalidParameter("finding", sorted(content), f"a document with the fields {', '.join(names)} and violated")
        violated = content.pop("violated")
        content["notes"] = tuple((str(name), str(value)) for name, value in content["notes"])
        numbers = {name: float(content[name]) for name in ("claimed", "lower_bound", "confidence", "delta")}
        found = cls(**content | numbers)
        if found.violated is not violated:
            raise InvalidParameter("violated", violated, "what the lower bound and the claim say")
        return found


def _to_json(value: object) -> object:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return [list(pair) for pair in value] if isinstance(value, tuple) else value


def check_enough(given: int, enough: Callable[[int], bool], *, of: str, show: str, most: int = _MOST_SAMPLES) -> None:
    """Refuse a number of samples, or of anything else, that could prove nothing; say the least number that could.

    Needs: ``enough(number)``, which says whether that many outcomes, all against the claim, would prove it wrong.
    """
    if enough(given):
        return
    low, high = given, 2 * given
    while not enough(high):
        low, high = high, 2 * high
        if high > most:
            message = f"no number of {of} can show {show}"
            raise InsufficientSamples(message, required=None)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    message = f"{given:,} {of} cannot show {show}; use at least {high:,}"
    raise InsufficientSamples(message, required=high)


@dataclass(frozen=True, slots=True, order=True)
class Breach:
    """One rule that a ledger breaks, and the entry that breaks it; 0 stands for the terms it was created with."""

    entry: int
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{f'entry {self.entry}' if self.entry else 'the terms'}: {self.words} ({self.rule})"


@dataclass(frozen=True, slots=True)
class Inspection(_Printed):
    """What an audit of a ledger found. True where no rule is broken.

    Guarantee: the checks are exact, there is no chance in them. What they cannot see is what was never written down, and
    without a receipt kept outside, a history that was replaced by another one that keeps all rules. ``checked`` counts, by
    rule, how often it was checked; ``notes`` say what could not be checked. ``purse`` has what a second purse has spent and
    left, in its currency.
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
    purse: tuple[str, int, int] | None = None

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
    def sentence(self) -> str:  # type: ignore[override]  # read only, as all that was found
        """Return in words what was found."""
        looked = f"{self.entries:,} entries, {self.charges:,} charges and {self.responses:,} responses"
        if not self.breaches:
            return f"All rules are kept: {looked} were recomputed."
        number = len(self.breaches)
        return f"{number:,} {'rule is' if number == 1 else 'rules are'} broken: {looked} were recomputed."

    def lines(self) -> list[tuple[str, str]]:
        """Return the inspection as names and words, a line each."""
        sums = f"{amount(self.spent):.6g} spent, {amount(self.left):.6g} left of {self.currency}"
        if self.purse is not None:
            currency, spent, left = self.purse
            sums += f"; {amount(spent):.6g} spent, {amount(left):.6g} left of {currency} beside it"
        return [
            ("verdict", "VIOLATED" if self.breaches else "whole"),
            ("ledger", self.where),
            ("budget", sums),
            ("receipt", f"entry {self.entries}, {self.head}"),
            ("checked", ", ".join(f"{rule} {times:,}" for rule, times in self.checked)),
            *(("breach", str(breach)) for breach in self.breaches),
            *(("note", note) for note in self.notes),
        ]

    @property
    def document(self) -> dict[str, Any]:
        """Return the inspection as plain JSON."""
        return {"record": "inspection", "violated": self.violated} | asdict(self) | {"checked": dict(self.checked)}

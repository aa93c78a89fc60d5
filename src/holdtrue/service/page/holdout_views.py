"""Holdouts as the page shows them: the looks so far as a picture and as a table, and what a look said."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdtrue.curator.history import Line, Page
from holdtrue.holdouts import Score, Verdict
from holdtrue.holdouts.gating import had_yes
from holdtrue.records import Answer, Prediction

__all__ = ["HoldoutStanding", "ShownLook", "describe_told", "list_looks", "to_standing"]

_LEAST_SHOWN = 10
_GATES = ("gate", "private gate")
_LEFT, _WIDE = 3.0, 94.0  # per cent of the picture's width


@dataclass(frozen=True, slots=True)
class ShownLook:
    """One look: its place among those that are shown, who took it, and what was told."""

    place: int
    verb: str
    analyst: str
    time: datetime
    receipt: str
    said: str
    yes: bool | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def words(self) -> str:
        """Return what was told, in words."""
        if self.value is None or self.low is None or self.high is None:
            return self.said
        return f"{self.value:.3f}, {self.low:.3f} to {self.high:.3f}"


def list_looks(lines: Sequence[Line]) -> list[ShownLook]:
    """Return the looks of a ledger's lines, oldest first; taking the first incumbent is none."""
    taken = [line for line in lines if line.verb != "incumbent"]
    return [_to_look(place, line) for place, line in enumerate(taken, start=1)]


def _to_look(place: int, line: Line) -> ShownLook:
    told = line.responses[0] if line.responses else None
    shared: dict[str, Any] = {"place": place, "verb": line.verb, "analyst": line.analyst, "time": line.time}
    shared |= {"receipt": f"{line.entry}:{line.digest}"}
    if isinstance(told, Prediction):
        return ShownLook(said=str(told.label), yes=had_yes(told), **shared)
    if isinstance(told, Answer):
        ends = told.interval
        if line.request.startswith("difference"):
            within = "" if ends is None else f", {ends.low:+.3f} to {ends.high:+.3f}"
            return ShownLook(said=f"a difference of {told.value:+.3f}{within}", **shared)
        if ends is not None:
            shared |= {"low": max(0.0, ends.low), "high": min(1.0, ends.high)}
        return ShownLook(said=f"{told.value:.3f}", value=told.value, **shared)
    return ShownLook(said="not answered", **shared)


@dataclass(frozen=True, slots=True)
class HoldoutStanding:
    """What the page knows of one holdout: its card, the looks that a caller may see, and how often it may still say yes."""

    card: dict[str, Any]
    looks: tuple[ShownLook, ...]
    yes_left: int | None
    whole: bool

    @property
    def is_gate(self) -> bool:
        """Return whether it says yes or no."""
        return self.card["mode"] in _GATES

    @property
    def verb(self) -> str:
        """Return what a submission to it is called."""
        return "submit" if self.card["kind"] == "leaderboard" else "gate" if self.is_gate else "score"

    @property
    def takes_results(self) -> bool:
        """Return whether a gate takes results and no predictions."""
        return str(self.card["metric"]) != "accuracy"

    @property
    def planned(self) -> int:
        """Return how many looks were planned."""
        return int(self.card["looks"])

    @property
    def used(self) -> float:
        """Return which share of the looks is used."""
        left = self.card["looks_left"]
        return 0.0 if left is None else 1 - left / max(1, self.planned)

    def find_x(self, place: int) -> float:
        """Return where a look stands in the picture, in per cent of its width."""
        last = max(_LEAST_SHOWN, len(self.looks))
        return _LEFT + _WIDE * (place - 1) / (last - 1)

    @property
    def ticks(self) -> list[int]:
        """Return the places that the axis names."""
        last = max(_LEAST_SHOWN, len(self.looks))
        step = max(1, -(-last // 6))
        return [1, *range(step, last - step // 2, step), last] if step > 1 else [1, last // 2, last]

    @property
    def picture(self) -> str:
        """Return the picture in words, for those who cannot see it."""
        if not self.looks:
            return "No looks yet"
        if self.is_gate:
            yes = [str(look.place) for look in self.looks if look.yes]
            no = sum(look.yes is False for look in self.looks)
            at = f" (look {', '.join(yes)})" if yes else ""
            return f"{_count(len(self.looks), 'look')}: {len(yes)} yes{at}, {no} no"
        told = [look.words for look in self.looks if look.value is not None]
        return f"{len(self.looks)} looks; the newest says {told[-1]}" if told else f"{len(self.looks)} looks"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def to_standing(card: dict[str, Any], page: Page, *, analyst: str | None) -> HoldoutStanding:
    """Return a holdout as a caller may see it: an analyst's own looks, or all of them for the owner and an auditor."""
    every = list_looks(page.lines)
    whole = page.before is None
    used = sum(look.yes is True and look.verb == "gate" for look in every)
    left = None if card.get("yes") is None or not whole else max(0, int(card["yes"]) - used)
    shown = every if analyst is None else list_looks([line for line in page.lines if line.analyst == analyst])
    return HoldoutStanding(card, tuple(shown), left, whole)


def describe_told(told: Score | Verdict) -> dict[str, Any]:
    """Return what a look said, as the page shows it."""
    receipt = f"{told.certificate.entry}:{told.certificate.digest}"
    shared = {"sentence": told.sentence, "receipt": receipt, "repeated": told.repeated, "looks_left": told.looks_left}
    if isinstance(told, Verdict):
        return shared | {"yes": told.yes, "interval": told.interval, "gain": told.gain, "yes_left": told.yes_left}
    return shared | {"value": told.value, "interval": told.interval, "metric": told.metric}

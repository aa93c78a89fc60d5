"""Everything that can be audited in one go: Holdtrue's mechanisms and verbs, the planted faults, the published zoo."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdtrue.auditing.exhibits import Exhibit
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.outputs import Outputs
from holdtrue.auditing.searching import MANNERS
from holdtrue.entropy import Bits
from holdtrue.errors import UnknownName

__all__ = [
    "CONTROLS",
    "ROOMS",
    "Judged",
    "Tick",
    "confidence_of_each",
    "deviations",
    "judge",
    "rooms",
    "total_weight",
    "weight_of",
]

Tick = Callable[[float], None]

ROOMS = ("Holdtrue's mechanisms", "Holdtrue's verbs", "planted faults", "published zoo")
CONTROLS = "controls"

# How many samples take about as long as each other: of mechanisms, and of what goes through a curator or a loop.
_FAST, _SLOW = 200_000, 2_000


@dataclass(frozen=True, slots=True)
class Judged:
    """An exhibit of a room with what an audit found.

    A right claim "holds" or is "violated": the latter proves something wrong. A wrong claim is a control, and is "found" or
    "not found": the latter says that the audit had no power for it this time, and nothing about any promise. ``power`` is
    the exact probability with which counting the control's telling event finds it, None where that is not known.
    """

    room: str
    exhibit: Exhibit
    finding: Finding
    power: float | None = None

    @property
    def control(self) -> bool:
        """Return whether the claim is known to be wrong."""
        return not self.exhibit.sound

    @property
    def rightly(self) -> bool:
        """Return whether the verdict is the expected one: a violation where the claim is wrong, none where it is right."""
        return self.finding.violated is self.control

    @property
    def verdict(self) -> str:
        """Return what the audit says of the claim, or whether it found the control."""
        if self.control:
            return "found" if self.finding.violated else "not found"
        return "violated" if self.finding.violated else "holds"

    @property
    def expected(self) -> str:
        """Return the verdict of an audit that makes no mistake."""
        return "found" if self.control else "holds"

    @property
    def shown_power(self) -> str:
        """Return the power to six digits, rounded down: one that is not certain never reads as 1."""
        return "" if self.power is None else f"{min(math.floor(self.power * 10**6), 10**6 - 1) / 10**6:.6f}"

    @property
    def document(self) -> dict[str, Any]:
        """Return the finding as plain JSON, with the exhibit's name, its room and what is known of it."""
        shown = self.exhibit
        known = {"truth": shown.truth, "ceiling": shown.ceiling}
        told = {name: str(value) if value is not None and math.isinf(value) else value for name, value in known.items()}
        names = {"room": self.room, "mechanism": shown.name, "control": self.control}
        verdicts = {"verdict": self.verdict, "expected": self.expected, "as_expected": self.rightly, "power": self.power}
        return names | verdicts | {"why": shown.why} | told | {"finding": self.finding.document}


def rooms(*, only: str | None = None) -> list[tuple[str, Exhibit]]:
    """Return what is audited unless told otherwise, with its room; with ``only``, what has these words in its name or room.

    ``only="controls"`` returns the planted faults. The unsound of the published zoo are returned only where they are asked
    for: they claim epsilon 0.1 and take minutes, and the same faults are planted at epsilon 1.
    """
    from holdtrue.auditing.faults import FAULTS
    from holdtrue.auditing.house import MECHANISMS, VERBS
    from holdtrue.auditing.zoo import ZOO

    hung = zip(ROOMS, (MECHANISMS, VERBS, FAULTS, ZOO), strict=True)
    found = [(room, exhibit) for room, exhibits in hung for exhibit in exhibits]
    usual = [(room, exhibit) for room, exhibit in found if exhibit.sound or exhibit.telling is not None]
    if only is None:
        return usual
    if only.lower() == CONTROLS:
        return [(room, exhibit) for room, exhibit in usual if not exhibit.sound]
    chosen = [each for each in found if only.lower() in each[1].name.lower() or only.lower() in each[0].lower()]
    exact = [each for each in chosen if each[1].name.lower() == only.lower()]
    if not chosen:
        message = f"nothing to audit is called {only!r}; there are {', '.join(exhibit.name for _, exhibit in found)}"
        raise UnknownName(message)
    return exact or chosen


def judge(
    hung: Sequence[tuple[str, Exhibit]], *, samples: int, confidence: float, tick: Tick | None = None
) -> Iterator[Judged]:
    """Audit exhibits one after another.

    Guarantee: with probability at least ``confidence`` all lower bounds hold at once: each audit is given an equal part of
    what may fail. A control gets as many samples as its power needs, also where fewer are asked for. ``tick`` hears which
    share of the work is done.
    """
    each = confidence_of_each(len(hung), confidence=confidence)
    whole, done = total_weight(hung, samples=samples), 0.0
    for room, exhibit in hung:
        size, weight = _size(exhibit, samples), weight_of(exhibit, samples=samples)
        heard = exhibit if tick is None else replace(exhibit, law=_heard(exhibit, size, weight / whole, done / whole, tick))
        power = exhibit.power(samples=size, confidence=each)
        yield Judged(room, exhibit, heard.audit(samples=size, confidence=each), power)
        done += weight


def confidence_of_each(number: int, *, confidence: float) -> float:
    """Return the confidence of each of so many bounds that hold with this confidence all at once."""
    return 1 - (1 - confidence) / number


def deviations(number: int, *, confidence: float) -> float:
    """Return by how many standard deviations each of so many bounds lies below what was counted: the cost of confidence."""
    from scipy import special

    return float(-special.ndtri((1 - confidence_of_each(number, confidence=confidence)) / len(MANNERS)))


def weight_of(exhibit: Exhibit, *, samples: int) -> float:
    """Return about how long an exhibit takes beside others."""
    return 1 + _size(exhibit, samples) / (_FAST if exhibit.most is None else _SLOW)


def total_weight(hung: Sequence[tuple[str, Exhibit]], *, samples: int) -> float:
    """Return the weight of all."""
    return sum(weight_of(exhibit, samples=samples) for _, exhibit in hung)


def _size(exhibit: Exhibit, samples: int) -> int:
    wanted = samples if exhibit.sound else max(samples, exhibit.least)
    return wanted if exhibit.most is None else min(wanted, exhibit.most)


def _heard(exhibit: Exhibit, size: int, part: float, before: float, tick: Tick) -> Callable[[Any, int, Bits], Outputs]:
    """Return a law that tells how far its audit is, by how many outputs it was asked for."""
    drawn = 0

    def law(data: Any, count: int, bits: Bits) -> Outputs:  # noqa: ANN401 - whatever the exhibit is about
        nonlocal drawn
        found = exhibit.law(data, count, bits)
        drawn += count
        tick(min(1.0, before + part * min(1.0, drawn / (2 * size))))
        return found

    return law

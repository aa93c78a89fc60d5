"""Everything that can be audited in one go: Holdtrue's mechanisms and verbs, the planted faults, the published zoo.

The page of an audit says what was claimed, what could be proved against it, and how hard it was tried.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdtrue.auditing.catalogue.mechanism import AuditedMechanism
from holdtrue.auditing.findings import Finding
from holdtrue.auditing.search.curves import privacy_curves
from holdtrue.auditing.search.events import STRATEGIES
from holdtrue.auditing.search.outputs import Outputs
from holdtrue.entropy import Bits
from holdtrue.errors import UnknownName
from holdtrue.mechanisms import Gaussian
from holdtrue.reports import render_page

__all__ = [
    "CONTROLS",
    "AuditResult",
    "ProvedCurve",
    "Tick",
    "audit_all",
    "audit_page",
    "confidence_of_each",
    "count_deviations",
    "list_mechanisms",
    "prove_curves",
]

Tick = Callable[[float], None]

CONTROLS = "controls"

# How many samples take about as long as each other: of mechanisms, and of what goes through a curator or a loop.
_FAST, _SLOW = 200_000, 2_000
# The page: the ends of its scale of epsilon, the epsilons of its curves, the least delta shown, and whose curves they are.
_LEAST, _MOST = 0.02, 20.0
_EPSILONS = tuple(round(0.05 * step, 10) for step in range(61))
_SMALLEST = 1e-3
_CURVED = {
    "Laplace mechanism": "as claimed, and all of it",
    "Gaussian mechanism": "as claimed, and all of it",
    "half the noise": "epsilon 1 is claimed, and 2 is true",
    "votes weighted e^(epsilon count)": "epsilon 1 is claimed, and 1.43 is true of this pair",
}
_SAMPLES = 200_000

_Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """A mechanism with what an audit found.

    A right claim "holds" or is "violated": the latter proves something wrong. A wrong claim is a control, and is "found" or
    "not found": the latter says that the audit had no power for it this time, and nothing about any promise. ``power`` is
    the exact probability with which counting the control's telling event finds it, None where that is not known.
    """

    mechanism: AuditedMechanism
    finding: Finding
    power: float | None = None

    @property
    def control(self) -> bool:
        """Return whether the claim is known to be wrong."""
        return not self.mechanism.sound

    @property
    def as_expected(self) -> bool:
        """Return whether the verdict is the expected one: a violation where the claim is wrong, none where it is right."""
        return self.finding.violated is self.control

    @property
    def verdict(self) -> str:
        """Return what the audit says of the claim, or whether it found the control."""
        if self.control:
            return "found" if self.finding.violated else "not found"
        return "violated" if self.finding.violated else "holds"

    @property
    def shown_power(self) -> str:
        """Return the power to six digits, rounded down: one that is not certain never reads as 1."""
        return "" if self.power is None else f"{min(math.floor(self.power * 10**6), 10**6 - 1) / 10**6:.6f}"

    @property
    def document(self) -> dict[str, Any]:
        """Return the finding as plain JSON, with the mechanism's name, its group and what is known of it."""
        audited = self.mechanism
        known = {"truth": audited.truth, "ceiling": audited.ceiling}
        return {
            "group": audited.group,
            "mechanism": audited.name,
            "control": self.control,
            "verdict": self.verdict,
            "expected": "found" if self.control else "holds",
            "as_expected": self.as_expected,
            "power": self.power,
            "why": audited.why or "the claim is right",
            **{name: str(value) if value is not None and math.isinf(value) else value for name, value in known.items()},
            "finding": self.finding.document,
        }


def list_mechanisms(*, only: str | None = None) -> list[AuditedMechanism]:
    """Return what is audited unless told otherwise; with ``only``, what has these words in its name or its group's.

    ``only="controls"`` returns the planted faults. The unsound of the published zoo are returned only where they are asked
    for: they claim epsilon 0.1 and take minutes, and the same faults are planted at epsilon 1.
    """
    from holdtrue.auditing.catalogue.faults import FAULTS
    from holdtrue.auditing.catalogue.own_mechanisms import MECHANISMS, VERBS
    from holdtrue.auditing.catalogue.zoo import ZOO

    every = [*MECHANISMS, *VERBS, *FAULTS, *ZOO]
    usual = [each for each in every if each.sound or each.telling is not None]
    if only is None:
        return usual
    if only.lower() == CONTROLS:
        return [each for each in usual if not each.sound]
    chosen = [each for each in every if only.lower() in each.name.lower() or only.lower() in each.group.lower()]
    if not chosen:
        message = f"there is no mechanism {only!r} to audit; there are {', '.join(each.name for each in every)}"
        raise UnknownName(message)
    return [each for each in chosen if each.name.lower() == only.lower()] or chosen


def audit_all(
    mechanisms: Sequence[AuditedMechanism], *, samples: int, confidence: float, tick: Tick | None = None
) -> Iterator[AuditResult]:
    """Audit mechanisms one after another.

    Guarantee: with probability at least ``confidence`` all lower bounds hold at once: each audit is given an equal part of
    what may fail. A control gets as many samples as its power needs, also where fewer are asked for. ``tick`` is called
    with the share of the work that is done.
    """
    sure = confidence_of_each(len(mechanisms), confidence=confidence)
    sizes = [each.limit_samples(samples if each.sound else max(samples, each.least)) for each in mechanisms]
    weights = [1 + size / (_FAST if each.most is None else _SLOW) for each, size in zip(mechanisms, sizes, strict=True)]
    done = 0.0
    for mechanism, size, weight in zip(mechanisms, sizes, weights, strict=True):
        part = weight / sum(weights)
        heard = mechanism if tick is None else _tell_progress(mechanism, size, part, done, tick)
        power = mechanism.find_power(samples=size, confidence=sure)
        yield AuditResult(mechanism, heard.audit(samples=size, confidence=sure), power)
        done += part


def confidence_of_each(number: int, *, confidence: float) -> float:
    """Return the confidence that each of ``number`` bounds needs for all to hold at once with this confidence."""
    return 1 - (1 - confidence) / number


def count_deviations(number: int, *, confidence: float) -> float:
    """Return how many standard deviations each of ``number`` bounds lies below its count: the cost of confidence."""
    from scipy import special

    return float(-special.ndtri((1 - confidence_of_each(number, confidence=confidence)) / len(STRATEGIES)))


def _tell_progress(mechanism: AuditedMechanism, size: int, part: float, before: float, tick: Tick) -> AuditedMechanism:
    """Return the same mechanism, with a law that tells how far its audit is, by how many outputs it was asked for."""
    drawn = 0

    def law(data: Any, count: int, bits: Bits) -> Outputs:  # noqa: ANN401 - whatever the mechanism is about
        nonlocal drawn
        found = mechanism.law(data, count, bits)
        drawn += count
        tick(min(1.0, before + part * min(1.0, drawn / (2 * size))))
        return found

    return replace(mechanism, law=law)


@dataclass(frozen=True, slots=True)
class ProvedCurve:
    """Delta by epsilon: what is proved, confidence and all, and what the claim allows."""

    name: str
    words: str
    proved: _Points
    allowed: _Points

    @property
    def broken(self) -> bool:
        """Return whether more is proved than the claim allows."""
        return any(y > most for (_, y), (_, most) in zip(self.proved, self.allowed, strict=True))


def prove_curves(*, samples: int = _SAMPLES, tick: Tick | None = None) -> list[ProvedCurve]:
    """Prove the hockey-stick curves of a few mechanisms, two that keep their claims and two that do not."""
    found = []
    for mechanism in list_mechanisms():
        if mechanism.name not in _CURVED:
            continue
        curves = privacy_curves(mechanism.run, *mechanism.pair, samples=samples, epsilons=_EPSILONS)
        allowed = tuple((epsilon, _allowed_delta(mechanism.epsilon, mechanism.delta, epsilon)) for epsilon in _EPSILONS)
        proved = tuple(zip(curves.epsilons, curves.deltas, strict=True))
        found.append(ProvedCurve(mechanism.name, _CURVED[mechanism.name], proved, allowed))
        if tick is not None:
            tick(len(found) / len(_CURVED))
    return found


def _allowed_delta(claimed: float, slack: float, epsilon: float) -> float:
    """Return the largest delta at an epsilon that a claim leaves: of pure epsilon, or of the normal noise that it is of."""
    if slack:
        return Gaussian(mu=1.5, sensitivity=1 << 20).delta(epsilon)
    return max(0.0, (math.exp(claimed) - math.exp(epsilon)) / (1 + math.exp(claimed)))


def audit_page(results: Sequence[AuditResult], *, curves: Sequence[ProvedCurve], confidence: float, seconds: float) -> str:
    """Return findings as one HTML page. Everything in it is escaped; nothing is fetched or run."""
    claims, controls = ([each for each in results if each.control is wanted] for wanted in (False, True))
    known = [each.shown_power for each in controls if each.power is not None]
    promise = (
        f"Each mechanism was run many times on two neighbours. With confidence {confidence:.10g}, every lower bound below "
        "is at most the true epsilon, all of them at once. A bound above the claim proves the claim wrong. A bound below it "
        "says how hard it was tried, not that the claim is right. Controls are mechanisms whose claims are known to be "
        "wrong: one that is not found breaks no promise, and says that the audit had no power for it."
    )
    kinds = ((claims, "claims hold"), (controls, "controls are found"))
    tiles = [(f"{sum(each.as_expected for each in chosen)} of {len(chosen)}", words) for chosen, words in kinds if chosen]
    tiles += [(min(known), "is the least power of a control")] if known else []
    tiles.append((f"{seconds:,.0f} s", f"with up to {max(each.finding.samples for each in results):,} runs on each side"))
    groups: dict[str, list[AuditResult]] = {}
    for each in results:
        groups.setdefault(each.mechanism.group, []).append(each)
    facts = {"title": "Audit of this installation", "promise": promise, "tiles": tiles, "groups": groups, "curves": curves}
    return render_page("audit.html", **facts, place=_find_place, path=_draw_path)


def _find_place(epsilon: float) -> float:
    """Return where an epsilon lies on the logarithmic scale of the dot plot."""
    share = math.log(min(max(epsilon, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return round(352 + 548 * share, 1)


def _draw_path(points: _Points) -> str:
    """Return the points of a curve, where it is not too low to be seen."""
    scale = 190 / math.log10(_SMALLEST)
    shown = ((40 + 100 * x, 10 + scale * math.log10(y)) for x, y in points if y >= _SMALLEST)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in shown)

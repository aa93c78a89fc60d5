"""The page of an audit: what was claimed, what could be proved against it, and how hard it was tried, drawn from numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdtrue.auditing.catalogue import AuditResult, Tick, list_mechanisms
from holdtrue.auditing.search.curves import privacy_curves
from holdtrue.mechanisms import Gaussian
from holdtrue.reports import render_page

__all__ = ["ProvedCurve", "audit_page", "prove_curves"]

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

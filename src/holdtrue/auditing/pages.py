"""The page of an audit: what was claimed, what could be proved against it, and how hard it was tried, drawn from numbers.

One file without scripts and without a reference to anything outside it, in the style of a curator's report.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdtrue.auditing.curves import privacy_curves
from holdtrue.auditing.galleries import Judged, Tick, rooms
from holdtrue.mechanisms import Gaussian
from holdtrue.reports import STYLE, safe, tile

__all__ = ["Curve", "audit_page", "drawn_curves"]

_LEAST, _MOST = 0.02, 20.0
_MARKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_LEFT, _WIDE, _ROW, _RIGHT = 352, 548, 24, 90
_PLOT = (300, 190)
_EPSILONS = tuple(round(0.05 * step, 10) for step in range(61))
_SMALLEST = 1e-3
_CURVED = {
    "Laplace mechanism": "as claimed, and all of it",
    "Gaussian mechanism": "as claimed, and all of it",
    "half the noise": "epsilon 1 is claimed, and 2 is true",
    "votes weighted e^(epsilon count)": "epsilon 1 is claimed, and 1.43 is true of this pair",
}
_SAMPLES = 200_000


@dataclass(frozen=True, slots=True)
class Curve:
    """Delta by epsilon: what is proved, confidence and all, and what the claim allows."""

    name: str
    words: str
    proved: tuple[tuple[float, float], ...]
    allowed: tuple[tuple[float, float], ...]


def drawn_curves(*, samples: int = _SAMPLES, tick: Tick | None = None) -> list[Curve]:
    """Prove the hockey-stick curves of a few mechanisms, two that keep their claims and two that do not."""
    found = []
    for _, exhibit in rooms():
        if exhibit.name not in _CURVED:
            continue
        curves = privacy_curves(exhibit.run, exhibit.left, exhibit.right, samples=samples, epsilons=_EPSILONS)
        allowed = tuple((epsilon, _allowed(exhibit.epsilon, exhibit.delta, epsilon)) for epsilon in _EPSILONS)
        proved = tuple(zip(curves.epsilons, curves.deltas, strict=True))
        found.append(Curve(exhibit.name, _CURVED[exhibit.name], proved, allowed))
        if tick is not None:
            tick(len(found) / len(_CURVED))
    return found


def _allowed(claimed: float, slack: float, epsilon: float) -> float:
    """Return the largest delta at an epsilon that a claim leaves: of pure epsilon, or of the normal noise that it is of."""
    if slack:
        return Gaussian(mu=1.5, sensitivity=1 << 20).delta(epsilon)
    return max(0.0, (math.exp(claimed) - math.exp(epsilon)) / (1 + math.exp(claimed)))


def audit_page(judged: Sequence[Judged], *, curves: Sequence[Curve], confidence: float, seconds: float) -> str:
    """Return findings as one HTML page. Everything in it is escaped; nothing is fetched or run."""
    claims = [each for each in judged if not each.control]
    controls = [each for each in judged if each.control]
    known = [each.shown_power for each in controls if each.power is not None]
    title = "Audit of this installation"
    promise = (
        f"Each mechanism was run many times on two neighbours. With confidence {confidence:.10g}, every lower bound below "
        "is at most the true epsilon, all of them at once. A bound above the claim proves the claim wrong. A bound below it "
        "says how hard it was tried, not that the claim is right. Controls are mechanisms whose claims are known to be "
        "wrong: one that is not found breaks no promise, and says that the audit had no power for it."
    )
    tiles = (
        tile(f"{sum(each.rightly for each in claims)} of {len(claims)}", "claims hold") if claims else "",
        tile(f"{sum(each.rightly for each in controls)} of {len(controls)}", "controls are found") if controls else "",
        tile(min(known), "is the least power of a control") if known else "",
        tile(f"{seconds:,.0f} s", f"with up to {max(each.finding.samples for each in judged):,} runs on each side"),
    )
    sections = "".join(_room(room, judged) for room in dict.fromkeys(each.room for each in judged))
    return "".join(
        (
            "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width, initial-scale=1'>",
            f"<title>{safe(title)}</title><style>{STYLE}{_MORE}</style></head><body><main>",
            f"<header><p class='kind'>Holdtrue audit</p><h1>{safe(title)}</h1>",
            f"<p class='promise'>{safe(promise)}</p></header>",
            f"<section class='tiles'>{''.join(tiles)}</section>{_legend()}{sections}",
            _drawings(curves),
            "</main></body></html>\n",
        )
    )


def _legend() -> str:
    dot = "<svg viewBox='0 0 12 12'><circle class='{}' cx='6' cy='6' r='5'/></svg>"
    tick = "<svg viewBox='0 0 12 12'><rect class='claim' x='5' y='0' width='2.4' height='12'/></svg>"
    ring = "<svg viewBox='0 0 12 12'><circle class='ceiling' cx='6' cy='6' r='4'/></svg>"
    keys = (
        (tick, "claimed epsilon"),
        (dot.format("kept"), "lower bound, within the claim"),
        (dot.format("broken"), "lower bound above the claim: a promise broken, or a control found"),
        (ring, "the most that a million runs could prove, where known"),
    )
    return f"<p class='keys'>{''.join(f'<span>{drawing} {words}</span>' for drawing, words in keys)}</p>"


def _room(room: str, judged: Sequence[Judged]) -> str:
    chosen = [each for each in judged if each.room == room]
    return f"<h2>{safe(room[0].upper() + room[1:])}</h2>{_dots(chosen)}{_table(chosen)}"


def _place(epsilon: float) -> float:
    """Return where an epsilon lies on the logarithmic scale of the dot plot."""
    share = math.log(min(max(epsilon, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + _WIDE * share


def _dots(chosen: Sequence[Judged]) -> str:
    height = _ROW * len(chosen) + 30
    grid = "".join(
        f"<line class='grid' x1='{_place(mark):.1f}' x2='{_place(mark):.1f}' y1='0' y2='{height - 24}'/>"
        f"<text class='mark' x='{_place(mark):.1f}' y='{height - 8}' text-anchor='middle'>{mark:g}</text>"
        for mark in _MARKS
    )
    rows = "".join(_dot(each, number) for number, each in enumerate(chosen))
    grid += f"<text class='mark' x='{_LEFT + _WIDE + 34}' y='{height - 8}' text-anchor='middle'>epsilon</text>"
    return (
        f"<svg class='dots' viewBox='0 0 {_LEFT + _WIDE + _RIGHT} {height}' role='img' "
        f"aria-label='lower bounds against claims'>{grid}{rows}</svg>"
    )


def _dot(judged: Judged, number: int) -> str:
    found, middle = judged.finding, _ROW * number + _ROW / 2
    claim, bound = _place(found.claimed), _place(found.lower_bound)
    kind = "broken" if found.violated else "kept"
    ceiling = judged.exhibit.ceiling
    ring = "" if ceiling is None else f"<circle class='ceiling' cx='{_place(ceiling):.1f}' cy='{middle}' r='4.5'/>"
    return (
        f"<g><title>{safe(found.sentence)}</title>"
        f"<text class='name' x='{_LEFT - 14}' y='{middle + 4.5}' text-anchor='end'>{safe(judged.exhibit.name)}</text>"
        f"<line class='{kind}' x1='{claim:.1f}' x2='{bound:.1f}' y1='{middle}' y2='{middle}'/>{ring}"
        f"<rect class='claim' x='{claim - 1.2:.1f}' y='{middle - 8}' width='2.4' height='16'/>"
        f"<circle class='{kind}' cx='{bound:.1f}' cy='{middle}' r='5'/>"
        f"<text class='verdict {'' if judged.rightly else 'broken'}' x='{_LEFT + _WIDE + _RIGHT - 4}' y='{middle + 4.5}' "
        f"text-anchor='end'>{safe(judged.verdict if judged.rightly else judged.verdict + ' (!)')}</text></g>"
    )


def _table(chosen: Sequence[Judged]) -> str:
    heads = ("mechanism", "claimed ε", "at least", "runs a side", "power", "verdict", "event that was counted")
    body = "".join(
        f"<tr><td><b>{safe(each.exhibit.name)}</b><br><small>{safe(each.exhibit.why)}</small></td>"
        f"<td class='number'>{each.finding.claimed:.4g}{_slack(each.finding.delta)}</td>"
        f"<td class='number'><b>{each.finding.lower_bound:.4f}</b></td><td class='number'>{each.finding.samples:,}</td>"
        f"<td class='number'>{each.shown_power}</td><td>{safe(each.verdict)}</td>"
        f"<td><small>{safe(each.finding.event)}</small></td></tr>"
        for each in chosen
    )
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f"<details><summary>Numbers and events</summary><table class='history'><tr>{head}</tr>{body}</table></details>"


def _slack(delta: float) -> str:
    return f"<br>δ {delta:.3g}" if delta else ""


def _drawings(curves: Sequence[Curve]) -> str:
    if not curves:
        return ""
    words = (
        "δ by ε: the line is proved with confidence 0.95 at every ε at once, the dashed line is the most that the claim "
        "allows. A line above the dashed one breaks the claim."
    )
    return f"<h2>Hockey-stick curves</h2><p>{safe(words)}</p><div class='curves'>{''.join(map(_drawing, curves))}</div>"


def _drawing(curve: Curve) -> str:
    wide, high = _PLOT
    ends = _EPSILONS[-1], math.log10(_SMALLEST)

    def path(points: Sequence[tuple[float, float]]) -> str:
        shown = [(x, y) for x, y in points if y >= _SMALLEST]
        spots = (f"{40 + wide * x / ends[0]:.1f},{10 + high * math.log10(y) / ends[1]:.1f}" for x, y in shown)
        return " ".join(spots)

    broken = any(y > most for (_, y), (_, most) in zip(curve.proved, curve.allowed, strict=True))
    rows = "".join(
        f"<line class='grid' x1='40' x2='{40 + wide}' y1='{10 + high * power / 3:.1f}' y2='{10 + high * power / 3:.1f}'/>"
        f"<text class='mark' x='34' y='{14 + high * power / 3:.1f}' text-anchor='end'>{10.0**-power:g}</text>"
        for power in range(4)
    )
    columns = "".join(
        f"<text class='mark' x='{40 + wide * mark / ends[0]:.1f}' y='{high + 28}' text-anchor='middle'>{mark}</text>"
        for mark in range(4)
    )
    columns += (
        f"<text class='mark' x='{40 + wide / 2}' y='{high + 28}' text-anchor='middle'>epsilon</text>"
        f"<text class='mark' x='46' y='{high + 4}'>delta</text>"
    )
    return (
        f"<figure><figcaption><b>{safe(curve.name)}</b><br><small>{safe(curve.words)}</small></figcaption>"
        f"<svg viewBox='0 0 {wide + 52} {high + 36}' role='img' aria-label='{safe(curve.name)}'>{rows}{columns}"
        f"<polyline class='allowed' points='{path(curve.allowed)}'/>"
        f"<polyline class='proved {'broken' if broken else 'kept'}' points='{path(curve.proved)}'/></svg></figure>"
    )


_MORE = """
:root{--alarm:#b4432b}@media (prefers-color-scheme:dark){:root{--alarm:#f29b83}}
.dots{display:block;width:100%;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px}
.dots .name,.dots .verdict{font-size:13px;fill:var(--ink)}.dots .verdict{fill:var(--soft);font-size:12px}
.mark{font-size:11px;fill:var(--soft)}.grid{stroke:var(--line);stroke-width:1}
circle.kept{fill:var(--deep)}circle.broken{fill:var(--alarm)}line.kept{stroke:var(--mid);stroke-width:2}
line.broken{stroke:var(--alarm);stroke-width:2}.claim{fill:var(--ink)}.dots text.broken{fill:var(--alarm);font-weight:700}
.ceiling{fill:none;stroke:var(--soft);stroke-width:1.4}
.keys{color:var(--soft);font-size:13px;display:flex;flex-wrap:wrap;gap:4px 22px}.keys span{white-space:nowrap}
.keys svg{width:12px;height:12px;vertical-align:-1px;margin-right:3px}details{margin:8px 0 0}
summary{color:var(--soft);font-size:13px;cursor:pointer}
details .history{margin-top:8px}.history td.number{text-align:right}
.curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:16px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
figure svg{display:block;width:100%;margin-top:8px}polyline{fill:none;stroke-width:2.4}
polyline.kept{stroke:var(--deep)}polyline.broken{stroke:var(--alarm)}
polyline.allowed{stroke:var(--soft);stroke-width:1.6;stroke-dasharray:5 4}
@media (max-width:720px){.dots{min-width:720px}}
"""

"""The audit zoo: lower bounds of the whole auditor beside what was published, over seeded runs, and our planted faults.

Fifty runs a mechanism at 10^6 samples a side take an hour or more; ``run(data, out, runs=2)`` is a taste of it.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdtrue.auditing.exhibits import Exhibit
from holdtrue.auditing.faults import FAULTS
from holdtrue.auditing.limits import lower_limit
from holdtrue.auditing.zoo import ZOO
from holdtrue.testing import SeededBits
from reproductions.tables import write

__all__ = ["run"]

SAMPLES = 10**6
CONFIDENCE = 0.95
# With 10^6 samples a side these are out of reach of any event; the last two pass the published bounds only with more.
LARGER = {"SVT34Parallel": 10**7, "SVT6": 10**7, "RNM3": 10**8}
HEADER = [
    "mechanism",
    "claimed",
    "sound",
    "truth",
    "published",
    "ceiling",
    "mean",
    "sd",
    "share of ceiling",
    "flagged",
    "seconds",
]


@dataclass(frozen=True)
class _Measured:
    bounds: tuple[float, ...]
    seconds: float


def run(data: Path | None, out: Path, *, runs: int = 50, samples: int = SAMPLES) -> None:
    """Write zoo.md, faults.md and zoo_larger.md."""
    del data
    zoo = [(exhibit, _measured(exhibit, runs, samples)) for exhibit in ZOO]
    _table(out / "zoo.md", "The audit zoo", zoo, runs, samples)
    faults = [(fault, _measured(fault, runs, samples)) for fault in FAULTS]
    _table(out / "faults.md", "Planted faults", faults, runs, samples)
    larger = [
        (exhibit, _measured(exhibit, 1, LARGER[exhibit.name] * samples // SAMPLES))
        for exhibit in ZOO
        if exhibit.name in LARGER
    ]
    words = ", ".join(f"{name} {size * samples // SAMPLES:,}" for name, size in LARGER.items())
    rows = [_row(exhibit, measured) for exhibit, measured in larger]
    title = "The audit zoo, larger samples"
    write(out / "zoo_larger.md", title=title, words=f"One run each; samples a side: {words}.", header=HEADER, rows=rows)


def _measured(exhibit: Exhibit, runs: int, samples: int) -> _Measured:
    start = time.perf_counter()
    bounds = []
    for number in range(runs):
        seeded = exhibit.drawing_from(SeededBits(f"{exhibit.name} {number} {samples}"))
        bounds.append(seeded.audit(samples=samples, confidence=CONFIDENCE).lower_bound)
    measured = _Measured(tuple(bounds), (time.perf_counter() - start) / runs)
    print(" ".join(_row(exhibit, measured)), flush=True)
    return measured


def _table(path: Path, title: str, lines: Sequence[tuple[Exhibit, _Measured]], runs: int, samples: int) -> None:
    right = sum(_judged(exhibit, measured) for exhibit, measured in lines)
    words = (
        f"{runs} seeded runs each, {samples:,} samples a side, half of them spent on finding the event; confidence "
        f"{CONFIDENCE}. Ceiling: two Clopper-Pearson limits at the best event known in hindsight, all 10^6 samples. "
        f"Rightly judged (unsound: flagged in every run; sound: not significantly more often than {1 - CONFIDENCE:.2g}): "
        f"{right} of {len(lines)}."
    )
    write(path, title=title, words=words, header=HEADER, rows=[_row(exhibit, measured) for exhibit, measured in lines])


def _judged(exhibit: Exhibit, measured: _Measured) -> bool:
    flagged = sum(bound > exhibit.epsilon for bound in measured.bounds)
    if not exhibit.sound:
        return flagged == len(measured.bounds)
    return float(lower_limit(flagged, len(measured.bounds), alpha=1e-6)) <= 1 - CONFIDENCE


def _row(exhibit: Exhibit, measured: _Measured) -> list[str]:
    bounds = np.array(measured.bounds)
    flagged = int((bounds > exhibit.epsilon).sum())
    return [
        exhibit.name,
        f"{exhibit.epsilon:.4g}",
        "yes" if exhibit.sound else "no",
        _number(exhibit.truth),
        _number(exhibit.reference),
        _number(exhibit.ceiling),
        f"{bounds.mean():.4f}",
        f"{bounds.std():.4f}",
        "" if exhibit.ceiling is None else f"{bounds.mean() / exhibit.ceiling:.0%}",
        f"{flagged} of {bounds.size}",
        f"{measured.seconds:.1f}",
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "∞" if math.isinf(value) else f"{value:.4g}"

"""The audit zoo: lower bounds of the whole auditor beside what was published, over seeded runs, and our planted faults.

Fifty runs a mechanism at 10^6 samples a side take an hour or more; ``run(data, out, runs=2)`` is a taste of it. Every run is
written to zoo_runs.jsonl as it ends, and a rerun goes on where the last one stopped: remove that file to start over.
"""

import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import holdtrue
from holdtrue.auditing.catalogue.faults import FAULTS
from holdtrue.auditing.catalogue.mechanism import AuditedMechanism
from holdtrue.auditing.catalogue.zoo import ZOO
from holdtrue.auditing.search.confidence_bounds import lower_limit
from holdtrue.testing import SeededBits
from reproductions.writing import write

__all__ = ["run"]

SAMPLES = 10**6
CONFIDENCE = 0.95
# The first cannot be told with 10^6 samples a side, and is run with more only; the others pass the published bounds so.
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
    "CPU seconds",
]


@dataclass(frozen=True)
class _Task:
    """One audit: which mechanism, which of its runs, how many samples, and by which auditor."""

    name: str
    number: int
    samples: int
    version: str = holdtrue.__version__


@dataclass(frozen=True)
class _Measured:
    bounds: tuple[float, ...]
    seconds: float


def run(data: Path | None, out: Path, *, runs: int = 50, samples: int = SAMPLES, jobs: int | None = None) -> None:
    """Write zoo.md, faults.md and zoo_larger.md."""
    del data
    once = [_Task(name, 0, size * samples // SAMPLES) for name, size in LARGER.items()]
    shown = [mechanism for mechanism in ZOO if mechanism.least <= SAMPLES or mechanism.ceiling is not None]
    many = [_Task(mechanism.name, number, samples) for number in range(runs) for mechanism in (*shown, *FAULTS)]
    found = _done([*many, *once], out / "zoo_runs.jsonl", jobs=jobs or os.cpu_count() or 1)

    def measured(mechanism: AuditedMechanism, tasks: Sequence[_Task]) -> tuple[AuditedMechanism, _Measured]:
        bounds, seconds = zip(*(found[task] for task in tasks if task.name == mechanism.name), strict=True)
        return mechanism, _Measured(bounds, sum(seconds) / len(seconds))

    _table(out / "zoo.md", "The audit zoo", [measured(mechanism, many) for mechanism in shown], runs, samples)
    _table(out / "faults.md", "Planted faults", [measured(fault, many) for fault in FAULTS], runs, samples)
    words = ", ".join(f"{name} {size * samples // SAMPLES:,}" for name, size in LARGER.items())
    rows = [_row(*measured(mechanism, once)) for mechanism in ZOO if mechanism.name in LARGER]
    title = "The audit zoo, larger samples"
    write(out / "zoo_larger.md", title=title, words=f"One run each; samples a side: {words}.", header=HEADER, rows=rows)


def _done(tasks: Sequence[_Task], path: Path, *, jobs: int) -> dict[_Task, tuple[float, float]]:
    """Return bound and seconds of every task: read where it is written down, run and written down where it is not."""
    found = dict(_read(path))
    left = [task for task in tasks if task not in found]
    print(f"{len(tasks) - len(left)} of {len(tasks)} audits are written in {path}", flush=True)
    with path.open("a", encoding="utf-8") as lines, ProcessPoolExecutor(jobs) as pool:
        for future in as_completed(pool.submit(_audited, task) for task in left):
            task, bound, seconds = future.result()
            found[task] = bound, seconds
            lines.write(json.dumps(asdict(task) | {"bound": bound, "seconds": round(seconds, 3)}) + "\n")
            lines.flush()
            print(f"{task.name} {task.number}: {bound:.4f} in {seconds:.1f} s", flush=True)
    return found


def _read(path: Path) -> Iterator[tuple[_Task, tuple[float, float]]]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            known = json.loads(line)
            figures = float(known.pop("bound")), float(known.pop("seconds"))
            yield _Task(**known), figures
        except (ValueError, KeyError, TypeError):
            continue  # a line that was cut off when a run was stopped: it is run again


def _audited(task: _Task) -> tuple[_Task, float, float]:
    start = time.process_time()
    (mechanism,) = (each for each in (*ZOO, *FAULTS) if each.name == task.name)
    seeded = mechanism.drawing_from(SeededBits(f"{task.name} {task.number} {task.samples}"))
    bound = seeded.audit(samples=task.samples, confidence=CONFIDENCE).lower_bound
    return task, bound, time.process_time() - start


def _table(path: Path, title: str, lines: Sequence[tuple[AuditedMechanism, _Measured]], runs: int, samples: int) -> None:
    right = sum(_judged(mechanism, measured) for mechanism, measured in lines)
    words = (
        f"{runs} seeded runs each, {samples:,} samples a side, four tenths of them to find the event; confidence "
        f"{CONFIDENCE}. Ceiling: two Clopper-Pearson limits at the best event known in hindsight, all 10^6 samples. "
        f"Rightly judged (unsound: flagged in every run; sound: not significantly more often than {1 - CONFIDENCE:.2g}): "
        f"{right} of {len(lines)}."
    )
    write(path, title=title, words=words, header=HEADER, rows=[_row(mechanism, measured) for mechanism, measured in lines])


def _judged(mechanism: AuditedMechanism, measured: _Measured) -> bool:
    flagged = sum(bound > mechanism.epsilon for bound in measured.bounds)
    if not mechanism.sound:
        return flagged == len(measured.bounds)
    return float(lower_limit(flagged, len(measured.bounds), alpha=1e-6)) <= 1 - CONFIDENCE


def _row(mechanism: AuditedMechanism, measured: _Measured) -> list[str]:
    bounds = np.array(measured.bounds)
    flagged = int((bounds > mechanism.epsilon).sum())
    return [
        mechanism.name,
        f"{mechanism.epsilon:.4g}",
        "yes" if mechanism.sound else "no",
        _number(mechanism.truth),
        _number(mechanism.reference),
        _number(mechanism.ceiling),
        f"{bounds.mean():.4f}",
        f"{bounds.std():.4f}",
        "" if mechanism.ceiling is None else f"{bounds.mean() / mechanism.ceiling:.0%}",
        f"{flagged} of {bounds.size}",
        f"{measured.seconds:.1f}",
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "∞" if math.isinf(value) else f"{value:.4g}"

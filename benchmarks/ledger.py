"""Durable charges a second: one at a time and sixteen in one commit; and at the end of a long ledger."""

import hashlib
import tempfile
import time
from pathlib import Path

from benchmarks.peers import show
from holdtrue.events import GaussianNoise
from holdtrue.ledgers import Charge, Ledger, open_ledger

__all__ = ["run"]

_EVENT = GaussianNoise(1e-4)
_CAP = 10**16
_TOGETHER = 16
_FILLED = 500
_LONG = 100_000


def run() -> None:
    """Print both tables; the ledger is a SQLite file in the folder for temporary files, on a disk or not."""
    with tempfile.TemporaryDirectory() as folder:
        _throughput(Path(folder))
        _length(Path(folder))


def _ledger(path: Path) -> Ledger:
    return open_ledger(path, kind="gdp", cap=_CAP, fingerprint=lambda key: key.hex())


def _request(name: str) -> Charge:
    return Charge(name, hashlib.sha256(name.encode()).hexdigest(), "analyst", "ask", _EVENT)


def _charge(ledger: Ledger, name: str) -> None:
    ledger.settle((), [_request(name)])


def _rate(path: Path, *, together: int, commits: int) -> float:
    """Return charges a second, so many of them in each commit."""
    with _ledger(path) as ledger:
        _charge(ledger, "warm")
        start = time.perf_counter()
        for step in range(commits):
            ledger.settle((), [_request(f"{step} {place}") for place in range(together)])
        return together * commits / (time.perf_counter() - start)


def _throughput(folder: Path) -> None:
    rates: dict[str, list[float]] = {"one a commit": [], "16 a commit": []}
    for turn in range(3):
        rates["one a commit"].append(_rate(folder / f"one {turn}", together=1, commits=200))
        rates["16 a commit"].append(_rate(folder / f"several {turn}", together=_TOGETHER, commits=120))
    best = {name: max(found) for name, found in rates.items()}
    base = best["one a commit"]
    rows = [[name, f"{rate:,.0f}", f"{rate / base:.1f}"] for name, rate in best.items()]
    show("durable charges a second (16 a commit: >= 5 times one)", ["SQLite", "charges / s", "ratio"], rows)


def _length(folder: Path) -> None:
    """Compare a charge near the start with one far on, in turns, so that a busy disk troubles both alike."""
    with _ledger(folder / "short") as short, _ledger(folder / "long") as long:
        for step in range(10):
            _charge(short, f"short {step}")
        for first in range(0, _LONG, _FILLED):
            long.settle((), [_request(f"fill {first + place}") for place in range(_FILLED)])
        times: dict[str, list[float]] = {"entry 10": [], f"entry {_LONG:,}": []}
        for step in range(400):
            for name, ledger in zip(times, (short, long), strict=True):
                start = time.perf_counter()
                _charge(ledger, f"{name} {step}")
                times[name].append(time.perf_counter() - start)
    medians = {name: sorted(found)[len(found) // 2] for name, found in times.items()}
    base = medians["entry 10"]
    rows = [[name, f"{seconds * 1e3:.2f}", f"{seconds / base:.2f}"] for name, seconds in medians.items()]
    show("one durable charge (within 20 %)", ["from", "ms (median)", "ratio"], rows)

"""Durable charges a second: one writer and sixteen, one commit each and in groups; and at the end of a long ledger."""

import hashlib
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.peers import show
from holdtrue.events import Gaussian
from holdtrue.ledgers import Account, open_ledger

__all__ = ["run"]

_EVENT = Gaussian(1e-4)
_CAP = 10**16
_WRITERS = 16
_LONG = 100_000


def run() -> None:
    """Print both tables; the ledger is a SQLite file in the folder for temporary files, on a disk or not."""
    with tempfile.TemporaryDirectory() as folder:
        _throughput(Path(folder))
        _length(Path(folder))


def _ledger(path: Path, *, group: int = 256) -> Account:
    return open_ledger(path, kind="gdp", cap=_CAP, fingerprint=lambda key: key.hex(), group=group)


def _charge(ledger: Account, name: str) -> None:
    digest = hashlib.sha256(name.encode()).hexdigest()
    ledger.charge(request_id=name, request_digest=digest, analyst="analyst", verb="ask", event=_EVENT)


def _rate(path: Path, *, writers: int, group: int, each: int) -> float:
    """Return charges a second, all writers together."""

    def work(writer: int) -> None:
        for step in range(each):
            _charge(ledger, f"{writer} {step}")

    with _ledger(path, group=group) as ledger:
        _charge(ledger, "warm")
        threads = [threading.Thread(target=work, args=(writer,)) for writer in range(writers)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return writers * each / (time.perf_counter() - start)


def _throughput(folder: Path) -> None:
    rates: dict[str, list[float]] = {"one writer": [], "16 writers, one by one": [], "16 writers, in groups": []}
    for turn in range(3):
        rates["one writer"].append(_rate(folder / f"one {turn}", writers=1, group=256, each=200))
        rates["16 writers, one by one"].append(_rate(folder / f"single {turn}", writers=_WRITERS, group=1, each=15))
        rates["16 writers, in groups"].append(_rate(folder / f"grouped {turn}", writers=_WRITERS, group=256, each=120))
    best = {name: max(found) for name, found in rates.items()}
    base = best["16 writers, one by one"]
    rows = [[name, f"{rate:,.0f}", f"{rate / base:.1f}"] for name, rate in best.items()]
    show("durable charges a second (groups: >= 5 times one by one)", ["SQLite", "charges / s", "ratio"], rows)


def _length(folder: Path) -> None:
    """Compare a charge near the start with one far on, in turns, so that a busy disk troubles both alike."""
    with _ledger(folder / "short") as short, _ledger(folder / "long") as long:
        for step in range(10):
            _charge(short, f"short {step}")
        threads = [threading.Thread(target=_fill, args=(long, part)) for part in range(_WRITERS * 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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


def _fill(ledger: Account, part: int) -> None:
    for step in range(_LONG // (_WRITERS * 4)):
        _charge(ledger, f"fill {part} {step}")
